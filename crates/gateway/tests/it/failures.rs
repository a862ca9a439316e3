//! What goes wrong, and how the client is told.

use std::time::{Duration, Instant};

use backstop_gateway::inspect::{HookSettings, Hooks};
use backstop_gateway::{Credential, Family, StartError, Transparent};
use backstop_hooks::points::AfterLlmCall;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::inspect::support::House;
use crate::support::*;

const PATHS: [&str; 4] =
    ["/v1/messages", "/v1/chat/completions", "/v1/responses", "/v1beta/models/g:generateContent"];
const SHORT: Duration = Duration::from_millis(200);

/// The text of an error, wherever its wire has it, after a look at the rest of its shape.
fn message(path: &str, error: &Value) -> String {
    let inner = &error["error"];
    if path.starts_with("/v1/messages") {
        assert_eq!(error["type"], "error", "{error}");
    } else if path.starts_with("/v1beta") {
        assert!(inner["code"].is_u64() && inner["status"].is_string(), "{error}");
    } else {
        assert!(inner["type"].is_string(), "{error}");
    }
    inner["message"].as_str().unwrap_or_else(|| panic!("{error}")).to_owned()
}

#[tokio::test]
async fn who_has_no_token_is_told_in_the_shape_of_the_wire() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let gateway = gateway(settings(&upstream)).await;
    for path in PATHS {
        let request = post(path, "{}").replace(&format!("/t/{TOKEN}"), "");
        let answer = talk(&gateway, request).await;
        assert_eq!(answer.status(), 401, "{path}");
        assert!(message(path, &answer.json()).contains("/t/<token>"));
        let request = post(path, "{}").replace("host: localhost", "host: evil.example");
        assert_eq!(talk(&gateway, request).await.status(), 403, "{path}");
    }
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn bodies_beyond_the_limit_are_refused_before_they_are_read() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let mut settings = settings(&upstream);
    settings.limits.body_bytes = 1000;
    let gateway = gateway(settings).await;
    for path in PATHS {
        let announced = post(path, "").replace("content-length: 0", "content-length: 104857600");
        let answer = talk(&gateway, announced).await;
        assert_eq!(answer.status(), 413, "{path}");
        assert!(message(path, &answer.json()).contains("1000 bytes"));
        let chunked = post(path, "").replace("content-length: 0", "transfer-encoding: chunked");
        let answer = talk(&gateway, [chunked.as_bytes(), &chunk(&[b' '; 1001])].concat()).await;
        assert_eq!(answer.status(), 413, "{path}");
    }
    // What streams is cut off at the limit.
    let upload = post("/v1/files", "").replace("content-length: 0", "transfer-encoding: chunked");
    let answer =
        talk(&gateway, [upload.as_bytes(), &chunk(&[b' '; 600]), &chunk(&[b' '; 600])].concat()).await;
    assert_eq!(answer.status(), 413);
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn slow_clients_do_not_hold_on() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let mut settings = settings(&upstream);
    settings.timeouts.head = SHORT;
    settings.timeouts.body = SHORT;
    let gateway = gateway(settings).await;
    for begun in ["", "P", "PR", "POST /v1/messages HTTP/1.1\r\nhost: "] {
        let began = Instant::now();
        let answer = talk(&gateway, begun).await;
        assert!(answer.bytes.is_empty() || answer.status() == 408, "{begun:?}: {}", answer.text());
        assert!(began.elapsed() < Duration::from_secs(5), "{begun:?}");
    }
    let half = post("/v1/messages", "{}").replace("content-length: 2", "content-length: 9");
    assert_eq!(talk(&gateway, half).await.status(), 408);
    assert_eq!(upstream.count(), 0);
}

/// Byte by byte, a body would never be too late for the next piece.
#[tokio::test]
async fn a_client_that_drips_does_not_hold_on() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let mut settings = settings(&upstream);
    settings.timeouts.body = Duration::from_millis(20);
    settings.limits.body_rate = 1 << 40;
    let gateway = gateway(settings).await;
    // What is read first, and what streams.
    for path in PATHS.into_iter().chain(["/v1/files"]) {
        let begun = post(path, "").replace("content-length: 0", "transfer-encoding: chunked");
        let (mut reading, mut writing) = connect(&gateway).await.into_split();
        writing.write_all(begun.as_bytes()).await.unwrap();
        let dripping = tokio::spawn(async move { while writing.write_all(&chunk(b" ")).await.is_ok() {} });
        let mut answer = Vec::new();
        let mut buffer = [0; 4096];
        while !String::from_utf8_lossy(&answer).contains("}}") {
            let count = within(reading.read(&mut buffer)).await.unwrap();
            assert!(count > 0, "{path}: {}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(&buffer[..count]);
        }
        dripping.abort();
        let answer = Answer { bytes: answer, broken: false };
        assert_eq!(answer.status(), 408, "{path}");
        message(path, &answer.json());
    }
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn providers_that_give_no_answer_are_reported() {
    let upstream = Upstream::start(|number| match number {
        0 => Script { pieces: vec![], gap: Duration::ZERO, end: End::Close },
        1 => Script { pieces: vec![], gap: Duration::ZERO, end: End::Reset },
        2 => Script::whole("SSH-2.0-nonsense\r\n\r\n").ending(End::Close),
        3 => Script::whole("HTTP/1.1 200 OK\r\ncontent-").ending(End::Close),
        _ => Script { pieces: vec![], gap: Duration::ZERO, end: End::Hang },
    })
    .await;
    let mut settings = settings(&upstream);
    settings.timeouts.first_byte = SHORT;
    let nowhere = provider(Family::OpenAi, &nobody(), Credential::Key(secret("sk-ours")));
    settings.providers.insert("nowhere".to_owned(), nowhere);
    let gateway = gateway(settings).await;
    for (path, status) in
        [(PATHS[0], 502), (PATHS[1], 502), (PATHS[2], 502), (PATHS[3], 502), (PATHS[0], 504)]
    {
        let answer = talk(&gateway, post(path, "{}")).await;
        assert_eq!(answer.status(), status, "{}", answer.text());
        assert!(message(path, &answer.json()).contains("gave no answer"));
    }
    let answer = talk(&gateway, post("/p/nowhere/v1/chat/completions", "{}")).await;
    assert_eq!(answer.status(), 502);
    let text = answer.text();
    assert!(text.contains("`nowhere`") && !text.contains("sk-ours"), "{text}");
    eventually("the silent connection is closed", || upstream.cut() == 1).await;
}

#[tokio::test]
async fn a_stream_that_breaks_between_events_ends_with_an_error_event() {
    for end in [End::Close, End::Reset, End::Hang] {
        let upstream = Upstream::start(move |_| {
            let pieces = vec![EVENTS_HEAD.as_bytes().to_vec(), chunk(b"data: {\"a\":1}\n\n")];
            Script { pieces, gap: Duration::ZERO, end }
        })
        .await;
        let mut settings = settings(&upstream);
        for provider in settings.providers.values_mut() {
            provider.idle_timeout = SHORT;
        }
        let gateway = gateway(settings).await;
        for (path, marks) in [
            (PATHS[0], "event: error\ndata: {\"type\":\"error\""),
            (PATHS[1], "data: {\"error\":"),
            (PATHS[2], "event: error\ndata: {\"error\":{\"message\""),
            ("/v1beta/models/g:streamGenerateContent", "data: {\"error\":{\"code\":50"),
        ] {
            let (body, is_whole) = talk(&gateway, post(path, "{}")).await.body();
            assert!(is_whole, "{path} {end:?}");
            let rest = body.strip_prefix("data: {\"a\":1}\n\n").unwrap_or_else(|| panic!("{body}"));
            assert!(rest.starts_with(marks) && rest.ends_with("\n\n"), "{path}: {rest}");
        }
    }
}

#[tokio::test]
async fn what_breaks_elsewhere_breaks_for_the_client_too() {
    let json = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"half\":";
    let upstream = Upstream::start(move |number| match number {
        0 => {
            let pieces = vec![EVENTS_HEAD.as_bytes().to_vec(), chunk(b"data: {\"a\":1}\n\ndata: {\"b")];
            Script { pieces, gap: Duration::from_millis(50), end: End::Close }
        }
        _ => Script::whole(json).ending(End::Close),
    })
    .await;
    let gateway = gateway(settings(&upstream)).await;
    let (body, is_whole) = talk(&gateway, post("/v1/messages", "{}")).await.body();
    assert!(!is_whole && body.ends_with("data: {\"b"), "{body}");
    let answer = talk(&gateway, post("/v1/messages", "{}")).await;
    assert!(!answer.text().ends_with('}') && answer.bytes.len() < 200, "{}", answer.text());
}

#[tokio::test]
async fn a_client_that_goes_takes_the_providers_work_with_it() {
    let upstream = Upstream::start(|number| {
        let begun =
            if number == 0 { vec![] } else { vec![EVENTS_HEAD.as_bytes().to_vec(), chunk(b"data: 1\n\n")] };
        Script { pieces: begun, gap: Duration::ZERO, end: End::Hang }
    })
    .await;
    let gateway = gateway(settings(&upstream)).await;
    // Before the head of the answer, and in the middle of it.
    for gone in 1..=2 {
        let mut socket = connect(&gateway).await;
        socket.write_all(post("/v1/messages", "{}").as_bytes()).await.unwrap();
        if gone == 2 {
            until(&mut socket, "data: 1").await;
        } else {
            eventually("the request arrives", || upstream.count() == 1).await;
        }
        drop(socket);
        eventually("the provider is cut off", || upstream.cut() == gone).await;
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_loses_its_answer() {
    let upstream = Upstream::start(|number| {
        let events = [format!("data: {}\n\n", "x".repeat(64 << 10))];
        let mut script = Script::events(&[events[0].as_str()]);
        if number == 0 {
            // More than all buffers on the way can hold.
            script.pieces.splice(1..2, vec![chunk(events[0].as_bytes()); 1_000]);
        }
        script
    })
    .await;
    let mut settings = settings(&upstream);
    settings.timeouts.write = Duration::from_millis(300);
    settings.limits.requests = 1;
    let gateway = gateway(settings).await;
    let mut idle = connect(&gateway).await;
    idle.write_all(post("/v1/messages", "{}").as_bytes()).await.unwrap();
    until(&mut idle, "data: ").await;
    assert_eq!(talk(&gateway, post("/v1/messages", "{}")).await.status(), 503);
    eventually("the provider was let go", || upstream.cut() == 1).await;
    assert_eq!(talk(&gateway, post("/v1/messages", "{}")).await.status(), 200);
}

#[tokio::test]
async fn a_client_that_reads_slowly_gets_everything() {
    let event = format!("data: {}\n\n", "x".repeat(64 << 10));
    let upstream = Upstream::start(move |_| Script::events(&vec![event.as_str(); 256])).await;
    let mut settings = settings(&upstream);
    settings.timeouts.write = Duration::from_millis(400);
    let gateway = gateway(settings).await;
    let mut slow = connect(&gateway).await;
    slow.write_all(post("/v1/messages", "{}").as_bytes()).await.unwrap();
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; 1 << 20]);
    let begun = Instant::now();
    loop {
        let count = slow.read(&mut buffer).await.unwrap();
        if count == 0 {
            break;
        }
        bytes.extend_from_slice(&buffer[..count]);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(begun.elapsed() > Duration::from_millis(400), "it was too fast to show anything");
    assert!(bytes.len() > 256 * (64 << 10) && bytes.ends_with(b"0\r\n\r\n"), "{}", bytes.len());
}

#[tokio::test]
async fn more_than_allowed_at_once_is_overload() {
    let upstream = Upstream::start(|_| Script { pieces: vec![], gap: Duration::ZERO, end: End::Hang }).await;
    let mut settings = settings(&upstream);
    settings.limits.requests = 1;
    let gateway = gateway(settings).await;
    let mut first = connect(&gateway).await;
    first.write_all(post("/v1/messages", "{}").as_bytes()).await.unwrap();
    eventually("the request arrives", || upstream.count() == 1).await;
    let answer = talk(&gateway, post("/v1/messages", "{}")).await;
    assert_eq!(answer.status(), 503);
    assert!(answer.head().contains("retry-after: 1"));
    assert_eq!(answer.json()["error"]["type"], json!("overloaded_error"));
    drop(first);
    eventually("the place is free again", || upstream.cut() == 1).await;
}

#[tokio::test]
async fn bytes_in_memory_are_bounded_over_all_requests() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let mut settings = settings(&upstream);
    settings.limits.buffered_bytes = 100;
    let gateway = gateway(settings).await;
    assert_eq!(talk(&gateway, post("/v1/messages", &"1".repeat(101))).await.status(), 503);
    for _ in 0..3 {
        assert_eq!(talk(&gateway, post("/v1/messages", &"1".repeat(100))).await.status(), 200);
    }
}

#[tokio::test]
async fn a_missing_key_refuses_and_never_falls_back_to_the_clients() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let mut settings = settings(&upstream);
    let missing = Credential::Missing("the environment variable `KEY` is not set".to_owned());
    settings.providers.insert("anthropic".to_owned(), provider(Family::Anthropic, &upstream.url(), missing));
    let gateway = gateway(settings).await;
    let answer = talk(&gateway, post("/v1/messages", "{}")).await;
    assert_eq!(answer.status(), 500);
    let told = message("/v1/messages", &answer.json());
    assert!(told.contains("what is to pay for it is missing") && !told.contains("KEY"), "{told}");
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn nobody_is_asked_to_echo_a_request_with_its_key() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let gateway = gateway(settings(&upstream)).await;
    for method in ["TRACE", "CONNECT"] {
        let request = post("/v1/messages", "").replacen("POST", method, 1);
        let request = match method {
            "CONNECT" => request.replacen(&format!("/t/{TOKEN}/v1/messages"), "localhost:80", 1),
            _ => request,
        };
        let answer = talk(&gateway, request).await;
        assert_eq!(answer.status(), 405, "{method}: {}", answer.text());
    }
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn to_stop_means_to_finish_what_runs() {
    let events = ["data: 1\n\n", "data: 2\n\n", "data: 3\n\n"];
    let upstream = Upstream::start(move |number| match number {
        0 => Script::events(&events).paced(Duration::from_millis(100)),
        _ => Script::events(&events[..1]).paced(Duration::from_secs(60)),
    })
    .await;
    for (number, patience) in [(0, Duration::from_secs(5)), (1, SHORT)] {
        let mut settings = settings(&upstream);
        settings.timeouts.drain = patience;
        let gateway = gateway(settings).await;
        let mut socket = connect(&gateway).await;
        socket.write_all(post("/v1/messages", "{}").as_bytes()).await.unwrap();
        eventually("the request arrives", || upstream.count() == number + 1).await;
        let address = gateway.address();
        let (_, answer) = tokio::join!(gateway.shut_down(), within(rest(&mut socket)));
        let (body, is_whole) = answer.body();
        assert!(is_whole, "{}", answer.text());
        assert_eq!(body.contains("data: 3"), number == 0, "{body}");
        assert_eq!(body.contains("this proxy stops"), number == 1, "{body}");
        assert!(tokio::net::TcpStream::connect(address).await.is_err());
    }
}

/// An answer of each wire that begins and does not end.
fn begun(path: &str) -> &'static str {
    match path {
        "/v1/messages" => {
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n"
        }
        "/v1/responses" => {
            "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"r\",\"object\":\"response\",\"status\":\"in_progress\",\"model\":\"m\",\"output\":[]}}\n\n"
        }
        "/v1/chat/completions" => {
            "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"a\"},\"finish_reason\":null}]}\n\n"
        }
        _ => {
            "data: {\"responseId\":\"g\",\"candidates\":[{\"index\":0,\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"a\"}]}}]}\n\n"
        }
    }
}

#[tokio::test]
async fn what_did_not_end_in_time_ends_with_the_error_of_its_wire() {
    for path in PATHS {
        for (is_judged, has_begun) in [(false, true), (true, true), (false, false), (true, false)] {
            let upstream = Upstream::start(move |_| {
                let script = Script::events(&[begun(path)]);
                let pieces = if has_begun { script.pieces[..2].to_vec() } else { Vec::new() };
                Script { pieces, ..script }.ending(End::Hang)
            })
            .await;
            let mut settings = settings(&upstream);
            settings.timeouts.drain = SHORT;
            let gateway = if is_judged {
                let house = House::new();
                house.judge::<AfterLlmCall>("looks", |_| None);
                start(settings, Hooks::new(house.engine, HookSettings::default()).unwrap()).await.unwrap()
            } else {
                gateway(settings).await
            };
            let address = path.replace("generateContent", "streamGenerateContent?alt=sse");
            let input = json!({"model": "m", "max_tokens": 9, "stream": true, "input": "hi",
                "messages": [{"role": "user", "content": "hi"}],
                "contents": [{"role": "user", "parts": [{"text": "hi"}]}]});
            let mut body = input.clone();
            let keeps: &[&str] = match path {
                "/v1/messages" => &["model", "max_tokens", "stream", "messages"],
                "/v1/chat/completions" => &["model", "stream", "messages"],
                "/v1/responses" => &["model", "stream", "input"],
                _ => &["contents"],
            };
            body.as_object_mut().unwrap().retain(|key, _| keeps.contains(&key.as_str()));
            let mut socket = connect(&gateway).await;
            socket.write_all(post(&address, &body.to_string()).as_bytes()).await.unwrap();
            let mut bytes = Vec::new();
            if has_begun {
                bytes.extend_from_slice(until(&mut socket, "data: ").await.as_bytes());
            } else {
                eventually("the request arrives", || upstream.count() == 1).await;
            }
            let ((), ended) = tokio::join!(gateway.shut_down(), within(rest(&mut socket)));
            bytes.extend_from_slice(&ended.bytes);
            let answer = Answer { bytes, broken: ended.broken };
            let case = format!("{path} {is_judged} {has_begun}: {}", answer.text());
            assert_eq!(answer.status(), if has_begun { 200 } else { 503 }, "{case}");
            let (said, is_whole) = answer.body();
            assert!(is_whole && said.contains("backstop: this proxy stops"), "{case}");
            assert!(has_begun || message(path, &answer.json()).contains("stops"), "{case}");
            eventually("the provider is cut off", || upstream.cut() == 1).await;
        }
    }
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let mut settings = settings(&upstream);
    settings.listen = upstream.address;
    let error = start(settings, Transparent).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, StartError::Listen { .. }));
    assert!(text.contains(&upstream.address.to_string()) && text.contains("hint: another process"), "{text}");
}

#[tokio::test]
async fn settings_that_make_no_sense_do_not_start() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let failed = async |change: &dyn Fn(&mut backstop_gateway::Settings)| {
        let mut settings = settings(&upstream);
        change(&mut settings);
        start(settings, Transparent).await.unwrap_err().to_string()
    };
    let short = failed(&|settings| {
        settings.agents.insert("a".into(), secret("short"));
    })
    .await;
    assert!(short.contains("token of agent `a` is too short"), "{short}");
    let own = failed(&|settings| settings.token = secret("short")).await;
    assert!(own.contains("`gateway.token` is too short"), "{own}");
    let same = failed(&|settings| {
        settings.agents.insert("a".into(), secret(TOKEN));
    })
    .await;
    assert!(same.contains("is that of somebody else too"), "{same}");
    let unknown = failed(&|settings| {
        settings.defaults.insert(Family::OpenAi, vec!["none".to_owned()]);
    })
    .await;
    assert!(unknown.contains("`gateway.providers.openai` names the provider `none`"), "{unknown}");
    let hidden = ["hun", "ter2"].concat();
    let address = failed(&|settings| {
        let url = format!("https://me:{hidden}@example.com");
        settings.providers.insert("x".to_owned(), provider(Family::OpenAi, &url, Credential::Client));
    })
    .await;
    assert!(address.contains("provider `x`") && !address.contains(&hidden), "{address}");
}

#[tokio::test]
async fn two_gateways_do_not_know_each_others_tokens() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let first = gateway(settings(&upstream)).await;
    let mut other = settings(&upstream);
    other.token = secret("fedcba9876543210");
    let second = gateway(other).await;
    assert_eq!(talk(&first, post("/v1/messages", "{}")).await.status(), 200);
    assert_eq!(talk(&second, post("/v1/messages", "{}")).await.status(), 401);
}

#[tokio::test]
async fn what_is_no_http_is_no_trouble() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let gateway = gateway(settings(&upstream)).await;
    for nonsense in [&b"\0\x01\x02\r\n\r\n"[..], b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nbad header\r\n\r\n"] {
        let answer = talk(&gateway, nonsense).await;
        assert!(answer.bytes.is_empty() || answer.status() == 400, "{}", answer.text());
    }
    let huge = format!("GET /v1/models HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(200_000));
    let mut socket = connect(&gateway).await;
    let _ = socket.write_all(huge.as_bytes()).await;
    let mut first = [0; 12];
    // Whether the answer is seen depends on which side closes first.
    if within(socket.read_exact(&mut first)).await.is_ok() {
        assert_eq!(&first, b"HTTP/1.1 431");
    }
    assert_eq!(talk(&gateway, post("/v1/messages", "{}")).await.status(), 200);
}
