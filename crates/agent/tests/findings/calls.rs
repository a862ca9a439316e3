//! The gates around one model call.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_agent::{TurnError, TurnOutcome};
use backstop_hooks::conversation::{Message, Part, ToolResult};
use backstop_hooks::points::{
    AfterLlmCall, AfterLlmCallEvent, AfterLlmCallOutcome, BeforeLlmCall, BeforeLlmCallEvent,
    BeforeLlmCallOutcome, BeforeModelResolve, BeforeToolCall, ModelCallEnded, ModelCallResult, ToolCallEvent,
    ToolCallIds, ToolCallOutcome, ToolNames,
};
use backstop_hooks::{HookError, PointId, async_hook_fn, hook_fn};
use backstop_store::{LeaseHolder, Timestamp};
use serde_json::json;

use crate::support::{Bench, answered, assert_whole, calls, roles, says};

fn block_model_calls(bench: &Bench) -> backstop_hooks::HookId {
    bench.on::<BeforeLlmCall>(hook_fn(|_: &BeforeLlmCallEvent, _| {
        Ok(Some(BeforeLlmCallOutcome {
            block: Some(true),
            block_reason: Some("over budget".into()),
            ..Default::default()
        }))
    }))
}

#[tokio::test]
async fn blocked_call_never_replays_an_earlier_answer() {
    let bench = Bench::new([says("the first answer")]);
    let session = bench.session().await;
    assert_eq!(bench.say(&session, "one").await.outcome, answered("the first answer"));
    let shown = bench.screen.lines().len();
    block_model_calls(&bench);
    let report = bench.say(&session, "two").await;
    let TurnOutcome::Blocked { point, message, .. } = report.outcome else { panic!("{:?}", report.outcome) };
    assert_eq!((point, &*message), (PointId::BeforeLlmCall, "over budget"));
    assert_eq!(report.iterations, 0);
    assert_eq!(bench.screen.lines().len(), shown, "nothing is shown in a turn without an answer");
    assert_eq!(roles(&bench.transcript(&session).await), "uau");
}

/// What is shown of the calls of tools, and nothing else.
fn of_tools(bench: &Bench) -> Vec<String> {
    let is_of = |line: &String| {
        ["judged: ", "decided: ", "start: ", "done: "].iter().any(|start| line.starts_with(start))
    };
    bench.screen.lines().into_iter().filter(is_of).collect()
}

#[tokio::test]
async fn each_call_is_shown_with_what_was_decided_on_it() {
    let turns = [
        calls("write", json!({ "path": "a.txt", "content": "x" })),
        calls("exec", json!({ "command": "echo never" })),
        calls("no_such_tool", json!({ "command": "a secret of the model" })),
        says("done"),
    ];
    let bench = Bench::new(turns);
    bench.on::<BeforeToolCall>(hook_fn(|event: &ToolCallEvent, _| {
        let is_exec = event.tool_name.canonical() == "exec";
        Ok(is_exec.then(|| ToolCallOutcome::block("not that")))
    }));
    let session = bench.session().await;
    assert_eq!(bench.say(&session, "go").await.outcome, answered("done"));
    let lines = of_tools(&bench);
    let [judged, runs, started, ended, asked, denied, unknown] = lines.as_slice() else {
        panic!("{lines:#?}")
    };
    assert_eq!(
        [judged.as_str(), runs, started, ended],
        ["judged: write", "decided: write runs", "start: write a.txt", "done: write false"]
    );
    assert_eq!(asked, "judged: exec");
    assert!(denied.starts_with("decided: exec denied by ") && denied.ends_with(": not that"), "{denied}");
    assert_eq!(unknown, "decided: a tool that does not exist denied by nobody: not on offer");
}

#[tokio::test]
async fn block_does_not_rotate_providers() {
    let bench = Bench::with([says("never said")], |setup| setup.settings.model_retries = 5);
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    bench.on::<BeforeLlmCall>(hook_fn(move |_: &BeforeLlmCallEvent, _| {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(Some(BeforeLlmCallOutcome { block: Some(true), ..Default::default() }))
    }));
    let session = bench.session().await;
    assert!(matches!(bench.say(&session, "hi").await.outcome, TurnOutcome::Blocked { .. }));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert_eq!(bench.model.report().requests, 0);
}

#[tokio::test]
async fn first_model_call_is_iteration_zero() {
    let turns = [
        json!({ "fault": { "half_stream_after": 2 }, "text": "broken off" }),
        calls("read", json!({ "path": "." })),
        json!({ "fault": { "reset_after": 3 }, "text": "broken off" }),
        says("done"),
    ];
    // Nothing is shown while an answer grows, so a call that broke off can be made again.
    let bench = Bench::with(turns, |setup| setup.settings.hold_back_bytes = 1_000);
    let seen = bench.watch_llm_calls();
    let session = bench.session().await;
    assert_eq!(bench.say(&session, "go").await.outcome, answered("done"));
    let iterations: Vec<u32> = seen.lock().unwrap().iter().map(|event| event.iteration).collect();
    assert_eq!(iterations, [0, 0, 1, 1], "a retry is the same iteration again");
}

#[tokio::test]
async fn token_estimate_is_filled() {
    let bench = Bench::new([says("short"), says("long")]);
    let seen = bench.watch_llm_calls();
    let session = bench.session().await;
    bench.say(&session, "hi").await;
    bench.say(&session, &"many words ".repeat(1_000)).await;
    let seen = seen.lock().unwrap();
    assert!(seen[0].token_estimate > 0);
    assert!(seen[1].token_estimate > seen[0].token_estimate + 1_000);
}

#[tokio::test]
async fn empty_string_and_empty_list_are_answers() {
    let bench = Bench::new([says("ok")]);
    bench.on::<BeforeLlmCall>(hook_fn(|_: &BeforeLlmCallEvent, _| {
        Ok(Some(BeforeLlmCallOutcome {
            system_prompt: Some("".into()),
            tools: Some(ToolNames(Vec::new())),
            ..Default::default()
        }))
    }));
    let session = bench.session().await;
    bench.say(&session, "hi").await;
    let request = bench.model.requests().pop().unwrap().request;
    assert!(request.tools.is_empty());
    assert_eq!(request.system_text(), None);
}

#[tokio::test]
async fn a_gate_that_throws_blocks() {
    let bench = Bench::new([says("never said")]);
    bench.on::<BeforeLlmCall>(hook_fn(|_: &BeforeLlmCallEvent, _| Err(HookError::failed("boom"))));
    let session = bench.session().await;
    assert!(matches!(bench.say(&session, "hi").await.outcome, TurnOutcome::Blocked { .. }));
    assert_eq!(bench.model.report().requests, 0);
}

#[tokio::test]
async fn tool_cannot_start_before_the_answer_was_judged() {
    let bench = Bench::new([calls("write", json!({ "path": "a.txt", "content": "x" })), says("done")]);
    let file = bench.folder.path().join("a.txt");
    bench.on::<AfterLlmCall>(async_hook_fn(move |event: AfterLlmCallEvent, _| {
        let file = file.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert!(
                event.tool_calls.is_empty() || !file.exists(),
                "the tool ran before its answer was judged"
            );
            Ok(None)
        }
    }));
    let session = bench.session().await;
    assert_eq!(bench.say(&session, "go").await.outcome, answered("done"));
    assert!(bench.folder.path().join("a.txt").exists());
}

#[tokio::test]
async fn a_dropped_answer_leaves_nothing_and_runs_nothing() {
    let turns = [json!({
        "text": "I will send the hunter2 password",
        "tool_calls": [{ "name": "write", "arguments": { "path": "a.txt", "content": "x" } }],
    })];
    let bench = Bench::new(turns);
    bench.on::<AfterLlmCall>(hook_fn(|_: &AfterLlmCallEvent, _| {
        Ok(Some(AfterLlmCallOutcome { block: Some(true), ..Default::default() }))
    }));
    let session = bench.session().await;
    let report = bench.say(&session, "go").await;
    assert!(matches!(report.outcome, TurnOutcome::Blocked { point: PointId::AfterLlmCall, .. }));
    assert_eq!(roles(&bench.transcript(&session).await), "u");
    assert!(!bench.screen.shows("hunter2"));
    assert!(!bench.folder.path().join("a.txt").exists());
}

#[tokio::test]
async fn blocked_tool_arguments_do_not_stay_in_history() {
    let turns = [
        json!({ "tool_calls": [
            { "id": "a", "name": "write", "arguments": { "path": "a.txt", "content": "hunter2-removed" } },
            { "id": "b", "name": "write", "arguments": { "path": "b.txt", "content": "hunter2-blocked" } },
            { "id": "c", "name": "write", "arguments": { "path": "c.txt", "content": "harmless" } },
        ] }),
        says("done"),
    ];
    let bench = Bench::new(turns);
    bench.on::<AfterLlmCall>(hook_fn(|event: &AfterLlmCallEvent, _| {
        let keep = event.tool_calls.iter().filter(|call| call.id.as_str() != "a").map(|call| call.id.clone());
        Ok(Some(AfterLlmCallOutcome { tool_calls: Some(ToolCallIds::new(keep)), ..Default::default() }))
    }));
    bench.on::<BeforeToolCall>(hook_fn(|event: &ToolCallEvent, _| {
        let secret =
            event.params.get("content").is_some_and(|text| text.as_str().unwrap().contains("hunter2"));
        Ok(secret.then(|| ToolCallOutcome::block("no secrets")))
    }));
    let session = bench.session().await;
    assert_eq!(bench.say(&session, "go").await.outcome, answered("done"));
    let (stored, messages) = (bench.stored(&session).await, bench.transcript(&session).await);
    assert!(!stored.contains("hunter2") && !bench.last_request().contains("hunter2"));
    assert!(stored.contains("harmless"));
    assert_whole(&messages);
    let results: Vec<_> = messages.iter().flat_map(Message::tool_results).collect();
    assert_eq!(results.iter().map(|result| result.is_error).collect::<Vec<_>>(), [true, true, false]);
    let refused: serde_json::Value = serde_json::from_str(&results[1].visible_text()).unwrap();
    assert_eq!(refused, json!({ "status": "blocked", "tool": "write", "reason": "no secrets" }));
    let digest = results[1].details.as_ref().unwrap()["digest"].as_str().unwrap().to_owned();
    assert!(digest.parse::<backstop_hooks::Digest>().is_ok());
    let names: Vec<bool> =
        ["a.txt", "b.txt", "c.txt"].map(|name| bench.folder.path().join(name).exists()).into();
    assert_eq!(names, [false, false, true]);
}

#[tokio::test]
async fn calls_without_or_with_double_ids_are_denied_under_an_allow_list() {
    let turns = [
        json!({ "tool_calls": [
            { "id": "", "name": "write", "arguments": { "path": "0.txt", "content": "" } },
            { "id": "x", "name": "write", "arguments": { "path": "1.txt", "content": "" } },
            { "id": "x", "name": "write", "arguments": { "path": "2.txt", "content": "" } },
            { "id": "y", "name": "write", "arguments": { "path": "3.txt", "content": "" } },
        ] }),
        says("done"),
    ];
    let bench = Bench::new(turns);
    bench.on::<AfterLlmCall>(hook_fn(|event: &AfterLlmCallEvent, _| {
        let ids = ToolCallIds::new(event.tool_calls.iter().map(|call| call.id.clone()));
        Ok(Some(AfterLlmCallOutcome { tool_calls: Some(ids), ..Default::default() }))
    }));
    let session = bench.session().await;
    assert_eq!(bench.say(&session, "go").await.outcome, answered("done"));
    let made: Vec<bool> = (0..4).map(|n| bench.folder.path().join(format!("{n}.txt")).exists()).collect();
    assert_eq!(made, [false, false, false, true]);
    assert_whole(&bench.transcript(&session).await);
}

#[tokio::test]
async fn calls_that_cannot_be_run_get_results_that_say_why() {
    let turns = [
        json!({ "tool_calls": [
            { "id": "d", "name": "write", "arguments": { "path": "1.txt", "content": "" } },
            { "id": "d", "name": "write", "arguments": { "path": "2.txt", "content": "" } },
            { "id": "e", "name": "exec", "arguments": "{\"command\": " },
            { "id": "f", "name": "fly", "arguments": {} },
            { "id": "", "name": "Bash", "arguments": { "command": "echo ran" } },
        ] }),
        says("done"),
    ];
    let bench = Bench::new(turns);
    let session = bench.session().await;
    assert_eq!(bench.say(&session, "go").await.outcome, answered("done"));
    let messages = bench.transcript(&session).await;
    assert_whole(&messages);
    let results: Vec<String> =
        messages.iter().flat_map(Message::tool_results).map(ToolResult::visible_text).collect();
    for (result, says) in results.iter().zip([
        "none of them was run",
        "none of them was run",
        "not a JSON object",
        "this tool is not on offer; on offer are: read, write",
        "ran",
    ]) {
        assert!(result.contains(says), "{result}");
    }
    assert!(!bench.folder.path().join("1.txt").exists());
    let calls: Vec<_> = messages.iter().flat_map(Message::tool_calls).collect();
    let ids: std::collections::HashSet<_> = calls.iter().map(|call| call.id.clone()).collect();
    assert_eq!(ids.len(), 5, "each call has an id of its own in the transcript");
    assert!(calls.iter().all(|call| !call.id.is_empty()));
}

#[tokio::test]
async fn a_tool_that_was_not_on_offer_is_not_run() {
    let bench = Bench::new([calls("write", json!({ "path": "a.txt", "content": "" })), says("done")]);
    bench.on::<BeforeLlmCall>(hook_fn(|_: &BeforeLlmCallEvent, _| {
        Ok(Some(BeforeLlmCallOutcome { tools: Some(ToolNames::new(["read"])), ..Default::default() }))
    }));
    let session = bench.session().await;
    bench.say(&session, "go").await;
    assert!(!bench.folder.path().join("a.txt").exists());
    let messages = bench.transcript(&session).await;
    let result = messages.iter().flat_map(Message::tool_results).next().unwrap();
    assert!(result.visible_text().contains("on offer are: read"), "{}", result.visible_text());
}

#[tokio::test]
async fn another_spelling_reaches_no_tool_that_is_not_on_offer() {
    let bench = Bench::new([calls("Write_File", json!({ "path": "a.txt", "content": "" })), says("done")]);
    bench.on::<BeforeLlmCall>(hook_fn(|_: &BeforeLlmCallEvent, _| {
        Ok(Some(BeforeLlmCallOutcome { tools: Some(ToolNames::new(["read"])), ..Default::default() }))
    }));
    let session = bench.session().await;
    bench.say(&session, "go").await;
    assert!(!bench.folder.path().join("a.txt").exists());
}

#[tokio::test]
async fn a_tool_is_found_by_another_spelling_and_keeps_the_called_name() {
    let bench = Bench::new([calls("Write_File", json!({ "path": "a.txt", "content": "" })), says("done")]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let names = Arc::clone(&seen);
    bench.on::<BeforeToolCall>(hook_fn(move |event: &ToolCallEvent, _| {
        names.lock().unwrap().push(event.tool_name.clone());
        Ok(None)
    }));
    let session = bench.session().await;
    bench.say(&session, "go").await;
    assert!(bench.folder.path().join("a.txt").exists());
    assert_eq!(*seen.lock().unwrap(), [backstop_hooks::ToolName::with_canonical("Write_File", "write")]);
}

#[tokio::test]
async fn provider_metadata_survives_a_rebuild() {
    let bench = Bench::new([says("first"), says("second")]);
    let session = bench.session().await;
    bench.say(&session, "one").await;
    // What a provider attached to the first answer.
    let entries = bench.store.transcript(session.id()).await.unwrap();
    let mut message = entries[1].message.clone();
    let meta = json!({ "anthropic-messages": { "cache_control": { "type": "ephemeral" } } });
    if let Part::Text { meta: slot, .. } = &mut message.content[0] {
        *slot = Some(meta.clone().into());
    }
    let change = backstop_store::Change::Replace { id: entries[1].id.clone(), message };
    let me = LeaseHolder::new("me");
    let ttl = Duration::from_secs(60);
    bench.store.lease_session(session.id(), &me, ttl, Timestamp::now()).await.unwrap();
    bench.store.apply(session.id(), &me, vec![change]).await.unwrap();
    bench.store.release_lease(session.id(), &me).await.unwrap();
    bench.on::<BeforeLlmCall>(hook_fn(|event: &BeforeLlmCallEvent, _| {
        let mut messages = event.messages.clone();
        messages[0].set_visible_text(&"rewritten".into());
        Ok(Some(BeforeLlmCallOutcome { messages: Some(messages), ..Default::default() }))
    }));
    bench.say(&session, "two").await;
    let request = bench.model.requests().pop().unwrap().request;
    assert_eq!(request.messages[0].visible_text(), "rewritten");
    let Part::Text { meta: kept, .. } = &request.messages[1].content[0] else { panic!() };
    assert_eq!(kept.as_ref().unwrap().to_value(), meta);
    assert!(
        bench.stored(&session).await.contains("one"),
        "the rewrite was for this call, not for the transcript"
    );
}

#[tokio::test]
async fn half_an_answer_that_was_seen_fails_the_turn_and_is_not_kept() {
    let broken =
        json!({ "text": "the beginning of a long answer", "chunk": 4, "fault": { "half_stream_after": 7 } });
    let bench = Bench::with([broken], |setup| setup.settings.hold_back_bytes = 0);
    let session = bench.session().await;
    let report = bench.say(&session, "go").await;
    assert!(
        matches!(report.outcome, TurnOutcome::Failed { error: TurnError::Model(_) }),
        "{:?}",
        report.outcome
    );
    assert!(bench.screen.shows("the "));
    assert_eq!(bench.model.report().requests, 1, "what was seen is not said again");
    assert_eq!(roles(&bench.transcript(&session).await), "u");
}

#[tokio::test]
async fn telemetry_of_a_failed_call_names_the_failure_and_no_content() {
    let bench =
        Bench::new([json!({ "fault": { "http_status": { "status": 401, "message": "bad key hunter2" } } })]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    bench.on::<ModelCallEnded>(hook_fn(move |event: &backstop_hooks::points::ModelCallEndedEvent, _| {
        log.lock().unwrap().push(event.clone());
        Ok(None)
    }));
    let session = bench.session().await;
    assert!(matches!(bench.say(&session, "go").await.outcome, TurnOutcome::Failed { .. }));
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 1, "a wrong key is not tried again");
    assert_eq!((seen[0].outcome, seen[0].error_category.as_deref()), (ModelCallResult::Error, Some("auth")));
    assert!(!serde_json::to_string(&seen[0]).unwrap().contains("hunter2"));
}

#[tokio::test]
async fn an_unknown_provider_is_named_before_anything_is_stored() {
    let bench = Bench::new([says("never")]);
    bench.on::<BeforeModelResolve>(hook_fn(|_: &backstop_hooks::points::ModelResolveEvent, _| {
        Ok(Some(backstop_hooks::points::ModelResolveOutcome {
            provider_override: Some("nowhere".to_owned()),
            ..Default::default()
        }))
    }));
    let session = bench.session().await;
    let outcome = bench.say(&session, "go").await.outcome;
    let TurnOutcome::Failed { error } = outcome else { panic!("{outcome:?}") };
    assert!(error.to_string().contains("hint: known providers: scripted"), "{error}");
    assert_eq!(roles(&bench.transcript(&session).await), "");
}

#[tokio::test]
async fn a_turn_that_never_ends_is_ended() {
    let again = json!({ "repeat": true, "tool_calls": [{ "name": "read", "arguments": { "path": "." } }] });
    let bench = Bench::with([again], |setup| setup.settings.max_iterations = 3);
    let session = bench.session().await;
    let report = bench.say(&session, "go").await;
    assert_eq!(report.outcome, TurnOutcome::Failed { error: TurnError::TooManyIterations { limit: 3 } });
    assert_eq!((report.iterations, bench.model.report().requests), (3, 3));
    assert_whole(&bench.transcript(&session).await);
}
