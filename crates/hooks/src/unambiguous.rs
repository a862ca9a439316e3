//! JSON that all readers read alike.
//!
//! Readers disagree about an object that has a key twice: most take the last value, some the first. Of an answer that says `"block": true`
//! and `"block": false` nobody knows which was meant, so it is no answer.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

/// A JSON value in which no object has a key twice, at any depth. Reading one that has is an error.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unambiguous(pub Value);

impl Unambiguous {
    /// Reads a JSON text.
    ///
    /// # Errors
    ///
    /// Where the bytes are no JSON, or an object has a key twice. The error names the place and quotes nothing.
    pub fn read(bytes: &[u8]) -> Result<Value, serde_json::Error> {
        serde_json::from_slice::<Self>(bytes).map(|read| read.0)
    }
}

impl<'de> Deserialize<'de> for Unambiguous {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Unambiguous;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Unambiguous, E> {
        Ok(Unambiguous(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Unambiguous, E> {
        Ok(Unambiguous(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Unambiguous, E> {
        Ok(Unambiguous(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Unambiguous, E> {
        Ok(Unambiguous(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Unambiguous, E> {
        Ok(Unambiguous(Number::from_f64(value).map_or(Value::Null, Value::Number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Unambiguous, E> {
        Ok(Unambiguous(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Unambiguous, E> {
        Ok(Unambiguous(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Unambiguous, A::Error> {
        let mut list = Vec::new();
        while let Some(Unambiguous(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Unambiguous(list.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Unambiguous, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            match object.entry(key) {
                Entry::Vacant(place) => place.insert(entries.next_value::<Unambiguous>()?.0),
                Entry::Occupied(_) => return Err(A::Error::custom("a key stands twice")),
            };
        }
        Ok(Unambiguous(object.into()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            "\\PC{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inside| {
            prop_oneof![
                prop::collection::vec(inside.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z]{1,4}", inside, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_has_each_key_once_is_read_as_it_stands(value in json()) {
            let text = value.to_string();
            prop_assert_eq!(Unambiguous::read(text.as_bytes()).unwrap(), value);
        }

        #[test]
        fn a_key_that_stands_twice_is_refused_however_deep(
            first in json(), second in json(), key in "[a-z]{1,4}", around in prop::collection::vec(any::<bool>(), 0..8),
        ) {
            let escaped: String = key.bytes().map(|byte| format!("\\u{byte:04x}")).collect();
            for again in [&key, &escaped] {
                let twice = format!(r#"{{"{key}":{first},"z-":0,"{again}":{second}}}"#);
                let text = around.iter().fold(twice, |inner, is_list| match is_list {
                    true => format!("[1,{inner}]"),
                    false => format!(r#"{{"a":1,"b":{inner}}}"#),
                });
                let error = Unambiguous::read(text.as_bytes()).unwrap_err().to_string();
                prop_assert!(error.starts_with("a key stands twice"), "{}: {}", text, error);
            }
        }
    }
}
