//! Values that carry what people and models wrote.
//!
//! The law here: *the `Debug` of an event never prints its content*. Text, parameters and JSON are
//! wrapped in types whose `Debug` shows a size, so that a stray `{:?}` in a log can't leak a prompt, a
//! password or a file. The values are shared, not copied: cloning one costs a reference count, so
//! passing an event to a hundred hooks costs the same whatever its size.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::digest::Digest;
use crate::memo_key::MemoKey;

/// Text that somebody wrote: a prompt, an answer, a reason. `Debug` shows its length only.
///
/// All copies share the text and what is known of it: its [digest](Self::digest), and which scanner found [nothing](Self::is_clean) in it.
#[derive(Clone, JsonSchema)]
#[schemars(transparent, description = "Text that somebody wrote: a prompt, an answer, a reason.")]
pub struct Text(#[schemars(with = "String")] Arc<Written>);

/// A text and what is known of it, which are facts of the text alone.
struct Written {
    text: Box<str>,
    digest: OnceLock<Digest>,
    /// The number of the scanner that found nothing, the last one that said so.
    clean: AtomicU64,
}

impl Text {
    /// The role of the digest.
    const ROLE: &'static str = "text";

    /// Wraps text.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(Arc::new(Written {
            text: text.into(),
            digest: OnceLock::new(),
            clean: AtomicU64::new(MemoKey::NOBODY),
        }))
    }

    /// Returns the text itself.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// Returns the digest of the text in the role `text`, computed once for all copies.
    pub fn digest(&self) -> Digest {
        *self.0.digest.get_or_init(|| Digest::of_text(Self::ROLE, &self.0.text))
    }

    /// Returns whether the scanner with this key has found nothing in the text. What another one said last may have made this one's
    /// word forgotten.
    pub fn is_clean(&self, scanner: MemoKey) -> bool {
        self.0.clean.load(Ordering::Relaxed) == scanner.number()
    }

    /// Remembers that the scanner with this key has found nothing.
    pub fn remember_clean(&self, scanner: MemoKey) {
        self.0.clean.store(scanner.number(), Ordering::Relaxed);
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.text == other.0.text
    }
}

impl Eq for Text {}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.text.cmp(&other.0.text)
    }
}

impl std::hash::Hash for Text {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.text.hash(state);
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.text)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

impl Default for Text {
    fn default() -> Self {
        Self::new("")
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0.text
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.text.len())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        &*self.0.text == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        &*self.0.text == *other
    }
}

/// The arguments of a tool call: a JSON object. `Debug` shows the number of keys only.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(description = "A JSON object, such as the arguments of a tool call.")]
pub struct Params(Arc<Map<String, Value>>);

impl Params {
    /// Wraps an object.
    pub fn new(object: Map<String, Value>) -> Self {
        Self(Arc::new(object))
    }

    /// Returns the object of a JSON value; `None` for anything that is not an object.
    pub fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Object(object) => Some(Self::new(object)),
            _ => None,
        }
    }

    /// Returns the object for editing; copied first if it is shared.
    pub fn make_mut(&mut self) -> &mut Map<String, Value> {
        Arc::make_mut(&mut self.0)
    }

    /// Returns the arguments as a JSON value (a copy).
    pub fn to_value(&self) -> Value {
        Value::Object(self.0.as_ref().clone())
    }

    /// Returns whether both are the same object in memory, which is cheaper than checking equality.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Deref for Params {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl From<Map<String, Value>> for Params {
    fn from(object: Map<String, Value>) -> Self {
        Self::new(object)
    }
}

impl fmt::Debug for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<object of {} keys>", self.0.len())
    }
}

/// Any JSON value. `Debug` shows its kind only. All copies share the value and its [digest](Self::digest).
#[derive(Clone, JsonSchema)]
#[schemars(transparent, description = "Any JSON value.")]
pub struct Json(#[schemars(with = "Value")] Arc<Said>);

/// A value and what is known of it.
struct Said {
    value: Value,
    digest: OnceLock<Digest>,
}

impl Json {
    /// The role of the digest.
    const ROLE: &'static str = "json";

    /// Wraps a value.
    pub fn new(value: Value) -> Self {
        Self(Arc::new(Said { value, digest: OnceLock::new() }))
    }

    /// Returns a copy of the value.
    pub fn to_value(&self) -> Value {
        self.0.value.clone()
    }

    /// Returns the digest of the value in the role `json`, computed once for all copies.
    pub fn digest(&self) -> Digest {
        *self.0.digest.get_or_init(|| Digest::of(Self::ROLE, &self.0.value))
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.value == other.0.value
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.value.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::new)
    }
}

impl Default for Json {
    fn default() -> Self {
        Self::new(Value::Null)
    }
}

impl Deref for Json {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0.value
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        Self::new(value)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0.value {
            Value::Null => "<null>",
            Value::Bool(_) => "<boolean>",
            Value::Number(_) => "<number>",
            Value::String(_) => "<string>",
            Value::Array(_) => "<array>",
            Value::Object(_) => "<object>",
        })
    }
}

/// A value that must not be shown: an API key, a token. `Debug` and `Display` mask it, it has no
/// `Serialize`, and its only way out is [`Secret::expose`], which is easy to find in a review.
///
/// ```
/// let key = backstop_hooks::Secret::new("hunter2".to_owned());
/// assert_eq!(format!("{key} {key:?}"), "*** Secret(***)");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T = String>(T);

impl<T> Secret<T> {
    /// Wraps a secret.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// Returns the secret itself. Call it where the secret is used, never to keep the result.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl<T> fmt::Display for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
/// The schema of a value that a hook may clear: where `null` is an answer, and not silence.
pub(crate) struct OrNull<T>(PhantomData<T>);

impl<T: JsonSchema> JsonSchema for OrNull<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("{}OrNull", T::schema_name()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "oneOf": [generator.subschema_for::<T>(), { "const": null }] })
    }
}
