//! Waiting for an answer.

use std::time::Duration;

use backstop_hooks::ApprovalId;
use tokio::sync::watch;
use tokio::time::sleep;

use super::{ApprovalRecord, ApprovalState, ApprovalStore};
use crate::{StoreError, Timestamp};

/// How often a database is asked for answers that another process may have written.
#[cfg(feature = "sqlite")]
pub(crate) const POLL: Duration = Duration::from_millis(150);

/// Reads the approval whenever `changed` says that some approval changed in this process, and every
/// `poll` for those of other processes.
pub(crate) async fn wait_answered(
    store: &(impl ApprovalStore + Sync),
    id: &ApprovalId,
    until: Timestamp,
    mut changed: watch::Receiver<()>,
    poll: Option<Duration>,
) -> Result<Option<ApprovalRecord>, StoreError> {
    loop {
        changed.mark_unchanged();
        let record = store.approval(id).await?;
        let left = Timestamp::now().until(until);
        if left.is_zero() || record.as_ref().is_none_or(|record| record.state != ApprovalState::Pending) {
            return Ok(record);
        }
        tokio::select! {
            _ = changed.changed() => {}
            () = sleep(poll.unwrap_or(left).min(left)) => {}
        }
    }
}
