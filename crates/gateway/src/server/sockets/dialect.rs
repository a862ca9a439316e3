//! What is spoken on a connection.

use http::uri::PathAndQuery;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::live::{self, Live};
use super::message::{self, Create, Kind, Said};
use super::realtime::{self, Talk, Utterance};
use super::relay::Frame;
use crate::error::Failure;
use crate::server::load::Buffered;

/// What is spoken. Those who judge know OpenAI Responses and Gemini, and all else is taken there and back.
#[derive(Debug)]
pub(super) enum Dialect {
    /// Messages are events of OpenAI Responses.
    Responses,
    /// OpenAI Realtime, as Responses.
    Realtime(Box<Talk>),
    /// Gemini Live, as a stream of Gemini.
    Live(Box<Live>),
}

/// A provider's message that nobody can read: bytes, none at all, or one in which something stands where nobody expects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unread;

/// What a provider said.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// For the client, at once: nobody can say anything in it.
    pub(super) aside: Vec<Utf8Bytes>,
    /// For the provider, at once.
    pub(super) provider: Vec<Utf8Bytes>,
    /// Of an answer, for those who judge.
    pub(super) event: Option<(Kind, Utf8Bytes)>,
}

/// An error that is no message, but the end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Farewell {
    /// The status that it would have over HTTP.
    pub(super) status: u16,
    pub(super) words: String,
}

impl Dialect {
    /// What a client is told before it says anything.
    pub(super) fn greeting(&mut self) -> Option<String> {
        match self {
            Self::Responses | Self::Live(_) => None,
            Self::Realtime(talk) => Some(talk.greeting()),
        }
    }

    /// Reads what a client said.
    pub(super) fn hear(&self, text: &str) -> Result<Said, Failure> {
        match self {
            Self::Responses => message::read(text),
            Self::Realtime(talk) => talk.hear(text).map(Said::Talk),
            Self::Live(live) => live.hear(text).map(Said::Live),
        }
    }

    /// The address that a request has over HTTP, where that is not the one of the connection.
    pub(super) fn target(&self) -> Option<&PathAndQuery> {
        match self {
            Self::Responses | Self::Realtime(_) => None,
            Self::Live(live) => live.target(),
        }
    }

    /// A request is about to be judged: nothing that it asks with waits for another. Answers what counts that.
    pub(super) fn asked(&mut self, create: &Create) -> Vec<Buffered> {
        match self {
            Self::Responses => Vec::new(),
            Self::Realtime(talk) => talk.asked(create.is_unasked()),
            Self::Live(live) => live.asked(create.is_unasked()),
        }
    }

    /// A request passes. Answers what the client is told of it.
    pub(super) fn permitted(&mut self) -> Vec<Utf8Bytes> {
        match self {
            Self::Responses => Vec::new(),
            Self::Realtime(talk) => texts(talk.permitted()),
            Self::Live(live) => texts(live.permitted()),
        }
    }

    /// A request does not pass. Answers whether the provider has said already what it was about: then no other request can
    /// take it back.
    pub(super) fn refused(&mut self) -> bool {
        match self {
            Self::Responses => false,
            Self::Realtime(talk) => talk.refused(),
            Self::Live(live) => live.refused(),
        }
    }

    /// These messages go to the provider, and an answer follows.
    pub(super) fn begins(&mut self, messages: &[Utf8Bytes]) {
        match self {
            Self::Responses => {}
            Self::Realtime(talk) => talk.begins(),
            Self::Live(live) => live.begins(messages),
        }
    }

    /// The messages by which a model goes on after the calls of its answer to `create` were refused; `None` if there are none.
    pub(super) fn again(&mut self, create: &Create, body: &[u8]) -> Option<Vec<Utf8Bytes>> {
        let setup = if let Self::Live(live) = &self { live.sent() } else { None };
        let messages = create.again(body, setup);
        if let Self::Live(live) = self
            && messages.is_some()
        {
            live.again();
        }
        messages
    }

    /// Whether a message passes while an answer is under way.
    pub(super) fn passes(&self, said: &Said) -> bool {
        match (self, said) {
            (Self::Realtime(talk), Said::Talk(said)) => talk.passes(said),
            (Self::Live(live), Said::Live(said)) => live.passes(said),
            _ => false,
        }
    }

    /// What is to be done though the client has not asked for it: the provider has heard something.
    pub(super) fn due(&self) -> Option<Said> {
        matches!(self, Self::Realtime(talk) if talk.is_due()).then_some(Said::Talk(Utterance::Due))
    }

    /// How much the provider has heard, where its words belong into what was said.
    pub(super) fn waits_for(&self, said: &Said) -> Option<u64> {
        match (self, said) {
            (Self::Realtime(talk), Said::Talk(said)) => talk.waits_for(said),
            _ => None,
        }
    }

    /// Whether words of so much of what it has heard are to come.
    pub(super) fn is_awaiting(&self, heard: u64) -> bool {
        matches!(self, Self::Realtime(talk) if talk.is_awaiting(heard))
    }

    /// The answer is over.
    pub(super) fn ended(&mut self) {
        match self {
            Self::Responses => {}
            Self::Realtime(talk) => talk.ended(),
            Self::Live(live) => live.ended(),
        }
    }

    /// Whether the provider has to take the setup of the session before it hears more.
    pub(super) fn is_opening(&self) -> bool {
        matches!(self, Self::Live(live) if !live.is_open())
    }

    /// Whether something of the answer was said aloud.
    pub(super) fn has_sounded(&self) -> bool {
        match self {
            Self::Responses => false,
            Self::Realtime(talk) => talk.has_sounded(),
            Self::Live(live) => live.has_sounded(),
        }
    }

    /// Whether the messages of an answer name it, and a new one begins only when it was asked for.
    pub(super) fn has_threads(&self) -> bool {
        !matches!(self, Self::Live(_))
    }

    /// Whether the provider's last error stands in place of an answer. In Realtime it may be about anything else that was
    /// said, and the answer comes all the same.
    pub(super) fn is_refused(&self) -> bool {
        match self {
            Self::Responses | Self::Live(_) => true,
            Self::Realtime(talk) => talk.is_refused(),
        }
    }

    /// The text of a message.
    fn text(&mut self, message: Message) -> Result<Option<Utf8Bytes>, Unread> {
        match (message, self) {
            (Message::Text(text), Self::Live(live)) => {
                live.framed(false);
                Ok(Some(text))
            }
            (Message::Text(text), _) => Ok(Some(text)),
            (Message::Binary(bytes), Self::Live(live)) => {
                live.framed(true);
                Utf8Bytes::try_from(bytes).map(Some).map_err(|_| Unread)
            }
            (Message::Ping(_) | Message::Pong(_) | Message::Frame(_), _) => Ok(None),
            (Message::Binary(_) | Message::Close(_), _) => Err(Unread),
        }
    }

    /// Whether bytes of a client are a message.
    pub(super) fn takes_bytes(&self) -> bool {
        matches!(self, Self::Live(_))
    }

    /// A message for the client.
    pub(super) fn frame(&self, text: Utf8Bytes) -> Message {
        match self {
            Self::Live(live) if live.is_binary() => Message::Binary(text.into()),
            Self::Responses | Self::Realtime(_) | Self::Live(_) => Message::Text(text),
        }
    }

    /// What a read of the provider's socket brought, if that is a message.
    pub(super) fn listen(&mut self, frame: Frame) -> Result<Option<Heard>, Unread> {
        let Some(Ok(message)) = frame else { return Err(Unread) };
        match self.text(message)? {
            Some(text) => self.read(text).map(Some),
            None => Ok(None),
        }
    }

    /// A provider's message as an event of a stream that somebody can judge.
    fn read(&mut self, message: Utf8Bytes) -> Result<Heard, Unread> {
        match self {
            Self::Responses => Ok(Heard { event: Some((Kind::of(&message), message)), ..Heard::default() }),
            Self::Realtime(talk) => {
                let realtime::Heard { aside, provider, event } = talk.read(&message)?;
                let event = event.map(|event| (Kind::of(&event), event.into()));
                Ok(Heard { aside: texts(aside), provider: texts(provider), event })
            }
            Self::Live(live) => {
                let live::Heard { aside, event } = live.read(&message)?;
                let event = event.map(|(kind, event)| (kind, event.into()));
                Ok(Heard { aside: texts(aside), event, ..Heard::default() })
            }
        }
    }

    /// An event of such a stream as the client hears it.
    pub(super) fn write(&mut self, event: Utf8Bytes) -> Result<Vec<Utf8Bytes>, Farewell> {
        match self {
            Self::Responses => Ok(vec![event]),
            Self::Realtime(talk) => Ok(texts(talk.write(&event))),
            Self::Live(live) => match live.write(&event) {
                Ok(messages) => Ok(texts(messages)),
                Err((status, words)) => Err(Farewell { status, words }),
            },
        }
    }
}

fn texts(messages: impl IntoIterator<Item = String>) -> Vec<Utf8Bytes> {
    messages.into_iter().map(Utf8Bytes::from).collect()
}
