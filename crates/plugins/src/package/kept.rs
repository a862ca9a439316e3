//! What an earlier look saw of a plugin's files, so that a process that lives for one event need not read all of them again.
//!
//! The law is that of the seal: *what was looked at is what runs*. The digest of the whole is made anew each time, from the digest of every
//! file that is there now. A file's digest is taken from an earlier look only where the system says that the file is untouched since
//! (length, device, number, times), and was for a while by then. Whatever of a script runs is held against that digest when it is read.
//!
//! It lies beside the list of what is trusted: whoever can write the one can write the other. What is not exactly as it was written here is
//! as if it was not there, and every file is read.
//!
//! Limits: [`MOST_BYTES`]; plugins with more are read each time, and so are all where a system does not tell what a file is.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{ContentHash, Entry, Stamp, open_itself};

/// Most bytes of what is kept of one plugin.
const MOST_BYTES: u64 = 32 << 20;
const FORM: u32 = 1;

/// The digests of a plugin's files, with what the system said of them.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    form: u32,
    files: BTreeMap<String, File>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    digest: ContentHash,
    stamp: Stamp,
}

impl Kept {
    /// What was kept there; nothing where there is nothing that was.
    pub(super) fn read(path: &Path) -> Self {
        read_json::<Self>(path, MOST_BYTES).filter(|kept| kept.form == FORM).unwrap_or_default()
    }

    /// The digest of a file that is untouched since it was read.
    pub(super) fn digest(&self, name: &str, entry: &Entry) -> Option<[u8; 32]> {
        let Entry::File { stamp: Some(now), .. } = entry else { return None };
        self.files.get(name).filter(|file| file.stamp == *now).map(|file| file.digest.0)
    }

    /// What is to be kept of a look: those files of which a change since would show.
    pub(super) fn of<'a>(files: impl Iterator<Item = (&'a String, &'a Stamp, &'a [u8; 32])>) -> Self {
        let keep = |(name, stamp, digest): (&String, &Stamp, &[u8; 32])| {
            (name.clone(), File { digest: ContentHash(*digest), stamp: *stamp })
        };
        Self { form: FORM, files: files.map(keep).collect() }
    }

    /// Whether another says the same.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.files == other.files
    }

    /// Writes it, whole or not at all. Where that fails, the next look reads every file.
    pub(super) fn write(&self, path: &Path) {
        write_json(path, self, MOST_BYTES);
    }
}

/// What was written there by [`write_json`]; `None` for a link, for more than `most` bytes, and for what can't be read.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path, most: u64) -> Option<T> {
    let file = open_itself(path).ok()?;
    let found = file.metadata().ok()?;
    if !found.is_file() || found.len() > most {
        return None;
    }
    let mut text = Vec::new();
    file.take(most).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Writes what may as well not be there, whole or not at all. More than `most` bytes are not written.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T, most: u64) {
    let Some(folder) = path.parent() else { return };
    let Ok(text) = serde_json::to_vec(value) else { return };
    if u64::try_from(text.len()).is_ok_and(|length| length <= most) {
        let next = folder.join(format!("{}.next", uuid::Uuid::new_v4().simple()));
        let written = fs::create_dir_all(folder)
            .and_then(|()| super::write_file(&next, &text, false))
            .and_then(|()| fs::rename(&next, path));
        if written.is_err() {
            // It may not even be there.
            let _ = fs::remove_file(&next);
        }
    }
}
