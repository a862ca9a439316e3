use async_trait::async_trait;

use super::MemoryStore;
use crate::{
    AccessToken, AccessTokenId, AccessTokenList, AccessTokenStore, AddAccessTokenError, MAX_ACCESS_TOKENS,
    NewAccessToken, StoreError, Timestamp, answered,
};

#[async_trait]
impl AccessTokenStore for MemoryStore {
    async fn add_access_token(&self, made: NewAccessToken) -> Result<AccessToken, AddAccessTokenError> {
        if !made.is_sound() {
            return Err(AddAccessTokenError::Mixed);
        }
        let now = made.created_at;
        let mut state = self.state();
        if state.access_tokens.iter().filter(|token| token.counts(now)).count() >= MAX_ACCESS_TOKENS {
            return Err(AddAccessTokenError::TooMany);
        }
        let token = AccessToken::new(made);
        let Some(replaced) = &token.made.replaces else {
            state.tell(answered::token_created(&token))?;
            state.access_tokens.push(token.clone());
            return Ok(token);
        };
        let is_it = |old: &AccessToken| {
            old.made.id == replaced.id && old.counts(now) && old.made.is_like(&token.made)
        };
        let Some(at) = state.access_tokens.iter().position(is_it) else {
            let (holder, id) = (token.made.holder(), replaced.id.clone());
            return Err(AddAccessTokenError::NothingToReplace { holder, id });
        };
        state.tell(answered::token_created(&token))?;
        if let Some(old) = state.access_tokens.get_mut(at) {
            old.ends_at = old.ends_at.min(replaced.ends_at);
        }
        state.access_tokens.push(token.clone());
        Ok(token)
    }

    async fn access_tokens(&self, limit: usize) -> Result<AccessTokenList, StoreError> {
        let tokens = self.state().access_tokens.iter().rev().take(limit).cloned().collect();
        Ok(AccessTokenList { tokens, unreadable: Vec::new() })
    }

    async fn counting_access_tokens(&self, now: Timestamp) -> Result<AccessTokenList, StoreError> {
        let tokens = self.state().access_tokens.iter().filter(|token| token.counts(now)).cloned().collect();
        Ok(AccessTokenList { tokens, unreadable: Vec::new() })
    }

    async fn revoke_access_token(
        &self,
        id: &AccessTokenId,
        by: &str,
        now: Timestamp,
    ) -> Result<Option<AccessToken>, StoreError> {
        let mut state = self.state();
        let Some(at) = state.access_tokens.iter().position(|token| token.made.id == *id) else {
            return Ok(None);
        };
        let said = state.access_tokens.get(at).filter(|token| token.revoked_at.is_none());
        if let Some(entry) = said.map(|token| answered::token_revoked(token, by, now)) {
            state.tell(entry)?;
        }
        Ok(state.access_tokens.get_mut(at).map(|token| {
            token.revoked_at.get_or_insert(now);
            token.clone()
        }))
    }

    async fn note_access_tokens(&self, used: Vec<(AccessTokenId, Timestamp)>) -> Result<(), StoreError> {
        let mut state = self.state();
        for (id, at) in used {
            if let Some(token) = state.access_tokens.iter_mut().find(|token| token.made.id == id) {
                token.last_used_at = token.last_used_at.max(Some(at));
            }
        }
        Ok(())
    }
}
