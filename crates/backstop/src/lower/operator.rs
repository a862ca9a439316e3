//! `plugins.entries` and `hooks.on_failure` as the engine's operator settings.

use std::collections::BTreeMap;

use backstop_config::{HookMode as Mode, Loaded, Millis, PluginEntry, Problem, ProblemKind, Setting};
use backstop_engine::{Budget, HookMode, OperatorSettings, OwnerSettings};
use backstop_hooks::{FailurePolicy, HookId, Json, Mode as PointMode, OwnerId};

pub(super) fn settings(loaded: &Loaded) -> OperatorSettings {
    let config = &loaded.config;
    let owners = config.plugins.entries.iter().map(|(id, entry)| {
        let owner = OwnerId::new(id.value.as_str());
        (owner, owner_settings(entry))
    });
    let on_failure: BTreeMap<HookId, FailurePolicy> = config
        .hooks
        .on_failure
        .iter()
        .map(|(id, policy)| (HookId::new(id.value.as_str()), policy.value.into()))
        .collect();
    OperatorSettings { owners: owners.collect(), on_failure }
}

fn owner_settings(entry: &PluginEntry) -> OwnerSettings {
    OwnerSettings {
        enabled: entry.enabled.as_ref().map(|enabled| enabled.value),
        config: entry.config.as_ref().map(|config| Json::new(config.value.expose())).unwrap_or_default(),
        timeout: entry.hooks.timeout.as_ref().and_then(|timeout| budget(timeout.value)),
        timeouts: entry
            .hooks
            .timeouts
            .iter()
            .filter_map(|(point, timeout)| Some((point.value, budget(timeout.value)?)))
            .collect(),
        mode: mode(entry.hooks.mode.value),
        modes: entry.hooks.modes.iter().map(|(point, written)| (point.value, mode(written.value))).collect(),
        allow_conversation_access: said(&entry.hooks.allow_conversation_access),
        allow_prompt_injection: said(&entry.hooks.allow_prompt_injection),
        allow_trusted_tool_policy: entry.hooks.allow_trusted_tool_policy.value,
    }
}

/// Says where `plugins.entries` puts something into shadow that can't be: what only watches, and what has a mode of its own.
pub(super) fn problems(loaded: &Loaded) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (id, entry) in loaded.config.plugins.entries.iter() {
        let (name, owner) = (id.value.as_str(), OwnerId::new(id.value.as_str()));
        let is_shadow = |setting: &&Setting<Mode>| setting.value == Mode::Shadow;
        let modes = || entry.hooks.modes.iter();
        let mut all = Some(&entry.hooks.mode).into_iter().chain(modes().map(|(_, mode)| mode));
        // INVARIANT (no hook that counts is in shadow by a line about others): what the configuration names has one owner.
        let of_configuration = owner == OwnerId::operator();
        if (owner.is_builtin() || of_configuration)
            && let Some(mode) = all.find(is_shadow)
        {
            let at = mode.at.as_ref().unwrap_or(&id.at);
            let message = format!("`{name}` can't be put into shadow here");
            let hint = if of_configuration {
                "each hook of the configuration has a key of its own: `mode` in its entry below `hooks`"
            } else {
                "the guards have a key of their own: `guards.command_safety.mode`, `guards.sensitive_files.mode`, and `report` for what is looked for in texts"
            };
            problems.push(Problem::new(ProblemKind::BadValue, at.clone(), message).with_hint(hint));
            continue;
        }
        let only_watches =
            modes().filter(|(point, mode)| is_shadow(mode) && point.value.info().mode == PointMode::Observe);
        problems.extend(only_watches.map(|(point, mode)| {
            let at = mode.at.as_ref().unwrap_or(&point.at);
            let message = format!("hooks at `{}` only watch, so they can't be in shadow", point.value);
            Problem::new(ProblemKind::BadValue, at.clone(), message).with_hint("leave the point out")
        }));
    }
    problems
}

/// What the operator wrote; nothing where only the default stands, because built-in hooks have another.
fn said(setting: &Setting<bool>) -> Option<bool> {
    (!setting.is_built_in()).then_some(setting.value)
}

/// Whether what a hook answers counts.
pub(super) fn mode(written: Mode) -> HookMode {
    match written {
        Mode::Shadow => HookMode::Shadow,
        Mode::Enforce => HookMode::Enforce,
    }
}

/// Both types admit 1 to 600 000 ms.
pub(super) fn budget(timeout: Millis) -> Option<Budget> {
    Budget::from_millis(timeout.get()).ok()
}
