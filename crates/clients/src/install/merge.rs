//! Our entries in a file that belongs to the client: put in, kept up to date, taken out, found.
//!
//! Each step makes one edit and reads the text again, so that no step works with places that an earlier one
//! has moved.

use std::collections::BTreeSet;

use jsonc_parser::ast::{Array, Object, Value as Node};
use jsonc_parser::common::Ranged as _;
use serde_json::{Value, json};

use super::command::HookCommand;
use super::edit::{self, ConfigError, Container, Entry, member};
use super::{Events, Installed, Merged, Status};

const HOOKS: &str = "hooks";
/// More edits than any file needs; a bound on the loop.
const MOST_EDITS: usize = 10_000;

/// The text with our entries in it, and everything else as it was.
pub(super) fn install(
    text: &str,
    layout: &Merged,
    events: Events,
    command: &HookCommand,
) -> Result<String, ConfigError> {
    let mut text = if text.trim().is_empty() { "{}\n".to_owned() } else { text.to_owned() };
    for _ in 0..MOST_EDITS {
        match next_install(&text, layout, events, command)? {
            Some(edited) => text = edited,
            None => break,
        }
    }
    Ok(text)
}

/// The text with that value of that key, whatever it said before.
pub(super) fn set(text: &str, key: &str, value: &Value) -> Result<String, ConfigError> {
    let node = edit::parse(text)?;
    let root = root(text, node.as_ref())?;
    let entry = Entry { key: Some(key), value };
    Ok(match member(text, root, key)? {
        Some(_) => edit::replace(text, &root.into(), position(root, key), entry),
        None => edit::append(text, &root.into(), entry),
    })
}

/// Whether the text is known to have no such key.
pub(super) fn lacks(text: &str, key: &str) -> bool {
    if text.trim().is_empty() {
        return true;
    }
    let Ok(node) = edit::parse(text) else { return false };
    root(text, node.as_ref()).and_then(|root| Ok(member(text, root, key)?.is_none())).unwrap_or(false)
}

/// The text without our entries, and without what they leave empty.
pub(super) fn uninstall(text: &str, events: Events, command: &HookCommand) -> Result<String, ConfigError> {
    let mut text = text.to_owned();
    for _ in 0..MOST_EDITS {
        match next_uninstall(&text, events, command)? {
            Some(edited) => text = edited,
            None => break,
        }
    }
    Ok(text)
}

/// Whether nothing is left but what an installation writes around its entries; a comment is something.
pub(super) fn is_bare(text: &str, layout: &Merged) -> bool {
    let Ok(Some(node)) = edit::parse(text) else { return text.trim().is_empty() };
    let value = edit::value_of(&node);
    let written = |text: &str| text.split_whitespace().collect::<String>();
    let Value::Object(fields) = &value else { return false };
    written(text) == written(&value.to_string())
        && fields.iter().all(|(key, value)| {
            layout.preamble.iter().any(|(name, number)| key == name && *value == json!(number))
        })
}

pub(super) fn root<'n, 'a>(text: &str, node: Option<&'n Node<'a>>) -> Result<&'n Object<'a>, ConfigError> {
    let line = node.map_or(1, |node| edit::line_of(text, node.start()));
    node.and_then(Node::as_object).ok_or(ConfigError::Shape {
        key: "the whole file".to_owned(),
        line,
        expected: "an object",
    })
}

fn hooks<'n, 'a>(
    text: &str,
    root: &'n Object<'a>,
    events: Events,
) -> Result<Option<&'n Object<'a>>, ConfigError> {
    if events == Events::AtRoot {
        return Ok(Some(root));
    }
    let Some(found) = member(text, root, HOOKS)? else { return Ok(None) };
    let shape = || ConfigError::Shape {
        key: HOOKS.to_owned(),
        line: edit::line_of(text, found.start()),
        expected: "an object",
    };
    found.value.as_object().map(Some).ok_or_else(shape)
}

fn entries<'n, 'a>(
    text: &str,
    hooks: &'n Object<'a>,
    event: &str,
) -> Result<Option<&'n Array<'a>>, ConfigError> {
    let Some(found) = member(text, hooks, event)? else { return Ok(None) };
    let shape = || ConfigError::Shape {
        key: event.to_owned(),
        line: edit::line_of(text, found.start()),
        expected: "an array",
    };
    found.value.as_array().map(Some).ok_or_else(shape)
}

fn next_install(
    text: &str,
    layout: &Merged,
    events: Events,
    command: &HookCommand,
) -> Result<Option<String>, ConfigError> {
    let node = edit::parse(text)?;
    let root = root(text, node.as_ref())?;
    for (key, value) in layout.preamble {
        if member(text, root, key)?.is_none() {
            let value = json!(value);
            return Ok(Some(edit::append(text, &root.into(), Entry { key: Some(key), value: &value })));
        }
    }
    let Some(hooks) = hooks(text, root, events)? else {
        let value = json!({});
        return Ok(Some(edit::append(text, &root.into(), Entry { key: Some(HOOKS), value: &value })));
    };
    if let Some(edited) = stale(text, hooks, layout, command)? {
        return Ok(Some(edited));
    }
    for event in layout.events {
        let wanted = (layout.group)(event, command);
        match entries(text, hooks, event)? {
            None => {
                let value = json!([wanted]);
                return Ok(Some(edit::append(
                    text,
                    &hooks.into(),
                    Entry { key: Some(event), value: &value },
                )));
            }
            Some(array) if array.elements.iter().all(|element| edit::value_of(element) != wanted) => {
                return Ok(Some(edit::append(text, &array.into(), Entry { key: None, value: &wanted })));
            }
            Some(_) => {}
        }
    }
    Ok(None)
}

/// The next edit of an entry of ours that is not the one wanted: it is brought up to date in its place, and
/// any further one goes.
fn stale(
    text: &str,
    hooks: &Object<'_>,
    layout: &Merged,
    command: &HookCommand,
) -> Result<Option<String>, ConfigError> {
    for event in &hooks.properties {
        let name = event.name.as_str();
        let wanted =
            layout.events.iter().find(|wanted| **wanted == name).map(|name| (layout.group)(name, command));
        let Some(array) = entries(text, hooks, name)? else { continue };
        let mut kept = false;
        let current = |element: &Node<'_>| wanted.as_ref() == Some(&edit::value_of(element));
        let has_current = array.elements.iter().any(current);
        for (index, element) in array.elements.iter().enumerate() {
            let whole = match ours(element, command) {
                Ours::No => continue,
                Ours::Whole => true,
                Ours::Part => false,
            };
            if current(element) && !kept {
                kept = true;
                continue;
            }
            if let (true, Some(wanted), false) = (whole, &wanted, has_current || kept) {
                let entry = Entry { key: None, value: wanted };
                return Ok(Some(edit::replace(text, &array.into(), index, entry)));
            }
            return Ok(Some(take_out(text, array, index, element, command)));
        }
    }
    Ok(None)
}

fn next_uninstall(text: &str, events: Events, command: &HookCommand) -> Result<Option<String>, ConfigError> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let node = edit::parse(text)?;
    let root = root(text, node.as_ref())?;
    let Some(hooks) = hooks(text, root, events)? else { return Ok(None) };
    for (place, event) in hooks.properties.iter().enumerate() {
        let name = event.name.as_str();
        let Some(array) = entries(text, hooks, name)? else { continue };
        for (index, element) in array.elements.iter().enumerate() {
            if ours(element, command) == Ours::No {
                continue;
            }
            // What our entry leaves empty goes with it, so that a second round is never needed for it.
            let alone = array.elements.len() == 1 && ours(element, command) == Ours::Whole;
            return Ok(Some(match (alone, hooks.properties.len()) {
                (true, 1) if events == Events::UnderHooks => {
                    edit::remove(text, &root.into(), position(root, HOOKS))
                }
                (true, _) => edit::remove(text, &hooks.into(), place),
                (false, _) => take_out(text, array, index, element, command),
            }));
        }
    }
    Ok(None)
}

pub(super) fn position(object: &Object<'_>, key: &str) -> usize {
    object.properties.iter().position(|member| member.name.as_str() == key).unwrap_or_default()
}

/// Takes our part out of an element: all of it, or the first of our entries in a group shared with others.
fn take_out(
    text: &str,
    array: &Array<'_>,
    index: usize,
    element: &Node<'_>,
    command: &HookCommand,
) -> String {
    let group = element
        .as_object()
        .and_then(|group| group.properties.iter().find(|member| member.name.as_str() == HOOKS));
    let inner = group.and_then(|member| member.value.as_array());
    if let (Ours::Part, Some(inner)) = (ours(element, command), inner) {
        let place = inner.elements.iter().position(|entry| is_ours(&edit::value_of(entry), command));
        return edit::remove(text, &Container::from(inner), place.unwrap_or_default());
    }
    edit::remove(text, &array.into(), index)
}

/// How much of an element is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ours {
    No,
    Part,
    Whole,
}

fn ours(element: &Node<'_>, command: &HookCommand) -> Ours {
    let value = edit::value_of(element);
    let Some(inner) = value.get(HOOKS).and_then(Value::as_array) else {
        return if is_ours(&value, command) { Ours::Whole } else { Ours::No };
    };
    match inner.iter().filter(|entry| is_ours(entry, command)).count() {
        0 => Ours::No,
        all if all == inner.len() => Ours::Whole,
        _ => Ours::Part,
    }
}

fn is_ours(entry: &Value, command: &HookCommand) -> bool {
    command_of(entry).is_some_and(|found| found.client() == command.client())
}

fn command_of(entry: &Value) -> Option<HookCommand> {
    HookCommand::parse(entry.get("command")?.as_str()?)
}

/// What the text says about us.
pub(super) fn status(
    text: &str,
    layout: &Merged,
    events: Events,
    command: &HookCommand,
) -> Result<Status, ConfigError> {
    let mut status = Status::default();
    let mut present = BTreeSet::new();
    if !text.trim().is_empty() {
        let node = edit::parse(text)?;
        let root = root(text, node.as_ref())?;
        if let Some(hooks) = hooks(text, root, events)? {
            for event in &hooks.properties {
                let name = event.name.as_str();
                let Some(array) = entries(text, hooks, name)? else { continue };
                let wanted = layout.events.iter().find(|wanted| **wanted == name);
                let wanted = wanted.map(|name| (layout.group)(name, command));
                for element in &array.elements {
                    let value = edit::value_of(element);
                    let inner = value.get(HOOKS).and_then(Value::as_array);
                    for entry in inner.map_or(std::slice::from_ref(&value), Vec::as_slice) {
                        match command_of(entry).filter(|found| found.client() == command.client()) {
                            Some(found) => {
                                status.programs.insert(found.program().to_owned());
                                status.outdated |= Some(&value) != wanted.as_ref();
                                present.insert(name.to_owned());
                                let command = entry.get("command").and_then(Value::as_str);
                                status.entries.extend(command.map(|command| Installed {
                                    event: Some(name.to_owned()),
                                    command: command.to_owned(),
                                }));
                            }
                            None => status.foreign += 1,
                        }
                    }
                }
            }
        }
    }
    status.missing = layout
        .events
        .iter()
        .filter(|event| !present.contains(**event))
        .map(|event| (*event).to_owned())
        .collect();
    Ok(status)
}
