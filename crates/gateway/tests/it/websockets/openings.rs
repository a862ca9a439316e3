//! Who may open a WebSocket, and what else is refused.

use backstop_gateway::inspect::HookSettings;
use backstop_gateway::{Credential, Settings};
use backstop_hooks::points::BeforeLlmCall;
use tokio::io::AsyncWriteExt as _;

use super::support::*;
use super::{gateway, hooked, is_closed};
use crate::inspect::support::House;
use crate::support::{Script, TOKEN, Upstream, connect, nobody, post, secret, settings, start, talk, until};

fn house() -> House {
    let house = House::new();
    house.judge::<BeforeLlmCall>("looks", |_| None);
    house
}

fn with_key(mut settings: Settings) -> Settings {
    for provider in settings.providers.values_mut() {
        provider.credential = Credential::Key(secret("sk-operator"));
    }
    settings
}

#[tokio::test]
async fn a_handshake_passes_the_door_and_goes_on_with_the_operators_key() {
    let provider = Provider::start(|_| Play::events(&answer("Done.", None))).await;
    let gateway = hooked(&house(), with_key(open_settings(&provider.url())), HookSettings::default()).await;
    let headers = format!(
        "Authorization: Bearer {TOKEN}\r\nOpenAI-Beta: responses_websockets=2026-02-06\r\nContent-Encoding: gzip\r\nSec-WebSocket-Protocol: key.{TOKEN}\r\nOrigin: http://localhost:3000\r\n"
    );
    let mut client = Client::try_open(&gateway, "/v1/responses?api-version=1", &headers)
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    client.ask("hi").await;
    client.answer().await;
    let head = provider.heads.lock().unwrap()[0].clone();
    assert!(head.starts_with("GET /v1/responses?api-version=1 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("authorization: Bearer sk-operator\r\n"), "{head}");
    assert!(head.contains("openai-beta: responses_websockets=2026-02-06\r\n"), "{head}");
    for gone in [TOKEN, "extensions", "sec-websocket-protocol", "content-encoding", "dGhlIHNhbXBsZSBub25jZQ"]
    {
        assert!(!head.contains(gone), "{gone}: {head}");
    }
    assert!(!provider.heard().concat().contains(TOKEN));
}

/// An opening is a request, and brings a provider no more than one.
#[tokio::test]
async fn an_opening_brings_no_text() {
    let provider = Provider::start(|_| Play::default()).await;
    let texts = "X-Note: read this\r\nCookie: note=read\r\nOriginator: read this\r\nUser-Agent: codex/1.2 (read this)\r\nX-Codex-Turn-Metadata: {\"note\":\"read\"}\r\n";
    for gateway in [
        hooked(&house(), open_settings(&provider.url()), HookSettings::default()).await,
        start(with_key(open_settings(&provider.url())), backstop_gateway::Transparent).await.unwrap(),
    ] {
        let headers = format!("{texts}Version: 0.99.0\r\nX-Codex-Window-Id: 01a2:0\r\n");
        Client::try_open(&gateway, "/v1/responses", &headers).await.unwrap_or_else(|e| panic!("{e}"));
        let head = provider.heads.lock().unwrap().last().unwrap().clone();
        assert!(!head.contains("read"), "{head}");
        for kept in ["user-agent: codex/1.2\r\n", "version: 0.99.0\r\n", "x-codex-window-id: 01a2:0\r\n"] {
            assert!(head.contains(kept), "{kept}: {head}");
        }
        let before = provider.heads.lock().unwrap().len();
        for path in ["/v1/responses?note=read+this", "/v1/responses?api-version=read+this"] {
            let answer = Client::try_open(&gateway, path, "").await.err().unwrap();
            assert!(answer.starts_with("HTTP/1.1 400 "), "{path}: {answer}");
        }
        assert_eq!(provider.heads.lock().unwrap().len(), before);
    }
}

#[tokio::test]
async fn strangers_and_pages_of_other_sites_open_nothing() {
    let provider = Provider::start(|_| Play::default()).await;
    let gateway = gateway(&house(), &provider, HookSettings::default()).await;
    for (headers, status) in [
        ("Origin: https://evil.example\r\n", "403"),
        ("Origin: null\r\n", "403"),
        ("X-Backstop-Token: other-token-other\r\n", "101"),
        ("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "400"),
    ] {
        let status_of = |answer: String| answer.split(' ').nth(1).unwrap().to_owned();
        let opened = Client::try_open(&gateway, "/v1/responses", headers).await;
        assert_eq!(opened.err().map_or("101".to_owned(), status_of), status, "{headers}");
    }
    let before = provider.heads.lock().unwrap().len();
    for (from, to, status) in [
        (format!("/t/{TOKEN}"), String::new(), 401),
        (format!("/t/{TOKEN}"), "/t/other-token-other".to_owned(), 401),
        ("Host: localhost".to_owned(), "Host: evil.example".to_owned(), 403),
        ("Version: 13".to_owned(), "Version: 8".to_owned(), 400),
        ("ub25jZQ==".to_owned(), "u".to_owned(), 400),
        ("GET ".to_owned(), "POST ".to_owned(), 400),
    ] {
        let asked = format!(
            "GET /t/{TOKEN}/v1/responses HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        let mut socket = connect(&gateway).await;
        socket.write_all(asked.replace(&from, &to).as_bytes()).await.unwrap();
        let answer = until(&mut socket, "\r\n\r\n").await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{to}: {answer}");
    }
    assert_eq!(provider.heads.lock().unwrap().len(), before, "no provider was asked");
}

#[tokio::test]
async fn a_provider_without_websockets_is_426_and_one_that_is_gone_502() {
    let upstream = Upstream::start(|_| Script::json("404 Not Found", "{}")).await;
    let mut provided = settings(&upstream);
    provided.websockets = Some(backstop_gateway::WebSockets::default());
    let gateway = start(provided, backstop_gateway::Transparent).await.unwrap();
    let answer = Client::try_open(&gateway, "/v1/responses", "").await.err().unwrap();
    assert!(answer.starts_with("HTTP/1.1 426 ") && answer.contains("upgrade: HTTP/1.1\r\n"), "{answer}");
    let gateway = start(open_settings(&nobody()), backstop_gateway::Transparent).await.unwrap();
    let answer = Client::try_open(&gateway, "/v1/responses", "").await.err().unwrap();
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
}

#[tokio::test]
async fn live_sessions_of_sound_are_refused_at_their_opening() {
    let provider = Provider::start(|_| Play::default()).await;
    let gateway = hooked(&house(), with_key(open_settings(&provider.url())), HookSettings::default()).await;
    for (path, status) in [
        // A call that was begun elsewhere; a session that is no conversation; what two readers could understand in two ways.
        ("/v1/realtime?call_id=rtc_1", 400),
        ("/v1/realtime?model=g&call_id=rtc_1", 400),
        ("/v1/realtime?intent=transcription", 400),
        ("/v1/realtime?model=g%67", 400),
        ("/v1/realtime?model=", 400),
        ("/v1/realtime", 400),
        ("/v1/realtime/translations?model=g", 426),
        ("/v1/realtime/calls?model=g", 426),
        // A token with a setup of its own, music, and addresses that are nobody's.
        (
            "/ws/google.ai.generativelanguage.v1alpha.GenerativeService.BidiGenerateContentConstrained?access_token=t",
            426,
        ),
        ("/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateMusic?key=k", 426),
        ("/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent?access_token=t", 400),
        ("/ws/google.ai.generativelanguage.v1beta.GenerativeService.bidigeneratecontent", 426),
        ("/ws/google.ai.generativelanguage.v1beta.x.GenerativeService.BidiGenerateContent", 426),
        ("/x/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent", 426),
        ("/v1/chat/completions", 426),
        ("/v1/responses/resp_1", 426),
    ] {
        let answer = Client::try_open(&gateway, path, "").await.err().unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {answer}");
    }
    for beta in ["OpenAI-Beta: realtime=v1\r\n", "OpenAI-Beta: x, Realtime=v1\r\n"] {
        let answer = Client::try_open(&gateway, "/v1/realtime?model=g", beta).await.err().unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    for path in [
        "/v1/realtime/calls",
        "/v1/realtime/calls?model=g",
        "/V1/Realtime/Calls/",
        "/v1/realtime/calls/rtc_1/accept",
        "/v1/realtime/calls/rtc_1/refer",
        "/v1/realtime/calls/rtc_1/reject",
        "/v1/realtime/calls/rtc_1/hangup",
        "/openai/v1/realtime/calls",
        "/v1/realtime?model=g",
        "/v1/realtime/translations/client_secrets",
        "/v1/realtime/client_secrets",
        "/v1/realtime/sessions",
        "/v1/realtime/transcription_sessions",
        "/v1alpha/auth_tokens",
    ] {
        let answer = talk(&gateway, post(path, "{}")).await;
        assert!(is_closed(&answer), "{path}: {}", answer.text());
    }
    // The offer of a browser, and one with the session beside it in parts.
    for kind in ["application/sdp", "multipart/form-data; boundary=x"] {
        let offer = format!(
            "POST /t/{TOKEN}/v1/realtime/calls HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: {kind}\r\ncontent-length: 5\r\n\r\nv=0\r\n"
        );
        let answer = talk(&gateway, offer).await;
        assert!(is_closed(&answer), "{kind}: {}", answer.text());
    }
    assert_eq!(provider.heads.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn a_handshake_that_may_be_taken_for_another_request_opens_nothing() {
    let provider = Provider::start(|_| Play::default()).await;
    let judged = gateway(&house(), &provider, HookSettings::default()).await;
    let plain = start(open_settings(&provider.url()), backstop_gateway::Transparent).await.unwrap();
    for gateway in [judged, plain] {
        for (path, headers) in [
            ("/v1/responses", "X-Original-URL: /v1/realtime?call_id=rtc_1\r\n"),
            ("/v1/responses", "X-HTTP-Method-Override: POST\r\n"),
            ("/v1/responses", "Content-Type: application/grpc\r\n"),
            ("/v1/responses?_method=DELETE", ""),
            ("/v1/realtime?model=g", "X-Original-URL: /v1/realtime/translations\r\n"),
            ("/v1/realtime?model=g", "X-HTTP-Method-Override: POST\r\n"),
        ] {
            let answer = Client::try_open(&gateway, path, headers).await.err().unwrap();
            assert!(answer.starts_with("HTTP/1.1 403 "), "{path} {headers}: {answer}");
        }
    }
    assert_eq!(provider.heads.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn the_list_of_models_and_the_routes_hold_for_each_request() {
    let provider = Provider::start(|_| Play::events(&answer("Done.", None))).await;
    let mut settings = open_settings(&provider.url());
    settings.providers.get_mut("openai").unwrap().models = vec!["m".to_owned()];
    let other = settings.providers.get("gemini").unwrap().clone();
    settings.providers.insert("other".to_owned(), other);
    let route = |model: &str| backstop_gateway::ModelRoute {
        models: vec![model.to_owned()],
        providers: vec!["other".to_owned()],
    };
    settings.routes = vec![route("elsewhere")];
    let gateway = hooked(&house(), settings, HookSettings::default()).await;
    let mut client = Client::open(&gateway).await;
    for (model, status) in [("x", 404), ("elsewhere", 400)] {
        client
            .send(tokio_tungstenite::tungstenite::Message::text(
                asked("hi").replace("\"m\"", &format!("\"{model}\"")),
            ))
            .await;
        let told: serde_json::Value = serde_json::from_str(&client.next().await.unwrap()).unwrap();
        assert_eq!(told["status"], status, "{told}");
    }
    client.ask("hi").await;
    client.answer().await;
    assert_eq!(provider.heard(), [asked("hi")]);
}
