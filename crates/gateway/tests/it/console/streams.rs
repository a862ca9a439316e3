//! Streams of events, and how they end.

use backstop_store::{AuditBody, Durability, NewAuditEntry};
use tokio::io::AsyncWriteExt as _;

use super::*;

#[tokio::test]
async fn one_session_does_not_take_all_streams() {
    let server = Server::start().await;
    let (greedy, other) = (server.person(&[Scope::Read]).await, server.person(&[Scope::Read]).await);
    let open = async |person: &Person| {
        let mut socket = connect(&server.gateway).await;
        let asked =
            format!("GET /-/console/events HTTP/1.1\r\nhost: {OWN}\r\ncookie: {}\r\n\r\n", person.cookie);
        socket.write_all(asked.as_bytes()).await.unwrap();
        until(&mut socket, "event: approvals").await;
        socket
    };
    let mut streams = Vec::new();
    for _ in 0..8 {
        streams.push(open(&greedy).await);
    }
    let cookie = format!("cookie: {}\r\n", greedy.cookie);
    assert_eq!(server.get("/events", &cookie).await.status(), 503);
    open(&other).await;
    drop(streams);
    within(async {
        while server.get("/audit.jsonl", &cookie).await.status() != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_session_and_its_stream_end_with_the_token() {
    let server = Server::start().await;
    let (token, made) = server.token(&[Scope::Read, Scope::Approve]).await;
    let cookie = format!("cookie: {}\r\n", cookie_of(&server.sign_in(&token).await));
    let mut socket = connect(&server.gateway).await;
    let asked =
        format!("GET /-/console/events?live=1 HTTP/1.1\r\nhost: {OWN}\r\nconnection: close\r\n{cookie}\r\n");
    socket.write_all(asked.as_bytes()).await.unwrap();
    let begun = until(&mut socket, "event: approvals").await;
    assert!(begun.to_ascii_lowercase().contains("content-type: text/event-stream"), "{begun}");
    let record = server.question().await;
    assert!(until(&mut socket, "\"waiting\":1").await.contains("approvals"));
    server.house.store.revoke_access_token(&made.id, "a test", Timestamp::now()).await.unwrap();
    let rest = within(rest(&mut socket)).await;
    assert!(rest.text().contains("event: over"), "{}", rest.text());
    let page = server.get(&format!("/approvals/{}", record.id), &cookie).await;
    assert!(page.status() == 401 && page.text().contains("signed out"), "{}", page.text());
}

#[tokio::test]
async fn streams_end_when_the_gateway_stops_and_whoever_signs_out_is_out() {
    let server = Server::start().await;
    let person = server.person(&[Scope::Read]).await;
    let cookie = format!("cookie: {}\r\n", person.cookie);
    let foreign = server.post("/sign-out", &format!("{SAME}{cookie}"), &[("form", "x")]).await;
    assert_eq!(foreign.status(), 403);
    assert_eq!(server.get("/session", &cookie).await.status(), 204);
    let mut streams = Vec::new();
    for _ in 0..2 {
        let mut socket = connect(&server.gateway).await;
        let asked =
            format!("GET /-/console/events HTTP/1.1\r\nhost: {OWN}\r\nconnection: close\r\n{cookie}\r\n");
        socket.write_all(asked.as_bytes()).await.unwrap();
        until(&mut socket, "event: approvals").await;
        streams.push(socket);
    }
    let out = server.post("/sign-out", &format!("{SAME}{cookie}"), &[("form", &person.form)]).await;
    assert!(out.status() == 303 && out.head().contains("Max-Age=0"), "{}", out.head());
    assert_eq!(server.get("/session", &cookie).await.status(), 401);
    assert!(within(rest(&mut streams.remove(0))).await.text().contains("event: over"));
    let person = server.person(&[Scope::Read]).await;
    let mut socket = connect(&server.gateway).await;
    let asked = format!(
        "GET /-/console/events HTTP/1.1\r\nhost: {OWN}\r\nconnection: close\r\ncookie: {}\r\n\r\n",
        person.cookie
    );
    socket.write_all(asked.as_bytes()).await.unwrap();
    until(&mut socket, "event: approvals").await;
    // The drain time is ten seconds, and so is the patience of this test: nothing of it is used up.
    let stopping = tokio::time::timeout(Duration::from_secs(5), server.gateway.shut_down());
    let (stopped, _) = tokio::join!(stopping, within(rest(&mut socket)));
    assert!(stopped.is_ok());
}

#[tokio::test]
async fn a_page_that_comes_back_is_told_what_passed_since() {
    let server = Server::start().await;
    let (person, approver) = (server.person(&[Scope::Read]).await, server.person(&[Scope::Approve]).await);
    let passed = async |tool: &str| {
        let body = json!({"point": "before_tool_call", "verdict": "pass", "tool": tool});
        let (at, kind, body) = (Timestamp::now(), "receipt".to_owned(), AuditBody::from(body));
        let entry = NewAuditEntry { at, kind, session: None, run: None, body };
        server.house.store.append_audit_all(vec![entry], Durability::Soon).await.unwrap().seq
    };
    let listen = async |person: &Person, headers: &str| {
        let mut socket = connect(&server.gateway).await;
        let asked = format!(
            "GET /-/console/events?live=1 HTTP/1.1\r\nhost: {OWN}\r\ncookie: {}\r\n{headers}\r\n",
            person.cookie
        );
        socket.write_all(asked.as_bytes()).await.unwrap();
        socket
    };
    let first = passed("one").await;
    let mut socket = listen(&person, "").await;
    assert!(until(&mut socket, "\"one\"").await.contains(&format!("id: {first}\n")));
    let second = passed("two").await;
    let told = until(&mut socket, "\"two\"").await;
    assert!(told.contains(&format!("id: {second}\n")) && !told.contains("\"one\""), "{told}");
    drop(socket);
    passed("three").await;
    let mut socket = listen(&person, &format!("last-event-id: {second}\r\n")).await;
    let told = until(&mut socket, "\"three\"").await;
    assert!(!told.contains("\"one\"") && !told.contains("\"two\""), "{told}");
    // Whoever may not read is told of questions alone.
    let mut other = listen(&approver, "").await;
    until(&mut other, "event: approvals").await;
    passed("four").await;
    until(&mut socket, "\"four\"").await;
    server.question().await;
    assert!(!until(&mut other, "\"waiting\":1").await.contains("four"));
}
