use async_trait::async_trait;
use backstop_hooks::{RunId, SessionId};

use super::MemoryStore;
use crate::{Run, RunEnd, RunError, RunOutcome, RunStore, StoreError, Timestamp};

#[async_trait]
impl RunStore for MemoryStore {
    async fn start_run(&self, session: &SessionId, run: &RunId, now: Timestamp) -> Result<(), RunError> {
        let mut state = self.state();
        if !state.has_session(session) {
            return Err(RunError::UnknownSession(session.clone()));
        }
        if state.runs.iter().any(|known| is(known, session, run)) {
            return Err(RunError::Exists { session: session.clone(), run: run.clone() });
        }
        state.runs.push(Run { id: run.clone(), session: session.clone(), started_at: now, ended: None });
        Ok(())
    }

    async fn end_run(
        &self,
        session: &SessionId,
        run: &RunId,
        outcome: RunOutcome,
        now: Timestamp,
    ) -> Result<bool, RunError> {
        let mut state = self.state();
        let Some(known) = state.runs.iter_mut().find(|known| is(known, session, run)) else {
            return Err(RunError::Unknown { session: session.clone(), run: run.clone() });
        };
        if known.ended.is_some() {
            return Ok(false);
        }
        known.ended = Some(RunEnd { at: now, outcome });
        Ok(true)
    }

    async fn run(&self, session: &SessionId, run: &RunId) -> Result<Option<Run>, StoreError> {
        Ok(self.state().runs.iter().find(|known| is(known, session, run)).cloned())
    }

    async fn open_runs(&self, session: &SessionId) -> Result<Vec<Run>, StoreError> {
        let state = self.state();
        let open = state.runs.iter().filter(|run| run.session == *session && run.ended.is_none());
        Ok(open.cloned().collect())
    }
}

fn is(known: &Run, session: &SessionId, run: &RunId) -> bool {
    known.session == *session && known.id == *run
}
