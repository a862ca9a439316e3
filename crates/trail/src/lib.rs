//! Logs that can be proved.
//!
//! A log is a folder to which entries are only added. What was written can be checked offline, by whoever has a copy of the folder and the
//! public key: that no entry was changed, removed, put in or moved, and that none is missing.
//!
//! - *Entries* ([`Draft`], [`Entry`]) are canonical JSON in [frames](Frame), in segments of about 64 MB. What they are about is the
//!   caller's.
//! - *The tree* ([`merkle`]) over them is that of RFC 6962, kept as files of 256 hashes as C2SP's tlog-tiles has them. The right edge is
//!   computed from the entries. Entries are not kept in tlog-tiles' bundles, since pruning replaces entries by their hashes.
//! - *Checkpoints* ([`SignedCheckpoint`]) are signed notes about the root: after 256 entries, or ten seconds, and when a process ends.
//! - *Writing*: [`Log`] for one thread, [`Writer`] for a process. Several processes may write one log: each holds a lock for as long as it
//!   adds a group, and reads first what others have added. There is one log, and one order, for all of them.
//! - *Witnesses* ([`Witness`], [`AddCheckpoint`], [`Copies`]) keep checkpoints where whoever writes the log can't reach them.
//! - *Reading and proving*: [`Reader`], [`Proof`] and [`verify`](verify()). [`Log::prune`] takes entries out and leaves what proves the rest.
//!
//! Laws: an entry that was waited for is on the disk; what the disk refused is written again before anything counts. A group is written as a
//! whole, or not at all. A crash leaves a part of one: whole entries stay, and what is none is cut off, kept aside, and told of by an entry.
//! Each process numbers its entries from one, so that what was lost shows as missing numbers, and what a killed process took along as a start
//! without a stop. Nothing ever changes a full tile, a checkpoint or an entry, but pruning, which is told of first.
//!
//! Without the feature `files` there are entries and the tree over them, for a log that is kept elsewhere.
//!
//! Limits: whoever can write the folder *and* read the key can write another log, with another history. Only a checkpoint that was kept
//! where they can't reach it shows that. The lock is the operating system's (`flock`), so the folder belongs on a local disk.

#[cfg(feature = "files")]
mod back;
#[cfg(feature = "files")]
mod disk;
mod entry;
#[cfg(feature = "files")]
mod error;
#[cfg(all(test, feature = "files"))]
mod faults;
#[cfg(feature = "files")]
mod files;
#[cfg(feature = "files")]
mod frame;
#[cfg(feature = "files")]
mod git;
#[cfg(feature = "files")]
mod known;
#[cfg(feature = "files")]
mod left;
#[cfg(feature = "files")]
mod log;
#[cfg(feature = "files")]
mod mend;
pub mod merkle;
#[cfg(feature = "files")]
mod note;
#[cfg(feature = "files")]
mod notes;
#[cfg(feature = "files")]
mod processes;
#[cfg(feature = "files")]
mod proof;
#[cfg(feature = "files")]
mod prune;
#[cfg(feature = "files")]
mod reader;
#[cfg(feature = "files")]
mod rewrite;
#[cfg(feature = "files")]
mod salvage;
#[cfg(feature = "files")]
mod seen;
#[cfg(feature = "files")]
mod signers;
#[cfg(feature = "files")]
mod stamp;
#[cfg(feature = "files")]
mod tail;
#[cfg(feature = "files")]
mod verify;
#[cfg(feature = "files")]
mod witness;
#[cfg(feature = "files")]
mod writer;
#[cfg(feature = "files")]
mod wrong;

pub use entry::{
    Body, BodyError, Canonical, Draft, Entry, Envelope, KIND_HEARTBEAT, KIND_IMPAIRED, KIND_OMITTED,
    KIND_RECOVERED, KIND_ROTATED, KIND_START, KIND_STOP, KIND_TOMBSTONE, KIND_UNSIGNED, MAX_BODY_BYTES,
    MAX_ENTRY_BYTES, label_of,
};
#[cfg(feature = "files")]
pub use error::TrailError;
#[cfg(feature = "files")]
pub use frame::Frame;
#[cfg(feature = "files")]
pub use git::{GitBranch, GitBranches, GitError, GitSettings};
#[cfg(feature = "files")]
pub use left::{Late, Unproved};
#[cfg(feature = "files")]
pub use log::{Extent, Log, Options, Rotated, now};
#[cfg(feature = "files")]
pub use note::{Checkpoint, SignedCheckpoint, SigningKey, VerifierKey, key_files};
#[cfg(feature = "files")]
pub use proof::Proof;
#[cfg(feature = "files")]
pub use prune::Tombstone;
#[cfg(feature = "files")]
pub use reader::Reader;
#[cfg(feature = "files")]
pub use stamp::{
    MAX_STAMP_BYTES, STAMP_QUERY_TYPE, STAMP_REPLY_TYPE, Stamp, StampError, StampRequest, Stamped,
    stamp_check,
};
#[cfg(feature = "files")]
pub use verify::{Backwards, Process, Report, Trust, VerifyError, verify, verify_each};
#[cfg(feature = "files")]
pub use witness::{
    AddCheckpoint, Copies, CosignerKey, MAX_ADD_CHECKPOINT_BYTES, NotCosigned, SIZE_TYPE, Witness,
};
#[cfg(feature = "files")]
pub use writer::{Appended, Waiting, Writer, Written};
#[cfg(feature = "files")]
pub use wrong::Wrong;

/// How many hashes a full tile has.
pub const TILE: u64 = 256;
