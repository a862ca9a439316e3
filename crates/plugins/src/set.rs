//! The plugins of a process: those that are installed, trusted and on, as hooks of a snapshot.
//!
//! A set is loaded whole or not at all. The law: *a plugin that is on and can't be had is an error*, never a plugin less: its gates
//! could not be asked. So a plugin whose files have changed, whose program does not start, or that lacks a grant without which it
//! can't be asked stops the loading, and the error says how to trust it, grant it or switch it off. What a plugin can do without
//! is listed in [`Seated`].
//!
//! *What was looked at is what runs*: a plugin's files are looked at once, for the digest that is trusted, and whatever is read of its
//! code from then on (its manifest, a script's modules, the files of a program before each start) is held against that look.
//!
//! Limits: permissions hold a script wherever it turns, and of what runs outside of this process the environment and the server
//! that is asked. A program's home is the plugin's folder for data unless the user's is granted, so that no interpreter takes code
//! out of a home that agents write in; where else an interpreter looks (Node.js in the folders above) is not held.

mod error;
mod machine;
mod points;
mod programs;
mod scripts;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use backstop_engine::{NotAnEvent, Snapshot};
use backstop_hooks::{CallContext, HookId, Json, OwnerId, PointId, Secret};

pub(crate) use self::error::BACKSTOP;
pub use self::error::{SetError, Why};
pub use self::machine::{FoundProgram, Machine};
use self::programs::{Command, variables};
pub use self::scripts::RunsIn;
use self::scripts::Scripts;
use crate::config_schema::{self, BadConfig};
use crate::external::command::{CommandSettings, Commands};
use crate::external::http::{Authorization, HttpHook, HttpSettings};
use crate::external::process::{Limits, ProcessPlugin, ProcessSettings};
use crate::manifest::{Api, Kind, Manifest, PluginId};
use crate::offers::{self, services::Started, tools::PluginTool};
use crate::openclaw::{self, Facts, Scripted, Services};
use crate::permissions::{Access, Effective, Folders, Host, Permissions};
use crate::probe::{self, Fired, Judged, Shape};
use crate::registration::{HookSpec, OfferKind, Registration, Seated};
use crate::trust::{Installed, LoadKey, State};

/// How long a server may take, where the budget of the hook is longer.
const SERVER_PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked whether somebody still asks a program that is to end.
const LOOK: Duration = Duration::from_millis(100);
/// Where interpreters look for packages and settings of the user's. Without it many ask the system for the user's home.
const HOME: &str = "HOME";

/// A plugin that is on.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The plugin.
    pub installed: Installed,
    /// Its options.
    pub config: Json,
    /// What the operator grants to it.
    pub granted: Permissions,
    /// Its optional tools that the agent is offered.
    pub optional_tools: Vec<String>,
    /// What runs its code, if it is a script.
    pub runtime: RunsIn,
}

impl Wanted {
    /// Whether it may have a hook at one of these points, as far as is known of what it is loaded with.
    pub fn may_stand_at(&self, points: &[PointId], surroundings: &Surroundings<'_>) -> bool {
        self.installed.may_stand_at(points, self.key(surroundings))
    }

    /// Everything that its code is loaded with, and may choose its hooks by. There is none where the code may choose them by something else: a
    /// file, a server, a program or a variable that it is granted, or anything that a process of its own finds on the machine.
    fn key(&self, surroundings: &Surroundings<'_>) -> Option<LoadKey> {
        if self.runtime != RunsIn::Here || self.granted != Permissions::default() {
            return None;
        }
        let parts = [
            self.installed.record.hash.to_string(),
            self.config.to_string(),
            format!("{:?}", surroundings.workspace),
        ];
        let all: Vec<String> = parts.into_iter().chain(surroundings.tools.iter().cloned()).collect();
        Some(LoadKey::of(all.iter().map(String::as_str)))
    }
}

/// What the plugins of a process have in common.
pub struct Surroundings<'a> {
    /// The environment that grants are taken from.
    pub environment: &'a (dyn Fn(&str) -> Option<String> + Sync),
    /// The folder that the agent works in, if there is one.
    pub workspace: Option<PathBuf>,
    /// The tools that exist, for matchers.
    pub tools: Vec<String>,
    /// The tools of the agent's own, whose names are taken.
    pub own_tools: Vec<String>,
    /// The commands of conversations that hosts have themselves, whose names are taken.
    pub own_commands: Vec<&'static str>,
    /// What scripts ask of this process.
    pub services: Arc<dyn Services>,
    /// Where programs of the machine are: those that plugins are, that scripts are granted, and Node.
    pub machine: &'a dyn Machine,
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("workspace", &self.workspace).finish_non_exhaustive()
    }
}

/// One plugin that was loaded.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) id: PluginId,
    pub(crate) registration: Registration,
    pub(crate) process: Option<ProcessPlugin>,
    /// What keeps its code loaded.
    pub(crate) script: Option<Arc<Scripted>>,
    /// Its tools that are offered.
    pub(crate) tools: Vec<PluginTool>,
    /// Its services that run.
    pub(crate) started: Started,
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
        offers::tools::check_names(&running, &surroundings.own_tools)?;
        offers::commands::check_names(&running, &surroundings.own_commands)?;
        Ok(Self(running))
    }

    /// Puts the hooks into `snapshot`. Where that fails, some of them may stand in it, and it is to be thrown away.
    ///
    /// # Errors
    ///
    /// [`SetError`], where a gate can't stand.
    pub fn seat(&self, snapshot: &mut Snapshot) -> Result<Vec<(PluginId, Seated)>, SetError> {
        snapshot.add_tools(self.tools().map(PluginTool::name));
        let seat = |plugin: &Running| {
            let id = plugin.id.clone();
            snapshot.add_owner(OwnerId::new(id.as_str()));
            let seated = plugin
                .registration
                .seat(snapshot)
                .map_err(|why| SetError { id, why: Box::new(why.into()) })?;
            Ok((plugin.id.clone(), seated))
        };
        self.0.iter().map(seat).collect()
    }

    /// What its plugins are, together, in a snapshot that is thrown away.
    ///
    /// # Errors
    ///
    /// As [`Self::seat`].
    pub fn shape(&self, snapshot: &mut Snapshot) -> Result<Shape, SetError> {
        let mut shape = Shape::default();
        for (_, seated) in self.seat(snapshot)? {
            shape.seated.hooks.extend(seated.hooks);
            shape.seated.waiting.extend(seated.waiting);
            shape.seated.left_out.extend(seated.left_out);
        }
        let offers = self.0.iter().flat_map(|plugin| plugin.registration.offers());
        shape.offers = offers.map(|offer| (offer.kind, offer.name.clone())).collect();
        Ok(shape)
    }

    /// Fires each hook that is in `standing` once, with the sample of its point.
    pub async fn fire_each(&self, standing: &[HookId], config: &Json) -> Vec<Fired> {
        let mut all = Vec::new();
        for plugin in &self.0 {
            all.extend(
                probe::fire_each(&plugin.registration, plugin.script.as_deref(), standing, config).await,
            );
        }
        all
    }

    /// Has the hooks of its one plugin judge an event that did not happen.
    ///
    /// # Errors
    ///
    /// [`NotAnEvent`].
    pub async fn judge(
        &self,
        point: PointId,
        event: serde_json::Value,
        call: &CallContext,
        config: &Json,
    ) -> Result<Judged, NotAnEvent> {
        match self.0.as_slice() {
            [plugin] => probe::judge(&plugin.registration, point, event, call, config).await,
            _ => Err(NotAnEvent { point, why: "it is asked of one plugin".to_owned() }),
        }
    }

    /// The bytes of memory that its scripts use now; `None` where there is none that says so.
    pub async fn heap(&self) -> Option<u64> {
        let mut total = None;
        for script in self.0.iter().filter_map(|plugin| plugin.script.as_ref()) {
            total = Some(total.unwrap_or(0) + script.heap().await?);
        }
        total
    }

    /// What its scripts asked for that no grant names, in words of a manifest, and how often.
    pub fn denials(&self) -> Vec<(String, u64)> {
        self.0
            .iter()
            .filter_map(|plugin| plugin.script.as_ref())
            .flat_map(|script| script.denials())
            .collect()
    }

    /// What of its scripts' answers only informs somebody, and was left out.
    pub fn not_read(&self) -> Vec<String> {
        let scripts = self.0.iter().filter_map(|plugin| plugin.script.as_ref());
        scripts.flat_map(|script| script.not_read()).collect()
    }

    /// The plugins.
    pub fn ids(&self) -> impl Iterator<Item = &PluginId> {
        self.0.iter().map(|plugin| &plugin.id)
    }

    /// The tools that plugins bring and the agent is offered. No two have one name, and none has that of a tool of the agent's own.
    pub fn tools(&self) -> impl Iterator<Item = &PluginTool> {
        self.0.iter().flat_map(|plugin| &plugin.tools)
    }

    pub(crate) fn plugins(&self) -> impl Iterator<Item = &Running> {
        self.0.iter()
    }

    /// Ends the set once nobody asks any of its code, or `patience` is over: whoever holds a snapshot with its hooks, or a tool,
    /// keeps it. Services are to be stopped before.
    pub async fn retire(self, patience: Duration) {
        let over = tokio::time::Instant::now() + patience;
        let mut processes: Vec<ProcessPlugin> = Vec::new();
        // A script goes with the last of its users.
        for plugin in self.0 {
            processes.extend(plugin.process);
        }
        for process in processes {
            while process.is_used() && tokio::time::Instant::now() < over {
                tokio::time::sleep(LOOK).await;
            }
            process.shut_down().await;
        }
    }

    /// Ends what was started, services first. The hooks fail from now on.
    pub async fn shut_down(&self) {
        for fault in self.stop_services().await {
            tracing::warn!("{fault}");
        }
        let processes = self.0.iter().filter_map(|plugin| plugin.process.as_ref());
        futures_util::future::join_all(processes.map(ProcessPlugin::shut_down)).await;
    }
}

async fn start(wanted: Wanted, surroundings: &Surroundings<'_>, scripts: &Scripts) -> Result<Running, Why> {
    let environment = surroundings.environment;
    let key = wanted.key(surroundings);
    let Wanted { installed, config, granted, optional_tools, runtime } = wanted;
    let seal = installed.seal().map_err(|state| match state {
        State::Changed(now) => Why::NotTrusted(format!("they are `{now}` now")),
        State::Broken(error) => Why::NotTrusted(error.to_string()),
        State::Trusted => Why::NotTrusted("they can't be told apart".to_owned()),
    })?;
    let seal = Arc::new(seal);
    let manifest = Manifest::sealed(&installed.root, &seal)?;
    if manifest.id != installed.id {
        return Err(Why::NotTrusted(format!("they are those of `{}`", manifest.id)));
    }
    let config = match &manifest.config_schema {
        Some(schema) => options(schema, config, manifest.api)?,
        None => (config, Vec::new()),
    };
    let (config, unchecked) = config;
    let mut got = match &manifest.asked {
        Some(asked) => asked.granted(&granted),
        None => Effective { given: granted, ..Effective::default() },
    };
    let folders = Folders {
        plugin: installed.root.clone(),
        workspace: surroundings.workspace.clone(),
        data: installed.data.clone(),
    };
    let writes_code = keep_code(&mut got, &folders, &installed)?;
    let mut registration = Registration::new(installed.id.as_str())?;
    let not_granted = &format!("not granted in `plugins.entries.{}.grants`", installed.id);
    for missing in got.missing.sentences() {
        registration.leave_out(missing, not_granted);
    }
    let points = manifest.points.as_deref();
    let root = &installed.root;
    if runtime != RunsIn::Here && !matches!(manifest.kind, Kind::Script { .. }) {
        return Err(Why::NoScript(runtime.word(), manifest.kind.as_str()));
    }
    let (mut process, mut script) = (None, None);
    match &manifest.kind {
        Kind::Script { entry } => {
            let facts =
                Facts { seal: Some(seal), ..facts(&manifest, entry, &installed, config, surroundings) };
            let loaded = scripts.load(facts, folders, &got.given, runtime, surroundings).await?;
            process.clone_from(&loaded.process);
            script = Some(loaded);
        }
        Kind::Process { command } => {
            let command = Command::of(command, root, seal, surroundings.machine)?;
            let settings = ProcessSettings {
                plugin: installed.id.to_string(),
                program: command.program.clone(),
                arguments: command.arguments.clone(),
                directory: root.clone(),
                environment: variables(&got.given, &installed.data, environment, surroundings.machine),
                config,
                limits: Limits::default(),
                seal: Some(Arc::clone(&command.held)),
            };
            let started = ProcessPlugin::start(settings).await?;
            started.register(&mut registration, |hook| command.hook(hook))?;
            process = Some(started);
        }
        Kind::Command { command, dialect } => {
            let command = Command::of(command, root, seal, surroundings.machine)?;
            let settings = CommandSettings {
                program: command.program.clone(),
                arguments: command.arguments.clone(),
                directory: root.clone(),
                environment: variables(&got.given, &installed.data, environment, surroundings.machine),
                dialect: *dialect,
                seal: Some(Arc::clone(&command.held)),
            };
            let commands = Commands::default();
            for spec in points.unwrap_or_default() {
                let hook = commands.hook(spec.point, settings.clone())?;
                registration.hook(spec.clone(), command.hook(Arc::new(hook)))?;
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
    for what in writes_code {
        registration.leave_out(what, "the folder that the agent works in holds the code of plugins");
    }
    for what in unchecked {
        registration.leave_out(what, "this word of a JSON Schema is not read here");
    }
    let is_policy = |spec: &&HookSpec| {
        spec.point == PointId::TrustedToolPolicy
            && !manifest.contracts.trusted_tool_policies.contains(&spec.registration)
    };
    if let Some(spec) = registration.hooks().find(is_policy) {
        return Err(Why::UndeclaredPolicy(spec.registration.clone()));
    }
    if points.is_none()
        && let Kind::Script { .. } = manifest.kind
        && let Some(key) = key
    {
        let at = registration.hooks().map(|spec| spec.point).collect();
        installed.note_points(at, key).map_err(|others| Why::Elsewhere {
            id: installed.id.clone(),
            points: backstop_yaml::quoted_list(others.iter().map(|point| point.name())),
        })?;
    }
    let is_named =
        |spec: &HookSpec| points.is_none_or(|points| points.iter().any(|at| at.point == spec.point));
    if let Some(spec) = registration.hooks().find(|spec| !is_named(spec)) {
        return Err(Why::Undeclared(spec.point.name().to_owned()));
    }
    points::are_registered(&manifest, &registration)?;
    for (kind, name) in unserved(&registration) {
        registration.leave_out(format!("{kind} `{name}`"), "no server of Backstop answers for plugins");
    }
    let script = script.map(Arc::new);
    let mut running = Running {
        id: installed.id,
        registration,
        process,
        script,
        tools: Vec::new(),
        started: Started::default(),
    };
    running.choose_tools(&manifest, &optional_tools)?;
    Ok(running)
}

/// What a plugin registers and no host takes.
fn unserved(registration: &Registration) -> Vec<(OfferKind, String)> {
    let offers = registration.offers().iter();
    let offers = offers.filter(|offer| matches!(offer.kind, OfferKind::Route | OfferKind::Method));
    offers.map(|offer| (offer.kind, offer.name.clone())).collect()
}

impl Running {
    /// Makes out which of its tools are offered: all, but of the optional ones those that are `chosen`.
    fn choose_tools(&mut self, manifest: &Manifest, chosen: &[String]) -> Result<(), Why> {
        let all = offers::tools::of(self)?;
        let declared = &manifest.contracts.tools;
        if manifest.api == Api::Backstop
            && !declared.is_empty()
            && let Some(other) = all.iter().find(|it| !declared.iter().any(|name| name == it.tool.name()))
        {
            return Err(Why::UndeclaredTool(other.tool.name().to_owned()));
        }
        if let Some(none) = chosen.iter().find(|name| !all.iter().any(|it| it.tool.name() == *name)) {
            let known = all.iter().map(|it| it.tool.name().to_owned()).collect::<Vec<_>>().join(", ");
            return Err(Why::NoSuchTool { id: self.id.clone(), name: none.clone(), known });
        }
        for offers::tools::Brought { tool, optional } in all {
            if optional && !chosen.iter().any(|name| name == tool.name()) {
                let why = format!(
                    "it is optional; `plugins.entries.{}.optionalTools` lists those that are offered",
                    self.id
                );
                self.registration.leave_out(format!("tool `{}`", tool.name()), why);
            } else {
                self.tools.push(tool);
            }
        }
        Ok(())
    }
}

/// Checks a plugin's options. What is not said is an object with nothing in it. Returns what of the schema was not checked.
fn options(schema: &Json, config: Json, api: Api) -> Result<(Json, Vec<String>), Why> {
    let config = if config.to_value().is_null() { Json::new(serde_json::json!({})) } else { config };
    let unread = config_schema::check(&schema.to_value(), &config.to_value()).map_err(Why::Config)?;
    match (api, unread.first()) {
        // What is written for us says only what we read.
        (Api::Backstop, Some(first)) => Err(Why::Config(BadConfig::unread(first))),
        _ => Ok((config, unread)),
    }
}

/// Takes out what would let a plugin change code: an error where the operator wrote it, and listed where it is so only in this
/// working folder.
fn keep_code(got: &mut Effective, folders: &Folders, installed: &Installed) -> Result<Vec<String>, Why> {
    let mut left_out = Vec::new();
    for (folder, access) in std::mem::take(&mut got.given.files) {
        if access == Access::Read || folder.may_be_written(folders, &installed.store) {
            got.given.files.insert((folder, access));
            continue;
        }
        let what = format!("read, change and remove files in {folder}");
        if !folder.is_of_workspace() {
            return Err(Why::WritesCode { id: installed.id.clone(), what, store: installed.store.clone() });
        }
        left_out.push(what);
        got.given.files.insert((folder, Access::Read));
    }
    Ok(left_out)
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
        seal: None,
    }
}

/// What a script gets, as its runtime wants it, and what of it can't be had: a program that is not found, or lies where it or the
/// agent writes.
fn permissions(
    given: &Permissions,
    folders: &Folders,
    surroundings: &Surroundings<'_>,
) -> (backstop_script::Permissions, Vec<(String, String)>) {
    let written: Vec<PathBuf> = (given.files.iter())
        .filter(|(_, access)| *access == Access::Write)
        .filter_map(|(folder, _)| folder.resolve(folders))
        .chain([folders.data.clone()])
        .chain(surroundings.workspace.clone())
        .collect();
    let (mut programs, mut not_found) = (Vec::new(), Vec::new());
    for word in &given.programs {
        let file = match word.starts_with('/') {
            true => Ok(PathBuf::from(word)),
            false => surroundings.machine.program(word).map(|found| found.file),
        };
        match file.and_then(|file| openclaw::looked_up(file, &written)) {
            Ok(file) => programs.push(file),
            Err(why) => not_found.push((format!("start `{word}`"), why)),
        }
    }
    let files = given.files.iter().filter_map(|(folder, access)| {
        let access = match access {
            Access::Read => backstop_script::FileAccess::Read,
            Access::Write => backstop_script::FileAccess::Write,
        };
        Some(backstop_script::FileGrant { root: folder.resolve(folders)?, access })
    });
    // Its own files it may read, after all that was granted: where paths begin is the operator's.
    let own = backstop_script::FileGrant {
        root: folders.plugin.clone(),
        access: backstop_script::FileAccess::Read,
    };
    let host = |host: &Host| backstop_script::HostGrant { host: host.name.clone(), port: host.port };
    let variable = |name: &String| Some((name.clone(), (surroundings.environment)(name)?));
    let permissions = backstop_script::Permissions {
        files: files.chain([own]).collect(),
        env: given.env.iter().filter_map(variable).collect(),
        hosts: given.hosts.iter().map(host).collect(),
        programs: programs.into_iter().collect(),
        user: given.user.then(|| who(surroundings)).flatten(),
    };
    (permissions, not_found)
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

#[cfg(test)]
mod tests;
