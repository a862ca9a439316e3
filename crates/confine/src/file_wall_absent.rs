//! Systems without Landlock.

use crate::walls::Standing;

/// Why the walls could not be built.
#[derive(Debug, thiserror::Error)]
#[error("this system has no Landlock")]
pub(crate) struct FileWallError;

pub(crate) fn walls_signals() -> bool {
    false
}

pub(crate) fn keep_signals_inside() -> Result<(), FileWallError> {
    Err(FileWallError)
}

pub(crate) fn keep_files_off(_: &Standing) -> Result<(), FileWallError> {
    Err(FileWallError)
}

pub(crate) fn keep_off_abstract_sockets() -> Result<(), FileWallError> {
    Err(FileWallError)
}
