//! Which sockets of other programs are there, so that all but those that are named can be taken away.
//!
//! The system lists those of this network that have a place on the disk; those of others (a container's, say) are looked for
//! where sockets are kept. A folder in which nothing but sockets lies is named whole, so that a service which starts again, or
//! another one in its place, is not there for a tree either.
//!
//! Limits: a socket that another program makes later is not among them, unless it does so in a folder that was named whole.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

/// The system's list, as unix(7) names it: a socket's path is the last field of its line.
const LIST: &str = "/proc/net/unix";
/// How deep it is looked below a folder in which sockets are kept.
const DEPTH: usize = 4;
/// The most names that are looked at. More than that is not looked through.
const MOST_NAMES: usize = 100_000;

/// The sockets of other programs that have a place on the disk, but for those that are `kept` or lie in something that is; and
/// folders with nothing else in them. `folders` are those in which sockets are kept.
///
/// # Errors
///
/// Where the system does not list them, or there is more to look through than is looked through.
pub fn others_sockets(folders: &[PathBuf], kept: &BTreeSet<PathBuf>) -> io::Result<BTreeSet<PathBuf>> {
    let mut found: BTreeSet<PathBuf> = listed(&fs::read(LIST)?).filter(|path| is_socket(path)).collect();
    let mut left = MOST_NAMES;
    for folder in folders {
        look_through(folder, DEPTH, &mut left, &mut found)?;
    }
    let kept: BTreeSet<PathBuf> =
        kept.iter().flat_map(|path| [path.canonicalize().ok(), Some(path.clone())]).flatten().collect();
    let is_kept = |path: &Path| path.ancestors().any(|above| kept.contains(above));
    let mut others = BTreeSet::new();
    for socket in found.iter().filter_map(|path| path.canonicalize().ok()).filter(|path| !is_kept(path)) {
        let whole = socket.parent().filter(|folder| {
            let holds_kept = kept.iter().any(|path| path.starts_with(folder));
            !holds_kept && holds_sockets_only(folder)
        });
        others.insert(whole.map_or_else(|| socket.clone(), Path::to_path_buf));
    }
    Ok(others)
}

fn listed(list: &[u8]) -> impl Iterator<Item = PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
    let lines = list.split(|byte| *byte == b'\n');
    // Number, count, protocol, flags, kind, state, inode; what is behind them may hold blanks.
    let paths = lines.filter_map(|line| {
        let at = line.windows(2).position(|pair| pair == b" /")?;
        line.get(at.saturating_add(1)..)
    });
    paths.map(|path| Path::new(std::ffi::OsStr::from_bytes(path)).to_path_buf())
}

fn is_socket(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|met| met.file_type().is_socket())
}

fn look_through(
    folder: &Path,
    depth: usize,
    left: &mut usize,
    found: &mut BTreeSet<PathBuf>,
) -> io::Result<()> {
    // What this user can't list, its programs find no socket in, unless they know its name; the system's list has that.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        *left = left.checked_sub(1).ok_or_else(|| {
            io::Error::other(format!("there is too much in `{}` to look for sockets", folder.display()))
        })?;
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_socket() {
            found.insert(entry.path());
        } else if kind.is_dir() && depth > 0 {
            look_through(&entry.path(), depth.saturating_sub(1), left, found)?;
        }
    }
    Ok(())
}

fn holds_sockets_only(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries
        .into_iter()
        .all(|entry| entry.and_then(|entry| entry.file_type()).is_ok_and(|kind| kind.is_socket()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn the_systems_list_is_read_with_blanks_in_paths() {
        let list = b"Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000: 00000002 00000000 00010000 0001 01 2 /run/a b\n\
            0000: 00000002 00000000 00010000 0001 01 3 @/tmp/abstract\n\
            0000: 00000003 00000000 00000000 0001 03 4\n";
        assert_eq!(listed(list).collect::<Vec<_>>(), [PathBuf::from("/run/a b")]);
    }

    #[test]
    fn all_but_what_is_kept_is_named_and_folders_of_sockets_whole() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        for folder in ["alone", "mixed", "kept"] {
            fs::create_dir(at(folder)).unwrap();
        }
        let listeners: Vec<UnixListener> = ["alone/a", "alone/b", "mixed/s", "mixed/wanted", "kept/k"]
            .iter()
            .map(|name| UnixListener::bind(at(name)).unwrap())
            .collect();
        fs::write(at("mixed/file"), "").unwrap();
        let kept = BTreeSet::from([at("kept"), at("mixed/wanted")]);
        let found = others_sockets(std::slice::from_ref(&root), &kept).unwrap();
        let here: Vec<&PathBuf> = found.iter().filter(|path| path.starts_with(&root)).collect();
        assert_eq!(here, [&at("alone"), &at("mixed/s")]);
        drop(listeners);
    }
}
