//! What the programs of plugins are started with: their words, and their environment.
//!
//! A home that is not granted is the plugin's folder for data, so that no interpreter takes code out of a home that agents write in. A name
//! is looked up by the [`Machine`] once, and `PATH` is what that says, since a coding agent may have set its own by a repository's files; one
//! that is granted keeps its whole paths only: what else stands there depends on where a program works.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use backstop_hooks::JsonHook;

use super::machine::{All, FoundProgram, Machine};
use super::{HOME, Why};
use crate::external::{Held, OutOfReach, Reach};
use crate::package::Seal;
use crate::permissions::Permissions;

/// What every program needs of the environment in order to start.
const PLAIN: [&str; 2] = ["LANG", "LC_ALL"];
/// Where programs find others.
const PATH: &str = "PATH";
/// Keeps Python from writing beside the code that it runs, which would be a change of it, and from running what lies in the user's
/// home, where agents write.
const PYTHON: [(&str, &str); 2] = [("PYTHONDONTWRITEBYTECODE", "1"), ("PYTHONNOUSERSITE", "1")];

/// A command of a plugin.
pub(super) struct Command {
    pub(super) program: OsString,
    pub(super) arguments: Vec<OsString>,
    /// What it is held to before each start.
    pub(super) held: Arc<dyn Held>,
    /// Why it may not judge who works in a folder. A file of the plugin lies where no session works.
    beside: Option<Arc<Reach>>,
}

impl Command {
    /// Looks up the program of a command, and fills in the plugin's folder.
    pub(super) fn of(
        command: &[String],
        root: &Path,
        seal: Arc<Seal>,
        machine: &dyn Machine,
    ) -> Result<Self, Why> {
        let filled = |word: &String| word.replace("${plugin}", &root.to_string_lossy()).into();
        let arguments = command.iter().skip(1).map(filled).collect();
        let name = command.first().map(String::as_str).unwrap_or_default();
        if name.contains('/') {
            let program = root.join(name).into_os_string();
            return Ok(Self { program, arguments, held: seal, beside: None });
        }
        let FoundProgram { file, held, beside } = machine
            .program(name)
            .map_err(|why| Why::Program { name: name.to_owned(), why: hinted(why, root, name) })?;
        let held = Arc::new(All(vec![seal, held]));
        Ok(Self { program: file.into(), arguments, held, beside: Some(beside) })
    }

    /// A hook of the program that is not asked about sessions in whose folder the program lies.
    pub(super) fn hook(&self, hook: Arc<dyn JsonHook>) -> Arc<dyn JsonHook> {
        match &self.beside {
            Some(beside) => Arc::new(OutOfReach::new(hook, Arc::clone(beside))),
            None => hook,
        }
    }
}

/// Why there is no such program of the machine. A file of the plugin that is called so is what was meant.
fn hinted(why: String, root: &Path, name: &str) -> String {
    let reason = why.split("\nhint:").next().unwrap_or_default();
    match root.join(name).is_file() {
        true => format!(
            "{reason}\nhint: the plugin's own file is `./{name}`, and what an interpreter runs is its argument: `[\"python3\", \"${{plugin}}/{name}\"]`"
        ),
        false => why,
    }
}

/// The environment of a program. Its home is the user's where that is granted, and `home` otherwise; its `PATH` is the user's where that is
/// granted, and the machine's otherwise.
pub(super) fn variables(
    given: &Permissions,
    home: &Path,
    environment: &(dyn Fn(&str) -> Option<String> + Sync),
    machine: &dyn Machine,
) -> BTreeMap<OsString, OsString> {
    let names =
        PLAIN.into_iter().chain(given.user.then_some(HOME)).chain(given.env.iter().map(String::as_str));
    let found = names.filter_map(|name| Some((name.into(), environment(name)?.into())));
    let fixed = PYTHON.map(|(name, value)| (name.into(), value.into()));
    // The later one counts.
    let all = std::iter::once((HOME.into(), home.into())).chain(found).chain(fixed);
    let path = match given.env.contains(PATH) {
        true => environment(PATH).and_then(|path| {
            let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
            std::env::join_paths(folders).ok()
        }),
        false => Some(machine.path().to_owned()),
    };
    // An empty list stands for the folder that the program works in.
    let path = path.filter(|path| !path.is_empty());
    all.filter(|(name, _)| name != PATH).chain(path.map(|path| (PATH.into(), path))).collect()
}
