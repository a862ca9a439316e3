//! Laws of the wires over generated conversations: what a wire can carry comes back as it was.
#![expect(clippy::unwrap_used, reason = "tests may fail loudly, their helpers too")]

use backstop_hooks::Params;
use backstop_hooks::conversation::{ImageSource, Message, Part, Role, TokenUsage, ToolCall, ToolResult};
use backstop_llm::sse::SseDecoder;
use backstop_llm::{Api, ModelEvent, ModelRequest, ModelResponse, StopReason};
use proptest::prelude::*;
use serde_json::{Value, json};

fn word() -> impl Strategy<Value = String> {
    "[a-zA-Zé漢🙂\"\\\\\n ]{0,12}[a-z]"
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,4}", inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn params() -> impl Strategy<Value = Params> {
    prop::collection::btree_map("[a-z]{1,6}", json_value(), 0..4)
        .prop_map(|map| Params::from_value(map.into_iter().collect()).unwrap())
}

fn meta(api: Api, fields: Value) -> Option<backstop_hooks::Json> {
    Some(json!({api.as_str(): fields}).into())
}

fn text() -> BoxedStrategy<Part> {
    word().prop_map(Part::text).boxed()
}

fn marked_text(api: Api) -> BoxedStrategy<Part> {
    let marker = match api {
        Api::Gemini => json!({"thoughtSignature": "c2ln"}),
        Api::BedrockConverse => json!({"guardContent": {"qualifiers": ["query"]}}),
        _ => json!({"cache_control": {"type": "ephemeral"}}),
    };
    prop_oneof![
        text(),
        word().prop_map(move |text| Part::Text { text: text.into(), meta: meta(api, marker.clone()) })
    ]
    .boxed()
}

fn thinking(api: Api) -> BoxedStrategy<Part> {
    let fields = match api {
        Api::AnthropicMessages => json!({"signature": "c2ln"}),
        Api::OpenAiChat => json!({"field": "reasoning_content"}),
        Api::OpenAiResponses => json!({"item": {"id": "rs_1", "encrypted_content": "c2ln"}}),
        Api::Gemini => json!({"thought": true, "thoughtSignature": "c2ln"}),
        Api::BedrockConverse => json!({"signature": "c2ln"}),
    };
    word().prop_map(move |text| Part::Thinking { text: text.into(), meta: meta(api, fields.clone()) }).boxed()
}

fn image(api: Api) -> BoxedStrategy<Part> {
    let (mime_type, address) = match api {
        Api::BedrockConverse => ("image/webp", "s3://bucket/a.webp"),
        _ => ("image/*", "https://example.com/a.png"),
    };
    prop_oneof![
        Just(Part::Image {
            mime_type: "image/png".into(),
            source: ImageSource::Data("iVBORw0K".into()),
            meta: None
        }),
        Just(Part::Image {
            mime_type: mime_type.into(),
            source: ImageSource::Url(address.into()),
            meta: None
        }),
    ]
    .boxed()
}

/// A tool call; with `broken`, its arguments may be none.
fn tool_call(api: Api, broken: bool) -> BoxedStrategy<Part> {
    // An id that is missing on the Gemini wire is made up.
    let id = if api == Api::Gemini { "[a-z0-9_]{1,8}" } else { "[a-z0-9_]{0,8}" };
    let malformed = if broken {
        prop_oneof![3 => Just(None), 1 => Just(Some("{\"a\":")), 1 => Just(Some("[1]"))].boxed()
    } else {
        Just(None).boxed()
    };
    (id, "[a-z_]{1,8}", params(), malformed)
        .prop_map(|(id, name, arguments, malformed)| {
            let arguments = if malformed.is_some() { Params::default() } else { arguments };
            Part::ToolCall(ToolCall {
                id: id.into(),
                name,
                arguments,
                malformed: malformed.map(Into::into),
                meta: None,
            })
        })
        .boxed()
}

fn tool_result(api: Api) -> BoxedStrategy<Part> {
    let content = match api {
        Api::AnthropicMessages | Api::BedrockConverse => {
            prop::collection::vec(prop_oneof![text(), image(api)], 0..3).boxed()
        }
        Api::OpenAiResponses => prop::collection::vec(prop_oneof![text(), image(api)], 1..3).boxed(),
        Api::OpenAiChat => prop::collection::vec(text(), 1..3).boxed(),
        Api::Gemini => (prop::option::of(text()), prop::collection::vec(image(api), 0..2))
            .prop_map(|(text, images)| text.into_iter().chain(images).collect())
            .boxed(),
    };
    let tells_errors = matches!(api, Api::AnthropicMessages | Api::Gemini | Api::BedrockConverse);
    let is_error = if tells_errors { any::<bool>().boxed() } else { Just(false).boxed() };
    // The name is part of a result on the Gemini wire only.
    let name = if api == Api::Gemini { "[a-z]{1,6}".prop_map(Some).boxed() } else { Just(None).boxed() };
    let id = if api == Api::Gemini { "[a-z0-9]{1,6}" } else { "[a-z0-9]{0,6}" };
    (id, content, is_error, name)
        .prop_map(|(id, content, is_error, tool_name)| {
            Part::ToolResult(ToolResult {
                tool_call_id: id.into(),
                tool_name,
                content,
                is_error,
                details: None,
                meta: None,
            })
        })
        .boxed()
}

fn unknown(api: Api) -> BoxedStrategy<Part> {
    json_value()
        .prop_map(move |inner| match api {
            // A block is one thing, which is not null.
            Api::BedrockConverse => json!({"newPart": [inner]}),
            _ => json!({"type": "new_part", "inner": inner}),
        })
        .prop_map(|raw| Part::Unknown { raw: raw.into() })
        .boxed()
}

fn user(api: Api) -> BoxedStrategy<Message> {
    let part = prop_oneof![marked_text(api), image(api), unknown(api)];
    prop::collection::vec(part, 1..4).prop_map(|parts| Message::new(Role::User, parts)).boxed()
}

/// The parts of an answer, in the order that both wires have.
fn answer_parts(api: Api, broken: bool) -> BoxedStrategy<Vec<Part>> {
    (
        prop::option::of(thinking(api)),
        prop::option::of(text()),
        prop::collection::vec(tool_call(api, broken), 0..4),
    )
        .prop_filter("something is said", |(_, text, calls)| text.is_some() || !calls.is_empty())
        .prop_map(|(thinking, text, calls)| thinking.into_iter().chain(text).chain(calls).collect())
        .boxed()
}

fn tool(api: Api) -> BoxedStrategy<Message> {
    let together = matches!(api, Api::AnthropicMessages | Api::Gemini | Api::BedrockConverse);
    let count = if together { 1..4 } else { 1..2 };
    prop::collection::vec(tool_result(api), count).prop_map(|parts| Message::new(Role::Tool, parts)).boxed()
}

fn conversation(api: Api) -> BoxedStrategy<Vec<Message>> {
    // The other wires take no malformed input back.
    let broken = matches!(api, Api::OpenAiChat | Api::OpenAiResponses);
    let assistant = answer_parts(api, broken).prop_map(|parts| Message::new(Role::Assistant, parts));
    let turn = (user(api), assistant, prop::option::of(tool(api)));
    prop::collection::vec(turn, 0..4)
        .prop_map(|turns| {
            turns
                .into_iter()
                .flat_map(|(user, assistant, tool)| [Some(user), Some(assistant), tool])
                .flatten()
                .collect()
        })
        .boxed()
}

fn answer(api: Api) -> BoxedStrategy<ModelResponse> {
    let stop = prop_oneof![
        Just(StopReason::EndTurn),
        Just(StopReason::ToolUse),
        Just(StopReason::MaxTokens),
        Just(StopReason::Refusal),
        Just(StopReason::Other("new_reason".into())),
    ];
    (answer_parts(api, true), stop, [0u64..1_000, 0u64..1_000, 0u64..1_000, 0u64..1_000])
        .prop_map(move |(mut parts, mut stop, [input, output, cache_read, cache_write])| {
            if api == Api::OpenAiResponses {
                fit_to_responses(&mut parts, &mut stop);
            }
            let calls = parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
            // What the Gemini wire has no place for: waiting for tools, and tokens written to a cache.
            let (stop, cache_write) = match (api, stop) {
                (Api::Gemini, StopReason::EndTurn | StopReason::ToolUse) if calls => (StopReason::ToolUse, 0),
                (Api::Gemini, StopReason::ToolUse) => (StopReason::EndTurn, 0),
                (Api::Gemini, stop) => (stop, 0),
                (_, stop) => (stop, cache_write),
            };
            let usage = TokenUsage { input, output, cache_read, cache_write };
            // An answer of Bedrock has neither.
            let (id, model) = if api == Api::BedrockConverse { ("", "") } else { ("id_1", "model-1") };
            ModelResponse { usage, ..ModelResponse::new(id, model, parts, stop) }
        })
        .boxed()
}

/// That wire has no stop reason of its own, and streams give items their own ids.
fn fit_to_responses(parts: &mut [Part], stop: &mut StopReason) {
    let calls = parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
    if matches!(stop, StopReason::EndTurn | StopReason::ToolUse) {
        *stop = if calls { StopReason::ToolUse } else { StopReason::EndTurn };
    }
    for part in parts {
        if let Part::Thinking { meta, .. } = part {
            *meta = None;
        }
    }
}

/// Writes the answer as a stream and reads it again.
fn through_stream(api: Api, answer: &ModelResponse, chunk: usize) -> Vec<ModelEvent> {
    let mut request = ModelRequest::new("m", Vec::new());
    request.extra = json!({"stream_options": {"include_usage": true}}).into();
    let (mut encoder, mut frames, mut decoder) =
        (api.stream_encoder(&request), SseDecoder::default(), api.stream_decoder());
    let mut events = Vec::new();
    for event in answer.to_events(chunk).iter().flat_map(|event| encoder.push(event)) {
        for frame in frames.push(&event.encode()).unwrap() {
            events.extend(decoder.push(&frame.event.unwrap()).unwrap());
        }
    }
    events.extend(decoder.finish().unwrap());
    events
}

fn check_conversation(api: Api, messages: Vec<Message>) -> Result<(), TestCaseError> {
    let request = ModelRequest {
        system: vec![Part::text("system")].into(),
        max_tokens: Some(7),
        ..ModelRequest::new("m", messages)
    };
    let target = api.request_target(&api.request_path(&request.model, false)).unwrap();
    let decoded = api.decode_request_at(&target, &api.encode_request(&request, false)).unwrap();
    prop_assert_eq!(decoded.request, request);
    Ok(())
}

fn check_answer(api: Api, answer: &ModelResponse, chunk: usize) -> Result<(), TestCaseError> {
    prop_assert_eq!(&api.decode_response(&api.encode_response(answer)).unwrap(), answer);
    let events = through_stream(api, answer, chunk);
    prop_assert_eq!(events.last(), Some(&ModelEvent::Finished { response: Box::new(answer.clone()) }));
    Ok(())
}

proptest! {
    #[test]
    fn anthropic_conversations_come_back(messages in conversation(Api::AnthropicMessages)) {
        check_conversation(Api::AnthropicMessages, messages)?;
    }

    #[test]
    fn openai_chat_conversations_come_back(messages in conversation(Api::OpenAiChat)) {
        check_conversation(Api::OpenAiChat, messages)?;
    }

    #[test]
    fn openai_responses_conversations_come_back(messages in conversation(Api::OpenAiResponses)) {
        check_conversation(Api::OpenAiResponses, messages)?;
    }

    #[test]
    fn openai_responses_answers_come_back(answer in answer(Api::OpenAiResponses), chunk in 1usize..20) {
        check_answer(Api::OpenAiResponses, &answer, chunk)?;
    }

    #[test]
    fn anthropic_answers_come_back(answer in answer(Api::AnthropicMessages), chunk in 1usize..20) {
        check_answer(Api::AnthropicMessages, &answer, chunk)?;
    }

    #[test]
    fn openai_chat_answers_come_back(answer in answer(Api::OpenAiChat), chunk in 1usize..20) {
        check_answer(Api::OpenAiChat, &answer, chunk)?;
    }

    #[test]
    fn any_json_is_survived_by_items(value in json_value(), kind in prop::sample::select(vec![
        "output_item.added", "output_item.done", "content_part.added", "content_part.done", "output_text.delta",
        "output_text.done", "function_call_arguments.delta", "output_text.annotation.added", "completed", "failed",
    ]), item in prop::sample::select(vec!["message", "reasoning", "function_call", "shell_call", "shell_call_output"])) {
        let api = Api::OpenAiResponses;
        let mut decoder = api.stream_decoder();
        let event = |data: &Value| backstop_llm::sse::SseEvent::new(None, data.to_string());
        let filled = json!({
            "type": item, "content": value, "summary": value, "arguments": value, "action": value, "output": value,
            "call_id": "c", "name": "n",
        });
        let _ = api.decode_response(&json!({"output": [filled], "usage": value, "incomplete_details": value}));
        let _ = api.decode_request(&json!({"input": [filled, value], "tools": [value], "tool_choice": value}));
        decoder.push(&event(&json!({"type": "response.created", "response": {"id": "r"}}))).unwrap();
        let added = json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": item, "name": "n"}});
        decoder.push(&event(&added)).unwrap();
        let _ = decoder.push(&event(&json!({
            "type": format!("response.{kind}"), "output_index": 0, "content_index": 0, "item": filled, "part": value,
            "delta": value, "text": value, "annotation": value, "response": {"id": "r", "output": value},
        })));
        let _ = decoder.finish();
    }

    #[test]
    fn gemini_conversations_come_back(messages in conversation(Api::Gemini)) {
        prop_assume!(!messages.is_empty());
        check_conversation(Api::Gemini, messages)?;
    }

    #[test]
    fn gemini_answers_come_back(answer in answer(Api::Gemini), chunk in 1usize..20) {
        check_answer(Api::Gemini, &answer, chunk)?;
    }

    #[test]
    fn bedrock_conversations_come_back(messages in conversation(Api::BedrockConverse)) {
        check_conversation(Api::BedrockConverse, messages)?;
    }

    #[test]
    fn bedrock_answers_come_back(answer in answer(Api::BedrockConverse), chunk in 1usize..20) {
        check_answer(Api::BedrockConverse, &answer, chunk)?;
    }

    #[test]
    fn any_json_is_survived_by_blocks(value in json_value(), kind in prop::sample::select(vec![
        "text", "toolUse", "toolResult", "reasoningContent", "citationsContent", "guardContent", "image", "document", "citation", "new",
    ]), name in prop::sample::select(vec![
        "messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata", "xException", "new",
    ])) {
        let api = Api::BedrockConverse;
        for block in [json!({kind: value}), json!({kind: {"content": value, "source": value, "text": value, "name": "n"}})] {
            let _ = api.decode_response(&json!({"output": {"message": {"content": [block]}}, "stopReason": "x", "usage": value}));
            let message = json!({"role": "user", "content": [block]});
            let _ = api.decode_request(&json!({
                "modelId": "m", "messages": [message], "system": [block], "toolConfig": {"tools": [block, {"toolSpec": value}], "toolChoice": value},
                "inferenceConfig": value,
            }));
            let mut decoder = api.stream_decoder();
            let event = |name: &str, data: &Value| backstop_llm::sse::SseEvent::new(Some(name), data.to_string());
            decoder.push(&event("messageStart", &json!({"role": "assistant"}))).unwrap();
            let _ = decoder.push(&event("contentBlockStart", &json!({"contentBlockIndex": 0, "start": block})));
            let _ = decoder.push(&event(name, &json!({"contentBlockIndex": 0, "delta": block, "start": value, "stopReason": "x", "usage": value})));
            let _ = decoder.push(&event("contentBlockStop", &json!({"contentBlockIndex": 0})));
            let _ = decoder.push(&event("messageStop", &json!({"stopReason": "x", "more": value})));
            let _ = decoder.finish();
        }
    }

    #[test]
    fn any_json_is_survived(value in json_value(), kind in prop::sample::select(vec![
        "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop", "error",
    ])) {
        for api in Api::ALL {
            let _ = api.decode_request(&value);
            let _ = api.decode_response(&value);
            let mut decoder = api.stream_decoder();
            let event = |data: &Value| backstop_llm::sse::SseEvent::new(None, data.to_string());
            let _ = decoder.push(&event(&json!({"type": "message_start", "message": {}})));
            let _ = decoder.push(&event(&json!({"type": kind, "index": 0, "delta": value, "content_block": value, "error": value})));
            let _ = decoder.push(&event(&json!({"choices": [{"index": 0, "delta": {"tool_calls": value}}]})));
            let _ = decoder.push(&event(&json!({"choices": value})));
            let _ = decoder.push(&event(&json!({"candidates": [{"content": {"parts": [{"functionCall": value}]}}]})));
            let _ = decoder.push(&event(&json!({"candidates": [{"content": {"parts": [value]}}], "usageMetadata": value})));
            let _ = api.decode_response(&json!({"candidates": [{"content": value, "finishReason": "STOP"}]}));
            let _ = api.decode_request(&json!({"model": "m", "contents": [{"parts": [value]}], "tools": value}));
            let _ = decoder.finish();
        }
    }
}
