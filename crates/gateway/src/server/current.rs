//! The settings in force, and whom they let connect.

use std::sync::Arc;

use tokio::sync::watch;

use super::Shared;
use crate::settings::Settings;

/// What holds for connections and requests that come from now on.
pub(super) struct Current(pub(super) watch::Sender<Arc<Shared>>);

impl Current {
    pub(super) fn get(&self) -> Arc<Shared> {
        Arc::clone(&self.0.borrow())
    }

    pub(super) fn set(&self, next: Shared) {
        self.0.send_replace(Arc::new(next));
    }

    /// Hears of the next settings after those of now.
    pub(super) fn changes(&self) -> watch::Receiver<Arc<Shared>> {
        self.0.subscribe()
    }

    /// Ends when who may connect is somebody else than it was: at once, if it is already.
    pub(super) async fn admits_others_than(&self, admission: &Admission) {
        let mut changes = self.changes();
        // The sender lives as long as this does.
        let _ = changes.wait_for(|now| *now.admission != *admission).await;
    }
}

/// Who may connect: everybody in the clear, or encrypted whoever has, or has not, an authority behind it. A connection that was let
/// in by other settings ends with what it asked: for the rest, nobody vouches.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Clear,
    Encrypted { authorities: Option<Vec<u8>> },
}

impl Admission {
    pub(super) fn of(settings: &Settings) -> Self {
        settings.tls.as_ref().map_or(Self::Clear, |tls| Self::Encrypted {
            authorities: tls.clients.as_ref().map(|authorities| authorities.text.clone()),
        })
    }
}
