//! `backstop scan`: finds secrets, personal data and hidden text, and takes them out.
//!
//! It needs neither configuration nor hooks nor database: what it finds depends on the text alone. Findings
//! are places; the values themselves are never printed, so that the output may be kept. With `--redact` the
//! text is printed, and what was found is not in it.

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::sync::Arc;

use backstop::guards::scan::{Action, Class, Policy, Redactor, Scanner, Span};
use serde::{Deserialize, Serialize};

use super::lines::{Conversation, NotAnswered};
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Style, table};
use crate::session::Surroundings;

/// The longest text that is read at once. Scanning itself needs little more than the text.
const MAX_TEXT_BYTES: usize = 64 * 1024 * 1024;

/// How a line is written, for whoever wrote another one.
const FORM: &str = "{\"text\": ...}";

/// How the texts come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// All of stdin is one text.
    Text,
    /// Each line of stdin holds one.
    Lines,
}

/// What is looked for, and what becomes of it.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) form: Form,
    /// Print the clean text instead of the places.
    pub(crate) redact: bool,
    pub(crate) classes: Vec<Class>,
    /// From 0 to 1. Without it, everything is shown, and what is more than a shape is taken out.
    pub(crate) min_confidence: Option<f32>,
}

/// A line of input. Anything else in it is a mistake: a line that was half understood is not called clean.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    text: String,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Found { spans: Vec<Found> },
    Clean { text: String },
}

#[derive(Serialize)]
struct Found {
    class: Class,
    kind: &'static str,
    start: usize,
    end: usize,
    confidence: f32,
}

impl From<Span> for Found {
    fn from(Span { class, kind, start, end, confidence, .. }: Span) -> Self {
        Self { class, kind, start, end, confidence }
    }
}

/// What answers for a text.
enum Judge {
    Finder { scanner: Scanner, least: f32 },
    Cleaner(Redactor),
}

impl Judge {
    fn new(settings: &Settings) -> Self {
        let scanner = Scanner::for_classes(&settings.classes);
        if !settings.redact {
            return Self::Finder { scanner, least: settings.min_confidence.unwrap_or(0.0) };
        }
        let policy = Policy::new(Action::Redact)
            .class(Class::Hidden, Action::Remove)
            .confidence(settings.min_confidence.unwrap_or(Policy::DEFAULT_CONFIDENCE));
        Self::Cleaner(Redactor::new(Arc::new(scanner), policy))
    }

    fn answer(&self, text: &str) -> Answer {
        match self {
            Self::Finder { scanner, least } => {
                let spans = scanner.detect(text).into_iter().filter(|span| span.confidence >= *least);
                Answer::Found { spans: spans.map(Found::from).collect() }
            }
            Self::Cleaner(redactor) => Answer::Clean { text: redactor.apply(text).text },
        }
    }
}

pub(super) fn run(settings: &Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    let judge = Judge::new(settings);
    match settings.form {
        Form::Lines => lines(&judge),
        Form::Text => whole(&judge, surroundings),
    }
}

fn lines(judge: &Judge) -> Result<Exit, Error> {
    let mut lines = Conversation::new();
    let mut exit = Exit::Success;
    while let Some(question) = lines.next::<Line>(FORM)? {
        match question {
            Ok(Line { text }) => lines.answer(&judge.answer(&text))?,
            Err(error) => {
                exit = Exit::Incomplete;
                let line = lines.number();
                lines.answer(&NotAnswered { error, line })?;
            }
        }
    }
    Ok(exit)
}

fn whole(judge: &Judge, surroundings: &Surroundings) -> Result<Exit, Error> {
    let output = &surroundings.output;
    let mut bytes = Vec::new();
    io::stdin().lock().take(MAX_TEXT_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_TEXT_BYTES {
        return Err(Error::Usage(format!(
            "the text is longer than {MAX_TEXT_BYTES} bytes\nhint: give it in parts, as lines with `--jsonl`"
        )));
    }
    let (text, replaced) = readable(bytes);
    if replaced > 0 {
        output.say(&format!("note: {replaced} bytes are not UTF-8, and are read as `?`"));
    }
    let people = !output.is_json() && io::stdout().is_terminal();
    match judge.answer(&text) {
        // Byte for byte: a line end that was not there is not the text.
        Answer::Clean { text } if !output.is_json() => {
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes())?;
            out.flush()?;
        }
        Answer::Found { spans } if people => output.text(&shown(&text, &spans, surroundings))?,
        answer => output.json_line(&answer)?,
    }
    Ok(Exit::Success)
}

/// The bytes as text, and how many of them are none. Each of those becomes one `?`, so that places stay
/// what they were; a text with a broken byte in it is scanned like any other.
fn readable(bytes: Vec<u8>) -> (String, usize) {
    let bytes = match String::from_utf8(bytes) {
        Ok(text) => return (text, 0),
        Err(error) => error.into_bytes(),
    };
    let (mut text, mut replaced) = (String::with_capacity(bytes.len()), 0);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '?'));
        replaced += chunk.invalid().len();
    }
    (text, replaced)
}

/// The findings for people, with line and column, both counted from 1 and columns in characters.
fn shown(text: &str, spans: &[Found], surroundings: &Surroundings) -> String {
    if spans.is_empty() {
        return surroundings.output.paint().with(Style::Good, "nothing found");
    }
    let heading = ["line", "column", "class", "kind", "bytes", "confidence"].map(str::to_owned);
    let mut rows = vec![heading.to_vec()];
    let (mut line, mut begin, mut seen) = (1, 0, 0);
    for span in spans {
        let passed = text.get(seen..span.start).unwrap_or_default();
        line += passed.matches('\n').count();
        begin = passed.rfind('\n').map_or(begin, |at| seen + at + 1);
        seen = span.start;
        let column = text.get(begin..span.start).unwrap_or_default().chars().count() + 1;
        let class = match span.class {
            Class::Secret => "secret",
            Class::Pii => "pii",
            _ => "hidden",
        };
        rows.push(vec![
            line.to_string(),
            column.to_string(),
            class.to_owned(),
            span.kind.to_owned(),
            format!("{}..{}", span.start, span.end),
            format!("{:.2}", span.confidence),
        ]);
    }
    table(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_is_no_text_keeps_its_place() {
        assert_eq!(readable(b"a\xff\xe2\x82b".to_vec()), ("a???b".to_owned(), 3));
        assert_eq!(readable("aµ".into()), ("aµ".to_owned(), 0));
    }
}
