//! What the programs of plugins are started with: their words, and their environment.
//!
//! A home that is not granted is the plugin's folder for data, so that no interpreter takes code out of a home that agents write in. Names of
//! programs are looked for in whole paths of `PATH` only: what else stands there depends on where a program works.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use super::HOME;
use crate::permissions::Permissions;

/// What every program needs of the environment in order to start.
const PLAIN: [&str; 2] = ["LANG", "LC_ALL"];
/// Where programs find others.
const PATH: &str = "PATH";
/// Keeps Python from writing beside the code that it runs, which would be a change of it, and from running what lies in the user's
/// home, where agents write.
const PYTHON: [(&str, &str); 2] = [("PYTHONDONTWRITEBYTECODE", "1"), ("PYTHONNOUSERSITE", "1")];

/// A command's program and arguments, with the plugin's folder filled in.
pub(super) fn words(command: &[String], root: &Path) -> (OsString, Vec<OsString>) {
    let program = match command.first() {
        Some(program) if program.contains('/') => root.join(program).into_os_string(),
        Some(program) => program.into(),
        None => OsString::new(),
    };
    let filled = |word: &String| word.replace("${plugin}", &root.to_string_lossy()).into();
    (program, command.iter().skip(1).map(filled).collect())
}

/// The environment of a program. Its home is the user's where that is granted, and `home` otherwise.
pub(super) fn variables(
    given: &Permissions,
    home: &Path,
    environment: &(dyn Fn(&str) -> Option<String> + Sync),
) -> BTreeMap<OsString, OsString> {
    let names =
        PLAIN.into_iter().chain(given.user.then_some(HOME)).chain(given.env.iter().map(String::as_str));
    let found = names.filter_map(|name| Some((name.into(), environment(name)?.into())));
    let fixed = PYTHON.map(|(name, value)| (name.into(), value.into()));
    let path = environment(PATH).unwrap_or_default();
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    // An empty list stands for the folder that the program works in.
    let path = std::env::join_paths(folders).ok().filter(|path| !path.is_empty());
    // The later one counts.
    let all = std::iter::once((HOME.into(), home.into())).chain(found).chain(fixed);
    all.filter(|(name, _)| name != PATH).chain(path.map(|path| (PATH.into(), path))).collect()
}
