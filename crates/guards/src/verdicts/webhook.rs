//! `webhook`: an HTTP endpoint decides.
//!
//! Before a call it is posted `{"tool_name", "arguments", "session_id"}` and answers
//! `{"verdict": "approve" | "deny" | "modify", "reasoning"?, "modified_arguments"?}`; after a call it is
//! posted the same with `"event": "post_call"` and the result, and its answer is not read.
//!
//! What an outage means is `fail_open` (default true): no connection, no answer in time, or a server that
//! says it can't (408, 429, 5xx) then lets the call pass, and the receipt says so. Anything else is a
//! failure and denies the call whatever `fail_open` says: an answer that is not exactly a verdict, a
//! redirect, a refusal of the credentials. Nonsense is not an outage.
//!
//! Limits: an answer has at most 1 MiB. Redirects are not followed, since they would carry the arguments
//! and the credentials to somebody else. Connections are kept and used again.

use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use backstop_engine::{Budget, HookVerdict, VerdictCall, VerdictHook};
use backstop_hooks::conversation::ToolResult;
use backstop_hooks::{FailurePolicy, HookError, Malformed, Params, Secret, Text};
use reqwest::header::{AUTHORIZATION, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};

const MOST_ANSWER_BYTES: usize = 1 << 20;

/// The options of a webhook, as written.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookOptions {
    /// Where to post to; `http` or `https`.
    pub url: String,
    /// The value of the `Authorization` header; none when empty.
    #[serde(default)]
    pub auth_header: String,
    /// How long to wait for an answer, in seconds.
    #[serde(default = "default_timeout")]
    pub timeout: f64,
    /// Whether an outage lets calls pass.
    #[serde(default = "default_fail_open")]
    pub fail_open: bool,
}

fn default_timeout() -> f64 {
    5.0
}

fn default_fail_open() -> bool {
    true
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
    url: Secret<reqwest::Url>,
    authorization: Option<HeaderValue>,
    timeout: Duration,
    budget: Budget,
    fail_open: bool,
    client: OnceLock<Result<reqwest::Client, String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    verdict: Word,
    #[serde(default)]
    reasoning: Option<Text>,
    #[serde(default)]
    modified_arguments: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Approve,
    Deny,
    Modify,
}

impl Webhook {
    /// Checks the options. The endpoint is not called.
    ///
    /// # Errors
    ///
    /// [`Malformed`] naming the option.
    pub fn new(options: WebhookOptions) -> Result<Self, Malformed> {
        let url =
            reqwest::Url::parse(&options.url).map_err(|error| Malformed::new(format!("`url`: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Malformed::new("`url` must begin with `http://` or `https://`"));
        }
        let authorization = match options.auth_header.as_str() {
            "" => None,
            header => {
                let mut value = HeaderValue::from_str(header)
                    .map_err(|_| Malformed::new("`auth_header` has characters that a header can't have"))?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let refuse = || Malformed::new("`timeout` is a number of seconds, more than 0 and at most 590");
        let timeout = Duration::try_from_secs_f64(options.timeout).map_err(|_| refuse())?;
        // The hook's budget leaves room for the request's own timeout to say what happened.
        let budget = u64::try_from(timeout.as_millis()).ok().filter(|ms| (1..=590_000).contains(ms));
        let budget =
            budget.and_then(|ms| Budget::from_millis(ms.saturating_add(1_000)).ok()).ok_or_else(refuse)?;
        Ok(Self {
            url: Secret::new(url),
            authorization,
            timeout,
            budget,
            fail_open: options.fail_open,
            client: OnceLock::new(),
        })
    }

    async fn post(&self, body: &Value) -> Result<reqwest::Response, HookError> {
        let client = self.client.get_or_init(|| {
            crate::tls::install();
            let builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
            builder.build().map_err(|error| error.to_string())
        });
        let client =
            client.as_ref().map_err(|error| HookError::failed(format!("no http client: {error}")))?;
        let mut request = client.post(self.url.expose().clone()).timeout(self.timeout);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let request =
            request.header(reqwest::header::CONTENT_TYPE, "application/json").body(body.to_string());
        // The error's own text would quote the address.
        let response = request.send().await.map_err(|error| unreachable_because(&error.without_url()))?;
        let status = response.status();
        match status.as_u16() {
            200..=299 => Ok(response),
            408 | 429 | 500..=599 => Err(HookError::Unreachable(format!("the webhook answered {status}"))),
            _ => Err(HookError::failed(format!("the webhook answered {status}"))),
        }
    }

    async fn answer(&self, mut response: reqwest::Response) -> Result<Vec<u8>, HookError> {
        let mut body = Vec::new();
        while let Some(chunk) =
            response.chunk().await.map_err(|error| unreachable_because(&error.without_url()))?
        {
            if body.len().saturating_add(chunk.len()) > MOST_ANSWER_BYTES {
                return Err(Malformed::new("the webhook's answer has more than 1 MiB").into());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

fn unreachable_because(error: &reqwest::Error) -> HookError {
    let what = if error.is_timeout() {
        "no answer in time"
    } else if error.is_connect() {
        "no connection"
    } else {
        "the connection broke"
    };
    HookError::Unreachable(format!("the webhook gave {what}"))
}

fn verdict(body: &[u8]) -> Result<HookVerdict, Malformed> {
    let answer: Answer = serde_json::from_slice(body).map_err(|error| {
        Malformed::new(format!(
            "the webhook's answer is no verdict (line {}, column {})",
            error.line(),
            error.column()
        ))
    })?;
    match (answer.verdict, answer.modified_arguments) {
        (Word::Approve, _) => Ok(HookVerdict::Approve),
        (Word::Deny, _) => Ok(HookVerdict::Deny { reasoning: answer.reasoning }),
        (Word::Modify, Some(arguments)) => match Params::from_value(arguments) {
            Some(modified_arguments) => Ok(HookVerdict::Modify { modified_arguments }),
            None => Err(Malformed::new("the webhook's `modified_arguments` is no object")),
        },
        (Word::Modify, None) => Err(Malformed::new("the webhook says `modify` without `modified_arguments`")),
    }
}

fn call_body(call: VerdictCall<'_>) -> serde_json::Map<String, Value> {
    let mut body = serde_json::Map::new();
    body.insert("tool_name".to_owned(), json!(call.tool_name));
    body.insert("arguments".to_owned(), call.arguments.to_value());
    body.insert("session_id".to_owned(), json!(call.session_id.map_or("", |session| session.as_str())));
    body
}

#[async_trait]
impl VerdictHook for Webhook {
    async fn pre_call(&self, call: VerdictCall<'_>) -> Result<HookVerdict, HookError> {
        let response = self.post(&Value::Object(call_body(call))).await?;
        let body = self.answer(response).await?;
        Ok(verdict(&body)?)
    }

    async fn post_call(&self, call: VerdictCall<'_>, result: Option<&ToolResult>) -> Result<(), HookError> {
        let mut body = call_body(call);
        body.insert("event".to_owned(), json!("post_call"));
        let success = result.is_some_and(|result| !result.is_error);
        let output = result.map(ToolResult::visible_text).unwrap_or_default();
        body.insert("result".to_owned(), json!({ "success": success, "output": output }));
        self.post(&Value::Object(body)).await.map(drop)
    }

    fn watches(&self) -> bool {
        true
    }

    fn on_failure(&self) -> Option<FailurePolicy> {
        self.fail_open.then_some(FailurePolicy::OpenIfUnreachable)
    }

    fn budget(&self) -> Option<Budget> {
        Some(self.budget)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_verdict_is_a_failure_not_an_approval() {
        for body in [
            "",
            "null",
            "{}",
            "[]",
            "\"approve\"",
            r#"{"verdict": "yes"}"#,
            r#"{"verdict": true}"#,
            r#"{"verdict": "APPROVE"}"#,
            r#"{"verdict": "modify"}"#,
            r#"{"verdict": "modify", "modified_arguments": []}"#,
            r#"{"verdict": "approve", "verdicts": 1}"#,
        ] {
            assert!(verdict(body.as_bytes()).is_err(), "{body}");
        }
        assert_eq!(verdict(br#"{"verdict": "approve", "reasoning": null}"#), Ok(HookVerdict::Approve));
    }

    #[test]
    fn options_are_checked_and_never_shown() {
        let options = |text: &str| -> Result<Webhook, Malformed> {
            Webhook::new(super::super::read(&serde_json::from_str(text).unwrap())?)
        };
        for bad in [
            r#"{}"#,
            r#"{"url": "ftp://127.0.0.1/"}"#,
            r#"{"url": "http://127.0.0.1/", "timeout": 0}"#,
            r#"{"url": "http://127.0.0.1/", "timeout": -1}"#,
            r#"{"url": "http://127.0.0.1/", "timeout": 1e9}"#,
            r#"{"url": "http://127.0.0.1/", "failopen": false}"#,
            r#"{"url": "http://127.0.0.1/", "auth_header": "a\nb"}"#,
        ] {
            assert!(options(bad).is_err(), "{bad}");
        }
        let hook = options(r#"{"url": "http://127.0.0.1/?token=hunter2", "auth_header": "Bearer hunter2"}"#)
            .unwrap();
        assert!(!format!("{hook:?}").contains("hunter2"));
        assert_eq!(hook.on_failure(), Some(FailurePolicy::OpenIfUnreachable));
    }
}
