//! How often an editor looks something up, or writes something, for each answer: as often as there are things in it, times
//! a constant. Counted in tests alone, since a clock would say something else each time.

/// One more step.
pub(super) fn step() {
    #[cfg(test)]
    tests::STEPS.with(|steps| steps.set(steps.get() + 1));
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use crate::live::{self, AnswerEditor, PartKey};
    use crate::model::ModelRequest;
    use crate::wire::Api;

    thread_local! {
        pub(super) static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    fn event(data: &Value) -> String {
        match data["type"].as_str() {
            Some(name) => format!("event: {name}\ndata: {data}\n\n"),
            None => format!("data: {data}\n\n"),
        }
    }

    fn item(number: usize) -> Value {
        json!({"type": "function_call", "id": format!("fc_{number}"), "call_id": format!("call_{number}"), "name": "exec", "arguments": "{}", "status": "completed"})
    }

    fn block(number: usize) -> Value {
        json!({"type": "tool_use", "id": format!("toolu_{number}"), "name": "exec", "input": {}})
    }

    fn tool_call(number: usize) -> Value {
        json!({"index": number, "id": format!("call_{number}"), "type": "function", "function": {"name": "exec", "arguments": "{}"}})
    }

    fn part(number: usize) -> Value {
        json!({"functionCall": {"id": format!("call_{number}"), "name": "exec", "args": {}}})
    }

    /// A streamed answer with so many calls.
    fn streamed(api: Api, count: usize) -> String {
        let calls = 0..count;
        match api {
            Api::OpenAiResponses => {
                let frame = |status: &str, output: Vec<Value>| json!({"id": "r", "status": status, "model": "m", "output": output});
                let mut out =
                    event(&json!({"type": "response.created", "response": frame("in_progress", vec![])}));
                for number in calls.clone() {
                    for kind in ["response.output_item.added", "response.output_item.done"] {
                        out += &event(&json!({"type": kind, "output_index": number, "item": item(number)}));
                    }
                }
                out + &event(
                    &json!({"type": "response.completed", "response": frame("completed", calls.map(item).collect())}),
                )
            }
            Api::AnthropicMessages => {
                let message = json!({"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {}});
                let mut out = event(&json!({"type": "message_start", "message": message}));
                for number in calls {
                    out += &event(
                        &json!({"type": "content_block_start", "index": number, "content_block": block(number)}),
                    );
                    out += &event(&json!({"type": "content_block_stop", "index": number}));
                }
                out += &event(
                    &json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}}),
                );
                out + &event(&json!({"type": "message_stop"}))
            }
            Api::OpenAiChat => {
                let chunk = |delta: Value, reason: Value| {
                    event(
                        &json!({"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}),
                    )
                };
                let each: String = calls
                    .map(|number| chunk(json!({"tool_calls": [tool_call(number)]}), Value::Null))
                    .collect();
                each + &chunk(json!({}), "tool_calls".into()) + "data: [DONE]\n\n"
            }
            Api::Gemini => {
                let piece = |parts: Vec<Value>, reason: Value| {
                    event(
                        &json!({"responseId": "g", "candidates": [{"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": reason}]}),
                    )
                };
                let each: String = calls.map(|number| piece(vec![part(number)], Value::Null)).collect();
                each + &piece(vec![json!({"text": ""})], "STOP".into())
            }
            Api::BedrockConverse => {
                let event = |name: &str, data: Value| format!("event: {name}\ndata: {data}\n\n");
                let mut out = event("messageStart", json!({"role": "assistant"}));
                for number in calls {
                    let id = format!("tooluse_{number}");
                    let start = json!({"toolUse": {"toolUseId": id, "name": "exec"}});
                    out += &event("contentBlockStart", json!({"contentBlockIndex": number, "start": start}));
                    out += &event("contentBlockStop", json!({"contentBlockIndex": number}));
                }
                out + &event("messageStop", json!({"stopReason": "tool_use"}))
            }
        }
    }

    /// The same in one piece.
    fn whole(api: Api, count: usize) -> String {
        let calls = 0..count;
        let body = match api {
            Api::OpenAiResponses => {
                json!({"id": "r", "status": "completed", "model": "m", "output": calls.map(item).collect::<Vec<_>>()})
            }
            Api::AnthropicMessages => {
                json!({"id": "m", "type": "message", "role": "assistant", "model": "m", "content": calls.map(block).collect::<Vec<_>>(), "stop_reason": "tool_use"})
            }
            Api::OpenAiChat => {
                json!({"id": "c", "model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": null, "tool_calls": calls.map(tool_call).collect::<Vec<_>>()}, "finish_reason": "tool_calls"}]})
            }
            Api::Gemini => {
                json!({"responseId": "g", "candidates": [{"index": 0, "content": {"role": "model", "parts": calls.map(part).collect::<Vec<_>>()}, "finishReason": "STOP"}]})
            }
            Api::BedrockConverse => {
                let block = |number| json!({"toolUse": {"toolUseId": format!("tooluse_{number}"), "name": "exec", "input": {}}});
                json!({"output": {"message": {"role": "assistant", "content": calls.map(block).collect::<Vec<_>>()}}, "stopReason": "tool_use"})
            }
        };
        body.to_string()
    }

    /// The steps of an answer that loses every `nth` call.
    fn steps(api: Api, streams: bool, count: usize, nth: usize) -> usize {
        let request = ModelRequest::new("m", Vec::new());
        let (mut editor, answer): (Box<dyn AnswerEditor>, _) = if streams {
            (live::stream_editor(api, &request), streamed(api, count))
        } else {
            (live::whole_editor(api, &request), whole(api, count))
        };
        STEPS.with(|steps| steps.set(0));
        editor.push(answer.as_bytes()).unwrap();
        editor.finish().unwrap();
        for text in editor.fresh() {
            editor.settle(text.part, usize::MAX, Vec::new());
        }
        let removed: Vec<PartKey> =
            (0..count).step_by(nth).map(|call| editor.call_part(0, call).unwrap()).collect();
        editor.keep_calls(&removed, Some("withheld"));
        let left = String::from_utf8(editor.take().to_vec()).unwrap();
        assert!(left.contains("withheld"), "{api} {streams}: {left}");
        STEPS.with(Cell::get)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn steps_grow_with_the_calls_and_no_faster(count in 8_usize..80, nth in 1_usize..4) {
            for api in Api::ALL {
                for streams in [true, false] {
                    let (once, four) = (steps(api, streams, count, nth), steps(api, streams, 4 * count, nth));
                    prop_assert!(once > 0, "{api} {streams}: nothing was counted");
                    // Four times as much, and a little for what each answer has once.
                    prop_assert!(four <= 4 * once + 64, "{api} {streams}: {count} calls took {once}, and four times as many {four}");
                }
            }
        }
    }

    #[test]
    fn an_answer_has_only_so_many_items() {
        for (streams, answer) in
            [(true, streamed(Api::OpenAiResponses, 10_001)), (false, whole(Api::OpenAiResponses, 10_001))]
        {
            let request = ModelRequest::new("m", Vec::new());
            let mut editor = if streams {
                live::stream_editor(Api::OpenAiResponses, &request)
            } else {
                live::whole_editor(Api::OpenAiResponses, &request)
            };
            let pushed = editor.push(answer.as_bytes());
            assert!(pushed.and_then(|()| editor.finish()).is_err(), "{streams}");
        }
    }
}
