//! Sealed arguments: values that a tool gets and nobody else reads.
//!
//! What a redactor took out of the conversation stands there as a placeholder. A tool may need the value.
//! It is put in at the very end: every gate, every human and every record has to do with the arguments as
//! the model wrote them, placeholders and all; only the [`Permitted`](crate::Permitted) call that the tool
//! takes has the values.
//!
//! The law: *what was judged is what runs*. A value that somebody planted may mean something else than the
//! placeholder that was judged (`; reboot`). The call with its values is therefore judged once more, by the
//! guards that ship with Backstop: they run in this process and keep nothing of what they read. If one of
//! them now stops the call, rewrites it, or asks a human about it who was not asked before, it is blocked.
//! The reason of that block names the hook and quotes nothing, and no receipt has the steps.

use std::fmt;

use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{ApprovalRequest, CallContext, Digest, HookId, Params, contained};

use crate::receipt::{BlockCause, Blocked, FailureKind};
use crate::registry::Snapshot;
use crate::runner::Dispatch;
use crate::tool_call::{Reviewed, tool_call_digest};

/// Knows what placeholders stand for.
pub trait Unsealer: Send + Sync + fmt::Debug + 'static {
    /// The arguments of a permitted call with the values in place; `None` if there is nothing to put in.
    fn unseal(&self, event: &ToolCallEvent, call: &CallContext) -> Option<Params>;
}

/// The call with its values and the digest of what was judged of it; `None` for a call that has no placeholders.
/// `asked` are the questions about it that humans answered.
pub(crate) async fn unseal(
    snapshot: &Snapshot,
    event: &ToolCallEvent,
    call: &CallContext,
    asked: &[ApprovalRequest],
) -> Result<Option<(ToolCallEvent, Digest)>, Blocked> {
    let Some(unsealer) = snapshot.unsealer() else { return Ok(None) };
    let values = contained(|| call.nesting.descend(|| unsealer.unseal(event, call)));
    let params = match values {
        Ok(Some(params)) => params,
        Ok(None) => return Ok(None),
        Err(_) => return Err(blocked(BlockCause::Failure { kind: FailureKind::Panicked }, None)),
    };
    let mut unsealed = event.clone();
    unsealed.params = params;
    unsealed.derived_paths = None;
    let mut guards = snapshot.clone();
    guards.retain(|meta| meta.owner.is_builtin());
    let dispatch = Dispatch { snapshot: &guards, call, capture: false, digests: false, sinks: &[] };
    let digest = tool_call_digest(&unsealed);
    let Reviewed { event: judged, changed, blocked: stopped, requests, .. } =
        dispatch.review(unsealed, None).await;
    if let Some(stopped) = stopped {
        return Err(blocked(stopped.cause, stopped.hook));
    }
    if changed {
        return Err(blocked(BlockCause::UnstableRewrite { writer: None }, None));
    }
    let new = requests.iter().find(|request| !asked.iter().any(|known| known.hook() == request.hook()));
    match new {
        Some(request) => Err(blocked(BlockCause::Decision, request.hook().cloned())),
        None => Ok(Some((judged, digest))),
    }
}

fn blocked(cause: BlockCause, hook: Option<HookId>) -> Blocked {
    let reason = "with the values of its placeholders in place this call is not what was judged";
    Blocked { cause, reason: Some(reason.into()), hook, owner: None }
}
