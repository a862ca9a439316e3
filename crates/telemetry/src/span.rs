//! A span, before it is written.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use backstop_hooks::{Digest, SpanId, Trace, TraceId};

use crate::conventions::{Key, keys};

/// The longest id that is told as it is.
const LONGEST_ID: usize = 128;
/// The beginnings of ids of providers, and of those that Backstop makes.
const ID_MARKS: [&str; 12] = [
    "call_",
    "chatcmpl-",
    "conv-",
    "conv_",
    "fc_",
    "msg_",
    "resp_",
    "run-",
    "ses_",
    "session-",
    "toolu_",
    "tooluse_",
];
/// The longest rest of such an id.
const LONGEST_MARKED: usize = 64;
/// The most parts between its signs: a sentence has more.
const MOST_PARTS: usize = 8;

/// On which side of a call a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// On neither.
    Internal,
    /// It answers a request.
    Server,
    /// It asks somebody else.
    Client,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// A word or an id.
    Text(Cow<'static, str>),
    /// Several.
    Texts(Vec<Cow<'static, str>>),
    /// A number.
    Number(i64),
}

impl From<&'static str> for Attribute {
    fn from(word: &'static str) -> Self {
        Self::Text(word.into())
    }
}

impl From<String> for Attribute {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<Cow<'static, str>> for Attribute {
    fn from(text: Cow<'static, str>) -> Self {
        Self::Text(text)
    }
}

impl From<u16> for Attribute {
    fn from(number: u16) -> Self {
        Self::Number(number.into())
    }
}

impl From<u64> for Attribute {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// One part of a trace.
#[derive(Clone, Debug)]
pub struct Span {
    /// The trace.
    pub trace: TraceId,
    /// The span.
    pub id: SpanId,
    /// The span that it is below.
    pub parent: Option<SpanId>,
    /// Whether that is another process's.
    pub is_parent_remote: bool,
    /// Its name, of words that operators and programs chose.
    pub name: Cow<'static, str>,
    /// On which side of a call it is.
    pub kind: Kind,
    /// When it began.
    pub start: SystemTime,
    /// How long it took.
    pub elapsed: Duration,
    /// What is known of it.
    pub attributes: Vec<(Key, Attribute)>,
    /// Whether it failed.
    pub is_error: bool,
}

impl Span {
    /// Returns a span that took `elapsed` until now.
    pub fn ended(trace: Trace, name: impl Into<Cow<'static, str>>, elapsed: Duration) -> Self {
        let now = SystemTime::now();
        Self::began(trace, name, now.checked_sub(elapsed).unwrap_or(now), elapsed)
    }

    /// Returns a span that began at `start`.
    pub fn began(
        trace: Trace,
        name: impl Into<Cow<'static, str>>,
        start: SystemTime,
        elapsed: Duration,
    ) -> Self {
        Self {
            trace: trace.trace_id,
            id: trace.span_id,
            parent: trace.parent_span_id,
            is_parent_remote: false,
            name: name.into(),
            kind: Kind::Internal,
            start,
            elapsed,
            attributes: Vec::new(),
            is_error: false,
        }
    }

    /// Sets the side of a call on which it is.
    #[must_use]
    pub fn kind(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// Adds what is known.
    pub fn set(&mut self, key: Key, value: impl Into<Attribute>) {
        self.attributes.push((key, value.into()));
    }

    /// Adds it if it is known.
    pub fn set_if(&mut self, key: Key, value: Option<impl Into<Attribute>>) {
        if let Some(value) = value {
            self.set(key, value);
        }
    }

    /// Says that it failed, and how.
    pub fn fail(&mut self, class: impl Into<Attribute>) {
        self.is_error = true;
        self.set(keys::ERROR, class);
    }
}

/// Returns what is told of an id that a client or a model chose: the id if it is a UUID, or has one of the beginnings by which providers
/// mark theirs; otherwise its digest, since anything may stand in its place.
pub fn told_id(id: &str) -> String {
    let digits =
        |part: &str, count: usize| part.len() == count && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut parts = id.split('-');
    let is_uuid =
        [8, 4, 4, 4, 12].into_iter().all(|count| parts.next().is_some_and(|part| digits(part, count)));
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let marked = ID_MARKS.iter().find_map(|mark| id.strip_prefix(mark));
    let is_marked =
        marked.is_some_and(|rest| (1..=LONGEST_MARKED).contains(&rest.len()) && rest.bytes().all(is_sign));
    if is_uuid && parts.next().is_none() || is_marked {
        return id.to_owned();
    }
    Digest::of_text("span", id).to_string()
}

/// Returns what is told of a name that the operator configured: the name if it has the form of one, otherwise its digest.
pub fn told(id: &str) -> String {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
    let parts = id.split(|sign: char| !sign.is_ascii_alphanumeric()).count();
    if (1..=LONGEST_ID).contains(&id.len()) && parts <= MOST_PARTS && id.bytes().all(is_sign) {
        return id.to_owned();
    }
    Digest::of_text("span", id).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_id_that_anybody_may_choose_is_told_by_its_form_alone() {
        for id in ["call_0Zz9", "toolu_01A", "resp_1", "conv-0a1b", "01940f9c-1b1a-7f3e-8c6a-0f2b6d1c9e55"] {
            assert_eq!(told_id(id), id);
        }
        let token = format!("ghp{}", "_16C7e42F292c6912E7");
        for other in [
            token.as_str(),
            "",
            "call_",
            "call_a b",
            "mine",
            "0f2b6d1c9e55",
            "01940f9c-1b1a-7f3e-8c6a-0f2b6d1c9e55-1",
            &format!("call_{}", "x".repeat(65)),
        ] {
            assert!(told_id(other).starts_with("sha256:"), "{other}");
        }
    }

    #[test]
    fn an_id_is_told_and_prose_is_not() {
        for id in
            ["call_0Zz9", "toolu_01A.b", "mcp__GitHub__createIssue", "01940f9c-1b1a-7f3e-8c6a-0f2b6d1c9e55"]
        {
            assert_eq!(told(id), id);
        }
        for prose in ["", "my secret", "a-b-c-d-e-f-g-h-i", "a\nb", "\u{e9}", "key=value", &"x".repeat(129)] {
            assert_ne!(told(prose), prose);
        }
    }

    proptest! {
        #[test]
        fn what_is_told_is_short_and_holds_no_blank(id in "\\PC{0,300}") {
            let told = told(&id);
            prop_assert!(told.len() <= LONGEST_ID && !told.contains(char::is_whitespace));
        }
    }
}
