//! What a configuration was made of, as digests.
//!
//! The law: *what is digested is what was read*, not what a file holds later: whoever reads a file for a configuration notes its text here.
//!
//! Whoever sees one of the digests of texts and variables can try guesses of what is in them, a short password among it. So neither is printed, and
//! whoever writes them anywhere keys them first.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use backstop_hooks::Digest;

/// The role of the digest of a file.
const FILE: &str = "file";

/// What a configuration was made of. Clones share the files that are noted later.
#[derive(Clone, Default)]
pub struct Readings {
    texts: Vec<(String, Digest)>,
    variables: Option<Digest>,
    files: Arc<Mutex<BTreeMap<String, Digest>>>,
}

impl Readings {
    pub(crate) fn new(texts: Vec<(String, Digest)>, variables: Option<Digest>) -> Self {
        Self { texts, variables, files: Arc::default() }
    }

    /// Returns the digest of the text of each layer, by the name of its file.
    pub fn texts(&self) -> &[(String, Digest)] {
        &self.texts
    }

    /// Returns the digest of the variables of the environment that were looked up, and of what they held; `None` if there was none.
    pub const fn variables(&self) -> Option<Digest> {
        self.variables
    }

    pub(crate) fn of_text(text: &str) -> Digest {
        Digest::of_text(FILE, text)
    }

    /// Notes the text that was read of a file that the configuration names.
    pub fn note_file(&self, path: &Path, text: &str) {
        let digest = Self::of_text(text);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let noted = files.entry(path.to_string_lossy().into_owned()).or_insert(digest);
        // Read twice, with something else in between: neither alone is what was read.
        if *noted != digest {
            *noted = Digest::of("files", &[*noted, digest]);
        }
    }

    /// Returns the digest of each file that was noted, by its path: `H("file", text)`.
    pub fn files(&self) -> BTreeMap<String, Digest> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl PartialEq for Readings {
    fn eq(&self, other: &Self) -> bool {
        (&self.texts, self.variables) == (&other.texts, other.variables) && self.files() == other.files()
    }
}

impl fmt::Debug for Readings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readings").finish_non_exhaustive()
    }
}
