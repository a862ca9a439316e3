//! The hooks that nobody asks where calls are only judged again.
//!
//! The law: *what is harmless is listed, and nothing else is asked*. A replay of ten thousand calls must not send them to a server again,
//! nor start a program for each. The guards and the hook types of [`HARMLESS`] read the call and files, and reach nobody. All else is left
//! out, and told to be: types that a program registers, programs, servers, and plugins.

use std::path::Path;

use backstop_config::Loaded;
use backstop_engine::VerdictType;
use backstop_guards::verdicts::Passthrough;
use backstop_hooks::HookId;

use crate::hook_types::HookTypes;

/// The hook types that judge by the call alone.
const HARMLESS: [&str; 3] = ["passthrough", "policy", "human_approval"];

/// Whether hooks of a type judge by the call alone.
pub(crate) fn is_harmless(name: &str) -> bool {
    HARMLESS.contains(&name)
}

/// The hooks of a configuration that are not asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotAsked {
    /// The ids of hooks that the configuration names.
    hooks: Vec<String>,
    /// The ids of plugins.
    plugins: Vec<String>,
}

impl HookTypes {
    /// Puts a hook that approves in the place of each that does more than read the call, for programs that judge without reaching
    /// anybody. [`NotAsked`] lists them. To be left out as well are what stands in `hooks.at`, and plugins:
    /// [`Builder::only_points`](crate::Builder::only_points) without a point.
    #[must_use]
    pub fn harmless(mut self) -> Self {
        let others: Vec<String> = self
            .factories()
            .iter()
            .map(|(name, _)| name.to_owned())
            .filter(|name| !HARMLESS.contains(&name.as_str()))
            .collect();
        for name in others {
            self.replace(&name, VerdictType::for_all_calls(|_| Ok(Passthrough)).placeholder());
        }
        self
    }
}

impl NotAsked {
    /// Lists the hooks of this configuration that are not asked; `plugins` is the folder in which plugins are installed.
    pub fn of(loaded: &Loaded, plugins: Option<&Path>) -> Self {
        let hooks = &loaded.config.hooks;
        let chained = hooks
            .chained()
            .filter(|hook| !HARMLESS.contains(&hook.entry.hook_type.value.as_str()))
            .map(|hook| hook.id);
        let hooks = chained.chain(hooks.placed().map(|hook| hook.id)).collect();
        #[cfg(feature = "plugins")]
        let plugins = plugins.map(|folder| crate::lower::plugins::installed_and_on(loaded, folder));
        #[cfg(not(feature = "plugins"))]
        let plugins = plugins.map(|_| Vec::new());
        Self { hooks, plugins: plugins.unwrap_or_default() }
    }

    /// Returns whether this hook is one of them.
    pub fn has(&self, hook: &HookId) -> bool {
        let behind = |id: &String, sign: char| {
            let rest = hook.as_str().strip_prefix(id.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(sign))
        };
        // A program with several hooks has a name for each, and so has a plugin.
        self.hooks.iter().any(|id| behind(id, '/')) || self.plugins.iter().any(|id| behind(id, ':'))
    }

    /// Returns their names: ids of hooks, and of plugins.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.hooks.iter().chain(&self.plugins).map(String::as_str)
    }
}
