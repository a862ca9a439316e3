//! Models, as Backstop talks to them: one request and answer form, whatever provider is behind.
//!
//! - [`ModelRequest`], [`ModelEvent`] and [`ModelResponse`] say what is asked and answered, in the words
//!   of the conversation model of `backstop-hooks`.
//! - [`Api`] names a wire and translates both ways: as a client (requests out, answers in) and as a server
//!   (requests in, answers out). One folder per wire under [`wire`], each with the same files.
//! - [`sse`], [`json_array`] and [`frames`] frame and unframe streams without losing a byte.
//! - [`live`] edits requests and answers that pass by, and leaves every other byte as it came.
//! - [`ProviderClient`] calls a provider over HTTP, [`ScriptedModel`] plays a script; both are a [`Model`].
//!
//! The law of this crate: *nothing a model said is dropped or guessed*. Arguments that are not a JSON object
//! become [`ToolCall::malformed`](backstop_hooks::conversation::ToolCall::malformed), ids stay as they came,
//! half an answer is an error and never a short answer, and a stream that two readers could understand in
//! two ways is refused.

mod answer;
mod client;
mod error;
pub mod frames;
pub mod json_array;
pub mod live;
mod model;
mod script;
pub mod sse;
mod tokens;
pub mod wire;

pub use client::{
    ApiKey, Authorities, InvalidProvider, ProviderClient, ProviderSettings, RetryPolicy, Timeouts,
};
pub use error::{
    ErrorCategory, FailureKind, ModelError, ProviderError, ProviderErrorKind, TimeoutPhase, WireError,
};
pub use model::{
    Accumulator, CallStats, Incomplete, Model, ModelEvent, ModelRequest, ModelResponse, ModelStream,
    StopReason, ThinkLevel, ToolChoice, ToolDefinition,
};
pub use script::{
    Conditions, Fault, HttpFault, Mismatch, RecordedRequest, Script, ScriptError, ScriptReport,
    ScriptedModel, ScriptedServer, ScriptedToolCall, ServerOptions, Turn,
};
pub use tokens::{estimate_message_tokens, estimate_text_tokens, estimate_tokens};
pub use wire::{Api, RequestTarget, StreamFraming};
