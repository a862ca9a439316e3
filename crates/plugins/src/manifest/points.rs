//! The hooks that a manifest names.

use std::collections::BTreeSet;

use backstop_engine::{Budget, ToolMatcher};
use backstop_hooks::{PointId, Trigger};
use serde::Deserialize;

use crate::registration::{HookSpec, MOST_HOOKS};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Hook {
    point: String,
    id: Option<String>,
    #[serde(default)]
    priority: i32,
    timeout_ms: Option<u64>,
    matcher: Option<Matcher>,
    triggers: Option<Vec<Trigger>>,
    dispatch_kinds: Option<Vec<String>>,
    /// The code may register nothing here, as its options say.
    #[serde(default)]
    pub(super) optional: bool,
}

/// An expression, or names.
#[derive(Deserialize)]
#[serde(untagged)]
enum Matcher {
    Expression(String),
    Names(Vec<String>),
}

/// The hooks that a manifest names.
#[derive(Debug, Default)]
pub(super) struct Hooks {
    /// The hooks.
    pub(super) specs: Vec<HookSpec>,
    /// The points at which the code may have none of them.
    pub(super) optional: BTreeSet<PointId>,
}

/// The hooks, each with an id of its own at its point. An error says which one is wrong, by its number from 0.
pub(super) fn specs(hooks: Vec<Hook>) -> Result<Hooks, (usize, String)> {
    if hooks.len() > MOST_HOOKS {
        return Err((MOST_HOOKS, format!("a plugin has at most {MOST_HOOKS} hooks")));
    }
    let mut specs: Vec<HookSpec> = Vec::with_capacity(hooks.len());
    let mut needed = BTreeSet::new();
    for (index, hook) in hooks.into_iter().enumerate() {
        let is_optional = hook.optional;
        let spec = spec(hook).map_err(|error| (index, error))?;
        if specs.iter().any(|other| other.point == spec.point && other.registration == spec.registration) {
            let again = format!("there are two hooks `{}` at `{}`", spec.registration, spec.point);
            return Err((index, format!("{again}\nhint: give each an `id` of its own")));
        }
        if !is_optional {
            needed.insert(spec.point);
        }
        specs.push(spec);
    }
    let optional = specs.iter().map(|spec| spec.point).filter(|point| !needed.contains(point)).collect();
    Ok(Hooks { specs, optional })
}

fn spec(hook: Hook) -> Result<HookSpec, String> {
    let id = hook.id.unwrap_or_else(|| "hook".to_owned());
    if id.is_empty() || id.len() > 128 || id.chars().any(|c| c.is_control() || backstop_yaml::is_invisible(c))
    {
        return Err("the `id` of a hook is a name of 1 to 128 bytes".to_owned());
    }
    let mut spec = HookSpec::at(&hook.point, id).map_err(|error| error.to_string())?;
    spec.priority = hook.priority;
    spec.timeout = hook.timeout_ms.map(Budget::from_millis).transpose().map_err(|error| error.to_string())?;
    spec.tools = match &hook.matcher {
        None => None,
        Some(Matcher::Expression(pattern)) => Some(ToolMatcher::regex(pattern)),
        Some(Matcher::Names(names)) => Some(ToolMatcher::names(names.iter().map(String::as_str))),
    }
    .transpose()
    .map_err(|error| error.to_string())?;
    spec.triggers = hook.triggers;
    spec.dispatch_kinds = hook.dispatch_kinds;
    Ok(spec)
}
