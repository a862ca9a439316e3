#![doc = include_str!("../README.md")]

mod adapter;
mod adapters;
mod answer;
mod client;
mod decision;
mod event;
mod host;
pub mod install;
mod payload;
mod profile;
mod reason;
mod sample;
mod tools;

pub use adapter::{Evidence, Facts, FailureFacts, OnFailure, Unused};
pub use answer::{Answer, universal_deny};
pub use client::{Client, Degradation, UnknownClient, Wish};
pub use decision::{CallDecision, PromptDecision, Reply, ResultDecision, Shortfall, StopDecision};
pub use event::{Attended, ClientEvent, Frame, Moment, MomentKind, Stop, SubAgent};
pub use host::{points, refuse, respond};
pub use payload::{MAX_PAYLOAD_BYTES, Payload, PayloadError};
pub use reason::{MAX_REASON_BYTES, Reason};
pub use sample::Sample;
pub use tools::{CannotRestore, McpTool, ResultBody, ToolOutput, ToolUse};
