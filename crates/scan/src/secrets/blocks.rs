//! Structured secrets: key blocks, JSON web tokens, and credentials inside URLs.

use super::super::span::{Class, Evidence, Span};
use super::super::text::{ALNUM, ByteSet, DASH, DOT, EQUALS, PLUS_SLASH, SPACE, URL64, at, before, cut};

/// The longest key block that is taken for one, in bytes. A block that does not end until then is cut here.
pub(crate) const LONGEST_BLOCK: usize = 16 * 1024;
/// How far behind the start of a line of armour its label ends.
const LONGEST_LABEL: usize = 71;
/// The longest part of a JSON web token.
pub(crate) const LONGEST_TOKEN: usize = 4 * 1024;

fn secret(kind: &'static str, start: usize, end: usize, confidence: f32, evidence: Evidence) -> Span {
    Span { class: Class::Secret, kind, start, end, confidence, evidence }
}

/// A private key in PEM armour that begins at `start`, up to its end line.
///
/// A block without an end line, or with another block before it, is a key that was cut off: it reaches as far
/// as its lines look like a body.
pub(super) fn private_key(text: &[u8], start: usize) -> Option<Span> {
    let window = cut(text, start, start.saturating_add(LONGEST_BLOCK).min(text.len()));
    let label_end = cut(window, 11, window.len().min(LONGEST_LABEL)).iter().position(|&b| b == b'-')? + 11;
    let window = cut(window, 0, find(window, b"-----BEGIN", label_end).unwrap_or(window.len()));
    let label = cut(window, 11, label_end);
    let spelled = label.iter().all(|&b| ALNUM.has(b) || matches!(b, b' ' | b'_' | b'/'));
    if !spelled || !super::is_private_label(label) {
        return None;
    }
    let close = b"-----END";
    let end = match find(window, close, label_end) {
        Some(at_end) => end_of_armour(window, at_end + close.len()),
        None => end_of_body(window, label_end),
    };
    Some(secret("private_key", start, start + end, 0.99, Evidence::Format))
}

fn end_of_armour(window: &[u8], from: usize) -> usize {
    let tail = cut(window, from, (from + 80).min(window.len()));
    match find(tail, b"-----", 0) {
        Some(offset) => from + offset + 5,
        None => from + tail.iter().position(|&b| b == b'\n').unwrap_or(tail.len()),
    }
}

fn end_of_body(window: &[u8], from: usize) -> usize {
    let body = ALNUM
        .or(PLUS_SLASH)
        .or(EQUALS)
        .or(DASH)
        .or(SPACE)
        .or(ByteSet::or(DOT, super::super::text::TOKEN_MARK));
    let escaped = |b: u8| body.has(b) || b == b'\\' || b == b',';
    let rest = cut(window, from, window.len());
    let mut end = from + rest.iter().position(|&b| !escaped(b)).unwrap_or(rest.len());
    while end > from && SPACE.has(before(window, end)) {
        end -= 1;
    }
    end
}

/// `-----BEGIN` in base64, as far as it says nothing of what follows.
pub(crate) const WRAPPED_ARMOUR: &str = "LS0tLS1CRUdJTi";
/// How much of a wrapped block is unwrapped, in characters: its first line.
const WRAPPED_HEAD: usize = 64;

/// A private key in PEM armour that was written in base64 once more, as in Kubernetes' `client-key-data`.
pub(super) fn wrapped_private_key(text: &[u8], start: usize) -> Option<Span> {
    if ALNUM.has(before(text, start)) {
        return None;
    }
    let body = ALNUM.or(PLUS_SLASH).run(text, start, LONGEST_BLOCK);
    let head = decoded(cut(text, start, body.min(start + WRAPPED_HEAD)));
    let label = head.get("-----BEGIN ".len()..)?.split(|&b| b == b'-').next()?;
    let end = EQUALS.run(text, body, 2);
    super::is_private_label(label).then(|| secret("private_key", start, end, 0.99, Evidence::Format))
}

/// A key file of `PuTTY`, from its first line to its authentication code.
pub(super) fn putty_key(text: &[u8], start: usize) -> Option<Span> {
    let window = cut(text, start, start.saturating_add(LONGEST_BLOCK).min(text.len()));
    find(window, b"Private-Lines:", 0)?;
    let end = find(window, b"Private-MAC:", 0).map_or(window.len(), |mac| {
        let line = cut(window, mac, window.len());
        mac + line.iter().position(|&b| b == b'\n').unwrap_or(line.len())
    });
    Some(secret("private_key", start, start + end, 0.99, Evidence::Format))
}

/// A JSON web token that begins at `start` with the base64url form of `{"`.
pub(super) fn json_web_token(text: &[u8], start: usize) -> Option<Span> {
    if ALNUM.has(before(text, start)) {
        return None;
    }
    let header = URL64.run(text, start, LONGEST_TOKEN);
    let dot = |i: usize| at(text, i) == b'.';
    if header - start < 16 || !dot(header) {
        return None;
    }
    let claims = URL64.run(text, header + 1, LONGEST_TOKEN);
    if claims - header < 12 {
        return None;
    }
    let body = URL64.or(DOT).or(PLUS_SLASH).or(EQUALS);
    let end = if dot(claims) { body.run(text, claims + 1, LONGEST_TOKEN) } else { claims };
    let structured = decodes_to_object(cut(text, start, header));
    let evidence = if structured { Evidence::Checksum } else { Evidence::Format };
    Some(secret("json_web_token", start, end, if structured { 0.98 } else { 0.6 }, evidence))
}

/// Returns whether the first bytes of `value`, read as base64url, open a JSON object with a key.
fn decodes_to_object(value: &[u8]) -> bool {
    let head = cut(value, 0, value.len().min(32));
    let is_alphabet = head.iter().all(|&byte| base64_value(byte).is_some());
    let open: Vec<u8> = decoded(head).into_iter().filter(|b| !b.is_ascii_whitespace()).collect();
    is_alphabet && open.starts_with(b"{\"") && open.iter().skip(2).all(|b| b.is_ascii_graphic() || *b >= 0x80)
}

/// Returns what a text means in either alphabet of base64, up to the first character of neither.
fn decoded(value: &[u8]) -> Vec<u8> {
    let mut bits = 0_u32;
    let mut held = 0;
    let mut decoded = Vec::with_capacity(value.len());
    for six in value.iter().map_while(|&byte| base64_value(byte)) {
        bits = (bits << 6 | six) & 0xFFFF;
        held += 6;
        if held >= 8 {
            held -= 8;
            decoded.push(u8::try_from(bits >> held & 0xFF).unwrap_or(0));
        }
    }
    decoded
}

fn base64_value(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'-' | b'+' => 62,
        b'_' | b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

fn find(text: &[u8], needle: &[u8], from: usize) -> Option<usize> {
    let rest = text.get(from..)?;
    memchr::memmem::find(rest, needle).map(|offset| from + offset)
}
