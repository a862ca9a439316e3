//! What people are shown of questions that can be answered, and answers that hold from now on.

use std::num::NonZeroU64;
use std::time::Duration;

use backstop_hooks::{ApprovalId, Decision, Json, OwnerId, Severity};
use backstop_store::{
    ANSWERABLE, Always, AlwaysError, AlwaysScope, AmountArgument, ApprovalFilter, ApprovalReason,
    ApprovalRecord, ApprovalStatus, GrantPlace, GrantTarget, NewApproval, PersonsAnswer, ResolveError, Store,
    allow_always,
};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{at, block_on, digest, memory, over_all_forms, question};
use crate::votes::{by, everybody, routed};

over_all_forms!(
    what_can_be_answered_is_listed_in_the_order_in_which_it_ends,
    lists_leave_out_what_is_large,
    what_waits_is_listed_as_it_was_asked_with_its_votes,
    the_mark_changes_with_each_question_and_each_answer,
    the_mark_changes_with_each_vote,
    an_answer_that_holds_reaches_as_far_as_the_question_allows,
    an_answer_that_does_not_count_grants_nothing,
);

async fn ask(store: &dyn Store, question: NewApproval) -> ApprovalRecord {
    store.create_approval(question).await.unwrap()
}

async fn what_can_be_answered_is_listed_in_the_order_in_which_it_ends(store: &dyn Store) {
    let until = |end: i64, command: &str| NewApproval { expires_at: at(end), ..question(command) };
    let late = ask(store, until(9_000, "late")).await;
    let soon = ask(store, until(3_000, "soon")).await;
    let denied = ask(store, until(9_000, "denied")).await;
    store.resolve_approval(&denied.id, Decision::Deny, "ann", at(1_500)).await.unwrap();
    let first = store.create_unattended_approval(until(2_000, "first")).await.unwrap();
    let second = store.create_unattended_approval(until(2_000, "second")).await.unwrap();
    let open = store.open_approvals(at(2_500), 0, 9).await.unwrap();
    assert_eq!(open.records, [soon.clone(), late.clone(), second.clone(), first]);
    assert_eq!(open.all, 4);
    let some = store.open_approvals(at(2_500), 1, 2).await.unwrap();
    assert_eq!((some.records, some.all), (vec![late.clone(), second], 4));
    assert!(store.open_approvals(at(2_500), 4, 9).await.unwrap().records.is_empty());
    // A day after its end nothing counts for a question any more.
    let after = at(2_001).after(ANSWERABLE);
    let open = store.open_approvals(after, 0, 9).await.unwrap();
    assert_eq!((open.records, open.all), (vec![soon, late], 2));
}

async fn lists_leave_out_what_is_large(store: &dyn Store) {
    let whole = Json::new(json!({"command": "x".repeat(100_000)}));
    let large = ask(store, NewApproval { whole: Some(whole.clone()), ..question("large") }).await;
    let small = ask(store, question("small")).await;
    let open = store.open_approvals(at(1_500), 0, 9).await.unwrap().records;
    let kept: Vec<_> = open.iter().map(|record| (&record.id, record.request.whole.clone())).collect();
    assert_eq!(kept, [(&large.id, Some(Json::default())), (&small.id, None)]);
    assert_eq!(store.approval(&large.id).await.unwrap().unwrap().request.whole, Some(whole));
}

/// A list of what waits is one of all, without what no longer waits; each as it is when it is asked for by its id.
async fn lists_agree(store: &dyn Store) {
    let every = store.approvals(ApprovalFilter::All, usize::MAX).await.unwrap();
    for record in &every {
        assert_eq!(store.approval(&record.id).await.unwrap().as_ref(), Some(record));
    }
    let waits = |record: &&ApprovalRecord| record.state.status() == ApprovalStatus::Pending;
    let waiting: Vec<ApprovalRecord> = every.iter().filter(waits).cloned().collect();
    for limit in (0..=waiting.len() + 1).chain([usize::MAX]) {
        let listed = store.approvals(ApprovalFilter::Pending, limit).await.unwrap();
        assert_eq!(listed, waiting[..limit.min(waiting.len())], "at most {limit}");
    }
}

async fn what_waits_is_listed_as_it_was_asked_with_its_votes(store: &dyn Store) {
    let all = everybody();
    let first = ask(store, NewApproval { expires_at: at(9_000), ..question("first") }).await;
    let voted = ask(store, routed(3)).await;
    for who in ["ann", "bob"] {
        let answer = PersonsAnswer::new(Decision::AllowOnce, by(&all, who), at(1_500));
        store.answer_approval(&voted.id, answer).await.unwrap();
    }
    let whole = Some(Json::new(json!({"command": "x".repeat(10_000)})));
    let large = ask(store, NewApproval { whole, unseen: true, ..question("large") }).await;
    store.create_unattended_approval(question("unattended")).await.unwrap();
    let denied = ask(store, question("denied")).await;
    store.resolve_approval(&denied.id, Decision::Deny, "ann", at(1_500)).await.unwrap();
    lists_agree(store).await;
    let listed = store.approvals(ApprovalFilter::Pending, 9).await.unwrap();
    let found: Vec<_> = listed.iter().map(|record| (&record.id, record.votes.len())).collect();
    assert_eq!(found, [(&large.id, 0), (&voted.id, 2), (&first.id, 0)]);
    assert_eq!(listed[0], large);
}

/// What becomes of questions.
#[derive(Clone, Debug)]
enum Event {
    Asked { until: i64, people: bool },
    Unattended,
    Answered(prop::sample::Index, Decision),
    Cancelled(prop::sample::Index),
    Expired(i64),
}

fn event() -> impl Strategy<Value = Event> {
    let which = any::<prop::sample::Index>;
    prop_oneof![
        4 => (1_000_i64..9_000, any::<bool>()).prop_map(|(until, people)| Event::Asked { until, people }),
        1 => Just(Event::Unattended),
        2 => (which(), prop_oneof![Just(Decision::AllowOnce), Just(Decision::Deny)])
            .prop_map(|(which, decision)| Event::Answered(which, decision)),
        1 => which().prop_map(Event::Cancelled),
        1 => (1_000_i64..9_000).prop_map(Event::Expired),
    ]
}

async fn happens(store: &dyn Store, asked: &mut Vec<ApprovalId>, n: usize, event: Event) {
    let all = everybody();
    let chosen = |which: prop::sample::Index| asked.get(which.index(asked.len().max(1))).cloned();
    match event {
        Event::Asked { until, people } => {
            let usual = if people { routed(2) } else { question(&format!("ls {n}")) };
            asked.push(ask(store, NewApproval { expires_at: at(until), ..usual }).await.id);
        }
        Event::Unattended => {
            let filed = store.create_unattended_approval(question(&format!("ls {n}"))).await;
            asked.push(filed.unwrap().id);
        }
        // What can't be answered any more, or by nobody who is asked, stays as it is.
        Event::Answered(which, decision) => {
            if let Some(id) = chosen(which) {
                let who = if n.is_multiple_of(2) { "ann" } else { "bob" };
                let answer = PersonsAnswer::new(decision, by(&all, who), at(1_000));
                let _ = store.answer_approval(&id, answer).await;
            }
        }
        Event::Cancelled(which) => {
            if let Some(id) = chosen(which) {
                let _ = store.cancel_approval(&id, at(1_000)).await;
            }
        }
        Event::Expired(now) => {
            store.expire_approvals(at(now)).await.unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_list_of_what_waits_is_that_of_all_without_the_rest(events in prop::collection::vec(event(), 1..24)) {
        let form = memory();
        block_on(async {
            let mut asked = Vec::new();
            for (n, event) in events.into_iter().enumerate() {
                happens(&*form.store, &mut asked, n, event).await;
            }
            lists_agree(&*form.store).await;
        });
    }
}

async fn the_mark_changes_with_each_question_and_each_answer(store: &dyn Store) {
    let mut seen = vec![store.overview().await.unwrap().mark];
    let mut is_new = async || {
        let overview = store.overview().await.unwrap();
        let is_new = !seen.contains(&overview.mark);
        seen.push(overview.mark);
        (is_new, overview.waiting)
    };
    let one = ask(store, question("one")).await;
    assert_eq!(is_new().await, (true, 1));
    assert_eq!(is_new().await, (false, 1));
    // One that comes and one that goes leave as many as before.
    store.resolve_approval(&one.id, Decision::AllowOnce, "ann", at(1_500)).await.unwrap();
    let two = ask(store, question("two")).await;
    assert_eq!(is_new().await, (true, 1));
    store.create_unattended_approval(question("three")).await.unwrap();
    assert_eq!(is_new().await, (true, 1));
    store.cancel_approval(&two.id, at(1_500)).await.unwrap();
    assert_eq!(is_new().await, (true, 0));
}

async fn the_mark_changes_with_each_vote(store: &dyn Store) {
    let (all, record) = (everybody(), ask(store, routed(3)).await);
    let mut seen = vec![store.overview().await.unwrap().mark];
    for (who, is_new) in [("ann", true), ("ann", false), ("bob", true)] {
        let answer = PersonsAnswer::new(Decision::AllowOnce, by(&all, who), at(1_500));
        store.answer_approval(&record.id, answer).await.unwrap();
        let overview = store.overview().await.unwrap();
        assert_eq!((!seen.contains(&overview.mark), overview.waiting), (is_new, 1), "{who}");
        seen.push(overview.mark);
    }
}

/// A question that every answer fits.
pub(crate) fn wide(command: &str) -> NewApproval {
    let reason = |hook: &str| ApprovalReason {
        owner: OwnerId::operator(),
        hook: hook.to_owned().into(),
        title: "Run this?".into(),
        description: "It does things.".into(),
        severity: Severity::Warning,
        rules: [backstop_hooks::RuleId::new("a.rule")].into(),
        program: Some(vec!["tool".to_owned(), "push".to_owned()]),
    };
    let amount = AmountArgument {
        argument: "sum".to_owned(),
        amount: "5".parse().unwrap(),
        without: digest("without"),
    };
    NewApproval {
        reasons: vec![reason("one"), reason("two")],
        place: GrantPlace { workspace: Some("/work".to_owned()), ..GrantPlace::default() },
        amounts: vec![amount],
        expires_at: backstop_store::Timestamp::now().after(Duration::from_secs(60)),
        ..question(command)
    }
}

fn always(scope: AlwaysScope) -> Always {
    Always { scope, ttl: Some(Duration::from_secs(60)), times: NonZeroU64::new(3) }
}

async fn an_answer_that_holds_reaches_as_far_as_the_question_allows(store: &dyn Store) {
    let up_to = AlwaysScope::UpTo { argument: "sum".to_owned(), most: "9".parse().unwrap() };
    let (without, words) = (digest("without"), vec!["tool".to_owned(), "push".to_owned()]);
    for (scope, target) in [
        (AlwaysScope::Call, GrantTarget::Call { digest: digest("call"), facts: None }),
        (AlwaysScope::Program, GrantTarget::Program { words }),
        (AlwaysScope::Rule, GrantTarget::Rule),
        (up_to, GrantTarget::Amount { argument: "sum".to_owned(), most: "9".parse().unwrap(), without }),
    ] {
        let asked = ask(store, wide("call")).await;
        let (record, grants) =
            allow_always(store, &asked.id, &always(scope.clone()), &"ann".into()).await.unwrap();
        assert_eq!(record.state.status(), ApprovalStatus::Allowed);
        assert_eq!(grants.len(), 2, "each who asked is answered");
        for grant in grants {
            assert_eq!(grant.granted.target, target);
            assert_eq!((grant.granted.most_uses, grant.granted.created_by.as_str()), (Some(3), "ann"));
        }
        // The same answer twice is fine. Nobody is told that more is granted by it than was.
        let before = store.grants(99).await.unwrap().len();
        let again = allow_always(store, &asked.id, &always(scope), &"ann".into()).await.unwrap();
        assert_eq!((again.0.state.status(), again.1.len()), (ApprovalStatus::Allowed, 0));
        let longer = Always { ttl: None, times: None, scope: AlwaysScope::Rule };
        for (wanted, who) in [(&longer, "ann"), (&longer, "bob")] {
            let again = allow_always(store, &asked.id, wanted, &who.into()).await;
            let refused = matches!(again, Err(AlwaysError::Resolve(ResolveError::AlreadyResolved { .. })));
            assert!(refused, "{again:?}");
        }
        assert_eq!(store.grants(99).await.unwrap().len(), before);
    }
    let scopes = ask(store, wide("call")).await.always_scopes();
    assert_eq!(scopes, [AlwaysScope::Call, AlwaysScope::Program, AlwaysScope::Rule]);
}

async fn an_answer_that_does_not_count_grants_nothing(store: &dyn Store) {
    let mut narrow = wide("narrow");
    narrow.place = GrantPlace::default();
    narrow.amounts = Vec::new();
    if let Some(reason) = narrow.reasons.last_mut() {
        reason.program = None;
    }
    let narrow = ask(store, narrow).await;
    assert_eq!(narrow.always_scopes(), [AlwaysScope::Call], "one of those who asked fits no other");
    let sum = AlwaysScope::UpTo { argument: "sum".to_owned(), most: "9".parse().unwrap() };
    for scope in [AlwaysScope::Program, AlwaysScope::Rule, sum] {
        let refused = allow_always(store, &narrow.id, &always(scope), &"ann".into()).await;
        assert!(matches!(refused, Err(AlwaysError::Beyond { .. })), "{refused:?}");
    }
    let once = ask(store, NewApproval { allowed_decisions: vec![Decision::AllowOnce], ..wide("once") }).await;
    assert!(once.always_scopes().is_empty());
    let refused = allow_always(store, &once.id, &always(AlwaysScope::Call), &"ann".into()).await;
    assert!(matches!(refused, Err(AlwaysError::Resolve(ResolveError::NotOffered { .. }))), "{refused:?}");
    let unseen = ask(store, NewApproval { unseen: true, ..wide("unseen") }).await;
    let refused = allow_always(store, &unseen.id, &always(AlwaysScope::Call), &"ann".into()).await;
    assert!(matches!(refused, Err(AlwaysError::Resolve(ResolveError::Unseen { .. }))), "{refused:?}");
    let denied = ask(store, wide("denied")).await;
    store
        .resolve_approval(&denied.id, Decision::Deny, "bob", backstop_store::Timestamp::now())
        .await
        .unwrap();
    let refused = allow_always(store, &denied.id, &always(AlwaysScope::Call), &"ann".into()).await;
    assert!(
        matches!(refused, Err(AlwaysError::Resolve(ResolveError::AlreadyResolved { .. }))),
        "{refused:?}"
    );
    let unknown = allow_always(store, &"nope".into(), &always(AlwaysScope::Call), &"ann".into()).await;
    assert!(matches!(unknown, Err(AlwaysError::Resolve(ResolveError::Unknown(_)))));
    let grants = store.grants(99).await.unwrap();
    assert!(grants.is_empty(), "not for a moment: {grants:?}");
}
