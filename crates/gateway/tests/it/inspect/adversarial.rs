//! The corpus of adversarial answers behind answers whose calls were refused, past hooks that take out every call and every
//! secret. Alone they are tried in the [matrix](crate::matrix).

#[path = "../../../../llm/tests/adversarial/corpus.rs"]
pub(crate) mod corpus;

use backstop_gateway::Gateway;
use backstop_gateway::inspect::HookSettings;
use backstop_hooks::conversation::{Part, ToolResult};
use backstop_hooks::points::{AfterLlmCall, AfterLlmCallOutcome, ToolAfter, ToolAfterOutcome, ToolCallIds};
use backstop_llm::sse::SseDecoder;
use backstop_llm::{Api, WireError};
use serde_json::{Value, json};

use self::corpus::{Adverse, FILES, SECRET, Written, corpus, tells};
use super::support::{House, ask, way};
use crate::clouds::frames;
use crate::matrix::unframed;
use crate::support::{Answer, Script, Upstream, chunk, post, talk};

/// Takes out every call, and the secret wherever it stands.
pub(crate) fn denying() -> House {
    let house = House::new();
    house.redact();
    house.judge::<AfterLlmCall>("withhold", |_| {
        let tool_calls = Some(ToolCallIds::new(Vec::<&str>::new()));
        Some(AfterLlmCallOutcome { tool_calls, ..AfterLlmCallOutcome::default() })
    });
    house.judge::<ToolAfter>("redacts", |event| {
        let [Part::Unknown { raw }] = event.result.content.as_slice() else { return None };
        let cleaned = raw.to_value().to_string().replace(SECRET, "[gone]");
        let raw = serde_json::from_str::<Value>(&cleaned).ok()?.into();
        let result = ToolResult { content: vec![Part::Unknown { raw }], ..event.result.clone() };
        Some(ToolAfterOutcome { result: Some(result) })
    });
    house
}

fn script(answer: &Adverse, size: usize) -> Script {
    let (kind, bytes) = match answer.form {
        Written::Events if answer.api == Api::BedrockConverse => {
            let frames = frames::of_lines(answer.api, &answer.bytes);
            ("application/vnd.amazon.eventstream", frames.concat())
        }
        Written::Events => ("text/event-stream", answer.bytes.clone()),
        Written::Whole | Written::Array => ("application/json", answer.bytes.clone()),
    };
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n");
    let mut script = Script::whole(head);
    script.pieces.extend(bytes.chunks(size).map(chunk));
    script.pieces.push(b"0\r\n\r\n".to_vec());
    script
}

async fn sent(gateway: &Gateway, answer: &Adverse) -> Answer {
    let streams = answer.form != Written::Whole;
    let target = match answer.form {
        Written::Array => "/v1beta/models/m:streamGenerateContent".to_owned(),
        Written::Events | Written::Whole => way(answer.api, streams),
    };
    let got = talk(gateway, post(&target, &ask(answer.api, streams, "hi").to_string())).await;
    if got.head().contains("vnd.amazon.eventstream") { unframed(answer, got) } else { got }
}

/// What is wrong with what a client got.
pub(crate) fn fault(answer: &Adverse, got: &Answer) -> Option<&'static str> {
    let (body, is_whole) = got.body();
    if tells(body.as_bytes()) {
        return Some("the secret was told");
    }
    if !is_whole {
        return Some("it was cut off");
    }
    let has_error = |body: &str| {
        let parsed = serde_json::from_str::<Value>(body).unwrap_or_default();
        // Bedrock's have no field of their own.
        let error = if parsed["error"].is_object() { &parsed["error"] } else { &parsed };
        error["message"].is_string()
    };
    if got.status() != 200 {
        return (!has_error(&body)).then_some("its error has another shape");
    }
    let reads = match answer.form {
        Written::Whole => {
            serde_json::from_str(&body).is_ok_and(|body| answer.api.decode_response(&body).is_ok())
        }
        Written::Array => serde_json::from_str::<Vec<Value>>(&body).is_ok(),
        Written::Events => read(answer.api, &body).is_ok_and(|()| true),
    };
    (!reads).then_some("no client can read it")
}

/// Whether a client of the wire reads a stream to its end, or to an error.
fn read(api: Api, body: &str) -> Result<(), WireError> {
    let (mut frames, mut decoder) = (SseDecoder::default(), api.stream_decoder());
    let mut found = frames.push(body.as_bytes())?;
    found.extend(frames.finish());
    for event in found.into_iter().filter_map(|frame| frame.event) {
        match decoder.push(&event) {
            Err(WireError::Provider(_)) => return Ok(()),
            other => other?,
        };
    }
    decoder.finish().map(|_| ())
}

/// Answers that follow another one, whose calls were refused.
async fn check_behind_a_refusal(api: Api) {
    let mut faults = Vec::new();
    let mut count = 0;
    for answer in FILES.into_iter().flat_map(corpus) {
        if answer.api != api || answer.form == Written::Array {
            continue;
        }
        count += 1;
        let first = Adverse { bytes: corpus::plain(api, answer.form), ..answer.clone() };
        let scripts = [
            script(&first, usize::MAX),
            script(&answer, usize::MAX),
            script(&first, 11),
            script(&answer, 11),
        ];
        let upstream = Upstream::start(move |number| scripts[number % 4].clone()).await;
        let gateway =
            denying().gateway(&upstream.url(), HookSettings { refusals: 1, ..HookSettings::default() }).await;
        for _ in 0..2 {
            let got = sent(&gateway, &answer).await;
            if let Some(fault) = fault(&answer, &got) {
                faults.push(format!("{}: {fault}: {}", answer.name, got.text()));
            }
        }
        assert_eq!(upstream.count(), 4, "{}", answer.name);
    }
    assert!(count > 150, "{count}");
    assert!(faults.is_empty(), "{}:\n{}", faults.len(), faults.join("\n"));
}

/// Events of the corpus as messages of a WebSocket: the data of each frame, in the bytes that it has.
pub(crate) fn as_messages(answer: &Adverse) -> Vec<Vec<u8>> {
    let frames = answer.bytes.split(|byte| *byte == b'\n');
    frames.filter_map(|line| line.strip_prefix(b"data: ")).map(<[u8]>::to_vec).collect()
}

#[test]
fn events_become_messages() {
    let answers = corpus("grammar");
    let plain = answers.iter().find(|answer| answer.api == Api::OpenAiResponses).unwrap();
    let messages = as_messages(plain);
    let first: Value = serde_json::from_slice(&messages[0]).unwrap();
    assert_eq!((messages.len(), &first["type"]), (10, &json!("response.created")));
}

#[tokio::test]
async fn adversarial_answers_behind_a_refusal_tell_nothing_on_anthropic_messages() {
    check_behind_a_refusal(Api::AnthropicMessages).await;
}

#[tokio::test]
async fn adversarial_answers_behind_a_refusal_tell_nothing_on_openai_chat() {
    check_behind_a_refusal(Api::OpenAiChat).await;
}

#[tokio::test]
async fn adversarial_answers_behind_a_refusal_tell_nothing_on_openai_responses() {
    check_behind_a_refusal(Api::OpenAiResponses).await;
}

#[tokio::test]
async fn adversarial_answers_behind_a_refusal_tell_nothing_on_gemini() {
    check_behind_a_refusal(Api::Gemini).await;
}

#[tokio::test]
async fn adversarial_answers_behind_a_refusal_tell_nothing_on_converse() {
    check_behind_a_refusal(Api::BedrockConverse).await;
}
