//! The plugins of a process: those that are installed, trusted and on, as hooks of a snapshot.
//!
//! A set is loaded whole or not at all. The law: *a plugin that is on and can't be had is an error*, never a plugin less: its gates
//! could not be asked. So a plugin whose files have changed, whose program does not start, or that lacks a grant without which it
//! can't be asked stops the loading, and the error says how to trust it, grant it or switch it off. What a plugin can do without
//! is listed in [`Seated`].
//!
//! Limits: permissions hold a script wherever it turns, and of what runs outside of this process the environment and the server
//! that is asked.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use backstop_engine::Snapshot;
use backstop_hooks::{Json, Secret};
use backstop_script::{WorkerSettings, Workers};

use crate::external::command::{CommandSettings, Commands, NoSuchEvent};
use crate::external::http::{Authorization, HttpError, HttpHook, HttpSettings};
use crate::external::process::{Limits, ProcessPlugin, ProcessSettings, StartError};
use crate::manifest::{Api, Kind, Manifest, ManifestError, PluginId};
use crate::openclaw::{self, Batches, Facts, LoadError, Scripted, Services};
use crate::permissions::{Access, Effective, Folders, Host, Permissions};
use crate::registration::{HookSpec, Registration, RegistrationError, Seated};
use crate::trust::{Installed, State};

/// How long a server may take, where the budget of the hook is longer.
const SERVER_PATIENCE: Duration = Duration::from_secs(30);
/// What every program needs of the environment in order to start.
const PLAIN_VARIABLES: [&str; 3] = ["PATH", "LANG", "LC_ALL"];

/// A plugin that is on.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The plugin.
    pub installed: Installed,
    /// Its options.
    pub config: Json,
    /// What the operator grants to it.
    pub granted: Permissions,
}

/// Why a plugin can't be had.
#[derive(Debug, thiserror::Error)]
#[error("plugin `{id}`: {why}")]
pub struct SetError {
    /// The plugin.
    pub id: PluginId,
    /// Why.
    pub why: Box<Why>,
}

/// What is wrong with a plugin that is on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Why {
    /// It is not what was trusted.
    #[error(
        "its files are not those that are trusted: {0}\nhint: look at it with `backstop plugins inspect`, then `backstop plugins trust` or `backstop plugins disable` it"
    )]
    NotTrusted(String),
    /// Its manifest.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// It needs what is not granted.
    #[error(
        "it can't be asked without the grant to {what}\nhint: add `{word}` to `plugins.entries.{id}.grants.{key}`, or switch it off with `backstop plugins disable {id}`"
    )]
    NotGranted {
        /// The plugin.
        id: PluginId,
        /// What it needs, in words.
        what: String,
        /// The key of the grants.
        key: &'static str,
        /// What is to be added.
        word: String,
    },
    /// Its program.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Its server.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// A point that its dialect has no words for.
    #[error(transparent)]
    Dialect(#[from] NoSuchEvent),
    /// What it registers.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    /// Its code has other hooks than its manifest.
    #[error(
        "its code has a hook at `{0}`, which its manifest does not name\nhint: add it to `points`; people consent to what stands there"
    )]
    Undeclared(String),
    /// Its code.
    #[error("{}", without_name(.0))]
    Script(Box<LoadError>),
    /// A folder of ours.
    #[error("its folder for data can't be made: {0}")]
    Data(std::io::Error),
}

impl From<LoadError> for Why {
    fn from(error: LoadError) -> Self {
        Self::Script(Box::new(error))
    }
}

/// What the plugins of a process have in common.
pub struct Surroundings<'a> {
    /// The environment that grants are taken from.
    pub environment: &'a (dyn Fn(&str) -> Option<String> + Sync),
    /// The folder that the agent works in, if there is one.
    pub workspace: Option<PathBuf>,
    /// The tools that exist.
    pub tools: Vec<String>,
    /// What scripts ask of this process.
    pub services: Arc<dyn Services>,
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("workspace", &self.workspace).finish_non_exhaustive()
    }
}

/// What a script's error says without the plugin's name, which stands before it already.
fn without_name(error: &LoadError) -> String {
    match error {
        LoadError::Script { error, .. } => error.to_string(),
        other @ LoadError::Registration(_) => other.to_string(),
    }
}

/// One plugin that was loaded.
#[derive(Debug)]
struct Running {
    id: PluginId,
    registration: Registration,
    process: Option<ProcessPlugin>,
    /// What keeps its code loaded.
    _script: Option<Scripted>,
}

/// The plugins of a process.
#[derive(Debug, Default)]
pub struct PluginSet(Vec<Running>);

impl PluginSet {
    /// Loads these plugins, in this order.
    ///
    /// # Errors
    ///
    /// [`SetError`], for the first plugin that can't be had; what was started for others is ended.
    pub async fn load(wanted: Vec<Wanted>, surroundings: &Surroundings<'_>) -> Result<Self, SetError> {
        let mut running = Vec::with_capacity(wanted.len());
        let scripts = Scripts::default();
        for plugin in wanted {
            let id = plugin.installed.id.clone();
            let started = Box::pin(start(plugin, surroundings, &scripts)).await;
            running.push(started.map_err(|why| SetError { id, why: Box::new(why) })?);
        }
        Ok(Self(running))
    }

    /// Puts the hooks into `snapshot`. Where that fails, some of them may stand in it, and it is to be thrown away.
    ///
    /// # Errors
    ///
    /// [`SetError`], where a gate can't stand.
    pub fn seat(&self, snapshot: &mut Snapshot) -> Result<Vec<(PluginId, Seated)>, SetError> {
        let seat = |plugin: &Running| {
            let id = plugin.id.clone();
            let seated = plugin
                .registration
                .seat(snapshot)
                .map_err(|why| SetError { id, why: Box::new(why.into()) })?;
            Ok((plugin.id.clone(), seated))
        };
        self.0.iter().map(seat).collect()
    }

    /// The plugins.
    pub fn ids(&self) -> impl Iterator<Item = &PluginId> {
        self.0.iter().map(|plugin| &plugin.id)
    }

    /// Ends what was started. The hooks fail from now on.
    pub async fn shut_down(&self) {
        for plugin in &self.0 {
            if let Some(process) = &plugin.process {
                process.shut_down().await;
            }
        }
    }
}

/// Where scripts run. Nothing is started before there is one.
#[derive(Default)]
struct Scripts {
    workers: std::sync::OnceLock<Workers>,
    batches: Arc<Batches>,
}

impl Scripts {
    fn workers(&self) -> &Workers {
        self.workers
            .get_or_init(|| Workers::start(WorkerSettings::default(), tokio::runtime::Handle::current()))
    }
}

async fn start(wanted: Wanted, surroundings: &Surroundings<'_>, scripts: &Scripts) -> Result<Running, Why> {
    let environment = surroundings.environment;
    let Wanted { installed, config, granted } = wanted;
    match installed.state() {
        State::Trusted => {}
        State::Changed(now) => return Err(Why::NotTrusted(format!("they are `{now}` now"))),
        State::Broken(error) => return Err(Why::NotTrusted(error.to_string())),
    }
    let manifest = Manifest::read(&installed.root)?;
    if manifest.id != installed.id {
        return Err(Why::NotTrusted(format!("they are those of `{}`", manifest.id)));
    }
    let got = match &manifest.asked {
        Some(asked) => asked.granted(&granted),
        None => Effective { given: granted, ..Effective::default() },
    };
    let mut registration = Registration::new(installed.id.as_str())?;
    let not_granted = &format!("not granted in `plugins.entries.{}.grants`", installed.id);
    for missing in got.missing.sentences() {
        registration.leave_out(missing, not_granted);
    }
    let points = manifest.points.as_deref();
    let root = &installed.root;
    let (mut process, mut script) = (None, None);
    match &manifest.kind {
        Kind::Script { entry } => {
            let facts = facts(&manifest, entry, &installed, config, surroundings);
            script = Some(load_script(facts, &installed, &got.given, surroundings, scripts).await?);
        }
        Kind::Process { command } => {
            let (program, arguments) = words(command, root);
            let settings = ProcessSettings {
                plugin: installed.id.to_string(),
                program,
                arguments,
                directory: root.clone(),
                environment: variables(&got.given, environment),
                config,
                limits: Limits::default(),
            };
            let started = ProcessPlugin::start(settings).await?;
            started.register(&mut registration)?;
            process = Some(started);
        }
        Kind::Command { command, dialect } => {
            let (program, arguments) = words(command, root);
            let settings = CommandSettings {
                program,
                arguments,
                directory: root.clone(),
                environment: variables(&got.given, environment),
                dialect: *dialect,
            };
            let commands = Commands::default();
            for spec in points.unwrap_or_default() {
                let hook = commands.hook(spec.point, settings.clone())?;
                registration.hook(spec.clone(), Arc::new(hook))?;
            }
        }
        Kind::Http { url, authorization } => {
            needs(&got.missing, &installed.id)?;
            let settings = HttpSettings {
                url: Secret::new(url.clone()),
                authorization: authorization.clone().map(Authorization::Variable),
                timeout: SERVER_PATIENCE,
            };
            for spec in points.unwrap_or_default() {
                let hook = HttpHook::new(spec.registration.clone(), &settings, &|name| environment(name))?;
                registration.hook(spec.clone(), Arc::new(hook))?;
            }
        }
    }
    // A script brings a registration of its own; what is missing is said in it as well.
    if let Some(loaded) = &mut script {
        let empty = Registration::new(installed.id.as_str())?;
        registration = std::mem::replace(&mut loaded.registration, empty);
        for missing in got.missing.sentences() {
            registration.leave_out(missing, not_granted);
        }
    }
    let is_named =
        |spec: &HookSpec| points.is_none_or(|points| points.iter().any(|at| at.point == spec.point));
    if let Some(spec) = registration.hooks().find(|spec| !is_named(spec)) {
        return Err(Why::Undeclared(spec.point.name().to_owned()));
    }
    Ok(Running { id: installed.id, registration, process, _script: script })
}

/// What a script's code is told of itself.
fn facts(
    manifest: &Manifest,
    entry: &str,
    installed: &Installed,
    config: Json,
    surroundings: &Surroundings<'_>,
) -> Facts {
    Facts {
        id: installed.id.to_string(),
        name: manifest.name.clone(),
        version: manifest.version.clone(),
        description: manifest.description.clone(),
        root: installed.root.clone(),
        entry: entry.to_owned(),
        dialect: match manifest.api {
            Api::Backstop => openclaw::Dialect::Backstop,
            Api::OpenClaw => openclaw::Dialect::OpenClaw,
        },
        config: config.to_value(),
        workspace: surroundings.workspace.clone(),
        state: None,
        tools: surroundings.tools.clone(),
    }
}

async fn load_script(
    facts: Facts,
    installed: &Installed,
    given: &Permissions,
    surroundings: &Surroundings<'_>,
    scripts: &Scripts,
) -> Result<Scripted, Why> {
    let folders = Folders {
        plugin: installed.root.clone(),
        workspace: surroundings.workspace.clone(),
        data: installed.data.clone(),
    };
    let permissions = permissions(given, &folders, surroundings);
    let has_data = permissions.files.iter().any(|grant| grant.root.starts_with(&folders.data));
    if has_data {
        std::fs::create_dir_all(&folders.data).map_err(Why::Data)?;
    }
    let facts = Facts { state: has_data.then_some(folders.data), ..facts };
    let services = Arc::clone(&surroundings.services);
    Ok(openclaw::load(facts, permissions, scripts.workers(), &scripts.batches, services).await?)
}

/// What a script gets, as its runtime wants it. A program that is named and not found is not given.
fn permissions(
    given: &Permissions,
    folders: &Folders,
    surroundings: &Surroundings<'_>,
) -> backstop_script::Permissions {
    let path = (surroundings.environment)("PATH").unwrap_or_default();
    let found = |name: &String| match name.starts_with('/') {
        true => Some(PathBuf::from(name)),
        false => std::env::split_paths(&path)
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(name))
            .find(|file| file.is_file()),
    };
    let files = given.files.iter().filter_map(|(folder, access)| {
        let access = match access {
            Access::Read => backstop_script::FileAccess::Read,
            Access::Write => backstop_script::FileAccess::Write,
        };
        Some(backstop_script::FileGrant { root: folder.resolve(folders)?, access })
    });
    let host = |host: &Host| backstop_script::HostGrant { host: host.name.clone(), port: host.port };
    let variable = |name: &String| Some((name.clone(), (surroundings.environment)(name)?));
    backstop_script::Permissions {
        files: files.collect(),
        env: given.env.iter().filter_map(variable).collect(),
        hosts: given.hosts.iter().map(host).collect(),
        programs: given.programs.iter().filter_map(found).collect(),
        user: given.user.then(|| who(surroundings)).flatten(),
    }
}

/// Who runs this process, as its environment says.
fn who(surroundings: &Surroundings<'_>) -> Option<backstop_script::UserGrant> {
    let variable = |name: &str| (surroundings.environment)(name);
    let home = variable("HOME").map(PathBuf::from).filter(|home| home.is_absolute())?;
    let name = variable("USER").or_else(|| variable("LOGNAME")).unwrap_or_default();
    Some(backstop_script::UserGrant { home, name })
}

/// Refuses a server that may not be asked.
fn needs(missing: &Permissions, id: &PluginId) -> Result<(), Why> {
    let what = || missing.sentences().join("; ");
    let host = missing.hosts.first().map(|host| {
        let port = host.port.map(|port| format!(":{port}")).unwrap_or_default();
        let name = if host.name.contains(':') { format!("[{}]", host.name) } else { host.name.clone() };
        ("hosts", name + &port)
    });
    match host.or_else(|| missing.env.first().map(|name| ("env", name.clone()))) {
        Some((key, word)) => Err(Why::NotGranted { id: id.clone(), what: what(), key, word }),
        None => Ok(()),
    }
}

/// A command's program and arguments, with the plugin's folder filled in.
fn words(command: &[String], root: &Path) -> (OsString, Vec<OsString>) {
    let fill = |word: &String| OsString::from(word.replace("${plugin}", &root.to_string_lossy()));
    let program = match command.first() {
        Some(program) if program.contains('/') => root.join(program).into_os_string(),
        Some(program) => program.into(),
        None => OsString::new(),
    };
    (program, command.iter().skip(1).map(fill).collect())
}

fn variables(
    given: &Permissions,
    environment: &(dyn Fn(&str) -> Option<String> + Sync),
) -> BTreeMap<OsString, OsString> {
    let names = PLAIN_VARIABLES.into_iter().chain(given.env.iter().map(String::as_str));
    names.filter_map(|name| Some((name.into(), environment(name)?.into()))).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use backstop_engine::{Hosts, OperatorSettings};
    use backstop_hooks::HostProfile;
    use backstop_hooks::PointId;

    use super::*;
    use crate::permissions::Words;
    use crate::trust::Home;

    fn wanted(files: &[(&str, &str)], grants: &str) -> (tempfile::TempDir, Wanted) {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        fs::create_dir(&source).unwrap();
        for (name, text) in files {
            fs::write(source.join(name), text).unwrap();
        }
        let home = Home::new(folder.path().join("plugins"));
        let staged = home.stage(&source).unwrap();
        let hash = staged.package.hash;
        let installed = home.install(staged, hash, "a folder", 1).unwrap();
        let words: Words = serde_json::from_str(grants).unwrap();
        let granted = Permissions::try_from(&words).unwrap();
        (folder, Wanted { installed, config: Json::default(), granted })
    }

    fn environment(name: &str) -> Option<String> {
        match name {
            "PATH" => std::env::var("PATH").ok(),
            "GIVEN" | "KEPT" => Some(name.to_lowercase()),
            _ => None,
        }
    }

    async fn loaded(wanted: Wanted) -> Result<PluginSet, String> {
        let surroundings = Surroundings {
            environment: &environment,
            workspace: None,
            tools: Vec::new(),
            services: Arc::new(openclaw::NoServices),
        };
        PluginSet::load(vec![wanted], &surroundings).await.map_err(|error| error.to_string())
    }

    const COMMAND: &str = r#"{"id": "mine", "version": "1", "kind": "command", "command": ["sh", "${plugin}/hook.sh"],
        "points": [{"point": "before_tool_call"}, {"point": "session_start"}], "permissions": {"env": ["GIVEN", "KEPT"]}}"#;

    #[tokio::test]
    async fn a_trusted_plugin_stands_at_its_points_and_what_is_missing_is_listed() {
        let files = [("backstop.plugin.json", COMMAND), ("hook.sh", "exit 0")];
        let (_folder, plugin) = wanted(&files, r#"{"env": ["GIVEN"]}"#);
        let set = loaded(plugin).await.unwrap();
        let mut snapshot = Snapshot::empty(OperatorSettings::default());
        let seated = set.seat(&mut snapshot).unwrap();
        let points: Vec<_> = snapshot.iter().map(|meta| meta.point).collect();
        assert_eq!(points, [PointId::BeforeToolCall, PointId::SessionStart]);
        assert!(snapshot.iter().all(|meta| meta.owner.to_string() == "mine"));
        let left_out: Vec<_> = seated[0].1.left_out.iter().map(|left| left.what.as_str()).collect();
        assert_eq!(left_out, ["see the environment variable `KEPT`"]);
    }

    #[tokio::test]
    async fn a_gate_that_no_host_fires_is_an_error_that_names_plugin_and_point() {
        let files = [("backstop.plugin.json", COMMAND), ("hook.sh", "exit 0")];
        let (_folder, plugin) = wanted(&files, "{}");
        let set = loaded(plugin).await.unwrap();
        let profile = HostProfile::new("tiny", "a tiny host").fires([PointId::SessionStart]);
        let mut snapshot = Snapshot::empty(OperatorSettings::default()).hosted_by(Hosts::new([profile]));
        let error = set.seat(&mut snapshot).unwrap_err().to_string();
        assert!(error.contains("`mine`") && error.contains("before_tool_call"), "{error}");
    }

    #[tokio::test]
    async fn law_05_a_plugin_that_is_on_and_has_changed_is_an_error_and_not_a_plugin_less() {
        let files = [("backstop.plugin.json", COMMAND), ("hook.sh", "exit 2")];
        let (_folder, plugin) = wanted(&files, "{}");
        fs::write(plugin.installed.root.join("hook.sh"), "exit 0").unwrap();
        let error = loaded(plugin.clone()).await.unwrap_err();
        assert!(error.contains("not those that are trusted") && error.contains("disable"), "{error}");
        fs::remove_dir_all(&plugin.installed.root).unwrap();
        assert!(loaded(plugin).await.is_err());
    }

    #[tokio::test]
    async fn a_server_is_asked_only_where_host_and_credentials_are_granted() {
        let manifest = r#"{"id": "web", "version": "1", "kind": "http", "url": "http://127.0.0.1:9/x", "authorization": "GIVEN",
            "points": [{"point": "before_tool_call"}]}"#;
        let files = [("backstop.plugin.json", manifest)];
        for (grants, said) in [
            ("{}", Some("add `127.0.0.1:9` to `plugins.entries.web.grants.hosts`")),
            (r#"{"hosts": ["127.0.0.1"]}"#, Some("grants.hosts")),
            (r#"{"hosts": ["127.0.0.1:9"]}"#, Some("add `GIVEN` to `plugins.entries.web.grants.env`")),
            (r#"{"hosts": ["127.0.0.1:9"], "env": ["GIVEN"]}"#, None),
        ] {
            let (_folder, plugin) = wanted(&files, grants);
            let error = loaded(plugin).await.err();
            match said {
                Some(said) => assert!(error.as_ref().is_some_and(|error| error.contains(said)), "{error:?}"),
                None => assert_eq!(error, None),
            }
        }
    }

    #[test]
    fn a_program_gets_what_is_granted_of_the_environment_and_what_it_needs_to_start() {
        let given = Permissions { env: ["GIVEN".to_owned()].into(), ..Permissions::default() };
        let names: Vec<_> = variables(&given, &environment).into_keys().collect();
        assert_eq!(names, ["GIVEN", "PATH"]);
        let command = ["./run".to_owned(), "${plugin}/x".to_owned()];
        assert_eq!(words(&command, Path::new("/p")), ("/p/./run".into(), vec!["/p/x".into()]));
    }

    #[tokio::test]
    async fn a_script_stands_with_what_it_registers_where_its_manifest_says() {
        let code = r#"import { definePluginEntry } from "backstop/plugin-sdk";
            export default definePluginEntry({ id: "mine", name: "Mine", register(api) {
                api.on("before_tool_call", () => ({ block: true, blockReason: "no" }));
            } });"#;
        let manifest = r#"{"id": "mine", "version": "1", "kind": "script", "entry": "a.js",
            "points": [{"point": "before_tool_call"}]}"#;
        let (_folder, plugin) = wanted(&[("backstop.plugin.json", manifest), ("a.js", code)], "{}");
        let set = loaded(plugin).await.unwrap();
        let mut snapshot = Snapshot::empty(OperatorSettings::default());
        set.seat(&mut snapshot).unwrap();
        let points: Vec<_> = snapshot.iter().map(|meta| meta.point).collect();
        assert_eq!(points, [PointId::BeforeToolCall]);
        let elsewhere = manifest.replace("before_tool_call", "session_start");
        let (_folder, plugin) = wanted(&[("backstop.plugin.json", &elsewhere), ("a.js", code)], "{}");
        let error = loaded(plugin).await.unwrap_err();
        assert!(error.contains("before_tool_call") && error.contains("manifest"), "{error}");
        let (_folder, plugin) = wanted(&[("backstop.plugin.json", manifest), ("a.js", "const x = ;")], "{}");
        let error = loaded(plugin).await.unwrap_err();
        assert!(error.contains("`mine`") && error.contains("a.js"), "{error}");
    }
}
