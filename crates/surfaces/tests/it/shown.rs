//! What is shown of a question where there is room for so much.

use backstop_hooks::Severity;
use backstop_store::{ApprovalReason, NewApproval, StartedProcess, Starts};
use backstop_surfaces::{Shown, shown};
use serde_json::json;

use crate::stage::{Stage, question};

/// Returns what is shown of a question in 4,000 units, and without a bound.
async fn both(change: impl FnOnce(&mut NewApproval)) -> [Shown; 2] {
    let mut asked = question(&json!({ "command": "ls" }));
    change(&mut asked);
    let record = Stage::new().store.create_approval(asked).await.unwrap();
    [shown(&record, Some(4_000)), shown(&record, None)]
}

fn reason(description: &str, rules: usize) -> ApprovalReason {
    let asked = question(&json!({}));
    let rules = (0..rules).map(|rule| format!("rule.{rule}").as_str().into()).collect();
    ApprovalReason { description: description.into(), rules, ..asked.reasons[0].clone() }
}

fn process(word: &str) -> StartedProcess {
    StartedProcess { words: vec!["sh".into(), word.into()], ..StartedProcess::default() }
}

/// What makes a question longer than a surface has room for.
type Change<'a> = Box<dyn FnOnce(&mut NewApproval) + 'a>;

#[tokio::test]
async fn whatever_is_missing_can_not_be_allowed() {
    let [bounded, _] = both(|_| {}).await;
    assert!(!bounded.is_cut, "{bounded:?}");
    let long = "x".repeat(500);
    let changes: [(&str, Change<'_>); 9] = [
        ("the title", Box::new(|asked| asked.title = long.as_str().into())),
        ("the description", Box::new(|asked| asked.description = long.as_str().into())),
        ("the workspace", Box::new(|asked| asked.place.workspace = Some(format!("/{long}")))),
        ("a reason", Box::new(|asked| asked.reasons[0].title = long.as_str().into())),
        ("what another hook says", Box::new(|asked| asked.reasons.push(reason(&long, 1)))),
        ("a rule", Box::new(|asked| asked.reasons.push(reason("", 5)))),
        ("reasons", Box::new(|asked| asked.reasons = vec![reason("", 1); 9])),
        (
            "a word",
            Box::new(|asked| {
                asked.starts = Some(Starts { processes: vec![process(&long)], ..Starts::default() });
            }),
        ),
        (
            "starts",
            Box::new(|asked| {
                asked.starts = Some(Starts { processes: vec![process("a"); 9], ..Starts::default() });
            }),
        ),
    ];
    for (what, change) in changes {
        let [bounded, whole] = both(change).await;
        assert!(bounded.is_cut && bounded.text.contains("NOT ALL OF THIS CALL"), "{what}: {bounded:?}");
        assert!(!whole.is_cut, "{what}: {whole:?}");
    }
    let starts = Starts { more: 1, ..Starts::default() };
    let [bounded, _] = both(|asked| asked.starts = Some(starts)).await;
    assert!(bounded.is_cut && bounded.text.contains("and 1 more that it would start"), "{bounded:?}");
}

/// The gravest one stands in the first line, and each other one is as grave as its hook says.
#[tokio::test]
async fn each_reason_is_shown_as_grave_as_it_is() {
    let asks = |severity: Severity| ApprovalReason { severity, ..reason("", 1) };
    let [bounded, whole] =
        both(|asked| asked.reasons = vec![asks(Severity::Critical), asks(Severity::Info)]).await;
    for shown in [bounded, whole] {
        let lines: Vec<&str> = shown.text.lines().filter(|line| line.starts_with("asked by ")).collect();
        let [critical, info] = lines.as_slice() else { panic!("{shown:?}") };
        assert!(critical.contains(" (CRITICAL): ") && info.contains(" (INFO): "), "{shown:?}");
    }
}

#[tokio::test]
async fn what_each_hook_says_is_shown() {
    let [bounded, _] = both(|asked| asked.reasons.push(reason("It also sends mail.", 4))).await;
    assert!(!bounded.is_cut && bounded.text.contains("It also sends mail."), "{bounded:?}");
}
