//! The trail as it grows: each entry is an event whose id is its number, so that whoever goes on by it misses none.
//!
//! The law: *a stream that can't go on says so*. Where the trail can't be read for [`MOST_FAILURES`] times one after the other, the last event
//! is `problem`.

use std::sync::Arc;

use backstop_store::{AuditFilter, AuditPlace, Store, StoreError};
use http::Response;
use tokio::time::sleep;

use super::super::super::operators::Problem;
use super::super::asked::{Asked, Number};
use super::super::filter::filtered;
use super::super::records::Entry;
use super::{Source, TICK, open, place, written};
use crate::server::answer::AnswerBody;

/// How many entries are read at once.
const PIECE: usize = 100;
/// How often one after the other the trail can't be read before the stream ends.
const MOST_FAILURES: u32 = 40;

filtered! {
    /// Which entries.
    pub(in crate::server::api) struct AuditEvents {
        /// Only entries after this number; where absent, those that are written from now on. `last-event-id` takes its place.
        #[serde(default)]
        after: Option<Number>,
    }
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
    let filter = which.filter();
    Ok(open(&asked, place, Trail { store, filter, after, failures: Failures::default() }))
}

struct Trail {
    store: Arc<dyn Store>,
    filter: AuditFilter,
    after: u64,
    failures: Failures,
}

impl Source for Trail {
    async fn next(&mut self) -> Option<String> {
        while !self.failures.is_over() {
            let looked = self.look().await;
            let events = self.failures.heard(looked);
            if events.is_some() {
                return events;
            }
            sleep(TICK).await;
        }
        None
    }
}

/// How often one after the other the trail could not be read.
#[derive(Debug, Default)]
struct Failures(u32);

impl Failures {
    /// Returns what is told after a look: the events that were found, or a problem. What can't be read is looked at again until then.
    fn heard<E>(&mut self, looked: Result<String, E>) -> Option<String> {
        let Ok(events) = looked else {
            self.0 = self.0.saturating_add(1);
            let problem = || written(None, "problem", &Problem::store().document().to_string());
            return self.is_over().then(problem);
        };
        self.0 = 0;
        Some(events).filter(|events| !events.is_empty())
    }

    fn is_over(&self) -> bool {
        self.0 >= MOST_FAILURES
    }
}

impl Trail {
    async fn look(&mut self) -> Result<String, StoreError> {
        let head = self.store.audit_head().await?.seq;
        if head <= self.after {
            return Ok(String::new());
        }
        // Some entries at a time: what is read is bounded, also where nothing passes.
        let page = self.store.audit_page(&self.filter, AuditPlace::After(self.after), PIECE).await?;
        if let AuditPlace::After(reached) = page.next {
            self.after = reached.max(self.after);
        }
        let events = page.entries.into_iter().filter_map(|entry| {
            let seq = entry.seq.to_string();
            let data = serde_json::to_string(&Entry::of(entry)).ok()?;
            Some(written(Some(&seq), "entry", &data))
        });
        Ok(events.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trail_that_can_not_be_read_is_told_of_and_ends_the_stream() {
        let mut failures = Failures::default();
        for _ in 1..MOST_FAILURES {
            assert_eq!(failures.heard(Err(())), None);
        }
        // It can be read again: all is well.
        assert_eq!(failures.heard(Ok::<_, ()>(String::new())), None);
        assert_eq!(failures.heard(Ok::<_, ()>("entry".to_owned())), Some("entry".to_owned()));
        for _ in 1..MOST_FAILURES {
            assert_eq!(failures.heard(Err(())), None);
            assert!(!failures.is_over());
        }
        let told = failures.heard(Err(())).unwrap();
        assert!(told.starts_with("event: problem\ndata: {") && told.contains("503"), "{told}");
        assert!(failures.is_over());
    }
}
