//! The contract of Backstop: what a hook is, where it runs, what it receives and what it may answer.
//!
//! An agent's life has *hook points* ([`points`]): a message comes in, a model is called, a tool is about
//! to run, an answer is about to leave. At each point hooks get an *event* that they can only read, and
//! answer with that point's *outcome* or with nothing. Several answers are merged by declared *latches*
//! ([`Latch`]) that only tighten. This crate contains those types and their JSON form and nothing that
//! runs: no timers, no network, no storage. Authors of hooks or hosts in Rust depend on it; the
//! engine in `backstop-engine` runs what is defined here.
//!
//! # Concepts
//!
//! - [`Point`]: a place; [`PointInfo`]: its mode, budget, failure policy; [`PointId`]: its name.
//! - [`Hook`]: one handler. [`hook_fn`] and [`async_hook_fn`] make one from a closure, [`json_hook`] from
//!   anything that speaks JSON.
//! - [`Outcome`]: an answer, and how answers merge.
//! - [`HostProfile`]: which points a front end fires, and what it does with the answers there.
//! - [`conversation`]: provider-neutral messages, parts, tool calls and results.
//! - [`Digest`]: identifies exactly what was judged. [`Text`], [`Params`], [`Json`]: values whose `Debug` never
//!   prints them. [`Secret`]: values that must not be shown at all.
//!
//! # What it is not
//!
//! The types define what can be said, not what it means: order, chaining, re-judging, budgets and failure
//! belong to the engine.

mod approval;
mod batch;
mod contained;
pub mod conversation;
mod digest;
mod evidence;
mod forms;
mod front_end;
mod hook;
mod host;
mod id;
mod latch;
mod memo_key;
mod nesting;
mod outcome;
mod point;
pub mod points;
mod reason;
mod sample;
mod shown;
mod sight;
pub mod tool_name;
mod trace;
mod unambiguous;
mod value;
mod whole_numbers;

pub use approval::{
    ApprovalRequest, ApprovalRequests, DEFAULT_TIMEOUT, Decision, Ground, InvalidApprovalRequest,
    MAX_DESCRIPTION_CHARS, MAX_TIMEOUT, MAX_TITLE_CHARS, OnResolution, Resolution, ResolutionFuture,
    Severity, Substitute, TimeoutBehavior,
};
pub use batch::{Batch, BatchAnswer, BatchContext, BatchFuture, Member, Membership};
pub use contained::{Contained, Panicked, contained, drop_contained};
pub use digest::{Digest, DigestForm, InvalidDigest, Leaves};
pub use evidence::{Evidence, Fact};
pub use forms::Forms;
pub use front_end::FrontEnd;
pub use hook::{
    Answer, CallContext, Context, Hook, HookError, HookFuture, HookLoad, HookResult, JsonFuture, JsonHook,
    OwnedContext, Requester, Trigger, async_hook_fn, event_json, hook_fn, json_hook,
};
pub use host::{Honour, HostProfile};
pub use id::{
    AgentId, ApprovalId, CallId, HookId, MessageId, OwnerId, ReceiptId, RuleId, RunId, SessionId, SessionKey,
    ToolCallId,
};
pub use latch::{Field, Latch};
pub use memo_key::MemoKey;
pub use nesting::Nesting;
pub use outcome::{Malformed, Nothing, Outcome};
pub use point::{
    Claim, ClaimPoint, DecidePoint, Event, FailurePolicy, Family, Mode, ObservePoint, Point, PointId,
    PointInfo, UnknownPoint,
};
pub use reason::{Reason, RecordedReason};
pub use shown::ShownName;
pub use sight::{Eyes, Seen, Sight};
pub use tool_name::ToolName;
pub use trace::{SpanId, Trace, TraceId, TraceParent};
pub use unambiguous::Unambiguous;
pub use value::{Json, Params, Secret, Text};
pub use whole_numbers::misreads_whole_number;
