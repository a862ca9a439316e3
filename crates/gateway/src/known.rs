//! Which headers of a request pass.
//!
//! Servers and what stands in front of them take methods, paths and hosts out of headers of all kinds of names
//! (`x-http-method-override`, `x-original-url`, `x-override-url`, `x-forwarded-path`). So where hooks decide, and where
//! the operator pays, those pass that are known to say nothing of the kind: what HTTP says of a message, how requests are
//! traced, and what the makers' SDKs and the coding agents send. The operator names others (`gateway.headers`). What is in
//! no list is left out, as by any proxy that knows of a hop of its own, and the log says so once for each name.
//!
//! Limits: a header of a known name is passed on as it is, whatever it holds. The log names the first [`MOST_TOLD`].

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use http::HeaderName;

/// The most names that are told of.
const MOST_TOLD: usize = 64;

/// What HTTP says of a message and of who asks (RFC 9110, RFC 9111, RFC 6265, the Fetch standard).
const OF_HTTP: &[&str] = &[
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "api-key",
    "authorization",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "cookie",
    "date",
    "digest",
    "dnt",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "origin",
    "pragma",
    "prefer",
    "priority",
    "range",
    "referer",
    "user-agent",
    "x-api-key",
    "x-goog-api-key",
    "x-requested-with",
];

/// By which names requests are told apart, traced and asked for once only.
const OF_TRACES: &[&str] = &[
    "amz-sdk-invocation-id",
    "amz-sdk-request",
    "b3",
    "baggage",
    "conversation-id",
    "conversation_id",
    "idempotency-key",
    "request-id",
    "sentry-trace",
    "session-id",
    "session_id",
    "thread-id",
    "thread_id",
    "traceparent",
    "tracestate",
    "x-activity-request-id",
    "x-amzn-trace-id",
    "x-client-request-id",
    "x-cloud-trace-context",
    "x-conversation-id",
    "x-correlation-id",
    "x-idempotency-key",
    "x-parent-session-id",
    "x-request-id",
    "x-session-affinity",
    "x-session-id",
    "x-task-id",
    "x-trace-id",
    "x-turn-id",
    "x-turn-metadata",
];

/// What the makers of models read, and their SDKs and coding agents send.
const OF_MAKERS: &[&str] = &[
    "chatgpt-account-id",
    "editor-plugin-version",
    "editor-version",
    "http-referer",
    "originator",
    "version",
    "x-agent-task-id",
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-security-token",
    "x-amz-user-agent",
    "x-app",
    "x-client-type",
    "x-client-version",
    "x-core-version",
    "x-goog-api-client",
    "x-goog-request-params",
    "x-goog-request-reason",
    "x-goog-user-project",
    "x-initiator",
    "x-interaction-id",
    "x-interaction-type",
    "x-is-multiroot",
    "x-ms-client-request-id",
    "x-ms-useragent",
    "x-platform",
    "x-platform-version",
    "x-server-timeout",
    "x-title",
];

/// How names begin that a maker of models has for its own. Where the operator pays, single ones of them pass
/// ([`head`](crate::head)).
const MAKERS: &[&str] = &[
    "anthropic-",
    "openai-",
    "x-amzn-bedrock-",
    "x-dashscope-",
    "x-github-",
    "x-ms-oai-",
    "x-oai-",
    "x-openai-",
    "x-openrouter-",
    "x-responsesapi-",
    "x-vertex-ai-",
];

/// How names begin that a client or a tracer has for its own.
const FAMILIES: &[&str] = &[
    "copilot-",
    "sec-ch-ua",
    "sec-fetch-",
    "x-b3-",
    "x-claude-code-",
    "x-cline-",
    "x-codex-",
    "x-copilot-",
    "x-datadog-",
    "x-gemini-",
    "x-opencode-",
    "x-qwen-",
    "x-stainless-",
];

/// The headers that pass where not all do.
#[derive(Debug, Default)]
pub(crate) struct KnownHeaders {
    /// Those that the operator named.
    also: Vec<String>,
    told: Mutex<BTreeSet<String>>,
}

impl KnownHeaders {
    pub(crate) fn with(also: &[String]) -> Self {
        let also = also.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { also, told: Mutex::default() }
    }

    /// Whether the operator named the header.
    pub(crate) fn is_named(&self, name: &HeaderName) -> bool {
        self.also.iter().any(|also| also == name.as_str())
    }

    /// Whether a header passes. One that does not is told of, once.
    pub(crate) fn pass(&self, name: &HeaderName) -> bool {
        if is_known(name.as_str()) || self.is_named(name) {
            return true;
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < MOST_TOLD && told.insert(name.as_str().to_owned()) {
            tracing::info!(
                header = name.as_str(),
                "a header of requests does not pass on, since no list knows it; `gateway.headers` names others"
            );
        }
        false
    }
}

fn is_known(name: &str) -> bool {
    [OF_HTTP, OF_TRACES, OF_MAKERS].iter().any(|names| names.contains(&name))
        || FAMILIES.iter().any(|family| name.starts_with(family))
        || is_of_maker(name)
}

/// Whether a maker of models has the name for its own.
pub(crate) fn is_of_maker(name: &str) -> bool {
    MAKERS.iter().any(|family| name.starts_with(family))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> HeaderName {
        text.parse().unwrap()
    }

    #[test]
    fn what_may_say_another_request_does_not_pass() {
        let known = KnownHeaders::default();
        for header in [
            "x-override-url",
            "x-original-path",
            "x-original-url",
            "x-rewrite-url",
            "x-forwarded-path",
            "x-forwarded-uri",
            "x-forwarded-prefix",
            "x-forwarded-host",
            "x-forwarded-for",
            "forwarded",
            "x-host",
            "x-http-method-override",
            "x-http-method",
            "x-amz-target",
            "x-goog-upload-protocol",
            "destination",
            "x-accel-redirect",
            "x-portkey-custom-host",
            "helicone-target-url",
            "upgrade-insecure-requests",
            "x-future",
            "future",
        ] {
            assert!(!known.pass(&name(header)), "{header}");
        }
        assert!(KnownHeaders::with(&["X-Future".to_owned()]).pass(&name("x-future")));
    }

    #[test]
    fn a_name_is_told_of_once_and_not_without_end() {
        let known = KnownHeaders::default();
        for number in 0..2 * MOST_TOLD {
            for _ in 0..2 {
                assert!(!known.pass(&name(&format!("x-stray-{number}"))));
            }
        }
        assert_eq!(known.told.lock().unwrap().len(), MOST_TOLD);
    }

    #[test]
    fn what_sdks_and_clients_send_passes() {
        let known = KnownHeaders::default();
        for header in [
            "User-Agent",
            "anthropic-version",
            "anthropic-beta",
            "anthropic-dangerous-direct-browser-access",
            "openai-organization",
            "OpenAI-Beta",
            "x-stainless-helper-method",
            "x-stainless-retry-count",
            "x-app",
            "x-claude-code-session-id",
            "x-goog-api-client",
            "x-server-timeout",
            "x-gemini-api-privileged-user-id",
            "x-codex-turn-state",
            "x-openai-subagent",
            "session_id",
            "originator",
            "x-dashscope-cachecontrol",
            "http-referer",
            "sec-fetch-mode",
            "traceparent",
            "idempotency-key",
        ] {
            assert!(known.pass(&name(header)), "{header}");
        }
        assert!(known.told.lock().unwrap().is_empty());
    }

    #[test]
    fn each_name_is_listed_once_and_in_small_letters() {
        let all: Vec<&str> = [OF_HTTP, OF_TRACES, OF_MAKERS, MAKERS, FAMILIES].concat();
        let once: BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(once.len(), all.len());
        assert!(all.iter().all(|name| name.bytes().all(|byte| !byte.is_ascii_uppercase())));
    }
}
