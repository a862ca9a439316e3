//! Amazon's frames, written and read once more, so that no mistake of the gateway's is made here, too.

use std::collections::BTreeMap;

use backstop_llm::Api;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::{Answer, Script, chunk as http_chunk, find};

pub(super) const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\ntransfer-encoding: chunked\r\n\r\n";

fn crc(bytes: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 };
        }
    }
    !sum
}

pub(super) fn frame(headers: &[(&str, &str)], payload: &str) -> Vec<u8> {
    frame_of(headers, payload.as_bytes())
}

fn frame_of(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut lines = Vec::new();
    for (name, value) in headers {
        lines.push(u8::try_from(name.len()).unwrap());
        lines.extend_from_slice(name.as_bytes());
        lines.push(7);
        lines.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
        lines.extend_from_slice(value.as_bytes());
    }
    let length = |length: usize| u32::try_from(length).unwrap().to_be_bytes();
    let mut frame = [length(16 + lines.len() + payload.len()), length(lines.len())].concat();
    frame.extend_from_slice(&crc(&frame).to_be_bytes());
    frame.extend_from_slice(&lines);
    frame.extend_from_slice(payload);
    frame.extend_from_slice(&crc(&frame).to_be_bytes());
    frame
}

/// An event of Messages as Bedrock sends it, padding and all.
pub(super) fn chunk(event: &Value) -> Vec<u8> {
    let headers =
        [(":event-type", "chunk"), (":content-type", "application/json"), (":message-type", "event")];
    frame(&headers, &json!({"bytes": STANDARD.encode(event.to_string()), "p": "abcdefgh"}).to_string())
}

pub(super) fn exception(kind: &str, message: &str) -> Vec<u8> {
    let headers =
        [(":exception-type", kind), (":content-type", "application/json"), (":message-type", "exception")];
    frame(&headers, &json!({ "message": message }).to_string())
}

/// An answer that streams these bytes, in pieces.
pub(super) fn streaming(pieces: &[&[u8]]) -> Script {
    let mut script = Script::whole(HEAD);
    script.pieces.extend(pieces.iter().filter(|piece| !piece.is_empty()).map(|piece| http_chunk(piece)));
    script.pieces.push(b"0\r\n\r\n".to_vec());
    script
}

/// The bytes of a chunked body.
pub(crate) fn bytes(answer: &Answer) -> Vec<u8> {
    let raw = answer.raw_body();
    if !answer.head().to_ascii_lowercase().contains("transfer-encoding: chunked") {
        return raw;
    }
    let (mut body, mut rest) = (Vec::new(), raw.as_slice());
    while let Some(end) = find(rest, b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if size == 0 || rest.len() < end + 2 + size + 2 {
            break;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 2 + size + 2..];
    }
    body
}

/// What a frame says: its kind, and its event or payload.
pub(super) fn read(mut rest: &[u8]) -> Vec<(String, Value)> {
    let mut said = Vec::new();
    while !rest.is_empty() {
        let number = |at: usize| u32::from_be_bytes(rest[at..at + 4].try_into().unwrap()) as usize;
        let (whole, headers) = (number(0), number(4));
        let (frame, more) = rest.split_at(whole);
        assert_eq!(crc(&frame[..8]).to_be_bytes(), frame[8..12]);
        assert_eq!(crc(&frame[..whole - 4]).to_be_bytes(), frame[whole - 4..]);
        let lines = String::from_utf8_lossy(&frame[12..12 + headers]).into_owned();
        let payload: Value = serde_json::from_slice(&frame[12 + headers..whole - 4]).unwrap();
        said.push(match payload["bytes"].as_str() {
            Some(event) => {
                assert!(lines.contains("chunk") && lines.contains("event"), "{lines}");
                ("chunk".to_owned(), serde_json::from_slice(&STANDARD.decode(event).unwrap()).unwrap())
            }
            None if lines.ends_with("event") && lines.contains("ping") => ("ping".to_owned(), payload),
            None => {
                let kind =
                    lines.split(|c: char| !c.is_ascii_alphabetic()).find(|word| word.ends_with("Exception"));
                (kind.unwrap().to_owned(), payload)
            }
        });
        rest = more;
    }
    said
}

/// The events of Messages in an answer.
pub(super) fn events(answer: &Answer) -> Vec<Value> {
    assert!(answer.head().contains("application/vnd.amazon.eventstream"), "{}", answer.text());
    read(&bytes(answer)).into_iter().map(|(_, event)| event).collect()
}

/// Events in lines as frames, one for each: its data as it is, and its name. What is no event of the wire has no frame.
pub(crate) fn of_lines(api: Api, lines: &[u8]) -> Vec<Vec<u8>> {
    let (mut frames, mut name) = (Vec::new(), String::new());
    for line in lines.split(|byte| *byte == b'\n') {
        if let Some(said) = line.strip_prefix(b"event: ") {
            name = String::from_utf8_lossy(said).into_owned();
        }
        let Some(data) = line.strip_prefix(b"data: ") else { continue };
        let kind = if api == Api::BedrockConverse { name.as_str() } else { "chunk" };
        let headers =
            [(":event-type", kind), (":content-type", "application/json"), (":message-type", "event")];
        frames.push(if api == Api::BedrockConverse {
            frame_of(&headers, data)
        } else {
            frame(&headers, &json!({"bytes": STANDARD.encode(data), "p": "abcd"}).to_string())
        });
    }
    frames
}

/// Where the parts of frames begin and end: prelude, headers, payload, sum; and one byte before and behind.
pub(crate) fn edges(frames: &[Vec<u8>]) -> Vec<usize> {
    let (mut edges, mut begin) = (Vec::new(), 0);
    for frame in frames {
        let headers = u32::from_be_bytes(frame[4..8].try_into().unwrap()) as usize;
        let parts = [0, 4, 8, 12, 12 + headers, frame.len() - 4];
        edges
            .extend(parts.iter().flat_map(|at| [begin + at, begin + at + 1, (begin + at).saturating_sub(1)]));
        begin += frame.len();
    }
    edges.sort_unstable();
    edges.dedup();
    edges.retain(|edge| *edge < begin);
    edges
}

/// A frame: its headers, and its payload.
pub(crate) type Parsed = (BTreeMap<String, String>, Vec<u8>);

/// The frames that bytes are, and what follows them that is none.
pub(crate) fn parse(mut rest: &[u8]) -> (Vec<Parsed>, &[u8]) {
    let mut frames = Vec::new();
    while rest.len() >= 16 {
        let number = |at: usize| u32::from_be_bytes(rest[at..at + 4].try_into().unwrap()) as usize;
        let (whole, headers) = (number(0), number(4));
        if whole > rest.len() || headers + 16 > whole || crc(&rest[..8]).to_be_bytes() != rest[8..12] {
            break;
        }
        let (frame, more) = rest.split_at(whole);
        if crc(&frame[..whole - 4]).to_be_bytes() != frame[whole - 4..] {
            break;
        }
        let (mut lines, mut named) = (&frame[12..12 + headers], BTreeMap::new());
        let mut text = |length: usize| {
            let (text, more) = lines.split_at(length);
            lines = more;
            text.to_vec()
        };
        let mut read = 0;
        while read < headers {
            let length = usize::from(text(1)[0]);
            let name = String::from_utf8(text(length)).unwrap();
            assert_eq!(text(1), [7], "{name}");
            let size = usize::from(u16::from_be_bytes(text(2).try_into().unwrap()));
            assert_eq!(named.insert(name, String::from_utf8(text(size)).unwrap()), None);
            read += 4 + length + size;
        }
        frames.push((named, frame[12 + headers..whole - 4].to_vec()));
        rest = more;
    }
    (frames, rest)
}

/// The event that stands in a chunk.
pub(crate) fn event_of_chunk(payload: &[u8]) -> Vec<u8> {
    let payload: Value = serde_json::from_slice(payload).unwrap();
    STANDARD.decode(payload["bytes"].as_str().unwrap()).unwrap()
}

#[test]
fn lines_become_frames() {
    let lines = b"event: a\ndata: {\"x\":1}\n\nevent: b\ndata: {}\n\n";
    for (api, kinds) in [(Api::BedrockConverse, ["a", "b"]), (Api::AnthropicMessages, ["chunk", "chunk"])] {
        let frames = of_lines(api, lines);
        let bytes = [frames.concat(), b"rest".to_vec()].concat();
        let (parsed, rest) = parse(&bytes);
        assert_eq!((parsed.len(), rest), (2, &b"rest"[..]));
        let named: Vec<&str> = parsed.iter().map(|(headers, _)| headers[":event-type"].as_str()).collect();
        assert_eq!(named, kinds);
        let payload = &parsed[0].1;
        let event = if api == Api::BedrockConverse { payload.clone() } else { event_of_chunk(payload) };
        assert_eq!(event, b"{\"x\":1}");
        let edges = edges(&frames);
        assert!(edges.contains(&12) && edges.contains(&frames[0].len()), "{edges:?}");
    }
}
