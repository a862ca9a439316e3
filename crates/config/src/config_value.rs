//! How sections are declared, read, described, shown and layered, each from one definition.
//!
//! The [`section!`] macro takes a struct with its docs, the default of each key and the [rule](crate::rules) for repository
//! files. From these it derives the reader (with its unknown-key check), the JSON Schema, the effective-configuration view
//! and the merging of layers. A key therefore can't be accepted but missing from the schema, or exist without a rule for
//! repository files.

use serde_json::{Map, Value, json};

use crate::place::{Allowed, Place, Setting, Spanned};
use crate::problem::{Problem, ProblemKind, quote};
use crate::reader::Reader;
use crate::rules::Admit;
use backstop_yaml::Node;

/// A value that a configuration file can hold: how it is read, described and shown.
pub(crate) trait ConfigValue: Sized {
    /// Reads the value, or records the problem and returns `None`.
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self>;

    /// Returns the value of an absent key, or `None` if the key is required.
    fn absent() -> Option<Self> {
        None
    }

    /// Returns the JSON Schema of the value.
    fn schema() -> Value;

    /// Returns the effective value for display, with secrets masked and the place of each leaf; `Null` if there is none.
    fn show(&self) -> Value;

    /// Returns the same without the places, for comparing. Whatever shows values with places must say it anew.
    fn values(&self) -> Value {
        self.show()
    }
}

/// A leaf for [`ConfigValue::show`].
pub(crate) fn shown(value: Value, at: Option<&Place>) -> Value {
    if value.is_null() {
        return value;
    }
    let from = at.map_or_else(|| "built-in default".to_owned(), ToString::to_string);
    json!({ "value": value, "from": from })
}

/// The keys of a section that have a value; `Null` if none has.
pub(crate) fn keys<const N: usize>(all: [(&str, Value); N]) -> Value {
    let keys = all.into_iter().filter(|(_, value)| !value.is_null());
    let keys: Map<_, _> = keys.map(|(key, value)| (key.to_owned(), value)).collect();
    if keys.is_empty() { Value::Null } else { Value::Object(keys) }
}

impl<T: ConfigValue> ConfigValue for Spanned<T> {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        Some(Self { value: T::read(node, cx)?, at: node.at.clone() })
    }

    fn schema() -> Value {
        T::schema()
    }

    fn show(&self) -> Value {
        shown(self.value.show(), Some(&self.at))
    }

    fn values(&self) -> Value {
        self.value.values()
    }
}

impl<T: ConfigValue> ConfigValue for Option<Spanned<T>> {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        Spanned::read(node, cx).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }

    fn schema() -> Value {
        T::schema()
    }

    fn show(&self) -> Value {
        self.as_ref().map_or(Value::Null, ConfigValue::show)
    }

    fn values(&self) -> Value {
        self.as_ref().map_or(Value::Null, ConfigValue::values)
    }
}

impl<T: ConfigValue> ConfigValue for Setting<T> {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        Some(Self { value: T::read(node, cx)?, at: Some(node.at.clone()) })
    }

    fn schema() -> Value {
        T::schema()
    }

    fn show(&self) -> Value {
        shown(self.value.show(), self.at.as_ref())
    }

    fn values(&self) -> Value {
        self.value.values()
    }
}

impl<T: ConfigValue> ConfigValue for Vec<T> {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        let items = cx.list(node)?;
        let read: Vec<Option<T>> =
            items.iter().enumerate().map(|(index, item)| cx.in_item(index, |cx| T::read(item, cx))).collect();
        read.into_iter().collect()
    }

    fn absent() -> Option<Self> {
        Some(Self::new())
    }

    fn schema() -> Value {
        json!({ "type": "array", "items": T::schema() })
    }

    fn show(&self) -> Value {
        if self.is_empty() { Value::Null } else { self.iter().map(ConfigValue::show).collect() }
    }

    fn values(&self) -> Value {
        if self.is_empty() { Value::Null } else { self.iter().map(ConfigValue::values).collect() }
    }
}

impl<T: ConfigValue> ConfigValue for Allowed<T> {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        Vec::read(node, cx).map(Self)
    }

    fn schema() -> Value {
        Vec::<T>::schema()
    }

    fn show(&self) -> Value {
        self.0.iter().map(ConfigValue::show).collect()
    }

    fn values(&self) -> Value {
        self.0.iter().map(ConfigValue::values).collect()
    }
}

/// A value that may be named in a mapping: what the keys of [`Entries`] are.
pub(crate) trait Key: Sized {
    /// Checks a key; `None` after recording why not.
    fn read(key: &str, at: &Place, cx: &mut Reader<'_>) -> Option<Self>;
    /// Returns the key as written.
    fn as_str(&self) -> &str;
}

/// A mapping whose keys are chosen by the author, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entries<K, T>(Vec<(Spanned<K>, T)>);

impl<K, T> Default for Entries<K, T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K, T> Entries<K, T> {
    /// Returns the entries in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (&Spanned<K>, &T)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// Returns whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn into_vec(self) -> Vec<(Spanned<K>, T)> {
        self.0
    }

    pub(crate) fn push(&mut self, key: Spanned<K>, value: T) {
        self.0.push((key, value));
    }
}

#[expect(
    private_bounds,
    reason = "the bound is how keys are checked; callers only meet the concrete key types"
)]
impl<K: Key, T> Entries<K, T> {
    /// Returns the entry with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&T> {
        self.0.iter().find(|(known, _)| known.value.as_str() == key).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut T> {
        self.0.iter_mut().find(|(known, _)| known.value.as_str() == key).map(|(_, value)| value)
    }

    /// Returns what stands below each key; `Null` if there is none.
    fn map_of(&self, of: impl Fn(&T) -> Value) -> Value {
        let entries: Map<_, _> =
            self.0.iter().map(|(key, value)| (key.value.as_str().to_owned(), of(value))).collect();
        if entries.is_empty() { Value::Null } else { Value::Object(entries) }
    }
}

impl<K: Key, T: ConfigValue> ConfigValue for Entries<K, T> {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        let entries = cx.map(node)?;
        let mut read = Self::default();
        let mut complete = true;
        for entry in entries {
            let found = cx.in_key(&entry.key, |cx| {
                let key = K::read(&entry.key, &entry.key_at, cx);
                let value = T::read(&entry.value, cx);
                Some((key?, value?))
            });
            match found {
                Some((key, _)) if read.get(key.as_str()).is_some() => {
                    let message = format!("`{}` names `{}` a second time", quote(&entry.key), key.as_str());
                    cx.report(Problem::new(ProblemKind::Conflict, entry.key_at.clone(), message));
                    complete = false;
                }
                Some((key, value)) => read.push(Spanned { value: key, at: entry.key_at.clone() }, value),
                None => complete = false,
            }
        }
        complete.then_some(read)
    }

    fn absent() -> Option<Self> {
        Some(Self::default())
    }

    fn schema() -> Value {
        json!({ "type": "object", "additionalProperties": T::schema() })
    }

    fn show(&self) -> Value {
        self.map_of(ConfigValue::show)
    }

    fn values(&self) -> Value {
        self.map_of(ConfigValue::values)
    }
}

/// The pieces of a section's schema that the macro puts together.
pub(crate) struct SectionSchema {
    properties: Map<String, Value>,
    required: Vec<Value>,
    description: String,
}

impl SectionSchema {
    pub(crate) fn new(doc: &str) -> Self {
        Self { properties: Map::new(), required: Vec::new(), description: unwrap_lines(doc) }
    }

    /// Adds a key with its documentation, its default and its rule for repository files.
    pub(crate) fn key<T: ConfigValue, R: Admit<T>>(&mut self, key: &str, doc: &str, absent: Option<T>) {
        let mut schema = T::schema();
        if let Value::Object(schema) = &mut schema {
            schema.insert("description".to_owned(), Value::String(unwrap_lines(doc)));
            schema.insert("x-repository".to_owned(), Value::String(R::DOC.to_owned()));
            match absent.as_ref().map(ConfigValue::show) {
                None => self.required.push(Value::String(key.to_owned())),
                Some(Value::Object(leaf)) => {
                    if let Some(value) = leaf.get("value") {
                        schema.insert("default".to_owned(), value.clone());
                    }
                }
                Some(_) => {}
            }
        }
        self.properties.insert(key.to_owned(), schema);
    }

    pub(crate) fn finish(self) -> Value {
        let mut schema = json!({
            "type": "object",
            "description": self.description,
            "properties": self.properties,
            "additionalProperties": false,
        });
        if let (Value::Object(schema), false) = (&mut schema, self.required.is_empty()) {
            schema.insert("required".to_owned(), Value::Array(self.required));
        }
        schema
    }
}

/// Joins the lines of a doc comment, keeping paragraphs.
fn unwrap_lines(doc: &str) -> String {
    let paragraphs = doc.split("\n\n").map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    paragraphs.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// Declares a section: a struct whose fields are keys, all of which may be absent.
///
/// Each field is written `name ("key"): Type [= default], Rule;`. The doc comments become the schema's descriptions.
macro_rules! section {
    (
        $(#[doc = $doc:literal])*
        pub struct $name:ident {
            $( $(#[doc = $field_doc:literal])* $field:ident ($key:literal): $ty:ty $(= $default:expr)?, $rule:ident; )*
        }
    ) => {
        $crate::config_value::fields! {
            $(#[doc = $doc])*
            pub struct $name {
                $( $(#[doc = $field_doc])* $field ($key): $ty $(= $default)?, $rule; )*
            }
            absent: Some(Self::default())
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $crate::config_value::fields!(@default $ty $(, $default)?), )* }
            }
        }

        impl $crate::rules::Tighten for $name {
            fn tighten(&mut self, repository: Self, cx: &mut $crate::reader::Reader<'_>) {
                $(
                    cx.in_key($key, |cx| {
                        <$crate::rules::$rule as $crate::rules::Rule<$ty>>::tighten(
                            &mut self.$field, repository.$field, cx);
                    });
                )*
            }
        }
    };
}
pub(crate) use section;

/// Declares an entry of a list or mapping, in the form of [`section!`]: it may have keys that must be there, and layers
/// take or leave it as a whole. `check: method;` after the struct names what looks at several keys together.
macro_rules! item {
    ($($declaration:tt)*) => { $crate::config_value::fields! { $($declaration)* absent: None } };
}
pub(crate) use item;

/// What [`section!`] and [`item!`] have in common.
macro_rules! fields {
    (
        $(#[doc = $doc:literal])*
        pub struct $name:ident {
            $( $(#[doc = $field_doc:literal])* $field:ident ($key:literal): $ty:ty $(= $default:expr)?, $rule:ident; )*
        }
        $(check: $check:ident;)?
        absent: $absent:expr
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $( $(#[doc = $field_doc])* pub $field: $ty, )*
        }

        impl $crate::config_value::ConfigValue for $name {
            fn read(node: &backstop_yaml::Node, cx: &mut $crate::reader::Reader<'_>) -> Option<Self> {
                let entries = cx.map(node)?;
                cx.known_keys(entries, &[$($key),*]);
                $(
                    let $field = cx.key::<$ty, $crate::rules::$rule>(
                        node, $key, || $crate::config_value::fields!(@absent $ty $(, $default)?));
                )*
                let read = Self { $($field: $field?,)* };
                $(read.$check(cx)?;)?
                Some(read)
            }

            fn absent() -> Option<Self> {
                $absent
            }

            fn schema() -> serde_json::Value {
                let mut schema = $crate::config_value::SectionSchema::new(concat!($($doc, "\n"),*));
                $(
                    schema.key::<$ty, $crate::rules::$rule>(
                        $key, concat!($($field_doc, "\n"),*), $crate::config_value::fields!(@absent $ty $(, $default)?));
                )*
                schema.finish()
            }

            fn show(&self) -> serde_json::Value {
                $crate::config_value::keys([
                    $(($key, $crate::config_value::ConfigValue::show(&self.$field))),*
                ])
            }

            fn values(&self) -> serde_json::Value {
                $crate::config_value::keys([
                    $(($key, $crate::config_value::ConfigValue::values(&self.$field))),*
                ])
            }
        }
    };
    (@absent $ty:ty) => { <$ty as $crate::config_value::ConfigValue>::absent() };
    (@absent $ty:ty, $default:expr) => { Some($crate::place::Setting::built_in($default)) };
    (@default $ty:ty) => { <$ty as Default>::default() };
    (@default $ty:ty, $default:expr) => { $crate::place::Setting::built_in($default) };
}
pub(crate) use fields;
