//! The runner: how a point's hooks are asked, mode by mode.
//!
//! - *decide*: one after another over a value ([`chain`]); the laws are documented there.
//! - *observe*: concurrently, on the final value. Answers change nothing, and a slow observer delays
//!   nobody longer than its own budget.
//! - *claim*: one after another until one says `handled`. A later hook can't undo a claim.

pub(crate) mod call;
pub(crate) mod chain;
pub(crate) mod seat;
pub(crate) mod shadow;
mod together;

use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::{
    CallContext, Claim, ClaimPoint, DecidePoint, Digest, DigestForm, Event, Forms, ObservePoint, Point,
    PointId, Reason,
};

use futures_util::future::join_all;
use tokio::time::Instant;

pub use self::call::MAX_UNDER_WAY;
use self::call::{Asked, Beside, ask};
use self::chain::{Chain, Setting};
use self::shadow::Shadows;
use crate::foreign::too_deep;
use crate::hook_set::HookSet;
use crate::permit::Permitted;
use crate::receipt::{
    BlockCause, Blocked, CallKey, Failure, Receipt, ReceiptSink, RecordedBlock, Said, Step, Verdict, Would,
};
use crate::registry::{Entry, Snapshot};
use crate::underway::{Places, Progress, Steps};

/// The result of a decide point. It can't be changed, so that what is permitted is what was judged.
#[derive(Debug)]
pub struct Decided<P: Point>(DecidedParts<P>);

/// The parts of [`Decided`], for hosts that take it apart. They can't be turned into a permit.
#[derive(Debug)]
pub struct DecidedParts<P: Point> {
    /// The value as the hooks left it.
    pub event: P::Event,
    /// The merged answer.
    pub outcome: P::Outcome,
    /// Whether it was stopped.
    pub blocked: Option<Blocked>,
    /// The record.
    pub receipt: Receipt,
}

impl<P: Point> Decided<P> {
    /// Returns the value as the hooks left it.
    pub fn event(&self) -> &P::Event {
        &self.0.event
    }

    /// Returns the merged answer.
    pub fn outcome(&self) -> &P::Outcome {
        &self.0.outcome
    }

    /// Returns why it was stopped, if it was.
    pub fn blocked(&self) -> Option<&Blocked> {
        self.0.blocked.as_ref()
    }

    /// Returns the record.
    pub fn receipt(&self) -> &Receipt {
        &self.0.receipt
    }

    /// Takes it apart.
    pub fn into_parts(self) -> DecidedParts<P> {
        self.0
    }

    /// Turns the result into a permit, or returns why there is none.
    ///
    /// # Errors
    ///
    /// The block. A tool call is never permitted by one of its gates, whose request for approval nobody
    /// has answered yet, but by all of them: [`Engine::permit_tool_call`](crate::Engine::permit_tool_call).
    pub fn permit(self) -> Result<Permitted<P::Event>, Blocked> {
        match self.0.blocked {
            Some(blocked) => Err(blocked),
            None if is_gate_of_tool_calls(P::INFO.id) => Err(Blocked {
                cause: BlockCause::Withheld,
                reason: Some(Reason::fixed(
                    "permit.one-gate",
                    "a tool call is permitted by all of its gates, not by one of them",
                )),
                hook: None,
                owner: None,
            }),
            None => Ok(Permitted::new(self.0.event, |event| digest_of::<P>(event).0)),
        }
    }

    /// Stops the value after all, for a reason that lies outside of the hooks.
    pub(crate) fn stop(&mut self, blocked: Blocked, call: &CallContext) {
        self.0.receipt.belongs_to(call);
        self.0.receipt.stop(&blocked);
        self.0.blocked = Some(blocked);
    }
}

/// Points that judge a tool call together; each sees the whole call, and none can permit it.
fn is_gate_of_tool_calls(point: PointId) -> bool {
    matches!(point, PointId::BeforeToolCall | PointId::TrustedToolPolicy | PointId::ToolBefore)
}

fn digest_of<P: Point>(event: &P::Event) -> Judged {
    event.digest(P::INFO.name)
}

/// The digest of what was judged, and how it was computed.
type Judged = (Digest, DigestForm);

/// The result of a claim point.
#[derive(Debug)]
pub struct Claimed<P: Point> {
    /// The answer of the hook that took the event; `None` when nobody did.
    pub outcome: Option<P::Outcome>,
    /// Set if a hook failed whose failure the operator does not let pass.
    pub blocked: Option<Blocked>,
    /// The record.
    pub receipt: Receipt,
}

/// What every dispatch needs.
#[derive(Clone, Copy)]
pub(crate) struct Dispatch<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) call: &'a CallContext,
    /// Keep what each hook saw and said.
    pub(crate) capture: bool,
    /// Compute digests: somebody reads the receipts.
    pub(crate) digests: bool,
    /// Who reads the receipts.
    pub(crate) sinks: &'a [Arc<dyn ReceiptSink>],
    /// Where the steps go if it is dropped.
    pub(crate) progress: Option<&'a Progress>,
}

impl Dispatch<'_> {
    pub(crate) async fn decide<P: DecidePoint>(&self, mut event: P::Event) -> Decided<P> {
        let slot = self.snapshot.slot::<P>();
        let is_shadowed = !self.snapshot.shadows::<P>().is_empty();
        let is_watched = is_shadowed || !slot.is_empty() || self.snapshot.is_redacted(P::INFO.id);
        if !is_watched && self.is_unread::<P>() {
            return untouched(event);
        }
        let original = self.digest::<P>(&event);
        if let Some(blocked) = too_deep(self.call) {
            return self.refused(event, blocked, original);
        }
        let seats = slot.iter().filter(|entry| entry.meta.is_about(event.tool_name(), self.call));
        let mut chain = Chain::new(seats, self.setting());
        chain.run(&mut event).await;
        if chain.changed() {
            event.conclude(&mut chain.merged);
        }
        let shadows = self.shadows::<P>(&event, chain.blocked.as_ref());
        let shadows = match shadows.is_empty() {
            true => Shadows::default(),
            // Boxed: few points have hooks in shadow, and the others need not carry the room.
            false => Box::pin(self.ask_shadows(shadows, &event, shadow::in_chain::<&Entry<P>>)).await,
        };
        self.decided(chain, shadows, event, original)
    }

    /// Returns what a chain has to know of this dispatch.
    pub(crate) fn setting(&self) -> Setting<'_> {
        let Self { snapshot, call, capture, progress, .. } = *self;
        Setting { snapshot, call, evidence: None, capture, progress }
    }

    /// A value about which no hook is asked, because none may be.
    fn refused<P: Point>(&self, event: P::Event, blocked: Blocked, original: Option<Judged>) -> Decided<P> {
        let key = self.key::<P>(&event);
        let mut receipt =
            Receipt::of(P::INFO.id, Verdict::Block, key, Vec::new(), Duration::ZERO).of_set(self.hook_set());
        receipt.digested(original, None);
        receipt.record_mut().blocked = Some((&blocked).into());
        Decided(DecidedParts { event, outcome: P::Outcome::default(), blocked: Some(blocked), receipt })
    }

    fn decided<P: Point>(
        &self,
        chain: Chain<'_, &Entry<P>>,
        shadows: Shadows,
        event: P::Event,
        original: Option<Judged>,
    ) -> Decided<P> {
        let (changed, elapsed) = (chain.changed(), chain.elapsed() + shadows.elapsed);
        let Chain { merged, steps, blocked, .. } = chain;
        let mut steps = steps.into_vec();
        steps.extend(shadows.steps);
        let modified = if P::Event::ABSORBS { changed } else { merged != P::Outcome::default() };
        let verdict = Verdict::of(blocked.is_some(), modified);
        let mut receipt =
            Receipt::of(P::INFO.id, verdict, self.key::<P>(&event), steps, elapsed).of_set(self.hook_set());
        let judged = if changed { self.digest::<P>(&event) } else { original };
        receipt.digested(original, judged);
        receipt.record_mut().blocked = blocked.as_ref().map(RecordedBlock::from);
        Decided(DecidedParts { event, outcome: merged, blocked, receipt })
    }

    pub(crate) async fn observe<P: ObservePoint>(&self, event: &P::Event) -> Receipt {
        let (call, start) = (self.call, Instant::now());
        let mut asked = self.asked::<P>(event).peekable();
        if asked.peek().is_none() && self.is_unread::<P>() {
            return Receipt::untouched(P::INFO.id, Verdict::Observed);
        }
        let deep = too_deep(call).is_some();
        let forms = Forms::default();
        let beside = Beside { forms: Some(&forms), ..Beside::default() };
        let places = Places::new(self.progress);
        let watching = asked.enumerate().map(|(place, entry)| {
            let places = &places;
            async move {
                let start = Instant::now();
                let (said, end) = match deep {
                    true => (Err(Box::new(Failure::too_deep())), start),
                    false => ask(entry, event, call, beside, start).await,
                };
                places.put(place, Self::step(entry, &said, end - start));
            }
        });
        join_all(watching).await;
        let steps = places.into_vec();
        let mut receipt =
            Receipt::of(P::INFO.id, Verdict::Observed, self.key::<P>(event), steps, start.elapsed())
                .of_set(self.hook_set());
        receipt.digested(None, self.digest::<P>(event));
        receipt
    }

    pub(crate) async fn claim<P: ClaimPoint>(&self, event: &P::Event) -> Claimed<P>
    where
        P::Outcome: Claim,
    {
        let (mut steps, mut outcome, mut blocked) = (Steps::new(0, self.progress), None, None);
        let begin = Instant::now();
        let mut start = begin;
        let forms = Forms::default();
        let beside = Beside { forms: Some(&forms), ..Beside::default() };
        for entry in self.asked::<P>(event) {
            blocked = too_deep(self.call);
            if blocked.is_some() {
                break;
            }
            let (said, end) = ask(entry, event, self.call, beside, start).await;
            let mut step = Self::step(entry, &said, end - start);
            match said {
                Ok(Some(answer)) if answer.handled() => {
                    step.said = Said::Handled;
                    outcome = Some(*answer);
                }
                Ok(Some(_)) => step.said = Said::Pass,
                Ok(None) => {}
                Err(failure) => blocked = chain::fail(&entry.meta, *failure, &mut step),
            }
            steps.push(step);
            if outcome.is_some() || blocked.is_some() {
                break;
            }
            start = end;
        }
        let shadows = self.shadows::<P>(event, blocked.as_ref());
        let takes = |_: &P::Event, answer: &P::Outcome| answer.handled().then_some(Would::Handle);
        steps.extend(self.ask_shadows(shadows, event, takes).await.steps);
        let verdict = match (&outcome, &blocked) {
            (_, Some(_)) => Verdict::Block,
            (Some(_), None) => Verdict::Handled,
            (None, None) => Verdict::Pass,
        };
        if steps.is_empty() && blocked.is_none() && self.is_unread::<P>() {
            return Claimed { outcome, blocked, receipt: Receipt::untouched(P::INFO.id, verdict) };
        }
        let mut receipt =
            Receipt::of(P::INFO.id, verdict, self.key::<P>(event), steps.into_vec(), begin.elapsed())
                .of_set(self.hook_set());
        receipt.digested(None, self.digest::<P>(event));
        receipt.record_mut().blocked = blocked.as_ref().map(RecordedBlock::from);
        Claimed { outcome, blocked, receipt }
    }

    /// Returns whether nobody wants to know of a dispatch at `P` that meets no hook.
    fn is_unread<P: Point>(&self) -> bool {
        let of_sinks = !self.sinks.is_empty() && !reads_idle(self.sinks, P::INFO.id);
        !self.capture && (!self.digests || of_sinks)
    }

    /// Returns the hooks that are about this event.
    fn asked<'e, P: Point>(&'e self, event: &'e P::Event) -> impl Iterator<Item = &'e Entry<P>> + 'e {
        self.snapshot.slot::<P>().iter().filter(|entry| entry.meta.is_about(event.tool_name(), self.call))
    }

    /// Returns the hooks in shadow that are asked about this event. INVARIANT (blocked is gone): none about what was stopped.
    fn shadows<P: Point>(&self, event: &P::Event, blocked: Option<&Blocked>) -> Vec<&Entry<P>> {
        if blocked.is_some() {
            return Vec::new();
        }
        let shadows = self.snapshot.shadows::<P>().iter();
        shadows.filter(|entry| entry.meta.is_about(event.tool_name(), self.call)).collect()
    }

    /// Returns the step of a hook that can't change the value.
    fn step<P: Point>(entry: &Entry<P>, said: &Asked<P::Outcome>, elapsed: Duration) -> Step {
        Step {
            said: if said.is_err() { Said::Failed } else { Said::Nothing },
            failure: said.as_ref().err().map(|failure| Failure::clone(failure)),
            elapsed,
            ..Step::of(Arc::clone(&entry.meta))
        }
    }

    /// Returns the hooks that there are, if somebody reads the receipts.
    pub(crate) fn hook_set(&self) -> Option<Arc<HookSet>> {
        self.digests.then(|| Arc::clone(self.snapshot.hook_set()))
    }

    pub(crate) fn digest<P: Point>(&self, event: &P::Event) -> Option<Judged> {
        self.digests.then(|| digest_of::<P>(event))
    }

    fn key<P: Point>(&self, event: &P::Event) -> CallKey {
        CallKey { tool: event.tool_name().cloned(), ..CallKey::of(self.call) }
    }
}

/// Returns whether somebody wants to know of dispatches that meet no hook.
pub(crate) fn reads_idle(sinks: &[Arc<dyn ReceiptSink>], point: PointId) -> bool {
    sinks.iter().any(|sink| sink.reads_idle(point))
}

/// Returns what comes out where no hook stands and nobody watches.
pub(crate) fn untouched<P: Point>(event: P::Event) -> Decided<P> {
    Decided(DecidedParts {
        event,
        outcome: P::Outcome::default(),
        blocked: None,
        receipt: Receipt::untouched(P::INFO.id, Verdict::Pass),
    })
}
