//! The redactors in a dispatch over whole texts.

use std::any::Any;

use backstop_hooks::points::{ResponseEmitEvent, ResponseEmitOutcome};
use backstop_hooks::{CallContext, Point, Text};

use super::union::Union;
use crate::receipt::{BlockCause, Blocked, Said, Step};
use crate::registry::Snapshot;

/// What the redactors made of an event.
#[derive(Debug, Default)]
pub(crate) struct Whole {
    pub(crate) changed: bool,
    pub(crate) blocked: Option<Blocked>,
    pub(crate) steps: Vec<Step>,
}

/// Lets the redactors take out of an event what they want out. Only `before_response_emit` has any.
pub(crate) fn redact<P: Point>(event: &mut P::Event, snapshot: &Snapshot, call: &CallContext) -> Whole {
    match texts::<P>(event, snapshot) {
        Some(event) => pass(event, snapshot, call, false),
        None => Whole::default(),
    }
}

/// Lets the redactors judge what other hooks made of an event. INVARIANT (what was judged is what runs):
/// the value stands; if they would still change it, it is blocked.
pub(crate) fn redact_again<P: Point>(event: &P::Event, snapshot: &Snapshot, call: &CallContext) -> Whole {
    let mut copy = event.clone();
    let Some(copy) = texts::<P>(&mut copy, snapshot) else { return Whole::default() };
    let mut whole = pass(copy, snapshot, call, true);
    if whole.changed && whole.blocked.is_none() {
        let hook = whole.steps.iter().find(|step| step.said == Said::Rewrote);
        whole.blocked = Some(Blocked {
            cause: BlockCause::UnstableRewrite,
            reason: Some("unstable_rewrite: a hook wrote what a redactor takes out".into()),
            hook: hook.map(|step| step.hook.id.clone()),
            owner: hook.map(|step| step.hook.owner.clone()),
        });
    }
    whole
}

/// Puts what the redactors left into the outcome, which other hooks did not set to it.
pub(crate) fn conclude<P: Point>(event: &P::Event, outcome: &mut P::Outcome) {
    let event: &dyn Any = event;
    let outcome: &mut dyn Any = outcome;
    if let (Some(event), Some(outcome)) =
        (event.downcast_ref::<ResponseEmitEvent>(), outcome.downcast_mut::<ResponseEmitOutcome>())
    {
        (outcome.content, outcome.all_content) = (None, Some(event.all_content.clone()));
    }
}

fn texts<'e, P: Point>(event: &'e mut P::Event, snapshot: &Snapshot) -> Option<&'e mut ResponseEmitEvent> {
    if snapshot.redactors().is_empty() {
        return None;
    }
    let event: &mut dyn Any = event;
    event.downcast_mut()
}

fn pass(event: &mut ResponseEmitEvent, snapshot: &Snapshot, call: &CallContext, again: bool) -> Whole {
    let mut union = Union::new(snapshot, call);
    let texts = match event.all_content.as_mut_slice() {
        [] => std::slice::from_mut(&mut event.content),
        texts => texts,
    };
    for (number, text) in texts.iter_mut().enumerate() {
        let clean = union.whole(number, text, call);
        if union.blocked().is_none() && *text != *clean {
            *text = Text::from(clean);
        }
    }
    if let Some(last) = event.all_content.last() {
        event.content = last.clone();
    }
    Whole { changed: union.replaced(), blocked: union.blocked().cloned(), steps: union.into_steps(again) }
}
