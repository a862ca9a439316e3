//! To whom questions go: who may answer, how many must, and on which surfaces people are told.
//!
//! The laws: *for each rule of a reason the first route that fits counts*, and for a reason as a whole; where they lead to several, what all of them let somebody do; *a route that leads to nobody is a denial*, and so is a rule or a reason that no route is about, also where it bars whoever asked for the call
//! and nobody knows who that is; *whoever changed a call asks for it*, too; *who may answer gets narrower with each reason and each rule, and who is told gets wider*: a question is told wherever it would be told for one of
//! them alone, and as soon. The store sees to it that nobody else answers ([`Route`]).

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::{ApprovalRequest, CallContext, Decision, Requester, RuleId, Severity, Substitute};
use backstop_store::{
    ApprovalReason, AskedPeople, Escalation, Identity, NewApproval, People, PersonName, Route, ToldLater,
    ToldOn, Uptime,
};

/// The routes of questions, in their order.
#[derive(Clone, Debug, Default)]
pub struct Routes(Vec<ApprovalRoute>);

/// To whom some questions go.
#[derive(Clone)]
pub struct ApprovalRoute {
    /// Whether a question is one of those: asked about each reason of a question, as a whole and with each of its rules alone.
    pub fits: Arc<dyn Fn(&NewApproval) -> bool + Send + Sync>,
    /// The people and groups who are asked, by name. With an empty list, nobody may answer; `None` narrows nothing, and leaves it at who may answer
    /// at all. That one can't have votes, or bar anybody.
    pub ask: Option<Vec<String>>,
    /// Whether the person who asked for the call may not answer.
    pub bars_requester: bool,
    /// How many must allow the call.
    pub votes: NonZeroU32,
    /// After how long others may answer as well, and who.
    pub escalate: Option<(Duration, Vec<String>)>,
    /// On which surfaces questions are told, if not on all. Who may answer does not depend on it.
    pub told: Option<ToldSurfaces>,
    /// What may be answered, if not all that is offered.
    pub decisions: Option<Vec<Decision>>,
    /// What may be put in the place of the call, if not all that is offered. Nothing where several must allow it.
    pub substitutes: Option<Vec<Substitute>>,
}

/// The surfaces on which some questions are told, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToldSurfaces {
    /// Those that are told from the beginning. Without any, people find the questions where they look for them: on the console and the
    /// command line.
    pub first: Vec<String>,
    /// After how long others are told as well, and which.
    pub later: Option<(Duration, Vec<String>)>,
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
    /// There are routes, and none is about it.
    NoRoute,
    /// Too few may answer.
    Nobody,
    /// Who asked for the call may not answer, and it is not known who that is.
    UnknownRequester,
}

impl fmt::Display for Unroutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoRoute => {
                "nobody is asked about it: no route for approvals in the operator's configuration is about it"
            }
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
    /// Says in the question who may answer it, and leaves out what may not be answered. Without any routes, a question stays as it is.
    pub(super) fn route(
        &self,
        question: &mut NewApproval,
        requests: &[ApprovalRequest],
        people: &People,
        requester: Option<&Identity>,
    ) -> Result<(), Unroutable> {
        if self.0.is_empty() {
            return Ok(());
        }
        let routes = self.fitting(question, requests).ok_or(Unroutable::NoRoute)?;
        let votes = routes.iter().map(|route| route.votes).max().unwrap_or(NonZeroU32::MIN);
        let is_ones = votes.get() == 1;
        question.allowed_decisions.retain(|decision| {
            let all_may =
                routes.iter().all(|route| route.decisions.as_ref().is_none_or(|may| may.contains(decision)));
            *decision == Decision::Deny || (all_may && (is_ones || *decision != Decision::AllowAlways))
        });
        question.substitutes.retain(|substitute| {
            routes.iter().all(|route| route.substitutes.as_ref().is_none_or(|may| may.contains(substitute)))
        });
        let barred = match routes.iter().any(|route| route.bars_requester) {
            true => Some(barred(people, requester)?),
            false => None,
        };
        let told = told_on(&routes, question);
        // Those that ask anybody narrow nothing.
        let routes: Vec<&ApprovalRoute> = routes.into_iter().filter(|route| route.ask.is_some()).collect();
        if routes.is_empty() {
            return if is_ones && barred.is_none() { Ok(()) } else { Err(Unroutable::Nobody) };
        }
        let ask = routes.iter().filter_map(|route| route.ask.as_ref());
        let mut asked = of_all(ask.map(|ask| AskedPeople::of(ask, people)));
        let mut escalation = escalation_of(&routes, question, people);
        // INVARIANT (nobody allows what they asked for): whoever wrote the call asks for it as well.
        if let (Some(from), true) = (&question.edited_from, barred.is_some()) {
            let editor = from.person.as_ref().ok_or(Unroutable::UnknownRequester)?;
            asked.people.remove(editor);
            if let Some(escalation) = &mut escalation {
                escalation.to.people.remove(editor);
            }
        }
        let routed = Route { asked, votes, escalation, barred, told };
        let most = usize::try_from(votes.get()).unwrap_or(usize::MAX);
        if routed.everybody().len() < most {
            return Err(Unroutable::Nobody);
        }
        question.route = Some(routed);
        Ok(())
    }

    /// Returns the first route that fits each reason, by each of its rules alone and as a whole, each once; `None` if one of them has none.
    /// INVARIANT (one reason more is no way around another): what a rule leads to depends on no other rule, whichever hooks put into one reason.
    ///
    /// A rule counts by its own severity, and a reason as a whole by that of its gravest rule. Where a hook does not say how grave each of several rules is, each may be
    /// as grave as the reason or milder, and counts as either.
    fn fitting(&self, question: &NewApproval, requests: &[ApprovalRequest]) -> Option<Vec<&ApprovalRoute>> {
        let first = |question: &NewApproval| self.0.iter().position(|route| (route.fits)(question));
        let mut found: BTreeSet<Option<usize>> = BTreeSet::new();
        if question.reasons.is_empty() {
            found.insert(first(question));
        }
        let mut alone = question.clone();
        for (index, reason) in question.reasons.iter().enumerate() {
            let mut led_to = |rules: BTreeSet<RuleId>, severity: Severity| {
                alone.severity = severity;
                alone.reasons = vec![ApprovalReason { rules, severity, ..reason.clone() }];
                first(&alone)
            };
            // As a whole, too: it may have no rules, and a route may be about what several of them say together.
            found.insert(led_to(reason.rules.clone(), reason.severity));
            let request = requests.get(index);
            for rule in &reason.rules {
                let (known, rules) =
                    (request.and_then(|request| request.severity_of(rule)), BTreeSet::from([rule.clone()]));
                found.insert(led_to(rules.clone(), known.unwrap_or(reason.severity)));
                if known.is_none() && reason.rules.len() > 1 {
                    let milder =
                        [Severity::Info, Severity::Warning].into_iter().filter(|one| *one < reason.severity);
                    found.extend(
                        milder.map(|severity| led_to(rules.clone(), severity)).filter(Option::is_some),
                    );
                }
            }
        }
        found.into_iter().map(|index| self.0.get(index?)).collect()
    }
}

/// Those whom all of several routes ask. INVARIANT (one reason more is no way around another): whoever leaves what one of them names is asked
/// by none.
fn of_all(asked: impl Iterator<Item = AskedPeople>) -> AskedPeople {
    asked.reduce(AskedPeople::and).unwrap_or_default()
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

/// The surfaces that one of several routes has told, each as soon as one of them does; `None` for all, as soon as one of them leaves it at that.
/// INVARIANT (one reason more keeps a question from nobody).
fn told_on(routes: &[&ApprovalRoute], question: &NewApproval) -> Option<ToldOn> {
    let one = |told: &ToldSurfaces| ToldOn {
        surfaces: told.first.iter().cloned().collect(),
        later: Vec::from_iter(told.later.as_ref().map(|(after, surfaces)| ToldLater {
            surfaces: surfaces.iter().cloned().collect(),
            at: question.created_at.after(*after),
            uptime: Uptime::now().map(|now| now.after(*after)),
        })),
    };
    let all: Vec<ToldOn> = routes.iter().map(|route| route.told.as_ref().map(one)).collect::<Option<_>>()?;
    all.into_iter().reduce(ToldOn::or)
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

/// Returns what is known of whoever asked for a call: the user of the token with which a gateway was asked, who speaks to the agent in the console,
/// or the account whose agent it is. `account` is that of this process.
pub(super) fn requester_of(call: &CallContext, account: Option<&Identity>) -> Option<Identity> {
    match (&call.requester, call.front_end.host) {
        (Some(requester), Some("agent")) if requester.is_at_terminal() => account.cloned(),
        (Some(requester), Some("agent")) if requester.channel.as_deref() == Some(Requester::CONSOLE) => {
            let name = requester.sender_id.clone()?;
            Some(match requester.account_id.clone() {
                Some(issuer) => Identity::SignedIn { issuer, name },
                None => Identity::User(name),
            })
        }
        // Whoever writes in another channel is known there.
        (Some(requester), _) if requester.channel.is_some() => None,
        (Some(requester), _) => requester.sender_id.clone().map(Identity::User),
        // Behind a proxy there may be anybody.
        (None, Some("agent" | "hooks")) => account.cloned(),
        (None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use backstop_hooks::points::ToolCallEvent;
    use backstop_hooks::{ApprovalRequest, FrontEnd, Ground, Params};
    use backstop_store::{KnownBy, TellWhen, Timestamp};
    use proptest::prelude::*;

    use super::super::question::question;
    use super::*;
    use crate::tool_call::tool_call_digest;

    const NAMES: [&str; 4] = ["ann", "bob", "carl", "dan"];
    const GROUPS: [&str; 2] = ["oncall", "leads"];
    const SURFACES: [&str; 3] = ["chat", "mail", "pager"];
    const HOUR: Duration = Duration::from_hours(1);

    fn some_of(names: Vec<&'static str>) -> impl Strategy<Value = Vec<&'static str>> {
        let most = names.len();
        prop::sample::subsequence(names, 1..=most)
    }

    #[test]
    fn whoever_speaks_in_the_console_is_known_as_it_is_proved_and_only_to_the_agent() {
        let call = |host, channel: Option<&str>, account: Option<&str>| CallContext {
            requester: Some(Requester {
                channel: channel.map(str::to_owned),
                account_id: account.map(str::to_owned),
                sender_id: Some("ann".to_owned()),
                ..Requester::default()
            }),
            front_end: FrontEnd::of_host(host),
            ..CallContext::default()
        };
        let of = |host, channel, account| requester_of(&call(host, channel, account), None);
        let user = Some(Identity::User("ann".to_owned()));
        let issuer = "https://id.example".to_owned();
        let signed_in = Some(Identity::SignedIn { issuer: issuer.clone(), name: "ann".to_owned() });
        assert_eq!(of("agent", Some(Requester::CONSOLE), None), user);
        assert_eq!(of("agent", Some(Requester::CONSOLE), Some(&issuer)), signed_in);
        assert_eq!(of("agent", Some("slack"), Some(&issuer)), None);
        // Other hosts have no console, whatever they say.
        assert_eq!(of("proxy", Some(Requester::CONSOLE), Some(&issuer)), None);
        assert_eq!(of("proxy", None, None), user);
    }

    /// Who is in which group.
    fn groups() -> impl Strategy<Value = [Vec<&'static str>; 2]> {
        [some_of(NAMES.to_vec()), some_of(NAMES.to_vec())]
    }

    fn people(groups: &[Vec<&'static str>; 2]) -> People {
        let known = NAMES.map(|name| (PersonName::new(name), vec![KnownBy::User(name.to_owned())]));
        let members = |names: &[&str]| names.iter().map(|name| PersonName::new(*name)).collect::<Vec<_>>();
        let groups = GROUPS.iter().zip(groups).map(|(group, names)| ((*group).to_owned(), members(names)));
        People::new(known).with_groups(groups)
    }

    fn told() -> impl Strategy<Value = Option<ToldSurfaces>> {
        let some = || {
            let names = prop::sample::subsequence(SURFACES.to_vec(), 0..=SURFACES.len());
            names.prop_map(|names| names.into_iter().map(str::to_owned).collect::<Vec<String>>())
        };
        let later = prop::option::of(((1..4_u64).prop_map(Duration::from_hours), some()));
        let told = (some(), later).prop_map(|(first, later)| ToldSurfaces { first, later });
        prop::option::weighted(0.8, told)
    }

    /// Routes, each about the rule that has its number as name.
    fn routes() -> impl Strategy<Value = Vec<ApprovalRoute>> {
        let asked = || {
            let names = some_of([&NAMES[..], &GROUPS[..]].concat());
            names.prop_map(|names| names.into_iter().map(str::to_owned).collect::<Vec<String>>())
        };
        let votes = (1..3_u32).prop_map(|votes| NonZeroU32::new(votes).unwrap());
        let after = (1..4_u64).prop_map(Duration::from_hours);
        let escalate = prop::option::weighted(0.7, (after, asked()));
        let all = vec![Decision::AllowOnce, Decision::AllowAlways, Decision::Deny];
        let decisions = prop::option::of(prop::sample::subsequence(all, 0..=3));
        let route = (asked(), prop::bool::weighted(0.2), votes, escalate, decisions, told());
        prop::collection::vec(route, 1..4).prop_map(|routes| {
            let numbered = routes.into_iter().enumerate();
            let routes = numbered.map(|(number, (ask, bars_requester, votes, escalate, decisions, told))| {
                let name = number.to_string();
                let fits = move |question: &NewApproval| {
                    let mut rules = question.reasons.iter().flat_map(|reason| &reason.rules);
                    rules.any(|rule| rule.as_str() == name)
                };
                let fits = Arc::new(fits);
                let substitutes = None;
                let ask = Some(ask);
                ApprovalRoute { fits, ask, bars_requester, votes, escalate, told, decisions, substitutes }
            });
            routes.collect::<Vec<_>>()
        })
    }

    /// A route that is about every question and asks anybody.
    fn anybody() -> ApprovalRoute {
        ApprovalRoute {
            fits: Arc::new(|_| true),
            ask: None,
            bars_requester: false,
            votes: NonZeroU32::MIN,
            escalate: None,
            told: None,
            decisions: None,
            substitutes: None,
        }
    }

    /// What comes of a question.
    #[derive(Debug, PartialEq)]
    struct Routed {
        votes: NonZeroU32,
        /// Who may answer: hour by hour, before and after the groups have changed, and at any time.
        may: Vec<BTreeSet<PersonName>>,
        decisions: Vec<Decision>,
        barred: Option<PersonName>,
        /// Which surfaces are told, hour by hour.
        told: Vec<BTreeSet<&'static str>>,
    }

    fn told_by_hour(route: &Route) -> Vec<BTreeSet<&'static str>> {
        let mut told = route.told.clone();
        if let Some(told) = &mut told {
            told.later.iter_mut().for_each(|later| later.uptime = None);
        }
        let hours = (0..5_u32).map(|hour| Timestamp::from_millis(1).after(HOUR * hour));
        let is_told = |surface: &str, now: Timestamp| {
            told.as_ref().is_none_or(|told| told.when(surface, now) == TellWhen::Now)
        };
        let by_hour = hours.map(|now| SURFACES.into_iter().filter(|surface| is_told(surface, now)).collect());
        by_hour.collect()
    }

    /// Rules as those of reasons, so many in each.
    fn reasons_of(rules: &[usize], size: usize) -> Vec<Vec<usize>> {
        rules.chunks(size).map(<[usize]>::to_vec).collect()
    }

    /// What comes of a question for reasons with these rules.
    fn routed(
        routes: impl IntoIterator<Item = ApprovalRoute>,
        reasons: &[Vec<usize>],
        before: &People,
        after: &People,
    ) -> Result<Routed, Unroutable> {
        let ground = |rule: &usize| Ground { rule: rule.to_string().as_str().into(), about: Vec::new() };
        let request =
            |rules: &Vec<usize>| ApprovalRequest::cut("run it?", "").grounds(rules.iter().map(ground));
        outcome(routes, reasons.iter().map(request).collect(), before, after)
    }

    /// What comes of a question for these requests.
    fn outcome(
        routes: impl IntoIterator<Item = ApprovalRoute>,
        requests: Vec<ApprovalRequest>,
        before: &People,
        after: &People,
    ) -> Result<Routed, Unroutable> {
        let event = ToolCallEvent::new("exec", Params::default());
        let (digest, now) = (tool_call_digest(&event), Timestamp::from_millis(0));
        let call = CallContext::default();
        let mut question = question(&event, digest, &requests, HOUR, &call, now, false);
        let requester = Identity::User("ann".to_owned());
        Routes::from_iter(routes).route(&mut question, &requests, before, Some(&requester))?;
        let mut route = question.route.unwrap();
        // The clock that nobody sets would decide in place of the moments below.
        if let Some(escalation) = &mut route.escalation {
            escalation.uptime = None;
        }
        let hours = (0..5_u32).map(|hour| Timestamp::from_millis(1).after(HOUR * hour));
        let may = hours.flat_map(|now| [before, after].map(|people| route.may_answer(people, now)));
        let may = may.chain([route.everybody()]).collect();
        let (votes, barred) = (route.votes, route.barred.clone());
        Ok(Routed { votes, may, decisions: question.allowed_decisions, barred, told: told_by_hour(&route) })
    }

    fn is_no_milder(all: &Routed, one: &Routed) -> Result<(), TestCaseError> {
        prop_assert!(all.votes >= one.votes);
        let narrows = |(all, one): (&BTreeSet<PersonName>, &BTreeSet<PersonName>)| all.is_subset(one);
        prop_assert!(all.may.iter().zip(&one.may).all(narrows), "{:?} and {:?}", all, one);
        prop_assert!(all.decisions.iter().all(|decision| one.decisions.contains(decision)));
        prop_assert!(one.barred.is_none() || all.barred == one.barred);
        Ok(())
    }

    const SEVERITIES: [Severity; 3] = [Severity::Info, Severity::Warning, Severity::Critical];

    /// Routes, each about some rules from a severity on.
    fn graded_routes() -> impl Strategy<Value = Vec<ApprovalRoute>> {
        let about = (prop::sample::subsequence(vec![0_usize, 1, 2], 1..=3), prop::option::of(0..3_usize));
        (routes(), prop::collection::vec(about, 4)).prop_map(|(routes, about)| {
            let graded = routes.into_iter().zip(about).map(|(route, (rules, least))| {
                let names: Vec<String> = rules.iter().map(ToString::to_string).collect();
                let fits = move |question: &NewApproval| {
                    let mut rules = question.reasons.iter().flat_map(|reason| &reason.rules);
                    least.is_none_or(|least| question.severity >= SEVERITIES[least])
                        && rules.any(|rule| names.iter().any(|name| name == rule.as_str()))
                };
                ApprovalRoute { fits: Arc::new(fits), ..route }
            });
            graded.collect()
        })
    }

    fn graded(rules: &[(usize, Severity)], says: bool) -> ApprovalRequest {
        let name = |rule: usize| -> RuleId { rule.to_string().as_str().into() };
        let grounds = rules.iter().map(|(rule, _)| Ground { rule: name(*rule), about: Vec::new() });
        let gravest = rules.iter().map(|(_, severity)| *severity).max().unwrap();
        let request = ApprovalRequest::cut("run it?", "").severity(gravest).grounds(grounds);
        if !says {
            return request;
        }
        request.severities(rules.iter().map(|(rule, severity)| (name(*rule), *severity)))
    }

    proptest! {
        /// A graver rule beside it is no way around whom a rule leads to, whether the hook says how grave each is or not.
        #[test]
        fn a_graver_rule_in_the_same_reason_makes_nothing_milder(
            routes in graded_routes(),
            who in groups(),
            grades in [0..3_usize, 0..3_usize, 0..3_usize],
            says in any::<bool>(),
        ) {
            let people = people(&who);
            let rules: Vec<(usize, Severity)> =
                grades.into_iter().enumerate().map(|(rule, grade)| (rule, SEVERITIES[grade])).collect();
            let in_one = vec![graded(&rules, says)];
            let Ok(all) = outcome(routes.clone(), in_one, &people, &people) else { return Ok(()) };
            for rule in rules {
                match outcome(routes.clone(), vec![graded(&[rule], true)], &people, &people) {
                    // Where the hook does not say it, the rule may have been graver.
                    Err(Unroutable::NoRoute) if !says => {}
                    one => is_no_milder(&all, &one.map_err(|why| TestCaseError::fail(why.to_string()))?)?,
                }
            }
        }

        #[test]
        fn several_routes_are_no_milder_than_any_of_them_in_whatever_order(
            routes in routes(),
            before in groups(),
            after in groups(),
            size in 1..4_usize,
        ) {
            let (before, after) = (people(&before), people(&after));
            let rules: Vec<usize> = (0..routes.len()).collect();
            let mut reasons = reasons_of(&rules, size);
            let all = routed(routes.clone(), &reasons, &before, &after);
            reasons.reverse();
            prop_assert_eq!(&all, &routed(routes.iter().rev().cloned(), &reasons, &before, &after));
            // However hooks put the rules into reasons.
            prop_assert_eq!(&all, &routed(routes.clone(), &reasons_of(&rules, 1), &before, &after));
            let Ok(all) = all else { return Ok(()) };
            for rule in rules {
                let one = routed(routes.clone(), &[vec![rule]], &before, &after);
                let one = one.map_err(|why| TestCaseError::fail(why.to_string()))?;
                is_no_milder(&all, &one)?;
            }
        }

        #[test]
        fn padding_with_another_rule_makes_nothing_milder(
            mut routes in routes(),
            who in groups(),
            first in 0..3_usize,
            padding in prop::collection::vec(0..4_usize, 1..3),
        ) {
            let people = people(&who);
            let first = first.min(routes.len() - 1);
            let one = routed(routes.clone(), &[vec![first]], &people, &people);
            // Some of these only the last route is about, which asks anybody.
            routes.push(anybody());
            let padded: Vec<usize> = iter::once(first).chain(padding).collect();
            let Ok(padded) = routed(routes, &[padded], &people, &people) else { return Ok(()) };
            let one = one.map_err(|why| TestCaseError::fail(why.to_string()))?;
            is_no_milder(&padded, &one)?;
            let widens = |(padded, one): (&BTreeSet<&str>, &BTreeSet<&str>)| one.is_subset(padded);
            prop_assert!(padded.told.iter().zip(&one.told).all(widens), "{:?} and {:?}", padded, one);
        }

        #[test]
        fn a_surface_is_told_as_soon_as_one_of_the_reasons_alone_would_have_it_told_and_no_sooner(
            mut routes in routes(),
            who in groups(),
            goes_to_anybody in any::<bool>(),
            size in 1..4_usize,
        ) {
            let people = people(&who);
            // A rule that goes to a route without surfaces is told everywhere.
            let own = routes.len();
            let more = goes_to_anybody.then_some(own);
            routes.extend(more.map(|_| anybody()));
            let rules: Vec<usize> = (0..own).chain(more).collect();
            let reasons = reasons_of(&rules, size);
            let Ok(all) = routed(routes.clone(), &reasons, &people, &people) else { return Ok(()) };
            let mut told = vec![BTreeSet::new(); all.told.len()];
            for rule in 0..own {
                let one = routed(routes.clone(), &[vec![rule]], &people, &people);
                let one = one.map_err(|why| TestCaseError::fail(why.to_string()))?;
                told.iter_mut().zip(one.told).for_each(|(told, one)| told.extend(one));
            }
            if goes_to_anybody {
                told.fill(SURFACES.into());
            }
            prop_assert_eq!(all.told, told);
        }

        #[test]
        fn what_no_route_is_about_is_denied_whatever_else_there_is(
            routes in routes(),
            who in groups(),
            beside in prop::collection::vec(0..3_usize, 0..3),
        ) {
            let people = people(&who);
            let nowhere = routes.len();
            let all: Vec<usize> = beside.into_iter().map(|rule| rule.min(nowhere)).chain([nowhere]).collect();
            for reasons in [reasons_of(&all, 1), reasons_of(&all, all.len())] {
                prop_assert_eq!(routed(routes.clone(), &reasons, &people, &people), Err(Unroutable::NoRoute));
            }
        }
    }
}
