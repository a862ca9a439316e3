//! The decision API: an event in, what the hooks make of it out.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use backstop_engine::{
    Attendance, Blocked, Engine, JsonDispatch, Receipt, Substituted, ToolVerdict, Verdict,
};
use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{
    AgentId, ApprovalId, CallContext, Digest, HookId, Params, PointId, Reason, RuleId, Severity, Substitute,
    Text,
};
use backstop_store::ApprovalRecord;
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::time::Instant;

use super::super::operators::Problem;
use super::asked::{Answer, Asked, Done, Empty, Waits, without_values};
use super::callbacks::Place;
use super::decisions::{Made, Stage, UnderWay, Watcher, wait};
pub(super) use super::events::points;
use super::events::{check_event, context};
use super::{Caller, PREFIX};
use crate::access::Holder;

/// How long an answer of a human may be of use: long enough to be given, and no longer than hooks may want.
const SHORTEST_WITHIN: Duration = Duration::from_secs(1);
const LONGEST_WITHIN: Duration = Duration::from_secs(600);

/// What is to be judged.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "JudgeRequest")]
pub(super) struct Judge {
    /// The event of the point, as the reference of the hook points describes it.
    event: Map<String, Value>,
    /// Whose it is: session, run, requester and what else hooks are told. The agent is the token's.
    #[serde(default)]
    #[schemars(with = "Option<CallContext>")]
    context: Option<Map<String, Value>>,
    /// What whoever asks can take in the place of a tool call, so that a person may answer with it: `edit` for a tool that is run with
    /// the arguments of the answer, whatever they are; `respond` for one whose result is told as the answer says, without running it.
    /// For `before_tool_call`.
    #[serde(default)]
    substitutes: BTreeSet<Substitute>,
    /// The name of a callback of the operator's configuration (`gateway.api.callbacks`), which is told of the decision where a human is asked
    /// and this request is answered before they have decided. For `before_tool_call`.
    #[serde(default)]
    #[schemars(length(max = 64))]
    callback: Option<String>,
    /// How long an answer of a human is of use, in milliseconds, from 1000 to 600000: the question ends then, if it does not end sooner, and
    /// the call is blocked. One whose call would run if nobody answers keeps its time. For `before_tool_call`.
    #[serde(default)]
    #[schemars(range(min = 1_000, max = 600_000))]
    answer_within_ms: Option<u64>,
}

/// A decision, or the question that it waits for.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Ruling")]
pub(super) struct Decision {
    /// Its id, by which it is waited for; absent where it was made at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// Whether it is made.
    status: Status,
    /// What a human is asked, while it is pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    question: Option<Question>,
    /// What was decided.
    #[serde(flatten)]
    #[schemars(with = "Option<Judgement>")]
    judgement: Option<Judgement>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "RulingStatus")]
enum Status {
    /// A human is asked.
    Pending,
    /// It is made.
    Decided,
}

/// What hooks made of an event.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Judgement {
    /// What may happen.
    verdict: Word,
    /// The arguments with which the tool is to run, and no others; for tool calls that may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<Params>,
    /// What a person put in the place of the tool call, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    substitute: Option<Substitute>,
    /// The result that a person gave in the place of the tool call. Have it judged as every result, at `tool.after`.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Text>,
    /// The digest of the tool call that was judged, and that a human was shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<Digest>,
    /// The merged answer of the hooks, which is to be obeyed; absent where nobody answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Value>,
    /// Why it was stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked: Option<Stopped>,
    /// The record of it, as the audit trail has it.
    receipt: Value,
}

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Verdict")]
enum Word {
    /// It may happen as it is.
    Allow,
    /// It may happen as the hooks, or a person, changed it.
    Modify,
    /// It may not happen.
    Block,
    /// It may not happen: a person gave its result.
    Respond,
    /// A hook took the event.
    Handled,
    /// Hooks have watched.
    Observed,
}

/// Why something was stopped.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Block")]
struct Stopped {
    /// Why, in words that the model may read.
    reason: Text,
    /// The hook that stopped it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hook: Option<HookId>,
    /// The rules that it names.
    rules: Vec<RuleId>,
    /// Whether nobody could judge: it is no decision, and may be tried again.
    unavailable: bool,
}

/// What a human is asked. It holds nothing by which it could be answered.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Question {
    /// Its id among the approvals.
    approval: ApprovalId,
    /// The question, in one line.
    title: Text,
    /// How grave it is.
    severity: Severity,
    /// The last moment at which an answer counts, in Unix milliseconds.
    #[schemars(with = "i64")]
    expires_at: backstop_store::Timestamp,
}

impl Question {
    /// Returns its id among the approvals.
    pub(super) fn approval(&self) -> &ApprovalId {
        &self.approval
    }

    pub(super) fn of(record: &ApprovalRecord) -> Self {
        let request = &record.request;
        Self {
            approval: record.id.clone(),
            title: request.title.clone(),
            severity: request.severity,
            expires_at: request.expires_at,
        }
    }
}

impl Judgement {
    /// Returns what a verdict about a tool call comes to now. Looks at what it was judged by, if it has a permit, and uses nothing up: whoever
    /// tells somebody that it may run keeps the verdict from being told again.
    pub(super) fn of_tool_call(verdict: &ToolVerdict) -> Self {
        let ToolVerdict { permit, receipt, substituted, .. } = verdict;
        let (substitute, result) = match substituted {
            None => (None, None),
            Some(Substituted::Edited { .. }) => (Some(Substitute::Edit), None),
            Some(Substituted::Responded { result, .. }) => (Some(Substitute::Respond), Some(result.clone())),
        };
        let permitted = match permit {
            Ok(permit) => permit.look().map(|()| permit).map_err(|changed| {
                Stopped::of(&Blocked {
                    cause: backstop_engine::BlockCause::Withheld,
                    reason: Some(Reason::fixed("evidence.changed", changed.to_string())),
                    hook: None,
                    owner: None,
                })
            }),
            Err(blocked) => Err(Stopped::of(blocked)),
        };
        let word = match Word::of(receipt) {
            Word::Allow if substitute.is_some() => Word::Modify,
            word => word,
        };
        match permitted {
            Ok(permit) => Self {
                verdict: word,
                params: Some(permit.params.clone()),
                substitute,
                result: None,
                digest: Some(permit.digest()),
                outcome: None,
                blocked: None,
                receipt: written(receipt),
            },
            Err(stopped) => Self {
                verdict: if result.is_some() { Word::Respond } else { Word::Block },
                params: None,
                substitute,
                digest: receipt.judged,
                outcome: None,
                // What a person has answered is not refused.
                blocked: result.is_none().then_some(stopped),
                result,
                receipt: written(receipt),
            },
        }
    }

    fn of_event(judged: &JsonDispatch) -> Self {
        let blocked = judged.blocked.as_ref();
        Self {
            verdict: if blocked.is_some() { Word::Block } else { Word::of(&judged.receipt) },
            params: None,
            substitute: None,
            result: None,
            digest: None,
            outcome: judged.outcome.clone(),
            blocked: blocked.map(Stopped::of),
            receipt: written(&judged.receipt),
        }
    }

    pub(super) fn decided(self, id: Option<String>) -> Decision {
        Decision { id, status: Status::Decided, question: None, judgement: Some(self) }
    }
}

/// Receipts hold no text of what was judged; all of them have a JSON form.
fn written(receipt: &Receipt) -> Value {
    serde_json::to_value(receipt).unwrap_or_default()
}

impl Judgement {
    /// Returns whether something may run by it.
    pub(super) fn permits(&self) -> bool {
        matches!(self.verdict, Word::Allow | Word::Modify)
    }
}

impl Word {
    fn of(receipt: &Receipt) -> Self {
        match receipt.verdict {
            Verdict::Pass => Self::Allow,
            Verdict::Modify => Self::Modify,
            Verdict::Handled => Self::Handled,
            Verdict::Observed => Self::Observed,
            // Whoever asks by the API has no user of its own to whom it would be left.
            Verdict::Block | Verdict::Dropped | Verdict::Ask => Self::Block,
        }
    }
}

impl Stopped {
    fn of(blocked: &Blocked) -> Self {
        let rules = blocked.reason.as_ref().map(|reason| reason.rules().to_vec());
        Self {
            reason: blocked.reason_or_default(),
            hook: blocked.hook.clone(),
            rules: rules.unwrap_or_default(),
            unavailable: blocked.is_unavailable(),
        }
    }
}

/// Lets the hooks at a point judge an event.
pub(super) async fn judge(asked: Asked, waits: Waits, body: Judge) -> Result<Answer<Decision>, Problem> {
    let Caller::Holder(holder) = &asked.caller else { return Err(Problem::scope("judge")) };
    let engine = asked.engine()?.clone();
    let point = point(asked.name(), &engine)?;
    check_event(point, &body.event)?;
    // INVARIANT (one reading): two calls that whoever runs them tells apart have no digest in common.
    asked.check_numbers()?;
    let shared = &asked.shared.shared_folders;
    let context = context(holder, body.context, engine.store().digest_key(), shared)?;
    let event = Value::Object(body.event);
    if point == PointId::BeforeToolCall {
        let event: ToolCallEvent =
            serde_json::from_value(event).map_err(|error| not_an_event(point, &error))?;
        let within = body.answer_within_ms.map(within).transpose()?;
        let callbacks = &asked.shared.api.callbacks;
        let agent = holder.agent.as_ref();
        let callback = body.callback.map(|name| callbacks.place(&name, agent)).transpose()?;
        let substitutes = body.substitutes.into_iter().collect();
        let call = Call { event, context, substitutes, callback, within };
        asked.shared.api.counted.count(holder);
        return tool_call(&asked, holder, engine, call, waits.time()).await;
    }
    if !body.substitutes.is_empty() {
        return Err(Problem::body("`substitutes` is for `before_tool_call`".to_owned()));
    }
    if body.callback.is_some() || body.answer_within_ms.is_some() {
        let told = "`callback` and `answerWithinMs` are for `before_tool_call`";
        return Err(Problem::body(told.to_owned()));
    }
    let (run, session) = (context.run_id.clone(), context.session_id.clone());
    let judging = engine.clone();
    let judged = asked
        .shared
        .judging
        .sized(asked.body.len(), async move { judging.dispatch_json(point, event, &context, false).await })
        .await;
    let judged = judged.map_err(|error| {
        Problem::body(format!("this is no event of `{point}`: {}", without_values(&error.why)))
    })?;
    asked.shared.api.counted.count(holder);
    if let (PointId::AgentEnd, Some(run)) = (point, &run)
        && engine.end_run(session.as_ref(), run).await.is_err()
    {
        return Err(Problem::store());
    }
    Ok(Judgement::of_event(&judged).decided(None).into())
}

/// Returns how long an answer is of use.
fn within(millis: u64) -> Result<Duration, Problem> {
    let within = Duration::from_millis(millis);
    match (SHORTEST_WITHIN..=LONGEST_WITHIN).contains(&within) {
        true => Ok(within),
        false => Err(Problem::body("`answerWithinMs` is a number from 1000 to 600000".to_owned())),
    }
}

fn point(name: &str, engine: &Engine) -> Result<PointId, Problem> {
    let point: PointId =
        name.parse().map_err(|_| Problem::point(PointId::nearest(name).map(PointId::name)))?;
    if matches!(point, PointId::ToolBefore | PointId::TrustedToolPolicy) {
        return Err(Problem::gates());
    }
    if !points().any(|known| known == point) {
        return Err(Problem::point(None));
    }
    // No silent gap: a hook that can't stand anywhere in this process can't be asked either.
    if !engine.registry().snapshot().hosts().does_fire(point) {
        return Err(Problem::no_host());
    }
    Ok(point)
}

/// A tool call that is to be judged.
struct Call {
    event: ToolCallEvent,
    context: CallContext,
    /// What may be put in its place.
    substitutes: Vec<Substitute>,
    /// Who is called when it is decided after whoever asks was answered.
    callback: Option<Place>,
    /// How long an answer is of use.
    within: Option<Duration>,
}

async fn tool_call(
    asked: &Asked,
    holder: &Holder,
    engine: Engine,
    call: Call,
    patience: Duration,
) -> Result<Answer<Decision>, Problem> {
    let Call { event, context, substitutes, callback, within } = call;
    let (sender, stage) = watch::channel(Stage::Judging);
    let until = within.map(|within| Instant::now() + within);
    let attendance = Attendance::Present(Arc::new(Watcher { stage: sender.clone(), until }));
    // Who holds the hooks keeps them in place while they judge, also when others take theirs.
    let hooks = Arc::clone(&asked.shared.interceptor);
    let (places, size, life) = (asked.shared.judging.clone(), asked.body.len(), holder.life.clone());
    let judging = tokio::spawn(async move {
        let permitting =
            Box::pin(
                async move { engine.permit_or_substitute(event, &context, &attendance, &substitutes).await },
            );
        tokio::select! {
            biased;
            // Whose token ends has no question any more: it is cancelled with the judging.
            () = life.over() => {}
            verdict = places.sized(size, permitting) => {
                sender.send_replace(Stage::Made(Arc::new(Made::new(verdict)), Instant::now()));
            }
        }
        drop(hooks);
    });
    let mut under_way = UnderWay { stage, task: Some(judging.abort_handle()) };
    match wait(&mut under_way.stage, patience).await? {
        Stage::Made(made, _) => Ok(Answer::Made(made)),
        Stage::Asked(question) => {
            let stage = under_way.stage.clone();
            let (id, kept) = asked.shared.api.decisions.keep(whose(holder), under_way)?;
            if let Some(place) = callback {
                place.call_when_made(holder, id.clone(), stage, kept);
            }
            Ok(Answer::Is {
                status: StatusCode::ACCEPTED,
                location: Some(format!("{PREFIX}decisions/{id}")),
                body: pending(id, *question),
            })
        }
        Stage::Judging => Err(Problem::failed()),
    }
}

/// Returns a decision that waits for an answer.
pub(super) fn pending(id: String, question: Question) -> Decision {
    Decision { id: Some(id), status: Status::Pending, question: Some(question), judgement: None }
}

/// Returns whose decisions somebody may read: those of the same agent and user, whatever token it comes by.
pub(super) fn whose(holder: &Holder) -> String {
    let agent = holder.agent.as_ref().map(AgentId::as_str);
    Digest::of("api_holder", &(agent, holder.user.as_deref())).to_string()
}

/// Returns a decision, or waits for it.
pub(super) async fn decision(asked: Asked, waits: Waits, _: Empty) -> Result<Answer<Decision>, Problem> {
    let Caller::Holder(holder) = &asked.caller else { return Err(Problem::scope("judge")) };
    let id = asked.name().to_owned();
    let (mut stage, kept) = asked.shared.api.decisions.find(&whose(holder), &id)?;
    Ok(match wait(&mut stage, waits.time()).await? {
        Stage::Made(made, _) => made.read(Some(&kept)).await?.decided(Some(id)).into(),
        Stage::Asked(question) => pending(id, *question).into(),
        Stage::Judging => return Err(Problem::failed()),
    })
}

/// Gives a decision up.
pub(super) async fn cancel(asked: Asked, _: Empty, _: Empty) -> Result<Answer<Done>, Problem> {
    let Caller::Holder(holder) = &asked.caller else { return Err(Problem::scope("judge")) };
    asked.shared.api.decisions.give_up(&whose(holder), asked.name())?;
    Ok(Done.into())
}

fn not_an_event(point: PointId, error: &serde_json::Error) -> Problem {
    Problem::body(format!("this is no event of `{point}`: {}", without_values(&error.to_string())))
}
