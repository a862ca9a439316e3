use std::collections::hash_map::Entry;

use async_trait::async_trait;
use backstop_hooks::{RunId, SessionId, ToolCallId};

use super::MemoryStore;
use crate::{DecisionStore, StoreError, ToolDecision};

#[async_trait]
impl DecisionStore for MemoryStore {
    async fn put_decisions(
        &self,
        session: &SessionId,
        run: &RunId,
        decisions: Vec<(ToolCallId, ToolDecision)>,
    ) -> Result<(), StoreError> {
        let mut state = self.state();
        let of_run = state.decisions.entry((session.clone(), run.clone())).or_default();
        for (call, decision) in decisions {
            match of_run.entry(call) {
                Entry::Vacant(free) => {
                    free.insert(decision);
                }
                Entry::Occupied(mut taken) if taken.get().yields_to(&decision) => {
                    taken.insert(decision);
                }
                Entry::Occupied(_) => {}
            }
        }
        Ok(())
    }

    async fn decision(
        &self,
        session: &SessionId,
        run: &RunId,
        call: &ToolCallId,
    ) -> Result<Option<ToolDecision>, StoreError> {
        let state = self.state();
        let of_run = state.decisions.get(&(session.clone(), run.clone()));
        Ok(of_run.and_then(|of_run| of_run.get(call)).cloned())
    }

    async fn clear_decisions(&self, session: &SessionId, run: &RunId) -> Result<(), StoreError> {
        self.state().decisions.remove(&(session.clone(), run.clone()));
        Ok(())
    }
}
