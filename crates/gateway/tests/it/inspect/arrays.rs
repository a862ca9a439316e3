//! Gemini streams that are one JSON array, as clients get them that do not ask for events.

use std::time::Duration;

use backstop_engine::Verdict;
use backstop_gateway::inspect::{BlockedForm, HookSettings};
use backstop_hooks::PointId;
use backstop_hooks::points::{BeforeLlmCall, BeforeLlmCallOutcome, BeforeResponseEmit, ResponseEmitOutcome};
use backstop_llm::Api;
use serde_json::{Value, json};

use super::support::*;
use crate::support::{Answer, End, Script, Upstream, chunk, post, talk};

const PATH: &str = "/v1beta/models/m:streamGenerateContent";

async fn answer_to(house: &House, url: &str, settings: HookSettings) -> Answer {
    let gateway = house.gateway(url, settings).await;
    talk(&gateway, post(PATH, &ask(Api::Gemini, true, "hi").to_string())).await
}

/// The elements of an array that is whole, and all that the model says in them.
fn said(answer: &Answer) -> (Vec<Value>, String) {
    let elements: Vec<Value> = serde_json::from_str(&answer.body().0).unwrap();
    let parts = elements.iter().filter_map(|element| element.pointer("/candidates/0/content/parts"));
    let texts = parts.filter_map(Value::as_array).flatten().filter_map(|part| part["text"].as_str());
    let text = texts.collect();
    (elements, text)
}

/// An upstream that writes the pieces of an array, one after the other.
async fn upstream(pieces: &[String], end: End) -> Upstream {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json; charset=UTF-8\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut script = Script::whole(head).paced(Duration::from_millis(20)).ending(end);
    script.pieces.extend(pieces.iter().map(|piece| chunk(piece.as_bytes())));
    Upstream::start(move |_| script.clone()).await
}

fn element(text: &str) -> String {
    let part = json!({"text": text});
    json!({"candidates": [{"content": {"parts": [part], "role": "model"}}], "responseId": "r"}).to_string()
}

#[tokio::test]
async fn an_array_is_judged_while_it_streams() {
    let house = House::new();
    house.redact();
    house.withhold("exec");
    let model = model(json!([{
        "text": format!("words and then {SECRET} and more"),
        "tool_calls": [
            {"name": "exec", "arguments": {"command": "marker"}},
            {"name": "read", "arguments": {"path": "a"}},
        ],
        "chunk": 8,
    }]))
    .await;
    let answer = answer_to(&house, &model.base_url(), HookSettings::default()).await;
    assert!(answer.head().contains("application/json"), "{}", answer.text());
    assert!(!answer.text().contains(SECRET) && !answer.text().contains("marker"), "{}", answer.text());
    let (elements, text) = said(&answer);
    assert!(elements.len() > 3);
    assert!(text.starts_with("words and then [gone] and more\n\n[backstop] withheld `exec`"), "{text}");
    assert!(answer.text().contains("\"read\""));
    assert_eq!(house.receipts.of(PointId::AfterLlmCall).len(), 1);
}

const LAST: &str = r#"{"candidates": [{"finishReason": "STOP", "index": 0}]}"#;

#[tokio::test]
async fn what_nobody_edits_leaves_as_it_came() {
    let pieces = ["[{\n  \"candidates\"", ": []\n}\n,\r", "\n", &element("hi"), "\n,\r\n", LAST, "\n]"];
    let pieces = pieces.map(str::to_owned);
    let house = House::new();
    house.redact();
    house.withhold("exec");
    let mut ended = pieces.to_vec();
    ended.push(String::new());
    let upstream = upstream(&ended, End::KeepOpen).await;
    let answer = answer_to(&house, &upstream.url(), HookSettings::default()).await;
    assert_eq!(answer.body(), (pieces.concat(), true));
}

#[tokio::test]
async fn a_blocked_request_is_answered_with_an_array() {
    let house = House::new();
    house.judge::<BeforeLlmCall>("stop", |_| {
        Some(BeforeLlmCallOutcome {
            block: Some(true),
            block_reason: Some("not today".into()),
            ..BeforeLlmCallOutcome::default()
        })
    });
    let model = model(json!([])).await;
    let answer = answer_to(&house, &model.base_url(), HookSettings::default()).await;
    assert_eq!((answer.status(), said(&answer).1.as_str()), (200, "[backstop] blocked: not today"));
    let settings = HookSettings { blocked: BlockedForm::Error, ..HookSettings::default() };
    let answer = answer_to(&house, &model.base_url(), settings).await;
    assert_eq!(answer.status(), 403);
    assert!(model.requests().is_empty());
    assert_eq!(house.receipts.of(PointId::BeforeLlmCall), [Verdict::Block; 2]);
}

#[tokio::test]
async fn a_held_array_keeps_its_client_patient_between_its_elements() {
    let house = House::new();
    house.rewrite();
    let text = format!("early words and then {SECRET} and more");
    let model = model(json!([{"text": text, "chunk": 8, "chunk_delay_ms": 30}])).await;
    let settings = HookSettings { keep_alive: Duration::from_millis(20), ..HookSettings::default() };
    let answer = answer_to(&house, &model.base_url(), settings).await;
    assert_eq!(said(&answer).1, "early words and then [gone] and more");
    // Some readers take white space only inside the array.
    let body = answer.body().0;
    assert!(body.starts_with("[\n\n") && body.ends_with(']'), "{body:?}");
}

#[tokio::test]
async fn a_blocked_array_ends_as_an_array() {
    let stop = |house: &House| {
        house.judge::<BeforeResponseEmit>("stop", |_| {
            Some(ResponseEmitOutcome { block: Some(true), ..ResponseEmitOutcome::default() })
        });
    };
    for blocked in [BlockedForm::Answer, BlockedForm::Error] {
        let house = House::new();
        stop(&house);
        let model = model(json!([{"text": SECRET, "chunk": 4, "chunk_delay_ms": 5}])).await;
        let keep_alive = Duration::from_millis(1);
        let settings = HookSettings { blocked, keep_alive, ..HookSettings::default() };
        let answer = answer_to(&house, &model.base_url(), settings).await;
        assert!(!answer.text().contains(SECRET), "{}", answer.text());
        match blocked {
            BlockedForm::Answer => {
                assert!(said(&answer).1.starts_with("[backstop] blocked"), "{}", answer.text());
            }
            // Nothing was in the way of an error.
            BlockedForm::Error => assert_eq!(answer.status(), 403, "{}", answer.text()),
        }
    }
}

#[tokio::test]
async fn an_array_that_goes_wrong_ends_with_an_error_and_is_closed() {
    let fine = || format!("[{}\n,\r\n", element("fine so far "));
    let held = || element("sw0rdfish");
    let cases = [
        ("not JSON", vec![fine(), "{\"candidates\":]}\n]".to_owned()], End::KeepOpen),
        ("another form", vec![fine(), "[1]\n]".to_owned()], End::KeepOpen),
        (
            "an error",
            vec![
                fine(),
                "{\"error\":{\"code\":503,\"status\":\"UNAVAILABLE\",\"message\":\"x\"}}\n]".to_owned(),
            ],
            End::KeepOpen,
        ),
        ("no end", vec![fine(), held(), String::new()], End::KeepOpen),
        ("a reset", vec![fine(), held()], End::Reset),
        ("a close", vec![fine(), held()], End::Close),
    ];
    for (what, pieces, end) in cases {
        let house = House::new();
        house.redact();
        house.withhold("exec");
        let upstream = upstream(&pieces, end).await;
        let answer = answer_to(&house, &upstream.url(), HookSettings::default()).await;
        let (elements, text) = said(&answer);
        assert_eq!(text, "fine so far ", "{what}: {}", answer.text());
        assert!(elements.last().unwrap().get("error").is_some(), "{what}: {}", answer.text());
        assert!(house.receipts.of(PointId::AfterLlmCall).is_empty(), "{what}: half an answer is no answer");
    }
    // Before the first byte it is an answer of its own.
    let house = House::new();
    house.redact();
    let upstream = upstream(&["<html>".to_owned()], End::KeepOpen).await;
    let answer = answer_to(&house, &upstream.url(), HookSettings::default()).await;
    assert_eq!(answer.status(), 502, "{}", answer.text());
    assert!(answer.json()["error"]["message"].is_string());
}

/// What comes decides, where it is not what was asked for: nothing passes unread.
#[tokio::test]
async fn another_framing_than_was_asked_for_is_no_way_around() {
    let call = json!({"functionCall": {"name": "exec", "args": {"command": "marker"}}});
    let content = json!({"parts": [{"text": SECRET}, call], "role": "model"});
    let body = json!({"candidates": [{"content": content, "finishReason": "STOP"}]});
    let typed = |kind: &str, body: String| {
        Script::whole(format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
    };
    let cases = [
        (PATH.to_owned(), typed("text/event-stream", format!("data: {body}\n\n")), 200),
        (PATH.to_owned(), typed("text/event-stream", format!("[{body}]")), 502),
        (PATH.to_owned(), typed("application/json", body.to_string()), 502),
        (PATH.to_owned(), typed("application/json", format!("data: {body}\n\n")), 502),
        (format!("{PATH}?alt=sse"), typed("application/json", format!("[{body}]")), 502),
        (format!("{PATH}?alt=sse"), typed("text/plain", format!("data: {body}\n\n")), 502),
        (format!("{PATH}?alt=json&alt=sse"), typed("application/json", format!("[{body}]")), 200),
        (PATH.replace("streamG", "g"), typed("application/json", format!("[{body}]")), 502),
    ];
    for (path, script, status) in cases {
        let upstream = Upstream::start(move |_| script.clone()).await;
        let house = House::new();
        house.redact();
        house.withhold("exec");
        let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
        let answer = talk(&gateway, post(&path, &ask(Api::Gemini, true, "hi").to_string())).await;
        assert_eq!(answer.status(), status, "{path}: {}", answer.text());
        assert!(
            !answer.text().contains(SECRET) && !answer.text().contains("marker"),
            "{path}: {}",
            answer.text()
        );
    }
}
