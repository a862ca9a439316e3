//! Approvals: questions to a human, and their results.
//!
//! An approval is one row that every process sees. It is bound to the digest of the exact call that the
//! human is shown. Its states:
//!
//! ```text
//!            answer            consume
//! Pending ------------> Allowed -------> Used
//!    |  \-------------> Denied              ^
//!    |  \-------------> Edited, Responded   |   (taken once, in the place of the call)
//!    |  \--- deadline-> TimedOut --\        |
//!    |  \--- run ends-> Cancelled --+-> Allowed, for one later call that is asked about in the same way
//! Unattended (nobody to ask) ------/   (`allow-once CODE`)
//!    \--- hosted, and its tool ran --> Used
//! ```
//!
//! The laws: *the first answer wins*, and each change is one compare-and-set that all processes agree
//! on; *an allowance is used exactly once*, and only for its digest; *a later call is as it was shown*: nothing more is asked about it, and it
//! is judged by the same files ([`AllowanceScope`]); *deny can always be answered*, any
//! other answer only if it was offered; *nothing that a human denied is allowed by anything later*; *where it is said who may answer,
//! nobody else does, and as many as must have allowed what runs* ([`Route`]). The store sees to that, so that no way of answering
//! leads past it.

pub(crate) mod answer;
pub(crate) mod code;
mod errors;
pub(crate) mod limits;
pub(crate) mod machine;
mod people;
mod preview;
mod request;
mod route;
mod starts;
mod state;
mod substitute;
mod told;
pub(crate) mod wait;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstop_hooks::{
    AgentId, ApprovalId, Decision, Digest, RunId, SessionId, SessionKey, ToolCallId, ToolName,
};

pub use self::answer::{MAX_WORD_CHARS, PersonsAnswer, Resolved};
pub use self::errors::{ConsumeError, CreateApprovalError, FindApprovalError, ResolveError};
pub use self::limits::{AskingLimits, REFUSALS_SHOWN, RefusedQuestions, TooMany};
pub use self::people::{Answerer, Identity, KnownBy, People, PersonName};
pub use self::preview::{Preview, preview};
pub use self::request::{ApprovalReason, NewApproval};
pub use self::route::{AskedPeople, Escalation, Later, NotAsked, Route, Standing, Vote, WhyNot};
pub use self::starts::{StartedProcess, Starts, TouchedPath};
pub use self::state::{Allowance, ApprovalRecord, ApprovalState, ApprovalStatus, Reach};
pub use self::substitute::{EditedFrom, Given, MaskMoved, Substitution, UnfitSubstitute};
pub use self::told::{TellWhen, ToldLater, ToldOn};
use crate::{Asked, DigestKey, Grant, NewGrant, StoreError, Timestamp};

/// The largest request that is asked with, in bytes of JSON: the arguments, what is shown of them, and what hooks say.
pub const MAX_APPROVAL_BYTES: usize = 640 * 1024;
/// The largest arguments that are kept whole, in bytes of JSON. A call that has larger ones can be denied and not allowed.
pub const MAX_WHOLE_BYTES: usize = 256 * 1024;
/// The largest result that a person gives in the place of a call, in bytes.
pub const MAX_RESULT_BYTES: usize = 64 * 1024;

/// How long after its deadline a question that nobody answered can still be answered for a later call.
pub const ANSWERABLE: Duration = Duration::from_hours(24);

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
    /// Another one with each question that comes, with each vote, and with each that is answered or ends; it means nothing else.
    pub mark: u64,
}

/// The scope of a call that wants to use an allowance given in advance.
///
/// The place of a call is the workspace if one is named, and otherwise the conversation. A call from one kind of
/// place never uses what was allowed in the other.
///
/// What was allowed is what was shown: each question about the call must be one that was answered ([`Asked::covers`]), and hooks must have
/// judged it by the same files as then ([`NewApproval::facts`]). A digest names a script, and not what is in it.
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
    /// What every hook that asks wants to know of it, as people are shown it.
    pub asked: Vec<Asked>,
    /// The digest of what hooks judged it by besides itself.
    pub facts: Option<Digest>,
    /// Who has to have allowed it, if that is said.
    pub route: Option<Route>,
}

/// Questions to humans, and their answers.
#[async_trait]
pub trait ApprovalStore {
    /// Returns the key by which digests are keyed in the audit trail in which answers are recorded, if they are.
    fn answers_digest_key(&self) -> Option<&Arc<DigestKey>> {
        None
    }

    /// Stores a question: for a human to answer or, if it is `unattended`, one that nobody could be asked, so that a human can allow
    /// the call later. If such a one already exists for the same call of the same run, it is kept. An agent that asks more than `limits`
    /// allow is refused, and that is counted.
    async fn file_approval(
        &self,
        request: NewApproval,
        unattended: bool,
        limits: &AskingLimits,
    ) -> Result<ApprovalRecord, CreateApprovalError>;

    /// As [`file_approval`](Self::file_approval), for a human to answer, without limits.
    async fn create_approval(&self, request: NewApproval) -> Result<ApprovalRecord, CreateApprovalError> {
        self.file_approval(request, false, &AskingLimits::default()).await
    }

    /// As [`file_approval`](Self::file_approval), for a question that nobody could be asked, without limits.
    async fn create_unattended_approval(
        &self,
        request: NewApproval,
    ) -> Result<ApprovalRecord, CreateApprovalError> {
        self.file_approval(request, true, &AskingLimits::default()).await
    }

    /// As [`file_approval`](Self::file_approval), for a question that the program that made the call puts to its own user: nobody is asked here, and
    /// what that person says is known only where the tool runs ([`end_hosted_approvals`](Self::end_hosted_approvals)).
    async fn file_hosted_approval(
        &self,
        request: NewApproval,
        limits: &AskingLimits,
    ) -> Result<ApprovalRecord, CreateApprovalError>;

    /// Ends the questions about a call of that id that were put to the user of the program that made it: its tool has run, so that person let it, and
    /// nothing more is allowed by them. Returns what ended now.
    async fn end_hosted_approvals(
        &self,
        agent: &AgentId,
        session: &SessionId,
        call: &ToolCallId,
        now: Timestamp,
    ) -> Result<Vec<ApprovalRecord>, StoreError>;

    /// Returns how many questions of which agents were refused in the last [`REFUSALS_SHOWN`], the newest first.
    async fn refused_questions(&self, now: Timestamp) -> Result<Vec<RefusedQuestions>, StoreError>;

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

    /// As [`approvals`](Self::approvals), of those that were asked before the one of this id; none where there is no such one.
    async fn approvals_before(
        &self,
        id: &ApprovalId,
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

    /// Records a human's answer, also in the audit trail. Where it is said who may answer, it is a vote: others are refused, and the call
    /// is allowed once as many have allowed it as must. Repeating the same answer is not an error; another one is, and says
    /// who was first. For a denied call only the digest, the rules and the human's word are kept. Where nobody waits any more
    /// ([`ApprovalRecord::is_abandoned`]), only a denial counts, and what comes with grants of its own
    /// ([`answer_with_grants`](Self::answer_with_grants)): one later call is allowed with [`allow_later`](Self::allow_later).
    async fn answer_approval(&self, id: &ApprovalId, answer: PersonsAnswer)
    -> Result<Resolved, ResolveError>;

    /// As [`answer_approval`](Self::answer_approval), for an answer that holds from now on: if it is the one that allows the call, these grants are
    /// written with it, and the call that asked adds none. All of it counts, or nothing. Returns the grants.
    async fn answer_with_grants(
        &self,
        id: &ApprovalId,
        answer: PersonsAnswer,
        grants: Vec<NewGrant>,
    ) -> Result<(Resolved, Vec<Grant>), ResolveError>;

    /// As [`answer_approval`](Self::answer_approval), without a word, for somebody of whom nothing is known: where it is said who may
    /// answer, that is refused.
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
    /// more (used up, or over for [`ANSWERABLE`], also where the call that was allowed never began) all texts are wiped, some at a time.
    async fn expire_approvals(&self, now: Timestamp) -> Result<Vec<ApprovalRecord>, StoreError>;

    /// Says in the audit trail of questions that it has and this store has not, since whoever asked was killed before they counted, that they ended. Returns how
    /// many there were. A store whose entries are gone with it has none.
    async fn end_lost_approvals(&self, _now: Timestamp) -> Result<usize, StoreError> {
        Ok(0)
    }

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

    /// Takes what a human put in the place of the call: succeeds for one caller only, and only for the digest that the human was
    /// shown. Returns the question with it ([`NewApproval::given`]), of which only digests are kept from then on.
    async fn take_given(
        &self,
        id: &ApprovalId,
        digest: &Digest,
        now: Timestamp,
    ) -> Result<ApprovalRecord, ConsumeError>;

    /// Allows one later call of the same digest, tool and agent in the same place, asked about in the same way, until `now + ttl`. For
    /// questions that ended without an answer. One that still waits is answered with allow-once; one whose deadline has passed has
    /// timed out, whether that was noticed or not. Where more people have to allow the call, it is one vote for that.
    async fn allow_later(
        &self,
        id: &ApprovalId,
        by: &Answerer,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<ApprovalRecord, ResolveError>;

    /// Keeps what a human allowed once for one later call, until `now + ttl`: the call that waited is gone with its process.
    async fn keep_allowance(
        &self,
        id: &ApprovalId,
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
