//! The provider client against real sockets: the scripted server, and a server that misbehaves on purpose.
#![expect(clippy::unwrap_used, reason = "tests may fail loudly, their helpers too")]

use std::time::{Duration, Instant};

use backstop_hooks::Secret;
use backstop_hooks::conversation::Message;
use backstop_llm::{
    Api, ApiKey, ErrorCategory, FailureKind, Model, ModelError, ModelEvent, ModelRequest, ProviderClient,
    ProviderErrorKind, ProviderSettings, RetryPolicy, Script, ScriptedModel, ScriptedServer, ServerOptions,
    TimeoutPhase, WireError,
};
use futures_util::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

async fn server(script: &str) -> ScriptedServer {
    ScriptedServer::start(Script::parse(script).unwrap(), ServerOptions::default()).await.unwrap()
}

fn settings(api: Api, base_url: String) -> ProviderSettings {
    let mut settings = ProviderSettings::new("test", api, base_url);
    settings.retry = RetryPolicy { base_delay: Duration::from_millis(5), ..RetryPolicy::default() };
    settings.timeouts.total = Duration::from_secs(20);
    settings
}

fn client(api: Api, server: &ScriptedServer) -> ProviderClient {
    ProviderClient::new(settings(api, server.base_url())).unwrap()
}

fn request() -> ModelRequest {
    ModelRequest::new("test-model", vec![Message::user("hello there")])
}

/// All that a stream says: the visible text, and the error at its end.
async fn read(model: &dyn Model) -> (String, Option<ModelError>) {
    let (mut stream, mut text) = (model.stream(request()), String::new());
    while let Some(event) = stream.next().await {
        match event {
            Ok(ModelEvent::TextDelta { text: more, .. }) => text.push_str(&more),
            Ok(_) => {}
            Err(error) => {
                assert!(stream.next().await.is_none(), "an error is the last thing");
                return (text, Some(error));
            }
        }
    }
    (text, None)
}

/// A server that answers each connection with the same bytes, then closes it (or, with `stall`, does not).
async fn raw_server(answer: &'static [u8], stall: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let _ = socket.read(&mut request).await;
            let _ = socket.write_all(answer).await;
            if stall {
                tokio::time::sleep(Duration::from_secs(30)).await;
            }
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn both_wires_streamed_and_whole_say_the_same() {
    let script = r#"{"repeat": true, "thinking": "hm", "text": "Reading it now, all of it.", "tool_calls": [
        {"id": "c1", "name": "read", "arguments": {"path": "a.rs"}}, {"name": "list"}], "usage": {"input": 11, "output": 7}}"#;
    for api in Api::ALL {
        let server = server(script).await;
        let client = client(api, &server);
        let mut stream = client.stream(request());
        let streamed = stream.complete().await.unwrap();
        let whole = client.complete(request()).await.unwrap();
        assert_eq!(streamed.message.visible_text(), "Reading it now, all of it.", "{api}");
        let call = streamed.message.tool_calls().next().unwrap();
        assert_eq!(
            (call.id.as_str(), call.name.as_str(), call.arguments["path"].as_str()),
            ("c1", "read", Some("a.rs"))
        );
        assert_eq!(streamed.message.content.len(), whole.message.content.len());
        assert_eq!((streamed.stop, streamed.usage), (whole.stop, whole.usage), "{api}");

        let stats = stream.stats();
        assert_eq!(stats.attempts, 1);
        assert!(
            stats.request_bytes > 50 && stats.response_bytes > 200 && stats.time_to_first_byte.is_some(),
            "{stats:?}"
        );
        let seen = server.requests();
        assert_eq!(
            seen.iter().map(|seen| (seen.api, seen.stream)).collect::<Vec<_>>(),
            [(api, true), (api, false)]
        );
        assert_eq!(seen[0].request.messages, request().messages);
        assert!(server.shut_down().await.is_clean());
    }
}

#[tokio::test]
async fn in_process_and_http_play_the_same() {
    let script = r#"{"text": "one"}
        {"fault": {"half_stream_after": 4}, "text": "cut off somewhere in here"}
        {"fault": {"http_status": {"status": 401}}}"#;
    for api in Api::ALL {
        let server = server(script).await;
        let local = ScriptedModel::with_api(Script::parse(script).unwrap(), api);
        let remote = client(api, &server);
        for _ in 0..3 {
            let (local, remote) = (read(&local).await, read(&remote).await);
            assert_eq!(local.0, remote.0);
            let category = |error: Option<ModelError>| error.map(|error| error.category());
            assert_eq!(category(local.1), category(remote.1));
        }
    }
}

#[tokio::test]
async fn rate_limits_and_failures_are_retried() {
    for (fault, attempts) in [
        (r#"{"fault": {"http_status": {"status": 429, "retry_after": 0.3}}}"#, 2),
        (r#"{"fault": {"http_status": {"status": 500}}} {"fault": {"http_status": {"status": 529}}}"#, 3),
        (r#"{"fault": {"http_status": {"status": 408}}} {"fault": {"http_status": {"status": 503}}}"#, 3),
    ] {
        for api in Api::ALL {
            let server = server(&format!("{fault} {{\"text\": \"ok\"}}")).await;
            let begun = Instant::now();
            let mut stream = client(api, &server).stream(request());
            assert_eq!(stream.complete().await.unwrap().message.visible_text(), "ok");
            assert_eq!(stream.stats().attempts, attempts);
            assert!(!fault.contains("retry_after") || begun.elapsed() >= Duration::from_millis(300));
        }
    }
}

#[tokio::test]
async fn retries_end() {
    let server =
        server(r#"{"repeat": true, "fault": {"http_status": {"status": 500, "message": "boom"}}}"#).await;
    let error = read(&client(Api::OpenAiChat, &server)).await.1.unwrap();
    assert_eq!(error.category(), ErrorCategory::Server);
    assert!(error.to_string().contains("boom"));
    assert_eq!(server.report().requests, 4);
}

#[tokio::test]
async fn long_waits_are_left_to_the_caller() {
    let server = server(r#"{"fault": {"http_status": {"status": 429, "retry_after": 3600}}}"#).await;
    match read(&client(Api::AnthropicMessages, &server)).await.1.unwrap() {
        ModelError::Provider(error) => assert_eq!(error.retry_after, Some(Duration::from_secs(3600))),
        other => panic!("{other}"),
    }
    assert_eq!(server.report().requests, 1);
}

#[tokio::test]
async fn a_refused_key_is_final_and_never_shown() {
    let key = ["hunter", "2-secret"].concat();
    let options =
        ServerOptions { required_key: Some(Secret::new("another".to_owned())), ..ServerOptions::default() };
    let script = Script::parse(r#"{"text": "x", "repeat": true}"#).unwrap();
    let server = ScriptedServer::start(script, options).await.unwrap();
    for api in Api::ALL {
        let mut settings = settings(api, server.base_url());
        settings.api_key = Some(ApiKey::new(key.clone(), "TEST_KEY"));
        let client = ProviderClient::new(settings.clone()).unwrap();
        let error = read(&client).await.1.unwrap();
        assert_eq!(error.category(), ErrorCategory::Auth);
        assert!(
            error.to_string().contains("`TEST_KEY`")
                && !format!("{error}{error:?}{client:?}").contains("hunter")
        );

        settings.api_key = Some(ApiKey::new("another", "TEST_KEY"));
        let accepted = ProviderClient::new(settings).unwrap();
        assert!(accepted.complete(request()).await.is_ok());
    }
    assert_eq!(server.report().requests, Api::ALL.len() as u64);
}

#[tokio::test]
async fn a_key_that_a_provider_quotes_is_masked() {
    let key = ["hunter", "2-secret"].concat();
    let script =
        format!(r#"{{"fault": {{"http_status": {{"status": 400, "message": "bad key {key} or so"}}}}}}"#);
    let server = server(&script).await;
    let mut settings = settings(Api::OpenAiChat, server.base_url());
    settings.api_key = Some(ApiKey::new(key, "TEST_KEY"));
    let error = read(&ProviderClient::new(settings).unwrap()).await.1.unwrap();
    assert_eq!(error.category(), ErrorCategory::InvalidRequest);
    assert!(error.to_string().contains("bad key *** or so"), "{error}");
    assert_eq!(server.report().requests, 1);
}

#[tokio::test]
async fn a_key_that_is_quoted_inside_a_stream_is_masked() {
    let key = ["hunter", "2-secret"].concat();
    let data = format!(r#"data: {{\"error\":{{\"message\":\"for {key}\",\"code\":\"content_filter\"}}}}"#);
    let server = server(&format!(r#"{{"fault": {{"raw_sse": "{data}\n\n"}}}}"#)).await;
    let mut settings = settings(Api::OpenAiChat, server.base_url());
    settings.api_key = Some(ApiKey::new(key, "TEST_KEY"));
    let error = read(&ProviderClient::new(settings).unwrap()).await.1.unwrap();
    assert_eq!(error.category(), ErrorCategory::ContentFilter);
    assert!(error.to_string().contains("for ***"), "{error}");
}

#[tokio::test]
async fn an_overloaded_provider_that_said_nothing_yet_is_asked_again() {
    let data = r#"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}\n\n"#;
    let server = server(&format!(r#"{{"fault": {{"raw_sse": "{data}"}}}} {{"text": "ok"}}"#)).await;
    let (text, error) = read(&client(Api::AnthropicMessages, &server)).await;
    assert_eq!((text.as_str(), error), ("ok", None));
}

#[tokio::test]
async fn half_a_stream_is_an_error_and_not_asked_again() {
    for api in Api::ALL {
        let server = server(r#"{"repeat": true, "text": "a text of some length", "chunk": 4, "fault": {"half_stream_after": 6}}"#).await;
        let (text, error) = read(&client(api, &server)).await;
        let error = error.unwrap();
        assert!("a text of some length".starts_with(&text) && !text.is_empty(), "{api} {text}");
        assert_eq!(error, ModelError::Wire(WireError::Truncated));
        assert_eq!(error.failure_kind(), Some(FailureKind::Terminated));
        let error = client(api, &server).complete(request()).await.unwrap_err();
        assert_eq!(error.category(), ErrorCategory::Protocol, "{error}");
        assert_eq!(server.report().requests, 2);
    }
}

#[tokio::test]
async fn a_broken_connection_is_an_error_and_not_asked_again() {
    for fault in [r#"{"reset_after": 4}"#, "\"close_connection\""] {
        let text = if fault.contains("reset") { "\"text\": \"a text of some length\"," } else { "" };
        let server = server(&format!("{{\"repeat\": true, {text} \"fault\": {fault}}}")).await;
        let error = read(&client(Api::AnthropicMessages, &server)).await.1.unwrap();
        assert!(matches!(error, ModelError::Interrupted { .. }), "{error:?}");
        assert_eq!(error.category(), ErrorCategory::Network);
        assert_eq!(server.report().requests, 1);
    }
}

#[tokio::test]
async fn nobody_there_is_retried_and_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let client = ProviderClient::new(settings(Api::OpenAiChat, format!("http://{address}"))).unwrap();
    let mut stream = client.stream(request());
    let error = stream.complete().await.unwrap_err();
    assert!(matches!(&error, ModelError::Connect { host, .. } if *host == address.to_string()), "{error:?}");
    assert_eq!(error.failure_kind(), Some(FailureKind::ConnectionClosed));
    assert_eq!(stream.stats().attempts, 4);
}

#[tokio::test]
async fn tls_is_set_up_at_the_first_call_and_its_failure_is_typed() {
    let plain = raw_server(b"this is not TLS", false).await.replace("http:", "https:");
    let error = read(&ProviderClient::new(settings(Api::OpenAiChat, plain)).unwrap()).await.1.unwrap();
    assert_eq!(error.category(), ErrorCategory::Network, "{error}");
}

#[tokio::test]
async fn slow_answers_time_out() {
    let server = server(
        r#"{"delay_ms": 5000, "text": "late"}
           {"chunk_delay_ms": 5000, "text": "stalls"}
           {"chunk_delay_ms": 60, "chunk": 1, "text": "never ends in the time that there is for it all"}"#,
    )
    .await;
    let mut settings = settings(Api::AnthropicMessages, server.base_url());
    settings.timeouts.first_byte = Duration::from_millis(150);
    settings.timeouts.idle = Duration::from_millis(150);
    settings.timeouts.total = Duration::from_millis(700);
    let client = ProviderClient::new(settings).unwrap();
    for expected in [TimeoutPhase::FirstByte, TimeoutPhase::Idle, TimeoutPhase::Total] {
        let error = read(&client).await.1.unwrap();
        assert!(
            matches!(error, ModelError::Timeout { phase, .. } if phase == expected),
            "{expected}: {error}"
        );
        assert_eq!(error.failure_kind(), Some(FailureKind::Timeout));
    }
    assert_eq!(server.report().requests, 3);
}

#[tokio::test]
async fn a_huge_answer_is_bounded() {
    let script = format!("{{\"repeat\": true, \"chunk\": 4000, \"text\": \"{}\"}}", "x".repeat(2_000_000));
    let server = server(&script).await;
    for api in Api::ALL {
        let mut settings = settings(api, server.base_url());
        settings.max_response_bytes = 100_000;
        let client = ProviderClient::new(settings).unwrap();
        let (text, error) = read(&client).await;
        assert!(text.len() <= 100_000);
        assert_eq!(error, Some(ModelError::TooLarge { limit: 100_000 }));
        assert_eq!(client.complete(request()).await.unwrap_err(), ModelError::TooLarge { limit: 100_000 });
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let base_url = raw_server(
        b"HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/x\r\ncontent-length: 0\r\n\r\n",
        false,
    )
    .await;
    let client = ProviderClient::new(settings(Api::OpenAiChat, base_url)).unwrap();
    match read(&client).await.1.unwrap() {
        ModelError::Provider(error) => {
            assert_eq!((error.kind, error.status), (ProviderErrorKind::Unexpected, 307));
            assert!(error.to_string().contains("redirect"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_page_is_not_an_answer() {
    let base_url =
        raw_server(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 5\r\n\r\nhello", false)
            .await;
    let client = ProviderClient::new(settings(Api::AnthropicMessages, base_url)).unwrap();
    let error = read(&client).await.1.unwrap().to_string();
    assert!(error.contains("hint: is `http://127.0.0.1"), "{error}");
}

#[tokio::test]
async fn an_answer_in_one_piece_serves_a_stream() {
    let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nrequest-id: req_1\r\nconnection: close\r\n\r\n\
        {\"id\":\"1\",\"model\":\"m\",\"choices\":[{\"message\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}";
    let client = ProviderClient::new(settings(Api::OpenAiChat, raw_server(answer, false).await)).unwrap();
    let mut stream = client.stream(request());
    assert_eq!(stream.complete().await.unwrap().message.visible_text(), "hi");
    let shown = format!("{:?}", stream.stats());
    assert!(stream.stats().upstream_request_id.is_some() && !shown.contains("req_1"), "{shown}");
}

#[tokio::test]
async fn a_stalled_error_body_still_tells_the_status() {
    let answer = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{\"error\":";
    let mut settings = settings(Api::OpenAiChat, raw_server(answer, true).await);
    settings.timeouts.idle = Duration::from_millis(100);
    let error = read(&ProviderClient::new(settings).unwrap()).await.1.unwrap();
    assert_eq!(error.category(), ErrorCategory::InvalidRequest);
}

#[tokio::test]
async fn faults_in_tool_calls_reach_the_message() {
    let script = r#"{"fault": "malformed_json", "tool_calls": [{"name": "exec", "arguments": {"command": "ls"}}]}
        {"fault": "duplicate_tool_call_ids", "tool_calls": [{"name": "a"}, {"name": "b"}]}"#;
    for api in Api::ALL {
        let server = server(script).await;
        let client = client(api, &server);
        let answer = client.stream(request()).complete().await.unwrap();
        assert!(answer.message.tool_calls().next().unwrap().malformed.is_some());
        let answer = client.stream(request()).complete().await.unwrap();
        let ids: Vec<_> = answer.message.tool_calls().map(|call| call.id.as_str()).collect();
        assert_eq!(ids, ["call_2_1", "call_2_1"]);
    }
}

#[tokio::test]
async fn raw_events_are_sent_as_they_are() {
    let server = server(r#"{"fault": {"raw_sse": "data: {\"choices\": 5}\n\n"}}"#).await;
    let error = read(&client(Api::OpenAiChat, &server)).await.1.unwrap();
    assert!(error.to_string().contains("`choices` is not an array"), "{error}");
}

#[tokio::test]
async fn a_script_says_what_it_expected() {
    let server = server(
        r#"{"when": {"user_contains": "nothing like it"}, "text": "never"}
           {"expect": {"user_contains": "good bye"}, "text": "never"}"#,
    )
    .await;
    let client = client(Api::AnthropicMessages, &server);
    let error = read(&client).await.1.unwrap().to_string();
    assert!(
        error.contains("turn 2 of the script expects a user message that contains \"good bye\""),
        "{error}"
    );
    let error = read(&client).await.1.unwrap().to_string();
    assert!(error.contains("none of the 2 turns is left"), "{error}");
    let report = server.shut_down().await;
    assert!(!report.is_clean());
    assert_eq!((report.unused, report.mismatches.len()), (vec![1], 2));
}

#[tokio::test]
async fn the_server_bounds_bodies_and_answers_the_small_addresses() {
    let options = ServerOptions { max_body_bytes: 1_000, ..ServerOptions::default() };
    let server = ScriptedServer::start(Script::parse("{\"text\": \"x\"}").unwrap(), options).await.unwrap();
    let large = ModelRequest::new("m", vec![Message::user("x".repeat(2_000))]);
    let client = client(Api::AnthropicMessages, &server);
    match client.complete(large).await.unwrap_err() {
        ModelError::Provider(error) => assert_eq!(error.kind, ProviderErrorKind::RequestTooLarge),
        other => panic!("{other:?}"),
    }
    let ask = async |head: &str, body: &str| {
        let mut socket = tokio::net::TcpStream::connect(server.address()).await.unwrap();
        let length = body.len();
        let request = format!(
            "{head} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        answer
    };
    assert!(ask("GET /v1/models", "").await.contains("scripted-model"));
    let count = r#"{"model": "m", "messages": [{"role": "user", "content": "hi"}]}"#;
    assert!(ask("POST /v1/messages/count_tokens", count).await.contains("{\"input_tokens\":"));
    assert!(ask("POST /v1/chat/completions", "{").await.contains("is not JSON"));
    assert!(ask("GET /nothing", "").await.starts_with("HTTP/1.1 404"));
}

#[tokio::test]
async fn dropping_the_stream_ends_the_call() {
    let server =
        server(r#"{"chunk_delay_ms": 50, "chunk": 1, "text": "a long answer that nobody waits for"}"#).await;
    let mut stream = client(Api::OpenAiChat, &server).stream(request());
    assert!(stream.next().await.unwrap().is_ok());
    drop(stream);
    let begun = Instant::now();
    server.shut_down().await;
    assert!(begun.elapsed() < Duration::from_millis(900), "the server still writes: {:?}", begun.elapsed());
}
