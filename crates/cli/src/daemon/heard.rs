//! Whether something has happened that others wait for, such as that a first hook has come.

use tokio::sync::watch;

/// Something that happens once.
#[derive(Debug, Default)]
pub(crate) struct Heard(watch::Sender<bool>);

impl Heard {
    /// It has happened. Whoever waits goes on.
    pub(crate) fn note(&self) {
        self.0.send_if_modified(|heard| !std::mem::replace(heard, true));
    }

    /// Whether it has happened.
    pub(crate) fn is_noted(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns when it has happened.
    pub(crate) async fn noted(&self) {
        // The sender is in `self`, so it outlives this.
        let _ = self.0.subscribe().wait_for(|heard| *heard).await;
    }
}
