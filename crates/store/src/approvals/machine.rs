//! The state machine, without storage: each operation takes a record and returns what it becomes.

use std::collections::BTreeSet;
use std::time::Duration;

use backstop_hooks::{Decision, Digest, Substitute};

use super::route::{self, Ballot, Vote};
use super::substitute::{Given, Substitution};
use super::{
    Allowance, AllowanceScope, Answerer, ApprovalRecord, ApprovalState, ConsumeError, CreateApprovalError,
    MAX_APPROVAL_BYTES, NewApproval, PersonName, PersonsAnswer, Reach, ResolveError,
};
use crate::asked::{Ended, Unanswered};
use crate::{Asked, Timestamp};

/// What an operation does to a record: the vote that it adds, the state that it gets, if it changes, and the answer.
pub(crate) struct Step<T> {
    pub(crate) vote: Option<Voted>,
    pub(crate) next: Option<ApprovalState>,
    /// That it ended without an answer, if it waited and now does not any more.
    pub(crate) ended: Option<Ended>,
    /// What a human puts in the place of the call, to be kept with the question.
    pub(crate) given: Option<Given>,
    pub(crate) answer: T,
}

/// A vote that a step adds.
#[derive(Clone)]
pub(crate) struct Voted {
    pub(crate) vote: Vote,
    /// How many people have allowed the call now, as far as that counts.
    pub(crate) allowed: usize,
}

impl<T> Step<T> {
    fn stay(answer: T) -> Self {
        Self { vote: None, next: None, ended: None, given: None, answer }
    }

    fn become_(next: ApprovalState, answer: T) -> Self {
        Self { next: Some(next), ..Self::stay(answer) }
    }

    fn end(next: ApprovalState, why: Unanswered, at: Timestamp, answer: T) -> Self {
        Self { ended: Some(Ended { why, at }), ..Self::become_(next, answer) }
    }
}

/// Returns the request's JSON, if it is within the limit.
pub(crate) fn encoded(request: &NewApproval) -> Result<String, CreateApprovalError> {
    // A request always has a JSON form: its maps have string keys and none of its parts can fail.
    let json = serde_json::to_string(request).unwrap_or_default();
    if json.len() > MAX_APPROVAL_BYTES {
        return Err(CreateApprovalError::TooLarge(json.len()));
    }
    Ok(json)
}

/// A human answers. `Ok(first)` says whether the answer is new.
pub(crate) fn resolve(record: &ApprovalRecord, answer: &PersonsAnswer) -> Step<Result<bool, ResolveError>> {
    let PersonsAnswer { decision, ref by, at: now, .. } = *answer;
    if let Err(refused) = record.admits(by, now) {
        return Step::stay(Err(refused));
    }
    if record.state != ApprovalState::Pending {
        let repeated = is_given(&record.state, answer);
        return Step::stay(if repeated { Ok(false) } else { Err(already(record)) });
    }
    if record.request.is_over(now) {
        return Step::end(
            ApprovalState::TimedOut { at: now },
            Unanswered::Deadline,
            now,
            Err(expired(record)),
        );
    }
    if !offers(record, decision) {
        return Step::stay(Err(not_offered(record, decision)));
    }
    // INVARIANT (what the human saw): a yes to a call that waits is for no later one, since whoever asked can end that process itself, and make
    // the next call when it likes. What comes with grants of its own is for later calls as it is.
    if decision != Decision::Deny && !answer.has_grants && record.is_abandoned() {
        return Step::stay(Err(ResolveError::Abandoned { code: record.code.clone() }));
    }
    if let Some(given) = &answer.given
        && let Err(refused) = takes(record, given)
    {
        return Step::stay(Err(refused));
    }
    let Tally { vote, is_new, carried } = match tally(record, answer) {
        Ok(tally) => tally,
        Err(refused) => return Step::stay(Err(refused)),
    };
    let state = match (decision, carried) {
        // INVARIANT (one denial ends it): whoever may answer may say no.
        (Decision::Deny, _) => {
            ApprovalState::Denied { at: now, by: by.by().to_owned(), word: answer.word.clone() }
        }
        (Decision::AllowOnce | Decision::AllowAlways, Some(carried)) => {
            let allowance = carried.allowance(decision, now, Reach::WaitingCall);
            ApprovalState::Allowed(Allowance { has_grants: answer.has_grants, ..allowance })
        }
        (Decision::AllowOnce | Decision::AllowAlways, None) => {
            return Step { vote, ..Step::stay(Ok(is_new)) };
        }
    };
    if let Some(given) = &answer.given {
        let state = substituted(given, by, now);
        return Step { vote, given: Some(given.clone()), ..Step::become_(state, Ok(true)) };
    }
    Step { vote, ..Step::become_(state, Ok(true)) }
}

fn substituted(given: &Given, by: &Answerer, at: Timestamp) -> ApprovalState {
    let substitution = Substitution::new(given, by, at);
    match given.substitute() {
        Substitute::Edit => ApprovalState::Edited(substitution),
        Substitute::Respond => ApprovalState::Responded(substitution),
    }
}

/// Refuses what whoever asked can't take in the place of its call.
fn takes(record: &ApprovalRecord, given: &Given) -> Result<(), ResolveError> {
    let ApprovalRecord { request, .. } = record;
    // INVARIANT (as many as must): what one person makes of a call nobody else has allowed.
    let is_ones = request.route.as_ref().is_none_or(|route| route.votes.get() == 1);
    let substitute = given.substitute();
    if !is_ones || !request.substitutes.contains(&substitute) {
        return Err(ResolveError::NoSubstitute { code: record.code.clone(), substitute });
    }
    match given {
        Given::Respond { .. } => Ok(()),
        // INVARIANT (a mask is no value): here nobody knows what it hides, only where it may stand.
        Given::Edit { arguments } => {
            let shown = request.shown().to_value();
            let moved = request.restored(&shown, &arguments.to_value()).map(drop);
            moved.map_err(|moved| ResolveError::Masked { code: record.code.clone(), moved })
        }
    }
}

/// Whoever asked takes what a human put in the place of the call.
pub(crate) fn take_given(
    record: &ApprovalRecord,
    digest: &Digest,
    now: Timestamp,
) -> Step<Result<(), ConsumeError>> {
    if record.request.digest != *digest {
        return Step::stay(Err(ConsumeError::OtherCall { code: record.code.clone() }));
    }
    let taken = |substitution: &Substitution| Substitution { taken_at: Some(now), ..substitution.clone() };
    match &record.state {
        ApprovalState::Edited(one) if one.taken_at.is_none() => {
            Step::become_(ApprovalState::Edited(taken(one)), Ok(()))
        }
        ApprovalState::Responded(one) if one.taken_at.is_none() => {
            Step::become_(ApprovalState::Responded(taken(one)), Ok(()))
        }
        state => {
            let (code, status) = (record.code.clone(), state.status());
            Step::stay(Err(ConsumeError::NotAllowed { code, status }))
        }
    }
}

/// What an answer of somebody who may answer comes to.
struct Tally {
    /// The vote that is added; `None` where nobody votes, and for one that was given before.
    vote: Option<Voted>,
    /// Whether the answer was not given before.
    is_new: bool,
    /// Who has allowed the call now, if that is enough.
    carried: Option<Carried>,
}

/// Those who allow a call.
struct Carried {
    /// For the record.
    by: String,
    /// By name, where they vote.
    people: BTreeSet<PersonName>,
}

impl Carried {
    fn allowance(self, decision: Decision, at: Timestamp, reach: Reach) -> Allowance {
        let Self { by, people } = self;
        Allowance { decision, at, by, people, has_grants: false, reach }
    }
}

fn tally(record: &ApprovalRecord, answer: &PersonsAnswer) -> Result<Tally, ResolveError> {
    let Some(route) = &record.request.route else {
        let carried = Carried { by: answer.by.by().to_owned(), people: BTreeSet::new() };
        return Ok(Tally { vote: None, is_new: true, carried: Some(carried) });
    };
    let Ballot { vote, carried_by, people } = route::cast(record, route, answer)?;
    let (is_new, allowed) = (vote.is_some(), people.len());
    let vote = vote.map(|vote| Voted { vote, allowed });
    Ok(Tally { vote, is_new, carried: carried_by.map(|by| Carried { by, people }) })
}

/// Nobody waits for the answer any more.
pub(crate) fn cancel(record: &ApprovalRecord, why: Unanswered, now: Timestamp) -> Step<()> {
    match record.state {
        ApprovalState::Pending => Step::end(ApprovalState::Cancelled { at: now }, why, now, ()),
        _ => Step::stay(()),
    }
}

/// The tool has run, about which the program that made the call asked its own user.
pub(crate) fn hosted_ran(record: &ApprovalRecord, now: Timestamp) -> Step<()> {
    if !record.state.is_hosted() {
        return Step::stay(());
    }
    let client = record.request.client.as_deref().unwrap_or("the program that made the call");
    let allowance = Allowance {
        decision: Decision::AllowOnce,
        at: now,
        by: format!("the user of {client}"),
        people: BTreeSet::new(),
        has_grants: false,
        reach: Reach::WaitingCall,
    };
    Step::end(ApprovalState::Used { allowance, used_at: now }, Unanswered::LetRun, now, ())
}

/// The deadline may have passed.
pub(crate) fn expire(record: &ApprovalRecord, now: Timestamp) -> Step<()> {
    match record.state {
        ApprovalState::Pending if record.request.is_over(now) => {
            Step::end(ApprovalState::TimedOut { at: now }, Unanswered::Deadline, now, ())
        }
        _ => Step::stay(()),
    }
}

/// Whoever asked does not wait any longer.
pub(crate) fn end_waiting(record: &ApprovalRecord, now: Timestamp) -> Step<()> {
    match record.state {
        ApprovalState::Pending => {
            Step::end(ApprovalState::TimedOut { at: now }, Unanswered::Deadline, now, ())
        }
        _ => Step::stay(()),
    }
}

/// The call that asked wants to begin.
pub(crate) fn consume(
    record: &ApprovalRecord,
    digest: &Digest,
    now: Timestamp,
) -> Step<Result<(), ConsumeError>> {
    if record.request.digest != *digest {
        return Step::stay(Err(ConsumeError::OtherCall { code: record.code.clone() }));
    }
    let allowance = match &record.state {
        ApprovalState::Allowed(allowance) if !lapsed(allowance, now) => allowance.clone(),
        ApprovalState::TimedOut { at } if record.request.silence_allows() => Allowance {
            decision: Decision::AllowOnce,
            at: *at,
            by: "timeout".to_owned(),
            people: BTreeSet::new(),
            has_grants: false,
            reach: Reach::WaitingCall,
        },
        state => {
            let (code, status) = (record.code.clone(), state.status());
            return Step::stay(Err(ConsumeError::NotAllowed { code, status }));
        }
    };
    Step::become_(ApprovalState::Used { allowance, used_at: now }, Ok(()))
}

/// A human allows one later call. INVARIANT (votes are for one end): a call whose deadline has passed, or whose process has ended, does not wait, also
/// where nobody has noticed yet, and the votes for it are for no later one.
pub(crate) fn allow_later(
    record: &ApprovalRecord,
    by: &Answerer,
    ttl: Duration,
    now: Timestamp,
) -> Step<Result<(), ResolveError>> {
    let why = match record.state {
        ApprovalState::Pending if record.request.is_over(now) => Some(Unanswered::Deadline),
        ApprovalState::Pending if record.is_abandoned() => Some(Unanswered::Withdrawn),
        _ => None,
    };
    let ended = why.map(|_| ApprovalRecord { state: ApprovalState::TimedOut { at: now }, ..record.clone() });
    let record = ended.as_ref().unwrap_or(record);
    if let Err(refused) = record.admits(by, now) {
        return Step::stay(Err(refused));
    }
    match record.state {
        ApprovalState::Used { .. }
        | ApprovalState::Denied { .. }
        | ApprovalState::Edited(_)
        | ApprovalState::Responded(_) => return Step::stay(Err(already(record))),
        _ if !offers(record, Decision::AllowOnce) => {
            return Step::stay(Err(not_offered(record, Decision::AllowOnce)));
        }
        // Also where the call that waited is gone with its process. One that still waits can use it as well;
        // whoever comes first uses it up.
        ApprovalState::Allowed(Allowance { decision: Decision::AllowOnce, .. })
        | ApprovalState::Pending
        | ApprovalState::Unattended { .. }
        | ApprovalState::TimedOut { .. }
        | ApprovalState::Cancelled { .. } => {}
        ApprovalState::Allowed(_) => return Step::stay(Err(already(record))),
    }
    let reach = match record.state {
        ApprovalState::Pending => Reach::WaitingCall,
        _ => Reach::LaterCall { until: now.after(ttl) },
    };
    let answer = PersonsAnswer::new(Decision::AllowOnce, by.clone(), now);
    let Tally { vote, carried, .. } = match tally(record, &answer) {
        Ok(tally) => tally,
        Err(refused) => return Step::stay(Err(refused)),
    };
    let allowed =
        carried.map(|carried| ApprovalState::Allowed(carried.allowance(Decision::AllowOnce, now, reach)));
    let end = why.map(|why| Ended { why, at: now });
    let next = allowed.or(ended.map(|ended| ended.state));
    Step { vote, next, ended: end, ..Step::stay(Ok(())) }
}

/// The call that waited is gone with its process: what a human allowed and nobody used counts for one later call.
pub(crate) fn keep(record: &ApprovalRecord, ttl: Duration, now: Timestamp) -> Step<Result<(), ResolveError>> {
    match &record.state {
        ApprovalState::Allowed(allowance) if allowance.decision == Decision::AllowOnce => {
            let reach = Reach::LaterCall { until: now.after(ttl) };
            let kept = Allowance { at: now, has_grants: false, reach, ..allowance.clone() };
            Step::become_(ApprovalState::Allowed(kept), Ok(()))
        }
        _ => Step::stay(Err(already(record))),
    }
}

/// A later call wants to begin; `true` if this allowance is for it.
pub(crate) fn take(record: &ApprovalRecord, scope: &AllowanceScope, now: Timestamp) -> Step<bool> {
    match &record.state {
        ApprovalState::Allowed(allowance)
            if matches!(allowance.reach, Reach::LaterCall { .. })
                && !lapsed(allowance, now)
                && is_enough(record, allowance, scope, now)
                && in_scope(&record.request, scope) =>
        {
            Step::become_(ApprovalState::Used { allowance: allowance.clone(), used_at: now }, true)
        }
        _ => Step::stay(false),
    }
}

/// INVARIANT (a route is no detour): what few allowed is not enough for a call that more have to allow by now. Those count who gave this
/// allowance, as long as what they gave their votes with does.
fn is_enough(record: &ApprovalRecord, allowance: &Allowance, scope: &AllowanceScope, now: Timestamp) -> bool {
    let counted = allowance.people.iter().filter(|person| record.is_still_allowed_by(person, now));
    scope.route.as_ref().is_none_or(|route| route.is_met_by(counted))
}

fn in_scope(request: &NewApproval, scope: &AllowanceScope) -> bool {
    let same_place = match (&request.workspace, &scope.workspace) {
        (None, None) => request.session_key == scope.session_key,
        (asked, made) => asked == made,
    };
    same_place
        && request.agent == scope.agent
        && request.tool_name == scope.tool_name
        && request.digest == scope.digest
        && is_as_shown(request, scope)
}

/// INVARIANT (what the human saw): the call names a script, which may be another one by now. So it is judged by the same files, and nothing is
/// asked about it that was not asked then, or more gravely.
fn is_as_shown(request: &NewApproval, scope: &AllowanceScope) -> bool {
    let was_answered = |now: &Asked| request.reasons.iter().any(|reason| reason.asked().covers(now));
    request.facts == scope.facts && scope.asked.iter().all(was_answered)
}

fn lapsed(allowance: &Allowance, now: Timestamp) -> bool {
    matches!(allowance.reach, Reach::LaterCall { until } if now > until)
}

/// INVARIANT (what the human saw): a call of which a part was shown to nobody is not allowed.
fn offers(record: &ApprovalRecord, decision: Decision) -> bool {
    let ApprovalRecord { request, .. } = record;
    // INVARIANT (as many as must): an answer that holds from now on is one person's.
    let is_ones = request.route.as_ref().is_none_or(|route| route.votes.get() == 1);
    decision == Decision::Deny
        || (!request.unseen
            && request.allowed_decisions.contains(&decision)
            && (decision != Decision::AllowAlways || is_ones))
}

/// Returns whether this is the answer that a human gave to the question as it was asked.
fn is_given(state: &ApprovalState, answer: &PersonsAnswer) -> bool {
    match (state, &answer.given) {
        (ApprovalState::Allowed(allowance) | ApprovalState::Used { allowance, .. }, None) => {
            allowance.decision == answer.decision
        }
        (ApprovalState::Denied { .. }, None) => answer.decision == Decision::Deny,
        (ApprovalState::Edited(one), Some(given @ Given::Edit { .. }))
        | (ApprovalState::Responded(one), Some(given @ Given::Respond { .. })) => one.given == given.digest(),
        _ => false,
    }
}

fn already(record: &ApprovalRecord) -> ResolveError {
    let by = record.state.by().map(str::to_owned);
    ResolveError::AlreadyResolved { code: record.code.clone(), status: record.state.status(), by }
}

fn not_offered(record: &ApprovalRecord, decision: Decision) -> ResolveError {
    if record.request.unseen && record.request.allowed_decisions.contains(&decision) {
        return ResolveError::Unseen { code: record.code.clone() };
    }
    ResolveError::NotOffered { code: record.code.clone(), decision }
}

fn expired(record: &ApprovalRecord) -> ResolveError {
    ResolveError::Expired { code: record.code.clone(), at: record.request.expires_at }
}
