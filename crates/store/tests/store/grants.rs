use backstop_hooks::{Decision, Severity};
use backstop_store::{
    APPROVAL_ANSWERED, APPROVAL_ASKED, Amount, AmountArgument, Asked, AuditFilter, GRANT_GIVEN,
    GRANT_REVOKED, GrantId, GrantPlace, GrantQuery, GrantTarget, NewGrant, Store,
};

use serde_json::json;

use crate::support::{at, digest, over_all_forms, question};

over_all_forms!(
    a_grant_up_to_a_sum_ends_with_it,
    a_grant_answers_as_often_as_it_says,
    a_grant_covers_its_scope_only,
    a_grant_answers_no_other_question,
    a_grant_of_a_program_covers_its_calls,
    a_grant_of_a_rule_covers_what_the_rule_asks_in_a_workspace,
    uses_are_counted_until_it_ends,
    a_revoked_grant_is_listed_and_does_not_count,
    what_is_in_force_is_listed_behind_whatever_is_not,
    who_answers_grants_and_revokes_is_in_the_trail,
    a_sum_is_in_the_trail_with_what_it_is_about,
    who_is_too_long_for_the_trail_is_cut_with_a_sign,
);

fn place() -> GrantPlace {
    GrantPlace { workspace: Some("/p".to_owned()), requester: Some("ann".to_owned()), channel: None }
}

fn asked() -> Asked {
    Asked {
        owner: "builtin".into(),
        hook: "command-safety".into(),
        severity: Severity::Warning,
        rules: ["git.push".into()].into(),
        title: "Push?".into(),
    }
}

pub(crate) fn grant(target: GrantTarget) -> NewGrant {
    NewGrant {
        agent: "main".into(),
        tool_name: "exec".into(),
        place: place(),
        question: asked(),
        target,
        origin: None,
        title: "Push?".into(),
        created_by: "ann".to_owned(),
        person: None,
        created_at: at(1),
        expires_at: at(100),
        most_uses: None,
    }
}

pub(crate) fn of_call() -> GrantTarget {
    GrantTarget::Call { digest: digest("git push"), facts: None }
}

pub(crate) fn query() -> GrantQuery {
    GrantQuery {
        agent: "main".into(),
        tool_name: "exec".into(),
        place: place(),
        digest: digest("git push"),
        facts: None,
        question: asked(),
        program: Some(vec!["git".to_owned(), "push".to_owned()]),
        amounts: Vec::new(),
        route: None,
    }
}

/// Queries that no grant of these covers, whatever its target is.
fn others() -> Vec<GrantQuery> {
    let of = |place: GrantPlace| GrantQuery { place, ..query() };
    let by = |question: Asked| GrantQuery { question, ..query() };
    vec![
        GrantQuery { agent: "other".into(), ..query() },
        GrantQuery { tool_name: "process".into(), ..query() },
        of(GrantPlace { workspace: Some("/q".to_owned()), ..place() }),
        of(GrantPlace { workspace: None, ..place() }),
        of(GrantPlace { requester: Some("bob".to_owned()), ..place() }),
        of(GrantPlace { requester: None, ..place() }),
        of(GrantPlace { channel: Some("chat".to_owned()), ..place() }),
        by(Asked { owner: "evil".into(), ..asked() }),
        by(Asked { hook: "other".into(), ..asked() }),
        by(Asked { severity: Severity::Critical, ..asked() }),
        by(Asked { rules: ["git.push".into(), "git.force".into()].into(), ..asked() }),
        by(Asked { rules: [].into(), ..asked() }),
    ]
}

async fn a_grant_covers_its_scope_only(store: &dyn Store) {
    let added = store.add_grant(grant(of_call())).await.unwrap();
    assert_eq!(store.find_grant(&query(), at(50)).await.unwrap(), Some(added.clone()));
    let milder = Asked { severity: Severity::Info, ..asked() };
    let milder = GrantQuery { question: milder, ..query() };
    assert_eq!(store.find_grant(&milder, at(50)).await.unwrap(), Some(added));
    let other_call = GrantQuery { digest: digest("rm"), ..query() };
    // One of an earlier version does not say what the call was judged by.
    let other_script = GrantQuery { facts: Some(digest("script")), ..query() };
    for other in others().into_iter().chain([other_call, other_script.clone()]) {
        assert_eq!(store.find_grant(&other, at(50)).await.unwrap(), None, "{other:?}");
    }
    let facts = other_script.facts;
    let of_script = grant(GrantTarget::Call { digest: digest("git push"), facts });
    let of_script = store.add_grant(of_script).await.unwrap();
    assert_eq!(store.find_grant(&other_script, at(50)).await.unwrap(), Some(of_script));
}

async fn a_grant_answers_as_often_as_it_says(store: &dyn Store) {
    store.add_grant(NewGrant { most_uses: Some(2), ..grant(of_call()) }).await.unwrap();
    for used in 1..=2 {
        assert!(store.find_grant(&query(), at(50)).await.unwrap().is_some(), "looking is no use");
        let grant = store.use_grant(&query(), at(50)).await.unwrap().unwrap();
        assert_eq!((grant.uses, grant.is_used_up()), (used, used == 2));
    }
    assert_eq!(store.use_grant(&query(), at(50)).await.unwrap(), None);
    assert_eq!(store.find_grant(&query(), at(50)).await.unwrap(), None);
}

async fn a_grant_up_to_a_sum_ends_with_it(store: &dyn Store) {
    let most: Amount = "20".parse().unwrap();
    let (argument, without) = ("amount".to_owned(), digest("pay"));
    let target = GrantTarget::Amount { argument: argument.clone(), most, without };
    store.add_grant(grant(target)).await.unwrap();
    let of = |argument: &str, amount: &str, without: &str| {
        let (argument, amount) = (argument.to_owned(), amount.parse().unwrap());
        let amounts = vec![AmountArgument { argument, amount, without: digest(without) }];
        GrantQuery { amounts, digest: digest("this very call"), ..query() }
    };
    let uses = async |query: GrantQuery| store.use_grant(&query, at(50)).await.unwrap();
    for other in [of("amount", "1", "pay somebody else"), of("fee", "1", "pay"), query()] {
        assert_eq!(uses(other).await, None);
    }
    assert_eq!(uses(of("amount", "20.000000001", "pay")).await, None, "one call alone is too much");
    assert_eq!(uses(of("amount", "19.99", "pay")).await.unwrap().spent.to_string(), "19.99");
    assert_eq!(uses(of("amount", "0.02", "pay")).await, None, "together they are too much");
    let last = uses(of("amount", "0.01", "pay")).await.unwrap();
    assert_eq!((last.spent, last.uses), (most, 2), "the bound itself is in");
    assert_eq!(uses(of("amount", "0.000000001", "pay")).await, None);
    assert_eq!(store.grants(9).await.unwrap()[0].spent, most);
    for mut other in others() {
        other.amounts = of("amount", "0", "pay").amounts;
        assert_eq!(uses(other.clone()).await, None, "{other:?}");
    }
}

/// Where a hook names no rules, its question is the one of the same title.
async fn a_grant_answers_no_other_question(store: &dyn Store) {
    let without = Asked { rules: [].into(), ..asked() };
    store.add_grant(NewGrant { question: without.clone(), ..grant(of_call()) }).await.unwrap();
    let same = GrantQuery { question: without.clone(), ..query() };
    assert!(store.find_grant(&same, at(50)).await.unwrap().is_some());
    let another = Asked { title: "Delete?".into(), ..without };
    for question in [another, asked()] {
        let other = GrantQuery { question, ..query() };
        assert_eq!(store.find_grant(&other, at(50)).await.unwrap(), None, "{other:?}");
    }
}

async fn a_grant_of_a_program_covers_its_calls(store: &dyn Store) {
    let words = vec!["git".to_owned(), "push".to_owned()];
    store.add_grant(grant(GrantTarget::Program { words })).await.unwrap();
    let call = GrantQuery { digest: digest("git push origin"), ..query() };
    assert!(store.find_grant(&call, at(50)).await.unwrap().is_some());
    let programs = [None, Some(vec!["git".to_owned()]), Some(vec!["git".to_owned(), "fetch".to_owned()])];
    let programs = programs.map(|program| GrantQuery { program, ..call.clone() });
    for other in others().into_iter().chain(programs) {
        assert_eq!(store.find_grant(&other, at(50)).await.unwrap(), None, "{other:?}");
    }
}

async fn a_grant_of_a_rule_covers_what_the_rule_asks_in_a_workspace(store: &dyn Store) {
    store.add_grant(grant(GrantTarget::Rule)).await.unwrap();
    let call = GrantQuery { digest: digest("anything"), program: None, ..query() };
    assert!(store.find_grant(&call, at(50)).await.unwrap().is_some());
    for other in others() {
        assert_eq!(store.find_grant(&other, at(50)).await.unwrap(), None, "{other:?}");
    }
    let nowhere = GrantPlace { workspace: None, ..place() };
    store.add_grant(NewGrant { place: nowhere.clone(), ..grant(GrantTarget::Rule) }).await.unwrap();
    let query = GrantQuery { place: nowhere, ..query() };
    assert_eq!(store.find_grant(&query, at(50)).await.unwrap(), None, "a rule counts in a workspace");
}

async fn uses_are_counted_until_it_ends(store: &dyn Store) {
    store.add_grant(grant(of_call())).await.unwrap();
    assert_eq!(store.use_grant(&query(), at(99)).await.unwrap().unwrap().uses, 1);
    assert_eq!(store.use_grant(&query(), at(100)).await.unwrap().unwrap().uses, 2);
    assert_eq!(store.use_grant(&query(), at(101)).await.unwrap(), None);
    assert_eq!(store.grants(9).await.unwrap()[0].uses, 2);
}

async fn what_is_in_force_is_listed_behind_whatever_is_not(store: &dyn Store) {
    let one = store.add_grant(grant(of_call())).await.unwrap();
    let two = store.add_grant(NewGrant { expires_at: at(200), ..grant(of_call()) }).await.unwrap();
    for _ in 0..3 {
        let revoked = store.add_grant(grant(of_call())).await.unwrap();
        store.revoke_grant(&revoked.id, "bob", at(10)).await.unwrap();
    }
    store.add_grant(NewGrant { expires_at: at(40), ..grant(of_call()) }).await.unwrap();
    assert_eq!(store.grants_in_force(at(50), 9).await.unwrap().grants, [two.clone(), one.clone()]);
    assert_eq!(store.grants_in_force(at(50), 1).await.unwrap().grants, std::slice::from_ref(&two));
    assert_eq!(store.grants_in_force(at(150), 9).await.unwrap().grants, [two]);
    // One that has answered as often as it may is over.
    let once = NewGrant { most_uses: Some(1), expires_at: at(500), ..grant(of_call()) };
    let once = store.add_grant(once).await.unwrap();
    assert_eq!(store.grants_in_force(at(300), 9).await.unwrap().grants, std::slice::from_ref(&once));
    assert_eq!(store.use_grant(&query(), at(300)).await.unwrap().map(|used| used.id), Some(once.id));
    assert!(store.grants_in_force(at(300), 9).await.unwrap().grants.is_empty());
}

async fn a_revoked_grant_is_listed_and_does_not_count(store: &dyn Store) {
    let one = store.add_grant(grant(of_call())).await.unwrap();
    let two = store.add_grant(grant(of_call())).await.unwrap();
    let revoked = store.revoke_grant(&one.id, "bob", at(10)).await.unwrap().unwrap();
    assert_eq!(revoked.revoked_at, Some(at(10)));
    assert_eq!(
        store.revoke_grant(&one.id, "ann", at(20)).await.unwrap(),
        Some(revoked.clone()),
        "the first one stays"
    );
    assert_eq!(store.find_grant(&query(), at(50)).await.unwrap(), Some(two.clone()));
    assert_eq!(store.grants(9).await.unwrap(), [two.clone(), revoked]);
    assert_eq!(store.grants(1).await.unwrap(), [two]);
    assert_eq!(store.revoke_grant(&GrantId::new("nope"), "ann", at(1)).await.unwrap(), None);
    assert!(store.void_grants(9).await.unwrap().is_empty());
}

async fn who_answers_grants_and_revokes_is_in_the_trail(store: &dyn Store) {
    let asked = store.create_approval(question("ls")).await.unwrap();
    store.resolve_approval(&asked.id, Decision::Deny, "ann at tty1", at(1_500)).await.unwrap();
    store.resolve_approval(&asked.id, Decision::Deny, "bob", at(1_501)).await.unwrap();
    let later = store.create_unattended_approval(question("pwd")).await.unwrap();
    store.allow_later(&later.id, &"eve".into(), std::time::Duration::from_secs(9), at(1_600)).await.unwrap();
    let grant = store.add_grant(grant(of_call())).await.unwrap();
    for _ in 0..2 {
        store.revoke_grant(&grant.id, "joe", at(1_700)).await.unwrap();
    }
    let mut entries = store.audit(&AuditFilter::default(), 0, 99).await.unwrap();
    entries.retain(|entry| entry.kind != APPROVAL_ASKED);
    let said: Vec<_> =
        entries.iter().map(|entry| (entry.kind.as_str(), entry.body.to_value()["by"].clone())).collect();
    let expected = [
        (APPROVAL_ANSWERED, "ann at tty1"),
        (APPROVAL_ANSWERED, "eve"),
        (GRANT_GIVEN, "ann"),
        (GRANT_REVOKED, "joe"),
    ];
    assert_eq!(said, expected.map(|(kind, by)| (kind, by.into())));
    assert_eq!(entries[0].body.to_value()["decision"], "deny");
    store.verify_audit(None).await.unwrap();
}

async fn a_sum_is_in_the_trail_with_what_it_is_about(store: &dyn Store) {
    let (argument, most, without) = ("amount".to_owned(), "10".parse().unwrap(), digest("without"));
    let given = store.add_grant(grant(GrantTarget::Amount { argument, most, without })).await.unwrap();
    let body = store.audit(&AuditFilter::default(), 0, 9).await.unwrap()[0].body.to_value();
    assert_eq!(body["covers"], json!({ "sumOf": "amount", "most": "10", "without": without }));
    // Whoever files grants by a program of their own names people in their own words, and such a grant comes of no question.
    assert_eq!(body["requester"], json!({ "senderId": "ann" }));
    assert_eq!((body.get("approval"), given.granted.origin), (None, None));
}

async fn who_is_too_long_for_the_trail_is_cut_with_a_sign(store: &dyn Store) {
    for (length, is_cut) in [(256, false), (257, true)] {
        let asked = store.create_approval(question("ls")).await.unwrap();
        store.resolve_approval(&asked.id, Decision::Deny, &"é".repeat(length), at(1_500)).await.unwrap();
        let entries = store.audit(&AuditFilter::default(), 0, 99).await.unwrap();
        let said = entries.last().unwrap().body.to_value();
        let by = said["by"].as_str().unwrap();
        assert_eq!((by.chars().count(), by.ends_with('…')), (256, is_cut), "{by}");
    }
}

#[tokio::test]
async fn questions_answers_and_grants_wait_for_the_disk() {
    /// How many entries there are, and how many the disk had when somebody waited last.
    async fn reached(store: &dyn Store) -> (u64, u64) {
        (store.audit_head().await.unwrap().seq, store.audit_kept())
    }
    let form = crate::support::sqlite();
    let store = &*form.store;
    let asked = store.create_approval(question("ls")).await.unwrap();
    assert_eq!(reached(store).await, (1, 1));
    store.resolve_approval(&asked.id, Decision::Deny, "ann", at(1_500)).await.unwrap();
    assert_eq!(reached(store).await, (2, 2));
    let grant = store.add_grant(grant(of_call())).await.unwrap();
    assert_eq!(reached(store).await, (3, 3));
    store.revoke_grant(&grant.id, "joe", at(1_700)).await.unwrap();
    assert_eq!(reached(store).await, (4, 4));
}
