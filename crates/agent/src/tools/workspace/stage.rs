//! Replacing a file as a whole.
//!
//! The new contents are written to a file beside the target, flushed to disk, and renamed over it. Until the
//! rename nothing has changed; a full disk or a crash leaves the old file. What was staged and not published
//! is removed, and so are the directories made for it.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use cap_std::fs::OpenOptions;

use super::{Located, Workspace, WorkspaceError};

/// New contents that wait beside their target.
#[derive(Debug)]
pub(in crate::tools) struct Staged {
    workspace: Workspace,
    at: Located,
    temporary: PathBuf,
    made: Vec<PathBuf>,
    published: bool,
}

impl Staged {
    pub(super) fn write(
        workspace: &Workspace,
        at: &Located,
        bytes: &[u8],
        like: &Located,
    ) -> Result<Self, WorkspaceError> {
        let dir = workspace.dir();
        let failed =
            |error| WorkspaceError::Io { action: "write", path: at.shown().to_owned(), source: error };
        match dir.symlink_metadata(at.relative()) {
            Ok(metadata) => at.require_file(&metadata)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        let mut staged = Self {
            workspace: workspace.clone(),
            at: at.clone(),
            temporary: beside(at.relative()),
            made: Vec::new(),
            published: false,
        };
        staged.make_parents().map_err(failed)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        let mut file = dir.open_with(&staged.temporary, &options).map_err(failed)?;
        file.write_all(bytes).map_err(failed)?;
        if let Ok(model) = dir.symlink_metadata(like.relative()) {
            file.set_permissions(model.permissions()).map_err(failed)?;
        }
        file.sync_all().map_err(failed)?;
        Ok(staged)
    }

    /// Puts the new contents in place.
    pub(in crate::tools) fn publish(mut self) -> Result<(), WorkspaceError> {
        let dir = self.workspace.dir();
        dir.rename(&self.temporary, dir, self.at.relative()).map_err(|error| WorkspaceError::Io {
            action: "replace",
            path: self.at.shown().to_owned(),
            source: error,
        })?;
        self.published = true;
        // The contents are safe already; what a crash could undo now is only the new name.
        if let Ok(parent) = dir.open(parent_of(self.at.relative())) {
            let _ = parent.sync_all();
        }
        Ok(())
    }

    fn make_parents(&mut self) -> io::Result<()> {
        let dir = self.workspace.dir();
        let mut missing = Vec::new();
        let mut parent = parent_of(self.at.relative());
        while parent != Path::new(".") && !dir.try_exists(parent)? {
            missing.push(parent.to_path_buf());
            parent = parent_of(parent);
        }
        while let Some(next) = missing.pop() {
            match dir.create_dir(&next) {
                Ok(()) => self.made.push(next),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if self.published {
            return;
        }
        let dir = self.workspace.dir();
        // Nothing more can be done about a temporary file that cannot be removed.
        let _ = dir.remove_file(&self.temporary);
        while let Some(made) = self.made.pop() {
            let _ = dir.remove_dir(made);
        }
    }
}

/// A file that was taken away and can be put back.
#[derive(Debug)]
pub(in crate::tools) struct SetAside {
    workspace: Workspace,
    at: Located,
    temporary: PathBuf,
}

impl SetAside {
    pub(super) fn take(workspace: &Workspace, at: &Located) -> Result<Self, WorkspaceError> {
        let temporary = beside(at.relative());
        let dir = workspace.dir();
        dir.rename(at.relative(), dir, &temporary).map_err(|source| WorkspaceError::Io {
            action: "delete",
            path: at.shown().to_owned(),
            source,
        })?;
        Ok(Self { workspace: workspace.clone(), at: at.clone(), temporary })
    }

    /// Puts the file back.
    pub(in crate::tools) fn restore(self) -> Result<(), WorkspaceError> {
        let dir = self.workspace.dir();
        dir.rename(&self.temporary, dir, self.at.relative()).map_err(|source| WorkspaceError::Io {
            action: "restore",
            path: self.at.shown().to_owned(),
            source,
        })
    }

    /// Deletes the file for good.
    pub(in crate::tools) fn discard(self) -> Result<(), WorkspaceError> {
        self.workspace.dir().remove_file(&self.temporary).map_err(|source| WorkspaceError::Io {
            action: "delete",
            path: self.at.shown().to_owned(),
            source,
        })
    }
}

fn parent_of(relative: &Path) -> &Path {
    match relative.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A name in the same directory that nobody else uses. It does not grow with the target's name, which may be as
/// long as names can be.
fn beside(relative: &Path) -> PathBuf {
    let mut name = OsString::from(".backstop-");
    name.push(uuid::Uuid::now_v7().simple().to_string());
    relative.with_file_name(name)
}
