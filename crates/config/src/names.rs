//! The names that a configuration may refer to.
//!
//! Hook points and the tools known at start are part of the contract. The caller supplies the existing hook types, and the
//! additional tools of plugins and servers, so that a name without a meaning is an error with its line
//! instead of a rule that never takes effect.

use backstop_hooks::tool_name;

/// A list under `hooks` to which a hook can be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HookSlot {
    /// `hooks.tool_call.pre_call`: judges a tool call before it runs.
    ToolPreCall,
    /// `hooks.tool_call.post_call`: sees a tool call after it ran.
    ToolPostCall,
    /// `hooks.llm_call.pre_call`: judges a model call before it is sent.
    LlmPreCall,
    /// `hooks.llm_call.post_call`: sees a model's answer.
    LlmPostCall,
}

impl HookSlot {
    /// Every list.
    pub const ALL: &'static [Self] =
        &[Self::ToolPreCall, Self::ToolPostCall, Self::LlmPreCall, Self::LlmPostCall];

    pub(crate) fn at(path: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|slot| slot.path() == path)
    }

    /// Returns the key path of the list.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::ToolPreCall => "hooks.tool_call.pre_call",
            Self::ToolPostCall => "hooks.tool_call.post_call",
            Self::LlmPreCall => "hooks.llm_call.pre_call",
            Self::LlmPostCall => "hooks.llm_call.post_call",
        }
    }
}

/// A hook type that can be named with `type:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookType {
    /// The name, such as `policy`.
    pub name: String,
    /// The lists in which it is valid.
    pub slots: Vec<HookSlot>,
    /// What a repository file may do with it.
    pub repository: InRepository,
}

/// What a repository file may do with a hook type.
///
/// Only types that can do nothing but stop a call are valid there. A type that sends what it sees elsewhere (a webhook)
/// or rewrites it would give the operator's data and tools to the repository's author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InRepository {
    /// It may not add one.
    Refused,
    /// It may add one, with all its options.
    Allowed,
    /// It may add one, but these options are dropped: texts that a human would attribute to the operator.
    Without(&'static [&'static str]),
}

/// The names beyond the contract that a configuration may refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownNames {
    /// The types for `hooks.*.*[].type`.
    pub hook_types: Vec<HookType>,
    /// Tools from plugins and servers, for `agent.tools`. Tools known at start need not be listed.
    pub tools: Vec<String>,
}

impl KnownNames {
    pub(crate) fn hook_type(&self, name: &str) -> Option<&HookType> {
        self.hook_types.iter().find(|known| known.name == name)
    }

    pub(crate) fn types_for(&self, slot: HookSlot) -> Vec<&str> {
        self.hook_types
            .iter()
            .filter(|known| known.slots.contains(&slot))
            .map(|known| known.name.as_str())
            .collect()
    }

    pub(crate) fn tools<'a>(&'a self) -> impl Iterator<Item = &'a str> {
        let at_start = tool_name::known_tools().map(|tool| -> &'a str { tool });
        self.tools.iter().map(String::as_str).chain(at_start)
    }
}
