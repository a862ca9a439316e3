//! What may go of the trail in files, and pruning it.

use std::ops::ControlFlow;

use backstop_trail::{Entry, Envelope, Log};
use memchr::memmem;

use super::trail::Trail;
use crate::answered::who;
use crate::audit::Staying;
use crate::retention::{AuditBound, Chosen, Due, PrunableAudit, is_decision};
use crate::{AUDIT_HOOKS, StoreError, Timestamp};

/// What the member of a receipt begins with by which it names a list of hooks. No text in an entry holds it: there, quotes are escaped.
const NAMES_HOOKS: &[u8] = br#""hookSet":""#;

impl Trail {
    pub(crate) async fn prunable(
        &self,
        bound: AuditBound,
        limit: usize,
    ) -> Result<PrunableAudit, StoreError> {
        self.aside(move |trail| Ok(trail.chosen(bound, limit)?.prunable())).await
    }

    fn chosen(&self, bound: AuditBound, limit: usize) -> Result<Chosen, StoreError> {
        let mut due = Due::new(bound, limit);
        let scanned = self.reader().scan(0, |index, frame| {
            if let Some(bytes) = frame.entry()
                && let Some(envelope) = Envelope::read(bytes)
            {
                // What can't be read whole is kept as long as what is kept longest.
                let is_decision =
                    || Entry::read(bytes).is_none_or(|entry| is_decision(&entry.kind, &entry.body));
                due.see(index + 1, Timestamp::from_millis(envelope.at), &envelope.kind, is_decision);
            }
            if due.is_known() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        scanned.map_err(|error| self.failed(&error))?;
        Ok(due.chosen())
    }

    pub(super) async fn prune(
        &self,
        bound: AuditBound,
        limit: usize,
        now: Timestamp,
        by: &str,
    ) -> Result<u64, StoreError> {
        let chosen = self.aside(move |trail| trail.chosen(bound, limit)).await?;
        if chosen.is_empty() {
            return Ok(0);
        }
        self.sign_own().await?;
        let by = who(by);
        self.aside(move |trail| {
            let (mut staying, names) = (Staying::default(), memmem::Finder::new(NAMES_HOOKS));
            let scanned = trail.reader().scan(0, |index, frame| {
                if !chosen.holds(index + 1)
                    && let Some(bytes) = frame.entry()
                    && let Some(set) = named(bytes, &names)
                    && Envelope::read(bytes).is_some_and(|envelope| envelope.kind != AUDIT_HOOKS)
                {
                    staying.name(set);
                }
                ControlFlow::Continue(())
            });
            scanned.map_err(|error| trail.failed(&error))?;
            let keep = |index, entry: &Entry| !staying.lets_go(&chosen, index + 1, &entry.kind, &entry.body);
            let pruned = Log::open(trail.options.clone())
                .and_then(|mut log| log.prune(chosen.last(), now.as_millis(), "retention", &by, keep));
            pruned.map_err(|error| trail.failed(&error))
        })
        .await
    }
}

/// Returns the list of hooks that an entry names.
fn named<'e>(bytes: &'e [u8], names: &memmem::Finder<'_>) -> Option<&'e str> {
    let rest = bytes.get(names.find(bytes)? + NAMES_HOOKS.len()..)?;
    let end = memchr::memchr(b'"', rest)?;
    str::from_utf8(rest.get(..end)?).ok()
}
