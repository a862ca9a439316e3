//! A request as it came, whatever its body is: what it says, and the body that says something else.

use backstop_hooks::Text;
use backstop_hooks::conversation::Message;
use backstop_llm::live::{LiveDocument, LiveRequest};
use backstop_llm::{Api, ModelRequest, WireError};
use bytes::Bytes;
use serde_json::Value;

use super::form::Kind;
use crate::readable::Readable;

/// A request that was read.
#[derive(Debug)]
pub(super) enum Incoming {
    /// One that asks a model for an answer.
    Conversation(LiveRequest),
    /// One whose body is a document, as a request in which each of its texts is a message.
    Document(LiveDocument, ModelRequest),
}

/// Why a request can't be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unread {
    /// It is none of its wire.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// It can't be judged.
    #[error("{0}")]
    Unjudged(&'static str),
}

impl Incoming {
    /// Reads the body of a request; `None` if there is nothing in it to read. `model` is what the address names.
    pub(super) fn read(kind: &Kind, api: Api, body: &Bytes) -> Result<Option<Self>, Unread> {
        Ok(match kind {
            Kind::Ask(target) => Some(Self::Conversation(LiveRequest::read_at(api, target, body.clone())?)),
            Kind::Texts { readable, model } => match readable.asked {
                Some(table) => {
                    let document = LiveDocument::read(table, body.clone())?;
                    let request = as_request(&document, model.as_deref());
                    Some(Self::Document(document, request))
                }
                None => None,
            },
            Kind::Fetch { .. } => None,
            Kind::Unreadable(why) => return Err(Unread::Unjudged(why)),
        })
    }

    /// Why hooks that judge requests can't judge this one.
    pub(super) fn unjudgeable(&self) -> Option<&'static str> {
        match self {
            Self::Conversation(live) if has_variables(live.request()) => {
                Some("the variables of a stored prompt are texts that no hook is shown")
            }
            Self::Document(document, _) if document.has_tokens() => {
                Some("it says texts as numbers of tokens, which no hook can read; send them as strings")
            }
            Self::Conversation(_) | Self::Document(..) => None,
        }
    }

    /// Why the answer to it can't be judged.
    pub(super) fn unanswerable(&self, readable: Option<&Readable>) -> Option<&'static str> {
        let Self::Document(document, _) = self else { return None };
        readable.and_then(|readable| readable.unjudged_answer(document.value()))
    }

    /// What is asked.
    pub(super) fn request(&self) -> &ModelRequest {
        match self {
            Self::Conversation(live) => live.request(),
            Self::Document(_, request) => request,
        }
    }

    /// Whether the answer is to be streamed.
    pub(super) fn is_stream(&self) -> bool {
        match self {
            Self::Conversation(live) => live.is_stream(),
            Self::Document(..) => false,
        }
    }

    /// The body that asks for `edited`; `None` if this form of request can't say that.
    pub(super) fn write(&self, edited: &ModelRequest) -> Option<Bytes> {
        match self {
            Self::Conversation(live) => Some(live.write(edited)),
            Self::Document(document, _) if edited.system.is_empty() => {
                let texts: Vec<Text> =
                    edited.messages.iter().map(|message| message.visible_text().into()).collect();
                document.write(&texts)
            }
            Self::Document(..) => None,
        }
    }
}

/// A document's texts as messages, for the model that the address names, or the body.
fn as_request(document: &LiveDocument, model: Option<&str>) -> ModelRequest {
    let named = document.value().get("model").and_then(Value::as_str);
    let messages = document.texts().map(Message::user).collect();
    ModelRequest::new(model.or(named).unwrap_or_default(), messages)
}

/// Whether a request fills the variables of a prompt that the provider has.
fn has_variables(request: &ModelRequest) -> bool {
    let variables = request.extra.get("prompt").and_then(|prompt| prompt.get("variables"));
    variables.is_some_and(|variables| !variables.is_null())
}
