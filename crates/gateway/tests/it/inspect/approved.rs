//! Calls of a server's tools that the provider runs once a client approves.

use backstop_gateway::inspect::HookSettings;
use backstop_llm::Api;
use serde_json::{Value, json};

use super::support::*;
use crate::support::{Answer, Script, Upstream, post, talk};

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

/// Operations that store items for later, and their bodies.
fn stores(items: &Value) -> [(&'static str, Value, bool); 3] {
    [
        ("/v1/conversations/conv_1/items", json!({ "items": items }), true),
        ("/v1/conversations", json!({ "items": items }), false),
        ("/v1/responses/compact", json!({"model": "m", "input": items}), false),
    ]
}

/// A provider that asks whether a tool may be called, and stores whatever it is told to.
async fn keeping_provider() -> Upstream {
    Upstream::start(|number| {
        let body = match number {
            0 => json!({"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": [asked("look_up", "x")]}),
            _ => json!({"object": "list", "data": []}),
        };
        Script::json("200 OK", &body.to_string())
    })
    .await
}

/// What is stored in a conversation is what the provider goes on with.
#[tokio::test]
async fn an_approval_that_is_stored_for_later_is_judged_as_one_that_is_sent() {
    for number in 0..3 {
        let upstream = keeping_provider().await;
        let house = House::new();
        house.withhold("mcp__shop__drop_all");
        let gateway = house.gateway(&upstream.url(), settings()).await;
        let store = async |items: &Value| -> (Answer, Value) {
            let (path, body, _) = stores(items)[number].clone();
            (talk(&gateway, post(path, &body.to_string())).await, body)
        };
        let yes = approval(&json!(true));
        let (answer, body) = store(&json!([yes])).await;
        assert_eq!(answer.status(), 400, "{body}: {}", answer.text());
        assert!(answer.text().contains("hint: have the model ask once more"), "{}", answer.text());
        assert_eq!(upstream.count(), 0, "{body}");
        // One that left may be approved, in these words alone.
        assert!(send(&gateway, API, &ask(API, false, "hi")).await.text().contains("mcpr_1"));
        let (answer, body) = store(&json!([yes])).await;
        assert_eq!(answer.status(), 200, "{body}: {}", answer.text());
        let (_, sent) =
            upstream.request(1).split_once("\r\n\r\n").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        assert_eq!(sent, body.to_string());
        let (answer, body) = store(&json!([asked("drop_all", "x"), yes])).await;
        assert!([400, 403].contains(&answer.status()), "{body}: {}", answer.text());
        let (answer, body) = store(&json!([approval(&json!(false))])).await;
        assert_eq!(answer.status(), 200, "{body}: {}", answer.text());
        assert_eq!(upstream.count(), 3, "{body}");
    }
}

#[tokio::test]
async fn a_call_that_is_stored_with_its_approval_is_judged_where_it_can_be_no_other() {
    for (name, is_denied) in [("look_up", false), ("drop_all", true)] {
        for (path, body, is_kept) in stores(&json!([asked(name, "x"), approval(&json!(true))])) {
            let upstream =
                Upstream::start(|_| Script::json("200 OK", r#"{"object":"list","data":[]}"#)).await;
            let house = House::new();
            house.withhold("mcp__shop__drop_all");
            let gateway = house.gateway(&upstream.url(), settings()).await;
            let answer = talk(&gateway, post(path, &body.to_string())).await;
            let status = match (is_kept, is_denied) {
                (true, _) => 400,
                (false, true) => 403,
                (false, false) => 200,
            };
            assert_eq!(answer.status(), status, "{path} {name}: {}", answer.text());
            assert_eq!(upstream.count(), usize::from(status == 200));
        }
    }
}

/// A client that brings another call under the name of one that left approves none of them.
#[tokio::test]
async fn a_call_that_takes_the_name_of_one_that_left_is_not_approved_by_it() {
    for path in ["/v1/responses", "/v1/conversations/conv_1/items"] {
        let upstream = keeping_provider().await;
        let house = House::new();
        house.withhold("mcp__shop__drop_all");
        let gateway = house.gateway(&upstream.url(), settings()).await;
        send(&gateway, API, &ask(API, false, "hi")).await;
        let brought = json!([asked("drop_all", "x")]);
        let body = json!({"model": "m", "conversation": "conv_1", "input": brought});
        let body = if path.ends_with("items") { json!({ "items": brought }) } else { body };
        talk(&gateway, post(path, &body.to_string())).await;
        let body = json!({"model": "m", "conversation": "conv_1", "input": [approval(&json!(true))]});
        let answer = send(&gateway, API, &body).await;
        assert_eq!(answer.status(), 400, "{path}: {}", answer.text());
        assert_eq!(upstream.count(), 2, "{path}");
    }
}

/// What a reference stands for is not in the request.
#[tokio::test]
async fn a_reference_to_an_item_that_may_approve_or_offer_something_is_refused() {
    let upstream = Upstream::start(|_| Script::json("200 OK", r#"{"object":"list","data":[]}"#)).await;
    let house = House::new();
    house.withhold("mcp__shop__drop_all");
    let gateway = house.gateway(&upstream.url(), settings()).await;
    for (reference, passes) in [
        (json!({"type": "item_reference", "id": "mcpr_1"}), false),
        (json!({"type": "item_reference", "id": "item_1"}), false),
        (json!({"type": null, "id": "mcpr_1"}), false),
        (json!({"id": "mcpr_1"}), false),
        (json!({"id": "mcpr_1", "role": null}), false),
        (json!({"type": null, "id": "mcpr_1", "role": null}), false),
        (json!({"type": "item_reference"}), false),
        (json!({"type": "item_reference", "id": "msg_1"}), true),
        (json!({"type": "item_reference", "id": "rs_1"}), true),
    ] {
        let bodies = stores(&json!([reference])).map(|(path, body, _)| (path, body));
        let asked = ("/v1/responses", json!({"model": "m", "input": [reference]}));
        for (path, body) in bodies.into_iter().chain([asked]) {
            let before = upstream.count();
            let answer = talk(&gateway, post(path, &body.to_string())).await;
            assert_eq!(upstream.count() > before, passes, "{path} {body}: {}", answer.text());
            if !passes {
                assert_eq!(answer.status(), 400, "{path} {body}");
                assert!(answer.text().contains("hint: send the item itself"), "{}", answer.text());
            }
        }
    }
}
