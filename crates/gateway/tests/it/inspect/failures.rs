//! Answers that go wrong while they are judged.

use std::time::Duration;

use backstop_gateway::inspect::HookSettings;
use backstop_hooks::points::{AfterLlmCall, BeforeLlmCall, BeforeToolCall, ModelCallEnded};
use backstop_hooks::{HookError, PointId, hook_fn};
use backstop_llm::Api;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::support::*;
use crate::support::{Answer, End, Script, Upstream, connect, eventually, post, rest, until};

/// A house that judges calls, redacts, and knows how model calls ended.
fn house() -> House {
    let house = House::new();
    house.redact();
    house.withhold("exec");
    house.on::<ModelCallEnded>("ends", hook_fn::<ModelCallEnded, _>(|_, _| Ok(None)));
    house
}

async fn answered(api: Api, stream: bool, script: Script, settings: HookSettings) -> (Answer, House) {
    let house = house();
    let upstream = Upstream::start(move |_| script.clone()).await;
    let gateway = house.gateway(&upstream.url(), settings).await;
    let answer = send_to(&gateway, api, stream, &ask(api, stream, "hi")).await;
    eventually("its end was told", || !house.receipts.of(PointId::ModelCallEnded).is_empty()).await;
    (answer, house)
}

fn chat(delta: Value, finish: Value) -> String {
    let chunk = json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    format!("data: {chunk}\n\n")
}

fn text(text: &str) -> String {
    chat(json!({"content": text}), Value::Null)
}

fn call(index: usize, name: &str, arguments: &str) -> String {
    let call = json!({"index": index, "id": format!("call-{index:06}"), "type": "function",
        "function": {"name": name, "arguments": arguments}});
    chat(json!({"tool_calls": [call]}), Value::Null)
}

fn events(events: &[String]) -> Script {
    Script::events(&events.iter().map(String::as_str).collect::<Vec<_>>())
}

#[tokio::test]
async fn a_stream_that_makes_no_sense_ends_in_the_shape_of_an_error() {
    let secret_call = || call(0, "exec", &format!("{{\"command\":\"{SECRET}\"}}"));
    let broken: [(&str, Vec<String>); 5] = [
        ("not JSON", vec![text("fine so far"), secret_call(), "data: {\"id\":\n\n".into()]),
        ("an error page", vec!["data: <html>sw0rdfish-9151</html>\n\n".into()]),
        ("two names of one call", vec![text("fine"), secret_call(), call(0, "read", "{}")]),
        ("half an event", vec![text("fine"), secret_call(), "data: {\"id\"".into()]),
        ("no end", vec![text("fine"), secret_call()]),
    ];
    for (what, pieces) in broken {
        let (answer, house) = answered(Api::OpenAiChat, true, events(&pieces), HookSettings::default()).await;
        assert!(!answer.text().contains(SECRET), "{what}: {}", answer.text());
        assert!(answer.text().contains("\"error\""), "{what}: {}", answer.text());
        assert!(!answer.text().contains("[DONE]"), "{what}: {}", answer.text());
        assert!(house.receipts.all().contains("model_call_ended"), "{what}");
        assert!(house.receipts.of(PointId::AfterLlmCall).is_empty(), "{what}: half an answer is no answer");
    }
}

#[tokio::test]
async fn a_whole_answer_that_makes_no_sense_becomes_an_error() {
    for (api, body) in [
        (Api::OpenAiChat, r#"{"choices": "sw0rdfish-9151"}"#),
        (Api::OpenAiChat, "sw0rdfish-9151"),
        (Api::AnthropicMessages, r#"{"type":"message","content":[{"type":"text"}]}"#),
        (Api::AnthropicMessages, " "),
    ] {
        let (answer, _) = answered(api, false, Script::json("200 OK", body), HookSettings::default()).await;
        assert_eq!(answer.status(), 502, "{api} {body}: {}", answer.text());
        assert!(!answer.text().contains(SECRET), "{}", answer.text());
        assert!(answer.json()["error"]["message"].is_string(), "{}", answer.text());
    }
}

#[tokio::test]
async fn an_html_page_that_says_200_is_no_answer() {
    let page =
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 27\r\n\r\n<html>sw0rdfish-9151</html>";
    for stream in [true, false] {
        let (answer, _) =
            answered(Api::AnthropicMessages, stream, Script::whole(page), HookSettings::default()).await;
        assert_eq!(answer.status(), 502, "{}", answer.text());
        assert!(!answer.text().contains(SECRET), "{}", answer.text());
    }
}

#[tokio::test]
async fn where_nobody_can_judge_a_client_is_told_to_come_back() {
    let failure = || HookError::Unreachable(format!("/var/lib/{SECRET}/backstop.db: no space left"));
    for (api, stream) in forms() {
        for point in [PointId::BeforeLlmCall, PointId::AfterLlmCall, PointId::BeforeToolCall] {
            let asks = point == PointId::BeforeLlmCall;
            let house = House::new();
            match point {
                PointId::BeforeLlmCall => house
                    .on::<BeforeLlmCall>("store", hook_fn::<BeforeLlmCall, _>(move |_, _| Err(failure()))),
                PointId::AfterLlmCall => {
                    house.on::<AfterLlmCall>("store", hook_fn::<AfterLlmCall, _>(move |_, _| Err(failure())));
                }
                _ => house
                    .on::<BeforeToolCall>("store", hook_fn::<BeforeToolCall, _>(move |_, _| Err(failure()))),
            }
            let model = model(json!([{"tool_calls": [{"name": "exec", "arguments": {}}]}])).await;
            let gateway = house.gateway(&model.base_url(), HookSettings::default()).await;
            let answer = send_to(&gateway, api, stream, &ask(api, stream, "hi")).await;
            let context = format!("{api} {stream} {point}: {}", answer.text());
            assert!(!answer.text().contains(SECRET) && !answer.text().contains("/var"), "{context}");
            assert!(!answer.text().contains("[backstop]"), "no words of the model: {context}");
            assert!(answer.text().contains("can't be reached"), "{context}");
            if asks || !stream {
                assert_eq!(answer.status(), 503, "{context}");
                assert!(answer.head().to_lowercase().contains("retry-after: 1"), "{context}");
            }
        }
    }
}

#[tokio::test]
async fn errors_of_the_provider_pass_as_they_are() {
    let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"later"}}"#;
    let script = Script::json("529 Overloaded", body);
    let (answer, _) = answered(Api::AnthropicMessages, true, script, HookSettings::default()).await;
    assert_eq!((answer.status(), answer.body().0.as_str()), (529, body));
}

/// An error may repeat what somebody else wrote.
#[tokio::test]
async fn what_an_error_of_the_provider_says_is_judged() {
    let json = format!(
        r#"{{"error":{{"message":"no such model: {SECRET}","type":"invalid_request_error","x":["{SECRET}"]}}}}"#
    );
    let stream_body = format!("{SECRET}\n: {SECRET}\nevent: {SECRET}\ndata: {json}\n\n");
    let page = format!("<html>{SECRET}</html>");
    for (status, body, says) in [
        ("404 Not Found", json.as_str(), "no such model: [gone]"),
        ("400 Bad Request", page.as_str(), "an error that can't be judged"),
        ("400 Bad Request", stream_body.as_str(), "no such model: [gone]"),
        ("413 Too Large", "", ""),
    ] {
        for api in LINED {
            for stream in [false, true] {
                let house = House::new();
                house.redact();
                let script = Script::json(status, body);
                let upstream = Upstream::start(move |_| script.clone()).await;
                let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
                let answer = send_to(&gateway, api, stream, &ask(api, stream, "hi")).await;
                assert_eq!(answer.status(), status[..3].parse::<u16>().unwrap(), "{}", answer.text());
                assert!(answer.text().contains(says), "{api}: {}", answer.text());
                assert!(!answer.text().contains(SECRET), "{api}: {}", answer.text());
            }
        }
    }
    let house = House::new();
    house.judge::<AfterLlmCall>("calls", |_| None);
    let script = Script::json("404 Not Found", &json);
    let upstream = Upstream::start(move |_| script.clone()).await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    let answer = send(&gateway, Api::OpenAiChat, &ask(Api::OpenAiChat, false, "hi")).await;
    assert_eq!(answer.body().0, json, "nobody judges texts");
}

#[tokio::test]
async fn a_reset_leaks_nothing_that_was_held() {
    let pieces = vec![text("fine so far "), text("sw0rdfish"), call(0, "exec", "{\"a\":1}")];
    for end in [End::Reset, End::Close] {
        let mut script = events(&pieces).ending(end);
        script.pieces.pop();
        let (answer, _) = answered(Api::OpenAiChat, true, script, HookSettings::default()).await;
        assert!(answer.text().contains("fine so far"), "{}", answer.text());
        assert!(!answer.text().contains("sw0rdfish"), "what a redactor held is gone: {}", answer.text());
        assert!(!answer.text().contains("\"exec\""), "{}", answer.text());
        assert!(answer.text().contains("\"error\""), "{}", answer.text());
    }
}

#[tokio::test]
async fn ten_thousand_calls_are_judged_like_one() {
    let mut pieces: Vec<String> = (0..10_000)
        .map(|n| call(n, if n % 2 == 0 { "exec" } else { "read" }, "{\"command\":\"marker\"}"))
        .collect();
    pieces.push(chat(json!({}), json!("tool_calls")));
    pieces.push("data: [DONE]\n\n".to_owned());
    let all = pieces.concat();
    let (house, script) = (house(), events(&[all]));
    let upstream = Upstream::start(move |_| script.clone()).await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    let mut socket = connect(&gateway).await;
    let request = post(&path(Api::OpenAiChat, true), &ask(Api::OpenAiChat, true, "hi").to_string());
    socket.write_all(request.as_bytes()).await.unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(60), rest(&mut socket)).await.unwrap();
    assert_eq!(house.receipts.of(PointId::AfterLlmCall).len(), 1);
    let response = read(Api::OpenAiChat, &answer);
    let calls: Vec<_> = response.message.tool_calls().collect();
    assert_eq!(calls.len(), 5_000);
    assert!(calls.iter().all(|call| call.name == "read"));
    assert!(response.message.visible_text().contains("and 4992 more"), "the note is bounded");
}

#[tokio::test]
async fn an_answer_that_never_ends_is_ended() {
    let long = "a".repeat(1_000);
    let mut pieces: Vec<String> = vec![call(0, "exec", "{\"command\":\"")];
    pieces.extend((0..100).map(|_| {
        let more = json!({"index": 0, "function": {"arguments": long}});
        chat(json!({"tool_calls": [more]}), Value::Null)
    }));
    let settings = HookSettings { answer_bytes: 20_000, ..HookSettings::default() };
    let script = events(&pieces).paced(Duration::from_millis(1)).ending(End::Hang);
    let (answer, _) = answered(Api::OpenAiChat, true, script, settings).await;
    assert!(answer.text().contains("more than 20000 bytes"), "{}", answer.text());
    assert!(!answer.text().contains(&long), "nothing of it left");
}

#[tokio::test]
async fn an_answer_that_talks_without_end_is_ended() {
    let long = "a".repeat(1_000);
    let pieces: Vec<String> = (0..100).map(|_| text(&long)).collect();
    let settings = HookSettings { answer_bytes: 3_000, ..HookSettings::default() };
    let script = events(&pieces).paced(Duration::from_millis(1)).ending(End::Hang);
    let (answer, _) = answered(Api::OpenAiChat, true, script, settings).await;
    assert!(answer.text().contains(&long), "it leaves as it comes");
    assert!(answer.text().contains("more than 3000 bytes"), "{}", answer.text());
}

#[tokio::test]
async fn a_client_that_leaves_is_told_of() {
    let house = house();
    house.judge::<AfterLlmCall>("looks", |_| None);
    let pieces = vec![text("some words of it")];
    let upstream = Upstream::start(move |_| {
        let mut script = events(&pieces).ending(End::Hang);
        script.pieces.pop();
        script
    })
    .await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    let mut socket = connect(&gateway).await;
    let request = post(&path(Api::OpenAiChat, true), &ask(Api::OpenAiChat, true, "hi").to_string());
    socket.write_all(request.as_bytes()).await.unwrap();
    until(&mut socket, "some").await;
    drop(socket);
    eventually("its end was told", || !house.receipts.of(PointId::ModelCallEnded).is_empty()).await;
    eventually("the provider was let go", || upstream.cut() == 1).await;
}
