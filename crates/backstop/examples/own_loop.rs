//! A program with a loop of its own around a model and a tool: three hooks, one of which asks a human.
//!
//! The engine is told what is about to happen and says what may. A tool takes nothing but a permit, so the
//! loop can't run what was not judged.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;
use std::time::Instant;

use backstop::Engine;
use backstop::engine::{AskFuture, Asker, Attendance, HookOptions, Permitted};
use backstop::hooks::conversation::{Part, ToolResult};
use backstop::hooks::points::{
    AfterToolCall, AfterToolCallEvent, BeforeToolCall, ToolAfter, ToolAfterEvent, ToolAfterOutcome,
    ToolCallEvent, ToolCallOutcome,
};
use backstop::hooks::{
    ApprovalRequest, CallContext, Decision, OwnerId, Params, RunId, Text, ToolCallId, hook_fn,
};
use backstop::store::ApprovalRecord;
use serde_json::{Value, json};

type Failure = Box<dyn std::error::Error>;

/// Stands for whoever sits at your program's window.
struct Operator;

impl Asker for Operator {
    fn ask<'a>(&'a self, record: &'a ApprovalRecord) -> AskFuture<'a> {
        let yes = record.request.title.contains("push");
        println!("asked: {}? {}", record.request.title, if yes { "yes" } else { "no" });
        Box::pin(async move { Some(if yes { Decision::AllowOnce } else { Decision::Deny }) })
    }

    fn name(&self) -> &str {
        "window"
    }
}

fn command(params: &Params) -> &str {
    params.get("command").and_then(Value::as_str).unwrap_or_default()
}

/// Three hooks: one stops, one asks, one takes a secret out of results.
fn engine() -> Result<Engine, Failure> {
    let engine = Engine::builder().build();
    let options = |id: &str| HookOptions::new(OwnerId::new("my-program")).id(id);
    let no_deploy = hook_fn::<BeforeToolCall, _>(|call, _| {
        let deploys = command(&call.params).starts_with("deploy");
        Ok(deploys.then(|| ToolCallOutcome::block("deployments are done by the release team")))
    });
    engine.registry().on(no_deploy, options("no-deploy").priority(100))?;
    let ask = hook_fn::<BeforeToolCall, _>(|call, _| {
        let Some(what) = command(&call.params).strip_prefix("git ") else { return Ok(None) };
        Ok(Some(ToolCallOutcome::ask(ApprovalRequest::cut(what, "it changes what others see"))))
    });
    engine.registry().on(ask, options("ask-about-git"))?;
    let hide = hook_fn::<ToolAfter, _>(|event, _| {
        let mut result = event.result.clone();
        for part in &mut result.content {
            if let Part::Text { text, .. } = part {
                *text = Text::from(text.replace("hunter2", "[password]"));
            }
        }
        Ok((result != event.result).then(|| ToolAfterOutcome { result: Some(result) }))
    });
    // What a mutator can't do anything about is withheld: a hook that fails here blocks.
    engine.registry().on(hide, options("hide-passwords"))?;
    Ok(engine)
}

/// The tool. It takes a permit, and there is no other way to get one than [`Engine::permit_tool_call`].
fn run(call: &Permitted<ToolCallEvent>) -> String {
    format!("ran `{}`; the password is hunter2", command(&call.params))
}

/// One turn of the loop: what the model gets to read about its call.
async fn turn(engine: &Engine, id: &str, arguments: Value) -> Result<String, Failure> {
    let context = CallContext { run_id: Some(RunId::new("run-1")), ..CallContext::default() };
    let params = Params::from_value(arguments).ok_or("a tool's arguments are an object")?;
    let call = ToolCallEvent::new("exec", params.clone())
        .run_id(RunId::new("run-1"))
        .tool_call_id(ToolCallId::new(id));
    let asker = Attendance::Present(Arc::new(Operator));
    let permit = match engine.permit_tool_call(call, &context, &asker).await.permit {
        Ok(permit) => permit,
        Err(blocked) => return Ok(format!("blocked: {}", blocked.reason_or_default())),
    };
    let begun = Instant::now();
    let result = ToolResult {
        tool_call_id: ToolCallId::new(id),
        tool_name: Some("exec".to_owned()),
        content: vec![Part::text(run(&permit))],
        is_error: false,
        details: None,
        meta: None,
    };
    let event = ToolAfterEvent::new("exec", id, false, result).params(permit.params.clone());
    let result = match engine.decide::<ToolAfter>(event, &context).await.permit() {
        Ok(event) => event.result.clone(),
        Err(blocked) => return Ok(format!("withheld: {}", blocked.reason_or_default())),
    };
    let millis = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let ran = AfterToolCallEvent::new("exec", permit.params.clone(), millis).result(result.clone());
    engine.observe::<AfterToolCall>(&ran, &context).await;
    Ok(result.visible_text())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Failure> {
    let engine = engine()?;
    let script = [
        ("call-1", "deploy now", "blocked: deployments are done by the release team"),
        ("call-2", "git push", "ran `git push`; the password is [password]"),
        ("call-3", "git rebase", "blocked: denied by a human: rebase. the tool call did not run"),
        ("call-4", "ls", "ran `ls`; the password is [password]"),
    ];
    for (id, command, expected) in script {
        let read = turn(&engine, id, json!({ "command": command })).await?;
        println!("{command}: {read}");
        assert_eq!(read, expected);
    }
    // What was decided in a run is forgotten at its end, and what it still asked is closed.
    engine.end_run(None, &RunId::new("run-1")).await?;
    Ok(())
}
