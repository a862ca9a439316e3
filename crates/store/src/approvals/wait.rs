//! Waiting for an answer.
//!
//! Whoever waits has a seat, and a notice wakes the seats of one approval and no others. So an answer costs one reading,
//! however many wait.
//!
//! The laws: *a seat is taken before the row is read*, so that no answer falls between the two; *a notice says nothing but
//! that it is time to read the row*, so that one too many does no harm; *how long to wait is measured once*, so that a clock
//! that is set meanwhile neither ends the waiting nor prolongs it; *a server that is away for a moment ends no waiting*, since that is how it is
//! restarted and replaced.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use backstop_hooks::ApprovalId;
use tokio::sync::watch;
use tokio::time::sleep;

use super::{ApprovalRecord, ApprovalState, ApprovalStore};
use crate::StoreError;

/// Those who wait for answers in this process.
#[derive(Debug, Default)]
pub(crate) struct Seats(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    by: HashMap<ApprovalId, watch::Sender<()>>,
    /// Somebody looks for answers of other processes.
    is_watched: bool,
}

impl Seats {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take(&self, id: &ApprovalId) -> Seat<'_> {
        let notices = self.taken().by.entry(id.clone()).or_default().subscribe();
        Seat { seats: self, id: id.clone(), notices }
    }

    /// Wakes those who wait for this approval.
    pub(crate) fn wake(&self, id: &ApprovalId) {
        if let Some(seat) = self.taken().by.get(id) {
            seat.send_replace(());
        }
    }

    /// Wakes everybody.
    pub(crate) fn wake_all(&self) {
        for seat in self.taken().by.values() {
            seat.send_replace(());
        }
    }

    /// Returns whether somebody waits and nobody looks for answers of other processes. The caller is to do that from now on,
    /// until [`is_over`](Self::is_over).
    pub(crate) fn wants_watch(&self) -> bool {
        let mut taken = self.taken();
        let wanted = !taken.is_watched && !taken.by.is_empty();
        taken.is_watched |= wanted;
        wanted
    }

    /// Returns whether nobody waits at the moment.
    #[cfg(feature = "postgres")]
    pub(crate) fn are_free(&self) -> bool {
        self.taken().by.is_empty()
    }

    /// Returns whether nobody waits any more. If so, nobody looks any more either.
    pub(crate) fn is_over(&self) -> bool {
        let mut taken = self.taken();
        taken.is_watched = !taken.by.is_empty();
        !taken.is_watched
    }

    /// Whoever looked for answers of other processes could not go on: those who wait find somebody else.
    pub(crate) fn lose_watch(&self) {
        self.taken().is_watched = false;
        self.wake_all();
    }
}

/// The seat of somebody who waits for one approval.
pub(crate) struct Seat<'a> {
    seats: &'a Seats,
    id: ApprovalId,
    notices: watch::Receiver<()>,
}

impl Seat<'_> {
    /// Whether there was a notice since the last look.
    #[cfg(test)]
    pub(crate) fn is_woken(&mut self) -> bool {
        let woken = self.notices.has_changed().unwrap();
        self.notices.mark_unchanged();
        woken
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        // Nobody can sit down beside this one meanwhile.
        if taken.by.get(&self.id).is_some_and(|seat| seat.receiver_count() <= 1) {
            taken.by.remove(&self.id);
        }
    }
}

/// How long is waited.
pub(crate) struct Patience {
    /// For an answer.
    pub(crate) answer: Duration,
    /// For a database that can't be reached.
    pub(crate) outage: Duration,
}

/// How long a database that could not be reached is left alone.
const AGAIN: Duration = Duration::from_secs(1);

/// Reads the approval, and again with each notice, until it is answered or otherwise ended, or `patience` is over. `watch`
/// sees to it that somebody looks for answers that come from elsewhere.
pub(crate) async fn wait_answered(
    store: &(impl ApprovalStore + Sync),
    seats: &Seats,
    id: &ApprovalId,
    patience: Patience,
    watch: impl Fn() -> Result<(), StoreError> + Send,
) -> Result<Option<ApprovalRecord>, StoreError> {
    let mut end = std::pin::pin!(sleep(patience.answer));
    let mut seat = seats.take(id);
    let mut away: Option<Instant> = None;
    loop {
        watch()?;
        seat.notices.mark_unchanged();
        let record = match store.approval(id).await {
            Ok(record) => record,
            Err(error) => {
                let since = *away.get_or_insert_with(Instant::now);
                if end.is_elapsed() || !error.kind().may_pass() || since.elapsed() >= patience.outage {
                    return Err(error);
                }
                tokio::select! {
                    _ = seat.notices.changed() => {}
                    () = sleep(AGAIN.min(patience.outage)) => {}
                    () = &mut end => {}
                }
                continue;
            }
        };
        away = None;
        if end.is_elapsed() || record.as_ref().is_none_or(|record| record.state != ApprovalState::Pending) {
            return Ok(record);
        }
        tokio::select! {
            _ = seat.notices.changed() => {}
            () = &mut end => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_wakes_those_who_wait_for_that_approval_and_nobody_else() {
        let seats = Seats::default();
        let (mut first, mut second) = (seats.take(&"a".into()), seats.take(&"a".into()));
        let mut other = seats.take(&"b".into());
        seats.wake(&"a".into());
        assert!(first.is_woken() && second.is_woken() && !other.is_woken());
        drop(first);
        seats.wake(&"a".into());
        assert!(second.is_woken(), "who stays is woken");
        seats.wake_all();
        assert!(second.is_woken() && other.is_woken());
        drop((second, other));
        assert!(seats.taken().by.is_empty(), "who left has no seat");
    }

    #[test]
    fn one_looks_for_all_as_long_as_somebody_waits() {
        let seats = Seats::default();
        assert!(!seats.wants_watch(), "nobody waits");
        let (first, mut second) = (seats.take(&"a".into()), seats.take(&"b".into()));
        assert!(seats.wants_watch() && !seats.wants_watch(), "one is enough");
        drop(first);
        assert!(!seats.is_over());
        seats.lose_watch();
        assert!(second.is_woken() && seats.wants_watch(), "who waits finds another");
        drop(second);
        assert!(seats.is_over() && !seats.wants_watch());
        let _third = seats.take(&"c".into());
        assert!(seats.wants_watch());
    }
}
