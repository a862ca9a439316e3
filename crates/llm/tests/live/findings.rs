//! What an answer holds besides texts and calls of known forms: fields that nobody knows, things that stand where none
//! belong, and results of the provider's tools.

use backstop_llm::{Api, live};
use serde_json::{Value, json};

use super::support::{Host, read_stream, read_whole, request, stream, try_pass, whole};
use super::types::{HIDDEN, NOTE, judged, messages, responses, text_item};

/// A harmless answer of each wire, streamed and in one piece.
fn answers() -> Vec<(Api, bool, String)> {
    let said = json!({"type": "text", "text": "Fine."});
    let chunk = |delta: Value, reason: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        format!("data: {}\n\n", json!({"id": "c", "model": "m", "choices": [choice]}))
    };
    let chat = chunk(json!({"role": "assistant", "content": "Fine."}), Value::Null)
        + &chunk(json!({}), "stop".into())
        + "data: [DONE]\n\n";
    let candidate = json!({"index": 0, "content": {"role": "model", "parts": [{"text": "Fine."}]}, "finishReason": "STOP"});
    let gemini = json!({"responseId": "g", "modelVersion": "m", "candidates": [candidate]}).to_string();
    vec![
        (Api::OpenAiResponses, true, responses(&[text_item()])),
        (
            Api::OpenAiResponses,
            false,
            json!({"id": "r", "object": "response", "status": "completed", "model": "m", "output": [text_item()]}).to_string(),
        ),
        (Api::AnthropicMessages, true, messages(std::slice::from_ref(&said))),
        (
            Api::AnthropicMessages,
            false,
            json!({"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [said], "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 2}}).to_string(),
        ),
        (Api::OpenAiChat, true, chat),
        (
            Api::OpenAiChat,
            false,
            json!({"id": "c", "model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Fine."}, "finish_reason": "stop"}]}).to_string(),
        ),
        (Api::Gemini, true, format!("data: {gemini}\n\n")),
        (Api::Gemini, false, gemini),
    ]
}

/// Where objects of the wires stand in bodies and events.
const LEVELS: [&str; 13] = [
    "",
    "/choices/0",
    "/choices/0/message",
    "/choices/0/delta",
    "/message",
    "/content/0",
    "/content_block",
    "/delta",
    "/response",
    "/output/0",
    "/output/0/content/0",
    "/candidates/0",
    "/candidates/0/content",
];

/// The answer with a field in every object at `level`; `None` if there is none.
fn with_field(answer: &str, level: &str, name: &str, value: &Value) -> Option<String> {
    // Events say an item more than once, and must say the same.
    if let (Some(level), true) = (level.strip_prefix("/output/0"), answer.starts_with("event: response.")) {
        let mut item = text_item();
        item.pointer_mut(level)?.as_object_mut()?.insert(name.to_owned(), value.clone());
        return Some(responses(&[item]));
    }
    let mut found = false;
    let mut insert = |text: &str| -> String {
        let Ok(mut body) = serde_json::from_str::<Value>(text) else { return text.to_owned() };
        match body.pointer_mut(level) {
            Some(Value::Object(object)) => {
                object.insert(name.to_owned(), value.clone());
                found = true;
                body.to_string()
            }
            _ => text.to_owned(),
        }
    };
    let changed = if answer.starts_with('{') {
        insert(answer)
    } else {
        let lines = answer.split('\n').map(|line| match line.strip_prefix("data: ") {
            Some(data) => format!("data: {}", insert(data)),
            None => line.to_owned(),
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    found.then_some(changed)
}

#[test]
fn a_field_that_nobody_knows_is_a_call_named_after_it() {
    let mut seen = 0;
    for (api, streams, answer) in answers() {
        for level in LEVELS {
            for value in [json!({"do": [HIDDEN]}), json!(format!("{HIDDEN} and more"))] {
                let Some(answer) = with_field(&answer, level, "futureField", &value) else { continue };
                seen += 1;
                for chunk in [1, 7, answer.len()] {
                    let (calls, left) = judged(api, streams, &answer, chunk, false);
                    let [(name, arguments)] = calls.as_slice() else { panic!("{level} {calls:?}: {answer}") };
                    assert_eq!(name, "futureField", "{answer}");
                    assert!(arguments.to_string().contains(HIDDEN), "{arguments}");
                    assert_eq!(left, answer, "untouched is identical");
                }
                let (_, left) = judged(api, streams, &answer, 7, true);
                assert!(!left.contains(HIDDEN), "{level}: {left}");
                let read = if streams {
                    read_stream(api, left.as_bytes()).unwrap()
                } else {
                    read_whole(api, left.as_bytes())
                };
                let text = read.message.visible_text();
                assert!(text.starts_with("Fine.") && text.ends_with(NOTE), "{level}: {left}");
            }
        }
    }
    assert!(seen > 40, "{seen}");
}

/// What says nothing is no call: servers fill fields that they know of.
#[test]
fn a_field_that_says_nothing_is_none() {
    for (api, streams, answer) in answers() {
        for level in LEVELS {
            for value in
                [json!(null), json!(7), json!(true), json!(""), json!([]), json!({"a": null, "b": [0.5]})]
            {
                let Some(answer) = with_field(&answer, level, "futureField", &value) else { continue };
                let (calls, left) = judged(api, streams, &answer, 7, true);
                assert_eq!((calls.len(), left), (0, answer), "{level} {value}");
            }
        }
    }
}

#[test]
fn calls_and_texts_outside_of_their_place_are_refused() {
    let call = json!([{"index": 0, "id": "c", "type": "function", "function": {"name": "exec", "arguments": HIDDEN}}]);
    let function = json!({"name": "exec", "arguments": HIDDEN});
    for (api, streams, answer) in answers().into_iter().filter(|(api, ..)| *api == Api::OpenAiChat) {
        let other = if streams { "message" } else { "delta" };
        for (level, field, value) in [
            ("", "tool_calls", call.clone()),
            ("", "function_call", function.clone()),
            ("/choices/0", "tool_calls", call.clone()),
            ("/choices/0", other, json!({"role": "assistant", "tool_calls": call})),
            ("/choices/0", other, json!({"function_call": function})),
            ("/choices/0", other, json!({"content": HIDDEN})),
        ] {
            let answer = with_field(&answer, level, field, &value).unwrap();
            let mut editor = if streams { stream(api) } else { whole(api) };
            let mut host = Host::default();
            try_pass(&mut *editor, &mut host, answer.as_bytes()).unwrap_err();
            assert!(!String::from_utf8_lossy(&host.sent).contains(HIDDEN), "{answer}");
        }
        let answer =
            with_field(&answer, "/choices/0", other, &json!({"role": "assistant", "content": ""})).unwrap();
        let (calls, left) = judged(api, streams, &answer, 7, false);
        assert_eq!((calls.len(), left), (0, answer), "it says nothing there");
    }
}

/// A result waits until it was judged, wherever the stream is cut, and what stands behind it waits, too.
#[test]
fn a_result_leaves_when_it_was_judged_and_as_it_was_edited() {
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "t", "content": [{"title": HIDDEN}]});
    let said = json!({"type": "text", "text": "Fine."});
    let answer = messages(&[found.clone(), said]);
    for cut in 0..answer.len() {
        let mut editor = live::stream_editor(Api::AnthropicMessages, &request());
        let mut host = Host::default();
        let mut results = Vec::new();
        for piece in [&answer.as_bytes()[..cut], &answer.as_bytes()[cut..]] {
            editor.push(piece).unwrap();
            host.round(&mut *editor);
            results.extend(editor.results());
            let sent = String::from_utf8_lossy(&host.sent);
            assert!(!sent.contains(HIDDEN) && !sent.contains("Fine."), "{sent}");
        }
        let [result] = results.as_slice() else { panic!("{results:?}") };
        assert_eq!((result.tool, &*result.call, &result.value), ("web_search", "t", &found));
        let mut new = found.clone();
        new["content"][0]["title"] = json!("[gone]");
        editor.settle_result(result.key, Some(&new));
        host.take(&mut *editor);
        assert_eq!(String::from_utf8_lossy(&host.sent), answer.replace(HIDDEN, "[gone]"));
    }
}
