//! A budget cancels; a late answer is no answer; a hook can't change what others see.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backstop_engine::{Budget, BudgetSource, FailureKind, OperatorSettings, OwnerSettings, blocking};
use backstop_hooks::points::{BeforeToolCall, ToolCallOutcome};
use backstop_hooks::{Hook, HookResult, OwnerId, PointId, async_hook_fn, hook_fn};
use tokio::time::Instant;

use crate::support::{engine, engine_with, exec, options, permit};

struct OnDrop(Arc<AtomicBool>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn with_budget(engine: &backstop_engine::Engine, ms: u64, hook: Arc<dyn Hook<BeforeToolCall>>) {
    engine.registry().on(hook, options("slow", 0).timeout(Budget::from_millis(ms).unwrap())).unwrap();
}

#[tokio::test(start_paused = true)]
async fn law_10_a_hanging_hook_is_cancelled_within_its_budget() {
    let engine = engine();
    let dropped = Arc::new(AtomicBool::new(false));
    let guard = Arc::clone(&dropped);
    with_budget(
        &engine,
        200,
        async_hook_fn::<BeforeToolCall, _, _>(move |_, _| {
            let guard = OnDrop(Arc::clone(&guard));
            async move {
                let _guard = guard;
                std::future::pending::<HookResult<BeforeToolCall>>().await
            }
        }),
    );
    for _ in 0..3 {
        let start = Instant::now();
        let verdict = permit(&engine, exec("ls")).await;
        assert_eq!(verdict.receipt.steps[0].failure.as_ref().unwrap().kind, FailureKind::TimedOut);
        let took = start.elapsed();
        assert!((200..260).contains(&took.as_millis()), "{took:?}");
        assert!(dropped.swap(false, Ordering::Relaxed), "its future is gone");
    }
}

#[tokio::test]
async fn law_10_a_late_answer_is_dropped_even_if_the_thread_was_blocked() {
    let now = hook_fn::<BeforeToolCall, _>(|_, _| {
        std::thread::sleep(Duration::from_millis(40));
        Ok(Some(ToolCallOutcome::default()))
    });
    let later = async_hook_fn::<BeforeToolCall, _, _>(|_, _| async {
        std::thread::sleep(Duration::from_millis(40));
        Ok(Some(ToolCallOutcome::default()))
    });
    for hook in [now, later] {
        let engine = engine();
        with_budget(&engine, 5, hook);
        let verdict = permit(&engine, exec("ls")).await;
        assert!(verdict.permit.is_err());
        assert_eq!(verdict.receipt.steps[0].failure.as_ref().unwrap().kind, FailureKind::TimedOut);
    }
}

#[tokio::test]
async fn law_10_blocking_hooks_hold_nobody_beyond_their_budget() {
    let engine = engine();
    with_budget(
        &engine,
        20,
        blocking::<BeforeToolCall, _>(|_, _| {
            std::thread::sleep(Duration::from_millis(1_000));
            Ok(None)
        }),
    );
    let start = Instant::now();
    assert!(permit(&engine, exec("ls")).await.permit.is_err());
    assert!(start.elapsed() < Duration::from_millis(700), "{:?}", start.elapsed());
}

#[tokio::test]
async fn law_10_blocking_hooks_are_heard_and_may_panic() {
    crate::model::quiet();
    let engine = engine();
    with_budget(
        &engine,
        5_000,
        blocking::<BeforeToolCall, _>(|event, cx| {
            assert!(cx.deadline.is_some());
            Ok((crate::support::command(event) == "rm").then(|| ToolCallOutcome::block("no")))
        }),
    );
    assert!(permit(&engine, exec("rm")).await.permit.is_err());
    assert!(permit(&engine, exec("ls")).await.permit.is_ok());
    engine
        .registry()
        .on(blocking::<BeforeToolCall, _>(|_, _| panic!("on purpose")), options("p", 0))
        .unwrap();
    assert!(permit(&engine, exec("ls")).await.permit.is_err());
}

#[tokio::test]
async fn law_10_hooks_that_answer_at_once_need_no_timers() {
    // An executor without tokio's drivers: nothing here waits, so nothing needs a clock to wake it.
    let engine = engine();
    with_budget(&engine, 10_000, async_hook_fn::<BeforeToolCall, _, _>(|_, _| async { Ok(None) }));
    let plain = std::thread::spawn(move || {
        let mut work = std::pin::pin!(permit(&engine, exec("ls")));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        matches!(work.as_mut().poll(&mut context), std::task::Poll::Ready(verdict) if verdict.permit.is_ok())
    });
    assert!(plain.join().unwrap());
}

#[test]
fn law_10_budgets_the_operators_word_for_the_point_then_for_the_owner_then_the_authors_then_the_default() {
    let budget = |ms| Budget::from_millis(ms).unwrap();
    let mut both = OwnerSettings { timeout: Some(budget(20)), ..OwnerSettings::default() };
    both.timeouts.insert(PointId::BeforeToolCall, budget(10));
    let owner = OwnerSettings { timeout: Some(budget(20)), ..OwnerSettings::default() };
    let cases = [
        (Some(both), Some(budget(30)), 10, BudgetSource::OperatorPoint),
        (Some(owner), Some(budget(30)), 20, BudgetSource::OperatorOwner),
        (None, Some(budget(30)), 30, BudgetSource::Author),
        (None, None, 15_000, BudgetSource::Default),
    ];
    for (settings, author, ms, source) in cases {
        let owners = settings.map(|settings| (OwnerId::operator(), settings)).into_iter().collect();
        let engine = engine_with(OperatorSettings { owners, ..OperatorSettings::default() });
        let mut options = options("h", 0);
        options.timeout = author;
        engine.registry().on(hook_fn::<BeforeToolCall, _>(|_, _| Ok(None)), options).unwrap();
        let meta = engine.registry().list().remove(0);
        assert_eq!((meta.budget, meta.budget_source), (Duration::from_millis(ms), source));
    }
    for ms in [0, 600_001, u64::MAX] {
        assert!(Budget::from_millis(ms).is_err());
    }
}
