//! Whether a file may act as the operator's file.
//!
//! The operator's file can set everything, so whoever can choose or write it is the operator. A file counts only if
//! it lies where a workspace can't reach it, if it is reached without `/proc` (whose links lead wherever the reading
//! process happens to be), and if it belongs to the user or to root, who alone may write the file, its folder and the
//! folders of links that lead to it. Anything else is treated as an attack and refused, never skipped: without the file the
//! built-in defaults would apply, which may be looser.
//!
//! Limits: a process of the same account can still write the file. Its digest shows
//! whether it was written since a person looked at it, see `backstop config pin`.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::account;
use crate::discover::{Locations, shown, unreadable};
use crate::problem::Problem;

const BY_GROUP: u32 = 0o020;
const BY_OTHERS: u32 = 0o002;
/// So many links lead to a file at most; kernels follow no more.
const MOST_LINKS: usize = 40;

/// Why a file is not accepted as the operator's, or can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Untrusted {
    /// Why not, as the end of a sentence about the file.
    pub why: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Untrusted {
    fn refused(why: &str, hint: &str) -> Self {
        let why = format!("{why}, so it is not taken for the operator's");
        Self { why, hint: Some(hint.to_owned()) }
    }
}

impl From<io::Error> for Untrusted {
    fn from(error: io::Error) -> Self {
        Self { why: error.to_string(), hint: None }
    }
}

/// Opens the operator's file in the user's configuration folder.
pub(crate) fn open(path: &Path, locations: &Locations) -> Result<File, Problem> {
    open_operators(path, locations).map_err(|Untrusted { why, hint }| {
        let problem = unreadable(path, &why);
        match hint {
            Some(hint) => problem.with_hint(hint),
            None => problem,
        }
    })
}

/// Opens an operator's file, if nobody else can have written it.
///
/// # Errors
///
/// [`Untrusted`] if somebody else may have, or if it can't be opened.
pub fn open_operators(path: &Path, locations: &Locations) -> Result<File, Untrusted> {
    open_with_place(path, locations).map(|(file, _)| file)
}

/// Opens an operator's file, and returns where it is when all links are followed.
///
/// # Errors
///
/// Those of [`open_operators`].
pub fn open_with_place(path: &Path, locations: &Locations) -> Result<(File, PathBuf), Untrusted> {
    let file = open_without_magic(path).map_err(|error| match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => {
            let why = "it is reached through a loop of links, or through `/proc`, where the process that reads chooses the file";
            Untrusted::refused(why, "set `XDG_CONFIG_HOME` and its folders to a fixed place")
        }
        _ => error.into(),
    })?;
    let place = fs::canonicalize(path)?;
    outside(&place, locations)?;
    owned(path, &file.metadata()?)?;
    reached(path, locations)?;
    Ok((file, place))
}

/// Opens a file that the operator's file names, wherever it is, if nobody else may write it. A pipe is not waited for: it is no file.
///
/// # Errors
///
/// [`Untrusted`] if somebody else owns it or may write it, or if it can't be opened as a file.
pub fn open_owned(path: &Path) -> Result<File, Untrusted> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from)?);
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file").into());
    }
    owned(path, &found)?;
    Ok(file)
}

/// Returns the place, with all links followed, of a folder in which nobody but the operator can put anything.
///
/// # Errors
///
/// [`Untrusted`] if somebody else can, or if there is no such folder.
pub fn operators_folder(path: &Path, locations: &Locations) -> Result<PathBuf, Untrusted> {
    outside(&std::path::absolute(path)?, locations)?;
    let place = fs::canonicalize(path)?;
    outside(&place, locations)?;
    let met = fs::metadata(&place)?;
    if !met.is_dir() {
        return Err(io::Error::from(io::ErrorKind::NotADirectory).into());
    }
    owned(path, &met)?;
    Ok(place)
}

/// Checks the folder of a file, and of each link by which it is reached: whoever writes one of them chooses the file.
fn reached(path: &Path, locations: &Locations) -> Result<(), Untrusted> {
    let mut path = std::path::absolute(path)?;
    for _ in 0..MOST_LINKS {
        let Some(folder) = path.parent() else { return Ok(()) };
        let folder = operators_folder(folder, locations)?;
        match fs::read_link(&path) {
            Ok(target) => path = folder.join(target),
            // The kernel has opened it, so it is there, and no link.
            Err(_) => return Ok(()),
        }
    }
    Err(Untrusted::refused("it is reached through too many links", "name the file itself"))
}

fn outside(place: &Path, locations: &Locations) -> Result<(), Untrusted> {
    let Some(workspace) = workspace_around(place, locations) else { return Ok(()) };
    let why = format!("it lies in the workspace `{}`, where the agent works", shown(&workspace));
    Err(Untrusted::refused(&why, "move it out of there"))
}

/// Returns the workspace that holds `place`, if one does. A folder that holds the user's home is none that was cloned.
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

fn owned(path: &Path, found: &Metadata) -> Result<(), Untrusted> {
    let us = rustix::process::geteuid().as_raw();
    if found.uid() != us && found.uid() != 0 {
        let why = format!("`{}` belongs to another user", shown(path));
        return Err(Untrusted::refused(&why, "give it to yourself by `chown`"));
    }
    let by_group = found.mode() & BY_GROUP != 0 && !account::is_own_group(found.gid());
    if found.mode() & BY_OTHERS != 0 || by_group {
        let why = format!("other users may write `{}`", shown(path));
        return Err(Untrusted::refused(&why, &format!("chmod go-w {}", shown(path))));
    }
    Ok(())
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
