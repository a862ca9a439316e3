//! What may go of the trail in files, and pruning it.

use std::ops::ControlFlow;

use backstop_trail::{Entry, Envelope, Log, label_of};
use memchr::memmem;

use super::trail::Trail;
use crate::answered::who;
use crate::audit::Staying;
use crate::policy::POLICY;
use crate::retention::{AuditBound, Chosen, Due, PrunableAudit, is_decision};
use crate::{AUDIT_HOOKS, CONFIGURATION_READ, StoreError, Timestamp};

/// What the member of a receipt begins with by which it names a list of hooks. No text in an entry holds it: there, quotes are escaped.
const NAMES_HOOKS: &[u8] = br#""hookSet":""#;
/// What is in each entry that says what a version of a policy is.
const TELLS_POLICY: &[u8] = br#""kind":"configuration.read""#;

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
            let tells = memmem::Finder::new(TELLS_POLICY);
            let scanned = trail.reader().scan(0, |index, frame| {
                let (Some(bytes), seq) = (frame.entry(), index + 1) else {
                    return ControlFlow::Continue(());
                };
                if !chosen.holds(seq)
                    && let Some(set) = named(bytes, &names)
                    && Envelope::read(bytes).is_some_and(|envelope| envelope.kind != AUDIT_HOOKS)
                {
                    staying.name(set);
                }
                if let Some(version) = label_of(bytes, POLICY) {
                    if !chosen.holds(seq) {
                        staying.name_policy(version);
                    }
                    if tells.find(bytes).is_some()
                        && Envelope::read(bytes).is_some_and(|envelope| envelope.kind == CONFIGURATION_READ)
                    {
                        staying.tell_policy(version, seq);
                    }
                }
                ControlFlow::Continue(())
            });
            scanned.map_err(|error| trail.failed(&error))?;
            let keep = |index, entry: &Entry| {
                let policy = entry.labels.get(POLICY).map(String::as_str);
                !staying.lets_go(&chosen, index + 1, &entry.kind, &entry.body, policy)
            };
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
