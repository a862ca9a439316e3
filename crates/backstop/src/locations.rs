//! Where the configuration comes from, and where the database and the daemon's socket lie.

use std::path::PathBuf;

use backstop_config::{ConfigError, Loaded, Loader, Locations, Pack, PointHook, Source};

use crate::error::NoDataFolder;
use crate::hook_types::HookTypes;

/// Reads the configuration from `locations`, with the hook types that exist. Without files, the built-in
/// defaults hold.
///
/// # Errors
///
/// [`ConfigError`] with every problem of every file.
pub fn load(
    locations: &Locations,
    types: &HookTypes,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Loaded, ConfigError> {
    load_sources(&locations.read()?, types, environment)
}

/// As [`load`], with texts that were read already.
///
/// # Errors
///
/// [`ConfigError`] with every problem of every text.
pub fn load_sources(
    sources: &[Source],
    types: &HookTypes,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Loaded, ConfigError> {
    Loader::new(types.names(), environment).load(sources)
}

/// The path of the database: `store.path`, or `backstop/backstop.db` in the user's data folder
/// (`$XDG_DATA_HOME`, or `~/.local/share`).
///
/// # Errors
///
/// [`NoDataFolder`] when the configuration names none and the user has none.
pub fn store_path(
    loaded: &Loaded,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<PathBuf, NoDataFolder> {
    if let Some(path) = &loaded.config.store.path {
        return Ok(from_operator(loaded, path.value.expose()));
    }
    Ok(data_folder(environment).ok_or(NoDataFolder)?.join("backstop.db"))
}

/// The folder of the recording of tool calls: `tape.path`, or `backstop/tape` in the user's data folder.
///
/// # Errors
///
/// [`NoDataFolder`] when the configuration names none and the user has none.
pub fn tape_folder(
    loaded: &Loaded,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<PathBuf, NoDataFolder> {
    if let Some(path) = &loaded.config.tape.path {
        return Ok(from_operator(loaded, path.value.expose()));
    }
    Ok(data_folder(environment).ok_or(NoDataFolder)?.join("tape"))
}

/// The socket on which the daemon answers hooks: `daemon.socket`, or `backstop/daemon/hooks.sock` in the user's data
/// folder.
///
/// # Errors
///
/// [`NoDataFolder`] when the configuration names none and the user has none.
pub fn daemon_socket(
    loaded: &Loaded,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<PathBuf, NoDataFolder> {
    if let Some(path) = &loaded.config.daemon.socket {
        return Ok(from_operator(loaded, path.value.expose()));
    }
    Ok(data_folder(environment).ok_or(NoDataFolder)?.join("daemon").join("hooks.sock"))
}

/// Where the key lies that signs heads of the audit trail, unless the caller says otherwise: `backstop/audit.key` in the
/// user's data folder.
///
/// # Errors
///
/// [`NoDataFolder`] when the user has none.
pub fn audit_key(environment: &dyn Fn(&str) -> Option<String>) -> Result<PathBuf, NoDataFolder> {
    Ok(data_folder(environment).ok_or(NoDataFolder)?.join("audit.key"))
}

/// Our folder below `$XDG_DATA_HOME`, or below `~/.local/share`. `None` where neither variable is an absolute path.
pub fn data_folder(environment: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let absolute = |name: &str| environment(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")))?;
    Some(data.join("backstop"))
}

/// The files beside the configuration's own from which hooks are made, so that whoever keeps hooks can tell when they
/// are out of date: the rule packs, the catalogues of programs, secrets and numbers, and the scripts that judge.
pub fn policy_files(loaded: &Loaded) -> Vec<PathBuf> {
    let guards = &loaded.config.guards;
    let guard = &guards.command_safety;
    let files = guard
        .packs
        .iter()
        .chain(&guard.programs)
        .chain(&guards.secrets.formats)
        .chain(&guards.personal_data.formats)
        .filter_map(|pack| match pack {
            Pack::File(path) => Some(from_operator(loaded, path.value.expose())),
            Pack::Inline(_) => None,
        });
    files.chain(loaded.config.hooks.placed().filter_map(|hook| script(loaded, hook.entry))).collect()
}

/// The script of a hook: its program, where that is named by its path, and otherwise the first argument that is no option, if that names
/// a file.
fn script(loaded: &Loaded, hook: &PointHook) -> Option<PathBuf> {
    let mut words = hook.command.iter().flat_map(|words| &words.value).map(|word| word.value.expose());
    let program = words.next()?;
    if program.contains('/') {
        return Some(from_operator(loaded, program));
    }
    let file = from_operator(loaded, words.find(|word| !word.starts_with('-'))?);
    (file.is_absolute() && file.is_file()).then_some(file)
}

/// A path that the operator's file names: it counts from that file's folder.
pub fn from_operator(loaded: &Loaded, path: &str) -> PathBuf {
    match &loaded.operator_folder {
        Some(folder) => folder.join(path),
        None => PathBuf::from(path),
    }
}
