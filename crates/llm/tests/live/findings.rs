//! What an answer holds besides texts and calls of known forms: fields that nobody knows, things that stand where none
//! belong, and results of the provider's tools.

use backstop_llm::{Api, live};
use serde_json::{Value, json};

use super::support::{Host, read_stream, read_whole, request, stream, try_pass, whole};
use super::types::{HIDDEN, NOTE, conversed, conversed_whole, judged, messages, responses, text_item};

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
        (Api::BedrockConverse, true, conversed(&[json!({"text": "Fine."})])),
        (Api::BedrockConverse, false, conversed_whole(&[json!({"text": "Fine."})]).to_string()),
        (Api::Gemini, true, format!("data: {gemini}\n\n")),
        (Api::Gemini, false, gemini),
    ]
}

/// Where objects of the wires stand in bodies and events.
const LEVELS: [&str; 14] = [
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
    "/output/message",
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
                // A delta of Bedrock is one thing.
                if api == Api::BedrockConverse && level == "/delta" {
                    assert!(stream(api).push(answer.as_bytes()).is_err());
                    continue;
                }
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
            for value in [
                json!(null),
                json!(7),
                json!(true),
                json!(""),
                json!([]),
                json!({}),
                json!([[0.5], {"": null}]),
            ] {
                let Some(answer) = with_field(&answer, level, "futureField", &value) else { continue };
                if api == Api::BedrockConverse && level == "/delta" && !value.is_null() {
                    continue;
                }
                let (calls, left) = judged(api, streams, &answer, 7, true);
                assert_eq!((calls.len(), left), (0, answer), "{level} {value}");
            }
        }
    }
}

/// Whoever shows an object shows its keys.
#[test]
fn the_keys_of_a_field_say_something() {
    for (api, streams, answer) in answers() {
        for value in [json!({HIDDEN: null}), json!([{HIDDEN: 1}])] {
            let answer = with_field(&answer, "", "futureField", &value).unwrap();
            let (calls, left) = judged(api, streams, &answer, 7, true);
            assert_eq!(calls.len(), 1, "{answer}");
            assert!(!left.contains(HIDDEN), "{left}");
        }
    }
}

/// Only Gemini reads one field by two names.
#[test]
fn a_known_field_in_another_spelling_is_known_to_gemini_alone() {
    for (name, known_to) in [
        ("create_time", Some(Api::Gemini)),
        ("id_", None),
        ("model_", None),
        ("create__time", None),
        ("create_Time", None),
    ] {
        for (api, streams, answer) in answers() {
            let answer = with_field(&answer, "", name, &json!({"note": "words"})).unwrap();
            let (calls, _) = judged(api, streams, &answer, 7, false);
            let calls: Vec<&str> = calls.iter().map(|(name, _)| name.as_str()).collect();
            let expected: &[&str] = if known_to == Some(api) { &[] } else { &[name] };
            assert_eq!(calls, expected, "{api}: {answer}");
        }
    }
}

/// What is kept of results counts, also beside a text.
#[test]
fn results_beside_texts_count() {
    let long = "w ".repeat(1000);
    let chunk = |number: usize| {
        let note = json!([{"type": "url_citation", "url_citation": {"title": format!("{number} {long}")}}]);
        let delta = json!({"content": "a", "annotations": note, "future_field": format!("{number} {long}")});
        let choice = json!({"index": 0, "delta": delta, "finish_reason": null});
        format!("data: {}\n\n", json!({"id": "c", "model": "m", "choices": [choice]}))
    };
    let mut editor = live::stream_editor(Api::OpenAiChat, &request());
    editor.release_calls();
    for number in 0..50 {
        editor.push(chunk(number).as_bytes()).unwrap();
        for result in editor.results() {
            editor.settle_result(result.key, None);
        }
        for fresh in editor.fresh() {
            editor.settle(fresh.part, usize::MAX, Vec::new());
        }
        assert!(!editor.take().is_empty(), "it has left");
    }
    assert_eq!(editor.held_bytes(), 0);
    assert!(editor.kept_bytes() >= 50 * 2 * long.len(), "{}", editor.kept_bytes());
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

/// An answer with a result whose pieces come ahead of it.
fn in_pieces(said: &str) -> String {
    let item = |status: &str, output: Value| json!({"type": "shell_call_output", "id": "sho_1", "call_id": "c", "status": status, "output": output});
    let output = json!([{"stdout": said, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]);
    let done = item("completed", output.clone());
    let frame = |status: &str, items: Value| json!({"id": "resp_1", "object": "response", "status": status, "model": "m", "output": items});
    let piece = |kind: &str, name: &str, value: Value| json!({"type": format!("response.shell_call_output_content.{kind}"), "item_id": "sho_1", "output_index": 0, "command_index": 0, name: value});
    let mut events = [
        json!({"type": "response.created", "response": frame("in_progress", json!([]))}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": item("in_progress", json!([]))}),
        piece("delta", "delta", json!({"stdout": said})),
        piece("done", "output", output),
        json!({"type": "response.output_item.done", "output_index": 0, "item": done}),
        json!({"type": "response.output_item.added", "output_index": 1, "item": text_item()}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": text_item()}),
        json!({"type": "response.completed", "response": frame("completed", json!([done, text_item()]))}),
    ];
    let mut out = String::new();
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = number.into();
        out += &format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    }
    out
}

/// Judges all results, and puts `new` in the place of a word.
fn with_results_judged(answer: &str, chunk: usize, new: &str) -> String {
    let mut editor = live::stream_editor(Api::OpenAiResponses, &request());
    let mut host = Host::default();
    let mut judged = |editor: &mut dyn live::AnswerEditor| {
        for result in editor.results() {
            let before = String::from_utf8_lossy(&host.sent).into_owned();
            assert!(!result.value.to_string().contains(HIDDEN) || !before.contains(HIDDEN), "{before}");
            let cleaned = result.value.to_string().replace(HIDDEN, new);
            let cleaned: Value = serde_json::from_str(&cleaned).unwrap();
            editor.settle_result(result.key, (cleaned != result.value).then_some(&cleaned));
        }
        host.round(editor);
    };
    for piece in answer.as_bytes().chunks(chunk) {
        editor.push(piece).unwrap();
        judged(&mut *editor);
    }
    editor.finish().unwrap();
    judged(&mut *editor);
    String::from_utf8_lossy(&host.sent).into_owned()
}

/// Pieces of a result leave with it, as they came; those of one that was edited are dropped.
#[test]
fn pieces_of_a_result_wait_for_it() {
    let answer = in_pieces(HIDDEN);
    for chunk in [1, 7, 100, answer.len()] {
        assert_eq!(with_results_judged(&answer, chunk, HIDDEN), answer, "{chunk}");
        let edited = with_results_judged(&answer, chunk, "[gone]");
        assert!(!edited.contains(HIDDEN) && !edited.contains("shell_call_output_content"), "{edited}");
        assert!(edited.contains("[gone]") && edited.contains("Fine."), "{edited}");
        let numbers = edited.matches("sequence_number").count();
        assert!(edited.contains(&format!("\"sequence_number\":{}", numbers - 1)), "{edited}");
    }
}

#[test]
fn a_piece_that_belongs_to_no_result_is_refused() {
    let answer = in_pieces(HIDDEN);
    for (from, to) in [
        (r#""item_id":"sho_1","output_index":0"#, r#""item_id":"sho_1","output_index":7"#),
        (r#""item_id":"sho_1","output_index":0"#, r#""item_id":"sho_1""#),
        (r#""type":"shell_call_output""#, r#""type":"web_search_call""#),
    ] {
        let broken = answer.replace(from, to);
        assert_ne!(broken, answer, "{from}");
        let mut editor = live::stream_editor(Api::OpenAiResponses, &request());
        let mut host = Host::default();
        let read = broken.as_bytes().chunks(50).try_for_each(|piece| {
            editor.push(piece)?;
            host.round(&mut *editor);
            Ok::<_, backstop_llm::WireError>(())
        });
        assert!(read.is_err(), "{broken}");
        assert!(!String::from_utf8_lossy(&host.sent).contains("output_content"));
    }
}
