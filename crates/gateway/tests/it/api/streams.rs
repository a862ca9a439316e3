//! Streams of events.

use backstop_store::{AuditBody, NewAuditEntry};
use tokio::net::TcpStream;

use super::*;

/// A reader of a stream.
async fn follow(server: &Server, path: &str, token: &str, headers: &str) -> TcpStream {
    let mut socket = connect(&server.gateway).await;
    let asked = request("GET", path, token, headers, None);
    socket.write_all(asked.as_bytes()).await.unwrap();
    socket
}

/// The fields of the events of a stream: its id, its kind and its data.
fn events(text: &str) -> Vec<(String, String, Value)> {
    let field = |event: &str, name: &str| {
        let line = event.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.unwrap_or_default().to_owned()
    };
    let all = text.split("\n\n").filter(|event| event.contains("event: "));
    all.map(|event| {
        let data = serde_json::from_str(&field(event, "data")).unwrap_or_default();
        (field(event, "id"), field(event, "event"), data)
    })
    .collect()
}

/// Reads until so many events are there as a whole, in however many pieces they come.
async fn until_events(stream: &mut TcpStream, count: usize) -> String {
    let mut text = String::new();
    while text.matches("event: ").count() < count || !is_whole(&text) {
        text += &until(stream, "\n\n").await;
    }
    text
}

/// Whether the last event has its end.
fn is_whole(text: &str) -> bool {
    text.rsplit_once("event: ").is_some_and(|(_, last)| last.contains("\n\n"))
}

fn kinds(text: &str) -> Vec<String> {
    events(text).into_iter().map(|(_, kind, _)| kind).collect()
}

async fn deny(server: &Server, person: &str, id: &Value, digest: &Value) {
    let path = format!("approvals/{}/answer", id.as_str().unwrap());
    let body = json!({"decision": "deny", "digest": digest});
    assert_eq!(server.ask("POST", &path, person, Some(&body)).await.status(), 200);
}

#[tokio::test]
async fn questions_are_told_as_they_come_and_end_and_from_where_somebody_was() {
    let server = Server::start(house()).await;
    let (token, person) = (server.judge("bot").await, server.person(&[Scope::Approve, Scope::Read]).await);
    let before = server.call(&token, "", "exec").await.json()["question"]["approval"].clone();
    let mut stream = follow(&server, "approvals/events", &person, "").await;
    let begun = until(&mut stream, "event: current\ndata: {\"waiting\":1}\n\n").await;
    assert!(begun.to_ascii_lowercase().contains("content-type: text/event-stream"), "{begun}");
    assert!(begun.contains("retry: "), "{begun}");
    let told = events(&begun);
    assert_eq!(kinds(&begun), ["opened", "current"]);
    assert_eq!((&told[0].2["id"], &told[0].2["status"]), (&before, &json!("pending")));
    assert!(told[0].0.is_empty() && !told[1].0.is_empty(), "{begun}");
    // What it is, and its code is not in it.
    let record = server.only_question().await;
    assert!(!begun.contains(record.code.as_str()), "{begun}");

    deny(&server, &person, &before, &told[0].2["digest"]).await;
    let ended = until_events(&mut stream, 1).await;
    assert_eq!(kinds(&ended), ["resolved"]);
    assert_eq!(events(&ended)[0].2["status"], "denied");
    drop(stream);

    // Whoever goes on is told what came meanwhile, and nothing twice.
    let after = server.call(&token, "", "exec").await.json()["question"]["approval"].clone();
    let last = format!("last-event-id: {}\r\n", told[1].0);
    let mut stream = follow(&server, "approvals/events", &person, &last).await;
    let rest = until_events(&mut stream, 2).await;
    assert_eq!(kinds(&rest), ["resolved", "opened"], "{rest}");
    assert_eq!(events(&rest)[1].2["id"], after);
    // Whoever names what nobody told begins anew.
    for last in ["1", "x", "ffffffffffffffffffffffffffffffff-1"] {
        let last = format!("last-event-id: {last}\r\n");
        let mut stream = follow(&server, "approvals/events", &person, &last).await;
        let begun = until(&mut stream, "event: current\ndata: {\"waiting\":1}\n\n").await;
        assert_eq!(kinds(&begun), ["opened", "current"]);
    }
}

#[tokio::test]
async fn what_was_wiped_since_is_not_told_again() {
    let server = Server::start(house()).await;
    let (token, person) = (server.judge("bot").await, server.person(&[Scope::Approve, Scope::Read]).await);
    let mut stream = follow(&server, "approvals/events", &person, "").await;
    let begun = until(&mut stream, "event: current\ndata: {\"waiting\":0}\n\n").await;
    server.call(&token, "", "exec").await;
    let opened = events(&until_events(&mut stream, 1).await).remove(0).2;
    assert_eq!(opened["arguments"]["command"], "marker");
    deny(&server, &person, &opened["id"], &opened["digest"]).await;
    until_events(&mut stream, 1).await;
    server.house.engine.answer_store().expire_approvals(Timestamp::now()).await.unwrap();
    assert!(server.only_question().await.request.preview.is_null());

    let last = format!("last-event-id: {}\r\n", events(&begun)[0].0);
    let mut again = follow(&server, "approvals/events", &person, &last).await;
    let told = until_events(&mut again, 2).await;
    assert_eq!(kinds(&told), ["opened", "resolved"], "{told}");
    assert!(events(&told).iter().all(|event| event.2["id"] == opened["id"]), "{told}");
    assert!(!told.contains("marker\"}"), "{told}");
}

#[tokio::test]
async fn what_is_asked_after_a_reload_is_told() {
    let server = Server::start(house()).await;
    let (token, person) = (server.judge("bot").await, server.person(&[Scope::Read]).await);
    let mut before = follow(&server, "approvals/events", &person, "").await;
    until(&mut before, "event: current").await;
    let mut settings = settings_of("http://127.0.0.1:9");
    settings.store = Some(Arc::clone(&server.house.store));
    settings.operator_token = Some(secret(&operator()));
    let hooks = Hooks::new(house().engine, HookSettings::default()).unwrap();
    server.gateway.reload(&settings, Arc::new(hooks)).unwrap();

    let asked = server.call(&token, "", "exec").await.json()["question"]["approval"].clone();
    until(&mut before, asked.as_str().unwrap()).await;
}

#[tokio::test]
async fn who_may_answer_what_waits_is_told_anew_after_a_reload() {
    let server = Server::start(over(House::asking(
        Arc::new(SqliteStore::in_memory()),
        two_must(&["ann", "bob", "carl"]),
    )))
    .await;
    let (token, person) = (server.judge("bot").await, server.person(&[Scope::Read]).await);
    server.call(&token, "", "exec").await;
    let awaited = |text: &str| {
        let opened = events(text).into_iter().find(|(_, kind, _)| kind == "opened").unwrap();
        opened.2["votes"]["awaited"].clone()
    };
    // It stays open, so that the look goes on and nothing new is asked.
    let mut before = follow(&server, "approvals/events", &person, "").await;
    let told = until(&mut before, "event: current\ndata: {\"waiting\":1}\n\n").await;
    assert_eq!(awaited(&told), json!(["ann", "bob", "carl"]));

    let mut settings = settings_of("http://127.0.0.1:9");
    settings.store = Some(Arc::clone(&server.house.store));
    settings.operator_token = Some(secret(&operator()));
    let less = over(House::asking(Arc::clone(&server.house.store), two_must(&["ann", "bob"])));
    let hooks = Hooks::new(less.engine, HookSettings::default()).unwrap();
    server.gateway.reload(&settings, Arc::new(hooks)).unwrap();
    let mut after = follow(&server, "approvals/events", &person, "").await;
    let told = until(&mut after, "event: current\ndata: {\"waiting\":1}\n\n").await;
    assert_eq!(awaited(&told), json!(["ann", "bob"]));
}

#[tokio::test]
async fn the_trail_is_told_as_it_grows_and_from_where_somebody_was() {
    let server = Server::start(house()).await;
    let person = server.person(&[Scope::Read]).await;
    let store = &server.house.store;
    let note = async |kind: &'static str| {
        let (at, kind, body) = (Timestamp::now(), kind.to_owned(), AuditBody::from(json!({"of": kind})));
        let entry = NewAuditEntry { at, kind, session: None, run: None, body };
        store.append_audit(entry).await.unwrap().seq
    };
    let first = note("one").await;
    let mut stream = follow(&server, "audit/events", &person, "").await;
    until(&mut stream, "retry: ").await;
    let (second, third) = (note("two").await, note("three").await);
    let text = until(&mut stream, "\"three\"}").await;
    assert!(!text.contains("\"one\""), "{text}");
    assert!(text.contains(&format!("id: {second}\n")) && text.contains(&format!("id: {third}\n")), "{text}");

    let last = format!("last-event-id: {first}\r\n");
    let mut stream = follow(&server, "audit/events?kind=three", &person, &last).await;
    let text = until(&mut stream, "\"three\"}").await;
    assert!(!text.contains("\"two\""), "{text}");
    let mut stream = follow(&server, "audit/events?after=0", &person, "").await;
    until(&mut stream, "\"one\"}").await;
    let last = "last-event-id: x\r\n";
    assert_eq!(server.with("GET", "audit/events", &person, last, None).await.status(), 400);
    assert_eq!(server.ask("GET", "audit/events?x=1", &person, None).await.status(), 400);
}

#[tokio::test]
async fn whoever_is_judged_follows_the_decision_to_its_end() {
    let server = Server::start(house()).await;
    let (token, person) = (server.judge("bot").await, server.person(&[Scope::Approve, Scope::Read]).await);
    let asked = server.call(&token, "", "exec").await.json();
    let decision = format!("decisions/{}", asked["id"].as_str().unwrap());
    let path = format!("{decision}/events");
    let mut stream = follow(&server, &path, &token, "").await;
    let begun = until_events(&mut stream, 1).await;
    assert!(begun.to_ascii_lowercase().contains("content-type: text/event-stream"), "{begun}");
    assert_eq!(kinds(&begun), ["pending"]);
    let told = &events(&begun)[0].2;
    assert_eq!((&told["status"], &told["id"]), (&json!("pending"), &asked["id"]));
    assert_eq!(told["question"]["approval"], asked["question"]["approval"]);
    // It is nobody else's.
    assert_eq!(server.ask("GET", &path, &server.judge("other").await, None).await.status(), 404);
    assert_eq!(server.ask("GET", &path, &person, None).await.status(), 403);

    let record = server.only_question().await;
    let given = json!({"decision": "allow-once", "digest": record.request.digest});
    let answer = format!("approvals/{}/answer", record.id);
    assert_eq!(server.ask("POST", &answer, &person, Some(&given)).await.status(), 200);
    let ended = until_events(&mut stream, 1).await;
    assert_eq!(kinds(&ended), ["decided"]);
    let told = &events(&ended)[0].2;
    assert_eq!((&told["verdict"], &told["params"]["command"]), (&json!("allow"), &json!("marker")));
    within(rest(&mut stream)).await;
    // That it may run is told once, by whatever way.
    assert_eq!(server.ask("GET", &decision, &token, None).await.status(), 409);
    let again = server.ask("GET", &path, &token, None).await.text();
    assert_eq!((kinds(&again), &events(&again)[0].2["status"]), (vec!["problem".to_owned()], &json!(409)));
}

#[tokio::test]
async fn a_decision_that_is_given_up_ends_its_stream() {
    let server = Server::start(house()).await;
    let token = server.judge("bot").await;
    let asked = server.call(&token, "", "exec").await.json();
    let decision = format!("decisions/{}", asked["id"].as_str().unwrap());
    let mut stream = follow(&server, &format!("{decision}/events"), &token, "").await;
    until_events(&mut stream, 1).await;
    assert_eq!(server.ask("DELETE", &decision, &token, None).await.status(), 204);
    let ended = within(rest(&mut stream)).await;
    assert!(!ended.text().contains("event: "), "{}", ended.text());
    assert_eq!(server.ask("GET", &format!("{decision}/events"), &token, None).await.status(), 404);
}

#[tokio::test]
async fn streams_end_with_their_token_and_are_counted() {
    let server = Server::start(house()).await;
    let person = server.person(&[Scope::Read]).await;
    for path in ["approvals/events", "audit/events"] {
        let mut all = Vec::new();
        for _ in 0..4 {
            let mut stream = follow(&server, path, &person, "").await;
            until(&mut stream, "retry: ").await;
            all.push(stream);
        }
        let many = server.ask("GET", path, &person, None).await;
        assert_eq!(
            (many.status(), many.json()["type"].clone()),
            (429, "urn:backstop:problem:streams".into())
        );
        // Another token has places of its own.
        let other = server.person(&[Scope::Read]).await;
        let mut stream = follow(&server, path, &other, "").await;
        until(&mut stream, "retry: ").await;
        // A place is free once its reader is gone.
        drop(all);
        within(async {
            loop {
                let mut stream = follow(&server, path, &person, "").await;
                if until(&mut stream, "\r\n\r\n").await.starts_with("HTTP/1.1 200") {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
    }
    let judge = server.judge("bot").await;
    assert_eq!(server.ask("GET", "approvals/events", &judge, None).await.status(), 403);
    // Nobody tells the token of operators that it is another one.
    assert_eq!(server.ask("GET", "audit/events", &operator(), None).await.status(), 403);

    let mut stream = follow(&server, "audit/events", &person, "").await;
    until(&mut stream, "retry: ").await;
    let all = server.house.store.access_tokens(9).await.unwrap();
    let id = person.split('_').nth(1).unwrap();
    let known = all.tokens.iter().find(|known| known.made.id.as_str() == id).unwrap();
    server.house.store.revoke_access_token(&known.made.id, "a test", Timestamp::now()).await.unwrap();
    within(rest(&mut stream)).await;
}

#[tokio::test]
async fn a_gateway_that_stops_does_not_wait_for_streams() {
    let server = Server::start(house()).await;
    let person = server.person(&[Scope::Read]).await;
    let mut stream = follow(&server, "approvals/events", &person, "").await;
    until(&mut stream, "event: current").await;
    // The drain time is ten seconds, and so is the patience of this test: nothing of it is used up.
    let stopping = tokio::time::timeout(Duration::from_secs(5), server.gateway.shut_down());
    let (stopped, _) = tokio::join!(stopping, within(rest(&mut stream)));
    assert!(stopped.is_ok());
}
