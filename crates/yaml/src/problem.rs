//! What is wrong with a file, said so that its author can repair it.
//!
//! Text from the file is quoted with control characters escaped and cut to a bounded length:
//! a file from a foreign repository must not be able to drive the terminal that shows the error.

use std::fmt;

use crate::place::Place;

/// What kind of mistake a [`Problem`] is; stable words for machine-readable output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProblemKind {
    /// The file cannot be found or read, or is too large.
    Unreadable,
    /// The text is not YAML, or uses a part of YAML that configuration files do not need.
    Syntax,
    /// A key that no section knows.
    UnknownKey,
    /// A key that must be there is not.
    MissingKey,
    /// A value of the wrong type, outside its range, or not one of the possible words.
    BadValue,
    /// A name (hook type, hook point, tool, hook id, provider) that nothing answers to.
    UnknownName,
    /// `${VAR}` names a variable that is not set, or stands where the environment may not be read.
    Environment,
    /// Two parts of the configuration contradict each other.
    Conflict,
}

impl ProblemKind {
    /// The kind as a word for JSON output, such as `unknown_key`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Syntax => "syntax",
            Self::UnknownKey => "unknown_key",
            Self::MissingKey => "missing_key",
            Self::BadValue => "bad_value",
            Self::UnknownName => "unknown_name",
            Self::Environment => "environment",
            Self::Conflict => "conflict",
        }
    }
}

/// One mistake: what, where, and what to do about it.
///
/// Other crates build these for what only they can check, such as the options of a hook type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    kind: ProblemKind,
    message: String,
    at: Place,
    hint: Option<String>,
}

impl Problem {
    /// A problem at a place. The message starts in lower case and quotes what the user wrote in backticks.
    #[must_use]
    pub fn new(kind: ProblemKind, at: Place, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), at, hint: None }
    }

    /// Adds the next step for the author.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The kind of mistake.
    #[must_use]
    pub const fn kind(&self) -> ProblemKind {
        self.kind
    }

    /// The sentence, without place and hint.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Where it is.
    #[must_use]
    pub const fn at(&self) -> &Place {
        &self.at
    }

    /// The next step, where one is known.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}\n  --> {}", self.message, self.at)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// The longest piece of a file that an error repeats, in characters.
const QUOTE_LIMIT: usize = 80;

/// Text from a file for use inside backticks: what cannot be seen is escaped, length bounded.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut quoted = escape(text.chars().take(QUOTE_LIMIT));
    if text.chars().nth(QUOTE_LIMIT).is_some() {
        quoted.push('…');
    }
    quoted
}

/// Text with what cannot be seen written as escapes.
#[must_use]
pub fn escape(text: impl Iterator<Item = char>) -> String {
    let mut escaped = String::new();
    for c in text {
        if is_invisible(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Characters that drive a terminal, change the direction of text or leave no mark.
#[must_use]
pub fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// `a`, `b`, `c` in backticks.
#[must_use]
pub fn quoted_list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// How unlike a known name may be to be offered, as a share of its length.
const SUGGESTION_SHARE: usize = 3;
/// Longer words are never typing mistakes of known names; comparing them would only cost time.
const SUGGESTION_LIMIT: usize = 64;

/// The known name that was probably meant. Case, `_` and `-` do not count as differences.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > SUGGESTION_LIMIT {
        return None;
    }
    let plain =
        |name: &str| name.chars().filter(|c| !matches!(c, '_' | '-')).collect::<String>().to_lowercase();
    let wanted = plain(word);
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&wanted, &plain(name)), name))
        .filter(|(distance, name)| *distance <= (name.len() / SUGGESTION_SHARE).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// The hint for an unknown word: the nearest known one, or all of them.
#[must_use]
pub fn suggestion(word: &str, known: &[&str], what: &str) -> String {
    match nearest(word, known.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None if known.is_empty() => format!("there are no {what} to choose from"),
        None => format!("known {what}: {}", quoted_list(known.iter().copied())),
    }
}
