use std::time::Duration;

use async_trait::async_trait;
use backstop_hooks::points::SessionEndReason;
use backstop_hooks::{SessionId, SessionKey};

use super::MemoryStore;
use crate::{
    Lease, LeaseError, LeaseHolder, Session, SessionEnd, SessionError, SessionStore, StoreError, Timestamp,
};

#[async_trait]
impl SessionStore for MemoryStore {
    async fn create_session(&self, session: Session) -> Result<(), SessionError> {
        let mut state = self.state();
        if state.has_session(&session.id) {
            return Err(SessionError::Exists(session.id));
        }
        state.sessions.push(session);
        Ok(())
    }

    async fn session(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        Ok(self.state().sessions.iter().find(|session| session.id == *id).cloned())
    }

    async fn latest_session(&self, key: &SessionKey) -> Result<Option<Session>, StoreError> {
        let state = self.state();
        let of_key = state.sessions.iter().filter(|session| session.key == *key);
        Ok(of_key.max_by_key(|session| session.created_at).cloned())
    }

    async fn sessions(&self, limit: usize) -> Result<Vec<Session>, StoreError> {
        let mut all: Vec<Session> = self.state().sessions.iter().rev().cloned().collect();
        all.sort_by_key(|session| std::cmp::Reverse(session.updated_at));
        all.truncate(limit);
        Ok(all)
    }

    async fn end_session(
        &self,
        id: &SessionId,
        reason: SessionEndReason,
        now: Timestamp,
    ) -> Result<bool, SessionError> {
        let mut state = self.state();
        let session = found(&mut state.sessions, id)?;
        if session.ended.is_some() {
            return Ok(false);
        }
        session.ended = Some(SessionEnd { at: now, reason });
        session.updated_at = session.updated_at.max(now);
        Ok(true)
    }

    async fn touch_session(&self, id: &SessionId, now: Timestamp) -> Result<(), SessionError> {
        let mut state = self.state();
        let session = found(&mut state.sessions, id)?;
        session.updated_at = session.updated_at.max(now);
        Ok(())
    }

    async fn lease_session(
        &self,
        id: &SessionId,
        holder: &LeaseHolder,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Lease, LeaseError> {
        let mut state = self.state();
        if !state.has_session(id) {
            return Err(LeaseError::Unknown(id.clone()));
        }
        if let Some(lease) = state.leases.get(id)
            && lease.holder != *holder
            && lease.until > now
            && !lease.holder.is_gone()
        {
            let Lease { session, holder, until } = lease.clone();
            return Err(LeaseError::Held { session, holder, until });
        }
        let lease = Lease { session: id.clone(), holder: holder.clone(), until: now.after(ttl) };
        state.leases.insert(id.clone(), lease.clone());
        Ok(lease)
    }

    async fn renew_lease(
        &self,
        id: &SessionId,
        holder: &LeaseHolder,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Lease, LeaseError> {
        match self.state().leases.get_mut(id) {
            Some(lease) if lease.holder == *holder => {
                lease.until = now.after(ttl);
                Ok(lease.clone())
            }
            _ => Err(LeaseError::Lost(id.clone())),
        }
    }

    async fn release_lease(&self, id: &SessionId, holder: &LeaseHolder) -> Result<(), StoreError> {
        let mut state = self.state();
        if state.leases.get(id).is_some_and(|lease| lease.holder == *holder) {
            state.leases.remove(id);
        }
        Ok(())
    }
}

fn found<'a>(sessions: &'a mut [Session], id: &SessionId) -> Result<&'a mut Session, SessionError> {
    sessions.iter_mut().find(|session| session.id == *id).ok_or_else(|| SessionError::Unknown(id.clone()))
}
