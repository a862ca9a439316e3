//! Runs the redactors in a dispatch over whole texts.

use std::any::Any;
use std::sync::Arc;

use backstop_hooks::points::ResponseEmitEvent;
use backstop_hooks::tool_name::known_tools;
use backstop_hooks::{CallContext, Digest, Text, ToolName};

use super::union::Union;
use crate::hook_options::HookMeta;
use crate::receipt::{Blocked, Said, Step};
use crate::registry::Snapshot;
use crate::runner::chain::unstable_rewrite;

/// What the redactors made of an event.
#[derive(Debug, Default)]
pub(crate) struct Whole {
    pub(crate) changed: bool,
    pub(crate) blocked: Option<Blocked>,
    pub(crate) steps: Vec<Step>,
}

impl Whole {
    /// Returns the redactor that changed the event; of several, the first.
    pub(crate) fn writer(&self) -> Option<Arc<HookMeta>> {
        self.steps.iter().find(|step| step.said == Said::Rewrote).map(|step| Arc::clone(&step.hook))
    }
}

/// Lets the redactors take out of an event what they want out. Only `before_response_emit` has any.
pub(crate) fn redact<E: Any>(event: &mut E, snapshot: &Snapshot, call: &CallContext) -> Whole {
    match texts(event, snapshot) {
        Some(event) => pass(event, snapshot, call, false),
        None => Whole::default(),
    }
}

/// Lets the redactors judge what other hooks made of an event. INVARIANT (what was judged is what runs):
/// the value stands; if they would still change it, it is blocked.
pub(crate) fn redact_again<E: Any + Clone>(
    event: &E,
    snapshot: &Snapshot,
    call: &CallContext,
    writer: Option<&HookMeta>,
) -> Whole {
    if snapshot.redactors().is_empty() {
        return Whole::default();
    }
    let mut copy = event.clone();
    let Some(copy) = texts(&mut copy, snapshot) else { return Whole::default() };
    let mut whole = pass(copy, snapshot, call, true);
    if whole.changed && whole.blocked.is_none() {
        whole.blocked = whole.writer().map(|redactor| unstable_rewrite(&redactor, writer));
    }
    whole
}

fn texts<'e, E: Any>(event: &'e mut E, snapshot: &Snapshot) -> Option<&'e mut ResponseEmitEvent> {
    if snapshot.redactors().is_empty() {
        return None;
    }
    let event: &mut dyn Any = event;
    event.downcast_mut()
}

/// Returns the name that a receipt has for a tool in whose own name a redactor finds something: whoever makes calls up may
/// write anything there. `None` where nobody finds anything. Where nobody may be asked any more, so deep is the call in
/// others, no name is told that policies do not know.
pub(crate) fn name_of(
    tool: &ToolName,
    snapshot: &Snapshot,
    call: &CallContext,
    is_too_deep: bool,
) -> Option<ToolName> {
    let is_known =
        |name: &str| known_tools().any(|known| known == name) || ToolName::new(name).canonical() != name;
    if snapshot.redactors().is_empty() || (is_known(tool.called()) && is_known(tool.canonical())) {
        return None;
    }
    let is_found = is_too_deep || {
        let mut union = Union::new(snapshot, call);
        let names = [Some(tool.canonical()), tool.called_as()];
        for (number, name) in names.into_iter().flatten().enumerate() {
            union.whole(number, name, call);
        }
        union.replaced() || union.blocked().is_some()
    };
    is_found
        .then(|| ToolName::new(&format!("redacted-{}", Digest::of_text("tool", tool.called()).prefix(12))))
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
