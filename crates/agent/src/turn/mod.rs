//! One turn: from a message to its answer, through every point of the catalogue's families A and B.
//!
//! [`prepare`] takes the message to a prompt, [`answering`] asks the model and runs tools until there is an
//! answer, [`emit`] lets it out. What the steps share is in [`run`] and [`transcript`]. This module begins
//! and ends turns: the session is claimed, what a killed process left is closed, the run is written down,
//! and at the end, however it comes, the transcript is whole, approvals and claims are released, and
//! `agent_end` is told.

mod answering;
mod compaction;
mod emit;
mod finalize;
pub(crate) mod hold_back;
mod model_call;
mod observers;
mod prepare;
mod redaction;
mod results;
mod run;
mod tool_calls;
mod transcript;
mod voice;

use std::time::{Duration, Instant};

use backstop_hooks::points::{AgentEnd, AgentEndEvent, MessageReceived, MessageReceivedEvent};
use backstop_hooks::{CallContext, FrontEnd, PointId, RunId, Text};
use backstop_store::{Allowance, ApprovalFilter, ApprovalState, Reach, RunOutcome, Session, Timestamp};
use tokio::task::JoinHandle;

use self::answering::Tally;
pub(crate) use self::emit::emit_alone;
use self::prepare::Prepared;
pub(crate) use self::prepare::blocker;
use self::run::{Run, Stop};
use self::transcript::Transcript;
use crate::agent::Agent;
use crate::error::AgentError;
use crate::report::{TurnError, TurnInput, TurnOutcome, TurnReport, TurnTrigger, new_run_id};
use crate::session::{AgentSession, Claim};
use crate::stage::Stage;
use crate::tools::CancelToken;

/// How long an answer counts whose process died before it could use it.
const INHERITED: Duration = Duration::from_secs(15 * 60);
/// How many of the latest approvals are looked through for such answers.
const LOOK_BACK: usize = 200;
/// How long the end of a cancelled turn waits for hooks that only watch.
const CANCELLED_DRAIN: Duration = Duration::from_secs(2);

/// Takes one message through a turn.
pub(crate) async fn run(
    agent: &Agent,
    session: &AgentSession,
    input: TurnInput,
    cancel: &CancelToken,
) -> Result<TurnReport, AgentError> {
    let stop = CancelToken::new();
    let _forward = Forward::start(cancel, &stop);
    let claim = Claim::take(&agent.store, session, agent.settings.lease, &stop).await?;
    // It may have been reset or have grown old since it was opened, also by another process.
    if let Some(Session { id, key, ended: Some(end), .. }) = agent.store.session(session.id()).await? {
        claim.release().await?;
        return Err(AgentError::Ended { id, key, reason: end.reason });
    }
    recover(agent, session, &stop, &claim).await?;
    let id = new_run_id();
    let mut call = context(agent, session, &id, &input);
    call.trace = agent.stages.begin(&agent.engine, &call);
    agent.store.start_run(session.id(), &id, Timestamp::now()).await?;
    agent.store.touch_session(session.id(), Timestamp::now()).await?;
    let run = Run::new(agent, session, id, call, stop, claim.watch());
    let began = Instant::now();
    let mut tally = Tally::default();
    let mut transcript = match Transcript::load(&run).await {
        Ok(transcript) => transcript,
        Err(error) => {
            let nothing = Transcript::default();
            return end(run, claim, nothing, tally, Err(Stop::Broken(error)), began).await;
        }
    };
    let ended = steps(&run, &mut transcript, &input, &mut tally).await;
    end(run, claim, transcript, tally, ended, began).await
}

async fn steps(
    run: &Run<'_>,
    transcript: &mut Transcript,
    input: &TurnInput,
    tally: &mut Tally,
) -> Result<Option<Text>, Stop> {
    received(run, input);
    let prepared: Prepared = prepare::prepare(run, transcript, input).await?;
    let prompt = answering::store_message(run, transcript, &prepared).await?;
    if let Some(reply) = answering::reply_of_a_hook(run, transcript, &prepared).await? {
        return Ok(Some(reply));
    }
    answering::answer(run, transcript, &prepared, &prompt, tally).await
}

/// Tells that a message came in, before anybody judges it. A heartbeat or a schedule sends none.
fn received(run: &Run<'_>, input: &TurnInput) {
    if input.trigger != TurnTrigger::User {
        return;
    }
    run.tell::<MessageReceived>(|| received_event(&run.call, input));
}

/// A message that came in.
pub(crate) fn received_event(call: &CallContext, input: &TurnInput) -> MessageReceivedEvent {
    let sender = input.sender.as_ref().and_then(|sender| sender.sender_id.clone());
    MessageReceivedEvent {
        from: sender.clone().unwrap_or_else(|| "user".to_owned()),
        content: input.prompt.clone(),
        timestamp: Some(Timestamp::now().as_millis()),
        thread_id: None,
        message_id: None,
        sender_id: sender,
        reply_to_id: None,
        reply_to_body: None,
        reply_to_sender: None,
        session_key: call.session_key.clone(),
        run_id: call.run_id.clone(),
        metadata: None,
    }
}

pub(crate) fn context(agent: &Agent, session: &AgentSession, run: &RunId, input: &TurnInput) -> CallContext {
    let job_id = match &input.trigger {
        TurnTrigger::Cron { job_id } => Some(job_id.clone()),
        TurnTrigger::User | TurnTrigger::Heartbeat { .. } => None,
    };
    CallContext {
        agent_id: Some(agent.settings.agent_id.clone()),
        session_key: Some(session.key().clone()),
        session_id: Some(session.id().clone()),
        run_id: Some(run.clone()),
        job_id,
        trigger: Some(input.trigger.kind()),
        message_provider: agent.settings.channel.clone(),
        workspace_dir: Some(session.tools().workspace.root().display().to_string()),
        requester: input.sender.clone(),
        front_end: FrontEnd::of_host("agent"),
        ..CallContext::default()
    }
}

/// Ends a turn. Whatever of this fails, the rest is still done.
async fn end(
    run: Run<'_>,
    claim: Claim,
    mut transcript: Transcript,
    tally: Tally,
    ended: Result<Option<Text>, Stop>,
    began: Instant,
) -> Result<TurnReport, AgentError> {
    let (outcome, mut broken) = outcome_of(&run, ended);
    // Without the claim the session is another process's to put in order.
    if !run.claim.is_lost() {
        let closing = close(&run, &mut transcript, &outcome).await;
        keep_first(&mut broken, closing);
        let settled = settle(&run, &outcome, tally, broken.is_some()).await;
        keep_first(&mut broken, settled);
    }
    let ending = run.agent.engine.end_run(Some(run.session.id()), &run.id).await;
    keep_first(&mut broken, ending.map_err(Into::into));
    let error = error_for_observers(&outcome, broken.as_ref());
    run.tell::<AgentEnd>(|| AgentEndEvent {
        run_id: Some(run.id.clone()),
        messages: transcript.messages(),
        success: error.is_none(),
        error: error.map(Text::from),
        duration_ms: model_call::millis_since(began),
    });
    run.agent.stages.tell(run.call.trace, || {
        let (outcome, failed) = word(&outcome);
        Stage::Turn {
            agent: &run.agent.settings.agent_id,
            session: run.session.id(),
            outcome,
            error: failed.or(broken.as_ref().map(|_| "not_kept")),
            elapsed: began.elapsed(),
        }
    });
    let patience = match outcome {
        TurnOutcome::Cancelled => CANCELLED_DRAIN.min(run.agent.settings.observer_drain),
        _ => run.agent.settings.observer_drain,
    };
    let (run_id, receipts) = run.finish(patience).await;
    keep_first(&mut broken, claim.release().await);
    match broken {
        Some(error) => Err(error),
        None => {
            Ok(TurnReport { run_id, outcome, iterations: tally.iterations, usage: tally.usage, receipts })
        }
    }
}

/// How the turn ended and, if it can't be kept, why.
fn outcome_of(run: &Run<'_>, ended: Result<Option<Text>, Stop>) -> (TurnOutcome, Option<AgentError>) {
    match ended {
        Ok(Some(text)) => (TurnOutcome::Answered { text }, None),
        Ok(None) | Err(Stop::Silent) => (TurnOutcome::Silent, None),
        Err(Stop::Blocked { point, blocked, message }) => {
            let by = blocker(&blocked, point);
            let message = message.unwrap_or_else(|| blocked.reason_or_default());
            (TurnOutcome::Blocked { by, point, message }, None)
        }
        Err(Stop::Failed(error)) => (TurnOutcome::Failed { error }, None),
        Err(Stop::Stopped) => (TurnOutcome::Cancelled, run.claim.check().err().map(Into::into)),
        Err(Stop::Broken(error)) => (TurnOutcome::Cancelled, Some(error)),
    }
}

/// How a turn ended in a word, and in another what broke it.
const fn word(outcome: &TurnOutcome) -> (&'static str, Option<&'static str>) {
    match outcome {
        TurnOutcome::Answered { .. } => ("answered", None),
        TurnOutcome::Silent => ("silent", None),
        TurnOutcome::Blocked { .. } => ("blocked", None),
        TurnOutcome::Cancelled => ("cancelled", None),
        TurnOutcome::Failed { error } => (
            "failed",
            Some(match error {
                TurnError::Model(_) => "model",
                TurnError::UnknownModel(_) => "unknown_model",
                TurnError::Inconsistent => "inconsistent",
                TurnError::TooManyIterations { .. } => "too_many_iterations",
            }),
        ),
    }
}

/// Makes the transcript whole, and leaves nothing in it that `before_response_emit` would not have let out.
async fn close(run: &Run<'_>, transcript: &mut Transcript, outcome: &TurnOutcome) -> Result<(), AgentError> {
    let (why, judged) = match outcome {
        TurnOutcome::Cancelled => {
            ("the user ended the turn; this call was not run, or not to its end", false)
        }
        TurnOutcome::Failed { error: TurnError::TooManyIterations { .. } }
        | TurnOutcome::Blocked { point: PointId::BeforeResponseEmit, .. }
        | TurnOutcome::Answered { .. }
        | TurnOutcome::Silent => (BROKE_OFF, true),
        TurnOutcome::Failed { .. } | TurnOutcome::Blocked { .. } => (BROKE_OFF, false),
    };
    transcript.close_open_calls(run, why).await?;
    if !judged {
        emit::judge_leftovers(run, transcript).await?;
    }
    Ok(())
}

const BROKE_OFF: &str = "the turn broke off; this call was not run, or not to its end";

/// What observers are told: never a reason, which may quote what was blocked.
fn error_for_observers(outcome: &TurnOutcome, broken: Option<&AgentError>) -> Option<String> {
    if let Some(error) = broken {
        return Some(error.to_string());
    }
    match outcome {
        TurnOutcome::Failed { error } => Some(error.to_string()),
        TurnOutcome::Cancelled => Some("cancelled".to_owned()),
        TurnOutcome::Blocked { by, .. } => Some(format!("blocked by {by}")),
        TurnOutcome::Answered { .. } | TurnOutcome::Silent => None,
    }
}

/// Injections and the run's own end.
async fn settle(run: &Run<'_>, outcome: &TurnOutcome, tally: Tally, broken: bool) -> Result<(), AgentError> {
    let store = &run.agent.store;
    // What a model has read was confirmed at once.
    let given = if tally.asked { Ok(0) } else { store.give_back_injections(&run.id).await };
    let ended = match outcome {
        _ if broken => RunOutcome::Failed,
        TurnOutcome::Answered { .. } | TurnOutcome::Silent => RunOutcome::Finished,
        TurnOutcome::Blocked { .. } => RunOutcome::Blocked,
        TurnOutcome::Failed { .. } => RunOutcome::Failed,
        TurnOutcome::Cancelled => RunOutcome::Interrupted,
    };
    store.end_run(run.session.id(), &run.id, ended, Timestamp::now()).await?;
    given?;
    Ok(())
}

fn keep_first(broken: &mut Option<AgentError>, step: Result<(), AgentError>) {
    if let Err(error) = step {
        match broken {
            None => *broken = Some(error),
            Some(_) => tracing::error!(%error, "a turn could not be ended cleanly"),
        }
    }
}

/// Closes what a killed process left behind in the session. Returns whether there was anything.
pub(crate) async fn recover_session(agent: &Agent, session: &AgentSession) -> Result<bool, AgentError> {
    if agent.store.open_runs(session.id()).await?.is_empty() {
        return Ok(false);
    }
    let stop = CancelToken::new();
    let claim = Claim::take(&agent.store, session, agent.settings.lease, &stop).await?;
    let recovered = recover(agent, session, &stop, &claim).await;
    claim.release().await.and(recovered).map(|()| true)
}

/// As [`recover_session`], for whoever holds the claim. Questions that nobody answered are closed, since the
/// call that waited is gone; what a human allowed and no call used counts once for the same call.
async fn recover(
    agent: &Agent,
    session: &AgentSession,
    stop: &CancelToken,
    claim: &Claim,
) -> Result<(), AgentError> {
    for left in agent.store.open_runs(session.id()).await? {
        tracing::warn!(session = %session.id(), run = %left.id, "closing a turn whose process has ended");
        let input = TurnInput::default();
        let call = CallContext { trigger: None, ..context(agent, session, &left.id, &input) };
        let run = Run::new(agent, session, left.id.clone(), call, stop.clone(), claim.watch());
        let mut transcript = Transcript::load(&run).await?;
        let why = "interrupted: the process that ran this call has ended, nobody knows how far it came";
        transcript.close_open_calls(&run, why).await?;
        emit::judge_leftovers(&run, &mut transcript).await?;
        agent.store.give_back_injections(&left.id).await?;
        agent.store.clear_decisions(session.id(), &left.id).await?;
        inherit_answers(agent, session, &left.id).await?;
        agent.store.end_run(session.id(), &left.id, RunOutcome::Interrupted, Timestamp::now()).await?;
        run.finish(CANCELLED_DRAIN).await;
    }
    Ok(())
}

/// Closes the questions of a run whose process is gone, and keeps the answers that it did not live to see.
async fn inherit_answers(agent: &Agent, session: &AgentSession, run: &RunId) -> Result<(), AgentError> {
    let now = Timestamp::now();
    let answers = agent.engine.answer_store();
    answers.cancel_run_approvals(session.id(), run, now).await?;
    for record in answers.approvals(ApprovalFilter::All, LOOK_BACK).await? {
        let asked_here = record.request.session == *session.id() && record.request.run.as_ref() == Some(run);
        if let ApprovalState::Allowed(Allowance { reach: Reach::WaitingCall, .. }) = &record.state
            && asked_here
        {
            // An answer that can't be kept is no reason not to go on: the call is asked about again.
            if let Err(error) = answers.keep_allowance(&record.id, INHERITED, now).await {
                tracing::warn!(approval = %record.code, %error, "an answer could not be kept");
            }
        }
    }
    Ok(())
}

/// Passes the caller's switch on to the turn's own, which a lost claim turns as well.
struct Forward(JoinHandle<()>);

impl Forward {
    fn start(from: &CancelToken, to: &CancelToken) -> Self {
        let (from, to) = (from.clone(), to.clone());
        if from.is_cancelled() {
            to.cancel();
        }
        Self(tokio::spawn(async move {
            from.cancelled().await;
            to.cancel();
        }))
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        self.0.abort();
    }
}
