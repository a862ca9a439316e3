//! Questions to people, and their answers.
//!
//! The rules are those of `backstop approvals`: the first answer counts, deny can always be answered, what has parts that nobody was
//! shown can't be allowed before they were, and where answers are kept apart from the database (`agent.approvals.strict`) they are
//! given at the process that asks, by people whom it can see, and not here: tokens are rows of that database.

use std::collections::BTreeMap;

use backstop_hooks::{
    AgentId, ApprovalId, Decision, Digest, HookId, Json, RuleId, RunId, SessionId, Severity, Substitute,
    Text, ToolCallId,
};
use backstop_store::{
    Allowance, AmountArgument, ApprovalFilter, ApprovalReason, ApprovalRecord, ApprovalState, People,
    PersonName, Reach, RefusedQuestions, Standing, Starts, Timestamp,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::operators::Problem;
use super::asked::{Answer, Asked, Empty, Number, limit};

/// Which questions.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    /// `pending` for those that nobody has answered yet, which is what an absent one means, or `all`.
    #[serde(default)]
    state: Filter,
    /// The `next` of the page before; the newest questions where absent.
    #[serde(default)]
    #[schemars(length(max = 128))]
    after: Option<String>,
    /// The most questions, from 1 to 1000; 100 where absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000))]
    limit: Option<Number>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "ApprovalFilter")]
enum Filter {
    #[default]
    Pending,
    All,
}

/// Questions.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Approvals {
    approvals: Vec<Approval>,
    /// Whether there are more, older ones.
    more: bool,
    /// The `after` of the next page, if there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<ApprovalId>,
    /// How many questions wait for an answer, listed here or not.
    waiting: usize,
    /// Questions of the last hour that nobody was asked, because their agents ask too much.
    refused: Vec<Refused>,
}

/// Questions of an agent that nobody was asked.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RefusedQuestions")]
struct Refused {
    agent: AgentId,
    count: u64,
    /// When the first of them was refused, in Unix milliseconds.
    since: i64,
    /// When the last one was, in Unix milliseconds.
    last: i64,
}

/// Who may answer a question, and who has, where the configuration says who may (`approvals.routes`).
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ApprovalVotes")]
struct Votes {
    /// How many people must allow the call.
    needed: u32,
    /// Those who have, as far as that counts.
    allowed: Vec<String>,
    /// Those who still may answer.
    awaited: Vec<String>,
    /// From when on others may answer as well, in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    later_at: Option<i64>,
    /// Those others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    later: Vec<String>,
}

/// A question to a person. Its code is not here: whoever holds it could answer elsewhere.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Approval {
    id: ApprovalId,
    /// `pending`, `allowed`, `used`, `denied`, `edited`, `responded`, `unattended`, `timed-out` or `cancelled`.
    status: &'static str,
    agent: AgentId,
    session_id: SessionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<RunId>,
    tool_call_id: ToolCallId,
    /// The tool.
    tool: String,
    /// The name by which it was called, where that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    called_as: Option<String>,
    /// The digest of the call; an answer counts for this call alone.
    digest: Digest,
    /// Where the call comes from, as far as that is known: `agent`, `through` (the host and its client), `for` (who asked for it), `channel`, `workspace` and `session`.
    whence: BTreeMap<&'static str, String>,
    title: Text,
    description: Text,
    severity: Severity,
    /// Who asks, and why.
    reasons: Vec<Reason>,
    /// The arguments, shortened for display. Once somebody who may answer was shown all of them, all of them where one question is asked for.
    arguments: Json,
    /// Whether a part of them is left out here.
    cut: bool,
    /// How many secrets in them are masked.
    masked: usize,
    /// What the call would start and touch, as far as it says so itself; nothing is decided by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    starts: Option<Starts>,
    /// Whether a part of them was shown to nobody: then the call can be denied, and allowed only once all was shown.
    unseen: bool,
    /// Those arguments that are amounts, up to a sum of which calls can be allowed from now on.
    amounts: Vec<AnAmount>,
    allowed_decisions: Vec<Decision>,
    /// What can be put in the place of the call, as whoever asks can take it.
    substitutes: Vec<Substitute>,
    /// The question of which the call came, if a person changed another call into this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    edited_from: Option<EditedFrom>,
    /// In Unix milliseconds.
    created_at: i64,
    /// The last moment at which an answer counts, in Unix milliseconds.
    expires_at: i64,
    /// Whether nobody waits for the answer any more, since the process that asked has ended: then `allow-later` allows the next such call, and `allow-once` is refused.
    abandoned: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    answered: Option<Answered>,
    /// Until when one later call may use the answer, where it is for none that waits, in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    later_until: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    votes: Option<Votes>,
}

/// An argument that is an amount.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AmountArgument")]
struct AnAmount {
    argument: String,
    /// How much it is, in decimal digits.
    amount: String,
}

impl AnAmount {
    fn of(amount: &AmountArgument) -> Self {
        Self { argument: amount.argument.clone(), amount: amount.amount.to_string() }
    }
}

/// The question of which a call came that a person changed.
#[derive(Debug, Serialize, JsonSchema)]
struct EditedFrom {
    approval: ApprovalId,
    by: String,
    /// The digest of the call as it was.
    digest: Digest,
    /// Its arguments, shortened for display; `null` once they are wiped.
    arguments: Json,
}

/// Why a hook asks.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ApprovalReason")]
struct Reason {
    hook: HookId,
    title: Text,
    description: Text,
    severity: Severity,
    rules: Vec<RuleId>,
}

/// Who answered.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ApprovalAnswered")]
struct Answered {
    decision: Said,
    by: String,
    /// In Unix milliseconds.
    at: i64,
}

/// What was answered.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "AnsweredWord")]
enum Said {
    AllowOnce,
    AllowAlways,
    Deny,
    /// A person changed the call.
    Edit,
    /// A person gave its result.
    Respond,
}

impl From<Decision> for Said {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::AllowOnce => Self::AllowOnce,
            Decision::AllowAlways => Self::AllowAlways,
            Decision::Deny => Self::Deny,
        }
    }
}

/// All arguments of a call.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WholeApproval")]
pub(super) struct Whole {
    approval: Approval,
    /// All of the arguments, where they were kept and are not all in `approval`.
    #[serde(skip_serializing_if = "Option::is_none")]
    whole: Option<Json>,
}

impl Approval {
    pub(super) fn of(record: &ApprovalRecord, people: &People) -> Self {
        let request = &record.request;
        let answered = match &record.state {
            ApprovalState::Allowed(allowance) | ApprovalState::Used { allowance, .. } => Some(Answered {
                decision: allowance.decision.into(),
                by: allowance.by.clone(),
                at: millis(allowance.at),
            }),
            ApprovalState::Denied { at, by, .. } => {
                Some(Answered { decision: Said::Deny, by: by.clone(), at: millis(*at) })
            }
            ApprovalState::Edited(one) => {
                Some(Answered { decision: Said::Edit, by: one.by.clone(), at: millis(one.at) })
            }
            ApprovalState::Responded(one) => {
                Some(Answered { decision: Said::Respond, by: one.by.clone(), at: millis(one.at) })
            }
            ApprovalState::Pending
            | ApprovalState::Unattended { .. }
            | ApprovalState::TimedOut { .. }
            | ApprovalState::Cancelled { .. } => None,
        };
        let later_until = match &record.state {
            ApprovalState::Allowed(Allowance { reach: Reach::LaterCall { until }, .. }) => {
                Some(millis(*until))
            }
            _ => None,
        };
        Self {
            id: record.id.clone(),
            status: record.state.status().as_str(),
            agent: request.agent.clone(),
            session_id: request.session.clone(),
            run_id: request.run.clone(),
            tool_call_id: request.call.clone(),
            tool: request.tool_name.canonical().to_owned(),
            called_as: request.tool_name.called_as().map(str::to_owned),
            digest: request.digest,
            whence: request.whence().into_iter().collect(),
            title: request.title.clone(),
            description: request.description.clone(),
            severity: request.severity,
            reasons: request.reasons.iter().map(Reason::of).collect(),
            arguments: request.preview.clone(),
            // What fits is not kept besides.
            cut: request.unseen || request.whole.is_some(),
            masked: request.masked,
            starts: request.starts.clone(),
            unseen: request.unseen,
            amounts: request.amounts.iter().map(AnAmount::of).collect(),
            allowed_decisions: request.allowed_decisions.clone(),
            substitutes: request.substitutes.clone(),
            edited_from: request.edited_from.as_ref().map(|parent| EditedFrom {
                approval: parent.approval.clone(),
                by: parent.by.clone(),
                digest: parent.digest,
                arguments: parent.shown.clone(),
            }),
            created_at: millis(request.created_at),
            expires_at: millis(request.expires_at),
            abandoned: record.is_abandoned(),
            answered,
            later_until,
            votes: record.standing(people, Timestamp::now()).map(Votes::of),
        }
    }
}

impl Approval {
    /// As [`of`](Self::of), with all of the arguments that people were shown. INVARIANT (what the human saw): what one person saw is shown to the others,
    /// too, who may answer by it.
    fn in_full(record: &ApprovalRecord, people: &People) -> Self {
        let request = &record.request;
        Self { arguments: request.shown().clone(), cut: request.unseen, ..Self::of(record, people) }
    }
}

impl Votes {
    fn of(standing: Standing) -> Self {
        let names = |people: Vec<PersonName>| people.iter().map(ToString::to_string).collect();
        let (later_at, later) = standing.later.map(|later| (millis(later.at), names(later.people))).unzip();
        Self {
            needed: standing.needed,
            allowed: names(standing.allowed),
            awaited: names(standing.awaited),
            later_at,
            later: later.unwrap_or_default(),
        }
    }
}

impl Refused {
    fn of(refused: RefusedQuestions) -> Self {
        let (since, last) = (millis(refused.since), millis(refused.last));
        Self { agent: refused.agent, count: refused.count, since, last }
    }
}

impl Reason {
    fn of(reason: &ApprovalReason) -> Self {
        Self {
            hook: reason.hook.clone(),
            title: reason.title.clone(),
            description: reason.description.clone(),
            severity: reason.severity,
            rules: reason.rules.iter().cloned().collect(),
        }
    }
}

/// A moment, in Unix milliseconds.
pub(super) fn millis(at: Timestamp) -> i64 {
    at.as_millis()
}

/// Lists questions.
pub(super) async fn list(asked: Asked, which: Which, _: Empty) -> Result<Answer<Approvals>, Problem> {
    let engine = asked.engine()?;
    let store = engine.answer_store();
    store.expire_approvals(Timestamp::now()).await.map_err(|_| Problem::store())?;
    let filter = match which.state {
        Filter::Pending => ApprovalFilter::Pending,
        Filter::All => ApprovalFilter::All,
    };
    let most = limit(which.limit)?;
    let mut records = newest(&asked, filter, which.after, most.saturating_add(1)).await?;
    let more = records.len() > most;
    records.truncate(most);
    let next = records.last().filter(|_| more).map(|record| record.id.clone());
    let waiting = store.overview().await.map_err(|_| Problem::store())?.waiting;
    let refused = store.refused_questions(Timestamp::now()).await.map_err(|_| Problem::store())?;
    let of = |record: &ApprovalRecord| Approval::of(record, engine.people());
    let approvals = records.iter().map(of).collect();
    let refused = refused.into_iter().map(Refused::of).collect();
    Ok(Approvals { approvals, more, next, waiting, refused }.into())
}

/// Returns the newest questions, or those that were asked before one: by that, whatever ends meanwhile moves none past a page.
async fn newest(
    asked: &Asked,
    filter: ApprovalFilter,
    after: Option<String>,
    most: usize,
) -> Result<Vec<ApprovalRecord>, Problem> {
    let store = asked.engine()?.answer_store();
    let Some(after) = after else {
        return store.approvals(filter, most).await.map_err(|_| Problem::store());
    };
    let id = ApprovalId::new(after);
    // What is named by no question is not the end of a list.
    if !id.as_str().bytes().all(|byte| byte.is_ascii_graphic())
        || store.approval(&id).await.map_err(|_| Problem::store())?.is_none()
    {
        return Err(Problem::no_approval());
    }
    store.approvals_before(&id, filter, most).await.map_err(|_| Problem::store())
}

/// Returns the question that the path names, by its whole id.
pub(super) async fn record(asked: &Asked) -> Result<ApprovalRecord, Problem> {
    let store = asked.engine()?.answer_store();
    let found = store.approval(&ApprovalId::new(asked.name())).await.map_err(|_| Problem::store())?;
    found.ok_or(Problem::no_approval())
}

/// Returns a question.
pub(super) async fn get(asked: Asked, _: Empty, _: Empty) -> Result<Answer<Approval>, Problem> {
    Ok(Approval::in_full(&record(&asked).await?, asked.engine()?.people()).into())
}

/// Shows all of the arguments to a person; if they may answer, the call can then be allowed.
pub(super) async fn whole(asked: Asked, _: Empty, _: Empty) -> Result<Answer<Whole>, Problem> {
    let found = record(&asked).await?;
    let engine = asked.engine()?;
    if engine.keeps_answers_apart() {
        return Err(Problem::strict());
    }
    let Some(whole) = found.request.whole.clone() else {
        return Ok(Whole { approval: Approval::of(&found, engine.people()), whole: None }.into());
    };
    // INVARIANT (what the human saw): what is shown to others counts as seen by nobody.
    let by = asked.caller.answerer(engine.people());
    let seen = match found.admits_person(&by, Timestamp::now()) {
        Ok(()) => engine.answer_store().mark_seen(&found.id).await.map_err(|_| Problem::store())?,
        Err(_) => None,
    };
    let approval = Approval::of(seen.as_ref().unwrap_or(&found), engine.people());
    Ok(Whole { approval, whole: Some(whole) }.into())
}
