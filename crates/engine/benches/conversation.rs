//! What a conversation costs at `before_llm_call`. `cargo bench -p backstop-engine --bench conversation`.
//!
//! A client sends the whole conversation with each request. What is measured is what it costs to let ten hooks that do
//! nothing judge one, with its digest for the record: where every message is new, and where all but the last one was
//! there a turn ago.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail loudly")]

use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use backstop_engine::{Engine, HookOptions, Receipt, ReceiptSink};
use backstop_hooks::conversation::Message;
use backstop_hooks::points::{BeforeLlmCall, BeforeLlmCallEvent};
use backstop_hooks::{CallContext, OwnerId, hook_fn};
use divan::Bencher;

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

struct Drops;

impl ReceiptSink for Drops {
    fn record(&self, receipt: &Receipt) {
        black_box(receipt);
    }
}

fn engine() -> Engine {
    let engine = Engine::builder().sink(Arc::new(Drops)).build();
    for _ in 0..10 {
        let hook = hook_fn::<BeforeLlmCall, _>(|event, _| {
            black_box(event);
            Ok(None)
        });
        engine.registry().on(hook, HookOptions::new(OwnerId::operator())).unwrap();
    }
    engine
}

/// 100 messages of 2 KB, with the escapes that code has.
fn conversation() -> BeforeLlmCallEvent {
    let text = |of: usize| format!("{of}: ") + &"let answer = \"of the model\";\n\t// \\o/ \n".repeat(52);
    BeforeLlmCallEvent {
        run_id: "run".into(),
        messages: (0..100)
            .map(|of| if of % 2 == 0 { Message::user(text(of)) } else { Message::assistant(text(of)) })
            .collect(),
        system_prompt: "You are a coding agent.".into(),
        model: "model".to_owned(),
        other_models: None,
        provider: "provider".to_owned(),
        iteration: 0,
        tools: Vec::new(),
        token_estimate: 50_000,
        answer_tokens: None,
    }
}

/// A conversation of which nothing is known: it came over the wire.
fn read(event: &BeforeLlmCallEvent) -> BeforeLlmCallEvent {
    serde_json::from_value(serde_json::to_value(event).unwrap()).unwrap()
}

#[divan::bench]
fn all_new(bencher: Bencher<'_, '_>) {
    let (engine, context, event) = (engine(), CallContext::default(), conversation());
    bencher
        .with_inputs(|| read(&event))
        .bench_local_values(|event| now(engine.decide::<BeforeLlmCall>(event, &context)));
}

#[divan::bench]
fn all_known(bencher: Bencher<'_, '_>) {
    let (engine, context, event) = (engine(), CallContext::default(), conversation());
    drop(now(engine.decide::<BeforeLlmCall>(event.clone(), &context)));
    bencher
        .with_inputs(|| event.clone())
        .bench_local_values(|event| now(engine.decide::<BeforeLlmCall>(event, &context)));
}

#[divan::bench]
fn one_turn_later(bencher: Bencher<'_, '_>) {
    let (engine, context, event) = (engine(), CallContext::default(), conversation());
    drop(now(engine.decide::<BeforeLlmCall>(event.clone(), &context)));
    bencher
        .with_inputs(|| {
            let mut event = event.clone();
            event.messages.extend((0..2).map(|_| Message::user("x".repeat(2048))));
            event
        })
        .bench_local_values(|event| now(engine.decide::<BeforeLlmCall>(event, &context)));
}

#[divan::bench]
fn copy(bencher: Bencher<'_, '_>) {
    let event = conversation();
    bencher.bench_local(|| black_box(&event).clone());
}

#[divan::bench]
fn compare_with_a_copy(bencher: Bencher<'_, '_>) {
    let (event, other) = (conversation(), conversation());
    let copy = event.clone();
    assert_eq!(event, other);
    bencher.bench_local(|| black_box(&event) == black_box(&copy));
}
