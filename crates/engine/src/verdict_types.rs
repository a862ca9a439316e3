//! The verdict hook types that a configuration can name with `type:`.
//!
//! A type is a factory for hooks of one Rust type. The traits of that type determine the lists in which its hooks are valid,
//! before any hook is created, so a configuration that lists one where it has no effect is refused.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use backstop_hooks::Malformed;
use serde_json::Value;

use crate::verdict::{AnyVerdictHook, LlmCallHook, ToolCallHook, VerdictSlot, Watches, slots};

/// A type of verdict hooks: where they are valid, and how one is created from its `config:`.
#[derive(Clone)]
pub struct VerdictType {
    families: Families,
    placeholder: bool,
    factory: Factory,
}

#[derive(Clone, Copy)]
struct Families {
    tool_calls: bool,
    llm_calls: bool,
    watches: Watches,
}

type Factory = Arc<dyn Fn(&Value) -> Result<AnyVerdictHook, Malformed> + Send + Sync>;

impl VerdictType {
    /// Creates a type whose hooks judge tool calls.
    pub fn for_tool_calls<H: ToolCallHook>(
        factory: impl Fn(&Value) -> Result<H, Malformed> + Send + Sync + 'static,
    ) -> Self {
        let watches = Watches { tool_calls: H::watches(), llm_calls: false };
        Self {
            families: Families { tool_calls: true, llm_calls: false, watches },
            placeholder: false,
            factory: Arc::new(move |config| {
                factory(config).map(|hook| AnyVerdictHook::for_tool_calls(Arc::new(hook)))
            }),
        }
    }

    /// Creates a type whose hooks judge model calls.
    pub fn for_llm_calls<H: LlmCallHook>(
        factory: impl Fn(&Value) -> Result<H, Malformed> + Send + Sync + 'static,
    ) -> Self {
        let watches = Watches { tool_calls: false, llm_calls: H::watches() };
        Self {
            families: Families { tool_calls: false, llm_calls: true, watches },
            placeholder: false,
            factory: Arc::new(move |config| {
                factory(config).map(|hook| AnyVerdictHook::for_llm_calls(Arc::new(hook)))
            }),
        }
    }

    /// Creates a type whose hooks judge both.
    pub fn for_all_calls<H: ToolCallHook + LlmCallHook>(
        factory: impl Fn(&Value) -> Result<H, Malformed> + Send + Sync + 'static,
    ) -> Self {
        let watches =
            Watches { tool_calls: <H as ToolCallHook>::watches(), llm_calls: <H as LlmCallHook>::watches() };
        Self {
            families: Families { tool_calls: true, llm_calls: true, watches },
            placeholder: false,
            factory: Arc::new(move |config| {
                factory(config).map(|hook| AnyVerdictHook::for_all_calls(Arc::new(hook)))
            }),
        }
    }

    /// Permits hooks of this type in lists of watchers too, although they watch nothing; see
    /// [`AnyVerdictHook::placeholder`].
    #[must_use]
    pub fn placeholder(mut self) -> Self {
        self.placeholder = true;
        self
    }

    /// Returns the slots in which hooks of this type are valid.
    pub fn slots(&self) -> impl Iterator<Item = VerdictSlot> + use<> {
        let Families { tool_calls, llm_calls, watches } = self.families;
        slots(tool_calls, llm_calls, watches, self.placeholder)
    }
}

impl fmt::Debug for VerdictType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.slots()).finish()
    }
}

/// The verdict hook types that the configuration can name.
#[derive(Clone, Debug, Default)]
pub struct VerdictTypes(BTreeMap<String, VerdictType>);

/// A `type:` that produces no hook.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerdictTypeError {
    /// No such type.
    #[error("unknown hook type `{name}`\nhint: known types: {known}")]
    Unknown {
        /// What was given.
        name: String,
        /// The types that exist.
        known: String,
    },
    /// The type refuses its configuration.
    #[error("hook type `{name}`: {}", .error.message())]
    Config {
        /// The type.
        name: String,
        /// What is wrong.
        error: Malformed,
    },
}

impl VerdictTypes {
    /// Adds a type, or replaces it.
    pub fn register(&mut self, name: impl Into<String>, verdict_type: VerdictType) {
        self.0.insert(name.into(), verdict_type);
    }

    /// Returns all types, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &VerdictType)> {
        self.0.iter().map(|(name, verdict_type)| (name.as_str(), verdict_type))
    }

    /// Builds a hook.
    ///
    /// # Errors
    ///
    /// [`VerdictTypeError`].
    pub fn build(&self, name: &str, config: &Value) -> Result<AnyVerdictHook, VerdictTypeError> {
        let known = || self.0.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let verdict_type = self
            .0
            .get(name)
            .ok_or_else(|| VerdictTypeError::Unknown { name: name.to_owned(), known: known() })?;
        let hook = (verdict_type.factory)(config)
            .map_err(|error| VerdictTypeError::Config { name: name.to_owned(), error })?;
        Ok(if verdict_type.placeholder { hook.placeholder() } else { hook })
    }
}
