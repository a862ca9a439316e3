//! Durable state: what Backstop must not forget when a process ends, and what several processes must
//! agree on.
//!
//! [`Store`] is one interface, and one body of SQL keeps all of it: [`SqliteStore`] in a file, for the processes of one machine, or in memory, for
//! tests and for programs that want nothing on disk; `PostgresStore` on a server, for several machines (feature `postgres`). Each area of state is a
//! trait of its own, with its laws in its module. Three laws apply everywhere:
//!
//! - *Whole or absent.* An operation that fails, or whose process is killed, has changed nothing. An
//!   operation that returned has happened, even after a crash. If its future is dropped midway, it may
//!   still happen. One that fails with [`StoreErrorKind::Uncertain`] has happened as a whole or not at all, and nobody can tell which.
//! - *Agreement.* No other process interleaves with what one process reads, decides and writes in one
//!   operation.
//! - *Bounded.* Whatever is stored has a maximum size, and lists take a limit. Only a session's transcript
//!   is read completely.
//!
//! The caller always supplies the time, so that a decision and its record carry the same moment.

mod access_tokens;
mod always;
mod amount;
mod answered;
mod approvals;
mod asked;
mod audit;
mod audit_filter;
mod audit_told;
mod budgets;
mod checkpoints;
mod decisions;
mod error;
mod extensions;
mod grants;
mod injections;
mod keyed;
mod names;
mod notices;
mod policy;
#[cfg(feature = "postgres")]
mod postgres;
mod retention;
mod runs;
mod sessions;
mod sql;
mod sqlite;
mod subject;
mod time;
mod transcript;
mod whence;

pub use access_tokens::{
    ACCESS_TOKEN_LEN, AccessToken, AccessTokenId, AccessTokenList, AccessTokenStore, AddAccessTokenError,
    MAX_ACCESS_TOKENS, NewAccessToken, Replaced, Scope, UnreadableAccessToken, access_token_digest,
    holds_access_token,
};
pub use always::{
    Always, AlwaysError, AlwaysScope, GRANT_TTL, LATER, LONGEST_GRANT, SHORTEST_GRANT, allow_always,
};
pub use amount::{Amount, AmountArgument, NotAnAmount};
pub use answered::{
    ACCESS_TOKEN_CREATED, ACCESS_TOKEN_REVOKED, APPROVAL_ANSWERED, APPROVAL_VOTED, GRANT_GIVEN,
    GRANT_REVOKED, GRANTS_VOIDED,
};
pub use approvals::{
    ANSWERABLE, Allowance, AllowanceScope, Answerer, ApprovalFilter, ApprovalReason, ApprovalRecord,
    ApprovalState, ApprovalStatus, ApprovalStore, AskedPeople, AskingLimits, ConsumeError,
    CreateApprovalError, EditedFrom, Escalation, FindApprovalError, Given, Identity, KnownBy, Later,
    MAX_APPROVAL_BYTES, MAX_RESULT_BYTES, MAX_WHOLE_BYTES, MAX_WORD_CHARS, MaskMoved, NewApproval, NotAsked,
    OpenApprovals, Overview, People, PersonName, PersonsAnswer, Preview, REFUSALS_SHOWN, Reach,
    RefusedQuestions, ResolveError, Resolved, Route, Standing, StartedProcess, Starts, Substitution,
    TellWhen, ToldLater, ToldOn, TooMany, TouchedPath, UnfitSubstitute, Vote, WhyNot, preview,
};
pub use asked::{APPROVAL_ASKED, APPROVAL_ENDED};
pub use audit::{
    AUDIT_CHAIN, AUDIT_GAP, AUDIT_HOOKS, AUDIT_IMPAIRED, AUDIT_OMITTED, AUDIT_PRUNED, AUDIT_UNSIGNED,
    AppendAuditError, AuditBody, AuditCheckpoints, AuditEntry, AuditGap, AuditHead, AuditLate, AuditProcess,
    AuditReport, AuditStep, AuditStore, AuditUnproved, CLOCK_TOLERANCE, Durability, MAX_AUDIT_BYTES,
    NewAuditEntry, ProveAuditError, RotatedAuditKey, VerifyAuditError, audit_id,
};
pub use audit_filter::{AuditFilter, AuditPage, AuditPlace, MOST_PAGE_READ};
pub use budgets::{
    BudgetStore, BudgetUse, Charge, Exceeded, MAX_CHARGES, ReservationId, ReserveError, WINDOWS_LAST,
};
pub use checkpoints::{
    CheckpointStore, LeftCheckpoint, LeftCheckpoints, MOST_LEFT_CHECKPOINT_BYTES, MOST_LEFT_CHECKPOINTS,
    MOST_SHOWN_CHECKPOINTS, PEER_CHECKPOINT,
};
pub use decisions::{DecisionStore, ToolDecision};
pub use error::{StoreError, StoreErrorKind};
pub use extensions::{
    Expected, Extension, ExtensionError, ExtensionKey, ExtensionStore, Forget, Forgotten,
    MAX_EXTENSION_BYTES, MAX_EXTENSIONS, MAX_NAMESPACE_CHARS,
};
pub use grants::{
    Asked, Grant, GrantId, GrantList, GrantOrigin, GrantPlace, GrantQuery, GrantStore, GrantTarget, NewGrant,
    VoidGrant,
};
pub use injections::{
    EnqueueError, Enqueued, Injection, InjectionStore, MAX_IDEMPOTENCY_KEY_CHARS, MAX_INJECTION_CHARS,
    MAX_QUEUED_INJECTIONS, NewInjection,
};
pub use keyed::{DigestKey, DigestKeyError};
pub use notices::{ActionHandle, Addressee, LONGEST_HOLD, MAX_REFERENCE_BYTES, NoticeStore, SentNotice};
pub use policy::{CONFIGURATION_READ, PolicyInForce, PolicyStore, PolicyVersion};
#[cfg(feature = "postgres")]
pub use postgres::{
    DEFAULT_SCHEMA, MOST_CLOCK_DIFFERENCE, PostgresOptions, PostgresOptionsError, PostgresStore,
    Server as PostgresDatabase,
};
pub use retention::{
    APPROVALS_DELETED, AuditBound, DeleteError, DeletedSession, Deletion, DeletionCause, PrunableAudit,
    RetentionStore, SESSION_DELETED, StoredSession, StoredSize, TRANSCRIPT_DELETED, is_decision,
};
pub use runs::{Run, RunEnd, RunError, RunOutcome, RunStore};
pub use sessions::{Lease, LeaseError, LeaseHolder, Session, SessionEnd, SessionError, SessionStore};
pub use sql::SqlStore;
pub use sqlite::{DEFAULT_BUSY_TIMEOUT, Database as SqliteDatabase, SqliteStore, audit_in};
pub use time::{Timestamp, Uptime};
pub use transcript::{
    Change, Entry, Erasure, Listed, MAX_MESSAGE_BYTES, NewEntry, TranscriptError, TranscriptStore,
    UnansweredCall, unanswered_calls,
};

/// Questions, who was told of them, and people's answers: the part of the state that can be kept separately.
pub trait AnswerStore:
    ApprovalStore + GrantStore + NoticeStore + PolicyStore + std::fmt::Debug + Send + Sync
{
}

impl<T> AnswerStore for T where
    T: ApprovalStore + GrantStore + NoticeStore + PolicyStore + std::fmt::Debug + Send + Sync
{
}

/// All areas of durable state.
pub trait Store:
    AnswerStore
    + SessionStore
    + RunStore
    + TranscriptStore
    + DecisionStore
    + BudgetStore
    + InjectionStore
    + ExtensionStore
    + AuditStore
    + RetentionStore
    + AccessTokenStore
    + CheckpointStore
{
}

impl<T> Store for T where
    T: SessionStore
        + RunStore
        + TranscriptStore
        + ApprovalStore
        + GrantStore
        + NoticeStore
        + PolicyStore
        + DecisionStore
        + BudgetStore
        + InjectionStore
        + ExtensionStore
        + AuditStore
        + RetentionStore
        + AccessTokenStore
        + CheckpointStore
        + std::fmt::Debug
        + Send
        + Sync
{
}
