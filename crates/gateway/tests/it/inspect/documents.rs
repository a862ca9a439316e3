//! Operations that are no conversation: texts that leave, and texts that come.

use std::sync::{Arc, Mutex};

use backstop_engine::Verdict;
use backstop_gateway::inspect::{HookSettings, ToolCalls};
use backstop_hooks::PointId;
use backstop_hooks::conversation::Message;
use backstop_hooks::points::{
    BeforeLlmCall, BeforeLlmCallOutcome, BeforeToolCall, MessageBefore, MessageBeforeOutcome, ToolAfter,
    ToolAfterOutcome, ToolCallOutcome,
};
use serde_json::{Value, json};

use super::support::*;
use crate::support::{Answer, Script, TOKEN, Upstream, post, talk};

/// Operations with a text, and the field in which it stands.
const ASKED: [(&str, &str); 9] = [
    ("/v1/embeddings", "/input"),
    ("/openai/deployments/m/embeddings", "/input/1"),
    ("/v1beta/models/m:embedContent", "/content/parts/0/text"),
    ("/v1/moderations", "/input/0/text"),
    ("/v1/completions", "/prompt"),
    ("/v1/images/generations", "/prompt"),
    ("/v1/audio/speech", "/input"),
    ("/v1/responses/compact", "/input/0/content"),
    ("/v1/conversations/c/items", "/items/0/content/0/text"),
];

/// A body with `text` at a place.
fn body(place: &str, text: &str) -> Value {
    let mut value = json!(text);
    for key in place.rsplit('/').filter(|key| !key.is_empty()) {
        value = match key.parse::<usize>() {
            Ok(0) => json!([value]),
            Ok(_) => json!(["first", value]),
            Err(_) => json!({ key: value }),
        };
    }
    value["model"] = json!("m");
    value
}

fn bodies(upstream: &Upstream, number: usize) -> String {
    upstream.request(number).split_once("\r\n\r\n").unwrap().1.to_owned()
}

fn get(path: &str) -> String {
    format!(
        "GET /t/{TOKEN}{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    )
}

async fn reading(house: &House, body: &Value) -> (Upstream, backstop_gateway::Gateway) {
    let body = body.to_string();
    let upstream = Upstream::start(move |_| Script::json("200 OK", &body)).await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    (upstream, gateway)
}

fn message(answer: &Answer) -> String {
    answer.json()["error"]["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn texts_that_leave_are_judged_and_rewritten_in_their_place() {
    let house = House::new();
    house.judge::<MessageBefore>("rewrites", |event| {
        event.message.contains(SECRET).then(|| MessageBeforeOutcome {
            message: Some(event.message.replace(SECRET, "[gone]").into()),
            ..MessageBeforeOutcome::default()
        })
    });
    let (upstream, gateway) = reading(&house, &json!({"object": "list", "data": []})).await;
    for (number, (path, place)) in ASKED.into_iter().enumerate() {
        let asked = body(place, &format!("the word is {SECRET}"));
        let answer = talk(&gateway, post(path, &asked.to_string())).await;
        assert_eq!(answer.status(), 200, "{path}: {}", answer.text());
        let sent: Value = serde_json::from_str(&bodies(&upstream, number)).unwrap();
        assert_eq!(sent, body(place, "the word is [gone]"), "{path}");
    }
    let plain = "{ \"input\" :\"a\\u0021\",\"model\":\"m\", \"dimensions\":1.0}";
    talk(&gateway, post("/v1/embeddings", plain)).await;
    assert_eq!(bodies(&upstream, ASKED.len()), plain, "what nobody changed leaves as it came");
}

#[tokio::test]
async fn a_blocked_document_reaches_no_model() {
    let house = House::new();
    house.judge::<BeforeLlmCall>("no", |event| {
        let said: String = event.messages.iter().map(Message::visible_text).collect();
        assert_eq!(event.model, "m");
        said.contains(SECRET).then(|| BeforeLlmCallOutcome {
            block: Some(true),
            block_reason: Some("not today".into()),
            ..BeforeLlmCallOutcome::default()
        })
    });
    let (upstream, gateway) = reading(&house, &json!({})).await;
    for (path, place) in ASKED {
        for asked in [body(place, SECRET), json!({"model": "m", "future_field": {"x": [SECRET]}})] {
            let answer = talk(&gateway, post(path, &asked.to_string())).await;
            assert_eq!(answer.status(), 403, "{path}: {}", answer.text());
            assert!(message(&answer).contains("not today") && !answer.text().contains(SECRET), "{path}");
        }
    }
    assert_eq!(upstream.count(), 0);
    assert!(!house.receipts.all().contains(SECRET));
}

#[tokio::test]
async fn what_can_not_be_read_of_a_document_is_refused() {
    let house = House::new();
    house.judge::<BeforeLlmCall>("looks", |_| None);
    house.redact();
    let (upstream, gateway) = reading(&house, &json!({})).await;
    for (path, asked, why) in [
        ("/v1/embeddings", json!({"model": "m", "input": [[1, 2], [3]]}), "numbers of tokens"),
        ("/v1/completions", json!({"model": "m", "prompt": [1, 2]}), "numbers of tokens"),
        ("/v1/completions", json!({"model": "m", "prompt": "x", "stream": true}), "a stream"),
        ("/v1/completions", json!({"model": "m", "prompt": "x", "logprobs": 3}), "probabilities"),
        ("/v1/moderations", json!(["x"]), "is no object"),
    ] {
        let answer = talk(&gateway, post(path, &asked.to_string())).await;
        assert_eq!(answer.status(), 400, "{path} {asked}: {}", answer.text());
        assert!(message(&answer).contains(why), "{asked}: {}", answer.text());
    }
    let twice = talk(&gateway, post("/v1/embeddings", r#"{"input":"a","input":"b"}"#)).await;
    assert_eq!(twice.status(), 400);
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn texts_that_come_are_judged() {
    let said = format!("the word is {SECRET}");
    for (request, answered) in [
        (
            post("/v1/completions", r#"{"model":"m","prompt":"hi"}"#),
            json!({"id": "c", "choices": [{"index": 0, "text": said}]}),
        ),
        (
            post("/v1/images/generations", r#"{"prompt":"hi"}"#),
            json!({"created": 1, "data": [{"b64_json": "AAAA", "revised_prompt": said}]}),
        ),
        (
            get("/v1/responses/resp_1/input_items?limit=2"),
            json!({"object": "list", "data": [
            {"type": "message", "id": "m_1", "role": "user", "content": [{"type": "input_text", "text": said}]},
            {"type": "function_call_output", "call_id": "c", "output": said}]}),
        ),
        (
            get("/v1/conversations/conv_1"),
            json!({"id": "conv_1", "object": "conversation", "metadata": {"topic": said}}),
        ),
        (
            post("/v1/responses/compact", r#"{"model":"m","input":"hi"}"#),
            json!({"id": "r", "object": "response.compaction", "output": [
            {"type": "message", "role": "user", "content": said}, {"type": "compaction", "encrypted_content": "AA"}]}),
        ),
    ] {
        let house = House::new();
        house.redact();
        let (_upstream, gateway) = reading(&house, &answered).await;
        let answer = talk(&gateway, request.clone()).await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        let expected: Value = serde_json::from_str(&answered.to_string().replace(SECRET, "[gone]")).unwrap();
        assert_eq!(answer.json(), expected);
        assert!(house.receipts.of(PointId::BeforeResponseEmit).contains(&Verdict::Modify));
        // Nobody objects: as it came.
        let house = House::new();
        house.judge::<BeforeLlmCall>("looks", |_| None);
        let (_upstream, gateway) = reading(&house, &answered).await;
        assert_eq!(talk(&gateway, request).await.body().0, answered.to_string());
    }
}

#[tokio::test]
async fn a_denied_call_stops_the_list_that_has_it() {
    for (item, denied) in [
        (
            json!({"type": "function_call", "call_id": "c", "name": "exec", "arguments": "{\"command\":\"marker\"}"}),
            true,
        ),
        (json!({"type": "future_call", "command": "marker"}), true),
        (json!({"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"}), false),
        (json!({"type": "message", "role": "user", "content": "exec"}), false),
        (json!({"role": "assistant", "content": "exec"}), false),
    ] {
        let house = House::new();
        house.judge::<BeforeToolCall>("no", |event| {
            let denied = ["exec", "future_call"].contains(&event.tool_name.called());
            denied.then(|| ToolCallOutcome::block("not that"))
        });
        for answered in [
            json!({"object": "list", "data": [item]}),
            json!({"object": "response.compaction", "output": [item]}),
        ] {
            let (_upstream, gateway) = reading(&house, &answered).await;
            let answer = talk(&gateway, get("/v1/conversations/conv_1/items")).await;
            assert_eq!(answer.status(), if denied { 403 } else { 200 }, "{item}: {}", answer.text());
            assert!(!answer.text().contains("marker"), "{}", answer.text());
        }
    }
}

#[tokio::test]
async fn a_document_is_no_session_and_its_texts_are_judged_once() {
    let house = House::new();
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = Arc::clone(&asked);
    house.judge::<MessageBefore>("listens", move |event| {
        heard.lock().unwrap().push(event.message.to_string());
        None
    });
    let (upstream, gateway) = reading(&house, &json!({})).await;
    let asking = json!({"model": "m", "input": ["a", "b"], "encoding_format": "float", "user": "u-1"});
    talk(&gateway, post("/v1/embeddings", &asking.to_string())).await;
    assert_eq!(*asked.lock().unwrap(), ["a", "b"]);
    assert_eq!(upstream.count(), 1);
    assert!(house.receipts.of(PointId::SessionStart).is_empty());
}

/// A word may be a secret, and so may the address of a picture: hooks are shown them, and what they would change is refused.
#[tokio::test]
async fn words_beside_the_texts_of_a_document_are_shown() {
    let house = taking();
    let (upstream, gateway) = reading(&house, &json!({"object": "list", "data": []})).await;
    let data = format!("data:image/png;base64,{}", "A-_9".repeat(100));
    let seen = |picture: Value| json!({"model": "m", "input": [{"type": "image_url", "image_url": picture}]});
    let address = format!("https://x.example/?key={SECRET}");
    for (path, body, passes) in [
        ("/v1/embeddings", json!({"model": "m", "input": "a", "user": "u-1", "dimensions": 3}), true),
        ("/v1/embeddings", json!({"model": "m", "input": "a", "user": SECRET}), false),
        ("/v1/embeddings", json!({"model": "m", "input": "a", "dimensions": SECRET}), false),
        ("/v1/images/generations", json!({"model": "m", "prompt": "a", "size": SECRET}), false),
        ("/v1/completions", json!({"model": "m", "prompt": "a", "echo": SECRET}), false),
        ("/v1/audio/speech", json!({"model": "m", "input": "a", "voice": SECRET}), false),
        ("/v1/moderations", seen(json!({"url": data})), true),
        ("/v1/moderations", seen(json!({"url": "https://x.example/cat.png"})), true),
        ("/v1/moderations", seen(json!({ "url": address })), false),
        ("/v1/moderations", seen(json!({"url": data, "note": format!("say {SECRET}")})), false),
        ("/v1/moderations", seen(json!({"url": data, (SECRET): 1})), false),
        ("/v1/moderations", seen(json!({"url": format!("data:{SECRET};base64,AAAA")})), false),
    ] {
        let before = upstream.count();
        let answer = talk(&gateway, post(path, &body.to_string())).await;
        assert_eq!(upstream.count() > before, passes, "{path} {body}: {}", answer.text());
        if passes {
            assert_eq!(bodies(&upstream, before), body.to_string(), "{path}");
        } else {
            assert_eq!(answer.status(), 403, "{path} {body}: {}", answer.text());
            assert!(!answer.text().contains(SECRET), "{path} {body}");
        }
    }
}

/// A gate that denies every tool has nothing against a document, but against what its provider may do by a field that nobody knows.
#[tokio::test]
async fn fields_of_a_document_that_nobody_knows_are_offers_and_words_are_none() {
    let embedded = json!({"model": "m", "input": "a", "user": "u-1"});
    let drawn = json!({"model": "m", "prompt": "a", "size": "auto"});
    let with = |document: &Value, value: Value| {
        let mut document = document.clone();
        document["plugins"] = value;
        document
    };
    for (path, body, passes) in [
        ("/v1/embeddings", embedded.clone(), true),
        ("/v1/embeddings", with(&embedded, json!([{"id": "web"}])), false),
        ("/v1/embeddings", with(&embedded, json!(true)), false),
        ("/v1/embeddings", with(&embedded, Value::Null), true),
        ("/v1/images/generations", drawn.clone(), true),
        ("/v1/images/generations", with(&drawn, json!({"web": true})), false),
    ] {
        let house = House::new();
        house.judge::<BeforeToolCall>("no", |_| Some(ToolCallOutcome::block("not that")));
        let (upstream, gateway) = reading(&house, &json!({"object": "list", "data": []})).await;
        let answer = talk(&gateway, post(path, &body.to_string())).await;
        let expected = if passes { (200, 1) } else { (403, 0) };
        assert_eq!((answer.status(), upstream.count()), expected, "{path} {body}: {}", answer.text());
    }
}

/// Tools that are stored in a conversation are offered with each request that goes on with it.
#[tokio::test]
async fn tools_that_are_stored_for_later_are_judged_as_those_that_are_offered() {
    let tools = json!([{"type": "additional_tools", "tools": [{"type": "mcp", "server_label": "shop", "server_url": "https://x"}]}]);
    for (path, body) in [
        ("/v1/conversations/c/items", json!({ "items": tools })),
        ("/v1/conversations", json!({ "items": tools })),
        ("/v1/responses/compact", json!({"model": "m", "input": tools})),
    ] {
        for denied in ["mcp__shop__*", "mcp__other__*"] {
            for settings in [
                HookSettings::default(),
                HookSettings { tool_calls: ToolCalls::Leave, ..HookSettings::default() },
            ] {
                let house = House::new();
                house.judge::<BeforeToolCall>("no", move |event| {
                    (event.tool_name.called() == denied).then(|| ToolCallOutcome::block("not that"))
                });
                let answered = json!({"object": "list", "data": []}).to_string();
                let upstream = Upstream::start(move |_| Script::json("200 OK", &answered)).await;
                let gateway = house.gateway(&upstream.url(), settings).await;
                let answer = talk(&gateway, post(path, &body.to_string())).await;
                let is_denied = denied == "mcp__shop__*";
                assert_eq!(answer.status(), if is_denied { 403 } else { 200 }, "{path}: {}", answer.text());
                assert_eq!(upstream.count(), usize::from(!is_denied), "{path}");
            }
        }
        let house = House::new();
        house.judge::<BeforeLlmCall>("takes", |event| {
            Some(BeforeLlmCallOutcome {
                tools: (!event.tools.is_empty())
                    .then(|| backstop_hooks::points::ToolNames::new(Vec::<String>::new())),
                ..BeforeLlmCallOutcome::default()
            })
        });
        let (upstream, gateway) = reading(&house, &json!({})).await;
        let answer = talk(&gateway, post(path, &body.to_string())).await;
        assert_eq!((answer.status(), upstream.count()), (403, 0), "{path}: {}", answer.text());
    }
}

/// A result in a stored conversation was written by others, and goes to whoever reads it.
#[tokio::test]
async fn results_that_are_listed_are_judged_like_any_result() {
    let said = format!("the word is {SECRET}");
    for (item, is_result) in [
        (json!({"type": "function_call_output", "id": "o", "call_id": "c", "output": said}), true),
        (
            json!({"type": "mcp_call", "id": "c", "server_label": "shop", "name": "list", "arguments": "{}", "output": said}),
            true,
        ),
        (json!({"type": "message", "role": "user", "content": said}), false),
    ] {
        for answered in [
            json!({"object": "list", "data": [item]}),
            json!({"object": "x", "output": [item]}),
            item.clone(),
        ] {
            let house = House::new();
            house.judge::<ToolAfter>("edits", |event| {
                let mut result = event.result.clone();
                let [backstop_hooks::conversation::Part::Unknown { raw }] = result.content.as_mut_slice()
                else {
                    panic!("{result:?}")
                };
                let edited = raw.to_value().to_string().replace(SECRET, "[gone]");
                *raw = serde_json::from_str::<Value>(&edited).unwrap().into();
                Some(ToolAfterOutcome { result: Some(result) })
            });
            let (_upstream, gateway) = reading(&house, &answered).await;
            let answer = talk(&gateway, get("/v1/conversations/conv_1/items")).await;
            assert_eq!(answer.status(), 200, "{}", answer.text());
            let expected =
                if is_result { answered.to_string().replace(SECRET, "[gone]") } else { answered.to_string() };
            assert_eq!(answer.json(), serde_json::from_str::<Value>(&expected).unwrap());
        }
        let house = House::new();
        house.judge::<ToolAfter>("no", |event| {
            Some(ToolAfterOutcome {
                result: Some(backstop_hooks::conversation::ToolResult {
                    content: Vec::new(),
                    ..event.result.clone()
                }),
            })
        });
        let (_upstream, gateway) = reading(&house, &json!({"object": "list", "data": [item]})).await;
        let answer = talk(&gateway, get("/v1/conversations/conv_1/items")).await;
        assert_eq!(!answer.text().contains(SECRET), is_result, "{}", answer.text());
    }
}

/// The text once more, token by token: what was taken out of the one stands in the other.
#[tokio::test]
async fn probabilities_of_tokens_in_a_list_of_items_do_not_leave_beside_a_judged_text() {
    let (first, second) = SECRET.split_at(3);
    let token = |text: &str| json!({"token": text, "logprob": -0.1, "bytes": [1], "top_logprobs": []});
    let listed = |probabilities: Value| {
        let part =
            json!({"type": "output_text", "text": SECRET, "annotations": [], "logprobs": probabilities});
        json!({"object": "list", "data": [{"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [part]}]})
    };
    for (answered, status) in [(listed(json!([token(first), token(second)])), 403), (listed(json!([])), 200)]
    {
        let house = House::new();
        house.redact();
        let (_upstream, gateway) = reading(&house, &answered).await;
        for path in [
            "/v1/conversations/c/items?include[]=message.output_text.logprobs",
            "/v1/responses/r/input_items",
        ] {
            let answer = talk(&gateway, get(path)).await;
            assert_eq!(answer.status(), status, "{path}: {}", answer.text());
            assert!(!answer.text().contains(second), "{path}: {}", answer.text());
        }
    }
}

/// What a provider runs is judged where it is offered, also where the program itself asks about its own calls.
#[tokio::test]
async fn gates_of_tools_alone_close_what_can_not_be_judged() {
    let house = House::new();
    house.judge::<BeforeToolCall>("no", |event| {
        (event.tool_name.called() == "web_search").then(|| ToolCallOutcome::block("not that"))
    });
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let settings = HookSettings { tool_calls: ToolCalls::Leave, ..HookSettings::default() };
    let gateway = house.gateway(&upstream.url(), settings).await;
    let answer = talk(&gateway, post("/v1/dreams", "{}")).await;
    assert_eq!((answer.status(), upstream.count()), (403, 0), "{}", answer.text());
    let asked = json!({"model": "m", "input": "hi", "tools": [{"type": "web_search"}]});
    talk(&gateway, post("/v1/responses", &asked.to_string())).await;
    assert!(!bodies(&upstream, 0).contains("web_search"));
    // Nobody reads texts.
    let tokens = json!({"model": "m", "input": [[1, 2]]}).to_string();
    assert_eq!(talk(&gateway, post("/v1/embeddings", &tokens)).await.status(), 200);
    assert_eq!(bodies(&upstream, 1), tokens);
}

/// What is stored is read by the model in later requests: names, ids, pictures and files of it as well as its texts. Texts are
/// rewritten; what can't be is refused.
#[tokio::test]
async fn everything_that_is_stored_in_a_conversation_is_shown() {
    let house = taking();
    let (upstream, gateway) = reading(&house, &json!({"object": "list", "data": []})).await;
    let said = |part: Value| json!({"type": "message", "role": "user", "content": [part]});
    let picture = "data:image/png;base64,AAAA";
    for (item, passes) in [
        (said(json!({"type": "input_text", "text": "hi"})), true),
        (said(json!({"type": "input_text", "text": format!("the word is {SECRET}")})), true),
        (
            json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": SECRET}]}),
            true,
        ),
        (json!({"type": "function_call_output", "call_id": "c", "output": SECRET}), true),
        (said(json!({"type": "input_image", "image_url": picture})), true),
        (said(json!({"type": "input_image", "image_url": format!("https://x.example/{SECRET}")})), false),
        (said(json!({"type": "input_image", "image_url": picture, "detail": SECRET})), false),
        (said(json!({"type": "input_file", "file_data": format!("data:text/plain,{SECRET}")})), false),
        (said(json!({"type": "input_file", "file_id": "file-1", "filename": SECRET})), false),
        (
            json!({"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": SECRET}),
            false,
        ),
        (json!({"type": "function_call", "call_id": SECRET, "name": "f", "arguments": "{}"}), false),
        (json!({"type": "function_call", "call_id": "c", "name": SECRET, "arguments": "{}"}), false),
        (
            json!({"type": "function_call", "call_id": "c", "name": "f", "status": SECRET, "arguments": "{}"}),
            false,
        ),
        (json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": SECRET}), false),
    ] {
        for (path, body) in [
            ("/v1/conversations", json!({ "items": [item] })),
            ("/v1/conversations/c/items", json!({ "items": [item] })),
            ("/v1/responses/compact", json!({"model": "m", "input": [item]})),
        ] {
            let before = upstream.count();
            let answer = talk(&gateway, post(path, &body.to_string())).await;
            assert_eq!(answer.status(), if passes { 200 } else { 403 }, "{path} {body}: {}", answer.text());
            assert_eq!(upstream.count() > before, passes, "{path} {body}");
            if passes {
                let sent: Value = serde_json::from_str(&bodies(&upstream, before)).unwrap();
                let clean = body.to_string().replace(SECRET, "[gone]");
                assert_eq!(sent, serde_json::from_str::<Value>(&clean).unwrap(), "{path}");
            } else {
                assert!(!answer.text().contains(SECRET), "{path} {body}");
            }
        }
    }
    for body in [json!({"metadata": {"note": SECRET}}), json!({"items": [], "metadata": {"note": SECRET}})] {
        let before = upstream.count();
        talk(&gateway, post("/v1/conversations", &body.to_string())).await;
        assert!(upstream.count() == before || !bodies(&upstream, before).contains(SECRET), "{body}");
    }
}
