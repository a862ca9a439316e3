//! Access tokens, as servers and programs say them.
//!
//! A token is said alone, or in a JSON object beside its lifetime. The keys of such an object are those of OAuth's answers
//! (RFC 6749, 5.1: `access_token`, `expires_in`), of `az account get-access-token` (`accessToken`, `expires_on`), and of the
//! plain words for the same (`token`, `expiry`, `expiration`).

use std::time::Duration;

use http::HeaderValue;
use jiff::Timestamp;
use serde_json::{Map, Value};

/// How long a token is used that says nothing of it. Nobody lends one for less.
const UNSAID: Duration = Duration::from_secs(300);
/// No token is believed for longer.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// The longest token, in bytes. Larger heads are refused by most servers.
const LARGEST: usize = 16 << 10;
/// Under which keys the token itself stands.
const VALUES: [&str; 3] = ["access_token", "accessToken", "token"];
/// Under which keys seconds from now stand, seconds since 1970, and a time in words.
const IN: &str = "expires_in";
const AT: &str = "expires_on";
const WHEN: [&str; 3] = ["expiry", "expiration", "expires_at"];

/// A token, as a header has it, and how long it is good.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) bearer: HeaderValue,
    pub(super) lifetime: Duration,
}

impl Token {
    /// What a server answered or a program printed, as the end of a sentence about that where it is no token.
    pub(super) fn read(said: &[u8], now: Timestamp) -> Result<Self, &'static str> {
        let said = std::str::from_utf8(said).map_err(|_| "said no text")?.trim();
        if !said.starts_with(['{', '[', '"']) {
            return Ok(Self { bearer: bearer(said)?, lifetime: UNSAID });
        }
        let said: Value = serde_json::from_str(said).map_err(|_| "said what is no JSON")?;
        Self::of(said.as_object().ok_or("said JSON that is no object")?, now)
    }

    fn of(said: &Map<String, Value>, now: Timestamp) -> Result<Self, &'static str> {
        let mut tokens = VALUES.iter().filter_map(|key| said.get(*key));
        let token = tokens.next().ok_or("said no `access_token`")?;
        if tokens.next().is_some() {
            return Err("said more than one token");
        }
        let bearer = bearer(token.as_str().ok_or("said an `access_token` that is no text")?)?;
        let is_bearer = |kind: &Value| kind.as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("bearer"));
        let mut kinds = ["token_type", "tokenType"].into_iter().filter_map(|key| said.get(key));
        if !kinds.all(is_bearer) {
            return Err("said a token of another type than `Bearer`");
        }
        let lifetime = lifetime(said, now)?.map_or(Ok(UNSAID), in_time)?;
        Ok(Self { bearer, lifetime })
    }
}

/// What is used of a lifetime in seconds.
pub(super) fn in_time(seconds: i64) -> Result<Duration, &'static str> {
    let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
    Ok(Duration::from_secs(seconds.ok_or("said what has expired already")?).min(LONGEST))
}

fn bearer(token: &str) -> Result<HeaderValue, &'static str> {
    const UNSENDABLE: &str = "said more than a token, or a token that can't stand in a header";
    if token.is_empty() {
        return Err("said nothing");
    }
    if token.len() > LARGEST {
        return Err("said a token that is too long");
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(UNSENDABLE);
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| UNSENDABLE)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Seconds from now; `None` where nothing is said of it.
fn lifetime(said: &Map<String, Value>, now: Timestamp) -> Result<Option<i64>, &'static str> {
    const UNREADABLE: &str = "said a lifetime that can't be read";
    let at = |second: i64| second.saturating_sub(now.as_second());
    if let Some(seconds) = said.get(IN) {
        return Ok(Some(whole(seconds).ok_or(UNREADABLE)?));
    }
    if let Some(second) = said.get(AT) {
        return Ok(Some(at(whole(second).ok_or(UNREADABLE)?)));
    }
    let Some(when) = WHEN.iter().find_map(|key| said.get(*key)) else { return Ok(None) };
    let when: Timestamp = when.as_str().and_then(|when| when.parse().ok()).ok_or(UNREADABLE)?;
    Ok(Some(at(when.as_second())))
}

fn whole(number: &Value) -> Option<i64> {
    number.as_i64().or_else(|| number.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(said: &str) -> Result<(String, u64), &'static str> {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let token = Token::read(said.as_bytes(), now)?;
        let value = token.bearer.to_str().unwrap().strip_prefix("Bearer ").unwrap();
        assert!(!format!("{token:?}").contains(value));
        Ok((value.to_owned(), token.lifetime.as_secs()))
    }

    #[test]
    fn a_token_is_read_in_every_form_in_which_it_is_said() {
        for (said, seconds) in [
            ("abc.def\n", 300),
            (r#"{"access_token":"abc.def","expires_in":3599,"token_type":"Bearer"}"#, 3599),
            (r#"{"access_token":"abc.def","expires_in":"60"}"#, 60),
            (
                r#" {"accessToken":"abc.def","expires_on":1767225700,"expiresOn":"x","tokenType":"bearer"}"#,
                100,
            ),
            (r#"{"token":"abc.def","expiry":"2026-01-01T01:00:00Z"}"#, 3600),
            (r#"{"token":"abc.def","expiration":"2026-01-01T01:00:00+01:00","x":1}"#, -1),
            (r#"{"token":"abc.def"}"#, 300),
            (r#"{"token":"abc.def","expires_in":9999999999}"#, 86400),
        ] {
            match u64::try_from(seconds) {
                Ok(seconds) => assert_eq!(read(said), Ok(("abc.def".to_owned(), seconds)), "{said}"),
                Err(_) => assert_eq!(read(said), Err("said what has expired already"), "{said}"),
            }
        }
    }

    #[test]
    fn what_is_no_token_is_refused_and_never_repeated() {
        let long = "x".repeat(LARGEST + 1);
        for said in [
            "",
            "\n",
            "hello world",
            "two\nlines",
            "caf\u{e9}",
            "\"abc\"",
            "[\"abc\"]",
            "{}",
            "{",
            r#"{"access_token":5}"#,
            r#"{"access_token":""}"#,
            r#"{"access_token":"a b"}"#,
            r#"{"access_token":"a\r\nx: y"}"#,
            r#"{"access_token":"abc","token":"other"}"#,
            r#"{"access_token":"abc","token_type":"pop"}"#,
            r#"{"access_token":"abc","expires_in":"soon"}"#,
            r#"{"access_token":"abc","expires_in":1.5}"#,
            r#"{"access_token":"abc","expires_in":0}"#,
            r#"{"access_token":"abc","expires_in":-5}"#,
            r#"{"access_token":"abc","expiry":"tomorrow"}"#,
            long.as_str(),
        ] {
            let why = read(said).expect_err(said);
            assert!(!why.contains("abc"), "{why}");
        }
        assert!(Token::read(&[0xff, b'a'], Timestamp::UNIX_EPOCH).is_err());
    }
}
