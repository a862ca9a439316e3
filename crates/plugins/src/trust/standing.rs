//! At which points a plugin's code had hooks when it was loaded, for a plugin whose manifest does not say it: so that a process that fires
//! one event need not load the plugins that have no hook there.
//!
//! What code registers may depend on what it is given. So the points are noted for exactly that ([`LoadKey`]): its content, its options, the
//! workspace, and the version of Backstop. With anything else it is loaded, wherever its hooks may be. Points are noted only for scripts that
//! run in this process without any grant: a file that is not there or a server that does not answer when the points are noted would otherwise
//! have a gate skipped from then on. The law: *what is skipped has no hook there*. A load whose code has a hook at a point that was not noted
//! is an error, since a process may have skipped that hook.
//!
//! The notes lie beside the list of what is trusted: whoever can write the one can write the other. What can't be read is as if it was not
//! there, and trusting a plugin anew forgets its notes.
//!
//! Limits: the latest [`MOST_NOTES`] of a plugin. Code that chooses its hooks by the clock or by chance has them where it had them first.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use backstop_hooks::PointId;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::Installed;
use crate::manifest::PluginId;
use crate::package::{ContentHash, read_json, write_json};

/// The folder of the notes.
const POINTS: &str = "points";
/// Most notes of one plugin: workspaces, and configurations.
const MOST_NOTES: usize = 16;
/// Most bytes of them.
const MOST_BYTES: u64 = 1 << 20;
const FORM: u32 = 1;

/// The digest of everything that a plugin's code is loaded with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoadKey(ContentHash);

impl LoadKey {
    /// The key of these parts. Their order counts, and where one ends and the next begins.
    pub(crate) fn of<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut digest = Sha256::new_with_prefix(b"backstop-points-2\0");
        for part in [env!("CARGO_PKG_VERSION")].into_iter().chain(parts) {
            digest.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            digest.update(part.as_bytes());
        }
        Self(ContentHash::from_digest(digest.finalize().into()))
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Notes {
    form: u32,
    /// The latest first.
    notes: Vec<Note>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    key: ContentHash,
    points: BTreeSet<PointId>,
}

/// Where the notes of a plugin are.
pub(super) fn path(store: &Path, id: &PluginId) -> PathBuf {
    store.join(POINTS).join(format!("{id}.json"))
}

impl Installed {
    /// Whether it may have a hook at one of these points when it is loaded with what `key` stands for. A plugin of which nothing is known may
    /// have one anywhere.
    pub(crate) fn may_stand_at(&self, points: &[PointId], key: Option<LoadKey>) -> bool {
        match &self.record.points {
            Some(known) => known.iter().any(|point| points.contains(point)),
            None => (key.and_then(|key| self.noted(key)))
                .is_none_or(|known| known.iter().any(|point| points.contains(point))),
        }
    }

    /// Notes the points at which its code has hooks, the first time that it is loaded with what `key` stands for.
    ///
    /// # Errors
    ///
    /// The points at which it has hooks now and had none when that was noted.
    pub(crate) fn note_points(&self, points: BTreeSet<PointId>, key: LoadKey) -> Result<(), Vec<PointId>> {
        if !self.is_of_list() {
            return Ok(());
        }
        if let Some(known) = self.noted(key) {
            let others: Vec<PointId> = points.difference(&known).copied().collect();
            return if others.is_empty() { Ok(()) } else { Err(others) };
        }
        let mut all = self.notes();
        all.form = FORM;
        all.notes.insert(0, Note { key: key.0, points });
        all.notes.truncate(MOST_NOTES);
        write_json(&path(&self.store, &self.id), &all, MOST_BYTES);
        Ok(())
    }

    fn notes(&self) -> Notes {
        let notes = read_json::<Notes>(&path(&self.store, &self.id), MOST_BYTES);
        notes.filter(|notes| notes.form == FORM).unwrap_or_default()
    }

    fn noted(&self, key: LoadKey) -> Option<BTreeSet<PointId>> {
        if !self.is_of_list() {
            return None;
        }
        self.notes().notes.into_iter().find(|note| note.key == key.0).map(|note| note.points)
    }
}
