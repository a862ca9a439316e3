//! Calls of a server's tools that the provider runs once a client approves.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use backstop_gateway::inspect::{HookSettings, ToolCalls, Unasked};
use backstop_hooks::points::{AfterLlmCall, BeforeToolCall, ToolCallOutcome};
use backstop_hooks::{ApprovalRequest, TimeoutBehavior};
use backstop_llm::Api;
use backstop_store::{ApprovalFilter, Timestamp};
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

/// Who may judge the calls of answers, and whether the operator has the gates of tool calls look at them there.
pub(crate) const CALLS: [ToolCalls; 4] = [
    ToolCalls::Leave,
    ToolCalls::Judge(Unasked::Leave),
    ToolCalls::Judge(Unasked::Deny),
    ToolCalls::Judge(Unasked::Wait),
];

/// Gates of tool calls that deny `mcp__shop__drop_all`, and how often they were asked about a tool of the shop.
pub(crate) fn gated() -> (House, Arc<AtomicUsize>) {
    let (house, asked) = (House::new(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&asked);
    house.judge::<BeforeToolCall>("gate", move |event| {
        let name = event.tool_name.called();
        count.fetch_add(usize::from(name.starts_with("mcp__shop__")), Ordering::Relaxed);
        (name == "mcp__shop__drop_all").then(|| ToolCallOutcome::block("not that"))
    });
    (house, asked)
}

fn leaving(tool_calls: ToolCalls) -> HookSettings {
    HookSettings { tool_calls, ..settings() }
}

/// What reached the provider with its last request: whether the call is approved there, if the request says so.
fn is_approved(upstream: &Upstream) -> Option<bool> {
    let heard = heard(upstream, upstream.count() - 1);
    let said: Vec<&Value> =
        heard.as_array().into_iter().flatten().filter_map(|item| item.get("approve")).collect();
    assert!(said.len() <= 1, "{heard}");
    said.first().map(|said| said.as_bool().unwrap())
}

/// A provider whose first answer asks whether a tool may be called, as a stream too.
async fn streaming_provider(name: &'static str) -> Upstream {
    Upstream::start(move |number| {
        let output = if number == 0 { json!([asked(name, "x")]) } else { json!([]) };
        let response = |status: &str, output: &Value| json!({"id": "resp_1", "object": "response", "status": status, "model": "m", "output": output});
        let mut events = vec![json!({"type": "response.created", "response": response("in_progress", &json!([]))})];
        for item in output.as_array().unwrap() {
            events.push(json!({"type": "response.output_item.added", "output_index": 0, "item": item}));
            events.push(json!({"type": "response.output_item.done", "output_index": 0, "item": item}));
        }
        events.push(json!({"type": "response.completed", "response": response("completed", &output)}));
        let lines: Vec<String> = events.iter().map(|event| {
            format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
        }).collect();
        Script::events(&lines.iter().map(String::as_str).collect::<Vec<_>>())
    })
    .await
}

/// The provider runs what is approved, so no program takes it through the gates but this one.
#[tokio::test]
async fn what_is_approved_passes_the_gates_whoever_judges_the_calls_of_answers() {
    let (text, image) = (
        json!({"role": "user", "content": "go on"}),
        json!({"role": "user", "content": [{"type": "input_image", "image_url": "https://x.example/y.png"}]}),
    );
    let yes = approval(&json!(true));
    let inputs = [json!([yes]), json!([text, yes]), json!([yes, text]), json!([yes, image])];
    let behind = [
        ("previous_response_id", json!("resp_1")),
        ("conversation", json!("conv_1")),
        ("conversation", json!({"id": "conv_1"})),
    ];
    for tool_calls in CALLS {
        for (name, passes) in [("look_up", true), ("drop_all", false)] {
            for (number, input) in inputs.iter().enumerate() {
                let (field, id) = &behind[number % behind.len()];
                for stream in [false, true] {
                    let upstream = if stream { streaming_provider(name).await } else { provider(name).await };
                    let (house, _) = gated();
                    let gateway = house.gateway(&upstream.url(), leaving(tool_calls)).await;
                    let body =
                        json!({"model": "m", "stream": stream, "conversation": "conv_1", "input": "hi"});
                    send(&gateway, API, &body).await;
                    let body = json!({"model": "m", "stream": stream, *field: id, "input": input});
                    let answer = send(&gateway, API, &body).await;
                    assert_eq!(answer.status(), 200, "{tool_calls:?} {body}: {}", answer.text());
                    assert_eq!(is_approved(&upstream), Some(passes), "{tool_calls:?} {body}");
                }
            }
        }
    }
}

#[tokio::test]
async fn what_is_approved_in_a_stored_conversation_passes_the_gates_whoever_judges_the_calls_of_answers() {
    for tool_calls in CALLS {
        for number in 0..3 {
            for is_brought in [false, true] {
                let upstream = provider("drop_all").await;
                let (house, _) = gated();
                let gateway = house.gateway(&upstream.url(), leaving(tool_calls)).await;
                send(&gateway, API, &ask(API, false, "hi")).await;
                let yes = approval(&json!(true));
                let items = if is_brought { json!([asked("drop_all", "x"), yes]) } else { json!([yes]) };
                let (path, body, _) = stores(&items)[number].clone();
                let answer = talk(&gateway, post(path, &body.to_string())).await;
                assert!([400, 403].contains(&answer.status()), "{tool_calls:?} {body}: {}", answer.text());
                assert_eq!(upstream.count(), 1, "{tool_calls:?} {body}");
            }
        }
    }
}

/// Nobody is asked later about what a provider runs.
#[tokio::test]
async fn a_question_about_what_is_approved_is_filed_wherever_nobody_waits() {
    for tool_calls in [ToolCalls::Leave, ToolCalls::Judge(Unasked::Leave)] {
        for is_brought in [false, true] {
            let upstream = provider("look_up").await;
            let house = House::new();
            house.judge::<BeforeToolCall>("asks", |event| {
                let request = ApprovalRequest::cut("look it up?", "in the shop");
                let request = request.timeout(Duration::from_secs(60), TimeoutBehavior::Deny).unwrap();
                (event.tool_name.called() == "mcp__shop__look_up").then(|| ToolCallOutcome::ask(request))
            });
            let gateway = house.gateway(&upstream.url(), leaving(tool_calls)).await;
            let yes = approval(&json!(true));
            let body = if is_brought {
                json!({"model": "m", "metadata": {"session_id": "s-1"}, "input": [asked("look_up", "x"), yes]})
            } else {
                let body = json!({"model": "m", "metadata": {"session_id": "s-1"}, "input": "hi"});
                assert!(send(&gateway, API, &body).await.text().contains("mcpr_1"));
                json!({"model": "m", "metadata": {"session_id": "s-1"}, "previous_response_id": "resp_1", "input": [yes]})
            };
            send(&gateway, API, &body).await;
            assert_eq!(is_approved(&upstream), Some(false), "{tool_calls:?} {is_brought}");
            let store = house.engine.answer_store();
            let [filed] = store.approvals(ApprovalFilter::All, 100).await.unwrap().try_into().unwrap();
            store
                .allow_later(&filed.id, &"a person".into(), Duration::from_secs(60), Timestamp::now())
                .await
                .unwrap();
            send(&gateway, API, &body).await;
            assert_eq!(is_approved(&upstream), Some(true), "{tool_calls:?} {is_brought}");
        }
    }
}

/// A client may send the whole conversation with each request.
#[tokio::test]
async fn what_was_judged_when_it_was_approved_is_not_judged_with_each_request() {
    for tool_calls in CALLS {
        let upstream = provider("look_up").await;
        let (house, asked_about) = gated();
        let gateway = house.gateway(&upstream.url(), leaving(tool_calls)).await;
        send(&gateway, API, &ask(API, false, "hi")).await;
        for _ in 0..3 {
            let input =
                json!([{"role": "user", "content": "hi"}, asked("look_up", "x"), approval(&json!(true))]);
            send(&gateway, API, &json!({"model": "m", "input": input})).await;
            assert_eq!(is_approved(&upstream), Some(true));
        }
        // Where questions are left to clients, the answer is judged without them.
        let times = if tool_calls == ToolCalls::Judge(Unasked::Leave) { 2 } else { 1 };
        assert_eq!(asked_about.load(Ordering::Relaxed), times, "{tool_calls:?}");
    }
}

/// What hooks at `after_llm_call` let leave was seen by no gate of tool calls, where these do not judge answers.
#[tokio::test]
async fn a_call_that_only_other_hooks_judged_passes_the_gates_when_it_is_approved() {
    let upstream = provider("drop_all").await;
    let (house, _) = gated();
    house.judge::<AfterLlmCall>("looks", |_| None);
    let gateway = house.gateway(&upstream.url(), leaving(ToolCalls::Leave)).await;
    assert!(send(&gateway, API, &ask(API, false, "hi")).await.text().contains("mcpr_1"));
    let body = json!({"model": "m", "previous_response_id": "resp_1", "input": [approval(&json!(true))]});
    send(&gateway, API, &body).await;
    assert_eq!(is_approved(&upstream), Some(false));
}

/// An answer that repeats an id for another call says nothing about which of them is approved.
#[tokio::test]
async fn an_id_that_stood_for_two_calls_approves_none() {
    for tool_calls in CALLS {
        let upstream = Upstream::start(|number| {
            let output = match number {
                0 => json!([asked("look_up", "x")]),
                1 => json!([asked("look_up", "y")]),
                _ => json!([]),
            };
            let body = json!({"id": format!("resp_{number}"), "object": "response", "status": "completed", "model": "m", "output": output});
            Script::json("200 OK", &body.to_string())
        })
        .await;
        let (house, _) = gated();
        let gateway = house.gateway(&upstream.url(), leaving(tool_calls)).await;
        for text in ["one", "two"] {
            send(&gateway, API, &ask(API, false, text)).await;
        }
        let body = json!({"model": "m", "previous_response_id": "resp_1", "input": [approval(&json!(true))]});
        assert_eq!(send(&gateway, API, &body).await.status(), 400, "{tool_calls:?}");
        assert_eq!(upstream.count(), 2);
    }
}

#[tokio::test]
async fn a_call_that_is_too_long_to_be_remembered_is_not_approved_unjudged() {
    let upstream = Upstream::start(|number| {
        let output = if number == 0 { json!([asked("look_up", &"x".repeat(1 << 16))]) } else { json!([]) };
        let body = json!({"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": output});
        Script::json("200 OK", &body.to_string())
    })
    .await;
    let (house, _) = gated();
    let gateway = house.gateway(&upstream.url(), leaving(ToolCalls::Leave)).await;
    send(&gateway, API, &ask(API, false, "hi")).await;
    let body = json!({"model": "m", "previous_response_id": "resp_1", "input": [approval(&json!(true))]});
    let answer = send(&gateway, API, &body).await;
    assert_eq!(answer.status(), 400, "{}", answer.text());
    assert_eq!(upstream.count(), 1);
}
