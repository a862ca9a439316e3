//! Machine addresses: IP and MAC.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::super::span::Evidence;
use super::super::text::{ALNUM, ANY_HEX, ByteSet, COLON, DIGIT, DOT, at, before, cut, inside_word};
use super::Found;

const V6: ByteSet = ANY_HEX.or(COLON).or(DOT);

fn parse<T: std::str::FromStr>(bytes: &[u8]) -> Option<T> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// An IPv4 address whose first digit stands at `start`.
pub(super) fn v4(text: &[u8], start: usize) -> Option<Found> {
    let joined = DOT.has(before(text, start)) || ALNUM.has(before(text, start));
    let mut end = DIGIT.or(DOT).run(text, start, 16);
    if DOT.has(before(text, end)) {
        end -= 1;
    }
    if joined || end - start < 7 || ALNUM.has(at(text, end)) || end - start > 15 {
        return None;
    }
    let address: Ipv4Addr = parse(cut(text, start, end))?;
    let version = matches!(before(text, start), b'v' | b'V')
        || cut(text, start.saturating_sub(9), start).eq_ignore_ascii_case(b" version ");
    let public = !(address.is_loopback() || address.is_unspecified() || address.is_broadcast() || version);
    let confidence = if !public {
        0.3
    } else if address.is_private() {
        0.4
    } else {
        0.7
    };
    Some(Found { kind: "ip_address", start, end, confidence, evidence: Evidence::Format })
}

/// An IPv6 address around the digit at `digit`.
pub(super) fn v6(text: &[u8], digit: usize) -> Option<Found> {
    let start = V6.run_back(text, digit, 40);
    let mut end = V6.run(text, digit, 45);
    while matches!(before(text, end), b'.' | b':')
        && !(cut(text, end.saturating_sub(2), end) == b"::" && end - start > 2)
    {
        end -= 1;
    }
    let word = cut(text, start, end);
    let colons = COLON.count(word);
    if colons < 2
        || inside_word(text, start)
        || ALNUM.has(at(text, end))
        || matches!(before(text, start), b'_')
    {
        return None;
    }
    let address: Ipv6Addr = parse(word)?;
    let groups = word.split(|&b| b == b':').filter(|group| !group.is_empty()).count();
    let local = matches!(address.segments().first(), Some(0xfc00..=0xffff));
    let led = DIGIT.has(at(text, start)) || at(text, start) == b':' || local;
    let loopback = address.is_loopback() || address.is_unspecified();
    (groups >= 3 || led).then_some(Found {
        kind: "ip_address",
        start,
        end,
        confidence: if loopback || groups < 2 && !local { 0.3 } else { 0.7 },
        evidence: Evidence::Format,
    })
}

/// A hardware address that begins at `start`: six pairs, or three groups of four.
pub(super) fn mac(text: &[u8], start: usize) -> Option<Found> {
    let joint = at(text, start + 2);
    let (size, joint) = match joint {
        b':' | b'-' => (2, joint),
        _ if at(text, start + 4) == b'.' => (4, b'.'),
        _ => return None,
    };
    let end = start + if size == 2 { 17 } else { 14 };
    let word = cut(text, start, end);
    let shaped = word.len() + start == end
        && word
            .iter()
            .enumerate()
            .all(|(i, &b)| if (i + 1) % (size + 1) == 0 { b == joint } else { ANY_HEX.has(b) });
    let nothing = word.iter().all(|&b| b == b'0' || b == joint)
        || word.iter().all(|&b| b == b'f' || b == b'F' || b == joint);
    let longer = at(text, end) == joint && ANY_HEX.has(at(text, end + 1)) || before(text, start) == joint;
    let closed = !inside_word(text, start) && !inside_word(text, end) && !longer;
    (shaped && closed && !nothing).then_some(Found {
        kind: "mac_address",
        start,
        end,
        confidence: 0.8,
        evidence: Evidence::Format,
    })
}
