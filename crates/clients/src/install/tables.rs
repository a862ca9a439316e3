//! Our entries in a TOML file that belongs to the client: a list `hooks` of tables, one for each event.
//!
//! Tables of a list may stand anywhere in a file, so ours are added at its end, each behind an empty line, and taken out with that
//! line. They are known by their command and by no mark: a client that writes its settings anew keeps tables and may drop
//! comments.

use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::Value;

use super::command::HookCommand;
use super::edit::{ConfigError, line_of};
use super::toml::{self, Says};
use super::{Installed, Status, Tables};

const HOOKS: &str = "hooks";

/// A table of the list.
pub(super) struct Hook<'t> {
    lines: Range<usize>,
    /// Its keys and their values, as they are written.
    pub(super) keys: Vec<(String, &'t str)>,
}

impl Hook<'_> {
    /// The text of a key; `None` where it has none or something else.
    pub(super) fn text(&self, wanted: &str) -> Option<String> {
        let value = self.keys.iter().find(|(key, _)| key == wanted)?.1;
        toml::string(value)
    }

    fn command(&self, of: &HookCommand) -> Option<HookCommand> {
        HookCommand::parse(&self.text("command")?).filter(|found| found.client() == of.client())
    }

    fn is(&self, wanted: &[(&str, Value)]) -> bool {
        let says = |(key, value): &(&str, Value)| {
            let found = self.keys.iter().find(|(found, _)| found == key).map(|(_, value)| *value);
            found.is_some_and(|found| match toml::string(found) {
                Some(text) => value.as_str() == Some(text.as_str()),
                None => value.as_u64().is_some_and(|number| found.parse() == Ok(number)),
            })
        };
        self.keys.len() == wanted.len() && wanted.iter().all(says)
    }
}

/// The tables of the list.
///
/// # Errors
///
/// [`ConfigError`] where the text can't be cut into statements, or `hooks` is something else than a list of plain tables.
pub(super) fn hooks(text: &str) -> Result<Vec<Hook<'_>>, ConfigError> {
    let (mut found, mut is_inside, mut is_root) = (Vec::<Hook<'_>>::new(), false, true);
    for statement in toml::statements(text)? {
        let shape = || ConfigError::Shape {
            key: HOOKS.to_owned(),
            line: line_of(text, statement.lines.start),
            expected: "a list of tables without tables in them",
        };
        let is_named = |name: &[String]| name.first().is_some_and(|first| first == HOOKS);
        match statement.says {
            Says::List(name) if name == [HOOKS] => {
                found.push(Hook { lines: statement.lines.clone(), keys: Vec::new() });
                (is_inside, is_root) = (true, false);
            }
            Says::List(name) | Says::Table(name) if is_named(&name) => return Err(shape()),
            Says::List(_) | Says::Table(_) => (is_inside, is_root) = (false, false),
            Says::Key(name, _) if is_root && is_named(&name) => return Err(shape()),
            Says::Key(name, value) if is_inside => {
                if let Some(hook) = found.last_mut() {
                    hook.lines.end = statement.lines.end;
                    hook.keys.push((name.join("."), value));
                }
            }
            Says::Key(..) => {}
        }
    }
    Ok(found)
}

/// The text with our entries in it, and everything else as it was.
pub(super) fn install(text: &str, layout: &Tables, command: &HookCommand) -> Result<String, ConfigError> {
    let found = status(text, layout, command)?;
    if !found.is_absent() && found.missing.is_empty() && !found.outdated {
        return Ok(text.to_owned());
    }
    let mut text = uninstall(text, command)?;
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    if !text.is_empty() && !text.ends_with('\n') {
        text.push_str(newline);
    }
    for event in layout.events {
        if !text.is_empty() {
            text.push_str(newline);
        }
        text.push_str(&format!("[[{HOOKS}]]{newline}"));
        for (key, value) in (layout.table)(event, command) {
            // Texts and numbers are written alike in JSON and TOML.
            text.push_str(&format!("{key} = {value}{newline}"));
        }
    }
    Ok(text)
}

/// The text without our entries.
pub(super) fn uninstall(text: &str, command: &HookCommand) -> Result<String, ConfigError> {
    let (mut kept, mut at) = (String::with_capacity(text.len()), 0);
    for hook in hooks(text)?.iter().filter(|hook| hook.command(command).is_some()) {
        let before = text.get(at..hook.lines.start).unwrap_or_default();
        kept.push_str(without_empty_line(before));
        at = hook.lines.end;
    }
    kept.push_str(text.get(at..).unwrap_or_default());
    Ok(kept)
}

/// The text without the empty line at its end, if there is one.
fn without_empty_line(text: &str) -> &str {
    let Some(rest) = text.strip_suffix('\n').map(|rest| rest.strip_suffix('\r').unwrap_or(rest)) else {
        return text;
    };
    if rest.is_empty() || rest.ends_with('\n') { rest } else { text }
}

/// What the text says about us.
pub(super) fn status(text: &str, layout: &Tables, command: &HookCommand) -> Result<Status, ConfigError> {
    let mut status = Status::default();
    let mut present = BTreeSet::new();
    for hook in hooks(text)? {
        let Some(found) = hook.command(command) else {
            status.foreign += 1;
            continue;
        };
        let event = hook.text("event");
        let wanted = layout.events.iter().find(|wanted| Some(**wanted) == event.as_deref());
        status.outdated |= wanted.is_none_or(|event| !hook.is(&(layout.table)(event, command)));
        status.outdated |= event.clone().is_some_and(|event| !present.insert(event));
        status.programs.insert(found.program().to_owned());
        status.entries.extend(hook.text("command").map(|command| Installed { event, command }));
    }
    let missing = layout.events.iter().filter(|event| !present.contains(**event));
    status.missing = missing.map(|event| (*event).to_owned()).collect();
    Ok(status)
}
