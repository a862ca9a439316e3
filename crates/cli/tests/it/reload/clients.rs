//! Clients of the server, each with a manner of its own.

use std::io::{self, BufRead, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::support::PATIENCE;
use super::at;
use super::upstream::lot;

/// How long a client thinks between two exchanges.
const PAUSE: Duration = Duration::from_millis(5);
/// The most turns of a conversation.
const LONGEST: usize = 30;

/// How a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// For whole answers, on one connection.
    Kept,
    /// With much text, which is judged elsewhere.
    Large,
    /// In one conversation that grows, so that what is known of it counts.
    Grows,
    /// On a new connection each time.
    Anew,
    /// For streams, on one connection.
    Streams,
    /// For streams that go on when the configuration has changed twice.
    Held,
}

/// What a client was answered.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) name: String,
    pub(super) trace: String,
    pub(super) manner: Manner,
    pub(super) status: u16,
    /// Whether it came to its end.
    pub(super) is_whole: bool,
    pub(super) text: String,
    /// The tools that it calls.
    pub(super) calls: Vec<String>,
}

pub(super) struct Client {
    address: String,
    path: String,
    manner: Manner,
    number: usize,
    asked: usize,
    connection: Option<BufReader<TcpStream>>,
    /// What was said before in the conversation.
    before: Vec<Value>,
}

/// A request of which a part was sent.
pub(super) struct Half {
    rest: Vec<u8>,
    name: String,
    trace: String,
}

impl Client {
    pub(super) fn new(url: &str, manner: Manner, number: usize) -> Self {
        let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let (address, path) = (address.to_owned(), format!("/{path}/v1/messages"));
        Self { address, path, manner, number, asked: 0, connection: None, before: Vec::new() }
    }

    /// Asks and waits for the answer.
    pub(super) fn ask(&mut self) -> Answered {
        std::thread::sleep(PAUSE);
        let half = self.begins();
        self.ends(half)
    }

    /// Sends a request up to the middle of its body.
    pub(super) fn begins(&mut self) -> Half {
        self.asked += 1;
        let name = format!("ask-{}-{}", self.number, self.asked);
        let trace = format!("{:016x}{:016x}", self.number + 1, self.asked);
        let session = if self.manner == Manner::Grows { self.number.to_string() } else { name.clone() };
        let body = self.body(&name).to_string();
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nx-session-id: conversation-{session}\r\n\
             traceparent: 00-{trace}-00000000000000ff-01\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.path,
            self.address,
            body.len()
        );
        let mut whole = (head + &body).into_bytes();
        let rest = whole.split_off(whole.len() - body.len() / 2);
        self.connected().get_mut().write_all(&whole).unwrap();
        Half { rest, name, trace }
    }

    /// Sends the rest of a request and waits for the answer.
    pub(super) fn ends(&mut self, half: Half) -> Answered {
        let Half { rest, name, trace } = half;
        let connection = self.connected();
        // Where it is refused before that, the answer says so.
        let _ = connection.get_mut().write_all(&rest);
        let (status, body) = response(connection).unwrap_or_else(|error| panic!("{name}: {error}"));
        if self.manner == Manner::Anew {
            self.connection = None;
        }
        let (is_whole, text, calls) = read(&body);
        Answered { name, trace, manner: self.manner, status, is_whole, text, calls }
    }

    fn connected(&mut self) -> &mut BufReader<TcpStream> {
        let address = &self.address;
        self.connection.get_or_insert_with(|| {
            let stream = TcpStream::connect(address).unwrap();
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            BufReader::new(stream)
        })
    }

    fn body(&mut self, name: &str) -> Value {
        let said = match self.manner {
            Manner::Held => "hold it".to_owned(),
            Manner::Large => "so many words that nobody reads them ".repeat(1_100),
            Manner::Grows => "what was said before is said again ".repeat(40),
            Manner::Kept | Manner::Anew | Manner::Streams => String::new(),
        };
        let said = format!("{name} with {} and {} {said}", lot('a'), lot('b'));
        let streams = matches!(self.manner, Manner::Streams | Manner::Held)
            || self.manner == Manner::Anew && self.asked.is_multiple_of(2);
        if self.manner != Manner::Grows || self.before.len() > LONGEST * 2 {
            self.before.clear();
        }
        self.before.push(json!({ "role": "user", "content": said }));
        let body = json!({
            "model": "scripted-model", "max_tokens": 99, "stream": streams, "messages": self.before,
            "tools": [
                { "name": "tool_a", "description": "one", "input_schema": { "type": "object" } },
                { "name": "tool_b", "description": "another", "input_schema": { "type": "object" } },
                { "type": "web_search_20250305", "name": "web_search" },
                { "type": "web_fetch_20250910", "name": "web_fetch" },
            ],
        });
        self.before.push(json!({ "role": "assistant", "content": "understood" }));
        body
    }
}

fn next(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    match reader.read_line(&mut line)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line.trim_end().to_owned()),
    }
}

/// One response, to its end; the connection stays.
pub(crate) fn response(reader: &mut impl BufRead) -> io::Result<(u16, String)> {
    let status = next(reader)?.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
    let (mut length, mut is_chunked) = (0, false);
    loop {
        let header = next(reader)?.to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length: ") {
            length = value.parse().unwrap();
        }
        is_chunked |= header == "transfer-encoding: chunked";
    }
    let mut body = Vec::new();
    loop {
        let count = if is_chunked { usize::from_str_radix(&next(reader)?, 16).unwrap() } else { length };
        let begun = body.len();
        body.resize(begun + count, 0);
        reader.read_exact(&mut body[begun..])?;
        if !is_chunked {
            break;
        }
        next(reader)?;
        if count == 0 {
            break;
        }
    }
    Ok((status, String::from_utf8(body).unwrap()))
}

/// Whether an answer is whole, its text, and the tools that it calls.
fn read(body: &str) -> (bool, String, Vec<String>) {
    if let Ok(answer) = serde_json::from_str::<Value>(body) {
        let content = answer["content"].as_array().cloned().unwrap_or_default();
        let text = content.iter().map(|block| at(block, "/text")).collect();
        return (!content.is_empty(), text, called(content.iter()));
    }
    let events: Vec<Value> = body
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    let text = events.iter().map(|event| at(event, "/delta/text")).collect();
    let calls = called(events.iter().filter_map(|event| event.get("content_block")));
    let is_whole = events.last().is_some_and(|event| event["type"] == "message_stop");
    (is_whole && !body.contains("\"error\""), text, calls)
}

fn called<'a>(blocks: impl Iterator<Item = &'a Value>) -> Vec<String> {
    blocks.filter(|block| block["type"] == "tool_use").map(|block| at(block, "/name").to_owned()).collect()
}
