//! Turns that are ended, turns side by side, and what stands between them.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use backstop_agent::tools::{CancelToken, Tool, ToolContext, ToolOutput, ToolSpec};
use backstop_agent::{AgentError, Compaction, SessionChoice, TurnInput, TurnOutcome, Verbosity};
use backstop_engine::{AskFuture, Asker, Attendance};
use backstop_hooks::conversation::{Message, Role};
use backstop_hooks::points::{
    AfterLlmCall, AfterLlmCallEvent, AfterLlmCallOutcome, AgentEnd, AgentEndEvent, BeforeLlmCall,
    BeforeLlmCallEvent, BeforeLlmCallOutcome, BeforeToolCall, LlmOutput, LlmOutputEvent, ToolCallEvent,
    ToolCallIds, ToolCallOutcome,
};
use backstop_hooks::{ApprovalRequest, Decision, Resolution, async_hook_fn, hook_fn};
use backstop_store::{ApprovalFilter, ApprovalRecord, LeaseError, LeaseHolder, Timestamp};
use serde_json::{Map, Value, json};

use crate::support::{Bench, answered, assert_whole, calls, roles, says};

fn watch_end(bench: &Bench) -> Arc<Mutex<Vec<AgentEndEvent>>> {
    let ends = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&ends);
    bench.on::<AgentEnd>(hook_fn(move |event: &AgentEndEvent, _| {
        log.lock().unwrap().push(event.clone());
        Ok(None)
    }));
    ends
}

fn write_with_id(id: &str, path: &str) -> Value {
    json!({ "tool_calls": [{ "id": id, "name": "write", "arguments": { "path": path, "content": "" } }] })
}

#[tokio::test]
async fn decision_of_one_run_never_reaches_another() {
    let bench = Bench::new([
        write_with_id("c1", "first.txt"),
        says("denied"),
        write_with_id("c1", "second.txt"),
        says("done"),
    ]);
    let deny = bench.on::<AfterLlmCall>(hook_fn(|_: &AfterLlmCallEvent, _| {
        let none = ToolCallIds(Vec::new());
        Ok(Some(AfterLlmCallOutcome { tool_calls: Some(none), ..Default::default() }))
    }));
    let session = bench.session().await;
    bench.say(&session, "one").await;
    bench.engine.registry().remove(&deny);
    bench.say(&session, "two").await;
    assert!(!bench.folder.path().join("first.txt").exists());
    assert!(bench.folder.path().join("second.txt").exists());
    let messages = bench.transcript(&session).await;
    assert_whole(&messages);
    let ids: Vec<_> = messages.iter().flat_map(Message::tool_calls).map(|call| call.id.clone()).collect();
    assert_ne!(ids[0], ids[1], "a transcript never has an id twice");
}

#[tokio::test]
async fn calls_that_each_answer_names_alike_have_one_id_of_their_own_everywhere() {
    let bench = Bench::new([
        write_with_id("call_0", "first.txt"),
        write_with_id("call_0", "second.txt"),
        says("done"),
    ]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (judged, run) = (Arc::clone(&seen), Arc::clone(&seen));
    bench.on::<AfterLlmCall>(hook_fn(move |event: &AfterLlmCallEvent, _| {
        judged.lock().unwrap().extend(event.tool_calls.iter().map(|call| call.id.clone()));
        Ok(None)
    }));
    bench.on::<BeforeToolCall>(hook_fn(move |event: &ToolCallEvent, _| {
        run.lock().unwrap().extend(event.tool_call_id.clone());
        Ok(None)
    }));
    let session = bench.session().await;
    assert_eq!(bench.say(&session, "go").await.outcome, answered("done"));
    let messages = bench.transcript(&session).await;
    let stored: Vec<_> = messages.iter().flat_map(Message::tool_calls).map(|call| call.id.clone()).collect();
    let [first, second] = stored.as_slice() else { panic!("{stored:?}") };
    assert!(first.as_str() == "call_0" && first != second);
    assert_eq!(*seen.lock().unwrap(), [first, first, second, second].map(Clone::clone));
    assert!(bench.folder.path().join("second.txt").exists());
}

#[tokio::test]
async fn sub_calls_do_not_clear_the_gate() {
    let long = "many words ".repeat(400);
    let bench = Bench::with(
        [says(&long), says(&long), says("the summary"), write_with_id("c1", "a.txt"), says("done")],
        |setup| setup.settings.compaction = Some(Compaction { trigger_tokens: 1_000, keep_turns: 1 }),
    );
    let session = bench.session().await;
    bench.say(&session, "one").await;
    bench.say(&session, "two").await;
    let judged = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&judged);
    bench.on::<AfterLlmCall>(hook_fn(move |event: &AfterLlmCallEvent, _| {
        log.lock().unwrap().push(event.response.visible_text());
        let none = ToolCallIds(Vec::new());
        Ok(Some(AfterLlmCallOutcome { tool_calls: Some(none), ..Default::default() }))
    }));
    assert_eq!(bench.say(&session, "three").await.outcome, answered("done"));
    assert_eq!(*judged.lock().unwrap(), ["the summary", "", "done"], "the summary is judged like any answer");
    assert!(!bench.folder.path().join("a.txt").exists());
    assert!(bench.transcript(&session).await[0].visible_text().contains("the summary"));
}

#[tokio::test]
async fn a_summary_that_is_blocked_leaves_the_conversation_as_it_is() {
    let long = "many words ".repeat(400);
    let bench = Bench::with([says(&long), says(&long), says("done")], |setup| {
        setup.settings.compaction = Some(Compaction { trigger_tokens: 1_000, keep_turns: 1 });
    });
    bench.on::<BeforeLlmCall>(hook_fn(|event: &BeforeLlmCallEvent, _| {
        let summary = event.tools.is_empty();
        Ok(summary.then(|| BeforeLlmCallOutcome { block: Some(true), ..Default::default() }))
    }));
    let session = bench.session().await;
    bench.say(&session, "one").await;
    bench.say(&session, "two").await;
    assert_eq!(bench.say(&session, "three").await.outcome, answered("done"));
    assert_eq!(roles(&bench.transcript(&session).await), "uauaua");
}

#[tokio::test]
async fn aborted_run_releases_its_approvals() {
    let bench = Bench::with([calls("write", json!({ "path": "a.txt", "content": "" }))], |setup| {
        setup.attendance = Attendance::Queue;
    });
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    bench.on::<BeforeToolCall>(hook_fn(move |_: &ToolCallEvent, _| {
        let log = Arc::clone(&log);
        let request = ApprovalRequest::new("Write?", "A file is written.").unwrap();
        Ok(Some(ToolCallOutcome::ask(request.on_resolution(move |resolution| {
            log.lock().unwrap().push(resolution);
            async { None }
        }))))
    }));
    let ends = watch_end(&bench);
    let session = bench.session().await;
    let cancel = CancelToken::new();
    let turn = bench.agent.turn(&session, TurnInput::user("go"), &cancel);
    let abort = async {
        while bench.store.approvals(ApprovalFilter::Pending, 9).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancel.cancel();
        Instant::now()
    };
    let (report, cancelled) = tokio::join!(turn, abort);
    assert!(cancelled.elapsed() < Duration::from_secs(5), "the question is withdrawn, not waited for");
    assert_eq!(report.unwrap().outcome, TurnOutcome::Cancelled);
    assert!(bench.store.approvals(ApprovalFilter::Pending, 9).await.unwrap().is_empty());
    assert_eq!(*told.lock().unwrap(), [Resolution::Cancelled]);
    let messages = bench.transcript(&session).await;
    assert_eq!(roles(&messages), "uat");
    assert!(messages[2].tool_results().next().unwrap().visible_text().contains("the user ended the turn"));
    assert_whole(&messages);
    assert!(!bench.folder.path().join("a.txt").exists());
    let ends = ends.lock().unwrap();
    assert_eq!((ends.len(), ends[0].success, ends[0].error.as_deref()), (1, false, Some("cancelled")));
}

/// A human who answers at once, always the same.
struct Human(Decision);

impl Asker for Human {
    fn ask<'a>(&'a self, record: &'a ApprovalRecord) -> AskFuture<'a> {
        assert_eq!(&*record.request.title, "Write?");
        Box::pin(async { Some(self.0) })
    }

    fn name(&self) -> &str {
        "a human"
    }
}

#[tokio::test]
async fn a_human_decides_about_a_call() {
    for (decision, runs, note) in [
        (Decision::AllowOnce, true, "note: 🙋 write · asked — allowed once"),
        (Decision::Deny, false, "note: 🙋 write · asked — denied"),
    ] {
        let turns = [calls("write", json!({ "path": "a.txt", "content": "hunter2" })), says("done")];
        let bench = Bench::with(turns, |setup| {
            setup.attendance = Attendance::Present(Arc::new(Human(decision)));
            setup.settings.verbosity = Verbosity::On;
        });
        bench.on::<BeforeToolCall>(hook_fn(|_: &ToolCallEvent, _| {
            let request = ApprovalRequest::new("Write?", "A file is written.").unwrap();
            Ok(Some(ToolCallOutcome::ask(request)))
        }));
        let session = bench.session().await;
        assert_eq!(bench.say(&session, "go").await.outcome, answered("done"));
        assert_eq!(bench.folder.path().join("a.txt").exists(), runs);
        assert!(bench.screen.lines().iter().any(|line| line == note), "{:?}", bench.screen.lines());
        let messages = bench.transcript(&session).await;
        assert_whole(&messages);
        let result = messages[2].tool_results().next().unwrap();
        assert_eq!(result.is_error, !runs);
        assert_eq!(
            bench.stored(&session).await.contains("hunter2"),
            runs,
            "a denied call leaves no arguments"
        );
        assert!(runs || result.visible_text().contains("denied by a human"), "{}", result.visible_text());
    }
}

#[tokio::test]
async fn a_call_that_nobody_could_be_asked_about_can_be_repeated_once_allowed() {
    let write = || calls("write", json!({ "path": "a.txt", "content": "x" }));
    let bench = Bench::new([write(), says("please allow it"), write(), says("done")]);
    bench.on::<BeforeToolCall>(hook_fn(|_: &ToolCallEvent, _| {
        Ok(Some(ToolCallOutcome::ask(ApprovalRequest::new("Write?", "A file is written.").unwrap())))
    }));
    let session = bench.session().await;
    bench.say(&session, "go").await;
    assert!(!bench.folder.path().join("a.txt").exists());
    let messages = bench.transcript(&session).await;
    let call = messages[1].tool_calls().next().unwrap();
    assert_eq!(call.arguments["path"], json!("a.txt"), "the model can read what it asked for");
    let asked = bench.store.approvals(ApprovalFilter::All, 9).await.unwrap().pop().unwrap();
    let told = messages[2].tool_results().next().unwrap().visible_text();
    assert!(told.contains("a person can allow") && !told.contains(&asked.code), "{told}");
    let ttl = Duration::from_secs(60);
    bench.store.allow_later(&asked.id, &"a human".into(), ttl, Timestamp::now()).await.unwrap();
    assert_eq!(bench.say(&session, "I allowed it").await.outcome, answered("done"));
    assert!(bench.folder.path().join("a.txt").exists());
}

#[tokio::test]
async fn cancelling_ends_the_running_tool_and_keeps_the_transcript_whole() {
    let turns = [
        json!({ "tool_calls": [
            { "name": "exec", "arguments": { "command": "touch started; sleep 30; touch survived" } },
            { "name": "exec", "arguments": { "command": "touch second" } },
        ] }),
        says("after all"),
    ];
    let bench = Bench::new(turns);
    let ends = watch_end(&bench);
    let session = bench.session().await;
    let cancel = CancelToken::new();
    let (path, began) = (bench.folder.path().to_owned(), Instant::now());
    let turn = bench.agent.turn(&session, TurnInput::user("go"), &cancel);
    let abort = async {
        while !path.join("started").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancel.cancel();
    };
    let (report, ()) = tokio::join!(turn, abort);
    assert_eq!(report.unwrap().outcome, TurnOutcome::Cancelled);
    assert!(began.elapsed() < Duration::from_secs(15));
    assert!(!path.join("second").exists());
    let messages = bench.transcript(&session).await;
    assert_eq!(roles(&messages), "uatt");
    assert_whole(&messages);
    assert!(!ends.lock().unwrap()[0].success);
    // The session is free again, and goes on.
    assert_eq!(bench.say(&session, "go on").await.outcome, answered("after all"));
    assert!(!path.join("survived").exists());
}

#[tokio::test]
async fn a_turn_that_is_dropped_takes_its_tools_along_and_the_next_one_goes_on() {
    let turns =
        [calls("exec", json!({ "command": "touch started; sleep 2; touch survived" })), says("going on")];
    let bench = Bench::new(turns);
    let session = bench.session().await;
    let started = bench.folder.path().join("started");
    let cancel = CancelToken::new();
    {
        let mut turn = Box::pin(bench.agent.turn(&session, TurnInput::user("go"), &cancel));
        while !started.exists() {
            let waited = tokio::time::timeout(Duration::from_millis(5), &mut turn).await;
            assert!(waited.is_err(), "the turn ended too early");
        }
    }
    assert_eq!(bench.say(&session, "go on").await.outcome, answered("going on"));
    let messages = bench.transcript(&session).await;
    assert_eq!(roles(&messages), "uatua");
    assert_whole(&messages);
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert!(!bench.folder.path().join("survived").exists());
}

#[tokio::test]
async fn cancelling_ends_a_model_call() {
    let bench = Bench::new([json!({ "text": "slow", "delay_ms": 60_000 })]);
    let session = bench.session().await;
    let cancel = CancelToken::new();
    let turn = bench.agent.turn(&session, TurnInput::user("go"), &cancel);
    let abort = async {
        while bench.model.report().requests == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancel.cancel();
    };
    let (report, ()) = tokio::join!(turn, abort);
    assert_eq!(report.unwrap().outcome, TurnOutcome::Cancelled);
    assert_eq!(roles(&bench.transcript(&session).await), "u");
}

#[tokio::test]
async fn a_session_that_is_in_use_cannot_be_opened_by_another() {
    let bench = Bench::new([json!({ "text": "slow", "delay_ms": 300 })]);
    let session = bench.session().await;
    let turn = bench.say(&session, "go");
    let other = async {
        while bench.model.report().requests == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        bench.agent.open_session(SessionChoice::Resume(session.id().clone())).await
    };
    let (report, refused) = tokio::join!(turn, other);
    assert_eq!(report.outcome, answered("slow"));
    let error = refused.unwrap_err();
    assert!(matches!(error, AgentError::Lease(LeaseError::Held { .. })), "{error}");
    assert!(error.to_string().contains("is in use by"), "{error}");
    bench.agent.open_session(SessionChoice::Resume(session.id().clone())).await.unwrap();
}

#[tokio::test]
async fn a_turn_whose_session_was_taken_over_writes_nothing_more() {
    let turn = calls("exec", json!({ "command": "touch started; sleep 30" }));
    let bench = Bench::with([turn], |setup| setup.settings.lease = Duration::from_millis(300));
    let session = bench.session().await;
    let started = bench.folder.path().join("started");
    let thief = LeaseHolder::new("thief");
    let ttl = Duration::from_secs(60);
    let cancel = CancelToken::new();
    let turn = bench.agent.turn(&session, TurnInput::user("go"), &cancel);
    let take_over = async {
        while !started.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let held = bench.store.lease_session(session.id(), &thief, ttl, Timestamp::now()).await;
        // On a slow machine the claim may have run out by itself.
        if let Err(LeaseError::Held { holder, .. }) = held {
            bench.store.release_lease(session.id(), &holder).await.unwrap();
            bench.store.lease_session(session.id(), &thief, ttl, Timestamp::now()).await.unwrap();
        }
    };
    let (ended, ()) = tokio::join!(turn, take_over);
    let error = ended.unwrap_err();
    assert!(matches!(error, AgentError::Lease(LeaseError::Lost(_))), "{error}");
    let last = bench.transcript(&session).await.pop().unwrap();
    assert_eq!(last.role, Role::Assistant, "the open call is for the new holder to close");
}

#[tokio::test]
async fn a_turn_that_has_not_noticed_the_takeover_is_refused_by_the_store() {
    let turn = calls("exec", json!({ "command": "touch started; while [ ! -e go ]; do sleep 0.01; done" }));
    // The claim is looked after every third of that: never while this test runs.
    let bench = Bench::with([turn], |setup| setup.settings.lease = Duration::from_secs(600));
    let session = bench.session().await;
    let thief = LeaseHolder::new("thief");
    let cancel = CancelToken::new();
    let turn = bench.agent.turn(&session, TurnInput::user("go"), &cancel);
    let take_over = async {
        while !bench.folder.path().join("started").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let later = Timestamp::now().after(Duration::from_secs(601));
        bench.store.lease_session(session.id(), &thief, Duration::from_secs(60), later).await.unwrap();
        std::fs::write(bench.folder.path().join("go"), "").unwrap();
    };
    let (ended, ()) = tokio::join!(turn, take_over);
    let error = ended.unwrap_err();
    assert!(matches!(error, AgentError::Lease(LeaseError::Lost(_))), "{error}");
    let last = bench.transcript(&session).await.pop().unwrap();
    assert_eq!(last.role, Role::Assistant, "neither a result nor an answer was written");
}

#[tokio::test]
async fn turns_of_one_session_wait_for_each_other_and_can_be_cancelled_while_they_wait() {
    let bench = Bench::new([json!({ "text": "slow", "delay_ms": 200 }), says("quick")]);
    let session = bench.session().await;
    let cancel = CancelToken::new();
    let (first, second, third) =
        tokio::join!(bench.say(&session, "one"), bench.say(&session, "two"), async {
            cancel.cancel();
            bench.agent.turn(&session, TurnInput::user("three"), &cancel).await.unwrap()
        },);
    assert_eq!((first.outcome, second.outcome), (answered("slow"), answered("quick")));
    assert_eq!(third.outcome, TurnOutcome::Cancelled);
    assert_eq!(roles(&bench.transcript(&session).await), "uaua");
}

#[tokio::test]
async fn sessions_are_found_again_by_id_and_by_key() {
    let bench = Bench::new([says("one"), says("two")]);
    let first = bench.agent.open_session(SessionChoice::LatestOf("main".into())).await.unwrap();
    bench.say(&first, "a").await;
    let again = bench.agent.open_session(SessionChoice::LatestOf("main".into())).await.unwrap();
    assert_eq!(again.id(), first.id());
    bench.say(&again, "b").await;
    assert!(bench.last_request().contains("one"));
    let new = bench.agent.open_session(SessionChoice::New { key: "main".into() }).await.unwrap();
    assert_ne!(new.id(), first.id());
    let missing = bench.agent.open_session(SessionChoice::Resume("nope".into())).await.unwrap_err();
    assert!(missing.to_string().starts_with("there is no session `nope`"));
}

#[tokio::test]
async fn hooks_that_only_watch_never_hold_a_turn_for_long() {
    let bench = Bench::with([says("quick")], |setup| {
        setup.settings.observer_drain = Duration::from_millis(50);
    });
    bench.on::<LlmOutput>(async_hook_fn(|_: LlmOutputEvent, _| async {
        std::future::pending::<()>().await;
        Ok(None)
    }));
    let began = Instant::now();
    let session = bench.session().await;
    assert_eq!(bench.say(&session, "go").await.outcome, answered("quick"));
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[derive(Debug)]
struct Broken;

#[async_trait]
impl Tool for Broken {
    fn definition(&self) -> ToolSpec {
        ToolSpec {
            name: "Broken".to_owned(),
            description: "breaks".to_owned(),
            input_schema: json!({ "type": "object" }),
        }
    }

    async fn run(&self, _: &Map<String, Value>, _: &ToolContext) -> ToolOutput {
        panic!("on purpose")
    }
}

#[tokio::test]
async fn a_tool_that_panics_is_a_failed_call() {
    let bench = Bench::with([calls("Broken", json!({})), says("noted")], |setup| {
        setup.toolbox = setup.toolbox.clone().with(Arc::new(Broken));
    });
    let session = bench.session().await;
    assert_eq!(bench.say(&session, "go").await.outcome, answered("noted"));
    let messages = bench.transcript(&session).await;
    assert_whole(&messages);
    assert!(messages[2].tool_results().next().unwrap().visible_text().contains("the tool broke down"));
}
