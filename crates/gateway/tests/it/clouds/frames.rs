//! Amazon's frames, written and read once more, so that no mistake of the gateway's is made here, too.

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
    frame.extend_from_slice(payload.as_bytes());
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
pub(super) fn bytes(answer: &Answer) -> Vec<u8> {
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
