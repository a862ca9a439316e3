//! The wires: how providers write requests and answers.
//!
//! A wire is a folder with the same files: `request` (both directions), `response` (both directions),
//! `stream` (decoder and encoder), `error` (both directions), `content` (the parts of messages). [`Api`]
//! chooses among them with exhaustive matches, so that a new wire does not compile before it is complete.
//!
//! Laws:
//!
//! - *What the wire can carry comes back*: decoding an encoded message gives the same message, up to what
//!   the wire has no place for (ids, runs, `details` and names of tool results).
//! - *Foreign attachments stay home*: what a provider attaches to a part is kept in `meta` under the name
//!   of its wire, and an encoder sends only what stands under its own. A signature of one provider is never
//!   shown to another.
//! - `meta` never holds a second copy of a text, of arguments or of an id: who rewrites those has rewritten
//!   all there is. (Citations quote documents; they are the one attachment with text of its own.)
//! - Form is not kept: a text that came as a block list may leave as a string. Who must not change a byte
//!   passes the original on.

mod answers;
pub mod anthropic;
mod asked;
mod bidi;
mod call_ids;
pub mod converse;
mod documented;
mod elements;
mod fields;
pub mod gemini;
mod json;
mod levels;
mod meta;
pub mod openai_chat;
pub mod openai_responses;
mod request_words;
mod states;
mod strict;
mod types;
mod whole_call;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use backstop_hooks::Secret;
use http::HeaderMap;
use serde_json::Value;
use thiserror::Error;

use crate::error::{ProviderError, WireError};
use crate::model::{ModelEvent, ModelRequest, ModelResponse};
use crate::sse::SseEvent;

pub(crate) use answers::{GEMINI_ANSWERS, GEMINI_CANDIDATES, RESPONSES_ANSWERS};
pub use asked::{REALTIME_ITEMS, is_known_input, tool_class};
pub use bidi::{LIVE_CONTENTS, LIVE_MESSAGES, LIVE_SETUPS, is_disguised, is_field_of_answer};
pub(crate) use call_ids::CallIds;
pub use documented::{DOCUMENTED, Documented};
pub(crate) use elements::Elements;
pub use fields::request_fields;
pub(crate) use json::not_json;
pub(crate) use levels::{
    ANTHROPIC_CHANGE, ANTHROPIC_MESSAGE, CHAT_ANSWER, CHAT_CALL, CHAT_CHOICE, CHAT_CUSTOM, CHAT_DETAIL,
    CHAT_FUNCTION, CHAT_MESSAGE, CHAT_REFUSAL, CHAT_SILENT, CHAT_TEXT, CONVERSE_ANSWER, CONVERSE_CITED,
    CONVERSE_MESSAGE, CONVERSE_OUTPUT, CONVERSE_PICTURE, CONVERSE_WORDS, GEMINI_ANSWER, GEMINI_ARGUMENT,
    GEMINI_CALL, GEMINI_CANDIDATE, GEMINI_CONTENT, Level, RESPONSES_ANSWER, RESPONSES_BEGUN, RESPONSES_SEAL,
    anthropic_block, anthropic_delta, anthropic_event, converse_call, converse_event, converse_text,
    responses_call, responses_event, responses_item, responses_part,
};
pub use meta::own_meta;
pub(crate) use meta::wrap;
pub use request_words::{is_setting, is_setting_name};
pub(crate) use states::{RATINGS, states};
pub use states::{WordTable, word_tables};
pub(crate) use strict::{Budget, parse_message, parse_part};
pub use strict::{parse_json, parse_line, parse_request};
pub(crate) use types::{
    ANTHROPIC_BLOCKS, ANTHROPIC_DELTAS, ANTHROPIC_EVENTS, CONVERSE_BLOCKS, CONVERSE_DELTAS, CONVERSE_EVENTS,
    CONVERSE_STARTS, GEMINI_PARTS, RESPONSES_EVENTS, is_word_of,
};
pub use types::{REALTIME_EVENTS, RESPONSES_ITEMS, TypeClass, TypeTable, type_tables};
pub(crate) use whole_call::is_whole_call;

/// A wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// Anthropic Messages.
    AnthropicMessages,
    /// OpenAI Chat Completions, and the many servers that speak it.
    OpenAiChat,
    /// OpenAI Responses.
    OpenAiResponses,
    /// Google Gemini, `generateContent`.
    Gemini,
    /// Amazon Bedrock, `Converse`.
    BedrockConverse,
}

/// A request as a server reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedRequest {
    /// What is asked.
    pub request: ModelRequest,
    /// Whether the answer is to be streamed.
    pub stream: bool,
}

/// What the address of a request says. On most wires that is nothing: the body says all.
#[derive(Clone, Debug, Default)]
pub struct RequestTarget {
    /// The model, where the address names it.
    pub model: Option<String>,
    /// Whether the address asks for a stream.
    pub stream: bool,
    /// How that stream is to be framed.
    pub framing: StreamFraming,
    /// The key, where the address holds it (`?key=`). For its sake addresses are never logged.
    pub key: Option<Secret>,
}

/// How the events of a stream stand one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StreamFraming {
    /// As server-sent events.
    #[default]
    Events,
    /// As the elements of one JSON array.
    JsonArray,
}

/// The configuration names a wire that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "unknown API `{name}`\nhint: known are `anthropic-messages`, `openai-chat`, `openai-responses`, `gemini` and `bedrock-converse`"
)]
pub struct UnknownApi {
    name: String,
}

impl Api {
    /// All wires.
    pub const ALL: [Self; 5] = [
        Self::AnthropicMessages,
        Self::OpenAiChat,
        Self::OpenAiResponses,
        Self::Gemini,
        Self::BedrockConverse,
    ];

    /// The name in configurations and in `meta`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AnthropicMessages => "anthropic-messages",
            Self::OpenAiChat => "openai-chat",
            Self::OpenAiResponses => "openai-responses",
            Self::Gemini => "gemini",
            Self::BedrockConverse => "bedrock-converse",
        }
    }

    /// The path (and query) of requests for `model`, as servers of this wire have it.
    pub fn request_path(self, model: &str, stream: bool) -> String {
        format!("{}{}", self.version_path(), self.path_below_version(model, stream))
    }

    /// The version, as the first segment of the path.
    pub(crate) fn version_path(self) -> &'static str {
        match self {
            Self::AnthropicMessages | Self::OpenAiChat | Self::OpenAiResponses => "/v1",
            Self::Gemini => gemini::VERSION,
            Self::BedrockConverse => "",
        }
    }

    pub(crate) fn path_below_version(self, model: &str, stream: bool) -> String {
        match self {
            Self::AnthropicMessages => "/messages".to_owned(),
            Self::OpenAiChat => "/chat/completions".to_owned(),
            Self::OpenAiResponses => "/responses".to_owned(),
            Self::Gemini => gemini::request_path(model, stream),
            Self::BedrockConverse => converse::request_path(model, stream),
        }
    }

    /// What an address (path and query, as a server reads them) says, if it is one that requests of this wire
    /// are sent to; `None` if it is not.
    pub fn request_target(self, path_and_query: &str) -> Option<RequestTarget> {
        match self {
            Self::AnthropicMessages | Self::OpenAiChat | Self::OpenAiResponses => {
                let path = path_and_query.split('?').next().unwrap_or_default();
                (path == self.request_path("", false)).then(RequestTarget::default)
            }
            Self::Gemini => gemini::request_target(path_and_query),
            Self::BedrockConverse => converse::request_target(path_and_query),
        }
    }

    /// The request's body. With `stream`, the answer is asked for as a stream, token counts included, as far
    /// as the body says that; what the address says is in [`Self::request_path`].
    pub fn encode_request(self, request: &ModelRequest, stream: bool) -> Value {
        match self {
            Self::AnthropicMessages => anthropic::encode_request(request, stream),
            Self::OpenAiChat => openai_chat::encode_request(request, stream),
            Self::OpenAiResponses => openai_responses::encode_request(request, stream),
            Self::Gemini => gemini::encode_request(request),
            Self::BedrockConverse => converse::encode_request(request),
        }
    }

    /// Reads a request's body that says all by itself. [`Self::decode_request_at`] reads the others too.
    ///
    /// # Errors
    /// If the body is not a request of this wire, or leaves to the address what model is asked.
    pub fn decode_request(self, body: &Value) -> Result<DecodedRequest, WireError> {
        self.decode_request_at(&RequestTarget::default(), body)
    }

    /// Reads a request's body that was sent to `target`.
    ///
    /// # Errors
    /// If the body is not a request of this wire, or contradicts the address.
    pub fn decode_request_at(
        self,
        target: &RequestTarget,
        body: &Value,
    ) -> Result<DecodedRequest, WireError> {
        let mut decoded = self.decode_frame(target, body)?;
        let mut elements = Elements::new(self);
        for element in self.elements_of(body)? {
            elements.push(element)?;
        }
        elements.finish(&mut decoded.request);
        Ok(decoded)
    }

    /// The body of a whole answer.
    pub fn encode_response(self, response: &ModelResponse) -> Value {
        match self {
            Self::AnthropicMessages => anthropic::encode_response(response),
            Self::OpenAiChat => openai_chat::encode_response(response),
            Self::OpenAiResponses => openai_responses::encode_response(response),
            Self::Gemini => gemini::encode_response(response),
            Self::BedrockConverse => converse::encode_response(response),
        }
    }

    /// Reads the body of a whole answer.
    ///
    /// # Errors
    /// If the body is not an answer of this wire.
    pub fn decode_response(self, body: &Value) -> Result<ModelResponse, WireError> {
        match self {
            Self::AnthropicMessages => anthropic::decode_response(body),
            Self::OpenAiChat => openai_chat::decode_response(body),
            Self::OpenAiResponses => openai_responses::decode_response(body),
            Self::Gemini => gemini::decode_response(body),
            Self::BedrockConverse => converse::decode_response(body),
        }
    }

    /// The body of an error answer.
    pub fn encode_error(self, error: &ProviderError) -> Value {
        match self {
            Self::AnthropicMessages => anthropic::encode_error(error),
            Self::OpenAiChat => openai_chat::encode_error(error),
            Self::OpenAiResponses => openai_responses::encode_error(error),
            Self::Gemini => gemini::encode_error(error),
            Self::BedrockConverse => converse::encode_error(error),
        }
    }

    /// Reads an error answer. Bodies that are not of this wire (an HTML page of a load balancer) are told
    /// by their status alone.
    pub fn decode_error(self, status: u16, headers: &HeaderMap, body: &[u8]) -> ProviderError {
        let body = parse_json(body).unwrap_or(Value::Null);
        let mut error = match self {
            Self::AnthropicMessages => anthropic::decode_error(status, &body),
            Self::OpenAiChat => openai_chat::decode_error(status, &body),
            Self::OpenAiResponses => openai_responses::decode_error(status, &body),
            Self::Gemini => gemini::decode_error(status, &body),
            Self::BedrockConverse => converse::decode_error(status, &body),
        };
        error.retry_after = retry_after(headers).or(error.retry_after);
        error
    }

    /// A decoder for one streamed answer.
    pub fn stream_decoder(self) -> StreamDecoder {
        StreamDecoder(match self {
            Self::AnthropicMessages => Decoder::Anthropic(anthropic::StreamDecoder::default()),
            Self::OpenAiChat => Decoder::OpenAiChat(openai_chat::StreamDecoder::default()),
            Self::OpenAiResponses => Decoder::OpenAiResponses(openai_responses::StreamDecoder::default()),
            Self::Gemini => Decoder::Gemini(Box::default()),
            Self::BedrockConverse => Decoder::Converse(converse::StreamDecoder::default()),
        })
    }

    /// An encoder for the streamed answer to `request`, which may have asked for token counts.
    pub fn stream_encoder(self, request: &ModelRequest) -> StreamEncoder {
        StreamEncoder(match self {
            Self::AnthropicMessages => Encoder::Anthropic(anthropic::StreamEncoder::default()),
            Self::OpenAiChat => Encoder::OpenAiChat(openai_chat::StreamEncoder::new(request)),
            Self::OpenAiResponses => Encoder::OpenAiResponses(openai_responses::StreamEncoder::default()),
            Self::Gemini => Encoder::Gemini(gemini::StreamEncoder::default()),
            Self::BedrockConverse => Encoder::Converse(converse::StreamEncoder::default()),
        })
    }

    /// The event that ends a stream with an error.
    pub fn encode_stream_error(self, error: &ProviderError) -> SseEvent {
        match self {
            Self::AnthropicMessages => {
                SseEvent::new(Some("error"), anthropic::encode_error(error).to_string())
            }
            Self::OpenAiResponses => openai_responses::encode_stream_error(error, 0),
            Self::BedrockConverse => converse::encode_stream_error(error),
            Self::OpenAiChat | Self::Gemini => SseEvent::new(None, self.encode_error(error).to_string()),
        }
    }
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Api {
    type Err = UnknownApi;

    fn from_str(name: &str) -> Result<Self, UnknownApi> {
        Self::ALL
            .into_iter()
            .find(|api| api.as_str() == name)
            .ok_or_else(|| UnknownApi { name: name.to_owned() })
    }
}

/// Reads one streamed answer, event by event.
#[derive(Debug)]
pub struct StreamDecoder(Decoder);

#[derive(Debug)]
enum Decoder {
    Anthropic(anthropic::StreamDecoder),
    OpenAiChat(openai_chat::StreamDecoder),
    OpenAiResponses(openai_responses::StreamDecoder),
    Gemini(Box<gemini::StreamDecoder>),
    Converse(converse::StreamDecoder),
}

impl StreamDecoder {
    /// Reads one event.
    ///
    /// # Errors
    /// If the event is not what the wire has at this place, or if it reports an error of the provider. The
    /// answer has failed then, whatever follows.
    pub fn push(&mut self, event: &SseEvent) -> Result<Vec<ModelEvent>, WireError> {
        match &mut self.0 {
            Decoder::Anthropic(decoder) => decoder.push(event),
            Decoder::OpenAiChat(decoder) => decoder.push(event),
            Decoder::OpenAiResponses(decoder) => decoder.push(event),
            Decoder::Gemini(decoder) => decoder.push(event),
            Decoder::Converse(decoder) => decoder.push(event),
        }
    }

    /// The end of the stream.
    ///
    /// # Errors
    /// [`WireError::Truncated`] if the answer is not whole.
    pub fn finish(&mut self) -> Result<Vec<ModelEvent>, WireError> {
        match &mut self.0 {
            Decoder::Anthropic(decoder) => decoder.finish(),
            Decoder::OpenAiChat(decoder) => decoder.finish(),
            Decoder::OpenAiResponses(decoder) => decoder.finish(),
            Decoder::Gemini(decoder) => decoder.finish(),
            Decoder::Converse(decoder) => decoder.finish(),
        }
    }
}

/// Writes one streamed answer, event by event.
#[derive(Debug)]
pub struct StreamEncoder(Encoder);

#[derive(Debug)]
enum Encoder {
    Anthropic(anthropic::StreamEncoder),
    OpenAiChat(openai_chat::StreamEncoder),
    OpenAiResponses(openai_responses::StreamEncoder),
    Gemini(gemini::StreamEncoder),
    Converse(converse::StreamEncoder),
}

impl StreamEncoder {
    /// The wire's events for one event of the answer.
    pub fn push(&mut self, event: &ModelEvent) -> Vec<SseEvent> {
        match &mut self.0 {
            Encoder::Anthropic(encoder) => encoder.push(event),
            Encoder::OpenAiChat(encoder) => encoder.push(event),
            Encoder::OpenAiResponses(encoder) => encoder.push(event),
            Encoder::Gemini(encoder) => encoder.push(event),
            Encoder::Converse(encoder) => encoder.push(event),
        }
    }
}

/// How long the provider asks to wait: `retry-after-ms`, or `retry-after` in seconds or as a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(millis) = text("retry-after-ms").and_then(|value| value.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(millis / 1000.0).ok();
    }
    let value = text("retry-after")?;
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
    Some(Duration::try_from(date.duration_since(jiff::Timestamp::now())).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(http::HeaderName::from_static(name), value.parse().unwrap())])
    }

    #[test]
    fn retry_after_in_all_its_forms() {
        assert_eq!(retry_after(&headers("retry-after", "2")), Some(Duration::from_secs(2)));
        assert_eq!(retry_after(&headers("retry-after-ms", "1500")), Some(Duration::from_millis(1500)));
        assert_eq!(
            retry_after(&headers("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")),
            Some(Duration::ZERO)
        );
        assert!(
            retry_after(&headers("retry-after", "Fri, 01 Jan 2100 00:00:00 GMT")).unwrap()
                > Duration::from_secs(1)
        );
        for nonsense in ["", "soon", "-1", "NaN", "inf", "1e400"] {
            assert_eq!(retry_after(&headers("retry-after", nonsense)), None, "{nonsense}");
        }
    }

    #[test]
    fn api_names_come_back() {
        for api in Api::ALL {
            assert_eq!(api.as_str().parse(), Ok(api));
        }
        assert!("anthropic".parse::<Api>().unwrap_err().to_string().contains("`anthropic`"));
    }
}
