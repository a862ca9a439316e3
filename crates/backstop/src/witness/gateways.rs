//! The other gateways of a database as witnesses: each leaves its checkpoints there, and takes those of the others into its own trail.
//!
//! Whoever rewrites one trail has to rewrite those of all gateways, on all their machines. What lies in the database alone proves less: whoever can
//! write it can take it out. So the trails of the others are what counts in the end, and [`read`] reads what one of them says.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use backstop_store::{
    AuditFilter, Durability, LeftCheckpoint, NewAuditEntry, PEER_CHECKPOINT, ProveAuditError, Store,
    Timestamp, audit_in,
};
use backstop_trail::SignedCheckpoint;
use serde_json::json;

use super::{Lately, WitnessError, Witnessed, fitting, is_signed, newest, own_keys};

/// The most trails of others that are taken into this one. They are those that were left last.
const MOST_PEERS: usize = 1_000;
/// How many entries of another trail are read at once.
const PAGE: usize = 1_000;

/// The database, where gateways leave checkpoints for each other.
#[derive(Debug, Default)]
pub(super) struct Gateways {
    lately: Lately,
    /// The checkpoint of each trail that was taken in last.
    taken: Mutex<BTreeMap<String, String>>,
}

impl Gateways {
    /// Returns whether a checkpoint is to be left again.
    pub(super) fn is_due(&self) -> bool {
        self.lately.is_due()
    }

    /// Compares what was left of this trail, leaves its newest checkpoint, and takes in those of the others.
    pub(super) async fn tell(&self, store: &dyn Store) -> Result<Witnessed, WitnessError> {
        let (keys, ours) = (own_keys(store).await?, newest(store).await?);
        if !is_signed(&ours, &keys) {
            return Err(WitnessError::NotOurs);
        }
        let (kept, unsigned) = left(store).await?;
        let signed: Vec<SignedCheckpoint> = kept.into_iter().filter(|note| is_signed(note, &keys)).collect();
        let ours = match signed.first() {
            Some(known) => fitting(store, known).await?,
            None => ours,
        };
        let (origin, entries) = (ours.checkpoint().origin.clone(), ours.checkpoint().size);
        let checkpoint = ours.to_string();
        let leaving = LeftCheckpoint { origin: origin.clone(), entries, checkpoint: checkpoint.clone() };
        store.leave_checkpoint(leaving, Timestamp::now()).await.map_err(WitnessError::Store)?;
        self.take_in(store, &origin).await?;
        self.lately.keep();
        if unsigned > 0 {
            return Err(WitnessError::Unreadable(unsigned));
        }
        Ok(Witnessed { entries, at: None, checkpoint })
    }

    /// Writes what the others left last into this trail, as far as it is new.
    async fn take_in(&self, store: &dyn Store, origin: &str) -> Result<(), WitnessError> {
        let found = store.checkpoints_of_others(origin, MOST_PEERS + 1).await.map_err(WitnessError::Store)?;
        if found.len() > MOST_PEERS {
            tracing::warn!(
                most = MOST_PEERS,
                "more audit trails are in the database than are taken into this one: those that were left last are"
            );
        }
        let new: Vec<LeftCheckpoint> = {
            let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
            let is_new = |left: &LeftCheckpoint| taken.get(&left.origin) != Some(&left.checkpoint);
            found.into_iter().take(MOST_PEERS).filter(|left| is_new(left) && is_one(left)).collect()
        };
        if new.is_empty() {
            return Ok(());
        }
        let entries = new.iter().map(entry).collect();
        store.append_audit_all(entries, Durability::Soon).await.map_err(WitnessError::Written)?;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.extend(new.into_iter().map(|left| (left.origin, left.checkpoint)));
        Ok(())
    }

    /// Returns the checkpoints of this trail that are in the database.
    pub(super) async fn kept(&self, store: &dyn Store) -> Result<Vec<String>, WitnessError> {
        let (kept, unreadable) = left(store).await?;
        match (kept.is_empty(), unreadable) {
            (_, 1..) => Err(WitnessError::Unreadable(unreadable)),
            (true, 0) => Err(WitnessError::Empty),
            (false, 0) => Ok(kept.iter().map(SignedCheckpoint::to_string).collect()),
        }
    }
}

/// Returns what was left of this trail, with the most entries first, and how many rows are none.
async fn left(store: &dyn Store) -> Result<(Vec<SignedCheckpoint>, u64), WitnessError> {
    let origin = store.audit_origin().await?;
    let (mut notes, mut unreadable) = (Vec::new(), 0);
    for left in store.left_checkpoints(&origin).await.map_err(WitnessError::Store)? {
        match left.checkpoint.parse::<SignedCheckpoint>() {
            Ok(note) if is_of(&note, &left) => notes.push(note),
            _ => unreadable += 1,
        }
    }
    Ok((notes, unreadable))
}

fn is_of(note: &SignedCheckpoint, left: &LeftCheckpoint) -> bool {
    note.checkpoint().origin == left.origin && note.checkpoint().size == left.entries
}

/// Whether that is a checkpoint of the trail that it is said to be of. By whom it is signed is asked by whoever has that trail's key.
fn is_one(left: &LeftCheckpoint) -> bool {
    let is_one = left.checkpoint.parse::<SignedCheckpoint>().is_ok_and(|note| is_of(&note, left));
    if !is_one {
        tracing::warn!("what another gateway left as a checkpoint of its audit trail is none");
    }
    is_one
}

fn entry(left: &LeftCheckpoint) -> NewAuditEntry {
    let body = json!({ "origin": left.origin, "entries": left.entries, "checkpoint": left.checkpoint });
    let (at, kind) = (Timestamp::now(), PEER_CHECKPOINT.to_owned());
    NewAuditEntry { at, kind, session: None, run: None, body: body.into() }
}

/// Returns the checkpoints of this trail that the trail in another folder has taken in. Whether that one is whole is for `audit verify` there to say.
pub(super) async fn read(store: &dyn Store, folder: &Path) -> Result<Vec<String>, WitnessError> {
    let origin = store.audit_origin().await?;
    let filter = AuditFilter { kind: Some(PEER_CHECKPOINT.to_owned()), ..AuditFilter::default() };
    let (mut kept, mut after) = (Vec::new(), 0);
    loop {
        let page = audit_in(folder, &filter, after, PAGE).await.map_err(ProveAuditError::from)?;
        let text = |entry: &backstop_store::AuditEntry, key: &str| {
            entry.body.get(key).and_then(|value| value.as_str()).map(str::to_owned)
        };
        let own = page.iter().filter(|entry| text(entry, "origin").as_deref() == Some(&*origin));
        kept.extend(own.filter_map(|entry| text(entry, "checkpoint")));
        match page.last() {
            Some(last) => after = last.seq,
            None if kept.is_empty() => return Err(WitnessError::NoWord),
            None => return Ok(kept),
        }
    }
}
