//! The proof of one entry, as [tlog-proof](https://c2sp.org/tlog-proof) writes it.
//!
//! It is a text that says all: the number of the entry, the hashes that lead to the root, and the checkpoint with that root. The line
//! `extra` holds the entry itself, so that one file and a key are enough to check it.

use std::fmt;
use std::str::FromStr;

use crate::merkle::{Hash, is_included, leaf_hash};
use crate::note::{base64, bytes, decimal, hash};
use crate::{MAX_ENTRY_BYTES, SignedCheckpoint, TrailError, VerifierKey};

/// The first line.
const TITLE: &str = "c2sp.org/tlog-proof@v1";
/// The most hashes on a way to the root.
const MAX_PATH: usize = 63;

/// What proves that an entry is in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The number of the entry, the first of the log being 0.
    pub index: u64,
    /// The hashes beside the way from the entry to the root.
    pub path: Vec<Hash>,
    /// The checkpoint that has the root.
    pub checkpoint: SignedCheckpoint,
    /// The entry; `None` where it was pruned.
    pub entry: Option<Vec<u8>>,
}

impl Proof {
    /// Returns whether the entry is in the log, as the owner of the key says.
    pub fn proves(&self, entry: &[u8], key: &VerifierKey) -> bool {
        let checkpoint = self.checkpoint.checkpoint();
        self.checkpoint.is_signed_by(key)
            && checkpoint.origin == key.name()
            && is_included(leaf_hash(entry), self.index, checkpoint.size, &checkpoint.root, &self.path)
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{TITLE}")?;
        if let Some(entry) = &self.entry {
            writeln!(f, "extra {}", base64(entry))?;
        }
        writeln!(f, "index {}", self.index)?;
        self.path.iter().try_for_each(|hash| writeln!(f, "{}", base64(hash)))?;
        write!(f, "\n{}", self.checkpoint)
    }
}

impl FromStr for Proof {
    type Err = TrailError;

    fn from_str(text: &str) -> Result<Self, TrailError> {
        let (head, checkpoint) =
            text.split_once("\n\n").ok_or(TrailError::NotAProof("no checkpoint in it"))?;
        let mut lines = head.split('\n').peekable();
        if lines.next() != Some(TITLE) {
            return Err(TrailError::NotAProof("another title"));
        }
        let entry = lines.next_if(|line| line.starts_with("extra ")).map(|line| {
            let extra = line.strip_prefix("extra ").and_then(bytes);
            let extra = extra.filter(|extra| extra.len() <= MAX_ENTRY_BYTES);
            extra.ok_or(TrailError::NotAProof("no entry where it should be"))
        });
        let entry = entry.transpose()?;
        let index = lines.next().and_then(|line| decimal(line.strip_prefix("index ")?));
        let index = index.ok_or(TrailError::NotAProof("no number of an entry"))?;
        let path = lines.map(hash).collect::<Option<Vec<_>>>().filter(|path| path.len() <= MAX_PATH);
        let path = path.ok_or(TrailError::NotAProof("no hashes where they should be"))?;
        Ok(Self { index, path, checkpoint: checkpoint.parse()?, entry })
    }
}
