//! Amazon Bedrock: the model in the address, frames around the events of a stream.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_gateway::inspect::{HookSettings, Hooks, Unasked};
use backstop_gateway::{AwsCredentials, Cloud, Credential, Family, Gateway, Settings};
use backstop_hooks::Decision;
use backstop_hooks::points::{BeforeLlmCall, BeforeLlmCallOutcome};
use backstop_store::Timestamp;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::frames::{bytes, chunk, events, exception, frame, read, streaming};
use super::{body, in_cloud, line};
use crate::inspect::approvals;
use crate::inspect::support::{House, SECRET};
use crate::support::{
    Answer, Script, Upstream, connect, find, gateway, post, rest, secret, settings, start, talk, within,
};

const MODEL: &str = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";
const INVOKE: &str = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke";
const STREAM: &str = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke-with-response-stream";

fn cloud() -> Cloud {
    Cloud::Bedrock { region: "us-east-1".to_owned() }
}

fn bedrock(upstream: &Upstream) -> Settings {
    in_cloud(upstream, &cloud(), &[Family::Anthropic])
}

async fn judged(house: &House, settings: Settings, hooks: HookSettings) -> Gateway {
    start(settings, Hooks::new(house.engine.clone(), hooks).unwrap()).await.unwrap()
}

/// As boto3 and Anthropic's SDK for Bedrock send it.
fn asked() -> String {
    json!({
        "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}],
        "anthropic_version": "bedrock-2023-05-31", "anthropic_beta": ["a-1"],
    })
    .to_string()
}

fn message(content: Value) -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": content,
        "stop_reason": "tool_use", "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1},
    })
}

/// An answer with a text and a call of `tool`.
fn streamed(tool: &str) -> Vec<Value> {
    let block = json!({"type": "tool_use", "id": "toolu_1", "name": tool, "input": {}});
    let arguments = json!({"command": SECRET}).to_string();
    let mut begun = message(json!([]));
    begun["stop_reason"] = Value::Null;
    let metrics = json!({"inputTokenCount": 1, "outputTokenCount": 1, "invocationLatency": 5});
    vec![
        json!({"type": "message_start", "message": begun}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "look"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": block}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": arguments}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"output_tokens": 1}}),
        json!({"type": "message_stop", "amazon-bedrock-invocationMetrics": metrics}),
    ]
}

fn framed(events: &[Value]) -> Vec<u8> {
    events.iter().flat_map(chunk).collect()
}

fn guarded() -> House {
    let house = House::new();
    house.withhold("exec");
    house
}

#[tokio::test]
async fn what_nobody_looks_at_passes_byte_for_byte() {
    let stream = framed(&streamed("exec"));
    let script = streaming(&[&stream]);
    let upstream = Upstream::start(move |_| script.clone()).await;
    let gateway = gateway(bedrock(&upstream)).await;
    let body = format!(" {}\n", asked());
    let request = post(STREAM, &body).replacen(
        "host: localhost",
        "host: localhost\r\nauthorization: AWS4-HMAC-SHA256 mine\r\nx-amz-date: 2\r\nx-amzn-bedrock-trace: ENABLED",
        1,
    );
    let answer = talk(&gateway, request).await;
    assert_eq!(bytes(&answer), stream);
    let sent = upstream.request(0);
    assert_eq!(line(&sent), format!("POST {STREAM} HTTP/1.1"));
    assert!(sent.ends_with(&body), "{sent}");
    assert!(sent.contains("\r\nauthorization: Bearer cloud-key\r\n") && !sent.contains("mine"), "{sent}");
    assert!(sent.contains("x-amzn-bedrock-trace: ENABLED") && !sent.contains("x-amz-date"), "{sent}");
}

/// `botocore` and the SDKs pass over events that their tables do not have, so one of these keeps them patient.
#[tokio::test]
async fn an_answer_in_frames_waits_for_a_person_behind_events_that_nobody_knows() {
    for (decision, passes) in [(Decision::AllowOnce, true), (Decision::Deny, false)] {
        let house = approvals::asking(Duration::from_secs(60));
        let script = streaming(&[&framed(&streamed("exec"))]);
        let upstream = Upstream::start(move |_| script.clone()).await;
        let gateway = judged(&house, bedrock(&upstream), approvals::settings(Unasked::Wait)).await;
        let mut socket = connect(&gateway).await;
        socket.write_all(post(STREAM, &asked()).as_bytes()).await.unwrap();
        let record = approvals::question(&house).await;
        let mut begun = Vec::new();
        while find(&begun, b":event-type\x07\0\x04ping").is_none() {
            assert!(within(socket.read_buf(&mut begun)).await.unwrap() > 0);
        }
        assert!(find(&begun, b"toolu_1").is_none());
        let store = house.engine.answer_store();
        store.resolve_approval(&record.id, decision, "a person", Timestamp::now()).await.unwrap();
        let ended = within(rest(&mut socket)).await;
        let answer = Answer { bytes: [begun, ended.bytes].concat(), broken: ended.broken };
        let said: Vec<Value> = read(&bytes(&answer))
            .into_iter()
            .filter(|(kind, _)| kind != "ping")
            .map(|(_, event)| event)
            .collect();
        if passes {
            assert_eq!(said, streamed("exec"));
        } else {
            let all = Value::from(said).to_string();
            assert!(!all.contains("toolu_1") && all.contains("denied by a human"), "{all}");
        }
    }
}

#[tokio::test]
async fn a_call_that_is_allowed_passes_and_one_that_is_denied_never_does() {
    for (tool, passes) in [("read", true), ("exec", false)] {
        for size in [1, 7, 100, 1 << 20] {
            let stream = framed(&streamed(tool));
            let pieces: Vec<&[u8]> = stream.chunks(size).collect();
            let script = streaming(&pieces);
            let upstream = Upstream::start(move |_| script.clone()).await;
            let gateway = judged(&guarded(), bedrock(&upstream), HookSettings::default()).await;
            let answer = talk(&gateway, post(STREAM, &asked())).await;
            let said = events(&answer);
            if passes {
                assert_eq!(said, streamed(tool), "{size}");
            } else {
                let all = Value::from(said.clone()).to_string();
                assert!(!all.contains(SECRET) && !all.contains("toolu_1") && all.contains("look"), "{all}");
                assert_eq!(said.last().unwrap()["type"], "message_stop");
                assert!(all.contains("end_turn"), "{all}");
            }
        }
    }
}

#[tokio::test]
async fn no_cut_lets_a_denied_call_out() {
    let stream = framed(&streamed("exec"));
    let size = stream.len();
    let upstream = Upstream::start(move |number| streaming(&[&stream[..number]])).await;
    let gateway = judged(&guarded(), bedrock(&upstream), HookSettings::default()).await;
    for cut in 0..size {
        let answer = talk(&gateway, post(STREAM, &asked())).await;
        let said = if answer.head().contains("eventstream") { read(&bytes(&answer)) } else { Vec::new() };
        let all = format!("{said:?} {}", answer.text());
        assert!(!all.contains(SECRET) && !all.contains("toolu_1") && !all.contains("exec\""), "{cut}: {all}");
        let ends =
            said.last().map_or_else(|| answer.status() >= 500, |(kind, _)| kind.ends_with("Exception"));
        assert!(ends, "{cut}: {all}");
    }
}

#[tokio::test]
async fn frames_that_can_not_be_trusted_end_an_answer() {
    let events = streamed("read");
    let chunk_headers = [(":event-type", "chunk"), (":message-type", "event")];
    let mut wrong = chunk(&events[6]);
    let middle = wrong.len() / 2;
    wrong[middle] ^= 1;
    for bad in [
        wrong,
        frame(
            &[(":event-type", "future"), (":message-type", "event")],
            &json!({"bytes": "e30="}).to_string(),
        ),
        frame(&[(":event-type", "chunk"), (":message-type", "future")], "{}"),
        frame(&[(":event-type", "chunk")], "{}"),
        frame(&chunk_headers, r#"{"bytes":"e30=","bytes":"e30="}"#),
        frame(&chunk_headers, r#"{"bytes":"no base64!"}"#),
        frame(&chunk_headers, r#"{"bytes":"e30="}"#),
        frame(&[(":event-type", "chunk"), (":event-type", "chunk"), (":message-type", "event")], "{}"),
        b"data: {}\n\n".repeat(4),
    ] {
        let stream = [framed(&events[..6]), bad, framed(&events[6..])].concat();
        let script = streaming(&[&stream]);
        let upstream = Upstream::start(move |_| script.clone()).await;
        let gateway = judged(&guarded(), bedrock(&upstream), HookSettings::default()).await;
        let answer = talk(&gateway, post(STREAM, &asked())).await;
        assert!(!answer.text().contains(SECRET), "{}", answer.text());
        if answer.status() == 200 {
            let said = read(&bytes(&answer));
            assert!(said.last().unwrap().0.ends_with("Exception"), "{said:?}");
            assert!(!format!("{said:?}").contains(SECRET), "{said:?}");
        }
    }
}

#[tokio::test]
async fn an_exception_in_a_stream_is_told_in_the_clients_envelope() {
    let (begun, failed) = (framed(&streamed("read")[..3]), exception("throttlingException", "slow down"));
    let script = streaming(&[&begun, &failed]).paced(Duration::from_millis(100));
    let upstream = Upstream::start(move |_| script.clone()).await;
    let gateway = judged(&guarded(), bedrock(&upstream), HookSettings::default()).await;
    let said = read(&bytes(&talk(&gateway, post(STREAM, &asked())).await));
    let (kind, told) = said.last().unwrap();
    assert_eq!((kind.as_str(), &told["message"]), ("throttlingException", &json!("slow down")));
    let plain = json!({"model": MODEL, "stream": true, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]});
    let answer = talk(&gateway, post("/v1/messages", &plain.to_string())).await.text();
    assert!(answer.contains("rate_limit_error") && answer.contains("slow down"), "{answer}");
}

#[tokio::test]
async fn an_exception_before_the_first_event_is_an_error() {
    let script = streaming(&[&exception("throttlingException", "slow down")]);
    let upstream = Upstream::start(move |_| script.clone()).await;
    let gateway = judged(&guarded(), bedrock(&upstream), HookSettings::default()).await;
    let answer = talk(&gateway, post(STREAM, &asked())).await;
    assert_eq!((answer.status(), &answer.json()["message"]), (429, &json!("slow down")));
    assert!(answer.head().contains("x-amzn-errortype: ThrottlingException"), "{}", answer.text());
}

/// A client that speaks Messages, at a provider that speaks Bedrock.
#[tokio::test]
async fn a_client_of_anthropic_reaches_a_model_in_bedrock() {
    let stream = framed(&streamed("read"));
    for inspected in [false, true] {
        let script = streaming(&[&stream]);
        let upstream = Upstream::start(move |number| match number {
            0 => script.clone(),
            _ => Script::json("200 OK", &message(json!([{"type": "text", "text": "so"}])).to_string()),
        })
        .await;
        let gateway = match inspected {
            true => judged(&guarded(), bedrock(&upstream), HookSettings::default()).await,
            false => gateway(bedrock(&upstream)).await,
        };
        let messages = json!([{"role": "user", "content": "hi"}]);
        let mut plain = json!({"model": MODEL, "stream": true, "max_tokens": 9, "messages": messages});
        let ask = |plain: &Value| {
            post("/v1/messages?beta=true", &plain.to_string()).replacen(
                "host: localhost",
                "host: localhost\r\nanthropic-version: 2023-06-01\r\nanthropic-beta: b-1, b-2",
                1,
            )
        };
        let answer = talk(&gateway, ask(&plain)).await;
        assert!(answer.head().contains("content-type: text/event-stream"), "{}", answer.text());
        let text = answer.body().0;
        for event in streamed("read") {
            let kind = event["type"].as_str().unwrap();
            assert!(text.contains(&format!("event: {kind}\ndata: {event}\n\n")), "{event} in {text}");
        }
        let sent = upstream.request(0);
        assert_eq!(line(&sent), format!("POST {STREAM} HTTP/1.1"));
        let expected = json!({
            "max_tokens": 9, "messages": messages,
            "anthropic_version": "bedrock-2023-05-31", "anthropic_beta": ["b-1", "b-2"],
        });
        assert_eq!(body(&sent), expected);
        assert!(!sent.contains("anthropic-version:") && !sent.contains("anthropic-beta:"), "{sent}");
        plain["stream"] = false.into();
        assert_eq!(talk(&gateway, ask(&plain)).await.json()["content"][0]["text"], "so");
        assert_eq!(line(&upstream.request(1)), format!("POST {INVOKE} HTTP/1.1"));
    }
}

/// A client that speaks Bedrock, at a provider that speaks Messages.
#[tokio::test]
async fn a_client_of_bedrock_reaches_a_model_of_the_maker() {
    let events_of: Vec<String> = streamed("read")
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
        .collect();
    for inspected in [false, true] {
        let events_of = events_of.clone();
        let upstream = Upstream::start(move |_| {
            Script::events(&events_of.iter().map(String::as_str).collect::<Vec<_>>())
        })
        .await;
        let mut settings = settings(&upstream);
        settings.providers.get_mut("anthropic").unwrap().credential = Credential::Key(secret("maker-key"));
        let gateway = match inspected {
            true => judged(&guarded(), settings, HookSettings::default()).await,
            false => gateway(settings).await,
        };
        let answer = talk(&gateway, post(STREAM, &asked())).await;
        assert_eq!(events(&answer), streamed("read"));
        let sent = upstream.request(0);
        assert_eq!(line(&sent), "POST /v1/messages HTTP/1.1");
        let expected = json!({"model": MODEL, "stream": true, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]});
        assert_eq!(body(&sent), expected);
        for header in ["x-api-key: maker-key", "anthropic-version: 2023-06-01", "anthropic-beta: a-1"] {
            assert!(sent.contains(&format!("\r\n{header}\r\n")), "{header}: {sent}");
        }
    }
}

/// The key or the signature that a client has for one cloud is for nobody else.
#[tokio::test]
async fn a_clients_credentials_go_to_no_other_api() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let with_key = |path: &str, body: &str| {
        post(path, body).replacen("host: localhost", "host: localhost\r\nauthorization: Bearer mine", 1)
    };
    let to_maker = gateway(settings(&upstream)).await;
    let answer = talk(&to_maker, with_key(INVOKE, &asked())).await;
    assert_eq!(answer.status(), 400, "{}", answer.text());
    assert!(answer.json()["message"].as_str().unwrap().contains("no credentials of its own"));
    let mut settings = bedrock(&upstream);
    settings.providers.get_mut("anthropic").unwrap().credential = Credential::Client;
    let to_cloud = gateway(settings).await;
    let plain = json!({"model": MODEL, "messages": []}).to_string();
    assert_eq!(talk(&to_cloud, with_key("/v1/messages", &plain)).await.status(), 400);
    assert_eq!(upstream.count(), 0);
    assert_eq!(talk(&to_cloud, with_key(INVOKE, &asked())).await.status(), 200);
    assert!(upstream.request(0).contains("authorization: Bearer mine"));
}

#[tokio::test]
async fn lists_and_hooks_go_by_the_model_of_the_address() {
    let upstream = Upstream::start(|_| Script::json("200 OK", &message(json!([])).to_string())).await;
    let house = House::new();
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&seen);
    house.judge::<BeforeLlmCall>("looks", move |event| {
        told.lock().unwrap().push(event.model.clone());
        assert!(event.other_models.is_none(), "{:?}", event.other_models);
        None
    });
    let mut settings = bedrock(&upstream);
    settings.providers.get_mut("anthropic").unwrap().models =
        vec!["us.anthropic.*-v1:0".to_owned(), "arn:*/ok".to_owned()];
    let gateway = judged(&house, settings, HookSettings::default()).await;
    assert_eq!(talk(&gateway, post(INVOKE, &asked())).await.status(), 200);
    assert!(upstream.request(0).ends_with(&asked()), "{}", upstream.request(0));
    let arn = "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fok/invoke";
    assert_eq!(talk(&gateway, post(arn, &asked())).await.status(), 200);
    assert_eq!(line(&upstream.request(1)), format!("POST {arn} HTTP/1.1"));
    assert_eq!(*seen.lock().unwrap(), [MODEL, "arn:aws:bedrock:us-east-1:1:inference-profile/ok"]);
    // What the body names means nothing, and is not sent.
    let cheaper = asked().replacen('{', r#"{"model":"us.anthropic.x-v1:0","#, 1);
    assert_eq!(talk(&gateway, post("/model/other/invoke", &cheaper)).await.status(), 404);
    assert_eq!(talk(&gateway, post(INVOKE, &cheaper)).await.status(), 200);
    assert_eq!(body(&upstream.request(2)), serde_json::from_str::<Value>(&asked()).unwrap());
    for strange in ["..", "%2e%2e", "a%252Fb", "a%00b", "a%2F..%2Fb", "a%3Fb", "a%20b"] {
        let answer = talk(&gateway, post(&format!("/model/{strange}/invoke"), &asked())).await;
        assert!([400, 403].contains(&answer.status()), "{strange}: {}", answer.text());
    }
    assert_eq!(upstream.count(), 3);
}

#[tokio::test]
async fn other_operations_are_refused_in_the_words_of_bedrock() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let gateway = gateway(bedrock(&upstream)).await;
    for path in ["/model/m/Converse", "/model/m/async-invoke", "/model/m/count-tokens/x", "/Model/m/Invoke"] {
        let answer = talk(&gateway, post(path, "{}")).await;
        assert_eq!(answer.status(), 403, "{path}");
        assert!(answer.text().contains("speaks `invoke`"), "{}", answer.text());
    }
    let answer = talk(&gateway, post("/model/m/future", "{}")).await;
    assert!(answer.head().contains("x-amzn-errortype: AccessDeniedException"), "{}", answer.text());
    assert!(answer.json()["message"].as_str().unwrap().starts_with("backstop: "));
    // What Bedrock has no envelope for is not asked there.
    for (path, body) in
        [("/v1/messages/count_tokens", r#"{"model":"m","messages":[]}"#), ("/v1/messages", "[]")]
    {
        assert_eq!(talk(&gateway, post(path, body)).await.status(), 400, "{path}");
    }
    assert_eq!(talk(&gateway, post(INVOKE, r#"{"a":1,"a":2}"#)).await.status(), 400);
    let no_token = post(INVOKE, "{}").replace("/t/0123456789abcdef", "");
    let answer = talk(&gateway, no_token).await;
    assert!(answer.status() == 401 && answer.json()["message"].is_string(), "{}", answer.text());
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn a_block_is_an_answer_in_frames() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let house = House::new();
    house.judge::<BeforeLlmCall>("no", |_| {
        Some(BeforeLlmCallOutcome {
            block: Some(true),
            block_reason: Some("not today".into()),
            ..Default::default()
        })
    });
    let gateway = judged(&house, bedrock(&upstream), HookSettings::default()).await;
    let said = events(&talk(&gateway, post(STREAM, &asked())).await);
    assert_eq!(
        (&said[0]["type"], &said.last().unwrap()["type"]),
        (&json!("message_start"), &json!("message_stop"))
    );
    assert!(Value::from(said).to_string().contains("not today"));
    let answer = talk(&gateway, post(INVOKE, &asked())).await;
    assert!(answer.json()["content"][0]["text"].as_str().unwrap().contains("not today"));
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn requests_are_signed_by_the_operator() {
    let upstream = Upstream::start(|_| Script::json("200 OK", &message(json!([])).to_string())).await;
    let mut settings = bedrock(&upstream);
    settings.providers.get_mut("anthropic").unwrap().credential = Credential::Aws(AwsCredentials {
        key_id: "ID".to_owned(),
        key: secret("wJalr"),
        token: Some(secret("lent-token")),
    });
    let gateway = gateway(settings).await;
    let request = post(INVOKE, &asked()).replacen(
        "host: localhost",
        "host: localhost\r\nauthorization: AWS4-HMAC-SHA256 mine\r\nx-amz-security-token: mine\r\nx-amz-other: mine",
        1,
    );
    assert_eq!(talk(&gateway, request).await.status(), 200);
    let sent = upstream.request(0);
    assert!(sent.contains("authorization: AWS4-HMAC-SHA256 Credential=ID/"), "{sent}");
    assert!(
        sent.contains(
            "/us-east-1/bedrock/aws4_request, SignedHeaders=host;x-amz-date;x-amz-security-token, "
        )
    );
    assert!(sent.contains("x-amz-security-token: lent-token") && !sent.contains("mine"), "{sent}");
}

/// After a refusal the same provider is asked once more, in its envelope.
#[tokio::test]
async fn the_model_hears_of_a_refusal_in_its_envelope() {
    let mut last = streamed("read");
    last.drain(4..7);
    last[4]["delta"]["stop_reason"] = "end_turn".into();
    let scripts = [framed(&streamed("exec")), framed(&last)];
    let upstream = Upstream::start(move |number| streaming(&[&scripts[number.min(1)]])).await;
    let hooks = HookSettings { refusals: 1, ..HookSettings::default() };
    let gateway = judged(&guarded(), bedrock(&upstream), hooks).await;
    let said = events(&talk(&gateway, post(STREAM, &asked())).await);
    assert_eq!(upstream.count(), 2);
    let again = upstream.request(1);
    assert_eq!(line(&again), format!("POST {STREAM} HTTP/1.1"));
    assert!(
        body(&again).get("model").is_none() && body(&again)["messages"].as_array().unwrap().len() == 3,
        "{again}"
    );
    assert!(!Value::from(said.clone()).to_string().contains(SECRET));
    assert_eq!(said.last().unwrap()["type"], "message_stop");
}
