//! `hooks.at` as hooks: programs and servers that the operator puts at a point, without a plugin around them.
//!
//! The laws are those of plugins: a gate that can't be asked blocks; one that no host of any process fires is an error, and one of
//! another process's hosts waits for that. What is loaded is loaded whole, or not at all. They are the operator's own, so that no
//! consent is asked for: their place in the operator's file is that.
//!
//! Entries of the type `process` with the same command, environment and options share one program, since a program says itself at
//! which points it has hooks. Each of its hooks needs an entry, and each entry a hook: what is not asked protects nobody.

mod program;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use backstop_config::{
    CommandDialect, ConfigError, Loaded, OnFailure, Outside, PlacedHook, PointHook, Problem, RewriteChoice,
};
use backstop_engine::{HookOptions, Hosts, RegisterError, Rewrite, Snapshot, Style};
use backstop_hooks::{
    FailurePolicy, HookError, HookId, Json, JsonFuture, JsonHook, OwnerId, PointId, Secret,
};
use backstop_plugins::external::command::{CommandSettings, Commands, Dialect};
use backstop_plugins::external::http::{Authorization, HttpHook, HttpSettings};
use backstop_plugins::external::process::{Limits, ProcessPlugin, ProcessSettings};
use backstop_plugins::external::{Held, OutOfReach};
use backstop_plugins::registration::{HookSpec, Waiting, stand};

pub use self::program::hook_places;
use self::program::{Chooser, Chosen};
use super::operator::{budget, mode};
use super::programs::{Environment, Files};
use super::{problem, tool_matcher};
use crate::locations::from_operator;

/// How long a server may take, where the budget of the hook is longer.
const SERVER_PATIENCE: Duration = Duration::from_secs(30);

/// What was loaded for `hooks.at`.
#[derive(Debug, Default)]
pub(crate) struct At {
    /// The programs that stay.
    processes: Vec<ProcessPlugin>,
    /// The hooks at points that only hosts of other processes fire.
    pub(crate) waiting: Vec<Waiting>,
}

impl At {
    /// Ends the programs. Their hooks fail from now on.
    pub(crate) async fn shut_down(&self) {
        for process in &self.processes {
            process.shut_down().await;
        }
    }
}

/// Puts the hooks into `snapshot`; of those at other points than `points` nothing is started. `home` is that of the user whose calls are
/// judged.
pub(crate) async fn load(
    loaded: &Loaded,
    home: Option<&str>,
    hosts: &Hosts,
    points: Option<&[PointId]>,
    snapshot: &mut Snapshot,
) -> Result<At, ConfigError> {
    let is_asked = |hook: &PlacedHook<'_>| points.is_none_or(|points| points.contains(&hook.point));
    let hooks: Vec<PlacedHook<'_>> = loaded.config.hooks.placed().filter(is_asked).collect();
    if hooks.is_empty() {
        return Ok(At::default());
    }
    // Whose home it is, is not for the environment of a coding agent to say.
    let environment = |name: &str| match name {
        "HOME" => home.map(str::to_owned),
        name => std::env::var(name).ok(),
    };
    let chooser = Chooser::new(loaded, &environment);
    let mut loading = Loading { loaded, snapshot, at: At::default(), problems: Vec::new() };
    let mut programs: Vec<Vec<PlacedHook<'_>>> = Vec::new();
    for hook in hooks {
        let made = match hook.entry.kind.value {
            Outside::Command => command(&hook, &chooser),
            Outside::Http => http(&hook, loaded, &environment),
            // Nobody asks it here, so nothing is started for it.
            Outside::Process if !hosts.does_fire(hook.point) => Ok(Arc::new(Unasked) as Arc<dyn JsonHook>),
            Outside::Process => {
                match programs
                    .iter_mut()
                    .find(|shared| shared.iter().any(|other| is_same_program(other, &hook)))
                {
                    Some(shared) => shared.push(hook),
                    None => programs.push(vec![hook]),
                }
                continue;
            }
        };
        match made.and_then(|made| Ok((made, options(&hook)?))) {
            Ok((made, options)) => loading.put(&hook, made, options),
            Err(problem) => loading.problems.push(problem),
        }
    }
    for hooks in programs {
        if let Err(problem) = loading.start(&hooks, &chooser).await {
            loading.problems.push(problem);
        }
    }
    loading.problems.sort_by_key(|problem| (problem.at().line(), problem.at().column()));
    ConfigError::check(loading.problems)?;
    Ok(loading.at)
}

/// Whether two entries of the type `process` are about one program.
fn is_same_program(one: &PlacedHook<'_>, other: &PlacedHook<'_>) -> bool {
    let words = |hook: &PlacedHook<'_>| -> Vec<String> {
        let words = hook.entry.command.iter().flat_map(|words| &words.value);
        words.map(|word| word.value.expose().to_owned()).collect()
    };
    let names = |hook: &PlacedHook<'_>| -> Vec<String> {
        hook.entry.env.iter().map(|name| name.value.as_str().to_owned()).collect()
    };
    words(one) == words(other) && names(one) == names(other) && config(one.entry) == config(other.entry)
}

fn config(entry: &PointHook) -> Option<serde_json::Value> {
    entry.config.as_ref().map(|config| config.value.expose())
}

/// A hook at a point that no host of this process fires.
struct Unasked;

impl JsonHook for Unasked {
    fn call<'a>(&'a self, _: PointId, _: serde_json::Value) -> JsonFuture<'a> {
        Box::pin(async {
            Err(HookError::Unreachable("it was not started, since nobody fires its point".to_owned()))
        })
    }
}

/// A hook that is not asked about sessions in whose folder its program lies.
fn apart(hook: impl JsonHook, files: &Files) -> Arc<dyn JsonHook> {
    let files = files.clone();
    Arc::new(OutOfReach::new(Arc::new(hook), Arc::new(move |folder: &Path| files.beside(folder))))
}

fn command(hook: &PlacedHook<'_>, chooser: &Chooser<'_>) -> Result<Arc<dyn JsonHook>, Problem> {
    let Chosen { program, arguments, environment, directory, files } = chooser.choose(hook)?;
    let dialect = hook.entry.dialect.as_ref();
    let settings = CommandSettings {
        program,
        arguments,
        directory,
        environment,
        dialect: match dialect.map(|dialect| dialect.value) {
            Some(CommandDialect::Claude) => Dialect::Claude,
            Some(CommandDialect::Backstop) | None => Dialect::Backstop,
        },
        seal: Some(Arc::new(files.clone()) as Arc<dyn Held>),
    };
    let made = Commands::default().hook(hook.point, settings);
    let made = made.map_err(|error| problem(dialect.map_or(hook.at, |dialect| &dialect.at), &error))?;
    Ok(apart(made, &files))
}

fn http(
    hook: &PlacedHook<'_>,
    loaded: &Loaded,
    environment: &Environment<'_>,
) -> Result<Arc<dyn JsonHook>, Problem> {
    let entry = hook.entry;
    let Some(url) = &entry.url else { return Err(problem(hook.at, &"the hook has no server")) };
    let header = &entry.authorization;
    let from = match (&header.env, &header.file) {
        (Some(name), _) => Some((Authorization::Variable(name.value.as_str().to_owned()), &name.at)),
        (None, Some(file)) => {
            Some((Authorization::File(from_operator(loaded, file.value.expose())), &file.at))
        }
        (None, None) => None,
    };
    let at = from.as_ref().map(|(_, at)| *at);
    let settings = HttpSettings {
        url: Secret::new(url.value.expose().to_owned()),
        authorization: from.map(|(from, _)| from),
        timeout: entry.timeout.as_ref().map_or(SERVER_PATIENCE, |timeout| timeout.value.duration()),
    };
    let made = HttpHook::new(hook.id.clone(), &settings, &|name| environment(name));
    let made = made.map_err(|error| match error {
        backstop_plugins::external::http::HttpError::NoCredentials { .. } => {
            problem(at.unwrap_or(hook.at), &error)
        }
        other => problem(&url.at, &other),
    })?;
    Ok(Arc::new(made))
}

/// How an entry stands.
fn options(hook: &PlacedHook<'_>) -> Result<HookOptions, Problem> {
    let entry = hook.entry;
    let tools = entry.matcher.as_ref().map(tool_matcher);
    Ok(HookOptions {
        timeout: entry.timeout.as_ref().and_then(|timeout| budget(timeout.value)),
        on_failure: on_failure(entry, None),
        rewrite: entry.rewrite.as_ref().map(|rewrite| match rewrite.value {
            RewriteChoice::Required => Rewrite::Required,
            RewriteChoice::Optional => Rewrite::Optional,
        }),
        mode: entry.mode.as_ref().map(|chosen| mode(chosen.value)).unwrap_or_default(),
        tools: tools.transpose()?,
        // What runs elsewhere is not given the values behind placeholders.
        judges_values: Some(false),
        config: entry.config.as_ref().map(|config| Json::new(config.value.expose())),
        style: Style::Foreign,
        ..HookOptions::new(OwnerId::operator())
            .id(hook.id.clone())
            .priority(entry.priority.as_ref().map_or(0, |priority| priority.value.get()))
            .configured()
    })
}

/// What is being loaded.
struct Loading<'a> {
    loaded: &'a Loaded,
    snapshot: &'a mut Snapshot,
    at: At,
    problems: Vec<Problem>,
}

impl Loading<'_> {
    fn put(&mut self, hook: &PlacedHook<'_>, made: Arc<dyn JsonHook>, options: HookOptions) {
        let id = options.id.clone().unwrap_or_else(|| HookId::new(hook.id.as_str()));
        let is_gate = hook.point.info().failure != FailurePolicy::Open;
        match stand(self.snapshot, hook.point, made, options) {
            Ok(_) => {}
            // A gate of another host's guards that; one that nobody fires would guard nothing.
            Err(RegisterError::NotFired { elsewhere, .. }) if !is_gate || !elsewhere.is_empty() => {
                self.at.waiting.push(Waiting { id, point: hook.point });
            }
            Err(error) => {
                let entry = hook.entry;
                let matcher = entry.matcher.as_ref().map(|matcher| &matcher.at);
                let rewrite = entry.rewrite.as_ref().map(|rewrite| &rewrite.at);
                let at = match &error {
                    RegisterError::Matcher { .. } | RegisterError::NoTools { .. } => matcher,
                    RegisterError::NoRewrite { .. } => rewrite,
                    RegisterError::NoShadow { .. } => entry.mode.as_ref().map(|mode| &mode.at),
                    _ => None,
                };
                self.problems.push(problem(at.unwrap_or(hook.at), &error));
            }
        }
    }

    /// Starts the program of these entries, and puts each hook that it declares where the entry of its point says.
    async fn start(&mut self, hooks: &[PlacedHook<'_>], chooser: &Chooser<'_>) -> Result<(), Problem> {
        let Some(first) = hooks.first() else { return Ok(()) };
        let Chosen { program, arguments, environment, directory, files } = chooser.choose(first)?;
        let settings = ProcessSettings {
            plugin: first.id.clone(),
            program,
            arguments,
            directory,
            environment,
            config: config(first.entry).map(Json::new).unwrap_or_default(),
            limits: Limits::default(),
            seal: Some(Arc::new(files.clone()) as Arc<dyn Held>),
        };
        let process = ProcessPlugin::start(settings).await.map_err(|error| problem(first.at, &error))?;
        self.check_declared(first, &process)?;
        for hook in hooks {
            let declared: Vec<_> = process.hooks().filter(|(spec, _)| spec.point == hook.point).collect();
            if declared.is_empty() {
                let at = points(process.hooks().map(|(spec, _)| spec.point));
                let what = format!("the program of `{}` has no hook at `{}`", hook.id, hook.point);
                self.problems.push(problem(hook.at, &format!("{what}\nhint: {at}")));
            }
            let is_one = declared.len() == 1;
            for (spec, asked) in declared {
                let mut options = options(hook)?;
                self.complete(&mut options, hook, spec, is_one);
                let files = files.clone();
                let beside = move |folder: &Path| files.beside(folder);
                self.put(hook, Arc::new(OutOfReach::new(asked, Arc::new(beside))), options);
            }
        }
        self.at.processes.push(process);
        Ok(())
    }

    /// Refuses what a program brings and nothing would ask.
    fn check_declared(&self, first: &PlacedHook<'_>, process: &ProcessPlugin) -> Result<(), Problem> {
        if let Some(offer) = process.offers().first() {
            let what = format!("the program of `{}` brings the {} `{}`", first.id, offer.kind, offer.name);
            let hint = "hint: an entry of `hooks.at` has hooks only; make it a plugin";
            return Err(problem(first.at, &format!("{what}\n{hint}")));
        }
        let entries =
            self.loaded.config.hooks.placed().filter(|hook| hook.entry.kind.value == Outside::Process);
        let known: Vec<PointId> =
            entries.filter(|other| is_same_program(first, other)).map(|other| other.point).collect();
        let unasked = process.hooks().map(|(spec, _)| spec).find(|spec| !known.contains(&spec.point));
        let Some(HookSpec { point, registration, .. }) = unasked else { return Ok(()) };
        let what = format!(
            "the program of `{}` has a hook `{registration}` at `{point}`, where no entry asks it",
            first.id
        );
        Err(problem(first.at, &format!("{what}\nhint: write the same entry below `hooks.at.{point}`")))
    }

    /// Adds what the program says of its hook and the entry does not.
    fn complete(&self, options: &mut HookOptions, hook: &PlacedHook<'_>, spec: &HookSpec, is_one: bool) {
        let entry = hook.entry;
        options.timeout = options.timeout.or(spec.timeout);
        options.triggers.clone_from(&spec.triggers);
        if entry.priority.is_none() {
            options.priority = spec.priority;
        }
        if entry.matcher.is_none() {
            options.tools.clone_from(&spec.tools);
        }
        if spec.dispatch_kinds.is_some() {
            options
                .hints
                .push("no host has kinds of dispatches, so that the hook is asked each time".to_owned());
        }
        if is_one {
            return;
        }
        options.id = Some(HookId::new(format!("{}/{}", hook.id, spec.registration)));
        // What is said of the entry holds for each of its hooks.
        let by_id = self.loaded.config.hooks.on_failure.get(&hook.id).map(|setting| setting.value);
        options.on_failure = on_failure(entry, by_id);
    }
}

/// What a failure means by the words of an entry, and by one more: the strictest counts.
fn on_failure(entry: &PointHook, by_id: Option<OnFailure>) -> Option<FailurePolicy> {
    let own = entry.on_failure.as_ref().map(|own| own.value);
    let open = entry.fail_open.as_ref().map(|open| open.value);
    if [own, by_id].contains(&Some(OnFailure::Block)) || open == Some(false) {
        return Some(FailurePolicy::Closed);
    }
    let outage = open.map(|_| FailurePolicy::OpenIfUnreachable);
    outage.or(own.or(by_id).map(|_| FailurePolicy::Open))
}

/// These points, for people.
fn points(points: impl Iterator<Item = PointId>) -> String {
    let names: Vec<String> = points.map(|point| format!("`{point}`")).collect();
    if names.is_empty() {
        "it has none at all".to_owned()
    } else {
        format!("it has some at {}", names.join(", "))
    }
}
