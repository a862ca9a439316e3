//! To whom questions go: who may answer, and how many must.
//!
//! The laws: *for each reason the first route that fits counts*, and where reasons lead to several, what all of them let somebody do; *a route that leads to nobody is a denial*, also where it bars whoever asked for the call
//! and nobody knows who that is. The store sees to it that nobody else answers ([`Route`]).

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::{CallContext, Decision};
use backstop_store::{
    ApprovalReason, AskedPeople, Escalation, Identity, NewApproval, People, PersonName, Route, Uptime,
};

/// The routes of questions, in their order.
#[derive(Clone, Debug, Default)]
pub struct Routes(Vec<ApprovalRoute>);

/// To whom some questions go.
#[derive(Clone)]
pub struct ApprovalRoute {
    /// Whether a question is one of those.
    pub fits: Arc<dyn Fn(&NewApproval) -> bool + Send + Sync>,
    /// The people and groups who are asked, by name. Without anybody, nobody may answer.
    pub ask: Vec<String>,
    /// Whether the person who asked for the call may not answer.
    pub bars_requester: bool,
    /// How many must allow the call.
    pub votes: NonZeroU32,
    /// After how long others may answer as well, and who.
    pub escalate: Option<(Duration, Vec<String>)>,
    /// What may be answered, if not all that is offered.
    pub decisions: Option<Vec<Decision>>,
}

impl fmt::Debug for ApprovalRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApprovalRoute")
            .field("ask", &self.ask)
            .field("votes", &self.votes)
            .finish_non_exhaustive()
    }
}

/// Why nobody may answer a question. The words are for whoever made the call: nobody is named in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unroutable {
    /// Too few may answer.
    Nobody,
    /// Who asked for the call may not answer, and it is not known who that is.
    UnknownRequester,
}

impl fmt::Display for Unroutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nobody => {
                "nobody may answer it, by the routes for approvals in the operator's configuration"
            }
            Self::UnknownRequester => {
                "whoever asked for the call may not answer it, and it is not known who that is"
            }
        })
    }
}

impl FromIterator<ApprovalRoute> for Routes {
    fn from_iter<T: IntoIterator<Item = ApprovalRoute>>(routes: T) -> Self {
        Self(routes.into_iter().collect())
    }
}

impl Routes {
    /// Says in the question who may answer it, and leaves out what may not be answered. A question that no route is about stays as it is.
    pub(super) fn route(
        &self,
        question: &mut NewApproval,
        people: &People,
        requester: Option<&Identity>,
    ) -> Result<(), Unroutable> {
        let routes = self.fitting(question);
        let Some(votes) = routes.iter().map(|route| route.votes).max() else { return Ok(()) };
        let is_ones = votes.get() == 1;
        question.allowed_decisions.retain(|decision| {
            let all_may =
                routes.iter().all(|route| route.decisions.as_ref().is_none_or(|may| may.contains(decision)));
            *decision == Decision::Deny || (all_may && (is_ones || *decision != Decision::AllowAlways))
        });
        let barred = match routes.iter().any(|route| route.bars_requester) {
            true => Some(barred(people, requester)?),
            false => None,
        };
        let asked = of_all(routes.iter().map(|route| AskedPeople::of(&route.ask, people)));
        let routed = Route { asked, votes, escalation: escalation_of(&routes, question, people), barred };
        let most = usize::try_from(votes.get()).unwrap_or(usize::MAX);
        if routed.everybody().len() < most {
            return Err(Unroutable::Nobody);
        }
        question.route = Some(routed);
        Ok(())
    }

    /// Returns the first route that fits each reason, each once. INVARIANT (one reason more is no way around another): what a reason
    /// leads to depends on no other reason.
    fn fitting(&self, question: &NewApproval) -> Vec<&ApprovalRoute> {
        let first = |question: &NewApproval| self.0.iter().position(|route| (route.fits)(question));
        let of_reason = |reason: &ApprovalReason| {
            first(&NewApproval {
                reasons: vec![reason.clone()],
                severity: reason.severity,
                ..question.clone()
            })
        };
        let found: BTreeSet<usize> = match question.reasons.is_empty() {
            true => first(question).into_iter().collect(),
            false => question.reasons.iter().filter_map(of_reason).collect(),
        };
        found.into_iter().filter_map(|index| self.0.get(index)).collect()
    }
}

/// Those whom all of several routes ask. The names say for later on who still is one of them, so each name of each route is kept.
fn of_all(mut asked: impl Iterator<Item = AskedPeople>) -> AskedPeople {
    let Some(mut all) = asked.next() else { return AskedPeople::default() };
    for other in asked {
        all.people.retain(|person| other.people.contains(person));
        all.named
            .extend(other.named.into_iter().filter(|name| !all.named.contains(name)).collect::<Vec<_>>());
    }
    all
}

/// Others may answer later whom all of several routes let answer then, from the latest moment on. Where one has nobody but those whom
/// it asks, nobody joins.
fn escalation_of(routes: &[&ApprovalRoute], question: &NewApproval, people: &People) -> Option<Escalation> {
    let later = routes.iter().map(|route| route.escalate.as_ref());
    let all: Vec<&(Duration, Vec<String>)> = later.collect::<Option<_>>()?;
    let after = all.iter().map(|(after, _)| *after).max()?;
    Some(Escalation {
        to: of_all(all.iter().map(|(_, to)| AskedPeople::of(to, people))),
        at: question.created_at.after(after),
        uptime: Uptime::now().map(|now| now.after(after)),
    })
}

/// Returns the person who asked for a call.
fn barred(people: &People, requester: Option<&Identity>) -> Result<PersonName, Unroutable> {
    let mut found = people.could_be(requester.ok_or(Unroutable::UnknownRequester)?);
    match (found.next(), found.next()) {
        (Some(person), None) => Ok(person.clone()),
        // A stranger may be one of the people under another name.
        (None, _) | (_, Some(_)) => Err(Unroutable::UnknownRequester),
    }
}

/// Returns what is known of whoever asked for a call: the user of the token with which a gateway was asked, or the account whose agent it
/// is. `account` is that of this process.
pub(super) fn requester_of(call: &CallContext, account: Option<&Identity>) -> Option<Identity> {
    match (&call.requester, call.front_end.host) {
        // Whoever writes in a channel is known there.
        (Some(requester), _) if requester.channel.is_some() => None,
        (Some(requester), _) => requester.sender_id.clone().map(Identity::User),
        // Behind a proxy there may be anybody.
        (None, Some("agent" | "hooks")) => account.cloned(),
        (None, _) => None,
    }
}
