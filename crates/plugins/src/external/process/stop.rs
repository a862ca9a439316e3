//! That a program is to end. Who asks for it asks for good: there is no way back, and nobody can miss it.

use std::sync::Arc;

use tokio::sync::watch;

/// Whether a program is to end. All clones say the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Stop(Arc<watch::Sender<bool>>);

impl Stop {
    /// Says that the program is to end.
    pub(super) fn ask(&self) {
        self.0.send_replace(true);
    }

    /// Whether it is to end.
    pub(super) fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns when it is to end, at once where that was said before.
    pub(super) async fn asked(&self) {
        // The sender is held by this value, so that there is no other way for this to return.
        let _ = self.0.subscribe().wait_for(|asked| *asked).await;
    }
}
