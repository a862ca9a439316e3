//! Ids as distinct types, so that a run id can never be passed where a session id is expected.
//!
//! All are cheap to clone (one shared string) and print as they are: an id is never a secret.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Creates an id.
            pub fn new(id: impl Into<Arc<str>>) -> Self {
                Self(id.into())
            }

            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Returns whether the id has no characters. Providers do send such ids; gates treat them as unverifiable.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:?})", stringify!($name), &*self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(id: &str) -> Self {
                Self(id.into())
            }
        }

        impl From<String> for $name {
            fn from(id: String) -> Self {
                Self(id.into())
            }
        }
    )*};
}

ids! {
    /// Which agent acts: the name in the configuration, never guessed from content.
    AgentId;
    /// The stable name of a conversation across resets (`main`, `cron:nightly`, `chat:42`).
    SessionKey;
    /// One stretch of a conversation between two resets.
    SessionId;
    /// One turn: from a user's message to the final answer.
    RunId;
    /// One call of a model within a run.
    CallId;
    /// One tool call, as the model named it. May be empty or doubled when a model misbehaves.
    ToolCallId;
    /// One registered hook.
    HookId;
    /// Who registered a hook: a plugin, the operator, or `builtin`. Stamped by the host.
    OwnerId;
    /// One message of a transcript.
    MessageId;
    /// One request for a human's approval.
    ApprovalId;
    /// One dispatch, and so one receipt.
    ReceiptId;
    /// One rule of a guard (`filesystem.delete-root`), or of Backstop itself (`approval.denied`).
    RuleId;
}

impl HookId {
    /// Returns whether `id` names this hook: by its id, by that of the entry or plugin of which it is one of several (`entry/name`), or by that of the
    /// hook of which it is a part (`builtin:loop:answer`).
    pub fn is_of(&self, id: &str) -> bool {
        let rest = self.as_str().strip_prefix(id);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':']))
    }
}

impl OwnerId {
    /// Returns the owner of everything that ships with Backstop.
    pub fn builtin() -> Self {
        Self::new("builtin")
    }

    /// Returns whether the owner is part of Backstop: `builtin`, or one of its guards (`builtin:security-audit`). Hosts
    /// give no such name to anybody else.
    pub fn is_builtin(&self) -> bool {
        self.as_str() == "builtin" || self.as_str().starts_with("builtin:")
    }

    /// Returns the owner of hooks that the operator's configuration names.
    pub fn operator() -> Self {
        Self::new("operator")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_of_its_entry_and_of_none_that_only_begins_alike() {
        for (hook, id, expected) in [
            ("words", "words", true),
            ("words/first", "words", true),
            ("builtin:loop:answer", "builtin:loop", true),
            ("words-too", "words", false),
            ("words", "words/first", false),
            ("other", "words", false),
        ] {
            assert_eq!(HookId::new(hook).is_of(id), expected, "{hook} {id}");
        }
    }
}
