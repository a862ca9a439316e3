//! Recorded events through a real engine, and what the client is told.

use std::sync::{Arc, Mutex};

use backstop_clients::{Attended, Client, ClientEvent, Payload, Reply, respond};
use backstop_engine::{Attendance, Engine, HookOptions, OperatorSettings, Snapshot};
use backstop_hooks::conversation::Part;
use backstop_hooks::points::{
    AfterCompaction, AfterToolCall, AgentFinalizeOutcome, AgentRunOutcome, BeforeAgentFinalize,
    BeforeAgentRun, BeforeCompaction, BeforeToolCall, FinalizeAction, MessageReceived, SessionEnd,
    SessionStart, SubagentEnded, SubagentSpawned, ToolAfter, ToolAfterOutcome, ToolCallOutcome,
};
use backstop_hooks::{
    ApprovalRequest, Digest, Fact, JsonFuture, JsonHook, ObservePoint, OwnerId, Point, PointId,
    for_each_point, hook_fn, json_hook, points,
};
use serde_json::{Value, json};

fn options() -> HookOptions {
    HookOptions::new(OwnerId::builtin())
}

fn engine(fill: impl FnOnce(&mut Snapshot)) -> Engine {
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    fill(&mut snapshot);
    Engine::builder().snapshot(snapshot).build()
}

fn event(client: Client, payload: Value, name: &str) -> ClientEvent {
    client.read(&Payload::parse(payload.to_string().as_bytes()).unwrap(), Some(name)).unwrap()
}

fn shell(command: &str) -> Value {
    json!({
        "session_id": "s1", "prompt_id": "p1", "cwd": "/p", "permission_mode": "default",
        "tool_name": "Bash", "tool_input": { "command": command }, "tool_use_id": "t1",
    })
}

async fn told(engine: &Engine, event: &ClientEvent) -> Reply {
    respond(engine, event, &Attendance::Nobody).await
}

fn body(reply: &Reply) -> Value {
    serde_json::from_slice(reply.answer.stdout()).unwrap()
}

#[tokio::test]
async fn a_call_is_judged_in_our_words_with_the_clients_facts() {
    let engine = engine(|snapshot| {
        let hook = hook_fn::<BeforeToolCall, _>(|event, cx| {
            assert_eq!((event.tool_name.canonical(), event.tool_name.called()), ("exec", "Bash"));
            assert_eq!(event.run_id.as_ref().unwrap().as_str(), "p1");
            assert_eq!(event.tool_call_id.as_ref().unwrap().as_str(), "t1");
            assert_eq!(cx.call.agent_id.as_ref().unwrap().as_str(), "claude");
            assert_eq!(cx.call.session_key.as_ref().unwrap().as_str(), "claude:s1");
            assert_eq!(cx.call.workspace_dir.as_deref(), Some("/p"));
            Ok(event
                .params
                .get("command")
                .is_some_and(|text| text == "bad")
                .then(|| ToolCallOutcome::block("no")))
        });
        snapshot.on(hook, options()).unwrap();
    });
    let denied = told(&engine, &event(Client::Claude, shell("bad"), "PreToolUse")).await;
    assert_eq!((denied.answer.exit_code(), denied.answer.stderr()), (2, "no"));
    assert!(told(&engine, &event(Client::Claude, shell("good"), "PreToolUse")).await.answer.is_silent());
}

#[tokio::test]
async fn a_hook_that_breaks_is_a_refusal() {
    let engine = engine(|snapshot| {
        snapshot.on(hook_fn::<BeforeToolCall, _>(|_, _| panic!("broken")), options()).unwrap();
    });
    let denied = told(&engine, &event(Client::Codex, shell("ls"), "PreToolUse")).await;
    assert_eq!(denied.answer.exit_code(), 2);
    assert!(!denied.answer.stderr().is_empty());
}

#[tokio::test]
async fn a_rewrite_goes_back_in_the_clients_shape() {
    let engine = engine(|snapshot| {
        let hook = hook_fn::<BeforeToolCall, _>(|event, _| {
            let mut params = event.params.clone();
            if params.get("path").is_some_and(|path| path == "/p/a") {
                params.make_mut().insert("path".to_owned(), "/p/b".into());
            }
            Ok(Some(ToolCallOutcome::rewrite(params)))
        });
        snapshot.on(hook, options()).unwrap();
    });
    let payload = json!({ "session_id": "s", "tool_name": "Write", "tool_input": { "file_path": "/p/a", "content": "x" } });
    let said = told(&engine, &event(Client::Claude, payload, "PreToolUse")).await;
    assert_eq!(
        body(&said)["hookSpecificOutput"]["updatedInput"],
        json!({ "file_path": "/p/b", "content": "x" })
    );
}

#[tokio::test]
async fn each_command_of_a_list_is_judged_and_one_refusal_refuses_all() {
    let engine = engine(|snapshot| {
        let hook = hook_fn::<BeforeToolCall, _>(|event, _| {
            let command = event.params.get("command").and_then(Value::as_str).unwrap().to_owned();
            Ok(match command.as_str() {
                "bad" => Some(ToolCallOutcome::block("bad one")),
                "old" => {
                    let mut params = event.params.clone();
                    params.make_mut().insert("command".to_owned(), "new".into());
                    Some(ToolCallOutcome::rewrite(params))
                }
                _ => None,
            })
        });
        snapshot.on(hook, options()).unwrap();
    });
    let run = |commands: &[&str]| {
        let payload = json!({ "hookName": "tool_call", "tool_call": { "id": "c", "name": "run_commands", "input": { "commands": commands } } });
        event(Client::Cline, payload, "PreToolUse")
    };
    assert!(told(&engine, &run(&["ls", "pwd"])).await.answer.is_silent());
    assert_eq!(
        body(&told(&engine, &run(&["ls", "bad"])).await),
        json!({ "cancel": true, "errorMessage": "bad one" })
    );
    assert_eq!(
        body(&told(&engine, &run(&["ls", "old"])).await),
        json!({ "overrideInput": { "commands": ["ls", "new"] } })
    );
}

#[tokio::test]
async fn what_an_earlier_command_was_judged_by_is_looked_at_once_all_are_judged() {
    let script = Arc::new(Mutex::new(1_u32));
    let engine = engine(|snapshot| {
        let script = Arc::clone(&script);
        let hook = hook_fn::<BeforeToolCall, _>(move |event, cx| {
            let command = event.params.get("command").and_then(Value::as_str).unwrap();
            if command == "./deploy.sh" {
                let (look, found) = (Arc::clone(&script), Digest::of("script", &*script.lock().unwrap()));
                cx.rests_on(Fact::new(found, move || Digest::of("script", &*look.lock().unwrap())));
            } else {
                *script.lock().unwrap() += 1;
            }
            Ok(None)
        });
        snapshot.on(hook, options()).unwrap();
    });
    let run = |commands: &[&str]| {
        let payload = json!({ "hookName": "tool_call", "tool_call": { "id": "c", "name": "run_commands", "input": { "commands": commands } } });
        event(Client::Cline, payload, "PreToolUse")
    };
    assert!(told(&engine, &run(&["ls", "./deploy.sh"])).await.answer.is_silent());
    let refused = body(&told(&engine, &run(&["./deploy.sh", "ls"])).await);
    assert!(refused["errorMessage"].as_str().unwrap().contains("has changed since"), "{refused}");
}

#[tokio::test]
async fn a_question_is_asked_by_the_client_or_refused() {
    let engine = engine(|snapshot| {
        let hook = hook_fn::<BeforeToolCall, _>(|_, _| {
            Ok(Some(ToolCallOutcome::ask(ApprovalRequest::cut("run it?", ""))))
        });
        snapshot.on(hook, options()).unwrap();
    });
    let attended = event(Client::Claude, shell("ls"), "PreToolUse").attended(Attended::Yes);
    let asked = told(&engine, &attended).await;
    assert_eq!(body(&asked)["hookSpecificOutput"]["permissionDecision"], "ask");
    let question =
        body(&asked)["hookSpecificOutput"]["permissionDecisionReason"].as_str().unwrap().to_owned();
    assert!(question.contains("run it?") && question.contains("where nobody can be asked"), "{question}");
    let refused = told(&engine, &event(Client::Codex, shell("ls"), "PreToolUse")).await;
    assert!(refused.answer.stderr().contains("a person can allow"), "{}", refused.answer.stderr());
    let permission = event(Client::Claude, shell("ls"), "PermissionRequest");
    assert!(told(&engine, &permission).await.answer.is_silent(), "the client is asking its user already");
}

#[tokio::test]
async fn what_policy_lets_pass_is_not_allowed_on_the_users_behalf() {
    let engine = engine(|_| {});
    for client in [Client::Claude, Client::Codex] {
        assert!(told(&engine, &event(client, shell("ls"), "PermissionRequest")).await.answer.is_silent());
    }
}

#[tokio::test]
async fn a_changed_result_reaches_the_model_and_the_observers() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let watched = Arc::clone(&seen);
    let engine = engine(|snapshot| {
        let hook = hook_fn::<ToolAfter, _>(|event, _| {
            let mut result = event.result.clone();
            for part in &mut result.content {
                if let Part::Text { text, .. } = part {
                    *text = text.replace("key", "***").into();
                }
            }
            Ok(Some(ToolAfterOutcome { result: Some(result) }))
        });
        snapshot.on(hook, options()).unwrap();
        let hook = hook_fn::<AfterToolCall, _>(move |event, _| {
            watched.lock().unwrap().push((event.result.as_ref().unwrap().visible_text(), event.duration_ms));
            Ok(None)
        });
        snapshot.on(hook, options()).unwrap();
    });
    let mut payload = shell("cat x");
    payload["tool_response"] = json!({ "stdout": "a key", "stderr": "", "interrupted": false });
    payload["duration_ms"] = json!(7);
    let said = told(&engine, &event(Client::Claude, payload.clone(), "PostToolUse")).await;
    assert_eq!(
        body(&said)["hookSpecificOutput"]["updatedToolOutput"],
        json!({ "stdout": "a ***", "stderr": "", "interrupted": false })
    );
    payload["tool_response"] = json!("a key");
    let said = told(&engine, &event(Client::Codex, payload, "PostToolUse")).await;
    assert_eq!(body(&said), json!({ "decision": "block", "reason": "a ***" }));
    assert_eq!(*seen.lock().unwrap(), [("a ***".to_owned(), 7), ("a ***".to_owned(), 7)]);
}

#[tokio::test]
async fn a_result_whose_judge_breaks_is_withheld() {
    let engine = engine(|snapshot| {
        snapshot.on(hook_fn::<ToolAfter, _>(|_, _| panic!("broken")), options()).unwrap();
    });
    let mut payload = shell("cat x");
    payload["tool_response"] = json!("a key");
    let said = told(&engine, &event(Client::Codex, payload, "PostToolUse")).await;
    let reason = body(&said)["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("withheld") && !reason.contains("a key"), "{reason}");
}

#[tokio::test]
async fn a_blocked_message_says_nothing_of_the_internal_reason() {
    let engine = engine(|snapshot| {
        let hook = hook_fn::<BeforeAgentRun, _>(|event, _| {
            let message = (event.prompt == "polite").then(|| "ask in another way".into());
            Ok(Some(AgentRunOutcome::Block {
                reason: "it says hunter2".into(),
                message,
                category: None,
                metadata: None,
            }))
        });
        snapshot.on(hook, options()).unwrap();
    });
    for (prompt, said) in [("polite", "ask in another way"), ("hunter2", "this message was not passed on")] {
        let payload = json!({ "session_id": "s", "prompt": prompt });
        let reply = told(&engine, &event(Client::Claude, payload, "UserPromptSubmit")).await;
        let out = String::from_utf8_lossy(reply.answer.stdout()).into_owned() + reply.answer.stderr();
        assert!(out.contains(said) && !out.contains("hunter2"), "{out}");
    }
}

#[tokio::test]
async fn an_agent_is_sent_on_once_a_turn() {
    let engine = engine(|snapshot| {
        let hook = hook_fn::<BeforeAgentFinalize, _>(|_, _| {
            Ok(Some(AgentFinalizeOutcome {
                action: Some(FinalizeAction::Revise),
                reason: Some("run the tests".into()),
                ..AgentFinalizeOutcome::default()
            }))
        });
        snapshot.on(hook, options()).unwrap();
    });
    let stop =
        |again: bool| event(Client::Claude, json!({ "session_id": "s", "stop_hook_active": again }), "Stop");
    assert_eq!(
        body(&told(&engine, &stop(false)).await),
        json!({ "decision": "block", "reason": "run the tests" })
    );
    assert!(told(&engine, &stop(true)).await.answer.is_silent());
}

/// Registers an observer that notes that its point was fired; points that nobody fires refuse hooks.
fn noted<P: ObservePoint>(snapshot: &mut Snapshot, seen: &Arc<Mutex<Vec<String>>>) -> bool {
    let seen = Arc::clone(seen);
    let hook = hook_fn::<P, _>(move |_, cx| {
        let key = cx.call.session_key.as_ref().unwrap();
        seen.lock().unwrap().push(format!("{} {key}", P::INFO.name));
        Ok(None)
    });
    snapshot.on(hook, options()).is_ok()
}

#[tokio::test]
async fn sessions_and_sub_agents_are_reported_at_their_points() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut open = Vec::new();
    let engine = engine(|snapshot| {
        for (name, registered) in [
            (MessageReceived::INFO.name, noted::<MessageReceived>(snapshot, &seen)),
            (SessionStart::INFO.name, noted::<SessionStart>(snapshot, &seen)),
            (SessionEnd::INFO.name, noted::<SessionEnd>(snapshot, &seen)),
            (BeforeCompaction::INFO.name, noted::<BeforeCompaction>(snapshot, &seen)),
            (AfterCompaction::INFO.name, noted::<AfterCompaction>(snapshot, &seen)),
            (SubagentSpawned::INFO.name, noted::<SubagentSpawned>(snapshot, &seen)),
            (SubagentEnded::INFO.name, noted::<SubagentEnded>(snapshot, &seen)),
        ] {
            if registered {
                open.push(name);
            }
        }
    });
    for (name, point, child) in [
        ("UserPromptSubmit", MessageReceived::INFO.name, false),
        ("SessionStart", SessionStart::INFO.name, false),
        ("SessionEnd", SessionEnd::INFO.name, false),
        ("PreCompact", BeforeCompaction::INFO.name, false),
        ("PostCompact", AfterCompaction::INFO.name, false),
        ("SubagentStart", SubagentSpawned::INFO.name, true),
        ("SubagentStop", SubagentEnded::INFO.name, true),
    ] {
        let mut payload = json!({ "session_id": "s", "prompt": "hi" });
        if child {
            payload["agent_id"] = json!("a7");
        }
        assert!(told(&engine, &event(Client::Claude, payload, name)).await.answer.is_silent());
        let expected =
            open.contains(&point).then(|| format!("{point} claude:s{}", if child { ":a7" } else { "" }));
        assert_eq!(seen.lock().unwrap().pop(), expected, "{name}");
    }
}

/// Notes every point at which it is asked.
struct Notes(Arc<Mutex<Vec<PointId>>>);

impl JsonHook for Notes {
    fn call<'a>(&'a self, point: PointId, _: Value) -> JsonFuture<'a> {
        self.0.lock().unwrap().push(point);
        Box::pin(async { Ok(Value::Null) })
    }
}

macro_rules! note_each {
    ($($point:ident, $name:literal, $mode:ident, $family:ident, $failure:ident, $budget:literal, $access:literal,
       $injection:literal, $event:ident, $outcome:ident, $summary:literal;)*) => {
        fn note_each(snapshot: &mut Snapshot, notes: &Arc<Mutex<Vec<PointId>>>) {
            $(snapshot.on(json_hook::<points::$point>(Arc::new(Notes(Arc::clone(notes)))), options()).unwrap();)*
        }
    };
}

for_each_point!(note_each);

/// Plugins without a hook at these points are not loaded for the event: one that was fired and is not named would be a gate that nobody asks.
#[tokio::test]
async fn law_07_an_event_fires_the_points_that_it_is_said_to_fire_and_no_other() {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let engine = engine(|snapshot| note_each(snapshot, &notes));
    let mut moments = 0;
    for name in [
        "PreToolUse",
        "PermissionRequest",
        "PostToolUse",
        "PostToolUseFailure",
        "UserPromptSubmit",
        "Stop",
        "SubagentStop",
        "SubagentStart",
        "SessionStart",
        "SessionEnd",
        "PreCompact",
        "PostCompact",
        "Notification",
    ] {
        let mut payload = shell("ls");
        for (key, value) in [
            ("agent_id", json!("a7")),
            ("prompt", json!("hi")),
            ("tool_response", json!({ "stdout": "x" })),
            ("error", json!("x")),
        ] {
            payload[key] = value;
        }
        let read = Client::Claude.read(&Payload::parse(payload.to_string().as_bytes()).unwrap(), Some(name));
        let Ok(event) = read else { continue };
        told(&engine, &event).await;
        let mut fired = std::mem::take(&mut *notes.lock().unwrap());
        fired.sort_unstable();
        fired.dedup();
        let mut said = clients_points(&event);
        said.sort_unstable();
        assert_eq!(fired, said, "{name}");
        moments += 1;
    }
    assert!(moments > 10, "{moments}");
}

fn clients_points(event: &ClientEvent) -> Vec<PointId> {
    backstop_clients::points(event).to_vec()
}
