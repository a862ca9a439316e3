//! Where the configuration comes from and where the database lies.

use std::path::PathBuf;

use backstop_config::{ConfigError, Loaded, Loader, Locations};

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
    Loader::new(types.names(), environment).load(&locations.read()?)
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
    let absolute = |name: &str| environment(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
    Ok(data.ok_or(NoDataFolder)?.join("backstop").join("backstop.db"))
}

/// A path that the operator's file names: it counts from that file's folder.
pub fn from_operator(loaded: &Loaded, path: &str) -> PathBuf {
    match &loaded.operator_folder {
        Some(folder) => folder.join(path),
        None => PathBuf::from(path),
    }
}
