//! A webhook on this machine that changes every call, or never answers.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use serde_json::json;

/// What it does with a call.
#[derive(Clone, Debug)]
pub(crate) enum Webhook {
    /// It sets the command to this one.
    Command(String),
    /// It takes the question and says nothing.
    Silent,
}

impl Webhook {
    /// Starts it and gives its address. It ends with the process.
    pub(crate) fn start(self) -> String {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = format!("http://{}/", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming().map_while(Result::ok) {
                match &self {
                    Self::Command(command) => change(stream, command),
                    Self::Silent => held.push(stream),
                }
            }
        });
        address
    }
}

/// Answers one request with another command. A connection that breaks concerns who asked.
fn change(stream: TcpStream, command: &str) {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let answer = json!({ "verdict": "modify", "modified_arguments": { "command": command } }).to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
    let _ = write!(reader.into_inner(), "{head}\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
}
