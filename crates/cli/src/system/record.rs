//! What an installation for the whole machine wrote, and what was there before: by it everything is taken back to the byte.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Written {
    pub(super) path: PathBuf,
    /// The client that it is for, if it is for one.
    pub(super) client: Option<String>,
    /// What it held before; `None` where it was not there.
    pub(super) before: Option<String>,
    /// What was written.
    pub(super) after: String,
}

/// Everything that was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) files: Vec<Written>,
    /// Folders that were made, the outer ones first.
    pub(super) folders: Vec<PathBuf>,
}

impl Record {
    /// Reads a record; an empty one where there is none.
    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        let Some(text) = read(path)? else { return Ok(Self::default()) };
        serde_json::from_str(&text).map_err(|_| {
            Error::Failed(format!(
                "`{}` is damaged, so what was there before an installation is not known",
                path.display()
            ))
        })
    }

    pub(super) fn of(&self, path: &Path) -> Option<&Written> {
        self.files.iter().find(|written| written.path == path)
    }

    pub(super) fn put(&mut self, written: Written) {
        self.files.retain(|known| known.path != written.path);
        self.files.push(written);
    }
}

/// A failure that names the file.
pub(super) fn failed(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::File { path, what, source }
}

/// The text of a file; `None` where it is not there. A link is none of ours to follow.
pub(super) fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path, "looked at")(error)),
        Ok(found) if !found.is_file() => {
            Err(Error::Failed(format!("`{}` is there and is no plain file; move it away", path.display())))
        }
        Ok(_) => fs::read_to_string(path).map(Some).map_err(failed(path, "read")),
    }
}

/// Makes the folders above a file, for everybody to read, and tells which were made.
pub(super) fn folders_above(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let above = path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    let mut missing: Vec<_> = above.take_while(|folder| !folder.exists()).map(Path::to_path_buf).collect();
    missing.reverse();
    for folder in &missing {
        fs::create_dir(folder).map_err(failed(folder, "made"))?;
        fs::set_permissions(folder, Permissions::from_mode(0o755)).map_err(failed(folder, "opened"))?;
    }
    Ok(missing)
}

/// Writes a file whole or not at all: with the mode it had, or else this one.
pub(super) fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Error> {
    let mode = fs::symlink_metadata(path).map_or(mode, |found| found.mode() & 0o777 & !0o022);
    let mut draft = path.as_os_str().to_owned();
    draft.push(".backstop-draft");
    let draft = PathBuf::from(draft);
    let _ = fs::remove_file(&draft);
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(bytes)?;
        file.set_permissions(Permissions::from_mode(mode))?;
        file.sync_all()?;
        fs::rename(&draft, path)
    };
    write().map_err(failed(path, "written"))
}

/// What of a path, or of a folder above it, somebody else than root could change.
pub(super) fn weakness(path: &Path) -> Option<String> {
    path.ancestors().find_map(|place| {
        let found = match fs::symlink_metadata(place) {
            Ok(found) if found.is_symlink() => fs::metadata(place).ok()?,
            Ok(found) => found,
            Err(_) => return None,
        };
        let shown = place.display();
        if found.uid() != 0 {
            Some(format!("`{shown}` is not root's"))
        } else if found.mode() & 0o022 != 0 && (found.is_file() || found.mode() & 0o1000 == 0) {
            Some(format!("others than root may write `{shown}`"))
        } else {
            None
        }
    })
}
