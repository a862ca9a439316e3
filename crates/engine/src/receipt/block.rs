//! Why a value was stopped: in words for those who are told, and without words for the record.

use backstop_hooks::{HookId, OwnerId, Reason, RecordedReason, Resolution, Text};
use serde::Serialize;

use super::failure::FailureKind;
#[cfg(doc)]
use crate::MAX_DEPTH;

/// Why a value was stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "cause")]
pub enum BlockCause {
    /// A hook said so.
    Decision,
    /// A hook failed.
    Failure {
        /// How.
        kind: FailureKind,
    },
    /// A hook would again change a value that had already been judged.
    UnstableRewrite {
        /// The hook that wrote the value.
        #[serde(skip_serializing_if = "Option::is_none")]
        writer: Option<HookId>,
    },
    /// `after_llm_call` had removed the call from the answer.
    Withheld,
    /// It is nested too deep in hooks, and no hook was asked; see [`MAX_DEPTH`].
    TooDeep,
    /// A human had to be asked, and did not allow it.
    Approval {
        /// How the request ended.
        resolution: Resolution,
    },
}

/// A value was stopped.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocked {
    /// Why, for programs.
    pub cause: BlockCause,
    /// Why, in words, for the recipient. At `before_agent_run` it is internal.
    pub reason: Option<Reason>,
    /// The hook that stopped it.
    pub hook: Option<HookId>,
    /// The owner of that hook.
    pub owner: Option<OwnerId>,
}

/// A block as a receipt has it: without the words of its reason, which quote what was judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedBlock {
    /// Why, for programs.
    #[serde(flatten)]
    pub cause: BlockCause,
    /// By which rules, and the digest of the words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<RecordedReason>,
    /// The hook that stopped it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook: Option<HookId>,
    /// The owner of that hook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerId>,
}

impl From<&Blocked> for RecordedBlock {
    fn from(blocked: &Blocked) -> Self {
        Self {
            cause: blocked.cause.clone(),
            reason: blocked.reason.as_ref().map(Reason::recorded),
            hook: blocked.hook.clone(),
            owner: blocked.owner.clone(),
        }
    }
}

impl Blocked {
    /// Returns whether nobody judged because a dependency of the judge (the store, a service) can't be reached: this is not a
    /// decision of a hook.
    pub fn is_unavailable(&self) -> bool {
        matches!(self.cause, BlockCause::Failure { kind: FailureKind::Unreachable })
    }

    /// Returns whether it was stopped only because nobody could be asked here: a host may put it to its own user.
    pub fn is_unanswered(&self) -> bool {
        matches!(self.cause, BlockCause::Approval { resolution: Resolution::Cancelled })
    }

    /// Returns the reason, or a generic sentence if none was given.
    pub fn reason_or_default(&self) -> Text {
        self.reason.clone().map(Text::from).unwrap_or_else(|| match &self.hook {
            Some(hook) => format!("blocked by {hook}").into(),
            None => "blocked".into(),
        })
    }
}
