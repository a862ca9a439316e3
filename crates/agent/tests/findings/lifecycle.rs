//! Sessions begin and end with their reasons, compaction tells before and after, and what the agent declares to
//! fire is what it fires.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_agent::{
    AgentError, Compaction, Fresh, Leaving, SessionChoice, SessionExpiry, TurnInput, TurnTrigger,
    host_profile,
};
use backstop_engine::{Engine, HookOptions};
use backstop_hooks::points::*;
use backstop_hooks::{Honour, OwnerId, Point, PointId, async_hook_fn, for_each_point, hook_fn};
use backstop_store::{SqliteStore, Store, Timestamp};
use serde_json::{Value, json};

use crate::support::Bench;

type Fired = Arc<Mutex<BTreeSet<PointId>>>;

fn watch<P: Point>(engine: &Engine, fired: &Fired) {
    let fired = Arc::clone(fired);
    let hook = hook_fn::<P, _>(move |_, _| {
        fired.lock().unwrap().insert(P::INFO.id);
        Ok(None)
    });
    engine.registry().on::<P>(hook, HookOptions::new(OwnerId::operator())).unwrap();
}

macro_rules! watch_all {
    ($($point:ident, $name:literal, $mode:ident, $family:ident, $failure:ident, $budget:literal, $access:literal, $injection:literal,
       $event:ident, $outcome:ident, $summary:literal;)*) => {
        fn watch_all(engine: &Engine, fired: &Fired) {
            $(watch::<$point>(engine, fired);)*
        }
    };
}
for_each_point!(watch_all);

/// A script needs a turn, also where no model is asked.
fn unused() -> Value {
    json!({ "text": "unused" })
}

fn long(turns: usize) -> impl Iterator<Item = Value> {
    (0..turns).map(|_| json!({ "text": "word ".repeat(400) }))
}

#[tokio::test]
async fn law_07_every_point_that_the_agent_declares_is_fired_and_no_other() {
    let call = json!({ "tool_calls": [{ "id": "c-1", "name": "exec", "arguments": { "command": "true" } }] });
    let turns = [call, json!({ "text": "done" })].into_iter().chain(long(8));
    let bench = Bench::with(turns, |setup| {
        setup.settings.compaction = Some(Compaction { trigger_tokens: 600, keep_turns: 1 });
    });
    let fired = Fired::default();
    watch_all(&bench.engine, &fired);
    let session = bench.session().await;
    bench.say(&session, "run it").await;
    let heartbeat = TurnTrigger::Heartbeat { name: Some("watch".to_owned()) };
    bench.turn(&session, TurnInput { trigger: heartbeat, ..TurnInput::user("anything new?") }).await;
    for _ in 0..3 {
        bench.say(&session, "go on").await;
    }
    bench.agent.reset_session(&session, Fresh::Reset).await.unwrap();
    bench.agent.shut_down(Leaving::Shutdown).await;
    let declared: BTreeSet<PointId> = host_profile().points().collect();
    assert_eq!(*fired.lock().unwrap(), declared);
}

#[test]
fn the_agent_obeys_every_field_of_what_it_fires() {
    let host = host_profile();
    for point in host.points() {
        for field in point.info().fields {
            assert_eq!(host.honour(point, field.name), Some(Honour::Obeyed), "{point}");
        }
    }
}

/// What was told of sessions, in words.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn of(engine: &Engine) -> Self {
        let told = Self::default();
        let options = || HookOptions::new(OwnerId::operator());
        let said = told.clone();
        let start = hook_fn::<SessionStart, _>(move |event, cx| {
            assert_eq!(cx.call.session_id.as_ref(), Some(&event.session_id));
            let from = event.resumed_from.as_ref().map_or("nothing", |from| from.as_str());
            said.say(format!("{} begins from {from}", event.session_id));
            Ok(None)
        });
        engine.registry().on(start, options()).unwrap();
        let said = told.clone();
        let end = hook_fn::<SessionEnd, _>(move |event, _| {
            let next = event.next_session_id.as_ref().map_or("nothing", |next| next.as_str());
            let reason = json!(event.reason);
            let reason = reason.as_str().unwrap().to_owned();
            said.say(format!("{} ends: {reason}, {}, then {next}", event.session_id, event.message_count));
            assert!(event.duration_ms.is_some());
            Ok(None)
        });
        engine.registry().on(end, options()).unwrap();
        told
    }

    fn say(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn a_session_begins_and_ends_with_the_process_and_can_be_gone_on_with() {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory());
    let shared = Arc::clone(&store);
    let first = Bench::with([json!({ "text": "hello" })], |setup| setup.store = Some(shared));
    let told = Told::of(&first.engine);
    let session = first.session().await;
    let id = session.id().clone();
    first.say(&session, "hi").await;
    first.agent.open_session(SessionChoice::Resume(id.clone())).await.unwrap();
    first.agent.shut_down(Leaving::Restart).await;
    assert_eq!(
        told.lines(),
        [format!("{id} begins from nothing"), format!("{id} ends: restart, 2, then nothing")]
    );
    let second = Bench::with([unused()], |setup| setup.store = Some(store));
    let told = Told::of(&second.engine);
    second.agent.open_session(SessionChoice::Resume(id.clone())).await.unwrap();
    second.agent.shut_down(Leaving::Shutdown).await;
    assert_eq!(
        told.lines(),
        [format!("{id} begins from {id}"), format!("{id} ends: shutdown, 2, then nothing")]
    );
}

#[tokio::test]
async fn new_and_reset_end_a_session_for_good_and_begin_the_next() {
    for (fresh, word) in [(Fresh::New, "new"), (Fresh::Reset, "reset")] {
        let bench = Bench::new([json!({ "text": "hello" })]);
        let forgotten: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&forgotten);
        bench.on(hook_fn::<BeforeReset, _>(move |event, _| {
            let count = event.messages.as_ref().unwrap().len();
            seen.lock().unwrap().push(format!("{} {count}", event.reason.as_ref().unwrap()));
            Ok(None)
        }));
        let told = Told::of(&bench.engine);
        let old = bench.session().await;
        bench.say(&old, "hi").await;
        let new = bench.agent.reset_session(&old, fresh).await.unwrap();
        assert_eq!(new.key(), old.key());
        bench.agent.shut_down(Leaving::Shutdown).await;
        let (from, to) = (old.id(), new.id());
        assert_eq!(
            told.lines(),
            [
                format!("{from} begins from nothing"),
                format!("{from} ends: {word}, 2, then {to}"),
                format!("{to} begins from {from}"),
                format!("{to} ends: shutdown, 0, then nothing"),
            ]
        );
        assert_eq!(*forgotten.lock().unwrap(), [format!("{word} 2")]);
        let again = bench.agent.turn(&old, TurnInput::user("hi"), &Default::default()).await;
        assert!(matches!(again, Err(AgentError::Ended { .. })), "{again:?}");
        let twice = bench.agent.reset_session(&old, fresh).await;
        assert!(matches!(twice, Err(AgentError::Ended { .. })), "{twice:?}");
    }
}

#[tokio::test]
async fn a_conversation_that_grew_old_begins_anew() {
    for (expiry, word) in [
        (SessionExpiry { idle: Some(Duration::ZERO), daily_at: None }, "idle"),
        (SessionExpiry { idle: None, daily_at: Some(0) }, "daily"),
    ] {
        let bench = Bench::with([unused()], |setup| setup.settings.expiry = expiry);
        let told = Told::of(&bench.engine);
        let old = bench.session().await;
        if word == "daily" {
            // The day has not changed since.
            assert!(bench.agent.renew_session(&old).await.unwrap().is_none());
            continue;
        }
        let new = bench.agent.open_session(SessionChoice::LatestOf("main".into())).await.unwrap();
        assert_ne!(new.id(), old.id());
        assert_eq!(
            bench.store.session(new.id()).await.unwrap().unwrap().resumed_from.as_ref(),
            Some(old.id())
        );
        assert_eq!(
            bench.store.session(old.id()).await.unwrap().unwrap().ended.unwrap().reason,
            SessionEndReason::Idle
        );
        bench.agent.shut_down(Leaving::Shutdown).await;
        assert_eq!(told.lines()[1], format!("{} ends: idle, 0, then {}", old.id(), new.id()));
    }
}

#[tokio::test]
async fn a_session_whose_process_was_killed_has_ended_for_an_unknown_reason() {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory());
    let shared = Arc::clone(&store);
    let killed = Bench::with([unused()], |setup| setup.store = Some(shared));
    let id = killed.session().await.id().clone();
    store.start_run(&id, &"r-1".into(), Timestamp::now()).await.unwrap();
    let bench = Bench::with([unused()], |setup| setup.store = Some(store));
    let told = Told::of(&bench.engine);
    bench.agent.open_session(SessionChoice::Resume(id.clone())).await.unwrap();
    bench.agent.shut_down(Leaving::Shutdown).await;
    assert_eq!(
        told.lines()[..2],
        [format!("{id} ends: unknown, 0, then nothing"), format!("{id} begins from {id}")]
    );
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_process_waits_two_seconds_for_all_sessions_together() {
    let bench = Bench::new([unused()]);
    bench.on(async_hook_fn::<SessionEnd, _, _>(|_, _| std::future::pending()));
    for _ in 0..5 {
        bench.session().await;
    }
    let began = tokio::time::Instant::now();
    bench.agent.shut_down(Leaving::Shutdown).await;
    assert_eq!(began.elapsed().as_secs(), 2, "of a paused clock");
}

#[tokio::test]
async fn compaction_tells_before_and_after_with_counts() {
    let bench = Bench::with(long(8), |setup| {
        setup.settings.compaction = Some(Compaction { trigger_tokens: 600, keep_turns: 1 });
    });
    let told: Arc<Mutex<Vec<(bool, u32, u32)>>> = Arc::default();
    let seen = Arc::clone(&told);
    bench.on(hook_fn::<BeforeCompaction, _>(move |event, _| {
        assert!(event.token_count.unwrap() > 600);
        seen.lock().unwrap().push((false, event.message_count, 0));
        Ok(None)
    }));
    let seen = Arc::clone(&told);
    bench.on(hook_fn::<AfterCompaction, _>(move |event, _| {
        seen.lock().unwrap().push((true, event.message_count, event.compacted_count));
        Ok(None)
    }));
    let session = bench.session().await;
    for _ in 0..3 {
        bench.say(&session, "go on").await;
    }
    let told = told.lock().unwrap().clone();
    let [(false, before, _), (true, after, compacted), ..] = told.as_slice() else { panic!("{told:?}") };
    assert!(*compacted >= 2, "{told:?}");
    assert_eq!(*after, before - compacted + 1, "one summary stands for them");
}

#[tokio::test]
async fn a_message_is_received_before_it_is_judged_and_a_heartbeat_is_no_message() {
    let bench = Bench::new([unused()]);
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&heard);
    bench.on(hook_fn::<MessageReceived, _>(move |event, cx| {
        assert_eq!(event.run_id, cx.call.run_id);
        seen.lock().unwrap().push(format!("{}: {}", event.from, event.content));
        Ok(None)
    }));
    bench.on(hook_fn::<MessageBefore, _>(|_, _| Err(backstop_hooks::HookError::failed("stopped"))));
    let session = bench.session().await;
    bench.say(&session, "hi").await;
    let heartbeat = TurnTrigger::Heartbeat { name: None };
    bench.turn(&session, TurnInput { trigger: heartbeat, ..TurnInput::user("tick") }).await;
    assert_eq!(*heard.lock().unwrap(), ["user: hi"]);
}
