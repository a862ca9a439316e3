//! Codex's `requirements.toml`: our lines between marks, beside whatever the administrator wrote.
//!
//! The file is edited as text, by the lines of its tables. What can't be told apart that way (a text of several lines, `hooks`
//! or `features` written as a value) is refused and left as it is.

use serde_json::Value;

use crate::install::edit::ConfigError;
use crate::install::{HookCommand, Merged};

const BEGIN: &str = "# >>> backstop: `backstop uninstall --system` removes this";
const END: &str = "# <<< backstop";
const ONLY: &str = "allow_managed_hooks_only";

/// The text with our lines in it, and everything else as it was.
pub(super) fn put(text: &str, merged: &Merged, command: &HookCommand) -> Result<String, ConfigError> {
    let base = take(text);
    if let Some(line) = line_with(&base, |line| line.contains("\"\"\"") || line.contains("'''")) {
        return Err(shape("a text of several lines", line, "something that can be edited here"));
    }
    let first_table = base.lines().position(|line| line.trim_start().starts_with('[')).unwrap_or(usize::MAX);
    for key in ["hooks", "features"] {
        let is_value = |line: &str| {
            let rest = line.trim_start().strip_prefix(key).map(str::trim_start);
            rest.is_some_and(|rest| rest.starts_with(['=', '.']))
        };
        if let Some(line) = line_with(&base, is_value).filter(|line| *line <= first_table) {
            return Err(shape(key, line, "a table of its own"));
        }
    }
    let mut lines: Vec<String> = base.lines().map(str::to_owned).collect();
    let features = lines.iter().position(|line| header(line) == Some("features"));
    let mut last = hooks(merged, command);
    match features {
        Some(at) => {
            let end = lines.iter().skip(at + 1).position(|line| header(line).is_some());
            let end = end.map_or(lines.len(), |end| at + 1 + end);
            match said(&lines, at + 1, end, "hooks") {
                Some((_, "true")) => {}
                Some((line, _)) => return Err(differs("features.hooks", line)),
                None => {
                    lines.splice(at + 1..at + 1, marked("hooks = true"));
                }
            }
        }
        None => last = format!("[features]\nhooks = true\n\n{last}"),
    }
    match said(&lines, 0, first_table.min(lines.len()), ONLY) {
        Some((_, "true")) => {}
        Some((line, _)) => return Err(differs(ONLY, line)),
        None => {
            lines.splice(0..0, marked(&format!("{ONLY} = true")));
        }
    }
    lines.extend(marked(last.trim_end()));
    Ok(format!("{}\n", lines.join("\n")))
}

/// The text without our lines.
pub(super) fn take(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut is_ours = false;
    for line in text.split_inclusive('\n') {
        match line.trim_end() {
            BEGIN => is_ours = true,
            END if is_ours => is_ours = false,
            _ if is_ours => {}
            _ => kept.push_str(line),
        }
    }
    kept
}

fn marked(text: &str) -> Vec<String> {
    std::iter::once(BEGIN).chain(text.lines()).chain([END]).map(str::to_owned).collect()
}

/// The name of the table that a line begins.
fn header(line: &str) -> Option<&str> {
    let inner = line.trim().strip_prefix('[')?;
    inner.split(']').next().map(|name| name.trim_start_matches('[').trim())
}

/// The line, counted from 1, and the value of a key in these lines.
fn said<'l>(lines: &'l [String], from: usize, to: usize, key: &str) -> Option<(usize, &'l str)> {
    lines.get(from..to)?.iter().enumerate().find_map(|(at, line)| {
        let rest = line.trim_start().strip_prefix(key)?.trim_start().strip_prefix('=')?;
        Some((from + at + 1, rest.split('#').next().unwrap_or_default().trim()))
    })
}

fn line_with(text: &str, is_it: impl Fn(&str) -> bool) -> Option<usize> {
    text.lines().position(is_it).map(|at| at + 1)
}

fn shape(key: &str, line: usize, expected: &'static str) -> ConfigError {
    ConfigError::Shape { key: key.to_owned(), line, expected }
}

fn differs(key: &str, line: usize) -> ConfigError {
    ConfigError::Differs { key: key.to_owned(), line, wanted: "true".to_owned() }
}

/// Our hooks as lists of tables, which stand beside others of the same name.
fn hooks(merged: &Merged, command: &HookCommand) -> String {
    let mut text = String::new();
    for event in merged.events {
        let group = (merged.group)(event, command);
        text.push_str(&format!("[[hooks.{event}]]\n"));
        for (key, value) in group.as_object().into_iter().flatten().filter(|(key, _)| *key != "hooks") {
            text.push_str(&format!("{key} = {value}\n"));
        }
        for entry in group.get("hooks").and_then(Value::as_array).into_iter().flatten() {
            text.push_str(&format!("[[hooks.{event}.hooks]]\n"));
            for (key, value) in entry.as_object().into_iter().flatten() {
                // Texts and numbers are written alike in both.
                text.push_str(&format!("{key} = {value}\n"));
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::client::Client;
    use crate::install::Form;

    fn put_in(text: &str) -> Result<String, ConfigError> {
        let Form::Merged(merged) = &Client::Codex.layout().form else {
            panic!("codex keeps hooks in one file")
        };
        put(text, merged, &HookCommand::new(Client::Codex, Path::new("/opt/backstop/bin/backstop")).unwrap())
    }

    #[test]
    fn what_the_administrator_wrote_stays_and_comes_back() {
        for before in [
            "",
            "allowed_sandbox_modes = [\"read-only\"] # ours\n\n[mcp_servers]\nx = 1\n",
            "[features]\nweb = true\n\n[rules]\na = 1\n",
            "allow_managed_hooks_only = true\n[features]\nhooks = true\n",
            "[[hooks.PreToolUse]]\n[[hooks.PreToolUse.hooks]]\ntype = \"command\"\ncommand = \"/x\"\n",
        ] {
            let after = put_in(before).unwrap();
            assert_eq!(take(&after), before, "{after}");
            assert_eq!(put_in(&after).unwrap(), after, "twice is once");
            assert_eq!(after.matches("allow_managed_hooks_only = true").count(), 1, "{after}");
            assert_eq!(after.matches("[features]").count(), 1, "{after}");
            assert!(after.find("allow_managed") < after.find('['), "{after}");
            assert!(after.contains("[[hooks.PreToolUse.hooks]]"), "{after}");
        }
    }

    #[test]
    fn what_says_otherwise_or_can_not_be_edited_is_left() {
        for (text, named) in [
            ("allow_managed_hooks_only = false\n", "allow_managed_hooks_only"),
            ("[features]\nweb = true\nhooks = false\n", "features.hooks"),
            ("features = { web = true }\n", "features"),
            ("features.web = true\n", "features"),
            ("hooks = {}\n", "hooks"),
            ("x = \"\"\"\n[features]\n\"\"\"\n", "several lines"),
        ] {
            let error = put_in(text).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
