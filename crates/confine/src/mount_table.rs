//! Where something is mounted, as the kernel tells it, and what is to be changed there.
//!
//! Nothing is asked of the file systems themselves: one of a server that does not answer would hold up every start.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_remount};

use crate::mounts::{MountError, failed};

const TABLE: &str = "/proc/self/mountinfo";

/// What is mounted somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mounted {
    /// The kind of the file system, as `/proc/filesystems` names it.
    pub(crate) kind: String,
    /// The number of its device, as text: `major:minor`.
    device: String,
    /// What of it is there.
    root: PathBuf,
    flags: MountFlags,
}

impl Mounted {
    /// Returns whether it has no disk of its own: it shows what the kernel or another machine has.
    pub(crate) fn is_virtual(&self) -> bool {
        self.device.starts_with("0:")
    }

    /// Returns whether all of it is there, and not a part of it.
    pub(crate) fn is_whole(&self) -> bool {
        self.root == Path::new("/")
    }
}

/// Returns what can be met at each place where something is mounted: what was mounted there last.
pub(crate) fn mount_table() -> Result<BTreeMap<PathBuf, Mounted>, MountError> {
    read().map_err(failed(TABLE))
}

fn read() -> io::Result<BTreeMap<PathBuf, Mounted>> {
    Ok(fs::read(TABLE)?.split(|byte| *byte == b'\n').filter_map(mounted).collect())
}

/// Returns under which other names what is at `paths` can be met, and what is mounted elsewhere of what lies in them: a file system may be mounted more than once.
///
/// # Errors
///
/// If it can't be said. Where there is no view of the processes at all, there is nothing to be found.
pub(crate) fn other_names(paths: &BTreeSet<PathBuf>) -> io::Result<BTreeSet<PathBuf>> {
    let table = match read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        table => table?,
    };
    Ok(paths.iter().flat_map(|path| names_of(path, &table)).filter(|name| !paths.contains(name)).collect())
}

fn names_of(path: &Path, table: &BTreeMap<PathBuf, Mounted>) -> Vec<PathBuf> {
    let device = device_of(path);
    let around = table.iter().filter(|(point, _)| path.starts_with(point));
    // The innermost, unless something else is mounted over it. Parts of a file system may have numbers of their own.
    let key = |point: &Path| (device_of(point) == device, point.components().count());
    let Some((point, its)) = around.max_by_key(|(point, _)| key(point)) else { return Vec::new() };
    let within = path.strip_prefix(point).map_or_else(|_| its.root.clone(), |rest| its.root.join(rest));
    let same = table.iter().filter(|(_, other)| other.device == its.device && other.kind == its.kind);
    let names = same.filter_map(|(point, other)| {
        let (name, here) = match within.strip_prefix(&other.root) {
            Ok(rest) => (point.join(rest), path.to_path_buf()),
            Err(_) => (point.clone(), path.join(other.root.strip_prefix(&within).ok()?)),
        };
        // Something else may be mounted over it.
        is_same(&name, &here).then_some(name)
    });
    names.collect()
}

fn device_of(path: &Path) -> Option<u64> {
    path.symlink_metadata().map(|met| met.dev()).ok()
}

fn is_same(one: &Path, other: &Path) -> bool {
    let of = |path: &Path| path.symlink_metadata().map(|met| (met.dev(), met.ino())).ok();
    of(one).is_some_and(|one| Some(one) == of(other))
}

/// Adds `more` to what is set for the mount at `point`, where it can be met.
///
/// What else is set for it stays: outside of their namespace, users can't take it away.
pub(crate) fn add_flags(point: &Path, mounted: &Mounted, more: MountFlags) -> Result<(), MountError> {
    // In a view of one's own nothing is ever mounted there, and to look would wait for who mounts it elsewhere.
    if mounted.kind == "autofs" || mounted.flags.contains(more) {
        return Ok(());
    }
    match mount_remount(point, MountFlags::BIND | mounted.flags | more, "") {
        // Nothing is mounted at what has this name now, since something else is mounted above it, or this user can't get there.
        Ok(()) | Err(Errno::INVAL | Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => Ok(()),
        Err(error) => Err(failed(point.display().to_string())(error)),
    }
}

/// A line of `mountinfo`(5): number, parent, device, root, place, options, optional fields, a hyphen, kind.
fn mounted(line: &[u8]) -> Option<(PathBuf, Mounted)> {
    let mut fields = line.split(|byte| *byte == b' ').skip(2);
    let device = std::str::from_utf8(fields.next()?).ok()?.to_owned();
    let root = unescaped(fields.next()?);
    let place = unescaped(fields.next()?);
    let flags = std::str::from_utf8(fields.next()?).ok()?.split(',').filter_map(flag).collect();
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    let kind = String::from_utf8_lossy(kind).into_owned();
    Some((place, Mounted { kind, device, root, flags }))
}

fn flag(option: &str) -> Option<MountFlags> {
    Some(match option {
        "ro" => MountFlags::RDONLY,
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        "noexec" => MountFlags::NOEXEC,
        "noatime" => MountFlags::NOATIME,
        "nodiratime" => MountFlags::NODIRATIME,
        "relatime" => MountFlags::RELATIME,
        "nosymfollow" => MountFlags::NOSYMFOLLOW,
        _ => return None,
    })
}

/// Blanks and backslashes stand as three octal digits.
fn unescaped(field: &[u8]) -> PathBuf {
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
    PathBuf::from(OsString::from_vec(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_with_its_escapes_and_options() {
        let line =
            br"36 35 98:0 /mnt1 /home/a\040b\134c ro,nodev,noatime master:1 shared:7 - ext3 /dev/root rw";
        let flags = MountFlags::RDONLY | MountFlags::NODEV | MountFlags::NOATIME;
        let (point, found) = mounted(line).unwrap();
        assert_eq!((point.as_path(), found.root.as_path()), (Path::new(r"/home/a b\c"), Path::new("/mnt1")));
        assert_eq!((found.kind.as_str(), found.flags), ("ext3", flags));
        assert!(!found.is_virtual() && !found.is_whole());
        let (point, found) = mounted(b"22 27 0:21 / /proc rw,relatime - proc proc rw").unwrap();
        assert_eq!((point.as_path(), found.flags), (Path::new("/proc"), MountFlags::RELATIME));
        assert!(found.is_virtual() && found.is_whole());
        assert_eq!(mounted(b""), None);
    }

    #[test]
    fn what_was_mounted_last_is_what_is_met() {
        let lines: [&[u8]; 2] = [
            b"26 24 0:24 / /dev/pts rw,relatime - devpts devpts rw",
            b"29 26 0:25 / /dev/pts rw,nosuid - tmpfs tmpfs rw",
        ];
        let table: BTreeMap<PathBuf, Mounted> = lines.into_iter().filter_map(mounted).collect();
        let kinds: Vec<&str> = table.values().map(|mounted| mounted.kind.as_str()).collect();
        assert_eq!(kinds, ["tmpfs"]);
    }
}
