//! The state that a host keeps while an answer streams.

use std::sync::Arc;

use backstop_hooks::{CallContext, PointId};

use super::reading::Released;
use super::union::Union;
use crate::engine::Engine;
use crate::hook_set::HookSet;
use crate::receipt::{Blocked, CallKey, Receipt, RecordedBlock, Verdict};

/// The span redactors over one answer that is being generated.
///
/// An answer has texts, each with a number of the host's choice: one for each entry that
/// `before_response_emit` would have in `allContent`, that is one for the text parts of one assistant turn
/// together. What [`Self::push`] and [`Self::finish`] release may go out at once; it is the same, however
/// the text was cut.
///
/// One receipt is left when the answer is over, also where no redactor stands: by [`Self::close`], or by
/// dropping this where the answer was given up. It says who was asked and what was found, by kind and number.
/// A block is told only by [`Self::blocked`], which leaves the receipt and waits until it is kept; before that, no
/// more is known than that nothing may go any more ([`Self::is_blocked`]).
///
/// ```
/// use backstop_engine::Engine;
/// use backstop_hooks::CallContext;
///
/// let engine = Engine::builder().build();
/// let mut redaction = engine.redaction(&CallContext::default());
/// assert_eq!(redaction.push(0, "nobody objects").text, "nobody objects");
/// assert!(!redaction.is_blocked());
/// ```
#[derive(Debug)]
pub struct Redaction {
    engine: Engine,
    call: CallContext,
    /// Gone when the receipt was left.
    union: Option<Union>,
    /// Why the answer was stopped, once that is kept.
    blocked: Option<Blocked>,
    /// The hooks that there were when the answer began, if somebody reads receipts.
    hooks: Option<Arc<HookSet>>,
    recorded: bool,
}

impl Redaction {
    pub(crate) fn new(engine: Engine, call: &CallContext) -> Self {
        let snapshot = engine.registry().snapshot();
        let union = Some(Union::new(&snapshot, call));
        let hooks = engine.is_recorded().then(|| Arc::clone(snapshot.hook_set()));
        Self { engine, call: call.clone(), union, blocked: None, hooks, recorded: true }
    }

    /// Does not leave a receipt, for a host that dispatches the texts as a whole when they are complete: that dispatch
    /// leaves one.
    #[must_use]
    pub fn unrecorded(mut self) -> Self {
        self.recorded = false;
        self
    }

    /// The same with a receipt after all.
    pub fn record(&mut self) {
        self.recorded = true;
    }

    /// Whether no redactor is about this call: text passes as it is.
    pub fn is_empty(&self) -> bool {
        self.union.as_ref().is_none_or(Union::is_empty)
    }

    /// Takes more of a text and returns what may leave. After a block nothing may.
    pub fn push(&mut self, text: usize, piece: &str) -> Released {
        let Self { union, call, .. } = self;
        union.as_mut().map(|union| union.push(text, piece, call)).unwrap_or_default()
    }

    /// Ends a text and returns the rest of it.
    pub fn finish(&mut self, text: usize) -> Released {
        self.finish_with(text, "")
    }

    /// Takes the rest of a text, or all of it, and returns what may leave: what [`Self::push`] and [`Self::finish`] release
    /// together, for which the redactors need to look once.
    pub fn finish_with(&mut self, text: usize, rest: &str) -> Released {
        let Self { union, call, .. } = self;
        union.as_mut().map(|union| union.finish(text, rest, call)).unwrap_or_default()
    }

    /// Takes a whole text that only its provider opens; answers what may go of it.
    pub fn seal(&mut self, text: usize, whole: &str) -> Released {
        let Self { union, call, .. } = self;
        union.as_mut().map(|union| union.seal(text, whole, call)).unwrap_or_default()
    }

    /// Whether nothing of the answer may go any more.
    pub fn is_blocked(&self) -> bool {
        self.blocked.is_some() || self.union.as_ref().is_some_and(|union| union.blocked().is_some())
    }

    /// Returns why no more of the answer may leave, if it is blocked. The first call sends the receipt, and the block is stored
    /// before this returns: whoever is told about a block finds it in the trail.
    pub async fn blocked(&mut self) -> Option<Blocked> {
        if let Some(blocked) = self.union.as_ref().and_then(Union::blocked) {
            self.blocked = Some(blocked.clone());
            self.leave().await;
        }
        self.blocked.clone()
    }

    /// Ends the answer and leaves the receipt.
    pub async fn close(mut self) -> Receipt {
        self.leave().await
    }

    /// Leaves the receipt, and waits until a block is kept.
    async fn leave(&mut self) -> Receipt {
        let receipt = self.receipt();
        if let (Some(receipt), true) = (&receipt, self.recorded) {
            self.engine.keep(receipt).await;
        }
        receipt.unwrap_or_else(|| Receipt::untouched(PointId::BeforeResponseEmit, Verdict::Pass))
    }

    /// Returns the receipt, if it was not left before.
    fn receipt(&mut self) -> Option<Receipt> {
        let union = self.union.take()?;
        let verdict = Verdict::of(union.blocked().is_some(), union.replaced());
        let blocked = union.blocked().map(RecordedBlock::from);
        let (key, elapsed) = (CallKey::of(&self.call), union.elapsed());
        let mut receipt =
            Receipt::of(PointId::BeforeResponseEmit, verdict, key, union.into_steps(false), elapsed)
                .of_set(self.hooks.take());
        receipt.record_mut().blocked = blocked;
        Some(receipt)
    }
}

impl Drop for Redaction {
    fn drop(&mut self) {
        if let (Some(receipt), true) = (self.receipt(), self.recorded) {
            self.engine.record(&receipt);
        }
    }
}
