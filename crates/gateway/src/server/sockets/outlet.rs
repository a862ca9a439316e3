//! What an exchange lets out, as messages.
//!
//! An exchange writes an event stream, or an error in place of one. Both become messages: the data of each event, as it
//! is, and the wire's error event.

use backstop_llm::WireError;
use backstop_llm::sse::SseDecoder;
use http::{HeaderValue, Response, StatusCode, header, response};

use super::message;
use crate::error::Failure;
use crate::exchange::{Outgoing, Reply};
use crate::server::answer::is_event_stream;

/// Turns what is let out into messages.
#[derive(Debug)]
pub(super) struct Outlet {
    events: SseDecoder,
    /// The status of an error that stands in place of an answer.
    error: Option<StatusCode>,
}

/// The head of an answer that streams.
pub(super) fn head() -> response::Parts {
    let mut head = Response::new(()).into_parts().0;
    head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    head
}

impl Outlet {
    pub(super) fn new() -> Self {
        Self { events: SseDecoder::new(usize::MAX), error: None }
    }

    /// The messages that may leave.
    pub(super) fn take(&mut self, out: &mut Outgoing) -> Result<Vec<String>, WireError> {
        if out.is_empty() {
            return Ok(Vec::new());
        }
        let data = out.take_data();
        if let Some(head) = out.release_head() {
            self.error = (!is_event_stream(&head.headers)).then_some(head.status);
        }
        match self.error {
            Some(status) => Ok(vec![message::refused(status, &data)]),
            None => self.read(&data),
        }
    }

    fn read(&mut self, data: &[u8]) -> Result<Vec<String>, WireError> {
        let frames = self.events.push(data)?;
        Ok(frames.into_iter().filter_map(|frame| frame.event).map(|event| event.data).collect())
    }
}

/// An answer that no provider gave, as messages: at least one, since somebody waits for it.
pub(super) fn replied(reply: &Reply) -> Vec<String> {
    if !is_event_stream(&reply.headers) {
        return vec![message::refused(reply.status, &reply.body)];
    }
    let messages = Outlet::new().read(&reply.body).unwrap_or_default();
    if messages.is_empty() {
        return vec![message::failed(&Failure::Message("the answer can't be written".to_owned()))];
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_that_nobody_can_read_is_an_error() {
        for body in ["", ": a comment\n\n", "data: half"] {
            let reply = Reply {
                status: StatusCode::OK,
                headers: head().headers,
                body: bytes::Bytes::from_static(body.as_bytes()),
            };
            let messages = replied(&reply);
            assert_eq!(messages.len(), 1, "{body:?}");
            assert_eq!(message::Kind::of(&messages[0]), message::Kind::Error, "{body:?}");
        }
    }
}
