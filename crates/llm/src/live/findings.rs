//! What an answer holds besides texts and calls: results of tools that the provider ran, with what cites them, and fields
//! that nobody knows.
//!
//! - *A result is judged before it is shown.* What a search, a program or a server of the provider's brought in was written by
//!   others, and goes to the person and into the next request. A frame with a result waits until it was judged; a result that
//!   was edited is written anew, in its place, and every copy of it with it. The same words are judged once.
//! - *A field that no table has is a call*, named after it, with its value as the argument. If it is refused, `"withheld": null`
//!   stands in its place: its name is a text as well.
//! - *A name is read.* A field that no table has and that holds no text has its name judged like a result.
//! - *A field that holds no text holds none*: a role, a reason, a state or an id in which somebody could read one is a field that
//!   nobody knows ([`words`](super::words)). The words in such fields are [shown](Findings::words) to redactors.
//! - *What the provider says of itself is read.* Its explanations, and what it has of a request that did not say so, are judged
//!   like a result.
//! - *What the provider's tools were called with is read* like a result. It has been called: another value would be a lie.
//!
//! Limits: pictures and sounds are not read, and what a provider has sealed for itself nobody can open.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::PartKey;
use super::asked::Asked;
use super::span::{Member, Node};
use super::words::{Says, padding, said};
use crate::error::{WireError, out_of_order};
use crate::wire::{Api, Level, TypeClass, TypeTable, is_word_of};

/// More results than any answer has.
const MOST_RESULTS: usize = 10_000;

/// One result of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResultKey(usize);

/// A result that has arrived and was not judged.
#[derive(Clone, PartialEq)]
pub struct FreshResult {
    /// Which one.
    pub key: ResultKey,
    /// What policies call the tool.
    pub tool: &'static str,
    /// The call that it answers, where the wire says so.
    pub call: String,
    /// The result as the wire has it: an item, a block, a list of citations.
    pub value: Value,
    /// It is what the provider's tool was called with, and has to stay as it is.
    pub is_call: bool,
}

impl fmt::Debug for FreshResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FreshResult")
            .field("key", &self.key)
            .field("tool", &self.tool)
            .finish_non_exhaustive()
    }
}

/// What stands in a field that holds no text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Word {
    /// As it stands there.
    pub text: String,
    /// It is Base64 that only its provider opens.
    pub is_sealed: bool,
}

impl Word {
    /// A word that anybody can read.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_sealed: false }
    }

    /// Base64.
    pub fn sealed(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_sealed: true }
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Word").field("is_sealed", &self.is_sealed).finish_non_exhaustive()
    }
}

/// A field that nobody knows, where it stands.
#[derive(Debug)]
pub(crate) struct StrangeField {
    pub(crate) name: String,
    pub(crate) value: Value,
    pub(crate) place: FieldPlace,
}

/// Where a field stands that nobody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FieldPlace {
    /// Its value, under a name that is known.
    Value(Range<usize>),
    /// Its name and its value.
    Whole(Range<usize>),
}

impl FieldPlace {
    pub(crate) fn span(&self) -> Range<usize> {
        let (Self::Value(span) | Self::Whole(span)) = self;
        span.clone()
    }

    /// What stands there if the call `part` that it is was refused. No two of an answer have the same name.
    pub(crate) fn refused(&self, part: PartKey) -> String {
        match (self, u32::MAX - part.part) {
            (Self::Value(_), _) => "null".to_owned(),
            (Self::Whole(_), 0) => WITHHELD.to_owned(),
            (Self::Whole(_), number) => format!("\"withheld_{number}\":null"),
        }
    }
}

/// What stands where a name and its value may not be shown.
const WITHHELD: &str = "\"withheld\":null";
/// What policies call that which the provider says of itself.
pub(crate) const PROVIDER: &str = "provider";
/// Beyond so many words a word that has been shown is shown again.
const MOST_KNOWN_WORDS: usize = 4_096;
/// What policies call a field that nobody knows and that says nothing but its name.
const FIELD_NAME: &str = "field_name";

/// The results of one answer, and what was found in the frame that is read.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    results: Vec<Judged>,
    /// By a digest of what they say, so that it need not be kept.
    known: HashMap<(&'static str, [u8; 32]), ResultKey>,
    fresh: Vec<FreshResult>,
    /// Nobody judges results.
    free: bool,
    edited: bool,
    places: Vec<(ResultKey, Range<usize>)>,
    fields: Vec<StrangeField>,
    asked: Asked,
    /// Words that nobody has seen, and digests of all.
    words: Vec<Word>,
    known_words: HashSet<[u8; 32]>,
}

#[derive(Debug, Default)]
struct Judged {
    settled: bool,
    edit: Option<String>,
    /// It stands for a name and its value, without the braces of an object.
    is_member: bool,
    /// The result that this one is a piece of, once that has come.
    piece_of: Option<ResultKey>,
}

impl Findings {
    /// Those of an answer to a request that says `asked`.
    pub(crate) fn new(asked: Asked) -> Self {
        Self { asked, ..Self::default() }
    }

    /// A result of `tool` stands at `node`.
    ///
    /// # Errors
    /// If there are results beyond all bounds.
    pub(crate) fn result(
        &mut self,
        tool: &'static str,
        call: &str,
        node: &Node<'_>,
    ) -> Result<Option<ResultKey>, WireError> {
        self.found(tool, call, node, false)
    }

    /// What the provider's tool was called with stands at `node`.
    ///
    /// # Errors
    /// If there are results beyond all bounds.
    pub(crate) fn ran(&mut self, tool: &'static str, call: &str, node: &Node<'_>) -> Result<(), WireError> {
        self.found(tool, call, node, true).map(|_| ())
    }

    /// What the provider's tool was called with is whole; it came in `pieces`.
    ///
    /// # Errors
    /// If there are results beyond all bounds.
    pub(crate) fn ran_in(
        &mut self,
        pieces: ResultKey,
        tool: &'static str,
        call: &str,
        value: Value,
    ) -> Result<(), WireError> {
        if self.free {
            return Ok(());
        }
        let key = self.judged_later()?;
        self.fresh.push(FreshResult { key, tool, call: call.to_owned(), value, is_call: true });
        self.bind(pieces, key);
        Ok(())
    }

    fn found(
        &mut self,
        tool: &'static str,
        call: &str,
        node: &Node<'_>,
        is_call: bool,
    ) -> Result<Option<ResultKey>, WireError> {
        let raw = node.raw();
        if self.free || matches!(raw, "null" | "[]" | "{}" | "\"\"") {
            return Ok(None);
        }
        let known = (tool, Sha256::digest(raw.as_bytes()).into());
        let key = match self.known.get(&known) {
            Some(key) => *key,
            None => {
                let value = serde_json::from_str(raw).map_err(|_| WireError::Truncated)?;
                let key = self.judged_later()?;
                self.known.insert(known, key);
                self.fresh.push(FreshResult { key, tool, call: call.to_owned(), value, is_call });
                key
            }
        };
        self.places.push((key, node.span()));
        Ok(Some(key))
    }

    /// A piece of a result stands at `node`, ahead of the result itself: it is settled with the one that `bind` names.
    /// `None` where nobody judges results.
    ///
    /// # Errors
    /// If there are results beyond all bounds.
    pub(crate) fn piece(
        &mut self,
        known: Option<ResultKey>,
        node: &Node<'_>,
    ) -> Result<Option<ResultKey>, WireError> {
        if self.free {
            return Ok(None);
        }
        let key = match known {
            Some(key) => key,
            None => self.judged_later()?,
        };
        self.places.push((key, node.span()));
        Ok(Some(key))
    }

    /// The result has come that `pieces` were of.
    pub(crate) fn bind(&mut self, pieces: ResultKey, whole: ResultKey) {
        if let Some(judged) = self.results.get_mut(pieces.0) {
            judged.piece_of = Some(whole);
        }
    }

    fn judged_later(&mut self) -> Result<ResultKey, WireError> {
        let key = ResultKey(self.results.len());
        if key.0 >= MOST_RESULTS {
            return Err(out_of_order("there are results beyond all bounds"));
        }
        self.results.push(Judged::default());
        Ok(key)
    }

    /// The result that decides about `key`.
    fn judged(&self, key: ResultKey) -> Option<&Judged> {
        let judged = self.results.get(key.0)?;
        match judged.piece_of {
            Some(whole) => self.results.get(whole.0),
            None => Some(judged),
        }
    }

    /// The fields of an object that do not stand at its level. Where `names` pass, short words are no texts.
    pub(crate) fn fields(&mut self, object: &Node<'_>, known: &Level, names: bool) {
        for member in object.members() {
            let other = || camel(&member.key).filter(|_| known.api() == Api::Gemini);
            let class = known.class(&member.key).map(|class| (member.key.clone(), class));
            let class = class.or_else(|| {
                let other = other()?;
                known.class(&other).map(|class| (other.into(), class))
            });
            match class {
                Some((name, TypeClass::Inert)) => {
                    self.quiet(known.table(), &name, &member.key, &member.value);
                }
                Some(_) => {}
                None => self.stranger(known.api(), &member, names),
            }
        }
    }

    /// A field whose name nobody knows, and that is judged elsewhere if it says more than that.
    pub(crate) fn named(&mut self, api: Api, member: &Member<'_>) {
        if member.value.is_null() {
            self.stranger(api, member, false);
        }
    }

    /// A field whose name nobody knows. Where `names` pass, a short word is no text.
    fn stranger(&mut self, api: Api, member: &Member<'_>, names: bool) {
        let Ok(value) = serde_json::from_str::<Value>(member.value.raw()) else { return };
        let is_quiet = !says_something(&value);
        if is_quiet && is_word_of(api, &member.key) {
            return;
        }
        // Beyond all bounds of results it is a call: there are fewer of these.
        let is_read = (is_quiet || (names && is_name(&member.value)))
            && self.name(member, if is_quiet { Value::Null } else { value.clone() }).is_ok();
        if !is_read {
            let name = member.key.clone().into_owned();
            self.fields.push(StrangeField { name, value, place: FieldPlace::Whole(member.span.clone()) });
        }
    }

    /// A name that nobody knows, and a value that is no text: both are read like a result.
    fn name(&mut self, member: &Member<'_>, value: Value) -> Result<(), WireError> {
        if self.free {
            return Ok(());
        }
        let value = Value::from(Map::from_iter([(member.key.clone().into_owned(), value)]));
        let known = (FIELD_NAME, Sha256::digest(value.to_string().as_bytes()).into());
        let key = match self.known.get(&known) {
            Some(key) => *key,
            None => {
                let key = self.judged_later()?;
                if let Some(judged) = self.results.get_mut(key.0) {
                    judged.is_member = true;
                }
                self.known.insert(known, key);
                let (tool, call, is_call) = (FIELD_NAME, String::new(), false);
                self.fresh.push(FreshResult { key, tool, call, value, is_call });
                key
            }
        };
        self.places.push((key, member.span.clone()));
        Ok(())
    }

    /// What stands under `name`, and should be an object of this level.
    pub(crate) fn object(&mut self, name: &str, node: &Node<'_>, known: &Level) {
        if node.raw().starts_with('{') {
            self.fields(node, known, false);
        } else {
            self.field(name, node);
        }
    }

    /// A field of no text in a thing whose fields `table` has.
    pub(crate) fn inert(&mut self, table: &TypeTable, name: &str, node: &Node<'_>) {
        self.quiet(table, name, name, node);
    }

    /// A field that holds no text, `name` as its table has it, and `key` as it is written. One that says more is a field that nobody
    /// knows, or what the provider says of itself.
    fn quiet(&mut self, table: &TypeTable, name: &str, key: &str, node: &Node<'_>) {
        // Most are short, and written plainly.
        if !node.raw().starts_with(['"', '{', '[']) {
            return;
        }
        let Ok(value) = serde_json::from_str::<Value>(node.raw()) else { return self.field(key, node) };
        match said(table, name, &value, &self.asked) {
            Says::Words(words) => words.into_iter().for_each(|word| self.word(word)),
            // Beyond all bounds of results it is a call: there are fewer of these.
            Says::Told if self.result(PROVIDER, "", node).is_ok() => {}
            Says::Told | Says::More => self.field(key, node),
        }
    }

    /// Whether a field that holds no text holds words, or what the request says: then it may be repeated.
    pub(crate) fn says_words(&self, table: &TypeTable, name: &str, value: &Value) -> bool {
        matches!(said(table, name, value, &self.asked), Says::Words(_))
    }

    /// A word of a field that holds no text, or what stands beside the data of an event.
    pub(super) fn word(&mut self, word: Word) {
        let digest = Sha256::digest(word.text.as_bytes()).into();
        if word.text.is_empty() || self.known_words.contains(&digest) {
            return;
        }
        if self.known_words.len() < MOST_KNOWN_WORDS {
            self.known_words.insert(digest);
        }
        self.words.push(word);
    }

    /// Padding in a frame that is like others; whether it is one.
    pub(super) fn padding(&mut self, text: &str) -> bool {
        let is_shown = padding(text);
        if is_shown == Some(true) {
            self.words.push(Word::sealed(text));
        }
        is_shown.is_some()
    }

    /// The words of fields without text that nobody has seen, once each.
    pub(crate) fn words(&mut self) -> Vec<Word> {
        std::mem::take(&mut self.words)
    }

    /// A field that holds more than it may stands at `node`, under a name that is known.
    pub(crate) fn field(&mut self, name: &str, node: &Node<'_>) {
        if let Ok(value) = serde_json::from_str::<Value>(node.raw())
            && says_something(&value)
        {
            let place = FieldPlace::Value(node.span());
            self.fields.push(StrangeField { name: name.to_owned(), value, place });
        }
    }

    /// Where results stand in what was read since the last time.
    pub(crate) fn take_places(&mut self) -> Vec<(ResultKey, Range<usize>)> {
        std::mem::take(&mut self.places)
    }

    /// The unknown fields of what was read since the last time.
    pub(crate) fn take_fields(&mut self) -> Vec<StrangeField> {
        std::mem::take(&mut self.fields)
    }

    /// The results that nobody has judged, once each.
    pub(crate) fn fresh(&mut self) -> Vec<FreshResult> {
        std::mem::take(&mut self.fresh)
    }

    /// A result was judged, and reads as `new` if that is another.
    pub(crate) fn settle(&mut self, key: ResultKey, new: Option<&Value>) {
        if let Some(judged) = self.results.get_mut(key.0) {
            judged.settled = true;
            judged.edit = match judged.is_member {
                true => new.map(members_of),
                false => new.map(Value::to_string),
            };
            self.edited |= judged.edit.is_some();
        }
    }

    /// Nobody judges results: they leave as they come.
    pub(crate) fn release(&mut self) {
        self.free = true;
        self.fresh.clear();
        self.results.iter_mut().for_each(|judged| judged.settled = true);
    }

    pub(crate) fn is_settled(&self, key: ResultKey) -> bool {
        self.judged(key).is_some_and(|judged| judged.settled)
    }

    /// What stands in the place of a result; `None` if it stays.
    pub(crate) fn edit(&self, key: ResultKey) -> Option<&str> {
        self.judged(key)?.edit.as_deref()
    }

    /// Whether any result is edited.
    pub(crate) fn is_edited(&self) -> bool {
        self.edited
    }
}

/// The fields of an object as they stand in another one.
fn members_of(object: &Value) -> String {
    let written = object.as_object().filter(|fields| !fields.is_empty()).map(|_| object.to_string());
    let inside = written.as_deref().and_then(|written| written.strip_prefix('{')?.strip_suffix('}'));
    inside.unwrap_or(WITHHELD).to_owned()
}

/// Whether a value has a text anywhere: the keys of an object are some, too.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => items.iter().any(says_something),
        Value::Object(fields) => fields.iter().any(|(key, value)| !key.is_empty() || says_something(value)),
    }
}

/// A longer string is no name.
const LONGEST_NAME: usize = 64;

fn is_name(node: &Node<'_>) -> bool {
    let is_word = |text: &str| text.len() <= LONGEST_NAME && text.bytes().all(|byte| byte.is_ascii_graphic());
    node.string().is_some_and(|text| is_word(&text))
}

/// A key as Gemini writes it, which takes `grounding_metadata`, too; `None` if it takes no such key.
pub(super) fn camel(key: &str) -> Option<String> {
    if key.split('_').any(str::is_empty) || key.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    let mut words = key.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    Some(words.fold(first, |mut camel, word| {
        let (head, rest) = word.split_at_checked(1).unwrap_or((word, ""));
        camel.push_str(&head.to_ascii_uppercase());
        camel.push_str(rest);
        camel
    }))
}

/// What policies call the tool whose result is of the type `kind`.
pub(crate) fn tool_of(api: Api, kind: &str) -> &'static str {
    let names: &[(&str, &str)] = match api {
        Api::AnthropicMessages => &[
            ("code_execution", "code_execution"),
            ("web_search", "web_search"),
            ("web_fetch", "web_fetch"),
            ("tool_search", "tool_search"),
            ("mcp_", "mcp"),
            ("advisor", "advisor"),
            ("compaction", "compaction"),
        ],
        Api::OpenAiResponses => &[
            ("web_search", "web_search"),
            ("file_search", "file_search"),
            ("code_interpreter", "code_execution"),
            ("image_generation", "image_generation"),
            ("mcp_", "mcp"),
            ("tool_search", "tool_search"),
            ("apply_patch", "apply_patch"),
            ("computer", "computer"),
            ("shell", "exec"),
        ],
        Api::Gemini => &[
            ("codeExecution", "code_execution"),
            ("executableCode", "code_execution"),
            ("groundingMetadata", "web_search"),
            ("urlContext", "web_fetch"),
            ("citation", "citations"),
        ],
        Api::OpenAiChat => &[("search_results", "web_search")],
        Api::BedrockConverse => &[
            ("web_search", "web_search"),
            ("nova_grounding", "web_search"),
            ("code_interpreter", "code_execution"),
            ("searchResult", "web_search"),
            ("trace", "guardrail"),
            ("image", "image_generation"),
        ],
    };
    names.iter().find(|(part, _)| kind.contains(part)).map_or("provider_tool", |(_, name)| name)
}

/// What policies call that which a text cites.
pub(crate) const CITATIONS: &str = "citations";
