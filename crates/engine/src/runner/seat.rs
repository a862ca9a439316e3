//! Seats: hooks in the order in which a chain asks them.
//!
//! At most points, hooks form a chain of their own. The hooks of the three points in front of a tool call share
//! one chain, because they share one value: what one of them rewrites, the others judge again, whichever point they were
//! registered at. A [`ToolSeat`] therefore translates its hook's answers into those of `before_tool_call`.

use std::future::Future;
use std::sync::Arc;

use backstop_hooks::points::{
    BeforeToolCall, ToolBefore, ToolBeforeEvent, ToolBeforeOutcome, ToolCallEvent, ToolCallOutcome,
    TrustedPolicyOutcome, TrustedToolPolicy,
};
use backstop_hooks::{CallContext, Context, Event, Outcome, Point, event_json};
use serde::Serialize;
use tokio::time::Instant;

use super::call::{Asked, Beside, ask};
use super::together::{BatchKey, ask_together};
use crate::hook_options::HookMeta;
use crate::receipt::StepDetail;
use crate::registry::Entry;

/// What one hook said.
pub(crate) struct Reply<O> {
    /// Its answer, or why it has none.
    pub(crate) answer: Asked<O>,
    /// When the answer was there.
    pub(crate) end: Instant,
    /// What it saw and said, for `explain`.
    pub(crate) detail: Option<Box<StepDetail>>,
}

/// One hook's place in a chain over values of one type.
pub(crate) trait Seat: Copy + Send + Sync {
    /// The value.
    type Value: Clone + PartialEq + Send + Sync + 'static;
    /// What is said about it.
    type Outcome: Outcome;

    fn meta(&self) -> &Arc<HookMeta>;

    /// Asks the hook about a value. With `capture` it is kept what the hook saw and said.
    fn ask(
        &self,
        value: &Self::Value,
        call: &CallContext,
        beside: Beside<'_>,
        start: Instant,
        capture: bool,
    ) -> impl Future<Output = Reply<Self::Outcome>> + Send;

    /// Returns the batch that the hook is in.
    fn batch(&self) -> Option<BatchKey>;

    /// Asks hooks of one batch in their order, until one says something or fails. Those behind it have no reply.
    fn ask_together(
        seats: &[Self],
        value: &Self::Value,
        call: &CallContext,
        beside: Beside<'_>,
        start: Instant,
    ) -> impl Future<Output = Vec<Reply<Self::Outcome>>> + Send;

    /// Takes over what an answer changes in the value. Returns whether it is now another one.
    fn absorb(value: &mut Self::Value, answer: &Self::Outcome) -> bool;

    /// Returns whether an answer would change something: the value, or what is answered where nothing of it goes into the value.
    fn changes(value: &Self::Value, answer: &Self::Outcome) -> bool {
        Self::absorb(&mut value.clone(), answer)
    }
}

impl<P: Point> Seat for &Entry<P> {
    type Value = P::Event;
    type Outcome = P::Outcome;

    fn meta(&self) -> &Arc<HookMeta> {
        &self.meta
    }

    async fn ask(
        &self,
        value: &P::Event,
        call: &CallContext,
        beside: Beside<'_>,
        start: Instant,
        capture: bool,
    ) -> Reply<P::Outcome> {
        let (answer, end) = ask(self, value, call, beside, start).await;
        let detail = capture.then(|| detail(self, value, call, &answer));
        Reply { answer, end, detail }
    }

    fn batch(&self) -> Option<BatchKey> {
        BatchKey::of(self)
    }

    async fn ask_together(
        seats: &[Self],
        value: &P::Event,
        call: &CallContext,
        beside: Beside<'_>,
        start: Instant,
    ) -> Vec<Reply<P::Outcome>> {
        replies(ask_together(seats, value, call, beside, start).await)
    }

    fn absorb(value: &mut P::Event, answer: &P::Outcome) -> bool {
        value.absorb(answer)
    }

    fn changes(value: &P::Event, answer: &P::Outcome) -> bool {
        if P::Event::ABSORBS { value.clone().absorb(answer) } else { *answer != P::Outcome::default() }
    }
}

/// A hook at one of the points in front of a tool call.
pub(crate) enum ToolSeat<'a> {
    Policy(&'a Entry<TrustedToolPolicy>),
    Interceptor(&'a Entry<ToolBefore>),
    Hook(&'a Entry<BeforeToolCall>),
}

impl Clone for ToolSeat<'_> {
    fn clone(&self) -> Self {
        *self
    }
}

impl Copy for ToolSeat<'_> {}

impl Seat for ToolSeat<'_> {
    type Value = ToolCallEvent;
    type Outcome = ToolCallOutcome;

    fn meta(&self) -> &Arc<HookMeta> {
        match self {
            Self::Policy(entry) => &entry.meta,
            Self::Interceptor(entry) => &entry.meta,
            Self::Hook(entry) => &entry.meta,
        }
    }

    async fn ask(
        &self,
        value: &ToolCallEvent,
        call: &CallContext,
        beside: Beside<'_>,
        start: Instant,
        capture: bool,
    ) -> Reply<ToolCallOutcome> {
        match self {
            Self::Policy(entry) => Seat::ask(entry, value, call, beside, start, capture).await.map(of_policy),
            Self::Interceptor(entry) => {
                let value = as_interceptor_event(value);
                Seat::ask(entry, &value, call, beside, start, capture).await.map(of_interceptor)
            }
            Self::Hook(entry) => Seat::ask(entry, value, call, beside, start, capture).await,
        }
    }

    /// Only typed hooks are in batches; the other two kinds are few.
    fn batch(&self) -> Option<BatchKey> {
        match self {
            Self::Hook(entry) => BatchKey::of(entry),
            Self::Policy(_) | Self::Interceptor(_) => None,
        }
    }

    async fn ask_together(
        seats: &[Self],
        value: &ToolCallEvent,
        call: &CallContext,
        beside: Beside<'_>,
        start: Instant,
    ) -> Vec<Reply<ToolCallOutcome>> {
        let entries = seats.iter().filter_map(|seat| match seat {
            Self::Hook(entry) => Some(*entry),
            Self::Policy(_) | Self::Interceptor(_) => None,
        });
        let entries: Vec<_> = entries.collect();
        replies(ask_together(&entries, value, call, beside, start).await)
    }

    fn absorb(value: &mut ToolCallEvent, answer: &ToolCallOutcome) -> bool {
        value.absorb(answer)
    }
}

fn replies<O>(heard: Vec<(Asked<O>, Instant)>) -> Vec<Reply<O>> {
    heard.into_iter().map(|(answer, end)| Reply { answer, end, detail: None }).collect()
}

impl<O> Reply<O> {
    fn map<U>(self, other: impl FnOnce(O) -> U) -> Reply<U> {
        Reply {
            answer: self.answer.map(|said| said.map(|said| Box::new(other(*said)))),
            end: self.end,
            detail: self.detail,
        }
    }
}

fn as_interceptor_event(event: &ToolCallEvent) -> ToolBeforeEvent {
    ToolBeforeEvent::new(
        event.tool_name.clone(),
        event.tool_call_id.clone().unwrap_or_else(|| "".into()),
        event.params.clone(),
    )
    .tool_kind(event.tool_kind.clone())
}

fn of_policy(said: TrustedPolicyOutcome) -> ToolCallOutcome {
    let TrustedPolicyOutcome { params, block, block_reason, require_approval } = said;
    ToolCallOutcome { params, block, block_reason, require_approval }
}

fn of_interceptor(said: ToolBeforeOutcome) -> ToolCallOutcome {
    let ToolBeforeOutcome { args, block, block_reason, require_approval } = said;
    ToolCallOutcome { params: args, block, block_reason, require_approval }
}

/// Returns what a hook saw and said.
pub(super) fn detail<P: Point>(
    entry: &Entry<P>,
    event: &P::Event,
    call: &CallContext,
    answer: &Asked<impl Serialize>,
) -> Box<StepDetail> {
    let cx = Context { call, plugin_config: &entry.meta.config, deadline: None, evidence: None, forms: None };
    let said = match answer {
        Ok(outcome) => serde_json::to_value(outcome).unwrap_or_default(),
        Err(failure) => serde_json::json!({ "failed": failure.to_string() }),
    };
    let mut saw = event_json::<P>(event, cx);
    if let serde_json::Value::Object(fields) = &mut saw {
        fields.remove("context");
    }
    Box::new(StepDetail { saw, said })
}
