//! What can be asked: the [`Model`] trait and the stream it answers with.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use backstop_hooks::Digest;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};

use super::accumulator::Accumulator;
use super::event::{ModelEvent, ModelResponse};
use super::request::ModelRequest;
use crate::error::{ModelError, WireError};
use crate::wire::Api;

/// Something that answers requests: a provider behind HTTP, or a script.
pub trait Model: Send + Sync + fmt::Debug {
    /// The name of the provider in the configuration.
    fn provider(&self) -> &str;

    /// The wire that it speaks.
    fn api(&self) -> Api;

    /// Asks. Nothing is sent before the stream is polled; dropping the stream ends the call and closes the
    /// connection.
    fn stream(&self, request: ModelRequest) -> ModelStream;
}

/// The answer of one call.
///
/// It yields events until [`ModelEvent::Finished`], or one error, and then ends.
pub struct ModelStream {
    events: BoxStream<'static, Result<ModelEvent, ModelError>>,
    stats: StatsCell,
}

/// Facts about one call, free of anything that was said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallStats {
    /// Requests that were sent; more than one after retries.
    pub attempts: u32,
    /// Bytes of one request's body.
    pub request_bytes: u64,
    /// Bytes of the answer's body that were read.
    pub response_bytes: u64,
    /// From the first request until the first byte of the answer's body.
    pub time_to_first_byte: Option<Duration>,
    /// The provider's request id, as a digest: enough to compare, useless to look anything up with.
    pub upstream_request_id: Option<Digest>,
}

impl ModelStream {
    pub(crate) fn new(
        events: impl Stream<Item = Result<ModelEvent, ModelError>> + Send + 'static,
        stats: StatsCell,
    ) -> Self {
        Self { events: events.boxed(), stats }
    }

    /// A stream of the given events, for models that are neither a provider nor a script.
    pub fn of_events(events: impl Stream<Item = Result<ModelEvent, ModelError>> + Send + 'static) -> Self {
        Self::new(events, StatsCell::default())
    }

    /// Facts about the call so far.
    pub fn stats(&self) -> CallStats {
        self.stats.get()
    }

    /// Waits for the whole answer.
    ///
    /// # Errors
    /// What the stream failed with.
    pub async fn complete(&mut self) -> Result<ModelResponse, ModelError> {
        let mut answer = Accumulator::new();
        while let Some(event) = self.next().await {
            answer.push(&event?);
        }
        answer.finish().map_err(|_| WireError::Truncated.into())
    }
}

impl Stream for ModelStream {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_next_unpin(context)
    }
}

impl fmt::Debug for ModelStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelStream").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// The facts about a call, shared between the stream's inside and its holder.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatsCell(Arc<Mutex<CallStats>>);

impl StatsCell {
    pub(crate) fn get(&self) -> CallStats {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut CallStats)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
