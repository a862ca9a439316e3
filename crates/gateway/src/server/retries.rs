//! When a provider is asked once more, or another one in its place.

use std::time::Duration;

use http::{HeaderMap, StatusCode, header};

/// The first wait before a provider is asked again; it doubles with each.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// A provider that asks to wait longer is not asked again.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// How long to wait where the provider says nothing of it.
pub(super) fn first_wait(retries: u32) -> Duration {
    FIRST_WAIT.saturating_mul(1 << retries.min(16))
}

/// Whether a provider does not take its key, or not for this: another one may.
pub(super) fn is_denied(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

pub(super) fn is_transient(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()
}

/// How long to wait before the same provider is asked again; `None` if it asks for more than anybody waits.
pub(super) fn wait_asked(headers: &HeaderMap, retries: u32) -> Option<Duration> {
    let own = first_wait(retries);
    let asked = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let asked = asked.and_then(|seconds| seconds.trim().parse().ok()).map(Duration::from_secs);
    Some(asked.unwrap_or(own)).filter(|wait| *wait <= LONGEST_WAIT)
}
