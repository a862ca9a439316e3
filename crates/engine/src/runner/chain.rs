//! The chain: asks the hooks in front of one value, in order, and once more about the final value.
//!
//! Laws that are implemented here:
//!
//! - *Chain.* Each hook sees the current value and may propose another.
//! - *What was judged is what runs.* The value has a version that grows with each real change. Every hook
//!   remembers the version it judged; hooks that judged an older version than the final one judge again. In that
//!   round the value is fixed: a hook that would still change it blocks the call as
//!   `unstable_rewrite`, and the block names that hook and the one whose value it does not accept.
//! - *No rewrite is dropped silently.* Ignoring a rewrite would count as consent. Only hooks registered with
//!   an optional rewrite ([`Rewrite::Optional`]) give way: the proposal of such a hook is first shown to all hooks
//!   before it. If one of them objects, the value stays as it was, and the step says which hook objected.
//!   The blocks and questions of such a hook count in any case.
//! - *Failing is not passing.* A failed hook stops the value, unless its failure policy is open; then the
//!   step says so.
//!
//! A block ends a round: the hooks after it are not asked.
//!
//! Limits: a hook judges a value at most three times if its neighbours' rewrites are optional, and at most twice
//! otherwise. Rewrites that would need more rounds to settle are `unstable_rewrite`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::{ApprovalRequest, CallContext, Evidence, Forms, HookId, Outcome, Reason};
use tokio::time::Instant;

use super::call::{Asked, Beside};
use super::seat::{Reply, Seat};
use crate::hook_options::{HookMeta, Rewrite};
use crate::receipt::{BlockCause, Blocked, Failure, Replaced, Said, Step, StepDetail};
use crate::redaction::{self, Whole};
use crate::registry::Snapshot;
use crate::underway::{Progress, Steps};

/// Counts the real changes of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u32);

impl Version {
    fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// Which time the hooks are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// Every hook, each seeing what the one before left.
    First,
    /// The hooks that judged an older value than the final one.
    Again,
}

/// Whose snapshot and whose call it is, and what is kept of it.
#[derive(Clone, Copy)]
pub(crate) struct Setting<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) call: &'a CallContext,
    /// Where hooks name what they found besides the value.
    pub(crate) evidence: Option<&'a Evidence>,
    /// Keep what each hook saw and said.
    pub(crate) capture: bool,
    /// Where the steps go if the dispatch is dropped.
    pub(crate) progress: Option<&'a Progress>,
}

pub(crate) struct Chain<'a, S: Seat> {
    seats: Vec<Placed<S>>,
    setting: Setting<'a>,
    version: Version,
    /// Other forms of the value as it stands.
    forms: Forms,
    /// The version that the span redactors judged.
    redacted: Version,
    /// The hook of this chain that wrote the value as it stands, if one did.
    writer: Option<Arc<HookMeta>>,
    begin: Instant,
    /// When the last hook was done, which is when the next one begins.
    now: Instant,
    /// Who set a key last, where the last hook to set one wins.
    keys: BTreeMap<String, HookId>,
    /// Values that gave way: nobody is asked about one of them again.
    refused: Vec<(S::Value, Objection)>,
    /// What was asked about values that gave way: nobody needs to answer it.
    pub(crate) moot: Vec<ApprovalRequest>,
    pub(crate) merged: S::Outcome,
    pub(crate) steps: Steps<'a>,
    pub(crate) blocked: Option<Blocked>,
}

/// A hook does not accept a value that another one proposed.
#[derive(Clone)]
struct Objection {
    hook: Arc<HookMeta>,
    /// It is more than a rewrite of its own that is optional itself.
    binding: bool,
}

/// How it went to ask a hook, but for its answer.
struct Consulted {
    elapsed: Duration,
    detail: Option<Box<StepDetail>>,
}

impl Consulted {
    /// Returns the step of the hook, which says nothing yet.
    fn step(self, hook: &Arc<HookMeta>, again: bool) -> Step {
        Step { again, elapsed: self.elapsed, detail: self.detail, ..Step::of(Arc::clone(hook)) }
    }
}

struct Placed<S> {
    seat: S,
    judged: Version,
    /// It wants a human to be asked.
    asks: bool,
}

impl<'a, S: Seat> Chain<'a, S> {
    pub(crate) fn new(seats: impl Iterator<Item = S>, setting: Setting<'a>) -> Self {
        let begin = Instant::now();
        // Filters say nothing of how many they let through, and growing a list bit by bit costs more than room.
        let mut placed = Vec::with_capacity(seats.size_hint().1.unwrap_or_default());
        placed.extend(seats.map(|seat| Placed { seat, judged: Version::default(), asks: false }));
        Self {
            steps: Steps::new(placed.len(), setting.progress),
            seats: placed,
            setting,
            version: Version::default(),
            forms: Forms::default(),
            redacted: Version::default(),
            writer: None,
            keys: BTreeMap::new(),
            refused: Vec::new(),
            moot: Vec::new(),
            begin,
            now: begin,
            merged: S::Outcome::default(),
            blocked: None,
        }
    }

    /// Takes the value past the span redactors and every hook.
    pub(crate) async fn run(&mut self, value: &mut S::Value) {
        self.redact(value);
        self.ask(Round::First, value).await;
        if self.changed() {
            self.ask(Round::Again, value).await;
        }
        self.redact_again(value);
    }

    /// Notes that the value is another one now.
    fn has_changed(&mut self) {
        self.version = self.version.next();
        self.forms = Forms::default();
    }

    /// Returns whether the value is another one than the one that came.
    pub(crate) fn changed(&self) -> bool {
        self.version != Version::default()
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.now - self.begin
    }

    /// Lets the span redactors take out of the value what they want out.
    fn redact(&mut self, value: &mut S::Value) {
        let redacted = redaction::redact(value, self.setting.snapshot, self.setting.call);
        if redacted.changed {
            self.has_changed();
        }
        self.redacted = self.version;
        self.join(redacted);
    }

    /// Lets them judge what the hooks made of it.
    fn redact_again(&mut self, value: &S::Value) {
        if self.blocked.is_none() && self.redacted != self.version {
            let Setting { snapshot, call, .. } = self.setting;
            self.join(redaction::redact_again(value, snapshot, call, self.writer.as_deref()));
        }
    }

    fn join(&mut self, redacted: Whole) {
        if !redacted.steps.is_empty() {
            self.now = Instant::now();
        }
        self.steps.extend(redacted.steps);
        if self.blocked.is_none() {
            self.blocked = redacted.blocked;
        }
    }

    async fn ask(&mut self, round: Round, value: &mut S::Value) {
        let last = self.version;
        let mut index = 0;
        while let Some(placed) = self.seats.get(index) {
            if self.blocked.is_some() {
                return;
            }
            if round == Round::Again && placed.judged == last {
                index += 1;
                continue;
            }
            let seat = placed.seat;
            let neighbours = self.neighbours(index, round, last);
            if neighbours.len() > 1 {
                // Boxed: few chains have batches, and the others need not carry the room.
                index = Box::pin(self.ask_together(index, &neighbours, round, value)).await;
            } else {
                let forms = std::mem::take(&mut self.forms);
                let (asked, answer) = self.consult(seat, value, &forms).await;
                self.forms = forms;
                self.heard(index, asked, answer, round, value).await;
                index += 1;
            }
        }
    }

    /// Returns the hooks from this one on that can be asked in one go with it: they are in its batch, and it is their turn.
    fn neighbours(&self, index: usize, round: Round, last: Version) -> Vec<S> {
        let from = self.seats.get(index..).unwrap_or_default();
        let batch = from.first().and_then(|placed| placed.seat.batch());
        // What each saw and said is only known of those that are asked alone.
        if batch.is_none() || self.setting.capture {
            return Vec::new();
        }
        from.iter()
            .take_while(|placed| {
                placed.seat.batch() == batch && (round == Round::First || placed.judged != last)
            })
            .map(|placed| placed.seat)
            .collect()
    }

    /// Asks neighbours in one go. Returns the first hook that was not asked.
    async fn ask_together(
        &mut self,
        first: usize,
        neighbours: &[S],
        round: Round,
        value: &mut S::Value,
    ) -> usize {
        let Setting { call, evidence, .. } = self.setting;
        let forms = std::mem::take(&mut self.forms);
        let beside = Beside { evidence, forms: Some(&forms), until: None };
        let replies = S::ask_together(neighbours, value, call, beside, self.now).await;
        self.forms = forms;
        let mut index = first;
        for reply in replies {
            let elapsed = reply.end - std::mem::replace(&mut self.now, reply.end);
            let asked = Consulted { elapsed, detail: None };
            self.heard(index, asked, reply.answer, round, value).await;
            index += 1;
        }
        if let Some(placed) = self.seats.get(first).filter(|_| index == first) {
            // Nobody was asked, so nobody may be passed by.
            self.blocked = Some(failed(placed.seat.meta(), &Failure::malformed_batch()));
        }
        index
    }

    /// Takes what a hook said.
    async fn heard(
        &mut self,
        index: usize,
        asked: Consulted,
        answer: Asked<S::Outcome>,
        round: Round,
        value: &mut S::Value,
    ) {
        let Some(placed) = self.seats.get(index) else { return };
        let (seat, again) = (placed.seat, round == Round::Again);
        match answer {
            // Most hooks say nothing. A step is large, so that this one is made where it stays.
            Ok(None) => self.steps.push(asked.step(seat.meta(), again)),
            Ok(Some(answer)) => {
                let mut step = asked.step(seat.meta(), again);
                match round {
                    Round::First => self.take(index, answer, &mut step, value).await,
                    Round::Again => self.compare(index, *answer, &mut step, value),
                }
                self.steps.push(step);
            }
            Err(failure) => {
                let mut step = asked.step(seat.meta(), again);
                self.blocked = fail(seat.meta(), *failure, &mut step);
                self.steps.push(step);
            }
        }
        if let Some(placed) = self.seats.get_mut(index) {
            placed.judged = self.version;
        }
    }

    /// Asks one hook about a value with these forms. Returns how that went, and its answer.
    async fn consult(&mut self, seat: S, value: &S::Value, forms: &Forms) -> (Consulted, Asked<S::Outcome>) {
        let Setting { call, evidence, capture, .. } = self.setting;
        let beside = Beside { evidence, forms: Some(forms), until: None };
        let Reply { answer, end, detail } = seat.ask(value, call, beside, self.now, capture).await;
        let elapsed = end - std::mem::replace(&mut self.now, end);
        (Consulted { elapsed, detail }, answer)
    }

    /// First round: the answer is merged, and the next hook sees what it changed.
    async fn take(&mut self, index: usize, answer: Box<S::Outcome>, step: &mut Step, value: &mut S::Value) {
        let (answer, was_heard) = match Proposal::<S>::optional(&step.hook, &answer, value) {
            Some(proposal) if !answer.blocks() => {
                // Boxed: few hooks have optional rewrites, and the others need not carry the room.
                match Box::pin(self.hear(index, &step.hook, &proposal.value)).await {
                    None => (answer, true),
                    Some(objector) => (Box::new(proposal.give_way(step, Some(objector))), false),
                }
            }
            _ => (answer, false),
        };
        let (blocks, asks) = (answer.blocks(), !answer.approvals().is_empty());
        let changed = S::absorb(value, &answer);
        if changed {
            self.has_changed();
            self.writer = Some(Arc::clone(&step.hook));
            // INVARIANT (one judgement): what a hook objected to as a convenience, it objects to as a necessity.
            if let Some(objection) = self.objection(value).filter(|objection| objection.binding) {
                self.blocked = Some(unstable_rewrite(&objection.hook, Some(&step.hook)));
            }
        }
        if was_heard {
            // Those before it have judged this very value.
            self.redacted = self.version;
            for placed in self.seats.iter_mut().take(index) {
                placed.judged = self.version;
            }
        }
        self.note_keys(&answer, step);
        step.refused.extend(self.merged.merge(*answer));
        step.said = Said::of(blocks, asks, changed);
        self.note(index, &step.hook, blocks, asks);
    }

    /// Second round: the value stands. INVARIANT (what was judged is what runs): whoever wants another value
    /// blocks, unless its rewrites are optional.
    fn compare(&mut self, index: usize, answer: S::Outcome, step: &mut Step, value: &S::Value) {
        let answer = match Proposal::<S>::optional(&step.hook, &answer, value) {
            Some(proposal) => {
                let writer = self.writer.as_ref().map(|writer| writer.id.clone());
                proposal.give_way(step, writer)
            }
            None => answer,
        };
        let (blocks, asks) = (answer.blocks(), !answer.approvals().is_empty());
        let unstable = S::absorb(&mut value.clone(), &answer);
        step.said = Said::of(blocks, asks, unstable);
        step.refused.extend(self.merged.merge(answer.gates_only()));
        self.note(index, &step.hook, blocks, asks);
        if unstable && self.blocked.is_none() {
            self.blocked = Some(unstable_rewrite(&step.hook, self.writer.as_deref()));
        }
    }

    /// Shows an optional rewrite to everybody who stands before its author. Returns who objects: whoever would
    /// block the value, change it, ask a human who was not to be asked before, or has no answer.
    async fn hear(&mut self, index: usize, author: &Arc<HookMeta>, value: &S::Value) -> Option<HookId> {
        if let Some(objection) = self.objection(value) {
            return Some(objection.hook.id.clone());
        }
        let objection = self.first_objection(index, author, value).await?;
        let objector = objection.hook.id.clone();
        self.refused.push((value.clone(), objection));
        Some(objector)
    }

    /// Returns the objection that was made to this value before.
    fn objection(&self, value: &S::Value) -> Option<Objection> {
        self.refused.iter().find(|(refused, _)| refused == value).map(|(_, objection)| objection.clone())
    }

    async fn first_objection(
        &mut self,
        index: usize,
        author: &Arc<HookMeta>,
        value: &S::Value,
    ) -> Option<Objection> {
        let Setting { snapshot, call, .. } = self.setting;
        let mut redacted = redaction::redact_again(value, snapshot, call, Some(author));
        for step in &mut redacted.steps {
            step.proposal_of = Some(author.id.clone());
        }
        let objector = redacted.blocked.map(|blocked| {
            let step = redacted.steps.iter().find(|step| blocked.hook.as_ref() == Some(&step.hook.id));
            Arc::clone(step.map_or(author, |step| &step.hook))
        });
        self.steps.extend(redacted.steps);
        if let Some(hook) = objector {
            return Some(Objection { hook, binding: true });
        }
        let (mut accepted, forms) = (Vec::new(), Forms::default());
        for before in 0..index {
            let Some(&Placed { seat, asks: asked, .. }) = self.seats.get(before) else { break };
            let (asked_now, answer) = self.consult(seat, value, &forms).await;
            let mut step = asked_now.step(seat.meta(), true);
            step.proposal_of = Some(author.id.clone());
            let (objects, binding) = match answer {
                Ok(None) => (false, false),
                Ok(Some(answer)) => {
                    let (blocks, asks) = (answer.blocks(), !answer.approvals().is_empty());
                    let changes = S::absorb(&mut value.clone(), &answer);
                    step.said = Said::of(blocks, asks, changes);
                    let is_gate = blocks || (asks && !asked);
                    let required = changes && step.hook.rewrite == Rewrite::Required;
                    accepted.push(*answer);
                    (is_gate || changes, is_gate || required)
                }
                Err(failure) => {
                    step.said = Said::Failed;
                    step.failure = Some(*failure);
                    (true, true)
                }
            };
            let objection = objects.then(|| Objection { hook: Arc::clone(&step.hook), binding });
            self.steps.push(step);
            if objection.is_some() {
                self.moot.extend(accepted.iter().flat_map(S::Outcome::approvals).cloned());
                return objection;
            }
        }
        for answer in accepted {
            self.merged.merge(answer.gates_only());
        }
        None
    }

    /// Says whose values an answer replaces, where the last hook to set a key wins.
    fn note_keys(&mut self, answer: &S::Outcome, step: &mut Step) {
        let Some(next) = answer.per_key() else { return };
        let mut replaced = Vec::new();
        for (key, value) in next {
            let differs =
                self.merged.per_key().and_then(|keys| keys.get(key)).is_some_and(|old| old != value);
            let before = self.keys.insert(key.clone(), step.hook.id.clone());
            if let Some(of) = before.filter(|_| differs) {
                replaced.push(Replaced { key: key.clone(), of });
            }
        }
        step.replaced = replaced.into();
    }

    fn note(&mut self, index: usize, hook: &HookMeta, blocks: bool, asks: bool) {
        if let Some(placed) = self.seats.get_mut(index) {
            placed.asks |= asks;
        }
        if blocks {
            self.blocked = Some(blocked(hook, BlockCause::Decision, self.merged.block_reason().cloned()));
        }
    }
}

/// What a hook would make of a value.
struct Proposal<S: Seat> {
    /// The value as proposed.
    value: S::Value,
    /// The hook's answer without the rewrite.
    rest: S::Outcome,
    /// The fields by which it rewrites.
    fields: Vec<&'static str>,
}

impl<S: Seat> Proposal<S> {
    /// Returns what a hook whose rewrites are optional would make of the value, if that is another one.
    fn optional(hook: &HookMeta, answer: &S::Outcome, value: &S::Value) -> Option<Self> {
        if hook.rewrite == Rewrite::Required {
            return None;
        }
        let mut rest = answer.clone();
        let fields = rest.withdraw();
        if fields.is_empty() {
            return None;
        }
        let (mut with, mut without) = (value.clone(), value.clone());
        S::absorb(&mut with, answer);
        S::absorb(&mut without, &rest);
        (with != without).then_some(Self { value: with, rest, fields })
    }

    /// Returns the answer without the rewrite; the step says so.
    fn give_way(self, step: &mut Step, to: Option<HookId>) -> S::Outcome {
        step.refused = self.fields;
        step.yielded_to = to;
        self.rest
    }
}

pub(crate) fn blocked(hook: &HookMeta, cause: BlockCause, reason: Option<Reason>) -> Blocked {
    Blocked { cause, reason, hook: Some(hook.id.clone()), owner: Some(hook.owner.clone()) }
}

/// `objector` does not accept the value as it stands, which `writer` wrote.
pub(crate) fn unstable_rewrite(objector: &HookMeta, writer: Option<&HookMeta>) -> Blocked {
    let reason = match writer {
        Some(writer) if writer.id != objector.id => format!(
            "unstable_rewrite: hook `{}` would change again what hook `{}` wrote",
            objector.id, writer.id
        ),
        _ => format!("unstable_rewrite: hook `{}` would change again what it wrote", objector.id),
    };
    let writer = writer.map(|writer| writer.id.clone());
    blocked(objector, BlockCause::UnstableRewrite { writer }, Some(Reason::fixed("rewrite.unstable", reason)))
}

/// Writes into its step that a hook failed. Returns the block that comes of it, if its failure is not let pass.
pub(crate) fn fail(hook: &HookMeta, failure: Failure, step: &mut Step) -> Option<Blocked> {
    let blocked = failure.blocks(hook.on_failure).then(|| failed(hook, &failure));
    step.said = Said::Failed;
    step.passed_despite_failure = blocked.is_none() && failure.blocks(hook.point.info().failure);
    step.failure = Some(failure);
    blocked
}

pub(crate) fn failed(hook: &HookMeta, failure: &Failure) -> Blocked {
    // The failure itself is in the receipt's step. Whoever asked need not know where on this machine what is.
    let told: &str = if failure.is_of_this_machine() {
        tracing::warn!(hook = %hook.id, error = %failure, "a hook failed");
        "Backstop's log says how"
    } else {
        &failure.message
    };
    let reason = Reason::fixed("hook.failed", format!("hook `{}` failed: {told}", hook.id));
    blocked(hook, BlockCause::Failure { kind: failure.kind }, Some(reason))
}
