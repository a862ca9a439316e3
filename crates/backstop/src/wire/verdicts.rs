//! `hooks.*.*[]` as hooks, in the order of the file.

use std::sync::Arc;

use backstop_config::{ChainedHook, HookSlot, Loaded, Place, Problem};
use backstop_engine::{
    HookOptions, RegisterError, Snapshot, Style, VerdictHook, VerdictTypeError, VerdictTypes,
};
use backstop_hooks::points::{AfterLlmCall, BeforeLlmCall};
use backstop_hooks::{HookId, OwnerId, hook_fn};
use serde_json::Value;

use super::operator::budget;
use super::problem;

/// Registers every entry; without any, a `passthrough` stands in front of tool calls, so that a list of the
/// hooks says outright that nothing is judged there.
pub(super) fn register(
    loaded: &Loaded,
    types: &VerdictTypes,
    snapshot: &mut Snapshot,
    problems: &mut Vec<Problem>,
) -> Vec<(Place, Arc<dyn VerdictHook>)> {
    let mut hooks = Vec::new();
    for chained in loaded.config.hooks.chained() {
        match one(&chained, types, snapshot) {
            Ok(hook) => hooks.push((chained.at.clone(), hook)),
            Err(problem) => problems.push(problem),
        }
    }
    if loaded.config.hooks.chained().next().is_none() {
        hooks.extend(default_passthrough(types, snapshot));
    }
    hooks
}

fn one(
    chained: &ChainedHook<'_>,
    types: &VerdictTypes,
    snapshot: &mut Snapshot,
) -> Result<Arc<dyn VerdictHook>, Problem> {
    let entry = chained.entry;
    let config = entry.config.as_ref().map(|config| config.value.expose()).unwrap_or(Value::Null);
    let at = entry.config.as_ref().map_or(&entry.hook_type.at, |config| &config.at);
    let hook = types.build(entry.hook_type.value.as_str(), &config).map_err(|error| match error {
        VerdictTypeError::Config { name, error } => {
            problem(at, &format!("the `config` of hook type `{name}` is wrong: {}", error.message()))
        }
        other => problem(&entry.hook_type.at, &other),
    })?;
    let options = HookOptions {
        timeout: entry.timeout.as_ref().and_then(|timeout| budget(timeout.value)),
        style: Style::Verdict,
        ..HookOptions::new(OwnerId::operator()).id(chained.id.clone())
    };
    place(chained.slot, snapshot, &hook, options).map_err(|error| problem(chained.at, &error))?;
    Ok(hook)
}

fn place(
    slot: HookSlot,
    snapshot: &mut Snapshot,
    hook: &Arc<dyn VerdictHook>,
    options: HookOptions,
) -> Result<HookId, RegisterError> {
    match slot {
        HookSlot::ToolPreCall => backstop_engine::register_verdict_hook(snapshot, hook, options),
        HookSlot::ToolPostCall => backstop_engine::watch(snapshot, hook, options),
        // Only `passthrough` can stand around model calls: the configuration admits no other type there.
        HookSlot::LlmPreCall => snapshot.on::<BeforeLlmCall>(hook_fn(|_, _| Ok(None)), options),
        HookSlot::LlmPostCall => snapshot.on::<AfterLlmCall>(hook_fn(|_, _| Ok(None)), options),
    }
}

fn default_passthrough(
    types: &VerdictTypes,
    snapshot: &mut Snapshot,
) -> Option<(Place, Arc<dyn VerdictHook>)> {
    let hook = types.build("passthrough", &Value::Null).ok()?;
    let options = HookOptions::new(OwnerId::builtin()).id("builtin:passthrough");
    backstop_engine::register_verdict_hook(snapshot, &hook, options).ok()?;
    Some((Place::file_only("built-in defaults"), hook))
}
