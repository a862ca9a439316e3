use async_trait::async_trait;
use backstop_hooks::SessionId;

use super::{MemoryStore, State};
use crate::retention::{
    AuditBound, DeleteError, DeletedSession, Deletion, PrunableAudit, RetentionStore, SESSION_DELETED,
    StoredSession, StoredSize, TRANSCRIPT_DELETED,
};
use crate::transcript::encoded;
use crate::{ApprovalStatus, Erasure, NewAuditEntry, Session, StoreError, Timestamp};

#[async_trait]
impl RetentionStore for MemoryStore {
    async fn stored_sessions(
        &self,
        before: Timestamp,
        empty: bool,
        limit: usize,
    ) -> Result<Vec<StoredSession>, StoreError> {
        let state = self.state();
        let old = state.sessions.iter().filter(|session| session.updated_at < before);
        let mut stored: Vec<_> = old.map(|session| state.stored(session)).collect();
        stored.retain(|stored| empty || stored.messages > 0);
        stored.sort_by_key(|stored| stored.updated_at);
        stored.truncate(limit);
        Ok(stored)
    }

    async fn stored_size(&self) -> Result<StoredSize, StoreError> {
        let state = self.state();
        Ok(StoredSize {
            sessions: many(state.sessions.len()),
            transcript_bytes: state.sessions.iter().map(|session| state.stored(session).bytes).sum(),
        })
    }

    async fn delete_session(&self, id: &SessionId, why: Deletion) -> Result<DeletedSession, DeleteError> {
        let deleted = {
            let mut state = self.state();
            let session = state.free(id, why.at)?;
            let messages = state.transcripts.get(id).map_or(0, |transcript| many(transcript.entries.len()));
            let asked_there = |record: &crate::ApprovalRecord| record.request.session == *id;
            let approvals = many(state.approvals.iter().filter(|record| asked_there(record)).count());
            let deleted = DeletedSession { session, messages, approvals, erasure: Erasure::Complete };
            state.say(why.of_session(SESSION_DELETED, &deleted))?;
            state.transcripts.remove(id);
            state.approvals.retain(|record| !asked_there(record));
            state.decisions.retain(|(session, _), _| session != id);
            state.runs.retain(|run| run.session != *id);
            state.leases.remove(id);
            state.sessions.retain(|session| session.id != *id);
            let key = &deleted.session.key;
            if state.sessions.iter().all(|session| session.key != *key) {
                state.injections.retain(|queued| queued.injection.session_key != *key);
                state.extensions.retain(|extension, _| extension.session_key != *key);
            }
            deleted
        };
        self.seats.wake_all();
        Ok(deleted)
    }

    async fn delete_transcript(&self, id: &SessionId, why: Deletion) -> Result<DeletedSession, DeleteError> {
        let mut state = self.state();
        let session = state.free(id, why.at)?;
        let messages = state.transcripts.get(id).map_or(0, |transcript| many(transcript.entries.len()));
        let settled = |record: &crate::ApprovalRecord| {
            record.request.session == *id && record.state.status() != ApprovalStatus::Pending
        };
        let approvals = many(state.approvals.iter().filter(|record| settled(record)).count());
        let deleted = DeletedSession { session, messages, approvals, erasure: Erasure::Complete };
        state.say(why.of_session(TRANSCRIPT_DELETED, &deleted))?;
        if let Some(transcript) = state.transcripts.get_mut(id) {
            transcript.entries.clear();
        }
        state.approvals.retain(|record| !settled(record));
        Ok(deleted)
    }

    async fn delete_approvals(
        &self,
        before: Option<Timestamp>,
        most: Option<u64>,
        limit: usize,
        why: Deletion,
    ) -> Result<u64, DeleteError> {
        let mut state = self.state();
        let surplus = most.map_or(0, |most| many(state.approvals.len()).saturating_sub(most));
        let due: Vec<_> = (0_u64..)
            .zip(&state.approvals)
            .filter(|(place, record)| {
                let old = before.is_some_and(|before| record.request.expires_at < before);
                record.state.status() != ApprovalStatus::Pending && (old || *place < surplus)
            })
            .map(|(_, record)| record.id.clone())
            .take(limit)
            .collect();
        if due.is_empty() {
            return Ok(0);
        }
        state.say(why.of_approvals(many(due.len())))?;
        state.approvals.retain(|record| !due.contains(&record.id));
        Ok(many(due.len()))
    }

    async fn prunable_audit(&self, bound: AuditBound, limit: usize) -> Result<PrunableAudit, StoreError> {
        Ok(self.state().audit.chosen(bound, limit).prunable())
    }
}

impl State {
    fn stored(&self, session: &Session) -> StoredSession {
        let entries = self.transcripts.get(&session.id).map(|transcript| transcript.entries.as_slice());
        let entries = entries.unwrap_or_default();
        let bytes =
            entries.iter().map(|entry| encoded(&entry.id, &entry.message).map_or(0, |json| many(json.len())));
        StoredSession {
            id: session.id.clone(),
            agent: session.agent.clone(),
            updated_at: session.updated_at,
            messages: many(entries.len()),
            bytes: bytes.sum(),
        }
    }

    /// Returns the session, if nobody alive works in it.
    fn free(&self, id: &SessionId, now: Timestamp) -> Result<Session, DeleteError> {
        let session = self.sessions.iter().find(|session| session.id == *id);
        let session = session.ok_or_else(|| DeleteError::Unknown(id.clone()))?;
        match self.leases.get(id) {
            Some(lease) if lease.until > now && !lease.holder.is_gone() => {
                Err(DeleteError::InUse { session: id.clone(), holder: lease.holder.clone() })
            }
            _ => Ok(session.clone()),
        }
    }

    fn say(&mut self, entry: NewAuditEntry) -> Result<(), DeleteError> {
        Ok(self.audit.append(vec![entry]).map(drop)?)
    }
}

fn many(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
