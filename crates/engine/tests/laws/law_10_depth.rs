//! A hook that calls tools is asked about its own calls, and is stopped at a depth that it can't reset.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use backstop_engine::{
    AnyVerdictHook, Attendance, BlockCause, Blocked, Budget, Engine, FailureKind, HookVerdict, MAX_DEPTH,
    MAX_UNDER_WAY, RedactionStream, Settled, SpanRedactor, ToolCallHook, ToolVerdict, VerdictCall,
    VerdictHook, VerdictSlot, blocking,
};
use backstop_hooks::points::{
    AfterToolCall, BeforeAgentReply, BeforeMessageWrite, BeforeResponseEmit, BeforeToolCall, ToolBefore,
    ToolCallEvent, ToolCallOutcome, TrustedToolPolicy,
};
use backstop_hooks::{
    Answer, ApprovalRequest, CallContext, Context, FailurePolicy, Hook, HookError, Point, async_hook_fn,
    hook_fn,
};
use futures_util::FutureExt;
use serde_json::json;

use crate::support::{Kept, context, exec, on, on_failing, options, watched};

/// Something that goes round: an engine, how often its hooks were asked, and how the last call ended.
#[derive(Default)]
struct Ring {
    engine: OnceLock<Engine>,
    asked: AtomicUsize,
    ends: Mutex<Vec<Blocked>>,
}

impl Ring {
    fn new() -> (Arc<Self>, Engine, Arc<Kept>) {
        let (engine, kept) = watched();
        let ring = Arc::new(Self::default());
        ring.engine.set(engine.clone()).unwrap();
        (ring, engine, kept)
    }

    fn engine(&self) -> Engine {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.engine.get().unwrap().clone()
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// One more round. The boxed future breaks the circle of types.
    fn round(self: &Arc<Self>, call: CallContext) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let ring = Arc::clone(self);
        let engine = ring.engine();
        Box::pin(async move {
            let verdict = engine.permit_tool_call(exec("ls"), &call, &Attendance::Nobody).await;
            ring.note(verdict);
        })
    }

    fn note(&self, verdict: ToolVerdict) {
        self.ends.lock().unwrap().extend(verdict.permit.err());
    }

    /// It went round as often as it may, and the innermost call was blocked for that.
    fn assert_bounded(&self, kept: &Kept) {
        let asked = usize::from(MAX_DEPTH) + 1;
        assert_eq!(self.asked(), asked, "once for the host's call, and for each depth");
        let ends = self.ends.lock().unwrap();
        assert_eq!(ends.len(), 1, "only the innermost call was blocked: {ends:?}");
        assert_eq!(ends[0].cause, BlockCause::TooDeep);
        assert!(ends[0].reason.as_ref().unwrap().contains("4 times over"), "{:?}", ends[0].reason);
        let receipts = kept.take();
        let deep: Vec<_> = receipts
            .iter()
            .filter(|receipt| receipt.blocked.as_ref().is_some_and(|b| b.cause == BlockCause::TooDeep))
            .collect();
        assert_eq!(deep.len(), 1, "its receipt says so");
        assert!(deep[0].steps.is_empty() && receipts.len() == asked + 1);
        let written = serde_json::to_value(deep[0]).unwrap();
        assert_eq!(written["blocked"]["cause"], json!("too-deep"));
    }
}

/// A hook with the budget that products give to hooks.
fn with_50_ms<P: Point>(engine: &Engine, hook: Arc<dyn Hook<P>>) {
    let budget = Budget::from_millis(50).unwrap();
    engine.registry().on(hook, options("round", 0).timeout(budget)).unwrap();
}

async fn start(engine: &Engine) -> ToolVerdict {
    engine.permit_tool_call(exec("ls"), &context(), &Attendance::Nobody).await
}

#[tokio::test]
async fn law_10_a_hook_that_calls_a_tool_is_stopped_at_a_depth() {
    let (ring, engine, kept) = Ring::new();
    let going = Arc::clone(&ring);
    with_50_ms::<BeforeToolCall>(
        &engine,
        async_hook_fn(move |_, cx| {
            let going = Arc::clone(&going);
            async move {
                going.round(cx.call).await;
                Ok(None)
            }
        }),
    );
    assert!(start(&engine).await.permit.is_ok(), "its own calls are blocked, the host's is not");
    ring.assert_bounded(&kept);
}

#[tokio::test]
async fn law_10_a_new_context_does_not_reset_the_depth() {
    let (ring, engine, kept) = Ring::new();
    let going = Arc::clone(&ring);
    let hosts = context();
    with_50_ms::<BeforeToolCall>(
        &engine,
        async_hook_fn(move |_, _| {
            let (going, hosts) = (Arc::clone(&going), hosts.clone());
            async move {
                let call = if going.asked().is_multiple_of(2) { CallContext::default() } else { hosts };
                going.round(call).await;
                Ok(None)
            }
        }),
    );
    assert!(start(&engine).await.permit.is_ok());
    ring.assert_bounded(&kept);
}

#[tokio::test]
async fn law_10_a_task_of_the_hooks_own_does_not_reset_the_depth() {
    for made_new in [false, true] {
        let (ring, engine, kept) = Ring::new();
        let going = Arc::clone(&ring);
        with_50_ms::<BeforeToolCall>(
            &engine,
            async_hook_fn(move |_, cx| {
                let going = Arc::clone(&going);
                async move {
                    let call = if made_new { CallContext::default() } else { cx.call };
                    let task = async move { going.round(call).await };
                    tokio::spawn(task).await.map_err(HookError::failed)?;
                    Ok(None)
                }
            }),
        );
        assert!(start(&engine).await.permit.is_ok());
        ring.assert_bounded(&kept);
    }
}

#[tokio::test]
async fn law_10_a_hook_that_blocks_its_thread_does_not_reset_the_depth() {
    let (ring, engine, kept) = Ring::new();
    let going = Arc::clone(&ring);
    with_50_ms::<BeforeToolCall>(
        &engine,
        hook_fn(move |_, _| {
            going.round(CallContext::default()).now_or_never();
            Ok(None)
        }),
    );
    assert!(start(&engine).await.permit.is_ok());
    ring.assert_bounded(&kept);
}

#[tokio::test(flavor = "multi_thread")]
async fn law_10_a_blocking_hooks_thread_does_not_reset_the_depth() {
    let (ring, engine, kept) = Ring::new();
    let going = Arc::clone(&ring);
    let hook = blocking::<BeforeToolCall, _>(move |_, _| {
        tokio::runtime::Handle::current().block_on(going.round(CallContext::default()));
        Ok(None)
    });
    on(&engine, "round", 0, hook);
    assert!(start(&engine).await.permit.is_ok());
    ring.assert_bounded(&kept);
}

#[tokio::test]
async fn law_10_verdict_hooks_have_the_same_depth() {
    struct Round(Arc<Ring>);
    impl VerdictHook for Round {}
    #[async_trait::async_trait]
    impl ToolCallHook for Round {
        async fn pre_call(&self, _: VerdictCall<'_>) -> Result<HookVerdict, HookError> {
            self.0.round(CallContext::default()).await;
            Ok(HookVerdict::Approve)
        }
    }
    let (ring, engine, kept) = Ring::new();
    let hook = AnyVerdictHook::for_tool_calls(Arc::new(Round(Arc::clone(&ring))));
    let registered = engine
        .registry()
        .update(|snapshot| hook.register(VerdictSlot::ToolPreCall, snapshot, options("round", 0)));
    registered.unwrap();
    assert!(start(&engine).await.permit.is_ok());
    ring.assert_bounded(&kept);
}

#[tokio::test]
async fn law_10_the_depth_is_one_for_all_points_that_a_call_passes() {
    let (ring, engine, kept) = Ring::new();
    // A policy calls a tool, an interceptor is asked, which calls a tool, ...
    let (policy, interceptor) = (Arc::clone(&ring), Arc::clone(&ring));
    let even = |ring: &Ring| ring.asked().is_multiple_of(2);
    on::<TrustedToolPolicy>(
        &engine,
        "policy",
        0,
        async_hook_fn(move |_, cx| {
            let ring = Arc::clone(&policy);
            async move {
                if even(&ring) {
                    ring.round(cx.call).await;
                }
                Ok(None)
            }
        }),
    );
    on::<ToolBefore>(
        &engine,
        "interceptor",
        0,
        async_hook_fn(move |_, cx| {
            let ring = Arc::clone(&interceptor);
            async move {
                if !even(&ring) {
                    ring.round(cx.call).await;
                }
                Ok(None)
            }
        }),
    );
    start(&engine).await;
    assert!(ring.asked() > 2, "they go on from each other's calls");
    let causes: Vec<_> = ring.ends.lock().unwrap().iter().map(|blocked| blocked.cause.clone()).collect();
    assert!(causes.contains(&BlockCause::TooDeep), "{causes:?}");
    assert!(kept.take().len() < 200, "bounded, also where two hooks fan out");
}

#[tokio::test]
async fn law_10_too_deep_is_no_failure_that_an_operator_lets_pass() {
    let (ring, engine, kept) = Ring::new();
    let going = Arc::clone(&ring);
    let hook = async_hook_fn(move |_, cx: backstop_hooks::OwnedContext| {
        let going = Arc::clone(&going);
        async move {
            going.round(cx.call).await;
            Ok(None)
        }
    });
    on_failing::<BeforeToolCall>(&engine, "round", FailurePolicy::Open, hook);
    assert!(start(&engine).await.permit.is_ok());
    ring.assert_bounded(&kept);
}

#[tokio::test]
async fn law_10_a_hook_under_way_makes_nobody_elses_call_deep() {
    let (_, engine, _) = Ring::new();
    let (entered, leave) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let (said, wait) = (Arc::clone(&entered), Arc::clone(&leave));
    on::<BeforeToolCall>(
        &engine,
        "waits",
        0,
        async_hook_fn(move |event: ToolCallEvent, _| {
            let (said, wait) = (Arc::clone(&said), Arc::clone(&wait));
            async move {
                if crate::support::command(&event) == "wait" {
                    said.notify_one();
                    wait.notified().await;
                }
                Ok(None)
            }
        }),
    );
    let call = context();
    let waiting = engine.permit_tool_call(exec("wait"), &call, &Attendance::Nobody);
    let beside = async {
        entered.notified().await;
        assert_eq!(CallContext::default().nesting.depth(), 0, "the hook waits on this very thread");
        let verdict = start(&engine).await;
        leave.notify_one();
        verdict
    };
    let (waited, beside) = futures_util::future::join(waiting, beside).await;
    assert!(waited.permit.is_ok() && beside.permit.is_ok());
    assert_eq!(CallContext::default().nesting.depth(), 0);
}

#[tokio::test]
async fn law_10_a_panic_leaves_no_depth_behind() {
    crate::model::quiet();
    let (_, engine, _) = Ring::new();
    on::<BeforeToolCall>(&engine, "panics", 0, hook_fn(|_, _| std::panic::panic_any("on purpose")));
    for _ in 0..=2 * MAX_DEPTH {
        let blocked = start(&engine).await.permit.unwrap_err();
        assert_eq!(blocked.cause, BlockCause::Failure { kind: FailureKind::Panicked });
    }
    assert_eq!(CallContext::default().nesting.depth(), 0);
}

#[tokio::test]
async fn law_10_who_is_told_how_a_request_ended_is_inside_of_the_call() {
    let (ring, engine, _) = Ring::new();
    let going = Arc::clone(&ring);
    on::<BeforeToolCall>(
        &engine,
        "asks",
        0,
        hook_fn(move |_, _| {
            let going = Arc::clone(&going);
            let request = ApprovalRequest::cut("sure?", "").on_resolution(move |_| {
                let going = Arc::clone(&going);
                async move {
                    going.round(CallContext::default()).await;
                    None
                }
            });
            Ok(Some(ToolCallOutcome::ask(request)))
        }),
    );
    start(&engine).await;
    let ends = ring.ends.lock().unwrap();
    assert_eq!(ends.first().unwrap().cause, BlockCause::TooDeep, "the innermost ends first: {ends:?}");
    assert_eq!(ring.asked(), usize::from(MAX_DEPTH) + 1);
}

#[tokio::test]
async fn law_10_observers_claims_writes_and_redactors_are_bounded_too() {
    let deep = context().nesting.descend(|| deeper(MAX_DEPTH));
    let (_, engine, kept) = Ring::new();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = || {
        let asked = Arc::clone(&asked);
        move || asked.fetch_add(1, Ordering::Relaxed)
    };
    let (a, b, c) = (count(), count(), count());
    on::<AfterToolCall>(&engine, "observes", 0, hook_fn(move |_, _| Ok((a() > 9).then(Default::default))));
    on::<BeforeAgentReply>(&engine, "claims", 0, hook_fn(move |_, _| Ok((b() > 9).then(Default::default))));
    on::<BeforeMessageWrite>(&engine, "writes", 0, hook_fn(move |_, _| Ok((c() > 9).then(Default::default))));
    engine.registry().on_spans(Arc::new(Counts(Arc::clone(&asked))), options("redacts", 0)).unwrap();

    let ran = serde_json::from_value(json!({ "toolName": "exec", "params": {}, "durationMs": 1 })).unwrap();
    let observed = engine.observe::<AfterToolCall>(&ran, &deep).await;
    assert_eq!(observed.steps[0].failure.as_ref().unwrap().kind, FailureKind::TooDeep);
    let reply = serde_json::from_value(json!({ "cleanedBody": "hi" })).unwrap();
    let claimed = engine.claim::<BeforeAgentReply>(&reply, &deep).await;
    assert_eq!(claimed.blocked.unwrap().cause, BlockCause::TooDeep);
    assert_eq!(claimed.receipt.blocked.as_ref().unwrap().cause, BlockCause::TooDeep);
    let emitted = json!({ "content": "hi", "allContent": ["hi"], "messageCount": 1 });
    let emitted = engine.decide::<BeforeResponseEmit>(serde_json::from_value(emitted).unwrap(), &deep).await;
    assert_eq!(emitted.blocked().unwrap().cause, BlockCause::TooDeep);
    let mut stream = engine.redaction(&deep);
    assert_eq!(stream.push(0, "hi").text, "");
    assert_eq!(stream.blocked().await.unwrap().cause, BlockCause::TooDeep);
    drop(stream);
    assert_eq!(asked.load(Ordering::Relaxed), 0, "no hook was asked");
    assert_eq!(kept.take().len(), 4, "each left its receipt");
}

#[tokio::test]
async fn law_10_where_no_hook_stands_there_is_no_depth_to_bound() {
    let deep = context().nesting.descend(|| deeper(MAX_DEPTH));
    let (_, engine, _) = Ring::new();
    let verdict = engine.permit_tool_call(exec("ls"), &deep, &Attendance::Nobody).await;
    assert!(verdict.permit.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn law_10_tasks_that_hide_where_they_come_from_end_at_the_bound_for_one_hook() {
    let (ring, engine, kept) = Ring::new();
    let going = Arc::clone(&ring);
    on::<BeforeToolCall>(
        &engine,
        "round",
        0,
        async_hook_fn(move |_, _| {
            let going = Arc::clone(&going);
            async move {
                // The task makes its context itself, where nothing says that a hook started it.
                let task = async move { going.round(CallContext::default()).await };
                tokio::spawn(task).await.map_err(HookError::failed)?;
                Ok(None)
            }
        }),
    );
    start(&engine).await;
    let overloaded =
        |blocked: &Blocked| blocked.cause == BlockCause::Failure { kind: FailureKind::Overloaded };
    let ends = ring.ends.lock().unwrap().clone();
    assert!(ends.iter().any(overloaded), "{:?}", ends.first());
    assert!(ring.asked() >= MAX_UNDER_WAY, "{}", ring.asked());
    assert!(!kept.take().is_empty());
}

/// A context that was made that deep inside of hooks.
fn deeper(more: u8) -> CallContext {
    match more.checked_sub(1) {
        None => context(),
        Some(more) => context().nesting.descend(|| deeper(more)),
    }
}

#[derive(Debug)]
struct Counts(Arc<AtomicUsize>);

impl SpanRedactor for Counts {
    fn open(&self, _: &CallContext) -> Box<dyn RedactionStream> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::new(Nothing(0))
    }
}

#[derive(Debug)]
struct Nothing(usize);

impl RedactionStream for Nothing {
    fn push(&mut self, text: &str) -> Settled {
        self.0 += text.len();
        Settled { up_to: self.0, ..Settled::default() }
    }

    fn finish(&mut self) -> Settled {
        Settled { up_to: self.0, ..Settled::default() }
    }
}

/// The depth holds for hooks that are not closures, too.
#[tokio::test]
async fn law_10_a_hook_of_any_kind_is_asked_inside_of_its_call() {
    struct Reads(Arc<AtomicUsize>);
    impl Hook<BeforeToolCall> for Reads {
        fn call<'a>(&'a self, _: &'a ToolCallEvent, cx: Context<'a>) -> Answer<'a, BeforeToolCall> {
            self.0.store(cx.to_owned().call.nesting.depth().into(), Ordering::Relaxed);
            Answer::Now(Ok(None))
        }
    }
    let (_, engine, _) = Ring::new();
    let depth = Arc::new(AtomicUsize::new(9));
    on(&engine, "reads", 0, Arc::new(Reads(Arc::clone(&depth))));
    start(&engine).await;
    assert_eq!(depth.load(Ordering::Relaxed), 1);
}
