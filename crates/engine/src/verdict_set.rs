//! The lifecycle of the verdict hooks of one configuration: set up, running, torn down.
//!
//! A configuration is loaded in this order: its hooks are registered in a snapshot that is not in use
//! yet, they are set up, and only then does the snapshot go live; the previous configuration is torn down last. If a
//! hook can't be set up, the configuration does not load: the hooks that were already set up are torn down
//! again, and whatever ran before keeps running. Every hook that was set up is torn down once.

use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::{Contained, HookError, HookId};
use tokio::time::timeout;

use crate::foreign::Kept;
use crate::hook_options::HookOptions;
use crate::refusal::RegisterError;
use crate::registry::Snapshot;
use crate::verdict::{AnyVerdictHook, VerdictHook, VerdictSlot};

/// How long one hook may take to set itself up.
const SETUP_BUDGET: Duration = Duration::from_secs(30);
/// How long one hook may take to tear itself down.
const TEARDOWN_BUDGET: Duration = Duration::from_secs(5);

/// The verdict hooks of one configuration, registered but not set up yet.
///
/// ```
/// # use backstop_engine::*;
/// # async fn load(registry: &Registry, mut next: Snapshot, hook: AnyVerdictHook)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// let mut verdicts = VerdictSet::default();
/// let options = HookOptions::new("operator".into()).configured();
/// verdicts.register(&mut next, &hook, VerdictSlot::ToolPreCall, options)?;
/// let running = verdicts.start().await?;
/// registry.reload(next)?;
/// // ... until the next configuration is live, or the process ends:
/// running.stop().await;
/// # Ok(()) }
/// ```
#[derive(Default)]
pub struct VerdictSet(Vec<Member>);

struct Member {
    id: HookId,
    hook: Kept<dyn VerdictHook>,
}

/// A verdict hook that could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("hook `{hook}` could not be set up: {error}")]
pub struct SetupError {
    hook: HookId,
    error: HookError,
}

impl SetupError {
    /// Returns the hook.
    pub fn hook(&self) -> &HookId {
        &self.hook
    }

    /// Why.
    pub fn cause(&self) -> &HookError {
        &self.error
    }
}

/// Verdict hooks that are set up.
#[must_use = "verdict hooks that were set up are to be torn down with `stop`"]
pub struct RunningVerdicts(Vec<Member>);

impl VerdictSet {
    /// Registers a verdict hook in a snapshot (see [`AnyVerdictHook::register`]) and adds it to the set.
    ///
    /// # Errors
    ///
    /// [`RegisterError`] if it can't be registered there.
    pub fn register(
        &mut self,
        snapshot: &mut Snapshot,
        hook: &AnyVerdictHook,
        slot: VerdictSlot,
        options: HookOptions,
    ) -> Result<HookId, RegisterError> {
        let id = hook.register(slot, snapshot, options)?;
        self.adopt(id.clone(), Arc::clone(hook.life()));
        Ok(id)
    }

    /// Adds a hook that was registered in another way, so that it is set up and torn down.
    pub fn adopt(&mut self, id: HookId, hook: Arc<dyn VerdictHook>) {
        self.0.push(Member { id, hook: Kept::new(hook) });
    }

    /// Sets the hooks up, in the order of their registration.
    ///
    /// # Errors
    ///
    /// [`SetupError`] for the first that fails, panics or takes longer than 30 s. Those before it are
    /// torn down again.
    pub async fn start(self) -> Result<RunningVerdicts, SetupError> {
        let mut running = RunningVerdicts(Vec::with_capacity(self.0.len()));
        for member in self.0 {
            let Some(hook) = member.hook.get() else { continue };
            let setup = Contained::new(Box::pin(async { hook.setup().await }));
            let error = match timeout(SETUP_BUDGET, setup).await {
                Ok(Ok(Ok(()))) => {
                    running.0.push(member);
                    continue;
                }
                Ok(Ok(Err(error))) => error,
                Ok(Err(_)) => HookError::failed("it panicked"),
                Err(_) => HookError::failed(format!("not done within {} s", SETUP_BUDGET.as_secs())),
            };
            running.stop().await;
            return Err(SetupError { hook: member.id, error });
        }
        Ok(running)
    }
}

impl RunningVerdicts {
    /// Tears the hooks down, last first. Each has 5 s; a failure does not stop the others.
    pub async fn stop(self) {
        for Member { id, hook } in self.0.into_iter().rev() {
            let Some(torn) = hook.get() else { continue };
            let teardown = Contained::new(Box::pin(async { torn.teardown().await }));
            if !matches!(timeout(TEARDOWN_BUDGET, teardown).await, Ok(Ok(()))) {
                tracing::warn!(hook = %id, "a hook could not be torn down");
            }
        }
    }
}

impl std::fmt::Debug for VerdictSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|member| &member.id)).finish()
    }
}

impl std::fmt::Debug for RunningVerdicts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|member| &member.id)).finish()
    }
}
