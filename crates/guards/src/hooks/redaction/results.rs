//! Redacts what tools answer.

use backstop_hooks::conversation::{Part, ToolResult};
use backstop_hooks::points::{ToolAfter, ToolAfterEvent, ToolAfterOutcome};
use backstop_hooks::{Answer, Context, Hook, Json, MemoKey, Text};
use backstop_scan::{Finding, Redactor, Vault};
use serde_json::Value;

use super::{Place, forbidden, log_reported};

#[derive(Debug)]
pub(super) struct Results(pub(super) Place);

impl Hook<ToolAfter> for Results {
    fn call<'a>(&'a self, event: &'a ToolAfterEvent, cx: Context<'a>) -> Answer<'a, ToolAfter> {
        let echoed = self.0.vaults.of(cx.call).and_then(|vault| without_echo(&vault, &event.result));
        let (cleaned, findings) = clean_result(&self.0.of(cx.call), echoed.as_ref().unwrap_or(&event.result));
        let result = cleaned.or(echoed);
        log_reported("tool.after", &findings);
        let result = match forbidden(&findings) {
            Some(reason) => Some(withheld(&event.result, &reason)),
            None => result,
        };
        Answer::Now(Ok(result.map(|result| ToolAfterOutcome { result: Some(result) })))
    }
}

/// Returns the result without the values that tools were given, if it has any.
fn without_echo(vault: &Vault, result: &ToolResult) -> Option<ToolResult> {
    let mut clean = result.clone();
    for part in &mut clean.content {
        match part {
            Part::Text { text, .. } => *text = vault.conceal(text).map_or_else(|| text.clone(), Text::from),
            Part::Unknown { raw } => conceal_json(vault, raw),
            _ => {}
        }
    }
    if let Some(details) = &mut clean.details {
        conceal_json(vault, details);
    }
    (clean != *result).then_some(clean)
}

fn conceal_json(vault: &Vault, json: &mut Json) {
    let mut value = json.to_value();
    if vault.conceal_json(&mut value) {
        *json = Json::new(value);
    }
}

/// Returns the result, if it is another one when it is clean, and what was found in it.
fn clean_result(redactor: &Redactor, result: &ToolResult) -> (Option<ToolResult>, Vec<Finding>) {
    let mut findings = Vec::new();
    let mut clean = result.clone();
    for part in &mut clean.content {
        clean_part(redactor, part, &mut findings);
    }
    if let Some(details) = &mut clean.details {
        clean_json(redactor, details, &mut findings);
    }
    ((clean != *result).then_some(clean), findings)
}

/// Cleans what a part says. Images are not read; reasoning is signed by its provider and stays.
fn clean_part(redactor: &Redactor, part: &mut Part, findings: &mut Vec<Finding>) {
    match part {
        Part::Text { text, .. } => clean_text(redactor, None, text, findings),
        Part::Unknown { raw } => clean_json(redactor, raw, findings),
        Part::ToolResult(result) => {
            for part in &mut result.content {
                clean_part(redactor, part, findings);
            }
        }
        Part::Thinking { .. } | Part::ToolCall(_) | Part::Image { .. } => {}
    }
}

/// Cleans a text. That nothing was found in it is remembered under the `key` of the redactor, and looked up there.
pub(super) fn clean_text(
    redactor: &Redactor,
    key: Option<MemoKey>,
    text: &mut Text,
    findings: &mut Vec<Finding>,
) {
    let (clean, found) = match as_json(text) {
        Some(mut value) => {
            let found = redactor.apply_json_and_keys(&mut value);
            let indented = text.contains('\n');
            let written =
                if indented { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            (written.unwrap_or_default(), found)
        }
        None if key.is_some_and(|key| text.is_clean(key)) => return,
        None => {
            let clean = redactor.apply(text);
            if let (Some(key), true) = (key, clean.findings.is_empty()) {
                text.remember_clean(key);
            }
            (clean.text, clean.findings)
        }
    };
    if found.iter().any(Finding::is_change) {
        *text = clean.into();
    }
    findings.extend(found);
}

/// A text that is one JSON object or array. Cut anywhere as plain text it might no longer be one.
///
/// One that says a key twice is plain text: of two values under one key a parser keeps one, and whoever reads the
/// text sees both.
fn as_json(text: &str) -> Option<Value> {
    let looks = text.trim_start().starts_with(['{', '[']) && text.trim_end().ends_with(['}', ']']);
    let value = looks.then(|| serde_json::from_str(text).ok()).flatten()?;
    (members(&value) == members_written(text)).then_some(value)
}

/// Returns how many keys a value has, in all its objects.
fn members(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(members).sum(),
        Value::Object(fields) => fields.len() + fields.values().map(members).sum::<usize>(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Returns how many keys a JSON text has: its colons outside of strings.
fn members_written(text: &str) -> usize {
    let (mut members, mut inside) = (0, false);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => inside = !inside,
            // What is escaped ends no string.
            b'\\' if inside => {
                bytes.next();
            }
            b':' if !inside => members += 1,
            _ => {}
        }
    }
    members
}

pub(super) fn clean_json(redactor: &Redactor, json: &mut Json, findings: &mut Vec<Finding>) {
    let mut value = json.to_value();
    let found = redactor.apply_json_and_keys(&mut value);
    if found.iter().any(Finding::is_change) {
        *json = Json::new(value);
    }
    findings.extend(found);
}

/// A result of which nothing is left but why.
fn withheld(result: &ToolResult, reason: &str) -> ToolResult {
    let said = format!("the tool has run, but its result is withheld: {reason}");
    ToolResult { content: vec![Part::text(said)], is_error: true, details: None, ..result.clone() }
}
