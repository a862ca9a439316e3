//! Large requests are judged on no thread that serves connections, and not at all for who has left. No clock is asked.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{ThreadId, available_parallelism, current};

use async_trait::async_trait;
use backstop_gateway::exchange::{Answered, Body, Call, Outgoing, Requested, Step, Watch};
use backstop_gateway::{Exchange, Interceptor, Plan};
use bytes::Bytes;
use tokio::io::AsyncWriteExt as _;

use crate::support::*;

/// What requests of all sizes have in common with those that take long to judge.
const LARGE: usize = 32 << 10;

/// What is known of requests that are judged.
#[derive(Debug, Default)]
struct Known {
    threads: Mutex<Vec<ThreadId>>,
    begun: AtomicUsize,
    steps: AtomicUsize,
    gone: AtomicUsize,
    /// Whether judging goes on; it blocks its thread until then.
    goes_on: (Mutex<bool>, Condvar),
    /// Whether judging has no end, and lets others have their turn.
    is_endless: AtomicBool,
    /// Whether judging blocks.
    blocks: AtomicBool,
}

#[derive(Clone, Debug, Default)]
struct Judge(Arc<Known>);

#[derive(Debug)]
struct Judging(Arc<Known>);

impl Drop for Judging {
    fn drop(&mut self) {
        self.0.gone.fetch_add(1, Ordering::AcqRel);
    }
}

impl Interceptor for Judge {
    fn begin(&self, call: &Call<'_>) -> Plan {
        let is_unread = ["/files", "/uploads"].iter().any(|part| call.path.contains(part));
        if call.method == http::Method::GET || is_unread {
            return Plan::Opaque;
        }
        Plan::Inspect(Box::new(Judging(Arc::clone(&self.0))))
    }

    fn withholds(&self, _: Option<&backstop_hooks::AgentId>, _: &[&str]) -> Vec<usize> {
        Vec::new()
    }
}

#[async_trait]
impl Exchange for Judging {
    async fn request(&mut self, _: &Body<'_>) -> Requested {
        let known = &self.0;
        known.threads.lock().unwrap().push(current().id());
        known.begun.fetch_add(1, Ordering::AcqRel);
        if known.blocks.load(Ordering::Acquire) {
            let (goes_on, told) = &known.goes_on;
            drop(told.wait_while(goes_on.lock().unwrap(), |goes_on| !*goes_on).unwrap());
        }
        while known.is_endless.load(Ordering::Acquire) {
            known.steps.fetch_add(1, Ordering::AcqRel);
            tokio::task::yield_now().await;
        }
        Requested::Unchanged
    }

    fn response(&mut self, _: &Answered<'_>) -> Watch {
        Watch::Opaque
    }

    fn chunk(&mut self, _: Bytes, _: &mut Outgoing) -> Step {
        Step::End
    }

    fn finish(&mut self, _: &mut Outgoing) -> Step {
        Step::End
    }

    async fn decide(&mut self, _: &mut Outgoing) -> Step {
        Step::End
    }
}

/// A request of at least so many bytes.
fn of_size(bytes: usize) -> String {
    let text = "x".repeat(bytes);
    post("/v1/chat/completions", &format!("{{\"model\":\"m\",\"messages\":[],\"user\":\"{text}\"}}"))
}

/// One thread serves everybody here: whatever is judged on it keeps it.
#[tokio::test]
async fn a_large_request_is_judged_on_no_thread_that_serves() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let judge = Judge::default();
    let gateway = start(settings(&upstream), judge.clone()).await.unwrap();
    for (size, is_aside) in [(10, false), (LARGE, true), (40 * LARGE, true)] {
        assert_eq!(talk(&gateway, of_size(size)).await.status(), 200);
        let judged_on = judge.0.threads.lock().unwrap().pop();
        assert_eq!(judged_on != Some(current().id()), is_aside, "{size} bytes");
    }
}

#[tokio::test]
async fn what_is_judged_for_long_keeps_nobody_waiting_and_what_has_not_begun_is_left_out_for_who_left() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let judge = Judge::default();
    judge.0.blocks.store(true, Ordering::Release);
    let gateway = start(settings(&upstream), judge.clone()).await.unwrap();
    let places = available_parallelism().map_or(1, usize::from);
    let mut clients = Vec::new();
    for _ in 0..2 * places {
        let mut client = connect(&gateway).await;
        client.write_all(of_size(LARGE).as_bytes()).await.unwrap();
        clients.push(client);
    }
    eventually("every place is taken", || judge.0.begun.load(Ordering::Acquire) == places).await;
    let get = format!(
        "GET /v1/models HTTP/1.1\r\nhost: localhost\r\nx-backstop-token: {TOKEN}\r\nconnection: close\r\n\r\n"
    );
    assert_eq!(talk(&gateway, get).await.status(), 200);
    drop(clients);
    eventually("those who wait are gone", || judge.0.gone.load(Ordering::Acquire) == places).await;
    *judge.0.goes_on.0.lock().unwrap() = true;
    judge.0.goes_on.1.notify_all();
    eventually("all are gone", || judge.0.gone.load(Ordering::Acquire) == 2 * places).await;
    assert_eq!(judge.0.begun.load(Ordering::Acquire), places);
}

#[tokio::test]
async fn judging_ends_with_the_step_in_which_the_client_leaves() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let judge = Judge::default();
    judge.0.is_endless.store(true, Ordering::Release);
    let gateway = start(settings(&upstream), judge.clone()).await.unwrap();
    let mut client = connect(&gateway).await;
    client.write_all(of_size(LARGE).as_bytes()).await.unwrap();
    eventually("it is judged in steps", || judge.0.steps.load(Ordering::Acquire) > 2).await;
    drop(client);
    eventually("judging is over", || judge.0.gone.load(Ordering::Acquire) == 1).await;
}

/// What no operation has is no way past those who judge. The shapes of the bodies themselves have tests of their own.
#[tokio::test]
async fn a_body_that_the_operation_does_not_have_reaches_no_provider() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let gateway = start(settings(&upstream), Judge::default()).await.unwrap();
    let send = async |request: &str, kind: &str, body: &str| {
        let (method, path) = request.split_once(' ').unwrap();
        let sent = post(path, body).replacen("POST", method, 1).replacen("application/json", kind, 1);
        talk(&gateway, sent).await.status()
    };
    let mut passed = 0;
    for request in [
        "GET /v1/models",
        "GET /v1/files/file-1",
        "DELETE /v1/files/file-1",
        "DELETE /v1/responses/resp_1",
        "GET /v1/batches",
        "POST /v1/batches/b/cancel",
        "POST /v1/messages/batches/b/cancel",
        "POST /v1/responses/resp_1/cancel",
        "POST /v1/uploads/u/cancel",
    ] {
        for body in [r#"{"x":"prose"}"#, "prose", r#"["prose"]"#] {
            assert_eq!(send(request, "application/json", body).await, 400, "{request} {body}");
        }
        for body in ["", "{}"] {
            assert_eq!(send(request, "application/json", body).await, 200, "{request} {body}");
            passed += 1;
        }
    }
    for (request, kind, body, status) in [
        ("POST /v1/uploads/u/complete", "application/json", r#"{"part_ids":["part_1"]}"#, 200),
        ("POST /v1/uploads/u/complete", "application/json", r#"{"part_ids":["part_1"],"x":"prose"}"#, 400),
        ("POST /v1/uploads/u/complete", "application/json", r#"{"part_ids":["some prose"]}"#, 400),
        ("POST /v1/files", "application/json", r#"{"purpose":"x","text":"prose"}"#, 400),
        ("POST /v1/uploads/u/parts", "application/json", r#"{"data":"prose"}"#, 400),
        ("POST /v1/uploads/u/parts", "multipart/form-data; boundary=b", "--b--\r\n", 200),
    ] {
        assert_eq!(send(request, kind, body).await, status, "{request} {body}");
        passed += usize::from(status == 200);
    }
    assert_eq!(upstream.count(), passed);
}
