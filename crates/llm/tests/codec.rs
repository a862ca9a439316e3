//! The wires against fixtures: what is read, what is written, and what happens to streams that are cut.
#![expect(clippy::unwrap_used, reason = "tests may fail loudly, their helpers too")]

use std::fs;
use std::path::PathBuf;

use backstop_hooks::conversation::{Message, Part, Role};
use backstop_llm::sse::SseDecoder;
use backstop_llm::{
    Accumulator, Api, ModelEvent, ModelRequest, ModelResponse, ProviderErrorKind, StopReason, ThinkLevel,
    WireError,
};
use http::HeaderMap;
use serde_json::{Value, json};

fn folder(api: Api) -> PathBuf {
    let name = match api {
        Api::AnthropicMessages => "anthropic",
        Api::OpenAiChat => "openai_chat",
        Api::OpenAiResponses => "openai_responses",
        Api::Gemini => "gemini",
        Api::BedrockConverse => "bedrock_converse",
    };
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// Names (without the ending) and texts of the fixtures that end with `ending`.
fn fixtures(ending: &str) -> Vec<(Api, String, String)> {
    let mut found = Vec::new();
    for api in Api::ALL {
        for entry in fs::read_dir(folder(api)).unwrap() {
            let path = entry.unwrap().path();
            let file = path.file_name().unwrap().to_str().unwrap();
            if let Some(name) = file.strip_suffix(ending) {
                found.push((api, name.to_owned(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(!found.is_empty());
    found
}

fn response(api: Api, name: &str) -> ModelResponse {
    let text = fs::read_to_string(folder(api).join(format!("{name}.response.json"))).unwrap();
    api.decode_response(&serde_json::from_str(&text).unwrap()).unwrap()
}

/// Reads a stream that comes in pieces.
fn read_stream(api: Api, pieces: &[&[u8]]) -> Result<Vec<ModelEvent>, WireError> {
    let (mut frames, mut decoder, mut events) = (SseDecoder::default(), api.stream_decoder(), Vec::new());
    for piece in pieces {
        for frame in frames.push(piece)? {
            if let Some(event) = frame.event {
                events.extend(decoder.push(&event)?);
            }
        }
    }
    if let Some(event) = frames.finish().and_then(|frame| frame.event) {
        events.extend(decoder.push(&event)?);
    }
    events.extend(decoder.finish()?);
    Ok(events)
}

fn accumulate(events: &[ModelEvent]) -> ModelResponse {
    let mut answer = Accumulator::new();
    events.iter().for_each(|event| answer.push(event));
    answer.finish().unwrap()
}

#[test]
fn streamed_answer_is_the_whole_answer() {
    for (api, name, text) in fixtures(".stream.sse") {
        let events = read_stream(api, &[text.as_bytes()]).unwrap();
        assert_eq!(accumulate(&events), response(api, &name), "{api} {name}");
        // What the deltas amount to is what the parts say.
        let last = events.len() - 1;
        let mut so_far = Accumulator::new();
        events[..last].iter().for_each(|event| so_far.push(event));
        assert_eq!(so_far.partial().content, response(api, &name).message.content, "{api} {name}");
        let texts: String = events
            .iter()
            .filter_map(|event| match event {
                ModelEvent::TextDelta { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(texts, response(api, &name).message.visible_text(), "{api} {name}");
    }
}

/// Short streams are cut at every byte, long ones at every few.
fn step(text: &str) -> usize {
    1 + text.len() / 1_500
}

#[test]
fn every_split_of_every_stream_reads_the_same() {
    for (api, name, text) in fixtures(".stream.sse") {
        let bytes = text.as_bytes();
        let whole = read_stream(api, &[bytes]).unwrap();
        for at in (0..=bytes.len()).step_by(step(&text)) {
            let (left, right) = bytes.split_at(at);
            assert_eq!(read_stream(api, &[left, right]).unwrap(), whole, "{api} {name} cut at {at}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(read_stream(api, &single).unwrap(), whole, "{api} {name} byte by byte");
    }
}

#[test]
fn half_a_stream_is_never_an_answer() {
    for (api, name, text) in fixtures(".stream.sse") {
        let whole = response(api, &name);
        let mut failures = 0;
        for at in (0..text.len()).step_by(step(&text)) {
            match read_stream(api, &[text.as_bytes().split_at(at).0]) {
                Err(_) => failures += step(&text),
                // After the finish reason only counts are missing.
                Ok(events) => {
                    assert_eq!(accumulate(&events).message, whole.message, "{api} {name} cut at {at}");
                }
            }
        }
        assert!(failures * 2 > text.len(), "{api} {name}: {failures} of {}", text.len());
    }
}

#[test]
fn crlf_streams_read_the_same() {
    for (api, name, text) in fixtures(".stream.sse") {
        let crlf = text.replace('\n', "\r\n");
        let events = read_stream(api, &[crlf.as_bytes()]).unwrap();
        assert_eq!(accumulate(&events), response(api, &name), "{api} {name}");
    }
}

#[test]
fn decoded_parts_are_what_the_fixture_says() {
    let answer = response(Api::AnthropicMessages, "tools");
    let kinds: Vec<&str> = answer
        .message
        .content
        .iter()
        .map(|part| match part {
            Part::Text { .. } => "text",
            Part::Thinking { text, .. } if text.is_empty() => "encrypted",
            Part::Thinking { .. } => "thinking",
            Part::ToolCall(call) => call.id.as_str(),
            Part::ToolResult(_) | Part::Image { .. } => "other",
            Part::Unknown { raw } => raw["type"].as_str().unwrap(),
        })
        .collect();
    assert_eq!(kinds, ["thinking", "encrypted", "text", "toolu_1", "toolu_2", "server_tool_use"]);
    assert_eq!((answer.stop, answer.usage.input, answer.usage.output), (StopReason::ToolUse, 40, 30));

    let answer = response(Api::OpenAiChat, "text");
    assert_eq!((answer.usage.input, answer.usage.cache_read, answer.usage.total()), (12, 8, 27));
    assert_eq!(answer.stop, StopReason::EndTurn);
    assert_eq!(response(Api::OpenAiChat, "refusal").message.visible_text(), "I can't help with that.");
}

#[test]
fn requests_come_back_whole() {
    for (api, name, text) in fixtures(".request.json") {
        let body: Value = serde_json::from_str(&text).unwrap();
        let target = api.request_target(&api.request_path("m", true)).unwrap();
        let decoded = api.decode_request_at(&target, &body).unwrap();
        assert!(decoded.stream);
        assert_eq!(api.encode_request(&decoded.request, true), body, "{api} {name}");
    }
}

#[test]
fn responses_come_back_whole() {
    for (api, name, text) in fixtures(".response.json") {
        let body: Value = serde_json::from_str(&text).unwrap();
        let answer = api.decode_response(&body).unwrap();
        let again = api.encode_response(&answer);
        assert_eq!(api.decode_response(&again).unwrap(), answer, "{api} {name}");
    }
}

#[test]
fn errors_have_the_kind_that_their_name_says() {
    for (api, name, text) in fixtures(".error.json") {
        let (kind, status) = name.split_once('.').unwrap();
        let expected = match kind {
            "auth" => ProviderErrorKind::Auth,
            "rate_limit" => ProviderErrorKind::RateLimit,
            "quota" => ProviderErrorKind::Quota,
            "overloaded" => ProviderErrorKind::Overloaded,
            "context_length" => ProviderErrorKind::ContextLength,
            "invalid_request" => ProviderErrorKind::InvalidRequest,
            "server" => ProviderErrorKind::Server,
            "not_found" => ProviderErrorKind::NotFound,
            other => panic!("unknown kind `{other}`"),
        };
        let error = api.decode_error(status.parse().unwrap(), &HeaderMap::new(), text.as_bytes());
        assert_eq!(error.kind, expected, "{api} {name}");
        // Server direction: a client of this wire reads the same kind out of what is written.
        let written = api.encode_error(&error).to_string();
        let again = api.decode_error(error.kind.status(), &HeaderMap::new(), written.as_bytes());
        assert_eq!(again.kind, expected, "{api} {name}: {written}");
    }
}

#[test]
fn foreign_error_bodies_are_told_by_their_status() {
    for api in Api::ALL {
        for body in ["<html>bad gateway</html>", "", "null", "[1]", "\"x\"", "{\"error\": 5}"] {
            let error = api.decode_error(502, &HeaderMap::new(), body.as_bytes());
            assert_eq!(error.kind, ProviderErrorKind::Server, "{api} {body}");
            assert!(!error.to_string().contains("html"));
        }
    }
}

#[test]
fn error_inside_a_stream_is_typed() {
    let overloaded = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}\n\n";
    let failed = "data: {\"error\":{\"message\":\"x\",\"type\":\"server_error\"}}\n\n";
    for (api, text, kind) in [
        (Api::AnthropicMessages, overloaded, ProviderErrorKind::Overloaded),
        (Api::OpenAiChat, failed, ProviderErrorKind::Server),
        (
            Api::BedrockConverse,
            "event: serviceUnavailableException\ndata: {\"message\":\"x\"}\n\n",
            ProviderErrorKind::Overloaded,
        ),
        (
            Api::Gemini,
            "data: {\"error\":{\"code\":503,\"message\":\"x\",\"status\":\"UNAVAILABLE\"}}\n\n",
            ProviderErrorKind::Overloaded,
        ),
    ] {
        match read_stream(api, &[text.as_bytes()]) {
            Err(WireError::Provider(error)) => assert_eq!(error.kind, kind),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn malformed_arguments_and_bad_ids_are_kept() {
    let call = |index: usize, id: &str, arguments: &str| json!({"index": index, "id": id, "type": "function", "function": {"name": "exec", "arguments": arguments}});
    let chunk = json!({"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"tool_calls": [
        call(0, "same", "{\"a\":"), call(1, "same", "{}"), call(2, "", "[1]"),
    ]}, "finish_reason": "tool_calls"}]});
    let text = format!("data: {chunk}\n\ndata: [DONE]\n\n");
    let answer = accumulate(&read_stream(Api::OpenAiChat, &[text.as_bytes()]).unwrap());
    let calls: Vec<_> =
        answer.message.tool_calls().map(|call| (call.id.as_str(), call.malformed.as_deref())).collect();
    assert_eq!(calls, [("same", Some("{\"a\":")), ("same", None), ("", Some("[1]"))]);
}

#[test]
fn streams_that_can_be_read_in_two_ways_are_refused() {
    let chunk = |calls: Value| {
        format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]}))
    };
    let begin = chunk(json!([{"index": 0, "id": "a", "function": {"name": "ba", "arguments": ""}}]));
    for next in [
        json!([{"index": 0, "function": {"name": "sh", "arguments": ""}}]),
        json!([{"index": 0, "id": "b", "function": {"arguments": "{}"}}]),
        json!([{"index": 1, "function": {"arguments": "{}"}}]),
    ] {
        let text = format!("{begin}{}", chunk(next));
        let error = read_stream(Api::OpenAiChat, &[text.as_bytes()]).unwrap_err();
        assert!(matches!(error, WireError::OutOfOrder { .. }), "{error}");
    }
    let two = "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"x\"}}]}\n\n";
    assert_eq!(read_stream(Api::OpenAiChat, &[two.as_bytes()]).unwrap_err(), WireError::SeveralChoices);

    let start = r#"{"type":"message_start","message":{"id":"m","model":"m","content":[]}}"#;
    let block = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"exec","input":{"a":1}}}"#;
    let more =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}"#;
    let stop = r#"{"type":"content_block_stop","index":0}"#;
    for sequence in [
        vec![block],
        vec![start, start],
        vec![start, block, block],
        vec![start, more],
        vec![start, block, more],
        vec![start, block, stop, stop],
        vec![start, block, stop, block],
    ] {
        let text: String = sequence.iter().map(|data| format!("data: {data}\n\n")).collect();
        let error = read_stream(Api::AnthropicMessages, &[text.as_bytes()]).unwrap_err();
        assert!(matches!(error, WireError::OutOfOrder { .. }), "{error}");
    }
}

/// Unions of Converse are one thing, and its blocks begin, grow and stop in one way.
#[test]
fn streams_of_converse_that_can_be_read_in_two_ways_are_refused() {
    let start = ("messageStart", r#"{"role":"assistant"}"#);
    let call = r#"{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"t","name":"exec"}}}"#;
    let block = ("contentBlockStart", call);
    let more = ("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"toolUse":{"input":"{}"}}}"#);
    let text = ("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"text":"a"}}"#);
    let both =
        ("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"text":"a","toolUse":{"input":"{}"}}}"#);
    let stop = ("contentBlockStop", r#"{"contentBlockIndex":0}"#);
    let last = ("messageStop", r#"{"stopReason":"end_turn"}"#);
    let counts = ("metadata", r#"{"usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2}}"#);
    for sequence in [
        vec![text],
        vec![("", r#"{"role":"assistant"}"#)],
        vec![("messageStart", r#"{"role":"user"}"#)],
        vec![start, start],
        vec![start, more],
        vec![start, both],
        vec![start, block, block],
        vec![start, block, text],
        vec![start, text, more],
        vec![start, text, block],
        vec![start, block, stop, more],
        vec![start, block, stop, stop],
        vec![start, block, last],
        vec![start, counts],
        vec![start, last, stop],
        vec![start, last, counts, counts],
    ] {
        let text: String =
            sequence.iter().map(|(name, data)| format!("event: {name}\ndata: {data}\n\n")).collect();
        assert!(read_stream(Api::BedrockConverse, &[text.as_bytes()]).is_err(), "{text}");
    }
    let whole = |content: Value| {
        let message = json!({"role": "assistant", "content": content});
        let body = json!({"output": {"message": message}, "stopReason": "end_turn"});
        Api::BedrockConverse.decode_response(&body)
    };
    assert!(whole(json!([{"text": "a", "toolUse": null}])).is_ok());
    for strange in [json!({}), json!({"text": "a", "toolUse": {}}), json!("a"), json!({"text": 7})] {
        assert!(whole(json!([strange.clone()])).is_err(), "{strange}");
    }
}

/// Behind a door the body names the model, and never another than the address.
#[test]
fn the_model_of_converse_is_named_in_one_way() {
    let api = Api::BedrockConverse;
    let body = |more: Value| {
        let mut body = json!({"messages": [{"role": "user", "content": [{"text": "hi"}]}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let named = api.decode_request(&body(json!({"modelId": "m", "stream": true}))).unwrap();
    assert_eq!(
        (named.request.model.as_str(), named.stream, named.request.extra.is_null()),
        ("m", true, true)
    );
    let target = api.request_target("/model/m/converse").unwrap();
    assert!(api.decode_request_at(&target, &body(json!({"modelId": "m"}))).is_ok());
    assert!(api.decode_request_at(&target, &body(json!({"modelId": "other"}))).is_err());
    assert!(api.decode_request(&body(json!({}))).is_err());
    for strange in
        [json!([{"future": "x"}]), json!([{"text": "a", "cachePoint": {}}]), json!(["a"]), json!("a")]
    {
        let body = body(json!({"modelId": "m", "system": strange}));
        assert!(api.decode_request(&body).is_err(), "nobody would be shown {body}");
    }
}

#[test]
fn attachments_of_one_wire_are_not_sent_on_another() {
    let body = fs::read_to_string(folder(Api::AnthropicMessages).join("agent.request.json")).unwrap();
    let request =
        Api::AnthropicMessages.decode_request(&serde_json::from_str(&body).unwrap()).unwrap().request;
    let foreign = Api::OpenAiChat.encode_request(&request, false)["messages"].to_string();
    for word in ["cache_control", "signature", "c2ln", "redacted_thinking"] {
        assert!(!foreign.contains(word), "{word}: {foreign}");
    }
}

#[test]
fn parallel_results_go_back_in_one_message() {
    let result = |id: &str| {
        Part::ToolResult(backstop_hooks::conversation::ToolResult {
            tool_call_id: id.into(),
            tool_name: None,
            content: vec![Part::text("ok")],
            is_error: false,
            details: None,
            meta: None,
        })
    };
    let message = |id: &str| Message::new(Role::Tool, vec![result(id)]);
    let request = ModelRequest::new("m", vec![message("a"), message("b")]);
    let body = Api::AnthropicMessages.encode_request(&request, false);
    assert_eq!(body["messages"].as_array().unwrap().len(), 1);
    assert_eq!(body["messages"][0]["content"].as_array().unwrap().len(), 2);
    let body = Api::OpenAiChat.encode_request(&request, false);
    assert_eq!(body["messages"].as_array().unwrap().len(), 2);
}

#[test]
fn thinking_levels_are_asked_for_in_each_wires_way() {
    let mut request = ModelRequest::new("m", vec![Message::user("hi")]);
    (request.thinking, request.max_tokens, request.temperature) =
        (Some(ThinkLevel::Medium), Some(1_000), Some(0.2));
    let body = Api::AnthropicMessages.encode_request(&request, false);
    assert_eq!(
        (&body["thinking"]["type"], &body["output_config"]["effort"]),
        (&json!("adaptive"), &json!("medium"))
    );
    assert!(body["max_tokens"].as_u64().unwrap() > 1_000, "the answer keeps its room");
    assert_eq!(body.get("temperature"), None, "the provider refuses it while the model reasons");
    assert_eq!(Api::OpenAiChat.encode_request(&request, false)["reasoning_effort"], json!("medium"));
    request.thinking = Some(ThinkLevel::Off);
    let body = Api::AnthropicMessages.encode_request(&request, false);
    assert_eq!((&body["thinking"]["type"], &body["max_tokens"]), (&json!("disabled"), &json!(1_000)));
    assert_eq!(Api::OpenAiChat.encode_request(&request, false).get("reasoning_effort"), None);
}

#[test]
fn an_event_with_a_key_twice_is_refused() {
    let text = "data: {\"choices\":[],\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n";
    let error = read_stream(Api::OpenAiChat, &[text.as_bytes()]).unwrap_err();
    assert!(error.to_string().contains("a key stands twice"), "{error}");
}
