//! A provider that keeps what it was asked, and says in each answer who it is.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value, json};

use super::at;

/// A number that one of the policies takes out.
pub(super) fn lot(letter: char) -> String {
    format!("lot{letter}0123456789012345678901234567")
}

/// How often the configuration changed.
#[derive(Default)]
pub(super) struct Turns {
    count: Mutex<usize>,
    changed: Condvar,
}

impl Turns {
    pub(super) fn next(&self) {
        *self.count.lock().unwrap() += 1;
        self.changed.notify_all();
    }

    /// Nobody waits for a change any more.
    pub(super) fn end(&self) {
        *self.count.lock().unwrap() = usize::MAX;
        self.changed.notify_all();
    }

    /// Waits until both policies have come and gone since now.
    fn pass(&self) {
        let count = self.count.lock().unwrap();
        // An odd number: it goes on under the other policy than the one that it began with.
        let until = count.saturating_add(3);
        drop(self.changed.wait_while(count, |count| *count < until).unwrap());
    }
}

type Asked = Arc<Mutex<HashMap<String, Vec<Value>>>>;

pub(super) struct Upstream {
    pub(super) base_url: String,
    asked: Asked,
}

impl Upstream {
    pub(super) fn start(letter: char, turns: Arc<Turns>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base_url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Asked::default();
        let all = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (all, turns) = (Arc::clone(&all), Arc::clone(&turns));
                std::thread::spawn(move || {
                    stream.set_nodelay(true).unwrap();
                    let mut reader = BufReader::new(&stream);
                    while let Some(body) = request(&mut reader) {
                        let name = name_of(&body);
                        all.lock().unwrap().entry(name.clone()).or_default().push(body.clone());
                        if answer(&stream, letter, &name, &body, &turns).is_none() {
                            return;
                        }
                    }
                });
            }
        });
        Self { base_url, asked }
    }

    /// The bodies that came under this name.
    pub(super) fn asked(&self, name: &str) -> Vec<Value> {
        self.asked.lock().unwrap().get(name).cloned().unwrap_or_default()
    }
}

/// Which exchange it is: the last message begins with its name.
fn name_of(body: &Value) -> String {
    let messages = body["messages"].as_array().unwrap();
    let last = messages.last().unwrap();
    let said = last["content"].as_str().unwrap_or_else(|| at(last, "/content/0/text"));
    said.split(' ').next().unwrap_or_default().to_owned()
}

fn request(reader: &mut BufReader<&TcpStream>) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(serde_json::from_slice(&body).unwrap())
}

fn answer(mut stream: &TcpStream, letter: char, name: &str, body: &Value, turns: &Turns) -> Option<()> {
    let said = format!("upstream {letter} to {name}; both {} and {} are here. ", lot('a'), lot('b'));
    let calls = ['a', 'b'].map(|tool| (format!("toolu_{name}_{tool}"), format!("tool_{tool}")));
    if body["stream"] != true {
        let mut content = vec![json!({ "type": "text", "text": said })];
        content
            .extend(calls.map(
                |(id, name)| json!({ "type": "tool_use", "id": id, "name": name, "input": { "n": 1 } }),
            ));
        let answer = json!({
            "id": format!("msg_{name}"), "type": "message", "role": "assistant", "model": "scripted-model",
            "content": content, "stop_reason": "tool_use", "stop_sequence": null,
            "usage": { "input_tokens": 11, "output_tokens": 5 },
        })
        .to_string();
        let length = answer.len();
        return write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{answer}"
        )
        .ok();
    }
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    .ok()?;
    let events = events(name, &said, calls);
    let is_held = body.to_string().contains("hold it");
    for (number, event) in events.iter().enumerate() {
        // In the midst of its text.
        if number == 3 && is_held {
            turns.pass();
        }
        let event = format!("event: {}\ndata: {event}\n\n", at(event, "/type"));
        write!(stream, "{:x}\r\n{event}\r\n", event.len()).ok()?;
    }
    write!(stream, "0\r\n\r\n").ok()
}

fn events(name: &str, said: &str, calls: [(String, String); 2]) -> Vec<Value> {
    let mut events = vec![
        json!({ "type": "message_start", "message": {
            "id": format!("msg_{name}"), "type": "message", "role": "assistant", "model": "scripted-model", "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": { "input_tokens": 11, "output_tokens": 1 },
        } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
    ];
    let pieces = said.as_bytes().chunks(7).map(|piece| String::from_utf8_lossy(piece).into_owned());
    events.extend(pieces.map(|piece| {
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": piece } })
    }));
    events.push(json!({ "type": "content_block_stop", "index": 0 }));
    for (index, (id, tool)) in (1..).zip(calls) {
        events.push(json!({ "type": "content_block_start", "index": index,
            "content_block": { "type": "tool_use", "id": id, "name": tool, "input": {} } }));
        events.push(json!({ "type": "content_block_delta", "index": index,
            "delta": { "type": "input_json_delta", "partial_json": "{\"n\": 1}" } }));
        events.push(json!({ "type": "content_block_stop", "index": index }));
    }
    events.push(json!({ "type": "message_delta",
        "delta": { "stop_reason": "tool_use", "stop_sequence": null }, "usage": { "output_tokens": 5 } }));
    events.push(json!({ "type": "message_stop" }));
    events
}
