//! The fields of a JSON object, each as it was written.

use std::borrow::Cow;
use std::collections::HashSet;

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde_json::Value;

/// The most fields of an object. No request of the wires has a tenth of them, and each look at one goes through them all.
pub(crate) const MOST: usize = 512;

/// The fields of an object, in their order.
#[derive(Debug)]
pub(super) struct Fields<'a>(Vec<(String, Cow<'a, str>)>);

impl<'a> Fields<'a> {
    /// The fields of a document; `None` if it is no object, or has a key twice or more than [`MOST`] fields.
    pub(super) fn of(document: &'a [u8]) -> Option<Self> {
        // What follows goes by a document that is sound.
        serde_json::from_slice::<IgnoredAny>(document).ok()?;
        let text = str::from_utf8(document).ok()?;
        let mut rest = text.trim_start().strip_prefix('{')?.trim_start();
        let mut fields = Self(Vec::new());
        while !rest.starts_with('}') {
            let (key, after) = rest.split_at_checked(length(rest))?;
            let after = after.trim_start().strip_prefix(':')?.trim_start();
            let (value, after) = after.split_at_checked(length(after))?;
            let key: String = serde_json::from_str(key.trim_end()).ok()?;
            if fields.0.len() == MOST {
                return None;
            }
            fields.0.push((key, Cow::Borrowed(value.trim_end())));
            rest = after.strip_prefix(',').unwrap_or(after).trim_start();
        }
        let keys: HashSet<&str> = fields.0.iter().map(|(key, _)| key.as_str()).collect();
        (keys.len() == fields.0.len()).then_some(fields)
    }

    /// The field as it was written.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_ref())
    }

    /// What the field says; `None` if it is not there, or can't be said.
    pub(super) fn value(&self, key: &str) -> Option<Value> {
        serde_json::from_str(self.get(key)?).ok()
    }

    /// Makes a field say this: in its place, or as the first.
    pub(super) fn set(&mut self, key: &str, value: &Value) {
        let written = Cow::Owned(value.to_string());
        match self.0.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = written,
            None => self.0.insert(0, (key.to_owned(), written)),
        }
    }

    /// Takes a field out.
    pub(super) fn remove(&mut self, key: &str) {
        self.0.retain(|(known, _)| known != key);
    }

    /// The object.
    pub(super) fn write(&self) -> Bytes {
        let field = |(key, value): &(String, Cow<'_, str>)| format!("{}:{value}", Value::from(key.as_str()));
        let fields: Vec<String> = self.0.iter().map(field).collect();
        format!("{{{}}}", fields.join(",")).into()
    }
}

/// The length of the value at the beginning of a text, up to what ends it: a comma, a colon or a bracket.
fn length(text: &str) -> usize {
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' | b':' if depth == 0 => return at,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Map;

    use super::*;

    fn put(document: &[u8], key: &str) -> Bytes {
        let mut fields = Fields::of(document).unwrap();
        fields.set(key, &"m".into());
        fields.write()
    }

    #[test]
    fn fields_are_as_they_were_written() {
        let text =
            "\n{ \"a\\u0062\" : {\"x\": \"}\\\",\"} , \"b\":[1.50, {}] ,\"c\":-1e400,\"d\":\"\u{fc}\"\t}";
        let fields = Fields::of(text.as_bytes()).unwrap();
        assert_eq!(fields.get("ab"), Some("{\"x\": \"}\\\",\"}"));
        assert_eq!(fields.get("b"), Some("[1.50, {}]"));
        assert_eq!(fields.get("c"), Some("-1e400"));
        assert_eq!(fields.get("d"), Some("\"\u{fc}\""));
        assert_eq!(fields.get("e"), None);
        for unclear in ["", "[]", "{", "{} {}", "\"a\"", "{\"a\":1,\"\\u0061\":2}", "\u{feff}{}"] {
            assert!(Fields::of(unclear.as_bytes()).is_none(), "{unclear}");
        }
        assert_eq!(put(b" { } ", "a"), r#"{"a":"m"}"#);
        let mut fields = Fields::of(text.as_bytes()).unwrap();
        fields.remove("ab");
        fields.remove("b");
        assert_eq!(fields.write(), "{\"c\":-1e400,\"d\":\"\u{fc}\"}");
    }

    #[test]
    fn an_object_of_countless_fields_is_none() {
        let of = |count: usize| {
            let fields: Vec<String> = (0..count).map(|number| format!("\"{number}\":0")).collect();
            format!("{{{}}}", fields.join(","))
        };
        assert_eq!(Fields::of(of(MOST).as_bytes()).unwrap().0.len(), MOST);
        assert!(Fields::of(of(MOST + 1).as_bytes()).is_none());
    }

    proptest! {
        #[test]
        fn what_is_put_in_changes_nothing_else(
            entries in prop::collection::btree_map("[a-c\"\\\\\u{e9}]{0,3}", "[{}\\[\\],:\"\\\\ a]{0,6}", 0..5),
            spaced in any::<bool>(),
        ) {
            let object: Map<String, Value> =
                entries.iter().map(|(key, value)| (key.clone(), serde_json::json!([{"t": value}, value]))).collect();
            let object = Value::from(object);
            let text = if spaced { format!("{object:#}") } else { object.to_string() };
            let mut expected = object;
            expected["model"] = "m".into();
            let written = put(text.as_bytes(), "model");
            prop_assert_eq!(serde_json::from_slice::<Value>(&written).unwrap(), expected);
            prop_assert_eq!(put(&written, "model"), written);
        }
    }
}
