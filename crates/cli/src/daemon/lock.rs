//! Who listens: a lock on a file beside the socket, which the system takes back when its owner dies.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::ListenError;

/// How often a lock is tried that its last owner removes at that very moment.
const TRIES: usize = 16;

/// The right to listen at a socket.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    /// Held, never used: the lock ends with it.
    _file: File,
}

impl Lock {
    /// Takes the lock of `socket` and clears what a daemon left behind that did not come to its end. The folder is
    /// made if it is missing, for the user alone.
    pub(super) fn take(socket: &Path) -> Result<Self, ListenError> {
        let place = || socket.display().to_string();
        let failed = |source: io::Error| ListenError::Io { socket: place(), source };
        let folder = socket.parent().ok_or_else(|| ListenError::NotPrivate(place()))?;
        private_folder(folder)?;
        let path = socket.with_extension("lock");
        let lock = (0..TRIES).find_map(|_| held(&path).transpose());
        let file = match lock {
            Some(Ok(file)) => file,
            Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(ListenError::Taken(place()));
            }
            Some(Err(error)) => return Err(failed(error)),
            None => return Err(ListenError::Taken(place())),
        };
        match fs::symlink_metadata(socket) {
            Ok(found) if found.file_type().is_socket() => fs::remove_file(socket).map_err(failed)?,
            Ok(_) => return Err(ListenError::Occupied(place())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        Ok(Self { path, _file: file })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Whoever waits for it sees that the file is another one now.
        let _ = fs::remove_file(&self.path);
    }
}

/// The lock file, locked; `None` when it was replaced between opening and locking.
fn held(path: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    let (ours, there) = (file.metadata()?, fs::symlink_metadata(path));
    let same = there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino()));
    Ok(same.then_some(file))
}

/// Makes sure that a folder is there and the user's alone.
pub(crate) fn private_folder(folder: &Path) -> Result<(), ListenError> {
    let place = || folder.display().to_string();
    let failed = |source: io::Error| ListenError::Io { socket: place(), source };
    if !folder.exists() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    }
    let found = fs::symlink_metadata(folder).map_err(failed)?;
    let ours = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if ours && found.mode() & 0o077 == 0 { Ok(()) } else { Err(ListenError::NotPrivate(place())) }
}
