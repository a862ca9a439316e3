//! Secrets that a tool may use and the model never sees.
//!
//! A vault belongs to one session and lives in memory only. What a [`Redactor`](super::Redactor) removes
//! is kept here under a placeholder (`{{secret:github_token:1}}`), the same for the same value. It is put
//! back only into the arguments of those tools that the operator lists. Whoever writes a placeholder into
//! the arguments of a listed tool gets the value sent there, so list only tools that need it.
//!
//! A vault is bounded in number and bytes: a full vault stores nothing more, and further values are redacted permanently.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::Class;

/// The secrets of one session.
pub struct Vault {
    tools: HashSet<String>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    placeholders: HashMap<String, String>,
    values: HashMap<String, String>,
    numbers: HashMap<&'static str, usize>,
    /// The values that some tool was given, which may echo them.
    given: HashSet<String>,
    bytes: usize,
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vault").field("tools", &self.tools).field("kept", &self.len()).finish_non_exhaustive()
    }
}

impl Vault {
    /// How many values a vault keeps.
    pub const MOST_VALUES: usize = 1024;
    /// How many bytes of values a vault keeps.
    pub const MOST_BYTES: usize = 1024 * 1024;

    /// Creates an empty vault that returns values only to `tools`, by their exact names.
    pub fn new<T: Into<String>>(tools: impl IntoIterator<Item = T>) -> Self {
        Self { tools: tools.into_iter().map(Into::into).collect(), kept: Mutex::default() }
    }

    /// Returns how many values are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().values.len()
    }

    /// Returns whether nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether `tool` may have values back.
    #[must_use]
    pub fn serves(&self, tool: &str) -> bool {
        self.tools.contains(tool)
    }

    /// Returns the placeholder for `value`; nothing when the vault is full.
    pub(super) fn keep(&self, class: Class, kind: &'static str, value: &str) -> Option<String> {
        let mut kept = self.lock();
        if let Some(known) = kept.placeholders.get(value) {
            return Some(known.clone());
        }
        let bytes = kept.bytes.saturating_add(value.len());
        if kept.values.len() >= Self::MOST_VALUES || bytes > Self::MOST_BYTES {
            return None;
        }
        let number = kept.numbers.entry(kind).or_default();
        *number += 1;
        let placeholder = format!("{{{{{}:{kind}:{number}}}}}", class.name());
        kept.bytes = bytes;
        kept.placeholders.insert(value.to_owned(), placeholder.clone());
        kept.values.insert(placeholder.clone(), value.to_owned());
        Some(placeholder)
    }

    /// Puts stored values back into the strings of the arguments of `tool` and returns how many. Nothing is put
    /// back for a tool that is not listed, and object keys are never changed.
    pub fn restore(&self, tool: &str, arguments: &mut Value) -> usize {
        if !self.serves(tool) {
            return 0;
        }
        let mut kept = self.lock();
        let Kept { values, given, .. } = &mut *kept;
        if values.is_empty() {
            return 0;
        }
        restore_value(values, given, arguments)
    }

    /// Replaces values that tools received by their placeholders, even if nothing marks them as
    /// secrets; `None` if `text` contains none.
    pub fn conceal(&self, text: &str) -> Option<String> {
        let kept = self.lock();
        let mut given: Vec<&String> =
            kept.given.iter().filter(|value| text.contains(value.as_str())).collect();
        // A value may be a part of another one.
        given.sort_by_key(|value| std::cmp::Reverse(value.len()));
        let mut concealed = None;
        for value in given {
            let text = concealed.as_deref().unwrap_or(text);
            let placeholder = kept.placeholders.get(value).map_or("", String::as_str);
            concealed = Some(text.replace(value.as_str(), placeholder));
        }
        concealed
    }

    /// Does the same for the strings of a JSON value; returns whether there were any.
    pub fn conceal_json(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => match self.conceal(text) {
                Some(concealed) => {
                    *text = concealed;
                    true
                }
                None => false,
            },
            Value::Array(items) => items.iter_mut().fold(false, |any, item| self.conceal_json(item) | any),
            Value::Object(fields) => {
                fields.values_mut().fold(false, |any, field| self.conceal_json(field) | any)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn restore_value(values: &HashMap<String, String>, given: &mut HashSet<String>, value: &mut Value) -> usize {
    match value {
        Value::String(text) => {
            let (restored, count) = restore_text(values, given, text);
            if count > 0 {
                *text = restored;
            }
            count
        }
        Value::Array(items) => items.iter_mut().map(|item| restore_value(values, given, item)).sum(),
        Value::Object(fields) => fields.values_mut().map(|field| restore_value(values, given, field)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// More bytes than a placeholder has. What is looked through for its end is no longer, however many begin.
const LONGEST_PLACEHOLDER: usize = 128;

/// One pass, so that a value which happens to hold a placeholder is not expanded again.
fn restore_text(
    values: &HashMap<String, String>,
    given: &mut HashSet<String>,
    text: &str,
) -> (String, usize) {
    let mut restored = String::with_capacity(text.len());
    let mut rest = text;
    let mut count = 0;
    while let Some((before, from)) = rest.find("{{").map(|at| rest.split_at(at)) {
        restored.push_str(before);
        let near = from.get(..from.floor_char_boundary(LONGEST_PLACEHOLDER)).unwrap_or_default();
        let whole = near.find("}}").map_or("", |end| near.get(..end + 2).unwrap_or_default());
        if let Some(value) = values.get(whole) {
            restored.push_str(value);
            given.insert(value.clone());
            count += 1;
            rest = from.get(whole.len()..).unwrap_or_default();
        } else {
            restored.push('{');
            rest = from.get(1..).unwrap_or_default();
        }
    }
    restored.push_str(rest);
    (restored, count)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn same_value_same_placeholder_and_back_for_listed_tools_only() {
        let vault = Vault::new(["deploy"]);
        let first = vault.keep(Class::Secret, "password", "hunter2").unwrap();
        assert_eq!(first, "{{secret:password:1}}");
        assert_eq!(vault.keep(Class::Secret, "password", "hunter2"), Some(first));
        assert_eq!(vault.keep(Class::Secret, "password", "other").as_deref(), Some("{{secret:password:2}}"));
        let mut arguments = json!({"env": ["P={{secret:password:1}}", "{{{secret:password:2}}"], "n": 1});
        let before = arguments.clone();
        assert_eq!(vault.restore("shell", &mut arguments), 0);
        assert_eq!(arguments, before);
        assert_eq!(vault.restore("deploy", &mut arguments), 2);
        assert_eq!(arguments, json!({"env": ["P=hunter2", "{other"], "n": 1}));
        assert_eq!(vault.conceal("it is hunter2").as_deref(), Some("it is {{secret:password:1}}"));
        assert_eq!(vault.conceal("it is not"), None);
    }

    #[test]
    fn beginnings_without_an_end_are_read_once() {
        let vault = Vault::new(["deploy"]);
        vault.keep(Class::Secret, "password", "hunter2").unwrap();
        let braces = "{".repeat(1 << 16);
        let mut arguments = json!([format!("{braces}secret:password:1}}}}"), format!("{braces}é")]);
        assert_eq!(vault.restore("deploy", &mut arguments), 1);
        assert_eq!(arguments[1].as_str().unwrap().len(), braces.len() + 2);
    }

    #[test]
    fn is_bounded_and_shows_nothing() {
        let vault = Vault::new(["deploy"]);
        for i in 0..Vault::MOST_VALUES {
            assert!(vault.keep(Class::Secret, "password", &format!("value {i}")).is_some());
        }
        assert_eq!(vault.keep(Class::Secret, "password", "one more"), None);
        assert!(!format!("{vault:?}").contains("value"));
        let small = Vault::new(["deploy"]);
        assert_eq!(small.keep(Class::Secret, "password", &"x".repeat(Vault::MOST_BYTES + 1)), None);
    }
}
