//! Limits on what agents use: which models, how much of them, and how often the same call.
//!
//! - `builtin:models` ([`ModelAccess`]) runs at `before_llm_call` and stops models that an agent may not use.
//! - `builtin:budget` ([`Budgets`]) runs there last and reserves what a call will cost, in requests,
//!   tokens and money. When the call has ended it settles the actual cost.
//! - `builtin:loop` ([`LoopGuard`]) runs at `before_tool_call`, and in a proxy at `after_llm_call`, and stops a
//!   call that the conversation has already made too often.
//!
//! All counting is done in the store, so that processes that share one agree, and what was spent survives a
//! crash. If the store can't be reached, the hook fails: nothing passes uncounted.

mod budget;
mod loops;
mod models;
mod pattern;
mod price;
mod window;

use std::sync::Arc;

use backstop_engine::{HookOptions, RegisterError, Snapshot};
use backstop_hooks::points::{AfterLlmCall, BeforeLlmCall, BeforeToolCall, LlmOutput, ModelCallEnded};
use backstop_hooks::{HookError, OwnerId};
use backstop_store::StoreError;

pub use budget::{Budget, BudgetLimits, BudgetSettings, Budgets, Per};
pub use loops::{LoopAction, LoopGuard};
pub use models::{ModelAccess, ModelRule};
pub use pattern::{InvalidPattern, Pattern};
pub use price::{Micros, ModelPrice, Prices};
pub use window::Window;

/// The id of the guard over budgets.
pub const BUDGET_ID: &str = "builtin:budget";
/// The id of the guard over repeated calls.
pub const LOOP_ID: &str = "builtin:loop";
/// The id of the guard over models.
pub const MODELS_ID: &str = "builtin:models";

/// A store that can't be reached, in words that may be told: where it is goes to the operator's log only.
fn unreachable(error: &StoreError) -> HookError {
    tracing::error!(%error, "what was spent could not be counted");
    HookError::Unreachable(format!("the store that counts what was spent {}", error.kind()))
}

/// Where a guard over repeated calls is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopPlace {
    /// In front of the tools.
    Tools,
    /// After the model: for hosts that never see the tools.
    Answers,
}

/// Registers the guard over models in a snapshot, if a host of this process shows model calls.
///
/// # Errors
///
/// [`RegisterError`] if it can't be registered there.
pub fn register_model_access(snapshot: &mut Snapshot, access: ModelAccess) -> Result<(), RegisterError> {
    snapshot.on_if_fired::<BeforeLlmCall>(Arc::new(access), options(MODELS_ID, "").priority(100))?;
    Ok(())
}

/// Registers the guard over budgets in a snapshot, if a host of this process shows model calls. It reserves after all other
/// hooks have passed the call.
///
/// # Errors
///
/// [`RegisterError`] if it can't be registered there.
pub fn register_budgets(snapshot: &mut Snapshot, budgets: &Budgets) -> Result<(), RegisterError> {
    snapshot.on_if_fired::<BeforeLlmCall>(budgets.reserving(), options(BUDGET_ID, "").priority(i32::MIN))?;
    snapshot.on_if_fired::<ModelCallEnded>(budgets.releasing(), options(BUDGET_ID, ":ended"))?;
    snapshot.on_if_fired::<LlmOutput>(budgets.settling(), options(BUDGET_ID, ":output"))?;
    Ok(())
}

/// Registers the guard over repeated calls in a snapshot, if a host of this process fires its point.
///
/// # Errors
///
/// [`RegisterError`] if it can't be registered there.
pub fn register_loop_guard(
    snapshot: &mut Snapshot,
    guard: &LoopGuard,
    place: LoopPlace,
) -> Result<(), RegisterError> {
    match place {
        LoopPlace::Tools => {
            snapshot.on_if_fired::<BeforeToolCall>(guard.before_tools(), options(LOOP_ID, ""))?
        }
        LoopPlace::Answers => {
            snapshot.on_if_fired::<AfterLlmCall>(guard.after_answers(), options(LOOP_ID, ":answer"))?
        }
    };
    Ok(())
}

fn options(id: &str, half: &str) -> HookOptions {
    // Counting is writing down: a call is counted as it was judged, not once more with the values of its placeholders.
    HookOptions { judges_values: Some(false), ..HookOptions::new(OwnerId::new(id)).id(format!("{id}{half}")) }
}
