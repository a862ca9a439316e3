//! How connections end, and what both sides are told of it.

use std::borrow::Cow;
use std::io::ErrorKind;

use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::dialect::Farewell;
use crate::error::Failure;
use crate::server::ending::Ended;

/// Bytes that the reason of a close may have.
const MOST_REASON_BYTES: usize = 123;

/// Why a connection ends.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) code: CloseCode,
    pub(super) reason: Cow<'static, str>,
    /// What the client is told before.
    pub(super) words: Option<Box<Failure>>,
}

/// As much of a reason as a close can say (RFC 6455, 5.5.1).
pub(super) fn short(mut reason: String) -> String {
    let end = (0..=MOST_REASON_BYTES.min(reason.len())).rev().find(|end| reason.is_char_boundary(*end));
    reason.truncate(end.unwrap_or_default());
    reason
}

impl Ending {
    pub(super) fn new(code: CloseCode, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { code, reason: reason.into(), words: None }
    }

    /// An error for which the wire has no message.
    pub(super) fn of_farewell(farewell: Farewell) -> Self {
        let code = match farewell.status {
            401..=403 => CloseCode::Policy,
            413 => CloseCode::Size,
            429 | 503 => CloseCode::Again,
            500.. => CloseCode::Error,
            _ => CloseCode::Invalid,
        };
        Self::new(code, short(farewell.words))
    }

    pub(super) fn told(self, failure: Failure) -> Self {
        Self { words: Some(Box::new(failure)), ..self }
    }

    /// The other side has gone, or says goodbye.
    pub(super) fn gone() -> Self {
        Self::new(CloseCode::Normal, "")
    }

    pub(super) fn of(ended: Ended) -> Self {
        match ended {
            Ended::Stopping => Self::new(CloseCode::Away, "this proxy stops"),
            Ended::Token => Self::new(CloseCode::Policy, "the token of this connection has ended"),
        }
    }

    pub(super) fn of_provider() -> Self {
        Self::new(CloseCode::Error, "the provider's connection ended")
    }

    pub(super) fn too_old() -> Self {
        Self::new(CloseCode::Restart, "the connection is too old (`gateway.websockets.totalMs`)")
    }

    pub(super) fn too_much(failure: Failure) -> Self {
        Self::new(CloseCode::Again, "too much is going on at once").told(failure)
    }

    pub(super) fn of_stray() -> Self {
        Self::new(CloseCode::Error, "the provider said what nobody asked for")
    }

    /// A side that ends a connection with words of its own.
    pub(super) fn saying(code: CloseCode, reason: &'static str) -> Self {
        Self::new(code, reason).told(Failure::Message(reason.to_owned()))
    }

    pub(super) fn of_error(error: &Error) -> Self {
        match error {
            Error::Capacity(_) => {
                Self::saying(CloseCode::Size, "the message is too large (`gateway.limits.max_body_bytes`)")
            }
            Error::Utf8(_) => Self::new(CloseCode::Invalid, "the message is no UTF-8"),
            Error::Io(error) if error.kind() == ErrorKind::TimedOut => Self::saying(
                CloseCode::Policy,
                "the rest of a message did not come (`gateway.timeouts.bodyMs`)",
            ),
            Error::Io(error) if error.kind() == ErrorKind::OutOfMemory => Self::too_much(Failure::Overloaded),
            Error::Protocol(_) => Self::new(CloseCode::Protocol, "this is no WebSocket as RFC 6455 has it"),
            _ => Self::gone(),
        }
    }
}
