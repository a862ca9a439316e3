//! Requests of batches that were let through, until it is known what they cost.
//!
//! A budget counts a request of a batch when it is judged, by an estimate, and the answer comes hours later in another
//! exchange. What connects the two is the span under which it was counted: it is kept here by the batch and the id of the
//! request in it, and what is told of the answer is told in that span. A budget replaces an estimate once, so answers that are
//! fetched twice count once.
//!
//! Limits: the newest ones are kept, in memory. What is forgotten, and what nobody fetches, stays counted by its estimate.

use std::sync::{Arc, Mutex, PoisonError};

use backstop_hooks::points::{ModelCallEnded, ModelCallEndedEvent, ModelCallResult};
use backstop_hooks::{CallContext, CallId, Digest, RunId};
use tokio::runtime::Handle;

use super::Shared;
use super::bounded::Bounded;

/// How many requests are kept: as many as budgets remember.
pub(super) const MAX_REQUESTS: usize = 65_536;
/// The transport of a request in a batch.
const BATCH: &str = "batch";

/// A request of a batch that was let through.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) call: Arc<CallContext>,
    pub(super) id: CallId,
    pub(super) run: RunId,
    pub(super) provider: String,
    pub(super) model: String,
}

/// Requests of batches, by batch and id.
#[derive(Debug)]
pub(super) struct Batched(Mutex<Bounded<Digest, Arc<Counted>>>);

impl Default for Batched {
    fn default() -> Self {
        Self(Mutex::new(Bounded::new(MAX_REQUESTS)))
    }
}

impl Batched {
    /// Keeps the requests of a batch that its provider took, by their ids.
    pub(super) fn keep(&self, batch: &str, requests: Vec<(String, Arc<Counted>)>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, counted) in requests {
            kept.insert(key(batch, &id), counted);
        }
    }

    pub(super) fn find(&self, batch: &str, id: &str) -> Option<Arc<Counted>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(&key(batch, id)).map(Arc::clone)
    }
}

fn key(batch: &str, id: &str) -> Digest {
    Digest::of_text("batched", &format!("{batch}\0{id}"))
}

/// Tells those who watch that nothing came of these requests, so that budgets give back what they estimated.
pub(super) fn withdraw(shared: &Shared, requests: Vec<Arc<Counted>>) {
    let Shared { engine, under_way, .. } = shared;
    if requests.is_empty() || !engine.has_hooks::<ModelCallEnded>() {
        return;
    }
    // Without a runtime the process is going away.
    let Ok(runtime) = Handle::try_current() else { return };
    let (engine, under_way) = (engine.clone(), under_way.clone());
    runtime.spawn(async move {
        for counted in requests {
            let Counted { call, id, run, provider, model } = counted.as_ref();
            let event = ModelCallEndedEvent::new(
                run.clone(),
                id.clone(),
                provider.clone(),
                model.clone(),
                0,
                ModelCallResult::Error,
            )
            .transport(BATCH.to_owned());
            engine.observe::<ModelCallEnded>(&event, call).await;
        }
        drop(under_way);
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use backstop_engine::{Engine, HookOptions};
    use backstop_hooks::{OwnerId, async_hook_fn};
    use tokio::task::yield_now;
    use tokio::time::sleep;

    use super::*;
    use crate::inspect::{HookSettings, Hooks};

    #[tokio::test(start_paused = true)]
    async fn hooks_are_not_idle_before_they_were_told_what_is_withdrawn() {
        let engine = Engine::builder().build();
        let hangs = async_hook_fn::<ModelCallEnded, _, _>(|_, _| std::future::pending());
        engine.registry().on(hangs, HookOptions::new(OwnerId::operator())).unwrap();
        let hooks = Hooks::new(engine, HookSettings::default()).unwrap();
        let counted = Counted {
            call: Arc::new(CallContext::default()),
            id: CallId::new("c"),
            run: RunId::new("r"),
            provider: "p".to_owned(),
            model: "m".to_owned(),
        };
        withdraw(&hooks.0, vec![Arc::new(counted)]);
        yield_now().await;
        assert!(!hooks.are_idle());
        // The budget of the hook ends it.
        sleep(Duration::from_hours(1)).await;
        assert!(hooks.are_idle());
    }
}
