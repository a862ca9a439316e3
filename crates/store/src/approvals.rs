//! Approvals: questions to a human, and their results.
//!
//! An approval is one row that every process sees. It is bound to the digest of the exact call that the
//! human is shown. Its states:
//!
//! ```text
//!            answer            consume
//! Pending ------------> Allowed -------> Used
//!    |  \-------------> Denied              ^
//!    |  \--- deadline-> TimedOut --\        |
//!    |  \--- run ends-> Cancelled --+-> Allowed, for one later call of the same digest
//! Unattended (nobody to ask) ------/   (`allow-once CODE`)
//! ```
//!
//! The laws: *the first answer wins*, and each change is one compare-and-set that all processes agree
//! on; *an allowance is used exactly once*, and only for its digest; *deny can always be answered*, any
//! other answer only if it was offered; *nothing that a human denied is allowed by anything later*.

pub(crate) mod code;
pub(crate) mod machine;
mod people;
mod preview;
mod starts;
pub(crate) mod wait;

use async_trait::async_trait;
use backstop_hooks::{
    AgentId, ApprovalId, Decision, Digest, HookId, Json, OwnerId, RuleId, RunId, SessionId, SessionKey,
    Severity, Text, TimeoutBehavior, ToolCallId, ToolName,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;

pub use self::people::{Answerer, Identity, KnownBy, People, PersonName};
pub use self::preview::{Preview, preview};
pub use self::starts::{StartedProcess, Starts, TouchedPath};
use crate::names::named;
use crate::{AmountArgument, GrantPlace, StoreError, Timestamp, Uptime};

/// The largest request that is kept, in bytes of JSON: the arguments, what is shown of them, and what hooks say.
pub const MAX_APPROVAL_BYTES: usize = 640 * 1024;
/// The largest arguments that are kept whole, in bytes of JSON. A call that has larger ones can be denied and not allowed.
pub const MAX_WHOLE_BYTES: usize = 256 * 1024;

/// How long after its deadline a question that nobody answered can still be answered for a later call.
pub const ANSWERABLE: Duration = Duration::from_hours(24);
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
    /// The program whose hooks report the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The call.
    pub call: ToolCallId,
    /// The tool, as called and canonical.
    #[serde(flatten)]
    pub tool_name: ToolName,
    /// The digest of the call that the human is shown. Nothing else is ever allowed by the answer.
    pub digest: Digest,
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
    /// The arguments, bounded for display (see [`preview`]).
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
    /// What the call would start, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts: Option<Starts>,
    /// Those arguments that are amounts, for answers that hold up to a sum.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub amounts: Vec<AmountArgument>,
    /// What the human can answer. Deny is always offered.
    pub allowed_decisions: Vec<Decision>,
    /// When it was asked.
    pub created_at: Timestamp,
    /// The last moment at which an answer counts.
    pub expires_at: Timestamp,
    /// The same moment on a clock that nobody sets. On the machine that asks, it alone decides, until that is started again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Uptime>,
    /// What happens when nobody answers.
    pub timeout_behavior: TimeoutBehavior,
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

impl NewApproval {
    /// Returns whether it still has something of the arguments.
    pub(crate) fn has_arguments(&self) -> bool {
        !self.preview.is_null() || self.whole.is_some() || self.starts.is_some()
    }

    /// Leaves nothing of the arguments but the digest. What is shown to nobody can't be allowed any more.
    pub fn forget_arguments(&mut self) {
        self.preview = Json::default();
        self.whole = None;
        self.starts = None;
        self.amounts = Vec::new();
        self.unseen = true;
    }

    /// Returns whether the call runs if nobody answers in time: only if its author says so, and nothing of it was hidden from
    /// those who were asked.
    pub fn silence_allows(&self) -> bool {
        self.timeout_behavior == TimeoutBehavior::Allow && !self.unseen
    }

    /// Returns whether its last moment has passed. A clock that is set neither ends a question early nor keeps it open.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.deadline.as_ref().and_then(Uptime::has_passed).unwrap_or(now > self.expires_at)
    }

    /// Returns whether it asks the same about the same call of the same run: a client may bring a call twice.
    pub(crate) fn asks_as(&self, other: &Self) -> bool {
        (&self.session, &self.run, &self.digest, &self.tool_name)
            == (&other.session, &other.run, &other.digest, &other.tool_name)
            && (&self.agent, &self.session_key, &self.workspace, &self.place)
                == (&other.agent, &other.session_key, &other.workspace, &other.place)
            && (&self.title, &self.reasons, &self.allowed_decisions)
                == (&other.title, &other.reasons, &other.allowed_decisions)
    }

    /// Leaves nothing of what the call and the hooks say but digest and rules.
    pub(crate) fn forget_texts(&mut self) {
        self.title = Text::from("denied; what was asked is erased");
        self.description = Text::default();
        self.forget_arguments();
        for reason in &mut self.reasons {
            reason.title = Text::default();
            reason.description = Text::default();
            reason.program = None;
        }
    }
}

/// A question and its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRecord {
    /// Its id.
    pub id: ApprovalId,
    /// Its short code, for people to type.
    pub code: String,
    /// The question.
    #[serde(flatten)]
    pub request: NewApproval,
    /// Its state.
    pub state: ApprovalState,
}

impl ApprovalRecord {
    /// Returns it as it stands in lists, without what is large. That there are whole arguments is still said.
    pub(crate) fn listed(mut self) -> Self {
        self.request.whole = self.request.whole.map(|_| Json::default());
        self
    }
}

/// The state of a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum ApprovalState {
    /// Nobody has answered yet.
    Pending,
    /// A human allowed the call, and it has not begun.
    Allowed(Allowance),
    /// The call that a human allowed has begun.
    Used {
        /// What was allowed.
        allowance: Allowance,
        /// When the call began.
        used_at: Timestamp,
    },
    /// A human said no.
    Denied {
        /// When.
        at: Timestamp,
        /// Who.
        by: String,
        /// What the model is told with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        word: Option<Text>,
    },
    /// Nobody could be asked.
    Unattended {
        /// When.
        at: Timestamp,
    },
    /// Nobody answered in time.
    TimedOut {
        /// When that was noticed.
        at: Timestamp,
    },
    /// The run that asked has ended.
    Cancelled {
        /// When.
        at: Timestamp,
    },
}

/// What a human allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Allowance {
    /// Once or always.
    pub decision: Decision,
    /// When it was allowed.
    pub at: Timestamp,
    /// Who allowed it.
    pub by: String,
    /// Whether grants were written with the answer, as bounded as the person wanted them: the call that asked adds none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_grants: bool,
    /// Which call may use it: the waiting call, or one later call with the same digest.
    #[serde(flatten)]
    pub reach: Reach,
}

/// Which call may use an allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reach", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Reach {
    /// The call that asked and waits.
    WaitingCall,
    /// The next call of the same digest, tool and agent, made in the same place ([`AllowanceScope`]).
    LaterCall {
        /// The last moment at which it may begin.
        until: Timestamp,
    },
}

named! {
    /// The state of an approval, as a word.
    pub enum ApprovalStatus {
        /// Nobody has answered yet.
        Pending = "pending",
        /// A human allowed the call, and it has not begun.
        Allowed = "allowed",
        /// The call that a human allowed has begun.
        Used = "used",
        /// A human said no.
        Denied = "denied",
        /// Nobody could be asked.
        Unattended = "unattended",
        /// Nobody answered in time.
        TimedOut = "timed-out",
        /// The run that asked has ended.
        Cancelled = "cancelled",
    }
}

impl ApprovalState {
    /// Returns which person brought it about, if one did.
    pub fn by(&self) -> Option<&str> {
        match self {
            Self::Allowed(allowance) | Self::Used { allowance, .. } => Some(&allowance.by),
            Self::Denied { by, .. } => Some(by),
            Self::Pending | Self::Unattended { .. } | Self::TimedOut { .. } | Self::Cancelled { .. } => None,
        }
    }

    /// Returns the state as a word.
    pub fn status(&self) -> ApprovalStatus {
        match self {
            Self::Pending => ApprovalStatus::Pending,
            Self::Allowed(_) => ApprovalStatus::Allowed,
            Self::Used { .. } => ApprovalStatus::Used,
            Self::Denied { .. } => ApprovalStatus::Denied,
            Self::Unattended { .. } => ApprovalStatus::Unattended,
            Self::TimedOut { .. } => ApprovalStatus::TimedOut,
            Self::Cancelled { .. } => ApprovalStatus::Cancelled,
        }
    }
}

/// The most characters of what a person says with a denial.
pub const MAX_WORD_CHARS: usize = 512;

/// A person's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonsAnswer {
    pub(crate) decision: Decision,
    pub(crate) word: Option<Text>,
    pub(crate) by: Answerer,
    pub(crate) at: Timestamp,
    pub(crate) has_grants: bool,
}

impl PersonsAnswer {
    /// Creates an answer; `by` says who gives it.
    pub fn new(decision: Decision, by: impl Into<Answerer>, at: Timestamp) -> Self {
        Self { decision, word: None, by: by.into(), at, has_grants: false }
    }

    /// Says that grants were written with the answer, so that the call that asked adds none.
    #[must_use]
    pub fn with_grants(self) -> Self {
        Self { has_grants: true, ..self }
    }

    /// Sets what the model is told, if the answer is a denial: one line, cut to [`MAX_WORD_CHARS`].
    #[must_use]
    pub fn with_word(mut self, word: &str) -> Self {
        let line = word.split(|c: char| c.is_whitespace() || c.is_control()).filter(|part| !part.is_empty());
        let line = line.collect::<Vec<_>>().join(" ");
        let cut: String = line.chars().take(MAX_WORD_CHARS).collect();
        self.word = (self.decision == Decision::Deny && !cut.is_empty()).then(|| cut.into());
        self
    }
}

/// The answer that counts, and whether this call gave it.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// The approval as it is now.
    pub record: ApprovalRecord,
    /// `false` if the same answer had been given before.
    pub first: bool,
}

/// Which approvals to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalFilter {
    /// Those that nobody has answered yet.
    Pending,
    /// All.
    All,
}

/// Questions for which a person's answer would still count, in the order in which they end.
#[derive(Clone, Debug, Default)]
pub struct OpenApprovals {
    /// Some of them.
    pub records: Vec<ApprovalRecord>,
    /// How many there are.
    pub all: usize,
}

/// What is known of all questions without reading them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overview {
    /// How many calls wait for an answer.
    pub waiting: usize,
    /// Another one with each question that comes, and with each that is answered or ends; it means nothing else.
    pub mark: u64,
}

/// The scope of a call that wants to use an allowance given in advance.
///
/// The place of a call is the workspace if one is named, and otherwise the conversation. A call from one kind of
/// place never uses what was allowed in the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowanceScope {
    /// The agent.
    pub agent: AgentId,
    /// The conversation.
    pub session_key: SessionKey,
    /// The folder that the agent works in, where that counts ([`NewApproval::workspace`]).
    pub workspace: Option<String>,
    /// The tool, as called and canonical.
    pub tool_name: ToolName,
    /// The digest of the call.
    pub digest: Digest,
}

/// Why a question was not stored.
#[derive(Debug, thiserror::Error)]
pub enum CreateApprovalError {
    /// The request is too large.
    #[error("an approval request has at most {MAX_APPROVAL_BYTES} bytes, this one has {0}")]
    TooLarge(usize),
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a name does not identify exactly one approval.
#[derive(Debug, thiserror::Error)]
pub enum FindApprovalError {
    /// No approval has that code, id or beginning of an id.
    #[error("there is no approval `{0}`\nhint: `backstop approvals list` shows what waits")]
    Unknown(String),
    /// Several ids begin that way.
    #[error("several approvals begin with `{0}`\nhint: give more of the id, or the code")]
    Ambiguous(String),
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an answer does not count.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// No approval of that id exists.
    #[error("there is no approval `{0}`")]
    Unknown(ApprovalId),
    /// Another answer, the deadline or the end of the run came first.
    #[error("approval `{code}` is already {status}{}", by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default())]
    AlreadyResolved {
        /// Its code.
        code: String,
        /// Its state.
        status: ApprovalStatus,
        /// Who was first, if that was a person.
        by: Option<String>,
    },
    /// The hooks that asked did not offer that answer.
    #[error("approval `{code}` can't be answered with {}", word(*decision))]
    NotOffered {
        /// Its code.
        code: String,
        /// The answer.
        decision: Decision,
    },
    /// A part of the call has been shown to nobody.
    #[error(
        "approval `{code}` shows a part of its arguments only, so it can't be allowed yet\nhint: `backstop approvals show {code} --whole` shows all of them"
    )]
    Unseen {
        /// Its code.
        code: String,
    },
    /// The answer came too late.
    #[error("approval `{code}` expired at {at}")]
    Expired {
        /// Its code.
        code: String,
        /// When it expired.
        at: Timestamp,
    },
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Returns the answer as people type it.
fn word(decision: Decision) -> &'static str {
    match decision {
        Decision::AllowOnce => "allow-once",
        Decision::AllowAlways => "allow-always",
        Decision::Deny => "deny",
    }
}

/// Why an approval does not permit a call.
#[derive(Debug, thiserror::Error)]
pub enum ConsumeError {
    /// No approval of that id exists.
    #[error("there is no approval `{0}`")]
    Unknown(ApprovalId),
    /// The call is not the one that the human was shown.
    #[error("approval `{code}` was given for another call")]
    OtherCall {
        /// Its code.
        code: String,
    },
    /// Nobody allowed it, or another call has already used it.
    #[error("approval `{code}` is {status}")]
    NotAllowed {
        /// Its code.
        code: String,
        /// Its state.
        status: ApprovalStatus,
    },
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Questions to humans, and their answers.
#[async_trait]
pub trait ApprovalStore {
    /// Stores a question for a human to answer.
    async fn create_approval(&self, request: NewApproval) -> Result<ApprovalRecord, CreateApprovalError>;

    /// Stores a question that nobody could be asked, so that a human can allow the call later. If one already
    /// exists for the same call of the same run, it is kept.
    async fn create_unattended_approval(
        &self,
        request: NewApproval,
    ) -> Result<ApprovalRecord, CreateApprovalError>;

    /// Returns the approval of that id.
    async fn approval(&self, id: &ApprovalId) -> Result<Option<ApprovalRecord>, StoreError>;

    /// Returns the approval with a code (case-insensitive), an id, or a unique beginning of an id.
    async fn find_approval(&self, name: &str) -> Result<ApprovalRecord, FindApprovalError>;

    /// Returns at most `limit` approvals, the newest first.
    async fn approvals(
        &self,
        filter: ApprovalFilter,
        limit: usize,
    ) -> Result<Vec<ApprovalRecord>, StoreError>;

    /// Returns at most `limit` questions for which an answer would count at `now`, after the first `skip`: those that wait, by their last moment, then
    /// those that ended without an answer and can be allowed for a later call, the newest first. It is a list: of arguments that are kept
    /// [whole](NewApproval::whole), which are large, each says only that it has them, by a null.
    async fn open_approvals(
        &self,
        now: Timestamp,
        skip: usize,
        limit: usize,
    ) -> Result<OpenApprovals, StoreError>;

    /// Returns what is known of all questions without reading them: cheap enough to ask several times a second.
    async fn overview(&self) -> Result<Overview, StoreError>;

    /// Records a human's answer, also in the audit trail. Repeating the same answer is not an error; another one is, and says
    /// who was first. For a denied call only the digest, the rules and the human's word are kept.
    async fn answer_approval(&self, id: &ApprovalId, answer: PersonsAnswer)
    -> Result<Resolved, ResolveError>;

    /// As [`answer_approval`](Self::answer_approval), without a word.
    async fn resolve_approval(
        &self,
        id: &ApprovalId,
        decision: Decision,
        by: &str,
        now: Timestamp,
    ) -> Result<Resolved, ResolveError> {
        self.answer_approval(id, PersonsAnswer::new(decision, by, now)).await
    }

    /// Cancels an approval that nobody has answered. Returns its new state.
    async fn cancel_approval(&self, id: &ApprovalId, now: Timestamp) -> Result<ApprovalRecord, ResolveError>;

    /// Cancels what a run waits for. Returns what was cancelled.
    async fn cancel_run_approvals(
        &self,
        session: &SessionId,
        run: &RunId,
        now: Timestamp,
    ) -> Result<Vec<ApprovalRecord>, StoreError>;

    /// Ends the approvals whose deadline has passed. Returns what ended now. Of those that no answer can count for any
    /// more (used up, or over for [`ANSWERABLE`]) the arguments are wiped, some at a time.
    async fn expire_approvals(&self, now: Timestamp) -> Result<Vec<ApprovalRecord>, StoreError>;

    /// Ends an approval that nobody has answered, because whoever asked has waited as long as it may, whatever the
    /// machine's clock says by now. Returns its state; `None` if it does not exist.
    async fn end_waiting(
        &self,
        id: &ApprovalId,
        now: Timestamp,
    ) -> Result<Option<ApprovalRecord>, StoreError>;

    /// Uses up an allowance: succeeds for one caller only, and only for the digest that the human
    /// was shown. A question that timed out counts as allowed once if it was asked that way.
    async fn consume_approval(
        &self,
        id: &ApprovalId,
        digest: &Digest,
        now: Timestamp,
    ) -> Result<ApprovalRecord, ConsumeError>;

    /// Allows one later call of the same digest, tool and agent in the same place, until `now + ttl`. For
    /// questions that ended without an answer. One that is still pending is answered with allow-once.
    async fn allow_later(
        &self,
        id: &ApprovalId,
        by: &str,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<ApprovalRecord, ResolveError>;

    /// Uses up an allowance that [`allow_later`](Self::allow_later) gave, if there is one.
    async fn take_allowance(
        &self,
        scope: &AllowanceScope,
        now: Timestamp,
    ) -> Result<Option<ApprovalRecord>, StoreError>;

    /// Waits until the approval is answered or otherwise ended, wherever that is done, or for as long as it is from now to
    /// `until`. Returns its current state; `None` if it does not exist. An answer of this process wakes its
    /// waiters at once, one of another process within milliseconds. A clock that is set meanwhile changes nothing.
    async fn wait_approval(
        &self,
        id: &ApprovalId,
        until: Timestamp,
    ) -> Result<Option<ApprovalRecord>, StoreError>;

    /// Wipes what an approval shows of the arguments; the digest stays. Returns whether it exists.
    async fn erase_preview(&self, id: &ApprovalId) -> Result<bool, StoreError>;

    /// Records that a human was shown all of the arguments, if they are stored ([`NewApproval::whole`]). Returns the
    /// new state.
    async fn mark_seen(&self, id: &ApprovalId) -> Result<Option<ApprovalRecord>, StoreError>;
}
