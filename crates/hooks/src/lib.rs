//! To be written.

pub mod conversation;
mod digest;
mod id;
mod value;

pub use digest::{Digest, InvalidDigest};
pub use id::{
    AgentId, ApprovalId, CallId, HookId, MessageId, OwnerId, ReceiptId, RunId, SessionId, SessionKey, ToolCallId,
};
pub use value::{Json, Params, Secret, Text};
