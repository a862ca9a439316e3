//! Tool names: one spelling for one tool.
//!
//! Agents call the same tool `bash`, `run_command` or `exec`. Hooks match on the normalised name, so a policy
//! about `exec` holds whatever the model wrote. Names that are not known stay as they are, apart from
//! case and white space around them: tools of plugins and MCP servers register their own.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// A normalised tool name.
///
/// ```
/// use backstop_hooks::ToolName;
/// assert_eq!(ToolName::new("Bash"), ToolName::new("exec"));
/// assert_eq!(ToolName::new("apply-patch").as_str(), "apply_patch");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct ToolName(Arc<str>);

/// The tools known at start, by group.
pub const GROUPS: &[(&str, &[&str])] = &[
    ("fs", &["read", "write", "edit", "apply_patch"]),
    ("runtime", &["exec", "process"]),
    ("memory", &["memory_search", "memory_get"]),
    ("web", &["web_search", "web_fetch"]),
    ("sessions", &["sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "session_status"]),
    ("ui", &["browser", "canvas"]),
    ("automation", &["cron", "gateway"]),
    ("messaging", &["message"]),
    ("nodes", &["nodes"]),
];

/// The tools known at start that are in no group.
pub const UNGROUPED: &[&str] = &["agents_list", "image", "tts"];

/// All tools known at start.
pub fn known_tools() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().flat_map(|(_, tools)| tools.iter()).chain(UNGROUPED).copied()
}

/// The tools of `group:<name>`; `None` for a group that does not exist.
pub fn group(name: &str) -> Option<&'static [&'static str]> {
    let name = name.strip_prefix("group:")?;
    GROUPS.iter().find(|(group, _)| *group == name).map(|(_, tools)| *tools)
}

impl ToolName {
    /// Normalises a name: lower case, no white space around it, one spelling for known tools.
    pub fn new(name: &str) -> Self {
        let name = name.trim().to_lowercase();
        Self(match name.as_str() {
            "bash" | "shell" | "run_command" | "run_shell_command" | "execute_bash" => "exec".into(),
            "apply-patch" => "apply_patch".into(),
            "read_file" => "read".into(),
            "write_file" => "write".into(),
            "edit_file" => "edit".into(),
            _ => name.into(),
        })
    }

    /// The normalised name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolName({:?})", &*self.0)
    }
}

impl AsRef<str> for ToolName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for ToolName {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl<'de> Deserialize<'de> for ToolName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        std::borrow::Cow::<'de, str>::deserialize(deserializer).map(|name| Self::new(&name))
    }
}
