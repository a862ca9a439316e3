//! How the frames of a stream stand one after the other: cut out of bytes, and written behind what has left.
//!
//! A stream of events needs no care: an event may follow any other. An array has to be opened before its first
//! element and closed behind its last one, whoever wrote them; white space is legal between elements, and keeps a
//! client patient. The bracket that opens an array is a frame of its own and leaves at once, since some readers
//! take no white space before it.

use bytes::{Bytes, BytesMut};

use super::frame::Frame;
use crate::error::WireError;
use crate::json_array::{ArrayCutter, BETWEEN, CLOSED, OPENED};
use crate::sse::{DEFAULT_MAX_EVENT_BYTES, FrameCutter, SseEvent};

/// The framing of one stream.
#[derive(Debug)]
pub(crate) enum Framing {
    /// Server-sent events.
    Events(FrameCutter),
    /// The elements of one array.
    Array { cutter: ArrayCutter, client: ArrayAtClient },
}

/// How much of an array has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArrayAtClient {
    Nothing,
    Opened,
    Elements,
    Closed,
}

impl Framing {
    pub(crate) fn events() -> Self {
        Self::Events(FrameCutter::new(DEFAULT_MAX_EVENT_BYTES))
    }

    pub(crate) fn array() -> Self {
        Self::Array { cutter: ArrayCutter::new(DEFAULT_MAX_EVENT_BYTES), client: ArrayAtClient::Nothing }
    }

    /// Takes bytes, cut anywhere.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        match self {
            Self::Events(cutter) => cutter.push(bytes),
            Self::Array { cutter, .. } => cutter.push(bytes),
        }
    }

    /// The bytes of a frame that is not whole.
    pub(crate) fn pending(&self) -> usize {
        match self {
            Self::Events(cutter) => cutter.pending(),
            Self::Array { cutter, .. } => cutter.pending(),
        }
    }

    /// The next frame, if it is whole.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame>, WireError> {
        Ok(match self {
            Self::Events(cutter) => cutter.next_frame()?.map(Frame::from),
            Self::Array { cutter, .. } => cutter.next_frame()?.map(Frame::from),
        })
    }

    /// What is left at the end of the stream.
    ///
    /// # Errors
    /// [`WireError::Truncated`] if it is an array that has not ended.
    pub(crate) fn rest(&mut self) -> Result<Option<Frame>, WireError> {
        match self {
            Self::Events(cutter) => Ok(cutter.rest().map(Frame::from)),
            Self::Array { cutter, .. } => cutter.finish().map(|()| None),
        }
    }

    /// A frame has left.
    pub(crate) fn left(&mut self, frame: &Frame) {
        let Self::Array { client, .. } = self else { return };
        *client = match client {
            _ if !frame.is_bracket() => ArrayAtClient::Elements,
            ArrayAtClient::Nothing => ArrayAtClient::Opened,
            ArrayAtClient::Opened | ArrayAtClient::Elements | ArrayAtClient::Closed => ArrayAtClient::Closed,
        };
    }

    /// Writes an event of our own behind what has left. Nothing follows an array that is closed.
    pub(crate) fn write(&mut self, event: &SseEvent, out: &mut BytesMut) {
        let Self::Array { client, .. } = self else {
            out.extend_from_slice(&event.encode());
            return;
        };
        let before = match client {
            ArrayAtClient::Nothing => OPENED,
            ArrayAtClient::Opened => "",
            ArrayAtClient::Elements => BETWEEN,
            ArrayAtClient::Closed => return,
        };
        out.extend_from_slice(before.as_bytes());
        out.extend_from_slice(event.data.as_bytes());
        *client = ArrayAtClient::Elements;
    }

    /// Ends the stream: what has come of it and has not left is forgotten.
    pub(crate) fn close(&mut self, out: &mut BytesMut) {
        match self {
            Self::Events(cutter) => *cutter = FrameCutter::new(DEFAULT_MAX_EVENT_BYTES),
            Self::Array { cutter, client } => {
                *cutter = ArrayCutter::new(DEFAULT_MAX_EVENT_BYTES);
                out.extend_from_slice(match std::mem::replace(client, ArrayAtClient::Closed) {
                    ArrayAtClient::Nothing => b"[]",
                    ArrayAtClient::Opened => b"]",
                    ArrayAtClient::Elements => CLOSED.as_bytes(),
                    ArrayAtClient::Closed => b"",
                });
            }
        }
    }

    /// Bytes that every reader of this framing skips; `None` where the wire has some of its own.
    pub(crate) fn keep_alive(&self) -> Option<Bytes> {
        match self {
            Self::Events(_) => None,
            Self::Array { .. } => Some(Bytes::from_static(b"\n")),
        }
    }
}
