//! Heads of messages on their way through: what is left out, what is put in.
//!
//! Order is kept, so headers are copied and never removed in place. Left out are the headers of one hop (RFC
//! 9110, 7.6.1: `connection` and what it names, `keep-alive`, `proxy-connection`, `proxy-authenticate`,
//! `proxy-authorization`, `te`, `transfer-encoding`, `upgrade`), the gateway's own, and credentials that are
//! not the provider's; where hooks decide or the operator pays, in both directions also what [no table has](crate::headers).
//! `host` becomes the provider's. Nothing is added that tells of the gateway.

use std::sync::Arc;

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue};

use crate::auth::Authenticator;
use crate::cloud::azure::OF_AZURE;
use crate::cloud::sigv4::Signer;
use crate::headers::{KnownHeaders, OWN, Way, is_of_maker};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const GOOGLE_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");
pub(crate) const AZURE_KEY: HeaderName = HeaderName::from_static("api-key");
/// Headers that name who pays, whatever their names begin with.
const PAYERS: [&str; 2] = ["chatgpt-account-id", "x-goog-user-project"];
/// What a client may say to a maker at the operator's cost, of the names that the maker has for its own: versions and forms of its
/// API, and what else is to look at the text. Any other may name an organization, a project or a workspace that pays, or ask for more.
const OF_MAKERS: [&str; 19] = [
    "anthropic-beta",
    "anthropic-dangerous-direct-browser-access",
    "anthropic-version",
    "openai-beta",
    "openai-intent",
    "openai-version",
    "x-amzn-bedrock-accept",
    "x-amzn-bedrock-guardrailidentifier",
    "x-amzn-bedrock-guardrailversion",
    "x-amzn-bedrock-trace",
    "x-dashscope-async",
    "x-dashscope-cachecontrol",
    "x-dashscope-sse",
    "x-dashscope-useragent",
    "x-github-api-version",
    "x-openai-subagent",
    "x-openrouter-cache",
    "x-openrouter-title",
    "x-responsesapi-include-timing-metrics",
];
const KEEP_ALIVE: &str = "keep-alive";
const PROXY_CONNECTION: &str = "proxy-connection";

/// Whether a header is meant for the next hop only, `connection` itself included.
fn is_hop(name: &HeaderName) -> bool {
    *name == header::CONNECTION
        || *name == header::TRANSFER_ENCODING
        || *name == header::TE
        || *name == header::UPGRADE
        || *name == header::PROXY_AUTHORIZATION
        || *name == header::PROXY_AUTHENTICATE
        || name.as_str() == KEEP_ALIVE
        || name.as_str() == PROXY_CONNECTION
}

fn is_named_by(connection: &[&str], name: &HeaderName) -> bool {
    // Addressing, and what says how a body is to be read, can't be taken away by naming them: it was judged by that.
    connection.iter().any(|named| named.eq_ignore_ascii_case(name.as_str()))
        && !name.as_str().starts_with("content-")
        && *name != header::HOST
}

fn named_in_connection(headers: &HeaderMap) -> Vec<&str> {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let words = values.flat_map(|value| value.split(',')).map(str::trim);
    words.filter(|word| !matches!(*word, "" | "close" | "keep-alive")).collect()
}

/// What is sent for the client's credentials.
#[derive(Clone, Debug)]
pub(crate) enum Credentials {
    /// They are passed on.
    Client,
    /// This header stands in their place.
    Own(HeaderName, HeaderValue),
    /// A signature stands in their place, which is made when the request is whole.
    Signed(Arc<Signer>),
}

/// Builds the headers of a request to a provider from those that the client sent.
#[derive(Debug)]
pub(crate) struct RequestHeaders<'a> {
    pub(crate) auth: &'a Authenticator,
    /// The provider's host; `None` where HTTP/2 carries it in the request target.
    pub(crate) host: Option<&'a HeaderValue>,
    pub(crate) credentials: &'a Credentials,
    /// The body was replaced, so the client's `content-length` and `content-encoding` are wrong.
    pub(crate) replaced: bool,
    /// The answer will be decoded, so it must not be compressed.
    pub(crate) inspected: bool,
    /// The headers that may be forwarded; `None` where no hook decides and the client pays.
    pub(crate) known: Option<&'a KnownHeaders>,
}

impl RequestHeaders<'_> {
    /// Returns the headers to send, in the client's order, and how many no table let pass. `withholds` says which of some words
    /// can't be shown.
    pub(crate) fn build(
        &self,
        from: &HeaderMap,
        withholds: impl FnOnce(&[&str]) -> Vec<usize>,
    ) -> (HeaderMap, u32) {
        let named = named_in_connection(from);
        let mut sieve = self.known.map(|known| known.sieve(Way::Request));
        let mut to = HeaderMap::with_capacity(from.len() + 2);
        let mut credentials = match self.credentials {
            Credentials::Client | Credentials::Signed(_) => None,
            Credentials::Own(name, value) => Some((name, value)),
        };
        let replaces = !matches!(self.credentials, Credentials::Client);
        for (name, value) in from {
            if is_hop(name) || is_named_by(&named, name) || *name == header::EXPECT {
                continue;
            }
            if *name == header::HOST {
                if let Some(host) = self.host {
                    to.insert(header::HOST, host.clone());
                }
                continue;
            }
            if is_credential(name) && (replaces || self.auth.must_strip(name, value)) {
                if let Some((name, value)) = credentials.take() {
                    to.insert(name.clone(), value.clone());
                }
                continue;
            }
            if self.auth.must_strip(name, value)
                || self.is_outdated(name)
                || (replaces && is_paying(name) && !self.is_named(name))
            {
                if let Some(sieve) = &mut sieve {
                    sieve.pass_over(name);
                }
                continue;
            }
            match &mut sieve {
                Some(sieve) => sieve.take(name, value, &mut to),
                None => drop(to.append(name.clone(), value.clone())),
            }
        }
        let out = sieve.map_or(0, |sieve| sieve.finish(&mut to, withholds));
        if let Some(host) = self.host.filter(|_| !to.contains_key(header::HOST)) {
            to.insert(header::HOST, host.clone());
        }
        if let Some((name, value)) = credentials {
            to.insert(name.clone(), value.clone());
        }
        if self.inspected {
            to.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        (to, out)
    }

    /// Whether the operator named the header to be passed on.
    fn is_named(&self, name: &HeaderName) -> bool {
        self.known.is_some_and(|known| known.is_named(name))
    }

    fn is_outdated(&self, name: &HeaderName) -> bool {
        let of_body = *name == header::CONTENT_LENGTH || *name == header::CONTENT_ENCODING;
        (self.replaced && of_body) || (self.inspected && *name == header::ACCEPT_ENCODING)
    }
}

/// Whether a header says who else pays, or for what more, where the operator does.
fn is_paying(name: &HeaderName) -> bool {
    let name = name.as_str();
    // What names a deployment of Azure's is refused where it is none that is known.
    let is_open = is_of_maker(name) && !name.starts_with(OF_AZURE);
    PAYERS.contains(&name) || (is_open && !OF_MAKERS.contains(&name))
}

/// Whether a header is one in which clients bring a key or a token.
pub(crate) fn is_credential(name: &HeaderName) -> bool {
    *name == header::AUTHORIZATION || *name == API_KEY || *name == GOOGLE_KEY || *name == AZURE_KEY
}

/// Builds the headers of an answer to a client from those that a provider sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerHeaders<'a> {
    /// The body is sent uncompressed and with another length.
    pub(crate) decoded: bool,
    /// The headers that may pass; `None` where no hook decides and the client pays.
    pub(crate) known: Option<&'a KnownHeaders>,
}

impl AnswerHeaders<'_> {
    /// Returns the headers as the client receives them, and how many no table let pass. `withholds` says which of some words can't
    /// be shown.
    pub(crate) fn build(
        self,
        from: &HeaderMap,
        withholds: impl FnOnce(&[&str]) -> Vec<usize>,
    ) -> (HeaderMap, u32) {
        let named = named_in_connection(from);
        let mut sieve = self.known.map(|known| known.sieve(Way::Answer));
        let mut to = HeaderMap::with_capacity(from.len());
        for (name, value) in from {
            let of_body = *name == header::CONTENT_LENGTH || *name == header::CONTENT_ENCODING;
            if is_hop(name) || is_named_by(&named, name) || (self.decoded && of_body) {
                continue;
            }
            match &mut sieve {
                Some(sieve) => sieve.take(name, value, &mut to),
                // What is ours nobody else says.
                None if name.as_str().starts_with(OWN) => {}
                None => drop(to.append(name.clone(), value.clone())),
            }
        }
        let out = sieve.map_or(0, |sieve| sieve.finish(&mut to, withholds));
        (to, out)
    }
}

#[cfg(test)]
mod tests {
    use backstop_hooks::Secret;

    use super::*;
    use crate::settings::Settings;

    fn map(headers: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        map
    }

    fn lines(map: &HeaderMap) -> Vec<String> {
        map.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
    }

    fn sent(credentials: &Credentials, replaced: bool, inspected: bool, from: &HeaderMap) -> Vec<String> {
        let authenticator = Authenticator::new(&Settings::new(Secret::new("token".to_owned())));
        let host = HeaderValue::from_static("api.example.com");
        let request_headers = RequestHeaders {
            auth: &authenticator,
            host: Some(&host),
            credentials,
            replaced,
            inspected,
            known: None,
        };
        lines(&request_headers.build(from, |_| Vec::new()).0)
    }

    #[test]
    fn what_belongs_to_the_message_passes_in_order() {
        let from = map(&[
            ("user-agent", "x"),
            ("host", "127.0.0.1:1"),
            ("connection", "keep-alive, X-Hop"),
            ("x-hop", "1"),
            ("te", "trailers"),
            ("proxy-authorization", "Basic x"),
            ("x-api-key", "sk-mine"),
            ("anthropic-beta", "a"),
            ("anthropic-beta", "b"),
            ("x-backstop-agent", "me"),
            ("authorization", "Bearer token"),
            ("accept-encoding", "gzip"),
            ("content-encoding", "gzip"),
            ("content-length", "3"),
        ]);
        let passed = sent(&Credentials::Client, false, false, &from);
        let expected = [
            "user-agent: x",
            "host: api.example.com",
            "x-api-key: sk-mine",
            "anthropic-beta: a",
            "anthropic-beta: b",
            "accept-encoding: gzip",
            "content-encoding: gzip",
            "content-length: 3",
        ];
        assert_eq!(passed, expected);
        let key = HeaderValue::from_static("sk-ours");
        let ours = sent(&Credentials::Own(API_KEY, key), true, true, &from);
        let expected = [
            "user-agent: x",
            "host: api.example.com",
            "x-api-key: sk-ours",
            "anthropic-beta: a",
            "anthropic-beta: b",
            "accept-encoding: identity",
        ];
        assert_eq!(ours, expected);
    }

    #[test]
    fn a_token_of_ours_stays_here_whatever_header_holds_it() {
        let from = map(&[
            ("referer", "http://127.0.0.1:1/t/token/v1/messages"),
            ("cookie", "a=b; key=token"),
            ("authorization", "Token token"),
            ("x-api-key", "sk-mine"),
        ]);
        assert_eq!(
            sent(&Credentials::Client, false, false, &from),
            ["x-api-key: sk-mine", "host: api.example.com"]
        );
    }

    #[test]
    fn a_key_is_put_in_where_the_client_had_none() {
        let key = Credentials::Own(header::AUTHORIZATION, HeaderValue::from_static("Bearer k"));
        assert_eq!(sent(&key, false, false, &map(&[])), ["host: api.example.com", "authorization: Bearer k"]);
    }

    #[test]
    fn who_does_not_pay_does_not_say_who_does() {
        let from = map(&[
            ("x-goog-user-project", "theirs"),
            ("x-vertex-ai-llm-shared-request-type", "priority"),
            ("x-amzn-bedrock-service-tier", "priority"),
            ("x-amzn-bedrock-performanceconfig-latency", "optimized"),
            ("x-amzn-bedrock-trace", "ENABLED"),
            ("x-amzn-bedrock-guardrailidentifier", "g"),
            ("openai-organization", "theirs"),
            ("openai-project", "theirs"),
            ("anthropic-workspace", "theirs"),
            ("x-dashscope-workspace", "theirs"),
            ("x-openai-of-tomorrow", "theirs"),
            ("chatgpt-account-id", "theirs"),
            ("openai-beta", "a"),
            ("anthropic-version", "1"),
        ]);
        let key = Credentials::Own(header::AUTHORIZATION, HeaderValue::from_static("Bearer k"));
        let kept = [
            "x-amzn-bedrock-trace: ENABLED",
            "x-amzn-bedrock-guardrailidentifier: g",
            "openai-beta: a",
            "anthropic-version: 1",
            "host: api.example.com",
            "authorization: Bearer k",
        ];
        assert_eq!(sent(&key, false, false, &from), kept);
        assert_eq!(sent(&Credentials::Client, false, false, &from).len(), 15);
        // The operator may let clients say it.
        let known = KnownHeaders::with(&["OpenAI-Project".to_owned()]);
        let auth = Authenticator::new(&Settings::new(Secret::new("token".to_owned())));
        let headers = RequestHeaders {
            auth: &auth,
            host: None,
            credentials: &key,
            replaced: false,
            inspected: false,
            known: Some(&known),
        };
        let (passed, _) = headers.build(&from, |_| Vec::new());
        assert!(passed.contains_key("openai-project") && !passed.contains_key("openai-organization"));
    }

    #[test]
    fn where_somebody_judges_what_no_list_knows_stays_here() {
        let from = map(&[
            ("anthropic-version", "1"),
            ("x-override-url", "/v1/dreams"),
            ("x-forwarded-path", "/v1/dreams"),
            ("x-ours", "1"),
        ]);
        let authenticator = Authenticator::new(&Settings::new(Secret::new("token".to_owned())));
        let credentials = &Credentials::Client;
        let sent = |known: Option<&KnownHeaders>| {
            let request_headers = RequestHeaders {
                auth: &authenticator,
                host: None,
                credentials,
                replaced: false,
                inspected: false,
                known,
            };
            request_headers
                .build(&from, |_| Vec::new())
                .0
                .keys()
                .map(|name| name.as_str().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(sent(None).len(), 4, "a plain proxy");
        assert_eq!(sent(Some(&KnownHeaders::default())), ["anthropic-version"]);
        let ours = KnownHeaders::with(&["x-ours".to_owned()]);
        assert_eq!(sent(Some(&ours)), ["anthropic-version", "x-ours"]);
    }

    #[test]
    fn framing_can_not_be_named_away() {
        let from = map(&[
            ("connection", "content-length, host, Content-Encoding, content-type"),
            ("content-length", "3"),
            ("content-encoding", "gzip"),
            ("content-type", "application/json"),
        ]);
        let passed = sent(&Credentials::Client, false, false, &from);
        let kept = [
            "content-length: 3",
            "content-encoding: gzip",
            "content-type: application/json",
            "host: api.example.com",
        ];
        assert_eq!(passed, kept);
    }

    #[test]
    fn answers_lose_the_headers_of_their_hop() {
        let from = map(&[
            ("content-type", "text/event-stream"),
            ("transfer-encoding", "chunked"),
            ("connection", "close"),
            ("content-encoding", "gzip"),
            ("request-id", "r"),
        ]);
        let sent = |decoded| {
            let headers = AnswerHeaders { decoded, known: None };
            lines(&headers.build(&from, |_| Vec::new()).0)
        };
        let kept = sent(false);
        assert_eq!(kept, ["content-type: text/event-stream", "content-encoding: gzip", "request-id: r"]);
        assert_eq!(sent(true), ["content-type: text/event-stream", "request-id: r"]);
    }
}
