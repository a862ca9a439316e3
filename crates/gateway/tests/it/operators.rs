//! What operators ask the gateway itself, below `/-/`.

use std::sync::Arc;

use backstop_gateway::exchange::Call;
use backstop_gateway::inspect::{HookSettings, Hooks};
use backstop_gateway::{Interceptor, Limits, NotReady, Plan, Readiness, Settings, StartError};
use backstop_hooks::AgentId;
use backstop_store::SqliteStore;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::AsyncWriteExt as _;

use crate::inspect::support::House;
use crate::support::*;

const MODEL: &str = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;

/// A token of operators that no scanner takes for one.
fn watch_token() -> String {
    ["watch", "0123456789abcdef"].join("-")
}

/// A request without a token, which closes its connection.
fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n")
}

fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\n")
}

/// Says what it is told to say.
struct Told(Option<NotReady>);

impl Interceptor for Told {
    fn begin(&self, _: &Call<'_>) -> Plan {
        Plan::Opaque
    }

    fn withholds(&self, _: Option<&AgentId>, _: &[&str]) -> Vec<usize> {
        Vec::new()
    }

    fn ready(&self) -> Readiness<'_> {
        Box::pin(std::future::ready(self.0.map_or(Ok(()), Err)))
    }
}

#[tokio::test]
async fn nothing_below_the_prefix_of_operators_reaches_a_provider() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{\"passed\":true}")).await;
    let gateway = gateway(settings(&upstream)).await;
    let token = format!("x-backstop-token: {TOKEN}\r\n");
    let fronts = ["".to_owned(), format!("/t/{TOKEN}"), "/a/me".to_owned(), "/p/openai".to_owned()];
    for front in &fronts {
        for path in
            ["/-/x", "/-/health", "/-", "/-/", "//-/health", "/%2d/health", "/./-/health", "/-%2fhealth"]
        {
            for method in ["GET", "POST", "TRACE", "OPTIONS"] {
                let request = get(&format!("{front}{path}"), &token).replacen("GET", method, 1);
                let answer = talk(&gateway, request).await;
                let is_plain = front.is_empty() && path == "/-/health" && method == "GET";
                assert_eq!(answer.status() == 200, is_plain, "{method} {front}{path}: {}", answer.text());
            }
        }
    }
    // Not by a WebSocket either, and not where the address names a host itself.
    let socket =
        "upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
    let upgrade =
        get("/-/x", &format!("{token}{socket}")).replace("connection: close", "connection: upgrade");
    assert_eq!(
        talk(&gateway, upgrade.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n")).await.status(),
        404
    );
    assert_eq!(talk(&gateway, get("http://localhost/-/x", &token)).await.status(), 404);
    assert_eq!(talk(&gateway, get("http://evil.example/-/health", &token)).await.status(), 403);
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn whoever_can_connect_learns_that_it_runs_and_nothing_else() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    for token in [None, Some(secret(&watch_token()))] {
        let gateway = gateway(Settings { operator_token: token, ..settings(&upstream) }).await;
        let health = talk(&gateway, get("/-/health", "")).await;
        assert_eq!((health.status(), health.json()), (200, serde_json::json!({"status": "ok"})));
        assert!(health.head().contains("cache-control: no-store"), "{}", health.head());
        let ready = talk(&gateway, get("/-/ready", "")).await;
        assert_eq!((ready.status(), ready.json()), (200, serde_json::json!({"status": "ready"})));
        let head = talk(&gateway, get("/-/health", "").replacen("GET", "HEAD", 1)).await;
        assert_eq!((head.status(), head.raw_body().len()), (200, 0));
        let unknown = talk(&gateway, get("/-/nothing", "")).await;
        assert_eq!(unknown.status(), 404);
        assert!(unknown.head().contains("content-type: application/problem+json"), "{}", unknown.head());
        assert_eq!((&unknown.json()["status"], &unknown.json()["title"]), (&404.into(), &"Not Found".into()));
        let posted = talk(&gateway, get("/-/health", "").replacen("GET", "POST", 1)).await;
        assert!(posted.status() == 405 && posted.head().contains("allow: GET, HEAD"), "{}", posted.text());
        for host in ["evil.example", "127.0.0.1.evil.example"] {
            let refused = talk(&gateway, get("/-/health", "").replace("localhost", host)).await;
            assert_eq!(refused.status(), 403, "{host}");
        }
    }
}

#[tokio::test]
async fn only_operators_are_told_what_is_not_ready() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let mut settings = settings(&upstream);
    settings.operator_token = Some(secret(&watch_token()));
    let agent_token = ["agent", "0123456789abcdef"].join("-");
    settings.agents.insert(AgentId::new("coder"), secret(&agent_token));
    let gateway = start(settings, Told(Some(NotReady::Store))).await.unwrap();
    for (headers, missing) in [
        (String::new(), None),
        (bearer(TOKEN), None),
        (bearer(&agent_token), None),
        (format!("x-backstop-token: {}\r\n", watch_token()), None),
        (bearer(&watch_token()), Some("store")),
    ] {
        let answer = talk(&gateway, get("/-/ready", &headers)).await;
        assert_eq!(answer.status(), 503);
        assert_eq!(answer.json().get("missing").and_then(|missing| missing.as_str()), missing, "{headers}");
    }
    // It can be asked all the same.
    assert_eq!(talk(&gateway, get("/-/health", "")).await.status(), 200);
    // The token of operators is no agent's.
    let asked = get("/v1/models", &bearer(&watch_token()));
    assert_eq!((talk(&gateway, asked).await.status(), upstream.count()), (401, 0));
}

#[tokio::test]
async fn a_store_that_can_not_be_written_is_not_ready() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    let patience = std::time::Duration::from_millis(50);
    let house = House::over(Arc::new(SqliteStore::with_busy_timeout(&path, patience)));
    house.store.check_writable().await.unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let hooks = || Hooks::new(house.engine.clone(), HookSettings::default()).unwrap();
    let gateway = start(settings(&upstream), hooks()).await.unwrap();
    assert_eq!(talk(&gateway, get("/-/ready", "")).await.status(), 503);
    other.execute_batch("ROLLBACK").unwrap();
    drop(gateway);
    let gateway = start(settings(&upstream), hooks()).await.unwrap();
    assert_eq!(talk(&gateway, get("/-/ready", "")).await.status(), 200);
}

#[tokio::test]
async fn tokens_of_operators_are_long_and_nobody_elses() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let agents = |token: &str| [(AgentId::new("a"), secret(token))].into();
    for (operators, agent) in [("short", watch_token()), (TOKEN, watch_token())] {
        let settings = Settings {
            operator_token: Some(secret(operators)),
            agents: agents(&agent),
            ..settings(&upstream)
        };
        let error = start(settings, Told(None)).await.unwrap_err();
        assert!(matches!(error, StartError::OperatorToken { .. }), "{error}");
        assert!(!error.to_string().contains(TOKEN), "{error}");
    }
    let shared = watch_token();
    let settings =
        Settings { operator_token: Some(secret(&shared)), agents: agents(&shared), ..settings(&upstream) };
    assert!(matches!(start(settings, Told(None)).await.unwrap_err(), StartError::Token { .. }));
}

#[tokio::test]
async fn a_full_gateway_can_be_looked_at() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let mut settings = settings(&upstream);
    settings.limits = Limits { connections: 2, requests: 1, ..Limits::default() };
    let gateway = gateway(settings).await;
    // Two connections that say nothing take all places.
    let (mut one, two) = (connect(&gateway).await, connect(&gateway).await);
    one.write_all(b"G").await.unwrap();
    // Nobody can say when they were accepted, but places are given in the order of the queue.
    for _ in 0..3 {
        let refused = talk(&gateway, post("/v1/messages", MODEL)).await;
        assert_eq!(refused.status(), 503, "{}", refused.text());
        assert!(refused.head().contains("retry-after: 1"), "{}", refused.head());
        assert_eq!(talk(&gateway, get("/-/health", "")).await.status(), 200);
    }
    assert_eq!(upstream.count(), 0);
    // A late connection takes the place of one that has gone, as soon as it is seen to have gone.
    drop(two);
    let again = get("/-/health", "").replace("connection: close\r\n", "");
    let mut status = 503;
    while status == 503 {
        let mut late = connect(&gateway).await;
        late.write_all(again.as_bytes()).await.unwrap();
        until(&mut late, "\"ok\"").await;
        late.write_all(post("/v1/messages", MODEL).as_bytes()).await.unwrap();
        status = within(rest(&mut late)).await.status();
    }
    assert_eq!((status, upstream.count()), (200, 1));
}

#[tokio::test]
async fn a_late_connection_of_http_2_makes_room_once_it_was_refused() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let mut settings = settings(&upstream);
    settings.limits.connections = 1;
    let gateway = gateway(settings).await;
    let _first = connect(&gateway).await;
    let socket = TokioIo::new(connect(&gateway).await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake::<_, _, Full<Bytes>>(TokioExecutor::new(), socket)
            .await
            .unwrap();
    let connection = tokio::spawn(connection);
    let ask = |path: &str| {
        let request = http::Request::get(format!("http://{}{path}", gateway.address()));
        request.header("x-api-key", TOKEN).body(Full::default()).unwrap()
    };
    let health = sender.send_request(ask("/-/health")).await.unwrap();
    assert_eq!(health.status(), 200);
    assert_eq!(health.into_body().collect().await.unwrap().to_bytes(), r#"{"status":"ok"}"#);
    assert_eq!(sender.send_request(ask("/v1/models")).await.unwrap().status(), 503);
    // The gateway says that it should go.
    let _ = within(connection).await;
}

#[tokio::test]
async fn requests_at_once_do_not_count_for_operators() {
    let upstream = Upstream::start(|_| Script::whole("").ending(End::Hang)).await;
    let mut settings = settings(&upstream);
    settings.limits.requests = 1;
    let gateway = gateway(settings).await;
    let mut waiting = connect(&gateway).await;
    waiting.write_all(post("/v1/messages", MODEL).as_bytes()).await.unwrap();
    eventually("it is asked", || upstream.count() == 1).await;
    assert_eq!(talk(&gateway, post("/v1/messages", MODEL)).await.status(), 503);
    assert_eq!(talk(&gateway, get("/-/ready", "")).await.status(), 200);
}

#[tokio::test]
async fn a_gateway_that_stops_is_not_ready() {
    let upstream = Upstream::start(|_| Script::whole("").ending(End::Hang)).await;
    let gateway = start(settings(&upstream), Told(None)).await.unwrap();
    let socket = TokioIo::new(connect(&gateway).await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake::<_, _, Full<Bytes>>(TokioExecutor::new(), socket)
            .await
            .unwrap();
    let connection = tokio::spawn(connection);
    let address = gateway.address();
    let ask = move |path: &str| {
        let request = http::Request::get(format!("http://{address}{path}")).header("x-api-key", TOKEN);
        request.body(Full::<Bytes>::default()).unwrap()
    };
    assert_eq!(sender.send_request(ask("/-/ready")).await.unwrap().status(), 200);
    let mut other = sender.clone();
    let held = tokio::spawn(async move { other.send_request(ask("/v1/models")).await.map(drop) });
    eventually("it is asked", || upstream.count() == 1).await;
    let stopping = tokio::spawn(gateway.shut_down());
    // Either the connection takes no more requests by now, or it is told.
    while let Ok(answer) = sender.send_request(ask("/-/ready")).await {
        if answer.status() == 503 {
            break;
        }
        assert_eq!(answer.status(), 200);
    }
    held.abort();
    drop(sender);
    connection.abort();
    within(stopping).await.unwrap();
}

#[tokio::test]
async fn operators_may_have_an_address_of_their_own() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let mut settings = settings(&upstream);
    settings.operators_listen = Some("127.0.0.1:0".parse().unwrap());
    settings.limits.connections = 1;
    let gateway = gateway(settings.clone()).await;
    let theirs = gateway.operators_address().unwrap();
    let ask = async |address: std::net::SocketAddr, request: String| {
        let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        within(rest(&mut socket)).await
    };
    let get =
        |path: &str, host: &str| format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    for path in ["/-/health", "/-/ready"] {
        assert_eq!(ask(theirs, get(path, "localhost")).await.status(), 200, "{path}");
        assert_eq!(ask(theirs, get(path, "evil.example")).await.status(), 403, "{path}");
        assert_eq!(ask(gateway.address(), get(path, "localhost")).await.status(), 404, "{path}");
        assert_ne!(
            ask(gateway.address(), get(&format!("/t/{TOKEN}{path}"), "localhost")).await.status(),
            200
        );
    }
    // Nothing else passes there, whatever token it brings.
    let request = post("/v1/messages", "{}");
    assert_eq!(ask(theirs, request.clone()).await.status(), 404);
    assert_eq!(ask(theirs, get(&format!("/t/{TOKEN}/-/health"), "localhost")).await.status(), 404);
    assert_eq!(upstream.count(), 0);
    // Its connections are not those of the proxy.
    let _busy = connect(&gateway).await;
    let mut idle = Vec::new();
    for _ in 0..30 {
        idle.push(connect(&gateway).await);
    }
    assert_eq!(ask(theirs, get("/-/health", "localhost")).await.status(), 200);
    drop((_busy, idle));
    within(async { while ask(gateway.address(), request.clone()).await.status() != 200 {} }).await;
    settings.operators_listen = None;
    assert!(gateway.reload(&settings, Arc::new(backstop_gateway::Transparent)).is_err());
    gateway.shut_down().await;
    assert!(tokio::net::TcpStream::connect(theirs).await.is_err(), "it ends with the gateway");
}
