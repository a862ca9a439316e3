//! What an approval is worth, from the side of whoever would break it: each test here fails if a check that stands
//! between an answer and a permit is taken out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use backstop_engine::{
    Attendance, BlockCause, Engine, Keeping, Receipt, ReceiptSink, Verdict, tool_call_digest,
};
use backstop_hooks::{ApprovalId, ApprovalRequest, CallContext, Decision, Resolution, Severity};
use backstop_store::{
    ApprovalStatus, Asked, ConsumeError, GrantPlace, GrantTarget, MAX_APPROVAL_BYTES, NewGrant, Store,
    Timestamp,
};

use crate::support::*;

over_both_stores! {
    one_answer_permits_one_call,
    an_answer_that_is_used_up_while_it_arrives_permits_nothing,
    a_denial_stays_whoever_answers_after_it,
    a_denial_from_elsewhere_stays_against_the_asker_who_allows,
    another_tool_with_the_same_arguments_is_another_call,
    a_grant_that_covers_half_of_what_is_asked_is_not_used,
    a_code_does_not_answer_a_hook_that_offers_no_allow_once,
    a_code_does_not_answer_what_a_hook_asks_that_came_while_a_human_was_asked,
    calls_that_waited_for_the_same_allow_always_leave_one_grant,
    who_asks_is_told_where_the_question_can_not_be_written_down,
    of_many_requests_the_first_of_the_gravest_leads_and_those_left_out_are_counted,
    a_question_is_of_the_run_that_the_call_says,
    a_question_says_where_it_was_cut_and_only_there,
}

/// Two processes that wait for the same answer: one of them runs.
async fn one_answer_permits_one_call(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    let call = tokio::spawn({
        let engine = engine.clone();
        async move { permit(&engine, "ls", &Attendance::Queue).await }
    });
    let row = pending(&store).await;
    store.resolve_approval(&row.id, Decision::AllowOnce, "me", Timestamp::now()).await.unwrap();
    let digest = tool_call_digest(&exec("ls"));
    let theirs = store.consume_approval(&row.id, &digest, Timestamp::now()).await;
    let ours = call.await.unwrap();
    assert_ne!(theirs.is_ok(), ours.permit.is_ok(), "exactly one of them");
    assert_eq!(status(&store).await, ApprovalStatus::Used);
}

/// Somebody who allows, and uses the allowance up before the answer arrives, unless the engine is quicker.
struct UsesItUp {
    store: Arc<dyn Store>,
    has_used_it: Arc<AtomicBool>,
}

impl backstop_engine::Asker for UsesItUp {
    fn ask<'a>(&'a self, record: &'a backstop_store::ApprovalRecord) -> backstop_engine::AskFuture<'a> {
        Box::pin(async move {
            let now = Timestamp::now();
            self.store.resolve_approval(&record.id, Decision::AllowOnce, "me", now).await.unwrap();
            let used = self.store.consume_approval(&record.id, &record.request.digest, now).await;
            self.has_used_it.store(used.is_ok(), Ordering::Release);
            Some(Decision::AllowOnce)
        })
    }

    fn name(&self) -> &str {
        "uses it up"
    }
}

async fn an_answer_that_is_used_up_while_it_arrives_permits_nothing(store: Arc<dyn Store>) {
    let (engine, heard) = asking(Arc::clone(&store), request());
    let has_used_it = Arc::new(AtomicBool::new(false));
    let asker = UsesItUp { store, has_used_it: Arc::clone(&has_used_it) };
    let verdict = permit(&engine, "ls", &Attendance::Present(Arc::new(asker))).await;
    // The engine waits for answers from elsewhere meanwhile, and may see this one before it is used up.
    let Err(blocked) = verdict.permit else {
        assert!(!has_used_it.load(Ordering::Acquire), "one answer permits one call");
        return;
    };
    assert_eq!(blocked.cause, BlockCause::Approval { resolution: Resolution::Cancelled });
    assert_eq!(verdict.receipt.verdict, Verdict::Block);
    assert_eq!(told(&heard), [Resolution::Cancelled]);
}

/// Somebody who allows, by an allowance that ended before the answer arrives.
struct Lapsed(Arc<dyn Store>);

impl backstop_engine::Asker for Lapsed {
    fn ask<'a>(&'a self, record: &'a backstop_store::ApprovalRecord) -> backstop_engine::AskFuture<'a> {
        Box::pin(async move {
            let now = Timestamp::now();
            self.0.resolve_approval(&record.id, Decision::AllowOnce, "me", now).await.unwrap();
            let long_ago = now.before(Duration::from_secs(3600));
            self.0.allow_later(&record.id, &"me".into(), Duration::from_secs(1), long_ago).await.unwrap();
            Some(Decision::AllowOnce)
        })
    }

    fn name(&self) -> &str {
        "lapsed"
    }
}

/// Over the store in memory, which does all of it in one step: nobody sees the allowance before it has ended.
#[tokio::test]
async fn an_allowance_that_can_not_be_used_permits_nothing() {
    let store = memory().store;
    let (engine, heard) = asking(Arc::clone(&store), request());
    let asker = Attendance::Present(Arc::new(Lapsed(Arc::clone(&store))));
    let verdict = permit(&engine, "ls", &asker).await;
    assert!(reason(&verdict).starts_with("approval can't be used"), "{}", reason(&verdict));
    assert_eq!(resolution(&verdict), Resolution::Cancelled);
    assert_eq!(status(&store).await, ApprovalStatus::Allowed, "nothing used it");
    assert_eq!(told(&heard), [Resolution::Cancelled]);
}

fn grant_for(hook: &str) -> NewGrant {
    NewGrant {
        agent: "main".into(),
        tool_name: "exec".into(),
        place: GrantPlace::default(),
        question: Asked {
            owner: "plugin".into(),
            hook: hook.into(),
            severity: Severity::Warning,
            rules: [].into(),
            title: "May it run?".into(),
        },
        target: GrantTarget::Call { digest: tool_call_digest(&exec("ls")), facts: None },
        origin: None,
        title: "May it run?".into(),
        created_by: "me".to_owned(),
        person: None,
        created_at: Timestamp::from_millis(0),
        expires_at: Timestamp::now().after(Duration::from_secs(3_600)),
        most_uses: None,
    }
}

async fn a_grant_that_covers_half_of_what_is_asked_is_not_used(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    ask_more(&engine, "other", request());
    store.add_grant(grant_for("asks")).await.unwrap();
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap_err();
    assert_eq!(store.grants(9).await.unwrap()[0].uses, 0, "a human was asked in its place");
    store.add_grant(grant_for("other")).await.unwrap();
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap();
    let uses: Vec<_> = store.grants(9).await.unwrap().iter().map(|grant| grant.uses).collect();
    assert_eq!(uses, [1, 1]);
}

async fn a_code_does_not_answer_a_hook_that_offers_no_allow_once(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap_err();
    let row = rows(&store).await.remove(0);
    store.allow_later(&row.id, &"me".into(), Duration::from_secs(600), Timestamp::now()).await.unwrap();
    let strict = ask_more(&engine, "strict", request().decisions([Decision::AllowAlways]));
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap_err();
    assert_eq!(told(&strict), [Resolution::Cancelled], "it was not there when the code was given");
}

/// Somebody who allows what they are asked first, and nothing after it. Meanwhile another hook comes, and a code is used
/// for the same call.
struct OnlyOnce {
    engine: Engine,
    store: Arc<dyn Store>,
    coded: ApprovalId,
    asked: Arc<AtomicUsize>,
}

impl backstop_engine::Asker for OnlyOnce {
    fn ask<'a>(&'a self, _: &'a backstop_store::ApprovalRecord) -> backstop_engine::AskFuture<'a> {
        Box::pin(async move {
            if self.asked.fetch_add(1, Ordering::AcqRel) > 0 {
                return Some(Decision::Deny);
            }
            let (ttl, now) = (Duration::from_secs(600), Timestamp::now());
            self.store.allow_later(&self.coded, &"me".into(), ttl, now).await.unwrap();
            ask_more(&self.engine, "late", request());
            Some(Decision::AllowOnce)
        })
    }

    fn name(&self) -> &str {
        "only once"
    }
}

async fn a_code_does_not_answer_what_a_hook_asks_that_came_while_a_human_was_asked(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap_err();
    let (coded, asked) = (rows(&store).await.remove(0).id, Arc::new(AtomicUsize::new(0)));
    let human = OnlyOnce { engine: engine.clone(), store, coded, asked: Arc::clone(&asked) };
    let verdict = permit(&engine, "ls", &Attendance::Present(Arc::new(human))).await;
    assert_eq!((resolution(&verdict), asked.load(Ordering::Acquire)), (Resolution::Deny, 2));
    verdict.permit.unwrap_err();
}

async fn calls_that_waited_for_the_same_allow_always_leave_one_grant(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    let calls = [0, 1].map(|_| {
        let engine = engine.clone();
        tokio::spawn(async move { permit(&engine, "ls", &Attendance::Queue).await })
    });
    while rows(&store).await.len() < 2 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    for row in rows(&store).await {
        store.resolve_approval(&row.id, Decision::AllowAlways, "me", Timestamp::now()).await.unwrap();
        while store.grants(9).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    for call in calls {
        call.await.unwrap().permit.unwrap();
    }
    assert_eq!(store.grants(9).await.unwrap().len(), 1);
}

async fn who_asks_is_told_where_the_question_can_not_be_written_down(store: Arc<dyn Store>) {
    let call = CallContext { session_key: Some("x".repeat(MAX_APPROVAL_BYTES).into()), ..context() };
    for attendance in [Attendance::Queue, Attendance::Nobody, Attendance::Host] {
        let (engine, heard) = asking(Arc::clone(&store), request());
        let verdict = engine.permit_tool_call(exec("ls"), &call, &attendance).await;
        let said = reason(&verdict);
        assert!(said.contains("could not be asked for: an approval request has at most"), "{said}");
        assert_eq!(told(&heard), [Resolution::Cancelled]);
        // A client would ask its own user about what was cancelled, who sees nothing of the question.
        let cause = verdict.permit.unwrap_err().cause;
        assert_eq!(cause, BlockCause::Approval { resolution: Resolution::Timeout }, "{attendance:?}");
    }
    assert!(rows(&store).await.is_empty());
}

async fn a_denial_stays_whoever_answers_after_it(store: Arc<dyn Store>) {
    let (engine, heard) = asking(Arc::clone(&store), request());
    let verdict = permit(&engine, "ls", &Human::says(Decision::Deny)).await;
    verdict.permit.unwrap_err();
    let row = rows(&store).await.remove(0);
    let now = Timestamp::now();
    store.resolve_approval(&row.id, Decision::AllowOnce, "me", now).await.unwrap_err();
    store.allow_later(&row.id, &"me".into(), Duration::from_secs(60), now).await.unwrap_err();
    let used = store.consume_approval(&row.id, &row.request.digest, now).await;
    assert!(used.is_err(), "{used:?}");
    assert_eq!(status(&store).await, ApprovalStatus::Denied);
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap_err();
    assert_eq!(told(&heard), [Resolution::Deny, Resolution::Cancelled]);
}

/// Somebody who allows what another terminal has just denied.
struct TooLate(Arc<dyn Store>);

impl backstop_engine::Asker for TooLate {
    fn ask<'a>(&'a self, record: &'a backstop_store::ApprovalRecord) -> backstop_engine::AskFuture<'a> {
        Box::pin(async move {
            self.0.resolve_approval(&record.id, Decision::Deny, "other", Timestamp::now()).await.unwrap();
            Some(Decision::AllowAlways)
        })
    }

    fn name(&self) -> &str {
        "too late"
    }
}

async fn a_denial_from_elsewhere_stays_against_the_asker_who_allows(store: Arc<dyn Store>) {
    let (engine, heard) = asking(Arc::clone(&store), request());
    let asker = Attendance::Present(Arc::new(TooLate(Arc::clone(&store))));
    let verdict = permit(&engine, "ls", &asker).await;
    assert_eq!(resolution(&verdict), Resolution::Deny);
    verdict.permit.unwrap_err();
    assert_eq!(told(&heard), [Resolution::Deny]);
    assert!(store.grants(9).await.unwrap().is_empty(), "no grant comes of it");
}

async fn another_tool_with_the_same_arguments_is_another_call(store: Arc<dyn Store>) {
    let mut other = exec("ls");
    other.tool_name = "process".into();
    assert_ne!(tool_call_digest(&exec("ls")), tool_call_digest(&other));
    let (engine, _) = asking(Arc::clone(&store), request());
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap_err();
    let row = rows(&store).await.remove(0);
    store.allow_later(&row.id, &"me".into(), Duration::from_secs(60), Timestamp::now()).await.unwrap();
    let misused = store.consume_approval(&row.id, &tool_call_digest(&other), Timestamp::now()).await;
    assert!(matches!(misused, Err(ConsumeError::OtherCall { .. })), "{misused:?}");
    let verdict = engine.permit_tool_call(exec("ls"), &context(), &Attendance::Nobody).await;
    verdict.permit.unwrap();
}

/// A sink that keeps nothing, and says so.
#[derive(Default)]
struct Full(AtomicBool);

impl ReceiptSink for Full {
    fn record(&self, receipt: &Receipt) {
        self.0.fetch_or(receipt.verdict == Verdict::Block, Ordering::AcqRel);
    }

    fn keep(&self, receipt: &Receipt) -> Option<Keeping> {
        self.record(receipt);
        Some(Box::pin(std::future::ready(false)))
    }
}

#[tokio::test]
async fn what_a_human_allowed_does_not_run_where_that_can_not_be_kept() {
    let (form, sink) = (memory(), Arc::new(Full::default()));
    let engine = Engine::builder().store(form.store).sink(Arc::clone(&sink) as Arc<dyn ReceiptSink>).build();
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap();
    ask_more(&engine, "asks", request());
    let verdict = permit(&engine, "ls", &Human::says(Decision::AllowOnce)).await;
    assert!(reason(&verdict).contains("audit trail"), "{}", reason(&verdict));
    assert_eq!(verdict.receipt.verdict, Verdict::Block);
    assert!(sink.0.load(Ordering::Acquire), "who can be told is told");
    let denied = permit(&engine, "ls", &Human::says(Decision::Deny)).await;
    assert!(reason(&denied).contains("denied by a human"), "a block stays the block that it was");
}

async fn of_many_requests_the_first_of_the_gravest_leads_and_those_left_out_are_counted(
    store: Arc<dyn Store>,
) {
    let (engine, _) = asking(Arc::clone(&store), request());
    for hook in 1..=8 {
        let grave = ApprovalRequest::cut(&format!("Question {hook}?"), "because");
        ask_more(&engine, &format!("asks-{hook}"), grave.severity(Severity::Critical));
    }
    let denied = reason(&permit(&engine, "ls", &Attendance::Nobody).await);
    assert!(denied.contains("approval needed: Question 1?"), "{denied}");
    assert!(denied.contains("asks-7: because\n- and 1 more\n"), "{denied}");
    assert!(!denied.contains("asks-8"), "{denied}");
}

async fn a_question_is_of_the_run_that_the_call_says(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    for (run, kept) in [(Some("inner"), "inner"), (None, "run")] {
        let mut event = exec("ls");
        event.run_id = run.map(Into::into);
        engine.permit_tool_call(event, &context(), &Attendance::Nobody).await.permit.unwrap_err();
        let runs = rows(&store).await.into_iter().filter_map(|row| row.request.run);
        assert!(runs.into_iter().any(|run| run.as_str() == kept), "{kept}");
    }
}

async fn a_question_says_where_it_was_cut_and_only_there(store: Arc<dyn Store>) {
    // A scope is shown with 512 characters at most; the field around the text has eleven.
    for (length, is_cut) in [(1, false), (501, false), (502, true), (5_000, true)] {
        let asked: ApprovalRequest = serde_json::from_value(serde_json::json!({
            "title": "May it be sent?", "description": "To all.", "scope": { "text": "x".repeat(length) },
        }))
        .unwrap();
        let (engine, _) = asking(Arc::clone(&store), asked);
        permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap_err();
        let shown = rows(&store).await.into_iter().map(|row| row.request.reasons[0].description.clone());
        let cut = shown.filter(|shown| shown.ends_with("(cut)")).count();
        assert_eq!(cut > 0, is_cut, "{length}");
    }
}
