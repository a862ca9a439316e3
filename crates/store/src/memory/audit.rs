use async_trait::async_trait;

use super::MemoryStore;
use crate::audit::{Link, Walk, carried, name_of_list, pruned};
use crate::{
    AUDIT_HOOKS, AppendAuditError, AuditEntry, AuditFilter, AuditHead, AuditReport, AuditStore, Durability,
    NewAuditEntry, PruneAuditError, StoreError, StoreErrorKind, Timestamp, VerifyAuditError,
};

#[async_trait]
impl AuditStore for MemoryStore {
    async fn check_writable(&self) -> Result<(), StoreError> {
        Ok(())
    }

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

    async fn append_audit_all(
        &self,
        entries: Vec<NewAuditEntry>,
        _: Durability,
    ) -> Result<AuditHead, AppendAuditError> {
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

    async fn verify_audit(&self, known: Option<AuditHead>) -> Result<AuditReport, VerifyAuditError> {
        let state = self.state();
        let mut walk = Walk::new(state.audit_start, known)?;
        for link in &state.audit {
            walk.step(Some(link.clone()))?;
        }
        walk.finish()
    }

    async fn prune_audit(&self, through: u64, now: Timestamp) -> Result<AuditHead, PruneAuditError> {
        let mut state = self.state();
        let last = state.audit.iter().find(|link| link.seq == through && through < state.audit_head.seq);
        let digest = last.and_then(|link| link.digest.parse().ok());
        let digest = digest.ok_or(PruneAuditError::NoSuchEntry(through))?;
        let start = AuditHead { seq: through, digest };
        let (link, head) = Link::next(
            state.audit_head,
            pruned(start, state.audit.iter().filter(|link| link.seq <= through), now),
        )?;
        let mut lists: Vec<Link> = state.audit.extract_if(.., |link| link.seq <= through).collect();
        lists.retain(|list| list.kind == AUDIT_HOOKS && is_needed(list, &state.audit));
        state.audit.push(link);
        (state.audit_start, state.audit_head) = (start, head);
        for list in lists {
            let (link, head) = Link::next(state.audit_head, carried(list, now))?;
            state.audit.push(link);
            state.audit_head = head;
        }
        Ok(start)
    }
}

/// Returns whether a receipt names this list of hooks, or this part of one, and no other entry says the same.
fn is_needed(list: &Link, remaining: &[Link]) -> bool {
    let Some(name) = name_of_list(list) else { return false };
    let names = |link: &&Link| link.body.contains(&name);
    remaining.iter().any(|link| names(&link))
        && !remaining.iter().filter(names).any(|link| link.kind == AUDIT_HOOKS && link.body == list.body)
}
