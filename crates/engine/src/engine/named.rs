//! Dispatches at points that are known by name only: for hosts whose events come as JSON.

use backstop_hooks::points;
use backstop_hooks::{
    CallContext, Claim, ClaimPoint, DecidePoint, ObservePoint, Point, PointId, for_each_point,
};
use serde::Serialize;
use serde_json::Value;

use super::Engine;
use crate::receipt::{Blocked, Receipt};

/// The result of a dispatch whose event came as JSON.
#[derive(Debug)]
pub struct JsonDispatch {
    /// The merged answer; `None` if nobody answered, or at a point where nobody reads answers.
    pub outcome: Option<Value>,
    /// Whether it was stopped.
    pub blocked: Option<Blocked>,
    /// The record.
    pub receipt: Receipt,
}

/// Something that was to be an event, and is none of its point.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no event of `{point}`: {why}\nhint: its fields are in the reference of the hook points")]
pub struct NotAnEvent {
    /// The point.
    pub point: PointId,
    /// What is wrong.
    pub why: String,
}

impl Engine {
    /// Lets the hooks at `point` judge, take or watch an event in its JSON form (without `context`). With `explain`, a
    /// deciding dispatch leaves no record with the sinks, and its receipt contains what each hook saw and answered.
    ///
    /// A tool call is permitted by all of its gates, and this asks those of one point. For a tool call, see
    /// [`Engine::permit_tool_call`] and [`Engine::review_tool_call`].
    ///
    /// # Errors
    ///
    /// [`NotAnEvent`] if the value is not an event of the point; no hook was asked.
    pub async fn dispatch_json(
        &self,
        point: PointId,
        event: Value,
        call: &CallContext,
        explain: bool,
    ) -> Result<JsonDispatch, NotAnEvent> {
        dispatch(self, point, event, call, explain).await
    }
}

async fn decided<P: DecidePoint>(
    engine: &Engine,
    event: P::Event,
    call: &CallContext,
    explain: bool,
) -> JsonDispatch {
    let decided = match explain {
        true => engine.explain::<P>(event, call).await,
        false => engine.decide::<P>(event, call).await,
    };
    let parts = decided.into_parts();
    JsonDispatch { outcome: said(&parts.outcome), blocked: parts.blocked, receipt: parts.receipt }
}

async fn observed<P: ObservePoint>(
    engine: &Engine,
    event: P::Event,
    call: &CallContext,
    _explain: bool,
) -> JsonDispatch {
    JsonDispatch { outcome: None, blocked: None, receipt: engine.observe::<P>(&event, call).await }
}

async fn claimed<P: ClaimPoint>(
    engine: &Engine,
    event: P::Event,
    call: &CallContext,
    _explain: bool,
) -> JsonDispatch
where
    P::Outcome: Claim,
{
    let claimed = engine.claim::<P>(&event, call).await;
    JsonDispatch {
        outcome: claimed.outcome.as_ref().and_then(said),
        blocked: claimed.blocked,
        receipt: claimed.receipt,
    }
}

/// Returns an outcome as JSON, unless nobody has said anything.
fn said(outcome: &(impl Serialize + Default + PartialEq)) -> Option<Value> {
    // Outcomes are plain records of the contract; all of them have a JSON form.
    (*outcome != Default::default()).then(|| serde_json::to_value(outcome).unwrap_or_default())
}

macro_rules! at {
    (Decide, $point:ty) => {
        decided::<$point>
    };
    (Observe, $point:ty) => {
        observed::<$point>
    };
    (Claim, $point:ty) => {
        claimed::<$point>
    };
}

macro_rules! dispatch_at_each {
    ($($point:ident, $name:literal, $mode:ident, $family:ident, $failure:ident, $budget:literal, $access:literal,
       $injection:literal, $event:ident, $outcome:ident, $summary:literal;)*) => {
        async fn dispatch(
            engine: &Engine,
            point: PointId,
            event: Value,
            call: &CallContext,
            explain: bool,
        ) -> Result<JsonDispatch, NotAnEvent> {
            match point {
                $(PointId::$point => {
                    let event = event_of::<points::$point>(event)?;
                    Ok(Box::pin(at!($mode, points::$point)(engine, event, call, explain)).await)
                })*
            }
        }
    };
}

for_each_point!(dispatch_at_each);

fn event_of<P: Point>(event: Value) -> Result<P::Event, NotAnEvent> {
    serde_json::from_value(event).map_err(|error| NotAnEvent { point: P::INFO.id, why: error.to_string() })
}
