//! `passthrough`: approves everything. It documents in a chain that nothing else was forgotten there.

use async_trait::async_trait;
use backstop_engine::{
    HookVerdict, LlmCall, LlmCallHook, LlmChanges, ToolCallHook, VerdictCall, VerdictHook,
};
use backstop_hooks::{HookError, Malformed};
use serde_json::Value;

/// Approves every call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passthrough;

impl Passthrough {
    /// Takes no options.
    ///
    /// # Errors
    ///
    /// [`Malformed`] when there are any: an option nobody reads is an option that does not protect.
    pub fn from_config(config: &Value) -> Result<Self, Malformed> {
        match config {
            Value::Null => Ok(Self),
            Value::Object(options) if options.is_empty() => Ok(Self),
            _ => Err(Malformed::new("`passthrough` takes no options")),
        }
    }
}

impl VerdictHook for Passthrough {}

#[async_trait]
impl ToolCallHook for Passthrough {
    async fn pre_call(&self, _: VerdictCall<'_>) -> Result<HookVerdict, HookError> {
        Ok(HookVerdict::Approve)
    }
}

#[async_trait]
impl LlmCallHook for Passthrough {
    async fn pre_call(&self, _: LlmCall<'_>) -> Result<HookVerdict<LlmChanges>, HookError> {
        Ok(HookVerdict::Approve)
    }
}
