//! Events of a stream, in their frames and out of them.
//!
//! A frame has its type in a header and its content as payload. The event that it is here has the type as its name. Law: *what
//! is judged is what the frame says*, so a frame whose type is no word, or whose payload is no JSON object, is none.

use serde_json::{Value, json};

use super::error::is_exception;
use crate::frames::{BadFrame, Frame};
use crate::sse::SseEvent;
use crate::wire::parse_json;

const MESSAGE_TYPE: &str = ":message-type";
const EVENT_TYPE: &str = ":event-type";
const EXCEPTION_TYPE: &str = ":exception-type";
const CONTENT_TYPE: (&str, &str) = (":content-type", "application/json");

/// What fails without a name of the wire's.
const FAILED: &str = "internalServerException";
/// The field with which the service hides how long a text is.
const PADDING: &str = "p";
/// Longer than the name of any type.
const LONGEST_NAME: usize = 64;

/// The event of a frame, without its padding.
///
/// # Errors
/// If the frame is of no kind that the wire has.
pub fn event_of(frame: &Frame) -> Result<SseEvent, BadFrame> {
    match (frame.header(MESSAGE_TYPE), frame.header(EVENT_TYPE), frame.header(EXCEPTION_TYPE)) {
        (Some("event"), Some(name), None) if is_word(name) => {
            let data = without_padding(&frame.payload).ok_or(BadFrame::Event)?;
            Ok(SseEvent::new(Some(name), data))
        }
        (Some("exception"), _, Some(name)) => Ok(exception(name, &frame.payload)),
        (Some("error"), ..) => {
            let said = frame.header(":error-message").unwrap_or_default();
            Ok(SseEvent::new(Some(FAILED), json!({ "message": said }).to_string()))
        }
        _ => Err(BadFrame::Kind),
    }
}

fn is_word(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// A payload as one line; `None` if it is no object, or has a key twice.
fn without_padding(payload: &[u8]) -> Option<String> {
    let Value::Object(mut fields) = parse_json(payload).ok()? else { return None };
    if fields.shift_remove(PADDING).is_some() {
        return Some(Value::Object(fields).to_string());
    }
    let text = std::str::from_utf8(payload).ok()?;
    // A line end stands between two values, if anywhere.
    Some(text.replace(['\r', '\n'], " "))
}

fn exception(name: &str, payload: &[u8]) -> SseEvent {
    let said = parse_json(payload).unwrap_or_default();
    let message = said.get("message").and_then(Value::as_str).unwrap_or_default();
    let name = if is_word(name) && is_exception(name) { name } else { FAILED };
    SseEvent::new(Some(name), json!({ "message": message }).to_string())
}

/// The frame of an event; `None` for one without a name, which no stream of this wire has.
pub fn frame_of(event: &SseEvent) -> Option<Frame> {
    let name = event.event.as_deref().filter(|name| is_word(name))?;
    let kind = if is_exception(name) {
        [(EXCEPTION_TYPE, name), CONTENT_TYPE, (MESSAGE_TYPE, "exception")]
    } else {
        [(EVENT_TYPE, name), CONTENT_TYPE, (MESSAGE_TYPE, "event")]
    };
    Some(Frame::new(&kind, event.data.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: &[(&str, &str)], payload: &str) -> Frame {
        Frame::new(kind, payload.to_owned())
    }

    #[test]
    fn frames_come_back_without_their_padding() {
        let kind = [(EVENT_TYPE, "contentBlockDelta"), CONTENT_TYPE, (MESSAGE_TYPE, "event")];
        let said = r#"{"contentBlockIndex":0,"delta":{"text":"a"}}"#;
        let padded = format!("{},\"p\":\"abcdef\"}}", said.strip_suffix('}').unwrap());
        let event = event_of(&frame(&kind, &padded)).unwrap();
        assert_eq!((event.event.as_deref(), event.data.as_str()), (Some("contentBlockDelta"), said));
        assert_eq!(frame_of(&event), Some(frame(&kind, said)));
        let spaced = event_of(&frame(&kind, "{\r\n \"a\":1\n}")).unwrap();
        assert_eq!(spaced.data, "{   \"a\":1 }");
    }

    #[test]
    fn exceptions_are_events_that_are_named_after_them() {
        let kind = [(EXCEPTION_TYPE, "throttlingException"), CONTENT_TYPE, (MESSAGE_TYPE, "exception")];
        let slow = r#"{"message":"slow down"}"#;
        let event = event_of(&frame(&kind, slow)).unwrap();
        assert_eq!((event.event.as_deref(), event.data.as_str()), (Some("throttlingException"), slow));
        assert_eq!(frame_of(&event), Some(frame(&kind, slow)));
        for (name, payload) in [("contentBlockDelta", slow), ("x\ny", slow), ("", "no JSON")] {
            let strange = [(EXCEPTION_TYPE, name), (MESSAGE_TYPE, "exception")];
            assert_eq!(event_of(&frame(&strange, payload)).unwrap().event.as_deref(), Some(FAILED));
        }
    }

    #[test]
    fn what_is_no_event_is_none() {
        for (kind, payload) in [
            (vec![(EVENT_TYPE, "x")], "{}"),
            (vec![(MESSAGE_TYPE, "event")], "{}"),
            (vec![(MESSAGE_TYPE, "Event"), (EVENT_TYPE, "x")], "{}"),
            (vec![(MESSAGE_TYPE, "event"), (EVENT_TYPE, "x y")], "{}"),
            (vec![(MESSAGE_TYPE, "event"), (EVENT_TYPE, "x"), (EXCEPTION_TYPE, "y")], "{}"),
            (vec![(MESSAGE_TYPE, "event"), (EVENT_TYPE, "x")], "[]"),
            (vec![(MESSAGE_TYPE, "event"), (EVENT_TYPE, "x")], r#"{"a":1,"a":2}"#),
            (vec![(MESSAGE_TYPE, "event"), (EVENT_TYPE, "x")], "{} {}"),
        ] {
            assert!(event_of(&frame(&kind, payload)).is_err(), "{kind:?} {payload}");
        }
    }
}
