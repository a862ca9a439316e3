//! One call: attempts, waits, limits.

use std::collections::VecDeque;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::{Digest, TraceParent};
use backstop_http_client::{Request, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use tokio::time::{Instant, sleep, timeout};
use url::Url;

use super::failure::{explain, transport_error};
use super::{Inner, RetryPolicy};
use crate::answer::{AnswerReader, BodyForm, FRAMES};
use crate::error::{ModelError, ProviderError, ProviderErrorKind, TimeoutPhase};
use crate::model::{ModelEvent, ModelRequest, StatsCell};

/// Error bodies are read up to here.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// How long to wait for more of an error body, whose status already says most.
const ERROR_BODY_PATIENCE: Duration = Duration::from_secs(5);

const REQUEST_ID_HEADERS: [&str; 3] = ["request-id", "x-request-id", "apim-request-id"];

pub(super) struct Call {
    client: Arc<Inner>,
    model: String,
    endpoint: Url,
    headers: HeaderMap,
    body: Bytes,
    stats: StatsCell,
    begun: Option<Instant>,
    retries: u32,
    answer: Option<(Response, AnswerReader)>,
    queue: VecDeque<ModelEvent>,
    /// What comes after the queue.
    failure: Option<ModelError>,
    passed_on: bool,
    finished: bool,
}

impl Call {
    pub(super) fn new(client: Arc<Inner>, request: &ModelRequest, stream: bool, stats: StatsCell) -> Self {
        let body = Bytes::from(client.settings.api.encode_request(request, stream).to_string());
        stats.update(|stats| stats.request_bytes = body.len() as u64);
        let endpoint = client.settings.endpoint(&client.base, &request.model, stream);
        let headers = in_span(client.headers.clone(), request.span);
        Self {
            client,
            model: request.model.clone(),
            endpoint,
            headers,
            body,
            stats,
            begun: None,
            retries: 0,
            answer: None,
            queue: VecDeque::new(),
            failure: None,
            passed_on: false,
            finished: false,
        }
    }

    /// The next event; nothing after the last one.
    pub(super) async fn next(&mut self) -> Result<Option<ModelEvent>, ModelError> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                self.passed_on = true;
                return Ok(Some(event));
            }
            if let Some(error) = self.failure.take() {
                self.answer = None;
                self.wait_for_retry(error).await?;
            }
            if self.finished {
                return Ok(None);
            }
            if let Err(error) = self.advance().await {
                self.failure = Some(error);
            }
        }
    }

    async fn advance(&mut self) -> Result<(), ModelError> {
        let Some((mut response, mut reader)) = self.answer.take() else {
            self.answer = Some(self.send().await?);
            return Ok(());
        };
        let timeouts = &self.client.settings.timeouts;
        let chunk = self.within(TimeoutPhase::Idle, timeouts.idle, response.chunk()).await?;
        match chunk.map_err(|error| transport_error(&error, &self.endpoint))? {
            Some(bytes) => {
                self.count(&bytes);
                reader.push(&bytes, &mut self.queue).map_err(|error| self.explained(error))?;
            }
            None => reader.finish(&mut self.queue).map_err(|error| self.explained(error))?,
        }
        self.finished = reader.is_finished();
        if !self.finished {
            self.answer = Some((response, reader));
        }
        Ok(())
    }

    /// Sends the request and waits for the head of the answer.
    async fn send(&mut self) -> Result<(Response, AnswerReader), ModelError> {
        self.begun.get_or_insert_with(Instant::now);
        self.stats.update(|stats| stats.attempts += 1);
        let settings = &self.client.settings;
        let request = Request {
            method: Method::POST,
            url: &self.endpoint,
            headers: self.headers.clone(),
            body: self.body.clone(),
        };
        let response = self
            .within(TimeoutPhase::FirstByte, settings.timeouts.first_byte, self.client.http.send(request))
            .await?
            .map_err(|error| transport_error(&error, &self.endpoint))?;
        let request_id = REQUEST_ID_HEADERS.iter().find_map(|name| response.headers().get(*name));
        let digest =
            request_id.and_then(|id| id.to_str().ok()).map(|id| Digest::of_text("upstream_request_id", id));
        self.stats.update(|stats| stats.upstream_request_id = digest);
        if response.status() != StatusCode::OK {
            return Err(self.refusal(response).await);
        }
        let form = body_form(response.headers()).ok_or_else(|| self.not_an_answer())?;
        Ok((response, AnswerReader::new(settings.api, form, settings.max_response_bytes)))
    }

    /// The error that an answer without success stands for.
    async fn refusal(&self, mut response: Response) -> ModelError {
        let settings = &self.client.settings;
        let mut body = Vec::new();
        // A body that breaks off or stalls still leaves the status to tell.
        let patience = settings.timeouts.idle.min(ERROR_BODY_PATIENCE);
        while let Ok(Ok(Some(bytes))) = timeout(patience, response.chunk()).await {
            self.count(&bytes);
            body.extend_from_slice(&bytes);
            if body.len() > MAX_ERROR_BYTES {
                break;
            }
        }
        let error = settings.api.decode_error(response.status().as_u16(), response.headers(), &body);
        explain(error, settings, &self.model)
    }

    /// Errors inside a stream are made fit to be shown like those of an answer without success.
    fn explained(&self, error: ModelError) -> ModelError {
        match error {
            ModelError::Provider(error) => explain(error, &self.client.settings, &self.model),
            other => other,
        }
    }

    fn not_an_answer(&self) -> ModelError {
        let message = "neither JSON nor an event stream";
        let mut error = ProviderError::new(ProviderErrorKind::Unexpected, 200, None, message);
        error.hint = Some(format!("is `{}` the base URL of a model API?", self.client.settings.base_url));
        ModelError::Provider(error)
    }

    fn count(&self, bytes: &[u8]) {
        let begun = self.begun;
        self.stats.update(|stats| {
            stats.response_bytes += bytes.len() as u64;
            stats.time_to_first_byte = stats.time_to_first_byte.or_else(|| Some(begun?.elapsed()));
        });
    }

    /// Waits until the request may be sent again.
    ///
    /// # Errors
    /// The error itself, if it may not.
    async fn wait_for_retry(&mut self, error: ModelError) -> Result<(), ModelError> {
        let policy = self.client.settings.retry;
        if self.passed_on || !error.is_transient() || self.retries >= policy.max_retries {
            return Err(error);
        }
        let Some(delay) =
            retry_delay(&policy, self.retries, &error).filter(|delay| *delay < self.remaining())
        else {
            return Err(error);
        };
        self.retries += 1;
        tracing::debug!(
            provider = %self.client.settings.name,
            category = error.category().as_str(),
            retry = self.retries,
            delay_ms = delay.as_millis(),
            "asking the model again"
        );
        sleep(delay).await;
        Ok(())
    }

    fn remaining(&self) -> Duration {
        let total = self.client.settings.timeouts.total;
        self.begun.map_or(total, |begun| total.saturating_sub(begun.elapsed()))
    }

    async fn within<T>(
        &self,
        phase: TimeoutPhase,
        limit: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, ModelError> {
        let remaining = self.remaining();
        let (phase, after, limit) = if limit <= remaining {
            (phase, limit, limit)
        } else {
            (TimeoutPhase::Total, self.client.settings.timeouts.total, remaining)
        };
        timeout(limit, work).await.map_err(|_| ModelError::Timeout { phase, after })
    }
}

/// The headers of a call that stands in this span. Every try of a call is in the same one; a header of the operator's wins.
fn in_span(mut headers: HeaderMap, span: Option<TraceParent>) -> HeaderMap {
    // Digits and hyphens are always a value.
    if let Some(value) = span.and_then(|span| HeaderValue::from_str(&span.to_string()).ok()) {
        headers.entry(TraceParent::HEADER).or_insert(value);
    }
    headers
}

fn body_form(headers: &HeaderMap) -> Option<BodyForm> {
    let content_type = headers.get(header::CONTENT_TYPE)?.to_str().ok()?.to_ascii_lowercase();
    match content_type.split(';').next().unwrap_or_default().trim() {
        "text/event-stream" => Some(BodyForm::Events),
        FRAMES => Some(BodyForm::Frames),
        kind if kind == "application/json" || kind.ends_with("+json") => Some(BodyForm::Json),
        _ => None,
    }
}

/// How long to wait before the next try; `None` if the provider asks for more than is allowed.
fn retry_delay(policy: &RetryPolicy, retries: u32, error: &ModelError) -> Option<Duration> {
    let asked = match error {
        ModelError::Provider(error) => error.retry_after.unwrap_or_default(),
        _ => Duration::ZERO,
    };
    if asked > policy.max_retry_after {
        return None;
    }
    let doubled = policy.base_delay.saturating_mul(2u32.saturating_pow(retries)).min(policy.max_delay);
    Some(asked.max(doubled.mul_f64(0.5 + random_half())))
}

/// A random number from 0 to 0.5, good enough to keep clients from asking in step.
fn random_half() -> f64 {
    let random = RandomState::new().hash_one(0u8);
    f64::from(u16::try_from(random & 0xffff).unwrap_or_default()) / f64::from(u16::MAX) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate_limited(retry_after: Option<Duration>) -> ModelError {
        let mut error = ProviderError::new(ProviderErrorKind::RateLimit, 429, None, "slow down");
        error.retry_after = retry_after;
        ModelError::Provider(error)
    }

    #[test]
    fn waits_grow_are_bounded_and_honour_the_provider() {
        let policy = RetryPolicy::default();
        for retries in 0..80 {
            let delay = retry_delay(&policy, retries, &rate_limited(None)).unwrap();
            let full = policy.base_delay.saturating_mul(2u32.saturating_pow(retries)).min(policy.max_delay);
            assert!(delay >= full / 2 && delay <= full, "{retries}: {delay:?}");
        }
        let asked = Duration::from_secs(20);
        assert_eq!(retry_delay(&policy, 0, &rate_limited(Some(asked))), Some(asked));
        assert_eq!(retry_delay(&policy, 0, &rate_limited(Some(Duration::from_secs(3_600)))), None);
    }

    #[test]
    fn content_types() {
        let form =
            |value: &str| body_form(&HeaderMap::from_iter([(header::CONTENT_TYPE, value.parse().unwrap())]));
        assert_eq!(form("text/event-stream; charset=utf-8"), Some(BodyForm::Events));
        assert_eq!(form("Application/JSON"), Some(BodyForm::Json));
        assert_eq!(form("text/html"), None);
        assert_eq!(body_form(&HeaderMap::new()), None);
    }
}
