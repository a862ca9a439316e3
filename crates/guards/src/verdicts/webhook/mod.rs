//! `webhook`: an HTTP endpoint decides.
//!
//! Before a tool call the hook posts `{"tool_name", "arguments", "session_id"}`, and the endpoint answers `{"verdict":
//! "approve" | "deny" | "modify" | "ask", "reasoning"?, "modified_arguments"?}`. After a call it posts the same with
//! `"event": "post_call"` and the result, and does not read the answer. For model calls `"event"` is
//! `"llm_pre_call"` and `"llm_post_call"`; `wire` documents all of it.
//!
//! An outage is a failure, and a failure denies the call. An outage means that nobody answered: no connection, a connection
//! that ends before an answer begins, no answer in time, or a server that reports that it can't answer (408, 429, 5xx).
//! With `fail_open: true` it lets the call pass, and the receipt says so. Anything else denies the call whatever
//! `fail_open` says: an answer that is not HTTP, is cut off or is not a verdict, a redirect, rejected
//! credentials. In these cases somebody answered, and the unknown answer may have been no.
//!
//! The rules for the connection (credentials, redirects, sizes) are those of every [endpoint](backstop_endpoint).

mod wire;

use std::time::Duration;

use async_trait::async_trait;
use backstop_endpoint::{Endpoint, Plain, Words};
use backstop_engine::{
    Budget, HookVerdict, LlmAnswer, LlmCall, LlmCallHook, LlmChanges, ToolCallHook, VerdictCall, VerdictHook,
};
use backstop_hooks::conversation::ToolResult;
use backstop_hooks::{FailurePolicy, HookError, Malformed};
use serde::Deserialize;
use serde_json::Value;

const WORDS: Words = Words { what: "webhook", credentials: "auth_header" };

/// The options of a webhook, as written.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookOptions {
    /// Where to post to; `http` or `https`.
    pub url: String,
    /// The value of the `Authorization` header; no header if empty. Requires `https`, unless the endpoint is on this
    /// machine.
    #[serde(default)]
    pub auth_header: String,
    /// How long to wait for an answer, in seconds.
    #[serde(default = "default_timeout")]
    pub timeout: f64,
    /// Whether an outage lets calls pass. By default an outage is like any failure: calls are denied.
    #[serde(default)]
    pub fail_open: Option<bool>,
}

fn default_timeout() -> f64 {
    5.0
}

impl std::fmt::Debug for WebhookOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The address may hold a token, the header does.
        f.debug_struct("WebhookOptions")
            .field("timeout", &self.timeout)
            .field("fail_open", &self.fail_open)
            .finish_non_exhaustive()
    }
}

/// A webhook, ready to judge.
#[derive(Debug)]
pub struct Webhook {
    endpoint: Endpoint,
    budget: Budget,
    fail_open: Option<bool>,
}

impl Webhook {
    /// Checks the options. The endpoint is not called.
    ///
    /// # Errors
    ///
    /// [`Malformed`] naming the option.
    pub fn new(options: WebhookOptions) -> Result<Self, Malformed> {
        let refuse = || Malformed::new("`timeout` is a number of seconds, more than 0 and at most 590");
        let timeout = Duration::try_from_secs_f64(options.timeout).map_err(|_| refuse())?;
        // The hook's budget leaves room for the request's own timeout to say what happened.
        let budget = u64::try_from(timeout.as_millis()).ok().filter(|ms| (1..=590_000).contains(ms));
        let budget =
            budget.and_then(|ms| Budget::from_millis(ms.saturating_add(1_000)).ok()).ok_or_else(refuse)?;
        let header = Some(options.auth_header.as_str());
        let endpoint = Endpoint::new(&options.url, header, Plain::Anywhere, timeout, WORDS)?;
        Ok(Self { endpoint, budget, fail_open: options.fail_open })
    }
}

impl VerdictHook for Webhook {
    fn on_failure(&self) -> Option<FailurePolicy> {
        self.fail_open.map(|open| if open { FailurePolicy::OpenIfUnreachable } else { FailurePolicy::Closed })
    }

    fn budget(&self) -> Option<Budget> {
        Some(self.budget)
    }
}

#[async_trait]
impl ToolCallHook for Webhook {
    async fn pre_call(&self, call: VerdictCall<'_>) -> Result<HookVerdict, HookError> {
        let body = self.endpoint.ask(Value::Object(wire::tool_call(call)).to_string()).await?;
        Ok(wire::tool_verdict(&body, call)?)
    }

    async fn post_call(&self, call: VerdictCall<'_>, result: Option<&ToolResult>) -> Result<(), HookError> {
        self.endpoint.tell(wire::tool_result(call, result).to_string()).await
    }

    fn watches() -> bool {
        true
    }
}

#[async_trait]
impl LlmCallHook for Webhook {
    async fn pre_call(&self, call: LlmCall<'_>) -> Result<HookVerdict<LlmChanges>, HookError> {
        let body = self.endpoint.ask(wire::llm_call(call).to_string()).await?;
        Ok(wire::llm_verdict(&body)?)
    }

    async fn post_call(&self, answer: LlmAnswer<'_>) -> Result<(), HookError> {
        self.endpoint.tell(wire::llm_answer(answer).to_string()).await
    }

    fn watches() -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn webhook(options: Value) -> Result<Webhook, Malformed> {
        Webhook::new(super::super::read(&options)?)
    }

    #[test]
    fn options_are_checked_and_never_shown() {
        for bad in [
            json!({}),
            json!({"url": "ftp://127.0.0.1/"}),
            json!({"url": "http://127.0.0.1/", "timeout": 0}),
            json!({"url": "http://127.0.0.1/", "timeout": -1}),
            json!({"url": "http://127.0.0.1/", "timeout": 1e9}),
            json!({"url": "http://127.0.0.1/", "failopen": false}),
            json!({"url": "http://127.0.0.1/", "auth_header": "a\nb"}),
            json!({"url": "https://me:hunter2@example.com/"}),
        ] {
            let error = webhook(bad.clone()).unwrap_err();
            assert!(!error.message().contains("hunter2"), "{bad}");
        }
        let hook =
            webhook(json!({"url": "http://127.0.0.1/?token=hunter2", "auth_header": "Bearer hunter2"}));
        assert!(!format!("{:?}", hook.unwrap()).contains("hunter2"));
    }

    #[test]
    fn a_webhook_without_fail_open_fails_closed() {
        let policy = |more: Value| {
            let mut options = json!({"url": "http://127.0.0.1/"});
            options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            webhook(options).unwrap().on_failure()
        };
        assert_eq!(policy(json!({})), None, "what a failure means everywhere");
        assert_eq!(policy(json!({"fail_open": false})), Some(FailurePolicy::Closed));
        assert_eq!(policy(json!({"fail_open": true})), Some(FailurePolicy::OpenIfUnreachable));
    }

    #[test]
    fn auth_header_is_refused_over_plain_http() {
        let with_header = |url: &str| webhook(json!({"url": url, "auth_header": "Bearer x"}));
        for away in [
            "http://example.com/",
            "http://10.0.0.1/",
            "http://localhost.example.com/",
            "http://127.0.0.1.example.com/",
            "http://0.0.0.0/",
            "http://[fe80::1]/",
        ] {
            let error = with_header(away).unwrap_err();
            assert!(error.message().contains("unencrypted"), "{away}: {error}");
            assert!(webhook(json!({"url": away})).is_ok(), "{away}");
        }
        for here in ["http://127.0.0.1:8080/", "http://localhost/", "http://[::1]/", "https://example.com/"] {
            assert!(with_header(here).is_ok(), "{here}");
        }
    }
}
