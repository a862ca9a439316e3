//! What clients get of judged answers.

use std::time::Duration;

use backstop_engine::Verdict;
use backstop_gateway::Gateway;
use backstop_gateway::inspect::{BlockedForm, HookSettings, TextMode};
use backstop_hooks::PointId;
use backstop_hooks::points::{AfterLlmCall, AfterLlmCallOutcome, BeforeResponseEmit, ResponseEmitOutcome};
use backstop_llm::{Api, StopReason};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::support::*;
use crate::support::{Answer, connect, find, post, rest, talk, until_bytes, within};

#[tokio::test]
async fn a_removed_call_leaves_in_no_wire() {
    for (api, stream) in forms() {
        let house = House::new();
        house.withhold("exec");
        let model = model(json!([{
            "text": "I look around first.",
            "tool_calls": [
                {"id": "call-read-00001", "name": "read", "arguments": {"path": "a.txt"}},
                {"id": "call-exec-00001", "name": "exec", "arguments": {"command": SECRET}},
            ],
        }]))
        .await;
        let gateway = house.gateway(&model.base_url(), HookSettings::default()).await;
        let answer = send_to(&gateway, api, stream, &ask(api, stream, "hi")).await;
        assert_eq!(answer.status(), 200, "{api} {stream}: {}", answer.text());
        assert!(!answer.text().contains(SECRET), "{api} {stream}: {}", answer.text());
        let response = read(api, &answer);
        let calls: Vec<_> = response.message.tool_calls().map(|call| call.name.clone()).collect();
        assert_eq!(calls, ["read"], "{api} {stream}");
        assert_eq!(response.stop, StopReason::ToolUse);
        let text = response.message.visible_text();
        assert!(text.starts_with("I look around first."), "{text}");
        assert!(text.contains("[backstop] withheld `exec`"), "{text}");
        assert_eq!(house.receipts.of(PointId::AfterLlmCall), [Verdict::Modify]);
        assert!(!house.receipts.all().contains(SECRET));
    }
}

/// Clients name their conversations, and receipts, questions and the trail repeat the name.
#[tokio::test]
async fn a_name_of_a_conversation_that_is_a_secret_is_in_no_record() {
    for name in [SECRET, "chat-7"] {
        let house = House::new();
        house.redact();
        house.judge::<AfterLlmCall>("looks", |_| None);
        let model = model(json!([{"text": "Fine."}])).await;
        let gateway = house.gateway(&model.base_url(), HookSettings::default()).await;
        let api = Api::OpenAiChat;
        let asked = post(&way(api, false), &ask(api, false, "hi").to_string());
        let asked = asked.replacen("connection:", &format!("x-session-id: {name}\r\nconnection:"), 1);
        assert_eq!(talk(&gateway, asked).await.status(), 200, "{name}");
        assert_eq!(house.receipts.of(PointId::AfterLlmCall).len(), 1, "{name}");
        assert_eq!(house.receipts.all().contains(name), name != SECRET, "{}", house.receipts.all());
    }
}

#[tokio::test]
async fn an_answer_that_lost_all_its_calls_ends_by_itself() {
    for (api, stream) in forms() {
        let house = House::new();
        house.withhold("exec");
        let model =
            model(json!([{"tool_calls": [{"name": "exec", "arguments": {"command": SECRET}}]}])).await;
        let gateway = house.gateway(&model.base_url(), HookSettings::default()).await;
        let answer = send_to(&gateway, api, stream, &ask(api, stream, "hi")).await;
        assert!(!answer.text().contains(SECRET), "{api} {stream}: {}", answer.text());
        let response = read(api, &answer);
        assert_eq!(response.stop, StopReason::EndTurn, "{api} {stream}");
        assert_eq!(response.message.tool_calls().count(), 0);
        assert!(response.message.visible_text().contains("withheld `exec`"), "{}", answer.text());
    }
}

#[tokio::test]
async fn arguments_that_make_no_sense_are_withheld() {
    for (api, stream) in forms() {
        // Where arguments are no text they are JSON in any case.
        if api == Api::Gemini || (api == Api::AnthropicMessages && !stream) {
            continue;
        }
        let house = House::new();
        house.judge::<AfterLlmCall>("looks", |_| None);
        let turns =
            json!([{"tool_calls": [{"name": "exec", "arguments": "{\"command\": \"sw0rdfish-9151\","}]}]);
        let model = model(turns).await;
        let gateway = house.gateway(&model.base_url(), HookSettings::default()).await;
        let answer = send_to(&gateway, api, stream, &ask(api, stream, "hi")).await;
        assert!(!answer.text().contains(SECRET), "{api} {stream}: {}", answer.text());
        assert!(answer.text().contains("not a JSON object"), "{api} {stream}: {}", answer.text());
    }
}

#[tokio::test]
async fn a_call_that_is_too_large_is_withheld() {
    for (api, stream) in forms() {
        let house = House::new();
        house.judge::<AfterLlmCall>("looks", |_| None);
        let large = json!([{"tool_calls": [
            {"name": "exec", "arguments": {"command": SECRET.repeat(100)}},
            {"name": "read", "arguments": {"path": "a"}},
        ]}]);
        let model = model(large).await;
        let settings = HookSettings { call_bytes: 1_000, ..HookSettings::default() };
        let gateway = house.gateway(&model.base_url(), settings).await;
        let answer = send_to(&gateway, api, stream, &ask(api, stream, "hi")).await;
        assert!(!answer.text().contains(SECRET), "{api} {stream}");
        let calls: Vec<_> = read(api, &answer).message.tool_calls().map(|call| call.name.clone()).collect();
        assert_eq!(calls, ["read"]);
    }
}

/// The law: whatever blocks, in whatever wire, form and mode, nothing of it leaves.
/// Its text may have been settled by then: redactors settle the end of a text when it is whole.
#[tokio::test]
async fn an_answer_that_is_no_stream_leaves_once_it_is_decided() {
    for (api, stream) in forms().filter(|(_, stream)| !stream) {
        let house = House::new();
        house.redact();
        house.judge::<AfterLlmCall>("no", |_| {
            Some(AfterLlmCallOutcome {
                block: Some(true),
                block_reason: Some("not today".into()),
                ..AfterLlmCallOutcome::default()
            })
        });
        let model = model(json!([{"repeat": true, "text": "nothing is wrong with this text"}])).await;
        let settings = HookSettings { blocked: BlockedForm::Error, ..HookSettings::default() };
        let gateway = house.gateway(&model.base_url(), settings).await;
        let answer = send_to(&gateway, api, stream, &ask(api, stream, "hi")).await;
        let context = format!("{api}: {}", answer.text());
        assert!(!answer.text().contains("nothing is wrong"), "{context}");
        assert!(answer.text().contains("not today") && answer.status() >= 400, "{context}");
    }
}

#[tokio::test]
async fn blocked_text_never_leaves() {
    for (api, stream) in forms() {
        for form in [BlockedForm::Answer, BlockedForm::Error] {
            for point in [PointId::AfterLlmCall, PointId::BeforeResponseEmit] {
                let house = House::new();
                match point {
                    PointId::AfterLlmCall => {
                        house.judge::<AfterLlmCall>("no", |_| {
                            Some(AfterLlmCallOutcome {
                                block: Some(true),
                                block_reason: Some("not today".into()),
                                ..AfterLlmCallOutcome::default()
                            })
                        });
                        // What the text says is judged, too.
                        house.judge::<BeforeResponseEmit>("looks", |_| None);
                    }
                    _ => house.judge::<BeforeResponseEmit>("no", |_| {
                        Some(ResponseEmitOutcome {
                            block: Some(true),
                            block_reason: Some("not today".into()),
                            ..ResponseEmitOutcome::default()
                        })
                    }),
                }
                let model = model(json!([{
                    "repeat": true,
                    "thinking": format!("let me say {SECRET}"),
                    "text": format!("it is {SECRET}"),
                    "tool_calls": [{"name": "exec", "arguments": {"command": SECRET}}],
                }]))
                .await;
                let settings = HookSettings { blocked: form, ..HookSettings::default() };
                let gateway = house.gateway(&model.base_url(), settings).await;
                let answer = send_to(&gateway, api, stream, &ask(api, stream, "hi")).await;
                let context = format!("{api} stream: {stream} {form:?} {point}: {}", answer.text());
                assert!(!answer.text().contains(SECRET), "{context}");
                assert!(answer.text().contains("not today"), "{context}");
                assert_eq!(model.requests().len(), 1, "a block is asked about once");
                match form {
                    BlockedForm::Answer => {
                        let response = read(api, &answer);
                        assert_eq!(response.stop, StopReason::EndTurn, "{context}");
                        assert_eq!(
                            response.message.visible_text(),
                            "[backstop] blocked: not today",
                            "{context}"
                        );
                        assert_eq!(response.message.tool_calls().count(), 0, "{context}");
                    }
                    BlockedForm::Error => {
                        assert_eq!(answer.status(), 403, "{context}");
                        assert!(error_message(&answer).is_string(), "{context}");
                        assert_eq!(answer.head().matches("content-type: application/json").count(), 1);
                    }
                }
                assert!(house.receipts.of(point).contains(&Verdict::Block), "{context}");
                assert!(!house.receipts.all().contains(SECRET), "{context}");
            }
        }
    }
}

#[tokio::test]
async fn redactors_take_spans_out_while_the_answer_streams() {
    for (api, stream) in forms() {
        for chunk in [1, 3, 16, 400] {
            let house = House::new();
            house.redact();
            let text = format!("one {SECRET} two {SECRET}{SECRET} three sw0rdfish");
            let model = model(json!([{"text": text, "chunk": chunk}])).await;
            let gateway = house.gateway(&model.base_url(), HookSettings::default()).await;
            let answer = send_to(&gateway, api, stream, &ask(api, stream, "hi")).await;
            let response = read(api, &answer);
            let said = response.message.visible_text();
            assert_eq!(said, "one [gone] two [gone][gone] three sw0rdfish", "{api} {stream} {chunk}");
            assert_eq!(house.receipts.of(PointId::BeforeResponseEmit), [Verdict::Modify]);
            assert!(!house.receipts.all().contains(SECRET));
        }
    }
}

/// Sends a streaming request and gives the socket.
async fn open(gateway: &Gateway, api: Api) -> tokio::net::TcpStream {
    let mut socket = connect(gateway).await;
    let request = post(&way(api, true), &ask(api, true, "hi").to_string());
    socket.write_all(request.as_bytes()).await.unwrap();
    socket
}

#[tokio::test]
async fn text_flows_in_a_window_and_calls_wait() {
    for api in WIRES {
        let house = House::new();
        house.redact();
        house.withhold("exec");
        let model = model(json!([{
            "text": format!("early words and then {SECRET} and more of it until the very last of them"),
            "tool_calls": [{"name": "exec", "arguments": {"command": "marker"}}],
            "chunk": 8,
            "chunk_delay_ms": 20,
        }]))
        .await;
        let gateway = house.gateway(&model.base_url(), HookSettings::default()).await;
        let mut socket = open(&gateway, api).await;
        let early = until_bytes(&mut socket, "early wo").await;
        assert!(house.receipts.of(PointId::AfterLlmCall).is_empty(), "it left before the answer was whole");
        let late = within(rest(&mut socket)).await;
        let answer = Answer { bytes: [early.as_slice(), &late.bytes].concat(), broken: late.broken };
        let said = read(api, &answer).message.visible_text();
        assert!(
            said.starts_with("early words and then [gone] and more of it until the very last of them"),
            "{said}"
        );
        assert!(!answer.text().contains("marker"), "{api}: {}", answer.text());
    }
}

#[tokio::test]
async fn held_text_waits_for_its_judgement_and_the_client_hears_that() {
    for api in WIRES {
        let house = House::new();
        house.rewrite();
        let text = format!("early words and then {SECRET} and more");
        let model = model(json!([{"text": text, "chunk": 8, "chunk_delay_ms": 30}])).await;
        let settings = HookSettings { keep_alive: Duration::from_millis(20), ..HookSettings::default() };
        let gateway = house.gateway(&model.base_url(), settings).await;
        let mut socket = open(&gateway, api).await;
        let answer = within(rest(&mut socket)).await;
        let response = read(api, &answer);
        assert_eq!(response.message.visible_text(), "early words and then [gone] and more", "{api}");
        let signs = [": ".as_bytes(), b"event: ping", b":event-type\x07\x00\x04ping"];
        let first = signs.iter().filter_map(|sign| find(&answer.raw_body(), sign)).min();
        let words = find(&answer.raw_body(), b"early").unwrap();
        assert!(first.is_some_and(|first| first < words), "{api}: {}", answer.text());
    }
}

#[tokio::test]
async fn a_rewrite_of_whole_answers_reaches_every_form() {
    for (api, stream) in forms() {
        let house = House::new();
        house.rewrite();
        let model = model(json!([{
            "thinking": format!("thinking of {SECRET}"),
            "text": format!("it is {SECRET}."),
            "tool_calls": [{"name": "read", "arguments": {"path": "a"}}],
        }]))
        .await;
        let gateway = house.gateway(&model.base_url(), HookSettings::default()).await;
        let answer = send_to(&gateway, api, stream, &ask(api, stream, "hi")).await;
        assert!(!answer.text().contains(SECRET), "{api} {stream}: {}", answer.text());
        let response = read(api, &answer);
        assert_eq!(response.message.visible_text(), "it is [gone].");
        assert_eq!(response.message.tool_calls().count(), 1, "calls stay");
    }
}

#[tokio::test]
async fn a_pass_shows_and_stops_nothing() {
    for (api, stream) in forms() {
        let house = House::new();
        house.judge::<BeforeResponseEmit>("no", |event| {
            assert_eq!(event.content, "all of it");
            Some(ResponseEmitOutcome { block: Some(true), ..ResponseEmitOutcome::default() })
        });
        let model = model(json!([{"text": "all of it"}])).await;
        let settings = HookSettings { text: Some(TextMode::Pass), ..HookSettings::default() };
        let gateway = house.gateway(&model.base_url(), settings).await;
        let answer = send_to(&gateway, api, stream, &ask(api, stream, "hi")).await;
        assert_eq!(read(api, &answer).message.visible_text(), "all of it");
        assert_eq!(house.receipts.of(PointId::BeforeResponseEmit), [Verdict::Block]);
    }
}

#[tokio::test]
async fn a_window_is_refused_where_somebody_wants_the_whole() {
    let house = House::new();
    house.rewrite();
    let settings = HookSettings { text: Some(TextMode::Window), ..HookSettings::default() };
    let refused = backstop_gateway::inspect::Hooks::new(house.engine.clone(), settings).unwrap_err();
    assert!(refused.to_string().contains("window"), "{refused}");
}

#[tokio::test]
async fn a_rewrite_that_has_no_place_blocks() {
    for (api, stream) in forms() {
        let house = House::new();
        house.judge::<BeforeResponseEmit>("speaks", |_| {
            Some(ResponseEmitOutcome { content: Some("words".into()), ..ResponseEmitOutcome::default() })
        });
        let model =
            model(json!([{"tool_calls": [{"name": "exec", "arguments": {"command": SECRET}}]}])).await;
        let gateway = house.gateway(&model.base_url(), HookSettings::default()).await;
        let answer = send_to(&gateway, api, stream, &ask(api, stream, "hi")).await;
        assert!(!answer.text().contains(SECRET), "{api} {stream}: {}", answer.text());
        assert!(answer.text().contains("blocked"), "{api} {stream}: {}", answer.text());
    }
}

/// Two choices in one answer: each is judged, and only what was denied goes.
#[tokio::test]
async fn every_choice_is_judged() {
    use crate::support::{Script, Upstream};
    let call = |choice: usize, name: &str| {
        json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{"index": choice,
            "delta": {"tool_calls": [{"index": 0, "id": format!("call-{choice}"), "type": "function",
                "function": {"name": name, "arguments": "{\"command\":\"sw0rdfish-9151\"}"}}]}, "finish_reason": null}]})
    };
    let text = |choice: usize| {
        json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{"index": choice,
            "delta": {"role": "assistant", "content": format!("choice {choice} ")}, "finish_reason": null}]})
    };
    let end = |choice: usize| {
        json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{"index": choice,
            "delta": {}, "finish_reason": "tool_calls"}]})
    };
    let events = [text(1), text(0), call(0, "exec"), call(1, "exec"), end(1), end(0)];
    let mut events: Vec<String> = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    events.push("data: [DONE]\n\n".to_owned());
    let upstream =
        Upstream::start(move |_| Script::events(&events.iter().map(String::as_str).collect::<Vec<_>>()))
            .await;
    let house = House::new();
    house.withhold("exec");
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    let mut body = ask(Api::OpenAiChat, true, "hi");
    body["n"] = json!(2);
    let answer = send(&gateway, Api::OpenAiChat, &body).await;
    assert!(!answer.text().contains(SECRET), "{}", answer.text());
    assert_eq!(answer.text().matches("withheld `exec`").count(), 2, "{}", answer.text());
    assert_eq!(house.receipts.of(PointId::AfterLlmCall).len(), 2);
}

/// Two candidates: each is judged, streamed and in one piece, and a block concerns both.
#[tokio::test]
async fn every_candidate_is_judged() {
    use crate::support::{Script, Upstream};
    let candidate = |index: usize, end: Value| {
        let call = json!({"functionCall": {"name": "exec", "args": {"command": SECRET}}});
        let parts = json!([{"text": format!("candidate {index} {SECRET}")}, call]);
        json!({"content": {"parts": parts, "role": "model"}, "finishReason": end, "index": index})
    };
    let body = |candidates: Vec<Value>| json!({"candidates": candidates, "responseId": "r"});
    let streamed = (0..2).map(|index| format!("data: {}\n\n", body(vec![candidate(index, "STOP".into())])));
    let (streamed, whole) = (
        streamed.collect::<Vec<_>>(),
        body(vec![candidate(0, "STOP".into()), candidate(1, "STOP".into())]).to_string(),
    );
    for stream in [true, false] {
        let (events, whole) = (streamed.clone(), whole.clone());
        let upstream = Upstream::start(move |_| {
            let events: Vec<&str> = events.iter().map(String::as_str).collect();
            if stream { Script::events(&events) } else { Script::json("200 OK", &whole) }
        })
        .await;
        let ask =
            json!({"contents": [{"parts": [{"text": "hi"}]}], "generationConfig": {"candidateCount": 2}});
        let house = House::new();
        house.withhold("exec");
        house.redact();
        let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
        let answer = send_to(&gateway, Api::Gemini, stream, &ask).await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        assert!(!answer.text().contains(SECRET), "{}", answer.text());
        assert_eq!(answer.text().matches("[gone]").count(), 2, "{}", answer.text());
        assert_eq!(answer.text().matches("withheld `exec`").count(), 2, "{}", answer.text());
        assert_eq!(house.receipts.of(PointId::AfterLlmCall).len(), 2);

        // What one candidate says stops all of them.
        let house = House::new();
        house.judge::<BeforeResponseEmit>("stop", |event| {
            event
                .content
                .contains("candidate 1")
                .then(|| ResponseEmitOutcome { block: Some(true), ..ResponseEmitOutcome::default() })
        });
        let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
        let answer = send_to(&gateway, Api::Gemini, stream, &ask).await;
        assert!(answer.text().contains("[backstop] blocked"), "{}", answer.text());
        assert!(!answer.text().contains("candidate "), "{}", answer.text());
    }
}

/// The form that tool calls had before they had ids: judged, streamed and in one piece, and named when it is gone.
#[tokio::test]
async fn function_calls_are_judged() {
    use crate::support::{Script, Upstream};
    let call = |name: &str| json!({"name": name, "arguments": format!("{{\"command\":\"{SECRET}\"}}")});
    for name in ["exec", "read"] {
        let chunk = |delta: Value, reason: Value| {
            let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason});
            let body =
                json!({"id": "x", "object": "chat.completion.chunk", "model": "m", "choices": [choice]});
            format!("data: {body}\n\n")
        };
        let events = [
            chunk(json!({"role": "assistant", "content": null, "function_call": call(name)}), Value::Null),
            chunk(json!({}), "function_call".into()),
            "data: [DONE]\n\n".to_owned(),
        ];
        let message = json!({"role": "assistant", "content": null, "function_call": call(name)});
        let choice = json!({"index": 0, "message": message, "finish_reason": "function_call"});
        let whole = json!({"id": "x", "model": "m", "choices": [choice]}).to_string();
        for stream in [true, false] {
            let (events, whole) = (events.clone(), whole.clone());
            let upstream = Upstream::start(move |_| {
                let events: Vec<&str> = events.iter().map(String::as_str).collect();
                if stream { Script::events(&events) } else { Script::json("200 OK", &whole) }
            })
            .await;
            let house = House::new();
            house.withhold("exec");
            let settings = HookSettings { refusals: 0, ..HookSettings::default() };
            let gateway = house.gateway(&upstream.url(), settings).await;
            let mut body = ask(Api::OpenAiChat, stream, "hi");
            body["functions"] = json!([{"name": "exec"}, {"name": "read"}]);
            let answer = send(&gateway, Api::OpenAiChat, &body).await;
            let said = read(Api::OpenAiChat, &answer);
            assert_eq!(house.receipts.of(PointId::AfterLlmCall).len(), 1);
            if name == "exec" {
                assert!(!answer.text().contains(SECRET), "{}", answer.text());
                assert!(said.message.visible_text().starts_with("[backstop] withheld `exec`"));
                assert_eq!((said.message.tool_calls().count(), said.stop), (0, StopReason::EndTurn));
            } else {
                let text = answer.text();
                assert!(text.contains("\"function_call\":{") && text.contains(SECRET), "{text}");
                assert!(text.contains("\"finish_reason\":\"function_call\""), "{text}");
                assert!(!text.contains("x_1"), "an id that was made up stays here: {text}");
            }
        }
    }
}
