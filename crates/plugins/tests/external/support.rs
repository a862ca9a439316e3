//! An engine with one plugin, and what it says about a call.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop_engine::{
    Attendance, BlockCause, Engine, FailureKind, OperatorSettings, OwnerSettings, Receipt, Snapshot,
    ToolVerdict,
};
use backstop_hooks::points::{AfterToolCall, AfterToolCallEvent, ToolCallEvent};
use backstop_hooks::{CallContext, Json, JsonHook, Params, PointId};
use backstop_plugins::external::process::{Limits, ProcessPlugin, ProcessSettings, StartError};
use backstop_plugins::registration::{HookSpec, Registration};
use serde_json::json;

pub(crate) const CHILD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/external/children.py");
/// How long a test waits for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn engine_with(registration: &Registration) -> Engine {
    let mut settings = OperatorSettings::default();
    let access = OwnerSettings { allow_conversation_access: Some(true), ..OwnerSettings::default() };
    settings.owners.insert(registration.owner().clone(), access);
    let mut snapshot = Snapshot::empty(settings);
    registration.seat(&mut snapshot).unwrap();
    let engine = Engine::builder().build();
    engine.registry().replace(snapshot);
    engine
}

/// An engine in which one hook stands at one point.
pub(crate) fn engine_of(point: PointId, hook: impl JsonHook) -> Engine {
    let mut registration = Registration::new("mine").unwrap();
    registration.hook(HookSpec::at(point.name(), "h").unwrap(), Arc::new(hook)).unwrap();
    engine_with(&registration)
}

pub(crate) fn limits() -> Limits {
    let short = Duration::from_millis(300);
    Limits { grace: short, most_line: 100_000, most_unasked: 100_000, ..Limits::default() }
}

pub(crate) fn settings(kind: &str, folder: &Path) -> ProcessSettings {
    ProcessSettings {
        plugin: "mine".to_owned(),
        program: "python3".into(),
        arguments: vec![CHILD.into(), kind.into(), folder.into()],
        directory: folder.to_owned(),
        environment: BTreeMap::from([("PATH".into(), std::env::var_os("PATH").unwrap())]),
        config: Json::new(json!({ "answer": 42 })),
        limits: limits(),
        seal: None,
    }
}

/// As [`settings`], with all the time that a busy machine may need.
pub(crate) fn patient(kind: &str, folder: &Path) -> ProcessSettings {
    let patience = Duration::from_secs(120);
    let limits = Limits { start: patience, stall: patience, cancel_grace: patience, ..limits() };
    ProcessSettings { limits, ..settings(kind, folder) }
}

pub(crate) async fn start(settings: ProcessSettings) -> Result<(ProcessPlugin, Engine), StartError> {
    let plugin = ProcessPlugin::start(settings).await?;
    let mut registration = Registration::new("mine").unwrap();
    plugin.register(&mut registration, |hook| hook).unwrap();
    Ok((plugin, engine_with(&registration)))
}

pub(crate) async fn started(kind: &str, folder: &Path) -> (ProcessPlugin, Engine) {
    start(settings(kind, folder)).await.unwrap()
}

pub(crate) fn exec(command: &str) -> ToolCallEvent {
    let params = Params::from_value(json!({ "command": command })).unwrap();
    ToolCallEvent::new("exec", params)
}

pub(crate) async fn judge(engine: &Engine, command: &str) -> ToolVerdict {
    judge_in(engine, command, &CallContext::default()).await
}

pub(crate) async fn judge_in(engine: &Engine, command: &str, context: &CallContext) -> ToolVerdict {
    engine.permit_tool_call(exec(command), context, &Attendance::Nobody).await
}

/// The kind of failure by which a call is blocked, and its words.
pub(crate) async fn failure(engine: &Engine, command: &str) -> (FailureKind, String) {
    let verdict = judge(engine, command).await;
    let blocked = verdict.permit.unwrap_err();
    let BlockCause::Failure { kind } = blocked.cause else { panic!("{blocked:?}") };
    let failure = verdict.receipt.steps[0].failure.as_ref().unwrap();
    assert_eq!(failure.kind, kind);
    (kind, failure.message.to_string())
}

pub(crate) async fn passes(engine: &Engine, command: &str) -> bool {
    judge(engine, command).await.permit.is_ok()
}

pub(crate) async fn observe(engine: &Engine, command: &str) -> Receipt {
    let params = Params::from_value(json!({ "command": command })).unwrap();
    let event = AfterToolCallEvent::new("exec", params, 1_u64);
    engine.observe::<AfterToolCall>(&event, &CallContext::default()).await
}

/// Waits for something that the other side does.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// When the process of this number began, if there is one: with its number, its identity.
pub(crate) fn begun(pid: &str) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).ok()?;
    stat.rsplit(") ").next()?.split_ascii_whitespace().nth(19).map(str::to_owned)
}

/// Whether there is such a process that is not merely waiting to be collected.
pub(crate) fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !stat.is_empty() && !rest.starts_with(['Z', 'X']))
}
