//! What leaves, and that nothing leaves by another way.

use std::path::Path;
use std::sync::{Arc, Mutex};

use backstop_agent::Verbosity;
use backstop_hooks::conversation::{Message, Part};
use backstop_hooks::points::{
    AfterToolCall, AfterToolCallEvent, BeforeMessageWrite, BeforeResponseEmit, BeforeToolCall, ExecEnvEvent,
    ExecEnvOutcome, MessageWriteEvent, MessageWriteOutcome, ReasoningLevel, ResolveExecEnv,
    ResponseEmitEvent, ResponseEmitOutcome, ToolAfter, ToolAfterEvent, ToolAfterOutcome, ToolCallEvent,
    ToolCallOutcome, ToolResultPersist, ToolResultPersistEvent,
};
use backstop_hooks::{HookError, Params, hook_fn};
use serde_json::json;

use crate::support::{Bench, answered, assert_whole, calls, roles, says};

#[tokio::test]
async fn every_egress_is_judged() {
    let word = "hunter2";
    let turns = [
        json!({ "thinking": format!("think {word}"), "text": format!("I run {word}"), "tool_calls": [
            { "name": "exec", "arguments": { "command": format!("echo {word}") } },
            { "name": "read", "arguments": { "path": format!("{word}.txt") } },
            { "name": "unknown", "arguments": { "x": word } },
        ] }),
        json!({ "thinking": format!("thought {word}"), "text": format!("it said {word}") }),
    ];
    let bench = Bench::with(turns, |setup| {
        setup.settings.verbosity = Verbosity::Full;
        setup.settings.reasoning = ReasoningLevel::On;
        setup.settings.hold_back_bytes = 0;
    });
    bench.on::<BeforeResponseEmit>(hook_fn(|event: &ResponseEmitEvent, _| {
        let texts = event.all_content.iter().map(|_| "fine".into()).collect();
        Ok(Some(ResponseEmitOutcome { all_content: Some(texts), ..Default::default() }))
    }));
    let session = bench.session().await;
    assert_eq!(bench.say(&session, "go").await.outcome, answered("fine"));
    assert!(!bench.screen.shows(word), "{:#?}", bench.screen.lines());
    assert_eq!(bench.screen.texts(), ["fine", "fine"]);
}

/// The library has one place that shows anything, and none that prints.
#[test]
fn there_is_one_door_out() {
    fn visit(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                visit(&path, found);
            } else {
                let text = std::fs::read_to_string(&path).unwrap();
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                found.extend(text.matches(".show(").map(|_| format!("show in {name}")));
                for text_event in ["Shown::Text(", "Shown::Reasoning(", "Shown::Answer("] {
                    found.extend(text.matches(text_event).map(|_| format!("{text_event} in {name}")));
                }
            }
        }
    }
    let mut found = Vec::new();
    visit(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    found.sort();
    found.dedup();
    assert_eq!(
        found,
        [
            "Shown::Answer( in emit.rs",
            "Shown::Reasoning( in voice.rs",
            "Shown::Text( in emit.rs",
            "Shown::Text( in voice.rs",
            "show in output.rs",
        ]
    );
}

#[tokio::test]
async fn results_are_rewritten_before_anybody_reads_them() {
    let turns = [
        json!({ "tool_calls": [
            { "name": "exec", "arguments": { "command": "echo hunter2" } },
            { "name": "read", "arguments": { "path": "missing hunter2" } },
        ] }),
        says("done"),
    ];
    let bench = Bench::new(turns);
    let failed = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&failed);
    bench.on::<ToolAfter>(hook_fn(move |event: &ToolAfterEvent, _| {
        log.lock().unwrap().push(event.is_error);
        let mut result = event.result.clone();
        result.content = vec![Part::text(result.visible_text().replace("hunter2", "***"))];
        Ok(Some(ToolAfterOutcome { result: Some(result) }))
    }));
    let seen = Arc::new(Mutex::new(String::new()));
    let watch = Arc::clone(&seen);
    bench.on::<AfterToolCall>(hook_fn(move |event: &AfterToolCallEvent, _| {
        watch.lock().unwrap().push_str(&event.result.as_ref().unwrap().visible_text());
        Ok(None)
    }));
    bench.on::<ToolResultPersist>(hook_fn(|event: &ToolResultPersistEvent, _| {
        assert!(!serde_json::to_string(&event.message).unwrap().contains("hunter2"));
        Ok(None)
    }));
    let session = bench.session().await;
    assert_eq!(bench.say(&session, "go").await.outcome, answered("done"));
    assert_eq!(*failed.lock().unwrap(), [false, true], "also when the tool failed");
    assert!(seen.lock().unwrap().contains("***"));
    let results: Vec<_> = bench
        .transcript(&session)
        .await
        .iter()
        .flat_map(|m| m.tool_results().cloned().collect::<Vec<_>>())
        .collect();
    assert!(results.iter().all(|result| !result.visible_text().contains("hunter2")));
    let request = bench.model.requests().pop().unwrap().request;
    let sent: Vec<_> = request.messages.iter().flat_map(Message::tool_results).collect();
    assert!(results[0].details.is_some() && sent.iter().all(|result| result.details.is_none()));
}

#[tokio::test]
async fn a_result_that_cannot_be_judged_is_withheld() {
    let bench = Bench::new([calls("exec", json!({ "command": "echo hunter2" })), says("done")]);
    bench.on::<ToolAfter>(hook_fn(|_: &ToolAfterEvent, _| Err(HookError::failed("boom"))));
    let session = bench.session().await;
    assert_eq!(bench.say(&session, "go").await.outcome, answered("done"));
    let messages = bench.transcript(&session).await;
    assert_whole(&messages);
    let result = messages[2].tool_results().next().unwrap();
    assert!(result.visible_text().contains("withheld") && result.is_error);
    assert!(!bench.last_request().contains("hunter2\\n"));
}

#[tokio::test]
async fn what_is_not_stored_is_not_sent_and_calls_keep_their_results() {
    let turns = [
        json!({ "tool_calls": [
            { "name": "exec", "arguments": { "command": "printf 'hunter%s' 2" } },
            { "name": "exec", "arguments": { "command": "echo fine" } },
        ] }),
        says("done"),
    ];
    let bench = Bench::new(turns);
    bench.on::<BeforeMessageWrite>(hook_fn(|event: &MessageWriteEvent, _| {
        let secret = serde_json::to_string(&event.message).unwrap().contains("hunter2");
        Ok(secret.then(|| MessageWriteOutcome { block: Some(true), message: None }))
    }));
    let session = bench.session().await;
    assert_eq!(bench.say(&session, "go").await.outcome, answered("done"));
    let messages = bench.transcript(&session).await;
    assert_whole(&messages);
    assert!(!bench.stored(&session).await.contains("hunter2"));
    assert!(!bench.last_request().contains("hunter2"));
    // A message that may not be stored is not asked about.
    let report = bench.say(&session, "hunter2").await;
    assert!(matches!(report.outcome, backstop_agent::TurnOutcome::Blocked { .. }));
    assert_eq!(bench.model.report().requests, 2);
}

#[tokio::test]
async fn a_hook_on_the_write_path_cannot_move_a_message() {
    let bench = Bench::new([says("an answer")]);
    bench.on::<BeforeMessageWrite>(hook_fn(|event: &MessageWriteEvent, _| {
        let mut message = event.message.clone();
        message.role = backstop_hooks::conversation::Role::User;
        Ok(Some(MessageWriteOutcome { message: Some(message), block: None }))
    }));
    let session = bench.session().await;
    let report = bench.say(&session, "go").await;
    assert!(matches!(report.outcome, backstop_agent::TurnOutcome::Blocked { .. }));
    assert_eq!(roles(&bench.transcript(&session).await), "u");
    assert!(!bench.screen.shows("an answer"));
}

#[tokio::test]
async fn arguments_run_as_hooks_left_them_in_the_environment_that_hooks_add() {
    let bench = Bench::new([calls("exec", json!({ "command": "echo before" })), says("done")]);
    bench.on::<BeforeToolCall>(hook_fn(|event: &ToolCallEvent, _| {
        let mut params = event.params.clone();
        params.make_mut().insert("command".to_owned(), "echo after $ADDED-${LD_PRELOAD:-none}".into());
        Ok((params != event.params).then(|| ToolCallOutcome::rewrite(params)))
    }));
    bench.on::<ResolveExecEnv>(hook_fn(|_: &ExecEnvEvent, _| {
        let added = [("ADDED", "by-a-hook"), ("LD_PRELOAD", "evil.so")];
        Ok(Some(ExecEnvOutcome(added.map(|(key, value)| (key.to_owned(), value.to_owned())).into())))
    }));
    let ran = Arc::new(Mutex::new(Params::default()));
    let log = Arc::clone(&ran);
    bench.on::<AfterToolCall>(hook_fn(move |event: &AfterToolCallEvent, _| {
        *log.lock().unwrap() = event.params.clone();
        Ok(None)
    }));
    let session = bench.session().await;
    assert_eq!(bench.say(&session, "go").await.outcome, answered("done"));
    let messages = bench.transcript(&session).await;
    let result = messages[2].tool_results().next().unwrap().visible_text();
    assert!(result.contains("after by-a-hook-none"), "{result}");
    assert!(ran.lock().unwrap()["command"].as_str().unwrap().contains("after"));
}
