//! From text to a tree that knows where each of its nodes was written.
//!
//! Only the part of YAML that configurations and catalogues need is read: one document of mappings, sequences and scalars. Anchors,
//! aliases, tags, merge keys, complex keys and further documents are refused, which also removes the ways in which a
//! small YAML file becomes a large value. Duplicate keys are refused because the author and the reader would not agree
//! on which one counts. JSON is read by the same code.
//!
//! Limits: [`MAX_BYTES`] of text, [`MAX_NODES`] values, [`MAX_DEPTH`] levels of nesting.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use crate::place::Place;
use crate::problem::{Problem, ProblemKind, quote};

/// The largest file that is read, in bytes.
pub const MAX_BYTES: usize = 1024 * 1024;
/// The deepest nesting of mappings and sequences.
pub const MAX_DEPTH: usize = 64;
/// The most values in one file.
pub const MAX_NODES: usize = 20_000;

/// The longest text that an error message repeats, in bytes.
const REPEATED_TEXT: usize = 24;

/// A value with its place.
#[derive(Debug, Clone)]
pub struct Node {
    /// Where it starts.
    pub at: Place,
    /// What it is.
    pub kind: Kind,
}

/// What a node is, by the YAML 1.2 core schema.
#[derive(Debug, Clone)]
pub enum Kind {
    /// Nothing, `~` or `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Number(f64),
    /// A text, in quotes or plain.
    Text(String),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in the order of the file. No key is there twice.
    Map(Vec<Entry>),
}

/// One key of a mapping.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key is written.
    pub key_at: Place,
    /// What it stands for.
    pub value: Node,
}

impl Node {
    /// The value for error messages. Long texts are not repeated: they may be secrets in the wrong place.
    #[must_use]
    pub fn describe(&self) -> Cow<'static, str> {
        match &self.kind {
            Kind::Bool(value) => format!("`{value}`").into(),
            Kind::Integer(value) => format!("`{value}`").into(),
            Kind::Number(value) => format!("`{value}`").into(),
            Kind::Text(text) if !text.is_empty() && text.len() <= REPEATED_TEXT => {
                format!("the text `{}`", quote(text)).into()
            }
            _ => self.shape().into(),
        }
    }

    /// The kind of value for error messages, without the value.
    #[must_use]
    pub fn shape(&self) -> &'static str {
        match &self.kind {
            Kind::Null => "nothing",
            Kind::Bool(_) => "a truth value",
            Kind::Integer(_) | Kind::Number(_) => "a number",
            Kind::Text(text) if text.is_empty() => "an empty text",
            Kind::Text(_) => "a text",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a mapping",
        }
    }
}

/// Reads one document; `None` if there is nothing in it. A byte order mark in front is passed over.
///
/// # Errors
///
/// The first place where the text is no YAML, or uses a part of YAML that is not read.
pub fn parse(file: &Arc<str>, text: &str) -> Result<Option<Node>, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > MAX_BYTES {
        let message = format!("the file is larger than {MAX_BYTES} bytes");
        return Err(Problem::new(ProblemKind::Unreadable, Place::file_only(Arc::clone(file)), message));
    }
    let mut builder = Builder { parser: Parser::new_from_str(text), file, nodes: 0 };
    builder.document()
}

type Scalar<'a> = (Cow<'a, str>, ScalarStyle);

struct Builder<'a> {
    parser: Parser<'a, StrInput<'a>>,
    file: &'a Arc<str>,
    nodes: usize,
}

impl<'a> Builder<'a> {
    fn document(&mut self) -> Result<Option<Node>, Problem> {
        loop {
            match self.next()? {
                (Event::StreamStart | Event::DocumentStart(_), _) => {}
                (Event::StreamEnd, _) => return Ok(None),
                (event, span) => {
                    let root = self.node(event, span, 0)?;
                    self.end()?;
                    return Ok((!matches!(root.kind, Kind::Null)).then_some(root));
                }
            }
        }
    }

    fn end(&mut self) -> Result<(), Problem> {
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(()),
                (Event::DocumentStart(_), span) => {
                    let message = "a file holds one YAML document, this is a second one";
                    return Err(self.refuse(span.start, message));
                }
                _ => {}
            }
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, Problem> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(self.refuse(span.start, &format!("the file holds more than {MAX_NODES} values")));
        }
        let at = self.place(span.start);
        let kind = match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.plain_node(span, anchor, tag.as_deref())?;
                scalar((text, style))
            }
            Event::SequenceStart(anchor, tag) => {
                self.plain_node(span, anchor, tag.as_deref())?;
                self.list(span, depth + 1)?
            }
            Event::MappingStart(anchor, tag) => {
                self.plain_node(span, anchor, tag.as_deref())?;
                self.map(span, depth + 1)?
            }
            Event::Alias(_) => {
                return Err(self.refuse(span.start, "YAML aliases (`*name`) are not supported"));
            }
            _ => return Err(self.refuse(span.start, "a value was expected here")),
        };
        Ok(Node { at, kind })
    }

    fn list(&mut self, start: Span, depth: usize) -> Result<Kind, Problem> {
        self.depth(start, depth)?;
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Kind::List(items)),
                (event, span) => items.push(self.node(event, span, depth)?),
            }
        }
    }

    fn map(&mut self, start: Span, depth: usize) -> Result<Kind, Problem> {
        self.depth(start, depth)?;
        let mut entries = Vec::new();
        let mut seen = HashSet::new();
        loop {
            let (event, span) = self.next()?;
            let key = match event {
                Event::MappingEnd => return Ok(Kind::Map(entries)),
                Event::Scalar(text, _, anchor, tag) => {
                    self.plain_node(span, anchor, tag.as_deref())?;
                    text.into_owned()
                }
                _ => return Err(self.refuse(span.start, "a key must be a plain text")),
            };
            if key == "<<" {
                return Err(self.refuse(span.start, "YAML merge keys (`<<`) are not supported"));
            }
            if !seen.insert(key.clone()) {
                return Err(self.refuse(span.start, &format!("the key `{}` is written twice", quote(&key))));
            }
            let (event, value_span) = self.next()?;
            let value = self.node(event, value_span, depth)?;
            entries.push(Entry { key, key_at: self.place(span.start), value });
        }
    }

    fn plain_node(&self, span: Span, anchor: usize, tag: Option<&Tag>) -> Result<(), Problem> {
        if anchor != 0 {
            return Err(self.refuse(span.start, "YAML anchors (`&name`) are not supported"));
        }
        match tag {
            Some(_) => Err(self.refuse(span.start, "YAML tags (`!name`) are not supported")),
            None => Ok(()),
        }
    }

    fn depth(&self, span: Span, depth: usize) -> Result<(), Problem> {
        if depth > MAX_DEPTH {
            return Err(self.refuse(span.start, &format!("nested deeper than {MAX_DEPTH} levels")));
        }
        Ok(())
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), Problem> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(self.syntax(&error)),
            None => {
                let end = Place::file_only(Arc::clone(self.file));
                Err(Problem::new(ProblemKind::Syntax, end, "not valid YAML: the text ends too early"))
            }
        }
    }

    fn syntax(&self, error: &ScanError) -> Problem {
        let message = format!("not valid YAML: {}", quote(error.info()));
        Problem::new(ProblemKind::Syntax, self.place(*error.marker()), message)
    }

    fn refuse(&self, at: Marker, message: &str) -> Problem {
        Problem::new(ProblemKind::Syntax, self.place(at), message)
    }

    fn place(&self, at: Marker) -> Place {
        Place::new(Arc::clone(self.file), at.line(), at.col() + 1)
    }
}

/// Resolves a plain scalar by the YAML 1.2 core schema; everything quoted is text.
fn scalar((text, style): Scalar<'_>) -> Kind {
    if style != ScalarStyle::Plain {
        return Kind::Text(text.into_owned());
    }
    match text.as_ref() {
        "" | "~" | "null" | "Null" | "NULL" => Kind::Null,
        "true" | "True" | "TRUE" => Kind::Bool(true),
        "false" | "False" | "FALSE" => Kind::Bool(false),
        plain => number(plain).unwrap_or_else(|| Kind::Text(plain.to_owned())),
    }
}

fn number(text: &str) -> Option<Kind> {
    let radix = |digits: &str, radix| i64::from_str_radix(digits, radix).ok().map(Kind::Integer);
    if let Some(digits) = text.strip_prefix("0x") {
        return digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| radix(digits, 16)).flatten();
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return digits.bytes().all(|b| matches!(b, b'0'..=b'7')).then(|| radix(digits, 8)).flatten();
    }
    let numeric = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'));
    if !numeric || !text.bytes().any(|b| b.is_ascii_digit()) {
        return None;
    }
    if let Ok(value) = text.parse::<i64>() {
        return Some(Kind::Integer(value));
    }
    text.parse::<f64>().ok().filter(|value| value.is_finite()).map(Kind::Number)
}
