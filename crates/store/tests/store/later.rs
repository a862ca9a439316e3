//! Which later call an allowance is for: it is asked about as it was, and judged by the same files.

use std::time::Duration;

use backstop_hooks::{Digest, RuleId, Severity};
use backstop_store::{AllowanceScope, ApprovalReason, Asked, NewApproval, Store};

use crate::support::{at, digest, over_all_forms, question};

over_all_forms!(
    an_allowance_is_for_the_same_files,
    an_allowance_covers_a_part_of_what_was_answered_and_no_more,
    a_call_that_comes_with_another_script_is_another_question,
    an_allowance_of_days_counts_for_days,
    allowances_that_stay_keep_nothing_else_from_being_wiped,
);

const HOUR: Duration = Duration::from_secs(3_600);

fn reason(hook: &str, rules: &[&str], severity: Severity) -> ApprovalReason {
    ApprovalReason {
        owner: "o".into(),
        hook: hook.into(),
        title: "Run this?".into(),
        description: "It runs a script.".into(),
        severity,
        rules: rules.iter().map(|rule| RuleId::from(*rule)).collect(),
        program: None,
    }
}

fn script(text: &str) -> Option<Digest> {
    Some(Digest::of_text("file", text))
}

fn scope(asked: Vec<Asked>, facts: Option<Digest>) -> AllowanceScope {
    AllowanceScope {
        agent: "main".into(),
        session_key: "chat".into(),
        workspace: None,
        tool_name: "exec".into(),
        digest: digest("bash deploy.sh"),
        asked,
        facts,
        route: None,
    }
}

/// A question that is allowed for one later call.
async fn allowed(store: &dyn Store, reasons: Vec<ApprovalReason>, facts: Option<Digest>) {
    let asked = NewApproval { reasons, facts, ..question("bash deploy.sh") };
    let asked = store.create_unattended_approval(asked).await.unwrap();
    store.allow_later(&asked.id, &"ann".into(), HOUR, at(1_200)).await.unwrap();
}

async fn takes(store: &dyn Store, scope: &AllowanceScope) -> bool {
    store.take_allowance(scope, at(1_300)).await.unwrap().is_some()
}

async fn an_allowance_is_for_the_same_files(store: &dyn Store) {
    let mild = reason("h", &["mild"], Severity::Warning);
    for (then, others) in [
        (script("one"), [script("two"), None]),
        // Also of a question of an earlier version, which does not say what hooks looked at.
        (None, [script("one"), script("")]),
    ] {
        allowed(store, vec![mild.clone()], then).await;
        for now in others {
            assert!(!takes(store, &scope(vec![mild.asked()], now)).await, "{now:?} after {then:?}");
        }
        let same = scope(vec![mild.asked()], then);
        assert!(takes(store, &same).await);
        assert!(!takes(store, &same).await, "once");
    }
}

async fn an_allowance_covers_a_part_of_what_was_answered_and_no_more(store: &dyn Store) {
    let untold = ApprovalReason { title: "Send it?".into(), ..reason("other", &[], Severity::Info) };
    let answered = [reason("h", &["mild", "odd"], Severity::Warning), untold.clone()];
    allowed(store, answered.to_vec(), None).await;
    let other = |change: &dyn Fn(&mut Asked)| {
        let mut asked = answered[0].asked();
        change(&mut asked);
        asked
    };
    for beyond in [
        other(&|asked| asked.rules.extend(["grave".into()])),
        other(&|asked| asked.rules = ["grave".into()].into()),
        other(&|asked| asked.rules.clear()),
        other(&|asked| asked.severity = Severity::Critical),
        other(&|asked| asked.hook = "other".into()),
        other(&|asked| asked.owner = "evil".into()),
        Asked { title: "Send all?".into(), ..untold.asked() },
        Asked { severity: Severity::Warning, ..untold.asked() },
    ] {
        let asked = vec![answered[0].asked(), beyond.clone()];
        assert!(!takes(store, &scope(asked, None)).await, "{beyond:?}");
    }
    let part = Asked {
        rules: ["odd".into()].into(),
        severity: Severity::Info,
        title: "And this?".into(),
        ..answered[0].asked()
    };
    assert!(takes(store, &scope(vec![part, untold.asked()], None)).await);
}

async fn a_call_that_comes_with_another_script_is_another_question(store: &dyn Store) {
    let asked = |facts| NewApproval { facts, ..question("bash deploy.sh") };
    let first = store.create_unattended_approval(asked(script("one"))).await.unwrap();
    assert_eq!(store.create_unattended_approval(asked(script("one"))).await.unwrap(), first);
    for other in [script("two"), None] {
        assert_ne!(store.create_unattended_approval(asked(other)).await.unwrap().id, first.id);
    }
}

#[test]
fn a_question_of_an_earlier_version_rests_on_nothing_that_is_known() {
    let mut json = serde_json::to_value(NewApproval { facts: script("one"), ..question("ls") }).unwrap();
    assert_eq!(serde_json::from_value::<NewApproval>(json.clone()).unwrap().facts, script("one"));
    json.as_object_mut().unwrap().remove("facts").unwrap();
    assert_eq!(serde_json::from_value::<NewApproval>(json).unwrap().facts, None);
}

/// What hooks without rules ask is known by its title, which stays as long as the allowance does, and no longer.
async fn an_allowance_of_days_counts_for_days(store: &dyn Store) {
    let reasons = vec![reason("h", &[], Severity::Warning)];
    let asked = NewApproval { reasons: reasons.clone(), ..question("bash deploy.sh") };
    let asked = store.create_unattended_approval(asked).await.unwrap();
    store.allow_later(&asked.id, &"ann".into(), HOUR * 48, at(1_200)).await.unwrap();
    let [later, over] = [30, 49].map(|hours| at(1_200).after(HOUR * hours));
    store.expire_approvals(later).await.unwrap();
    let scope = scope(reasons.iter().map(ApprovalReason::asked).collect(), None);
    let title = async || store.approval(&asked.id).await.unwrap().unwrap().request.title;
    assert_eq!(title().await.as_str(), "Run this?");
    assert!(store.take_allowance(&scope, later).await.unwrap().is_some());
    store.expire_approvals(over).await.unwrap();
    assert_ne!(title().await.as_str(), "Run this?", "what nobody needs any more is wiped");
}

async fn allowances_that_stay_keep_nothing_else_from_being_wiped(store: &dyn Store) {
    // More than are wiped at once.
    for number in 0..70 {
        let asked = question(&format!("bash deploy-{number}.sh"));
        let asked = store.create_unattended_approval(asked).await.unwrap();
        store.allow_later(&asked.id, &"ann".into(), HOUR * 48, at(1_200)).await.unwrap();
    }
    let over = store.create_unattended_approval(question("ls")).await.unwrap();
    store.expire_approvals(at(1_200).after(HOUR * 30)).await.unwrap();
    let over = store.approval(&over.id).await.unwrap().unwrap();
    assert_ne!(over.request.title.as_str(), "Run this?");
}
