//! Where the configuration comes from, and where the database and the daemon's socket lie.

use std::path::PathBuf;
use std::sync::Arc;

use backstop_config::{
    ConfigError, Loaded, Loader, Locations, Pack, PointHook, Problem, ProblemKind, Source,
};
use backstop_store::{DigestKey, SqliteStore};

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

/// The file with the key of the digests in the audit trail, if `audit.digest_key` names one.
pub fn digest_key_file(loaded: &Loaded) -> Option<PathBuf> {
    let named = loaded.config.audit.digest_key.as_ref()?;
    Some(from_operator(loaded, named.value.expose()))
}

/// The file with the key that signs the audit trail, if `audit.key_file` names one: it is only read. Otherwise the key lies beside the database.
pub fn kept_key_file(loaded: &Loaded) -> Option<PathBuf> {
    let named = loaded.config.audit.key_file.as_ref()?;
    Some(from_operator(loaded, named.value.expose()))
}

/// The key of the digests in the audit trail, from the file that `audit.digest_key` names; `None` where it names none.
///
/// # Errors
///
/// [`ConfigError`] if there is no key in it, or others than its owner can read it.
pub fn digest_key(loaded: &Loaded) -> Result<Option<Arc<DigestKey>>, ConfigError> {
    let (Some(named), Some(path)) = (&loaded.config.audit.digest_key, digest_key_file(loaded)) else {
        return Ok(None);
    };
    let key = DigestKey::read(&path).map_err(|error| {
        let (why, hint) = match error.to_string().split_once("\nhint: ") {
            Some((why, hint)) => (why.to_owned(), Some(hint.to_owned())),
            None => (error.to_string(), None),
        };
        let message = format!("`{}` is no key for the digests of the audit trail: {why}", path.display());
        let problem = Problem::new(ProblemKind::BadValue, named.at.clone(), message);
        problem.with_hint(hint.unwrap_or_else(|| {
            "put it back, or make one with `backstop audit keygen`; without it nothing is judged".to_owned()
        }))
    })?;
    Ok(Some(Arc::new(key)))
}

/// The store in the file at `path`, whose audit trail is what the configuration says.
///
/// # Errors
///
/// [`ConfigError`] if the digests in the trail are to be keyed, and there is no key.
pub fn store_in_file(loaded: &Loaded, path: PathBuf) -> Result<SqliteStore, ConfigError> {
    let key = digest_key(loaded)?;
    Ok(match kept_key_file(loaded) {
        Some(kept) => SqliteStore::with_kept_key(path, kept, Ok(key)),
        None => SqliteStore::with_digest_key(path, key),
    })
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
/// are out of date: the rule packs, the catalogues of programs, secrets and numbers, the scripts that judge, and the authorities by which the server
/// is believed that has the answers.
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
    let authorities = loaded.config.store.postgres.ca_file.iter();
    let authorities = authorities.map(|file| from_operator(loaded, file.value.expose()));
    let scripts = loaded.config.hooks.placed().filter_map(|hook| script(loaded, hook.entry));
    files.chain(scripts).chain(authorities).collect()
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
