//! The opening handshake of RFC 6455, on both sides.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Method, Version, request};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use uuid::Uuid;

use crate::error::Failure;

/// What is appended to a key before it is hashed (RFC 6455, 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const VERSION: HeaderValue = HeaderValue::from_static("13");
const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");
const UPGRADE: HeaderValue = HeaderValue::from_static("Upgrade");
/// Bytes of a key, decoded.
const KEY_BYTES: usize = 16;

/// Whether the connection is to become a WebSocket. Other upgrades may be ignored, and are: clients that offer HTTP/2
/// in this way go on without it.
pub(in crate::server) fn is_asked_for(headers: &HeaderMap) -> bool {
    let named =
        |name: &[u8]| name.split(|byte| *byte == b'/').next().map(<[u8]>::trim_ascii).map(is_websocket);
    words(headers, &header::UPGRADE).any(|word| named(word) == Some(true))
}

/// Whether a header says how the connection is to be opened.
pub(super) fn is_of_handshake(name: &HeaderName) -> bool {
    name.as_str().starts_with("sec-websocket-")
}

fn is_websocket(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(WEBSOCKET.as_bytes())
}

fn words<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    let values = headers.get_all(name).into_iter();
    values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
}

/// What proves that a key was read.
fn accepted(key: &[u8]) -> String {
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key, GUID.as_bytes()].concat()))
}

/// A client's handshake.
#[derive(Debug)]
pub(super) struct Opening {
    accept: HeaderValue,
}

impl Opening {
    /// Reads a handshake. Extensions and subprotocols that it offers are not taken.
    pub(super) fn of(head: &request::Parts) -> Result<Self, Failure> {
        let headers = &head.headers;
        if head.version != Version::HTTP_11 || head.method != Method::GET {
            return Err(Failure::Handshake("it has to be a GET of HTTP/1.1"));
        }
        if !words(headers, &header::CONNECTION).any(|word| word.eq_ignore_ascii_case(b"upgrade")) {
            return Err(Failure::Handshake("`connection` does not say `upgrade`"));
        }
        let one = |name: HeaderName| {
            let mut values = headers.get_all(name).iter();
            values.next().filter(|_| values.next().is_none())
        };
        if one(header::SEC_WEBSOCKET_VERSION) != Some(&VERSION) {
            return Err(Failure::Handshake("`sec-websocket-version` is not 13"));
        }
        let key = one(header::SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes);
        let key = key.filter(|key| STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == KEY_BYTES));
        let accept = key.and_then(|key| HeaderValue::from_str(&accepted(key)).ok());
        let accept = accept.ok_or(Failure::Handshake("`sec-websocket-key` is not 16 bytes in Base64"))?;
        Ok(Self { accept })
    }

    /// Says that the connection is a WebSocket from now on.
    pub(super) fn agree(self, headers: &mut HeaderMap) {
        headers.insert(header::CONNECTION, UPGRADE);
        headers.insert(header::UPGRADE, WEBSOCKET);
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, self.accept);
    }
}

/// A handshake of our own, with a provider.
#[derive(Debug)]
pub(in crate::server) struct Offer {
    key: String,
}

impl Offer {
    pub(in crate::server) fn new() -> Self {
        Self { key: STANDARD.encode(Uuid::new_v4().as_bytes()) }
    }

    /// Asks for a WebSocket without extensions and subprotocols.
    pub(in crate::server) fn write(&self, headers: &mut HeaderMap) {
        headers.insert(header::CONNECTION, UPGRADE);
        headers.insert(header::UPGRADE, WEBSOCKET);
        headers.insert(header::SEC_WEBSOCKET_VERSION, VERSION);
        if let Ok(key) = HeaderValue::from_str(&self.key) {
            headers.insert(header::SEC_WEBSOCKET_KEY, key);
        }
    }

    /// Whether an answer takes this offer, and nothing that was not offered.
    pub(in crate::server) fn is_taken(&self, answer: &HeaderMap) -> bool {
        let accept = answer.get(header::SEC_WEBSOCKET_ACCEPT);
        accept.is_some_and(|accept| accept.as_bytes() == accepted(self.key.as_bytes()).as_bytes())
            && words(answer, &header::UPGRADE).all(is_websocket)
            && !answer.contains_key(header::SEC_WEBSOCKET_EXTENSIONS)
            && !answer.contains_key(header::SEC_WEBSOCKET_PROTOCOL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_proven_as_the_standard_has_it() {
        // RFC 6455, 1.3.
        assert_eq!(accepted(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn an_offer_is_taken_as_it_was_made() {
        let offer = Offer::new();
        let mut answer = HeaderMap::new();
        assert!(!offer.is_taken(&answer));
        answer.insert(header::UPGRADE, WEBSOCKET);
        answer.insert(header::SEC_WEBSOCKET_ACCEPT, accepted(offer.key.as_bytes()).parse().unwrap());
        assert!(offer.is_taken(&answer));
        answer.insert(header::SEC_WEBSOCKET_EXTENSIONS, HeaderValue::from_static("permessage-deflate"));
        assert!(!offer.is_taken(&answer));
    }
}
