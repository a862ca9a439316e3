//! Documents: bodies that are no conversation, and the texts in them.
//!
//! What an embedding, a moderation or a picture is asked with has no messages, and what is read of a stored
//! conversation is a list of whatever was said. All that can be said of such bodies is which of their strings are no text:
//! a [`TextTable`] lists these, and every other string is one, the names of unknown fields among them. They are
//! read in their order, judged one by one, and spliced where they were changed; everything else stays as it was written.
//!
//! - *Closed.* Below a field that no table knows everything is text, whatever it is called.
//! - *Words are shown, too.* What a table lists as a name, or as what nobody can read, may say something all the same:
//!   [`LiveDocument::words`] has it, but for words of a list. A seal is Base64; prose in its place is a text that has to stay.
//! - *Without a table* ([`LiveDocument::listed`]) each name and each string is a word, or a text if it is more than that.
//! - *Tokens are refused.* A text that came as the numbers of its tokens can't be read ([`LiveDocument::has_tokens`]).

use std::borrow::Cow;
use std::ops::Range;

use backstop_hooks::Text;
use bytes::Bytes;
use serde_json::Value;

use super::findings::Word;
use super::span::{Splices, literal_end, quote};
use super::steps::step;
use super::words::is_base64;
use crate::error::WireError;
use crate::wire::{is_setting, is_setting_name, not_json, parse_request};

/// More texts than any provider takes at once.
const MOST_TEXTS: usize = 8_192;
/// Longer strings are no names, wherever they stand.
const LONGEST_WORD: usize = 256;
/// Longer types of content are none.
const LONGEST_KIND: usize = 64;
/// Names with so many digits at most are numbers of something (of tokens, for example).
const LONGEST_NUMBER: usize = 8;

/// Where the texts of a kind of document stand.
#[derive(Clone, Copy, Debug)]
pub struct TextTable {
    /// Fields with texts, and those that hold such fields.
    pub texts: &'static [&'static str],
    /// Fields with names: models, types, ids, choices. A value that has a blank in it, or is long, is a text all the same.
    pub names: &'static [&'static str],
    /// Fields with what nobody can read: pictures, signatures, encrypted contents, vectors.
    pub opaque: &'static [&'static str],
    /// Fields whose inside is its author's: every name and every string in it is a text.
    pub own: &'static [&'static str],
    /// Fields with texts that nothing is taken out of: another value would be another call.
    pub fixed: &'static [&'static str],
}

impl TextTable {
    /// Returns whether the table lists a field of this name.
    pub fn lists(&self, name: &str) -> bool {
        [self.texts, self.names, self.opaque, self.own, self.fixed].iter().any(|names| names.contains(&name))
    }
}

/// A document on its way.
#[derive(Debug)]
pub struct LiveDocument {
    body: Bytes,
    value: Value,
    found: Found,
}

/// A string that is a text.
#[derive(Debug)]
struct Literal {
    /// Where it stands, quotes included.
    span: Range<usize>,
    says: String,
    is_fixed: bool,
}

/// What stands where.
#[derive(Debug, Default)]
struct Found {
    texts: Vec<Literal>,
    words: Vec<Word>,
    has_tokens: bool,
}

impl LiveDocument {
    /// Reads a body by a table.
    ///
    /// # Errors
    /// If the body is no JSON object, has a key twice, or has more texts or values than can be judged.
    pub fn read(table: &TextTable, body: Bytes) -> Result<Self, WireError> {
        let document = Self::walked(table, Ground::Known, body)?;
        if document.value.is_object() { Ok(document) } else { Err(malformed("is no object")) }
    }

    /// Reads a body of which no table says where its texts are, such as a state or a list of models: every string in it, and every
    /// name of a field, is a word, or a text if it is more than that.
    ///
    /// # Errors
    /// If the body is no JSON, has a key twice, or has more texts or values than can be judged.
    pub fn listed(body: Bytes) -> Result<Self, WireError> {
        Self::walked(&NO_TABLE, Ground::Listed, body)
    }

    fn walked(table: &TextTable, ground: Ground, body: Bytes) -> Result<Self, WireError> {
        let value = parse_request(&body).map_err(|error| not_json("the document", &error))?;
        let text = str::from_utf8(&body).map_err(|_| malformed("is not UTF-8"))?;
        let found = Walk::new(text, table, ground).all();
        if found.texts.len() > MOST_TEXTS {
            return Err(malformed("has too many texts"));
        }
        Ok(Self { body, value, found })
    }

    /// The texts, in their order; none that is empty.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.found.texts.iter().map(|text| text.says.as_str())
    }

    /// What it says besides texts: names that are no words of a list, and what a table lists as unreadable. What is sealed is
    /// Base64, without the address in which it stood.
    pub fn words(&self) -> &[Word] {
        &self.found.words
    }

    /// Whether a text may have come as the numbers of its tokens.
    pub fn has_tokens(&self) -> bool {
        self.found.has_tokens
    }

    /// The body.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The bytes as they came.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The body with these texts in the places of its own. Without a difference it is the body as it came. `None` if
    /// they are not as many, or one is another that has to stay: an argument of a call, or the name of a field.
    pub fn write(&self, texts: &[Text]) -> Option<Bytes> {
        let own = &self.found.texts;
        if own.len() != texts.len() {
            return None;
        }
        let mut splices = Splices::default();
        for (old, new) in own.iter().zip(texts).filter(|(old, new)| old.says != new.as_str()) {
            if old.is_fixed {
                return None;
            }
            splices.replace(old.span.clone(), quote(new));
        }
        let text = str::from_utf8(&self.body).ok()?;
        Some(if splices.is_empty() { self.body.clone() } else { splices.apply(text).into() })
    }
}

/// Where no table says what a field holds.
static NO_TABLE: TextTable = TextTable { texts: &[], names: &[], opaque: &[], own: &[], fixed: &[] };

fn malformed(problem: &'static str) -> WireError {
    WireError::Malformed { what: "document", field: "body".to_owned(), problem }
}

/// What the strings at a place are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ground {
    /// The inside of the document, as far as its table reaches.
    Known,
    /// The value of a field with a name.
    Name,
    /// What nobody reads.
    Opaque,
    /// What no table knows, or what is its author's.
    Own,
    /// A text that has to stay as it is.
    Fixed,
    /// Of a document that no table is about.
    Listed,
}

/// One way through a text that was read as JSON before.
struct Walk<'a> {
    text: &'a str,
    table: &'a TextTable,
    /// What the document is as a whole.
    around: Ground,
    /// What the values inside are, from the outside in, and whether they stand in an array.
    open: Vec<(Ground, bool)>,
    /// What the next value is, behind a key.
    next: Option<Ground>,
    found: Found,
}

impl<'a> Walk<'a> {
    fn new(text: &'a str, table: &'a TextTable, around: Ground) -> Self {
        Self { text, table, around, open: Vec::new(), next: None, found: Found::default() }
    }

    fn all(mut self) -> Found {
        let bytes = self.text.as_bytes();
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            step();
            match byte {
                b'{' | b'[' => {
                    let ground = self.value();
                    self.open.push((ground, *byte == b'['));
                }
                b'}' | b']' => {
                    self.open.pop();
                }
                b'"' => {
                    let Some(end) = literal_end(bytes, at + 1).map(|end| end + 1) else { break };
                    self.string(at..end);
                    at = end;
                    continue;
                }
                b'-' | b'0'..=b'9' => {
                    let rest = bytes.get(at..).unwrap_or_default();
                    let is_part =
                        |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(**byte, b'-' | b'+' | b'.');
                    at += rest.iter().take_while(is_part).count();
                    self.number();
                    continue;
                }
                b't' | b'f' | b'n' => {
                    self.value();
                    let rest = bytes.get(at..).unwrap_or_default();
                    at += rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        self.found
    }

    /// What the value is that comes now.
    fn value(&mut self) -> Ground {
        let around = self.around();
        self.next.take().unwrap_or(around)
    }

    fn around(&self) -> Ground {
        self.open.last().map_or(self.around, |(ground, _)| *ground)
    }

    fn number(&mut self) {
        let in_array = self.next.is_none() && self.open.last().is_some_and(|(_, array)| *array);
        let ground = self.value();
        self.found.has_tokens |= in_array && matches!(ground, Ground::Known | Ground::Own | Ground::Fixed);
    }

    fn string(&mut self, span: Range<usize>) {
        let raw = self.text.get(span.clone()).unwrap_or_default();
        let is_key = self.next.is_none() && self.open.last().is_some_and(|(_, array)| !array);
        let said = said(raw);
        let (is_text, is_fixed) = if is_key {
            let around = self.around();
            let (ground, is_text) = self.key(&said, around);
            if !is_text && matches!(around, Ground::Opaque | Ground::Listed) && !is_setting_name(&said) {
                self.word(&said);
            }
            self.next = Some(ground);
            (is_text, true)
        } else {
            match self.value() {
                Ground::Known | Ground::Own => (true, false),
                Ground::Fixed => (true, true),
                Ground::Name | Ground::Listed => (!self.is_word(&said), false),
                Ground::Opaque => (!(self.is_sealed(&said) || self.is_word(&said)), true),
            }
        };
        if is_text && !said.is_empty() {
            self.found.texts.push(Literal { span, says: said.into_owned(), is_fixed });
        }
    }

    /// Whether a string is a word, which is kept.
    fn is_word(&mut self, said: &str) -> bool {
        let is_word = is_name(said);
        if is_word {
            self.word(said);
        }
        is_word
    }

    /// Whether a string is Base64, in an address that holds it or not; it is kept.
    fn is_sealed(&mut self, said: &str) -> bool {
        let Some((address, data)) = sealed(said) else { return false };
        if !address.is_empty() {
            self.word(address);
        }
        if !data.is_empty() {
            self.found.words.push(Word::sealed(data));
        }
        true
    }

    fn word(&mut self, said: &str) {
        if !is_setting(&said.into()) {
            self.found.words.push(Word::new(said));
        }
    }

    /// What stands under a key, and whether the key itself is a text.
    fn key(&self, key: &str, around: Ground) -> (Ground, bool) {
        let is_number =
            !key.is_empty() && key.len() <= LONGEST_NUMBER && key.bytes().all(|byte| byte.is_ascii_digit());
        let known = match around {
            Ground::Opaque | Ground::Listed => return (around, !is_name(key)),
            Ground::Fixed => return (Ground::Fixed, true),
            Ground::Own => None,
            Ground::Known | Ground::Name => [
                (self.table.texts, Ground::Known),
                (self.table.names, Ground::Name),
                (self.table.opaque, Ground::Opaque),
                (self.table.own, Ground::Own),
                (self.table.fixed, Ground::Fixed),
            ]
            .into_iter()
            .find(|(keys, _)| keys.contains(&key))
            .map(|(_, ground)| ground),
        };
        match known {
            Some(ground) => (ground, false),
            None => (Ground::Own, !is_number),
        }
    }
}

/// What a literal says.
fn said(raw: &str) -> Cow<'_, str> {
    let inside = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')).unwrap_or(raw);
    if inside.contains('\\') {
        return serde_json::from_str::<String>(raw).map_or(Cow::Borrowed(inside), Cow::Owned);
    }
    Cow::Borrowed(inside)
}

/// The Base64 in a text that is nothing else, and what stands in front of it where that is an address which holds its data.
pub fn sealed(text: &str) -> Option<(&str, &str)> {
    let is_kind = |kind: &str| {
        kind.len() <= LONGEST_KIND
            && kind
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'+' | b'-'))
    };
    let (address, data) = match text.strip_prefix("data:") {
        Some(rest) => {
            let (kind, data) = rest.split_once(";base64,").filter(|(kind, _)| is_kind(kind))?;
            (kind, data)
        }
        None => ("", text),
    };
    is_base64(data).then_some((address, data))
}

/// Whether a text can be a name: one word, not a long one.
pub fn is_name(text: &str) -> bool {
    text.len() <= LONGEST_WORD && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const TABLE: TextTable = TextTable {
        texts: &["input", "parts", "text"],
        names: &["model", "type", "user"],
        opaque: &["data"],
        own: &["metadata"],
        fixed: &["arguments"],
    };

    fn read(body: &str) -> LiveDocument {
        LiveDocument::read(&TABLE, Bytes::copy_from_slice(body.as_bytes())).unwrap()
    }

    fn texts(body: &str) -> Vec<String> {
        read(body).texts().map(str::to_owned).collect()
    }

    #[test]
    fn every_string_is_a_text_but_those_of_the_table() {
        for (body, found) in [
            (r#"{"model":"m","input":"a"}"#, vec!["a"]),
            (r#"{"model":"two words","input":["a", "", "b"]}"#, vec!["two words", "a", "b"]),
            (r#"{"input":{"parts":[{"text":"a"},{"type":"x","data":"AAAA"}]}}"#, vec!["a"]),
            (r#"{"metadata":{"model":"x","k":["y"]}}"#, vec!["model", "x", "k", "y"]),
            // What nobody knows, with all that is in it.
            (r#"{"future":{"model":"x","data":"y"},"model":"m"}"#, vec!["future", "model", "x", "data", "y"]),
            (r#"{"input":"a\nb\u0021","user":"u","n":1,"on":true}"#, vec!["a\nb!", "n", "on"]),
            (r#"{"model":{"type":"x","input":"y"}}"#, vec!["y"]),
            (r#"{"50256":-1}"#, vec![]),
        ] {
            assert_eq!(texts(body), found, "{body}");
        }
    }

    #[test]
    fn tokens_are_noticed() {
        for (body, tokens) in [
            (r#"{"input":[1,2]}"#, true),
            (r#"{"input":[[1],[2]]}"#, true),
            (r#"{"future":{"x":[1]}}"#, true),
            (r#"{"input":"1","n":1,"data":[0.5,1e-3]}"#, false),
            (r#"{"input":[{"n":1}]}"#, false),
        ] {
            assert_eq!(read(body).has_tokens(), tokens, "{body}");
        }
    }

    #[test]
    fn what_is_no_object_or_has_two_readings_is_refused() {
        for body in ["[]", "1", "{", r#"{"input":"a","input":"b"}"#] {
            assert!(LiveDocument::read(&TABLE, Bytes::from_static(body.as_bytes())).is_err(), "{body}");
        }
        let many = json!({"input": vec!["x"; MOST_TEXTS + 1]}).to_string();
        assert!(LiveDocument::read(&TABLE, many.into()).is_err());
    }

    #[test]
    fn only_what_changed_is_written() {
        let body = r#"{ "model":"m", "input" : ["a\u0021","b"],"n":1.0}"#;
        let document = read(body);
        let same: Vec<Text> = document.texts().map(Text::from).collect();
        assert_eq!(document.write(&same).unwrap(), body);
        let new = ["a!".into(), "x\"".into(), "n".into()];
        assert_eq!(document.write(&new).unwrap(), r#"{ "model":"m", "input" : ["a\u0021","x\""],"n":1.0}"#);
        assert_eq!(document.write(&new[..2]), None, "one is missing");
        assert_eq!(document.write(&["a!".into(), "b".into(), "N".into()]), None, "names of fields stay");
        let call = read(r#"{"input":[{"arguments":"{}"}]}"#);
        assert_eq!(call.write(&["{ }".into()]), None, "another call");
    }

    #[test]
    fn words_and_seals_are_found_beside_the_texts() {
        let words = |document: &LiveDocument| -> Vec<(String, bool)> {
            document.words().iter().map(|word| (word.text.clone(), word.is_sealed)).collect()
        };
        let word = |text: &str| (text.to_owned(), false);
        let seal = |text: &str| (text.to_owned(), true);
        for (body, found) in [
            (r#"{"model":"m","type":"two words","user":""}"#, vec![word("m")]),
            (r#"{"data":"AA-_"}"#, vec![seal("AA-_")]),
            (r#"{"data":"data:image/png;base64,AA"}"#, vec![word("image/png"), seal("AA")]),
            (r#"{"data":{"zq":"a:b"}}"#, vec![word("zq"), word("a:b")]),
            (r#"{"data":["prose of words","data:x y;base64,AA"]}"#, vec![]),
        ] {
            assert_eq!(words(&read(body)), found, "{body}");
        }
        // Prose where nobody reads is a text, and stays.
        let prose = read(r#"{"data":"prose of words"}"#);
        assert_eq!(prose.texts().collect::<Vec<_>>(), ["prose of words"]);
        assert_eq!(prose.write(&["other".into()]), None);
        let listed = |body: &'static str| LiveDocument::listed(Bytes::from_static(body.as_bytes())).unwrap();
        let list = listed(r#"[{"zq":"x","b c":["a text",1,"w"]}]"#);
        assert_eq!(list.texts().collect::<Vec<_>>(), ["b c", "a text"]);
        assert_eq!(words(&list), [word("zq"), word("x"), word("w")]);
        assert_eq!(list.write(&["b c".into(), "new".into()]).unwrap(), r#"[{"zq":"x","b c":["new",1,"w"]}]"#);
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-z \"\\\\{}\\[\\]:,é]{0,6}".prop_map(Value::from),
        ];
        let key = prop_oneof![
            Just("input"),
            Just("model"),
            Just("data"),
            Just("metadata"),
            Just("x"),
            Just("text")
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..4)
                    .prop_map(|fields| Value::from(serde_json::Map::from_iter(fields))),
            ]
        })
    }

    /// What a field says, told by the value and not by the text.
    fn expected(value: &Value, ground: Ground, found: &mut Vec<String>) {
        match value {
            Value::String(text) if !text.is_empty() => match ground {
                Ground::Known | Ground::Own | Ground::Fixed => found.push(text.clone()),
                Ground::Name | Ground::Listed if !is_name(text) => found.push(text.clone()),
                Ground::Opaque if !is_name(text) && sealed(text).is_none() => found.push(text.clone()),
                Ground::Name | Ground::Listed | Ground::Opaque => {}
            },
            Value::Array(items) => items.iter().for_each(|item| expected(item, ground, found)),
            Value::Object(fields) => {
                for (key, value) in fields {
                    let (ground, is_text) = Walk::new("", &TABLE, Ground::Known).key(key, ground);
                    found.extend(is_text.then(|| key.clone()));
                    expected(value, ground, found);
                }
            }
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn texts_are_those_of_the_value(value in value(), indented in any::<bool>()) {
            let body = json!({"input": value});
            let text = if indented { serde_json::to_string_pretty(&body).unwrap() } else { body.to_string() };
            let mut found = Vec::new();
            expected(&body, Ground::Known, &mut found);
            prop_assert_eq!(texts(&text), found);
        }

        #[test]
        fn written_texts_are_read_again(said in proptest::collection::vec("[a-zé\"\\\\ ]{1,6}", 0..5), suffix in "[a-z\"]{1,3}") {
            let document = read(&json!({"model": "m", "input": said}).to_string());
            let new: Vec<Text> = document.texts().map(|text| format!("{text}{suffix}").into()).collect();
            let again = document.write(&new).unwrap();
            let again = texts(str::from_utf8(&again).unwrap());
            prop_assert_eq!(again, said.iter().map(|said| format!("{said}{suffix}")).collect::<Vec<_>>());
        }
    }
}
