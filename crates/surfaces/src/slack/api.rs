//! Asking Slack: a method, a token, and an answer that says itself whether it is one.

use std::time::Duration;

use backstop_hooks::Secret;
use serde_json::Value;
use url::Url;

use crate::asking::{Asker, Egress, bearer};
use crate::shown::line;
use crate::surface::SurfaceError;

const PATIENCE: Duration = Duration::from_secs(20);
const MOST_BYTES: usize = 1 << 20;
/// How long it is waited after a token was refused.
pub(super) const REFUSED: Duration = Duration::from_secs(300);

/// The methods of Slack's web API.
#[derive(Debug)]
pub(super) struct Api {
    pub(super) url: Url,
    pub(super) asker: Asker,
}

impl Api {
    pub(super) fn new(url: Url, egress: Egress) -> Self {
        Self { url, asker: Asker::new(egress, PATIENCE, MOST_BYTES) }
    }

    /// Calls a method as whoever has the token.
    pub(super) async fn call(
        &self,
        token: &Secret,
        method: &str,
        body: &Value,
    ) -> Result<Value, SurfaceError> {
        let url = self.url.join(method).map_err(|_| SurfaceError::never("`api` is no address"))?;
        let token = bearer(token.expose());
        let token = token.ok_or_else(|| SurfaceError::never("the token can't stand in a header"))?;
        let answer = self.asker.post(&url, [token], body.to_string().into_bytes()).await?;
        if !answer.status.is_success() {
            return Err(answer.refusal());
        }
        // A success of HTTP says nothing yet.
        let said = answer.json().ok_or_else(|| SurfaceError::later("the service did not answer JSON"))?;
        if said.get("ok") == Some(&Value::Bool(true)) {
            return Ok(said);
        }
        let error = line(said.get("error").and_then(Value::as_str).unwrap_or("no error"), 60);
        let why = format!("{method} was answered `{error}`");
        Err(match error.as_str() {
            "ratelimited" | "rate_limited" => SurfaceError::Later { why, after: answer.after },
            "internal_error" | "fatal_error" | "service_unavailable" | "request_timeout" => {
                SurfaceError::later(why)
            }
            "invalid_auth" | "not_authed" | "account_inactive" | "token_revoked" | "token_expired" => {
                SurfaceError::Later { why, after: Some(REFUSED) }
            }
            "msg_too_long" | "msg_blocks_too_long" | "invalid_blocks" | "invalid_blocks_format" => {
                SurfaceError::content(why)
            }
            _ => SurfaceError::never(why),
        })
    }
}
