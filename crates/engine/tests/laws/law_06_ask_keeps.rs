//! A request for approval keeps the rewrites, lets later gates run, and is one question with every reason.

use std::sync::{Arc, Mutex};

use backstop_engine::{Attendance, Said};
use backstop_hooks::points::{BeforeToolCall, ToolCallOutcome, TrustedPolicyOutcome, TrustedToolPolicy};
use backstop_hooks::{ApprovalRequest, Resolution, hook_fn};
use backstop_store::ApprovalFilter;
use serde_json::json;

use crate::support::{command, context, engine, exec, on, params, permit};

type Told = Arc<Mutex<Vec<Resolution>>>;

fn asking(title: &'static str, told: &Told) -> impl Fn() -> ApprovalRequest + Send + Sync + 'static {
    let told = Arc::clone(told);
    move || {
        let told = Arc::clone(&told);
        ApprovalRequest::cut(title, "").on_resolution(move |resolution| {
            told.lock().unwrap().push(resolution);
            async { None }
        })
    }
}

#[tokio::test]
async fn law_06_ask_keeps_the_rewrites_made_so_far_and_those_made_after_it() {
    let engine = engine();
    let told = Told::default();
    on(
        &engine,
        "rewrites",
        9,
        hook_fn::<BeforeToolCall, _>(|event, _| {
            let rewrite = || ToolCallOutcome::rewrite(params(json!({ "command": "ls -l" })));
            Ok((command(event) == "ls").then(rewrite))
        }),
    );
    let request = asking("sure?", &told);
    on(
        &engine,
        "asks",
        5,
        hook_fn::<BeforeToolCall, _>(move |_, _| Ok(Some(ToolCallOutcome::ask(request())))),
    );
    on(
        &engine,
        "sanitises",
        0,
        hook_fn::<BeforeToolCall, _>(|event, _| {
            let sanitised = || json!({ "command": format!("{} --", command(event)) });
            Ok((!command(event).ends_with("--")).then(|| ToolCallOutcome::rewrite(params(sanitised()))))
        }),
    );
    let reviewed = engine.review_tool_call(exec("ls"), &context(), false).await;
    assert_eq!(command(&reviewed.event), "ls -l --");
    assert_eq!(reviewed.requests.len(), 1, "asked once, about the final value");
    let again: Vec<_> =
        reviewed.receipt.steps.iter().filter(|step| step.again).map(|step| step.said).collect();
    assert_eq!(again, [Said::Nothing, Said::Asked], "who judged an older value judges the final one");
    assert!(told.lock().unwrap().is_empty(), "a review asks nobody and tells nobody");
}

#[tokio::test]
async fn law_06_a_later_block_spares_the_human() {
    let engine = engine();
    let told = Told::default();
    let (first, second) = (asking("sure?", &told), asking("really?", &told));
    on(
        &engine,
        "policy",
        0,
        hook_fn::<TrustedToolPolicy, _>(move |_, _| {
            let require_approval = Some(second().into());
            Ok(Some(TrustedPolicyOutcome { require_approval, ..TrustedPolicyOutcome::default() }))
        }),
    );
    on(&engine, "asks", 9, hook_fn::<BeforeToolCall, _>(move |_, _| Ok(Some(ToolCallOutcome::ask(first())))));
    on(&engine, "blocks", 0, hook_fn::<BeforeToolCall, _>(|_, _| Ok(Some(ToolCallOutcome::block("never")))));
    let verdict = permit(&engine, exec("ls")).await;
    assert_eq!(verdict.permit.unwrap_err().reason.unwrap(), "never");
    assert_eq!(*told.lock().unwrap(), [Resolution::Cancelled, Resolution::Cancelled]);
    assert!(engine.store().approvals(ApprovalFilter::All, 9).await.unwrap().is_empty());
}

#[tokio::test]
async fn law_06_one_question_for_several_requests_with_every_reason() {
    let engine = engine();
    let told = Told::default();
    for (title, priority) in [("one", 3), ("two", 2), ("three", 1)] {
        let request = asking(title, &told);
        on(
            &engine,
            title,
            priority,
            hook_fn::<BeforeToolCall, _>(move |_, _| Ok(Some(ToolCallOutcome::ask(request())))),
        );
    }
    let verdict = engine.permit_tool_call(exec("ls"), &context(), &Attendance::Nobody).await;
    assert!(verdict.permit.is_err());
    let rows = engine.store().approvals(ApprovalFilter::All, 9).await.unwrap();
    assert_eq!(rows.len(), 1);
    let reasons: Vec<_> = rows[0].request.reasons.iter().map(|reason| reason.title.to_string()).collect();
    assert_eq!(reasons, ["one", "two", "three"]);
    assert_eq!(told.lock().unwrap().len(), 3);
}
