use async_trait::async_trait;

use super::MemoryStore;
use crate::answered;
use crate::{Amount, Grant, GrantId, GrantQuery, GrantStore, NewGrant, StoreError, Timestamp, VoidGrant};

#[async_trait]
impl GrantStore for MemoryStore {
    async fn add_grant(&self, grant: NewGrant) -> Result<Grant, StoreError> {
        let grant = Grant {
            id: GrantId::random(),
            granted: grant,
            revoked_at: None,
            uses: 0,
            spent: Amount::default(),
        };
        let said = answered::granted(&grant);
        if self.trail.is_some() {
            self.announce(Some(said)).await?;
            self.state().grants.push(grant.clone());
            return Ok(grant);
        }
        let mut state = self.state();
        state.tell(said)?;
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
            grant.count(query);
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
        let _turn = self.answering.lock().await;
        let said = |grant: &Grant| grant.revoked_at.is_none().then(|| answered::revoked(grant, by, now));
        let announced = self.state().grants.iter().find(|grant| grant.id == *id).and_then(said);
        self.announce(announced).await?;
        let mut state = self.state();
        let Some(at) = state.grants.iter().position(|grant| grant.id == *id) else { return Ok(None) };
        if let (None, Some(entry)) = (&self.trail, state.grants.get(at).and_then(said)) {
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
