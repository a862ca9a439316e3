//! Cleans JSON without breaking it.
//!
//! Only strings are rewritten, each in place: types, the order of keys and the structure stay. A value is
//! judged together with its key, so that `{"password": "hunter2"}` is found although `hunter2` alone means
//! nothing. Keys are data in some formats; they are rewritten only on request, and two keys never become the same.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::Span;
use super::policy::{Finding, Redactor};

/// The longest value that is judged together with its key, in bytes.
const LONGEST_WITH_KEY: usize = 512;
/// How deep values are followed. What is deeper is replaced as a whole.
const DEEPEST: usize = 256;

impl Redactor {
    /// Cleans the strings of `value` in place and returns the findings, with offsets inside each string.
    pub fn apply_json(&self, value: &mut Value) -> Vec<Finding> {
        let mut findings = Vec::new();
        self.walk(value, None, false, 0, &mut findings);
        findings
    }

    /// Does the same for object keys, too.
    pub fn apply_json_and_keys(&self, value: &mut Value) -> Vec<Finding> {
        let mut findings = Vec::new();
        self.walk(value, None, true, 0, &mut findings);
        findings
    }

    fn walk(
        &self,
        value: &mut Value,
        key: Option<&str>,
        keys: bool,
        depth: usize,
        findings: &mut Vec<Finding>,
    ) {
        if depth > DEEPEST {
            *value = Value::String("[redacted:too_deep]".to_owned());
            return;
        }
        match value {
            Value::String(text) => {
                let spans = self.judge_field(key, text);
                let clean = self.rewrite(text, spans);
                if clean.is_changed() {
                    *text = clean.text;
                }
                findings.extend(clean.findings);
            }
            Value::Array(items) => {
                for item in items {
                    self.walk(item, key, keys, depth + 1, findings);
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields.iter_mut() {
                    self.walk(field, Some(name), keys, depth + 1, findings);
                }
                if keys {
                    self.clean_keys(fields, findings);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Returns what is found in the value itself and in `"key": "value"`.
    fn judge_field(&self, key: Option<&str>, value: &str) -> Vec<Span> {
        let mut found = self.scanner.whole(value);
        let quotable = value.len() <= LONGEST_WITH_KEY && !value.contains(['"', '\n', '\\']);
        let Some(key) = key.filter(|key| quotable && key.len() <= LONGEST_WITH_KEY) else { return found };
        let lead = format!("\"{key}\": \"");
        let named = self.scanner.whole(&format!("{lead}{value}\""));
        let shifted = named.into_iter().filter_map(|found| {
            let (start, end) = (found.start.checked_sub(lead.len())?, found.end.checked_sub(lead.len())?);
            (end <= value.len()).then_some(Span { start, end, ..found })
        });
        found.extend(shifted);
        found
    }

    fn clean_keys(&self, fields: &mut Map<String, Value>, findings: &mut Vec<Finding>) {
        let cleaned: Vec<_> = fields.keys().map(|key| self.apply(key)).collect();
        if !cleaned.iter().any(super::Redacted::is_changed) {
            findings.extend(cleaned.into_iter().flat_map(|clean| clean.findings));
            return;
        }
        let mut renamed = Map::with_capacity(fields.len());
        // The next number of each name, since many may become the same one.
        let mut copies = HashMap::new();
        for ((key, field), clean) in std::mem::take(fields).into_iter().zip(cleaned) {
            let mut name = if clean.is_changed() { clean.text } else { key };
            if renamed.contains_key(&name) {
                let base = name.clone();
                let copy = copies.entry(name.clone()).or_insert(2_usize);
                while renamed.contains_key(&name) {
                    name = format!("{base} ({copy})");
                    *copy += 1;
                }
            }
            findings.extend(clean.findings);
            renamed.insert(name, field);
        }
        *fields = renamed;
    }
}
