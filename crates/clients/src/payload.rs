//! Payloads: what a client writes to a hook's stdin, read within bounds.
//!
//! A payload that is not understood is never guessed at: it ends as an error, and the error as a refusal.
//! Errors name the field, never its value.
//!
//! One thing is mended: half a character, which a client leaves behind that cuts a text in the middle of one
//! (`"\ud83d"`), and which is no text. It is read as the sign for what can't be read, so that a result with
//! such a half is judged like any other. A tool call with one stays refused: what was judged is what runs.

use serde_json::{Map, Value};

/// Most bytes of a payload. Clients send file contents and whole tool results; one that is larger can't be
/// judged in the time that a client gives a hook.
pub const MAX_PAYLOAD_BYTES: usize = 8 * 1024 * 1024;

/// Why a payload can't be judged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// Nothing came.
    #[error("the client sent nothing on stdin")]
    Empty,
    /// More came than is read.
    #[error("the client sent more than {MAX_PAYLOAD_BYTES} bytes, which is more than can be judged")]
    TooLarge,
    /// Not text.
    #[error("the client's payload is not valid UTF-8")]
    NotUtf8,
    /// Not JSON, or cut short, or nested too deep.
    #[error("the client's payload is not valid JSON (line {line}, column {column})")]
    NotJson {
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
    },
    /// JSON, but not an object.
    #[error("the client's payload is not a JSON object")]
    NotAnObject,
    /// A tool call whose payload has half a character somewhere.
    #[error("the client's payload has half a character, so that what would run can't be read")]
    HalfCharacter,
    /// A field is missing or has another type than it should.
    #[error("the client's payload has no usable `{field}` for the event `{event}`")]
    Field {
        /// The field, as the client spells it.
        field: &'static str,
        /// The event.
        event: String,
    },
    /// Neither the payload nor the command line names the event.
    #[error(
        "the client's payload does not name its event; hint: pass it, as in `backstop hook {client} <event>`"
    )]
    NoEvent {
        /// The client.
        client: &'static str,
    },
    /// An event that no tested version of the client has.
    #[error(
        "`{event}` is no event of {client} that this version knows; hint: `backstop doctor` compares versions"
    )]
    UnknownEvent {
        /// The client.
        client: &'static str,
        /// The event, cut to what a name may be long.
        event: String,
    },
    /// The payload says which version of the client wrote it, in a way that is no version.
    #[error(
        "`{version}` is no version of {client}, so the form of its events is not known; hint: `backstop doctor` compares versions"
    )]
    UnknownVersion {
        /// The client.
        client: &'static str,
        /// The version, cut to what a name may be long.
        version: String,
    },
}

/// A payload: one JSON object.
#[derive(Clone)]
pub struct Payload {
    fields: Map<String, Value>,
    /// Halves of characters were replaced.
    mended: bool,
}

impl Payload {
    /// Reads what came on stdin. Nesting is bounded by the JSON reader (128 levels).
    ///
    /// # Errors
    ///
    /// [`PayloadError`] for anything but one JSON object of bounded size.
    pub fn parse(bytes: &[u8]) -> Result<Self, PayloadError> {
        if bytes.len() > MAX_PAYLOAD_BYTES {
            return Err(PayloadError::TooLarge);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| PayloadError::NotUtf8)?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim().is_empty() {
            return Err(PayloadError::Empty);
        }
        let (read, mended) = match serde_json::from_str(text) {
            Err(_) => (serde_json::from_str(&mended(text)), true),
            read => (read, false),
        };
        match read {
            Ok(Value::Object(fields)) => Ok(Self { fields, mended }),
            Ok(_) => Err(PayloadError::NotAnObject),
            Err(error) => Err(PayloadError::NotJson { line: error.line(), column: error.column() }),
        }
    }

    /// Whether halves of characters were replaced, so that it is not quite what the client has.
    pub(crate) fn is_mended(&self) -> bool {
        self.mended
    }

    pub(crate) fn get(&self, field: &str) -> Option<&Value> {
        self.fields.get(field)
    }

    pub(crate) fn text(&self, field: &str) -> Option<&str> {
        self.get(field).and_then(Value::as_str)
    }

    pub(crate) fn flag(&self, field: &str) -> bool {
        self.get(field).and_then(Value::as_bool).unwrap_or_default()
    }

    pub(crate) fn number(&self, field: &str) -> Option<u64> {
        self.get(field).and_then(Value::as_u64)
    }

    /// The object under `field`, for payloads with parts.
    pub(crate) fn part(&self, field: &str) -> Option<Self> {
        let fields = self.get(field).and_then(Value::as_object).cloned()?;
        Some(Self { fields, mended: self.mended })
    }

    /// The text under `field`, without which the event makes no sense.
    pub(crate) fn need<'a>(&'a self, field: &'static str, event: &str) -> Result<&'a str, PayloadError> {
        self.text(field).ok_or_else(|| missing(field, event))
    }

    /// Arguments of a tool: an object, or its JSON in a string, as older releases of some clients send it.
    /// Absent and `null` are no arguments.
    pub(crate) fn arguments(
        &self,
        field: &'static str,
        event: &str,
    ) -> Result<Map<String, Value>, PayloadError> {
        match self.get(field) {
            None | Some(Value::Null) => Ok(Map::new()),
            Some(Value::Object(arguments)) => Ok(arguments.clone()),
            Some(Value::String(text)) => serde_json::from_str(text).map_err(|_| missing(field, event)),
            Some(_) => Err(missing(field, event)),
        }
    }
}

/// The text with the sign for what can't be read in the place of each half of a character.
fn mended(text: &str) -> String {
    let mut mended = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, escape)) = rest.find('\\').map(|at| rest.split_at(at)) {
        mended.push_str(before);
        let after = escape.get(ESCAPE_BYTES..).unwrap_or_default();
        let length = match (code_unit(escape), code_unit(after)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 2 * ESCAPE_BYTES,
            (Some(0xD800..=0xDFFF), _) => {
                mended.push_str("\\ufffd");
                rest = after;
                continue;
            }
            (Some(_), _) => ESCAPE_BYTES,
            // The backslash and what it escapes.
            (None, _) => escape.chars().take(2).map(char::len_utf8).sum(),
        };
        let (kept, after) = escape.split_at(length);
        mended.push_str(kept);
        rest = after;
    }
    mended.push_str(rest);
    mended
}

/// How long `\u1234` is.
const ESCAPE_BYTES: usize = 6;

/// The code unit of an escape at the beginning of a text.
fn code_unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))
}

pub(crate) fn missing(field: &'static str, event: &str) -> PayloadError {
    PayloadError::Field { field, event: shown(event) }
}

/// A name from outside, as it may appear in a message.
pub(crate) fn shown(name: &str) -> String {
    const MOST: usize = 60;
    let clean = name.chars().map(|c| if c.is_control() || c == '`' { '?' } else { c });
    clean.take(MOST).collect()
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Payload(<object of {} keys>)", self.fields.len())
    }
}

#[cfg(test)]
impl From<Value> for Payload {
    fn from(value: Value) -> Self {
        match value {
            Value::Object(fields) => Self { fields, mended: false },
            _ => panic!("a payload is an object"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_one_object_is_an_error_without_values() {
        let nested = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        let large = vec![b' '; MAX_PAYLOAD_BYTES + 1];
        let cases: &[(&[u8], &str)] = &[
            (b"", "sent nothing"),
            (b" \n", "sent nothing"),
            (b"{\"hunter2\": ", "line 1, column 12"),
            (b"\xff{}", "UTF-8"),
            (b"[1]", "not a JSON object"),
            (b"{} hunter2", "not valid JSON"),
            (nested.as_bytes(), "not valid JSON"),
            (&large, "more than"),
        ];
        for (bytes, said) in cases {
            let error = Payload::parse(bytes).unwrap_err().to_string();
            assert!(error.contains(said) && !error.contains("hunter2"), "{error}");
        }
        assert!(Payload::parse("\u{feff} {} ".as_bytes()).is_ok());
    }

    #[test]
    fn half_a_character_is_read_as_the_sign_for_it() {
        let cases = [
            (r#"{"a": "cut \ud83d"}"#, "cut \u{fffd}"),
            (r#"{"a": "\ude00 \ud83d\ude00 \u00e9"}"#, "\u{fffd} \u{1f600} \u{e9}"),
            (r#"{"a": "\ud83d\ud83d\ude00"}"#, "\u{fffd}\u{1f600}"),
            (r#"{"a": "\\ud83d \ud83d\n"}"#, "\\ud83d \u{fffd}\n"),
        ];
        for (json, text) in cases {
            let payload = Payload::parse(json.as_bytes()).unwrap();
            assert_eq!((payload.text("a"), payload.is_mended()), (Some(text), true), "{json}");
        }
        assert!(!Payload::parse(br#"{"a": "\ud83d\ude00"}"#).unwrap().is_mended());
        for json in [r#"{"a": "\ud83"#, r#"{"a": "\"#, r#"{"a": "\u+123"}"#, "\\\u{1f600}"] {
            assert!(Payload::parse(json.as_bytes()).is_err(), "{json}");
        }
    }

    #[test]
    fn names_from_outside_are_cut_and_cleaned() {
        assert_eq!(shown("a`b\u{1b}"), "a?b?");
        assert_eq!(shown(&"x".repeat(999)).len(), 60);
    }
}
