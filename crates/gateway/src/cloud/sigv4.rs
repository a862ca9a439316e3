//! Signatures of requests to Amazon's services (Signature Version 4).
//!
//! What is signed: method, path, query, `host`, every header that begins with `x-amz-`, and the body. The rest may change on
//! the way, and is not Amazon's to mind. There is no clock but the system's: a request that is signed minutes off is refused
//! by the service.

use std::fmt::Write as _;

use backstop_hooks::Secret;
use http::header::{self, HeaderName};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method};
use jiff::Timestamp;
use ring::{digest, hmac};

use crate::settings::AwsCredentials;

const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");
const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// How the names of all headers begin that have to be signed.
const SIGNED: &str = "x-amz-";

/// The operator's credentials at a service in a region.
#[derive(Clone, Debug)]
pub(crate) struct Signer {
    pub(crate) key_id: String,
    pub(crate) key: Secret,
    pub(crate) token: Option<Secret>,
    pub(crate) region: String,
    pub(crate) service: &'static str,
}

impl Signer {
    /// Signs for Bedrock in a region.
    pub(crate) fn for_bedrock(keys: AwsCredentials, region: String) -> Self {
        let AwsCredentials { key_id, key, token } = keys;
        Self { key_id, key, token, region, service: "bedrock" }
    }

    /// Puts signature, date and token into `headers`, which have a `host`. `None` if something of it is no header.
    pub(crate) fn sign(
        &self,
        (method, target): (&Method, &PathAndQuery),
        headers: &mut HeaderMap,
        body: &[u8],
        now: Timestamp,
    ) -> Option<()> {
        let time = now.strftime("%Y%m%dT%H%M%SZ").to_string();
        let day = time.get(..8)?;
        headers.insert(DATE, HeaderValue::from_str(&time).ok()?);
        if let Some(token) = &self.token {
            let mut value = HeaderValue::from_str(token.expose()).ok()?;
            value.set_sensitive(true);
            headers.insert(TOKEN, value);
        }
        let (names, lines) = signed(headers)?;
        let (path, query) = (escaped(target.path()), canonical_query(target.query()));
        let canonical = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{}", hex(&sha256(body)));
        let scope = format!("{day}/{}/{}/aws4_request", self.region, self.service);
        let signed = format!("{ALGORITHM}\n{time}\n{scope}\n{}", hex(&sha256(canonical.as_bytes())));
        let mut key = format!("AWS4{}", self.key.expose()).into_bytes();
        for part in [day, &self.region, self.service, "aws4_request"] {
            key = mac(&key, part.as_bytes());
        }
        let signature = hex(&mac(&key, signed.as_bytes()));
        let id = &self.key_id;
        let value =
            format!("{ALGORITHM} Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}");
        let mut value = HeaderValue::from_str(&value).ok()?;
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
        Some(())
    }
}

/// The names of the headers that are signed, and their lines.
fn signed(headers: &HeaderMap) -> Option<(String, String)> {
    let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
    names.retain(|name| *name == "host" || name.starts_with(SIGNED));
    names.sort_unstable();
    let mut lines = String::new();
    for name in &names {
        let values: Option<Vec<&str>> =
            headers.get_all(*name).iter().map(|value| value.to_str().ok().map(str::trim)).collect();
        writeln!(lines, "{name}:{}", values?.join(",")).ok()?;
    }
    Some((names.join(";"), lines))
}

/// A path whose every segment is escaped once more.
fn escaped(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// The pairs of a query in order. They are escaped already.
fn canonical_query(query: Option<&str>) -> String {
    let mut pairs: Vec<(&str, &str)> = query
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .collect();
    pairs.sort_unstable();
    let pairs: Vec<String> = pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("&")
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    digest::digest(&digest::SHA256, bytes).as_ref().to_vec()
}

fn mac(key: &[u8], bytes: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), bytes).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Signs a request of the test suite that Amazon publishes for this algorithm (`aws-sig-v4-test-suite`).
    fn signature(
        method: &Method,
        target: &str,
        more: &[(&'static str, &'static str)],
        service: &'static str,
    ) -> String {
        let key = ["wJalrXUtnFEMI", "K7MDENG+bPxRfiCYEXAMPLEKEY"].join("/");
        let signer = Signer {
            key_id: ["AKID", "EXAMPLE"].concat(),
            key: Secret::new(key),
            token: None,
            region: "us-east-1".to_owned(),
            service,
        };
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("example.amazonaws.com"));
        for (name, value) in more {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let now = "2015-08-30T12:36:00Z".parse().unwrap();
        signer.sign((method, &target.parse().unwrap()), &mut headers, b"", now).unwrap();
        assert_eq!(headers[DATE], "20150830T123600Z");
        headers[header::AUTHORIZATION].to_str().unwrap().to_owned()
    }

    #[test]
    fn signatures_are_those_of_amazons_test_suite() {
        let front = format!(
            "AWS4-HMAC-SHA256 Credential={}/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, Signature=",
            ["AKID", "EXAMPLE"].concat()
        );
        for (method, target, expected) in [
            // get-vanilla
            (Method::GET, "/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            // post-vanilla
            (Method::POST, "/", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
            // get-vanilla-query-order-key-case
            (
                Method::GET,
                "/?Param2=value2&Param1=value1",
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
        ] {
            assert_eq!(signature(&method, target, &[], "service"), format!("{front}{expected}"), "{target}");
        }
    }

    #[test]
    fn everything_of_amazons_is_signed() {
        let plain = signature(&Method::POST, "/model/a%3A0/invoke", &[], "bedrock");
        for (target, more) in
            [("/model/a%3A1/invoke", vec![]), ("/model/a%3A0/invoke", vec![("x-amz-target", "x")])]
        {
            assert_ne!(signature(&Method::POST, target, &more, "bedrock"), plain);
        }
        assert_eq!(signature(&Method::POST, "/model/a%3A0/invoke", &[("user-agent", "x")], "bedrock"), plain);
        assert_eq!(escaped("/model/a%3A0/invoke"), "/model/a%253A0/invoke");
    }
}
