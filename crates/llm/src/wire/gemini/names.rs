//! The two spellings of field names.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::error::WireError;
use crate::wire::json::malformed;

/// The object with its own field names in the documented spelling; those of objects inside stay as they are.
///
/// # Errors
/// If a field stands in both spellings: readers would differ in which one counts.
pub(super) fn canonical<'a>(what: &'static str, value: &'a Value) -> Result<Cow<'a, Value>, WireError> {
    let Value::Object(fields) = value else { return Ok(Cow::Borrowed(value)) };
    if !fields.keys().any(|key| is_snake(key)) {
        return Ok(Cow::Borrowed(value));
    }
    let mut renamed = Map::with_capacity(fields.len());
    for (key, value) in fields {
        let name = if is_snake(key) { camel(key) } else { key.clone() };
        if renamed.insert(name, value.clone()).is_some() {
            return Err(malformed(what, key, "stands twice, in two spellings"));
        }
    }
    Ok(Cow::Owned(Value::Object(renamed)))
}

/// Whether a name can be a field's in the other spelling: words of small letters. What is anything else stays as it is, and is
/// shown so.
fn is_snake(name: &str) -> bool {
    name.contains('_') && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// `function_call` as `functionCall`.
fn camel(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut raise = false;
    for c in name.chars() {
        match c {
            '_' if !out.is_empty() => raise = true,
            c if std::mem::take(&mut raise) => out.push(c.to_ascii_uppercase()),
            c => out.push(c),
        }
    }
    out
}

/// A list; a single object stands for a list of one, nothing (or null) for an empty one.
pub(super) fn list<'a>(
    what: &'static str,
    field: &str,
    value: Option<&'a Value>,
) -> Result<&'a [Value], WireError> {
    match value {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(one @ Value::Object(_)) => Ok(std::slice::from_ref(one)),
        Some(_) => Err(malformed(what, field, "is not an array")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_spellings_are_one_field() {
        let value = json!({"function_call": {"inner_key": 1}, "text": "x", "_own": 1});
        let expected = json!({"functionCall": {"inner_key": 1}, "text": "x", "_own": 1});
        assert_eq!(*canonical("part", &value).unwrap(), expected);
        assert!(matches!(canonical("part", &expected).unwrap(), Cow::Owned(_)));
        assert!(matches!(canonical("part", &json!({"a": {"b_c": 1}})).unwrap(), Cow::Borrowed(_)));
        let both = json!({"function_call": {}, "functionCall": {}});
        assert!(canonical("part", &both).unwrap_err().to_string().contains("two spellings"));
    }

    #[test]
    fn a_single_object_is_a_list_of_one() {
        assert_eq!(list("x", "y", Some(&json!({"a": 1}))).unwrap(), [json!({"a": 1})]);
        assert_eq!(list("x", "y", Some(&json!([1, 2]))).unwrap().len(), 2);
        assert!(list("x", "y", None).unwrap().is_empty());
        assert!(list("x", "y", Some(&json!("a"))).is_err());
    }
}
