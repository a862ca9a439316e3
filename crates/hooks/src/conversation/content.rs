//! The parts of a message, shared between all copies of the message, with what is known of them.
//!
//! A conversation is judged anew at every turn, although all but its end was there a turn ago. A [`Content`] is
//! therefore shared, not copied, and remembers what was computed from its parts: copies of the message, in
//! whatever event, need not compute it again.
//!
//! Scanners remember what they found in the same way ([`Content::memo`]), each under a key of its own that changes with its policy.
//!
//! The law: *what is remembered is a fact of the parts alone*. Whoever writes to the parts gets parts of which nothing is
//! known ([`DerefMut`]), and copies that were made before keep theirs.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Part;
use crate::digest::Digest;
use crate::memo_key::MemoKey;
use crate::value::Text;

/// The parts of a message, in order. It reads and is written like a `Vec<Part>`; its JSON is that of the list.
#[derive(Clone, Default)]
pub struct Content(Arc<Inner>);

#[derive(Default)]
struct Inner {
    parts: Vec<Part>,
    known: Known,
}

/// What was computed from the parts.
#[derive(Default)]
struct Known {
    digest: OnceLock<Digest>,
    visible: OnceLock<Text>,
    paragraphs: OnceLock<Text>,
    tokens: OnceLock<u64>,
    /// What functions made of the parts, the newest last.
    memos: Mutex<Vec<(MemoKey, Arc<dyn Any + Send + Sync>)>>,
}

/// How many memos a content has. Of more the oldest goes: a process has few scanners, and one policy.
const MAX_MEMOS: usize = 4;

/// Of a copy that is about to be written to nothing is known.
impl Clone for Inner {
    fn clone(&self) -> Self {
        Self { parts: self.parts.clone(), known: Known::default() }
    }
}

impl Content {
    /// Wraps parts.
    pub fn new(parts: Vec<Part>) -> Self {
        Self(Arc::new(Inner { parts, known: Known::default() }))
    }

    /// Returns the parts; copied if others share them.
    pub fn into_parts(self) -> Vec<Part> {
        Arc::unwrap_or_clone(self.0).parts
    }

    /// Returns whether both are the same parts in memory, which is cheaper than checking equality.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the digest of the parts, computed once. That of the message is [`Message::digest`](super::Message::digest).
    pub fn digest(&self) -> Digest {
        *self.0.known.digest.get_or_init(|| Digest::of_parts(&self.0.parts))
    }

    /// Returns the visible text: what the text parts say one after the other, whatever stands between them or is attached to them.
    /// A text that stands alone is shared, with what is known of it.
    pub fn visible_text(&self) -> Text {
        self.joined(&self.0.known.visible, "")
    }

    /// Returns the visible text with an empty line between two parts.
    pub fn paragraphs(&self) -> Text {
        self.joined(&self.0.known.paragraphs, "\n\n")
    }

    fn joined(&self, known: &OnceLock<Text>, between: &str) -> Text {
        let texts = || self.0.parts.iter().filter_map(Part::as_text);
        match (texts().next(), texts().nth(1)) {
            (None, _) => Text::default(),
            (Some(only), None) => only.clone(),
            (Some(_), Some(_)) => {
                let join = || texts().map(Text::as_str).collect::<Vec<_>>().join(between).into();
                known.get_or_init(join).clone()
            }
        }
    }

    /// Returns how many tokens the parts have by `estimate`, which is asked once. A process has one way to estimate:
    /// what another one would say is not looked at where the number is known.
    pub fn tokens(&self, estimate: impl FnOnce(&[Part]) -> u64) -> u64 {
        *self.0.known.tokens.get_or_init(|| estimate(&self.0.parts))
    }
}

impl Content {
    /// Returns what the function made of these parts, if that is known.
    pub fn memo<T: Any + Send + Sync>(&self, key: MemoKey) -> Option<Arc<T>> {
        let memos = self.0.known.memos.lock().unwrap_or_else(PoisonError::into_inner);
        let memo = memos.iter().find(|(known, _)| *known == key).map(|(_, memo)| Arc::clone(memo));
        drop(memos);
        memo?.downcast().ok()
    }

    /// Remembers what the function made of these parts.
    pub fn remember<T: Any + Send + Sync>(&self, key: MemoKey, memo: T) {
        let memo: Arc<dyn Any + Send + Sync> = Arc::new(memo);
        let mut memos = self.0.known.memos.lock().unwrap_or_else(PoisonError::into_inner);
        memos.retain(|(known, _)| *known != key);
        let over = (memos.len() + 1).saturating_sub(MAX_MEMOS);
        memos.drain(..over);
        memos.push((key, memo));
    }
}

impl Deref for Content {
    type Target = Vec<Part>;

    fn deref(&self) -> &Vec<Part> {
        &self.0.parts
    }
}

impl DerefMut for Content {
    /// INVARIANT (no fact survives a write): whoever holds this reference is the only one who can read the
    /// parts, so what is forgotten here stays unknown until the write is over.
    fn deref_mut(&mut self) -> &mut Vec<Part> {
        let inner = Arc::make_mut(&mut self.0);
        inner.known = Known::default();
        &mut inner.parts
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.same(other) || self.0.parts == other.0.parts
    }
}

impl PartialEq<Vec<Part>> for Content {
    fn eq(&self, other: &Vec<Part>) -> bool {
        self.0.parts == *other
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0.parts, f)
    }
}

impl From<Vec<Part>> for Content {
    fn from(parts: Vec<Part>) -> Self {
        Self::new(parts)
    }
}

impl FromIterator<Part> for Content {
    fn from_iter<I: IntoIterator<Item = Part>>(parts: I) -> Self {
        Self::new(parts.into_iter().collect())
    }
}

impl IntoIterator for Content {
    type Item = Part;
    type IntoIter = std::vec::IntoIter<Part>;

    fn into_iter(self) -> Self::IntoIter {
        self.into_parts().into_iter()
    }
}

impl<'a> IntoIterator for &'a Content {
    type Item = &'a Part;
    type IntoIter = std::slice::Iter<'a, Part>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.parts.iter()
    }
}

impl<'a> IntoIterator for &'a mut Content {
    type Item = &'a mut Part;
    type IntoIter = std::slice::IterMut<'a, Part>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.parts.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::new)
    }
}

impl JsonSchema for Content {
    fn inline_schema() -> bool {
        <Vec<Part>>::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        <Vec<Part>>::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        <Vec<Part>>::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        <Vec<Part>>::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::value::{Json, Params};

    fn bytes(parts: &[Part]) -> u64 {
        parts.iter().filter_map(Part::as_text).map(|text| text.len() as u64).sum()
    }

    /// What a program does with contents that share parts, by the number of the content.
    #[derive(Clone, Debug)]
    enum Act {
        Copy(usize),
        Push(usize, String),
        Rewrite(usize, String),
        Pop(usize),
        Assign(usize, usize),
        LookAtAllForWriting(usize),
        ReadDigest(usize),
        ReadText(usize),
        ReadTokens(usize),
        Remember(usize),
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let of = || 0..8_usize;
        let text = || "[a-c]{0,3}";
        let act = prop_oneof![
            of().prop_map(Act::Copy),
            (of(), text()).prop_map(|(at, text)| Act::Push(at, text)),
            (of(), text()).prop_map(|(at, text)| Act::Rewrite(at, text)),
            of().prop_map(Act::Pop),
            (of(), of()).prop_map(|(to, from)| Act::Assign(to, from)),
            of().prop_map(Act::LookAtAllForWriting),
            of().prop_map(Act::ReadDigest),
            of().prop_map(Act::ReadText),
            of().prop_map(Act::ReadTokens),
            of().prop_map(Act::Remember),
        ];
        prop::collection::vec(act, 0..40)
    }

    static KEY: LazyLock<MemoKey> = LazyLock::new(MemoKey::unique);

    fn apply(act: Act, contents: &mut Vec<Content>) {
        let count = contents.len();
        match act {
            Act::Copy(at) => contents.push(contents[at % count].clone()),
            Act::Push(at, text) => contents[at % count].push(Part::text(text)),
            Act::Rewrite(at, text) => {
                if let Some(first) = contents[at % count].first_mut() {
                    *first = Part::text(text);
                }
            }
            Act::Pop(at) => drop(contents[at % count].pop()),
            Act::Assign(to, from) => contents[to % count] = contents[from % count].clone(),
            Act::LookAtAllForWriting(at) => {
                for part in &mut contents[at % count] {
                    let _unchanged = part;
                }
            }
            Act::ReadDigest(at) => drop(contents[at % count].digest()),
            Act::ReadText(at) => drop(contents[at % count].visible_text()),
            Act::ReadTokens(at) => drop(contents[at % count].tokens(bytes)),
            Act::Remember(at) => {
                let content = &contents[at % count];
                content.remember(*KEY, bytes(content));
            }
        }
    }

    proptest! {
        /// After any copies, writes and reads, what a content says of itself is what a new one of the same parts would say.
        #[test]
        fn no_fact_survives_a_write(acts in acts()) {
            let mut contents = vec![Content::new(vec![Part::text("a")])];
            for act in acts {
                apply(act, &mut contents);
                for content in &contents {
                    let new = Content::new(content.to_vec());
                    if let Some(digest) = content.0.known.digest.get() {
                        prop_assert_eq!(*digest, new.digest());
                    }
                    if let Some(text) = content.0.known.visible.get() {
                        prop_assert_eq!(text, &new.visible_text());
                    }
                    if let Some(tokens) = content.0.known.tokens.get() {
                        prop_assert_eq!(*tokens, new.tokens(bytes));
                    }
                    if let Some(memo) = content.memo::<u64>(*KEY) {
                        prop_assert_eq!(*memo, bytes(&new));
                    }
                }
            }
            for content in contents {
                let new = Content::new(content.to_vec());
                prop_assert_eq!(content.digest(), new.digest());
                prop_assert_eq!(content.tokens(bytes), new.tokens(bytes));
                prop_assert_eq!(content, new);
            }
        }
    }

    #[test]
    fn what_is_known_travels_with_copies() {
        let one = Content::new(vec![Part::text("hi")]);
        let other = one.clone();
        assert_eq!(one.tokens(|_| 7), 7);
        assert_eq!(other.tokens(|_| 8), 7, "it is known");
        assert!(one.same(&other) && !one.same(&Content::new(vec![Part::text("hi")])));
    }

    #[test]
    fn a_memo_is_for_its_key_and_few_are_kept() {
        let (content, keys) =
            (Content::new(vec![Part::text("hi")]), [(); MAX_MEMOS + 1].map(|()| MemoKey::unique()));
        for (number, key) in keys.iter().enumerate() {
            assert_eq!(content.memo::<usize>(*key), None);
            content.remember(*key, number);
        }
        let known = keys.map(|key| content.clone().memo::<usize>(key).map(|memo| *memo));
        assert_eq!(known, [None, Some(1), Some(2), Some(3), Some(4)]);
        assert_eq!(content.memo::<u64>(keys[1]), None, "of another type");
        content.remember(keys[1], 9_usize);
        assert_eq!(content.memo::<usize>(keys[2]).as_deref(), Some(&2), "a key has one memo");
    }

    #[test]
    fn a_write_is_seen_by_nobody_else() {
        let one = Content::new(vec![Part::text("hi")]);
        let mut other = one.clone();
        other.push(Part::text("there"));
        assert_eq!((one.len(), other.len()), (1, 2));
        assert_ne!(one, other);
    }

    #[test]
    fn its_json_and_schema_are_those_of_the_list() {
        let parts = vec![
            Part::text("hi"),
            Part::Unknown { raw: Json::new(json!({"type": "citation"})) },
            Part::ToolCall(super::super::ToolCall {
                id: "c1".into(),
                name: "exec".into(),
                arguments: Params::default(),
                malformed: None,
                meta: None,
            }),
        ];
        let content = Content::new(parts.clone());
        let wire = serde_json::to_value(&parts).unwrap();
        assert_eq!(serde_json::to_value(&content).unwrap(), wire);
        assert_eq!(serde_json::from_value::<Content>(wire).unwrap(), parts);
        let (of_content, of_list) = (schemars::schema_for!(Content), schemars::schema_for!(Vec<Part>));
        assert_eq!(of_content, of_list);
    }

    #[test]
    fn debug_prints_no_text() {
        let content = Content::new(vec![Part::text("top secret")]);
        content.digest();
        assert!(!format!("{content:?}").contains("secret"));
    }
}
