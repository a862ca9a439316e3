//! The seam: what whoever looks at traffic is shown, and what becomes of what they put out.

use std::io::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use backstop_gateway::exchange::{Answered, Body, Call, KeepAlive, Outgoing, Reply, Requested, Step, Watch};
use backstop_gateway::{Exchange, Interceptor, ModelRoute, Plan};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::time::sleep;

use crate::support::*;

/// What is to happen, by the words in the request's body.
#[derive(Clone, Default)]
struct Looker {
    seen: Arc<Mutex<Vec<String>>>,
}

struct Looking {
    seen: Arc<Mutex<Vec<String>>>,
    order: String,
    held: Vec<u8>,
}

impl Interceptor for Looker {
    fn begin(&self, call: &Call<'_>) -> Plan {
        self.seen.lock().unwrap().push(format!(
            "begin {} {:?}",
            call.path,
            call.agent.map(backstop_hooks::AgentId::as_str)
        ));
        let seen = Arc::clone(&self.seen);
        Plan::Inspect(Box::new(Looking { seen, order: String::new(), held: Vec::new() }))
    }

    fn withholds(&self, _: Option<&backstop_hooks::AgentId>, _: &[&str]) -> Vec<usize> {
        Vec::new()
    }
}

impl Looking {
    fn note(&self, text: String) {
        self.seen.lock().unwrap().push(text);
    }
}

#[async_trait]
impl Exchange for Looking {
    async fn request(&mut self, body: &Body<'_>) -> Requested {
        let text = String::from_utf8_lossy(body.bytes).into_owned();
        self.note(format!("request {} to {}", if text.len() > 200 { "large" } else { &text }, body.provider));
        self.order = text;
        if self.order.contains("reply") {
            let body = Bytes::from_static(b"no");
            return Requested::Reply(Reply {
                status: StatusCode::FORBIDDEN,
                headers: HeaderMap::new(),
                body,
            });
        }
        if self.order.contains("other model") {
            return Requested::Replaced(Bytes::from_static(br#"{"model":"other"}"#));
        }
        Requested::Unchanged
    }

    fn response(&mut self, answered: &Answered<'_>) -> Watch {
        self.note(format!("response {} from {}", answered.status, answered.provider));
        if self.order.contains("opaque") {
            return Watch::Opaque;
        }
        let keep_alive = self.order.contains("patient").then(|| KeepAlive {
            every: Duration::from_millis(50),
            bytes: Bytes::from_static(b": wait\n\n"),
        });
        Watch::Look { keep_alive }
    }

    fn chunk(&mut self, chunk: Bytes, out: &mut Outgoing) -> Step {
        if self.order.contains("hold") || self.order.contains("decide") {
            self.held.extend_from_slice(&chunk);
        } else {
            out.push(chunk.to_ascii_uppercase().into());
        }
        if self.order.contains("first only") { Step::End } else { Step::Continue }
    }

    fn finish(&mut self, out: &mut Outgoing) -> Step {
        self.note("finish".to_owned());
        out.push(std::mem::take(&mut self.held).into());
        if self.order.contains("decide") { Step::Decide } else { Step::Continue }
    }

    async fn decide(&mut self, out: &mut Outgoing) -> Step {
        sleep(Duration::from_millis(200)).await;
        self.note(format!("decided, head open: {}", out.head_mut().is_some()));
        out.push(Bytes::from_static(b"data: decided\n\n"));
        Step::Continue
    }

    fn failed(&mut self, out: &mut Outgoing) -> Step {
        self.note("failed".to_owned());
        if self.order.contains("last words") {
            out.push(Bytes::from_static(b"data: last words\n\n"));
        }
        Step::Continue
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.note("dropped".to_owned());
    }
}

pub(crate) fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

async fn looked_at(
    script: impl Fn(usize) -> Script + Send + Sync + 'static,
) -> (Upstream, backstop_gateway::Gateway, Looker) {
    let upstream = Upstream::start(script).await;
    let looker = Looker::default();
    let gateway = start(settings(&upstream), looker.clone()).await.unwrap();
    (upstream, gateway, looker)
}

fn seen(looker: &Looker) -> Vec<String> {
    looker.seen.lock().unwrap().clone()
}

#[tokio::test]
async fn everything_is_shown_in_order() {
    let (upstream, gateway, looker) = looked_at(|_| Script::events(&["data: a\n\n", "data: b\n\n"])).await;
    let request =
        post("/a/me/v1/messages", "x").replace("content-type", "accept-encoding: gzip\r\ncontent-type");
    let answer = talk(&gateway, request).await;
    assert_eq!(answer.body(), ("DATA: A\n\nDATA: B\n\n".to_owned(), true));
    assert!(upstream.request(0).contains("accept-encoding: identity\r\n"));
    eventually("the exchange ends", || seen(&looker).len() == 5).await;
    let expected = [
        "begin /v1/messages Some(\"me\")",
        "request x to anthropic",
        "response 200 OK from anthropic",
        "finish",
        "dropped",
    ];
    assert_eq!(seen(&looker), expected);
}

#[tokio::test]
async fn a_reply_asks_no_provider() {
    let (upstream, gateway, looker) = looked_at(|_| Script::json("200 OK", "{}")).await;
    let answer = talk(&gateway, post("/v1/messages", "reply")).await;
    assert_eq!((answer.status(), answer.body().0.as_str()), (403, "no"));
    assert_eq!(upstream.count(), 0);
    assert_eq!(seen(&looker).last().unwrap(), "dropped");
}

#[tokio::test]
async fn compression_is_undone_for_who_looks_and_kept_for_who_does_not() {
    let packed = gzip(b"data: hello\n\n");
    let answer = {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n";
        let length = format!("content-length: {}\r\n\r\n", packed.len());
        [head.as_bytes(), length.as_bytes(), &packed].concat()
    };
    // Also cut in the middle of the compressed bytes.
    let (upstream, gateway, _) = looked_at(move |number| {
        let (first, second) = answer.split_at(answer.len() - 10 * number);
        Script {
            pieces: vec![first.to_vec(), second.to_vec()],
            gap: Duration::from_millis(5),
            end: End::KeepOpen,
        }
    })
    .await;
    for _ in 0..2 {
        let seen = talk(&gateway, post("/v1/messages", "look")).await;
        assert_eq!(seen.body().0, "DATA: HELLO\n\n");
        assert!(!seen.head().contains("content-encoding"));
    }
    let untouched = talk(&gateway, post("/v1/messages", "opaque")).await;
    assert_eq!(untouched.raw_body(), packed);
    // What was read is what leaves: a compression has room for more than the body.
    let body = gzip(b"opaque");
    let head = post("/v1/messages", "")
        .replace("content-length: 0", &format!("content-encoding: gzip\r\ncontent-length: {}", body.len()));
    assert_eq!(talk(&gateway, [head.as_bytes(), &body].concat()).await.status(), 200);
    let arrived = upstream.request(3);
    assert!(!arrived.contains("content-encoding") && arrived.ends_with("\r\n\r\nopaque"), "{arrived}");
}

#[tokio::test]
async fn bodies_that_can_not_be_read_are_refused() {
    let bomb = gzip(&vec![b' '; 34 << 20]);
    let (upstream, gateway, _) = looked_at(|_| {
        Script::whole("HTTP/1.1 200 OK\r\ncontent-encoding: compress\r\ncontent-length: 1\r\n\r\nx")
    })
    .await;
    for (coding, body, status) in [
        ("gzip", bomb.as_slice(), 413),
        ("gzip", b"not gzip", 400),
        ("br", b"\xff\xff\xff", 400),
        ("zstd", b"not zstd", 400),
        ("compress", b"x", 400),
        ("gzip, gzip", b"x", 400),
    ] {
        let fields = format!("content-encoding: {coding}\r\ncontent-length: {}", body.len());
        let head = post("/v1/messages", "").replace("content-length: 0", &fields);
        let answer = talk(&gateway, [head.as_bytes(), body].concat()).await;
        assert_eq!(answer.status(), status, "{coding}: {}", answer.text());
    }
    assert_eq!(upstream.count(), 0);
    let answer = talk(&gateway, post("/v1/messages", "look")).await;
    assert_eq!(answer.status(), 502);
    assert_eq!(answer.json()["type"], "error");
}

#[tokio::test]
async fn zstd_and_brotli_are_read() {
    let zstd = zstd::encode_all(&b"reply"[..], 3).unwrap();
    // `reply`, as a stored block of Brotli.
    let brotli = b"\x0b\x02\x80reply\x03".to_vec();
    let (_upstream, gateway, looker) = looked_at(|_| Script::json("200 OK", "{}")).await;
    for (coding, body) in [("zstd", zstd), ("br", brotli)] {
        let fields = format!("content-encoding: {coding}\r\ncontent-length: {}", body.len());
        let head = post("/v1/messages", "").replace("content-length: 0", &fields);
        let answer = talk(&gateway, [head.as_bytes(), &body].concat()).await;
        assert_eq!(answer.status(), 403, "{coding}: {} {:?}", answer.text(), seen(&looker));
    }
}

#[tokio::test]
async fn held_output_leaves_after_the_decision_and_the_head_with_it() {
    let (_upstream, gateway, looker) = looked_at(|_| Script::events(&["data: a\n\n"])).await;
    let answer = talk(&gateway, post("/v1/messages", "hold and decide")).await;
    assert_eq!(answer.body(), ("data: a\n\ndata: decided\n\n".to_owned(), true));
    assert!(seen(&looker).contains(&"decided, head open: false".to_owned()), "the first byte took it along");
}

#[tokio::test]
async fn a_patient_client_hears_that_somebody_is_there() {
    let slow = |_| Script::events(&["data: a\n\n"]).paced(Duration::from_millis(150));
    let (_upstream, gateway, looker) = looked_at(slow).await;
    let answer = talk(&gateway, post("/v1/messages", "patient hold decide")).await;
    let (body, is_whole) = answer.body();
    let (waited, rest) = body.split_once("data: a\n\n").unwrap();
    assert!(
        is_whole && waited.starts_with(": wait\n\n") && waited.replace(": wait\n\n", "").is_empty(),
        "{body}"
    );
    let (waited, last) = rest.split_once("data: decided\n\n").unwrap();
    assert!(waited.starts_with(": wait\n\n") && last.is_empty(), "{body}");
    assert!(seen(&looker).contains(&"decided, head open: false".to_owned()));
}

#[tokio::test]
async fn the_end_cuts_the_provider_off() {
    let (upstream, gateway, _) = looked_at(|_| {
        let pieces = vec![EVENTS_HEAD.as_bytes().to_vec(), chunk(b"data: a\n\n")];
        Script { pieces, gap: Duration::ZERO, end: End::Hang }
    })
    .await;
    let answer = talk(&gateway, post("/v1/messages", "first only")).await;
    assert_eq!(answer.body(), ("DATA: A\n\n".to_owned(), true));
    eventually("the provider is cut off", || upstream.cut() == 1).await;
}

#[tokio::test]
async fn what_was_held_is_gone_when_the_provider_breaks() {
    let (_upstream, gateway, looker) = looked_at(|_| {
        let pieces = vec![EVENTS_HEAD.as_bytes().to_vec(), chunk(b"data: secret\n\n")];
        Script { pieces, gap: Duration::from_millis(20), end: End::Close }
    })
    .await;
    let held = talk(&gateway, post("/v1/messages", "hold")).await;
    assert_eq!(held.status(), 502, "nothing had left, so the head could still say so");
    assert!(!held.text().contains("secret"));
    let spoken = talk(&gateway, post("/v1/messages", "hold, last words")).await;
    let (body, is_whole) = spoken.body();
    assert!(is_whole && body.starts_with("data: last words\n\nevent: error\n"), "{body}");
    assert!(!body.contains("secret") && seen(&looker).contains(&"failed".to_owned()));
}

#[tokio::test]
async fn a_client_that_goes_drops_the_exchange_in_the_middle_of_a_decision() {
    let (upstream, gateway, looker) = looked_at(|_| Script::events(&["data: a\n\n"])).await;
    let mut socket = connect(&gateway).await;
    tokio::io::AsyncWriteExt::write_all(&mut socket, post("/v1/messages", "decide").as_bytes())
        .await
        .unwrap();
    eventually("the answer is there", || seen(&looker).contains(&"finish".to_owned())).await;
    drop(socket);
    eventually("it is dropped", || seen(&looker).last().unwrap() == "dropped").await;
    assert!(!seen(&looker).iter().any(|line| line.starts_with("decided")));
    assert_eq!(upstream.count(), 1);
}

#[tokio::test]
async fn another_model_goes_another_way() {
    let usual = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let other = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let mut settings = settings(&usual);
    let family = backstop_gateway::Family::OpenAi;
    let credential = backstop_gateway::Credential::Client;
    settings.providers.insert("other".to_owned(), provider(family, &other.url(), credential));
    settings.routes =
        vec![ModelRoute { models: vec!["other".to_owned()], providers: vec!["other".to_owned()] }];
    let gateway = start(settings, Looker::default()).await.unwrap();
    assert_eq!(talk(&gateway, post("/v1/chat/completions", r#"{"x":"other model"}"#)).await.status(), 200);
    assert_eq!((usual.count(), other.count()), (0, 1));
    let arrived = other.request(0);
    assert!(arrived.ends_with("content-length: 17\r\n\r\n{\"model\":\"other\"}"), "{arrived}");
}

#[tokio::test]
async fn a_whole_answer_can_become_another_one() {
    struct Blocker;
    struct Blocking;
    impl Interceptor for Blocker {
        fn begin(&self, _: &Call<'_>) -> Plan {
            Plan::Inspect(Box::new(Blocking))
        }

        fn withholds(&self, _: Option<&backstop_hooks::AgentId>, _: &[&str]) -> Vec<usize> {
            Vec::new()
        }
    }
    #[async_trait]
    impl Exchange for Blocking {
        async fn request(&mut self, _: &Body<'_>) -> Requested {
            Requested::Unchanged
        }
        fn response(&mut self, _: &Answered<'_>) -> Watch {
            Watch::Look { keep_alive: None }
        }
        fn chunk(&mut self, _: Bytes, _: &mut Outgoing) -> Step {
            Step::Continue
        }
        fn finish(&mut self, _: &mut Outgoing) -> Step {
            Step::Decide
        }
        async fn decide(&mut self, out: &mut Outgoing) -> Step {
            let headers = HeaderMap::from_iter([(http::header::SERVER, HeaderValue::from_static("x"))]);
            let reply =
                Reply { status: StatusCode::FORBIDDEN, headers, body: Bytes::from_static(b"blocked") };
            out.replace(reply).unwrap();
            Step::End
        }
    }
    let upstream = Upstream::start(|_| Script::json("200 OK", r#"{"secret":1}"#)).await;
    let gateway = start(settings(&upstream), Blocker).await.unwrap();
    let answer = talk(&gateway, post("/v1/messages", "{}")).await;
    assert_eq!((answer.status(), answer.body().0.as_str()), (403, "blocked"));
    assert!(answer.head().contains("server: x\r\n") && answer.head().contains("content-length: 7"));
}
