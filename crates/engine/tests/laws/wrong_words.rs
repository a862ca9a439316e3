//! What one wrong word in the engine would let through, or would hide from the record: each test here fails where a
//! condition is turned round or a line is left out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use backstop_engine::{
    AgentMatcher, Attendance, BlockCause, Budget, Engine, FailureKind, HookOptions, MAX_DEPTH, MAX_UNDER_WAY,
    Receipt, ReceiptSink, Verdict,
};
use backstop_hooks::points::{
    AfterLlmCall, AfterLlmCallOutcome, AfterToolCall, BeforeAgentReply, BeforeLlmCall, BeforeMessageWrite,
    BeforePromptBuild, BeforeToolCall, PromptBuildOutcome, ToolBefore, ToolCallIds, TrustedToolPolicy,
};
use backstop_hooks::{CallContext, FailurePolicy, HookError, PointId, async_hook_fn, hook_fn};
use backstop_store::ToolDecision;
use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::sync::Semaphore;

use crate::law_07_no_silent_gap::sample;
use crate::law_11_runs_do_not_mix::{answer, may_run, only_ok};
use crate::support::{Kept, context, engine, exec, in_run, on, on_failing, options, permit, watched};

/// A context that was made that deep inside of hooks.
fn deep(more: u8) -> CallContext {
    match more.checked_sub(1) {
        None => context(),
        Some(more) => context().nesting.descend(|| deep(more)),
    }
}

#[tokio::test]
async fn a_value_too_deep_inside_of_hooks_is_blocked_and_no_hook_is_asked() {
    let asked = Arc::new(AtomicUsize::new(0));
    let engine = engine();
    let count = Arc::clone(&asked);
    let hook = hook_fn::<BeforeMessageWrite, _>(move |_, _| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(None)
    });
    on(&engine, "counts", 0, hook);
    let allowed = engine.decide::<BeforeMessageWrite>(sample::<BeforeMessageWrite>(), &deep(MAX_DEPTH)).await;
    assert!(allowed.blocked().is_none() && asked.swap(0, Ordering::Relaxed) == 1);
    let blocked =
        engine.decide::<BeforeMessageWrite>(sample::<BeforeMessageWrite>(), &deep(MAX_DEPTH + 1)).await;
    assert_eq!(blocked.blocked().unwrap().cause, BlockCause::TooDeep);
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

/// Calls of a hook that wait are counted, and so are those that no longer do.
#[tokio::test(start_paused = true)]
async fn calls_that_were_refused_or_are_over_take_no_place_of_the_calls_to_come() {
    let (engine, gate) = (engine(), Arc::new(Semaphore::new(0)));
    let held = Arc::clone(&gate);
    let hook = async_hook_fn::<BeforeToolCall, _, _>(move |_, _| {
        let held = Arc::clone(&held);
        async move {
            held.acquire().await.map_err(HookError::failed)?.forget();
            Ok(None)
        }
    });
    on(&engine, "waits", 0, hook);
    for round in 0..2 {
        let call = context();
        let calls = (0..2 * MAX_UNDER_WAY).map(|_| engine.decide::<BeforeToolCall>(exec("ls"), &call));
        let release = async {
            tokio::task::yield_now().await;
            gate.add_permits(MAX_UNDER_WAY);
        };
        let (decided, ()) = futures_util::future::join(join_all(calls), release).await;
        let overloaded = BlockCause::Failure { kind: FailureKind::Overloaded };
        let refused = decided.iter().filter_map(|decided| decided.blocked());
        let refused = refused.inspect(|blocked| assert_eq!(blocked.cause, overloaded)).count();
        assert_eq!(refused, MAX_UNDER_WAY, "in round {round}");
    }
}

#[tokio::test]
async fn a_call_without_an_id_is_told_that_it_can_not_be_told_apart() {
    let engine = engine();
    let hook = hook_fn::<AfterLlmCall, _>(|event, _| {
        let all = event.tool_calls.iter().map(|call| call.id.clone());
        Ok(Some(AfterLlmCallOutcome { tool_calls: Some(ToolCallIds::new(all)), ..Default::default() }))
    });
    on(&engine, "keeps-all", 0, hook);
    let judged = engine.judge_answer(answer("run", &["", "named"]), &in_run("session", "run")).await;
    let [ToolDecision::Deny { reason }, ToolDecision::Allow] = &judged.rulings[..] else {
        panic!("{:?}", judged.rulings);
    };
    assert!(reason.contains("no id"), "{reason}");
}

/// A sink that is not interested in dispatches that met no hook.
#[derive(Default)]
struct OnlyHooks(Kept);

impl ReceiptSink for OnlyHooks {
    fn record(&self, receipt: &Receipt) {
        self.0.record(receipt);
    }

    fn reads_idle(&self, _: PointId) -> bool {
        false
    }
}

#[tokio::test]
async fn a_sink_that_does_not_want_idle_dispatches_is_not_told_of_them() {
    let sink = Arc::new(OnlyHooks::default());
    let engine = Engine::builder().sink(Arc::clone(&sink) as Arc<dyn ReceiptSink>).build();
    engine.decide::<BeforeLlmCall>(sample::<BeforeLlmCall>(), &context()).await;
    assert!(sink.0.take().is_empty());
    on(&engine, "watches", 0, hook_fn::<BeforeLlmCall, _>(|_, _| Ok(None)));
    engine.decide::<BeforeLlmCall>(sample::<BeforeLlmCall>(), &context()).await;
    assert_eq!(sink.0.take().len(), 1);
}

/// Whoever asks what would happen reads it in the receipt, also where nobody records.
#[tokio::test]
async fn explanations_have_digests_and_details_where_nobody_records() {
    let engine = engine();
    let indifferent = Engine::builder().sink(Arc::new(OnlyHooks::default())).build();
    for engine in [&engine, &indifferent] {
        let idle = engine.explain::<BeforeLlmCall>(sample::<BeforeLlmCall>(), &context()).await;
        assert!(idle.receipt().judged.is_some(), "no hook stands there, and it is explained all the same");
    }
    on(&engine, "watches", 0, hook_fn::<BeforeLlmCall, _>(|_, _| Ok(None)));
    on(&engine, "judges", 0, hook_fn::<BeforeToolCall, _>(|_, _| Ok(None)));
    let explained = engine.explain::<BeforeLlmCall>(sample::<BeforeLlmCall>(), &context()).await;
    assert!(explained.receipt().judged.is_some() && explained.receipt().steps[0].detail.is_some());
    for capture in [false, true] {
        let reviewed = engine.review_tool_call(exec("ls"), &context(), capture).await;
        assert!(reviewed.receipt.judged.is_some());
        assert_eq!(reviewed.receipt.steps[0].detail.is_some(), capture);
    }
}

#[tokio::test]
async fn a_hook_that_answers_at_a_point_without_a_value_to_rewrite_has_modified_it() {
    let (engine, kept) = watched();
    let hook = hook_fn::<BeforePromptBuild, _>(|_, _| {
        Ok(Some(PromptBuildOutcome { prepend_context: Some("context".into()), ..Default::default() }))
    });
    on(&engine, "adds", 0, hook);
    engine.decide::<BeforePromptBuild>(sample::<BeforePromptBuild>(), &context()).await;
    assert_eq!(kept.take()[0].verdict, Verdict::Modify);
}

/// A claim passes by a hook that fails, and is stopped where the operator does not let that pass.
#[tokio::test]
async fn a_hook_that_fails_at_a_claim_stops_it_only_where_the_operator_says_so() {
    for (policy, stops) in [(FailurePolicy::Open, false), (FailurePolicy::Closed, true)] {
        let engine = engine();
        on_failing::<BeforeAgentReply>(&engine, "fails", policy, hook_fn(|_, _| Err(HookError::failed("x"))));
        let after = HookOptions { on_failure: None, ..options("after", -1) };
        engine.registry().on(hook_fn::<BeforeAgentReply, _>(|_, _| Ok(None)), after).unwrap();
        let claimed = engine.claim::<BeforeAgentReply>(&sample::<BeforeAgentReply>(), &context()).await;
        assert_eq!(claimed.blocked.is_some(), stops);
        assert_eq!(claimed.receipt.steps.len(), if stops { 1 } else { 2 });
        assert!(claimed.receipt.steps[0].failure.is_some());
    }
}

/// Where no hook stands there is nothing to go round.
#[tokio::test]
async fn an_answer_that_no_hook_judges_is_not_stopped_for_its_depth() {
    let judged = engine().judge_answer(answer("run-1", &["call-1"]), &deep(MAX_DEPTH + 1)).await;
    assert!(judged.decided.blocked().is_none());
    assert_eq!(judged.rulings, [ToolDecision::Allow]);
}

/// Each of the three points alone bounds the depth of a call.
#[tokio::test]
async fn one_gate_of_any_kind_stops_a_call_that_is_too_deep() {
    let gates: [fn(&Engine); 3] = [
        |engine| drop(on(engine, "policy", 0, hook_fn::<TrustedToolPolicy, _>(|_, _| Ok(None)))),
        |engine| drop(on(engine, "interceptor", 0, hook_fn::<ToolBefore, _>(|_, _| Ok(None)))),
        |engine| drop(on(engine, "hook", 0, hook_fn::<BeforeToolCall, _>(|_, _| Ok(None)))),
    ];
    for gate in gates {
        let engine = engine();
        gate(&engine);
        let verdict = engine.permit_tool_call(exec("ls"), &deep(MAX_DEPTH + 1), &Attendance::Nobody).await;
        assert_eq!(verdict.permit.unwrap_err().cause, BlockCause::TooDeep);
        permit(&engine, exec("ls")).await.permit.unwrap();
    }
}

#[tokio::test]
async fn a_call_that_its_answer_denied_says_that_nobody_judged_it() {
    let engine = engine();
    only_ok(&engine);
    engine.judge_answer(answer("run-1", &["call-1"]), &context()).await;
    let blocked = permit(&engine, exec("ls")).await.permit.unwrap_err();
    assert_eq!((blocked.cause, blocked.hook), (BlockCause::Withheld, None));
}

/// An engine with a hook that says which calls may stay where there is one of the id `named`, and otherwise nothing.
fn naming() -> Engine {
    let engine = engine();
    let hook = hook_fn::<AfterLlmCall, _>(|event, _| {
        let named = event.tool_calls.iter().any(|call| call.id.as_str() == "named");
        let tool_calls = named.then(|| ToolCallIds::new(["named"]));
        Ok(Some(AfterLlmCallOutcome { tool_calls, ..Default::default() }))
    });
    on(&engine, "names", 0, hook);
    engine
}

/// An empty id names nothing, also not a call that was allowed before calls were named.
#[tokio::test]
async fn a_call_without_an_id_is_not_allowed_by_an_earlier_one_without_an_id() {
    let engine = naming();
    engine.judge_answer(answer("r", &[""]), &in_run("s", "r")).await;
    assert!(may_run(&engine, "s", "r", Some("")).await);
    engine.judge_answer(answer("r", &["named"]), &in_run("s", "r")).await;
    assert!(!may_run(&engine, "s", "r", Some("")).await);
}

/// Once a hook has named the calls of a run that may stay, those of its later answers are named, too.
#[tokio::test]
async fn a_run_whose_calls_were_named_stays_so_after_an_answer_that_named_none() {
    let engine = naming();
    for answered in ["named", "other"] {
        engine.judge_answer(answer("r", &[answered]), &in_run("s", "r")).await;
        assert!(may_run(&engine, "s", "r", Some(answered)).await);
        assert!(!may_run(&engine, "s", "r", Some("unheard-of")).await, "after {answered}");
    }
}

/// A hook that is about others is none that this dispatch met.
#[tokio::test]
async fn for_a_sink_that_does_not_want_idle_dispatches_none_is_put_together() {
    let sink = Arc::new(OnlyHooks::default());
    let engine = Engine::builder().sink(Arc::clone(&sink) as Arc<dyn ReceiptSink>).build();
    let others = || options("others", 0).agents(AgentMatcher::regex("^other$").unwrap());
    engine.registry().on(hook_fn::<AfterToolCall, _>(|_, _| Ok(None)), others()).unwrap();
    let receipt = engine.observe::<AfterToolCall>(&sample::<AfterToolCall>(), &context()).await;
    assert_eq!((receipt.at, receipt.judged), (0, None));
}

/// By a clock that stands still but where a hook moves it.
#[tokio::test(start_paused = true)]
async fn an_answer_at_the_deadline_itself_counts_and_a_later_one_does_not() {
    for (takes, is_late) in [(100, false), (101, true)] {
        let engine = engine();
        let slow = hook_fn::<BeforeToolCall, _>(move |_, _| {
            // The clock moves at the first look at the future.
            let _moved = tokio::time::advance(Duration::from_millis(takes)).now_or_never();
            Ok(None)
        });
        let timeout = Some(Budget::from_millis(100).unwrap());
        engine.registry().on(slow, HookOptions { timeout, ..options("slow", 0) }).unwrap();
        let cause = permit(&engine, exec("ls")).await.permit.err().map(|blocked| blocked.cause);
        let timed_out = BlockCause::Failure { kind: FailureKind::TimedOut };
        assert_eq!(cause, is_late.then_some(timed_out), "{takes} ms");
    }
}
