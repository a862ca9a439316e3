//! The life of the server and of the conversations that pass it, told to hooks that only watch.
//!
//! A proxy sees no session begin or end, only requests of a conversation ([`identity`](super::identity)). One begins
//! with the first request of it that this process sees, and ends after [`SILENCE`], noticed within [`LOOK`], as `idle`, or
//! with the server as `shutdown`. While no hook stands at these points, nothing is remembered. Conversations outlive the hooks
//! that heard them begin: after a reload, those in force hear of the end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use backstop_engine::Engine;
use backstop_hooks::points::{
    GatewayStart, GatewayStartEvent, GatewayStop, GatewayStopEvent, SessionEnd, SessionEndEvent,
    SessionEndReason, SessionStart, SessionStartEvent,
};
use backstop_hooks::{AgentId, CallContext, SessionId};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::{Hooks, Shared};

/// After how much silence a conversation is over.
const SILENCE: Duration = Duration::from_mins(30);
/// How often it is looked for conversations that are over.
const LOOK: Duration = Duration::from_mins(1);
/// The most conversations that are remembered; beyond it, the one that was silent longest is over.
const MOST: usize = 4_096;
/// How long the end of the server waits for hooks that watch sessions, for all of them together.
const DRAIN: Duration = Duration::from_secs(2);

/// The conversations that are going on. An agent's conversation is another than one of the same name of another agent.
#[derive(Debug, Default)]
pub(super) struct Conversations(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    going_on: HashMap<(Option<AgentId>, SessionId), Conversation>,
    /// The hooks that share these, the newest last.
    hooks: Vec<Weak<Shared>>,
    /// Somebody looks for conversations that are over.
    is_watched: bool,
}

#[derive(Debug)]
struct Conversation {
    call: Arc<CallContext>,
    began: Instant,
    heard: Instant,
    messages: usize,
}

impl Conversations {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a request of a conversation with so many messages. Returns whether the conversation is new, and what had to
    /// make room for it.
    fn heard(&self, call: &Arc<CallContext>, messages: usize) -> (bool, Option<Conversation>) {
        let Some(session) = call.session_id.clone() else { return (false, None) };
        let (now, mut state) = (Instant::now(), self.state());
        let key = (call.agent_id.clone(), session);
        if let Some(known) = state.going_on.get_mut(&key) {
            known.heard = now;
            known.messages = messages;
            return (false, None);
        }
        let full = state.going_on.len() >= MOST;
        let silent = state.going_on.iter().min_by_key(|(_, known)| known.heard).filter(|_| full);
        let silent = silent.map(|(key, _)| key.clone());
        let gone = silent.and_then(|key| state.going_on.remove(&key));
        let call = Arc::clone(call);
        state.going_on.insert(key, Conversation { call, began: now, heard: now, messages });
        (true, gone)
    }

    /// From now on it is these hooks that hear of what is over, as long as they exist.
    pub(super) fn told_to(&self, hooks: &Arc<Shared>) {
        let mut state = self.state();
        state.hooks.retain(|known| known.strong_count() > 0);
        state.hooks.push(Arc::downgrade(hooks));
    }

    /// Returns the newest hooks.
    fn hooks(&self) -> Option<Arc<Shared>> {
        self.state().hooks.iter().rev().find_map(Weak::upgrade)
    }

    /// Returns whether nobody has looked for what is over, and notes that somebody does from now on.
    fn is_first_look(&self) -> bool {
        !std::mem::replace(&mut self.state().is_watched, true)
    }

    /// Takes out the conversations that are over by now.
    fn over(&self, now: Instant) -> Vec<Conversation> {
        let is_over = |_: &_, known: &mut Conversation| now.duration_since(known.heard) >= SILENCE;
        self.state().going_on.extract_if(is_over).map(|(_, known)| known).collect()
    }

    fn take_all(&self) -> Vec<Conversation> {
        std::mem::take(&mut self.state().going_on).into_values().collect()
    }
}

impl Shared {
    fn watches_sessions(&self) -> bool {
        self.engine.has_hooks::<SessionStart>() || self.engine.has_hooks::<SessionEnd>()
    }
}

/// Notes a request of a conversation, and tells if it is the first.
pub(super) fn heard(shared: &Arc<Shared>, call: &Arc<CallContext>, messages: usize) {
    if !shared.watches_sessions() {
        return;
    }
    let (is_new, gone) = shared.conversations.heard(call, messages);
    if is_new && let Some(session_id) = call.session_id.clone() {
        let event =
            SessionStartEvent { session_id, session_key: call.session_key.clone(), resumed_from: None };
        // Whoever holds the hooks keeps them from being taken down.
        let (shared, call) = (Arc::clone(shared), Arc::clone(call));
        tokio::spawn(async move { shared.engine.observe::<SessionStart>(&event, &call).await });
    }
    if let Some(gone) = gone {
        let shared = Arc::clone(shared);
        tokio::spawn(async move { end(&shared.engine, gone, SessionEndReason::Idle).await });
    }
    if is_new && shared.conversations.is_first_look() {
        tokio::spawn(look(Arc::downgrade(&shared.conversations)));
    }
}

/// Ends conversations after their silence, as long as any hooks exist.
async fn look(conversations: Weak<Conversations>) {
    loop {
        sleep(LOOK).await;
        let Some(conversations) = conversations.upgrade() else { return };
        let Some(shared) = conversations.hooks() else { return };
        for over in conversations.over(Instant::now()) {
            end(&shared.engine, over, SessionEndReason::Idle).await;
        }
    }
}

async fn end(engine: &Engine, over: Conversation, reason: SessionEndReason) {
    let Some(session_id) = over.call.session_id.clone() else { return };
    let lasted = over.heard.duration_since(over.began).as_millis();
    let event = SessionEndEvent {
        session_id,
        session_key: over.call.session_key.clone(),
        message_count: u32::try_from(over.messages).unwrap_or(u32::MAX),
        duration_ms: Some(u64::try_from(lasted).unwrap_or(u64::MAX)),
        reason,
        next_session_id: None,
    };
    engine.observe::<SessionEnd>(&event, &over.call).await;
}

impl Hooks {
    /// Tells that the server listens on `port`. Nobody waits for the hooks.
    pub fn started(&self, port: u16) {
        let engine = self.0.engine.clone();
        if engine.has_hooks::<GatewayStart>() {
            tokio::spawn(async move {
                engine.observe::<GatewayStart>(&GatewayStartEvent { port }, &CallContext::default()).await
            });
        }
    }

    /// Tells that the server stops, once no request is under way: first that each conversation is over, for which
    /// there are 2 s in all, then that the server is, within the budgets of the hooks.
    pub async fn stopped(&self, reason: &str) {
        let engine = &self.0.engine;
        let mut ends = JoinSet::new();
        for over in self.0.conversations.take_all() {
            let engine = engine.clone();
            ends.spawn(async move { end(&engine, over, SessionEndReason::Shutdown).await });
        }
        if timeout(DRAIN, async { while ends.join_next().await.is_some() {} }).await.is_err() {
            tracing::warn!("hooks that watch sessions did not end in time");
        }
        if engine.has_hooks::<GatewayStop>() {
            let event = GatewayStopEvent { reason: Some(reason.to_owned()) };
            engine.observe::<GatewayStop>(&event, &CallContext::default()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use backstop_engine::HookOptions;
    use backstop_hooks::{OwnerId, hook_fn};

    use super::*;
    use crate::inspect::HookSettings;
    use crate::inspect::tests::hanging_at;

    fn call(agent: &str, session: &str) -> Arc<CallContext> {
        Arc::new(CallContext {
            agent_id: Some(agent.into()),
            session_id: Some(session.into()),
            ..CallContext::default()
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_conversation_is_over_after_its_silence_and_begins_again() {
        let all = Conversations::default();
        assert!(all.heard(&call("a", "s"), 1).0);
        assert!(!all.heard(&call("a", "s"), 3).0);
        assert!(all.heard(&call("b", "s"), 1).0, "another agent's conversation of that name is another");
        tokio::time::advance(SILENCE / 2).await;
        assert!(!all.heard(&call("b", "s"), 5).0);
        tokio::time::advance(SILENCE / 2).await;
        let over = all.over(Instant::now());
        assert_eq!(over.iter().map(|over| over.messages).collect::<Vec<_>>(), [3]);
        assert!(all.heard(&call("a", "s"), 1).0);
        assert_eq!(all.take_all().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn the_one_that_was_silent_longest_makes_room() {
        let all = Conversations::default();
        for number in 0..MOST {
            assert!(all.heard(&call("a", &number.to_string()), 1).1.is_none());
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        all.heard(&call("a", "0"), 2);
        let (is_new, gone) = all.heard(&call("a", "one more"), 1);
        assert!(is_new);
        assert_eq!(gone.and_then(|gone| gone.call.session_id.clone()), Some("1".into()));
    }

    /// Hooks that tell by `name` which of them heard that a conversation is over.
    fn told(name: &'static str, to: &Arc<Mutex<Vec<&'static str>>>) -> Engine {
        let (engine, to) = (Engine::builder().build(), Arc::clone(to));
        let hook = hook_fn::<SessionEnd, _>(move |_, _| {
            to.lock().unwrap().push(name);
            Ok(None)
        });
        engine.registry().on(hook, HookOptions::new(OwnerId::operator())).unwrap();
        engine
    }

    #[tokio::test(start_paused = true)]
    async fn the_hooks_in_force_hear_that_a_conversation_is_over() {
        let heard_by = Arc::default();
        let old = Hooks::new(told("old", &heard_by), HookSettings::default()).unwrap();
        heard(&old.0, &call("a", "s"), 1);
        let new = old.renewed(told("new", &heard_by), HookSettings::default()).unwrap();
        // What is refused leaves those before in force.
        drop(new.renewed(told("refused", &heard_by), HookSettings::default()).unwrap());
        sleep(SILENCE + LOOK * 2).await;
        assert_eq!(*heard_by.lock().unwrap(), ["new"]);
        assert!(old.are_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn hooks_that_still_watch_are_not_idle() {
        let hooks = hanging_at::<SessionStart>();
        heard(&hooks.0, &call("a", "s"), 1);
        assert!(!hooks.are_idle());
        // The budget of the hook ends it.
        sleep(SILENCE / 2).await;
        assert!(hooks.are_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_the_server_waits_two_seconds_for_all_conversations_together() {
        let hooks = hanging_at::<SessionEnd>();
        for session in ["1", "2", "3", "4", "5"] {
            heard(&hooks.0, &call("a", session), 1);
        }
        let began = Instant::now();
        hooks.stopped("shutdown").await;
        assert_eq!(began.elapsed().as_secs(), 2, "of a paused clock");
    }
}
