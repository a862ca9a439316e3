//! What runs hooks: the engine, the registry of hooks, and what comes out of a dispatch.

// What a host calls, and what it obeys.
pub use backstop_engine::{
    Claimed, Decided, DecidedParts, Engine, EngineBuilder, JsonDispatch, JudgedAnswer, NotAnEvent,
    NotWhatWasJudged, Permitted, Reviewed, ToolVerdict, Unasked, tool_call_digest, ungated_rulings,
};

// Which hooks stand where.
pub use backstop_engine::{
    AgentMatcher, Budget, BudgetSource, FailureSource, HookMeta, HookMode, HookOptions, Hosts, InvalidBudget,
    InvalidMatcher, OperatorSettings, Origin, OwnerSettings, RegisterError, Registry, Rewrite, Snapshot,
    Style, ToolMatcher, blocking,
};

// Interceptors: hooks that edit in place.
pub use backstop_engine::{
    BuiltInInterceptor, Effect, InterceptPoint, InterceptorEvent, InterceptorOptions, Interceptors,
    MessageOutput, OnEvent, OutputFuture, ParamsOutput, ToolInput, ToolOutput, format_event,
    parameter_changes,
};

// Verdict hooks: approve, deny, modify or ask, chosen by `type:`.
pub use backstop_engine::{
    AnyVerdictHook, HookVerdict, LlmAnswer, LlmCall, LlmCallHook, LlmChanges, RunningVerdicts, SetupError,
    ToolCallHook, VerdictCall, VerdictHook, VerdictSet, VerdictSlot, VerdictType, VerdictTypeError,
    VerdictTypes,
};

// Text that leaves while it is made.
pub use backstop_engine::{
    Redaction, RedactionStream, Released, ResponseGate, Settled, SpanCount, SpanEdit, SpanKind, SpanRedactor,
    Unsealer,
};

// How humans are asked.
pub use backstop_engine::{
    ApprovalNote, ApprovalRoute, ApprovalSettings, AskFuture, Asker, Attendance, EditedCall, Foresight,
    Masker, Routes, Substituted, ToldSurfaces,
};

// Receipts.
pub use backstop_engine::{
    BlockCause, Blocked, CallKey, Failure, FailureKind, FailureMessage, Keeping, Receipt, ReceiptSink,
    Record, RecordedBlock, Replaced, Said, Step, StepDetail, Verdict, Would,
};

// Bounds.
pub use backstop_engine::{DECISIONS_LAST, MAX_DEPTH, MAX_RUNNING, MAX_THREADS, MAX_UNDER_WAY, MAX_WAITING};
