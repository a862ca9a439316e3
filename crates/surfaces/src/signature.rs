//! Signatures of requests between servers: Standard Webhooks (standardwebhooks.com, `webhook-id`, `webhook-timestamp`,
//! `webhook-signature: v1,<base64>`), and Slack's (`v0=<hex>`, "Verifying requests from Slack").
//!
//! Both are HMAC-SHA256 of what came, byte for byte, with a time that must be near. Comparisons take the same time whatever is wrong.

use std::time::Duration;

use backstop_hooks::Secret;
use backstop_store::Timestamp;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, HeaderName};
use ring::hmac;

/// How far the time of a request may be from ours, either way.
pub const TOLERANCE: Duration = Duration::from_secs(300);
/// The fewest bytes of a secret, as Standard Webhooks have it.
pub const SHORTEST_SECRET: usize = 24;
/// How long a delivery is remembered: as long as its signature can count, seen from both ends.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(2 * TOLERANCE.as_secs() + 1);
/// The longest id that is remembered or compared.
pub(crate) const LONGEST_ID: usize = 128;
/// The most signatures that are looked at: a sender that changes its secret sends two.
const MOST_SIGNATURES: usize = 8;

const ID: &str = "webhook-id";
const TIMESTAMP: &str = "webhook-timestamp";
const SIGNATURE: &str = "webhook-signature";
const SLACK_TIMESTAMP: &str = "x-slack-request-timestamp";
const SLACK_SIGNATURE: &str = "x-slack-signature";

/// A secret that two servers share.
#[derive(Clone, Debug)]
pub struct SigningSecret(Secret<Vec<u8>>);

impl SigningSecret {
    /// Returns the secret of a text: the bytes of base64 behind `whsec_`, and otherwise the text itself. `None` if it has fewer than
    /// [`SHORTEST_SECRET`] bytes.
    pub fn read(text: &str) -> Option<Self> {
        let bytes = match text.strip_prefix("whsec_") {
            Some(encoded) => BASE64_STANDARD.decode(encoded).ok()?,
            None => text.as_bytes().to_vec(),
        };
        (bytes.len() >= SHORTEST_SECRET).then(|| Self(Secret::new(bytes)))
    }

    /// Returns whether what is signed with the one counts as signed with the other, too. It takes the same time wherever they differ.
    pub fn is_same(&self, other: &Self) -> bool {
        let tag = hmac::sign(&self.key(), ID.as_bytes());
        hmac::verify(&other.key(), ID.as_bytes(), tag.as_ref()).is_ok()
    }

    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, self.0.expose())
    }
}

/// Returns the headers of a request that we sign.
pub(crate) fn sign(
    secret: &SigningSecret,
    id: &str,
    now: Timestamp,
    body: &[u8],
) -> [(HeaderName, String); 3] {
    let seconds = (now.as_millis() / 1_000).to_string();
    let tag = hmac::sign(&secret.key(), &signed(id, &seconds, body));
    let signature = format!("v1,{}", BASE64_STANDARD.encode(tag.as_ref()));
    [
        (HeaderName::from_static(ID), id.to_owned()),
        (HeaderName::from_static(TIMESTAMP), seconds),
        (HeaderName::from_static(SIGNATURE), signature),
    ]
}

/// Returns whether a request could be signed by its headers, with a time that is near: what is worth reading.
pub(crate) fn is_plausible(headers: &HeaderMap, now: Timestamp) -> bool {
    let has_parts = only(headers, ID).is_some() && only(headers, SIGNATURE).is_some();
    has_parts && only(headers, TIMESTAMP).is_some_and(|seconds| is_near(seconds, now))
}

/// Returns whether Slack could have signed a request by its headers, with a time that is near.
pub(crate) fn is_plausibly_slacks(headers: &HeaderMap, now: Timestamp) -> bool {
    let has_signature = only(headers, SLACK_SIGNATURE).is_some();
    has_signature && only(headers, SLACK_TIMESTAMP).is_some_and(|seconds| is_near(seconds, now))
}

/// Returns the id of a request that is signed, if it is.
pub fn verified<'a>(
    secret: &SigningSecret,
    headers: &'a HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> Option<&'a str> {
    let (id, seconds) = (only(headers, ID)?, only(headers, TIMESTAMP)?);
    if id.is_empty() || id.len() > LONGEST_ID || !is_near(seconds, now) {
        return None;
    }
    let (key, signed) = (secret.key(), signed(id, seconds, body));
    let given = only(headers, SIGNATURE)?.split(' ').take(MOST_SIGNATURES);
    let mut tags = given.filter_map(|one| BASE64_STANDARD.decode(one.strip_prefix("v1,")?).ok());
    tags.any(|tag| hmac::verify(&key, &signed, &tag).is_ok()).then_some(id)
}

/// Returns whether Slack signed a request. The secret is that of the app.
pub fn is_slacks(secret: &Secret, headers: &HeaderMap, body: &[u8], now: Timestamp) -> bool {
    let parts = (only(headers, SLACK_TIMESTAMP), only(headers, SLACK_SIGNATURE));
    let (Some(seconds), Some(given)) = parts else { return false };
    let Some(tag) = given.strip_prefix("v0=").and_then(bytes_of) else { return false };
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose().as_bytes());
    let signed = [b"v0:", seconds.as_bytes(), b":", body].concat();
    is_near(seconds, now) && hmac::verify(&key, &signed, &tag).is_ok()
}

fn signed(id: &str, seconds: &str, body: &[u8]) -> Vec<u8> {
    [id.as_bytes(), b".", seconds.as_bytes(), b".", body].concat()
}

/// Returns the value of a header that stands there once: of two, one reader takes the first and another the last.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    let value = all.next()?.to_str().ok()?;
    all.next().is_none().then_some(value)
}

fn is_near(seconds: &str, now: Timestamp) -> bool {
    let is_number = !seconds.is_empty() && seconds.bytes().all(|byte| byte.is_ascii_digit());
    let Some(seconds) = seconds.parse::<i64>().ok().filter(|_| is_number) else { return false };
    let Some(millis) = seconds.checked_mul(1_000) else { return false };
    let at = Timestamp::from_millis(millis);
    at.until(now) <= TOLERANCE && now.until(at) <= TOLERANCE
}

/// Returns the bytes of 64 hex digits.
fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let pairs = hex.as_bytes().chunks(2).map(|pair| {
        let pair =
            std::str::from_utf8(pair).ok().filter(|pair| pair.bytes().all(|b| b.is_ascii_hexdigit()))?;
        u8::from_str_radix(pair, 16).ok()
    });
    (hex.len() == 64).then(|| pairs.collect()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    /// The example of the specification's libraries.
    #[test]
    fn the_published_example_of_standard_webhooks_holds() {
        let secret = SigningSecret::read(&["whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"].concat()).unwrap();
        let body = br#"{"test": 2432232314}"#;
        let headers = headers(&[
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("webhook-timestamp", "1614265330"),
            ("webhook-signature", "v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= v2,g0hM9SsE"),
        ]);
        let verified = |now, body: &[u8]| verified(&secret, &headers, body, at(now));
        assert_eq!(verified(1_614_265_330, body), Some("msg_p5jXN8AQM9LWM0D4loKWxJek"));
        assert!(
            verified(1_614_265_330 + 300, body).is_some() && verified(1_614_265_330 - 300, body).is_some()
        );
        assert!(
            verified(1_614_265_330 + 301, body).is_none() && verified(1_614_265_330 - 301, body).is_none()
        );
        assert!(verified(1_614_265_330, br#"{"test": 2432232315}"#).is_none());
    }

    /// The example of Slack's documentation.
    #[test]
    fn the_published_example_of_slack_holds() {
        let secret = Secret::new(["8f742231b10e8888", "abcd99yyyzzz85a5"].concat());
        let body = b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
        let signed = |signature: &str, now, body: &[u8]| {
            let headers =
                headers(&[("x-slack-request-timestamp", "1531420618"), ("x-slack-signature", signature)]);
            is_slacks(&secret, &headers, body, at(now))
        };
        let right = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
        assert!(signed(right, 1_531_420_618, body) && signed(right, 1_531_420_918, body));
        assert!(!signed(right, 1_531_420_919, body), "too late");
        assert!(!signed(right, 1_531_420_317, body), "too early");
        assert!(!signed(right, 1_531_420_618, &body[1..]));
        for wrong in [
            "v0=",
            "v0=00",
            "v1=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
            "v0=zz114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
            "",
        ] {
            assert!(!signed(wrong, 1_531_420_618, body), "{wrong}");
        }
    }

    #[test]
    fn a_header_that_stands_there_twice_counts_for_nothing() {
        let secret = SigningSecret::read(&"s".repeat(24)).unwrap();
        let [id, time, signature] = sign(&secret, "msg_1", at(1_000), b"body");
        let mut headers = HeaderMap::new();
        for (name, value) in [&id, &time, &signature] {
            headers.append(name.clone(), value.parse().unwrap());
        }
        assert_eq!(verified(&secret, &headers, b"body", at(1_000)), Some("msg_1"));
        for (name, value) in [id, time, signature] {
            let mut twice = headers.clone();
            twice.append(name, value.parse().unwrap());
            assert!(verified(&secret, &twice, b"body", at(1_000)).is_none());
        }
    }

    #[test]
    fn secrets_are_the_same_however_they_are_written() {
        let read = |text: &str| SigningSecret::read(text).unwrap();
        let text = "0123456789abcdef01234567";
        let encoded = format!("whsec_{}", BASE64_STANDARD.encode(text));
        assert!(read(text).is_same(&read(&encoded)) && read(&encoded).is_same(&read(text)));
        assert!(!read(text).is_same(&read("0123456789abcdef01234568")));
    }

    #[test]
    fn secrets_are_long_and_never_shown() {
        assert!(SigningSecret::read(&"s".repeat(23)).is_none());
        assert!(SigningSecret::read("whsec_c2hvcnQ=").is_none());
        assert!(SigningSecret::read("whsec_!").is_none());
        let secret = SigningSecret::read(&"sesame-".repeat(4)).unwrap();
        assert!(!format!("{secret:?}").contains("sesame") && !format!("{secret:?}").contains("115"));
    }

    proptest! {
        #[test]
        fn what_is_signed_verifies_and_nothing_else(
            id in "[a-z0-9_]{1,40}", body in any::<Vec<u8>>(), other in any::<Vec<u8>>(), seconds in 0_i64..4_000_000_000,
        ) {
            let secret = SigningSecret::read("0123456789abcdef0123456789abcdef").unwrap();
            let another = SigningSecret::read("0123456789abcdef0123456789abcdeg").unwrap();
            let mut headers = HeaderMap::new();
            for (name, value) in sign(&secret, &id, at(seconds), &body) {
                headers.append(name, value.parse().unwrap());
            }
            prop_assert_eq!(verified(&secret, &headers, &body, at(seconds)), Some(id.as_str()));
            prop_assert!(verified(&another, &headers, &body, at(seconds)).is_none());
            prop_assert_eq!(verified(&secret, &headers, &other, at(seconds)).is_some(), body == other);
        }
    }
}
