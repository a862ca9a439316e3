//! What is known of the conversations of each agent, so that a request costs what is new in it.
//!
//! Laws:
//!
//! - *Never across*: each agent has [bodies](KnownBodies) of its own; requests that name no agent share theirs.
//! - *Bounded in bytes*: [`MOST_BYTES`] in all, [`SHARE`] of one agent; whoever has most forgets first. An agent that can't be told from
//!   an invented one takes the place of the one that was silent longest.
//! - *What is erased is forgotten*: once a session or a transcript is deleted from the store, by whichever process, all of it is, within
//!   [`LOOK`] and the time that the store takes. So it is when the store can't say. What was silent for [`SILENCE`] is forgotten, too.
//! - *One policy*: a changed configuration has hooks of its own, which begin with nothing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use backstop_hooks::AgentId;
use backstop_llm::live::KnownBodies;
use backstop_store::{AuditFilter, SESSION_DELETED, Store, StoreError, TRANSCRIPT_DELETED};
use tokio::time::sleep;

use super::Shared;

/// The most bytes of memory that all of it needs, about.
const MOST_BYTES: usize = 64 * 1_024 * 1_024;
/// The most of one agent.
const SHARE: usize = MOST_BYTES / 4;
/// The most agents.
const MOST_AGENTS: usize = 64;
/// After how much silence a conversation is forgotten. An agent at work asks again within seconds; who waited for a person waits a few
/// milliseconds more.
const SILENCE: Duration = Duration::from_secs(45);
/// How often it is looked for what was erased, while anything is known.
const LOOK: Duration = Duration::from_secs(1);

/// The latest bodies of all agents.
#[derive(Debug, Default)]
pub(super) struct KnownConversations {
    agents: Mutex<HashMap<Option<AgentId>, Agent>>,
    /// Somebody looks for what is to be forgotten.
    is_watched: AtomicBool,
}

#[derive(Debug)]
struct Agent {
    bodies: Arc<KnownBodies>,
    heard: Instant,
}

impl KnownConversations {
    fn agents(&self) -> MutexGuard<'_, HashMap<Option<AgentId>, Agent>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the bodies of an agent.
    fn of(&self, agent: Option<&AgentId>) -> Arc<KnownBodies> {
        let (mut agents, now) = (self.agents(), Instant::now());
        let agent = agent.cloned();
        if !agents.contains_key(&agent) && agents.len() >= MOST_AGENTS {
            let silent = agents.iter().min_by_key(|(_, known)| known.heard).map(|(name, _)| name.clone());
            silent.and_then(|name| agents.remove(&name));
        }
        let new = || Agent { bodies: Arc::new(KnownBodies::new(SHARE)), heard: now };
        let known = agents.entry(agent).or_insert_with(new);
        known.heard = now;
        Arc::clone(&known.bodies)
    }

    /// Forgets as much as is needed to have no more than [`MOST_BYTES`].
    fn bound(&self) {
        let agents = self.agents();
        loop {
            let bytes = agents.values().map(|known| (known.bodies.bytes(), &known.bodies));
            let (sum, largest) = bytes.fold((0, None), |(sum, largest), one: (usize, _)| {
                (sum + one.0, largest.filter(|most: &(usize, _)| most.0 >= one.0).or(Some(one)))
            });
            match largest {
                Some((_, bodies)) if sum > MOST_BYTES => bodies.forget_oldest(),
                _ => return,
            }
        }
    }

    /// Forgets what was silent for so long; returns whether anything is left.
    fn forget_silent(&self, silence: Duration) -> bool {
        let mut agents = self.agents();
        agents.retain(|_, known| known.bodies.forget_older(silence));
        !agents.is_empty()
    }
}

/// Returns the bodies of an agent's conversations, for one request.
pub(super) fn of(shared: &Arc<Shared>, agent: Option<&AgentId>) -> Arc<KnownBodies> {
    let known = &shared.known;
    known.bound();
    let bodies = known.of(agent);
    if !known.is_watched.swap(true, Ordering::SeqCst) {
        tokio::spawn(watch(Arc::downgrade(shared)));
    }
    bodies
}

/// Forgets what was erased, and what nobody has gone on with, as long as anything is known.
async fn watch(shared: Weak<Shared>) {
    let mut seen = None;
    loop {
        let Some(now) = shared.upgrade() else { return };
        let before = seen;
        let erased = match erased_since(now.engine.store().as_ref(), seen).await {
            Ok((erased, head)) => {
                seen = Some(head);
                erased
            }
            // What may have been erased meanwhile is not known.
            Err(_) => {
                seen = None;
                true
            }
        };
        let silence = if erased { Duration::ZERO } else { SILENCE };
        let is_any_left = now.known.forget_silent(silence);
        if !is_any_left && before.is_some() {
            now.known.is_watched.store(false, Ordering::SeqCst);
            // A request that came meanwhile took this for watching on.
            if now.known.agents().is_empty() || now.known.is_watched.swap(true, Ordering::SeqCst) {
                return;
            }
        }
        drop(now);
        sleep(LOOK).await;
    }
}

/// Returns whether a conversation was erased after the entry `seen` of the trail, and the last entry. Without `seen` nobody knows what
/// was erased since something became known.
async fn erased_since(store: &dyn Store, seen: Option<u64>) -> Result<(bool, u64), StoreError> {
    let head = store.audit_head().await?.seq;
    let Some(seen) = seen else { return Ok((true, head)) };
    for kind in [SESSION_DELETED, TRANSCRIPT_DELETED] {
        let filter = AuditFilter { kind: Some(kind.to_owned()), ..AuditFilter::default() };
        if !store.audit(&filter, seen, 1).await?.is_empty() {
            return Ok((true, head));
        }
    }
    Ok((false, head))
}

#[cfg(test)]
mod tests {
    use backstop_hooks::SessionId;
    use backstop_llm::Api;
    use backstop_llm::live::LiveRequest;
    use backstop_llm::wire::RequestTarget;
    use backstop_store::{NewAuditEntry, SqliteStore, Timestamp};
    use serde_json::json;

    use super::*;

    fn read(bodies: &KnownBodies, text: &str) {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": text}]}).to_string();
        let (api, target) = (Api::OpenAiChat, RequestTarget::default());
        LiveRequest::read_known(api, &target, body.into(), bodies, &|_, _| {}).unwrap();
    }

    fn entry(kind: &str) -> NewAuditEntry {
        NewAuditEntry {
            at: Timestamp::now(),
            kind: kind.to_owned(),
            session: Some(SessionId::new("s")),
            run: None,
            body: json!({}).into(),
        }
    }

    #[test]
    fn agents_are_apart_and_bounded_together() {
        let known = KnownConversations::default();
        let text = "x".repeat(4_000_000);
        for agent in 0..10 {
            let agent = AgentId::new(agent.to_string());
            for turn in 0..4 {
                known.bound();
                read(&known.of(Some(&agent)), &format!("{turn} {text}"));
            }
            assert!(known.of(Some(&agent)).bytes() <= SHARE);
        }
        known.bound();
        let bytes = |agent: &str| known.of(Some(&AgentId::new(agent))).bytes();
        let sum: usize = (0..10).map(|agent| bytes(&agent.to_string())).sum();
        assert!(sum <= MOST_BYTES && sum > MOST_BYTES / 2, "{sum}");
        assert_eq!((bytes("another"), known.of(None).bytes()), (0, 0), "an agent begins with nothing");
        for agent in 0..200 {
            known.of(Some(&AgentId::new(format!("invented-{agent}"))));
        }
        assert_eq!(known.agents().len(), MOST_AGENTS);
        assert!(!known.forget_silent(Duration::ZERO));
    }

    #[tokio::test]
    async fn what_was_erased_is_noticed_once() {
        let store = SqliteStore::in_memory();
        assert!(erased_since(&store, None).await.unwrap().0, "nobody knows what was erased before");
        for (kind, erased) in
            [("x", false), (SESSION_DELETED, true), ("y", false), (TRANSCRIPT_DELETED, true)]
        {
            let (_, seen) = erased_since(&store, None).await.unwrap();
            backstop_store::AuditStore::append_audit(&store, entry(kind)).await.unwrap();
            let (found, head) = erased_since(&store, Some(seen)).await.unwrap();
            assert_eq!((found, head), (erased, seen + 1), "{kind}");
            assert!(!erased_since(&store, Some(head)).await.unwrap().0);
        }
    }
}
