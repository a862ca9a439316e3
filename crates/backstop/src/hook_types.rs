//! The hook types that a configuration can name with `type:`.
//!
//! A type has two halves: where it may stand and who may ask for it, which the configuration checks while it
//! reads ([`KnownNames`]), and the factory that makes the hook from its options ([`VerdictTypes`]). The first is
//! read off the second, so that no type is admitted where its hooks would never be asked.

use backstop_config::{HookSlot, HookType, InRepository, KnownNames};
use backstop_engine::{VerdictSlot, VerdictType, VerdictTypes};
use backstop_hooks::ToolName;
use backstop_hooks::tool_name::known_tools;

/// The hook types that exist.
#[derive(Clone, Debug)]
pub struct HookTypes {
    names: KnownNames,
    factories: VerdictTypes,
}

impl HookTypes {
    /// The built-in types: `passthrough`, `policy`, `human_approval`, `webhook`. `extra_tools` are the tools that
    /// plugins and servers bring, beyond those known at start: rules about tools that nobody has are refused.
    pub fn built_in(extra_tools: &[ToolName]) -> Self {
        let mut built_in = VerdictTypes::default();
        let tools: Vec<_> = known_tools().map(ToolName::new).chain(extra_tools.iter().cloned()).collect();
        backstop_guards::verdicts::register_types(&mut built_in, &tools);
        let mut types = Self { names: KnownNames::default(), factories: VerdictTypes::default() };
        types.names.tools = extra_tools.iter().map(ToString::to_string).collect();
        for (name, verdict_type) in built_in.iter() {
            types.register(name, repository(name), verdict_type.clone());
        }
        types
    }

    /// Adds a type, or replaces it. Its Rust type says where its hooks can stand. Only types that can do nothing but
    /// stop a call should be allowed to files that came with a repository.
    pub fn register(&mut self, name: &str, repository: InRepository, verdict_type: VerdictType) {
        let slots = verdict_type.slots().map(config_slot).collect();
        self.names.hook_types.retain(|known| known.name != name);
        self.names.hook_types.push(HookType { name: name.to_owned(), slots, repository });
        self.factories.register(name, verdict_type);
    }

    /// Has hooks of a type made in another way, wherever they may stand.
    pub(crate) fn replace(&mut self, name: &str, verdict_type: VerdictType) {
        self.factories.register(name, verdict_type);
    }

    /// What the configuration may name.
    pub fn names(&self) -> &KnownNames {
        &self.names
    }

    /// How hooks are made.
    pub fn factories(&self) -> &VerdictTypes {
        &self.factories
    }
}

/// What a repository may do with a built-in type. A question is worded by whoever may speak for the operator.
fn repository(name: &str) -> InRepository {
    match name {
        "passthrough" | "policy" => InRepository::Allowed,
        "human_approval" => InRepository::Without(&["title", "description", "timeout"]),
        _ => InRepository::Refused,
    }
}

fn config_slot(slot: VerdictSlot) -> HookSlot {
    match slot {
        VerdictSlot::ToolPreCall => HookSlot::ToolPreCall,
        VerdictSlot::ToolPostCall => HookSlot::ToolPostCall,
        VerdictSlot::LlmPreCall => HookSlot::LlmPreCall,
        VerdictSlot::LlmPostCall => HookSlot::LlmPostCall,
    }
}
