//! Lowers the configuration into runtime settings.
//!
//! The configuration holds what the files say; the engine needs budgets, policies and hooks. Problems that only this
//! step can find (a hook type rejects its options, a rule matches nothing, an id belongs to no hook) are
//! reported like the configuration's own, with file, line and column, and all of them at once.

#[cfg(feature = "agent")]
pub(crate) mod agent;
pub(crate) mod approvals;
#[cfg(feature = "plugins")]
pub(crate) mod at;
mod callers;
mod console;
#[cfg(feature = "gateway")]
pub(crate) mod credentials;
#[cfg(feature = "gateway")]
pub(crate) mod gateway;
mod guards;
#[cfg(feature = "gateway")]
mod identity;
mod limits;
#[cfg(feature = "plugins")]
pub(crate) mod machine;
mod operator;
#[cfg(feature = "plugins")]
pub(crate) mod plugins;
#[cfg(feature = "plugins")]
pub(crate) mod programs;
#[cfg(any(feature = "agent", feature = "gateway"))]
pub(crate) mod provider;
mod redaction;
pub(crate) mod secrets;
pub(crate) mod small_file;
#[cfg(feature = "gateway")]
pub(crate) mod surfaces;
pub(crate) mod telemetry;
#[cfg(all(feature = "agent", feature = "plugins"))]
pub(crate) mod tools;
#[cfg(feature = "plugins")]
pub(crate) mod trial;
mod verdicts;

use std::collections::BTreeSet;
use std::sync::Arc;

use backstop_config::{
    ConfigError, HookSlot, Loaded, Outside, Place, PlacedHook, Problem, ProblemKind, Spanned, ToolPattern,
};
use backstop_engine::{HookMeta, Hosts, OperatorSettings, Snapshot, ToolMatcher};
use backstop_guards::hooks::{COMMAND_SAFETY_ID, SECURITY_AUDIT_ID};
use backstop_hooks::PointId;
use backstop_store::Store;

pub use self::approvals::people;
use self::verdicts::Verdicts;
use crate::hook_types::HookTypes;

/// A configuration lowered for the engine.
pub(crate) struct Lowered {
    pub(crate) snapshot: Snapshot,
    /// The verdict hooks, for setting up and taking down.
    pub(crate) verdicts: Verdicts,
}

/// What of the host matters to its hooks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostFacts<'a> {
    /// The home directory of the user whose calls are judged.
    pub(crate) home: Option<&'a str>,
    /// Where guards count.
    pub(crate) store: &'a Arc<dyn Store>,
    /// The host sees the answers of models, and not the tools.
    pub(crate) answers: bool,
}

/// Lowers a configuration into the engine's snapshot, with the verdict hooks that have to be set up and taken down.
pub(crate) fn snapshot(
    loaded: &Loaded,
    types: &HookTypes,
    hosts: Hosts,
    host: HostFacts<'_>,
) -> Result<Lowered, ConfigError> {
    snapshot_with(operator::settings(loaded), loaded, types, hosts, host)
}

/// As [`snapshot`], where something else than the configuration says what owners may do.
fn snapshot_with(
    settings: OperatorSettings,
    loaded: &Loaded,
    types: &HookTypes,
    hosts: Hosts,
    host: HostFacts<'_>,
) -> Result<Lowered, ConfigError> {
    let mut snapshot = Snapshot::empty(settings).hosted_by(hosts);
    snapshot.add_tools(types.names().tools.iter().map(String::as_str));
    let mut problems = operator::problems(loaded);
    problems.extend(guards::register(loaded, host.home, &mut snapshot));
    problems.extend(limits::register(loaded, host.store, host.answers, &mut snapshot));
    let verdicts = verdicts::register(loaded, types.factories(), &mut snapshot, &mut problems);
    ConfigError::check(problems)?;
    Ok(Lowered { snapshot, verdicts })
}

/// Refuses hooks that this build can't ask.
#[cfg(not(feature = "plugins"))]
pub(crate) fn refuse_placed(loaded: &Loaded) -> Result<(), ConfigError> {
    let refused =
        |hook: PlacedHook<'_>| problem(hook.at, &"this build has no hooks that are programs or servers");
    ConfigError::check(loaded.config.hooks.placed().map(refused).collect())
}

/// Plugins that exist beside those whose hooks stand.
#[derive(Default)]
pub(crate) struct Others {
    /// All that are installed, or to be.
    pub(crate) installed: Vec<String>,
    /// Those that are on and were not loaded, since their hooks are at other points or they are not there yet.
    pub(crate) elsewhere: Vec<String>,
}

/// Refuses ids in the configuration that belong to no hook or plugin. Guards and plugins that are switched off exist all
/// the same.
pub(crate) fn check_ids(loaded: &Loaded, snapshot: &Snapshot, plugins: &Others) -> Result<(), ConfigError> {
    let guards = || guards::IDS.iter().chain(&limits::IDS).map(|id| (*id).to_owned());
    // Which hooks a plugin has that was not loaded is known to whoever loads it.
    let is_elsewhere = |id: &&str| {
        plugins
            .elsewhere
            .iter()
            .any(|plugin| id.strip_prefix(plugin).is_some_and(|rest| rest.starts_with(':')))
    };
    // Which hooks a program has that stays and was not started here is known to whoever starts it.
    let has_none = |id: &str| !snapshot.iter().any(|meta| meta.id.as_str().starts_with(id));
    let of_process = |id: &&str| {
        let of = |hook: PlacedHook<'_>| {
            let rest = id.strip_prefix(hook.id.as_str());
            hook.entry.kind.value == Outside::Process
                && rest.is_some_and(|rest| rest.starts_with('/'))
                && has_none(&hook.id)
        };
        loaded.config.hooks.placed().any(of)
    };
    let is_elsewhere = |id: &&str| is_elsewhere(id) || of_process(id);
    let elsewhere =
        loaded.config.hooks.on_failure.iter().map(|(id, _)| id.value.as_str()).filter(is_elsewhere);
    let hooks: BTreeSet<String> = snapshot
        .iter()
        .map(|meta| meta.id.to_string())
        .chain(guards())
        .chain(elsewhere.map(str::to_owned))
        .collect();
    let owners: BTreeSet<String> = snapshot
        .iter()
        .map(|meta| meta.owner.to_string())
        .chain(guards())
        .chain(plugins.installed.iter().cloned())
        .collect();
    let hooks: Vec<&str> = hooks.iter().map(String::as_str).collect();
    let owners: Vec<&str> = owners.iter().map(String::as_str).collect();
    loaded.check_ids(&hooks, &owners)
}

/// Refuses hooks in shadow that nobody would ask: a host need not fire a point for a hook that is no gate there. Hooks that the
/// configuration does not name are not its to refuse; nor are those of a plugin that is in shadow as a whole, wherever it has hooks.
pub(crate) fn check_shadows(loaded: &Loaded, snapshot: &Snapshot) -> Result<(), ConfigError> {
    let guards = &loaded.config.guards;
    let of_guards = [
        (COMMAND_SAFETY_ID.to_owned(), guards.command_safety.mode.at.as_ref()),
        (SECURITY_AUDIT_ID.to_owned(), guards.sensitive_files.mode.at.as_ref()),
    ];
    let hooks = &loaded.config.hooks;
    let chained = hooks.chained().map(|hook| (hook.id, hook.entry.mode.as_ref().map(|mode| &mode.at)));
    let placed = hooks.placed().map(|hook| (hook.id, hook.entry.mode.as_ref().map(|mode| &mode.at)));
    let written: Vec<(String, Option<&Place>)> = of_guards.into_iter().chain(chained).chain(placed).collect();
    let of_plugin = |meta: &HookMeta| {
        let entry = loaded.config.plugins.entries.get(meta.owner.as_str())?;
        entry.hooks.modes.get(meta.point.name())?.at.as_ref()
    };
    let refused = snapshot.lonely_shadows().filter_map(|meta| {
        // Of a program with several hooks at a point, each has the id of its entry and a name of its own.
        let is_its = |id: &str| {
            let rest = meta.id.as_str().strip_prefix(id);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let at = written.iter().find(|(id, _)| is_its(id)).and_then(|(_, at)| *at);
        let at = at.or_else(|| of_plugin(&meta))?;
        let message = format!(
            "the hook `{}` is in shadow, and no hook that counts stands at `{}`",
            meta.id, meta.point
        );
        let hint = match HookSlot::ALL.iter().find(|slot| judges_at(**slot, meta.point)) {
            Some(slot) => {
                format!("add `- type: passthrough` to `{}`, so that what passes there is read", slot.path())
            }
            None => "a hook in shadow is asked beside others; let it count, or leave it out".to_owned(),
        };
        Some(Problem::new(ProblemKind::Conflict, at.clone(), message).with_hint(hint))
    });
    ConfigError::check(refused.collect())
}

/// Whether an entry of this list judges at the point, or in front of the same thing.
fn judges_at(slot: HookSlot, point: PointId) -> bool {
    match slot {
        HookSlot::ToolPreCall => {
            matches!(point, PointId::TrustedToolPolicy | PointId::ToolBefore | PointId::BeforeToolCall)
        }
        HookSlot::LlmPreCall => point == PointId::BeforeLlmCall,
        HookSlot::ToolPostCall | HookSlot::LlmPostCall => false,
    }
}

/// Lowers a matcher of tools.
fn tool_matcher(tools: &Spanned<ToolPattern>) -> Result<ToolMatcher, Problem> {
    let matcher = match &tools.value {
        ToolPattern::Expression(pattern) => ToolMatcher::regex(pattern),
        ToolPattern::Names(names) => ToolMatcher::names(names.iter().map(String::as_str)),
    };
    matcher.map_err(|error| problem(&tools.at, &error))
}

/// A problem that was found while lowering. An error's `hint:` line becomes the problem's.
pub(crate) fn problem(at: &Place, error: &impl ToString) -> Problem {
    let text = error.to_string();
    match text.split_once("\nhint: ") {
        Some((message, hint)) => Problem::new(ProblemKind::BadValue, at.clone(), message).with_hint(hint),
        None => Problem::new(ProblemKind::BadValue, at.clone(), text),
    }
}
