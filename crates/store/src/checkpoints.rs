//! Checkpoints of audit trails, left where the gateways of one database find each other's.
//!
//! Each gateway writes a trail of its own. What it signed last is left in the database and taken into the trails of the others, so that whoever cuts
//! one off has to rewrite all of them. The law: *what is left is only added to*; which of it is signed, and by whom, is asked by whoever compares.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{StoreError, Timestamp};

/// How many checkpoints of one trail are kept. The newest proves what the others do, as long as it is known.
pub const MOST_LEFT_CHECKPOINTS: usize = 100;

/// How many checkpoints of one trail are shown to the others, so that one that is none hides nothing.
pub const MOST_SHOWN_CHECKPOINTS: usize = 8;

/// The longest checkpoint that is left or read, in bytes: twice what the longest name of a trail makes of one with two signatures, and no more
/// than an index of PostgreSQL takes.
pub const MOST_LEFT_CHECKPOINT_BYTES: usize = 2048;

/// The longest name of a trail that is left or read, in bytes.
pub(crate) const MOST_ORIGIN_BYTES: usize = 256;

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

/// What was found of checkpoints that were left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftCheckpoints {
    /// The checkpoints.
    pub found: Vec<LeftCheckpoint>,
    /// How many rows were not read, because no gateway leaves such: too many, too long, or of less than no entries.
    pub unread: u64,
}

/// Checkpoints that gateways leave for each other.
#[async_trait]
pub trait CheckpointStore {
    /// Leaves a checkpoint, beside those of this trail that were left last: [`MOST_LEFT_CHECKPOINTS`] with it. Another one of as many entries stays
    /// beside it. One that is longer than [`MOST_LEFT_CHECKPOINT_BYTES`] is an error.
    async fn leave_checkpoint(&self, left: LeftCheckpoint, now: Timestamp) -> Result<(), StoreError>;

    /// Returns what was left of a trail, with the most entries first: the [`MOST_LEFT_CHECKPOINTS`] that were left last.
    async fn left_checkpoints(&self, origin: &str) -> Result<LeftCheckpoints, StoreError>;

    /// Returns what was left last of each trail but `origin`, the newest first: at most [`MOST_SHOWN_CHECKPOINTS`] of each, and of at most `trails`
    /// trails. They come in the order in which the database numbered them, since times are only said.
    async fn checkpoints_of_others(&self, origin: &str, trails: usize)
    -> Result<LeftCheckpoints, StoreError>;
}
