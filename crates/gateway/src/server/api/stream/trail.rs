//! The trail as it grows: each entry is an event whose id is its number, so that whoever goes on by it misses none.

use std::sync::Arc;

use backstop_hooks::SessionId;
use backstop_store::{AuditFilter, Store};
use http::Response;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::sleep;

use super::super::super::operators::Problem;
use super::super::asked::{Asked, Number};
use super::super::records::Entry;
use super::{Source, TICK, open, place, written};
use crate::server::answer::AnswerBody;

/// How many entries are read at once.
const PIECE: usize = 100;

/// Which entries.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::server::api) struct AuditEvents {
    /// Only entries after this number; where absent, those that are written from now on. `last-event-id` takes its place.
    #[serde(default)]
    after: Option<Number>,
    /// Only entries of this kind.
    #[serde(default)]
    kind: Option<String>,
    /// Only entries of this session.
    #[serde(default)]
    session: Option<String>,
    /// Only entries under a version of the policy that begins with these hex digits.
    #[serde(default)]
    policy: Option<String>,
}

/// Opens a stream of entries.
pub(in crate::server::api) async fn audit(
    asked: Asked,
    which: AuditEvents,
) -> Result<Response<AnswerBody>, Problem> {
    let place = place(&asked)?;
    let store = Arc::clone(asked.engine()?.store());
    let last = asked.last_event.as_deref().map(str::parse).transpose();
    let last = last.map_err(|_| Problem::last_event())?;
    let after = match last.or(which.after.map(Number::get)) {
        Some(after) => after,
        None => store.audit_head().await.map_err(|_| Problem::store())?.seq,
    };
    let filter = AuditFilter {
        kind: which.kind,
        session: which.session.map(SessionId::new),
        policy: which.policy,
        ..AuditFilter::default()
    };
    Ok(open(&asked, place, Trail { store, filter, after }))
}

struct Trail {
    store: Arc<dyn Store>,
    filter: AuditFilter,
    after: u64,
}

impl Source for Trail {
    async fn next(&mut self) -> Option<String> {
        loop {
            // What can't be read now is looked at again.
            if let Some(events) = self.look().await
                && !events.is_empty()
            {
                return Some(events);
            }
            sleep(TICK).await;
        }
    }
}

impl Trail {
    async fn look(&mut self) -> Option<String> {
        let head = self.store.audit_head().await.ok()?.seq;
        if head <= self.after {
            return None;
        }
        let entries = self.store.audit(&self.filter, self.after, PIECE).await.ok()?;
        let reached = entries.last().map_or(self.after, |entry| entry.seq);
        // Of fewer than there may be nothing was left out, and nothing of it is to be looked through again.
        self.after = if entries.len() < PIECE { reached.max(head) } else { reached };
        let events = entries.into_iter().filter_map(|entry| {
            let seq = entry.seq.to_string();
            let data = serde_json::to_string(&Entry::of(entry)).ok()?;
            Some(written(Some(&seq), "entry", &data))
        });
        Some(events.collect())
    }
}
