//! `""`, `[]`, `{}` and `false` are answers; only a missing field is no opinion.

use backstop_hooks::points::{
    AfterLlmCall, BeforeLlmCall, BeforeResponseEmit, BeforeToolCall, MessageBefore, ResponseEmitEvent,
};
use backstop_hooks::{DecidePoint, JsonFuture, JsonHook, PointId, json_hook};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

use crate::law_02_chain::message;
use crate::law_04_what_was_judged_is_what_runs::llm_call;
use crate::law_11_runs_do_not_mix::answer;
use crate::support::{block_on, context, engine, exec, on};

struct Says(Value);

impl JsonHook for Says {
    fn call<'a>(&'a self, _: PointId, _: Value) -> JsonFuture<'a> {
        Box::pin(async { Ok(self.0.clone()) })
    }
}

fn decide<P: DecidePoint>(said: Value, event: P::Event) -> backstop_engine::DecidedParts<P> {
    let engine = engine();
    on(&engine, "h", 0, json_hook::<P>(Arc::new(Says(said))));
    block_on(engine.decide::<P>(event, &context())).into_parts()
}

#[test]
fn law_12_empty_answers_count() {
    assert_eq!(decide::<BeforeLlmCall>(json!({"messages": []}), llm_call("x")).event.messages, []);
    let mut event = llm_call("x");
    event.system_prompt = "be good".into();
    assert_eq!(decide::<BeforeLlmCall>(json!({"systemPrompt": ""}), event.clone()).event.system_prompt, "");
    assert_eq!(decide::<BeforeLlmCall>(json!({"systemPrompt": ""}), event).event.messages.len(), 1);
    assert_eq!(decide::<MessageBefore>(json!({"message": ""}), message("x")).event.message, "");
    assert!(decide::<BeforeToolCall>(json!({"params": {}}), exec("x")).event.params.is_empty());
    assert!(
        decide::<AfterLlmCall>(json!({"toolCalls": []}), answer("r", &["a", "b"]))
            .event
            .tool_calls
            .is_empty()
    );
}

#[test]
fn law_12_absent_answers_do_not() {
    for said in [json!(null), json!({})] {
        let decided = decide::<BeforeLlmCall>(said.clone(), llm_call("x"));
        assert_eq!(decided.event, llm_call("x"));
        assert!(decided.blocked.is_none());
        assert_eq!(decide::<AfterLlmCall>(said.clone(), answer("r", &["a"])).event.tool_calls.len(), 1);
        assert_eq!(decide::<BeforeToolCall>(said, exec("x")).event, exec("x"));
    }
    assert!(decide::<BeforeToolCall>(json!({"block": false}), exec("x")).blocked.is_none());
}

#[test]
fn law_12_null_in_place_of_a_value_is_a_failed_hook() {
    for said in [json!({"params": null}), json!({"block": null}), json!([]), json!(false), json!("")] {
        assert!(decide::<BeforeToolCall>(said, exec("x")).blocked.is_some());
    }
}

proptest! {
    #[test]
    fn law_12_any_text_is_an_answer_also_none(before in ".{0,8}", after in ".{0,8}") {
        let event = ResponseEmitEvent {
            run_id: None,
            content: before.as_str().into(),
            all_content: vec![before.as_str().into()],
            channel: None,
            message_count: 1,
        };
        let decided = decide::<BeforeResponseEmit>(json!({ "content": after }), event);
        prop_assert_eq!(decided.event.content.as_str(), &after);
        prop_assert_eq!(decided.event.all_content.last().unwrap().as_str(), &after);
    }
}
