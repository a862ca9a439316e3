use std::collections::hash_map::Entry;

use async_trait::async_trait;
use backstop_hooks::{RunId, SessionId, ToolCallId};

use super::MemoryStore;
use crate::{DecisionStore, StoreError, Timestamp, ToolDecision};

#[async_trait]
impl DecisionStore for MemoryStore {
    async fn put_decisions(
        &self,
        session: &SessionId,
        run: &RunId,
        decisions: Vec<(ToolCallId, ToolDecision)>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut state = self.state();
        let of_run = state.decisions.entry((session.clone(), run.clone())).or_default();
        for (call, decision) in decisions {
            match of_run.entry(call) {
                Entry::Vacant(free) => {
                    free.insert((decision, now));
                }
                Entry::Occupied(mut taken) if taken.get().0.yields_to(&decision) => {
                    taken.insert((decision, now));
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
        Ok(of_run.and_then(|of_run| of_run.get(call)).map(|(decision, _)| decision.clone()))
    }

    async fn decision_on_call(
        &self,
        call: &ToolCallId,
        since: Timestamp,
    ) -> Result<Option<ToolDecision>, StoreError> {
        if call.is_empty() {
            return Ok(None);
        }
        let state = self.state();
        let made = state.decisions.values().filter_map(|of_run| of_run.get(call));
        let recent = made.filter(|(_, at)| *at >= since).map(|(decision, _)| decision);
        Ok(recent.max_by_key(|decision| **decision != ToolDecision::Allow).cloned())
    }

    async fn prune_decisions(&self, before: Timestamp) -> Result<usize, StoreError> {
        let mut pruned = 0;
        self.state().decisions.retain(|_, of_run| {
            let had = of_run.len();
            of_run.retain(|_, (_, at)| *at >= before);
            pruned += had - of_run.len();
            !of_run.is_empty()
        });
        Ok(pruned)
    }

    async fn clear_decisions(&self, session: &SessionId, run: &RunId) -> Result<(), StoreError> {
        self.state().decisions.remove(&(session.clone(), run.clone()));
        Ok(())
    }
}
