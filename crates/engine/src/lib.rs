#![doc = include_str!("../README.md")]

mod answers;
mod approvals;
mod aside;
mod beginning;
mod blocking;
mod engine;
mod exhibit;
mod foreign;
mod hook_options;
mod hook_set;
mod hosts;
mod interceptor;
mod matcher;
mod operator;
mod permit;
mod receipt;
mod recording;
mod redaction;
mod refusal;
mod registry;
mod runner;
mod seal;
mod tool_call;
mod underway;
mod verdict;
mod verdict_set;
mod verdict_types;

pub use approvals::{ApprovalRoute, ApprovalSettings, AskFuture, Asker, Attendance, Routes, ToldSurfaces};
pub use aside::aside;
pub use beginning::Beginnings;
pub use blocking::{MAX_RUNNING, MAX_THREADS, MAX_WAITING, blocking};
pub use engine::{
    DECISIONS_LAST, Engine, EngineBuilder, JsonDispatch, JudgedAnswer, NotAnEvent, OfferQuestion,
    OfferRuling, Unasked, ungated_rulings,
};
pub use exhibit::{Foresight, Masker};
pub use foreign::MAX_DEPTH;
pub use hook_options::{HookMeta, HookMode, HookOptions, Origin, Rewrite, Style};
pub use hook_set::{HookSet, ListedHook};
pub use hosts::Hosts;
pub use interceptor::{
    BuiltInInterceptor, Effect, InterceptPoint, InterceptorEvent, InterceptorOptions, Interceptors,
    MessageOutput, OnEvent, OutputFuture, ParamsOutput, ToolInput, ToolOutput, format_event,
    parameter_changes,
};
pub use matcher::{AgentMatcher, InvalidMatcher, ToolMatcher};
pub use operator::{Budget, BudgetSource, FailureSource, InvalidBudget, OperatorSettings, OwnerSettings};
pub use permit::{NotWhatWasJudged, Permitted};
pub use receipt::{
    ApprovalNote, BlockCause, Blocked, CallKey, EditedCall, Failure, FailureKind, FailureMessage, Keeping,
    Receipt, ReceiptSink, Record, RecordedBlock, Replaced, Said, SharedReceipt, Step, StepDetail, Verdict,
    Would,
};
pub use recording::{
    CallDecision, CallJudgement, CallRecorder, CallRecording, RecordedAnswer, RecordedCall, RecordedStep,
};
pub use redaction::{
    Redaction, RedactionStream, Released, ResponseGate, Settled, SpanCount, SpanEdit, SpanKind, SpanRedactor,
};
pub use refusal::RegisterError;
pub use registry::{Registry, Snapshot};
pub use runner::{Claimed, Decided, DecidedParts, MAX_UNDER_WAY};
pub use seal::Unsealer;
pub use tool_call::{Reviewed, Substituted, ToolVerdict, tool_call_digest};
pub use verdict::{
    AnyVerdictHook, HookVerdict, LlmAnswer, LlmCall, LlmCallHook, LlmChanges, ToolCallHook, VerdictCall,
    VerdictHook, VerdictSlot,
};
pub use verdict_set::{RunningVerdicts, SetupError, VerdictSet};
pub use verdict_types::{VerdictType, VerdictTypeError, VerdictTypes};
