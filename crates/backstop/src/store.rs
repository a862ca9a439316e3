//! Where state is kept: in a file ([`SqliteStore::new`]), in memory ([`SqliteStore::in_memory`]), on a server (`PostgresStore`, with the feature
//! `postgres`), or wherever a type keeps it that implements the traits of [`Store`].

pub use backstop_store::{
    AnswerStore, DEFAULT_BUSY_TIMEOUT, SqlStore, SqliteDatabase, SqliteStore, Store, StoreError,
    StoreErrorKind, Timestamp,
};
#[cfg(feature = "postgres")]
pub use backstop_store::{
    DEFAULT_SCHEMA, MOST_CLOCK_DIFFERENCE, PostgresDatabase, PostgresOptions, PostgresOptionsError,
    PostgresStore,
};

// Approvals and grants.
pub use backstop_store::{
    ANSWERABLE, APPROVAL_ANSWERED, APPROVAL_ASKED, APPROVAL_ENDED, APPROVAL_VOTED, Allowance, AllowanceScope,
    Always, AlwaysError, AlwaysScope, Amount, AmountArgument, Answerer, ApprovalFilter, ApprovalReason,
    ApprovalRecord, ApprovalState, ApprovalStatus, ApprovalStore, Asked, AskedPeople, AskingLimits,
    ConsumeError, CreateApprovalError, EditedFrom, Escalation, FindApprovalError, GRANT_GIVEN, GRANT_REVOKED,
    GRANT_TTL, GRANTS_VOIDED, Given, Grant, GrantId, GrantList, GrantOrigin, GrantPlace, GrantQuery,
    GrantStore, GrantTarget, Identity, KnownBy, Later, MAX_APPROVAL_BYTES, MAX_RESULT_BYTES, MAX_WHOLE_BYTES,
    MAX_WORD_CHARS, MaskMoved, NewApproval, NewGrant, NotAnAmount, NotAsked, OpenApprovals, Overview, People,
    PersonName, PersonsAnswer, PolicyInForce, PolicyStore, PolicyVersion, Preview, REFUSALS_SHOWN, Reach,
    RefusedQuestions, ResolveError, Resolved, Route, Standing, StartedProcess, Starts, Substitution,
    TellWhen, ToldLater, ToldOn, TooMany, TouchedPath, UnfitSubstitute, Uptime, VoidGrant, Vote, WhyNot,
    allow_always, preview,
};

// The audit trail.
pub use backstop_store::{
    AUDIT_CHAIN, AUDIT_GAP, AUDIT_HOOKS, AUDIT_IMPAIRED, AUDIT_OMITTED, AUDIT_PRUNED, AUDIT_UNSIGNED,
    AppendAuditError, AuditBody, AuditCheckpoints, AuditEntry, AuditFilter, AuditGap, AuditHead, AuditLate,
    AuditPage, AuditPlace, AuditProcess, AuditReport, AuditStep, AuditStore, AuditUnproved, CLOCK_TOLERANCE,
    DigestKey, DigestKeyError, Durability, MAX_AUDIT_BYTES, MOST_PAGE_READ, NewAuditEntry, ProveAuditError,
    RotatedAuditKey, VerifyAuditError, audit_id, audit_in,
};

// Sessions, runs and transcripts.
pub use backstop_store::{
    Change, EnqueueError, Enqueued, Entry, Erasure, Injection, InjectionStore, Lease, LeaseError,
    LeaseHolder, MAX_IDEMPOTENCY_KEY_CHARS, MAX_INJECTION_CHARS, MAX_MESSAGE_BYTES, MAX_QUEUED_INJECTIONS,
    NewEntry, NewInjection, Run, RunEnd, RunError, RunOutcome, RunStore, Session, SessionEnd, SessionError,
    SessionStore, TranscriptError, TranscriptStore, UnansweredCall, unanswered_calls,
};

// Access tokens of agents and people for gateways.
pub use backstop_store::{
    ACCESS_TOKEN_CREATED, ACCESS_TOKEN_LEN, ACCESS_TOKEN_REVOKED, AccessToken, AccessTokenId,
    AccessTokenList, AccessTokenStore, AddAccessTokenError, MAX_ACCESS_TOKENS, NewAccessToken, Replaced,
    Scope, UnreadableAccessToken, access_token_digest, holds_access_token,
};

// What plugins keep with a conversation.
pub use backstop_store::{
    Expected, Extension, ExtensionError, ExtensionKey, ExtensionStore, Forget, Forgotten,
    MAX_EXTENSION_BYTES, MAX_EXTENSIONS, MAX_NAMESPACE_CHARS,
};

// What is deleted, and how that is said.
pub use backstop_store::{
    APPROVALS_DELETED, AuditBound, DeleteError, DeletedSession, Deletion, DeletionCause, PrunableAudit,
    RetentionStore, SESSION_DELETED, StoredSession, StoredSize, TRANSCRIPT_DELETED, is_decision,
};

// Checkpoints of audit trails that gateways leave for each other.
pub use backstop_store::{
    CheckpointStore, LeftCheckpoint, LeftCheckpoints, MOST_LEFT_CHECKPOINT_BYTES, MOST_LEFT_CHECKPOINTS,
    MOST_SHOWN_CHECKPOINTS, PEER_CHECKPOINT,
};

// What was decided about tool calls, and what was spent.
pub use backstop_store::{
    BudgetStore, BudgetUse, Charge, DecisionStore, Exceeded, MAX_CHARGES, ReservationId, ReserveError,
    ToolDecision,
};
