use std::collections::{BTreeMap, BTreeSet, HashMap};

use async_trait::async_trait;
use backstop_hooks::{ApprovalId, Digest};

use super::{MemoryStore, State};
use crate::notices::kept_reference;
use crate::{
    ANSWERABLE, ActionHandle, Addressee, ApprovalState, NoticeStore, SentNotice, StoreError, Timestamp,
};

/// What is known of notices.
#[derive(Default)]
pub(super) struct Notices {
    told: BTreeMap<(Addressee, ApprovalId), Told>,
    handles: HashMap<Digest, Known>,
    deliveries: HashMap<(String, String), Timestamp>,
    leases: HashMap<String, (String, Timestamp)>,
}

/// A handle, and who used it.
struct Known {
    handle: ActionHandle,
    used: BTreeSet<String>,
}

#[derive(Clone)]
struct Told {
    holder: String,
    held_until: Timestamp,
    reference: Option<String>,
    is_withdrawn: bool,
}

impl State {
    /// Forgets what belongs to questions that are gone.
    fn forget_lost_notices(&mut self) {
        let Self { approvals, notices, .. } = self;
        let is_there = |id: &ApprovalId| approvals.iter().any(|record| record.id == *id);
        notices.told.retain(|(_, approval), _| is_there(approval));
        notices.handles.retain(|_, known| is_there(&known.handle.approval));
    }

    fn waits(&self, id: &ApprovalId) -> bool {
        self.approvals.iter().any(|record| record.id == *id && record.state == ApprovalState::Pending)
    }
}

fn sent((addressee, approval): &(Addressee, ApprovalId), told: &Told) -> Option<SentNotice> {
    let reference = told.reference.clone()?;
    Some(SentNotice { approval: approval.clone(), addressee: addressee.clone(), reference })
}

#[async_trait]
impl NoticeStore for MemoryStore {
    async fn untold_approvals(
        &self,
        to: &Addressee,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<ApprovalId>, StoreError> {
        let state = self.state();
        let is_told = |id: &ApprovalId| {
            let told = state.notices.told.get(&(to.clone(), id.clone()));
            told.is_some_and(|told| told.reference.is_some() || told.held_until > now)
        };
        let waiting = state.approvals.iter().filter(|record| record.state == ApprovalState::Pending);
        let mut untold: Vec<_> = waiting.filter(|record| !is_told(&record.id)).collect();
        untold.sort_by_key(|record| record.request.expires_at);
        Ok(untold.iter().take(limit).map(|record| record.id.clone()).collect())
    }

    async fn claim_notice(
        &self,
        approval: &ApprovalId,
        to: &Addressee,
        holder: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut state = self.state();
        state.forget_lost_notices();
        let key = (to.clone(), approval.clone());
        let is_free =
            state.notices.told.get(&key).is_none_or(|told| {
                told.reference.is_none() && (told.held_until <= now || told.holder == holder)
            });
        if !is_free || !state.waits(approval) {
            return Ok(false);
        }
        let told =
            Told { holder: holder.to_owned(), held_until: until, reference: None, is_withdrawn: false };
        state.notices.told.insert(key, told);
        Ok(true)
    }

    async fn sent_notice(
        &self,
        approval: &ApprovalId,
        to: &Addressee,
        reference: &str,
    ) -> Result<(), StoreError> {
        if let Some(told) = self.state().notices.told.get_mut(&(to.clone(), approval.clone())) {
            told.reference.get_or_insert_with(|| kept_reference(reference).to_owned());
            told.held_until = Timestamp::from_millis(0);
        }
        Ok(())
    }

    async fn stale_notices(
        &self,
        surface: &str,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<SentNotice>, StoreError> {
        let state = self.state();
        let of_surface = state.notices.told.iter().filter(|((to, _), _)| to.surface == surface);
        let open = of_surface.filter(|(_, told)| !told.is_withdrawn && told.held_until <= now);
        let stale = open.filter(|((_, id), _)| {
            state.approvals.iter().any(|record| record.id == *id && record.state != ApprovalState::Pending)
        });
        Ok(stale.filter_map(|(key, told)| sent(key, told)).take(limit).collect())
    }

    async fn claim_withdrawal(
        &self,
        notice: &SentNotice,
        holder: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let key = (notice.addressee.clone(), notice.approval.clone());
        let mut state = self.state();
        let Some(told) = state.notices.told.get_mut(&key) else { return Ok(false) };
        if told.is_withdrawn || (told.held_until > now && told.holder != holder) {
            return Ok(false);
        }
        (told.holder, told.held_until) = (holder.to_owned(), until);
        Ok(true)
    }

    async fn withdrawn_notice(&self, notice: &SentNotice) -> Result<(), StoreError> {
        let key = (notice.addressee.clone(), notice.approval.clone());
        if let Some(told) = self.state().notices.told.get_mut(&key) {
            told.is_withdrawn = true;
        }
        Ok(())
    }

    async fn notice(&self, approval: &ApprovalId, to: &Addressee) -> Result<Option<SentNotice>, StoreError> {
        let key = (to.clone(), approval.clone());
        Ok(self.state().notices.told.get(&key).and_then(|told| sent(&key, told)))
    }

    async fn add_handles(&self, handles: Vec<ActionHandle>, now: Timestamp) -> Result<(), StoreError> {
        let (old, mut state) = (now.before(ANSWERABLE), self.state());
        let known = &mut state.notices.handles;
        known.retain(|_, known| known.handle.expires_at >= old);
        known
            .extend(handles.into_iter().map(|handle| (handle.hash, Known { handle, used: BTreeSet::new() })));
        Ok(())
    }

    async fn handle(&self, hash: &Digest) -> Result<Option<ActionHandle>, StoreError> {
        Ok(self.state().notices.handles.get(hash).map(|known| known.handle.clone()))
    }

    async fn use_handle(&self, hash: &Digest, who: &str, now: Timestamp) -> Result<bool, StoreError> {
        let mut state = self.state();
        let is_open = state
            .notices
            .handles
            .get(hash)
            .is_some_and(|known| known.handle.expires_at >= now && state.waits(&known.handle.approval));
        let known = state.notices.handles.get_mut(hash).filter(|_| is_open);
        Ok(known.is_some_and(|known| known.used.insert(who.to_owned())))
    }

    async fn remember_delivery(
        &self,
        surface: &str,
        id: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut state = self.state();
        let known = &mut state.notices.deliveries;
        known.retain(|_, until| *until >= now);
        let key = (surface.to_owned(), id.to_owned());
        let is_new = !known.contains_key(&key);
        known.entry(key).or_insert(until);
        Ok(is_new)
    }

    async fn lease_surface(
        &self,
        surface: &str,
        holder: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut state = self.state();
        let lease = state.notices.leases.entry(surface.to_owned()).or_insert((holder.to_owned(), until));
        let is_ours = lease.0 == holder || lease.1 <= now;
        if is_ours {
            *lease = (holder.to_owned(), until);
        }
        Ok(is_ours)
    }
}
