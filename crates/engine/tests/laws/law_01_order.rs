//! Hooks run from high priority to low, ties in registration order; observers see the final value, at once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_hooks::points::{
    AfterToolCall, AfterToolCallEvent, AgentReplyEvent, AgentReplyOutcome, BeforeAgentReply, BeforeToolCall,
};
use backstop_hooks::{async_hook_fn, hook_fn};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{block_on, context, engine, exec, on, params};

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn law_01_order_is_by_priority_then_by_registration(priorities in prop::collection::vec(-3..4, 0..24)) {
        let engine = engine();
        let asked = Arc::new(Mutex::new(Vec::new()));
        for (index, priority) in priorities.iter().enumerate() {
            let asked = Arc::clone(&asked);
            on(&engine, &index.to_string(), *priority, hook_fn::<BeforeToolCall, _>(move |_, _| {
                asked.lock().unwrap().push(index);
                Ok(None)
            }));
        }
        block_on(engine.decide::<BeforeToolCall>(exec("ls"), &context()));
        let mut expected: Vec<usize> = (0..priorities.len()).collect();
        expected.sort_by_key(|index| -priorities[*index]);
        prop_assert_eq!(&*asked.lock().unwrap(), &expected);
        let listed: Vec<_> = engine.registry().list().iter().map(|meta| meta.id.to_string()).collect();
        prop_assert_eq!(listed, expected.iter().map(ToString::to_string).collect::<Vec<_>>());
    }
}

pub(crate) fn ran() -> AfterToolCallEvent {
    AfterToolCallEvent::new("exec", params(json!({"command": "ls"})), 1)
}

#[tokio::test(start_paused = true)]
async fn law_01_order_observers_run_at_once() {
    let engine = engine();
    for index in 0..10 {
        on(
            &engine,
            &index.to_string(),
            0,
            async_hook_fn::<AfterToolCall, _, _>(|_, _| async {
                tokio::time::sleep(Duration::from_secs(3)).await;
                Ok(None)
            }),
        );
    }
    let start = tokio::time::Instant::now();
    let receipt = engine.observe::<AfterToolCall>(&ran(), &context()).await;
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    assert_eq!(receipt.steps.len(), 10);
    let order: Vec<_> = receipt.steps.iter().map(|step| step.hook.id.to_string()).collect();
    assert_eq!(order, (0..10).map(|index| index.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn law_01_order_the_first_claim_takes_it() {
    let engine = engine();
    let answer = |handled: bool, reply: &'static str| {
        hook_fn::<BeforeAgentReply, _>(move |_, _| {
            Ok(Some(AgentReplyOutcome { handled, reply: Some(reply.into()), reason: None }))
        })
    };
    on(&engine, "declines", 9, answer(false, "no"));
    on(&engine, "late", -1, answer(true, "late"));
    on(&engine, "takes", 1, answer(true, "mine"));
    let event = AgentReplyEvent::new("hi");
    let claimed = engine.claim::<BeforeAgentReply>(&event, &context()).await;
    assert_eq!(claimed.outcome.unwrap().reply.unwrap().text().unwrap(), "mine");
    assert_eq!(claimed.receipt.steps.len(), 2, "nobody is asked after it was taken");
}
