//! Whether a file may speak as the operator's.
//!
//! The operator's file says everything, so whoever can choose or write it is the operator. A file counts only when
//! it lies where a workspace can't reach it, is reached without `/proc` (whose links lead wherever the reading process
//! happens to be), and belongs to the user or to root, who alone may write it and its folder. Anything else is taken
//! for an attack and refused, never passed over: without the file the built-in defaults would hold, which may
//! be looser.
//!
//! Limits: a process of the same account can write the file all the same. Whether it was written since a person looked
//! at it is said by its digest, see `backstop config pin`.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::account;
use crate::discover::{Locations, shown, unreadable};
use crate::problem::Problem;

const BY_GROUP: u32 = 0o020;
const BY_OTHERS: u32 = 0o002;

/// Opens the operator's file in the user's configuration folder.
pub(crate) fn open(path: &Path, locations: &Locations) -> Result<File, Problem> {
    let file = open_without_magic(path).map_err(|error| match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => {
            let why = "it is reached through a loop of links, or through `/proc`, where the process that reads chooses the file";
            refused(path, why, "set `XDG_CONFIG_HOME` and its folders to a fixed place")
        }
        _ => unreadable(path, &error.to_string()),
    })?;
    let fail = |error: io::Error| unreadable(path, &error.to_string());
    let place = fs::canonicalize(path).map_err(fail)?;
    if let Some(workspace) = workspace_around(&place, locations) {
        let why = format!("it lies in the workspace `{}`, where the agent works", shown(&workspace));
        return Err(refused(path, &why, "move it out of there"));
    }
    owned(path, &file.metadata().map_err(fail)?)?;
    if let Some(folder) = place.parent() {
        owned(folder, &fs::metadata(folder).map_err(fail)?)?;
    }
    Ok(file)
}

/// The workspace that holds `place`, if one does. A folder that holds the user's home is none that was cloned.
fn workspace_around(place: &Path, locations: &Locations) -> Option<PathBuf> {
    let here = fs::canonicalize(locations.working_directory.as_ref()?).ok()?;
    let root = here.ancestors().find(|folder| folder.join(".git").exists());
    let holds_home = |folder: &Path| locations.home.as_ref().is_some_and(|home| home.starts_with(folder));
    let workspaces = [Some(here.as_path()), root].into_iter().flatten();
    workspaces
        .filter(|folder| !holds_home(folder))
        .find(|folder| place.starts_with(folder))
        .map(Path::to_path_buf)
}

fn owned(path: &Path, found: &Metadata) -> Result<(), Problem> {
    let us = rustix::process::geteuid().as_raw();
    if found.uid() != us && found.uid() != 0 {
        let why = format!("`{}` belongs to another user", shown(path));
        return Err(refused(path, &why, "give it to yourself by `chown`"));
    }
    let by_group = found.mode() & BY_GROUP != 0 && !account::is_own_group(found.gid());
    if found.mode() & BY_OTHERS != 0 || by_group {
        let why = format!("other users may write `{}`", shown(path));
        return Err(refused(path, &why, &format!("chmod go-w {}", shown(path))));
    }
    Ok(())
}

fn refused(path: &Path, why: &str, hint: &str) -> Problem {
    unreadable(path, &format!("{why}, so it is not taken for the operator's")).with_hint(hint)
}

/// Opens a file, but not by a link of `/proc`.
#[cfg(target_os = "linux")]
fn open_without_magic(path: &Path) -> io::Result<File> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    use rustix::io::Errno;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS) {
        Ok(opened) => Ok(File::from(opened)),
        // A kernel or a sandbox without the call: the path itself still says most of it.
        Err(Errno::NOSYS | Errno::PERM) if !path.starts_with("/proc") => File::open(path),
        Err(Errno::NOSYS | Errno::PERM) => Err(Errno::LOOP.into()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn open_without_magic(path: &Path) -> io::Result<File> {
    File::open(path)
}
