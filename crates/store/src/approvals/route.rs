//! Who may answer one question, and how many must.
//!
//! A question that the operator's configuration routes carries its route: who was asked, who may answer later, and how many people must
//! allow the call. Each of them has one vote, wherever they give it.
//!
//! The laws: *nobody joins*: whoever may answer was named when the question was asked, and still is when the vote counts; *who leaves
//! does not count*: neither somebody who is no longer named, nor a vote that was given with a token that has ended; *one denial ends
//! it*; *votes are for one end*: those for the call that waited do not allow a later one.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use backstop_hooks::{Decision, Digest};
use serde::{Deserialize, Deserializer, Serialize};

use super::people::{Answerer, People, PersonName};
use super::told::ToldOn;
use super::{ApprovalRecord, ApprovalState, PersonsAnswer, ResolveError};
use crate::{AccessTokenId, Timestamp, Uptime};

/// Who may answer a question, and how many of them must allow the call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// Those who may answer from the beginning.
    pub asked: AskedPeople,
    /// How many of them must allow the call.
    pub votes: NonZeroU32,
    /// Those who may answer as well, if nobody has answered for some time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalation: Option<Escalation>,
    /// The person who asked for the call, if they may not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub barred: Option<PersonName>,
    /// On which surfaces people are told of it, if not on all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<ToldOn>,
}

/// People who are asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AskedPeople {
    /// The people and groups, as the configuration names them: a list for each route, and all of them must mean a person.
    #[serde(deserialize_with = "lists")]
    pub named: Vec<Vec<String>>,
    /// The people whom that meant when the question was asked.
    pub people: BTreeSet<PersonName>,
}

/// Those who may answer later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Escalation {
    /// Who they are.
    pub to: AskedPeople,
    /// From when on.
    pub at: Timestamp,
    /// The same moment on a clock that nobody sets, which decides on the machine that asks until it is started again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uptime: Option<Uptime>,
}

/// One person's answer to a question for which routes say who may answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Vote {
    /// Who.
    pub person: PersonName,
    /// What.
    pub decision: Decision,
    /// The call that the person was shown.
    pub digest: Digest,
    /// By what means, for the record.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// The access token with which it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<AccessTokenId>,
    /// The first moment at which that token no longer counts. It is looked up each time the vote is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Timestamp>,
    /// The service that alone says who gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voucher: Option<String>,
}

/// How the vote about a question stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// How many people must allow the call.
    pub needed: u32,
    /// Those who have, as far as that counts.
    pub allowed: Vec<PersonName>,
    /// Those who still may answer.
    pub awaited: Vec<PersonName>,
    /// Those who may answer later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub later: Option<Later>,
}

/// Those who may answer later, and from when on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Later {
    /// From when on.
    pub at: Timestamp,
    /// Who.
    pub people: Vec<PersonName>,
}

impl AskedPeople {
    /// Asks those whom these names mean now.
    pub fn of(named: impl IntoIterator<Item = impl Into<String>>, people: &People) -> Self {
        let named: Vec<String> = named.into_iter().map(Into::into).collect();
        Self { people: people.meant_by(&named), named: vec![named] }
    }

    /// Asks those alone who are asked both here and there, as long as the names here and there mean them.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.people.retain(|person| other.people.contains(person));
        for list in other.named {
            if !self.named.contains(&list) {
                self.named.push(list);
            }
        }
        self
    }

    /// Those of them whom the names still mean, each list of them.
    fn still(&self, people: &People) -> BTreeSet<PersonName> {
        let mut still = self.people.clone();
        for list in &self.named {
            let meant = people.meant_by(list);
            still.retain(|person| meant.contains(person));
        }
        still
    }
}

/// Reads lists of names, or the one list that questions had before.
fn lists<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Named {
        Lists(Vec<Vec<String>>),
        List(Vec<String>),
    }
    Ok(match Named::deserialize(deserializer)? {
        Named::Lists(lists) => lists,
        Named::List(list) => vec![list],
    })
}

impl Escalation {
    fn has_come(&self, now: Timestamp) -> bool {
        self.uptime.as_ref().and_then(Uptime::has_passed).unwrap_or(now > self.at)
    }
}

impl Route {
    /// Returns who may answer at `now`, by the configuration as it is.
    pub fn may_answer(&self, people: &People, now: Timestamp) -> BTreeSet<PersonName> {
        let mut all = self.asked.still(people);
        if let Some(escalation) = self.escalation.as_ref().filter(|escalation| escalation.has_come(now)) {
            all.extend(escalation.to.still(people));
        }
        self.without_barred(all)
    }

    /// Returns everybody who may answer at any time, as it was when the question was asked.
    pub fn everybody(&self) -> BTreeSet<PersonName> {
        let later = self.escalation.iter().flat_map(|escalation| &escalation.to.people);
        self.without_barred(self.asked.people.iter().chain(later).cloned().collect())
    }

    fn without_barred(&self, mut people: BTreeSet<PersonName>) -> BTreeSet<PersonName> {
        if let Some(barred) = &self.barred {
            people.remove(barred);
        }
        people
    }

    /// What it says, whenever that is said.
    pub(crate) fn in_words(&self) -> (&AskedPeople, NonZeroU32, Option<&AskedPeople>, Option<&PersonName>) {
        let later = self.escalation.as_ref().map(|escalation| &escalation.to);
        (&self.asked, self.votes, later, self.barred.as_ref())
    }

    /// Returns whether these people are enough to allow a call.
    pub(crate) fn is_met_by<'a>(&self, people: impl Iterator<Item = &'a PersonName>) -> bool {
        let all = self.everybody();
        let counted: BTreeSet<&PersonName> = people.filter(|person| all.contains(*person)).collect();
        counted.len() >= self.most()
    }

    fn most(&self) -> usize {
        usize::try_from(self.votes.get()).unwrap_or(usize::MAX)
    }
}

impl Vote {
    /// Returns whether it was given with something that still counts.
    fn counts(&self, now: Timestamp) -> bool {
        self.token.is_none() || self.ends_at.is_some_and(|ends_at| now < ends_at)
    }
}

impl ApprovalRecord {
    /// Whether votes of that moment count for what is voted about now. INVARIANT (votes are for one end): those for a call that waited,
    /// and those that have allowed a call, are for that call.
    fn is_of_this_end(&self, vote: &Vote) -> bool {
        match &self.state {
            ApprovalState::Unattended { at, .. }
            | ApprovalState::TimedOut { at }
            | ApprovalState::Cancelled { at } => vote.at >= *at,
            ApprovalState::Allowed(allowance) | ApprovalState::Used { allowance, .. } => {
                vote.at > allowance.at
            }
            ApprovalState::Pending
            | ApprovalState::Denied { .. }
            | ApprovalState::Edited(_)
            | ApprovalState::Responded(_) => true,
        }
    }

    /// Returns those who have allowed the call, as far as that counts at `now`.
    pub(crate) fn allowed_by(&self, route: &Route, people: &People, now: Timestamp) -> BTreeSet<PersonName> {
        let may = route.may_answer(people, now);
        let counts = |vote: &&Vote| {
            self.is_allowed_by(vote, now) && self.is_of_this_end(vote) && may.contains(&vote.person)
        };
        self.votes.iter().filter(counts).map(|vote| vote.person.clone()).collect()
    }

    /// Whether that vote allows this call, and was given with something that still counts.
    fn is_allowed_by(&self, vote: &Vote, now: Timestamp) -> bool {
        vote.decision != Decision::Deny && vote.digest == self.request.digest && vote.counts(now)
    }

    /// Returns whether somebody who has allowed the call has a vote for it that still counts.
    pub(crate) fn is_still_allowed_by(&self, person: &PersonName, now: Timestamp) -> bool {
        self.votes.iter().any(|vote| vote.person == *person && self.is_allowed_by(vote, now))
    }

    /// Returns how the vote stands, by the configuration as it is; `None` where anybody may answer who may answer at all.
    pub fn standing(&self, people: &People, now: Timestamp) -> Option<Standing> {
        let route = self.request.route.as_ref()?;
        let allowed = self.allowed_by(route, people, now);
        let awaited = route.may_answer(people, now).difference(&allowed).cloned().collect();
        let later = route.escalation.as_ref().filter(|escalation| !escalation.has_come(now));
        let later = later.map(|escalation| Later {
            at: escalation.at,
            people: route.without_barred(escalation.to.still(people)).into_iter().collect(),
        });
        Some(Standing { needed: route.votes.get(), allowed: allowed.into_iter().collect(), awaited, later })
    }

    /// Refuses whoever may not answer.
    pub(crate) fn admits(&self, answerer: &Answerer, now: Timestamp) -> Result<(), ResolveError> {
        let Some(route) = &self.request.route else {
            return match answerer.is_vouched_for(now) {
                true => Ok(()),
                false => Err(self.refuses(answerer, WhyNot::Ended, BTreeSet::new())),
            };
        };
        let people = answerer.people.as_deref();
        let may = people.map_or_else(|| route.everybody(), |people| route.may_answer(people, now));
        let why = match &answerer.person {
            None => WhyNot::Unknown,
            Some(person) if self.is_only_vouched_for(answerer, route, person) => WhyNot::Vouched,
            Some(person) if may.contains(person) && answerer.is_vouched_for(now) => return Ok(()),
            Some(person) if may.contains(person) => WhyNot::Ended,
            Some(person) if route.barred.as_ref() == Some(person) => WhyNot::Barred,
            Some(_) => WhyNot::NotAsked,
        };
        Err(self.refuses(answerer, why, may))
    }
}

impl ApprovalRecord {
    /// Whether a service says who that is that has given its vote, or has none. INVARIANT (one secret is one vote): who has the secret could
    /// have it vouch for one person after the other, and for another one than who asked.
    fn is_only_vouched_for(&self, answerer: &Answerer, route: &Route, person: &PersonName) -> bool {
        let Some(voucher) = &answerer.voucher else { return false };
        let is_its = |vote: &Vote| vote.person != *person && vote.voucher.as_ref() == Some(voucher);
        route.barred.is_some() || self.votes.iter().any(|vote| self.is_of_this_end(vote) && is_its(vote))
    }

    /// Refuses whoever may not answer, before anything is looked up about their token.
    ///
    /// # Errors
    ///
    /// [`ResolveError::NotAsked`] if they may not answer.
    pub fn admits_person(&self, answerer: &Answerer, now: Timestamp) -> Result<(), ResolveError> {
        let ends_at = answerer.token.is_some().then_some(Timestamp::from_millis(i64::MAX));
        self.admits(&Answerer { ends_at, ..answerer.clone() }, now)
    }

    fn refuses(&self, answerer: &Answerer, why: WhyNot, may_answer: BTreeSet<PersonName>) -> ResolveError {
        let (code, person) = (self.code.clone(), answerer.person.clone());
        ResolveError::NotAsked(Box::new(NotAsked {
            code,
            person,
            why,
            may_answer: may_answer.into_iter().collect(),
        }))
    }

    /// Puts a vote in the place of an earlier one of the same person.
    pub(crate) fn put_vote(&mut self, vote: Vote) {
        self.votes.retain(|other| other.person != vote.person);
        self.votes.push(vote);
    }
}

/// What an answer of somebody who may answer comes to.
pub(crate) struct Ballot {
    /// What is written down of it, if that is new.
    pub(crate) vote: Option<Vote>,
    /// Those who have allowed the call now, for the record, if they are enough.
    pub(crate) carried_by: Option<String>,
    /// Those who have allowed the call now, by name.
    pub(crate) people: BTreeSet<PersonName>,
}

/// Adds an answer of somebody whom the record [admits](ApprovalRecord::admits).
pub(crate) fn cast(
    record: &ApprovalRecord,
    route: &Route,
    answer: &PersonsAnswer,
) -> Result<Ballot, ResolveError> {
    let PersonsAnswer { decision, ref by, at: now, .. } = *answer;
    let (Some(person), Some(people)) = (&by.person, &by.people) else {
        return Err(record.refuses(by, WhyNot::Unknown, BTreeSet::new()));
    };
    let given = record.votes.iter().find(|vote| vote.person == *person);
    let standing = given.filter(|vote| vote.counts(now) && record.is_of_this_end(vote));
    if let Some(vote) = standing
        && vote.decision != decision
    {
        let (code, decision) = (record.code.clone(), vote.decision);
        return Err(ResolveError::OtherVote { code, decision });
    }
    let vote = standing.is_none().then(|| Vote {
        person: person.clone(),
        decision,
        digest: record.request.digest,
        by: by.by().to_owned(),
        at: now,
        token: by.token.clone(),
        ends_at: by.ends_at,
        voucher: by.voucher.clone(),
    });
    let mut then = record.clone();
    if let Some(vote) = &vote {
        then.put_vote(vote.clone());
    }
    let people = then.allowed_by(route, people, now);
    let carried_by = (people.len() >= route.most()).then(|| match people.len() {
        1 => by.by().to_owned(),
        _ => listed(people.iter(), "and"),
    });
    Ok(Ballot { vote, carried_by, people })
}

/// Somebody may not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAsked {
    /// The code of the question.
    pub code: String,
    /// Who it is, if that is known.
    pub person: Option<PersonName>,
    /// Why not.
    pub why: WhyNot,
    /// Who may answer now.
    pub may_answer: Vec<PersonName>,
}

/// Why somebody may not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyNot {
    /// Nothing says which person it is.
    Unknown,
    /// The person asked for the call.
    Barred,
    /// The person is not among those who are asked.
    NotAsked,
    /// The token with which the person answers has ended.
    Ended,
    /// Only a service says who it is, and it gives no further vote about the question.
    Vouched,
}

impl NotAsked {
    /// Returns why, without the code, for those who are shown none.
    pub fn why(&self) -> String {
        let person = self.person.as_ref().map_or("somebody", PersonName::as_str);
        let who = match self.why {
            WhyNot::Unknown => "it is not known which person you are".to_owned(),
            WhyNot::Barred => format!("{person} asked for the call and may not answer"),
            WhyNot::NotAsked => format!("{person} is not asked"),
            WhyNot::Ended => return format!("the token of {person} has ended"),
            WhyNot::Vouched => {
                return format!(
                    "a service vouches for {person}: it gives one vote about a question, and none where whoever asked may not answer"
                );
            }
        };
        match self.may_answer.is_empty() {
            true => format!("{who}, and nobody may answer any more"),
            false => format!("{who}; {} may answer", listed(self.may_answer.iter(), "or")),
        }
    }
}

impl std::fmt::Display for NotAsked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "approval `{}`: {}", self.code, self.why())?;
        match self.why {
            WhyNot::Barred | WhyNot::NotAsked | WhyNot::Ended | WhyNot::Vouched => Ok(()),
            WhyNot::Unknown => f.write_str("\nhint: `approvals.people` says how people are known: by `user` of their tokens, by `account`, or by `telegram`, `slack` or `webhook`"),
        }
    }
}

impl Standing {
    /// Returns it in words: `1 of 2: ann allowed it; waiting for bob or carl`.
    pub fn told(&self) -> String {
        let mut told = match (self.needed, self.allowed.is_empty()) {
            (1, true) => String::new(),
            (needed, true) => format!("0 of {needed}: "),
            (needed, false) => {
                format!(
                    "{} of {needed}: {} allowed it; ",
                    self.allowed.len(),
                    listed(self.allowed.iter(), "and")
                )
            }
        };
        match self.awaited.is_empty() {
            true => told.push_str("nobody may answer now"),
            false => told.push_str(&format!("waiting for {}", listed(self.awaited.iter(), "or"))),
        }
        if let Some(Later { at, people }) = &self.later
            && !people.is_empty()
        {
            told.push_str(&format!("; from {at} on also for {}", listed(people.iter(), "or")));
        }
        told
    }
}

/// The most names that are listed.
const MOST_LISTED: usize = 12;

/// Lists names: `ann, bob or carl`.
fn listed<'a>(names: impl Iterator<Item = &'a PersonName>, word: &str) -> String {
    let names: Vec<&str> = names.map(PersonName::as_str).collect();
    match names.as_slice() {
        [] => "nobody".to_owned(),
        [one] => (*one).to_owned(),
        _ if names.len() > MOST_LISTED => {
            let (shown, rest) = names.split_at(MOST_LISTED);
            format!("{} {word} {} more", shown.join(", "), rest.len())
        }
        [first @ .., last] => format!("{} {word} {last}", first.join(", ")),
    }
}
