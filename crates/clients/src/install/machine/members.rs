//! Members of a JSON file that belongs to the administrator: put in beside what is there, and taken out again.

use jsonc_parser::ast::{Object, Value as Node};
use jsonc_parser::common::Ranged as _;
use serde_json::{Value, json};

use crate::install::edit::{self, ConfigError, Entry, line_of, member};

/// What has to stand in a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Member {
    /// The key at the end of the path has this value.
    Is(&'static [&'static str], Value),
    /// The list at the end of the path has this element.
    Has(&'static [&'static str], Value),
}

impl Member {
    fn path(&self) -> &'static [&'static str] {
        match self {
            Self::Is(path, _) | Self::Has(path, _) => path,
        }
    }

    fn value(&self) -> &Value {
        match self {
            Self::Is(_, value) | Self::Has(_, value) => value,
        }
    }
}

/// The text with the member in it.
///
/// # Errors
///
/// [`ConfigError::Differs`] where the key says something else already: that is somebody's decision.
pub(super) fn put(text: &str, wanted: &Member) -> Result<String, ConfigError> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let node = edit::parse(text)?;
    let mut object = object(text, node.as_ref(), "the whole file")?;
    let Some((last, above)) = wanted.path().split_last() else { return Ok(text.to_owned()) };
    for (depth, key) in above.iter().enumerate() {
        match member(text, object, key)? {
            Some(found) => object = self::object(text, Some(&found.value), key)?,
            None => {
                // All that is missing, in one piece.
                let rest = wanted.path().get(depth + 1..).unwrap_or_default();
                let value = nested(rest, leaf(wanted));
                return Ok(edit::append(text, &object.into(), Entry { key: Some(key), value: &value }));
            }
        }
    }
    let Some(found) = member(text, object, last)? else {
        return Ok(edit::append(text, &object.into(), Entry { key: Some(last), value: &leaf(wanted) }));
    };
    match wanted {
        Member::Is(_, value) if edit::value_of(&found.value) == *value => Ok(text.to_owned()),
        Member::Is(path, value) => Err(ConfigError::Differs {
            key: path.join("."),
            line: line_of(text, found.start()),
            wanted: value.to_string(),
        }),
        Member::Has(_, value) => {
            let list = found.value.as_array().ok_or_else(|| ConfigError::Shape {
                key: (*last).to_owned(),
                line: line_of(text, found.start()),
                expected: "an array",
            })?;
            if list.elements.iter().any(|element| edit::value_of(element) == *value) {
                return Ok(text.to_owned());
            }
            Ok(edit::append(text, &list.into(), Entry { key: None, value }))
        }
    }
}

/// The text without the member, and without what that leaves empty. What says something else stays.
pub(super) fn take(text: &str, wanted: &Member) -> Result<String, ConfigError> {
    let mut text = match wanted {
        Member::Is(path, value) => without(text, path, &|found| found == value)?,
        Member::Has(path, value) => {
            let (shorter, is_empty) = without_element(text, path, value)?;
            if is_empty { without(&shorter, path, &|_| true)? } else { shorter }
        }
    };
    let mut path = wanted.path();
    while let Some((_, above)) = path.split_last().filter(|(_, above)| !above.is_empty()) {
        text = without(&text, above, &|found| *found == json!({}))?;
        path = above;
    }
    Ok(text)
}

fn leaf(wanted: &Member) -> Value {
    match wanted {
        Member::Is(..) => wanted.value().clone(),
        Member::Has(..) => json!([wanted.value()]),
    }
}

fn nested(path: &[&str], value: Value) -> Value {
    path.iter().rev().fold(value, |value, key| json!({ (*key): value }))
}

fn object<'n, 'a>(text: &str, node: Option<&'n Node<'a>>, key: &str) -> Result<&'n Object<'a>, ConfigError> {
    let line = node.map_or(1, |node| line_of(text, node.start()));
    node.and_then(Node::as_object).ok_or_else(|| ConfigError::Shape {
        key: key.to_owned(),
        line,
        expected: "an object",
    })
}

/// The object that holds the end of the path, if it is there.
fn holder<'n, 'a>(root: &'n Node<'a>, above: &[&str]) -> Option<&'n Object<'a>> {
    above.iter().try_fold(root.as_object()?, |object, key| {
        object.properties.iter().find(|member| member.name.as_str() == *key)?.value.as_object()
    })
}

fn without(text: &str, path: &[&str], is_it: &dyn Fn(&Value) -> bool) -> Result<String, ConfigError> {
    let node = edit::parse(text)?;
    let Some((last, above)) = path.split_last() else { return Ok(text.to_owned()) };
    let Some(object) = node.as_ref().and_then(|root| holder(root, above)) else { return Ok(text.to_owned()) };
    let found = object
        .properties
        .iter()
        .position(|member| member.name.as_str() == *last && is_it(&edit::value_of(&member.value)));
    Ok(found.map_or_else(|| text.to_owned(), |place| edit::remove(text, &object.into(), place)))
}

/// The text without the element of the list at the end of the path, and whether the list is empty then.
fn without_element(text: &str, path: &[&str], value: &Value) -> Result<(String, bool), ConfigError> {
    let node = edit::parse(text)?;
    let unchanged = || Ok((text.to_owned(), false));
    let Some((last, above)) = path.split_last() else { return unchanged() };
    let Some(object) = node.as_ref().and_then(|root| holder(root, above)) else { return unchanged() };
    let list = object.properties.iter().find(|member| member.name.as_str() == *last);
    let Some(list) = list.and_then(|member| member.value.as_array()) else { return unchanged() };
    match list.elements.iter().position(|element| edit::value_of(element) == *value) {
        Some(place) => Ok((edit::remove(text, &list.into(), place), list.elements.len() == 1)),
        None => unchanged(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> [Member; 4] {
        [
            Member::Is(&["lock"], json!(true)),
            Member::Is(&["known", "backstop"], json!({ "source": "x" })),
            Member::Is(&["a", "b", "c"], json!("d")),
            Member::Has(&["plugin"], json!("file:///x")),
        ]
    }

    #[test]
    fn members_stand_beside_what_is_there_and_go_without_a_trace() {
        for before in [
            "{}\n",
            "{\n  // theirs\n  \"theirs\": 1,\n  \"known\": { \"other\": 2 }, // kept\n  \"plugin\": [\"y\"]\n}\n",
            "{\"a\": {\"b\": {\"x\": 1}}}",
        ] {
            let mut text = before.to_owned();
            for member in all() {
                text = put(&text, &member).unwrap();
                assert_eq!(put(&text, &member).unwrap(), text, "twice is once");
            }
            for member in all().iter().rev() {
                text = take(&text, member).unwrap();
            }
            assert_eq!(text, before);
        }
    }

    #[test]
    fn what_somebody_decided_otherwise_is_left_and_named() {
        let error = put("{\n  \"lock\": false\n}", &all()[0]).unwrap_err().to_string();
        assert!(error.contains("`lock` at line 2"), "{error}");
        assert!(put("{\"a\": 1}", &all()[2]).is_err());
        assert_eq!(take("{\"lock\": false}", &all()[0]).unwrap(), "{\"lock\": false}");
    }
}
