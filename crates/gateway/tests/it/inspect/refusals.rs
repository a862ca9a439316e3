//! Turns that go on after all calls of an answer were refused.

use std::time::Duration;

use backstop_engine::Verdict;
use backstop_gateway::inspect::HookSettings;
use backstop_hooks::conversation::{Message, Part, ToolResult};
use backstop_hooks::points::{AfterLlmCall, AfterLlmCallOutcome, BeforeLlmCall, ToolCallIds};
use backstop_hooks::{HookError, PointId, hook_fn};
use backstop_llm::{Api, ModelResponse, ScriptedServer, StopReason};
use serde_json::{Value, json};

use super::support::*;
use crate::support::{Answer, End, Script, Upstream, chunk, find};

const ROUNDS: u32 = 2;

fn settings() -> HookSettings {
    HookSettings { refusals: ROUNDS, ..HookSettings::default() }
}

fn refused(text: &str, command: &str) -> Value {
    let usage = json!({"input": 10, "output": 5});
    json!({"text": text, "usage": usage, "tool_calls": [{"name": "exec", "arguments": {"command": command}}]})
}

/// The results of tools in a request.
fn results(messages: &[Message]) -> Vec<&ToolResult> {
    let parts = messages.iter().flat_map(|message| &message.content);
    parts.filter_map(|part| if let Part::ToolResult(result) = part { Some(result) } else { None }).collect()
}

async fn answered(house: &House, model: &ScriptedServer, api: Api, stream: bool) -> (ModelResponse, Answer) {
    let gateway = house.gateway(&model.base_url(), settings()).await;
    let answer = send_to(&gateway, api, stream, &ask(api, stream, "hi")).await;
    (read(api, &answer), answer)
}

#[tokio::test]
async fn a_model_is_told_that_its_call_was_refused_and_goes_on_in_the_same_answer() {
    for (api, stream) in forms() {
        let house = House::new();
        house.withhold("exec");
        house.judge::<BeforeLlmCall>("looks", |_| None);
        let then = json!({"text": "Then I read.", "usage": {"input": 20, "output": 7},
            "tool_calls": [{"name": "read", "arguments": {"path": "a"}}]});
        let model = model(json!([refused("I try.", SECRET), then])).await;
        let (response, answer) = answered(&house, &model, api, stream).await;
        let said = response.message.visible_text();
        assert!(said.starts_with("I try.") && said.ends_with("Then I read."), "{api} {stream}: {said}");
        assert!(said.contains("[backstop] withheld `exec`"), "{api} {stream}: {said}");
        let calls: Vec<_> = response.message.tool_calls().map(|call| call.name.as_str()).collect();
        assert_eq!(calls, ["read"], "{api} {stream}");
        assert_eq!(response.stop, StopReason::ToolUse, "{api} {stream}");
        assert_eq!((response.usage.input, response.usage.output), (30, 12), "{api} {stream}");
        assert!(!answer.text().contains(SECRET), "{api} {stream}: {}", answer.text());
        // The provider got what it said, and the refusal as its result.
        let requests = model.requests();
        let [first, second] = requests.as_slice() else { panic!("{api} {stream}: {}", requests.len()) };
        assert_eq!(second.stream, first.stream);
        let calls: Vec<_> = second.request.messages.iter().flat_map(Message::tool_calls).collect();
        let told = results(&second.request.messages);
        assert_eq!((calls.len(), told.len()), (1, 1), "{api} {stream}");
        assert!(api == Api::Gemini || calls[0].id == told[0].tool_call_id, "{api} {stream}");
        assert!(told[0].visible_text().contains("was refused and did not run"), "{api} {stream}");
        // All points judged both.
        for point in [PointId::BeforeLlmCall, PointId::AfterLlmCall] {
            assert_eq!(house.receipts.of(point).len(), 2, "{api} {stream} {point:?}");
        }
    }
}

/// Its client knows a streamed answer by the id of the first of those that it was made of; the provider has to hear the last.
#[tokio::test]
async fn what_follows_a_joined_answer_follows_the_last_of_its_answers() {
    for stream in [true, false] {
        let api = Api::OpenAiResponses;
        let house = House::new();
        house.withhold("exec");
        let model = model(json!([refused("I try.", "x"), {"text": "Then."}, {"text": "More."}])).await;
        let gateway = house.gateway(&model.base_url(), settings()).await;
        let shown = read(api, &send_to(&gateway, api, stream, &ask(api, stream, "hi")).await).id;
        assert_eq!(shown == "msg_script_1", stream, "{shown}");
        let mut next = ask(api, stream, "go on");
        next["previous_response_id"] = shown.into();
        send_to(&gateway, api, stream, &next).await;
        let requests = model.requests();
        assert_eq!(requests.len(), 3, "stream={stream}");
        assert_eq!(requests[2].request.extra["previous_response_id"], "msg_script_2", "stream={stream}");
    }
}

#[tokio::test]
async fn a_model_that_insists_is_told_so_only_so_often() {
    for (api, stream) in forms() {
        let house = House::new();
        house.withhold("exec");
        let mut insists = refused("Again.", "x");
        insists["repeat"] = true.into();
        let model = model(json!([insists])).await;
        let (response, _) = answered(&house, &model, api, stream).await;
        assert_eq!(model.requests().len(), ROUNDS as usize + 1, "{api} {stream}");
        let said = response.message.visible_text();
        assert_eq!(said.matches("withheld `exec`").count(), ROUNDS as usize + 1, "{api} {stream}: {said}");
        assert_eq!(response.message.tool_calls().count(), 0, "{api} {stream}");
        assert_eq!(response.stop, StopReason::EndTurn, "{api} {stream}");
        assert_eq!(response.usage.output, 15, "{api} {stream}");
    }
}

#[tokio::test]
async fn a_client_that_has_a_call_to_run_goes_on_by_itself() {
    for (api, stream) in forms() {
        let house = House::new();
        house.withhold("exec");
        let calls = json!([{"name": "exec", "arguments": {}}, {"name": "read", "arguments": {}}]);
        let model = model(json!([{"text": "Both.", "tool_calls": calls}])).await;
        let (response, _) = answered(&house, &model, api, stream).await;
        assert_eq!(model.requests().len(), 1, "{api} {stream}");
        assert_eq!(response.message.tool_calls().count(), 1, "{api} {stream}");
    }
}

#[tokio::test]
async fn an_answer_that_can_not_go_on_ends_as_if_nobody_had_tried() {
    for (api, stream) in forms() {
        let faults = [json!({"http_status": {"status": 429}}), json!("close_connection")];
        for fault in faults {
            let house = House::new();
            house.withhold("exec");
            let turns = json!([refused("I try.", "x"), {"fault": fault}]);
            let model_of_both = model(turns.clone()).await;
            let (response, _) = answered(&house, &model_of_both, api, stream).await;
            assert_eq!(model_of_both.requests().len(), 2, "{api} {stream} {fault}");
            let alone = model(turns).await;
            let gateway = house.gateway(&alone.base_url(), HookSettings::default()).await;
            let expected = read(api, &send_to(&gateway, api, stream, &ask(api, stream, "hi")).await);
            assert_eq!(response.message.visible_text(), expected.message.visible_text(), "{api} {stream}");
            assert_eq!(response.stop, expected.stop, "{api} {stream}");
        }
    }
}

#[tokio::test]
async fn what_follows_a_refusal_is_judged_like_any_answer() {
    for (api, stream) in forms() {
        let house = House::new();
        house.withhold("exec");
        house.redact();
        let model = model(json!([refused("I try.", "x"), {"text": format!("It was {SECRET}.")}])).await;
        let (response, answer) = answered(&house, &model, api, stream).await;
        assert!(response.message.visible_text().ends_with("It was [gone]."), "{api} {stream}");
        assert!(!answer.text().contains(SECRET), "{api} {stream}");
        // A block of the second answer ends both.
        let house = House::new();
        house.judge::<AfterLlmCall>("blocks", |event| match event.iteration {
            0 => Some(AfterLlmCallOutcome {
                tool_calls: Some(ToolCallIds::new([""; 0])),
                ..AfterLlmCallOutcome::default()
            }),
            _ => Some(AfterLlmCallOutcome {
                block: Some(true),
                block_reason: Some("no more".into()),
                ..AfterLlmCallOutcome::default()
            }),
        });
        let model =
            super::support::model(json!([refused("I try.", "x"), refused("Then this.", SECRET)])).await;
        let (response, answer) = answered(&house, &model, api, stream).await;
        assert!(response.message.visible_text().ends_with("[backstop] blocked: no more"), "{api} {stream}");
        assert!(!answer.text().contains(SECRET), "{api} {stream}: {}", answer.text());
    }
}

#[tokio::test]
async fn a_request_that_a_gate_stops_is_not_made() {
    for (api, stream) in forms() {
        let house = House::new();
        house.withhold("exec");
        house.judge::<BeforeLlmCall>("once", |event| {
            (event.iteration > 0).then(|| backstop_hooks::points::BeforeLlmCallOutcome {
                block: Some(true),
                ..Default::default()
            })
        });
        let model = model(json!([refused("I try.", "x")])).await;
        let (response, _) = answered(&house, &model, api, stream).await;
        assert_eq!(model.requests().len(), 1, "{api} {stream}");
        assert_eq!(response.stop, StopReason::EndTurn, "{api} {stream}");
        assert_eq!(house.receipts.of(PointId::BeforeLlmCall), [Verdict::Pass, Verdict::Block], "{api}");
    }
}

/// Where nobody can judge what comes after a refusal, all of it ends as a first answer does: with no words of the model's, and
/// not as if it had been said to the end.
#[tokio::test]
async fn a_store_that_fails_in_a_later_round_ends_the_answer_as_in_the_first() {
    for (api, stream) in forms() {
        for (point, round) in [("before", 1), ("before", 2), ("after", 1), ("after", 2)] {
            let context = format!("{api} {stream} {point} {round}");
            let house = House::new();
            house.withhold("exec");
            let fails = move |is_then: bool| match is_then {
                true => Err(HookError::Unreachable("`/var/lib/backstop.db` is locked".into())),
                false => Ok(()),
            };
            match point {
                "before" => {
                    let hook = hook_fn::<BeforeLlmCall, _>(move |event, _| {
                        fails(event.iteration == round).map(|()| None)
                    });
                    house.on::<BeforeLlmCall>("store", hook);
                }
                _ => {
                    let hook = hook_fn::<AfterLlmCall, _>(move |event, _| {
                        fails(event.iteration == round).map(|()| None)
                    });
                    house.on::<AfterLlmCall>("store", hook);
                }
            }
            let model =
                model(json!([refused("I try.", "x"), refused("Once more.", "y"), refused("And.", SECRET)]))
                    .await;
            let gateway = house.gateway(&model.base_url(), settings()).await;
            let answer = send_to(&gateway, api, stream, &ask(api, stream, "hi")).await;
            let text = answer.text();
            assert!(text.contains("can't be reached"), "{context}: {text}");
            for gone in [SECRET, "backstop.db", "locked"] {
                assert!(!text.contains(gone), "{context}: {text}");
            }
            let (body, whole) = answer.body();
            assert!(whole, "{context}: {text}");
            if stream {
                let error = body.rfind("can't be reached").unwrap();
                for end in ["message_stop", "response.completed", "[DONE]", "STOP"] {
                    assert!(!body.contains(end), "{end}: {context}: {text}");
                }
                assert!(body[error..].matches("data: ").count() == 0, "nothing follows: {context}: {text}");
            } else {
                assert_eq!(answer.status(), 503, "{context}: {text}");
                assert!(answer.head().to_lowercase().contains("retry-after: 1"), "{context}: {text}");
                assert!(!body.contains("I try."), "{context}: {text}");
            }
        }
    }
}

/// The second answer comes in two pieces, cut anywhere, or breaks off there.
#[tokio::test]
async fn the_second_answer_is_the_same_however_it_is_cut() {
    for api in LINED {
        let house = House::new();
        house.withhold("exec");
        let model = model(json!([refused("I try.", "x"), {"text": "Then not."}])).await;
        let direct = |number: usize| {
            let (model, api) = (model.base_url(), api);
            async move { raw(&model, api, number).await }
        };
        let (first, second) = (direct(0).await, direct(1).await);
        let mut whole = None;
        for cut in (0..=second.len()).step_by(7) {
            for breaks in [false, true] {
                let (first, second) = (first.clone(), second.clone());
                let upstream = Upstream::start(move |number| {
                    let head = crate::support::EVENTS_HEAD.as_bytes().to_vec();
                    let mut pieces = vec![head];
                    if number == 0 {
                        pieces.extend([chunk(&first), b"0\r\n\r\n".to_vec()]);
                        return Script { pieces, gap: Duration::ZERO, end: End::KeepOpen };
                    }
                    let (before, after) = second.split_at(cut);
                    pieces
                        .extend([before].iter().filter(|piece| !piece.is_empty()).map(|piece| chunk(piece)));
                    if breaks {
                        return Script { pieces, gap: Duration::ZERO, end: End::Close };
                    }
                    pieces.extend([after].iter().filter(|piece| !piece.is_empty()).map(|piece| chunk(piece)));
                    pieces.push(b"0\r\n\r\n".to_vec());
                    Script { pieces, gap: Duration::from_millis(1), end: End::KeepOpen }
                })
                .await;
                let gateway = house.gateway(&upstream.url(), settings()).await;
                let answer = send_to(&gateway, api, true, &ask(api, true, "hi")).await;
                assert!(!answer.text().contains("\"exec\""), "{api} {cut}");
                if breaks {
                    // Whatever was said, it ends as an answer or as an error, and says nothing that was not said.
                    assert!(answer.body().1, "{api} {cut}: {}", answer.text());
                    assert!(find(&answer.bytes, b"I try.").is_some(), "{api} {cut}");
                    continue;
                }
                let body = answer.body().0;
                assert_eq!(*whole.get_or_insert_with(|| body.clone()), body, "{api} {cut}");
            }
        }
        assert!(whole.unwrap().contains("not."), "{api}");
    }
}

/// What the scripted model says to request number `n`, as bytes.
async fn raw(url: &str, api: Api, number: usize) -> Vec<u8> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let address = url.strip_prefix("http://").unwrap();
    let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let body = ask(api, true, &format!("hi {number}")).to_string();
    let path = path(api, true);
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).await.unwrap();
    Answer { bytes, broken: false }.body().0.into_bytes()
}

#[tokio::test]
async fn an_answer_without_a_refusal_leaves_byte_for_byte() {
    for api in LINED {
        let house = House::new();
        house.withhold("exec");
        let calls = json!([{"name": "read", "arguments": {"path": "a"}}]);
        let model = model(json!([{"text": "I read it.", "tool_calls": calls}])).await;
        let said = raw(&model.base_url(), api, 0).await;
        for cut in (0..said.len()).step_by(11) {
            let pieces = [&said[..cut], &said[cut..]].map(<[u8]>::to_vec);
            let upstream = Upstream::start(move |_| {
                let full = pieces.iter().filter(|piece| !piece.is_empty()).map(|piece| chunk(piece));
                let head = crate::support::EVENTS_HEAD.as_bytes().to_vec();
                let pieces = [head].into_iter().chain(full).chain([b"0\r\n\r\n".to_vec()]).collect();
                Script { pieces, gap: Duration::ZERO, end: End::KeepOpen }
            })
            .await;
            let gateway = house.gateway(&upstream.url(), settings()).await;
            let answer = send_to(&gateway, api, true, &ask(api, true, "hi")).await;
            assert_eq!(answer.body().0.as_bytes(), said, "{api} {cut}");
        }
    }
}
