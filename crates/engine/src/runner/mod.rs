//! The runner: how a point's hooks are asked, mode by mode.
//!
//! - *decide*: one after another over a value ([`chain`]); see the laws there.
//! - *observe*: concurrently, on the final value; what they say changes nothing, and a slow one holds
//!   nobody longer than its own budget.
//! - *claim*: one after another until one says `handled`. A claim can't be taken back by a later hook.
//! - *sync*: a decide chain in which nothing may wait.

pub(crate) mod call;
pub(crate) mod chain;

use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use backstop_hooks::{
    CallContext, Claim, ClaimPoint, DecidePoint, Digest, Event, ObservePoint, Point, PointId, SyncPoint,
};

use self::call::ask;
use self::chain::{Chain, Pace, Version};
use crate::permit::Permitted;
use crate::receipt::{BlockCause, Blocked, CallKey, Receipt, Said, Step, Verdict};
use crate::registry::{Entry, Snapshot};

/// What came out of a decide or sync point.
#[derive(Debug)]
pub struct Decided<P: Point> {
    /// The value as the hooks left it.
    pub event: P::Event,
    /// All answers in one.
    pub outcome: P::Outcome,
    /// Whether it was stopped.
    pub blocked: Option<Blocked>,
    /// The record.
    pub receipt: Receipt,
}

impl<P: Point> Decided<P> {
    /// The value as permitted, or why it is not.
    ///
    /// # Errors
    ///
    /// The block.
    pub fn permit(self) -> Result<Permitted<P::Event>, Blocked> {
        match self.blocked {
            None => Ok(Permitted::new(self.event)),
            Some(blocked) => Err(blocked),
        }
    }
}

/// What came out of a claim point.
#[derive(Debug)]
pub struct Claimed<P: Point> {
    /// The answer of the hook that took the event; `None` when nobody did.
    pub outcome: Option<P::Outcome>,
    /// A hook failed whose failure the operator does not let pass.
    pub blocked: Option<Blocked>,
    /// The record.
    pub receipt: Receipt,
}

/// What every dispatch needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dispatch<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) call: &'a CallContext,
    /// Keep what each hook saw and said.
    pub(crate) capture: bool,
    /// Compute digests: somebody reads the receipts.
    pub(crate) digests: bool,
}

impl Dispatch<'_> {
    pub(crate) async fn decide<P: DecidePoint>(&self, event: P::Event) -> Decided<P> {
        let slot = self.snapshot.slot::<P>();
        if slot.is_empty() {
            return untouched(event);
        }
        let (mut event, start) = (event, Instant::now());
        let original = self.digest::<P>(&event);
        let mut chain = Chain::new(slot, event.tool_name(), self.call, self.capture);
        let mut version = Version::default();
        chain.first_round(&mut event, &mut version, self.call).await;
        if chain.blocked.is_none() && version != Version::default() {
            chain.judge_again(&mut event, &mut version, self.call, Pace::Waiting).await;
        }
        self.decided(chain, event, version, original, start)
    }

    pub(crate) fn write<P: SyncPoint>(&self, event: P::Event) -> Decided<P> {
        let slot = self.snapshot.slot::<P>();
        if slot.is_empty() {
            return untouched(event);
        }
        let (mut event, start) = (event, Instant::now());
        let original = self.digest::<P>(&event);
        let mut chain = Chain::new(slot, event.tool_name(), self.call, self.capture);
        let mut version = Version::default();
        chain.first_round_now(&mut event, &mut version, self.call);
        if chain.blocked.is_none() && version != Version::default() {
            // Nothing in an immediate chain waits, so one poll runs it to its end.
            let mut again =
                std::pin::pin!(chain.judge_again(&mut event, &mut version, self.call, Pace::Immediate));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let _done = again.as_mut().poll(&mut context).is_ready();
        }
        self.decided(chain, event, version, original, start)
    }

    fn decided<P: Point>(
        &self,
        chain: Chain<'_, P>,
        event: P::Event,
        version: Version,
        original: Option<Digest>,
        start: Instant,
    ) -> Decided<P> {
        let Chain { merged, steps, blocked, .. } = chain;
        let changed = version != Version::default();
        let verdict = match (&blocked, changed || merged != P::Outcome::default()) {
            (Some(_), _) => Verdict::Block,
            (None, true) => Verdict::Modify,
            (None, false) => Verdict::Pass,
        };
        let mut receipt = Receipt::of(P::INFO.id, verdict, self.key::<P>(&event), steps, start.elapsed());
        receipt.judged = if changed { self.digest::<P>(&event) } else { original };
        receipt.original = original;
        receipt.blocked = blocked.clone().map(|blocked| for_receipt(P::INFO.id, blocked));
        Decided { event, outcome: merged, blocked, receipt }
    }

    pub(crate) async fn observe<P: ObservePoint>(&self, event: &P::Event) -> Receipt {
        let (call, start) = (self.call, Instant::now());
        let asked: Vec<&Entry<P>> = self
            .snapshot
            .slot::<P>()
            .iter()
            .filter(|entry| entry.meta.applies_to(event.tool_name(), call.agent_id.as_ref()))
            .collect();
        if asked.is_empty() {
            return Receipt::untouched(P::INFO.id, Verdict::Observed);
        }
        let watching = asked.into_iter().map(|entry| async move {
            let start = Instant::now();
            let said = ask(entry, event, call, start).await;
            Step {
                hook: Arc::clone(&entry.meta),
                said: if said.is_err() { Said::Failed } else { Said::Nothing },
                again: false,
                refused: Vec::new(),
                passed_despite_failure: false,
                detail: self.capture.then(|| chain::detail(entry, event, call, &said)),
                failure: said.err(),
                elapsed: start.elapsed(),
            }
        });
        let steps = join_all(watching).await;
        let mut receipt =
            Receipt::of(P::INFO.id, Verdict::Observed, self.key::<P>(event), steps, start.elapsed());
        receipt.judged = self.digest::<P>(event);
        receipt
    }

    pub(crate) async fn claim<P: ClaimPoint>(&self, event: &P::Event) -> Claimed<P>
    where
        P::Outcome: Claim,
    {
        let (mut steps, mut outcome, mut blocked) = (Vec::new(), None, None);
        let start = Instant::now();
        for entry in self.snapshot.slot::<P>() {
            if !entry.meta.applies_to(event.tool_name(), self.call.agent_id.as_ref()) {
                continue;
            }
            let start = Instant::now();
            let asked = ask(entry, event, self.call, start).await;
            let mut step = Step {
                hook: Arc::clone(&entry.meta),
                said: Said::Nothing,
                again: false,
                refused: Vec::new(),
                failure: None,
                passed_despite_failure: false,
                elapsed: start.elapsed(),
                detail: self.capture.then(|| chain::detail(entry, event, self.call, &asked)),
            };
            match asked {
                Ok(Some(answer)) if answer.handled() => {
                    step.said = Said::Handled;
                    outcome = Some(answer);
                }
                Ok(Some(_)) => step.said = Said::Pass,
                Ok(None) => {}
                Err(failure) => {
                    step.said = Said::Failed;
                    if failure.blocks(entry.meta.on_failure) {
                        blocked = Some(Blocked {
                            cause: BlockCause::Failure { kind: failure.kind },
                            reason: Some(format!("hook `{}` failed: {failure}", entry.meta.id).into()),
                            hook: Some(entry.meta.id.clone()),
                            owner: Some(entry.meta.owner.clone()),
                        });
                    }
                    step.failure = Some(failure);
                }
            }
            steps.push(step);
            if outcome.is_some() || blocked.is_some() {
                break;
            }
        }
        let verdict = match (&outcome, &blocked) {
            (_, Some(_)) => Verdict::Block,
            (Some(_), None) => Verdict::Handled,
            (None, None) => Verdict::Pass,
        };
        if steps.is_empty() {
            return Claimed { outcome, blocked, receipt: Receipt::untouched(P::INFO.id, verdict) };
        }
        let mut receipt = Receipt::of(P::INFO.id, verdict, self.key::<P>(event), steps, start.elapsed());
        receipt.judged = self.digest::<P>(event);
        receipt.blocked.clone_from(&blocked);
        Claimed { outcome, blocked, receipt }
    }

    pub(crate) fn digest<P: Point>(&self, event: &P::Event) -> Option<Digest> {
        self.digests.then(|| Digest::of(P::INFO.name, event))
    }

    fn key<P: Point>(&self, event: &P::Event) -> CallKey {
        CallKey {
            agent_id: self.call.agent_id.clone(),
            session_key: self.call.session_key.clone(),
            session_id: self.call.session_id.clone(),
            run_id: self.call.run_id.clone(),
            tool_call_id: None,
            tool: event.tool_name().map(ToString::to_string),
        }
    }
}

fn untouched<P: Point>(event: P::Event) -> Decided<P> {
    Decided {
        event,
        outcome: P::Outcome::default(),
        blocked: None,
        receipt: Receipt::untouched(P::INFO.id, Verdict::Pass),
    }
}

/// The reason given at `before_agent_run` quotes what must not be kept, so no receipt has it.
fn for_receipt(point: PointId, blocked: Blocked) -> Blocked {
    match (point, &blocked.cause) {
        (PointId::BeforeAgentRun, BlockCause::Decision) => Blocked { reason: None, ..blocked },
        _ => blocked,
    }
}

/// Waits for all of them, polling each only while it is not done. Outcomes keep the order of `futures`.
async fn join_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    enum Slot<F: Future> {
        Running(std::pin::Pin<Box<F>>),
        Done(Option<F::Output>),
    }
    impl<F: Future> Unpin for Slot<F> {}
    let mut slots: Vec<Slot<F>> = futures.map(|future| Slot::Running(Box::pin(future))).collect();
    std::future::poll_fn(move |cx| {
        let mut waiting = false;
        for slot in &mut slots {
            if let Slot::Running(future) = slot {
                match future.as_mut().poll(cx) {
                    Poll::Ready(output) => *slot = Slot::Done(Some(output)),
                    Poll::Pending => waiting = true,
                }
            }
        }
        if waiting {
            return Poll::Pending;
        }
        Poll::Ready(
            slots
                .iter_mut()
                .filter_map(|slot| match slot {
                    Slot::Done(output) => output.take(),
                    Slot::Running(_) => None,
                })
                .collect(),
        )
    })
    .await
}
