//! What is spoken on a connection.

use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::message::{self, Said};
use super::realtime::Talk;
use crate::error::Failure;

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
