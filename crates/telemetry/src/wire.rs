//! Spans as OTLP has them: the messages of `opentelemetry/proto/trace/v1/trace.proto` and those around it, version 1.11.0, as far as they
//! are used. Numbers of fields in them never change.

use std::time::{SystemTime, UNIX_EPOCH};

use prost::Message;

use crate::conventions::SCHEMA;
use crate::span::{Attribute, Kind, Span};

/// Flags of a span: it is sampled, and whether its parent is another process's is known, and is so.
const SAMPLED: u32 = 0x01;
const KNOWS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

const ERROR: i32 = 2;

#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
    #[prost(string, tag = "3")]
    schema_url: String,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<WireSpan>,
}

#[derive(Clone, PartialEq, Message)]
struct Scope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct WireSpan {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
    #[prost(fixed32, tag = "16")]
    flags: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "3")]
    code: i32,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "OneValue", tags = "1, 3, 5")]
    value: Option<OneValue>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum OneValue {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Number(i64),
    #[prost(message, tag = "5")]
    Array(ArrayValue),
}

#[derive(Clone, PartialEq, Message)]
struct ArrayValue {
    #[prost(message, repeated, tag = "1")]
    values: Vec<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct Answer {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected_spans: i64,
}

/// Who sends spans, as all requests say it.
#[derive(Clone, Debug)]
pub(crate) struct Sender(ResourceSpans);

impl Sender {
    pub(crate) fn new(resource: &[(String, String)], version: &str) -> Self {
        let attributes = resource.iter().map(|(key, value)| pair(key, text(value))).collect();
        let scope = Scope { name: "backstop".to_owned(), version: version.to_owned() };
        Self(ResourceSpans {
            resource: Some(Resource { attributes }),
            scope_spans: vec![ScopeSpans { scope: Some(scope), spans: Vec::new() }],
            schema_url: SCHEMA.to_owned(),
        })
    }

    /// Writes a request with these spans.
    pub(crate) fn request(&self, spans: &[Span]) -> Vec<u8> {
        let mut all = self.0.clone();
        if let Some(scope) = all.scope_spans.first_mut() {
            scope.spans = spans.iter().map(written).collect();
        }
        Request { resource_spans: vec![all] }.encode_to_vec()
    }
}

/// Returns how many spans a collector has refused that accepted a request. What can't be read says nothing of it.
pub(crate) fn rejected(answer: &[u8]) -> u64 {
    let rejected = Answer::decode(answer).ok().and_then(|answer| answer.partial_success);
    rejected.and_then(|partial| u64::try_from(partial.rejected_spans).ok()).unwrap_or_default()
}

fn text(text: &str) -> OneValue {
    OneValue::Text(text.to_owned())
}

fn pair(key: &str, value: OneValue) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
}

fn nanos(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

fn written(span: &Span) -> WireSpan {
    let attributes = span.attributes.iter().map(|(key, value)| {
        let value = match value {
            Attribute::Text(value) => text(value),
            Attribute::Number(number) => OneValue::Number(*number),
            Attribute::Texts(texts) => OneValue::Array(ArrayValue {
                values: texts.iter().map(|one| AnyValue { value: Some(text(one)) }).collect(),
            }),
        };
        pair(key.as_str(), value)
    });
    let start = nanos(span.start);
    let elapsed = u64::try_from(span.elapsed.as_nanos()).unwrap_or(u64::MAX);
    let remote = if span.is_parent_remote { IS_REMOTE } else { 0 };
    WireSpan {
        trace_id: span.trace.to_bytes().to_vec(),
        span_id: span.id.to_bytes().to_vec(),
        parent_span_id: span.parent.map(|parent| parent.to_bytes().to_vec()).unwrap_or_default(),
        name: span.name.clone().into_owned(),
        kind: match span.kind {
            Kind::Internal => 1,
            Kind::Server => 2,
            Kind::Client => 3,
        },
        start_time_unix_nano: start,
        end_time_unix_nano: start.saturating_add(elapsed),
        attributes: attributes.collect(),
        status: span.is_error.then_some(Status { code: ERROR }),
        flags: SAMPLED | KNOWS_REMOTE | remote,
    }
}
