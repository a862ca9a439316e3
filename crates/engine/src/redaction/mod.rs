//! Span redactors: hooks at `before_response_emit` that only remove spans from the text.
//!
//! A hook that may rewrite or refuse the whole answer has to see all of it: with such a hook at
//! `before_response_emit`, no part of the answer can leave before its end. Most hooks there need less: they
//! remove a token or a card number. Such a hook is a [`SpanRedactor`]. It reads the text as it grows and
//! says how much of it is settled, so that a host can release an answer while it is generated.
//!
//! The laws:
//!
//! - *Split.* However a text is split into pieces, a redactor makes the same edits. Its author must guarantee that;
//!   everything else here follows from it: what a stream released is what a dispatch over the whole text
//!   produces.
//! - *Union.* All redactors read one text, the one the model wrote, and their spans are united. Where two
//!   spans overlap, one edit covers both, with the replacement of the redactor that comes first. No redactor
//!   reads another's replacements.
//! - *First.* They run before the other hooks at their point, whatever the priorities, because a stream has
//!   passed through them before the whole text exists. If a later hook changes the text, they judge its
//!   text again; anything they would still remove makes it `unstable_rewrite`.
//! - *Once.* A dispatch of `before_response_emit` runs them over its texts. A host that sends the text
//!   through its own [`Redaction`] does not dispatch that text again: the `Redaction` leaves the
//!   receipt.
//! - *Failing is not passing.* A redactor that panics, exceeds its budget or returns a malformed answer
//!   blocks, unless the operator lets its failure pass.
//!
//! [`ResponseGate`] tells a host what to do, depending on which hooks are registered at the point.

mod reading;
mod stream;
mod union;
mod whole;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use backstop_hooks::{CallContext, Text};
use serde::{Serialize, Serializer};

use crate::foreign::Kept;
use crate::hook_options::{HookMeta, HookOptions};

pub use reading::Released;
pub use stream::Redaction;
pub(crate) use whole::{Whole, name_of, redact, redact_again};

/// A hook that takes spans out of texts. It is shared by all texts of all sessions.
pub trait SpanRedactor: Send + Sync + fmt::Debug + 'static {
    /// Starts reading one text for this call.
    fn open(&self, call: &CallContext) -> Box<dyn RedactionStream>;

    /// Returns whether [`RedactionStream::finish_with`] of its streams looks at the rest of a text once. Where it does not, a host asks for
    /// [`RedactionStream::push`] and [`RedactionStream::finish`], each within the budget.
    fn reads_once(&self) -> bool {
        false
    }
}

/// A redactor's reading of one text that grows.
pub trait RedactionStream: Send + fmt::Debug {
    /// Takes the next piece of the text and returns what is settled by it.
    fn push(&mut self, text: &str) -> Settled;

    /// Ends the text. The result settles all of it.
    fn finish(&mut self) -> Settled;

    /// Takes the rest of the text, or all of it, and ends it. The result is that of [`Self::push`] and [`Self::finish`]; a
    /// redactor that finds it with one look at the text may do so here ([`SpanRedactor::reads_once`]).
    fn finish_with(&mut self, rest: &str) -> Settled {
        let begun = self.push(rest);
        if begun.block.is_some() {
            return begun;
        }
        let mut all = self.finish();
        all.edits.splice(0..0, begun.edits);
        all.reported.splice(0..0, begun.reported);
        all
    }

    /// Reads a whole text of Base64 that only its provider opens: letters in which chance may look like something. By default it is
    /// read like any other.
    fn seal(&mut self, text: &str) -> Settled {
        self.finish_with(text)
    }
}

/// What a redactor has said about a text so far. Offsets are bytes of the whole text and fall on character
/// boundaries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Everything before this is settled: no later text changes it. Never less than it was before.
    pub up_to: usize,
    /// The spans that are replaced and were not named before, in the order of the text, without overlaps,
    /// each between the last `up_to` and this one.
    pub edits: Vec<SpanEdit>,
    /// What was found before `up_to` and left as it is.
    pub reported: Vec<SpanKind>,
    /// The text must not pass, for this reason. It does not quote the text.
    pub block: Option<Text>,
}

/// A span and its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanEdit {
    /// The first byte that is removed.
    pub start: usize,
    /// The first byte after the span.
    pub end: usize,
    /// The replacement; may be empty.
    pub replacement: Text,
    /// What it was.
    pub kind: SpanKind,
}

/// What a span was: `secret/github_token`. Both parts are names that a detector has, never text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanKind {
    /// The family.
    pub class: &'static str,
    /// The kind in its family.
    pub kind: &'static str,
}

impl fmt::Display for SpanKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.class, self.kind)
    }
}

impl Serialize for SpanKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// How often a redactor found a kind, for receipts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SpanCount {
    /// What.
    pub kind: SpanKind,
    /// How many were replaced.
    pub replaced: u32,
    /// How many were left as they are.
    pub reported: u32,
}

/// What a streaming host has to do, depending on the hooks at `before_response_emit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResponseGate {
    /// There are no hooks: text may leave as it comes.
    Open,
    /// Only span redactors: text goes through a [`Redaction`], or whole through a dispatch.
    Spans,
    /// There are other hooks too: the whole answer goes through a dispatch before any of it is released.
    Whole,
}

/// A span redactor in the registry.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    pub(crate) redactor: Kept<dyn SpanRedactor>,
    /// What it says of its streams.
    pub(crate) reads_once: bool,
    pub(crate) meta: Arc<HookMeta>,
    /// As it was registered, its id filled in.
    pub(crate) options: Arc<HookOptions>,
}

/// How often each kind was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(BTreeMap<SpanKind, SpanCount>);

impl Tally {
    fn add(&mut self, settled: &Settled) {
        for edit in &settled.edits {
            let count = self.of(edit.kind);
            count.replaced = count.replaced.saturating_add(1);
        }
        for kind in &settled.reported {
            let count = self.of(*kind);
            count.reported = count.reported.saturating_add(1);
        }
    }

    fn of(&mut self, kind: SpanKind) -> &mut SpanCount {
        self.0.entry(kind).or_insert(SpanCount { kind, replaced: 0, reported: 0 })
    }

    fn replaced(&self) -> bool {
        self.0.values().any(|count| count.replaced > 0)
    }

    fn into_counts(self) -> Vec<SpanCount> {
        self.0.into_values().collect()
    }
}
