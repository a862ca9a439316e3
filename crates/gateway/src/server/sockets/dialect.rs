//! What is spoken on a connection.

use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::message::{self, Said};
use super::realtime::Talk;
use crate::error::Failure;
use crate::server::load::Buffered;

/// What is spoken. Those who judge know OpenAI Responses, and all else is taken there and back.
#[derive(Debug)]
pub(super) enum Dialect {
    /// Messages are events of OpenAI Responses.
    Responses,
    /// OpenAI Realtime.
    Realtime(Box<Talk>),
}

impl Dialect {
    /// What a client is told before it says anything.
    pub(super) fn greeting(&mut self) -> Option<String> {
        match self {
            Self::Responses => None,
            Self::Realtime(talk) => Some(talk.greeting()),
        }
    }

    /// Reads what a client said.
    pub(super) fn hear(&self, text: &str) -> Result<Said, Failure> {
        match self {
            Self::Responses => message::read(text),
            Self::Realtime(_) => Talk::hear(text).map(Said::Talk),
        }
    }

    /// A request is about to be judged: nothing that it asks with waits for another. Answers what counts that.
    pub(super) fn asked(&mut self) -> Vec<Buffered> {
        match self {
            Self::Responses => Vec::new(),
            Self::Realtime(talk) => talk.asked(),
        }
    }

    /// Whether the provider's last error stands in place of an answer. In Realtime it may be about anything else that was
    /// said, and the answer comes all the same; of Responses a request is one message, and nothing else is said.
    pub(super) fn is_refused(&self) -> bool {
        match self {
            Self::Responses => true,
            Self::Realtime(talk) => talk.is_refused(),
        }
    }

    /// A provider's message as an event of Responses; `None` if it belongs to no answer and nobody waits for it.
    pub(super) fn read(&mut self, message: Utf8Bytes) -> Option<Utf8Bytes> {
        match self {
            Self::Responses => Some(message),
            Self::Realtime(talk) => talk.read(&message).map(Utf8Bytes::from),
        }
    }

    /// An event of Responses as the client hears it.
    pub(super) fn write(&mut self, event: Utf8Bytes) -> Vec<Utf8Bytes> {
        match self {
            Self::Responses => vec![event],
            Self::Realtime(talk) => talk.write(&event).into_iter().map(Utf8Bytes::from).collect(),
        }
    }
}
