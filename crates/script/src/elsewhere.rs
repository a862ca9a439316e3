//! Scripts that do not live on a worker's thread, but in another program.
//!
//! Whoever embeds scripts may have one run elsewhere: under Node, where it needs more of that than is here, or in a process that can
//! be killed. It is called as any other is, and the laws hold as they do here: the verdict comes from outside, answers are data.

use std::time::Duration;

use async_trait::async_trait;

use crate::call::{Answer, Arguments, Callee, FunctionId};
use crate::error::ScriptError;

/// A script in another program. It is unloaded when the last clone of its [`Loaded`](crate::Loaded) is dropped.
#[async_trait]
pub trait Elsewhere: Send + Sync {
    /// What messages call it.
    fn name(&self) -> &str;

    /// As [`Loaded::call`](crate::Loaded::call).
    ///
    /// # Errors
    ///
    /// As there.
    async fn call(
        &self,
        callee: Callee,
        arguments: &Arguments,
        budget: Duration,
    ) -> Result<Option<Answer>, ScriptError>;

    /// Lets go of a kept function.
    fn release(&self, function: FunctionId);

    /// Bytes of heap that it uses now, if it says so within `budget`.
    async fn heap(&self, budget: Duration) -> Option<u64>;
}
