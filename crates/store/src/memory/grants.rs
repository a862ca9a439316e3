use async_trait::async_trait;

use super::MemoryStore;
use crate::{Grant, GrantId, GrantQuery, GrantStore, NewGrant, StoreError, Timestamp};

#[async_trait]
impl GrantStore for MemoryStore {
    async fn add_grant(&self, grant: NewGrant) -> Result<Grant, StoreError> {
        let grant = Grant { id: GrantId::random(), granted: grant, revoked_at: None, uses: 0 };
        self.state().grants.push(grant.clone());
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

    async fn revoke_grant(&self, id: &GrantId, now: Timestamp) -> Result<Option<Grant>, StoreError> {
        let mut state = self.state();
        let grant = state.grants.iter_mut().find(|grant| grant.id == *id);
        Ok(grant.map(|grant| {
            grant.revoked_at.get_or_insert(now);
            grant.clone()
        }))
    }
}
