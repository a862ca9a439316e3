//! The engine: what hosts call.
//!
//! A host turns the outside world into events, hands each to the engine at its point, and obeys what
//! comes back. Every dispatch ends in a receipt, which the engine shows to all sinks.

mod builder;
mod named;
mod offers;
mod passage;

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::conversation::ToolCall;
use backstop_hooks::points::{
    AfterLlmCall, AfterLlmCallEvent, AfterLlmCallOutcome, BeforeResponseEmit, BeforeToolCall, ToolBefore,
    ToolCallEvent, TrustedToolPolicy,
};
use backstop_hooks::{
    CallContext, Claim, ClaimPoint, Contained, DecidePoint, Event as _, ObservePoint, Point, Reason, RunId,
    SessionId, ToolCallId, contained,
};
use backstop_store::{AnswerStore, People, Starts, Store, StoreError, Timestamp, ToolDecision};
use futures_util::future::join_all;
use tokio::task::consume_budget;

use crate::answers::{Answers, rule};
use crate::approvals::{Approvals, Attendance, session_of};
use crate::exhibit::Exhibit;
use crate::interceptor::Interceptors;
use crate::receipt::{BlockCause, Blocked, CallKey, FailureKind, Receipt, ReceiptSink, Verdict};
use crate::recording::{CallJudgement, CallRecorder, CallRecording};
use crate::redaction::{Redaction, ResponseGate, name_of};
use crate::registry::{Registry, Snapshot};
use crate::runner::{Claimed, Decided, Dispatch, reads_idle, untouched};
use crate::tool_call::{PATIENCE, Reviewed};
use crate::underway::Underway;

use self::passage::Question;

pub use self::builder::EngineBuilder;
pub use self::named::{JsonDispatch, NotAnEvent};
pub use self::offers::{OfferQuestion, OfferRuling};

/// How long a decision about a tool call counts for a host that knows only the call's id. Older decisions
/// can be pruned.
pub const DECISIONS_LAST: Duration = Duration::from_hours(24);

/// Shorter ids are made up by models, not by providers, and name different calls in different conversations.
const MIN_UNIQUE_ID_CHARS: usize = 12;

struct Inner {
    registry: Arc<Registry>,
    interceptors: Interceptors,
    sinks: Vec<Arc<dyn ReceiptSink>>,
    store: Arc<dyn Store>,
    approvals: Approvals,
    answers: Answers,
    shared_decisions: bool,
    answers_apart: bool,
    recorder: Option<Arc<dyn CallRecorder>>,
}

/// The pipeline. Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("hooks", &self.0.registry.list().len()).finish_non_exhaustive()
    }
}

/// A judgement that is over.
pub(crate) struct Judged<'a> {
    pub(crate) snapshot: &'a Arc<Snapshot>,
    pub(crate) call: &'a CallContext,
    /// What the hooks made of the call; `None` where it is not recorded.
    pub(crate) judgement: Option<CallJudgement>,
    pub(crate) receipt: &'a Receipt,
}

/// What happens to a tool call that a human must be asked about, in a host that sees the call in an answer and does not run
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unasked {
    /// The call is denied, and the question is filed: a person finds it among the approvals and can allow the call afterwards.
    /// What was allowed earlier counts.
    #[default]
    Deny,
    /// The host waits for the human, as long as the question says. What was allowed earlier counts.
    Wait,
    /// The call stays: the program that runs the tool asks.
    Leave,
}

/// A judged answer of a model.
#[derive(Debug)]
pub struct JudgedAnswer {
    /// What the hooks said.
    pub decided: Decided<AfterLlmCall>,
    /// What was decided about each tool call, in the answer's order.
    pub rulings: Vec<ToolDecision>,
}

impl Engine {
    /// Returns a builder for an engine without hooks.
    pub fn builder() -> EngineBuilder {
        EngineBuilder::new()
    }

    /// Returns the hooks.
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// Returns the interceptors among the hooks.
    pub fn interceptors(&self) -> &Interceptors {
        &self.0.interceptors
    }

    /// Returns the store of decisions, and of questions with their answers, unless these have [a separate
    /// store](Self::answer_store).
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// Returns the store of questions, answers and grants.
    pub fn answer_store(&self) -> &Arc<dyn AnswerStore> {
        &self.0.approvals.store
    }

    /// Waits until the questions of calls that were given up are withdrawn, and those who asked are told. That is done in tasks of its own, so whoever
    /// ends a process waits for it.
    pub async fn withdrawn(&self) {
        self.0.approvals.withdrawals.end().await;
    }

    /// Notes that a tool has run in a host that may have put a question about the call to its own user ([`Attendance::Host`](crate::Attendance::Host)): that person
    /// let it run, and nothing more can be allowed by that question.
    pub async fn host_ran(&self, call: &CallContext, id: &ToolCallId) {
        self.0.approvals.host_ran(call, id).await;
    }

    /// Returns those who are known by name when they answer.
    pub fn people(&self) -> &Arc<People> {
        &self.0.approvals.settings.people
    }

    /// Returns whether questions, answers and grants are kept [apart from the store](EngineBuilder::answer_store), and rows of the
    /// store answer nothing.
    pub fn keeps_answers_apart(&self) -> bool {
        self.0.answers_apart
    }

    /// Returns how often the hooks have changed. What was judged under another number may be judged otherwise now; a caller that
    /// remembers what hooks made of something reads it before it asks them.
    pub fn generation(&self) -> u64 {
        self.0.registry.generation()
    }

    /// Returns whether any hook is registered at the point `P` whose answers count. One in shadow is no reason to fire it.
    pub fn has_hooks<P: Point>(&self) -> bool {
        self.0.registry.is_occupied(P::INFO.id)
    }

    /// Lets the hooks at `P` decide about an event.
    pub async fn decide<P: DecidePoint>(&self, event: P::Event, call: &CallContext) -> Decided<P> {
        if self.unwatched::<P>() {
            return untouched(event);
        }
        // Boxed, so that a dispatch without hooks does not carry the room that one with hooks needs.
        Box::pin(async move {
            let snapshot = self.0.registry.snapshot();
            let underway = self.underway::<P>(&event, call);
            let decided = self.dispatch_in(&snapshot, call, &underway).decide(event).await;
            underway.end();
            self.interceptors().report_built_ins(decided.receipt(), decided.blocked(), call);
            self.keep(decided.receipt()).await;
            decided
        })
        .await
    }

    /// Returns what the hooks at `before_response_emit` currently permit: whether an answer can be released while it is
    /// generated.
    pub fn response_gate(&self) -> ResponseGate {
        if !self.has_hooks::<BeforeResponseEmit>() {
            return ResponseGate::Open;
        }
        let others = !self.0.registry.load().slot::<BeforeResponseEmit>().is_empty();
        if others { ResponseGate::Whole } else { ResponseGate::Spans }
    }

    /// Returns the span redactors at `before_response_emit`, for an answer that is released while it is generated. They
    /// are those of this moment; a host asks [`Self::response_gate`] before it releases more.
    pub fn redaction(&self, call: &CallContext) -> Redaction {
        Redaction::new(self.clone(), call)
    }

    /// Returns whether a dispatch at `P` meets no hook, and nobody wants its receipt.
    fn unwatched<P: Point>(&self) -> bool {
        !self.has_hooks::<P>()
            && !self.0.registry.is_shadowed(P::INFO.id)
            && !reads_idle(&self.0.sinks, P::INFO.id)
    }

    /// Like [`Self::decide`], but the receipt also contains what each hook saw and answered, to show it to a human.
    pub async fn explain<P: DecidePoint>(&self, event: P::Event, call: &CallContext) -> Decided<P> {
        let snapshot = self.0.registry.snapshot();
        Dispatch { capture: true, digests: true, ..self.dispatch(&snapshot, call) }.decide(event).await
    }

    /// Shows an event to the hooks at `P`. Returns when each has answered or used up its budget.
    pub async fn observe<P: ObservePoint>(&self, event: &P::Event, call: &CallContext) -> Receipt {
        if self.unwatched::<P>() {
            return Receipt::untouched(P::INFO.id, Verdict::Observed);
        }
        let snapshot = self.0.registry.snapshot();
        let underway = self.underway::<P>(event, call);
        let receipt = self.dispatch_in(&snapshot, call, &underway).observe::<P>(event).await;
        underway.end();
        self.record(&receipt);
        receipt
    }

    /// Offers an event to the hooks at `P` until one takes it.
    pub async fn claim<P: ClaimPoint>(&self, event: &P::Event, call: &CallContext) -> Claimed<P>
    where
        P::Outcome: Claim,
    {
        let snapshot = self.0.registry.snapshot();
        let underway = self.underway::<P>(event, call);
        let claimed = self.dispatch_in(&snapshot, call, &underway).claim::<P>(event).await;
        underway.end();
        self.keep(&claimed.receipt).await;
        claimed
    }

    /// Lets every hook judge a tool call, without asking a human and without a record: for `check` and
    /// `explain`. With `capture` the receipt contains what each hook saw and answered. Whoever listens to interceptors is told nothing of
    /// what built-ins would stop, because nothing was stopped.
    pub async fn review_tool_call(
        &self,
        event: ToolCallEvent,
        call: &CallContext,
        capture: bool,
    ) -> Reviewed {
        let snapshot = self.0.registry.snapshot();
        let ruling = self.ruling(&event, call).await;
        let dispatch = Dispatch { capture, digests: true, ..self.dispatch(&snapshot, call) };
        dispatch.review(event, ruling).await
    }

    /// Returns what a tool call would start, as whoever is asked about it is shown: with secrets masked. `None` if it says nothing of the
    /// kind.
    pub fn would_start(&self, event: &ToolCallEvent, call: &CallContext) -> Option<Starts> {
        let snapshot = self.0.registry.snapshot();
        Exhibit { snapshot: &snapshot, event, call }.starts()
    }

    /// Lets the hooks judge a model's answer. From the moment of this call, even before its future is
    /// first polled, tool calls of the run wait until the answer is decided. Dropping the future
    /// denies them.
    pub fn judge_answer<'a>(
        &'a self,
        event: AfterLlmCallEvent,
        call: &'a CallContext,
    ) -> impl Future<Output = JudgedAnswer> + Send + 'a {
        self.judge(event, call, None)
    }

    /// Like [`judge_answer`](Self::judge_answer), for hosts that see a model's answers and never its tools: each
    /// tool call that stays is also taken through the gates of tool calls, because nobody else may do so. Calls that they
    /// would stop are denied, and so are calls that they would rewrite, which can't be honoured in an answer. `unasked` says
    /// what happens to a call that they would ask a human about. Questions about several calls are asked at once.
    pub fn judge_answer_and_calls<'a>(
        &'a self,
        event: AfterLlmCallEvent,
        call: &'a CallContext,
        unasked: Unasked,
    ) -> impl Future<Output = JudgedAnswer> + Send + 'a {
        self.judge(event, call, Some(unasked))
    }

    /// Returns whether any hook judges tool calls.
    pub fn has_tool_gates(&self) -> bool {
        self.has_hooks::<TrustedToolPolicy>()
            || self.has_hooks::<ToolBefore>()
            || self.has_hooks::<BeforeToolCall>()
    }

    fn judge<'a>(
        &'a self,
        event: AfterLlmCallEvent,
        call: &'a CallContext,
        unasked: Option<Unasked>,
    ) -> impl Future<Output = JudgedAnswer> + Send + 'a {
        let judging = self.0.answers.begin(call.session_id.as_ref(), &event.run_id);
        async move {
            let (calls, run) = (event.tool_calls.clone(), event.run_id.clone());
            let snapshot = self.0.registry.snapshot();
            let mut underway = self.underway::<AfterLlmCall>(&event, call);
            let dispatch = self.dispatch_in(&snapshot, call, &underway);
            let mut decided = dispatch.decide::<AfterLlmCall>(event).await;
            underway.hold(decided.receipt().clone());
            let mut rulings = rule(&calls, decided.outcome(), decided.blocked());
            let mut previewed = false;
            if let Some(unasked) = unasked {
                let denied = self.foresee_all(&snapshot, &calls, &rulings, &run, call, unasked).await;
                for (ruling, blocked) in rulings.iter_mut().zip(&denied) {
                    if let Some(blocked) = blocked {
                        *ruling = ToolDecision::Deny { reason: blocked.reason_or_default() };
                        previewed = true;
                    }
                }
                // Where nobody could judge a call, that is no decision about it: nothing of the answer passes.
                let unjudged = denied.into_iter().flatten().find(Blocked::is_unavailable);
                if let Some(blocked) = unjudged.filter(|_| decided.blocked().is_none()) {
                    decided.stop(blocked, call);
                    rulings = rule(&calls, decided.outcome(), decided.blocked());
                }
            }
            if (previewed || !snapshot.slot::<AfterLlmCall>().is_empty())
                && let Err(error) = self.share(call.session_id.as_ref(), &run, &calls, &rulings).await
            {
                // INVARIANT (fail closed): what is denied here must not run in another process.
                tracing::error!(run = %run, %error, "decisions about tool calls could not be stored");
                if decided.blocked().is_none() && rulings.iter().any(|ruling| *ruling != ToolDecision::Allow)
                {
                    let blocked = Blocked {
                        cause: BlockCause::Failure { kind: FailureKind::Unreachable },
                        reason: Some(Reason::fixed(
                            "decision.not-stored",
                            "decisions about its tool calls could not be stored",
                        )),
                        hook: None,
                        owner: None,
                    };
                    decided.stop(blocked, call);
                    rulings = rule(&calls, decided.outcome(), decided.blocked());
                }
            }
            underway.end();
            self.keep(decided.receipt()).await;
            let named_only = decided.blocked().is_some() || decided.outcome().tool_calls.is_some();
            let keyed = calls.iter().map(|call| &call.id).zip(&rulings);
            judging.settle(keyed, named_only);
            JudgedAnswer { decided, rulings }
        }
    }

    /// Returns why tool calls of an answer may not leave, if the gates of tool calls say so. Those that are denied already are
    /// not judged again.
    async fn foresee_all(
        &self,
        snapshot: &Arc<Snapshot>,
        calls: &[ToolCall],
        rulings: &[ToolDecision],
        run: &RunId,
        call: &CallContext,
        unasked: Unasked,
    ) -> Vec<Option<Blocked>> {
        let question = match unasked {
            Unasked::Leave => Question::Left,
            Unasked::Deny => Question::Put(&Attendance::Nobody),
            Unasked::Wait => Question::Put(&Attendance::Queue),
        };
        let mut foreseen = Vec::with_capacity(calls.len());
        for (tool, ruling) in calls.iter().zip(rulings) {
            // An answer of thousands of calls does not keep a worker for itself.
            consume_budget().await;
            foreseen.push(match ruling {
                ToolDecision::Allow => Some(self.foresee(snapshot, call_of(tool, run), call).await),
                ToolDecision::Deny { .. } => None,
            });
        }
        // A person who sees one question sees all of them.
        join_all(foreseen.into_iter().map(|foreseen| async move {
            consume_budget().await;
            match foreseen {
                Some(foreseen) => self.conclude(foreseen, question).await.blocked,
                None => None,
            }
        }))
        .await
    }

    async fn share(
        &self,
        session: Option<&SessionId>,
        run: &RunId,
        calls: &[ToolCall],
        rulings: &[ToolDecision],
    ) -> Result<(), StoreError> {
        let Some(session) = session else { return Ok(()) };
        let keyed = calls.iter().map(|call| call.id.clone()).zip(rulings.iter().cloned());
        let named: Vec<_> = keyed.filter(|(id, _)| !id.is_empty()).collect();
        if named.is_empty() {
            return Ok(());
        }
        self.store().put_decisions(session, run, named, Timestamp::now()).await
    }

    async fn ruling(&self, event: &ToolCallEvent, call: &CallContext) -> Option<ToolDecision> {
        let run = event.run_id.as_ref().or(call.run_id.as_ref());
        let none = ToolCallId::new("");
        let id = event.tool_call_id.as_ref().unwrap_or(&none);
        let session = call.session_id.as_ref();
        if let Some(run) = run {
            let here = self.0.answers.ruling(session, run, id, PATIENCE).await;
            if here.is_some() {
                return here;
            }
        }
        if !self.0.shared_decisions {
            return None;
        }
        self.shared_ruling(session, run, id).await.unwrap_or_else(|error| {
            tracing::error!(%error, "decisions about tool calls could not be read");
            let told = format!("what was decided about this call can't be read: the store {}", error.kind());
            Some(ToolDecision::Deny { reason: told.into() })
        })
    }

    /// Returns what another process decided: about the call of this run, or, where the run has none, about the call
    /// of that id in any run. A gate in front of a tool seldom knows the run that the model's answer had.
    async fn shared_ruling(
        &self,
        session: Option<&SessionId>,
        run: Option<&RunId>,
        call: &ToolCallId,
    ) -> Result<Option<ToolDecision>, StoreError> {
        if let (Some(session), Some(run)) = (session, run)
            && let Some(decision) = self.store().decision(session, run, call).await?
        {
            return Ok(Some(decision));
        }
        if call.as_str().chars().count() < MIN_UNIQUE_ID_CHARS {
            return Ok(None);
        }
        self.store().decision_on_call(call, Timestamp::now().before(DECISIONS_LAST)).await
    }

    /// Forgets the decisions of a run in this process, and leaves the store as it is: for hosts that see
    /// answers and never the tools, and whose decisions other processes look up.
    pub fn forget_run(&self, session: Option<&SessionId>, run: &RunId) {
        self.0.answers.end(session, run);
    }

    /// Ends a run: cancels what it waits for, and forgets its decisions.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store can't be updated; the run is forgotten in this process in any case.
    pub async fn end_run(&self, session: Option<&SessionId>, run: &RunId) -> Result<(), StoreError> {
        self.0.answers.end(session, run);
        self.answer_store().cancel_run_approvals(&session_of(session), run, Timestamp::now()).await?;
        match session {
            Some(session) => self.store().clear_decisions(session, run).await,
            None => Ok(()),
        }
    }

    fn dispatch<'a>(&'a self, snapshot: &'a Snapshot, call: &'a CallContext) -> Dispatch<'a> {
        Dispatch {
            snapshot,
            call,
            capture: false,
            digests: self.is_recorded(),
            sinks: &self.0.sinks,
            progress: None,
        }
    }

    /// A dispatch whose steps are not lost when it is dropped.
    fn dispatch_in<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        call: &'a CallContext,
        underway: &'a Underway<'_>,
    ) -> Dispatch<'a> {
        Dispatch { progress: Some(underway.progress_of(snapshot)), ..self.dispatch(snapshot, call) }
    }

    fn underway<P: Point>(&self, event: &P::Event, call: &CallContext) -> Underway<'_> {
        Underway::begin(self, P::INFO.id, || CallKey {
            tool: event.tool_name().cloned(),
            ..CallKey::of(call)
        })
    }

    /// Returns whether anybody reads receipts.
    pub(crate) fn is_recorded(&self) -> bool {
        !self.0.sinks.is_empty()
    }

    /// Hands a tool call that was judged to whoever records calls.
    pub(crate) fn tape(&self, event: &ToolCallEvent, judged: Judged<'_>) {
        let (Some(recorder), Some(judgement)) = (&self.0.recorder, judged.judgement) else { return };
        let Judged { snapshot, call, receipt, .. } = judged;
        let recording = CallRecording {
            event: event.clone(),
            call: call.clone(),
            judgement,
            receipt: receipt.clone(),
            snapshot: Arc::clone(snapshot),
        };
        // The decision is made, and a recorder that panics does not undo it.
        if contained(|| recorder.record(recording)).is_err() {
            tracing::error!(receipt = receipt.id(), "who records tool calls panicked");
        }
    }

    /// Returns what hooks made of a call, if somebody records calls.
    pub(crate) fn judgement(&self, reviewed: &Reviewed) -> Option<CallJudgement> {
        self.0.recorder.as_ref().map(|_| CallJudgement::of(reviewed))
    }

    /// Shows a receipt to all sinks. One that stopped or asked is waited for; returns whether all have kept it.
    pub(crate) async fn keep(&self, receipt: &Receipt) -> bool {
        if !receipt.is_decisive() {
            self.record(receipt);
            return true;
        }
        Box::pin(async move {
            let receipt = &*self.shown(receipt);
            let mut keeping = Vec::new();
            // All are told before any is waited for: who drops this has told everybody.
            for sink in &self.0.sinks {
                match contained(|| sink.keep(receipt)) {
                    Ok(told) => keeping.extend(told),
                    Err(_) => tracing::error!(receipt = receipt.id(), "a receipt sink panicked"),
                }
            }
            let kept = keeping.into_iter().map(Contained::new);
            join_all(kept).await.into_iter().all(|kept| kept.unwrap_or(false))
        })
        .await
    }

    /// A receipt as sinks are shown it: without what redactors take out of texts in the name of its tool.
    fn shown<'r>(&self, receipt: &'r Receipt) -> Cow<'r, Receipt> {
        let key = &receipt.key;
        let Some(tool) = key.tool.as_ref().filter(|_| self.is_recorded()) else {
            return Cow::Borrowed(receipt);
        };
        let call = CallContext {
            agent_id: key.agent_id.clone(),
            session_key: key.session_key.clone(),
            session_id: key.session_id.clone(),
            run_id: key.run_id.clone(),
            ..CallContext::default()
        };
        let Some(name) = name_of(tool, &self.registry().snapshot(), &call, receipt.is_too_deep()) else {
            return Cow::Borrowed(receipt);
        };
        let mut shown = receipt.clone();
        shown.record_mut().key.tool = Some(name);
        Cow::Owned(shown)
    }

    pub(crate) fn record(&self, receipt: &Receipt) {
        let receipt = &*self.shown(receipt);
        for sink in &self.0.sinks {
            // The decision is made; a sink that panics must neither undo it nor hide it from the others.
            if contained(|| sink.record(receipt)).is_err() {
                tracing::error!(receipt = receipt.id(), "a receipt sink panicked");
            }
        }
    }
}

/// Returns what was decided about the calls of an answer that no hook judged.
pub fn ungated_rulings(calls: &[ToolCall]) -> Vec<ToolDecision> {
    rule(calls, &AfterLlmCallOutcome::default(), None)
}

fn call_of(tool: &ToolCall, run: &RunId) -> ToolCallEvent {
    ToolCallEvent::new(tool.tool_name(), tool.arguments.clone())
        .run_id(run.clone())
        .tool_call_id(tool.id.clone())
}
