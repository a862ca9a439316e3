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
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Text that somebody wrote: a prompt, an answer, a reason. `Debug` shows its length only.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(description = "Text that somebody wrote: a prompt, an answer, a reason.")]
pub struct Text(Arc<str>);

impl Text {
    /// Wraps text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// Returns the text itself.
    pub fn as_str(&self) -> &str {
        &self.0
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
        &self.0
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
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

/// Any JSON value. `Debug` shows its kind only.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(description = "Any JSON value.")]
pub struct Json(Arc<Value>);

impl Json {
    /// Wraps a value.
    pub fn new(value: Value) -> Self {
        Self(Arc::new(value))
    }

    /// Returns a copy of the value.
    pub fn to_value(&self) -> Value {
        self.0.as_ref().clone()
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
        &self.0
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        Self::new(value)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self.0 {
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
