//! The ways to write a hook that are not typed hooks: interceptors, verdict hooks and span redactors.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail loudly")]

mod interceptors;
mod redactors;
mod verdict_lives;
mod verdicts;

use std::sync::{Arc, Mutex};

use backstop_engine::{Attendance, Engine, ToolVerdict};
use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{CallContext, Params};
use serde_json::{Value, json};

/// What was noted, in order.
type Notes = Arc<Mutex<Vec<String>>>;

fn note(notes: &Notes, text: impl Into<String>) {
    notes.lock().unwrap().push(text.into());
}

fn taken(notes: &Notes) -> Vec<String> {
    std::mem::take(&mut notes.lock().unwrap())
}

fn params(value: Value) -> Params {
    serde_json::from_value(value).unwrap()
}

fn tool_call(tool: &str, command: &str) -> ToolCallEvent {
    ToolCallEvent::new(tool, params(json!({ "command": command })))
        .tool_call_id(backstop_hooks::ToolCallId::from("call-1"))
}

fn context(agent: &str) -> CallContext {
    CallContext {
        agent_id: Some(agent.into()),
        session_id: Some("session-1".into()),
        ..CallContext::default()
    }
}

async fn permit(engine: &Engine, tool: &str, command: &str) -> ToolVerdict {
    engine.permit_tool_call(tool_call(tool, command), &context("main"), &Attendance::Nobody).await
}

fn command(params: &Params) -> &str {
    params["command"].as_str().unwrap()
}
