//! `hooks.*.*[]` as hooks, in the order of the file.

use std::sync::Arc;

use backstop_config::{ChainedHook, HookSlot, Loaded, Place, Problem, ProblemKind};
use backstop_engine::{
    HookOptions, RegisterError, RunningVerdicts, Snapshot, Style, VerdictHook, VerdictSet, VerdictTypeError,
    VerdictTypes,
};
use backstop_hooks::points::{AfterLlmCall, BeforeLlmCall};
use backstop_hooks::{HookId, OwnerId, hook_fn};
use serde_json::Value;

use super::operator::budget;
use super::problem;

/// The verdict hooks of a configuration, each with the place of its entry.
#[derive(Default)]
pub(crate) struct Verdicts {
    hooks: VerdictSet,
    places: Vec<(HookId, Place)>,
}

impl Verdicts {
    /// Sets the hooks up.
    ///
    /// # Errors
    ///
    /// The problem of the first that can't be; those before it are taken down again.
    pub(crate) async fn start(self) -> Result<RunningVerdicts, Problem> {
        let places = self.places;
        self.hooks.start().await.map_err(|error| {
            let place = places.into_iter().find(|(id, _)| id == error.hook()).map(|(_, place)| place);
            let place = place.unwrap_or_else(|| Place::file_only("built-in defaults"));
            let message = format!("the hook can't be set up: {}", error.cause());
            Problem::new(ProblemKind::BadValue, place, message)
        })
    }

    fn add(&mut self, id: HookId, hook: Arc<dyn VerdictHook>, place: Place) {
        self.places.push((id.clone(), place));
        self.hooks.adopt(id, hook);
    }
}

/// Registers every entry; without any, a `passthrough` stands in front of tool calls, so that a list of the
/// hooks says outright that nothing is judged there.
pub(super) fn register(
    loaded: &Loaded,
    types: &VerdictTypes,
    snapshot: &mut Snapshot,
    problems: &mut Vec<Problem>,
) -> Verdicts {
    let mut verdicts = Verdicts::default();
    for chained in loaded.config.hooks.chained() {
        match one(&chained, types, snapshot) {
            Ok((id, hook)) => verdicts.add(id, hook, chained.at.clone()),
            Err(problem) => problems.push(problem),
        }
    }
    if loaded.config.hooks.chained().next().is_none()
        && let Some((id, hook)) = default_passthrough(types, snapshot)
    {
        verdicts.add(id, hook, Place::file_only("built-in defaults"));
    }
    verdicts
}

fn one(
    chained: &ChainedHook<'_>,
    types: &VerdictTypes,
    snapshot: &mut Snapshot,
) -> Result<(HookId, Arc<dyn VerdictHook>), Problem> {
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
    let id = place(chained.slot, snapshot, &hook, options).map_err(|error| problem(chained.at, &error))?;
    Ok((id, hook))
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
) -> Option<(HookId, Arc<dyn VerdictHook>)> {
    let hook = types.build("passthrough", &Value::Null).ok()?;
    let options = HookOptions::new(OwnerId::builtin()).id("builtin:passthrough");
    let id = backstop_engine::register_verdict_hook(snapshot, &hook, options).ok()?;
    Some((id, hook))
}
