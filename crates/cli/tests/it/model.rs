//! `backstop model serve`.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::support::{ModelServer, User, snapshot};

fn post(base_url: &str, path: &str, body: &str) -> String {
    let address = base_url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn both_wires_play_one_script() {
    let user = User::new();
    let model = ModelServer::start(&user, "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
    let message = r#"{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}"#;
    let first = post(&model.base_url, "/v1/messages", message);
    assert!(first.contains("200 OK") && first.contains("one"), "{first}");
    let second = post(&model.base_url, "/v1/chat/completions", message);
    assert!(second.contains("200 OK") && second.contains("two"), "{second}");
    let done = model.stop();
    assert_eq!(done.code, Some(0));
    assert!(done.err.contains("2 requests, 2 of 2 turns used"), "{}", done.err);
}

#[test]
fn what_the_script_did_not_expect_is_reported() {
    let user = User::new();
    let model = ModelServer::start(&user, r#"{"expect": {"user_contains": "please"}, "text": "one"}"#);
    let message = r#"{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}"#;
    post(&model.base_url, "/v1/messages", message);
    let done = model.stop();
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains(r#"expects a user message that contains "please""#), "{}", done.err);
}

#[test]
fn scripts_and_ports_that_cannot_be_used() {
    let user = User::new();
    std::fs::write(user.work().join("bad.json"), "{\"txt\": \"x\"}").unwrap();
    snapshot!(user.run(&["model", "serve", "--script", "none.json"]).whole(), @r"
    exit: 1
    --- stdout
    --- stderr
    error: `none.json` can't be read: No such file or directory (os error 2)
    ");
    snapshot!(user.run(&["model", "serve", "--script", "bad.json"]).whole(), @r"
    exit: 1
    --- stdout
    --- stderr
    error: `bad.json`: script line 1, column 6: unknown field `txt`, expected one of `when`, `expect`, `repeat`, `thinking`, `text`, `tool_calls`, `stop`, `usage`, `delay_ms`, `chunk`, `chunk_delay_ms`, `fault`
    ");
    std::fs::write(user.work().join("ok.json"), "{\"text\": \"x\"}").unwrap();
    let args = ["model", "serve", "--script", "ok.json", "--api-key-env", "NO_SUCH_KEY"];
    snapshot!(user.run(&args).whole(), @r"
    exit: 2
    --- stdout
    --- stderr
    error: the environment variable `NO_SUCH_KEY` is not set
    hint: export NO_SUCH_KEY=...
    ");
}
