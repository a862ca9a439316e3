//! Limits the connections, and keeps some places for operators.
//!
//! [`Limits::connections`](crate::Limits) places are for anybody. When they are taken, [`LATE`] more connections are accepted,
//! because nobody can tell an operator before the first request. On these *late* connections only the
//! [pages for operators](super::operators) are answered; other requests are refused as overload unless a regular place is free by
//! then. Late connections have less time to send a request. Further connections wait in the system's queue.
//!
//! Limit: somebody who keeps all late places busy locks operators out for as long.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// How many connections are let in beyond the limit.
const LATE: usize = 32;
/// How long such a connection may take to say what it wants.
const LATE_PATIENCE: Duration = Duration::from_secs(5);

/// The places of all connections.
#[derive(Debug)]
pub(super) struct Places {
    regular: Arc<Semaphore>,
    late: Arc<Semaphore>,
}

/// The place of a connection, which is free again when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    regular: Arc<Semaphore>,
    held: Mutex<Held>,
    refused: Notify,
}

#[derive(Debug)]
enum Held {
    Regular { _place: OwnedSemaphorePermit },
    Late { _place: OwnedSemaphorePermit },
}

impl Places {
    pub(super) fn new(connections: usize) -> Self {
        Self { regular: Arc::new(Semaphore::new(connections)), late: Arc::new(Semaphore::new(LATE)) }
    }

    /// Waits for a place.
    pub(super) async fn take(&self) -> Option<Place> {
        let held = tokio::select! {
            biased;
            place = Arc::clone(&self.regular).acquire_owned() => Held::Regular { _place: place.ok()? },
            place = Arc::clone(&self.late).acquire_owned() => Held::Late { _place: place.ok()? },
        };
        Some(Place { regular: Arc::clone(&self.regular), held: Mutex::new(held), refused: Notify::new() })
    }
}

impl Place {
    /// Returns whether requests that are not for operators may pass. A late connection takes a regular place, if one is free by
    /// now; otherwise it is [refused](Self::is_refused).
    pub(super) fn admits(&self) -> bool {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*held, Held::Regular { .. }) {
            return true;
        }
        if let Ok(place) = Arc::clone(&self.regular).try_acquire_owned() {
            *held = Held::Regular { _place: place };
            return true;
        }
        self.refused.notify_one();
        false
    }

    /// Waits until a request was refused: the place is for somebody else now.
    pub(super) async fn is_refused(&self) {
        self.refused.notified().await;
    }

    /// How long the client may take to say what it wants, where others have `usual`.
    pub(super) fn patience(&self, usual: Duration) -> Duration {
        match *self.held.lock().unwrap_or_else(PoisonError::into_inner) {
            Held::Regular { .. } => usual,
            Held::Late { .. } => usual.min(LATE_PATIENCE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn late_connections_wait_for_a_place_of_their_own_and_give_it_back() {
        let places = Places::new(1);
        let first = places.take().await.unwrap();
        assert!(first.admits());
        let mut late = Vec::new();
        for _ in 0..LATE {
            late.push(places.take().await.unwrap());
        }
        assert!(late.iter().all(|place| !place.admits()));
        assert_eq!(late[0].patience(Duration::from_secs(60)), LATE_PATIENCE);
        assert!(tokio::time::timeout(Duration::from_millis(1), places.take()).await.is_err());
        drop(first);
        assert!(late[0].admits() && late[0].admits() && !late[1].admits());
        late[0].is_refused().await;
        assert_eq!((places.regular.available_permits(), places.late.available_permits()), (0, 1));
        drop(late);
        assert_eq!((places.regular.available_permits(), places.late.available_permits()), (1, LATE));
    }
}
