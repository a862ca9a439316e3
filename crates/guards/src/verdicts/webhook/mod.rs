//! `webhook`: an HTTP endpoint decides.
//!
//! Before a tool call it is posted `{"tool_name", "arguments", "session_id"}` and answers `{"verdict": "approve" |
//! "deny" | "modify" | "ask", "reasoning"?, "modified_arguments"?}`; after a call it is posted the same with
//! `"event": "post_call"` and the result, and its answer is not read. For model calls `"event"` is
//! `"llm_pre_call"` and `"llm_post_call"`; `wire` has all of it.
//!
//! An outage is a failure, and a failure denies the call. An outage is that nobody answered: no connection, one that
//! ends before an answer begins, no answer in time, or a server that says it can't (408, 429, 5xx). With
//! `fail_open: true` it lets the call pass, and the receipt says so. Anything else denies the call whatever
//! `fail_open` says: an answer that is no HTTP, that breaks off or is no verdict, a redirect, a refusal of the
//! credentials. Somebody answered then, and what they said is not known; it may have been no.
//!
//! INVARIANT (credentials stay private): `auth_header` leaves this machine encrypted or not at all. Plain HTTP
//! with it is for loopback addresses, which are never asked through a proxy, and redirects are not followed,
//! since they would carry the arguments and the credentials to somebody else.
//!
//! Limits: an answer has at most 1 MiB. Connections are kept and used again.

mod wire;

use std::error::Error as _;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use backstop_engine::{
    Budget, HookVerdict, LlmAnswer, LlmCall, LlmCallHook, LlmChanges, ToolCallHook, VerdictCall, VerdictHook,
};
use backstop_hooks::conversation::ToolResult;
use backstop_hooks::{FailurePolicy, HookError, Malformed, Secret};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use serde::Deserialize;
use serde_json::Value;

const MOST_ANSWER_BYTES: usize = 1 << 20;

/// The options of a webhook, as written.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookOptions {
    /// Where to post to; `http` or `https`.
    pub url: String,
    /// The value of the `Authorization` header; none when empty. Needs `https`, unless the endpoint is on this
    /// machine.
    #[serde(default)]
    pub auth_header: String,
    /// How long to wait for an answer, in seconds.
    #[serde(default = "default_timeout")]
    pub timeout: f64,
    /// Whether an outage lets calls pass. Not said, it is what a failure means everywhere: calls are denied.
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
    url: Secret<Url>,
    on_this_machine: bool,
    authorization: Option<HeaderValue>,
    timeout: Duration,
    budget: Budget,
    fail_open: Option<bool>,
    client: OnceLock<Result<reqwest::Client, String>>,
}

impl Webhook {
    /// Checks the options. The endpoint is not called.
    ///
    /// # Errors
    ///
    /// [`Malformed`] naming the option.
    pub fn new(options: WebhookOptions) -> Result<Self, Malformed> {
        let url = Url::parse(&options.url).map_err(|error| Malformed::new(format!("`url`: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Malformed::new("`url` must begin with `http://` or `https://`"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Malformed::new(
                "`url` must not hold a user name or password\nhint: put them into `auth_header`",
            ));
        }
        let on_this_machine = is_loopback(&url);
        let authorization = match options.auth_header.as_str() {
            "" => None,
            header => {
                let mut value = HeaderValue::from_str(header)
                    .map_err(|_| Malformed::new("`auth_header` has characters that a header can't have"))?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        if authorization.is_some() && url.scheme() == "http" && !on_this_machine {
            return Err(Malformed::new(
                "`auth_header` would travel unencrypted to `url`\nhint: use `https://`; plain `http://` is for this machine only",
            ));
        }
        let refuse = || Malformed::new("`timeout` is a number of seconds, more than 0 and at most 590");
        let timeout = Duration::try_from_secs_f64(options.timeout).map_err(|_| refuse())?;
        // The hook's budget leaves room for the request's own timeout to say what happened.
        let budget = u64::try_from(timeout.as_millis()).ok().filter(|ms| (1..=590_000).contains(ms));
        let budget =
            budget.and_then(|ms| Budget::from_millis(ms.saturating_add(1_000)).ok()).ok_or_else(refuse)?;
        Ok(Self {
            url: Secret::new(url),
            on_this_machine,
            authorization,
            timeout,
            budget,
            fail_open: options.fail_open,
            client: OnceLock::new(),
        })
    }

    async fn post(&self, body: &Value) -> Result<reqwest::Response, HookError> {
        let client = self.client.get_or_init(|| client(self.on_this_machine));
        let client =
            client.as_ref().map_err(|error| HookError::failed(format!("no http client: {error}")))?;
        let mut request = client.post(self.url.expose().clone()).timeout(self.timeout);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let request =
            request.header(reqwest::header::CONTENT_TYPE, "application/json").body(body.to_string());
        // The error's own text would quote the address.
        let response = request.send().await.map_err(|error| unanswered(&error))?;
        let status = response.status();
        match status.as_u16() {
            200..=299 => Ok(response),
            408 | 429 | 500..=599 => Err(HookError::Unreachable(format!("the webhook answered {status}"))),
            _ => Err(HookError::failed(format!("the webhook answered {status}"))),
        }
    }

    async fn ask(&self, body: &Value) -> Result<Vec<u8>, HookError> {
        let mut response = self.post(body).await?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| broken_off(&error))? {
            if body.len().saturating_add(chunk.len()) > MOST_ANSWER_BYTES {
                return Err(Malformed::new("the webhook's answer has more than 1 MiB").into());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// Whether the endpoint is on this machine.
fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

fn client(on_this_machine: bool) -> Result<reqwest::Client, String> {
    crate::tls::install();
    let mut builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    if on_this_machine {
        // Neither a proxy nor a name server may turn this machine into another one. The port is the URL's.
        let addresses: [SocketAddr; 2] = [(Ipv4Addr::LOCALHOST, 0).into(), (Ipv6Addr::LOCALHOST, 0).into()];
        builder = builder.no_proxy().resolve_to_addrs("localhost", &addresses);
    }
    builder.build().map_err(|error| error.to_string())
}

/// Why there is no answer. The error's own text would quote the address.
fn unanswered(error: &reqwest::Error) -> HookError {
    let why = match error {
        error if error.is_timeout() => "no answer in time",
        error if error.is_connect() => "no connection",
        error if is_nonsense(error) => return Malformed::new("the webhook's answer is no HTTP").into(),
        _ => "a connection that broke",
    };
    HookError::Unreachable(format!("the webhook gave {why}"))
}

/// Why an answer that has begun has no end.
fn broken_off(error: &reqwest::Error) -> HookError {
    match error.is_timeout() {
        true => unanswered(error),
        false => Malformed::new("the webhook's answer broke off").into(),
    }
}

/// Whether something was answered that the protocol does not know.
fn is_nonsense(error: &reqwest::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = error.source();
    while let Some(error) = cause {
        if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse) {
            return true;
        }
        cause = error.source();
    }
    false
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
        let body = self.ask(&Value::Object(wire::tool_call(call))).await?;
        Ok(wire::tool_verdict(&body, call)?)
    }

    async fn post_call(&self, call: VerdictCall<'_>, result: Option<&ToolResult>) -> Result<(), HookError> {
        self.post(&wire::tool_result(call, result)).await.map(drop)
    }

    fn watches() -> bool {
        true
    }
}

#[async_trait]
impl LlmCallHook for Webhook {
    async fn pre_call(&self, call: LlmCall<'_>) -> Result<HookVerdict<LlmChanges>, HookError> {
        let body = self.ask(&wire::llm_call(call)).await?;
        Ok(wire::llm_verdict(&body)?)
    }

    async fn post_call(&self, answer: LlmAnswer<'_>) -> Result<(), HookError> {
        self.post(&wire::llm_answer(answer)).await.map(drop)
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
