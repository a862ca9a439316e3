//! The spans of a request and of its calls of providers, from the record of the request.

use std::borrow::Cow;

use backstop_gateway::{Label, Maker, Outcome, ProviderCall, RequestRecord, RequestSink, Word};
use backstop_hooks::{Trace, TraceId};
use backstop_telemetry::{Attribute, Kind, Span, keys, operations, providers, told};

use super::{Traces, used};

impl RequestSink for Traces {
    fn ended(&self, record: &RequestRecord) {
        if !self.exporter.samples(record.trace.trace_id) {
            return;
        }
        for call in &record.calls {
            self.exporter.record(called(record, call));
        }
        for part in &record.parts {
            let trace = below(record, part.span);
            let until = record.at.checked_add(record.elapsed);
            let elapsed = until.and_then(|until| until.duration_since(part.at).ok()).unwrap_or_default();
            self.exporter.record(Span::began(trace, "part", part.at, elapsed));
        }
        self.exporter.record(answered(record));
    }

    fn traces(&self, trace: TraceId) -> Option<bool> {
        Some(self.exporter.samples(trace))
    }
}

fn below(record: &RequestRecord, span_id: backstop_hooks::SpanId) -> Trace {
    Trace { trace_id: record.trace.trace_id, span_id, parent_span_id: Some(record.trace.span_id) }
}

fn word(word: Word) -> Cow<'static, str> {
    word.as_str().into()
}

/// A name of the operator's; `None` where there is none.
fn named(label: &Label) -> Option<String> {
    let is_none = *label == Label::none() || label.as_str() == "unread";
    (!is_none).then(|| label.as_str().to_owned())
}

/// The span of the request itself.
fn answered(record: &RequestRecord) -> Span {
    let RequestRecord { method, operation, outcome, .. } = record;
    let name = format!("{} {}", method.as_str(), operation.as_str());
    let mut span = Span::began(record.trace, name, record.at, record.elapsed).kind(Kind::Server);
    span.is_parent_remote = record.trace.parent_span_id.is_some();
    span.set(keys::METHOD, word(*method));
    span.set_if(keys::STATUS, (record.status > 0).then_some(record.status));
    span.set(keys::ASKED, word(*operation));
    span.set(keys::WIRE, word(record.wire));
    span.set(keys::OUTCOME, outcome.as_str());
    span.set_if(keys::AGENT, named(&record.agent));
    span.set_if(keys::CONVERSATION, record.conversation.as_ref().map(|id| told(id.as_str())));
    let added = record.added.map(|added| u64::try_from(added.as_micros()).unwrap_or(u64::MAX));
    span.set_if(keys::ADDED, added);
    // What a client did wrong is no error of a server's.
    match outcome {
        Outcome::Failed | Outcome::Overloaded => span.fail(outcome.as_str()),
        Outcome::ProviderError if record.status >= 500 => span.fail(record.status.to_string()),
        _ => {}
    }
    span
}

/// The span of a call of a provider.
fn called(record: &RequestRecord, call: &ProviderCall) -> Span {
    let operation = operation(record.operation);
    let model = named(&record.model);
    let name = match (operation, &model) {
        (Some(operation), Some(model)) => format!("{operation} {model}"),
        (Some(operation), None) => operation.to_owned(),
        (None, _) => format!("{} {}", record.method.as_str(), record.operation.as_str()),
    };
    let mut span = Span::began(below(record, call.span), name, call.at, call.elapsed).kind(Kind::Client);
    span.set_if(keys::OPERATION, operation);
    span.set(keys::PROVIDER, maker(call.maker));
    span.set(keys::UPSTREAM, call.provider.as_str().to_owned());
    span.set_if(keys::STATUS, (call.status > 0).then_some(call.status));
    span.set_if(keys::REQUEST_MODEL, model);
    span.set_if(keys::RESPONSE_MODEL, call.model.as_ref().and_then(named));
    span.set_if(keys::AGENT, named(&record.agent));
    span.set_if(keys::CONVERSATION, record.conversation.as_ref().map(|id| told(id.as_str())));
    used(&mut span, call.tokens);
    if !call.finish.is_empty() {
        span.set(keys::FINISH_REASONS, Attribute::Texts(call.finish.iter().copied().map(word).collect()));
    }
    match call.status {
        0 => span.fail("no_answer"),
        status @ 400.. => span.fail(status.to_string()),
        _ => {}
    }
    span
}

/// What the conventions call an operation; `None` of one that asks no model for anything.
fn operation(asked: Word) -> Option<&'static str> {
    match asked.as_str() {
        "messages" | "chat_completions" | "responses" | "converse" | "live" => Some(operations::CHAT),
        "generate_content" | "stream_generate_content" => Some(operations::GENERATE_CONTENT),
        "embeddings" => Some(operations::EMBEDDINGS),
        _ => None,
    }
}

const fn maker(maker: Maker) -> &'static str {
    match maker {
        Maker::Anthropic => providers::ANTHROPIC,
        Maker::OpenAi => providers::OPENAI,
        Maker::Gemini => providers::GEMINI,
        Maker::Azure => providers::AZURE,
        Maker::Bedrock => providers::BEDROCK,
        Maker::Vertex => providers::VERTEX,
    }
}
