//! The plugins that are installed and on, with what `plugins.entries` says of each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backstop_config::{ConfigError, HookMode, Loaded, PluginEntry, PluginRuntime};
use backstop_hooks::tool_name::known_tools;
use backstop_hooks::{Json, OwnerId, PointId, ToolName};
use backstop_plugins::manifest::{Manifest, PluginId};
use backstop_plugins::openclaw::{Services, StoreServices};
use backstop_plugins::permissions::{FileWords, Permissions, Words};
use backstop_plugins::set::{PluginSet, RunsIn, SetError, Surroundings, Wanted, Why};
use backstop_plugins::trust::{Home, Installed};
use backstop_store::Store;

use super::machine::Known;
use super::problem;
use crate::error::BuildError;
use crate::policy::PolicyPlugin;

/// The plugins that were asked for, and who else is installed.
#[derive(Default)]
pub(crate) struct Found {
    /// Those that are on, and may be asked.
    pub(crate) set: PluginSet,
    /// The ids of all that are installed.
    pub(crate) installed: Vec<String>,
    /// Those of them that are switched off for every host, whatever its configuration says.
    pub(crate) switched_off: Vec<PluginId>,
    /// Those of them that only this configuration switches off.
    pub(crate) let_go: Vec<PluginId>,
    /// The ids of those that are on and have nothing to say at the points that are fired.
    pub(crate) elsewhere: Vec<String>,
    /// What is on, whether it has something to say at these points or not. What was loaded has the content that is said here.
    pub(crate) on: Vec<PolicyPlugin>,
}

/// Whose plugins they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Whose {
    /// The folder that the agent works in, if there is one.
    pub(crate) workspace: Option<PathBuf>,
    /// The user's home, where it is not for the environment of a coding agent to say.
    pub(crate) home: Option<String>,
}

/// The plugins that are on, and may have hooks at `points`, if there are such.
pub(crate) async fn load(
    loaded: &Loaded,
    folder: &Path,
    whose: Whose,
    store: &Arc<dyn Store>,
    points: Option<&[PointId]>,
) -> Result<Found, BuildError> {
    let installed = Home::new(folder).installed()?;
    let installed_ids = installed.iter().map(|plugin| plugin.id.to_string()).collect();
    let (installed, off): (Vec<_>, Vec<_>) = installed.into_iter().partition(|plugin| is_on(loaded, plugin));
    // What one configuration switches off may be loaded by a host with another one, and all of them share the store.
    let (let_go, switched_off): (Vec<_>, Vec<_>) = off.into_iter().partition(|plugin| plugin.record.enabled);
    let ids = |plugins: Vec<Installed>| plugins.into_iter().map(|plugin| plugin.id).collect();
    let (let_go, switched_off) = (ids(let_go), ids(switched_off));
    let on = installed.iter().map(|plugin| PolicyPlugin {
        id: plugin.id.to_string(),
        version: plugin.record.version.clone(),
        hash: plugin.record.hash.to_string(),
    });
    let on = on.collect();
    let (set, elsewhere) = load_at(loaded, installed, whose, store, Box::new(|_| {}), points).await?;
    Ok(Found { set, installed: installed_ids, switched_off, let_go, elsewhere, on })
}

/// One plugin, for its commands of the command line; no set of plugins if it is off. What they print goes to `print`.
///
/// # Errors
///
/// [`BuildError`], where it can't be had.
pub async fn load_one(
    loaded: &Loaded,
    folder: &Path,
    store: &Arc<dyn Store>,
    id: &PluginId,
    print: impl Fn(&str) + Send + Sync + 'static,
) -> Result<Option<PluginSet>, BuildError> {
    let installed = Home::new(folder).installed()?.into_iter().find(|plugin| plugin.id == *id);
    let Some(plugin) = installed.filter(|plugin| is_on(loaded, plugin)) else { return Ok(None) };
    load_these(loaded, vec![plugin], store, Box::new(print)).await.map(Some)
}

/// Whether a plugin is on: the configuration has the last word.
fn is_on(loaded: &Loaded, plugin: &Installed) -> bool {
    let entry = loaded.config.plugins.entries.get(plugin.id.as_str());
    let said = entry.and_then(|entry| entry.enabled.as_ref());
    said.map_or(plugin.record.enabled, |said| said.value)
}

/// The ids of the plugins that are on. What can't be read here is told of by whoever loads it.
pub(crate) fn installed_and_on(loaded: &Loaded, folder: &Path) -> Vec<String> {
    let installed = Home::new(folder).installed().unwrap_or_default();
    installed.iter().filter(|plugin| is_on(loaded, plugin)).map(|plugin| plugin.id.to_string()).collect()
}

/// Takes what commands of plugins print.
pub(super) type Print = Box<dyn Fn(&str) + Send + Sync>;

/// Loads these plugins, with what the configuration says of each.
pub(super) async fn load_these(
    loaded: &Loaded,
    installed: Vec<Installed>,
    store: &Arc<dyn Store>,
    print: Print,
) -> Result<PluginSet, BuildError> {
    let (set, _) = load_at(loaded, installed, Whose::default(), store, print, None).await?;
    Ok(set)
}

/// As [`load_these`], without those that have no hook at `points`, if there are such. Answers their ids, too.
async fn load_at(
    loaded: &Loaded,
    installed: Vec<Installed>,
    Whose { workspace, home }: Whose,
    store: &Arc<dyn Store>,
    print: Print,
    points: Option<&[PointId]>,
) -> Result<(PluginSet, Vec<String>), BuildError> {
    let entry = |id: &PluginId| loaded.config.plugins.entries.get(id.as_str());
    let mut wanted = Vec::with_capacity(installed.len());
    for plugin in installed {
        let config = entry(&plugin.id).and_then(|entry| entry.config.as_ref());
        let config = config.map(|config| Json::new(config.value.expose())).unwrap_or_default();
        let granted = granted(loaded, &plugin.id)?;
        let optional_tools = entry(&plugin.id)
            .map(|entry| entry.optional_tools.iter().map(|name| name.value.as_str().to_owned()).collect());
        let optional_tools = optional_tools.unwrap_or_default();
        let runtime = match entry(&plugin.id).map(|entry| entry.runtime.value) {
            Some(PluginRuntime::Node) => RunsIn::Node,
            Some(PluginRuntime::Process) => RunsIn::Apart,
            Some(PluginRuntime::Inside) | None => RunsIn::Here,
        };
        wanted.push(Wanted { installed: plugin, config, granted, optional_tools, runtime });
    }
    let environment = |name: &str| match (name, &home) {
        ("HOME", Some(home)) => Some(home.clone()),
        (name, _) => std::env::var(name).ok(),
    };
    let is_shadow = |entry: &PluginEntry| entry.hooks.mode.value == HookMode::Shadow;
    // INVARIANT (a shadow changes nothing): nor does it put anything into the next turn.
    let may_inject = |entry: &PluginEntry| entry.hooks.allow_prompt_injection.value && !is_shadow(entry);
    let may_inject: BTreeMap<String, bool> = (loaded.config.plugins.entries.iter())
        .map(|(id, entry)| (id.value.as_str().to_owned(), may_inject(entry)))
        .collect();
    let may = move |owner: &OwnerId| may_inject.get(owner.as_str()).copied().unwrap_or(true);
    let services: Arc<dyn Services> =
        Arc::new(StoreServices::new(Arc::clone(store), may).printing(move |_, text| print(text.0)));
    let own_tools = own_tools();
    let tools = known_tools().map(str::to_owned).chain(own_tools.iter().cloned()).collect();
    let machine = Known::new(loaded, &environment, workspace.as_deref());
    let surroundings = Surroundings {
        environment: &environment,
        machine: &machine,
        workspace,
        tools,
        own_tools,
        own_commands: OWN_COMMANDS.to_vec(),
        services,
    };
    let (here, elsewhere): (Vec<_>, Vec<_>) = wanted
        .into_iter()
        .partition(|wanted| points.is_none_or(|points| wanted.may_stand_at(points, &surroundings)));
    let set = PluginSet::load(here, &surroundings).await.map_err(|error| placed(loaded, error))?;
    Ok((set, elsewhere.into_iter().map(|wanted| wanted.installed.id.to_string()).collect()))
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

/// The commands of conversations that hosts have themselves.
const OWN_COMMANDS: [&str; 3] = ["help", "new", "reset"];

/// The tools that the manifests of installed plugins name, so that rules and lists can be about them before any code runs. What
/// can't be read here is told of by whoever loads it.
pub fn declared_tools(folder: &Path) -> Vec<ToolName> {
    let installed = Home::new(folder).installed().unwrap_or_default();
    let manifests = installed.iter().filter_map(|plugin| Manifest::read(&plugin.root).ok());
    manifests.flat_map(|manifest| manifest.contracts.tools).map(|name| ToolName::new(&name)).collect()
}

/// The tools of the agent's own. No plugin has one of their names, whichever host loads it.
fn own_tools() -> Vec<String> {
    #[cfg(feature = "agent")]
    return backstop_agent::tools::Toolbox::built_in().names().map(str::to_owned).collect();
    #[cfg(not(feature = "agent"))]
    Vec::new()
}

/// What the operator has a plugin's code run in.
#[must_use]
pub fn runtime(loaded: &Loaded, id: &PluginId) -> PluginRuntime {
    let entry = loaded.config.plugins.entries.get(id.as_str());
    entry.map_or(PluginRuntime::Inside, |entry| entry.runtime.value)
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
