//! Amazon Bedrock: Anthropic's Messages, with the model and the kind of answer in the address
//! (`/model/<id>/invoke`, `/model/<id>/invoke-with-response-stream`), Bedrock's own wire for the models of any maker
//! (`/model/<id>/converse`, `/model/<id>/converse-stream`), a count of the tokens of either (`/model/<id>/count-tokens`), and
//! streams in [frames](backstop_llm::frames).
//!
//! A body is that of Messages without `model` and `stream`, and with `anthropic_version` and `anthropic_beta`, which are
//! headers elsewhere. An event of a stream is a frame `chunk`, whose payload is `{"bytes": "<base64>"}`; what breaks off
//! is told in frames of exceptions. A body of Converse is judged with the model and the kind of answer in it (`modelId`,
//! `stream`) and sent without them; an event of its stream is a frame of its own. Other operations of Bedrock and bodies of
//! other makers are not spoken here, and no maker speaks Converse: it goes to Bedrock, or nowhere.

use std::borrow::Cow;

use backstop_llm::frames::{BadFrame, Frame, FrameReader};
use backstop_llm::sse::{SseDecoder, SseEvent, SseFrame};
use backstop_llm::wire::converse;
use backstop_llm::{Api, ProviderError, ProviderErrorKind};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};

use super::fields::Fields;
use super::{LONGEST_MODEL, MODEL, Unspoken};
use crate::endpoint::{Endpoint, Family, Operation, unescaped};
use crate::server::is_event_stream;

/// The type of a body in frames.
pub(crate) const FRAMES: &str = "application/vnd.amazon.eventstream";
/// The kind of an error, in a header of the answer.
const ERROR_KIND: &str = "x-amzn-errortype";
const VERSION: &str = "bedrock-2023-05-31";

/// What is told of a stream that ends too early.
const CUT: &str = "backstop: the answer ended in the middle of an event";

const MESSAGE_TYPE: &str = ":message-type";
const EVENT_TYPE: &str = ":event-type";
const EXCEPTION_TYPE: &str = ":exception-type";
const CONTENT_TYPE: &str = ":content-type";

/// Where a body of Converse names the model once its address is gone.
pub(super) const MODEL_ID: &str = "modelId";

/// What is asked of a model, as the address says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Invoke,
    InvokeStream,
    Converse,
    ConverseStream,
    CountTokens,
}

impl Verb {
    const ALL: [Self; 5] =
        [Self::Invoke, Self::InvokeStream, Self::Converse, Self::ConverseStream, Self::CountTokens];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Invoke => "invoke",
            Self::InvokeStream => "invoke-with-response-stream",
            Self::Converse => "converse",
            Self::ConverseStream => "converse-stream",
            Self::CountTokens => "count-tokens",
        }
    }

    pub(super) fn of(segment: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.as_str() == segment)
    }

    /// The verb of an operation that only Bedrock has.
    pub(super) const fn for_operation(operation: Operation, streams: bool) -> Self {
        match (operation, streams) {
            (Operation::BedrockCount, _) => Self::CountTokens,
            (_, true) => Self::ConverseStream,
            (_, false) => Self::Converse,
        }
    }

    pub(super) const fn streams(self) -> bool {
        matches!(self, Self::InvokeStream | Self::ConverseStream)
    }

    /// Where the body names the model.
    pub(super) const fn model_key(self) -> &'static str {
        match self {
            Self::Invoke | Self::InvokeStream => MODEL,
            Self::Converse | Self::ConverseStream | Self::CountTokens => MODEL_ID,
        }
    }

    /// What is asked, where no maker has it. Errors are those of the account, which is one for Anthropic's models.
    pub(super) const fn endpoint(self) -> Option<Endpoint> {
        let operation = match self {
            Self::Invoke | Self::InvokeStream => return None,
            Self::Converse | Self::ConverseStream => Operation::Converse,
            Self::CountTokens => Operation::BedrockCount,
        };
        Some(Endpoint { family: Family::Anthropic, operation })
    }

    /// The address without the model, and without a word behind which one would be looked for.
    pub(super) const fn plain(self) -> &'static str {
        match self {
            Self::Invoke | Self::InvokeStream => "/v1/messages",
            Self::Converse | Self::ConverseStream => "/bedrock/converse",
            Self::CountTokens => "/bedrock/count-tokens",
        }
    }
}

/// Whose events stand in the frames of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Events {
    /// Those of Messages, in frames of one kind.
    #[default]
    Messages,
    /// Converse's, each in a kind of its own.
    Converse,
}

impl Events {
    /// The events of an answer to this.
    pub(crate) fn of(endpoint: Endpoint) -> Self {
        if endpoint.operation == Operation::Converse { Self::Converse } else { Self::Messages }
    }
}

/// Whether a path is one of Bedrock's.
pub(crate) fn is_its(path: &str) -> bool {
    let mut segments = path.trim_end_matches('/').split('/').skip(1);
    let is_model = segments.next().is_some_and(|first| first.eq_ignore_ascii_case("model"));
    is_model && segments.nth(1).is_some()
}

/// The model that a segment of a path names: an id, or the name of a resource, in which slashes are escaped.
pub(super) fn model(segment: &str) -> Option<String> {
    let decoded = segment.replace("%2F", "/").replace("%2f", "/");
    let name = decoded.split('/').map(|part| unescaped(part).ok()).collect::<Option<Vec<_>>>()?.join("/");
    is_name(&name).then_some(name)
}

/// The name of a model as a segment of a path.
pub(super) fn segment(model: &str) -> Result<String, Unspoken> {
    let escaped = || model.replace(':', "%3A").replace('/', "%2F");
    if is_name(model) { Ok(escaped()) } else { Err(Unspoken::Model) }
}

fn is_name(model: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
    let is_part = |part: &str| !part.is_empty() && !part.bytes().all(|byte| byte == b'.');
    model.len() <= LONGEST_MODEL && model.bytes().all(is_plain) && model.split('/').all(is_part)
}

/// The body at Bedrock of what is asked by `fields`. `betas` are all that it says of them.
pub(super) fn wrap(fields: &mut Fields<'_>, betas: Vec<String>) {
    fields.remove("model");
    fields.remove("stream");
    let is_its = |version: Value| version.as_str().is_some_and(|version| version.starts_with("bedrock-"));
    if !fields.value("anthropic_version").is_some_and(is_its) {
        fields.set("anthropic_version", &VERSION.into());
    }
    if !betas.is_empty() {
        fields.set("anthropic_beta", &betas.into());
    }
}

/// Whether a body with these headers is in frames.
pub(crate) fn is_framed(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(FRAMES)
}

/// Frames in, events out.
#[derive(Debug)]
pub(crate) struct Unframer(FrameReader, Events);

impl Unframer {
    pub(crate) fn new(events: Events) -> Self {
        Self(FrameReader::default(), events)
    }

    /// The events that became whole.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Bytes, BadFrame> {
        self.0.push(bytes);
        let mut events = BytesMut::new();
        while let Some(frame) = self.0.next_frame()? {
            let event = match self.1 {
                Events::Messages => event(&frame)?,
                Events::Converse => converse::event_of(&frame)?,
            };
            events.extend_from_slice(&event.encode());
        }
        Ok(events.freeze())
    }

    /// The end of the stream.
    pub(crate) fn finish(&self) -> Result<(), BadFrame> {
        self.0.finish()
    }
}

fn event(frame: &Frame) -> Result<SseEvent, BadFrame> {
    match (frame.header(MESSAGE_TYPE), frame.header(EVENT_TYPE)) {
        (Some("event"), Some("chunk")) => chunk(&frame.payload).ok_or(BadFrame::Event),
        (Some("exception"), _) => Ok(exception(frame)),
        (Some("error"), _) => {
            let said = frame.header(":error-message").unwrap_or_default();
            Ok(failure(ProviderErrorKind::Server, 500, said))
        }
        _ => Err(BadFrame::Kind),
    }
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    bytes: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Typed<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

/// The event in a chunk. What else is in the chunk (padding) stays behind.
fn chunk(payload: &[u8]) -> Option<SseEvent> {
    let chunk: Chunk<'_> = serde_json::from_slice(payload).ok()?;
    let data = String::from_utf8(STANDARD.decode(chunk.bytes.as_bytes()).ok()?).ok()?;
    let typed: Typed<'_> = serde_json::from_str(&data).ok()?;
    let is_name = typed.kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    let name = is_name.then(|| typed.kind.into_owned())?;
    Some(SseEvent::new(Some(&name), data))
}

fn exception(frame: &Frame) -> SseEvent {
    use ProviderErrorKind as Kind;
    let (kind, status) = match frame.header(EXCEPTION_TYPE).unwrap_or_default() {
        "throttlingException" => (Kind::RateLimit, 429),
        "validationException" => (Kind::InvalidRequest, 400),
        "serviceUnavailableException" => (Kind::Overloaded, 503),
        _ => (Kind::Server, 500),
    };
    let said: Value = serde_json::from_slice(&frame.payload).unwrap_or_default();
    failure(kind, status, said.get("message").and_then(Value::as_str).unwrap_or_default())
}

fn failure(kind: ProviderErrorKind, status: u16, said: &str) -> SseEvent {
    Api::AnthropicMessages.encode_stream_error(&ProviderError::new(kind, status, None, said))
}

/// What keeps a client patient: a frame of an event that no table of Bedrock's has. Amazon's SDKs pass over those, as they
/// have to when it adds one: `botocore` leaves them out, the ones for JavaScript hand them on as `$unknown`.
pub(crate) fn keep_alive() -> Bytes {
    let headers = [(EVENT_TYPE, "ping"), (CONTENT_TYPE, "application/json"), (MESSAGE_TYPE, "event")];
    let mut out = BytesMut::new();
    Frame::new(&headers, "{}".to_owned()).encode(&mut out);
    out.freeze()
}

/// Events in, frames out. Comments and pings of a provider have none.
#[derive(Debug)]
pub(crate) struct Framer(SseDecoder, Events);

impl Framer {
    pub(crate) fn new(events: Events) -> Self {
        Self(SseDecoder::default(), events)
    }

    /// The same from the beginning.
    pub(crate) fn anew(&self) -> Self {
        Self::new(self.1)
    }

    /// The frames of the events that became whole; `None` for an event that is too large.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Option<BytesMut> {
        let mut out = BytesMut::new();
        let frames = self.0.push(bytes).ok()?;
        frames.iter().for_each(|event| frame(event, self.1, &mut out));
        Some(out)
    }

    /// The frame of what is left at the end: an event that only lacks its blank line, or an exception in place of half of one.
    pub(crate) fn finish(&mut self) -> BytesMut {
        let mut out = BytesMut::new();
        let Some(rest) = self.0.finish() else { return out };
        let is_silent = |line: &[u8]| line.is_empty() || line.starts_with(b":");
        let is_whole = |event: &SseEvent| match self.1 {
            Events::Messages => serde_json::from_str::<Typed<'_>>(&event.data).is_ok(),
            Events::Converse => serde_json::from_str::<Value>(&event.data).is_ok_and(|data| data.is_object()),
        };
        match &rest.event {
            Some(event) if is_whole(event) => frame_of(event, self.1, &mut out),
            None if rest.raw.split(|byte| matches!(byte, b'\r' | b'\n')).all(is_silent) => {}
            _ => {
                let cut = failure(ProviderErrorKind::Server, 500, CUT);
                frame_of(&cut, Events::Messages, &mut out);
            }
        }
        out
    }
}

fn frame(frame: &SseFrame, events: Events, out: &mut BytesMut) {
    if let Some(event) = &frame.event {
        frame_of(event, events, out);
    }
}

fn frame_of(event: &SseEvent, events: Events, out: &mut BytesMut) {
    if events == Events::Converse {
        converse::frame_of(event).iter().for_each(|frame| frame.encode(out));
        return;
    }
    let frame = match event.event.as_deref() {
        Some("ping") => return,
        Some("error") => {
            let said = serde_json::from_str(&event.data).unwrap_or_default();
            let kind = exception_of(said_kind(&said));
            let headers =
                [(EXCEPTION_TYPE, kind), (CONTENT_TYPE, "application/json"), (MESSAGE_TYPE, "exception")];
            Frame::new(&headers, json!({ "message": said_message(&said) }).to_string())
        }
        _ => {
            let headers =
                [(EVENT_TYPE, "chunk"), (CONTENT_TYPE, "application/json"), (MESSAGE_TYPE, "event")];
            Frame::new(&headers, json!({ "bytes": STANDARD.encode(&event.data) }).to_string())
        }
    };
    frame.encode(out);
}

fn said_kind(error: &Value) -> &str {
    error.pointer("/error/type").and_then(Value::as_str).unwrap_or_default()
}

fn said_message(error: &Value) -> &str {
    let said = error.pointer("/error/message").or_else(|| error.get("message"));
    said.and_then(Value::as_str).unwrap_or_default()
}

fn exception_of(kind: &str) -> &'static str {
    match kind {
        "rate_limit_error" => "throttlingException",
        "overloaded_error" => "serviceUnavailableException",
        "invalid_request_error" | "permission_error" => "validationException",
        _ => "internalServerException",
    }
}

/// An answer of the gateway's own, in one piece, as Bedrock has it.
pub(crate) fn whole_answer(
    events: Events,
    status: StatusCode,
    headers: &mut HeaderMap,
    body: Bytes,
) -> Bytes {
    if !status.is_success() {
        name_error(status, headers);
        return error_body(&body);
    }
    if !is_event_stream(headers) {
        return body;
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(FRAMES));
    Framer::new(events).push(&body).unwrap_or_default().freeze()
}

/// Names the kind of an error in its head.
pub(crate) fn name_error(status: StatusCode, headers: &mut HeaderMap) {
    let kind = match status.as_u16() {
        401 | 403 => "AccessDeniedException",
        404 => "ResourceNotFoundException",
        408 | 504 => "ModelTimeoutException",
        429 => "ThrottlingException",
        503 => "ServiceUnavailableException",
        400..=499 => "ValidationException",
        _ => "InternalServerException",
    };
    headers.insert(ERROR_KIND, HeaderValue::from_static(kind));
}

/// An error of the gateway's own, from one in the shape of another wire.
pub(crate) fn error_body(body: &[u8]) -> Bytes {
    let said = serde_json::from_slice(body).unwrap_or_default();
    json!({ "message": said_message(&said) }).to_string().into()
}
