//! One hook's part in a dispatch.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::{FailurePolicy, HookId, OwnerId, PointId, RuleId};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::as_micros;
use super::failure::Failure;
use crate::hook_options::HookMeta;
use crate::operator::FailureSource;
use crate::redaction::SpanCount;

/// What a hook did with the value, in summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Said {
    /// No opinion.
    Nothing,
    /// An answer that changed nothing.
    Pass,
    /// It changed the value.
    Rewrote,
    /// It requires a human to be asked.
    Asked,
    /// It stopped the value.
    Blocked,
    /// It took the event.
    Handled,
    /// It has no answer.
    Failed,
}

impl Said {
    /// Returns what an answer comes to, in one word: the strictest of what it does.
    pub(crate) fn of(blocks: bool, asks: bool, changes: bool) -> Self {
        match (blocks, asks, changes) {
            (true, ..) => Self::Blocked,
            (_, true, _) => Self::Asked,
            (_, _, true) => Self::Rewrote,
            _ => Self::Pass,
        }
    }
}

/// What a hook in shadow would have done to the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Would {
    /// Change it.
    Modify,
    /// Have a human asked.
    Ask,
    /// Stop it. So would a hook whose failure blocks.
    Block,
    /// Take the event.
    Handle,
}

impl Would {
    /// Returns its word, as receipts in JSON have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Modify => "modify",
            Self::Ask => "ask",
            Self::Block => "block",
            Self::Handle => "handle",
        }
    }

    /// Returns what an answer would come to: the strictest of what it does.
    pub(crate) fn of(blocks: bool, asks: bool, changes: bool) -> Option<Self> {
        match (blocks, asks, changes) {
            (true, ..) => Some(Self::Block),
            (_, true, _) => Some(Self::Ask),
            (_, _, true) => Some(Self::Modify),
            _ => None,
        }
    }
}

/// What a step saw and answered, for `explain` only; never serialised, never stored.
#[derive(Clone)]
pub struct StepDetail {
    /// The event as the hook saw it.
    pub saw: Value,
    /// Its answer.
    pub said: Value,
}

impl fmt::Debug for StepDetail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StepDetail(..)")
    }
}

/// One hook's part in a dispatch.
#[derive(Clone, Debug)]
pub struct Step {
    /// The hook.
    pub hook: Arc<HookMeta>,
    /// What it said that counts: of a hook in shadow nothing, or that it failed.
    pub said: Said,
    /// What a hook in shadow would have done.
    pub would: Option<Would>,
    /// The rules by which it would have, if it names any.
    pub would_by: Box<[RuleId]>,
    /// Whether this was the second round, in which gates judge the final value again.
    pub again: bool,
    /// Fields of its answer that were not applied: a latch refused them, or its rewrite gave way.
    pub refused: Vec<&'static str>,
    /// The hook to which its optional rewrite gave way.
    pub yielded_to: Option<HookId>,
    /// The hook whose optional rewrite was shown to it here; the value itself did not change in the meantime.
    pub proposal_of: Option<HookId>,
    /// Values of other hooks that it replaced, where the last hook to set a key wins.
    pub replaced: Box<[Replaced]>,
    /// What it found, by kind and number.
    pub spans: Vec<SpanCount>,
    /// How it failed.
    pub failure: Option<Failure>,
    /// It failed at a gate, and its failure policy let the value pass; [`HookMeta::failure_source`] says who set that
    /// policy.
    pub passed_despite_failure: bool,
    /// How long it took.
    pub elapsed: Duration,
    /// What it saw and said, when the dispatch was to be explained.
    pub detail: Option<Box<StepDetail>>,
}

/// A value that a later hook replaced. The values themselves are not in a receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replaced {
    /// The key of the value: the variable.
    pub key: String,
    /// The hook that had set it.
    pub of: HookId,
}

impl Step {
    /// Returns the step of a hook that has said nothing yet.
    pub(crate) fn of(hook: Arc<HookMeta>) -> Self {
        Self {
            hook,
            said: Said::Nothing,
            would: None,
            would_by: Box::default(),
            again: false,
            refused: Vec::new(),
            yielded_to: None,
            proposal_of: None,
            replaced: Box::default(),
            spans: Vec::new(),
            failure: None,
            passed_despite_failure: false,
            elapsed: Duration::ZERO,
            detail: None,
        }
    }
}

impl Step {
    /// Returns whether the step says no more than that the hook was asked and had no opinion.
    pub(crate) fn is_silent(&self) -> bool {
        let Self {
            hook: _,
            said,
            would,
            again: _,
            refused,
            yielded_to,
            proposal_of,
            replaced,
            spans,
            failure,
            ..
        } = self;
        *said == Said::Nothing
            && would.is_none()
            && refused.is_empty()
            && yielded_to.is_none()
            && proposal_of.is_none()
            && replaced.is_empty()
            && spans.is_empty()
            && failure.is_none()
            && !self.passed_despite_failure
    }
}

impl Serialize for Step {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            hook: &'a HookId,
            owner: &'a OwnerId,
            point: PointId,
            said: Said,
            #[serde(skip_serializing_if = "is_false")]
            shadow: bool,
            #[serde(skip_serializing_if = "Option::is_none")]
            would: Option<Would>,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            would_by: &'a [RuleId],
            #[serde(skip_serializing_if = "is_false")]
            again: bool,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            refused: &'a [&'static str],
            #[serde(skip_serializing_if = "Option::is_none")]
            yielded_to: Option<&'a HookId>,
            #[serde(skip_serializing_if = "Option::is_none")]
            proposal_of: Option<&'a HookId>,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            replaced: &'a [Replaced],
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            spans: &'a [SpanCount],
            #[serde(skip_serializing_if = "Option::is_none")]
            failure: Option<&'a Failure>,
            #[serde(skip_serializing_if = "Option::is_none")]
            on_failure: Option<FailurePolicy>,
            #[serde(skip_serializing_if = "Option::is_none")]
            failure_source: Option<FailureSource>,
            #[serde(skip_serializing_if = "is_false")]
            passed_despite_failure: bool,
            #[serde(rename = "elapsedUs", serialize_with = "as_micros")]
            elapsed: Duration,
        }
        let HookMeta { id, owner, point, on_failure, failure_source, mode, .. } = &*self.hook;
        let failed = self.failure.is_some();
        let wire = Wire {
            hook: id,
            owner,
            point: *point,
            said: self.said,
            shadow: mode.is_shadow(),
            would: self.would,
            would_by: &self.would_by,
            again: self.again,
            refused: &self.refused,
            yielded_to: self.yielded_to.as_ref(),
            proposal_of: self.proposal_of.as_ref(),
            replaced: &self.replaced,
            spans: &self.spans,
            failure: self.failure.as_ref(),
            on_failure: failed.then_some(*on_failure),
            failure_source: failed.then_some(*failure_source),
            passed_despite_failure: self.passed_despite_failure,
            elapsed: self.elapsed,
        };
        wire.serialize(serializer)
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}
