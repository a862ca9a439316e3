//! What a record says of the calls of providers, for whoever records traces.
//!
//! Nothing is noted unless a [sink](super::RequestSink::traces) asks for it.

use std::time::{Duration, Instant, SystemTime};

use backstop_hooks::conversation::TokenUsage;
use backstop_hooks::{SpanId, Trace};
use backstop_llm::StopReason;

use super::labels::{Label, Word};
use crate::endpoint::Family;
use crate::settings::Cloud;
use crate::upstream::Provider;

/// The most calls of one request that are noted: providers times retries, and answers that go on after a refusal.
const MOST_CALLS: usize = 64;
/// The most parts of one request that are noted.
const MOST_PARTS: usize = 256;
/// The most reasons of one call for which models stopped.
const MOST_REASONS: usize = 16;

/// Whose API a provider has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Maker {
    /// Anthropic.
    Anthropic,
    /// OpenAI, or whoever has its API.
    OpenAi,
    /// Google's Gemini API.
    Gemini,
    /// Azure OpenAI.
    Azure,
    /// Amazon Bedrock.
    Bedrock,
    /// Google's Vertex AI.
    Vertex,
}

impl Maker {
    pub(crate) fn of(provider: &Provider) -> Self {
        match (&provider.cloud, provider.family) {
            (Some(Cloud::Azure { .. }), _) => Self::Azure,
            (Some(Cloud::Bedrock { .. }), _) => Self::Bedrock,
            (Some(Cloud::Vertex { .. }), _) => Self::Vertex,
            (None, Family::Anthropic) => Self::Anthropic,
            (None, Family::OpenAi) => Self::OpenAi,
            (None, Family::Gemini) => Self::Gemini,
        }
    }
}

/// One call of a provider.
#[derive(Clone, Debug)]
pub struct ProviderCall {
    /// Its span, below that of the request.
    pub span: SpanId,
    /// When it was sent.
    pub at: SystemTime,
    /// Until it failed, or another one began, or the request was over.
    pub elapsed: Duration,
    /// The provider.
    pub provider: Label,
    /// Whose API it has.
    pub maker: Maker,
    /// The status of its answer; 0 where there is none.
    pub status: u16,
    /// The model that answered, as far as somebody read the answer.
    pub model: Option<Label>,
    /// The tokens that the provider counted, as far as somebody read the answer.
    pub tokens: TokenUsage,
    /// Why the model stopped, once for each answer that somebody read.
    pub finish: Vec<Word>,
}

/// A part of a request that is judged by itself: one of a batch.
#[derive(Clone, Copy, Debug)]
pub struct RequestPart {
    /// Its span, below that of the request.
    pub span: SpanId,
    /// When it was begun.
    pub at: SystemTime,
}

/// The calls as they are noted.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Noted>,
    parts: Vec<RequestPart>,
}

#[derive(Debug)]
struct Noted {
    call: ProviderCall,
    /// When it was sent; `None` if it was not.
    sent: Option<Instant>,
    ended: Option<Instant>,
}

impl Calls {
    /// Begins a call. Beyond the most that are noted, the last one goes on.
    pub(super) fn begin(&mut self, maker: Maker) -> SpanId {
        self.end(None);
        if let (true, Some(last)) = (self.calls.len() >= MOST_CALLS, self.calls.last_mut()) {
            last.ended = None;
            return last.call.span;
        }
        let call = ProviderCall {
            span: SpanId::fresh(),
            at: SystemTime::now(),
            elapsed: Duration::ZERO,
            provider: Label::none(),
            maker,
            status: 0,
            model: None,
            tokens: TokenUsage::default(),
            finish: Vec::new(),
        };
        let span = call.span;
        self.calls.push(Noted { call, sent: None, ended: None });
        span
    }

    pub(super) fn sent(&mut self, provider: &Label) {
        if let Some(last) = self.calls.last_mut().filter(|last| last.sent.is_none()) {
            (last.sent, last.call.at) = (Some(Instant::now()), SystemTime::now());
            last.call.provider = provider.clone();
        }
    }

    pub(super) fn answered(&mut self, status: u16) {
        if let Some(last) = self.calls.last_mut() {
            last.call.status = status;
        }
    }

    /// Ends the last call, if it goes on.
    pub(super) fn end(&mut self, status: Option<u16>) {
        if let Some(last) = self.calls.last_mut() {
            last.ended.get_or_insert_with(Instant::now);
            last.call.status = status.unwrap_or(last.call.status);
        }
    }

    pub(super) fn used(&mut self, model: Option<Label>, usage: TokenUsage) {
        let Some(Noted { call, .. }) = self.calls.last_mut() else { return };
        call.model = model.or(call.model.take());
        add(&mut call.tokens, usage);
    }

    pub(super) fn stopped(&mut self, reason: Word) {
        if let Some(Noted { call, .. }) = self.calls.last_mut()
            && call.finish.len() < MOST_REASONS
        {
            call.finish.push(reason);
        }
    }

    pub(super) fn part(&mut self, trace: Trace) {
        if self.parts.len() < MOST_PARTS {
            self.parts.push(RequestPart { span: trace.span_id, at: SystemTime::now() });
        }
    }

    pub(super) fn over(&mut self) -> (Vec<ProviderCall>, Vec<RequestPart>) {
        let sent = std::mem::take(&mut self.calls).into_iter().filter_map(|Noted { call, sent, ended }| {
            let elapsed = ended.unwrap_or_else(Instant::now).saturating_duration_since(sent?);
            Some(ProviderCall { elapsed, ..call })
        });
        (sent.collect(), std::mem::take(&mut self.parts))
    }
}

/// Adds what was used to what is known.
pub(super) fn add(all: &mut TokenUsage, usage: TokenUsage) {
    all.input = all.input.saturating_add(usage.input);
    all.output = all.output.saturating_add(usage.output);
    all.cache_read = all.cache_read.saturating_add(usage.cache_read);
    all.cache_write = all.cache_write.saturating_add(usage.cache_write);
}

/// The word for why a model stopped. Others are chosen by providers.
pub(super) fn finish(reason: &StopReason) -> Word {
    Word::of_reason(reason.word())
}
