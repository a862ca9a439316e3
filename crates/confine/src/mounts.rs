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
use std::path::{Path, PathBuf};

use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_bind_recursive, mount_change, mount_remount,
};
use rustix::process::{getegid, geteuid};
use rustix::thread::{CapabilitySet, UnshareFlags, remove_capability_from_bounding_set, set_no_new_privs};

use crate::network::raise_loopback;
use crate::walls::{Standing, Wall};

/// The rights of root that change only what root may do with its own files and processes, which the walls are around. INVARIANT (what is harmless is listed): with any other one, such
/// as `CAP_SYS_ADMIN`, a wall could be taken down or reached around. `CAP_PERFMON` reads the environment of every process since Linux 6.13
/// (`may_access_mm` in kernel/fork.c), `CAP_NET_RAW` what passes on the loopback, and with `CAP_NET_ADMIN` a port is somebody else's.
const HARMLESS_FOR_ROOT: [CapabilitySet; 14] = [
    CapabilitySet::CHOWN,
    CapabilitySet::DAC_OVERRIDE,
    CapabilitySet::FOWNER,
    CapabilitySet::FSETID,
    CapabilitySet::KILL,
    CapabilitySet::SETGID,
    CapabilitySet::SETUID,
    CapabilitySet::SETPCAP,
    CapabilitySet::NET_BIND_SERVICE,
    CapabilitySet::IPC_LOCK,
    CapabilitySet::SYS_CHROOT,
    CapabilitySet::SYS_NICE,
    CapabilitySet::AUDIT_WRITE,
    CapabilitySet::SETFCAP,
];

/// Why the walls could not be built.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub(crate) struct MountError {
    what: String,
    source: io::Error,
}

fn failed<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> MountError {
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
        for point in
            mount_points()?.iter().filter(|point| !writable.iter().any(|open| point.starts_with(open)))
        {
            match read_only(point) {
                Err(error) if is_out_of_reach(&error.source) => {}
                done => done?,
            }
        }
    }
    for (wall, path) in standing.outermost_first() {
        build(wall, path)?;
    }
    // The working directory is still the one of the old view.
    std::env::set_current_dir(&here).map_err(failed("the working directory"))?;
    let rights = CapabilitySet::all().iter_names().map(|(_, right)| right);
    for capability in rights.filter(|right| !HARMLESS_FOR_ROOT.contains(right)) {
        match remove_capability_from_bounding_set(capability) {
            // An older kernel does not know all of them.
            Ok(()) | Err(Errno::INVAL) => {}
            // Root of a container may keep none of them.
            Err(Errno::PERM) if !geteuid().is_root() => {}
            Err(error) => return Err(failed("dropping rights of root")(error)),
        }
    }
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
            for point in mount_points()?.iter().filter(|point| point.starts_with(path)) {
                read_only(point)?;
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

fn on_itself(path: &Path) -> Result<(), MountError> {
    mount_bind_recursive(path, path).map_err(failed(path.display().to_string()))
}

/// What else is set for a mount stays: outside of their namespace, users can't take it away.
fn read_only(point: &Path) -> Result<(), MountError> {
    let what = || point.display().to_string();
    let found = statvfs(point).map_err(failed(what()))?.f_flag;
    let kept = [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ];
    let kept = kept.into_iter().filter(|(flag, _)| found.contains(*flag)).map(|(_, flag)| flag);
    let flags = kept.fold(MountFlags::BIND | MountFlags::RDONLY, |flags, flag| flags | flag);
    mount_remount(point, flags, "").map_err(failed(what()))
}

fn is_out_of_reach(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory
    ) && error.raw_os_error() != Some(Errno::PERM.raw_os_error())
}

/// Whether this user could rename a folder. One of which it can't be told is mounted on itself for safety.
fn can_be_moved(folder: &Path) -> bool {
    folder.parent().is_some_and(|parent| access(parent, Access::WRITE_OK) != Err(Errno::ACCESS))
}

/// Where something is mounted, in the order of mounting.
fn mount_points() -> Result<Vec<PathBuf>, MountError> {
    let table = fs::read("/proc/self/mountinfo").map_err(failed("/proc/self/mountinfo"))?;
    Ok(table.split(|byte| *byte == b'\n').filter_map(mount_point).collect())
}

/// The fifth field of a line of `mountinfo`(5), in which blanks and backslashes stand as three octal digits.
fn mount_point(line: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt as _;
    let field = line.split(|byte| *byte == b' ').nth(4)?;
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        let octal = (*byte == b'\\').then(|| after.get(..3)).flatten();
        let code = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        path.push(code.unwrap_or(*byte));
        if code.is_some() {
            rest = after.get(3..).unwrap_or_default();
        }
    }
    Some(PathBuf::from(std::ffi::OsString::from_vec(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read_with_their_escapes() {
        let line = br"36 35 98:0 /mnt1 /home/a\040b\134c rw,noatime master:1 - ext3 /dev/root rw";
        assert_eq!(mount_point(line), Some(PathBuf::from(r"/home/a b\c")));
        assert_eq!(mount_point(b""), None);
    }
}
