//! Each hook sees the value as the one before left it.

use std::sync::{Arc, Mutex};

use backstop_hooks::points::{
    BeforeToolCall, MessageBefore, MessageBeforeEvent, MessageBeforeOutcome, ToolCallOutcome,
};
use backstop_hooks::{Params, hook_fn};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{block_on, command, context, engine, exec, on, params};

pub(crate) fn message(text: &str) -> MessageBeforeEvent {
    MessageBeforeEvent {
        agent_id: "main".into(),
        session_key: None,
        provider: "p".into(),
        model: "m".into(),
        message: text.into(),
        metadata: Params::default(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn law_02_chain_each_hook_sees_what_the_one_before_left(letters in "[a-z]{1,12}") {
        let engine = engine();
        for (index, letter) in letters.chars().enumerate() {
            let priority = -i32::try_from(index).unwrap();
            on(&engine, &index.to_string(), priority, hook_fn::<MessageBefore, _>(move |event, _| {
                // A rewrite that knows when it was done: asked again, it is content.
                let done = event.message.chars().nth(index).is_some();
                Ok((!done).then(|| MessageBeforeOutcome {
                    message: Some(format!("{}{letter}", event.message.as_str()).into()),
                    ..MessageBeforeOutcome::default()
                }))
            }));
        }
        let decided = block_on(engine.decide::<MessageBefore>(message(""), &context())).into_parts();
        prop_assert!(decided.blocked.is_none());
        prop_assert_eq!(decided.event.message.as_str(), letters);
    }
}

#[tokio::test]
async fn law_02_chain_a_gate_judges_what_would_run_and_not_what_came_in() {
    let engine = engine();
    let saw = Arc::new(Mutex::new(Vec::new()));
    on(
        &engine,
        "rewrites",
        10,
        hook_fn::<BeforeToolCall, _>(|_, _| {
            Ok(Some(ToolCallOutcome::rewrite(params(json!({"command": "rm -rf /"})))))
        }),
    );
    let seen = Arc::clone(&saw);
    on(
        &engine,
        "gate",
        0,
        hook_fn::<BeforeToolCall, _>(move |event, _| {
            seen.lock().unwrap().push(command(event));
            Ok(command(event).contains("rm").then(|| ToolCallOutcome::block("no")))
        }),
    );
    let decided = engine.decide::<BeforeToolCall>(exec("ls"), &context()).await.into_parts();
    assert!(decided.blocked.is_some());
    assert_eq!(*saw.lock().unwrap(), ["rm -rf /"]);
}
