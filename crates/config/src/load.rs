//! From texts to the effective configuration.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use backstop_hooks::Digest;
use serde_json::{Value, json};

use crate::config_value::ConfigValue as _;
use crate::discover::Source;
use crate::names::KnownNames;
use crate::place::{Place, Spanned};
use crate::problem::{ConfigError, Problem, ProblemKind, suggestion};
use crate::reader::{Dropped, LayerKind, Reader};
use crate::readings::Readings;
use crate::rules::Tighten as _;
use crate::secret_source::SecretSource;
use crate::sections::Config;
use crate::text::Environment;
use crate::values::Name;

/// Reads and layers configuration texts.
pub struct Loader<'a> {
    names: &'a KnownNames,
    environment: &'a Environment<'a>,
}

impl std::fmt::Debug for Loader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader").field("names", self.names).finish_non_exhaustive()
    }
}

/// The effective configuration and how it came about.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The effective configuration. Boxed, because a future that holds it across an await would contain all of it.
    pub config: Box<Config>,
    /// The files that were read, in the order in which they were layered.
    pub layers: Vec<(LayerKind, String)>,
    /// The folder of the operator's file. Paths in the configuration are relative to it: only the operator's file
    /// can contain paths of files that are read or written.
    pub operator_folder: Option<PathBuf>,
    /// What repository files say without effect.
    pub dropped: Vec<Dropped>,
    /// What holds the secrets that the operator's file names.
    pub secrets: Vec<SecretSource>,
    /// The variables of the environment that the operator's file is made of, secret or not.
    pub variables: BTreeSet<String>,
    /// What it was made of.
    pub readings: Readings,
}

impl<'a> Loader<'a> {
    /// Creates a loader that knows these names and looks up `${VAR}` with this function.
    #[must_use]
    pub const fn new(names: &'a KnownNames, environment: &'a Environment<'a>) -> Self {
        Self { names, environment }
    }

    /// Reads the sources and layers them over the built-in defaults: the operator's as it is, each repository's as far
    /// as it tightens. Without sources the result is the built-in defaults.
    ///
    /// # Errors
    ///
    /// With every problem of every source. A configuration with a problem has no effect in part.
    pub fn load(&self, sources: &[Source]) -> Result<Loaded, ConfigError> {
        let mut problems = Vec::new();
        let (mut dropped, mut secrets) = (Vec::new(), Vec::new());
        let mut config = Box::<Config>::default();
        let given = RefCell::new(BTreeMap::new());
        let environment = |name: &str| {
            let value = (self.environment)(name);
            given.borrow_mut().insert(name.to_owned(), value.clone());
            value
        };
        for kind in [LayerKind::Operator, LayerKind::Repository] {
            for source in sources.iter().filter(|source| source.kind == kind) {
                let mut cx = Reader::new(kind, self.names, &environment);
                match (read(source, &mut cx), kind) {
                    (Some(layer), LayerKind::Operator) => {
                        *config = layer;
                        secrets = std::mem::take(&mut cx.secrets);
                    }
                    (Some(layer), LayerKind::Repository) => config.tighten(layer, &mut cx),
                    (None, _) => cx.ensure_problem(source),
                }
                cx.problems.sort_by_key(|problem| (problem.at().line(), problem.at().column()));
                problems.append(&mut cx.problems);
                dropped.append(&mut cx.dropped);
            }
        }
        ConfigError::check(problems)?;
        let mut cx = Reader::new(LayerKind::Operator, self.names, self.environment);
        config.check_merged(&mut cx);
        ConfigError::check(cx.problems)?;
        let layers = sources.iter().map(|source| (source.kind, source.name.to_string())).collect();
        let operator = sources.iter().rfind(|source| source.kind == LayerKind::Operator);
        let operator_folder = operator.and_then(|source| source.folder.clone());
        let texts = sources.iter().map(|source| (source.name.to_string(), Readings::of_text(&source.text)));
        let given = given.into_inner();
        let digest = (!given.is_empty()).then(|| Digest::of("variables", &given));
        let readings = Readings::new(texts.collect(), digest);
        let variables = given.into_keys().collect();
        Ok(Loaded { config, layers, operator_folder, dropped, secrets, variables, readings })
    }
}

impl Reader<'_> {
    /// A file without a result always has a problem: it must never be passed over in silence.
    fn ensure_problem(&mut self, source: &Source) {
        if self.problems.is_empty() {
            let place = Place::file_only(Arc::clone(&source.name));
            self.report(Problem::new(
                ProblemKind::Unreadable,
                place,
                "the file cannot be read as a configuration",
            ));
        }
    }
}

fn read(source: &Source, cx: &mut Reader<'_>) -> Option<Config> {
    let root = backstop_yaml::parse(&source.name, &source.text).map_err(|problem| cx.report(problem)).ok()?;
    let Some(root) = root else {
        let place = Place::file_only(Arc::clone(&source.name));
        let problem = Problem::new(ProblemKind::Syntax, place, "the file holds no settings");
        cx.report(problem.with_hint("write `{}` to say that the built-in defaults are wanted"));
        return None;
    };
    Config::read(&root, cx)
}

impl Loaded {
    /// Adds what another operator's text says besides: the exceptions of its guard for commands, and the hooks in front of tool calls, behind
    /// those that there are. Whatever else it says is left out. For trying what might be written into the operator's file.
    pub fn append(&mut self, more: Self) {
        let more = *more.config;
        self.config.guards.command_safety.allow.extend(more.guards.command_safety.allow);
        self.config.hooks.tool_call.pre_call.append(more.hooks.tool_call.pre_call);
    }

    /// Returns the effective configuration for people and programs: each leaf as `{"value", "from"}` with the file, line and
    /// column it came from, secrets masked; the files that were read; what was dropped from repository files and why.
    #[must_use]
    pub fn show(&self) -> Value {
        let layers: Vec<Value> =
            self.layers.iter().map(|(kind, file)| json!({ "file": file, "layer": kind.name() })).collect();
        let dropped: Vec<Value> = self
            .dropped
            .iter()
            .map(|drop| json!({ "key": drop.key, "at": drop.at.to_string(), "reason": drop.reason }))
            .collect();
        json!({ "config": self.config.show(), "layers": layers, "dropped": dropped })
    }

    /// Returns what sets this configuration apart from others: the digest of the effective values, wherever they are written. Secrets
    /// are masked in it and variables stand as they are written, so what the environment gives leaves it as it is; so does what stands in
    /// files that it names.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of("configuration", &self.config.values())
    }

    /// Checks the ids that only the caller knows: those under `hooks.on_failure` and `plugins.entries`.
    ///
    /// # Errors
    ///
    /// With every id that neither the caller nor the configuration itself defines.
    pub fn check_ids(&self, hook_ids: &[&str], plugin_ids: &[&str]) -> Result<(), ConfigError> {
        let hooks = &self.config.hooks;
        let own = hooks.chained().map(|hook| hook.id).chain(hooks.placed().map(|hook| hook.id));
        let own: Vec<String> = own.collect();
        let hook_ids: Vec<&str> = hook_ids.iter().copied().chain(own.iter().map(String::as_str)).collect();
        let hooks = self.config.hooks.on_failure.iter().map(|(id, _)| unknown("hook", id, &hook_ids));
        let plugins = self.config.plugins.entries.iter().map(|(id, _)| unknown("plugin", id, plugin_ids));
        ConfigError::check(hooks.chain(plugins).flatten().collect())
    }
}

fn unknown(what: &str, id: &Spanned<Name>, known: &[&str]) -> Option<Problem> {
    let name = id.value.as_str();
    if known.contains(&name) {
        return None;
    }
    let message = format!("no {what} has the id `{name}`");
    let problem = Problem::new(ProblemKind::UnknownName, id.at.clone(), message);
    Some(problem.with_hint(suggestion(name, known, &format!("{what} ids"))))
}
