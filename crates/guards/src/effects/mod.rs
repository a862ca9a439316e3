//! What a process does to files, from its arguments alone.
//!
//! Each family of programs has a reading of its options; programs without one are taken to read whatever
//! sensitive file they are given.

mod families;
mod names;
pub(crate) mod options;
mod patch;
pub(crate) mod takes;

use serde::{Deserialize, Serialize};

pub(crate) use families::{is_remote, of_program, unpacks_into};
pub(crate) use patch::patched;

use crate::paths::{Class, Level, class, normal, sensitive};
use crate::place::Place;
use crate::shell::marks::{HOLE, NOT_EMPTY, STAR};

/// What is done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Its content is read.
    Read,
    /// Its name or metadata is looked at.
    List,
    /// It is created or overwritten by a redirection or a tool made for writing.
    Write,
    /// It is emptied by a redirection without a command.
    Empty,
    /// Something is added to it.
    Append,
    /// It is replaced by a copy, a link or a move.
    Place,
    /// It is deleted.
    Delete,
    /// It is moved away.
    Move,
    /// Its permissions change in a harmless way.
    Mode,
    /// Its permissions open it to all, close it to all, or make it set-uid.
    Expose,
    /// Its owner changes.
    Own,
    /// A file system is made on it, or its partitions change.
    Format,
    /// It is run.
    Run,
}

/// A file and what is done to it.
#[derive(Debug, Clone)]
pub(crate) struct Touch {
    pub(crate) action: Action,
    pub(crate) path: String,
    pub(crate) resolved: String,
    pub(crate) class: Class,
    pub(crate) sensitive: Option<(&'static str, Level, &'static str)>,
    pub(crate) recursive: bool,
    pub(crate) force: bool,
    /// The targets were found by a search (`find -delete`).
    pub(crate) searched: bool,
    /// The targets come from data that is not in the command.
    pub(crate) streamed: bool,
}

impl Touch {
    pub(crate) fn new(action: Action, path: impl Into<String>) -> Self {
        Self {
            action,
            path: path.into(),
            resolved: String::new(),
            class: Class::Unknown,
            sensitive: None,
            recursive: false,
            force: false,
            searched: false,
            streamed: false,
        }
    }

    /// Finds out where the path leads from `cwd`.
    pub(crate) fn resolve(&mut self, cwd: Option<&str>, place: &Place) {
        let relative = !self.path.starts_with(['/', '~']) && !self.path.contains(':');
        let base = cwd.unwrap_or("/unknown");
        self.resolved = match self.path.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => normal::of_tool(&self.path, place),
            _ => normal::lexical(&self.path, base),
        };
        self.class = match cwd {
            None if relative => Class::Unknown,
            _ if self.path.starts_with(HOLE) => match self.path.trim_start_matches(HOLE) {
                // Two marks in a row stand for what is known not to be empty (`${x:?}`).
                rest if rest.starts_with('/') && !self.path.starts_with(NOT_EMPTY) => {
                    let empty = class::of(&normal::lexical(rest, "/"), place);
                    if empty == Class::Root { Class::Unset } else { Class::Unknown }
                }
                _ => Class::Unknown,
            },
            _ => class::of(&self.resolved, place),
        };
        self.sensitive = sensitive::find(&self.resolved, place)
            .or_else(|| sensitive::find(self.resolved.trim_end_matches(['/', STAR]), place))
            .map(|entry| (entry.id, entry.level, entry.what));
    }
}
