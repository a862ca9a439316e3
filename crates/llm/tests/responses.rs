//! The Responses wire: what it repeats must be the same, and what it is made of must come back.
#![expect(clippy::unwrap_used, reason = "tests may fail loudly, their helpers too")]

use std::fs;
use std::path::PathBuf;

use backstop_hooks::conversation::{Message, Part, Role, ToolResult};
use backstop_llm::sse::{SseDecoder, SseEvent};
use backstop_llm::{
    Accumulator, Api, ModelEvent, ModelRequest, ModelResponse, ProviderErrorKind, StopReason, WireError,
    estimate_tokens,
};
use serde_json::{Value, json};

const API: Api = Api::OpenAiResponses;

fn read_fixture(file: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/openai_responses");
    fs::read_to_string(folder.join(file)).unwrap()
}

/// The events of a fixture.
fn events(name: &str) -> Vec<Value> {
    let text = read_fixture(&format!("{name}.stream.sse"));
    let frames = SseDecoder::default().push(text.as_bytes()).unwrap();
    frames.iter().map(|frame| serde_json::from_str(&frame.event.as_ref().unwrap().data).unwrap()).collect()
}

fn read(events: &[Value]) -> Result<ModelResponse, WireError> {
    let (mut decoder, mut answer) = (API.stream_decoder(), Accumulator::new());
    for event in events {
        let name = event["type"].as_str().unwrap();
        decoder
            .push(&SseEvent::new(Some(name), event.to_string()))?
            .iter()
            .for_each(|event| answer.push(event));
    }
    decoder.finish()?.iter().for_each(|event| answer.push(event));
    answer.finish().map_err(|_| WireError::Truncated)
}

/// Every value in `value` for which `is_meant` holds, as a JSON pointer.
fn pointers(value: &Value, at: &str, is_meant: &dyn Fn(&str, &Value) -> bool, found: &mut Vec<String>) {
    let entries: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(at, item)| (at.to_string(), item)).collect(),
        _ => return,
    };
    for (key, inner) in entries {
        let pointer = format!("{at}/{key}");
        if is_meant(&pointer, inner) {
            found.push(pointer.clone());
        }
        pointers(inner, &pointer, is_meant, found);
    }
}

const FIXTURES: [&str; 6] = ["text", "tools", "refusal", "incomplete", "builtin", "reasoning"];

#[test]
fn no_copy_may_say_something_else() {
    // What is made anew for each copy, says nothing, or stands once.
    const FREE: [&str; 9] = [
        "obfuscation",
        "logprobs",
        "encrypted_content",
        "status",
        "type",
        "part",
        "partial_image",
        "tools",
        "model",
    ];
    let mut tried = 0;
    for name in FIXTURES {
        let whole = events(name);
        let expected = read(&whole).unwrap();
        for (place, event) in whole.iter().enumerate() {
            let kind = event["type"].as_str().unwrap();
            let is_frame =
                kind == "response.created" || kind == "response.in_progress" || kind == "response.queued";
            let is_final = matches!(kind, "response.completed" | "response.incomplete");
            let is_meant = |pointer: &str, value: &Value| {
                let in_scope = match kind {
                    _ if is_frame => pointer == "/response/id",
                    _ if is_final => pointer == "/response/id" || pointer.starts_with("/response/output/"),
                    "response.output_item.added" => {
                        ["/item/id", "/item/name", "/item/call_id"].contains(&pointer)
                    }
                    "response.content_part.done" | "response.reasoning_summary_part.done" => {
                        ["/part/text", "/part/refusal", "/item_id"].contains(&pointer)
                    }
                    // Progress of what the provider runs says nothing.
                    _ if event.as_object().unwrap().len() <= 4 || kind.contains("partial_image") => false,
                    _ => true,
                };
                let key = pointer.rsplit('/').next().unwrap();
                in_scope && value.is_string() && !FREE.contains(&key) && !pointer.contains("/logprobs/")
            };
            let mut found = Vec::new();
            pointers(event, "", &is_meant, &mut found);
            for pointer in found {
                let mut altered = whole.clone();
                let text = altered[place].pointer(&pointer).unwrap().as_str().unwrap().to_owned();
                *altered[place].pointer_mut(&pointer).unwrap() = format!("{text}!").into();
                let read = read(&altered);
                assert!(read.is_err(), "{name} {kind} {pointer}");
                tried += 1;
            }
        }
        assert_eq!(read(&whole).unwrap(), expected);
    }
    assert!(tried > 150, "{tried}");
}

#[test]
fn events_come_once_and_in_order() {
    for name in FIXTURES {
        let whole = events(name);
        for place in 0..whole.len() {
            let mut twice = whole.clone();
            twice.insert(place, whole[place].clone());
            assert!(read(&twice).is_err() || is_progress(&whole[place]), "{name}: {}", whole[place]["type"]);
        }
    }
}

/// Whether an event tells only that something goes on.
fn is_progress(event: &Value) -> bool {
    let kind = event["type"].as_str().unwrap();
    !kind.contains(".output_") && event.as_object().unwrap().len() <= 4 || kind.contains("partial_image")
}

#[test]
fn an_event_that_is_missing_is_noticed_or_repeated_elsewhere() {
    for name in FIXTURES {
        let whole = events(name);
        let expected = read(&whole).unwrap();
        for place in 0..whole.len() {
            let mut less = whole.clone();
            less.remove(place);
            if let Ok(answer) = read(&less) {
                assert_eq!(answer.message.visible_text(), expected.message.visible_text(), "{name} {place}");
                assert_eq!(
                    answer.message.tool_calls().collect::<Vec<_>>(),
                    expected.message.tool_calls().collect::<Vec<_>>(),
                    "{name} {place}"
                );
            }
        }
    }
}

#[test]
fn a_final_answer_without_output_repeats_nothing() {
    for output in [json!([]), Value::Null] {
        let mut events = events("tools");
        let expected = read(&events).unwrap();
        events.last_mut().unwrap()["response"]["output"] = output;
        assert_eq!(read(&events).unwrap(), expected);
        let open: Vec<Value> = events
            .into_iter()
            .filter(|event| event["type"] != "response.output_item.done" || event["output_index"] != 1)
            .collect();
        assert_eq!(read(&open).unwrap_err(), WireError::Truncated);
    }
}

#[test]
fn an_answer_may_come_with_its_last_event_alone() {
    let all = events("tools");
    let expected = read(&all).unwrap();
    let few = [all.first().unwrap().clone(), all.last().unwrap().clone()];
    let answer = read(&few).unwrap();
    assert_eq!(answer.message.tool_calls().count(), expected.message.tool_calls().count());
    assert_eq!(answer.message.visible_text(), expected.message.visible_text());
}

#[test]
fn contradictions_are_refused() {
    let all = events("text");
    let created = all.first().unwrap().clone();
    let with_last = |change: &dyn Fn(&mut Value)| {
        let mut events = all.clone();
        change(events.last_mut().unwrap());
        read(&events)
    };
    let out_of_order = |read: Result<ModelResponse, WireError>| {
        assert!(matches!(read, Err(WireError::OutOfOrder { .. })), "{read:?}");
    };
    out_of_order(with_last(&|last| last["response"]["status"] = "incomplete".into()));
    out_of_order(with_last(&|last| last["response"]["output"][0]["type"] = "reasoning".into()));
    out_of_order(with_last(&|last| {
        let item = last["response"]["output"][0].clone();
        last["response"]["output"].as_array_mut().unwrap().push(item);
    }));
    assert!(with_last(&|last| last["response"]["output_text"] = "Bye".into()).is_err());
    out_of_order(read(&[created.clone(), created.clone()]));
    out_of_order(read(&all[1..]));
    let spoken = json!({"type": "response.audio.transcript.delta", "delta": "Psst", "sequence_number": 1});
    out_of_order(read(&[created.clone(), spoken]));
    let begun = |kind: &str| {
        let item = json!({"type": kind, "id": "i", "name": "n", "call_id": "c"});
        json!({"type": "response.output_item.added", "output_index": 0, "sequence_number": 1, "item": item})
    };
    for (item, event) in [
        ("message_of_tomorrow", "output_text.delta"),
        ("web_search_call", "reasoning_text.delta"),
        ("message", "function_call_arguments.delta"),
        ("mcp_call", "function_call_arguments.delta"),
        ("function_call", "custom_tool_call_input.delta"),
        ("reasoning", "refusal.delta"),
    ] {
        let more = json!({"type": format!("response.{event}"), "output_index": 0, "content_index": 0, "delta": "x", "sequence_number": 2});
        out_of_order(read(&[created.clone(), begun(item), more]));
    }
    let named = SseEvent::new(Some("response.in_progress"), created.to_string());
    assert!(API.stream_decoder().push(&named).is_err());
}

#[test]
fn failures_are_typed() {
    let failed = |code: &str| {
        let response =
            json!({"id": "r", "status": "failed", "output": [], "error": {"code": code, "message": "no"}});
        let event = json!({"type": "response.failed", "sequence_number": 1, "response": response});
        let created = json!({"type": "response.created", "sequence_number": 0, "response": {"id": "r"}});
        let streamed = read(&[created, event]).unwrap_err();
        assert_eq!(streamed, API.decode_response(&response).unwrap_err());
        match streamed {
            WireError::Provider(error) => error.kind,
            other => panic!("{other}"),
        }
    };
    assert_eq!(failed("server_error"), ProviderErrorKind::Server);
    assert_eq!(failed("rate_limit_exceeded"), ProviderErrorKind::RateLimit);
    assert_eq!(failed("invalid_prompt"), ProviderErrorKind::InvalidRequest);
    assert_eq!(failed("image_content_policy_violation"), ProviderErrorKind::ContentFilter);
    assert_eq!(failed("image_too_large"), ProviderErrorKind::InvalidRequest);
    for event in [
        json!({"type": "error", "code": "rate_limit_exceeded", "message": "slow", "param": null, "sequence_number": 3}),
        json!({"type": "error", "error": {"type": "requests", "code": "rate_limit_exceeded", "message": "slow"}}),
    ] {
        match read(&[event]) {
            Err(WireError::Provider(error)) => {
                assert_eq!((error.kind, error.message.as_str()), (ProviderErrorKind::RateLimit, "slow"));
                let again: Value = serde_json::from_str(&API.encode_stream_error(&error).data).unwrap();
                assert!(
                    matches!(read(&[again]), Err(WireError::Provider(again)) if again.kind == error.kind)
                );
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_the_client_runs_is_a_tool_call() {
    let answer = read(&events("tools")).unwrap();
    let calls: Vec<_> =
        answer.message.tool_calls().map(|call| (call.name.as_str(), call.id.as_str())).collect();
    let names = ["read", "read", "now", "apply", "local_shell", "shell", "apply_patch", "computer"];
    assert_eq!(calls.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
    let call = |id: &str| answer.message.tool_calls().find(|call| call.id.as_str() == id).unwrap();
    assert_eq!(call("call_2").malformed.as_deref(), Some("{\"path\":"));
    assert_eq!(call("call_4").arguments.get("input"), Some(&json!("*** Begin\n+\"é\"\n")));
    assert_eq!(call("call_5").arguments.get("command"), Some(&json!(["ls", "-l"])));
    assert_eq!(call("call_6").arguments.get("commands"), Some(&json!(["pwd"])));
    assert_eq!(call("call_7").arguments.get("path"), Some(&json!("a")));
    assert_eq!(answer.stop, StopReason::ToolUse);
    assert_eq!(answer.extra.get("usage"), Some(&json!({"output_tokens_details": {"reasoning_tokens": 12}})));
    let usage = answer.usage;
    assert_eq!((usage.input, usage.cache_read, usage.cache_write, usage.output), (35, 20, 5, 30));
    let done = read(&events("builtin")).unwrap();
    // What the provider runs is none; what it wants to be allowed is one.
    let asked: Vec<&str> = done.message.tool_calls().map(|call| call.name.as_str()).collect();
    assert_eq!((asked, done.stop), (vec!["mcp__docs__drop"], StopReason::ToolUse));
    assert_eq!(read(&events("incomplete")).unwrap().stop, StopReason::MaxTokens);
}

#[test]
fn deltas_of_a_call_are_its_arguments() {
    let mut decoder = API.stream_decoder();
    let mut told: std::collections::BTreeMap<usize, String> = std::collections::BTreeMap::new();
    for event in events("tools") {
        for event in decoder.push(&SseEvent::new(None, event.to_string())).unwrap() {
            match event {
                ModelEvent::ToolCallArguments { index, delta } => {
                    told.entry(index).or_default().push_str(&delta);
                }
                ModelEvent::PartFinished { index, part: Part::ToolCall(call) } => {
                    let arguments = match &call.malformed {
                        Some(text) => text.to_string(),
                        None if call.arguments.is_empty() => String::new(),
                        None => call.arguments.to_value().to_string(),
                    };
                    let told = told.remove(&index).unwrap_or_default();
                    let same =
                        serde_json::from_str::<Value>(&told).ok() == serde_json::from_str(&arguments).ok();
                    assert!(told == arguments || same, "{told} {arguments}");
                }
                _ => {}
            }
        }
    }
    assert!(told.is_empty());
}

#[test]
fn results_go_back_in_the_form_of_their_call() {
    let answer = read(&events("tools")).unwrap();
    let results = answer.message.tool_calls().map(|call| ToolResult::text(call, "fine", false));
    let results: Vec<Message> =
        results.map(|result| Message::new(Role::Tool, vec![Part::ToolResult(result)])).collect();
    let messages = [vec![Message::user("go"), answer.message.clone()], results].concat();
    let body = API.encode_request(&ModelRequest::new("m", messages), false);
    let items: Vec<&str> =
        body["input"].as_array().unwrap().iter().filter_map(|item| item["type"].as_str()).collect();
    let (calls, outputs): (Vec<&str>, Vec<&str>) =
        items.iter().filter(|kind| kind.contains("_call")).partition(|kind| !kind.ends_with("_output"));
    let expected: Vec<String> = calls.iter().map(|call| format!("{call}_output")).collect();
    assert_eq!(outputs[..7], expected[..7]);
    let shell =
        body["input"].as_array().unwrap().iter().find(|item| item["type"] == "shell_call_output").unwrap();
    assert_eq!(shell["output"][0]["stdout"], "fine");
}

#[test]
fn a_rewritten_call_says_what_was_judged() {
    let mut answer = read(&events("tools")).unwrap();
    for part in &mut answer.message.content {
        if let Part::ToolCall(call) = part {
            match call.id.as_str() {
                "call_4" => {
                    call.arguments = [("input".to_owned(), json!("safe"))]
                        .into_iter()
                        .collect::<serde_json::Map<_, _>>()
                        .into();
                }
                "call_5" => call.name = "other".to_owned(),
                _ => {}
            }
        }
    }
    let body = API.encode_response(&answer);
    let item =
        |call: &str| body["output"].as_array().unwrap().iter().find(|item| item["call_id"] == call).unwrap();
    assert_eq!(item("call_4")["input"], "safe");
    assert_eq!(
        (&item("call_5")["type"], &item("call_5")["name"]),
        (&json!("function_call"), &json!("other"))
    );
}

#[test]
fn requests_have_many_forms() {
    let decode = |body: Value| API.decode_request(&body).unwrap().request;
    assert_eq!(decode(json!({"model": "m", "input": "hi"})).messages, [Message::user("hi")]);
    let stored =
        json!({"prompt": {"id": "p"}, "previous_response_id": "r", "conversation": "c", "background": true});
    assert_eq!(API.encode_request(&decode(stored.clone()), false), stored);
    for body in [
        json!({"input": 5}),
        json!({"input": [{"role": "critic", "content": ""}]}),
        json!([]),
        json!({"input": [5]}),
    ] {
        assert!(API.decode_request(&body).is_err(), "{body}");
    }
    let request = decode(serde_json::from_str(&read_fixture("agent.request.json")).unwrap());
    assert!(estimate_tokens(&request) > 100);
    let roles: Vec<Role> = request.messages.iter().map(|message| message.role).collect();
    assert_eq!(roles[..4], [Role::System, Role::User, Role::Assistant, Role::Tool]);
    assert_eq!(request.system_text().unwrap(), *"You are careful.");
    // Reasoning of another wire stays home.
    let foreign = Message::new(
        Role::Assistant,
        vec![Part::Thinking { text: "hm".into(), meta: None }, Part::text("a")],
    );
    let body = API.encode_request(&ModelRequest::new("m", vec![foreign]), false);
    assert_eq!(body["input"].as_array().unwrap().len(), 1);
}
