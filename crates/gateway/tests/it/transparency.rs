//! Where nobody looks, bytes pass.

use std::time::Duration;

use crate::support::*;
use backstop_gateway::{Credential, Family};

const CHAT: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"unknown":{"b":1,"a":[ ]}}"#;

#[tokio::test]
async fn requests_arrive_as_they_were_sent() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let gateway = gateway(settings(&upstream)).await;
    let size = CHAT.len();
    let request = format!(
        "POST /t/{TOKEN}/v1/chat/completions?x=%20y&z HTTP/1.1\r\nuser-agent: test/1 (x)\r\nHost: localhost:1\r\n\
         X-Stainless-Lang: rust\r\nauthorization: Bearer sk-client\r\naccept: */*\r\naccept-encoding: gzip, br\r\n\
         x-twice: a\r\nx-twice: b\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {size}\r\n\r\n{CHAT}"
    );
    assert_eq!(talk(&gateway, request).await.status(), 200);
    let expected = format!(
        "POST /v1/chat/completions?x=%20y&z HTTP/1.1\r\nuser-agent: test/1 (x)\r\nhost: {}\r\n\
         x-stainless-lang: rust\r\nauthorization: Bearer sk-client\r\naccept: */*\r\naccept-encoding: gzip, br\r\n\
         x-twice: a\r\nx-twice: b\r\ncontent-type: application/json\r\ncontent-length: {size}\r\n\r\n{CHAT}",
        upstream.address
    );
    assert_eq!(upstream.request(0), expected);
}

#[tokio::test]
async fn answers_arrive_as_they_were_given() {
    let body = "{ \"id\": 1,\n\t\"caf\u{e9}\": null }";
    let head = format!(
        "content-type: application/json; charset=utf-8\r\nrequest-id: req_1\r\nset-cookie: a=b\r\nset-cookie: c=d\r\n\
         x-ratelimit-remaining: 7\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\ncontent-length: {}\r\n",
        body.len()
    );
    let answer = format!("HTTP/1.1 200 OK\r\n{head}\r\n{body}");
    let upstream = Upstream::start(move |_| Script::whole(answer.clone())).await;
    let gateway = gateway(settings(&upstream)).await;
    let answer = talk(&gateway, post("/v1/messages", CHAT)).await;
    assert_eq!(answer.text(), format!("HTTP/1.1 200 OK\r\n{head}connection: close\r\n\r\n{body}"));
}

/// What arrives together may leave as one chunk, but none is cut.
#[tokio::test]
async fn chunks_and_comments_of_a_stream_keep_their_shape() {
    let events =
        [": hello\n\n", "event: ping\ndata: {}\n\n", "data: {\"a\":", "1}\r\n\r\n", "id: 1\nretry: 5\n\n"];
    for paced in [false, true] {
        let gap = if paced { Duration::from_millis(5) } else { Duration::ZERO };
        let upstream = Upstream::start(move |_| Script::events(&events).paced(gap)).await;
        let gateway = gateway(settings(&upstream)).await;
        let answer = talk(&gateway, post("/v1/messages", CHAT)).await;
        assert_eq!(answer.body(), (events.concat(), true));
        let raw = answer.raw_body();
        let mut rest = raw.as_slice();
        let mut left = events.as_slice();
        while !left.is_empty() {
            let together =
                (1..=left.len()).find(|count| rest.starts_with(&chunk(left[..*count].concat().as_bytes())));
            let together =
                together.unwrap_or_else(|| panic!("cut elsewhere: {:?}", String::from_utf8_lossy(rest)));
            rest = &rest[chunk(left[..together].concat().as_bytes()).len()..];
            left = &left[together..];
        }
        assert_eq!(rest, b"0\r\n\r\n");
        assert!(answer.head().contains("content-type: text/event-stream"), "{}", answer.head());
    }
}

#[tokio::test]
async fn a_stream_cut_at_every_byte_is_the_same_stream() {
    let whole =
        [EVENTS_HEAD.as_bytes(), &chunk(b"data: {\"x\":1}\n\n"), &chunk(b"data: [DONE]\n\n"), b"0\r\n\r\n"]
            .concat();
    let length = whole.len();
    let upstream = Upstream::start(move |number| {
        let (first, second) = whole.split_at(number + 1);
        let pieces = vec![first.to_vec(), second.to_vec()];
        Script { pieces, gap: Duration::from_millis(1), end: End::KeepOpen }
    })
    .await;
    let gateway = gateway(settings(&upstream)).await;
    for _ in 1..length {
        let answer = talk(&gateway, post("/v1/chat/completions", CHAT)).await;
        assert_eq!(answer.body(), ("data: {\"x\":1}\n\ndata: [DONE]\n\n".to_owned(), true));
    }
}

#[tokio::test]
async fn compressed_bytes_pass_untouched() {
    let upstream = Upstream::start(|_| {
        Script::whole(
            &b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\n\x1f\x8b\x00\xff"[..],
        )
    })
    .await;
    let gateway = gateway(settings(&upstream)).await;
    let mut request = post("/v1/chat/completions", "12345").into_bytes();
    let at = find(&request, b"content-type").unwrap();
    request.splice(at..at, b"content-encoding: br\r\n".iter().copied());
    let answer = talk(&gateway, request).await;
    assert_eq!(answer.raw_body(), b"\x1f\x8b\x00\xff");
    assert!(answer.head().contains("content-encoding: gzip"));
    assert!(upstream.request(0).contains("content-encoding: br\r\n"));
}

#[tokio::test]
async fn errors_and_html_of_the_provider_pass() {
    for (status, kind, body) in [
        ("400 Bad Request", "application/json", r#"{"type":"error"}"#),
        ("503 Service Unavailable", "text/html", "<html>down</html>"),
        ("302 Found", "text/plain", "elsewhere"),
    ] {
        let size = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nlocation: http://elsewhere\r\ncontent-length: {size}\r\n\r\n{body}"
        );
        let upstream = Upstream::start(move |_| Script::whole(answer.clone())).await;
        let gateway = gateway(settings(&upstream)).await;
        let answer = talk(&gateway, post("/v1/messages", CHAT)).await;
        assert!(status.starts_with(&answer.status().to_string()));
        assert_eq!(answer.body().0, body);
        assert_eq!(upstream.count(), 1);
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_pass() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let gateway = gateway(settings(&upstream)).await;
    for line in ["GET /v1/models/x", "DELETE /v1/responses/r", "PATCH /v9/new?a", "GET /v1beta/files/x"] {
        let (method, path) = line.split_once(' ').unwrap();
        let request =
            format!("{method} /t/{TOKEN}{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        assert_eq!(talk(&gateway, request).await.status(), 200, "{line}");
        let seen = upstream.request(upstream.count() - 1);
        assert!(seen.starts_with(&format!("{line} HTTP/1.1\r\n")), "{seen}");
    }
    // An upload of unknown length streams.
    let upload = format!(
        "POST /t/{TOKEN}/v1/files HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    );
    assert_eq!(talk(&gateway, upload).await.status(), 200);
    let seen = upstream.request(upstream.count() - 1);
    assert!(seen.ends_with("3\r\nabc\r\n0\r\n\r\n") && seen.contains("transfer-encoding: chunked"), "{seen}");
}

#[tokio::test]
async fn connections_are_used_again() {
    let upstream = Upstream::start(|number| match number % 3 {
        0 => Script::json("200 OK", "{}"),
        1 => Script::events(&["data: x\n\n"]),
        // The next request finds this connection closed, and takes another.
        _ => Script::json("200 OK", "{}").ending(End::Close),
    })
    .await;
    let gateway = gateway(settings(&upstream)).await;
    for _ in 0..9 {
        assert_eq!(talk(&gateway, post("/v1/messages", CHAT)).await.status(), 200);
    }
    let connections = upstream.connections.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(connections, 3, "one for each that the provider closed");
}

#[tokio::test]
async fn the_key_of_a_provider_replaces_the_clients() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let mut settings = settings(&upstream);
    for family in Family::ALL {
        let own = provider(family, &upstream.url(), Credential::Key(secret("sk-ours")));
        settings.providers.insert(family.as_str().to_owned(), own);
    }
    let gateway = gateway(settings).await;
    for (path, header) in [
        ("/v1/messages", "x-api-key: sk-ours"),
        ("/v1/chat/completions", "authorization: Bearer sk-ours"),
        ("/v1beta/models/g:generateContent?key=sk-client", "x-goog-api-key: sk-ours"),
        ("/v1beta/models/g:generateContent?alt=sse&k%65y=sk-client", "x-goog-api-key: sk-ours"),
    ] {
        let request = post(path, CHAT).replace(
            "content-type",
            "x-api-key: sk-client\r\nauthorization: Bearer sk-client\r\ncontent-type",
        );
        assert_eq!(talk(&gateway, request).await.status(), 200);
        let seen = upstream.request(upstream.count() - 1);
        assert!(seen.contains(header) && !seen.contains("sk-client") && !seen.contains(TOKEN), "{seen}");
    }
}
