//! The plugins that are installed and on, with what `plugins.entries` says of each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backstop_config::{ConfigError, Loaded, PluginEntry};
use backstop_hooks::{Json, OwnerId, PointId};
use backstop_plugins::manifest::PluginId;
use backstop_plugins::openclaw::{Services, StoreServices};
use backstop_plugins::permissions::{FileWords, Permissions, Words};
use backstop_plugins::set::{PluginSet, SetError, Surroundings, Wanted, Why};
use backstop_plugins::trust::{Home, Installed};
use backstop_store::Store;

use super::problem;
use crate::error::BuildError;

/// The plugins that were asked for, and who else is installed.
#[derive(Default)]
pub(crate) struct Found {
    /// Those that are on, and may be asked.
    pub(crate) set: PluginSet,
    /// The ids of all that are installed.
    pub(crate) installed: Vec<String>,
    /// The ids of those that are on and have nothing to say at the points that are fired.
    pub(crate) elsewhere: Vec<String>,
}

/// The plugins that are on, and may have hooks at `points`, if there are such.
pub(crate) async fn load(
    loaded: &Loaded,
    folder: &Path,
    workspace: Option<PathBuf>,
    store: &Arc<dyn Store>,
    points: Option<&[PointId]>,
) -> Result<Found, BuildError> {
    let mut installed = Home::new(folder).installed()?;
    let installed_ids = installed.iter().map(|plugin| plugin.id.to_string()).collect();
    let entry = |id: &PluginId| loaded.config.plugins.entries.get(id.as_str());
    installed.retain(|plugin| {
        let said = entry(&plugin.id).and_then(|entry| entry.enabled.as_ref());
        said.map_or(plugin.record.enabled, |said| said.value)
    });
    let (here, elsewhere): (Vec<_>, Vec<_>) =
        installed.into_iter().partition(|plugin| points.is_none_or(|points| plugin.may_stand_at(points)));
    let set = load_these(loaded, here, workspace, store).await?;
    let elsewhere = elsewhere.into_iter().map(|plugin| plugin.id.to_string()).collect();
    Ok(Found { set, installed: installed_ids, elsewhere })
}

/// Loads these plugins, with what the configuration says of each.
pub(super) async fn load_these(
    loaded: &Loaded,
    installed: Vec<Installed>,
    workspace: Option<PathBuf>,
    store: &Arc<dyn Store>,
) -> Result<PluginSet, BuildError> {
    let entry = |id: &PluginId| loaded.config.plugins.entries.get(id.as_str());
    let mut wanted = Vec::with_capacity(installed.len());
    for plugin in installed {
        let config = entry(&plugin.id).and_then(|entry| entry.config.as_ref());
        let config = config.map(|config| Json::new(config.value.expose())).unwrap_or_default();
        let granted = granted(loaded, &plugin.id)?;
        wanted.push(Wanted { installed: plugin, config, granted });
    }
    let environment = |name: &str| std::env::var(name).ok();
    let may_inject: BTreeMap<String, bool> = (loaded.config.plugins.entries.iter())
        .map(|(id, entry)| (id.value.as_str().to_owned(), entry.hooks.allow_prompt_injection.value))
        .collect();
    let may = move |owner: &OwnerId| may_inject.get(owner.as_str()).copied().unwrap_or(true);
    let services: Arc<dyn Services> = Arc::new(StoreServices::new(Arc::clone(store), may));
    let surroundings = Surroundings { environment: &environment, workspace, tools: Vec::new(), services };
    PluginSet::load(wanted, &surroundings).await.map_err(|error| placed(loaded, error))
}

/// What is wrong with a plugin's options stands where the operator wrote them.
fn placed(loaded: &Loaded, error: SetError) -> BuildError {
    let Why::Config(wrong) = &*error.why else { return error.into() };
    let entries = &loaded.config.plugins.entries;
    let found = entries.iter().find(|(name, _)| name.value.as_str() == error.id.as_str());
    let Some((name, entry)) = found else { return error.into() };
    let at = entry.config.as_ref().map_or(&name.at, |config| &config.at);
    let text = format!("`plugins.entries.{}.config`: {wrong}", error.id);
    BuildError::Config(ConfigError::from(problem(at, &text)))
}

/// What the operator grants to a plugin.
///
/// # Errors
///
/// [`ConfigError`], with the place of a word that is none.
pub fn granted(loaded: &Loaded, id: &PluginId) -> Result<Permissions, ConfigError> {
    let found = loaded.config.plugins.entries.iter().find(|(name, _)| name.value.as_str() == id.as_str());
    let Some((name, entry)) = found else { return Ok(Permissions::default()) };
    ConfigError::check(bad_words(entry))?;
    Permissions::try_from(&words(entry)).map_err(|error| ConfigError::from(problem(&name.at, &error)))
}

fn words(entry: &PluginEntry) -> Words {
    let grants = &entry.grants;
    let texts = |names: &[backstop_config::Spanned<backstop_config::Name>]| {
        names.iter().map(|name| name.value.as_str().to_owned()).collect()
    };
    let folders = |folders: &[backstop_config::Spanned<backstop_config::FolderName>]| {
        folders.iter().map(|folder| folder.value.as_str().to_owned()).collect()
    };
    Words {
        files: FileWords { read: folders(&grants.files.read), write: folders(&grants.files.write) },
        env: texts(&grants.env),
        hosts: texts(&grants.hosts),
        programs: texts(&grants.programs),
        user: grants.user.value,
    }
}

/// Each word that is none, at its place.
fn bad_words(entry: &PluginEntry) -> Vec<backstop_config::Problem> {
    let grants = &entry.grants;
    let mut problems = Vec::new();
    let mut check = |words: Words, at: &backstop_config::Place| {
        if let Err(error) = Permissions::try_from(&words) {
            problems.push(problem(at, &error));
        }
    };
    for folder in grants.files.read.iter().chain(&grants.files.write) {
        let files = FileWords { read: vec![folder.value.as_str().to_owned()], ..FileWords::default() };
        check(Words { files, ..Words::default() }, &folder.at);
    }
    for name in &grants.env {
        check(Words { env: vec![name.value.as_str().to_owned()], ..Words::default() }, &name.at);
    }
    for name in &grants.hosts {
        check(Words { hosts: vec![name.value.as_str().to_owned()], ..Words::default() }, &name.at);
    }
    for name in &grants.programs {
        check(Words { programs: vec![name.value.as_str().to_owned()], ..Words::default() }, &name.at);
    }
    problems
}
