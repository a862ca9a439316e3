//! What is walled off, and what of it is there to be walled off.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use crate::mount_table::other_names;

/// What a confined tree can't do to the disk. Paths are absolute; a folder stands for all in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walls {
    /// Can be read, and not be changed, replaced or moved.
    pub read_only: BTreeSet<PathBuf>,
    /// Can't even be read.
    pub hidden: BTreeSet<PathBuf>,
    /// Sockets and folders of them that can't even be read, if they are still there: their services may end at any time.
    pub sockets: BTreeSet<PathBuf>,
    /// If given, the only places that can be changed, besides devices. One that is not there is left out.
    pub writable: Option<BTreeSet<PathBuf>>,
}

/// The walls that stand: links are followed, and what is not there can't be walled off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    pub(crate) read_only: Vec<PathBuf>,
    pub(crate) hidden: Vec<PathBuf>,
    pub(crate) sockets: Vec<PathBuf>,
    pub(crate) writable: Option<Vec<PathBuf>>,
    /// What the protected names were when they were looked at.
    found: BTreeMap<PathBuf, Identity>,
    /// Protected names that do not exist: a tree could make them.
    pub missing: Vec<PathBuf>,
    /// Protected names that are links: what they point to is protected, and the link could be replaced.
    pub links: Vec<PathBuf>,
}

impl Walls {
    /// Looks at the disk.
    ///
    /// # Errors
    ///
    /// For a path that is not absolute, and for one of which it can't be said whether it is there.
    pub fn stand(&self) -> io::Result<Standing> {
        let mut standing = Standing::default();
        let (mut read_only, mut hidden) = (BTreeSet::new(), BTreeSet::new());
        for (paths, real) in [(&self.read_only, &mut read_only), (&self.hidden, &mut hidden)] {
            for path in paths {
                if let Some(found) = standing.find(path)? {
                    real.insert(found);
                }
            }
        }
        // One that has gone needs no wall. What is around the socket of somebody else may be anything by now, so links are not followed.
        let closed =
            self.sockets.iter().filter(|path| path.symlink_metadata().is_ok_and(|met| !met.is_symlink()));
        standing.sockets = closed.cloned().collect();
        standing.read_only = read_only.into_iter().collect();
        standing.hidden = hidden.into_iter().collect();
        standing.leave_out_inner();
        let all = standing.read_only.iter().chain(&standing.hidden);
        standing.found = all.filter_map(|path| Some((path.clone(), identity(path)?))).collect();
        if let Some(writable) = &self.writable {
            // Devices and settings of processes are no files. Which of them root reaches is said where its view is made.
            let always = [PathBuf::from("/dev"), PathBuf::from("/proc")];
            let there = writable.iter().chain(&always).filter(|path| path.exists());
            let real: io::Result<BTreeSet<PathBuf>> = there.map(|path| path.canonicalize()).collect();
            standing.writable = Some(real?.into_iter().collect());
        }
        Ok(standing)
    }
}

/// Nothing is known of mounts there.
#[cfg(not(target_os = "linux"))]
fn other_names(_: &BTreeSet<PathBuf>) -> io::Result<BTreeSet<PathBuf>> {
    Ok(BTreeSet::new())
}

impl Standing {
    /// Returns the protected names at which something else stands by now, which others put there: walls of mounts were around what had been there. What is behind
    /// the walls can't do that.
    pub fn replaced(&self) -> impl Iterator<Item = &Path> {
        let is_other =
            |(path, found): &(&PathBuf, &Identity)| identity(path).is_some_and(|now| now != **found);
        self.found.iter().filter(is_other).map(|(path, _)| path.as_path())
    }

    /// Protects what is protected by its other names, too: those under which it is mounted now.
    ///
    /// # Errors
    ///
    /// If it can't be said which they are.
    pub(crate) fn with_other_names(mut self) -> io::Result<Self> {
        for paths in [&mut self.read_only, &mut self.hidden] {
            let known: BTreeSet<PathBuf> = paths.iter().cloned().collect();
            paths.extend(other_names(&known)?);
        }
        self.leave_out_inner();
        Ok(self)
    }

    /// What lies in something hidden is hidden. Nothing can be built in a folder that looks empty, and nothing is left in it to be protected.
    fn leave_out_inner(&mut self) {
        let Self { read_only, hidden, sockets, .. } = self;
        let outer: BTreeSet<PathBuf> = hidden.iter().cloned().collect();
        let is_inside = |path: &Path| path.ancestors().skip(1).any(|above| outer.contains(above));
        hidden.retain(|path| !is_inside(path));
        read_only.retain(|path| !outer.contains(path) && !is_inside(path));
        sockets.retain(|path| !outer.contains(path) && !is_inside(path));
        let is_closed = |path: &Path| path.ancestors().skip(1).any(|above| is_among(sockets, above));
        hidden.retain(|path| !is_closed(path));
        read_only.retain(|path| !is_closed(path));
    }

    fn find(&mut self, path: &Path) -> io::Result<Option<PathBuf>> {
        if !path.is_absolute() {
            let why = format!("`{}` is not absolute", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let met = match path.symlink_metadata() {
            Ok(met) => met,
            Err(error) if is_absent(&error) => {
                self.missing.push(path.to_path_buf());
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        if met.is_symlink() {
            self.links.push(path.to_path_buf());
        }
        match path.canonicalize() {
            Ok(real) => Ok(Some(real)),
            // A link to nothing.
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All walls, each before those that lie in it.
    pub(crate) fn outermost_first(&self) -> Vec<(Wall, &Path)> {
        let mut all: Vec<(Wall, &Path)> = self
            .read_only
            .iter()
            .map(|path| (Wall::ReadOnly, path.as_path()))
            .chain(self.hidden.iter().map(|path| (Wall::Hidden, path.as_path())))
            .chain(self.sockets.iter().map(|path| (Wall::Closed, path.as_path())))
            .collect();
        all.sort_by_key(|(_, path)| path.components().count());
        all
    }

    /// The folders above walls, outermost first and without the root: a tree that could move one of them could put
    /// another in its place.
    pub(crate) fn above(&self) -> Vec<&Path> {
        let mut above: Vec<&Path> = self
            .outermost_first()
            .into_iter()
            .flat_map(|(_, path)| path.ancestors().skip(1))
            .filter(|path| path.parent().is_some())
            .collect();
        above.sort_by_key(|path| (path.components().count(), *path));
        above.dedup();
        above
    }

    /// What may be done with `path` itself, by the innermost wall around it.
    pub(crate) fn rights(&self, path: &Path) -> Rights {
        let innermost = |paths: &[PathBuf]| {
            paths
                .iter()
                .filter(|wall| path.starts_with(wall))
                .map(|wall| wall.components().count())
                .max()
                .unwrap_or(0)
        };
        let open = self.writable.as_deref().map_or(1, innermost);
        let (read_only, hidden) = (innermost(&self.read_only), innermost(&self.hidden));
        Rights { read: hidden == 0, write: hidden == 0 && read_only == 0 && open > 0 }
    }

    /// Whether rights change somewhere below `path`.
    pub(crate) fn is_divided(&self, path: &Path) -> bool {
        let below = |wall: &PathBuf| wall != path && wall.starts_with(path);
        let writable = self.writable.as_deref().unwrap_or_default();
        self.read_only.iter().chain(&self.hidden).chain(writable).any(below)
    }
}

/// Which file it is, of which file system.
type Identity = (u64, u64);

fn identity(path: &Path) -> Option<Identity> {
    path.symlink_metadata().map(|met| (met.dev(), met.ino())).ok()
}

fn is_among(paths: &[PathBuf], path: &Path) -> bool {
    paths.iter().any(|one| one == path)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// A kind of wall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wall {
    ReadOnly,
    Hidden,
    /// Hidden, if it is there.
    Closed,
}

/// What a confined tree may do with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths<const N: usize>(paths: [&str; N]) -> Vec<PathBuf> {
        paths.map(PathBuf::from).to_vec()
    }

    fn standing() -> Standing {
        Standing {
            read_only: paths(["/home/u/.agent/settings", "/home/u/work/policy"]),
            hidden: paths(["/home/u/.data"]),
            sockets: paths(["/home/u/.agents/socket"]),
            ..Standing::default()
        }
    }

    #[test]
    fn the_innermost_wall_decides_what_may_be_done() {
        let standing = standing();
        let rights = |path: &str| {
            let Rights { read, write } = standing.rights(Path::new(path));
            (read, write)
        };
        assert_eq!(rights("/home/u/work/a"), (true, true));
        assert_eq!(rights("/home/u/.agent/settings"), (true, false));
        assert_eq!(rights("/home/u/.agent/settings-of-mine"), (true, true));
        assert_eq!(rights("/home/u/.data/rows"), (false, false));
        let narrowed = Standing { writable: Some(paths(["/home/u/work"])), ..standing };
        let write = |path: &str| narrowed.rights(Path::new(path)).write;
        assert!(write("/home/u/work/a"));
        assert!(!write("/home/u/work/policy") && !write("/home/u/a"));
    }

    #[test]
    fn folders_above_walls_are_named_from_the_outside_in() {
        let above: Vec<PathBuf> = standing().above().into_iter().map(Path::to_path_buf).collect();
        assert_eq!(above, paths(["/home", "/home/u", "/home/u/.agent", "/home/u/.agents", "/home/u/work"]));
    }

    #[test]
    fn a_folder_is_divided_by_what_lies_below_it() {
        let standing = standing();
        let divided = |path: &str| standing.is_divided(Path::new(path));
        assert!(divided("/") && divided("/home/u") && divided("/home/u/.agent"));
        assert!(!divided("/home/u/.data") && !divided("/home/u/other") && !divided("/usr"));
    }

    #[test]
    fn what_others_replace_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        let [kept, written, swapped, removed] =
            ["kept", "written", "swapped", "removed"].map(|name| real.join(name));
        let all = BTreeSet::from([kept, written.clone(), swapped.clone(), removed.clone()]);
        for path in &all {
            std::fs::write(path, "one").unwrap();
        }
        let standing = Walls { read_only: all, ..Walls::default() }.stand().unwrap();
        assert_eq!(standing.replaced().count(), 0);
        std::fs::write(&written, "two").unwrap();
        std::fs::write(real.join("new"), "two").unwrap();
        std::fs::rename(real.join("new"), &swapped).unwrap();
        std::fs::remove_file(&removed).unwrap();
        assert_eq!(standing.replaced().collect::<Vec<_>>(), [&swapped], "what is gone is not another");
    }

    #[test]
    fn what_is_not_there_and_what_is_a_link_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        std::fs::create_dir(real.join("hidden")).unwrap();
        std::fs::write(real.join("hidden/inside"), "").unwrap();
        std::fs::write(real.join("file"), "").unwrap();
        std::os::unix::fs::symlink("file", real.join("link")).unwrap();
        let all = |names: &[&str]| names.iter().map(|name| real.join(name)).collect::<BTreeSet<_>>();
        let walls = Walls {
            read_only: all(&["link", "absent", "hidden/inside"]),
            hidden: all(&["hidden"]),
            sockets: all(&["gone", "file", "hidden/inside"]),
            writable: None,
        };
        let standing = walls.stand().unwrap();
        assert_eq!(standing.read_only, [real.join("file")]);
        assert_eq!(standing.hidden, [real.join("hidden")]);
        assert_eq!(standing.sockets, [real.join("file")], "what has gone is not missed");
        assert_eq!((standing.missing, standing.links), (vec![real.join("absent")], vec![real.join("link")]));
        let walls = Walls {
            read_only: all(&["hidden/inside"]),
            hidden: all(&["hidden/inside", "file"]),
            sockets: all(&["hidden"]),
            writable: None,
        };
        let standing = walls.stand().unwrap();
        assert_eq!(
            (standing.read_only, standing.hidden),
            (vec![], vec![real.join("file")]),
            "a closed folder looks empty"
        );
        let relative = Walls { read_only: BTreeSet::from([PathBuf::from("file")]), ..Walls::default() };
        assert!(relative.stand().is_err());
    }
}
