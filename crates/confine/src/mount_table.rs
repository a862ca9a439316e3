//! Where something is mounted, as the kernel tells it, and what is to be changed there.
//!
//! Nothing is asked of the file systems themselves: one of a server that does not answer would hold up every start.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_remount};

use crate::mounts::{MountError, failed};

/// What is mounted somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mounted {
    /// The kind of the file system, as `/proc/filesystems` names it.
    pub(crate) kind: String,
    /// Whether it has no disk of its own: it shows what the kernel or another machine has.
    pub(crate) is_virtual: bool,
    /// Whether all of it is there, and not a part of it.
    pub(crate) is_whole: bool,
    flags: MountFlags,
}

/// Returns what can be met at each place where something is mounted: what was mounted there last.
pub(crate) fn mount_table() -> Result<BTreeMap<PathBuf, Mounted>, MountError> {
    let table = fs::read("/proc/self/mountinfo").map_err(failed("/proc/self/mountinfo"))?;
    Ok(table.split(|byte| *byte == b'\n').filter_map(mounted).collect())
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
        // Nothing is mounted at what has this name now: something else is mounted above it.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(error) => Err(failed(point.display().to_string())(error)),
    }
}

/// Returns whether an error says that this user can't get there at all.
pub(crate) fn is_out_of_reach(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory
    ) && error.raw_os_error() != Some(Errno::PERM.raw_os_error())
}

/// A line of `mountinfo`(5): number, parent, device, root, place, options, optional fields, a hyphen, kind.
fn mounted(line: &[u8]) -> Option<(PathBuf, Mounted)> {
    let mut fields = line.split(|byte| *byte == b' ').skip(2);
    let device = std::str::from_utf8(fields.next()?).ok()?;
    let is_whole = fields.next()? == b"/";
    let place = unescaped(fields.next()?);
    let flags = std::str::from_utf8(fields.next()?).ok()?.split(',').filter_map(flag).collect();
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    let kind = String::from_utf8_lossy(kind).into_owned();
    Some((place, Mounted { kind, is_virtual: device.starts_with("0:"), is_whole, flags }))
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
        let expected = Mounted { kind: "ext3".to_owned(), is_virtual: false, is_whole: false, flags };
        assert_eq!(mounted(line), Some((PathBuf::from(r"/home/a b\c"), expected)));
        let line = b"22 27 0:21 / /proc rw,relatime - proc proc rw";
        let expected = Mounted {
            kind: "proc".to_owned(),
            is_virtual: true,
            is_whole: true,
            flags: MountFlags::RELATIME,
        };
        assert_eq!(mounted(line), Some((PathBuf::from("/proc"), expected)));
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
