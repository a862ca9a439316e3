//! How hooks fail, and which part of their message may be stored.
//!
//! The law: *blocked is gone*. A failure's message comes from the hook and may quote what the hook judged. Such a message is not
//! stored; of any other message the record stores the digest.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use backstop_hooks::{Digest, FailurePolicy, HookError, HookLoad, Text};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::foreign::TOO_DEEP;

/// How a hook failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// It said so.
    Failed,
    /// What it depends on can't be reached.
    Unreachable,
    /// It answered something that is no outcome of its point.
    Malformed,
    /// It panicked.
    Panicked,
    /// Its budget was used up.
    TimedOut,
    /// The maximum number of its calls was already under way.
    Overloaded,
    /// It was not asked: the call is nested too deep in hooks.
    TooDeep,
}

/// A hook failed to answer.
///
/// A record contains the message if it is Backstop's own, and only its digest if it is the hook's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// How.
    pub kind: FailureKind,
    /// In words, without values of the event.
    pub message: FailureMessage,
}

/// The message of a failure.
#[derive(Clone, PartialEq, Eq)]
pub enum FailureMessage {
    /// Backstop's own message, which is the same for every event.
    Own(Cow<'static, str>),
    /// The hook's message, which may contain anything.
    OfHook(Text),
}

impl FailureMessage {
    /// Returns the words.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Own(message) => message,
            Self::OfHook(message) => message,
        }
    }
}

impl Deref for FailureMessage {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for FailureMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for FailureMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(message) => fmt::Debug::fmt(message, f),
            Self::OfHook(message) => fmt::Debug::fmt(message, f),
        }
    }
}

impl Serialize for Failure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Wire<'a> {
            kind: FailureKind,
            #[serde(skip_serializing_if = "Option::is_none")]
            message: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            digest: Option<Digest>,
        }
        let (message, digest) = match &self.message {
            FailureMessage::Own(message) => (Some(&**message), None),
            FailureMessage::OfHook(message) => (None, Some(Digest::of_text("failure", message))),
        };
        Wire { kind: self.kind, message, digest }.serialize(serializer)
    }
}

impl Failure {
    /// Returns whether its words are about this machine: what could not be reached there, or a path.
    pub(crate) fn is_of_this_machine(&self) -> bool {
        match &self.message {
            FailureMessage::Own(_) => false,
            FailureMessage::OfHook(message) => self.kind == FailureKind::Unreachable || names_a_path(message),
        }
    }

    /// Returns whether a hook that failed like this stops the value.
    pub fn blocks(&self, policy: FailurePolicy) -> bool {
        match policy {
            FailurePolicy::Closed => true,
            FailurePolicy::Open => false,
            FailurePolicy::OpenIfUnreachable => {
                !matches!(self.kind, FailureKind::Unreachable | FailureKind::TimedOut)
            }
        }
    }

    pub(crate) fn panicked() -> Self {
        // The panic's own message may quote the event, so it is not taken over.
        Self { kind: FailureKind::Panicked, message: FailureMessage::Own("the hook panicked".into()) }
    }

    /// Creates an answer that makes no sense, in words that quote nothing.
    pub(crate) fn malformed(message: &'static str) -> Self {
        Self { kind: FailureKind::Malformed, message: FailureMessage::Own(message.into()) }
    }

    pub(crate) fn timed_out(budget: Duration, load: Option<HookLoad>) -> Self {
        let load = load.map(|load| format!("; {load}")).unwrap_or_default();
        let message = format!("no answer within {} ms{load}", budget.as_millis());
        Self { kind: FailureKind::TimedOut, message: FailureMessage::Own(message.into()) }
    }

    pub(crate) fn overloaded(message: String) -> Self {
        Self { kind: FailureKind::Overloaded, message: FailureMessage::Own(message.into()) }
    }

    pub(crate) fn malformed_batch() -> Self {
        let message = "it was asked together with others, and what was said is not about them";
        Self { kind: FailureKind::Malformed, message: FailureMessage::Own(message.into()) }
    }

    pub(crate) fn too_deep() -> Self {
        Self { kind: FailureKind::TooDeep, message: FailureMessage::Own(TOO_DEEP.into()) }
    }

    /// Creates a failure in the hook's own words, unless they quote the event they are about.
    pub(crate) fn of<E: Serialize>(error: &HookError, event: &E) -> Self {
        let kind = match error {
            HookError::Unreachable(_) => FailureKind::Unreachable,
            HookError::TimedOut(_) => FailureKind::TimedOut,
            HookError::Malformed(_) => FailureKind::Malformed,
            HookError::Overloaded(_) => FailureKind::Overloaded,
            HookError::Panicked => FailureKind::Panicked,
            _ => FailureKind::Failed,
        };
        let said = error.to_string();
        let mut message: String = said.chars().take(MAX_MESSAGE_CHARS).collect();
        let quotes = serde_json::to_value(event).is_ok_and(|event| quotes(&message, &event));
        if message.len() < said.len() {
            // A quote that the cut goes through is found only if enough of it stands before the cut.
            message = message.chars().take(MAX_MESSAGE_CHARS - 2 * OVERLAP_CHARS).chain(['…']).collect();
        }
        let message = match quotes {
            true => FailureMessage::Own("its message quotes what it judged, and is not kept".into()),
            false => FailureMessage::OfHook(message.into()),
        };
        Self { kind, message }
    }
}

/// Most characters of a failure's message that are looked at; of a longer one somewhat fewer are kept, and a mark.
const MAX_MESSAGE_CHARS: usize = 300;
/// From this length on, a text of the event that a message repeats counts as quoted.
const QUOTE_CHARS: usize = 6;
/// A run of characters this long that both have counts as quoted at the latest when it is twice as long.
const OVERLAP_CHARS: usize = 12;

/// Returns whether `message` repeats a text of `event`, or a longer piece of one.
fn quotes(message: &str, event: &Value) -> bool {
    match event {
        Value::String(text) => {
            (text.chars().count() >= QUOTE_CHARS && message.contains(text.trim())) || overlaps(message, text)
        }
        Value::Array(items) => items.iter().any(|item| quotes(message, item)),
        Value::Object(fields) => fields.values().any(|field| quotes(message, field)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn overlaps(message: &str, text: &str) -> bool {
    let chars: Vec<char> = message.chars().collect();
    chars.chunks_exact(OVERLAP_CHARS).any(|piece| text.contains(&*String::from_iter(piece)))
}

/// Returns whether a path stands in a text: a word with a slash, in either direction. An address on a network is none.
fn names_a_path(text: &str) -> bool {
    let words = text.split(|letter: char| letter.is_whitespace() || "`'\"()[]{}<>=,;".contains(letter));
    words.filter(|word| !word.contains("://")).any(|word| {
        let has_letter = word.chars().any(char::is_alphanumeric);
        has_letter && word.contains(['/', '\\'])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_a_place_on_this_machine_is_for_the_log() {
        let of = |kind, message: &str| Failure { kind, message: FailureMessage::OfHook(message.into()) };
        for message in [
            "`/opt/guards/check` could not be read",
            "it is in ~/guards",
            "can't open \"..\\guards\\a.py\"",
            "file=/etc/guards.toml",
            "C:\\guards\\a.exe is missing",
        ] {
            assert!(of(FailureKind::Failed, message).is_of_this_machine(), "{message}");
        }
        for message in
            ["the command ended with 3", "the webhook answered 500", "`http://localhost/a` / said no"]
        {
            assert!(!of(FailureKind::Failed, message).is_of_this_machine(), "{message}");
        }
        assert!(of(FailureKind::Unreachable, "`guard` could not be started").is_of_this_machine());
        assert!(!Failure::panicked().is_of_this_machine());
    }
}
