//! Answers of numbers: vectors, and counts of tokens.
//!
//! Vectors may have more bytes than anybody holds, and nobody reads a text in them, as long as there is none. So such an answer
//! is read piece by piece, and each piece leaves once it was read. *What passes is a closed form*: JSON with the fields of a list,
//! numbers, and two kinds of strings: a word (the name of a model) in a field that has one, which passes the redactors like
//! [any name](super::names), and a vector that is written in Base64, which is numbers when it is opened. Anything else ends the
//! answer.
//!
//! Limits: numbers are not read; who wants to can write a text in them, which nobody takes for one.

mod vector;

use backstop_engine::Blocked;
use backstop_llm::WireError;
use backstop_llm::live::Word;

use self::vector::Vector;
use super::judge::JudgeError;
use super::names::Names;
use crate::readable::Shape;

/// Deeper is no list of vectors.
const MOST_DEPTH: usize = 8;
/// Longer words are no names.
const LONGEST_WORD: usize = 256;
/// Longer numbers are none.
const LONGEST_NUMBER: usize = 40;

/// Why an answer can't go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    /// It has another form.
    #[error("an answer of numbers has something else in it, {0}")]
    Form(&'static str),
    /// A redactor objects to a word in it.
    #[error("a name in it may not be shown")]
    Name,
}

impl From<Fault> for JudgeError {
    fn from(fault: Fault) -> Self {
        Self::Wire(WireError::OutOfOrder { problem: fault.to_string() })
    }
}

/// An answer of numbers on its way.
#[derive(Debug)]
pub(super) struct Numbers {
    shape: &'static Shape,
    names: Names,
    /// The values inside of which it stands; whether each is an object.
    open: Vec<bool>,
    state: State,
    /// The field whose value comes.
    field: &'static str,
    words: Vec<Word>,
}

/// What comes next.
#[derive(Debug)]
enum State {
    Value,
    /// A value, or the end of the list.
    Item,
    /// A name, or the end of the object.
    Member,
    Name,
    Colon,
    /// A comma, or the end of what is open.
    Next,
    InName(String),
    InWord(String),
    InVector(Vector),
    InNumber(usize),
    /// The rest of `true`, `false` or `null`.
    InLiteral(&'static [u8]),
    Over,
}

impl Numbers {
    /// One of this shape.
    pub(super) fn new(shape: &'static Shape, names: Names) -> Self {
        Self { shape, names, open: Vec::new(), state: State::Value, field: "", words: Vec::new() }
    }

    /// Whether these bytes, which come next, may leave.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        bytes.iter().try_for_each(|byte| self.read(*byte))?;
        if self.names.pass(&std::mem::take(&mut self.words)) { Ok(()) } else { Err(Fault::Name) }
    }

    /// Whether the answer is whole.
    pub(super) fn finish(&self) -> Result<(), Fault> {
        if matches!(self.state, State::Over) { Ok(()) } else { Err(Fault::Form("and ends before its end")) }
    }

    /// Why a word can't be shown. That is in the trail by then.
    pub(super) async fn blocked(&mut self) -> Option<Blocked> {
        self.names.blocked().await
    }

    fn read(&mut self, byte: u8) -> Result<(), Fault> {
        match &mut self.state {
            State::InName(name) => match byte {
                b'"' => {
                    let known = self.shape.fields.iter().find(|field| *field == name);
                    self.field = known.copied().ok_or(Fault::Form("a field that is not known"))?;
                    self.state = State::Colon;
                }
                _ => letter(name, byte)?,
            },
            State::InWord(word) => match byte {
                b'"' => {
                    self.words.push(Word { text: std::mem::take(word), is_sealed: false });
                    self.state = State::Next;
                }
                _ => letter(word, byte)?,
            },
            State::InVector(vector) => match byte {
                b'"' if vector.is_whole() => self.state = State::Next,
                byte if vector.read(byte) => {}
                _ => {
                    return Err(Fault::Form(
                        "Base64 that is no vector of numbers; ask for `encoding_format: float`",
                    ));
                }
            },
            State::InLiteral(rest) => match rest.split_first() {
                Some((first, [])) if *first == byte => self.state = State::Next,
                Some((first, rest)) if *first == byte => self.state = State::InLiteral(rest),
                _ => return Err(Fault::Form("a word that is none of JSON")),
            },
            State::InNumber(digits)
                if byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E') =>
            {
                *digits += 1;
                if *digits > LONGEST_NUMBER {
                    return Err(Fault::Form("a number that is too long"));
                }
            }
            State::InNumber(_) => {
                self.state = State::Next;
                return self.read(byte);
            }
            _ if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') => {}
            State::Value
            | State::Item
            | State::Member
            | State::Name
            | State::Colon
            | State::Next
            | State::Over => {
                self.between(byte)?;
            }
        }
        Ok(())
    }

    /// Reads what stands between the inside of values.
    fn between(&mut self, byte: u8) -> Result<(), Fault> {
        // The value of a field, and no item of a list.
        let is_of_field = self.open.last() == Some(&true);
        self.state = match (&self.state, byte) {
            (State::Value | State::Item, b'{') => self.opened(true)?,
            (State::Value | State::Item, b'[') if !self.open.is_empty() => self.opened(false)?,
            (State::Item, b']') | (State::Member, b'}') => self.closed(byte)?,
            (State::Next, b']' | b'}') => self.closed(byte)?,
            (State::Value | State::Item, b'"') if is_of_field && self.shape.vectors.contains(&self.field) => {
                State::InVector(Vector::default())
            }
            (State::Value | State::Item, b'"') if is_of_field && self.shape.words.contains(&self.field) => {
                State::InWord(String::new())
            }
            (State::Value | State::Item, b'"') => return Err(Fault::Form("a text")),
            (State::Value | State::Item, b'-' | b'0'..=b'9') if !self.open.is_empty() => State::InNumber(1),
            (State::Value | State::Item, b't') if !self.open.is_empty() => State::InLiteral(b"rue"),
            (State::Value | State::Item, b'f') if !self.open.is_empty() => State::InLiteral(b"alse"),
            (State::Value | State::Item, b'n') if !self.open.is_empty() => State::InLiteral(b"ull"),
            (State::Member | State::Name, b'"') => State::InName(String::new()),
            (State::Colon, b':') => State::Value,
            (State::Next, b',') => match self.open.last() {
                Some(true) => State::Name,
                Some(false) => State::Value,
                None => return Err(Fault::Form("something behind its end")),
            },
            _ => return Err(Fault::Form("what is no JSON")),
        };
        Ok(())
    }

    fn opened(&mut self, is_object: bool) -> Result<State, Fault> {
        if self.open.len() >= MOST_DEPTH {
            return Err(Fault::Form("lists too deep in each other"));
        }
        self.open.push(is_object);
        Ok(if is_object { State::Member } else { State::Item })
    }

    fn closed(&mut self, byte: u8) -> Result<State, Fault> {
        if self.open.pop() != Some(byte == b'}') {
            return Err(Fault::Form("what is no JSON"));
        }
        Ok(if self.open.is_empty() { State::Over } else { State::Next })
    }
}

/// Adds a letter to a word without blanks. One that is escaped is none.
fn letter(word: &mut String, byte: u8) -> Result<(), Fault> {
    if !byte.is_ascii_graphic() || byte == b'\\' {
        return Err(Fault::Form("a text in the place of a name"));
    }
    if word.len() >= LONGEST_WORD {
        return Err(Fault::Form("a name that is too long"));
    }
    word.push(char::from(byte));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use backstop_engine::{
        Engine, HookOptions, RedactionStream, ResponseGate, Settled, SpanEdit, SpanKind, SpanRedactor,
    };
    use backstop_hooks::{CallContext, OwnerId};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::readable::{COUNTS, VECTORS};

    /// Objects to a word.
    #[derive(Debug)]
    struct Objects;

    #[derive(Debug)]
    struct Reading(usize);

    impl SpanRedactor for Objects {
        fn open(&self, _: &CallContext) -> Box<dyn RedactionStream> {
            Box::new(Reading(0))
        }
    }

    impl RedactionStream for Reading {
        fn push(&mut self, text: &str) -> Settled {
            let kind = SpanKind { class: "test", kind: "word" };
            let edit = SpanEdit { start: 0, end: text.len(), replacement: "".into(), kind };
            let edits = (text == "zq").then_some(edit).into_iter().collect();
            self.0 += text.len();
            Settled { up_to: self.0, edits, ..Settled::default() }
        }

        fn finish(&mut self) -> Settled {
            Settled { up_to: self.0, ..Settled::default() }
        }
    }

    fn numbers(shape: &'static Shape) -> Numbers {
        let engine = Engine::builder().build();
        engine.registry().on_spans(Arc::new(Objects), HookOptions::new(OwnerId::operator()).id("o")).unwrap();
        assert_eq!(engine.response_gate(), ResponseGate::Spans);
        Numbers::new(shape, Names::of(&engine, &CallContext::default()))
    }

    fn pass(shape: &'static Shape, body: &str, at_once: usize) -> Result<(), Fault> {
        let mut numbers = numbers(shape);
        body.as_bytes().chunks(at_once).try_for_each(|piece| numbers.push(piece))?;
        numbers.finish()
    }

    fn both(shape: &'static Shape, body: &str) -> bool {
        let passes = pass(shape, body, body.len().max(1)).is_ok();
        assert_eq!(passes, pass(shape, body, 1).is_ok(), "{body}");
        passes
    }

    fn base64(numbers: &[f32]) -> String {
        use base64::Engine as _;
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        base64::engine::general_purpose::STANDARD.encode(bytes)
    }

    fn vectors() -> Vec<Value> {
        vec![
            json!({"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5, -1e-3, 0, 1]}, {"object": "embedding", "index": 1, "embedding": []}],
                "model": "text-embedding-3-small", "usage": {"prompt_tokens": 1, "total_tokens": 1}}),
            json!({"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": base64(&[0.01, -0.25, 0.0, 1.0])}], "model": "m/n:o", "usage": null}),
            json!({"embedding": {"values": [0.1, 0.2]}}),
            json!({"embeddings": [{"values": [0.1]}, {"values": []}], "usageMetadata": {"promptTokenCount": 1, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 1}]}}),
        ]
    }

    #[test]
    fn vectors_and_counts_pass() {
        for body in vectors() {
            assert!(both(&VECTORS, &body.to_string()), "{body}");
            assert!(both(&VECTORS, &serde_json::to_string_pretty(&body).unwrap()), "{body}");
        }
        for body in [
            json!({"input_tokens": 2095}),
            json!({"input_tokens": 1, "context_management": {"original_input_tokens": 2}}),
            json!({"object": "response.input_tokens", "input_tokens": 11}),
            json!({"totalTokens": 3, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 3}]}),
            json!({"inputTokens": 3}),
        ] {
            assert!(both(&COUNTS, &body.to_string()), "{body}");
        }
    }

    #[test]
    fn what_has_a_text_or_is_no_list_ends() {
        for body in [
            r#"{"data":[{"embedding":["a"]}]}"#,
            r#"{"data":["a"]}"#,
            r#"{"data":[{"embedding":"these are words"}]}"#,
            r#"{"data":[{"embedding":"AAA"}]}"#,
            r#"{"data":[{"embedding":"YWJjZGVmZ2hpamtsbW5vcA=="}]}"#,
            r#"{"model":"two words"}"#,
            r#"{"model":"zq"}"#,
            r#"{"model":"a\u0062"}"#,
            r#"{"future":1}"#,
            r#"{"note":"a"}"#,
            r#"{"index":"a"}"#,
            r#"{"index":nil}"#,
            r#"{"index":1]"#,
            r#"{"index":1} {"index":1}"#,
            r#"{"index":1}x"#,
            r#"{"index" 1}"#,
            r#"{"index":1"#,
            r#"[{"index":1}]"#,
            r#""model""#,
            "1",
            "",
            r#"{"embedding":{"values":[[[[[[[[[1]]]]]]]]]}}"#,
        ] {
            assert!(!both(&VECTORS, body), "{body}");
        }
        let long = format!("{{\"index\":{}}}", "1".repeat(LONGEST_NUMBER + 1));
        assert!(!both(&VECTORS, &long));
        assert!(!both(&VECTORS, &format!("{{\"model\":\"{}\"}}", "m".repeat(LONGEST_WORD + 1))));
    }

    proptest! {
        #[test]
        fn vectors_in_base64_pass_and_words_do_not(numbers in proptest::collection::vec(-1.0_f32..1.0, 0..40), words in "[a-zA-Z]{16,60}") {
            let body = |text: &str| json!({"data": [{"embedding": text}]}).to_string();
            prop_assert!(both(&VECTORS, &body(&base64(&numbers))));
            prop_assert!(!both(&VECTORS, &body(&base64_of(&words))));
        }

        /// Another text than the word of a model anywhere in an answer ends it, and so does another name.
        #[test]
        fn no_text_passes(text in "[ -~]{0,12}", at in 0_usize..4) {
            let body = vectors().swap_remove(at).to_string();
            for (place, _) in body.match_indices(['{', '[']) {
                let inside = if body.as_bytes()[place] == b'{' { format!("\"{text}x\":1,") } else { format!("\"{text}\",") };
                let mut body = body.clone();
                body.insert_str(place + 1, &inside);
                prop_assert!(!both(&VECTORS, &body), "{}", body);
            }
        }
    }

    fn base64_of(text: &str) -> String {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(text)
    }
}
