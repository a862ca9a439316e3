//! Answers that hold from now on: what a person allows beyond the call that waits.
//!
//! The laws: *what is granted follows from the question*, so that nobody hands a grant in: whoever answers names a question and how far the
//! answer goes; *all or nothing*: every hook that asked is answered so, or none is, and the grants are written in the transaction that
//! answers, so that there is none without an answer that counts, and the call that waits finds them when it goes on.

use std::num::NonZeroU64;
use std::time::Duration;

use backstop_hooks::{ApprovalId, Decision, HookId};
use serde::{Deserialize, Serialize};

use crate::{
    Amount, AnswerStore, Answerer, ApprovalReason, ApprovalRecord, ApprovalState, Grant, GrantTarget,
    NewGrant, PersonsAnswer, ResolveError, Resolved, StoreError, Timestamp,
};

/// How long an answer holds if whoever gives it does not say.
pub const GRANT_TTL: Duration = Duration::from_hours(30 * 24);
/// The shortest time for which a person can say that an answer holds.
pub const SHORTEST_GRANT: Duration = Duration::from_mins(1);
/// The longest one.
pub const LONGEST_GRANT: Duration = GRANT_TTL;
/// How long an allowance for one later call counts.
pub const LATER: Duration = Duration::from_hours(1);

/// How far an answer goes that holds from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Always {
    /// Which calls it is about.
    pub scope: AlwaysScope,
    /// How long it holds; [`GRANT_TTL`] if `None`.
    pub ttl: Option<Duration>,
    /// How many more calls it answers; without end if `None`.
    pub times: Option<NonZeroU64>,
}

/// Which calls an answer is about that holds from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlwaysScope {
    /// This very call.
    Call,
    /// Calls of the same program and subcommand, about which the same rules ask.
    Program,
    /// What the same rules ask about in this workspace.
    Rule,
    /// Calls with another amount in one argument, up to a sum.
    UpTo {
        /// The argument.
        argument: String,
        /// The greatest sum.
        most: Amount,
    },
}

/// Why nothing was allowed from now on.
#[derive(Debug, thiserror::Error)]
pub enum AlwaysError {
    /// The question can't be answered so.
    #[error("what {hook} asks can't be allowed so: {why}")]
    Beyond {
        /// The hook that asks.
        hook: HookId,
        /// What stands against it.
        why: String,
    },
    /// The answer does not count.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
}

impl From<StoreError> for AlwaysError {
    fn from(error: StoreError) -> Self {
        Self::Resolve(error.into())
    }
}

impl ApprovalRecord {
    /// Returns which calls an answer can be about that holds from now on, but for sums ([`NewApproval::amounts`](crate::NewApproval)); none
    /// where no such answer is offered.
    pub fn always_scopes(&self) -> Vec<AlwaysScope> {
        if !self.request.allowed_decisions.contains(&Decision::AllowAlways) {
            return Vec::new();
        }
        let all = [AlwaysScope::Call, AlwaysScope::Program, AlwaysScope::Rule];
        let fits =
            |scope: &AlwaysScope| self.request.reasons.iter().all(|one| target(self, one, scope).is_ok());
        all.into_iter().filter(fits).collect()
    }
}

/// The most grants among which those are looked for that the same answer has given before.
const MOST_LOOKED_AT: usize = 1_000;

/// Answers a question, and equal ones from now on. Returns the question as it is then, and what was granted: nothing, where the same person gave the same answer
/// before and that holds. Any other one that was answered is [already resolved](ResolveError::AlreadyResolved): nothing more is granted by it.
///
/// # Errors
/// [`AlwaysError`]; then nothing is granted, and the question is as it was.
pub async fn allow_always(
    store: &dyn AnswerStore,
    id: &ApprovalId,
    always: &Always,
    by: &Answerer,
) -> Result<(ApprovalRecord, Vec<Grant>), AlwaysError> {
    let record = store.approval(id).await?.ok_or_else(|| ResolveError::Unknown(id.clone()))?;
    if !record.request.allowed_decisions.contains(&Decision::AllowAlways) {
        let (code, decision) = (record.code, Decision::AllowAlways);
        return Err(ResolveError::NotOffered { code, decision }.into());
    }
    let now = Timestamp::now();
    let answer = PersonsAnswer::new(Decision::AllowAlways, by.clone(), now).with_grants();
    let mut wanted = record.request.reasons.iter().map(|reason| grant(&record, reason, always, by));
    // What was answered before is not granted anew, and how far that answer went may be another matter than what is wanted now.
    if record.state != ApprovalState::Pending || record.request.is_over(now) {
        let answered = store.answer_approval(&record.id, answer).await?.record;
        let held = store.grants_in_force(now, MOST_LOOKED_AT).await?.grants;
        let is_held = |wanted: &NewGrant| held.iter().any(|held| is_same(&held.granted, wanted));
        let is_given = wanted.all(|wanted| wanted.is_ok_and(|wanted| is_held(&wanted)));
        return if is_given { Ok((answered, Vec::new())) } else { all_or_nothing(answered, Vec::new()) };
    }
    // Whoever may not answer so is told that, and not what else stands against it.
    if record.request.route.as_ref().is_some_and(|route| route.votes.get() > 1) {
        let (code, decision) = (record.code, Decision::AllowAlways);
        return Err(ResolveError::NotOffered { code, decision }.into());
    }
    record.admits_person(by, now)?;
    let wanted = wanted.collect::<Result<Vec<_>, _>>()?;
    let (Resolved { record, .. }, grants) = store.answer_with_grants(&record.id, answer, wanted).await?;
    all_or_nothing(record, grants)
}

/// Returns whether two grants allow the same for as long, whenever they were given, and of whichever question.
fn is_same(one: &NewGrant, other: &NewGrant) -> bool {
    let span = |grant: &NewGrant| grant.created_at.until(grant.expires_at);
    let (created_at, expires_at) = (other.created_at, other.expires_at);
    let origin = other.origin.clone();
    span(one) == span(other) && NewGrant { created_at, expires_at, origin, ..one.clone() } == *other
}

/// Refuses an answer that granted nothing though there was something to be granted: somebody had answered before.
fn all_or_nothing(
    record: ApprovalRecord,
    grants: Vec<Grant>,
) -> Result<(ApprovalRecord, Vec<Grant>), AlwaysError> {
    if grants.is_empty() && !record.request.reasons.is_empty() {
        let (by, status) = (record.state.by().map(str::to_owned), record.state.status());
        return Err(ResolveError::AlreadyResolved { code: record.code, status, by }.into());
    }
    Ok((record, grants))
}

/// What answers one of those who asked from now on.
fn grant(
    record: &ApprovalRecord,
    reason: &ApprovalReason,
    always: &Always,
    by: &Answerer,
) -> Result<NewGrant, AlwaysError> {
    let request = &record.request;
    let now = Timestamp::now();
    Ok(NewGrant {
        agent: request.agent.clone(),
        tool_name: request.tool_name.clone(),
        place: request.place.clone(),
        question: reason.asked(),
        target: target(record, reason, &always.scope)?,
        origin: Some(record.into()),
        title: reason.title.clone(),
        created_by: by.by().to_owned(),
        person: by.person().cloned(),
        created_at: now,
        expires_at: now.after(always.ttl.unwrap_or(GRANT_TTL)),
        most_uses: always.times.map(NonZeroU64::get),
    })
}

fn target(
    record: &ApprovalRecord,
    reason: &ApprovalReason,
    scope: &AlwaysScope,
) -> Result<GrantTarget, AlwaysError> {
    let request = &record.request;
    let beyond = |why: String| AlwaysError::Beyond { hook: reason.hook.clone(), why };
    Ok(match scope {
        AlwaysScope::Call => GrantTarget::Call { digest: request.digest, facts: request.facts },
        AlwaysScope::Program => match &reason.program {
            Some(words) => GrantTarget::Program { words: words.clone() },
            None => return Err(beyond("it is not about one program that is known by name".to_owned())),
        },
        AlwaysScope::Rule if reason.rules.is_empty() => return Err(beyond("it names no rule".to_owned())),
        AlwaysScope::Rule if request.place.workspace.is_none() => {
            return Err(beyond("the call has no workspace".to_owned()));
        }
        AlwaysScope::Rule => GrantTarget::Rule,
        AlwaysScope::UpTo { argument, most } => {
            let named = request.amounts.iter().find(|one| one.argument == *argument);
            let named = named.ok_or_else(|| beyond(format!("`{argument}` is no amount in it")))?;
            GrantTarget::Amount { argument: argument.clone(), most: *most, without: named.without }
        }
    })
}
