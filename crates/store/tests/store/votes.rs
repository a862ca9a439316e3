//! Who may answer, how many must, and how much an agent may ask.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::Decision;
use backstop_store::{
    APPROVAL_ANSWERED, APPROVAL_ASKED, APPROVAL_VOTED, AccessTokenId, AllowanceScope, Always, AlwaysScope,
    Answerer, ApprovalRecord, ApprovalState, ApprovalStatus, AskedPeople, AskingLimits, AuditFilter,
    CreateApprovalError, Escalation, Identity, KnownBy, NewAccessToken, NewApproval, People, PersonName,
    PersonsAnswer, ResolveError, Route, Scope, Store, Timestamp, TooMany, WhyNot, allow_always,
};
use proptest::prelude::*;

use crate::support::{at, block_on, digest, memory, over_all_forms, question, sqlite};

over_all_forms!(
    nobody_else_answers,
    as_many_as_must_allow_the_call,
    a_person_has_one_vote,
    a_service_that_vouches_has_one_vote,
    one_denial_ends_it,
    what_ended_does_not_count,
    others_may_answer_later,
    a_later_call_wants_votes_of_its_own,
    a_call_whose_time_is_over_does_not_wait,
    an_allowance_is_that_of_those_who_gave_it,
    nobody_alone_renews_what_two_allowed,
    what_one_allowed_is_not_enough_for_more,
    silence_allows_nothing,
    each_vote_is_in_the_trail,
    an_agent_asks_no_more_than_it_may,
);

const NAMES: [&str; 4] = ["ann", "bob", "carl", "dan"];

fn name(name: &str) -> PersonName {
    PersonName::new(name)
}

/// Those of the names that the configuration has; all but `dan` are on call.
fn people(names: &[&str]) -> Arc<People> {
    let known = names.iter().map(|one| (name(one), vec![KnownBy::User((*one).to_owned())]));
    let on_call = NAMES[..3].iter().map(|one| name(one)).collect();
    Arc::new(People::new(known).with_groups([("oncall".to_owned(), on_call)]))
}

pub(crate) fn everybody() -> Arc<People> {
    people(&NAMES)
}

pub(crate) fn by(people: &Arc<People>, user: &str) -> Answerer {
    people.answerer(&Identity::User(user.to_owned()), format!("{user}, by a test"))
}

fn route(votes: u32) -> Route {
    Route {
        asked: AskedPeople::of(["oncall"], &everybody()),
        votes: NonZeroU32::new(votes).unwrap(),
        escalation: None,
        barred: None,
        told: None,
    }
}

pub(crate) fn routed(votes: u32) -> NewApproval {
    NewApproval { route: Some(route(votes)), ..question("ls") }
}

async fn asked(store: &dyn Store, votes: u32) -> ApprovalRecord {
    store.create_approval(routed(votes)).await.unwrap()
}

async fn allow(
    store: &dyn Store,
    record: &ApprovalRecord,
    who: Answerer,
    now: i64,
) -> Result<ApprovalRecord, ResolveError> {
    let answer = PersonsAnswer::new(Decision::AllowOnce, who, at(now));
    store.answer_approval(&record.id, answer).await.map(|resolved| resolved.record)
}

async fn status(store: &dyn Store, record: &ApprovalRecord) -> ApprovalStatus {
    store.approval(&record.id).await.unwrap().unwrap().state.status()
}

/// A token of that person, which counts from 0 to 10,000.
async fn token(store: &dyn Store, user: &str) -> AccessTokenId {
    let span = Duration::from_secs(10);
    let (_, made) =
        NewAccessToken::make_for_person(user.to_owned(), vec![Scope::Approve], "me".to_owned(), at(0), span);
    store.add_access_token(made).await.unwrap().made.id
}

fn why(refused: Result<ApprovalRecord, ResolveError>) -> (WhyNot, String) {
    match refused {
        Err(ResolveError::NotAsked(refused)) => (refused.why, refused.why()),
        other => panic!("{other:?}"),
    }
}

async fn nobody_else_answers(store: &dyn Store) {
    let (all, record) = (everybody(), asked(store, 1).await);
    for stranger in [Answerer::from("the terminal"), by(&all, "eve")] {
        let told = "it is not known which person you are; ann, bob or carl may answer".to_owned();
        assert_eq!(why(allow(store, &record, stranger.clone(), 1_100).await), (WhyNot::Unknown, told));
        // Not even to say no, nor by what is known of nobody.
        let denied = PersonsAnswer::new(Decision::Deny, stranger.clone(), at(1_100));
        assert!(store.answer_approval(&record.id, denied).await.is_err());
        assert!(store.allow_later(&record.id, &stranger, Duration::from_secs(9), at(1_100)).await.is_err());
        let always = Always { scope: AlwaysScope::Call, ttl: None, times: None };
        assert!(allow_always(store, &record.id, &always, &stranger).await.is_err());
    }
    let (reason, told) = why(allow(store, &record, by(&all, "dan"), 1_100).await);
    assert_eq!((reason, told.as_str()), (WhyNot::NotAsked, "dan is not asked; ann, bob or carl may answer"));
    assert!(store.resolve_approval(&record.id, Decision::AllowOnce, "ann", at(1_100)).await.is_err());
    // Whoever asked for the call is barred, and who left is nobody.
    let barred = Route { barred: Some(name("ann")), ..route(1) };
    let own = store.create_approval(NewApproval { route: Some(barred), ..question("own") }).await.unwrap();
    let (reason, told) = why(allow(store, &own, by(&all, "ann"), 1_100).await);
    assert_eq!(
        (reason, told.as_str()),
        (WhyNot::Barred, "ann asked for the call and may not answer; bob or carl may answer")
    );
    assert_eq!(why(allow(store, &record, by(&people(&["ann"]), "bob"), 1_100).await).0, WhyNot::Unknown);
    assert_eq!(status(store, &record).await, ApprovalStatus::Pending);
    assert!(store.grants(9).await.unwrap().is_empty(), "nothing was granted, not for a moment");
    allow(store, &record, by(&all, "bob"), 1_100).await.unwrap();
    assert_eq!(status(store, &record).await, ApprovalStatus::Allowed);
}

async fn as_many_as_must_allow_the_call(store: &dyn Store) {
    let (all, record) = (everybody(), asked(store, 2).await);
    let standing = |record: &ApprovalRecord| record.standing(&all, at(1_200)).unwrap().told();
    assert_eq!(standing(&record), "0 of 2: waiting for ann, bob or carl");
    let waits = allow(store, &record, by(&all, "ann"), 1_100).await.unwrap();
    assert_eq!(waits.state, ApprovalState::Pending);
    assert_eq!(standing(&waits), "1 of 2: ann allowed it; waiting for bob or carl");
    assert!(store.consume_approval(&record.id, &digest("ls"), at(1_150)).await.is_err());
    // What several must allow nobody allows from now on.
    let always = PersonsAnswer::new(Decision::AllowAlways, by(&all, "bob"), at(1_150));
    assert!(matches!(store.answer_approval(&record.id, always).await, Err(ResolveError::NotOffered { .. })));
    let (now, always) = (Timestamp::now(), Always { scope: AlwaysScope::Call, ttl: None, times: None });
    let lasting = NewApproval { expires_at: now.after(Duration::from_secs(3_600)), ..routed(2) };
    let lasting = store.create_approval(lasting).await.unwrap();
    let refused = allow_always(store, &lasting.id, &always, &by(&all, "bob")).await;
    assert!(refused.unwrap_err().to_string().contains("can't be answered with allow-always"));
    let allowed = allow(store, &record, by(&all, "carl"), 1_200).await.unwrap();
    assert_eq!(allowed.state.by(), Some("ann and carl"));
    store.consume_approval(&record.id, &digest("ls"), at(1_300)).await.unwrap();
}

async fn a_person_has_one_vote(store: &dyn Store) {
    let (all, record) = (everybody(), asked(store, 2).await);
    let first = PersonsAnswer::new(Decision::AllowOnce, by(&all, "ann"), at(1_100));
    assert!(store.answer_approval(&record.id, first.clone()).await.unwrap().first);
    // The same person on another surface, and the same answer once more.
    let token = token(store, "ann").await;
    for again in
        [first, PersonsAnswer::new(Decision::AllowOnce, by(&all, "ann").with_token(token), at(1_200))]
    {
        let resolved = store.answer_approval(&record.id, again).await.unwrap();
        assert!(
            !resolved.first
                && resolved.record.state == ApprovalState::Pending
                && resolved.record.votes.len() == 1
        );
    }
    let other = PersonsAnswer::new(Decision::Deny, by(&all, "ann"), at(1_300));
    let refused = store.answer_approval(&record.id, other).await;
    assert!(
        matches!(refused, Err(ResolveError::OtherVote { decision: Decision::AllowOnce, .. })),
        "{refused:?}"
    );
    assert_eq!(status(store, &record).await, ApprovalStatus::Pending);
}

async fn a_service_that_vouches_has_one_vote(store: &dyn Store) {
    let (all, record) = (everybody(), asked(store, 2).await);
    let vouched = |user: &str, service: &str| by(&all, user).vouched_for_by(service);
    let waits = allow(store, &record, vouched("ann", "pager"), 1_100).await.unwrap();
    assert_eq!(waits.state, ApprovalState::Pending);
    assert_eq!(why(allow(store, &record, vouched("bob", "pager"), 1_110).await).0, WhyNot::Vouched);
    let denied = PersonsAnswer::new(Decision::Deny, vouched("bob", "pager"), at(1_110));
    assert!(store.answer_approval(&record.id, denied).await.is_err());
    // Again the same, and another service.
    assert_eq!(
        allow(store, &record, vouched("ann", "pager"), 1_120).await.unwrap().state,
        ApprovalState::Pending
    );
    allow(store, &record, vouched("bob", "bell"), 1_130).await.unwrap();
    assert_eq!(status(store, &record).await, ApprovalStatus::Allowed);
    // Who asked may not answer: then nobody does who could be them.
    let barred = Route { barred: Some(name("ann")), ..route(1) };
    let record =
        store.create_approval(NewApproval { route: Some(barred), ..question("ls -l") }).await.unwrap();
    assert_eq!(why(allow(store, &record, vouched("bob", "pager"), 1_100).await).0, WhyNot::Vouched);
    allow(store, &record, by(&all, "bob"), 1_100).await.unwrap();
    assert_eq!(status(store, &record).await, ApprovalStatus::Allowed);
}

async fn one_denial_ends_it(store: &dyn Store) {
    let (all, record) = (everybody(), asked(store, 3).await);
    allow(store, &record, by(&all, "ann"), 1_100).await.unwrap();
    let no = PersonsAnswer::new(Decision::Deny, by(&all, "bob"), at(1_200));
    store.answer_approval(&record.id, no).await.unwrap();
    assert!(allow(store, &record, by(&all, "carl"), 1_300).await.is_err());
    assert_eq!(status(store, &record).await, ApprovalStatus::Denied);
}

async fn what_ended_does_not_count(store: &dyn Store) {
    let (all, record) = (everybody(), asked(store, 2).await);
    let (lost, good) = (token(store, "ann").await, token(store, "ann").await);
    allow(store, &record, by(&all, "ann").with_token(lost.clone()), 1_100).await.unwrap();
    store.revoke_access_token(&lost, "me", at(1_150)).await.unwrap();
    // It does not count any more, nor can anything be answered with it.
    let late = allow(store, &record, by(&all, "ann").with_token(lost.clone()), 1_160).await;
    assert_eq!(why(late).0, WhyNot::Ended);
    // Nor where nobody is named who may.
    let open = store.create_approval(question("ls")).await.unwrap();
    let late = allow(store, &open, by(&all, "ann").with_token(lost), 1_160).await;
    assert_eq!(why(late).0, WhyNot::Ended);
    allow(store, &open, by(&all, "ann").with_token(good.clone()), 1_160).await.unwrap();
    let unknown = by(&all, "bob").with_token("0123456789abcdef".to_owned().into());
    assert_eq!(why(allow(store, &record, unknown, 1_160).await).0, WhyNot::Ended);
    let waits = allow(store, &record, by(&all, "bob"), 1_200).await.unwrap();
    assert_eq!(waits.state, ApprovalState::Pending, "one of the two votes was given with a revoked token");
    assert_eq!(
        waits.standing(&all, at(1_250)).unwrap().told(),
        "1 of 2: bob allowed it; waiting for ann or carl"
    );
    // Nor does the vote of somebody who left: for whoever answers now, bob is gone.
    let left = people(&["ann", "carl"]);
    let waits = allow(store, &record, by(&left, "carl"), 1_300).await.unwrap();
    assert_eq!(waits.state, ApprovalState::Pending);
    allow(store, &record, by(&left, "ann").with_token(good), 1_400).await.unwrap();
    assert_eq!(status(store, &record).await, ApprovalStatus::Allowed);
}

async fn others_may_answer_later(store: &dyn Store) {
    let all = everybody();
    let escalation = Escalation { to: AskedPeople::of(["dan"], &all), at: at(1_500), uptime: None };
    let later = Route { escalation: Some(escalation), ..route(1) };
    let record = store.create_approval(NewApproval { route: Some(later), ..question("ls") }).await.unwrap();
    let told = record.standing(&all, at(1_200)).unwrap().told();
    assert_eq!(told, "waiting for ann, bob or carl; from 1970-01-01T00:00:01.5Z on also for dan");
    assert_eq!(why(allow(store, &record, by(&all, "dan"), 1_500).await).0, WhyNot::NotAsked);
    allow(store, &record, by(&all, "dan"), 1_501).await.unwrap();
    assert_eq!(status(store, &record).await, ApprovalStatus::Allowed);
}

async fn a_later_call_wants_votes_of_its_own(store: &dyn Store) {
    let (all, record) = (everybody(), asked(store, 2).await);
    allow(store, &record, by(&all, "ann"), 1_100).await.unwrap();
    store.end_waiting(&record.id, at(2_100)).await.unwrap();
    let (ttl, who) = (Duration::from_secs(60), |user: &str| by(&all, user));
    let waits = store.allow_later(&record.id, &who("bob"), ttl, at(2_200)).await.unwrap();
    assert_eq!(waits.state.status(), ApprovalStatus::TimedOut, "ann allowed the call that waited");
    let allowed = store.allow_later(&record.id, &who("ann"), ttl, at(2_300)).await.unwrap();
    assert_eq!(allowed.state.status(), ApprovalStatus::Allowed);
    // What was allowed and not used counts as long as it is kept.
    store.keep_allowance(&record.id, ttl, at(2_400)).await.unwrap();
    assert!(store.take_allowance(&scope(Some(route(2))), at(2_500)).await.unwrap().is_some());
    assert!(store.keep_allowance(&record.id, ttl, at(2_600)).await.is_err());
}

async fn a_call_whose_time_is_over_does_not_wait(store: &dyn Store) {
    let (all, record) = (everybody(), asked(store, 2).await);
    let (ttl, who) = (Duration::from_secs(60), |user: &str| by(&all, user));
    allow(store, &record, who("ann"), 1_100).await.unwrap();
    // Its deadline has passed, and nobody has noticed.
    let waits = store.allow_later(&record.id, &who("bob"), ttl, at(2_100)).await.unwrap();
    assert_eq!(waits.state, ApprovalState::TimedOut { at: at(2_100) }, "ann allowed the call that waited");
    assert!(store.take_allowance(&scope(Some(route(2))), at(2_200)).await.unwrap().is_none());
    let allowed = store.allow_later(&record.id, &who("ann"), ttl, at(2_300)).await.unwrap();
    assert_eq!(allowed.state.by(), Some("ann and bob"));
    assert!(store.take_allowance(&scope(Some(route(2))), at(2_400)).await.unwrap().is_some());
}

async fn an_allowance_is_that_of_those_who_gave_it(store: &dyn Store) {
    let (all, record) = (everybody(), asked(store, 2).await);
    let (ttl, who) = (Duration::from_secs(60), |user: &str| by(&all, user));
    let takes = async |votes: u32, now: i64| {
        store.take_allowance(&scope(Some(route(votes))), at(now)).await.unwrap().is_some()
    };
    allow(store, &record, who("ann"), 1_100).await.unwrap();
    store.end_waiting(&record.id, at(2_100)).await.unwrap();
    let (lost, good) = (token(store, "bob").await, token(store, "bob").await);
    store.allow_later(&record.id, &who("bob").with_token(lost.clone()), ttl, at(2_200)).await.unwrap();
    store.allow_later(&record.id, &who("carl"), ttl, at(2_300)).await.unwrap();
    // By now three must allow it, and ann has allowed the call that waited alone.
    assert!(!takes(3, 2_400).await);
    // What was given with a token that is revoked does not count, until its person votes once more.
    store.revoke_access_token(&lost, "me", at(2_500)).await.unwrap();
    assert!(!takes(2, 2_600).await);
    store.allow_later(&record.id, &who("bob").with_token(good), ttl, at(2_700)).await.unwrap();
    assert!(!takes(3, 2_800).await && takes(2, 2_800).await);
}

async fn nobody_alone_renews_what_two_allowed(store: &dyn Store) {
    let (all, ttl) = (everybody(), Duration::from_secs(1));
    let record = store.create_unattended_approval(routed(2)).await.unwrap();
    let until = async |who: &str, now: i64| {
        let record = store.allow_later(&record.id, &by(&all, who), ttl, at(now)).await.unwrap();
        match record.state {
            ApprovalState::Allowed(allowance) => Some(allowance.reach),
            _ => None,
        }
    };
    assert_eq!(until("ann", 1_100).await, None);
    let first = until("bob", 1_200).await.unwrap();
    for (who, now) in [("ann", 1_300), ("ann", 3_000)] {
        assert_eq!(until(who, now).await, Some(first), "{who} alone at {now}");
    }
    assert!(store.take_allowance(&scope(Some(route(2))), at(3_100)).await.unwrap().is_none());
    // Two can.
    assert_ne!(until("carl", 3_200).await, Some(first));
    assert!(store.take_allowance(&scope(Some(route(2))), at(3_300)).await.unwrap().is_some());
}

fn scope(route: Option<Route>) -> AllowanceScope {
    AllowanceScope {
        agent: "main".into(),
        session_key: "chat".into(),
        workspace: None,
        tool_name: "exec".into(),
        digest: digest("ls"),
        asked: Vec::new(),
        facts: None,
        route,
    }
}

async fn what_one_allowed_is_not_enough_for_more(store: &dyn Store) {
    let (all, ttl) = (everybody(), Duration::from_secs(60));
    // Allowed before it was said who may answer, and by one person where two must by now.
    let before = store.create_unattended_approval(question("ls")).await.unwrap();
    store.allow_later(&before.id, &"me".into(), ttl, at(1_100)).await.unwrap();
    assert!(store.take_allowance(&scope(Some(route(1))), at(1_200)).await.unwrap().is_none());
    let one = store.create_unattended_approval(routed(1)).await.unwrap();
    store.allow_later(&one.id, &by(&all, "ann"), ttl, at(1_100)).await.unwrap();
    for not_enough in [route(2), Route { barred: Some(name("ann")), ..route(1) }] {
        assert!(store.take_allowance(&scope(Some(not_enough)), at(1_200)).await.unwrap().is_none());
    }
    assert!(store.take_allowance(&scope(Some(route(1))), at(1_200)).await.unwrap().is_some());
    assert!(store.take_allowance(&scope(None), at(1_200)).await.unwrap().is_some());
}

async fn silence_allows_nothing(store: &dyn Store) {
    let lax = backstop_hooks::TimeoutBehavior::Allow;
    let lax = NewApproval { timeout_behavior: lax, ..routed(1) };
    let record = store.create_approval(lax).await.unwrap();
    store.end_waiting(&record.id, at(2_100)).await.unwrap();
    assert!(store.consume_approval(&record.id, &digest("ls"), at(2_200)).await.is_err());
}

async fn each_vote_is_in_the_trail(store: &dyn Store) {
    let (all, record) = (everybody(), asked(store, 2).await);
    allow(store, &record, by(&all, "ann"), 1_100).await.unwrap();
    allow(store, &record, by(&all, "ann"), 1_150).await.unwrap();
    allow(store, &record, by(&all, "bob"), 1_200).await.unwrap();
    let said = store.audit(&AuditFilter::default(), 0, 99).await.unwrap();
    let said: Vec<_> = said.iter().map(|entry| (entry.kind.as_str(), entry.body.to_value())).collect();
    let kinds: Vec<_> = said.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [APPROVAL_ASKED, APPROVAL_VOTED, APPROVAL_VOTED, APPROVAL_ANSWERED]);
    let (_, vote) = &said[2];
    assert_eq!((&vote["agent"], &vote["tool"]), (&"main".into(), &"exec".into()));
    assert_eq!((&vote["person"], &vote["allowed"], &vote["needed"]), (&"bob".into(), &2.into(), &2.into()));
    assert_eq!(
        (&vote["digest"], &said[3].1["by"]),
        (&serde_json::json!(digest("ls")), &"ann and bob".into())
    );
}

async fn an_agent_asks_no_more_than_it_may(store: &dyn Store) {
    let most = NonZeroU32::new(2);
    let limits = AskingLimits { open: most, per_minute: NonZeroU32::new(4) };
    let ask = async |agent: &str, unattended: bool, when: i64| {
        let (created_at, expires_at) = (at(when), at(when + 1_000));
        let asked = NewApproval {
            agent: agent.into(),
            created_at,
            expires_at,
            run: Some(format!("{when}").as_str().into()),
            ..question("ls")
        };
        match store.file_approval(asked, unattended, &limits).await {
            Ok(record) => Ok(record),
            Err(CreateApprovalError::TooMany { why, .. }) => Err(why),
            Err(error) => panic!("{error}"),
        }
    };
    let first = ask("main", false, 1_000).await.unwrap();
    ask("main", false, 1_001).await.unwrap();
    assert_eq!(ask("main", false, 1_002).await.unwrap_err(), TooMany::Open(most.unwrap()));
    assert_eq!(ask("main", false, 1_003).await.unwrap_err(), TooMany::Open(most.unwrap()));
    ask("other", false, 1_004).await.unwrap();
    // An answer makes room, up to what may be asked in a minute.
    store.resolve_approval(&first.id, Decision::Deny, "me", at(1_005)).await.unwrap();
    ask("main", false, 1_006).await.unwrap();
    ask("main", true, 1_007).await.unwrap();
    assert_eq!(ask("main", true, 1_008).await.unwrap_err(), TooMany::PerMinute(limits.per_minute.unwrap()));
    ask("main", true, 62_000).await.unwrap();
    let refused = store.refused_questions(at(62_000)).await.unwrap();
    let [of_main] = refused.as_slice() else { panic!("{refused:?}") };
    assert_eq!((of_main.agent.as_str(), of_main.count, of_main.since), ("main", 3, at(1_002)));
    assert!(of_main.told().starts_with("3 more were refused since "), "{}", of_main.told());
    let hour = 3_600_000;
    assert!(store.refused_questions(at(1_009 + hour)).await.unwrap().is_empty());
}

#[test]
fn whoever_leaves_one_of_several_lists_is_not_asked() {
    let of = |oncall: &[&str], leads: &[&str]| {
        let members = |names: &[&str]| names.iter().map(|one| name(one)).collect::<Vec<_>>();
        let groups = [("oncall".to_owned(), members(oncall)), ("leads".to_owned(), members(leads))];
        People::new(NAMES.map(|one| (name(one), Vec::new()))).with_groups(groups)
    };
    let before = of(&["ann", "bob"], &["ann", "bob", "carl"]);
    let asked = AskedPeople::of(["oncall"], &before).and(AskedPeople::of(["leads"], &before));
    let both = Route { asked, ..route(1) };
    let may = |people: &People| {
        both.may_answer(people, at(1_100)).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(may(&before), ["ann", "bob"]);
    assert_eq!(may(&of(&["ann", "bob", "carl"], &["bob", "carl"])), ["bob"]);
    // Questions had one list before.
    let old = serde_json::json!({ "named": ["oncall"], "people": ["ann", "bob"] });
    let old: AskedPeople = serde_json::from_value(old).unwrap();
    assert_eq!(old, AskedPeople::of(["oncall"], &before));
}

/// What happens to a question, in any order.
#[derive(Clone, Debug)]
enum Deed {
    Votes(usize, Decision),
    Revoked(usize),
    Leaves(usize),
    Returns(usize),
    Later,
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let who = 0..NAMES.len();
    let decision = prop_oneof![6 => Just(Decision::AllowOnce), 1 => Just(Decision::Deny), 1 => Just(Decision::AllowAlways)];
    let deed = prop_oneof![
        6 => (who.clone(), decision).prop_map(|(who, decision)| Deed::Votes(who, decision)),
        2 => who.clone().prop_map(Deed::Revoked),
        1 => who.clone().prop_map(Deed::Leaves),
        1 => who.prop_map(Deed::Returns),
        1 => Just(Deed::Later),
    ];
    prop::collection::vec(deed, 1..24)
}

/// A call is allowed the moment that as many people have allowed it as must, who are asked, named and hold a token that counts; and is
/// denied by one of them.
async fn law(store: &dyn Store, votes: u32, deeds: Vec<Deed>) -> Result<(), TestCaseError> {
    let escalation = Escalation { to: AskedPeople::of(["dan"], &everybody()), at: at(1_500), uptime: None };
    let route = Route { escalation: Some(escalation), barred: Some(name("carl")), ..route(votes) };
    let record = store.create_approval(NewApproval { route: Some(route), ..question("ls") }).await.unwrap();
    let mut tokens = Vec::new();
    for user in NAMES {
        tokens.push(token(store, user).await);
    }
    let mut named: BTreeSet<&str> = NAMES.into();
    let mut allowed: BTreeMap<&str, AccessTokenId> = BTreeMap::new();
    let mut ended: BTreeSet<AccessTokenId> = BTreeSet::new();
    let mut now = 1_000;
    for deed in deeds {
        now += 1;
        match deed {
            Deed::Revoked(who) => {
                store.revoke_access_token(&tokens[who], "me", at(now)).await.unwrap();
                ended.insert(tokens[who].clone());
                // The person is given another one, and has not voted with it.
                let next = token(store, NAMES[who]).await;
                tokens[who] = next;
            }
            Deed::Leaves(who) => drop(named.remove(NAMES[who])),
            Deed::Returns(who) => drop(named.insert(NAMES[who])),
            Deed::Later => now = now.max(1_501),
            Deed::Votes(who, decision) => {
                let user = NAMES[who];
                let may = named.contains(user) && user != "carl" && (user != "dan" || now > 1_500);
                let all: Vec<&str> = named.iter().copied().collect();
                let answerer = by(&people(&all), user).with_token(tokens[who].clone());
                let stands = allowed.get(user).is_some_and(|token| !ended.contains(token));
                let answer = PersonsAnswer::new(decision, answerer, at(now));
                let counts = store.answer_approval(&record.id, answer).await.is_ok();
                let expected = may
                    && match decision {
                        Decision::AllowOnce => true,
                        Decision::Deny => !stands,
                        Decision::AllowAlways => votes == 1,
                    };
                prop_assert_eq!(counts, expected, "{} at {}", user, now);
                let state = store.approval(&record.id).await.unwrap().unwrap().state;
                if counts && decision == Decision::Deny {
                    prop_assert_eq!(state.status(), ApprovalStatus::Denied);
                    return Ok(());
                }
                if counts && !stands {
                    allowed.insert(user, tokens[who].clone());
                }
                let counted = allowed
                    .iter()
                    .filter(|(user, token)| {
                        let may_now = **user != "carl" && (**user != "dan" || now > 1_500);
                        may_now && named.contains(*user) && !ended.contains(*token)
                    })
                    .count();
                let is_met = counts && counted >= usize::try_from(votes).unwrap();
                let status = if is_met { ApprovalStatus::Allowed } else { ApprovalStatus::Pending };
                prop_assert_eq!(state.status(), status);
                if is_met {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_call_is_allowed_by_as_many_as_must_in_memory(votes in 1..4_u32, deeds in deeds()) {
        block_on(law(&*memory().store, votes, deeds))?;
    }

    #[test]
    fn a_call_is_allowed_by_as_many_as_must_in_a_file(votes in 1..4_u32, deeds in deeds()) {
        block_on(law(&*sqlite().store, votes, deeds))?;
    }
}
