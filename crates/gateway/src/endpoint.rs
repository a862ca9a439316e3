//! What a request asks for: its wire, by its path.
//!
//! Paths are those of the providers. A path that no wire knows is not an error: it goes to the provider that
//! the client chose, untouched, and counts as [`Operation::Other`].
//!
//! What a path means is decided generously, because a path that the provider understands and the gateway does
//! not is a way around the hooks: letter case, a trailing slash and escaped letters make no difference, and
//! known endings are known below any prefix (`/openai/deployments/x/chat/completions`) and any version, which
//! may give way to the provider's own. What servers might rewrite before they read it (`//`, `.` and `..`
//! segments, escaped slashes, backslashes, escaped `?` and `#`, parameters behind a `;`) is refused.

use std::borrow::Cow;

use backstop_llm::Api;
use http::HeaderMap;
use thiserror::Error;

use crate::upstream::is_version;

/// Providers that share paths, credentials and the shape of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// Anthropic's API.
    Anthropic,
    /// OpenAI's API, and the many servers that speak it.
    OpenAi,
    /// Google's Gemini API.
    Gemini,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Anthropic Messages.
    Messages,
    /// A count of the tokens of a request to Anthropic Messages, OpenAI Responses or Gemini.
    CountTokens,
    /// OpenAI Chat Completions.
    ChatCompletions,
    /// OpenAI Responses: a new one.
    Responses,
    /// OpenAI Responses: an existing one is read, cancelled or deleted, or its input listed.
    StoredResponse,
    /// Texts that are turned into vectors, by OpenAI's wire or Gemini's.
    Embeddings,
    /// A document with texts, in JSON or in parts, for a model that answers with no message: an older completion, a moderation,
    /// a picture, a voice, a recording, a conversation that is to be shortened.
    Document,
    /// A batch of requests, or the list of batches.
    Batch,
    /// A list of models, or one of it.
    Models,
    /// Gemini: an answer in one piece.
    GenerateContent,
    /// Gemini: a streamed answer.
    StreamGenerateContent,
    /// Bedrock: Converse, streamed or not.
    Converse,
    /// Bedrock: a count of the tokens of a request.
    BedrockCount,
    /// Gemini: a session on a WebSocket.
    Live,
    /// Whatever else.
    Other,
}

/// What is asked of which wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Whose wire.
    pub family: Family,
    /// What is asked.
    pub operation: Operation,
}

impl Family {
    /// All families.
    pub const ALL: [Self; 3] = [Self::Anthropic, Self::OpenAi, Self::Gemini];

    /// Its name for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::Gemini => "gemini",
        }
    }
}

/// A path that two readers could understand in two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the path has empty, `.` or `..` segments, a `;`, or escapes a slash, `?` or `#`")]
pub struct AmbiguousPath;

impl Endpoint {
    /// What a request for `path` (without the gateway's own prefixes and without the query) asks for. `headers`
    /// tell apart what two families have at one path.
    ///
    /// # Errors
    /// [`AmbiguousPath`] if the provider might read another path than the gateway.
    pub fn of(path: &str, headers: &HeaderMap) -> Result<Self, AmbiguousPath> {
        let endpoint = |family, operation| Self { family, operation };
        // What nearly all requests are for, without a look at each of their bytes.
        match path {
            "/v1/messages" => return Ok(endpoint(Family::Anthropic, Operation::Messages)),
            "/v1/chat/completions" => return Ok(endpoint(Family::OpenAi, Operation::ChatCompletions)),
            "/v1/responses" => return Ok(endpoint(Family::OpenAi, Operation::Responses)),
            _ => {}
        }
        let path = normal(path)?;
        let path = path.trim_end_matches('/');
        let is_anthropic = headers.contains_key("anthropic-version");
        let maker = if is_anthropic { Family::Anthropic } else { Family::OpenAi };
        if is_messages(path) {
            return Ok(endpoint(Family::Anthropic, Operation::Messages));
        }
        if let Some(operation) = gemini(path) {
            return Ok(endpoint(Family::Gemini, operation));
        }
        let within = |list: &str| path.contains(&format!("/{list}/")) || path.ends_with(&format!("/{list}"));
        Ok(if path.ends_with("/chat/completions") {
            endpoint(Family::OpenAi, Operation::ChatCompletions)
        } else if path.ends_with("/messages/batches") {
            endpoint(Family::Anthropic, Operation::Batch)
        } else if path.ends_with("/batches") {
            endpoint(maker, Operation::Batch)
        } else if path.ends_with("/messages/count_tokens") {
            endpoint(Family::Anthropic, Operation::CountTokens)
        } else if path.ends_with("/responses") {
            endpoint(Family::OpenAi, Operation::Responses)
        } else if path.ends_with("/responses/input_tokens") {
            endpoint(Family::OpenAi, Operation::CountTokens)
        } else if DOCUMENTS.iter().any(|end| path.ends_with(end)) {
            endpoint(Family::OpenAi, Operation::Document)
        } else if within("responses") {
            endpoint(Family::OpenAi, Operation::StoredResponse)
        } else if path.ends_with("/embeddings") {
            endpoint(Family::OpenAi, Operation::Embeddings)
        } else if within("models") {
            endpoint(maker, Operation::Models)
        } else if path.starts_with("/v1/messages/") || path == "/v1/complete" {
            endpoint(Family::Anthropic, Operation::Other)
        } else {
            endpoint(maker, Operation::Other)
        })
    }

    /// The codec of its requests and answers; `None` where it asks no model for an answer, or none exists.
    pub const fn api(self) -> Option<Api> {
        match self.operation {
            Operation::Messages => Some(Api::AnthropicMessages),
            Operation::ChatCompletions => Some(Api::OpenAiChat),
            Operation::Responses => Some(Api::OpenAiResponses),
            Operation::GenerateContent | Operation::StreamGenerateContent => Some(Api::Gemini),
            Operation::Converse => Some(Api::BedrockConverse),
            Operation::CountTokens
            | Operation::BedrockCount
            | Operation::StoredResponse
            | Operation::Embeddings
            | Operation::Document
            | Operation::Batch
            | Operation::Models
            | Operation::Live
            | Operation::Other => None,
        }
    }

    /// Whether it is one that only Bedrock has, and no maker.
    pub const fn is_of_bedrock(self) -> bool {
        matches!(self.operation, Operation::Converse | Operation::BedrockCount)
    }

    /// Whether it asks no model for an answer, but how long the request is.
    pub const fn is_count(self) -> bool {
        matches!(self.operation, Operation::CountTokens | Operation::BedrockCount)
    }

    /// Whether its body is one document, of JSON or in parts, which is read as a whole before a provider is asked.
    pub const fn has_document(self) -> bool {
        !matches!(
            self.operation,
            Operation::Models | Operation::StoredResponse | Operation::Live | Operation::Other
        )
    }

    /// Whether a document that is posted there is for a model to answer: not a count, and not a list.
    pub const fn asks_a_model(self) -> bool {
        self.has_document() && !matches!(self.operation, Operation::CountTokens | Operation::BedrockCount)
    }
}

/// The ends of paths of [`Operation::Document`].
const DOCUMENTS: [&str; 9] = [
    "/completions",
    "/moderations",
    "/images/generations",
    "/images/edits",
    "/images/variations",
    "/audio/speech",
    "/audio/transcriptions",
    "/audio/translations",
    "/responses/compact",
];

/// `/messages`, or the same behind a version: others have messages, too (`/threads/<id>/messages`).
fn is_messages(path: &str) -> bool {
    let before = path.strip_suffix("/messages").and_then(|before| before.rsplit('/').next());
    before.is_some_and(|last| last.is_empty() || is_version(last))
}

fn gemini(path: &str) -> Option<Operation> {
    if path.starts_with("/ws/google.") {
        return Some(Operation::Live);
    }
    if path.ends_with(":generatecontent") {
        return Some(Operation::GenerateContent);
    }
    if path.ends_with(":streamgeneratecontent") {
        return Some(Operation::StreamGenerateContent);
    }
    if path.ends_with(":counttokens") {
        return Some(Operation::CountTokens);
    }
    if path.ends_with(":embedcontent") || path.ends_with(":batchembedcontents") {
        return Some(Operation::Embeddings);
    }
    let rest = path.strip_prefix("/v1beta/").or_else(|| path.strip_prefix("/v1alpha/"))?;
    if rest.starts_with("openai/") {
        // Its imitation of OpenAI's API.
        return None;
    }
    let is_list = rest == "models" || (rest.starts_with("models/") && !rest.contains(':'));
    Some(if is_list { Operation::Models } else { Operation::Other })
}

/// The path in lower case, its escaped letters unescaped.
pub(crate) fn normal(path: &str) -> Result<Cow<'_, str>, AmbiguousPath> {
    let decoded = if path.contains('%') { Cow::Owned(unescaped(path)?) } else { Cow::Borrowed(path) };
    let trimmed = decoded.strip_suffix('/').unwrap_or(&decoded);
    let strange = |segment: &str| matches!(segment, "" | "." | "..");
    if trimmed.split('/').skip(1).any(strange) || decoded.contains(['\\', ';', '?', '#']) {
        return Err(AmbiguousPath);
    }
    let lower = !decoded.bytes().any(|byte| byte.is_ascii_uppercase());
    Ok(if lower { decoded } else { Cow::Owned(decoded.to_ascii_lowercase()) })
}

pub(crate) fn unescaped(path: &str) -> Result<String, AmbiguousPath> {
    let mut parts = path.split('%');
    let mut text = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let escaped = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let (byte, rest) = escaped.zip(part.get(2..)).ok_or(AmbiguousPath)?;
        if matches!(byte, b'/' | b'\\' | b'%' | 0..=0x1f | 0x7f) {
            return Err(AmbiguousPath);
        }
        text.push(byte);
        text.extend_from_slice(rest.as_bytes());
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Returns what a text says to a reader that takes every escape; one that is none stays as it is.
pub(crate) fn unescaped_by_anyone(text: &str) -> Vec<u8> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let escaped = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match escaped.zip(part.get(2..)) {
            Some((byte, rest)) => {
                bytes.push(byte);
                bytes.extend_from_slice(rest.as_bytes());
            }
            None => {
                bytes.push(b'%');
                bytes.extend_from_slice(part.as_bytes());
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> (Family, Operation) {
        let Endpoint { family, operation } = Endpoint::of(path, &HeaderMap::new()).unwrap();
        (family, operation)
    }

    #[test]
    fn paths_of_the_providers_are_known() {
        use Family::{Anthropic, Gemini, OpenAi};
        use Operation::*;
        for (path, family, operation) in [
            ("/v1/messages", Anthropic, Messages),
            ("/v2/messages", Anthropic, Messages),
            ("/v1beta/messages", Anthropic, Messages),
            ("/messages", Anthropic, Messages),
            ("/v1/messages/count_tokens", Anthropic, CountTokens),
            ("/v1/messages/batches", Anthropic, Batch),
            ("/v1/messages/batches/b", Anthropic, Other),
            ("/v1/chat/completions", OpenAi, ChatCompletions),
            ("/chat/completions", OpenAi, ChatCompletions),
            ("/openai/deployments/gpt/chat/completions", OpenAi, ChatCompletions),
            ("/v1/responses", OpenAi, Responses),
            ("/v1/responses/resp_1", OpenAi, StoredResponse),
            ("/v1/responses/resp_1/cancel", OpenAi, StoredResponse),
            ("/v1/responses/input_tokens", OpenAi, CountTokens),
            ("/v1/embeddings", OpenAi, Embeddings),
            ("/v1beta/models/m:embedContent", Gemini, Embeddings),
            ("/v1/completions", OpenAi, Document),
            ("/v1/images/generations", OpenAi, Document),
            ("/v1/images/edits", OpenAi, Document),
            ("/v1/audio/transcriptions", OpenAi, Document),
            ("/v1/responses/compact", OpenAi, Document),
            ("/v1/models", OpenAi, Models),
            ("/v1/models/gpt", OpenAi, Models),
            ("/v1/files", OpenAi, Other),
            ("/v1/batches", OpenAi, Batch),
            ("/v1/batches/b", OpenAi, Other),
            ("/v1/threads/t/messages", OpenAi, Other),
            ("/v1beta/models", Gemini, Models),
            ("/v1beta/models/gemini-pro", Gemini, Models),
            ("/v1beta/models/gemini-pro:generateContent", Gemini, GenerateContent),
            ("/v1/models/gemini-pro:generateContent", Gemini, GenerateContent),
            ("/v1beta/models/gemini-pro:streamGenerateContent", Gemini, StreamGenerateContent),
            ("/v1beta/models/gemini-pro:countTokens", Gemini, CountTokens),
            ("/v1internal:generateContent", Gemini, GenerateContent),
            ("/v1beta/cachedContents", Gemini, Other),
            ("/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent", Gemini, Live),
            ("/ws/google.cloud.aiplatform.v1.LlmBidiService/BidiGenerateContent", Gemini, Live),
        ] {
            assert_eq!(of(path), (family, operation), "{path}");
        }
        let anthropic = HeaderMap::from_iter([(
            http::HeaderName::from_static("anthropic-version"),
            "x".parse().unwrap(),
        )]);
        let models = Endpoint::of("/v1/models", &anthropic).unwrap();
        assert_eq!(models, Endpoint { family: Anthropic, operation: Models });
    }

    #[test]
    fn spelling_is_no_way_around() {
        for path in ["/v1/messages/", "/V1/Messages", "/v1/%6dessages", "/v1/message%73", "/x/v1/messages"] {
            assert_eq!(of(path), (Family::Anthropic, Operation::Messages), "{path}");
        }
        for path in [
            "//v1/messages",
            "/v1//messages",
            "/v1/./messages",
            "/v1/x/../messages",
            "/v1/x/%2e%2e/messages",
            "/v1%2fmessages",
            "/v1/messages//",
            "/v1\\messages",
            "/v1/%zz",
            "/v1/%256dessages",
            "/v1/messages;x=1",
            "/v1/messages%3bx",
            "/v1/messages%3Fx=1",
            "/v1/messages%23x",
        ] {
            assert_eq!(Endpoint::of(path, &HeaderMap::new()), Err(AmbiguousPath), "{path}");
        }
    }
}
