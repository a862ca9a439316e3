//! What is asked.

use std::collections::BTreeSet;

use backstop_hooks::{
    AgentId, Decision, Digest, HookId, Json, OwnerId, RuleId, RunId, SessionId, SessionKey, Severity,
    Substitute, Text, TimeoutBehavior, ToolCallId, ToolName,
};
use serde::{Deserialize, Serialize};

use super::route::Route;
use super::starts::{self, Starts};
use super::substitute::{EditedFrom, Given};
use crate::{AmountArgument, Asked, GrantPlace, LeaseHolder, Timestamp, Uptime};

/// A question to be stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewApproval {
    /// The agent that wants to act.
    pub agent: AgentId,
    /// The conversation.
    pub session_key: SessionKey,
    /// The folder that the agent works in, if an answer given later counts in all of its conversations
    /// there. Without it the answer counts in this conversation only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The session.
    pub session: SessionId,
    /// The run.
    pub run: Option<RunId>,
    /// Through which host the call is seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The program whose hooks report the call, or for which the proxy was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The call.
    pub call: ToolCallId,
    /// The tool, as called and canonical.
    #[serde(flatten)]
    pub tool_name: ToolName,
    /// The digest of the call that the human is shown. Nothing else is ever allowed by the answer.
    pub digest: Digest,
    /// The digest of what hooks judged the call by besides itself, such as the scripts that it runs; `None` where they looked at nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<Digest>,
    /// The one-line question.
    pub title: Text,
    /// What the human should know.
    pub description: Text,
    /// The highest severity among the reasons.
    pub severity: Severity,
    /// Every hook that asked.
    pub reasons: Vec<ApprovalReason>,
    /// Where a grant from the answer would apply.
    #[serde(default)]
    pub place: GrantPlace,
    /// The arguments, bounded for display (see [`preview`](crate::preview)).
    pub preview: Json,
    /// All of the arguments, if the preview shows only a part of them and they can be stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<Json>,
    /// Whether a part of the arguments has been shown to nobody. Such a call can be denied but not allowed, not even by a
    /// timeout.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unseen: bool,
    /// How many secrets are masked in what is shown.
    #[serde(default, skip_serializing_if = "starts::is_zero")]
    pub masked: usize,
    /// Where they are masked: the places of texts in the arguments, as JSON pointers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked_at: Vec<String>,
    /// What the call would start, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts: Option<Starts>,
    /// Those arguments that are amounts, for answers that hold up to a sum.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub amounts: Vec<AmountArgument>,
    /// What the human can answer. Deny is always offered.
    pub allowed_decisions: Vec<Decision>,
    /// What the human can put in the place of the call: what whoever asks can take. Nothing where more than one person must allow the
    /// call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub substitutes: Vec<Substitute>,
    /// The question of which it came, if a human changed that call into this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_from: Option<EditedFrom>,
    /// What a human put in the place of the call, as long as that is kept. Nobody asks with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<Given>,
    /// When it was asked.
    pub created_at: Timestamp,
    /// The last moment at which an answer counts.
    pub expires_at: Timestamp,
    /// The same moment on a clock that nobody sets. On the machine that asks, it alone decides, until that is started again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Uptime>,
    /// What happens when nobody answers.
    pub timeout_behavior: TimeoutBehavior,
    /// Who may answer, and how many must, if the operator says so. Otherwise anybody may who may answer at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    /// The process that waits for the answer, if one does and says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiter: Option<LeaseHolder>,
}

/// Why one hook asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalReason {
    /// Who registered the hook.
    pub owner: OwnerId,
    /// The hook.
    pub hook: HookId,
    /// Its one-line question.
    pub title: Text,
    /// What it wants the human to know.
    pub description: Text,
    /// Its severity according to the hook.
    pub severity: Severity,
    /// The rules that it is based on, if the hook names them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub rules: BTreeSet<RuleId>,
    /// The program and subcommand that all of it concerns, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Vec<String>>,
}

impl ApprovalReason {
    /// Returns the parts of it that answers for other calls are bound to.
    pub fn asked(&self) -> Asked {
        Asked {
            owner: self.owner.clone(),
            hook: self.hook.clone(),
            severity: self.severity,
            rules: self.rules.clone(),
            title: self.title.clone(),
        }
    }
}

/// The title of a question of which no words are kept.
const ERASED: &str = "over; what was asked is erased";

impl NewApproval {
    /// Returns whether it still has something of the arguments.
    pub(crate) fn has_arguments(&self) -> bool {
        !self.preview.is_null() || self.whole.is_some() || self.starts.is_some() || self.given.is_some()
    }

    /// Leaves nothing of the arguments but the digest. What is shown to nobody can't be allowed any more.
    pub fn forget_arguments(&mut self) {
        self.preview = Json::default();
        self.whole = None;
        self.starts = None;
        self.given = None;
        self.amounts = Vec::new();
        self.masked_at = Vec::new();
        if let Some(parent) = &mut self.edited_from {
            parent.shown = Json::default();
        }
        self.unseen = true;
    }

    /// Returns whether the call runs if nobody answers in time: only if its author says so, nothing of it was hidden from
    /// those who were asked, and nobody in particular has to allow it.
    pub fn silence_allows(&self) -> bool {
        self.timeout_behavior == TimeoutBehavior::Allow && !self.unseen && self.route.is_none()
    }

    /// Returns whether its last moment has passed. A clock that is set neither ends a question early nor keeps it open.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.deadline.as_ref().and_then(Uptime::has_passed).unwrap_or(now > self.expires_at)
    }

    /// Returns whether it asks the same about the same call of the same run: a client may bring a call twice. INVARIANT (what the human saw):
    /// one that is judged by another script is another question, since this one shows what the script was.
    pub(crate) fn asks_as(&self, other: &Self) -> bool {
        (&self.session, &self.run, &self.digest, &self.facts, &self.tool_name)
            == (&other.session, &other.run, &other.digest, &other.facts, &other.tool_name)
            && (&self.agent, &self.session_key, &self.workspace, &self.place)
                == (&other.agent, &other.session_key, &other.workspace, &other.place)
            && (&self.title, &self.reasons, &self.allowed_decisions)
                == (&other.title, &other.reasons, &other.allowed_decisions)
            && self.edited_from == other.edited_from
            && self.route.as_ref().map(Route::in_words) == other.route.as_ref().map(Route::in_words)
    }

    /// Returns whether both are about one call by its id, as far as both have one.
    pub(crate) fn is_of_call(&self, other: &Self) -> bool {
        self.call == other.call || self.call.is_empty() || other.call.is_empty()
    }

    /// Returns whether it still has something of what the call and the hooks say, besides digest and rules.
    pub(crate) fn has_texts(&self) -> bool {
        self.has_arguments() || self.title.as_str() != ERASED || !self.description.is_empty()
    }

    /// Leaves nothing of what the call and the hooks say but digest and rules.
    pub(crate) fn forget_texts(&mut self) {
        self.title = Text::from(ERASED);
        self.description = Text::default();
        self.forget_arguments();
        for reason in &mut self.reasons {
            reason.title = Text::default();
            reason.description = Text::default();
            reason.program = None;
        }
    }
}
