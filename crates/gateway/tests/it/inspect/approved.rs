//! Calls of a server's tools that the provider runs once a client approves.

use backstop_gateway::inspect::HookSettings;
use backstop_llm::Api;
use serde_json::{Value, json};

use super::support::*;
use crate::support::{Script, Upstream};

const API: Api = Api::OpenAiResponses;

fn asked(name: &str, argument: &str) -> Value {
    json!({"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "shop", "name": name,
        "arguments": json!({"why": argument}).to_string()})
}

fn approval(approve: &Value) -> Value {
    json!({"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": approve})
}

/// A provider whose first answer asks whether a tool may be called.
async fn provider(name: &'static str) -> Upstream {
    Upstream::start(move |number| {
        let output = if number == 0 { json!([asked(name, "x")]) } else { json!([]) };
        let body = json!({"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": output});
        Script::json("200 OK", &body.to_string())
    })
    .await
}

/// The input that reached the provider with request `number`.
fn heard(upstream: &Upstream, number: usize) -> Value {
    let request = upstream.request(number);
    let (_, body) = request.split_once("\r\n\r\n").unwrap();
    serde_json::from_str::<Value>(body).unwrap()["input"].take()
}

fn settings() -> HookSettings {
    HookSettings { refusals: 0, ..HookSettings::default() }
}

/// What the client says to a call that never left is no word in it, however it says so.
#[tokio::test]
async fn who_approves_a_call_that_was_taken_out_has_it_turned_down() {
    for yes in [json!(true), json!("true"), Value::Null] {
        let upstream = provider("drop_all").await;
        let house = House::new();
        house.withhold("mcp__shop__drop_all");
        let gateway = house.gateway(&upstream.url(), settings()).await;
        let first = send(&gateway, API, &ask(API, false, "hi")).await;
        assert!(!first.text().contains("mcpr_1"), "{}", first.text());
        let more = json!({"role": "user", "content": "go on"});
        let body = json!({"model": "m", "previous_response_id": "resp_1", "input": [approval(&yes), more]});
        assert_eq!(send(&gateway, API, &body).await.status(), 200);
        let heard = heard(&upstream, 1);
        let said: Vec<&Value> =
            heard.as_array().unwrap().iter().filter(|item| item.get("approve").is_some()).collect();
        assert_eq!(said.len(), 1, "{heard}");
        assert_eq!(said[0]["approve"], false, "{heard}");
    }
}

#[tokio::test]
async fn an_approval_of_a_call_that_left_goes_on_as_it_is() {
    let upstream = provider("look_up").await;
    let house = House::new();
    house.withhold("mcp__shop__drop_all");
    let gateway = house.gateway(&upstream.url(), settings()).await;
    let first = send(&gateway, API, &ask(API, false, "hi")).await;
    assert!(first.text().contains("mcpr_1"), "{}", first.text());
    let input = json!([approval(&json!(true))]);
    let body = json!({"model": "m", "previous_response_id": "resp_1", "input": input});
    assert_eq!(send(&gateway, API, &body).await.status(), 200);
    assert_eq!(heard(&upstream, 1), input);
    let input = json!([asked("look_up", "x"), approval(&json!(true))]);
    assert_eq!(send(&gateway, API, &json!({"model": "m", "input": input})).await.status(), 200);
    assert_eq!(heard(&upstream, 2), input);
}

/// After a restart nobody knows what stands in a conversation of the provider's.
#[tokio::test]
async fn what_nobody_saw_can_not_be_approved() {
    let upstream = provider("look_up").await;
    let house = House::new();
    house.withhold("mcp__shop__drop_all");
    let gateway = house.gateway(&upstream.url(), settings()).await;
    let yes = approval(&json!(true));
    for body in [
        json!({"model": "m", "previous_response_id": "resp_1", "input": [yes]}),
        json!({"model": "m", "conversation": "conv_1", "input": [yes]}),
        json!({"model": "m", "input": [yes]}),
        // The call that the provider has may be another.
        json!({"model": "m", "previous_response_id": "resp_1", "input": [asked("look_up", "x"), yes]}),
        json!({"model": "m", "input": [{"type": "function_call", "call_id": "mcpr_1", "name": "look_up", "arguments": "{}"}, yes]}),
    ] {
        let answer = send(&gateway, API, &body).await;
        assert_eq!(answer.status(), 400, "{body}: {}", answer.text());
        assert!(answer.text().contains("hint: have the model ask once more"), "{}", answer.text());
    }
    assert_eq!(upstream.count(), 0);
    let no = json!({"model": "m", "previous_response_id": "resp_1", "input": [approval(&json!(false))]});
    assert_eq!(send(&gateway, API, &no).await.status(), 200);
}

#[tokio::test]
async fn a_call_that_comes_with_its_approval_is_judged() {
    for (name, is_approved) in [("look_up", true), ("drop_all", false)] {
        // Once nobody knows the call, and once another one left under its id.
        for is_known in [false, true] {
            let upstream = provider("look_up").await;
            let house = House::new();
            house.withhold("mcp__shop__drop_all");
            let gateway = house.gateway(&upstream.url(), settings()).await;
            if is_known {
                send(&gateway, API, &ask(API, false, "hi")).await;
            }
            let body = json!({"model": "m", "input": [asked(name, SECRET), approval(&json!(true))]});
            assert_eq!(send(&gateway, API, &body).await.status(), 200);
            let heard = heard(&upstream, usize::from(is_known));
            assert_eq!(heard[1]["approve"], is_approved, "{heard}");
        }
    }
}
