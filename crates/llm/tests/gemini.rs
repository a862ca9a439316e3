//! What is special about the Gemini wire: addresses, missing ids, spellings, streams without an end, and
//! answers and requests that are edited on their way.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may fail loudly, their helpers too")]

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use backstop_hooks::conversation::{Message, Part, Role, ToolResult};
use backstop_llm::json_array::{ArrayDecoder, ArrayEncoder};
use backstop_llm::live::{self, AnswerEditor, LiveRequest, PartKey, TextEdit, TextKind};
use backstop_llm::sse::{SseDecoder, SseEvent};
use backstop_llm::{
    Accumulator, Api, ModelEvent, ModelRequest, ModelResponse, ProviderError, ProviderErrorKind,
    RequestTarget, StopReason, ThinkLevel, ToolChoice, ToolDefinition, WireError,
};
use bytes::Bytes;
use http::HeaderMap;
use proptest::prelude::*;
use serde_json::{Value, json};

const API: Api = Api::Gemini;

fn fixtures(ending: &str) -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/gemini");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let found: Vec<_> = entries
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?.strip_suffix(ending)?.to_owned();
            Some((name, fs::read_to_string(&path).unwrap()))
        })
        .collect();
    assert!(!found.is_empty());
    found
}

fn fixture(name: &str) -> String {
    fixtures(name).swap_remove(0).1
}

fn target(stream: bool) -> RequestTarget {
    API.request_target(&API.request_path("m", stream)).unwrap()
}

fn decode(body: &Value) -> Result<ModelRequest, WireError> {
    API.decode_request_at(&target(false), body).map(|decoded| decoded.request)
}

fn events_of(text: &[u8]) -> Vec<SseEvent> {
    let mut frames = SseDecoder::default();
    let mut found = frames.push(text).unwrap();
    found.extend(frames.finish());
    found.into_iter().filter_map(|frame| frame.event).collect()
}

fn read(events: &[SseEvent]) -> Result<ModelResponse, WireError> {
    let (mut decoder, mut answer) = (API.stream_decoder(), Accumulator::new());
    let mut take = |events: Vec<ModelEvent>| events.iter().for_each(|event| answer.push(event));
    for event in events {
        take(decoder.push(event)?);
    }
    take(decoder.finish()?);
    answer.finish().map_err(|_| WireError::Truncated)
}

fn chunk(parts: &Value) -> Value {
    json!({"candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0}], "responseId": "r"})
}

fn stream(chunks: &[Value]) -> Result<ModelResponse, WireError> {
    let events: Vec<_> = chunks.iter().map(|chunk| SseEvent::new(None, chunk.to_string())).collect();
    read(&events)
}

fn finish() -> Value {
    json!({"candidates": [{"finishReason": "STOP"}]})
}

fn ids(message: &Message) -> Vec<String> {
    message.tool_calls().map(|call| call.id.to_string()).collect()
}

#[test]
fn missing_ids_are_made_up_the_same_way_and_not_sent_back() {
    let calls = json!([{"functionCall": {"name": "a", "args": {}}}, {"functionCall": {"name": "a"}}, {"functionCall": {"name": "b", "id": "own"}}]);
    let answer =
        json!({"candidates": [{"content": {"parts": calls}, "finishReason": "STOP"}], "responseId": "resp"});
    let answer = API.decode_response(&answer).unwrap();
    assert_eq!(ids(&answer.message), ["resp_1", "resp_2", "own"]);
    assert_eq!(answer.stop, StopReason::ToolUse);
    let nameless = API
        .decode_response(&json!({"candidates": [{"content": {"parts": calls}, "finishReason": "STOP"}]}))
        .unwrap();
    assert_ne!(ids(&nameless.message)[0], ids(&nameless.message)[1]);

    // The agent answers by these ids; the provider gets what it knows.
    let result = |id: &str| {
        Part::ToolResult(ToolResult {
            tool_call_id: id.into(),
            tool_name: None,
            content: vec![Part::text("ok")],
            is_error: id == "own",
            details: None,
            meta: None,
        })
    };
    let results = Message::new(Role::Tool, vec![result("resp_1"), result("resp_2"), result("own")]);
    let request = ModelRequest::new("m", vec![Message::user("go"), answer.message, results]);
    let body = API.encode_request(&request, false);
    assert_eq!(
        body["contents"][2],
        json!({"role": "user", "parts": [
            {"functionResponse": {"name": "a", "response": {"output": "ok"}}},
            {"functionResponse": {"name": "a", "response": {"output": "ok"}}},
            {"functionResponse": {"id": "own", "name": "b", "response": {"error": "ok"}}},
        ]})
    );
    assert!(!body.to_string().contains("resp_1") && !body.to_string().contains("backstop"), "{body}");
    // Coming back, results find their calls by name and order.
    let again = decode(&body).unwrap();
    let answered: Vec<String> =
        again.messages[2].tool_results().map(|result| result.tool_call_id.to_string()).collect();
    assert_eq!((answered, ids(&again.messages[1]).len()), (ids(&again.messages[1]), 3));
}

#[test]
fn both_spellings_are_read_and_two_at_once_are_refused() {
    let snake = json!({
        "system_instruction": {"parts": {"text": "s"}},
        "contents": {"parts": [
            {"text": "look"},
            {"inline_data": {"mime_type": "image/png", "data": "iVBORw0K"}},
            {"file_data": {"mime_type": "image/png", "file_uri": "https://example.com/a.png"}},
        ]},
        "tools": {"function_declarations": [{"name": "a", "parameters_json_schema": {"type": "object"}}], "google_search": {}},
        "tool_config": {"function_calling_config": {"mode": "ANY", "allowed_function_names": ["a", "b"]}},
        "generation_config": {"max_output_tokens": 7, "thinking_config": {"thinking_budget": 0}},
        "safety_settings": [],
    });
    let request = decode(&snake).unwrap();
    assert_eq!((request.model.as_str(), request.max_tokens), ("m", Some(7)));
    assert_eq!(request.system_text().unwrap(), "s");
    assert_eq!(
        request.messages[0].content.iter().filter(|part| matches!(part, Part::Image { .. })).count(),
        2
    );
    let names: Vec<&str> = request.tools.iter().map(ToolDefinition::name).collect();
    assert_eq!(names, ["a", "googleSearch"]);
    assert!(matches!(request.tool_choice, Some(ToolChoice::Other(_))));
    let body = API.encode_request(&request, false);
    assert_eq!(body["generationConfig"]["thinkingConfig"]["thinkingBudget"], json!(0));
    assert!(body.get("safetySettings").is_some() && !body.to_string().contains("_instruction"));
    let both =
        json!({"contents": [{"parts": [{"functionCall": {"name": "a"}, "function_call": {"name": "b"}}]}]});
    assert!(decode(&both).unwrap_err().to_string().contains("two spellings"));
}

#[test]
fn what_two_readers_could_understand_in_two_ways_is_refused() {
    let part = |part: Value| json!({"contents": [{"parts": [part]}]});
    for body in [
        part(json!({"text": "x", "functionCall": {"name": "a"}})),
        part(json!({"inlineData": {"mimeType": "image/png", "data": ""}, "text": ""})),
        json!({"contents": []}),
        json!({"contents": [{"role": "system", "parts": []}]}),
        json!({"model": "another", "contents": [{"parts": [{"text": "x"}]}]}),
        json!({"contents": [{"parts": [{"text": "x"}]}], "tools": [{"functionDeclarations": [{"name": "a", "parameters": {}, "parametersJsonSchema": {}}]}]}),
    ] {
        assert!(decode(&body).is_err(), "{body}");
    }
    assert!(API.decode_request(&part(json!({"text": "x"}))).is_err(), "no model is named");

    let call = |call: Value| chunk(&json!([{"functionCall": call}]));
    let begun = || call(json!({"name": "a", "willContinue": true}));
    let text = || chunk(&json!([{"text": "x"}]));
    for chunks in [
        vec![text(), finish(), text()],
        vec![text(), finish(), json!({"candidates": [{"finishReason": "SAFETY"}]})],
        vec![begun(), text(), finish()],
        vec![begun(), finish()],
        vec![begun(), begun(), finish()],
        vec![begun(), call(json!({"args": {"a": 1}})), finish()],
        vec![call(json!({})), finish()],
        vec![call(json!({"partialArgs": []})), finish()],
    ] {
        let error = stream(&chunks).unwrap_err();
        assert!(matches!(error, WireError::OutOfOrder { .. }), "{error} {chunks:?}");
    }
    for candidates in [json!([{}, {}]), json!([{"index": 1}])] {
        assert_eq!(stream(&[json!({"candidates": candidates})]).unwrap_err(), WireError::SeveralChoices);
    }
    assert_eq!(stream(&[text()]).unwrap_err(), WireError::Truncated);
    assert_eq!(stream(&[begun()]).unwrap_err(), WireError::Truncated);
    let pieces = json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": "a", "willContinue": true}}]}, "finishReason": "STOP"}]});
    assert!(API.decode_response(&pieces).is_err(), "a whole answer has no pieces");
}

#[test]
fn reasons_to_stop_come_back() {
    for (reason, stop) in [
        ("STOP", StopReason::EndTurn),
        ("MAX_TOKENS", StopReason::MaxTokens),
        ("SAFETY", StopReason::Refusal),
        ("PROHIBITED_CONTENT", StopReason::Refusal),
        ("IMAGE_SAFETY", StopReason::Refusal),
        ("MALFORMED_FUNCTION_CALL", StopReason::Other("MALFORMED_FUNCTION_CALL".to_owned())),
        ("CONTINUATION", StopReason::Other("CONTINUATION".to_owned())),
    ] {
        let body = json!({"candidates": [{"finishReason": reason}]});
        let answer = API.decode_response(&body).unwrap();
        assert_eq!(answer.stop, stop);
        let mut again = answer.clone();
        assert_eq!(API.encode_response(&answer)["candidates"][0]["finishReason"], reason);
        // A host that changes the reason is believed.
        again.stop = StopReason::EndTurn;
        assert_eq!(API.encode_response(&again)["candidates"][0]["finishReason"], "STOP");
    }
}

/// Google's older clients ask for `enum-encoding=int`.
#[test]
fn enums_may_be_numbers() {
    for (reason, stop) in [
        (json!(1), StopReason::EndTurn),
        (json!(2), StopReason::MaxTokens),
        (json!(3), StopReason::Refusal),
        (json!(10), StopReason::Other("10".to_owned())),
    ] {
        let body = json!({"candidates": [{"finishReason": reason}]});
        assert_eq!(API.decode_response(&body).unwrap().stop, stop);
        assert_eq!(stream(&[chunk(&json!([{"text": "x"}])), body]).unwrap().stop, stop);
    }
    // Zero says nothing.
    let running =
        |text: &str| json!({"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": 0}]});
    assert_eq!(stream(&[running("a"), running("b")]).unwrap_err(), WireError::Truncated);
    assert_eq!(stream(&[running("a"), running("b"), finish()]).unwrap().message.visible_text(), "ab");
    for bad in [json!(-1), json!(1.5), json!(true), json!(["STOP"])] {
        let body = json!({"candidates": [{"finishReason": bad}]});
        assert!(API.decode_response(&body).is_err() && stream(&[body]).is_err());
    }

    let body = r#"{"contents":[{"parts":[{"text":"x"}]}],"tools":[{"functionDeclarations":[{"name":"a"},{"name":"b"}]}],"toolConfig":{"functionCallingConfig":{"mode":2,"allowedFunctionNames":["a","b"]}}}"#;
    assert_eq!(edited(body, |_| {}), body);
    let got = edited(body, |new| drop(new.tools.remove(0)));
    assert_eq!(got, body.replace(r#"{"name":"a"},"#, "").replace(r#""a","b""#, r#""b""#));
}

#[test]
fn nothing_quotes_the_answer_a_second_time() {
    let body = json!({"candidates": [{
        "content": {"parts": [{"text": "top secret"}]}, "finishReason": "STOP",
        "logprobsResult": {"chosenCandidates": [{"token": "top secret"}]},
        "groundingMetadata": {"groundingSupports": [{"segment": {"endIndex": 3, "text": "top secret"}}], "webSearchQueries": ["q"]},
    }]});
    let mut answer = API.decode_response(&body).unwrap();
    answer.message.set_visible_text(&"clean".into());
    let written = API.encode_response(&answer).to_string();
    assert!(!written.contains("secret") && written.contains("webSearchQueries"), "{written}");
}

#[test]
fn errors_say_how_long_to_wait() {
    let error = API.decode_error(429, &HeaderMap::new(), fixture("rate_limit.429.error.json").as_bytes());
    assert_eq!(error.retry_after, Some(Duration::from_millis(34_500)));
    let listed = format!("[{}]", API.encode_error(&error));
    let again = API.decode_error(429, &HeaderMap::new(), listed.as_bytes());
    assert_eq!((again.retry_after, again.kind), (error.retry_after, ProviderErrorKind::RateLimit));
    let whole = json!({"error": {"code": 503, "status": "UNAVAILABLE", "message": "x"}});
    assert!(matches!(API.decode_response(&whole), Err(WireError::Provider(_))));
}

#[test]
fn thinking_is_asked_for_by_budgets() {
    let mut request = ModelRequest::new("gemini-2.5-pro", vec![Message::user("hi")]);
    (request.thinking, request.max_tokens) = (Some(ThinkLevel::Low), Some(100));
    request.extra =
        json!({"generationConfig": {"topK": 4, "thinkingConfig": {"thinkingLevel": "HIGH"}}}).into();
    let generation = API.encode_request(&request, false)["generationConfig"].clone();
    let budget = generation["thinkingConfig"]["thinkingBudget"].as_u64().unwrap();
    assert_eq!(generation["maxOutputTokens"], json!(100 + budget));
    assert_eq!(generation["thinkingConfig"].get("thinkingLevel"), None);
    assert_eq!(generation["topK"], json!(4));
    request.thinking = Some(ThinkLevel::Off);
    let left = API.encode_request(&request, false)["generationConfig"]["thinkingConfig"].clone();
    assert_eq!(left, json!({"thinkingLevel": "HIGH"}), "this model cannot be told not to think");
    request.model = "gemini-2.5-flash".to_owned();
    let off = API.encode_request(&request, false)["generationConfig"]["thinkingConfig"].clone();
    assert_eq!(off, json!({"thinkingBudget": 0}));
}

#[test]
fn a_stream_as_one_array_reads_the_same() {
    for (name, text) in fixtures(".stream.sse") {
        let events = events_of(text.as_bytes());
        let (mut encoder, mut bytes) = (ArrayEncoder::default(), Vec::new());
        events.iter().for_each(|event| bytes.extend_from_slice(&encoder.push(event)));
        bytes.extend_from_slice(&encoder.finish());
        let mut decoder = ArrayDecoder::new(1 << 20);
        let mut again = Vec::new();
        for byte in bytes.chunks(7) {
            again.extend(
                decoder.push(byte).unwrap().iter().filter_map(backstop_llm::json_array::ArrayFrame::event),
            );
        }
        decoder.finish().unwrap();
        assert_eq!(read(&again).unwrap(), read(&events).unwrap(), "{name}");
    }
}

/// What a host does with an answer.
#[derive(Clone, Debug, Default)]
struct Judge {
    /// What stands in place of each `e`.
    mask: Option<&'static str>,
    masks_thinking: bool,
    /// Calls that are removed, by number.
    removed: Vec<usize>,
    note: Option<&'static str>,
}

/// Passes an answer through an editor.
fn pass(editor: &mut dyn AnswerEditor, pieces: &[&[u8]], judge: &Judge) -> Vec<u8> {
    let (mut sent, mut texts): (Vec<u8>, Vec<(PartKey, String)>) = (Vec::new(), Vec::new());
    editor.release_results();
    let mut round = |editor: &mut dyn AnswerEditor, sent: &mut Vec<u8>| {
        for fresh in editor.fresh() {
            let at = texts.iter().position(|(part, _)| *part == fresh.part).unwrap_or_else(|| {
                texts.push((fresh.part, String::new()));
                texts.len() - 1
            });
            let from = texts[at].1.len();
            texts[at].1.push_str(&fresh.text);
            let masked = fresh.kind == TextKind::Visible || judge.masks_thinking;
            let edits = match judge.mask.filter(|_| masked) {
                Some(mask) => fresh
                    .text
                    .match_indices('e')
                    .map(|(at, found)| TextEdit {
                        span: from + at..from + at + found.len(),
                        replacement: mask.into(),
                    })
                    .collect(),
                None => Vec::new(),
            };
            editor.settle(fresh.part, texts[at].1.len(), edits);
        }
        sent.extend_from_slice(&editor.take());
    };
    for piece in pieces {
        editor.push(piece).unwrap();
        round(editor, &mut sent);
    }
    editor.finish().unwrap();
    round(editor, &mut sent);
    assert!(editor.is_whole());
    let removed: Vec<PartKey> = judge.removed.iter().filter_map(|call| editor.call_part(0, *call)).collect();
    editor.keep_calls(&removed, judge.note);
    sent.extend_from_slice(&editor.take());
    assert_eq!(editor.held_bytes(), 0);
    sent
}

/// What should be left of an answer.
fn judged(mut response: ModelResponse, judge: &Judge) -> ModelResponse {
    let mut call = 0;
    response.message.content.retain(|part| {
        let is_call = matches!(part, Part::ToolCall(_));
        call += usize::from(is_call);
        !(is_call && judge.removed.contains(&(call - 1)))
    });
    if let Some(mask) = judge.mask {
        for part in &mut response.message.content {
            if let Part::Text { text, .. } = part {
                *text = text.replace('e', mask).into();
            }
            if let Part::Thinking { text, .. } = part
                && judge.masks_thinking
            {
                *text = text.replace('e', mask).into();
            }
        }
    }
    response
}

fn said(response: &ModelResponse) -> Vec<String> {
    let part = |part: &Part| match part {
        Part::Text { text, .. } => format!("text {text}"),
        Part::Thinking { text, .. } => format!("thinking {text}"),
        Part::ToolCall(call) => format!("call {} {}", call.name, call.arguments.to_value()),
        other => format!(
            "{:?}",
            API.encode_response(&ModelResponse::new("", "", vec![other.clone()], StopReason::EndTurn))
        ),
    };
    response.message.content.iter().map(part).filter(|part| part != "text ").collect()
}

#[test]
fn untouched_answers_are_identical_for_every_split() {
    for (name, text) in fixtures(".stream.sse") {
        let bytes = text.as_bytes();
        for at in 0..=bytes.len() {
            let (left, right) = bytes.split_at(at);
            let mut editor = live::stream_editor(API, &ModelRequest::new("m", Vec::new()));
            assert_eq!(pass(&mut *editor, &[left, right], &Judge::default()), bytes, "{name} cut at {at}");
            assert_eq!(editor.responses(), [read(&events_of(bytes)).unwrap()], "{name}");
        }
    }
    for (name, text) in fixtures(".response.json") {
        let mut editor = live::whole_editor(API, &ModelRequest::new("m", Vec::new()));
        assert_eq!(pass(&mut *editor, &[text.as_bytes()], &Judge::default()), text.as_bytes(), "{name}");
    }
}

#[test]
fn edited_answers_say_what_is_left_of_them() {
    let judges = [
        Judge { mask: Some("***"), ..Judge::default() },
        Judge { mask: Some(""), masks_thinking: true, ..Judge::default() },
        Judge { removed: vec![0], ..Judge::default() },
        Judge { removed: vec![0, 1], mask: Some("3"), ..Judge::default() },
        Judge { removed: vec![1], masks_thinking: true, mask: Some("3"), ..Judge::default() },
    ];
    for judge in judges {
        for (name, text) in fixtures(".stream.sse") {
            let original = read(&events_of(text.as_bytes())).unwrap();
            let mut editor = live::stream_editor(API, &ModelRequest::new("m", Vec::new()));
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(11).collect();
            let sent = pass(&mut *editor, &pieces, &judge);
            let got = read(&events_of(&sent)).unwrap();
            assert_eq!(said(&got), said(&judged(original, &judge)), "{name} {judge:?}");
        }
        for (name, text) in fixtures(".response.json") {
            let original = API.decode_response(&serde_json::from_str(&text).unwrap()).unwrap();
            let mut editor = live::whole_editor(API, &ModelRequest::new("m", Vec::new()));
            let sent = pass(&mut *editor, &[text.as_bytes()], &judge);
            let got = API.decode_response(&serde_json::from_slice(&sent).unwrap()).unwrap();
            assert_eq!(said(&got), said(&judged(original, &judge)), "{name} {judge:?}");
        }
    }
}

#[test]
fn a_removed_call_leaves_its_signature_and_a_note() {
    let judge = Judge { removed: vec![0], note: Some("one call was withheld"), ..Judge::default() };
    let text = fixture("tools.stream.sse");
    let mut editor = live::stream_editor(API, &ModelRequest::new("m", Vec::new()));
    let sent = String::from_utf8(pass(&mut *editor, &[text.as_bytes()], &judge)).unwrap();
    let streamed = read(&events_of(sent.as_bytes())).unwrap();
    let mut editor = live::whole_editor(API, &ModelRequest::new("m", Vec::new()));
    let whole = pass(&mut *editor, &[fixture("tools.response.json").as_bytes()], &judge);
    let whole = API.decode_response(&serde_json::from_slice(&whole).unwrap()).unwrap();
    for answer in [&streamed, &whole] {
        let call = answer.message.tool_calls().next().unwrap();
        assert_eq!(call.name, "list");
        let meta = call.meta.as_ref().unwrap().to_value();
        assert_eq!(meta["gemini"]["thoughtSignature"], "c2lnMQ==", "the first call is the signed one");
        assert!(answer.message.visible_text().ends_with("\n\none call was withheld"));
        assert_eq!(answer.usage.output, 42, "usage is as billed");
    }
    // What was not edited is as it came.
    let first = text.split("\n\n").next().unwrap();
    assert!(sent.starts_with(first));
}

#[test]
fn edited_text_is_in_no_copy_and_loses_its_signature() {
    let copies = json!({
        "content": {"parts": [{"text": "secret", "thoughtSignature": "c2ln"}], "role": "model"}, "finishReason": "STOP", "index": 0,
        "finishMessage": "said secret", "avgLogprobs": -0.5,
        "logprobsResult": {"chosenCandidates": [{"token": "secret"}]},
        "groundingMetadata": {"webSearchQueries": ["q"], "groundingSupports": [{"segment": {"text": "secret"}}]},
    });
    let body = json!({"candidates": [copies], "responseId": "r"}).to_string();
    let judge = Judge { mask: Some("3"), ..Judge::default() };
    let mut whole = live::whole_editor(API, &ModelRequest::new("m", Vec::new()));
    let whole = pass(&mut *whole, &[body.as_bytes()], &judge);
    let streamed = format!("data: {body}\n\n");
    let mut stream = live::stream_editor(API, &ModelRequest::new("m", Vec::new()));
    let streamed = pass(&mut *stream, &[streamed.as_bytes()], &judge);
    for sent in [whole, streamed] {
        let sent = String::from_utf8(sent).unwrap();
        assert!(sent.contains("s3cr3t") && !sent.contains("secret"), "{sent}");
        assert!(!sent.contains("thoughtSignature") && sent.contains("avgLogprobs"), "{sent}");
    }
}

#[test]
fn copies_that_spell_another_text_wait_for_all_of_it() {
    let piece = |text: &str, spelled: &str| {
        let spelled = json!({"chosenCandidates": [{"token": spelled}]});
        let content = json!({"parts": [{"text": text}], "role": "model"});
        let body = json!({"candidates": [{"content": content, "index": 0, "logprobsResult": spelled}]});
        format!("data: {body}\n\n")
    };
    let mut editor = live::stream_editor(API, &ModelRequest::new("m", Vec::new()));
    for (text, spelled, leaves) in [("a", "a", true), ("b", "b", true), ("c", "b", false)] {
        editor.push(piece(text, spelled).as_bytes()).unwrap();
        for fresh in editor.fresh() {
            editor.settle(fresh.part, 3, Vec::new());
        }
        assert_eq!(!editor.take().is_empty(), leaves, "{text} with a copy of {spelled}");
    }
}

#[test]
fn answers_that_are_ended_or_fail_are_answers_of_the_wire() {
    for (name, text) in fixtures(".stream.sse") {
        for at in 0..text.len() {
            let request = ModelRequest::new("m", Vec::new());
            let mut editor = live::stream_editor(API, &request);
            editor.release_results();
            editor.push(&text.as_bytes()[..at]).unwrap();
            for fresh in editor.fresh() {
                editor.settle(fresh.part, usize::MAX, Vec::new());
            }
            let mut sent = editor.take().to_vec();
            let had = read(&events_of(&sent)).is_ok();
            editor.end_with("no more");
            sent.extend_from_slice(&editor.take());
            assert!(editor.is_whole() && editor.held_bytes() == 0);
            let answer = read(&events_of(&sent)).unwrap();
            assert!(had || answer.message.visible_text().ends_with("no more"), "{name} cut at {at}");
            assert_eq!(answer.message.tool_calls().count(), 0, "{name}: held calls never leave");

            let mut editor = live::stream_editor(API, &request);
            editor.release_results();
            editor.push(&text.as_bytes()[..at]).unwrap();
            editor.fail(&ProviderError::new(ProviderErrorKind::Overloaded, 503, None, "gone"));
            let events = events_of(&editor.take());
            let error = read(&events).unwrap_err();
            assert!(
                matches!(error, WireError::Provider(error) if error.kind == ProviderErrorKind::Overloaded)
            );
        }
    }
    let mut whole = live::whole_editor(API, &ModelRequest::new("m", Vec::new()));
    whole.end_with("blocked");
    let answer = API.decode_response(&serde_json::from_slice(&whole.take()).unwrap()).unwrap();
    assert_eq!((answer.message.visible_text().as_str(), answer.stop), ("blocked", StopReason::EndTurn));
}

fn live_request(body: &str) -> LiveRequest {
    LiveRequest::read_at(API, &target(true), Bytes::copy_from_slice(body.as_bytes())).unwrap()
}

fn edited(body: &str, edit: impl FnOnce(&mut ModelRequest)) -> String {
    let request = live_request(body);
    assert!(request.is_stream());
    let mut new = request.request().clone();
    edit(&mut new);
    String::from_utf8(request.write(&new).to_vec()).unwrap()
}

#[test]
fn only_what_is_edited_in_a_request_changes() {
    let body = r#"{ "contents" : [
        {"role":"user","parts":[ {"text":"keep \u0061"}, {"text": "secret","videoMetadata":{}} ]},
        {"role":"model","parts":[{"text":"hm","thought":true},{"functionCall":{"name":"exec","args":{"a":  1.50}},"thoughtSignature":"c2ln"}]},
        {"role":"user","parts":[{"functionResponse":{"name":"exec","response":{"result":"secret 2"},"scheduling":"SILENT"}}]}
    ],"systemInstruction":{ "parts":[{"text":"Be kind."}]}, "tools":[{"functionDeclarations":[{"name":"a"} , {"name":"b"}]},{"googleSearch":{ }}],
    "toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["a","b"]}}, "future" : [1,  2] }"#;
    assert_eq!(edited(body, |_| {}), body);
    let got = edited(body, |new| drop(new.messages[0].content.remove(1)));
    assert_eq!(got, body.replace(r#", {"text": "secret","videoMetadata":{}}"#, ""));
    let got = edited(body, |new| new.set_system_text(Some("Be short.".into())));
    assert_eq!(got, body.replace("Be kind", "Be short"));
    let got = edited(body, |new| {
        if let Part::ToolCall(call) = &mut new.messages[1].content[1] {
            call.arguments.make_mut().insert("a".to_owned(), json!(2));
        }
    });
    assert_eq!(got, body.replace("{\"a\":  1.50}", "{\"a\":2}"));
    let got = edited(body, |new| {
        if let Part::ToolResult(result) = &mut new.messages[2].content[0] {
            result.content = vec![Part::text("gone")];
        }
    });
    let value: Value = serde_json::from_str(&got).unwrap();
    assert_eq!(
        value["contents"][2]["parts"][0]["functionResponse"],
        json!({"name": "exec", "response": {"result": "gone"}, "scheduling": "SILENT"})
    );
    assert!(got.contains("\"text\":\"keep \\u0061\""), "the rest stays as it was written");
    let got = edited(body, |new| drop(new.tools.remove(1)));
    let expected = body
        .replace(r#"{"name":"a"} , {"name":"b"}"#, r#"{"name":"a"}"#)
        .replace(r#""allowedFunctionNames":["a","b"]"#, r#""allowedFunctionNames":["a"]"#);
    assert_eq!(got, expected);
    let got = edited(body, |new| new.tools.truncate(2));
    assert_eq!(got, body.replace(r#",{"googleSearch":{ }}"#, ""));
    let got = edited(body, |new| new.tools.clear());
    let value: Value = serde_json::from_str(&got).unwrap();
    assert!(value.get("tools").is_none() && value.get("toolConfig").is_none(), "{got}");
}

#[test]
fn another_spelling_is_never_doubled() {
    let body =
        r#"{"contents":[{"parts":[{"text":"x"}]}],"system_instruction":{"parts":[{"text":"secret"}]}}"#;
    let got = edited(body, |new| new.set_system_text(Some("clean".into())));
    assert!(!got.contains("secret"), "{got}");
    assert_eq!(live_request(&got).request().system_text().unwrap(), "clean");
}

proptest! {
    #[test]
    fn edited_streams_are_the_answers_asked_for(
        words in prop::collection::vec("[a-f\"\\\\é ]{1,9}", 0..3),
        calls in prop::collection::vec("[a-c]{1,3}", 0..4),
        removed in prop::collection::vec(0usize..4, 0..4),
        mask in prop::option::of(prop::sample::select(vec!["", "***", "é"])),
        chunk in 1usize..6,
        cut in 1usize..40,
    ) {
        let text = words.iter().map(|word| Part::text(word.as_str())).take(1);
        let call = |name: &String| {
            let arguments = json!({"name": name, "functionCall": {"name": name, "args": {"e": "e"}}});
            let body = json!({"candidates": [{"content": {"parts": [arguments["functionCall"]]}, "finishReason": "STOP"}]});
            API.decode_response(&body).unwrap().message.content.remove(0)
        };
        let parts: Vec<Part> = text.chain(calls.iter().map(call)).collect();
        let stop = if calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
        let answer = ModelResponse::new("r", "m", parts, stop);
        let mut encoder = API.stream_encoder(&ModelRequest::new("m", Vec::new()));
        let bytes: Vec<u8> = answer.to_events(chunk).iter().flat_map(|event| encoder.push(event)).flat_map(|event| event.encode()).collect();
        let judge = Judge { mask, removed, ..Judge::default() };
        let mut editor = live::stream_editor(API, &ModelRequest::new("m", Vec::new()));
        let pieces: Vec<&[u8]> = bytes.chunks(cut).collect();
        let sent = pass(&mut *editor, &pieces, &judge);
        let got = read(&events_of(&sent)).unwrap();
        prop_assert_eq!(said(&got), said(&judged(answer.clone(), &judge)));

        let whole = API.encode_response(&answer).to_string();
        let mut editor = live::whole_editor(API, &ModelRequest::new("m", Vec::new()));
        let sent = pass(&mut *editor, &[whole.as_bytes()], &judge);
        let got = API.decode_response(&serde_json::from_slice(&sent).unwrap()).unwrap();
        prop_assert_eq!(said(&got), said(&judged(answer, &judge)));
    }

    #[test]
    fn any_bytes_are_survived(name in 0usize..4, at in any::<prop::sample::Index>(), with in prop::collection::vec(any::<u8>(), 0..4)) {
        let (_, text) = fixtures(".stream.sse").swap_remove(name);
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        let end = (at + with.len()).min(bytes.len());
        bytes.splice(at..end, with);
        let mut editor = live::stream_editor(API, &ModelRequest::new("m", Vec::new()));
        let _ = editor.push(&bytes);
        let _ = editor.finish();
        let body = fixture("agent.request.json").into_bytes();
        let mut body = body;
        let place = at.min(body.len() - 1);
        body[place] = b'"';
        if let Ok(request) = LiveRequest::read_at(API, &target(false), body.into()) {
            let mut new = request.request().clone();
            new.messages.truncate(1);
            LiveRequest::read_at(API, &target(false), request.write(&new)).unwrap();
        }
    }
}
