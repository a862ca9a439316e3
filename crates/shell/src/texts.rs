//! A cache of parsed texts.
//!
//! A command is walked once per possible way, a loop once per round, and everything once more for every shell that
//! reads it differently. The meaning of a text depends on the state at that time; its syntax tree depends on the text
//! alone. Each text of one analysis is therefore parsed once.

use std::collections::HashMap;
use std::rc::Rc;

use brush_parser::word::{BraceExpressionOrText, WordPieceWithSource};

use super::limits;
use super::parse::{self, Parsed, options};
use super::prescan::{MAX_BYTES, Refusal};
use super::respell::Names;
use super::statements;
use super::word::TAKEN;

/// Bytes of text that are kept; texts beyond are parsed each time.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// The parts of a word; `None` for one that can't be read.
pub(crate) type Pieces = Option<Rc<[WordPieceWithSource]>>;

/// The parts of a word with braces; `None` for one that has none.
pub(crate) type Braces = Option<Rc<[BraceExpressionOrText]>>;

/// A program, or why it is not given to the parser.
pub(crate) type Program = Rc<Result<Parsed, Refusal>>;

/// The texts of one analysis, parsed.
#[derive(Default)]
pub(crate) struct Texts {
    programs: HashMap<Box<str>, Program>,
    words: HashMap<Box<str>, Pieces>,
    heredocs: HashMap<Box<str>, Pieces>,
    braces: HashMap<Box<str>, Braces>,
    /// Long texts of here-documents, which are not parsed with what stands around them.
    documents: Vec<Rc<str>>,
    /// Descriptors with names that were met.
    pub(crate) names: Names,
    bytes: usize,
    /// Bytes of code that were given to the parser.
    parsed: usize,
    /// How many were in pieces, as which code is read that can't be parsed.
    recovered: usize,
}

impl Texts {
    /// Shell code; the long here-documents in it are kept beside.
    pub(crate) fn program(&mut self, text: &str) -> Program {
        // What can't be parsed for its length is not worth a copy to be known by.
        let is_long = text.len() > MAX_BYTES;
        if let Some(known) = self.programs.get(text).filter(|_| !is_long) {
            return Rc::clone(known);
        }
        let short = statements::without_documents(text, |document| self.keep_document(document));
        let short = short.map(|text| self.parse(&text));
        let short = short.filter(|program| matches!(&**program, Ok(parsed) if parsed.complete));
        let program = short.unwrap_or_else(|| self.parse(text));
        if is_long {
            return program;
        }
        kept(&mut self.programs, &mut self.bytes, text, |_| program)
    }

    fn parse(&mut self, text: &str) -> Program {
        if text.len() > MAX_BYTES || self.parsed + text.len() > limits::CODE.most {
            return Rc::new(Err(Refusal::TooLong));
        }
        self.parsed += text.len();
        Rc::new(parse::parse(text, &mut self.names))
    }

    /// Returns how many bytes of the statements of one text are parsed. Some are left for what these run.
    pub(crate) fn room(&self) -> usize {
        limits::CODE.most.saturating_sub(self.parsed) / 3 * 2
    }

    /// Shell code that is not given to the parser, in pieces.
    pub(crate) fn recover(&mut self, text: &str) -> Parsed {
        let mut room = limits::RECOVERED.saturating_sub(self.recovered);
        let before = room;
        let parsed = parse::recover(text, &mut room);
        self.recovered += before - room;
        parsed
    }

    /// A word.
    pub(crate) fn word(&mut self, word: &str) -> Pieces {
        let parse = |word: &str| brush_parser::word::parse(word, options()).ok().map(Rc::from);
        kept(&mut self.words, &mut self.bytes, word, parse)
    }

    /// Returns the braces of a word.
    pub(crate) fn braces(&mut self, word: &str) -> Braces {
        let parse = |word: &str| {
            brush_parser::word::parse_brace_expansions(word, options()).ok().flatten().map(Rc::from)
        };
        kept(&mut self.braces, &mut self.bytes, word, parse)
    }

    /// Returns the body of a here-document with an unquoted delimiter.
    pub(crate) fn heredoc(&mut self, body: &str) -> Pieces {
        let parse = |body: &str| brush_parser::word::parse_heredoc(body, options()).ok().map(Rc::from);
        kept(&mut self.heredocs, &mut self.bytes, body, parse)
    }
}

impl Texts {
    /// Keeps the text of a here-document; the answer stands for it in what is parsed.
    pub(crate) fn keep_document(&mut self, text: String) -> String {
        let known = self.documents.iter().position(|kept| **kept == *text);
        let at = known.unwrap_or_else(|| {
            self.documents.push(text.into());
            self.documents.len() - 1
        });
        format!("{TAKEN}{at}")
    }

    /// Returns the text of a here-document that was taken out.
    pub(crate) fn document(&self, written: &str) -> Option<Rc<str>> {
        let at: usize = written.strip_prefix(TAKEN)?.trim_end().parse().ok()?;
        self.documents.get(at).cloned()
    }
}

/// Returns what `text` is known to be, or what `parse` makes of it.
fn kept<T: Clone>(
    known: &mut HashMap<Box<str>, T>,
    bytes: &mut usize,
    text: &str,
    parse: impl FnOnce(&str) -> T,
) -> T {
    if let Some(parsed) = known.get(text) {
        return parsed.clone();
    }
    let parsed = parse(text);
    if *bytes + text.len() <= MOST_BYTES {
        *bytes += text.len();
        known.insert(text.into(), parsed.clone());
    }
    parsed
}
