//! The fields of a JSON object, each as it was written.

use serde::de::IgnoredAny;

/// The fields of an object, in their order.
#[derive(Debug)]
pub(super) struct Fields<'a>(Vec<(String, &'a str)>);

impl<'a> Fields<'a> {
    /// The fields of a document; `None` if it is no object, or has a key twice.
    pub(super) fn of(document: &'a [u8]) -> Option<Self> {
        // What follows goes by a document that is sound.
        serde_json::from_slice::<IgnoredAny>(document).ok()?;
        let text = str::from_utf8(document).ok()?;
        let mut rest = text.trim_start().strip_prefix('{')?.trim_start();
        let mut fields: Vec<(String, &'a str)> = Vec::new();
        while !rest.starts_with('}') {
            let (key, after) = rest.split_at_checked(length(rest))?;
            let after = after.trim_start().strip_prefix(':')?.trim_start();
            let (value, after) = after.split_at_checked(length(after))?;
            let key: String = serde_json::from_str(key.trim_end()).ok()?;
            if fields.iter().any(|(known, _)| *known == key) {
                return None;
            }
            fields.push((key, value.trim_end()));
            rest = after.strip_prefix(',').unwrap_or(after).trim_start();
        }
        Some(Self(fields))
    }

    /// The field as it was written.
    pub(super) fn get(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| *value)
    }

    /// The object, in which `key` is `value`, which is JSON: in its place, or as the first.
    pub(super) fn with(&self, key: &str, value: &str) -> String {
        let quoted = serde_json::Value::from(key);
        let own = || self.0.iter().map(|(known, old)| (known, if known == key { value } else { *old }));
        let mut parts: Vec<String> =
            own().map(|(key, value)| format!("{}:{value}", serde_json::Value::from(key.as_str()))).collect();
        if self.get(key).is_none() {
            parts.insert(0, format!("{quoted}:{value}"));
        }
        format!("{{{}}}", parts.join(","))
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
    use serde_json::{Map, Value};

    use super::*;

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
        assert_eq!(Fields::of(b" { } ").unwrap().with("a", "1"), "{\"a\":1}");
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
            let fields = Fields::of(text.as_bytes()).unwrap();
            let mut expected = object;
            expected["model"] = "m".into();
            let written: Value = serde_json::from_str(&fields.with("model", "\"m\"")).unwrap();
            prop_assert_eq!(&written, &expected);
            let again = fields.with("model", "\"m\"");
            prop_assert_eq!(Fields::of(again.as_bytes()).unwrap().with("model", "\"m\""), again);
        }
    }
}
