//! Clients that ask for a WebSocket.

use backstop_gateway::inspect::{HookSettings, Hooks};
use backstop_hooks::points::BeforeLlmCall;
use tokio::io::AsyncWriteExt as _;

use crate::inspect::support::House;
use crate::support::*;

/// Each wire's own address, that of OpenAI's and Gemini's live sessions, and one that nobody knows.
const PATHS: [&str; 7] = [
    "/v1/responses",
    "/v1/chat/completions",
    "/v1/messages",
    "/v1beta/models/g:streamGenerateContent?alt=sse",
    "/v1/realtime?model=g",
    "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent",
    "/no/such/path",
];

/// The opening handshake of RFC 6455, with the token in the path.
fn handshake(path: &str, upgrade: &str) -> String {
    format!(
        "GET /t/{TOKEN}{path} HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\nUpgrade: {upgrade}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
}

fn is_told_to_stream(answer: &str) {
    assert!(answer.starts_with("HTTP/1.1 426 Upgrade Required\r\n"), "{answer}");
    assert!(answer.contains("\r\nupgrade: HTTP/1.1\r\n"), "{answer}");
    let body = answer.split("\r\n\r\n").nth(1).unwrap();
    let error: serde_json::Value = serde_json::from_str(body).unwrap();
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("backstop: WebSockets do not pass here"), "{error}");
}

#[tokio::test]
async fn a_handshake_is_answered_426_and_the_connection_goes_on_with_http() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{\"fine\":true}")).await;
    let gateway = gateway(settings(&upstream)).await;
    for path in PATHS {
        let mut socket = connect(&gateway).await;
        let before = upstream.count();
        for upgrade in ["websocket", "WebSocket", "h2c, websocket/13"] {
            socket.write_all(handshake(path, upgrade).as_bytes()).await.unwrap();
            is_told_to_stream(&until(&mut socket, "}}").await);
        }
        assert_eq!(upstream.count(), before, "nothing of it reaches a provider");
        socket.write_all(post("/v1/responses", "{}").as_bytes()).await.unwrap();
        assert!(rest(&mut socket).await.text().contains("\"fine\":true"));
    }
    assert_eq!(gateway.requests(), PATHS.len() as u64, "a handshake is no request of a model");
}

#[tokio::test]
async fn a_handshake_is_answered_426_where_hooks_decide_and_401_without_a_token() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let house = House::new();
    house.judge::<BeforeLlmCall>("looks", |_| None);
    let hooks = Hooks::new(house.engine.clone(), HookSettings::default()).unwrap();
    let gateway = start(settings(&upstream), hooks).await.unwrap();
    for path in PATHS {
        let mut socket = connect(&gateway).await;
        let asked = handshake(path, "websocket");
        socket.write_all(asked.as_bytes()).await.unwrap();
        is_told_to_stream(&until(&mut socket, "}}").await);
        let stranger = asked.replace(&format!("/t/{TOKEN}"), "");
        let mut socket = connect(&gateway).await;
        socket.write_all(stranger.as_bytes()).await.unwrap();
        assert!(until(&mut socket, "}}").await.starts_with("HTTP/1.1 401 "), "{path}");
    }
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn a_client_that_offers_another_upgrade_goes_on_without_it() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let gateway = gateway(settings(&upstream)).await;
    let offer = "connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n";
    let request = post("/v1/responses", "{}").replace("connection: close\r\n", offer);
    let mut socket = connect(&gateway).await;
    socket.write_all(request.as_bytes()).await.unwrap();
    assert!(until(&mut socket, "{}").await.starts_with("HTTP/1.1 200 OK"));
    assert!(!upstream.request(0).contains("h2c"), "{}", upstream.request(0));
}
