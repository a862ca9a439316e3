//! The first tool call of a client, held until one of its hooks was heard of.
//!
//! A client that got hooks for its run may not start them: an option, a variable or a version can be against it. The proxy
//! sees a tool call before the client does, and clients start a hook before they first ask their model, at the session's start or
//! at the user's message. The law: *no tool call of an answer reaches a client of which no hook was heard in this run*. It waits
//! for a hook that is on its way, and is refused after that; the run is then ended.
//!
//! What the proxy does not see it can't hold: traffic that goes elsewhere, and calls where `gateway.hooks.tool_calls` is `off`.

use std::sync::Arc;
use std::time::Duration;

use backstop::clients::Client;
use backstop::engine::{HookOptions, RegisterError, Snapshot};
use backstop::hooks::points::{BeforeToolCall, PROVIDER_TOOL, ToolCallOutcome};
use backstop::hooks::{OwnerId, Reason, async_hook_fn};

use crate::daemon::Heard;

/// The name of the hook that holds calls, in receipts.
const NAME: &str = "client-hooks";
/// How often it is looked whether a call was judged.
const LOOK: Duration = Duration::from_millis(100);
/// How long a hook may be on its way.
const ON_ITS_WAY: Duration = Duration::from_secs(2);

/// Holds the calls of one run.
#[derive(Debug)]
pub(super) struct Hold {
    client: Client,
    heard: Arc<Heard>,
    refused: Heard,
}

impl Hold {
    /// Calls wait until a hook of `client` is `heard`.
    pub(super) fn new(client: Client, heard: Arc<Heard>) -> Self {
        Self { client, heard, refused: Heard::default() }
    }

    /// Returns when it is clear that the client calls tools without hooks. `was_judged` says whether any call was judged:
    /// one that another hook stops is not held.
    pub(super) async fn unheard(&self, was_judged: impl Fn() -> bool) {
        let stopped = async {
            while !was_judged() {
                tokio::time::sleep(LOOK).await;
            }
            if self.is_heard_in_time().await {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = self.refused.noted() => {}
            () = stopped => {}
        }
    }

    async fn is_heard_in_time(&self) -> bool {
        tokio::time::timeout(ON_ITS_WAY, self.heard.noted()).await.is_ok()
    }

    /// Why a call may not go to the client, once that is known.
    async fn judge(&self) -> Option<ToolCallOutcome> {
        if self.is_heard_in_time().await {
            return None;
        }
        self.refused.note();
        let text = format!("no hook of {} was heard of in this run", self.client.title());
        Some(ToolCallOutcome::block(Reason::fixed("run.unheard", text)))
    }

    /// Puts it in front of the calls of answers.
    pub(super) fn register(self: Arc<Self>, snapshot: &mut Snapshot) -> Result<(), RegisterError> {
        let hook = async_hook_fn::<BeforeToolCall, _, _>(move |event, _| {
            let hold = Arc::clone(&self);
            // A tool that the provider runs never comes to the client, and its hooks hear of no call of it.
            let is_offer = event.tool_kind.as_deref() == Some(PROVIDER_TOOL);
            async move { Ok(if is_offer { None } else { hold.judge().await }) }
        });
        snapshot.on(hook, HookOptions::new(OwnerId::operator()).id(NAME))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_waits_for_the_first_hook_and_no_longer() {
        let heard = Arc::<Heard>::default();
        let hold = Hold::new(Client::Claude, Arc::clone(&heard));
        let (answer, ()) = tokio::join!(hold.judge(), async {
            tokio::task::yield_now().await;
            heard.note();
        });
        assert_eq!(answer, None);
        assert_eq!(hold.judge().await, None, "one hook is enough for all calls");
        assert!(!hold.refused.is_noted());
    }
}
