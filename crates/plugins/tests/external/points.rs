//! The conformance cases of every point with the real engine.
//!
//! The relation: *what a program of an SDK says counts as much as what a hook of this process says*. At every point, each answer of the
//! cases, silence and a failure come to the same outcome, the same block and the same kind of step, whoever gives them.

use std::path::Path;
use std::sync::Arc;

use backstop_engine::{Budget, Engine, OperatorSettings, OwnerSettings, Receipt, Snapshot};
use backstop_hooks::{
    CallContext, Claim, ClaimPoint, DecidePoint, HookError, JsonFuture, JsonHook, ObservePoint, Point,
    PointId, for_each_point, points,
};
use backstop_plugins::external::process::{ProcessPlugin, ProcessSettings};
use backstop_plugins::registration::{HookSpec, Registration};
use serde::Deserialize;
use serde_json::Value;

use crate::support::patient;

const SDK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk");
/// As long as the programs of the cases say.
const BUDGET_MS: u64 = 60_000;

#[derive(Clone, Deserialize)]
struct Case {
    point: String,
    event: Value,
    answers: Vec<Value>,
    silence: Value,
}

#[derive(Deserialize)]
struct Cases {
    points: Vec<Case>,
}

fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(format!("{SDK}/conformance/points.json")).unwrap();
    serde_json::from_str::<Cases>(&text).unwrap().points
}

/// A hook of this process that says the same.
struct Twin(Result<Value, &'static str>);

impl JsonHook for Twin {
    fn call<'a>(&'a self, _: PointId, _: Value) -> JsonFuture<'a> {
        let said = self.0.clone().map_err(HookError::failed);
        Box::pin(async move { said })
    }
}

/// What the hooks of this name say, by their case; nothing where a case has none of this name.
fn said(case: &Case, name: &str, failure: &'static str) -> Option<Twin> {
    match name {
        "silent" => Some(Twin(Ok(case.silence.clone()))),
        "fails" => Some(Twin(Err(failure))),
        number => case.answers.get(number.parse::<usize>().unwrap()).map(|answer| Twin(Ok(answer.clone()))),
    }
}

fn engine_with(registration: &Registration) -> Engine {
    let mut settings = OperatorSettings::default();
    let all = OwnerSettings {
        allow_conversation_access: Some(true),
        allow_trusted_tool_policy: true,
        ..OwnerSettings::default()
    };
    settings.owners.insert(registration.owner().clone(), all);
    let mut snapshot = Snapshot::empty(settings);
    let seated = registration.seat(&mut snapshot).unwrap();
    assert!(seated.left_out.is_empty(), "{:?}", seated.left_out);
    Engine::builder().snapshot(snapshot).build()
}

fn twins(cases: &[Case], name: &str, failure: &'static str) -> Engine {
    let mut registration = Registration::new("mine").unwrap();
    for case in cases {
        let Some(twin) = said(case, name, failure) else { continue };
        let mut spec = HookSpec::at(&case.point, format!("{}/{name}", case.point)).unwrap();
        spec.timeout = Some(Budget::from_millis(BUDGET_MS).unwrap());
        registration.hook(spec, Arc::new(twin)).unwrap();
    }
    engine_with(&registration)
}

async fn program(settings: ProcessSettings) -> (ProcessPlugin, Engine) {
    let plugin = ProcessPlugin::start(settings).await.unwrap();
    let mut registration = Registration::new("mine").unwrap();
    plugin.register(&mut registration, |hook| hook).unwrap();
    let engine = engine_with(&registration);
    (plugin, engine)
}

/// The program of the cases, with the hooks of one name.
fn settings(runtime: &str, file: &str, name: &str) -> ProcessSettings {
    let mut settings = patient("", Path::new("/"));
    settings.program = runtime.into();
    settings.arguments = vec![format!("{SDK}/{file}").into(), name.into()];
    settings.environment.insert("PYTHONPATH".into(), format!("{SDK}/python/src").into());
    settings.environment.insert("PYTHONDONTWRITEBYTECODE".into(), "1".into());
    settings
}

/// What came of an event.
#[derive(Debug, PartialEq)]
struct Told {
    outcome: Option<Value>,
    blocked: Option<String>,
    steps: usize,
    failed: bool,
}

impl Told {
    fn new(outcome: Option<Value>, blocked: Option<String>, receipt: &Receipt) -> Self {
        let failed = receipt.steps.iter().any(|step| step.failure.is_some());
        Self { outcome, blocked, steps: receipt.steps.len(), failed }
    }
}

async fn decided<P: DecidePoint>(engine: &Engine, event: P::Event) -> Told {
    let parts = engine.explain::<P>(event, &CallContext::default()).await.into_parts();
    let blocked =
        parts.blocked.map(|blocked| blocked.reason.map(|reason| reason.to_string()).unwrap_or_default());
    Told::new(serde_json::to_value(&parts.outcome).ok(), blocked, &parts.receipt)
}

async fn observed<P: ObservePoint>(engine: &Engine, event: P::Event) -> Told {
    Told::new(None, None, &engine.observe::<P>(&event, &CallContext::default()).await)
}

async fn claimed<P: ClaimPoint>(engine: &Engine, event: P::Event) -> Told
where
    P::Outcome: Claim,
{
    let claimed = engine.claim::<P>(&event, &CallContext::default()).await;
    let blocked =
        claimed.blocked.map(|blocked| blocked.reason.map(|reason| reason.to_string()).unwrap_or_default());
    Told::new(serde_json::to_value(&claimed.outcome).ok(), blocked, &claimed.receipt)
}

fn event_of<P: Point>(event: Value) -> P::Event {
    serde_json::from_value(event).unwrap()
}

macro_rules! ask {
    (Decide, $($rest:tt)*) => { decided::<$($rest)*> };
    (Observe, $($rest:tt)*) => { observed::<$($rest)*> };
    (Claim, $($rest:tt)*) => { claimed::<$($rest)*> };
}

macro_rules! ask_at_each {
    ($($point:ident, $name:literal, $mode:ident, $family:ident, $failure:ident, $budget:literal, $access:literal,
       $injection:literal, $event:ident, $outcome:ident, $summary:literal;)*) => {
        async fn asked(engine: &Engine, case: &Case) -> Told {
            match case.point.parse::<PointId>().unwrap() {
                $(PointId::$point => {
                    let event = event_of::<points::$point>(case.event.clone());
                    Box::pin(ask!($mode, points::$point)(engine, event)).await
                })*
            }
        }
    };
}

for_each_point!(ask_at_each);

/// `failure` is what the language makes of the words of the hooks that fail.
async fn holds(runtime: &str, file: &str, failure: &'static str) {
    let cases = cases();
    assert_eq!(cases.len(), PointId::ALL.len());
    let most = cases.iter().map(|case| case.answers.len()).max().unwrap();
    let names = (0..most).map(|number| number.to_string()).chain(["silent".to_owned(), "fails".to_owned()]);
    for name in names {
        let twins = twins(&cases, &name, failure);
        let (plugin, engine) = program(settings(runtime, file, &name)).await;
        for case in cases.iter().filter(|case| said(case, &name, failure).is_some()) {
            let (expected, got) = (asked(&twins, case).await, asked(&engine, case).await);
            let what = format!("{}/{name} under {runtime}", case.point);
            assert_eq!(got, expected, "{what}");
            assert!(got.steps > 0, "{what} was not asked");
            // Some of the later answers of a case are refused: a reason for a block that there is not.
            match name.as_str() {
                "fails" => assert!(got.failed, "{what}: {got:?}"),
                "silent" | "0" => assert!(!got.failed, "{what}: {got:?}"),
                _ => {}
            }
        }
        plugin.shut_down().await;
    }
}

#[tokio::test]
async fn every_answer_in_python_counts_as_it_does_in_this_process() {
    holds("python3", "python/tests/points_fixture.py", "RuntimeError: out of order").await;
}

#[tokio::test]
async fn every_answer_in_javascript_counts_as_it_does_in_this_process() {
    holds("node", "typescript/tests/points.fixture.js", "Error: out of order").await;
}
