//! From a path as a model wrote it to a path of plain names below the root.

use std::io;
use std::path::{Component, Path, PathBuf};

use cap_std::fs::{FileTypeExt as _, Metadata};

use super::{Workspace, WorkspaceError};
use crate::tools::text;

const MAX_PATH_BYTES: usize = 4096;

/// A place inside the workspace. There may be nothing there yet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::tools) struct Located {
    /// Plain names only, below the root; `.` for the root itself.
    relative: PathBuf,
    shown: String,
}

impl Located {
    /// The path below the root: no links, no `..`.
    pub(in crate::tools) fn relative(&self) -> &Path {
        &self.relative
    }

    /// The path as it was given, for messages.
    pub(in crate::tools) fn shown(&self) -> &str {
        &self.shown
    }

    pub(super) fn require_file(&self, metadata: &Metadata) -> Result<(), WorkspaceError> {
        let kind = metadata.file_type();
        let kind = match () {
            () if kind.is_file() => return Ok(()),
            () if kind.is_dir() => "a directory",
            () if kind.is_fifo() => "a pipe",
            () if kind.is_socket() => "a socket",
            () if kind.is_char_device() || kind.is_block_device() => "a device",
            () => "not a file",
        };
        Err(WorkspaceError::NotAFile { path: self.shown.clone(), kind })
    }
}

impl Workspace {
    /// Finds the place that `path` means, relative to the root unless it is absolute.
    pub(in crate::tools) fn resolve(&self, path: &str) -> Result<Located, WorkspaceError> {
        if path.is_empty() || path.len() > MAX_PATH_BYTES || path.contains('\0') {
            return Err(WorkspaceError::Malformed { path: text::clip(path, 80) });
        }
        let root = self.root();
        let outside = || WorkspaceError::Outside { path: text::clip(path, 400), root: self.shown_root() };
        let given = Path::new(path);
        // An absolute path must start with the root by name; a way around through another link to it (such as
        // `/proc/self/root`) is not taken.
        let below = match given.is_absolute() {
            true => given
                .strip_prefix(root)
                .or_else(|_| given.strip_prefix(&self.0.spelled))
                .map_err(|_| outside())?,
            false => given,
        };
        // INVARIANT: `here` is `root` or below it and none of its names is a link.
        let mut here = root.to_path_buf();
        for component in below.components() {
            match component {
                Component::CurDir => {}
                Component::ParentDir if here == root => return Err(outside()),
                Component::ParentDir => {
                    here.pop();
                }
                Component::Normal(name) => {
                    here = self.step(&here.join(name), path)?.ok_or_else(outside)?;
                }
                Component::RootDir | Component::Prefix(_) => return Err(outside()),
            }
        }
        let relative = here.strip_prefix(root).map_err(|_| outside())?;
        let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        Ok(Located { relative: relative.to_path_buf(), shown: text::clip(path, 400) })
    }

    /// Follows `next` if it is a link; `None` if it leads out of the root, or nowhere.
    fn step(&self, next: &Path, path: &str) -> Result<Option<PathBuf>, WorkspaceError> {
        let failed = |source| WorkspaceError::Io { action: "look at", path: text::clip(path, 400), source };
        let is_link = match next.symlink_metadata() {
            Ok(metadata) => metadata.is_symlink(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(failed(error)),
        };
        if !is_link {
            return Ok(Some(next.to_path_buf()));
        }
        match next.canonicalize() {
            Ok(target) => Ok(target.starts_with(self.root()).then_some(target)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// The absolute path of `at`, for handing it to a program.
    pub(in crate::tools) fn absolute(&self, at: &Located) -> PathBuf {
        match at.relative() == Path::new(".") {
            true => self.root().to_path_buf(),
            false => self.root().join(at.relative()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;

    use super::*;

    fn workspace() -> (tempfile::TempDir, Workspace) {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("root");
        fs::create_dir_all(root.join("dir/deep")).unwrap();
        fs::create_dir(temp.path().join("other")).unwrap();
        fs::write(root.join("file"), "in").unwrap();
        fs::write(temp.path().join("other/secret"), "out").unwrap();
        symlink("../other", root.join("out")).unwrap();
        symlink("dir/deep", root.join("in")).unwrap();
        symlink("/proc/self/root", root.join("proc")).unwrap();
        symlink("../other/not-yet", root.join("dangling")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let workspace = Workspace::open(&root).unwrap();
        (temp, workspace)
    }

    #[test]
    fn paths_inside_are_found_however_they_are_written() {
        let (_temp, workspace) = workspace();
        let absolute = workspace.root().join("dir/deep/new").display().to_string();
        for (path, place) in [
            ("file", "file"),
            ("./dir/../file", "file"),
            ("dir//deep/", "dir/deep"),
            ("in/new", "dir/deep/new"),
            ("in/../x", "dir/x"),
            (".", "."),
            ("missing/a/b", "missing/a/b"),
            (absolute.as_str(), "dir/deep/new"),
        ] {
            assert_eq!(workspace.resolve(path).unwrap().relative(), Path::new(place), "{path}");
        }
    }

    #[test]
    fn paths_that_leave_are_refused_with_path_and_root() {
        let (temp, workspace) = workspace();
        let around = format!("/proc/self/root{}/file", workspace.root().display());
        let beside = temp.path().join("root-2").display().to_string();
        for path in [
            "..",
            "../root/file",
            "dir/../../other/secret",
            "out",
            "out/secret",
            "out/../root/file",
            "proc/etc",
            "dangling",
            "/etc/hostname",
            "/",
            around.as_str(),
            beside.as_str(),
        ] {
            let error = workspace.resolve(path).unwrap_err();
            assert!(matches!(error, WorkspaceError::Outside { .. }), "{path}: {error}");
            let message = error.to_string();
            assert!(message.contains(path) && message.contains("root`"), "{message}");
        }
        assert!(matches!(workspace.resolve("loop"), Err(WorkspaceError::Io { .. })));
        assert!(matches!(workspace.resolve("a\0b"), Err(WorkspaceError::Malformed { .. })));
        assert!(matches!(workspace.resolve(""), Err(WorkspaceError::Malformed { .. })));
    }

    #[test]
    fn root_may_be_spelled_through_a_link() {
        let (temp, _) = workspace();
        let alias = temp.path().join("alias");
        symlink("root", &alias).unwrap();
        let workspace = Workspace::open(&alias).unwrap();
        let spelled = alias.join("file").display().to_string();
        assert_eq!(workspace.resolve(&spelled).unwrap().relative(), Path::new("file"));
    }

    #[test]
    fn link_swapped_in_after_the_check_does_not_lead_out() {
        let (_temp, workspace) = workspace();
        let at = workspace.resolve("dir/secret").unwrap();
        fs::remove_dir_all(workspace.root().join("dir")).unwrap();
        symlink("../other", workspace.root().join("dir")).unwrap();
        assert!(workspace.read_file(&at, 100).is_err());
        assert!(workspace.stage(&at, b"x").is_err());
        assert!(workspace.remove(&at).is_err());
    }

    proptest! {
        #[test]
        fn whatever_resolves_is_below_the_root(
            names in prop::collection::vec(
                prop::sample::select(vec!["..", ".", "dir", "deep", "in", "out", "proc", "file", "new", "", "dangling"]), 0..8),
            absolute in any::<bool>(),
        ) {
            let (_temp, workspace) = workspace();
            let mut path = names.join("/");
            if absolute {
                path = format!("{}/{path}", workspace.root().display());
            }
            if let Ok(at) = workspace.resolve(&path) {
                let plain = at.relative() == Path::new(".")
                    || at.relative().components().all(|part| matches!(part, Component::Normal(_)));
                prop_assert!(plain, "{:?}", at);
                let mut existing = workspace.absolute(&at);
                while !existing.exists() {
                    existing.pop();
                }
                prop_assert!(existing.canonicalize().unwrap().starts_with(workspace.root()));
            }
        }
    }
}
