use async_trait::async_trait;
use backstop_hooks::{Json, OwnerId, SessionKey};

use super::MemoryStore;
use crate::extensions::checked;
use crate::{
    Expected, Extension, ExtensionError, ExtensionKey, ExtensionStore, Forget, Forgotten, MAX_EXTENSIONS,
    StoreError, Timestamp,
};

#[async_trait]
impl ExtensionStore for MemoryStore {
    async fn extension(&self, key: &ExtensionKey) -> Result<Option<Extension>, StoreError> {
        Ok(self.state().extensions.get(key).cloned())
    }

    async fn extensions(&self, session: &SessionKey) -> Result<Vec<Extension>, StoreError> {
        let state = self.state();
        Ok(state
            .extensions
            .values()
            .filter(|extension| extension.key.session_key == *session)
            .cloned()
            .collect())
    }

    async fn put_extension(
        &self,
        key: &ExtensionKey,
        value: &Json,
        expected: Expected,
        now: Timestamp,
    ) -> Result<u64, ExtensionError> {
        checked(key, value)?;
        let mut state = self.state();
        let found = state.extensions.get(key).map(|extension| extension.revision);
        if !expected.fits(found) {
            return Err(ExtensionError::Conflict { namespace: key.namespace.clone(), revision: found });
        }
        let neighbour =
            |other: &&ExtensionKey| other.session_key == key.session_key && other.owner == key.owner;
        if found.is_none() && state.extensions.keys().filter(neighbour).count() >= MAX_EXTENSIONS {
            return Err(ExtensionError::Full {
                owner: key.owner.clone(),
                session_key: key.session_key.clone(),
            });
        }
        state.last_extension = state.last_extension.saturating_add(1);
        let revision = state.last_extension;
        let extension = Extension { key: key.clone(), value: value.clone(), revision, updated_at: now };
        state.extensions.insert(key.clone(), extension);
        Ok(revision)
    }

    async fn remove_extension(&self, key: &ExtensionKey) -> Result<bool, StoreError> {
        Ok(self.state().extensions.remove(key).is_some())
    }

    async fn forget_owner(&self, owner: &OwnerId, what: &Forget) -> Result<Forgotten, StoreError> {
        let mut state = self.state();
        let goes = |of: &OwnerId, session: &SessionKey| {
            let there = match what {
                Forget::Session(key) => session == key,
                Forget::Everything => true,
            };
            there && of == owner
        };
        let (extensions, injections) = (state.extensions.len(), state.injections.len());
        state.extensions.retain(|key, _| !goes(&key.owner, &key.session_key));
        state.injections.retain(|queued| !goes(&queued.injection.owner, &queued.injection.session_key));
        Ok(Forgotten {
            extensions: extensions - state.extensions.len(),
            injections: injections - state.injections.len(),
        })
    }
}
