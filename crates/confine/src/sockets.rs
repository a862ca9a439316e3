//! Which sockets of other programs are there, so that all but those that are named can be taken away.
//!
//! The system lists those of this network that have a place on the disk; those of others (a container's, say) are looked for
//! where sockets are kept. A folder in which nothing but sockets lies is named whole, so that a service which starts again, or
//! another one in its place, is not there for a tree either.
//!
//! The system keeps the name by which a socket was bound, which need not be one that it has: a program may bind, link and unlink
//! (as the masters of OpenSSH do), or rename. Of a name that is gone every socket in its folder counts, and a relative one is looked for
//! where any process works.
//!
//! Limits: a socket that another program makes later is not among them, unless it does so in a folder that was named whole; nor is one
//! that was moved to another folder, or whose program works elsewhere by now, unless it lies where sockets are kept.

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
    let (mut found, gone): (BTreeSet<PathBuf>, BTreeSet<PathBuf>) =
        placed(listed(&fs::read(LIST)?)).into_iter().partition(|path| is_socket(path));
    let mut left = MOST_NAMES;
    for folder in gone.iter().filter_map(|path| path.parent()).collect::<BTreeSet<_>>() {
        look_through(folder, 0, &mut left, &mut found)?;
    }
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
    let names = list.split(|byte| *byte == b'\n').skip(1).filter_map(|mut line| {
        // Number, count, protocol, flags, kind, state, inode; what is behind them may hold blanks.
        for _ in 0..7 {
            let line_of_field = line.trim_ascii_start();
            let end = line_of_field.iter().position(|byte| *byte == b' ')?;
            line = line_of_field.get(end..)?;
        }
        line.get(1..)
    });
    // A name that is no path begins with what stands for a zero.
    let paths = names.filter(|name| !name.is_empty() && !name.starts_with(b"@"));
    paths.map(|path| PathBuf::from(std::ffi::OsStr::from_bytes(path)))
}

/// Where names are: relative ones in each folder in which a process works.
fn placed(names: impl Iterator<Item = PathBuf>) -> BTreeSet<PathBuf> {
    let (mut placed, relative): (BTreeSet<PathBuf>, Vec<PathBuf>) = {
        let (absolute, relative): (Vec<_>, Vec<_>) = names.partition(|name| name.is_absolute());
        (absolute.into_iter().collect(), relative)
    };
    if relative.is_empty() {
        return placed;
    }
    // Of a process of somebody else it can't be seen.
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let worked_in: BTreeSet<PathBuf> =
        processes.filter_map(|process| fs::read_link(process.path().join("cwd")).ok()).collect();
    placed.extend(worked_in.iter().flat_map(|folder| relative.iter().map(|name| folder.join(name))));
    placed
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
            0000: 00000003 00000000 00000000 0001 03 4\n\
            0000: 00000002 00000000 00010000 0001 01     5 own /run\n";
        assert_eq!(listed(list).collect::<Vec<_>>(), ["/run/a b", "own /run"].map(PathBuf::from));
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

    #[test]
    fn a_socket_that_is_not_there_under_its_first_name_is_found_in_its_folder() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        fs::write(at("file"), "").unwrap();
        let _linked = UnixListener::bind(at("master.x7")).unwrap();
        fs::hard_link(at("master.x7"), at("master")).unwrap();
        fs::remove_file(at("master.x7")).unwrap();
        let found = others_sockets(&[], &BTreeSet::new()).unwrap();
        assert!(found.contains(&at("master")), "{found:?}");
    }

    #[test]
    fn a_relative_name_is_looked_for_where_processes_work() {
        let worked_in = std::env::current_dir().unwrap();
        let names = ["own/s", "/run/s"].map(PathBuf::from);
        let placed = placed(names.into_iter());
        assert!(
            placed.contains(&worked_in.join("own/s")) && placed.contains(Path::new("/run/s")),
            "{placed:?}"
        );
    }
}
