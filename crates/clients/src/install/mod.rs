//! Installing: our entries in a client's configuration, and out of it again.
//!
//! Two kinds of clients: some keep hooks in a file of their own, JSON or TOML, in which ours are merged;
//! others read a folder, in which we have files of our own. In all cases the laws are: *what is
//! not ours stays byte for byte* (comments, order, other hooks); *installing twice is installing once*;
//! *uninstalling after installing gives back the text of before*; and a file that can't be parsed is not
//! touched.
//!
//! Deciding what to write ([`plan_install`], [`plan_uninstall`]) reads files and writes nothing, so that it can
//! be shown first; [`Plan::apply`] then writes each file at once or not at all.

mod command;
mod edit;
mod line;
mod loaders;
mod machine;
mod merge;
mod once;
mod plan;
pub mod pointing;
mod switches;
mod tables;
mod toml;
mod trust;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

pub use self::command::{Fixed, HookCommand, InvalidProgram, Program};
pub use self::edit::ConfigError;
pub use self::line::{STATUS_WORD, StatusLine, status_line, status_line_files};
pub use self::loaders::{Loader, Whose, loaders};
pub use self::machine::{Machine, MachineFacts, MachineFile, machine_facts, machine_files};
pub(crate) use self::once::ForOneRun;
pub use self::once::{Once, OnceError, plan_once};
pub use self::plan::{ApplyError, Change, Plan, PlanError, plan_install, plan_uninstall, status};
pub use self::switches::{Switch, switches};
pub use self::trust::is_trusted;
use crate::client::Client;

/// Whose configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// The user's, for all folders.
    User,
    /// The project's. It is in the repository, and everybody who works there gets it.
    Project,
}

/// Where configurations are.
#[derive(Clone, Debug)]
pub struct Folders {
    /// The user's home directory.
    pub home: PathBuf,
    /// The project's root.
    pub project: PathBuf,
    /// The working directory, in which a client is started: the project's root or a folder below it.
    pub here: PathBuf,
    /// What environment variables say about the clients' folders.
    pub variables: Vec<(String, PathBuf)>,
}

impl Folders {
    /// The folders of a client that is started in the project's root, where no variable moves anything.
    pub fn new(home: impl Into<PathBuf>, project: impl Into<PathBuf>) -> Self {
        let project = project.into();
        Self { home: home.into(), here: project.clone(), project, variables: Vec::new() }
    }

    /// The folders of the project in which a client may look for files: the working directory and those above it, up to the
    /// project's root.
    pub fn around(&self) -> impl Iterator<Item = &Path> {
        let is_below = self.here.starts_with(&self.project);
        let below = self.here.ancestors().take_while(move |folder| is_below && *folder != self.project);
        below.chain(std::iter::once(self.project.as_path()))
    }

    /// The files of these names in each of those folders.
    fn files_around(&self, names: &[&str]) -> impl Iterator<Item = PathBuf> {
        self.around().flat_map(move |folder| names.iter().map(move |name| folder.join(name)))
    }
}

/// A variable that moves a client's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The environment variable.
    pub(crate) by: &'static str,
    /// The folder below what it names; empty where it names the folder itself.
    pub(crate) below: &'static str,
}

/// A file of a client.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// What moves the folder.
    pub(crate) variable: Option<Moved>,
    /// The folder, below the home directory or the project.
    pub(crate) folder: &'static str,
    /// The file in it.
    pub(crate) file: &'static str,
}

/// What an installation writes for a client, and where.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub(crate) user: Place,
    /// `None` for a client that reads hooks of its user only.
    pub(crate) project: Option<Place>,
    pub(crate) form: Form,
    pub(crate) once: ForOneRun,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// Entries among others in a file of the client.
    Merged(Merged),
    /// Tables among others in a TOML file of the client.
    Tables(Tables),
    /// Files of our own.
    Own(fn(&HookCommand) -> Vec<OwnFile>),
}

/// A file of the client with `hooks`, and under it a list per event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merged {
    /// Members that the client wants beside `hooks`.
    pub(crate) preamble: &'static [(&'static str, u32)],
    /// The events that are listened to.
    pub(crate) events: &'static [&'static str],
    /// What stands in an event's list.
    pub(crate) group: fn(&'static str, &HookCommand) -> Value,
    /// The files that hold nothing but the lists, without `hooks` around them.
    pub(crate) maps: &'static [&'static str],
    /// Further files of the user, for other programs of the same maker.
    pub(crate) also: &'static [Also],
}

/// A TOML file of the client with a list of tables, one for each event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    /// The events that are listened to.
    pub(crate) events: &'static [&'static str],
    /// The keys of an event's table, in their order.
    pub(crate) table: fn(&'static str, &HookCommand) -> Vec<(&'static str, Value)>,
}

/// A file of the user that holds the same as the first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Also {
    /// The folder, below the home directory.
    pub(crate) folder: &'static str,
    /// The file in it.
    pub(crate) file: &'static str,
}

/// Where the lists of events stand in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Events {
    /// Under `hooks`, among other settings.
    UnderHooks,
    /// They are all that the file holds.
    AtRoot,
}

impl Merged {
    /// Where the lists stand in that file.
    fn events_in(&self, file: &Path) -> Events {
        let is_map = file.file_name().is_some_and(|name| self.maps.iter().any(|map| name == *map));
        if is_map { Events::AtRoot } else { Events::UnderHooks }
    }
}

/// A file of our own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnFile {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) executable: bool,
}

impl OwnFile {
    pub(crate) fn text(name: &str, text: String) -> Self {
        Self { name: name.to_owned(), text, executable: false }
    }

    pub(crate) fn json(name: &str, value: &Value) -> Self {
        Self::text(name, format!("{value:#}\n"))
    }

    pub(crate) fn script(name: &str, text: String) -> Self {
        Self { executable: true, ..Self::text(name, text) }
    }
}

impl Layout {
    /// The folder of a scope, where the client has a place in it.
    fn folder(&self, scope: Scope, folders: &Folders) -> Option<PathBuf> {
        match scope {
            Scope::User => Some(self.user_folder(folders)),
            Scope::Project => self.project.as_ref().map(|place| folders.project.join(place.folder)),
        }
    }

    fn user_folder(&self, folders: &Folders) -> PathBuf {
        match self.moved(folders) {
            Some((moved, folder)) => folder.join(moved.below),
            None => folders.home.join(self.user.folder),
        }
    }

    /// What moves the user's folder, and to where.
    fn moved<'f>(&self, folders: &'f Folders) -> Option<(Moved, &'f Path)> {
        let moved = self.user.variable?;
        let named = folders.variables.iter().find(|(variable, _)| variable == moved.by)?;
        Some((moved, &named.1))
    }

    /// The client's folder in a home, and where it is instead, where a variable moves it.
    pub fn moved_home(&self, folders: &Folders) -> Option<(PathBuf, PathBuf)> {
        let (moved, to) = self.moved(folders)?;
        let folder = Path::new(self.user.folder);
        let above = folder.ancestors().find(|above| above.join(moved.below) == folder)?;
        match above.as_os_str().is_empty() {
            // It stands for a home, of which the client has one folder.
            true => Some((folder.to_path_buf(), to.join(moved.below))),
            false => Some((above.to_path_buf(), to.to_path_buf())),
        }
    }

    /// The environment variable that moves the user's folder, where one does.
    pub fn moved_by(&self, folders: &Folders) -> Option<&'static str> {
        self.moved(folders).map(|(moved, _)| moved.by)
    }

    /// Files that hold the same as the first.
    fn also(&self, scope: Scope, folders: &Folders) -> Vec<PathBuf> {
        match (&self.form, scope) {
            (Form::Merged(merged), Scope::User) => {
                merged.also.iter().map(|also| folders.home.join(also.folder).join(also.file)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The file that an installation writes, or the first of several; `None` where the client reads no hooks of that scope.
    pub fn path(&self, scope: Scope, folders: &Folders) -> Option<PathBuf> {
        match scope {
            Scope::User => Some(self.user_path(folders)),
            Scope::Project => {
                self.project.as_ref().map(|place| folders.project.join(place.folder).join(place.file))
            }
        }
    }

    /// The file of the user that an installation writes, or the first of several.
    pub fn user_path(&self, folders: &Folders) -> PathBuf {
        self.user_folder(folders).join(self.user.file)
    }
}

/// The environment variables that move a client's folder.
pub fn folder_variables() -> impl Iterator<Item = &'static str> {
    Client::ALL.into_iter().filter_map(|client| client.layout().user.variable).map(|moved| moved.by)
}

/// What a client's configuration says about us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The programs that our entries start. Two are two Backstops: each judges every call.
    pub programs: BTreeSet<String>,
    /// Events without an entry of ours.
    pub missing: Vec<String>,
    /// An entry of ours is not what this version would write.
    pub outdated: bool,
    /// Our entries, as they stand there.
    pub entries: Vec<Installed>,
    /// Hooks of others beside ours. Where several hooks change arguments, clients keep one change at most.
    pub foreign: usize,
}

/// An entry of ours in a client's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The event, where the place or the command says it.
    pub event: Option<String>,
    /// What the client gives to a shell.
    pub command: String,
}

impl Status {
    /// What the client starts at that event.
    pub fn command_at(&self, event: &str) -> Option<&str> {
        let at = |wanted: Option<&str>| self.entries.iter().find(|entry| entry.event.as_deref() == wanted);
        at(Some(event)).or_else(|| at(None)).map(|entry| entry.command.as_str())
    }

    /// Adds what another file of the client says.
    fn join(&mut self, other: Self, path: &Path) {
        let Self { programs, missing, outdated, entries, foreign } = other;
        self.programs.extend(programs);
        self.missing.extend(missing.into_iter().map(|event| format!("{event} in `{}`", path.display())));
        self.outdated |= outdated;
        self.entries.extend(entries);
        self.foreign = self.foreign.saturating_add(foreign);
    }

    /// Whether nothing of ours is there.
    pub fn is_absent(&self) -> bool {
        self.programs.is_empty()
    }

    /// Whether everything is as this version, at this path, would write it.
    pub fn is_current(&self, program: &Path) -> bool {
        let only = self.programs.len() == 1 && self.programs.iter().all(|found| Path::new(found) == program);
        only && self.missing.is_empty() && !self.outdated
    }
}
