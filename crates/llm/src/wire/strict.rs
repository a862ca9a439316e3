//! JSON in which each key stands once.
//!
//! Readers disagree about an object that has a key twice: most take the last value, some the first. What was
//! judged would not be what runs, so such text is refused.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

/// Parses JSON and refuses objects that have a key twice, at any depth.
///
/// # Errors
/// If the bytes are not JSON, or a key stands twice.
pub fn parse_json(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Strict.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

#[derive(Clone, Copy)]
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            array.push(item);
        }
        Ok(array.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            match object.entry(key) {
                Entry::Vacant(place) => place.insert(entries.next_value_seed(self)?),
                Entry::Occupied(_) => return Err(A::Error::custom("a key stands twice")),
            };
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_json_is_read_as_usual() {
        for text in
            ["null", "[1,-2,1.5,\"x\\u00e9\",true]", "{\"b\":{\"a\":[]},\"a\":{}}", "18446744073709551615"]
        {
            let usual: Value = serde_json::from_str(text).unwrap();
            assert_eq!(parse_json(text.as_bytes()).unwrap(), usual);
        }
        assert!(parse_json(b"{} x").is_err());
        assert!(parse_json(&[b'['; 100_000]).is_err());
    }

    #[test]
    fn keys_stand_once() {
        for text in ["{\"a\":1,\"a\":1}", "[{\"x\":{\"a\":1,\"b\":2,\"a\":3}}]", "{\"a\":1,\"\\u0061\":2}"] {
            assert!(parse_json(text.as_bytes()).unwrap_err().to_string().starts_with("a key stands twice"));
        }
    }
}
