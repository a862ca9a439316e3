//! The service's sight: what it wants looked at goes to the hook, and the judging thread waits for the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use backstop::hooks::{Eyes, Seen};
use tokio::net::unix::OwnedWriteHalf;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, mpsc};
use tokio::task::block_in_place;
use tokio::time::timeout;

use super::ask::MOST_LOOKS;
use crate::daemon::key::Key;
use crate::daemon::protocol::{Lookup, Sighting, Word, write_word};

/// The longest that a hook may take to look at something.
const PATIENCE: Duration = Duration::from_secs(5);

/// A hook's eyes, lent for one question.
pub(super) struct LentEyes {
    out: Arc<Mutex<OwnedWriteHalf>>,
    sightings: Mutex<mpsc::Receiver<Sighting>>,
    nonce: String,
    runtime: Handle,
    looks: AtomicUsize,
    is_blind: AtomicBool,
}

impl LentEyes {
    /// Those of the hook that is written to by `out` and whose reports come by `sightings`. To be made on the runtime that
    /// carries both.
    pub(super) fn new(
        out: Arc<Mutex<OwnedWriteHalf>>,
        sightings: mpsc::Receiver<Sighting>,
        nonce: &str,
    ) -> Self {
        Self {
            out,
            sightings: Mutex::new(sightings),
            nonce: nonce.to_owned(),
            runtime: Handle::current(),
            looks: AtomicUsize::new(0),
            is_blind: AtomicBool::new(false),
        }
    }

    /// Whether something could not be looked at, so that what was judged meanwhile does not count.
    pub(super) fn are_blind(&self) -> bool {
        self.is_blind.load(Ordering::Relaxed)
    }

    fn look(&self, lookup: Lookup) -> Option<Sighting> {
        // Two words are left for what comes before and after.
        let has_left = self.looks.fetch_add(1, Ordering::Relaxed) + 2 < MOST_LOOKS;
        let sighting = (has_left && !self.are_blind()).then(|| block_in_place(|| self.ask(lookup))).flatten();
        if sighting.is_none() {
            self.is_blind.store(true, Ordering::Relaxed);
        }
        sighting
    }

    fn ask(&self, lookup: Lookup) -> Option<Sighting> {
        let asked = async {
            let mut sightings = self.sightings.lock().await;
            let word = Word::Look(lookup);
            write_word(&mut *self.out.lock().await, &word, &Key::of_service(), &self.nonce).await.ok()?;
            sightings.recv().await
        };
        self.runtime.block_on(async { timeout(PATIENCE, asked).await.ok().flatten() })
    }
}

impl Eyes for LentEyes {
    fn file(&self, path: &str) -> Seen {
        match self.look(Lookup::File(path.to_owned())) {
            Some(Sighting::Text(text)) => Seen::Text(text),
            Some(Sighting::Missing) => Seen::Missing,
            Some(Sighting::Unreadable) => Seen::Unreadable,
            Some(Sighting::LeadsTo(_)) | None => {
                self.is_blind.store(true, Ordering::Relaxed);
                Seen::Unreadable
            }
        }
    }

    fn leads_to(&self, path: &str) -> Option<String> {
        match self.look(Lookup::Links(path.to_owned())) {
            Some(Sighting::LeadsTo(place)) => place,
            Some(_) | None => {
                self.is_blind.store(true, Ordering::Relaxed);
                None
            }
        }
    }
}
