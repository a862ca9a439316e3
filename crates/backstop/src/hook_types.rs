//! The hook types that a configuration can name with `type:`.
//!
//! A type has two halves: where it may stand and who may ask for it, which the configuration checks while it
//! reads ([`KnownNames`]), and the factory that makes the hook from its options ([`VerdictTypes`]). This
//! type keeps them together, so that no name is known to the one and unknown to the other.

use std::sync::Arc;

use backstop_config::{HookSlot, HookType, KnownNames};
use backstop_engine::{VerdictHook, VerdictTypes};
use backstop_hooks::tool_name::known_tools;
use backstop_hooks::{Malformed, ToolName};
use serde_json::Value;

/// The hook types that exist.
#[derive(Clone, Debug)]
pub struct HookTypes {
    names: KnownNames,
    factories: VerdictTypes,
}

impl HookTypes {
    /// The built-in types: `passthrough`, `policy`, `webhook`. `extra_tools` are the tools that plugins and
    /// servers bring, beyond those known at start: rules about tools that nobody has are refused.
    pub fn built_in(extra_tools: &[ToolName]) -> Self {
        let mut types = Self { names: KnownNames::default(), factories: VerdictTypes::default() };
        let tools: Vec<_> = known_tools().map(ToolName::new).chain(extra_tools.iter().cloned()).collect();
        backstop_guards::verdicts::register_types(&mut types.factories, &tools);
        types.names.tools = extra_tools.iter().map(ToString::to_string).collect();
        let tool_calls = [HookSlot::ToolPreCall, HookSlot::ToolPostCall];
        types.name("passthrough", HookSlot::ALL, true);
        types.name("policy", &[HookSlot::ToolPreCall], true);
        types.name("webhook", &tool_calls, false);
        types
    }

    /// Adds a type, or replaces it. `description` says where it may stand, and whether a file that came with
    /// a repository may ask for it: only types that can do nothing but stop a call should be allowed there.
    pub fn register(
        &mut self,
        description: HookType,
        factory: impl Fn(&Value) -> Result<Arc<dyn VerdictHook>, Malformed> + Send + Sync + 'static,
    ) {
        self.factories.register(description.name.clone(), factory);
        self.names.hook_types.retain(|known| known.name != description.name);
        self.names.hook_types.push(description);
    }

    /// What the configuration may name.
    pub fn names(&self) -> &KnownNames {
        &self.names
    }

    /// How hooks are made.
    pub fn factories(&self) -> &VerdictTypes {
        &self.factories
    }

    fn name(&mut self, name: &str, slots: &[HookSlot], allowed_in_repository: bool) {
        let name = name.to_owned();
        self.names.hook_types.push(HookType { name, slots: slots.to_vec(), allowed_in_repository });
    }
}
