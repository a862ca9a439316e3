use std::collections::BTreeSet;

use async_trait::async_trait;
use backstop_hooks::{OwnerId, RunId, SessionKey};

use super::MemoryStore;
use crate::injections::checked;
use crate::{
    EnqueueError, Enqueued, Injection, InjectionStore, MAX_QUEUED_INJECTIONS, NewInjection, StoreError,
    Timestamp,
};

/// An injection and the run that has taken it.
pub(super) struct Queued {
    pub(super) injection: Injection,
    taken_by: Option<RunId>,
}

#[async_trait]
impl InjectionStore for MemoryStore {
    async fn enqueue_injection(
        &self,
        injection: NewInjection,
        now: Timestamp,
    ) -> Result<Enqueued, EnqueueError> {
        let new = checked(injection)?;
        let mut state = self.state();
        let waiting: Vec<&Injection> = state
            .injections
            .iter()
            .map(|queued| &queued.injection)
            .filter(|old| old.session_key == new.session_key && old.owner == new.owner && !old.expired(now))
            .collect();
        let same =
            |old: &&&Injection| new.idempotency_key.is_some() && old.idempotency_key == new.idempotency_key;
        if let Some(old) = waiting.iter().find(same) {
            return Ok(Enqueued::Duplicate(old.seq));
        }
        if waiting.len() >= MAX_QUEUED_INJECTIONS {
            return Err(EnqueueError::Full { owner: new.owner, session_key: new.session_key });
        }
        state.last_injection = state.last_injection.saturating_add(1);
        let seq = state.last_injection;
        state.injections.push(Queued { injection: Injection::new(seq, new, now), taken_by: None });
        Ok(Enqueued::Queued(seq))
    }

    async fn take_injections(
        &self,
        key: &SessionKey,
        run: &RunId,
        owners: &BTreeSet<OwnerId>,
        now: Timestamp,
    ) -> Result<Vec<Injection>, StoreError> {
        let mut state = self.state();
        state.injections.retain(|queued| queued.taken_by.is_some() || !queued.injection.expired(now));
        let mut taken = Vec::new();
        let is_theirs = |of: &Injection| of.session_key == *key && owners.contains(&of.owner);
        for queued in state.injections.iter_mut().filter(|queued| is_theirs(&queued.injection)) {
            if queued.taken_by.get_or_insert_with(|| run.clone()) == run {
                taken.push(queued.injection.clone());
            }
        }
        Ok(taken)
    }

    async fn confirm_injections(&self, run: &RunId) -> Result<usize, StoreError> {
        let mut state = self.state();
        let before = state.injections.len();
        state.injections.retain(|queued| queued.taken_by.as_ref() != Some(run));
        Ok(before - state.injections.len())
    }

    async fn give_back_injections(&self, run: &RunId) -> Result<usize, StoreError> {
        let mut state = self.state();
        let taken = state.injections.iter_mut().filter(|queued| queued.taken_by.as_ref() == Some(run));
        Ok(taken.map(|queued| queued.taken_by = None).count())
    }
}
