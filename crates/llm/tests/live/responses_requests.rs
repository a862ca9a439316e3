//! Requests of the Responses wire.

use backstop_hooks::conversation::{Message, Part};
use backstop_llm::live::LiveRequest;
use backstop_llm::{Api, ModelRequest};
use bytes::Bytes;
use serde_json::{Value, json};

const API: Api = Api::OpenAiResponses;

/// The fixture as it is, and with spaces.
fn bodies() -> [String; 2] {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/openai_responses/agent.request.json");
    let text = std::fs::read_to_string(path).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    [text, serde_json::to_string_pretty(&value).unwrap()]
}

fn edited(body: &str, edit: impl FnOnce(&mut ModelRequest)) -> String {
    let request = LiveRequest::read(API, Bytes::copy_from_slice(body.as_bytes())).unwrap();
    let mut new = request.request().clone();
    edit(&mut new);
    String::from_utf8(request.write(&new).to_vec()).unwrap()
}

fn decoded(body: &str) -> ModelRequest {
    API.decode_request(&serde_json::from_str(body).unwrap()).unwrap().request
}

/// The texts of all parts, for editing.
fn texts(request: &mut ModelRequest) -> Vec<&mut backstop_hooks::Text> {
    let mut found = Vec::new();
    let parts =
        request.system.iter_mut().chain(request.messages.iter_mut().flat_map(|message| &mut message.content));
    for part in parts {
        match part {
            Part::Text { text, .. } | Part::Thinking { text, .. } => found.push(text),
            Part::ToolResult(result) => {
                found.extend(result.content.iter_mut().filter_map(|part| match part {
                    Part::Text { text, .. } => Some(text),
                    _ => None,
                }));
            }
            _ => {}
        }
    }
    found
}

#[test]
fn a_rewritten_text_is_one_string() {
    for body in bodies() {
        assert_eq!(edited(&body, |_| {}), body);
        let count = texts(&mut decoded(&body)).len();
        assert!(count > 20);
        for place in 0..count {
            let mut old = String::new();
            let got = edited(&body, |new| {
                let mut texts = texts(new);
                old = texts[place].to_string();
                *texts[place] = "new \"text\"\n".into();
            });
            let literal = Value::from(old).to_string();
            let mut candidates = body.match_indices(&literal).map(|(at, found)| {
                [&body[..at], "\"new \\\"text\\\"\\n\"", &body[at + found.len()..]].concat()
            });
            assert!(candidates.any(|candidate| candidate == got), "{place}: {got}");
        }
    }
}

#[test]
fn what_is_removed_goes_and_the_rest_stays() {
    for body in bodies() {
        let request = decoded(&body);
        for place in 0..request.messages.len() {
            let got = edited(&body, |new| drop(new.messages.remove(place)));
            let mut expected = request.clone();
            expected.messages.remove(place);
            // Neighbours of the assistant's side become one message when they are read.
            let joined = API.encode_request(&expected, true);
            assert_eq!(API.encode_request(&decoded(&got), true), joined, "{place}");
            for at in 0..request.messages[place].content.len() {
                let got = edited(&body, |new| drop(new.messages[place].content.remove(at)));
                assert!(got.len() < body.len());
                let mut expected = request.clone();
                expected.messages[place].content.remove(at);
                let said = |mut request: ModelRequest| -> Vec<String> {
                    texts(&mut request).iter().map(ToString::to_string).collect()
                };
                assert_eq!(said(decoded(&got)), said(expected), "{place} {at}");
            }
        }
    }
}

#[test]
fn calls_are_edited_in_place() {
    for body in bodies() {
        for (id, arguments, old, new) in [
            ("call_1", json!({"path": "b"}), r#""{\"path\":\"a\"}""#, r#""{\"path\":\"b\"}""#),
            ("call_3", json!({"input": "safe"}), r#""*** Begin\n""#, r#""safe""#),
        ] {
            let got = edited(&body, |request| {
                for call in request.messages.iter_mut().flat_map(|message| &mut message.content) {
                    if let Part::ToolCall(call) = call
                        && call.id.as_str() == id
                    {
                        call.arguments = arguments.as_object().unwrap().clone().into();
                    }
                }
            });
            assert_eq!(got, body.replacen(old, new, 1), "{id}");
        }
        let got = edited(&body, |request| {
            for call in request.messages.iter_mut().flat_map(|message| &mut message.content) {
                if let Part::ToolCall(call) = call
                    && call.name == "shell"
                {
                    call.arguments = json!({"commands": ["true"]}).as_object().unwrap().clone().into();
                }
            }
        });
        let got: Value = serde_json::from_str(&got).unwrap();
        let call = got["input"].as_array().unwrap().iter().find(|item| item["type"] == "shell_call").unwrap();
        assert_eq!((&call["action"], &call["id"]), (&json!({"commands": ["true"]}), &json!("sh_1")));
    }
}

#[test]
fn what_is_added_is_written() {
    for body in bodies() {
        let got = edited(&body, |new| {
            new.messages.push(Message::user("And this."));
            new.messages[2].content.push(Part::text("Said."));
            new.system = vec![Part::text("You are kind.")].into();
        });
        let request = decoded(&got);
        assert_eq!(request.messages.last().unwrap().visible_text(), "And this.");
        assert!(request.messages[2].visible_text().ends_with("Said."));
        assert_eq!(request.system_text().unwrap(), *"You are kind.");
        let without = edited(&body, |new| {
            new.system.clear();
            new.messages.clear();
        });
        let without: Value = serde_json::from_str(&without).unwrap();
        assert!(without.get("instructions").is_none());
        assert!(without.get("input").is_none_or(|input| input == &json!([])));
    }
}

#[test]
fn a_short_input_stays_short() {
    let body = r#"{"model":"m", "input" : "hi \u0041", "store":false}"#;
    let got = edited(body, |new| new.messages = vec![Message::user("bye")]);
    assert_eq!(got, r#"{"model":"m", "input" : "bye", "store":false}"#);
    let two = edited(body, |new| new.messages.push(Message::user("more")));
    assert_eq!(decoded(&two).messages.len(), 2);
}

#[test]
fn tools_are_narrowed_with_their_choice() {
    for body in bodies() {
        let got = edited(&body, |new| drop(new.tools.remove(0)));
        let got: Value = serde_json::from_str(&got).unwrap();
        assert_eq!(got["tools"].as_array().unwrap().len(), 5);
        assert!(got.get("tool_choice").is_none(), "the one that it allowed is gone");
    }
}
