//! Checkpoints of audit trails, left where the gateways of one database find each other's.
//!
//! Each gateway writes a trail of its own. What it signed last is left in the database and taken into the trails of the others, so that whoever cuts
//! one off has to rewrite all of them. The law: *what is left is only added to*; which of it is signed, and by whom, is asked by whoever compares.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{StoreError, Timestamp};

/// How many checkpoints of one trail are kept. The newest proves what the others do, as long as it is known.
pub const MOST_LEFT_CHECKPOINTS: usize = 100;

/// The kind of an entry that holds the checkpoint of another gateway's trail.
pub const PEER_CHECKPOINT: &str = "peer.checkpoint";

/// A checkpoint that was left in the database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftCheckpoint {
    /// The name of the trail.
    pub origin: String,
    /// How many entries it covers.
    pub entries: u64,
    /// The signed note.
    pub checkpoint: String,
}

/// Checkpoints that gateways leave for each other.
#[async_trait]
pub trait CheckpointStore {
    /// Leaves a checkpoint, beside the newest [`MOST_LEFT_CHECKPOINTS`] of this trail. Another one of as many entries stays beside it.
    async fn leave_checkpoint(&self, left: LeftCheckpoint, now: Timestamp) -> Result<(), StoreError>;

    /// Returns what was left of a trail, with the most entries first.
    async fn left_checkpoints(&self, origin: &str) -> Result<Vec<LeftCheckpoint>, StoreError>;

    /// Returns what was left last of each trail but `origin`, the newest first: at most `limit`.
    async fn checkpoints_of_others(
        &self,
        origin: &str,
        limit: usize,
    ) -> Result<Vec<LeftCheckpoint>, StoreError>;
}
