//! Clients that speak HTTP/2.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::support::*;

#[tokio::test]
async fn many_requests_share_one_connection() {
    let upstream = Upstream::start(|_| Script::events(&["data: a\n\n", "data: b\n\n"])).await;
    let gateway = gateway(settings(&upstream)).await;
    let socket = TokioIo::new(connect(&gateway).await);
    let (sender, connection) =
        hyper::client::conn::http2::handshake::<_, _, Full<Bytes>>(TokioExecutor::new(), socket)
            .await
            .unwrap();
    let connection = tokio::spawn(connection);
    let mut answers = tokio::task::JoinSet::new();
    for number in 0..20 {
        let mut sender = sender.clone();
        let address = gateway.address();
        answers.spawn(async move {
            let request = Request::post(format!("http://{address}/v1/messages?n={number}"))
                .header("x-api-key", TOKEN)
                .header("x-number", number)
                .body(Full::new(Bytes::from(vec![b'x'; 100_000])))
                .unwrap();
            let answer = sender.send_request(request).await.unwrap();
            assert_eq!(answer.status(), 200);
            answer.into_body().collect().await.unwrap().to_bytes()
        });
    }
    for body in within(answers.join_all()).await {
        assert_eq!(body, "data: a\n\ndata: b\n\n");
    }
    assert_eq!(upstream.count(), 20);
    let arrived = upstream.request(0);
    assert!(
        arrived.contains(&format!("host: {}\r\n", upstream.address)) && !arrived.contains(TOKEN),
        "{arrived}"
    );
    let mut sender = sender;
    let request =
        Request::get(format!("http://{}/v1/models", gateway.address())).body(Full::default()).unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), 401);
    drop(sender);
    connection.abort();
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const EMPTY_SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
const SETTINGS_SEEN: &[u8] = &[0, 0, 0, 4, 1, 0, 0, 0, 0];

#[tokio::test]
async fn who_only_says_hello_does_not_hold_on() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let mut settings = settings(&upstream);
    settings.timeouts.head = Duration::from_millis(200);
    let gateway = gateway(settings).await;
    for hello in [PREFACE.to_vec(), [PREFACE, EMPTY_SETTINGS, SETTINGS_SEEN].concat()] {
        // It reads until the other side closes.
        talk(&gateway, hello).await;
    }
}

#[tokio::test]
async fn who_waits_for_an_answer_may_stay() {
    let events = ["data: a\n\n", "data: b\n\n", "data: c\n\n", "data: d\n\n"];
    let upstream = Upstream::start(move |_| Script::events(&events).paced(Duration::from_millis(250))).await;
    let mut settings = settings(&upstream);
    settings.timeouts.head = Duration::from_millis(100);
    let gateway = gateway(settings).await;
    let socket = TokioIo::new(connect(&gateway).await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake::<_, _, Full<Bytes>>(TokioExecutor::new(), socket)
            .await
            .unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::get(format!("http://{}/v1/x", gateway.address())).header("x-api-key", TOKEN);
    let answer = sender.send_request(request.body(Full::default()).unwrap()).await.unwrap();
    let body = within(answer.into_body().collect()).await.unwrap().to_bytes();
    assert_eq!(body, events.concat());
    // Afterwards it has to go, however often it says that it is there.
    let _ = within(connection).await;
}
