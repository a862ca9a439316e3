use async_trait::async_trait;

use super::MemoryStore;
use crate::audit::Link;
use crate::{
    AppendAuditError, AuditEntry, AuditFilter, AuditHead, AuditStore, NewAuditEntry, StoreError,
    StoreErrorKind, VerifyAuditError,
};

#[async_trait]
impl AuditStore for MemoryStore {
    async fn append_audit(&self, entry: NewAuditEntry) -> Result<AuditEntry, AppendAuditError> {
        let mut state = self.state();
        let (link, head) = Link::next(state.audit_head, entry)?;
        let entry = link.clone().entry().ok_or_else(|| {
            StoreError::because("memory", StoreErrorKind::Corrupt, "an audit entry can't be read")
        })?;
        state.audit_head = head;
        state.audit.push(link);
        Ok(entry)
    }

    async fn append_audit_all(&self, entries: Vec<NewAuditEntry>) -> Result<AuditHead, AppendAuditError> {
        let mut state = self.state();
        let mut head = state.audit_head;
        let mut links = Vec::with_capacity(entries.len());
        for entry in entries {
            let (link, next) = Link::next(head, entry)?;
            head = next;
            links.push(link);
        }
        state.audit.append(&mut links);
        state.audit_head = head;
        Ok(head)
    }

    async fn audit(
        &self,
        filter: &AuditFilter,
        after: u64,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let state = self.state();
        let later = state.audit.iter().filter(|link| link.seq > after && filter.passes(link));
        Ok(later.filter_map(|link| link.clone().entry()).take(limit).collect())
    }

    async fn audit_head(&self) -> Result<AuditHead, StoreError> {
        Ok(self.state().audit_head)
    }

    async fn verify_audit(&self) -> Result<AuditHead, VerifyAuditError> {
        let mut head = AuditHead::default();
        for link in &self.state().audit {
            head =
                link.follows(head).ok_or(VerifyAuditError::BrokenAt { seq: head.seq.saturating_add(1) })?;
        }
        Ok(head)
    }
}
