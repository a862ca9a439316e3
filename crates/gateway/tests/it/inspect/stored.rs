//! Answers that are asked for in the background, or kept by the provider, and fetched later.

use std::sync::Arc;

use backstop_gateway::inspect::{HookSettings, Hooks};
use backstop_hooks::PointId;
use backstop_hooks::points::{AfterLlmCall, AfterLlmCallOutcome, BeforeLlmCall, ToolCallIds};
use backstop_llm::Api;
use backstop_store::{SqliteStore, Store};
use serde_json::{Value, json};

use super::support::*;
use crate::support::{Script, TOKEN, Upstream, post, start, talk};

fn answer(status: &str, output: &Value) -> Value {
    json!({"id": "resp_1", "object": "response", "created_at": 1, "status": status, "background": true,
        "model": "m", "output": output, "usage": null})
}

fn finished() -> Value {
    let said = json!({"type": "output_text", "text": format!("the word is {SECRET}"), "annotations": []});
    answer(
        "completed",
        &json!([
            {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [said]},
            {"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed",
                "name": "exec", "arguments": "{\"command\":\"marker\"}"},
            {"type": "function_call", "id": "fc_2", "call_id": "call_2", "status": "completed",
                "name": "read", "arguments": "{}"},
        ]),
    )
}

fn request(method: &str, path: &str) -> String {
    format!(
        "{method} /t/{TOKEN}{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    )
}

#[tokio::test]
async fn a_background_answer_is_judged_when_it_is_fetched() {
    let house = House::new();
    house.withhold("exec");
    house.redact();
    let upstream = Upstream::start(|number| match number {
        0 | 1 => Script::json("200 OK", &answer("queued", &json!([])).to_string()),
        _ => Script::json("200 OK", &finished().to_string()),
    })
    .await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    let asked = json!({"model": "m", "input": "hi", "background": true});
    let queued = talk(&gateway, post("/v1/responses", &asked.to_string())).await;
    assert_eq!((queued.status(), queued.json()["status"].as_str()), (200, Some("queued")));
    let polled = talk(&gateway, request("GET", "/v1/responses/resp_1")).await;
    assert_eq!(polled.json(), answer("queued", &json!([])), "what is not there yet passes as it is");
    for (method, path) in [
        ("GET", "/v1/responses/resp_1"),
        ("GET", "/v1/responses/resp_1/?include[]=reasoning.encrypted_content"),
        ("POST", "/v1/responses/resp_1/cancel"),
    ] {
        let fetched = talk(&gateway, request(method, path)).await;
        let response = read(Api::OpenAiResponses, &fetched);
        let calls: Vec<_> = response.message.tool_calls().map(|call| call.name.clone()).collect();
        assert_eq!(calls, ["read"], "{path}: {}", fetched.text());
        assert!(response.message.visible_text().starts_with("the word is [gone]"), "{}", fetched.text());
        assert!(!fetched.text().contains(SECRET) && !fetched.text().contains("marker"), "{}", fetched.text());
    }
    assert_eq!(house.receipts.of(PointId::AfterLlmCall).len(), 5);
}

#[tokio::test]
async fn a_fetched_answer_belongs_to_the_conversation_that_asked_for_it() {
    let house = House::new();
    house.withhold("exec");
    let upstream = Upstream::start(|number| match number {
        0 => Script::json("200 OK", &answer("queued", &json!([])).to_string()),
        _ => Script::json("200 OK", &finished().to_string()),
    })
    .await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    let asked = json!({"model": "m", "input": "hi", "background": true, "metadata": {"session_id": "s-1"}});
    talk(&gateway, post("/v1/responses", &asked.to_string())).await;
    talk(&gateway, request("GET", "/v1/responses/resp_1")).await;
    let judged = house.receipts.all();
    let judged: Vec<_> = judged.lines().filter(|line| line.contains("after_llm_call")).collect();
    assert_eq!(judged.len(), 2);
    assert!(judged.iter().all(|line| line.contains("s-1")), "{judged:?}");
}

#[tokio::test]
async fn a_fetched_stream_is_judged_event_by_event() {
    let house = House::new();
    house.withhold("read");
    let events = include_str!("../../../../llm/tests/fixtures/openai_responses/tools.stream.sse");
    let upstream = Upstream::start(move |_| Script::events(&[events])).await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    let fetched = talk(&gateway, request("GET", "/v1/responses/resp_1?stream=true")).await;
    let response = read(Api::OpenAiResponses, &fetched);
    assert!(response.message.tool_calls().all(|call| call.name != "read"), "{}", fetched.text());
    assert!(response.message.tool_calls().any(|call| call.name == "now"), "{}", fetched.text());
}

#[tokio::test]
async fn what_can_not_be_judged_of_stored_answers_is_refused() {
    let house = House::new();
    house.judge::<BeforeLlmCall>("looks", |_| None);
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    for (method, path) in [
        ("POST", "/v1/responses/resp_1/input_items"),
        ("GET", "/v1/responses/resp_1/compact"),
        ("GET", "/v1/%72esponses/resp_1"),
        ("GET", "/v1/chat/completions/chatcmpl_1"),
    ] {
        let answer = talk(&gateway, request(method, path)).await;
        assert_eq!(answer.status(), 403, "{path}: {}", answer.text());
    }
    assert_eq!(upstream.count(), 0);
    assert_eq!(talk(&gateway, request("DELETE", "/v1/responses/resp_1")).await.status(), 200);
}

/// An answer of which one call is refused, and one that is fine.
fn with_a_refused_call(id: &str) -> Value {
    let mut answer = finished();
    answer["id"] = id.into();
    answer
}

fn outputs(request: &str) -> Vec<(String, String)> {
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    let items = body["input"].as_array().cloned().unwrap_or_default();
    let outputs = items.iter().filter(|item| item["type"] == "function_call_output");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    outputs.map(|item| (text(&item["call_id"]), text(&item["output"]))).collect()
}

#[tokio::test]
async fn a_conversation_that_the_provider_keeps_gets_the_results_of_refused_calls() {
    for blocks in [false, true] {
        let house = House::new();
        house.judge::<AfterLlmCall>("gate", move |event| {
            let kept = event.tool_calls.iter().filter(|call| call.name != "exec");
            Some(AfterLlmCallOutcome {
                tool_calls: (!blocks).then(|| ToolCallIds::new(kept.map(|call| call.id.clone()))),
                block: blocks.then_some(true),
                ..AfterLlmCallOutcome::default()
            })
        });
        let upstream = Upstream::start(|number| {
            Script::json("200 OK", &with_a_refused_call(&format!("resp_{number}")).to_string())
        })
        .await;
        let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
        let ask = async |body: Value| talk(&gateway, post("/v1/responses", &body.to_string())).await;
        ask(json!({"model": "m", "input": "hi"})).await;
        let own = json!({"type": "function_call_output", "call_id": "call_2", "output": "done"});
        let next =
            json!({"model": "m", "previous_response_id": "resp_0", "input": [own], "metadata": {"k": "v"}});
        ask(next.clone()).await;
        let sent = outputs(&upstream.request(1));
        let of = |id: &str| {
            sent.iter().filter(|(call, _)| call == id).map(|(_, text)| text.clone()).collect::<Vec<_>>()
        };
        assert!(of("call_1")[0].contains("[backstop]"), "{sent:?}");
        assert_eq!(of("call_2"), ["done"], "what the client brings stays its own");
        assert!(
            upstream.request(1).contains(r#""metadata": {"k":"v"}"#)
                || upstream.request(1).contains(r#""k":"v""#)
        );
        // Another branch from there wants it again, another answer does not.
        ask(next).await;
        assert_eq!(outputs(&upstream.request(2)).len(), 2);
        ask(json!({"model": "m", "previous_response_id": "resp_unknown", "input": "hi"})).await;
        assert_eq!(outputs(&upstream.request(3)), []);
        // A text as input becomes an item behind the results.
        ask(json!({"model": "m", "previous_response_id": "resp_0", "input": "go on"})).await;
        let sent = outputs(&upstream.request(4));
        assert_eq!(sent.len(), if blocks { 2 } else { 1 }, "{sent:?}");
        assert!(upstream.request(4).contains("go on"));
    }
}

/// The provider still has the call after this process ended, or read its configuration anew.
#[tokio::test]
async fn what_is_still_wanted_outlives_the_process() {
    for is_renewed in [false, true] {
        let upstream = Upstream::start(|number| {
            Script::json("200 OK", &with_a_refused_call(&format!("resp_{number}")).to_string())
        })
        .await;
        let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory());
        let house = || {
            let house = House::over(Arc::clone(&store));
            house.withhold("exec");
            house
        };
        let hooks = Hooks::new(house().engine, HookSettings::default()).unwrap();
        let gateway = start(settings_of(&upstream.url()), hooks.clone()).await.unwrap();
        let first = json!({"model": "m", "input": "hi", "conversation": "conv_1"}).to_string();
        talk(&gateway, post("/v1/responses", &first)).await;
        gateway.shut_down().await;
        let hooks = match is_renewed {
            true => hooks.renewed(house().engine, HookSettings::default()),
            false => Hooks::new(house().engine, HookSettings::default()),
        };
        let gateway = start(settings_of(&upstream.url()), hooks.unwrap()).await.unwrap();
        for next in [
            json!({"model": "m", "previous_response_id": "resp_0", "input": "go on"}),
            json!({"model": "m", "conversation": "conv_1", "input": "go on"}),
        ] {
            talk(&gateway, post("/v1/responses", &next.to_string())).await;
            let sent = outputs(&upstream.request(upstream.count() - 1));
            assert_eq!(sent.len(), 1, "{is_renewed}: {sent:?}");
            assert!(sent[0].0 == "call_1" && sent[0].1.contains("[backstop]"), "{sent:?}");
        }
    }
}

#[tokio::test]
async fn a_conversation_by_name_gets_them_once() {
    let house = House::new();
    house.withhold("exec");
    let upstream = Upstream::start(|number| match number {
        1 => Script::json("429 Too Many Requests", "{}"),
        0 => Script::json("200 OK", &with_a_refused_call("resp_0").to_string()),
        _ => Script::json("200 OK", &answer("completed", &json!([])).to_string()),
    })
    .await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    let asked = json!({"model": "m", "input": "hi", "conversation": {"id": "conv_1"}}).to_string();
    for _ in 0..4 {
        talk(&gateway, post("/v1/responses", &asked)).await;
    }
    let counts: Vec<_> = (0..4).map(|number| outputs(&upstream.request(number)).len()).collect();
    assert_eq!(counts, [0, 1, 1, 0], "as long as no request with them was answered");
}
