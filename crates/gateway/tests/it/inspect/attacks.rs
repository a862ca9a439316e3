//! Providers and agents that look for a way past the hooks.

use backstop_gateway::inspect::HookSettings;
use backstop_gateway::{Credential, Family};
use backstop_hooks::points::{AfterLlmCall, AfterLlmCallOutcome, BeforeLlmCall, ModelCallEnded, ToolCallIds};
use backstop_hooks::{PointId, hook_fn};
use backstop_llm::Api;
use serde_json::json;

use super::support::*;
use crate::support::{Script, TOKEN, Upstream, eventually, gateway, post, provider, secret, settings, talk};

/// An answer of the chat wire that calls a tool which is withheld.
fn forbidden() -> String {
    let function = json!({"name": "exec", "arguments": format!("{{\"command\":\"{SECRET}\"}}")});
    let call = json!({"id": "x", "type": "function", "function": function});
    let message = json!({"role": "assistant", "content": SECRET, "tool_calls": [call]});
    let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
    json!({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice], "usage": {}})
        .to_string()
}

fn house() -> House {
    let house = House::new();
    house.redact();
    house.withhold("exec");
    house
}

fn answer(head: &str, body: &str) -> Script {
    let size = body.len();
    Script::whole(format!("HTTP/1.1 {head}\r\ncontent-length: {size}\r\n\r\n{body}"))
}

#[tokio::test]
async fn no_head_leads_an_answer_past_its_judges() {
    let json = "content-type: application/json";
    for head in [
        format!("200 OK\r\n{json}"),
        "200 OK".to_owned(),
        "200 OK\r\ncontent-type: text/html".to_owned(),
        format!("203 Maybe\r\n{json}"),
        format!("206 Partial Content\r\n{json}\r\ncontent-range: bytes 0-9/10"),
        format!("226 Used\r\n{json}"),
        format!("300 Choose\r\n{json}"),
        format!("304 Not Modified\r\n{json}"),
        format!("399 New\r\n{json}"),
        format!("600 New\r\n{json}"),
        format!("999 New\r\n{json}"),
        format!("103 Early Hints\r\n{json}\r\n\r\nHTTP/1.1 200 OK\r\n{json}"),
        format!("200 OK\r\n{json}\r\ncontent-encoding: gzip"),
        format!("200 OK\r\n{json}\r\ncontent-encoding: identity, gzip"),
        format!("200 OK\r\n{json}\r\ncontent-encoding: identity\r\ncontent-encoding: identity"),
        format!("200 OK\r\n{json}\r\ncontent-encoding: deflate"),
        format!("200 OK\r\ncontent-type: text/event-stream\r\n{json}"),
        format!("200 OK\r\n{json}\r\ncontent-type: text/event-stream"),
        "200 OK\r\ncontent-type: text/event-stream; charset=x".to_owned(),
        "101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade".to_owned(),
    ] {
        let body = forbidden();
        let script = answer(&head, &body);
        let upstream = Upstream::start(move |_| script.clone()).await;
        let house = house();
        let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
        for stream in [false, true] {
            let answer = send(&gateway, Api::OpenAiChat, &ask(Api::OpenAiChat, stream, "hi")).await;
            assert!(!answer.text().contains(SECRET), "{head}: {}", answer.text());
        }
    }
}

/// In UTF-7, what reads as a harmless text here is a quote and a comma and a tool call.
#[tokio::test]
async fn another_charset_is_another_answer() {
    for charset in ["utf-7", "UTF-16", "\"utf-16le\"", "iso-2022-jp", "x; charset=utf-8"] {
        for kind in ["application/json", "text/event-stream"] {
            let head = format!("200 OK\r\ncontent-type: {kind};charset={charset}");
            let script = answer(&head, &forbidden());
            let upstream = Upstream::start(move |_| script.clone()).await;
            let gateway = house().gateway(&upstream.url(), HookSettings::default()).await;
            let answer = send(&gateway, Api::OpenAiChat, &ask(Api::OpenAiChat, false, "hi")).await;
            assert_eq!(answer.status(), 502, "{charset}: {}", answer.text());
            assert!(answer.text().contains("UTF-8"), "{}", answer.text());
        }
    }
    for charset in ["utf-8", "UTF8", "\"utf-8\"", "us-ascii"] {
        let head = format!("200 OK\r\ncontent-type: application/json; charset={charset}");
        let script = answer(&head, &forbidden());
        let upstream = Upstream::start(move |_| script.clone()).await;
        let gateway = house().gateway(&upstream.url(), HookSettings::default()).await;
        let answer = send(&gateway, Api::OpenAiChat, &ask(Api::OpenAiChat, false, "hi")).await;
        assert_eq!(answer.status(), 200, "{charset}: {}", answer.text());
    }
}

#[tokio::test]
async fn a_request_in_another_charset_is_not_passed_on() {
    let house = House::new();
    house.judge::<BeforeLlmCall>("looks", |_| None);
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    let request = post("/v1/chat/completions", &ask(Api::OpenAiChat, false, "hi").to_string());
    let request = request.replace("application/json", "application/json; charset=utf-7");
    let answer = talk(&gateway, request).await;
    assert_eq!((answer.status(), upstream.count()), (400, 0), "{}", answer.text());
}

/// What a stored prompt is filled with is read by the model, and stands in no message.
#[tokio::test]
async fn a_text_beside_the_messages_is_not_passed_on() {
    let house = House::new();
    house.judge::<BeforeLlmCall>("looks", |_| None);
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    let mut request = ask(Api::OpenAiResponses, false, "hi");
    request["prompt"] = json!({"id": "pmpt_1", "variables": {"what": SECRET}});
    let answer = send(&gateway, Api::OpenAiResponses, &request).await;
    assert_eq!((answer.status(), upstream.count()), (400, 0), "{}", answer.text());
    request["prompt"] = json!({"id": "pmpt_1", "variables": null});
    send(&gateway, Api::OpenAiResponses, &request).await;
    assert_eq!(upstream.count(), 1);
}

#[tokio::test]
async fn a_model_without_end_is_no_model() {
    let house = House::new();
    house.judge::<BeforeLlmCall>("looks", |_| None);
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    let mut request = ask(Api::OpenAiChat, false, "hi");
    request["model"] = "m".repeat(257).into();
    let answer = send(&gateway, Api::OpenAiChat, &request).await;
    assert_eq!((answer.status(), upstream.count()), (400, 0), "{}", answer.text());
}

/// Who follows a redirect sends the request once more, as it was before the hooks, and gets an answer that
/// nobody judges.
#[tokio::test]
async fn nobody_is_sent_past_the_hooks() {
    for status in [301, 302, 303, 307, 308] {
        let script =
            answer(&format!("{status} Elsewhere\r\nlocation: http://127.0.0.1:9/v1/chat/completions"), "");
        let upstream = Upstream::start(move |_| script.clone()).await;
        let house = House::new();
        house.judge::<BeforeLlmCall>("looks", |_| None);
        house.on::<ModelCallEnded>("ends", hook_fn::<ModelCallEnded, _>(|_, _| Ok(None)));
        let hooked = house.gateway(&upstream.url(), HookSettings::default()).await;
        let body = ask(Api::OpenAiChat, false, "hi");
        let answer = send(&hooked, Api::OpenAiChat, &body).await;
        assert_eq!(answer.status(), 502, "{}", answer.text());
        assert!(!answer.text().contains("127.0.0.1:9"), "{}", answer.text());
        assert!(answer.text().contains("base_url"), "{}", answer.text());
        eventually("its end was told", || !house.receipts.of(PointId::ModelCallEnded).is_empty()).await;
        let plain = gateway(settings(&upstream)).await;
        assert_eq!(send(&plain, Api::OpenAiChat, &body).await.status(), status);
    }
}

#[tokio::test]
async fn ways_to_a_model_that_nobody_reads_are_closed() {
    let house = House::new();
    house.judge::<BeforeLlmCall>("looks", |_| None);
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    for path in [
        "/google.ai.generativelanguage.v1beta.GenerativeService/GenerateContent",
        "/$rpc/google.ai.generativelanguage.v1beta.GenerativeService/StreamGenerateContent",
        "/p/gemini/google.ai.generativelanguage.v1beta.GenerativeService/Generate%43ontent",
        "/xai_api.Chat/GetCompletion",
        "/batch",
        "/batch/generativelanguage/v1beta",
        "/v1beta/cachedContents",
        "/v1/predictions",
        "/accounts/a/ai/run/maker/model",
        "/v1/agents",
        "/v1/sessions/s/events",
        "/v1/evals",
        "/v1/completions.json",
        "/v1/completions%20",
        "/api/create",
        "/",
        "/v1",
    ] {
        let answer = talk(&gateway, post(path, "{}")).await;
        assert_eq!(answer.status(), 403, "{path}: {}", answer.text());
    }
    for header in [
        "content-type: application/grpc",
        "content-type: Application/GRPC-Web+proto",
        "x-http-method-override: POST",
        "x-http-method: POST",
        "x-method-override: POST",
    ] {
        let request = format!(
            "GET /t/{TOKEN}/v1/models/m HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{header}\r\n\r\n"
        );
        let answer = talk(&gateway, request).await;
        assert_eq!(answer.status(), 403, "{header}: {}", answer.text());
    }
    // Nor does it help that a codec would read what such a request has.
    let body = ask(Api::AnthropicMessages, false, "hi").to_string();
    for header in
        ["x-http-method-override: PATCH", "x-original-url: /v1/dreams", "content-type: application/grpc"]
    {
        let request = format!(
            "POST /t/{TOKEN}/v1/messages HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n{header}\r\n\r\n{body}",
            body.len()
        );
        let answer = talk(&gateway, request).await;
        assert_eq!(answer.status(), 403, "{header}: {}", answer.text());
    }
    assert_eq!(upstream.count(), 0);
    let list = |more: &str| {
        format!("GET /t/{TOKEN}/v1/models/m HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{more}\r\n")
    };
    assert_eq!(talk(&gateway, list("")).await.status(), 200);
    // What nobody knows may mean anything to some server: it stays here, whether the request is read or not.
    let strays = "x-override-url: /v1/dreams\r\nX-Original-Path: /v1/dreams\r\nx-forwarded-path: /v1/dreams\r\nx-future: 1\r\nx-app: cli\r\n";
    let asks =
        post("/v1/messages", &body).replace("host: localhost\r\n", &format!("host: localhost\r\n{strays}"));
    for request in [list(strays), asks] {
        talk(&gateway, request).await;
        let sent = upstream.request(upstream.count() - 1);
        assert!(
            !sent.contains("dreams") && !sent.contains("future") && sent.contains("x-app: cli"),
            "{sent}"
        );
    }
}

/// What was judged is what is sent, however the length of a body was said.
#[tokio::test]
async fn a_body_has_one_length() {
    let house = House::new();
    house.judge::<BeforeLlmCall>("looks", |_| None);
    let body = ask(Api::OpenAiChat, false, "hi").to_string();
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    for lengths in [
        "content-length: 5\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 5",
        "transfer-encoding: chunked\r\ncontent-length: 5\r\nconnection: transfer-encoding",
        "transfer-encoding: chunked\r\ncontent-length: 5\r\nconnection: content-length",
        "transfer-encoding: gzip, chunked",
        "transfer-encoding: chunked, chunked",
        "transfer-encoding: chunked\r\ntransfer-encoding: identity",
        "transfer-encoding:\u{b}chunked\r\ncontent-length: 5",
        "content-length: 5\r\ncontent-length: 6",
        "content-length: +5",
        "content-length: 5, 5",
    ] {
        let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
        let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
        let request = format!(
            "POST /t/{TOKEN}/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{lengths}\r\n\r\n{chunked}"
        );
        let answer = talk(&gateway, request).await;
        for sent in upstream.requests.lock().unwrap().iter() {
            let (head, sent) = sent.split_once("\r\n\r\n").unwrap();
            assert_eq!(sent, body, "{lengths}: {head}");
            let head = head.to_ascii_lowercase();
            assert!(head.contains(&format!("content-length: {}", body.len())), "{lengths}: {head}");
            assert!(!head.contains("transfer-encoding"), "{lengths}: {head}");
        }
        assert!(upstream.count() == 1 || answer.status() == 400, "{lengths}: {}", answer.text());
    }
}

#[tokio::test]
async fn keys_under_every_name_stay_here() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let mut with_key = settings(&upstream);
    with_key.providers.insert(
        "openai".to_owned(),
        provider(Family::OpenAi, &upstream.url(), Credential::Key(secret("ours"))),
    );
    let gateway = gateway(with_key).await;
    let headers = format!(
        "api-key: theirs\r\nx-api-key: theirs\r\nx-goog-api-key: theirs\r\nauthorization: Bearer {TOKEN}"
    );
    let request = format!(
        "POST /v1/chat/completions?key=theirs HTTP/1.1\r\nhost: localhost\r\nconnection: close, api-key\r\n{headers}\r\ncontent-length: 2\r\n\r\n{{}}"
    );
    assert_eq!(talk(&gateway, request.replace(", api-key", "")).await.status(), 200);
    assert!(!upstream.request(0).contains("theirs"), "{}", upstream.request(0));
    assert!(!upstream.request(0).contains(TOKEN), "{}", upstream.request(0));
    assert_eq!(upstream.request(0).matches("ours").count(), 1);
    // Where clients of Azure put their key, the token opens too, and does not go on.
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\napi-key: {TOKEN}\r\ncontent-length: 2\r\n\r\n{{}}"
    );
    assert_eq!(talk(&gateway, request).await.status(), 200);
    assert!(!upstream.request(1).contains(TOKEN), "{}", upstream.request(1));
}

/// Items of an answer that make a client, or somebody for it, act, though no table of tools has them.
fn acting_items() -> [serde_json::Value; 4] {
    [
        json!({"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "shop", "name": "drop_all", "arguments": json!({"why": SECRET}).to_string()}),
        json!({"type": "tool_search_call", "id": "tsc_1", "call_id": "c1", "execution": "client", "status": "completed", "arguments": {"query": SECRET}}),
        json!({"type": "program", "id": "prg_1", "call_id": "c2", "fingerprint": "f", "code": SECRET}),
        json!({"type": "future_call", "id": "fut_1", "what": SECRET}),
    ]
}

#[tokio::test]
async fn items_of_any_type_are_judged_as_calls() {
    let body = json!({"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": acting_items()});
    for (denied, left) in [
        (vec!["mcp__shop__drop_all", "tool_search_call", "program", "future_call"], 0),
        (vec!["future_call"], 3),
        (vec![], 4),
    ] {
        let house = House::new();
        let names = denied.clone();
        house.judge::<AfterLlmCall>("withhold", move |event| {
            let kept = event.tool_calls.iter().filter(|call| !names.contains(&call.name.as_str()));
            Some(AfterLlmCallOutcome {
                tool_calls: Some(ToolCallIds::new(kept.map(|call| call.id.clone()))),
                ..AfterLlmCallOutcome::default()
            })
        });
        let text = body.to_string();
        let answer = text.clone();
        let upstream = Upstream::start(move |_| Script::json("200 OK", &answer)).await;
        let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
        let api = Api::OpenAiResponses;
        let answer = send_to(&gateway, api, false, &ask(api, false, "hi")).await;
        let got = answer.body().0;
        assert_eq!(got.matches(SECRET).count(), left, "{denied:?}: {got}");
        for name in &denied {
            assert!(got.contains(&format!("`{name}`: the tool call was removed")), "{got}");
        }
        if denied.is_empty() {
            assert_eq!(got, text);
        }
    }
}
