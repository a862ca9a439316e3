//! An engine with one asking hook over a store of either form.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_engine::{
    ApprovalSettings, AskFuture, Asker, Attendance, Engine, HookOptions, Masker, ToolVerdict,
};
use backstop_hooks::points::{BeforeToolCall, ToolCallEvent, ToolCallOutcome};
use backstop_hooks::{ApprovalRequest, CallContext, Decision, OwnerId, Resolution, TimeoutBehavior, hook_fn};
use backstop_store::{ApprovalFilter, ApprovalRecord, ApprovalStatus, SqliteStore, Store};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Masks one word.
#[derive(Debug)]
pub(crate) struct Word;

impl Masker for Word {
    fn mask(&self, value: &mut Value) -> usize {
        let text = value.to_string();
        *value = serde_json::from_str(&text.replace("hunter2", "*******")).unwrap();
        text.matches("hunter2").count()
    }
}

pub(crate) struct Form {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) folder: Option<TempDir>,
}

pub(crate) fn memory() -> Form {
    Form { store: Arc::new(SqliteStore::in_memory()), folder: None }
}

pub(crate) fn sqlite() -> Form {
    let folder = TempDir::new().unwrap();
    Form { store: Arc::new(SqliteStore::new(folder.path().join("state.db"))), folder: Some(folder) }
}

/// One test per suite and form of store.
macro_rules! over_both_stores {
    ($($suite:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $suite() {
                super::$suite(crate::support::memory().store).await;
            })*
        }

        mod sqlite {
            $(#[tokio::test]
            async fn $suite() {
                let form = crate::support::sqlite();
                super::$suite(form.store.clone()).await;
            })*
        }
    };
}
pub(crate) use over_both_stores;

pub(crate) type Told = Arc<Mutex<Vec<Resolution>>>;

pub(crate) fn told(told: &Told) -> Vec<Resolution> {
    told.lock().unwrap().clone()
}

/// An engine whose one hook asks about every call, and what it was told.
pub(crate) fn asking(store: Arc<dyn Store>, request: ApprovalRequest) -> (Engine, Told) {
    let engine = Engine::builder()
        .store(store)
        .approvals(ApprovalSettings { listener_budget: Duration::from_millis(200), ..Default::default() })
        .build();
    let told = ask_more(&engine, "asks", request);
    (engine, told)
}

/// One more hook that asks about every call.
pub(crate) fn ask_more(engine: &Engine, id: &str, request: ApprovalRequest) -> Told {
    let told = Told::default();
    let listener = Arc::clone(&told);
    let request = request.on_resolution(move |resolution| {
        listener.lock().unwrap().push(resolution);
        async { None }
    });
    ask_exactly(engine, id, request);
    told
}

pub(crate) fn ask_exactly(engine: &Engine, id: &str, request: ApprovalRequest) {
    let hook = hook_fn::<BeforeToolCall, _>(move |_, _| Ok(Some(ToolCallOutcome::ask(request.clone()))));
    engine.registry().on(hook, HookOptions::new(OwnerId::new("plugin")).id(id)).unwrap();
}

pub(crate) fn request() -> ApprovalRequest {
    ApprovalRequest::new("May it run?", "It could do harm.").unwrap()
}

pub(crate) fn waiting(ms: u64, behavior: TimeoutBehavior) -> ApprovalRequest {
    request().timeout(Duration::from_millis(ms), behavior).unwrap()
}

pub(crate) fn exec(command: &str) -> ToolCallEvent {
    ToolCallEvent::new("exec", backstop_hooks::Params::from_value(json!({ "command": command })).unwrap())
        .run_id(backstop_hooks::RunId::from("run"))
        .tool_call_id(backstop_hooks::ToolCallId::from("call"))
}

pub(crate) fn context() -> CallContext {
    CallContext {
        agent_id: Some("main".into()),
        session_key: Some("main".into()),
        session_id: Some("session".into()),
        run_id: Some("run".into()),
        ..CallContext::default()
    }
}

pub(crate) async fn permit(engine: &Engine, command: &str, attendance: &Attendance) -> ToolVerdict {
    engine.permit_tool_call(exec(command), &context(), attendance).await
}

pub(crate) fn reason(verdict: &ToolVerdict) -> String {
    verdict.permit.as_ref().unwrap_err().reason_or_default().to_string()
}

pub(crate) fn resolution(verdict: &ToolVerdict) -> Resolution {
    verdict.receipt.approval.as_ref().unwrap().resolution.unwrap()
}

/// The rows that there are, the newest first.
pub(crate) async fn rows(store: &Arc<dyn Store>) -> Vec<ApprovalRecord> {
    store.approvals(ApprovalFilter::All, 100).await.unwrap()
}

pub(crate) async fn status(store: &Arc<dyn Store>) -> ApprovalStatus {
    rows(store).await[0].state.status()
}

/// Waits until a question is open.
pub(crate) async fn pending(store: &Arc<dyn Store>) -> ApprovalRecord {
    loop {
        if let Some(row) = store.approvals(ApprovalFilter::Pending, 1).await.unwrap().pop() {
            return row;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A human who always says the same, or nothing at all.
pub(crate) struct Human(pub(crate) Option<Decision>);

impl Human {
    pub(crate) fn says(decision: Decision) -> Attendance {
        Attendance::Present(Arc::new(Self(Some(decision))))
    }

    /// Somebody who looks at the question and never answers.
    pub(crate) fn stares() -> Attendance {
        struct Stares;
        impl Asker for Stares {
            fn ask<'a>(&'a self, _: &'a ApprovalRecord) -> AskFuture<'a> {
                Box::pin(std::future::pending())
            }
            fn name(&self) -> &str {
                "stares"
            }
        }
        Attendance::Present(Arc::new(Stares))
    }

    /// An asker that breaks.
    pub(crate) fn panics() -> Attendance {
        struct Panics;
        impl Asker for Panics {
            fn ask<'a>(&'a self, _: &'a ApprovalRecord) -> AskFuture<'a> {
                panic!("on purpose")
            }
            fn name(&self) -> &str {
                "panics"
            }
        }
        Attendance::Present(Arc::new(Panics))
    }
}

impl Asker for Human {
    fn ask<'a>(&'a self, _: &'a ApprovalRecord) -> AskFuture<'a> {
        Box::pin(std::future::ready(self.0))
    }

    fn name(&self) -> &str {
        "human"
    }
}
