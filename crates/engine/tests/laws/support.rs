//! What the laws share.

use std::sync::{Arc, Mutex};

use backstop_engine::{
    Attendance, Engine, HookOptions, OperatorSettings, Receipt, ReceiptSink, Snapshot, ToolVerdict,
};
use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{CallContext, FailurePolicy, Hook, HookId, OwnerId, Params, Point};
use serde_json::{Value, json};

/// An engine that nobody watches.
pub(crate) fn engine() -> Engine {
    Engine::builder().build()
}

/// A sink that keeps everything.
#[derive(Default)]
pub(crate) struct Kept(pub(crate) Mutex<Vec<Receipt>>);

impl Kept {
    pub(crate) fn take(&self) -> Vec<Receipt> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl ReceiptSink for Kept {
    fn record(&self, receipt: &Receipt) {
        self.0.lock().unwrap().push(receipt.clone());
    }
}

pub(crate) fn watched() -> (Engine, Arc<Kept>) {
    let kept = Arc::new(Kept::default());
    (Engine::builder().sink(Arc::clone(&kept) as Arc<dyn ReceiptSink>).build(), kept)
}

pub(crate) fn engine_with(settings: OperatorSettings) -> Engine {
    Engine::builder().snapshot(Snapshot::empty(settings)).build()
}

pub(crate) fn options(id: &str, priority: i32) -> HookOptions {
    HookOptions::new(OwnerId::operator()).id(id).priority(priority)
}

/// Registers a hook of the operator's.
pub(crate) fn on<P: Point>(engine: &Engine, id: &str, priority: i32, hook: Arc<dyn Hook<P>>) -> HookId {
    engine.registry().on::<P>(hook, options(id, priority)).unwrap()
}

/// Registers a hook whose failure means `policy`.
pub(crate) fn on_failing<P: Point>(engine: &Engine, id: &str, policy: FailurePolicy, hook: Arc<dyn Hook<P>>) {
    let options = HookOptions { on_failure: Some(policy), ..options(id, 0) };
    engine.registry().on::<P>(hook, options).unwrap();
}

pub(crate) fn params(value: Value) -> Params {
    serde_json::from_value(value).unwrap()
}

pub(crate) fn exec(command: &str) -> ToolCallEvent {
    tool_call("exec", json!({ "command": command }))
}

pub(crate) fn tool_call(tool: &str, arguments: Value) -> ToolCallEvent {
    ToolCallEvent::new(tool, params(arguments))
        .run_id(backstop_hooks::RunId::from("run-1"))
        .tool_call_id(backstop_hooks::ToolCallId::from("call-1"))
}

pub(crate) fn command(event: &ToolCallEvent) -> String {
    event.params.get("command").and_then(Value::as_str).unwrap_or_default().to_owned()
}

pub(crate) fn context() -> CallContext {
    in_run("session-1", "run-1")
}

pub(crate) fn in_run(session: &str, run: &str) -> CallContext {
    CallContext {
        agent_id: Some("main".into()),
        session_key: Some("main".into()),
        session_id: Some(session.into()),
        run_id: Some(run.into()),
        ..CallContext::default()
    }
}

/// Takes a call through every gate where nobody can be asked.
pub(crate) async fn permit(engine: &Engine, event: ToolCallEvent) -> ToolVerdict {
    engine.permit_tool_call(event, &context(), &Attendance::Nobody).await
}

/// Runs async code with a clock that jumps over waiting.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(work)
}
