//! What a hook is, what it is given and what it may answer.
//!
//! A hook is a closure ([`hook_fn`], [`async_hook_fn`], [`blocking`](crate::engine::blocking)), something that
//! speaks JSON ([`json_hook`]), or a type that implements [`Hook`]. The [`points`] say what each is given.

pub use backstop_hooks::{
    Answer, CallContext, Context, Evidence, Fact, Hook, HookError, HookFuture, HookLoad, HookResult,
    JsonFuture, JsonHook, Nesting, OwnedContext, Requester, SpanId, Trace, TraceId, TraceParent, Trigger,
    async_hook_fn, event_json, hook_fn, json_hook,
};

// For hooks that live somewhere else, and can be asked in one go.
pub use backstop_hooks::{Batch, BatchAnswer, BatchContext, BatchFuture, Member, Membership};

// What a hook answers.
pub use backstop_hooks::{
    ApprovalRequest, ApprovalRequests, DEFAULT_TIMEOUT, Decision, Ground, InvalidApprovalRequest,
    MAX_DESCRIPTION_CHARS, MAX_TIMEOUT, MAX_TITLE_CHARS, Malformed, Nothing, OnResolution, Outcome, Reason,
    RecordedReason, Resolution, ResolutionFuture, Severity, Substitute, TimeoutBehavior,
};

// Through whose eyes a judge sees the disk.
pub use backstop_hooks::{Eyes, FrontEnd, Seen, Sight};

// Where hooks stand.
pub use backstop_hooks::{
    Claim, ClaimPoint, DecidePoint, Event, FailurePolicy, Family, Field, Latch, Mode, ObservePoint, Point,
    PointId, PointInfo, UnknownPoint, for_each_point,
};

// What hosts declare.
pub use backstop_hooks::{Honour, HostProfile};

// Names and values. The `Debug` of what people and models wrote never prints it.
pub use backstop_hooks::{
    AgentId, ApprovalId, CallId, Digest, HookId, InvalidDigest, Json, MessageId, OwnerId, Params, ReceiptId,
    RuleId, RunId, Secret, SessionId, SessionKey, Text, ToolCallId, ToolName,
};

// For programs that run other people's code.
pub use backstop_hooks::{Contained, Panicked, contained, drop_contained};

/// Every hook point, its event and its outcome.
pub mod points {
    // All of it is the contract; a list would only be this list once more.
    pub use backstop_hooks::points::*;
}

/// Messages, their parts, tool calls and results, neutral of providers.
pub mod conversation {
    pub use backstop_hooks::conversation::*;
}
