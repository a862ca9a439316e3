//! What a dispatch costs. `cargo bench -p backstop-engine`.
//!
//! The hooks here do nothing or next to nothing, so that what is measured is the engine: the snapshot,
//! the budget, the isolation, the merge, the receipt. Nothing waits, so one poll runs a dispatch to its end.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail loudly")]

use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use backstop_engine::{Attendance, Engine, HookOptions, Receipt, ReceiptSink};
use backstop_hooks::conversation::Message;
use backstop_hooks::points::{
    AfterToolCall, AfterToolCallEvent, BeforeMessageWrite, BeforeToolCall, MessageWriteEvent, ToolBefore,
    ToolCallEvent, ToolCallOutcome,
};
use backstop_hooks::{CallContext, Hook, OwnerId, Params, Point, async_hook_fn, hook_fn};
use divan::Bencher;
use serde_json::json;

fn main() {
    divan::main();
}

/// Runs work that never waits.
fn now<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("nothing in these benches waits"),
    }
}

fn arguments(bytes: usize) -> Params {
    serde_json::from_value(json!({ "command": "x".repeat(bytes) })).unwrap()
}

fn call(params: &Params) -> ToolCallEvent {
    ToolCallEvent::new("exec", params.clone())
        .run_id(backstop_hooks::RunId::from("run"))
        .tool_call_id(backstop_hooks::ToolCallId::from("call"))
}

fn context() -> CallContext {
    CallContext {
        agent_id: Some("main".into()),
        session_key: Some("main".into()),
        session_id: Some("session".into()),
        run_id: Some("run".into()),
        ..CallContext::default()
    }
}

fn engine<P: Point>(hooks: usize, hook: impl Fn() -> Arc<dyn Hook<P>>) -> Engine {
    let engine = Engine::builder().build();
    for _ in 0..hooks {
        engine.registry().on::<P>(hook(), HookOptions::new(OwnerId::operator())).unwrap();
    }
    engine
}

fn nothing<P: Point>() -> Arc<dyn Hook<P>> {
    hook_fn::<P, _>(|event, _| {
        black_box(event);
        Ok(None)
    })
}

#[divan::bench]
fn no_hook(bencher: Bencher<'_, '_>) {
    let (engine, context, params) = (Engine::builder().build(), context(), arguments(1024));
    bencher
        .with_inputs(|| call(&params))
        .bench_local_values(|event| now(engine.decide::<BeforeToolCall>(event, &context)));
}

#[divan::bench(args = [1, 10, 100, 1000])]
fn native_hooks(bencher: Bencher<'_, '_>, hooks: usize) {
    let (engine, context, params) = (engine(hooks, nothing::<BeforeToolCall>), context(), arguments(1024));
    bencher
        .with_inputs(|| call(&params))
        .bench_local_values(|event| now(engine.decide::<BeforeToolCall>(event, &context)));
}

#[divan::bench(args = [1, 10, 100])]
fn async_hooks(bencher: Bencher<'_, '_>, hooks: usize) {
    let hook = || async_hook_fn::<BeforeToolCall, _, _>(|_, _| async { Ok(None) });
    let (engine, context, params) = (engine(hooks, hook), context(), arguments(1024));
    bencher
        .with_inputs(|| call(&params))
        .bench_local_values(|event| now(engine.decide::<BeforeToolCall>(event, &context)));
}

/// The cost must not grow with the arguments where nobody rewrites them.
#[divan::bench(args = [1024, 40 * 1024])]
fn ten_hooks_by_size_of_arguments(bencher: Bencher<'_, '_>, bytes: usize) {
    let (engine, context, params) = (engine(10, nothing::<BeforeToolCall>), context(), arguments(bytes));
    bencher
        .with_inputs(|| call(&params))
        .bench_local_values(|event| now(engine.decide::<BeforeToolCall>(event, &context)));
}

/// Nine gates that are asked twice, because the tenth hook rewrites.
#[divan::bench(args = [1024, 40 * 1024])]
fn ten_hooks_the_last_rewrites(bencher: Bencher<'_, '_>, bytes: usize) {
    let engine = engine(9, nothing::<BeforeToolCall>);
    let rewritten = arguments(bytes + 1);
    let hook =
        hook_fn::<BeforeToolCall, _>(move |_, _| Ok(Some(ToolCallOutcome::rewrite(rewritten.clone()))));
    engine.registry().on(hook, HookOptions::new(OwnerId::operator()).priority(-1)).unwrap();
    let (context, params) = (context(), arguments(bytes));
    bencher
        .with_inputs(|| call(&params))
        .bench_local_values(|event| now(engine.decide::<BeforeToolCall>(event, &context)));
}

#[divan::bench(args = [0, 1, 10])]
fn observers(bencher: Bencher<'_, '_>, hooks: usize) {
    let (engine, context) = (engine(hooks, nothing::<AfterToolCall>), context());
    let event = AfterToolCallEvent::new("exec", arguments(1024), 1);
    bencher.bench_local(|| now(engine.observe::<AfterToolCall>(&event, &context)));
}

#[divan::bench(args = [0, 1, 10])]
fn writes(bencher: Bencher<'_, '_>, hooks: usize) {
    let (engine, context) = (engine(hooks, nothing::<BeforeMessageWrite>), context());
    let event = MessageWriteEvent::new(Message::user("x".repeat(1024)));
    bencher
        .with_inputs(|| event.clone())
        .bench_local_values(|event| now(engine.decide::<BeforeMessageWrite>(event, &context)));
}

/// The whole way of a tool call: three points, the permit.
#[divan::bench(args = [0, 1, 10, 100])]
fn permit_tool_call(bencher: Bencher<'_, '_>, hooks: usize) {
    let (engine, context, params) = (engine(hooks, nothing::<BeforeToolCall>), context(), arguments(1024));
    for id in 0..hooks.min(2) {
        engine.interceptors().add::<ToolBefore>(format!("i{id}"), Default::default(), |_, _| Ok(())).unwrap();
    }
    bencher
        .with_inputs(|| call(&params))
        .bench_local_values(|event| now(engine.permit_tool_call(event, &context, &Attendance::Nobody)));
}

struct Drops;

impl ReceiptSink for Drops {
    fn record(&self, receipt: &Receipt) {
        black_box(receipt);
    }
}

/// With a sink, the arguments are hashed: what the audit trail costs.
#[divan::bench(args = [1024, 40 * 1024])]
fn permit_tool_call_with_a_sink(bencher: Bencher<'_, '_>, bytes: usize) {
    let engine = Engine::builder().sink(Arc::new(Drops)).build();
    let (context, params) = (context(), arguments(bytes));
    for _ in 0..10 {
        engine.registry().on(nothing::<BeforeToolCall>(), HookOptions::new(OwnerId::operator())).unwrap();
    }
    bencher
        .with_inputs(|| call(&params))
        .bench_local_values(|event| now(engine.permit_tool_call(event, &context, &Attendance::Nobody)));
}
