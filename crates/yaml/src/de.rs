//! From a tree to any type that `serde` can read.
//!
//! A type says what it wants and `serde` says what is wrong; the place is that of the innermost value that was being
//! read, or of the key where the key is what is wrong.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer as _, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::place::Place;
use crate::problem::{Problem, ProblemKind, quote, suggestion};
use crate::tree::{Entry, Kind, Node};

impl Node {
    /// Reads the value as a `T`.
    ///
    /// # Errors
    ///
    /// The first value that `T` does not accept, at its place; for an unknown key or word with the nearest known one.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        T::deserialize(Value(self)).map_err(|wrong| wrong.at(&self.at))
    }
}

/// What is wrong, before it is known where.
#[derive(Debug)]
struct Wrong {
    kind: ProblemKind,
    message: String,
    hint: Option<String>,
    place: Option<Place>,
}

impl Wrong {
    fn new(kind: ProblemKind, message: String) -> Self {
        Self { kind, message, hint: None, place: None }
    }

    /// The same at this place, unless a place inside of it is known.
    fn within(mut self, place: &Place) -> Self {
        self.place.get_or_insert_with(|| place.clone());
        self
    }

    fn at(self, place: &Place) -> Problem {
        let Self { kind, message, hint, place: known } = self.within(place);
        let problem = Problem::new(kind, known.unwrap_or_else(|| place.clone()), message);
        match hint {
            Some(hint) => problem.with_hint(hint),
            None => problem,
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Wrong {}

impl Error for Wrong {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(ProblemKind::BadValue, message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn serde::de::Expected) -> Self {
        let expected = expected.to_string();
        let wanted = wanted(&expected);
        let wrong = Self::custom(format_args!("expected {wanted}, found {}", shown(found)));
        let is_text = wanted == "a string";
        match found {
            Unexpected::Bool(_) | Unexpected::Signed(_) | Unexpected::Float(_) | Unexpected::Unit
                if is_text =>
            {
                Self {
                    hint: Some("a text that looks like something else is written in quotes".to_owned()),
                    ..wrong
                }
            }
            _ => wrong,
        }
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let hint = Some(suggestion(field, expected, "keys"));
        Self { hint, ..Self::new(ProblemKind::UnknownKey, format!("unknown key `{}`", quote(field))) }
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let hint = Some(suggestion(variant, expected, "words"));
        Self { hint, ..Self::new(ProblemKind::BadValue, format!("unknown word `{}`", quote(variant))) }
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(ProblemKind::MissingKey, format!("`{field}` is missing"))
    }
}

/// What was found, without its text: it may be a secret in the wrong place.
/// What was expected, in the words of the file and not in those of the program that reads it.
fn wanted(expected: &str) -> &str {
    match expected {
        "a sequence" => "a list",
        "a map" => "a mapping",
        "a boolean" => "a truth value",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number that is not negative",
        "f32" | "f64" => "a number",
        _ if expected.starts_with("struct ") => "a mapping",
        _ if expected.starts_with("tuple ") => "a list",
        _ if expected.starts_with("enum ") => "a word",
        _ => expected,
    }
}

fn shown(found: Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "a truth value",
        Unexpected::Signed(_) | Unexpected::Unsigned(_) | Unexpected::Float(_) => "a number",
        Unexpected::Str(_) | Unexpected::Char(_) | Unexpected::Bytes(_) => "a text",
        Unexpected::Unit | Unexpected::Option => "nothing",
        Unexpected::Seq => "a list",
        Unexpected::Map => "a mapping",
        _ => "something else",
    }
}

/// A node as `serde` asks for it.
struct Value<'n>(&'n Node);

impl<'de> Deserializer<'de> for Value<'_> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let read = match &self.0.kind {
            Kind::Null => visitor.visit_unit(),
            Kind::Bool(value) => visitor.visit_bool(*value),
            Kind::Integer(value) => visitor.visit_i64(*value),
            Kind::Number(value) => visitor.visit_f64(*value),
            Kind::Text(text) => visitor.visit_str(text),
            Kind::List(items) => visitor.visit_seq(Items(items.iter())),
            Kind::Map(entries) => visitor.visit_map(Entries { entries: entries.iter(), value: None }),
        };
        read.map_err(|wrong| wrong.within(&self.0.at))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.0.kind {
            Kind::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_newtype_struct(self)
    }

    /// A word, or a mapping whose one key is the word.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let read = match &self.0.kind {
            Kind::Text(word) => visitor.visit_enum(Choice { word, at: &self.0.at, content: None }),
            Kind::Map(entries) => match entries.as_slice() {
                [entry] => visitor.visit_enum(Choice {
                    word: &entry.key,
                    at: &entry.key_at,
                    content: Some(&entry.value),
                }),
                _ => Err(Wrong::custom("expected one key here")),
            },
            _ => Err(Wrong::custom(format_args!("expected a word, found {}", self.0.shape()))),
        };
        read.map_err(|wrong| wrong.within(&self.0.at))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

struct Items<'n>(std::slice::Iter<'n, Node>);

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Wrong;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Wrong> {
        self.0
            .next()
            .map(|item| seed.deserialize(Value(item)).map_err(|wrong| wrong.within(&item.at)))
            .transpose()
    }
}

struct Entries<'n> {
    entries: std::slice::Iter<'n, Entry>,
    value: Option<&'n Node>,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Wrong;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Wrong> {
        let Some(entry) = self.entries.next() else { return Ok(None) };
        self.value = Some(&entry.value);
        let key: StrDeserializer<'_, Wrong> = entry.key.as_str().into_deserializer();
        seed.deserialize(key).map(Some).map_err(|wrong| wrong.within(&entry.key_at))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Wrong> {
        let value = self.value.take().ok_or_else(|| Wrong::custom("a value was asked for before its key"))?;
        seed.deserialize(Value(value)).map_err(|wrong| wrong.within(&value.at))
    }
}

/// One word of several, and what stands behind it.
struct Choice<'n> {
    word: &'n str,
    at: &'n Place,
    content: Option<&'n Node>,
}

impl<'de, 'n> EnumAccess<'de> for Choice<'n> {
    type Error = Wrong;
    type Variant = Content<'n>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Content<'n>), Wrong> {
        let word: StrDeserializer<'_, Wrong> = self.word.into_deserializer();
        let read = seed.deserialize(word).map_err(|wrong| wrong.within(self.at))?;
        Ok((read, Content(self.content)))
    }
}

struct Content<'n>(Option<&'n Node>);

impl<'n> Content<'n> {
    fn value(self) -> Result<Value<'n>, Wrong> {
        self.0.map(Value).ok_or_else(|| Wrong::custom("this word needs a value behind it"))
    }
}

impl<'de> VariantAccess<'de> for Content<'_> {
    type Error = Wrong;

    fn unit_variant(self) -> Result<(), Wrong> {
        match self.0 {
            None => Ok(()),
            Some(node) => Err(Wrong::custom("this word takes no value").within(&node.at)),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Wrong> {
        seed.deserialize(self.value()?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Wrong> {
        self.value()?.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        self.value()?.deserialize_any(visitor)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde::Deserialize;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case", deny_unknown_fields)]
    struct Entry {
        name: String,
        #[serde(default)]
        most: Option<u8>,
        #[serde(default)]
        when: Vec<When>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case", deny_unknown_fields)]
    enum When {
        Always,
        Named(Vec<String>),
        Sized { at_least: u32 },
    }

    fn read(text: &str) -> Result<Vec<Entry>, String> {
        let file: Arc<str> = Arc::from("x.yaml");
        let root = crate::parse(&file, text).map_err(|problem| problem.to_string())?;
        let root = root.ok_or("nothing")?;
        root.read().map_err(|problem| problem.to_string())
    }

    #[test]
    fn a_tree_is_read_as_what_a_type_wants() {
        let text = "- name: a\n  most: 3\n  when: [always, {named: [x, 'y']}, {sized: {at_least: 7}}]\n- {\"name\": \"b\"}\n";
        let when = vec![When::Always, When::Named(vec!["x".into(), "y".into()]), When::Sized { at_least: 7 }];
        let first = Entry { name: "a".into(), most: Some(3), when };
        assert_eq!(read(text), Ok(vec![first, Entry { name: "b".into(), most: None, when: Vec::new() }]));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place_and_the_nearest_word() {
        for (text, wanted) in [
            ("- nme: a", "error: unknown key `nme`\n  --> x.yaml:1:3\n  hint: did you mean `name`?"),
            ("- most: 1", "error: `name` is missing\n  --> x.yaml:1:3"),
            (
                "- name: 7",
                "error: expected a string, found a number\n  --> x.yaml:1:9\n  hint: a text that looks like something \
                 else is written in quotes",
            ),
            ("- a", "error: expected a mapping, found a text\n  --> x.yaml:1:3"),
            ("- name: a\n  when: 7", "error: expected a list, found a number\n  --> x.yaml:2:9"),
            ("- name: [a]", "error: expected a string, found a list\n  --> x.yaml:1:9"),
            (
                "- name: a\n  when:\n    - alway",
                "error: unknown word `alway`\n  --> x.yaml:3:7\n  hint: did you mean `always`?",
            ),
            (
                "- name: a\n  when:\n    - sized: {at_lest: 3}",
                "error: unknown key `at_lest`\n  --> x.yaml:3:15\n  hint: did you mean `at_least`?",
            ),
            ("- name: a\n  when:\n    - named", "error: this word needs a value behind it\n  --> x.yaml:3:7"),
            ("- name: a\n  when: [{always: 1}]", "error: this word takes no value\n  --> x.yaml:2:19"),
            ("- name: a\n  when: [{}]", "error: expected one key here\n  --> x.yaml:2:10"),
        ] {
            assert_eq!(read(text), Err(wanted.to_owned()), "{text}");
        }
        let too_large = read("- name: a\n  most: 300").unwrap_err();
        assert!(too_large.contains("x.yaml:2:9"), "{too_large}");
    }
}
