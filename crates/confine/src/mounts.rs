//! The mount tier: a view of the disk for this process and what it starts, in which walls are laid over everything.
//!
//! A user who is not root gets a user namespace for it, in which the mounts are made; the rights to undo them are gone as
//! soon as the program runs, and who makes a namespace of their own inside can't take single mounts away there. Processes
//! outside, and what their `/proc` shows of the disk, are out of reach for the same reason.
//!
//! A folder above a wall is mounted on itself: what something is mounted on can't be renamed, so that no protected
//! folder is moved away for another one to take its place.
//!
//! Bubblewrap does the like. It keeps a process of its own around the program, which dies of the first Ctrl-C and takes
//! the program's exit code with it; here the process that was started is the one that becomes the program.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_bind_recursive, mount_change,
};
use rustix::process::{getegid, geteuid};
use rustix::thread::{UnshareFlags, set_no_new_privs};

use crate::mount_table::{add_flags, mount_table};
use crate::network::raise_loopback;
use crate::root::{close_devices_and_settings, drop_rights};
use crate::walls::{Standing, Wall};

/// Why the walls could not be built.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub(crate) struct MountError {
    what: String,
    source: io::Error,
}

pub(crate) fn failed<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> MountError {
    move |source| MountError { what: what.into(), source: source.into() }
}

/// Builds the walls around this process, which must have one thread only. Its network is `own_network` where that is said: one
/// with nothing but a loopback.
pub(crate) fn enter(standing: &Standing, own_network: bool) -> Result<(), MountError> {
    let here = std::env::current_dir().map_err(failed("the working directory"))?;
    let network = if own_network { UnshareFlags::NEWNET } else { UnshareFlags::empty() };
    leave_common_view(network)?;
    if own_network {
        raise_loopback().map_err(failed("the loopback of a network of its own"))?;
    }
    close_devices_and_settings()?;
    for path in standing.writable.iter().flatten() {
        on_itself(path)?;
    }
    for folder in standing.above() {
        if standing.rights(folder).write && can_be_moved(folder) {
            match on_itself(folder) {
                // It was around a socket, which has gone with it. Whatever else was in it is missed when its wall is built.
                Err(_) if is_gone(folder) => {}
                done => done?,
            }
        }
    }
    if let Some(writable) = &standing.writable {
        let others = |point: &Path| !writable.iter().any(|open| point.starts_with(open));
        for (point, mounted) in mount_table()?.iter().filter(|(point, _)| others(point)) {
            add_flags(point, mounted, MountFlags::RDONLY)?;
        }
    }
    for (wall, path) in standing.outermost_first() {
        build(wall, path)?;
    }
    // The working directory is still the one of the old view.
    std::env::set_current_dir(&here).map_err(failed("the working directory"))?;
    drop_rights()?;
    set_no_new_privs(true).map_err(failed("giving up new rights"))
}

/// A view of the disk of its own, which nothing outside is told of, and what else is to be its own.
fn leave_common_view(more: UnshareFlags) -> Result<(), MountError> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let own = UnshareFlags::NEWNS | more;
    let alone = if user == 0 { unshare(own) } else { Err(Errno::PERM) };
    if alone.is_err() {
        unshare(own | UnshareFlags::NEWUSER).map_err(failed("a user namespace"))?;
        keep_own_name(user, group)?;
    }
    let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    mount_change("/", private).map_err(failed("mounts of its own"))
}

/// Gives the user and the group that this process had outside the same numbers in its own user namespace.
pub(crate) fn keep_own_name(user: u32, group: u32) -> Result<(), MountError> {
    let files = [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{user} {user} 1")),
        ("/proc/self/gid_map", format!("{group} {group} 1")),
    ];
    for (file, text) in files {
        fs::write(file, text).map_err(failed(file))?;
    }
    Ok(())
}

#[expect(
    deprecated,
    reason = "its successor is `unsafe` because of descriptor tables, which are not touched here"
)]
pub(crate) fn unshare(what: UnshareFlags) -> rustix::io::Result<()> {
    rustix::thread::unshare(what)
}

fn build(wall: Wall, path: &Path) -> Result<(), MountError> {
    let what = || path.display().to_string();
    match wall {
        Wall::ReadOnly => {
            on_itself(path)?;
            // What is mounted in there is protected as well.
            for (point, mounted) in mount_table()?.iter().filter(|(point, _)| point.starts_with(path)) {
                add_flags(point, mounted, MountFlags::RDONLY)?;
            }
            Ok(())
        }
        Wall::Closed => match build(Wall::Hidden, path) {
            Err(_) if is_gone(path) => Ok(()),
            done => done,
        },
        Wall::Hidden if path.is_dir() => {
            let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::RDONLY;
            mount("tmpfs", path, "tmpfs", flags, None).map_err(failed(what()))
        }
        Wall::Hidden => mount_bind("/dev/null", path).map_err(failed(what())),
    }
}

fn is_gone(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

pub(crate) fn on_itself(path: &Path) -> Result<(), MountError> {
    mount_bind_recursive(path, path).map_err(failed(path.display().to_string()))
}

/// Whether this user could rename a folder. One of which it can't be told is mounted on itself for safety.
fn can_be_moved(folder: &Path) -> bool {
    folder.parent().is_some_and(|parent| access(parent, Access::WRITE_OK) != Err(Errno::ACCESS))
}
