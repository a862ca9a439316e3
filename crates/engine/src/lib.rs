//! The engine of Backstop: which hooks stand where, and what happens when an event meets them.
//!
//! [`Registry`] holds the hooks in immutable snapshots. [`Engine`] is what hosts call: it takes an event
//! through the hooks of its point and gives back what came out, with a [`Receipt`]. What acts takes a
//! [`Permitted`] value, which only the engine makes.
//!
//! # The laws, and where they live
//!
//! | law | where |
//! | --- | --- |
//! | 1 order: high priority first, ties in registration order; observers on the final value | [`Snapshot::on`], `runner` |
//! | 2 chain: each hook sees the value as the one before left it | `runner::chain` |
//! | 3 tighten only: latches | `backstop_hooks`, by type |
//! | 4 what was judged is what runs | `runner::chain`, [`Permitted`], `approvals` |
//! | 5 failing is not passing | `runner::call`, `runner::chain` |
//! | 6 ask keeps: rewrites stay, later gates run, one question | `tool_call`, `approvals` |
//! | 7 no silent gap | [`RegisterError`], [`InvalidMatcher`] |
//! | 8 receipts | [`Receipt`], [`ReceiptSink`] |
//! | 9 blocked is gone: receipts hold digests, not text | [`Receipt`] |
//! | 10 isolation: events are read-only, budgets cancel | `runner::call` |
//! | 11 runs do not mix | `answers`, keyed by session, run and call |
//! | 12 absent is not empty | `backstop_hooks`, by type |
//!
//! # Limits
//!
//! A hook written in Rust that blocks its thread can't be interrupted, only disbelieved: its answer
//! counts as late. Hooks that compute for long or call blocking code are wrapped in [`blocking`].

mod answers;
mod approvals;
mod blocking;
mod engine;
mod interceptor;
mod matcher;
mod operator;
mod permit;
mod receipt;
mod registry;
mod runner;
mod tool_call;
mod verdict;
mod verdict_set;

pub use approvals::{ApprovalSettings, AskFuture, Asker, Attendance};
pub use blocking::blocking;
pub use engine::{Engine, EngineBuilder, JudgedAnswer, ungated_rulings};
pub use interceptor::{
    Effect, InterceptPoint, InterceptorEvent, InterceptorOptions, Interceptors, MessageOutput, OnEvent,
    OutputFuture, ParamsOutput, ToolInput, ToolOutput, format_event,
};
pub use matcher::{AgentMatcher, InvalidMatcher, ToolMatcher};
pub use operator::{Budget, BudgetSource, InvalidBudget, OperatorSettings, OwnerSettings};
pub use permit::Permitted;
pub use receipt::{
    ApprovalNote, BlockCause, Blocked, CallKey, Failure, FailureKind, Receipt, ReceiptSink, Said, Step,
    StepDetail, Verdict,
};
pub use registry::{HookMeta, HookOptions, Origin, RegisterError, Registry, Snapshot, Style};
pub use runner::{Claimed, Decided};
pub use tool_call::{Reviewed, ToolVerdict, tool_call_digest};
pub use verdict::{
    HookVerdict, VerdictCall, VerdictFactory, VerdictHook, VerdictTypeError, VerdictTypes,
    register_verdict_hook, watch,
};
pub use verdict_set::{RunningVerdicts, SetupError, VerdictSet};
