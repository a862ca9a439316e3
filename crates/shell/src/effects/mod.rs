//! What a process does to files, according to its arguments alone.
//!
//! The catalogue says what a program does with its operands; this module handles the programs that need more than that.
//! An unknown program is assumed to read whatever could be a file.

mod families;
mod patch;

use serde::{Deserialize, Serialize};

pub(crate) use families::{is_remote, of_program};
pub use patch::patched;

use crate::paths;
use crate::place::Place;

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

impl Action {
    /// All actions.
    pub const ALL: [Self; 13] = [
        Self::Read,
        Self::List,
        Self::Write,
        Self::Empty,
        Self::Append,
        Self::Place,
        Self::Delete,
        Self::Move,
        Self::Mode,
        Self::Expose,
        Self::Own,
        Self::Format,
        Self::Run,
    ];

    /// Returns what it is called in rules and catalogues.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::List => "list",
            Self::Write => "write",
            Self::Empty => "empty",
            Self::Append => "append",
            Self::Place => "place",
            Self::Delete => "delete",
            Self::Move => "move",
            Self::Mode => "mode",
            Self::Expose => "expose",
            Self::Own => "own",
            Self::Format => "format",
            Self::Run => "run",
        }
    }
}

/// Who owns a touched file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Holder {
    /// The machine that runs the command, unless another owner is known.
    #[default]
    Machine,
    /// A container that existed before.
    Container,
    /// A container that the command creates from an image and that has nothing of the machine but its mounts: the file is
    /// gone with the container.
    NewContainer,
}

/// A file and what is done to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Touch {
    /// What is done.
    pub action: Action,
    /// The path as the process gets it, with [marks](crate::marks).
    pub path: String,
    /// The path in its absolute form, with links followed that the command itself made.
    pub resolved: String,
    /// The absolute form with its `..` kept, if it has any: after a link on the disk they lead elsewhere.
    pub climbing: Option<String>,
    /// Whether it is known where the path leads. If not, it is relative to an unknown folder, and
    /// [`Self::resolved`] is below a placeholder for that folder.
    pub is_anchored: bool,
    /// Whether everything below the path is included.
    pub recursive: bool,
    /// Whether protections and questions are skipped (`rm -f`).
    pub force: bool,
    /// Whether the targets were found by a search (`find -delete`).
    pub searched: bool,
    /// Whether the targets come from data that is not in the command.
    pub streamed: bool,
    /// Who owns the file.
    pub holder: Holder,
}

impl Touch {
    pub(crate) fn new(action: Action, path: impl Into<String>) -> Self {
        Self {
            action,
            path: path.into(),
            resolved: String::new(),
            climbing: None,
            is_anchored: false,
            recursive: false,
            force: false,
            searched: false,
            streamed: false,
            holder: Holder::Machine,
        }
    }

    /// Finds out where the path leads from `cwd`.
    pub(crate) fn resolve(&mut self, cwd: Option<&str>, place: &Place) {
        let relative = !self.path.starts_with(['/', '~']) && !self.path.contains(':');
        self.is_anchored = cwd.is_some() || !relative;
        (self.resolved, self.climbing) = match self.path.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                (paths::of_tool(&self.path, place), paths::climbing_of_tool(&self.path, place))
            }
            _ => {
                let cwd = cwd.unwrap_or("/unknown");
                (paths::lexical(&self.path, cwd), paths::climbing(&self.path, cwd))
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_called_what_they_are_written_as() {
        for action in Action::ALL {
            assert_eq!(serde_json::to_value(action).unwrap(), action.name());
        }
    }
}
