use async_trait::async_trait;

use super::MemoryStore;
use crate::answered;
use crate::{Grant, GrantId, GrantQuery, GrantStore, NewGrant, StoreError, Timestamp, VoidGrant};

#[async_trait]
impl GrantStore for MemoryStore {
    async fn add_grant(&self, grant: NewGrant) -> Result<Grant, StoreError> {
        let grant = Grant { id: GrantId::random(), granted: grant, revoked_at: None, uses: 0 };
        let mut state = self.state();
        state.tell(answered::granted(&grant))?;
        state.grants.push(grant.clone());
        Ok(grant)
    }

    async fn find_grant(&self, query: &GrantQuery, now: Timestamp) -> Result<Option<Grant>, StoreError> {
        Ok(self.state().grants.iter().find(|grant| grant.covers(query, now)).cloned())
    }

    async fn use_grant(&self, query: &GrantQuery, now: Timestamp) -> Result<Option<Grant>, StoreError> {
        let mut state = self.state();
        let grant = state.grants.iter_mut().find(|grant| grant.covers(query, now));
        Ok(grant.map(|grant| {
            grant.uses = grant.uses.saturating_add(1);
            grant.clone()
        }))
    }

    async fn grants(&self, limit: usize) -> Result<Vec<Grant>, StoreError> {
        Ok(self.state().grants.iter().rev().take(limit).cloned().collect())
    }

    async fn revoke_grant(
        &self,
        id: &GrantId,
        by: &str,
        now: Timestamp,
    ) -> Result<Option<Grant>, StoreError> {
        let mut state = self.state();
        let Some(at) = state.grants.iter().position(|grant| grant.id == *id) else { return Ok(None) };
        let said = state.grants.get(at).filter(|grant| grant.revoked_at.is_none());
        if let Some(entry) = said.map(|grant| answered::revoked(grant, by, now)) {
            state.tell(entry)?;
        }
        Ok(state.grants.get_mut(at).map(|grant| {
            grant.revoked_at.get_or_insert(now);
            grant.clone()
        }))
    }

    async fn void_grants(&self, _: usize) -> Result<Vec<VoidGrant>, StoreError> {
        Ok(Vec::new())
    }
}
