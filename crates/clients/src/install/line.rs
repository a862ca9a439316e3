//! The line that a client shows below its conversation: that it is guarded, by a command of ours that prints it.
//!
//! Claude Code alone has such a thing, one for a session: the project's comes before the user's. So ours stands in the
//! user's settings, and only where there is none: a line that somebody has chosen is theirs. Claude Code shows no line
//! where hooks are switched off, so one that is there also says that they are not.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::command::{self, Fixed, HookCommand};
use super::edit::{self, ConfigError};
use super::loaders::CLAUDE_OF_PROJECT;
use super::merge::{self, position, root};
use super::{Folders, PlanError, Scope, plan};
use crate::client::Client;

/// The word by which our program is started to print the line. It is no command for people.
pub const STATUS_WORD: &str = "statusline";
/// The setting of Claude Code.
const KEY: &str = "statusLine";

/// What a client shows of us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusLine {
    /// Our line.
    Ours,
    /// None at all.
    Missing,
    /// The one that its user has chosen.
    Theirs,
    /// That of the project, whose settings are in this file.
    OfProject(PathBuf),
}

/// Whether an installation in that scope writes a line for the client.
pub(super) fn is_shown(client: Client, scope: Scope) -> bool {
    client == Client::Claude && scope == Scope::User
}

/// What stands in the settings.
fn wanted(command: &HookCommand) -> Value {
    json!({ "type": "command", "command": command.line() })
}

/// Whether a value is a line of ours.
fn is_ours(value: &Value) -> bool {
    let command = value.get("command").and_then(Value::as_str);
    command.and_then(command::words).is_some_and(|words| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            [program, STATUS_WORD, options @ ..] => {
                command::is_ours(program) && Fixed::parse(options).is_some()
            }
            _ => false,
        }
    })
}

/// Whether a line starts just this. How it is laid out is its user's.
fn is_current(line: &Value, command: &HookCommand) -> bool {
    let wanted = wanted(command);
    ["type", "command"].iter().all(|key| line.get(key) == wanted.get(key))
}

/// Whether nobody but us has chosen a line in these settings. In what can't be read somebody may have.
pub(super) fn is_free(text: &str) -> bool {
    merge::lacks(text, KEY) || stands(text).ok().flatten().is_some_and(|value| is_ours(&value))
}

/// The text with our line, unless there is another.
pub(super) fn put(text: &str, command: &HookCommand) -> Result<String, ConfigError> {
    match stands(text)? {
        Some(found) if !is_ours(&found) || is_current(&found, command) => Ok(text.to_owned()),
        _ => merge::set(text, KEY, &wanted(command)),
    }
}

/// The text without our line.
pub(super) fn take(text: &str) -> Result<String, ConfigError> {
    match stands(text)? {
        Some(found) if is_ours(&found) => {
            let node = edit::parse(text)?;
            let root = root(text, node.as_ref())?;
            Ok(edit::remove(text, &root.into(), position(root, KEY)))
        }
        _ => Ok(text.to_owned()),
    }
}

/// The text with a line that `words` print, unless somebody else has chosen one there.
pub(super) fn of_run(text: &str, words: &[&str]) -> Option<String> {
    let words: Vec<String> = words.iter().map(|word| command::quoted(word)).collect();
    let line = json!({ "type": "command", "command": words.join(" ") });
    is_free(text).then(|| merge::set(text, KEY, &line).ok()).flatten()
}

/// Whether our line is there, and not as this version writes it.
pub(super) fn is_outdated(text: &str, command: &HookCommand) -> Result<bool, ConfigError> {
    Ok(stands(text)?.is_some_and(|found| is_ours(&found) && !is_current(&found, command)))
}

/// What the settings say.
fn stands(text: &str) -> Result<Option<Value>, ConfigError> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let node = edit::parse(text)?;
    let root = root(text, node.as_ref())?;
    Ok(edit::member(text, root, KEY)?.map(|found| edit::value_of(&found.value)))
}

/// The files of a project in which Claude Code, the one client with such a line, may find another.
pub fn status_line_files(folders: &Folders) -> impl Iterator<Item = PathBuf> {
    folders.files_around(&CLAUDE_OF_PROJECT)
}

/// What `client` shows of us, where it can show a line.
///
/// # Errors
///
/// [`PlanError`] when the user's settings can't be read or parsed.
pub fn status_line(client: Client, folders: &Folders) -> Result<Option<StatusLine>, PlanError> {
    if !is_shown(client, Scope::User) {
        return Ok(None);
    }
    let path = client.layout().user_path(folders);
    let text = plan::read(&path)?.unwrap_or_default();
    let of_user = stands(&text).map_err(|source| PlanError::Config { path, source })?;
    // One that can't be read is no settings, which is told of elsewhere.
    let has_one =
        |file: &PathBuf| fs::read_to_string(file).is_ok_and(|text| matches!(stands(&text), Ok(Some(_))));
    Ok(Some(match (status_line_files(folders).find(has_one), of_user) {
        (Some(file), _) => StatusLine::OfProject(file),
        (None, Some(found)) if is_ours(&found) => StatusLine::Ours,
        (None, Some(_)) => StatusLine::Theirs,
        (None, None) => StatusLine::Missing,
    }))
}
