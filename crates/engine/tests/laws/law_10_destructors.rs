//! What a hook leaves behind may panic when it is dropped, and hurts nobody.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Arc;

use backstop_engine::{
    Attendance, BlockCause, Budget, Engine, FailureKind, Interceptors, Receipt, ReceiptSink, RedactionStream,
    Settled, Snapshot, SpanRedactor, ToolVerdict, VerdictHook, VerdictSet, blocking,
};
use backstop_hooks::points::{
    AfterToolCall, BeforeResponseEmit, BeforeToolCall, ToolAfter, ToolCallEvent, ToolCallOutcome,
};
use backstop_hooks::{
    Answer, ApprovalRequest, CallContext, Context, Hook, HookError, HookResult, Panicked, async_hook_fn,
    contained, hook_fn,
};
use futures_util::FutureExt;
use serde_json::json;

use crate::support::{context, engine, exec, on, options, permit};

/// Panics whenever it is dropped, with another of its kind as the payload, so often.
struct Bomb(u8);

impl Drop for Bomb {
    fn drop(&mut self) {
        match self.0.checked_sub(1) {
            Some(left) => panic_any(Bomb(left)),
            None => panic_any("on purpose"),
        }
    }
}

fn quiet() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    crate::model::quiet();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !info.payload().is::<Bomb>() {
                report(info);
            }
        }));
    });
}

const PANICKED: BlockCause = BlockCause::Failure { kind: FailureKind::Panicked };
const TIMED_OUT: BlockCause = BlockCause::Failure { kind: FailureKind::TimedOut };

fn with_50_ms(engine: &Engine, hook: Arc<dyn Hook<BeforeToolCall>>) {
    let budget = Budget::from_millis(50).unwrap();
    engine.registry().on(hook, options("bomb", 0).timeout(budget)).unwrap();
}

fn cause(verdict: ToolVerdict) -> BlockCause {
    verdict.permit.unwrap_err().cause
}

#[tokio::test]
async fn law_10_a_panics_payload_that_panics_when_dropped_is_one_failure_of_its_hook() {
    quiet();
    for nested in [0, 1, 5] {
        let kinds: [Arc<dyn Hook<BeforeToolCall>>; 3] = [
            hook_fn(move |_, _| panic_any(Bomb(nested))),
            async_hook_fn(move |_, _| async move { panic_any(Bomb(nested)) }),
            blocking(move |_: &ToolCallEvent, _| panic_any(Bomb(nested))),
        ];
        for hook in kinds {
            let engine = engine();
            with_50_ms(&engine, hook);
            for _ in 0..3 {
                assert_eq!(cause(permit(&engine, exec("ls")).await), PANICKED, "asked again each time");
            }
        }
    }
}

#[tokio::test]
async fn law_10_threads_survive_payloads_and_answers_that_panic_when_dropped() {
    quiet();
    let engine = engine();
    let door = Arc::new(crate::law_10_threads::Door::default());
    let at = Arc::clone(&door);
    with_50_ms(
        &engine,
        blocking(move |event: &ToolCallEvent, _| {
            match crate::support::command(event).as_str() {
                "panic" => panic_any(Bomb(3)),
                // The answer comes when nobody waits for it any more.
                "late" => at.pass(),
                _ => return Ok(None),
            }
            let bomb = Bomb(0);
            Ok(Some(ToolCallOutcome::ask(ApprovalRequest::cut("?", "").on_resolution(move |_| {
                let _held = &bomb;
                async { None }
            }))))
        }),
    );
    for _ in 0..4 {
        assert_eq!(cause(permit(&engine, exec("panic")).await), PANICKED);
        assert_eq!(cause(permit(&engine, exec("late")).await), TIMED_OUT);
    }
    door.open();
    let idle = || engine.registry().list().len() == 1;
    assert!(idle());
    for _ in 0..backstop_engine::MAX_RUNNING + 1 {
        let verdict = permit(&engine, exec("ls")).await;
        assert!(verdict.permit.is_ok(), "every place was given back: {:?}", verdict.permit);
    }
}

#[tokio::test]
async fn law_10_a_future_that_panics_when_dropped_is_one_failure_of_its_hook() {
    quiet();
    for nested in [0, 3] {
        let engine = engine();
        with_50_ms(
            &engine,
            async_hook_fn(move |_, _| {
                let bomb = Bomb(nested);
                async move {
                    let _held = bomb;
                    std::future::pending::<HookResult<BeforeToolCall>>().await
                }
            }),
        );
        for _ in 0..3 {
            assert_eq!(cause(permit(&engine, exec("ls")).await), TIMED_OUT);
        }
    }
}

#[tokio::test]
async fn law_10_a_dispatch_that_is_dropped_drops_futures_that_panic() {
    quiet();
    let engine = engine();
    let waits = |nested| {
        move || {
            let bomb = Bomb(nested);
            async move {
                let _held = bomb;
                std::future::pending::<()>().await;
            }
        }
    };
    let (first, second, third) = (waits(0), waits(1), waits(2));
    on::<AfterToolCall>(
        &engine,
        "a",
        0,
        async_hook_fn(move |_, _| {
            let wait = first();
            async move {
                wait.await;
                Ok(None)
            }
        }),
    );
    on::<AfterToolCall>(
        &engine,
        "b",
        0,
        async_hook_fn(move |_, _| {
            let wait = second();
            async move {
                wait.await;
                Ok(None)
            }
        }),
    );
    with_50_ms(
        &engine,
        async_hook_fn(move |_, _| {
            let wait = third();
            async move {
                wait.await;
                Ok(None)
            }
        }),
    );
    let ran = serde_json::from_value(json!({ "toolName": "exec", "params": {}, "durationMs": 1 })).unwrap();
    let call = context();
    let mut observing = Box::pin(engine.observe::<AfterToolCall>(&ran, &call));
    assert!((&mut observing).now_or_never().is_none());
    assert!(catch_unwind(AssertUnwindSafe(|| drop(observing))).is_ok(), "two at once, one after the other");
    let mut judging = Box::pin(permit(&engine, exec("ls")));
    assert!((&mut judging).now_or_never().is_none());
    assert!(catch_unwind(AssertUnwindSafe(|| drop(judging))).is_ok());
}

/// A question whose listener panics when it is dropped.
fn asks() -> Arc<dyn Hook<BeforeToolCall>> {
    hook_fn(|_, _| {
        let bomb = Bomb(1);
        Ok(Some(ToolCallOutcome::ask(ApprovalRequest::cut("sure?", "").on_resolution(move |_| {
            let _held = &bomb;
            async { None }
        }))))
    })
}

#[tokio::test]
async fn law_10_an_outcome_that_panics_when_dropped_is_dropped_anywhere() {
    quiet();
    // Answered, without anybody to ask.
    let answered = engine();
    on(&answered, "asks", 2, asks());
    on(&answered, "asks-too", 1, asks());
    assert!(matches!(cause(permit(&answered, exec("ls")).await), BlockCause::Approval { .. }));
    // Moot, because a later hook blocks.
    let moot = engine();
    on(&moot, "asks", 2, asks());
    on::<BeforeToolCall>(&moot, "blocks", 1, hook_fn(|_, _| Ok(Some(ToolCallOutcome::block("no")))));
    assert_eq!(cause(permit(&moot, exec("ls")).await), BlockCause::Decision);
    // Reviewed only.
    let reviewed = answered.review_tool_call(exec("ls"), &context(), false).await;
    assert_eq!(reviewed.requests.len(), 2);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(reviewed))).is_ok());
    // Late.
    let late = engine();
    let slow = hook_fn::<BeforeToolCall, _>(|_, _| {
        std::thread::sleep(std::time::Duration::from_millis(60));
        let bomb = Bomb(0);
        Ok(Some(ToolCallOutcome::ask(ApprovalRequest::cut("sure?", "").on_resolution(move |_| {
            let _held = &bomb;
            async { None }
        }))))
    });
    with_50_ms(&late, slow);
    assert_eq!(cause(permit(&late, exec("ls")).await), TIMED_OUT);
    // While a human thinks.
    let task = tokio::spawn({
        let engine = answered.clone();
        async move {
            let call = context();
            engine.permit_tool_call(exec("ls"), &call, &Attendance::Queue).await
        }
    });
    while answered.store().approvals(backstop_store::ApprovalFilter::Pending, 9).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled(), "ended by us, and not by a panic");
}

/// A hook that panics when it is dropped.
struct Heavy(#[expect(dead_code, reason = "it is there to be dropped")] Bomb);

impl Hook<BeforeToolCall> for Heavy {
    fn call<'a>(&'a self, _: &'a ToolCallEvent, _: Context<'a>) -> Answer<'a, BeforeToolCall> {
        Answer::Now(Ok(None))
    }
}

#[tokio::test]
async fn law_10_hooks_that_panic_when_dropped_leave_the_registry_as_it_should_be() {
    quiet();
    let engine = engine();
    on(&engine, "a", 0, Arc::new(Heavy(Bomb(0))));
    on(&engine, "b", 0, Arc::new(Heavy(Bomb(2))));
    assert!(engine.registry().remove(&"a".into()));
    // Both change places at once: the point of the old hooks is free, the point of the new one is taken.
    let mut next = Snapshot::empty(Default::default());
    next.on::<ToolAfter>(hook_fn(|_, _| panic_any("on purpose")), options("c", 0)).unwrap();
    engine.registry().replace(next);
    assert!(!engine.has_hooks::<BeforeToolCall>() && engine.has_hooks::<ToolAfter>());
    let event = json!({ "toolName": "exec", "toolCallId": "1", "isError": false,
        "result": { "toolCallId": "1", "content": [], "isError": false } });
    let decided = engine.decide::<ToolAfter>(serde_json::from_value(event).unwrap(), &context()).await;
    assert_eq!(decided.blocked().unwrap().cause, PANICKED, "no silent gap: the new hook is asked");
}

#[tokio::test]
async fn law_10_a_dispatch_may_be_the_last_to_let_go_of_a_hook() {
    quiet();
    let engine = engine();
    on(&engine, "heavy", 1, Arc::new(Heavy(Bomb(0))));
    let registry = engine.clone();
    on::<BeforeToolCall>(
        &engine,
        "removes",
        0,
        hook_fn(move |_, _| {
            registry.registry().remove(&"heavy".into());
            Ok(None)
        }),
    );
    assert!(permit(&engine, exec("ls")).await.permit.is_ok());
    assert!(permit(&engine, exec("ls")).await.permit.is_ok());
}

#[tokio::test]
async fn law_10_listeners_and_sinks_that_panic_when_dropped_poison_nothing() {
    quiet();
    let (engine, bomb) = (engine(), Bomb(1));
    let interceptors: &Interceptors = engine.interceptors();
    interceptors.set_on_event(Some(Arc::new(move |_| {
        let _held = &bomb;
    })));
    assert!(catch_unwind(AssertUnwindSafe(|| interceptors.set_on_event(None))).is_ok());
    interceptors.set_on_event(None);

    struct Blows;
    impl ReceiptSink for Blows {
        fn record(&self, _: &Receipt) {
            panic_any(Bomb(2));
        }
    }
    let watched = Engine::builder().sink(Arc::new(Blows)).build();
    assert!(permit(&watched, exec("ls")).await.permit.is_ok());
}

#[derive(Debug)]
struct Redacts;

#[derive(Debug)]
struct Stream(#[expect(dead_code, reason = "it is there to be dropped")] Fuse);

struct Fuse(#[expect(dead_code, reason = "it is there to be dropped")] Bomb);

impl std::fmt::Debug for Fuse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fuse")
    }
}

impl SpanRedactor for Redacts {
    fn open(&self, _: &CallContext) -> Box<dyn RedactionStream> {
        Box::new(Stream(Fuse(Bomb(1))))
    }
}

impl RedactionStream for Stream {
    fn push(&mut self, text: &str) -> Settled {
        if text == "panic" {
            panic_any(Bomb(1));
        }
        Settled { up_to: text.len(), ..Settled::default() }
    }

    fn finish(&mut self) -> Settled {
        Settled { up_to: 2, ..Settled::default() }
    }
}

#[tokio::test]
async fn law_10_redactors_may_panic_when_dropped() {
    quiet();
    let engine = engine();
    engine.registry().on_spans(Arc::new(Redacts), options("redacts", 0)).unwrap();
    engine.registry().on_spans(Arc::new(Redacts), options("redacts-too", 0)).unwrap();
    for (text, blocked) in [("hi", None), ("panic", Some(PANICKED))] {
        let event = json!({ "content": text, "allContent": [text], "messageCount": 1 });
        let event = serde_json::from_value(event).unwrap();
        let decided = engine.decide::<BeforeResponseEmit>(event, &context()).await;
        assert_eq!(decided.blocked().map(|blocked| blocked.cause.clone()), blocked);
        let mut stream = engine.redaction(&context());
        stream.push(0, text);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(stream))).is_ok());
    }
}

#[tokio::test]
async fn law_10_verdict_hooks_may_panic_when_set_up_torn_down_and_dropped() {
    quiet();
    struct Verdicts(#[expect(dead_code, reason = "it is there to be dropped")] Bomb, bool);
    #[async_trait::async_trait]
    impl VerdictHook for Verdicts {
        async fn setup(&self) -> Result<(), HookError> {
            if self.1 { Ok(()) } else { panic_any(Bomb(1)) }
        }
        async fn teardown(&self) {
            panic_any(Bomb(1))
        }
    }
    let mut set = VerdictSet::default();
    set.adopt("good".into(), Arc::new(Verdicts(Bomb(0), true)));
    set.start().await.unwrap().stop().await;
    let mut set = VerdictSet::default();
    set.adopt("good".into(), Arc::new(Verdicts(Bomb(0), true)));
    set.adopt("bad".into(), Arc::new(Verdicts(Bomb(0), false)));
    assert_eq!(set.start().await.unwrap_err().hook().as_str(), "bad");
}

#[test]
fn law_10_contained_code_is_over_when_it_says_so() {
    quiet();
    assert_eq!(contained(|| 7), Ok(7));
    assert_eq!(contained(|| panic_any(Bomb(9))), Err::<(), _>(Panicked));
}
