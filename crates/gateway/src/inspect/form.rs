//! What a request is, as far as its address says: which codec reads it, and what does not stand in its body.

use std::borrow::Cow;

use backstop_llm::{Api, RequestTarget, StreamFraming};
use http::{HeaderMap, Method, header};
use serde_json::Value;

use crate::endpoint::{Endpoint, Family, Operation, normal};
use crate::exchange::Call;
use crate::models::main_model;
use crate::multipart::is_in_parts;
use crate::operations::Permission;
use crate::readable::{Readable, answer_to, readable};

/// How a request is to be read.
#[derive(Debug)]
pub(super) struct Form {
    /// The codec of the request and its answer.
    pub(super) api: Api,
    /// What is asked.
    pub(super) kind: Kind,
}

/// What a request asks.
#[derive(Debug)]
pub(super) enum Kind {
    /// A model is asked, by the body. What is only counted is written in the same way.
    Ask(RequestTarget),
    /// The answer to an earlier request is fetched, or stopped and fetched. There is no body.
    Fetch {
        /// The answer's id.
        response: String,
        /// Where its texts stand, if it is a document.
        document: Option<&'static Readable>,
    },
    /// The body is a document with texts, or the answer is.
    Texts {
        /// Where they stand.
        readable: &'static Readable,
        /// The model, where the address names it.
        model: Option<String>,
        /// The type of a body in parts.
        parts: Option<HeaderMap>,
    },
    /// A count of tokens at Bedrock: what is counted stands in the body, in one of two wires.
    BedrockCount,
    /// Something that can't be judged, and why.
    Unreadable(&'static str),
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerForm {
    /// In one piece.
    Whole,
    /// As server-sent events.
    Events,
    /// As one JSON array that streams.
    Array,
}

impl AnswerForm {
    /// The name of the transport, for those who watch.
    pub(super) const fn transport(self) -> &'static str {
        match self {
            Self::Whole => "json",
            Self::Events => "sse",
            Self::Array => "json-array",
        }
    }
}

/// What the answer to an earlier request is, where that was one of many.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answers {
    /// One of a model, in this wire.
    Wire(Api),
    /// A document.
    Document(&'static Readable),
}

impl Answers {
    /// Those to requests of OpenAI's for `url`; `None` if they can't be judged.
    pub(super) fn to(url: &str) -> Option<Self> {
        let endpoint = Endpoint::of(url, &HeaderMap::new()).ok()?;
        match endpoint.api() {
            Some(api @ (Api::OpenAiChat | Api::OpenAiResponses)) => Some(Self::Wire(api)),
            Some(_) => None,
            None => answer_to(&normal(url).ok()?).map(Self::Document),
        }
    }

    /// Those that look like this one.
    pub(super) fn of(body: &Value) -> Option<Self> {
        let has = |field: &str| body.get(field).is_some();
        Self::to(match body.get("object").and_then(Value::as_str) {
            Some("chat.completion") => "/chat/completions",
            Some("response") => "/responses",
            Some("text_completion") => "/completions",
            Some("list") => "/embeddings",
            None if has("object") => return None,
            None if has("results") && has("model") => "/moderations",
            None if has("data") && has("created") => "/images/generations",
            Some(_) | None => return None,
        })
    }
}

impl Kind {
    /// The form of an answer that is to be streamed, or not.
    pub(super) fn answer(&self, stream: bool) -> AnswerForm {
        match self {
            _ if !stream => AnswerForm::Whole,
            Self::Ask(target) if target.stream && target.framing == StreamFraming::JsonArray => {
                AnswerForm::Array
            }
            Self::Ask(_)
            | Self::Fetch { .. }
            | Self::Texts { .. }
            | Self::BedrockCount
            | Self::Unreadable(_) => AnswerForm::Events,
        }
    }
}

impl Form {
    /// How this request is to be read; `None` if no codec reads it.
    pub(super) fn of(call: &Call<'_>) -> Option<Self> {
        if let Some(readable) = readable_of(call) {
            let model = main_model(*call.endpoint, call.path, &[]).map(Cow::into_owned);
            return Some(Self {
                api: readable.api,
                kind: Kind::Texts { readable, model, parts: parts_of(call.headers) },
            });
        }
        let api = match (call.endpoint.operation, call.endpoint.family) {
            (Operation::StoredResponse, _) => {
                let kind = Kind::Fetch { response: fetched(call)?, document: None };
                return Some(Self { api: Api::OpenAiResponses, kind });
            }
            (Operation::BedrockCount, _) => {
                return Some(Self { api: Api::BedrockConverse, kind: Kind::BedrockCount });
            }
            (Operation::CountTokens, Family::Anthropic) => Api::AnthropicMessages,
            (Operation::CountTokens, Family::OpenAi) => Api::OpenAiResponses,
            (Operation::CountTokens, Family::Gemini) => Api::Gemini,
            _ => call.endpoint.api()?,
        };
        let kind = if api == Api::Gemini { gemini(call) } else { Kind::Ask(RequestTarget::default()) };
        Some(Self { api, kind })
    }
}

/// The type of a body with these headers, if that is in parts, or may be taken for one that is.
pub(super) fn parts_of(headers: &HeaderMap) -> Option<HeaderMap> {
    let kinds = headers.get_all(header::CONTENT_TYPE).iter();
    is_in_parts(headers).then(|| kinds.map(|kind| (header::CONTENT_TYPE, kind.clone())).collect())
}

/// The operation, if it is one with texts. Under another method than the request's it would be another one.
fn readable_of(call: &Call<'_>) -> Option<&'static Readable> {
    let path = normal(call.path).ok().filter(|_| call.permission == Permission::Read)?;
    readable(call.method, &path)
}

/// Model and framing stand in the address.
fn gemini(call: &Call<'_>) -> Kind {
    let address = match (call.endpoint.operation, call.path.rsplit_once(':'), call.query) {
        (Operation::CountTokens, Some((model, _)), _) => format!("{model}:generateContent"),
        (_, _, Some(query)) => format!("{}?{query}", call.path),
        (_, _, None) => call.path.to_owned(),
    };
    match Api::Gemini.request_target(&address) {
        Some(target) => Kind::Ask(target),
        None => Kind::Unreadable("its address names no model"),
    }
}

/// The id in `/responses/<id>` that is read, or in `/responses/<id>/cancel`, which answers the same.
fn fetched(call: &Call<'_>) -> Option<String> {
    let mut segments = call.path.trim_end_matches('/').rsplit('/');
    let last = segments.next()?;
    let id = match *call.method {
        Method::GET => last,
        Method::POST if last.eq_ignore_ascii_case("cancel") => segments.next()?,
        _ => return None,
    };
    segments.next()?.eq_ignore_ascii_case("responses").then(|| id.to_owned())
}
