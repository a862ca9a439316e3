//! A hook that panics, hangs, can't be reached or answers nonsense has failed; at gates that blocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backstop_engine::{BlockCause, Budget, FailureKind, HookOptions, Said, Verdict};
use backstop_hooks::conversation::Message;
use backstop_hooks::points::{
    AfterToolCall, AgentReplyEvent, AgentReplyOutcome, BeforeAgentReply, BeforeMessageWrite, BeforeToolCall,
    MessageWriteEvent,
};
use backstop_hooks::{
    FailurePolicy, Hook, HookError, HookResult, JsonFuture, JsonHook, Malformed, Point, PointId,
    async_hook_fn, hook_fn, json_hook,
};
use serde_json::{Value, json};

use crate::law_01_order::ran;
use crate::model::quiet;
use crate::support::{context, engine, exec, on, on_failing, options, permit};

struct Says(Value);

impl JsonHook for Says {
    fn call<'a>(&'a self, _: PointId, _: Value) -> JsonFuture<'a> {
        Box::pin(async { Ok(self.0.clone()) })
    }
}

fn failing<P: Point>() -> Vec<(FailureKind, Arc<dyn Hook<P>>)> {
    quiet();
    vec![
        (FailureKind::Failed, hook_fn::<P, _>(|_, _| Err(HookError::failed("no")))),
        (FailureKind::Unreachable, hook_fn::<P, _>(|_, _| Err(HookError::Unreachable("no".into())))),
        (FailureKind::Malformed, hook_fn::<P, _>(|_, _| Err(Malformed::new("no").into()))),
        (FailureKind::Malformed, json_hook::<P>(Arc::new(Says(json!({ "no_such_field": 1 }))))),
        (FailureKind::Malformed, json_hook::<P>(Arc::new(Says(json!("yes"))))),
        (FailureKind::Panicked, hook_fn::<P, _>(|_, _| panic!("on purpose"))),
        (FailureKind::Panicked, async_hook_fn::<P, _, _>(|_, _| async { panic!("on purpose") })),
        (
            FailureKind::Panicked,
            async_hook_fn::<P, _, _>(|_, _| async {
                tokio::time::sleep(Duration::from_millis(1)).await;
                panic!("on purpose")
            }),
        ),
        (FailureKind::TimedOut, async_hook_fn::<P, _, _>(|_, _| std::future::pending::<HookResult<P>>())),
    ]
}

#[tokio::test(start_paused = true)]
async fn law_05_failing_blocks_at_a_gate() {
    for (kind, hook) in failing::<BeforeToolCall>() {
        let engine = engine();
        on(&engine, "gate", 0, hook);
        let verdict = permit(&engine, exec("ls")).await;
        let blocked = verdict.permit.unwrap_err();
        assert_eq!(blocked.cause, BlockCause::Failure { kind });
        assert_eq!(blocked.hook.unwrap().as_str(), "gate");
        assert_eq!(verdict.receipt.steps[0].said, Said::Failed);
        assert!(!verdict.receipt.steps[0].passed_despite_failure);
    }
}

#[tokio::test(start_paused = true)]
async fn law_05_failing_passes_only_where_the_operator_says_so_and_the_receipt_tells() {
    for (kind, hook) in failing::<BeforeToolCall>() {
        for policy in [FailurePolicy::Open, FailurePolicy::OpenIfUnreachable] {
            let engine = engine();
            on_failing(&engine, "gate", policy, Arc::clone(&hook));
            let verdict = permit(&engine, exec("ls")).await;
            let outage = matches!(kind, FailureKind::Unreachable | FailureKind::TimedOut);
            assert_eq!(
                verdict.permit.is_ok(),
                outage || policy == FailurePolicy::Open,
                "{kind:?} {policy:?}"
            );
            assert_eq!(verdict.receipt.steps[0].passed_despite_failure, verdict.permit.is_ok());
            assert_eq!(verdict.receipt.steps[0].failure.as_ref().unwrap().kind, kind);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn law_05_failing_observers_are_recorded_and_ignored() {
    for (kind, hook) in failing::<AfterToolCall>() {
        let engine = engine();
        on(&engine, "bad", 1, hook);
        on(&engine, "good", 0, hook_fn::<AfterToolCall, _>(|_, _| Ok(None)));
        let receipt = engine.observe::<AfterToolCall>(&ran(), &context()).await;
        assert_eq!(receipt.verdict, Verdict::Observed);
        assert_eq!(receipt.steps[0].failure.as_ref().unwrap().kind, kind);
        assert_eq!(receipt.steps[1].said, Said::Nothing);
        assert!(!receipt.steps[0].passed_despite_failure, "observers are open by nature");
    }
}

#[tokio::test(start_paused = true)]
async fn law_05_failing_claims_take_nothing_and_block_if_the_operator_says_so() {
    for (kind, hook) in failing::<BeforeAgentReply>() {
        for policy in [FailurePolicy::Open, FailurePolicy::Closed] {
            let engine = engine();
            on_failing(&engine, "bad", policy, Arc::clone(&hook));
            on(
                &engine,
                "takes",
                -1,
                hook_fn::<BeforeAgentReply, _>(|_, _| {
                    Ok(Some(AgentReplyOutcome { handled: true, reply: None, reason: None }))
                }),
            );
            let event = AgentReplyEvent::new("hi");
            let claimed = engine.claim::<BeforeAgentReply>(&event, &context()).await;
            let closed = policy == FailurePolicy::Closed;
            assert_eq!(claimed.blocked.is_some(), closed, "{kind:?}");
            assert_eq!(claimed.outcome.is_some(), !closed);
            assert_eq!(claimed.receipt.steps[0].failure.as_ref().unwrap().kind, kind);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn law_05_failing_on_the_write_path_withholds_the_entry() {
    for (kind, hook) in failing::<BeforeMessageWrite>() {
        let engine = engine();
        on(&engine, "gate", 0, hook);
        let event = MessageWriteEvent::new(Message::user("hi"));
        let decided = engine.decide::<BeforeMessageWrite>(event, &context()).await;
        assert_eq!(decided.receipt().steps[0].failure.as_ref().unwrap().kind, kind);
        assert!(decided.permit().is_err());
    }
}

#[tokio::test]
async fn law_05_a_failed_gate_is_asked_again_at_the_next_call() {
    let engine = engine();
    let broken = Arc::new(AtomicBool::new(true));
    let is_broken = Arc::clone(&broken);
    on(
        &engine,
        "gate",
        0,
        hook_fn::<BeforeToolCall, _>(move |_, _| {
            if is_broken.load(Ordering::Relaxed) { Err(HookError::failed("no")) } else { Ok(None) }
        }),
    );
    for _ in 0..20 {
        assert!(permit(&engine, exec("ls")).await.permit.is_err());
    }
    broken.store(false, Ordering::Relaxed);
    assert!(permit(&engine, exec("ls")).await.permit.is_ok());
}

#[tokio::test]
async fn law_05_the_operators_word_beats_the_authors() {
    let mut settings = backstop_engine::OperatorSettings::default();
    settings.on_failure.insert("gate".into(), FailurePolicy::Closed);
    settings.on_failure.insert("mistyped".into(), FailurePolicy::Open);
    let engine = crate::support::engine_with(settings);
    let author = HookOptions { on_failure: Some(FailurePolicy::Open), ..options("gate", 0) };
    let hook = hook_fn::<BeforeToolCall, _>(|_, _| Err(HookError::failed("no")));
    engine.registry().on(hook, author.timeout(Budget::from_millis(5).unwrap())).unwrap();
    assert!(permit(&engine, exec("ls")).await.permit.is_err());
    let snapshot = engine.registry().snapshot();
    assert_eq!(
        snapshot.unmatched_settings().map(backstop_hooks::HookId::as_str).collect::<Vec<_>>(),
        ["mistyped"]
    );
}
