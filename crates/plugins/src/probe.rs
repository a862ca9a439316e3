//! Firing hooks of plugins with events that did not happen: to see what they say, and for the tests of their authors.
//!
//! The law: *a trial is no dispatch*. A hook is asked by the engine as it would be, with its budget, and what it answers or how it fails is
//! told; nothing comes of the answer, and nothing of it is recorded. Its code runs all the same: what it does besides answering, it does.
//!
//! Limits: a trial says nothing about other plugins and guards, which may change or stop the value before it gets there.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use backstop_engine::{Engine, JsonDispatch, NotAnEvent, OperatorSettings, OwnerSettings, Snapshot};
use backstop_hooks::{CallContext, HookId, Json, OwnerId, PointId};
use serde_json::Value;

use crate::openclaw::Scripted;
use crate::registration::{OfferKind, Registration, Seated};

/// What one hook said to an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Fired {
    /// The hook.
    pub hook: HookId,
    /// Where it stands.
    pub point: PointId,
    /// How long it took.
    pub took: Duration,
    /// What it answered; `None` for nothing, or for a point where nobody reads answers.
    pub answer: Option<Value>,
    /// How it failed.
    pub failure: Option<String>,
    /// The bytes of memory that the plugin's script used afterwards; `None` for what is no script.
    pub heap: Option<u64>,
}

/// What hooks made of an event together.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// All answers in one; `None` if nobody had one.
    pub outcome: Option<Value>,
    /// Why the value was stopped.
    pub blocked: Option<String>,
    /// How hooks failed, in their order.
    pub failures: Vec<String>,
    /// How long it took.
    pub took: Duration,
}

/// What a plugin is once it is loaded.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// What stands, waits and was left out.
    pub seated: Seated,
    /// What it registers besides hooks.
    pub offers: Vec<(OfferKind, String)>,
}

/// Fires each of the hooks that are in `standing` once, with the sample of its point.
pub(crate) async fn fire_each(
    registration: &Registration,
    script: Option<&Scripted>,
    standing: &[HookId],
    config: &Json,
) -> Vec<Fired> {
    let settings = everything(registration.owner(), config);
    let mut fired = Vec::new();
    for (hook, point, snapshot) in registration.alone(&settings) {
        if !standing.contains(&hook) {
            continue;
        }
        let begun = Instant::now();
        let told = match snapshot {
            Ok(snapshot) => fire(snapshot, point, point.sample_event(), &context()).await,
            Err(error) => Err(NotAnEvent { point, why: error.to_string() }),
        };
        let took = begun.elapsed();
        let heap = match script {
            Some(script) => script.heap().await,
            None => None,
        };
        fired.push(match told {
            Ok(told) => {
                let step = told.receipt.steps.iter().find(|step| step.hook.id == hook);
                let failure = step.and_then(|step| step.failure.as_ref());
                Fired {
                    took: step.map_or(took, |step| step.elapsed),
                    answer: told.outcome,
                    failure: failure.map(|failure| failure.message.as_str().to_owned()),
                    hook,
                    point,
                    heap,
                }
            }
            Err(error) => Fired { hook, point, took, answer: None, failure: Some(error.to_string()), heap },
        });
    }
    fired
}

/// Has all hooks of a plugin judge an event.
///
/// # Errors
///
/// [`NotAnEvent`].
pub(crate) async fn judge(
    registration: &Registration,
    point: PointId,
    event: Value,
    call: &CallContext,
    config: &Json,
) -> Result<Judged, NotAnEvent> {
    let settings = everything(registration.owner(), config);
    let mut snapshot = Snapshot::empty(settings);
    if let Err(error) = registration.seat(&mut snapshot) {
        return Err(NotAnEvent { point, why: error.to_string() });
    }
    let told = fire(snapshot, point, event, call).await?;
    let failures = told.receipt.steps.iter().filter_map(|step| {
        let failure = step.failure.as_ref()?;
        Some(format!("`{}`: {}", step.hook.id, failure.message.as_str()))
    });
    let blocked = told.blocked.map(|blocked| {
        let reason = blocked.reason.map(|reason| reason.to_string());
        reason.filter(|reason| !reason.is_empty()).unwrap_or_else(|| "it gives no reason".to_owned())
    });
    Ok(Judged { failures: failures.collect(), took: told.receipt.elapsed, blocked, outcome: told.outcome })
}

/// Whose life the samples are of.
fn context() -> CallContext {
    CallContext {
        agent_id: Some("main".into()),
        session_key: Some("agent:main:main".into()),
        session_id: Some("sample-session".into()),
        run_id: Some("sample-run".into()),
        ..CallContext::default()
    }
}

/// An operator who grants what a hook needs in order to stand: what may stand really was decided before.
fn everything(owner: &OwnerId, config: &Json) -> OperatorSettings {
    let all = OwnerSettings {
        config: config.clone(),
        allow_conversation_access: Some(true),
        allow_trusted_tool_policy: true,
        ..OwnerSettings::default()
    };
    OperatorSettings { owners: BTreeMap::from([(owner.clone(), all)]), ..OperatorSettings::default() }
}

async fn fire(
    snapshot: Snapshot,
    point: PointId,
    event: Value,
    call: &CallContext,
) -> Result<JsonDispatch, NotAnEvent> {
    Engine::builder().snapshot(snapshot).build().dispatch_json(point, event, call, true).await
}
