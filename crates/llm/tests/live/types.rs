//! Things of types that no table knows, and of types that make a client act: they are held and judged like calls.

use backstop_llm::Api;
use backstop_llm::live::PartKey;
use serde_json::{Map, Value, json};

use super::support::{Host, read_stream, read_whole, stream, whole};

pub(super) const NOTE: &str = "One call was withheld.";
/// What no client may be told unjudged.
pub(super) const HIDDEN: &str = "h1dden-argument";

/// A thing of an answer that must be judged, and as what it is shown to the judge.
struct Thing {
    api: Api,
    value: Value,
    name: &'static str,
}

fn things() -> Vec<Thing> {
    let thing = |api, name, value| Thing { api, name, value };
    let item = |name, value| thing(Api::OpenAiResponses, name, value);
    let block = |name, value| thing(Api::AnthropicMessages, name, value);
    vec![
        item(
            "mcp__shop__drop_all",
            json!({"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "shop", "name": "drop_all", "arguments": json!({"why": HIDDEN}).to_string()}),
        ),
        item(
            "tool_search_call",
            json!({"type": "tool_search_call", "id": "tsc_1", "call_id": "call_9", "execution": "client", "status": "completed", "arguments": {"query": HIDDEN}}),
        ),
        item(
            "program",
            json!({"type": "program", "id": "prg_1", "call_id": "call_9", "fingerprint": "f", "code": HIDDEN}),
        ),
        item(
            "multi_agent_call",
            json!({"type": "multi_agent_call", "id": "mac_1", "call_id": "call_9", "arguments": HIDDEN}),
        ),
        item(
            "mcp_approval_response",
            json!({"type": "mcp_approval_response", "id": "x", "approval_request_id": HIDDEN, "approve": true}),
        ),
        item("future_call", json!({"type": "future_call", "id": "fut_1", "what": {"to": [HIDDEN]}})),
        item("future_call_output", json!({"type": "future_call_output", "id": "fut_1", "output": HIDDEN})),
        item(
            "Function_Call",
            json!({"type": "Function_Call", "id": "fc_1", "call_id": "c", "name": "read", "arguments": HIDDEN}),
        ),
        item(
            "messag\u{435}",
            json!({"type": "messag\u{435}", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": HIDDEN}]}),
        ),
        block(
            "client_tool_use",
            json!({"type": "client_tool_use", "id": "toolu_9", "name": "exec", "input": {"command": HIDDEN}}),
        ),
        block(
            "Tool_Use",
            json!({"type": "Tool_Use", "id": "toolu_9", "name": "exec", "input": {"command": HIDDEN}}),
        ),
        block("future_block", json!({"type": "future_block", "says": HIDDEN})),
        thing(Api::BedrockConverse, "futureUse", json!({"futureUse": {"command": HIDDEN}})),
        thing(
            Api::BedrockConverse,
            "ToolUse_",
            json!({"ToolUse_": {"toolUseId": "t", "name": "read", "input": HIDDEN}}),
        ),
        thing(
            Api::BedrockConverse,
            "audio",
            json!({"audio": {"format": "mp3", "source": {"bytes": HIDDEN}}}),
        ),
        thing(Api::BedrockConverse, "toolAddition", json!({"toolAddition": {"tool": {"name": HIDDEN}}})),
        thing(Api::Gemini, "futureCall", json!({"futureCall": {"args": HIDDEN}})),
        thing(
            Api::OpenAiChat,
            "apply_patch",
            json!({"index": 0, "id": "call_9", "type": "custom", "custom": {"name": "apply_patch", "input": HIDDEN}}),
        ),
        thing(
            Api::OpenAiChat,
            "future_call",
            json!({"index": 0, "id": "call_9", "type": "future_call", "future_call": {"do": HIDDEN}}),
        ),
        thing(
            Api::OpenAiChat,
            "Function",
            json!({"index": 0, "id": "call_9", "type": "Function", "Function_": {"name": "read", "arguments": HIDDEN}}),
        ),
    ]
}

fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// A streamed answer of OpenAI Responses with these items.
pub(super) fn responses(items: &[Value]) -> String {
    let mut out = String::new();
    let mut number = 0;
    let mut push = |mut data: Value| {
        data["sequence_number"] = number.into();
        number += 1;
        out += &event(data["type"].as_str().unwrap(), &data);
    };
    let frame = |status: &str, output: &[Value]| json!({"id": "resp_1", "object": "response", "status": status, "model": "m", "output": output});
    push(json!({"type": "response.created", "response": frame("in_progress", &[])}));
    for (index, item) in items.iter().enumerate() {
        push(json!({"type": "response.output_item.added", "output_index": index, "item": item}));
        push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    push(json!({"type": "response.completed", "response": frame("completed", items)}));
    out
}

/// A streamed answer of Anthropic Messages with these blocks.
pub(super) fn messages(blocks: &[Value]) -> String {
    let start = json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": null, "usage": {"input_tokens": 1, "output_tokens": 1}}});
    let mut out = event("message_start", &start);
    for (index, block) in blocks.iter().enumerate() {
        out += &event(
            "content_block_start",
            &json!({"type": "content_block_start", "index": index, "content_block": block}),
        );
        out += &event("content_block_stop", &json!({"type": "content_block_stop", "index": index}));
    }
    let delta = json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"output_tokens": 3}});
    out += &event("message_delta", &delta);
    out + &event("message_stop", &json!({"type": "message_stop"}))
}

/// A streamed answer of Bedrock with these blocks.
pub(super) fn conversed(blocks: &[Value]) -> String {
    let mut out = event("messageStart", &json!({"role": "assistant"}));
    for (index, block) in blocks.iter().enumerate() {
        out += &match block.get("text") {
            Some(_) => event("contentBlockDelta", &json!({"contentBlockIndex": index, "delta": block})),
            None => event("contentBlockStart", &json!({"contentBlockIndex": index, "start": block})),
        };
        out += &event("contentBlockStop", &json!({"contentBlockIndex": index}));
    }
    out += &event("messageStop", &json!({"stopReason": "tool_use"}));
    out + &event(
        "metadata",
        &json!({"usage": {"inputTokens": 1, "outputTokens": 3, "totalTokens": 4}, "metrics": {"latencyMs": 5}}),
    )
}

/// The same in one piece.
pub(super) fn conversed_whole(blocks: &[Value]) -> Value {
    json!({
        "output": {"message": {"role": "assistant", "content": blocks}}, "stopReason": "tool_use",
        "usage": {"inputTokens": 1, "outputTokens": 3, "totalTokens": 4}, "metrics": {"latencyMs": 5},
    })
}

pub(super) fn text_item() -> Value {
    json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": "Fine.", "annotations": []}]})
}

fn streamed(thing: &Thing) -> String {
    let value = &thing.value;
    match thing.api {
        Api::OpenAiResponses => responses(&[text_item(), value.clone()]),
        Api::AnthropicMessages => messages(&[json!({"type": "text", "text": "Fine."}), value.clone()]),
        Api::BedrockConverse => conversed(&[json!({"text": "Fine."}), value.clone()]),
        Api::Gemini => {
            let piece = |parts: Value, reason: Value| {
                let candidate =
                    json!({"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": reason});
                format!(
                    "data: {}\n\n",
                    json!({"responseId": "g", "modelVersion": "m", "candidates": [candidate]})
                )
            };
            piece(json!([{"text": "Fine."}]), Value::Null) + &piece(json!([value]), "STOP".into())
        }
        Api::OpenAiChat => {
            let chunk = |delta: Value, reason: Value| {
                let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
                format!("data: {}\n\n", json!({"id": "c", "model": "m", "choices": [choice]}))
            };
            chunk(json!({"role": "assistant", "content": "Fine."}), Value::Null)
                + &chunk(json!({"tool_calls": [value]}), Value::Null)
                + &chunk(json!({}), "tool_calls".into())
                + "data: [DONE]\n\n"
        }
    }
}

fn in_one_piece(thing: &Thing) -> String {
    let value = &thing.value;
    let body = match thing.api {
        Api::OpenAiResponses => {
            json!({"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": [text_item(), value]})
        }
        Api::AnthropicMessages => {
            json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "Fine."}, value], "stop_reason": "tool_use", "usage": {"input_tokens": 1, "output_tokens": 2}})
        }
        Api::BedrockConverse => conversed_whole(&[json!({"text": "Fine."}), value.clone()]),
        Api::Gemini => {
            json!({"responseId": "g", "modelVersion": "m", "candidates": [{"content": {"role": "model", "parts": [{"text": "Fine."}, value]}, "finishReason": "STOP"}]})
        }
        Api::OpenAiChat => {
            json!({"id": "c", "model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Fine.", "tool_calls": [value]}, "finish_reason": "tool_calls"}]})
        }
    };
    body.to_string()
}

/// Passes an answer; gives the calls that a judge is shown, and what leaves once those of `removed` are removed.
pub(super) fn judged(
    api: Api,
    streams: bool,
    answer: &str,
    chunk: usize,
    removes: bool,
) -> (Vec<(String, Value)>, String) {
    let mut editor = if streams { stream(api) } else { whole(api) };
    let mut host = Host::default();
    for piece in answer.as_bytes().chunks(chunk) {
        editor.push(piece).unwrap_or_else(|error| panic!("{error}: {answer}"));
        host.round(&mut *editor);
    }
    editor.finish().unwrap_or_else(|error| panic!("{error}: {answer}"));
    host.round(&mut *editor);
    let so_far = String::from_utf8_lossy(&host.sent);
    assert!(!so_far.contains(HIDDEN), "it left unjudged: {so_far}");
    let calls: Vec<(String, Value)> = editor.responses()[0]
        .message
        .tool_calls()
        .map(|call| (call.name.clone(), call.arguments.to_value()))
        .collect();
    let parts: Vec<PartKey> = (0..calls.len()).map(|call| editor.call_part(0, call).unwrap()).collect();
    assert_eq!(editor.call_part(0, calls.len()), None);
    editor.keep_calls(if removes { &parts } else { &[] }, Some(NOTE));
    host.take(&mut *editor);
    assert_eq!(editor.held_bytes(), 0);
    (calls, String::from_utf8(host.sent).unwrap())
}

#[test]
fn what_nobody_knows_is_judged_as_a_call() {
    for thing in things() {
        for (streams, answer) in [(true, streamed(&thing)), (false, in_one_piece(&thing))] {
            for chunk in [1, 7, answer.len()] {
                let (calls, left) = judged(thing.api, streams, &answer, chunk, false);
                let [(name, arguments)] = calls.as_slice() else { panic!("{calls:?}: {answer}") };
                assert_eq!(name, thing.name, "{answer}");
                assert!(arguments.to_string().contains(HIDDEN), "{name}: {arguments}");
                assert_eq!(left, answer, "untouched is identical");
            }
        }
    }
}

#[test]
fn a_call_of_no_known_type_has_the_whole_of_it_as_arguments() {
    for thing in things().into_iter().filter(|thing| thing.name.starts_with("future")) {
        for (streams, answer) in [(true, streamed(&thing)), (false, in_one_piece(&thing))] {
            let (calls, _) = judged(thing.api, streams, &answer, answer.len(), false);
            assert_eq!(calls, [(thing.name.to_owned(), thing.value.clone())]);
        }
    }
}

#[test]
fn removed_it_is_in_no_copy() {
    for thing in things() {
        for (streams, answer) in [(true, streamed(&thing)), (false, in_one_piece(&thing))] {
            let (_, left) = judged(thing.api, streams, &answer, 7, true);
            assert!(!left.contains(HIDDEN), "{}: {left}", thing.name);
            let read = if streams {
                read_stream(thing.api, left.as_bytes()).unwrap()
            } else {
                read_whole(thing.api, left.as_bytes())
            };
            assert_eq!(read.message.tool_calls().count(), 0, "{left}");
            let text = read.message.visible_text();
            assert!(text.starts_with("Fine.") && text.ends_with(NOTE), "{text}");
        }
    }
}

/// Streams with an event or a delta that nobody knows, and what it is called.
fn with_unknown_events() -> Vec<(Api, &'static str, String)> {
    let answer = responses(&[text_item()]);
    let event_of = |kind: &str, more: Value| {
        let mut data =
            Map::from_iter([("type".to_owned(), kind.into()), ("hidden".to_owned(), HIDDEN.into())]);
        data.extend(more.as_object().unwrap().clone());
        event(kind, &data.into())
    };
    let at = |text: &str, mark: &str, more: &str| {
        let place = text.find(mark).unwrap();
        format!("{}{more}{}", &text[..place], &text[place..])
    };
    let last = "event: response.completed";
    let said = messages(&[json!({"type": "text", "text": "Fine."})]);
    let conversed = conversed(&[json!({"text": "Fine."})]);
    let delta = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "future_delta", "hidden": HIDDEN}});
    vec![
        (
            Api::OpenAiResponses,
            "response.future_call.requested",
            at(&answer, last, &event_of("response.future_call.requested", json!({}))),
        ),
        (
            Api::OpenAiResponses,
            "response.future.delta",
            at(
                &answer,
                "event: response.output_item.done",
                &event_of("response.future.delta", json!({"output_index": 0})),
            ),
        ),
        (Api::OpenAiResponses, "tool.requested", at(&answer, last, &event_of("tool.requested", json!({})))),
        (
            Api::AnthropicMessages,
            "future_event",
            at(&said, "event: message_delta", &event_of("future_event", json!({}))),
        ),
        (
            Api::AnthropicMessages,
            "future_delta",
            at(&said, "event: content_block_stop", &event("content_block_delta", &delta)),
        ),
        (
            Api::BedrockConverse,
            "futureEvent",
            at(&conversed, "event: messageStop", &event("futureEvent", &json!({"hidden": HIDDEN}))),
        ),
        (
            Api::BedrockConverse,
            "MessageStop",
            at(&conversed, "event: messageStop", &event("MessageStop", &json!({"hidden": HIDDEN}))),
        ),
        (
            Api::BedrockConverse,
            "futureDelta",
            at(
                &conversed,
                "event: contentBlockStop",
                &event(
                    "contentBlockDelta",
                    &json!({"contentBlockIndex": 0, "delta": {"futureDelta": HIDDEN}}),
                ),
            ),
        ),
        (
            Api::AnthropicMessages,
            "Message_Stop",
            at(&said, "event: message_delta", &event_of("Message_Stop", json!({}))),
        ),
    ]
}

#[test]
fn events_that_nobody_knows_are_judged_as_calls() {
    for (api, name, answer) in with_unknown_events() {
        let (calls, left) = judged(api, true, &answer, 5, false);
        assert_eq!(calls.len(), 1, "{answer}");
        assert_eq!(calls[0].0, name);
        assert!(calls[0].1.to_string().contains(HIDDEN));
        assert_eq!(left, answer);
        let (_, left) = judged(api, true, &answer, 5, true);
        assert!(!left.contains(HIDDEN), "{left}");
        assert!(read_stream(api, left.as_bytes()).unwrap().message.visible_text().ends_with(NOTE));
    }
}

#[test]
fn events_of_one_unknown_type_are_one_call() {
    let (api, _, answer) = with_unknown_events().remove(0);
    let begin = answer.find("event: response.future_call.requested").unwrap();
    let end = answer.find("event: response.completed").unwrap();
    // What is said again in the same words is one.
    let again = answer[begin..end].replace(HIDDEN, "another");
    let twice = format!("{}{}{again}{}", &answer[..end], &answer[begin..end], &answer[end..]);
    let (calls, _) = judged(api, true, &twice, 9, false);
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].1["events"].as_array().unwrap().len(), 2);
    assert_eq!(calls[0].1["type"], "response.future_call.requested");
}

#[test]
fn behind_the_end_nothing_unknown_follows() {
    for (api, answer) in [
        (Api::OpenAiResponses, responses(&[text_item()])),
        (Api::AnthropicMessages, messages(&[json!({"type": "text", "text": "Fine."})])),
        (Api::BedrockConverse, conversed(&[json!({"text": "Fine."})])),
    ] {
        let late = event("future", &json!({"type": "future", "hidden": HIDDEN}));
        let mut editor = stream(api);
        editor.push(answer.as_bytes()).unwrap();
        assert!(editor.push(late.as_bytes()).is_err(), "{api}");
    }
}

#[test]
fn too_many_unknown_types_are_refused() {
    let event_of = |number: usize| event(&format!("x{number}"), &json!({"type": format!("x{number}")}));
    let mut editor = stream(Api::AnthropicMessages);
    editor.push(messages(&[]).split("event: message_delta").next().unwrap().as_bytes()).unwrap();
    (0..64).for_each(|number| editor.push(event_of(number).as_bytes()).unwrap());
    assert!(editor.push(event_of(64).as_bytes()).is_err());
}

#[test]
fn parts_that_nobody_knows_are_refused() {
    let part = json!({"type": "output_hologram", "hologram": HIDDEN});
    let mut item = text_item();
    item["content"].as_array_mut().unwrap().push(part.clone());
    let mut editor = stream(Api::OpenAiResponses);
    assert!(editor.push(responses(&[item.clone()]).as_bytes()).is_err());
    let mut editor = whole(Api::OpenAiResponses);
    let thing = Thing { api: Api::OpenAiResponses, value: item, name: "" };
    editor.push(in_one_piece(&thing).as_bytes()).unwrap();
    assert!(editor.finish().is_err());
    // Beside a text of Gemini a call could hide.
    let both =
        Thing { api: Api::Gemini, value: json!({"text": "Fine.", "futureCall": {"args": HIDDEN}}), name: "" };
    assert!(stream(Api::Gemini).push(streamed(&both).as_bytes()).is_err());
    let mut editor = whole(Api::Gemini);
    editor.push(in_one_piece(&both).as_bytes()).unwrap();
    assert!(editor.finish().is_err());
}

#[test]
fn a_type_that_stands_twice_is_refused() {
    let twice = r#"{"type":"message","type":"function_call","id":"a","role":"assistant","content":[]}"#;
    let answer = responses(&[json!({"type": "placeholder"})]).replace(r#"{"type":"placeholder"}"#, twice);
    assert!(answer.contains(twice));
    assert!(stream(Api::OpenAiResponses).push(answer.as_bytes()).is_err());
}

#[test]
fn a_custom_call_of_the_chat_wire_comes_in_pieces() {
    let chunk = |delta: Value, reason: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        format!("data: {}\n\n", json!({"id": "c", "model": "m", "choices": [choice]}))
    };
    let call = |more: Value| chunk(json!({"tool_calls": [more]}), Value::Null);
    let begun = call(
        json!({"index": 0, "id": "call_1", "type": "custom", "custom": {"name": "apply_patch", "input": ""}}),
    );
    let end = chunk(json!({}), "tool_calls".into()) + "data: [DONE]\n\n";
    let answer = [
        begun.clone(),
        call(json!({"index": 0, "custom": {"input": "*** Begin \"x\"\n"}})),
        call(json!({"index": 0, "custom": {"input": "*** End"}})),
        end.clone(),
    ]
    .concat();
    let read = read_stream(Api::OpenAiChat, answer.as_bytes()).unwrap();
    let found: Vec<_> = read.message.tool_calls().collect();
    assert_eq!(found[0].name, "apply_patch");
    assert_eq!(found[0].arguments.to_value(), json!({"input": "*** Begin \"x\"\n*** End"}));
    // As it came, in a request that takes it back.
    let body = Api::OpenAiChat.encode_response(&read);
    assert_eq!(
        body["choices"][0]["message"]["tool_calls"],
        json!([{"id": "call_1", "type": "custom", "custom": {"name": "apply_patch", "input": "*** Begin \"x\"\n*** End"}}])
    );
    // A call is of one type.
    for other in [
        json!({"index": 0, "type": "function", "function": {"arguments": "{}"}}),
        json!({"index": 0, "function": {"arguments": "{}"}}),
        json!({"index": 0, "custom": {"input": "x"}, "function": {"arguments": "{}"}}),
        json!({"index": 0, "custom": {"name": "exec", "input": "x"}}),
    ] {
        let bad = [begun.clone(), call(other), end.clone()].concat();
        assert!(read_stream(Api::OpenAiChat, bad.as_bytes()).is_err(), "{bad}");
    }
}
