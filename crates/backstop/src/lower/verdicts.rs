//! `hooks.*.*[]` as hooks, in the order of the file.

use backstop_config::{
    ChainedHook, HookEntry, HookMode, HookSlot, Loaded, Place, Problem, ProblemKind, RewriteChoice,
};
use backstop_engine::{
    HookOptions, RegisterError, Rewrite, RunningVerdicts, Snapshot, VerdictSet, VerdictSlot,
    VerdictTypeError, VerdictTypes,
};
use backstop_hooks::{HookId, OwnerId};
use serde_json::Value;

use super::operator::{budget, mode};
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

    fn add(
        &mut self,
        chained: &ChainedHook<'_>,
        types: &VerdictTypes,
        snapshot: &mut Snapshot,
    ) -> Result<(), Problem> {
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
            on_failure: entry.on_failure.as_ref().map(|on_failure| on_failure.value.into()),
            rewrite: entry.rewrite.as_ref().map(|rewrite| match rewrite.value {
                RewriteChoice::Required => Rewrite::Required,
                RewriteChoice::Optional => Rewrite::Optional,
            }),
            mode: entry.mode.as_ref().map(|chosen| mode(chosen.value)).unwrap_or_default(),
            ..HookOptions::new(OwnerId::operator()).id(chained.id.clone()).configured()
        };
        let id = self.hooks.register(snapshot, &hook, slot(chained.slot), options).map_err(|error| {
            let mode = entry.mode.as_ref().map(|mode| &mode.at);
            let at = mode.filter(|_| matches!(error, RegisterError::NoShadow { .. }));
            problem(at.unwrap_or(chained.at), &error)
        })?;
        self.places.push((id, chained.at.clone()));
        Ok(())
    }
}

fn slot(slot: HookSlot) -> VerdictSlot {
    match slot {
        HookSlot::ToolPreCall => VerdictSlot::ToolPreCall,
        HookSlot::ToolPostCall => VerdictSlot::ToolPostCall,
        HookSlot::LlmPreCall => VerdictSlot::LlmPreCall,
        HookSlot::LlmPostCall => VerdictSlot::LlmPostCall,
    }
}

/// Registers every entry; without any that counts, a `passthrough` stands in front of tool calls, so that a list of the
/// hooks says outright that nothing is judged there. One in shadow does not count, and it is asked where another one is.
pub(super) fn register(
    loaded: &Loaded,
    types: &VerdictTypes,
    snapshot: &mut Snapshot,
    problems: &mut Vec<Problem>,
) -> Verdicts {
    let mut verdicts = Verdicts::default();
    for chained in loaded.config.hooks.chained() {
        problems.extend(verdicts.add(&chained, types, snapshot).err());
    }
    let is_shadow =
        |entry: &HookEntry| entry.mode.as_ref().is_some_and(|mode| mode.value == HookMode::Shadow);
    if loaded.config.hooks.chained().all(|hook| is_shadow(hook.entry)) {
        verdicts.add_default(types, snapshot);
    }
    verdicts
}

impl Verdicts {
    fn add_default(&mut self, types: &VerdictTypes, snapshot: &mut Snapshot) {
        let Ok(hook) = types.build("passthrough", &Value::Null) else { return };
        let options = HookOptions::new(OwnerId::builtin()).id("builtin:passthrough").configured();
        if let Ok(id) = self.hooks.register(snapshot, &hook, VerdictSlot::ToolPreCall, options) {
            self.places.push((id, Place::file_only("built-in defaults")));
        }
    }
}
