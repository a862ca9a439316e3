//! Granted folders, and what of a path lies in which.
//!
//! A folder is opened once, and what is below it is reached through the open folder: neither a link nor a folder
//! that is moved meanwhile leads out. A granted folder inside of another is opened *through* that one, so that a
//! script that may write the outer can't put a link in the inner's place.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::fault;
use crate::node::fault::Fault;
use crate::node::permits::{Permits, plain};
use crate::permissions::FileAccess;

/// What is to be done with a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    Read,
    Write,
}

struct Root {
    /// As it was granted, without `.` and `..`.
    path: PathBuf,
    /// Where it really is, if that is elsewhere.
    real: Option<PathBuf>,
    access: FileAccess,
    /// The place of the granted folder that this one is inside of.
    outer: Option<usize>,
    dir: Mutex<Option<Arc<Dir>>>,
}

/// The granted folders of a script.
pub(super) struct Roots {
    permits: Permits,
    roots: Vec<Root>,
}

/// A path below a granted folder.
pub(super) struct Found {
    /// The folder.
    pub(super) dir: Arc<Dir>,
    /// The path below it; `.` for the folder itself.
    pub(super) below: PathBuf,
    /// The folder's real path.
    pub(super) root: PathBuf,
    /// The absolute path, as the script wrote it.
    pub(super) path: String,
}

impl Roots {
    pub(super) fn new(permits: Permits) -> Self {
        let grants = &permits.all().files;
        let paths: Vec<PathBuf> = grants.iter().map(|grant| plain(&grant.root)).collect();
        let inside = |inner: &Path, outer: &Path| inner != outer && inner.starts_with(outer);
        let roots: Vec<Root> = grants
            .iter()
            .zip(&paths)
            .map(|(grant, path)| Root {
                path: path.clone(),
                real: path.canonicalize().ok().filter(|real| real != path),
                access: grant.access,
                // The outermost: what is between was opened through it as well.
                outer: (0..paths.len())
                    .filter(|at| paths.get(*at).is_some_and(|other| inside(path, other)))
                    .min_by_key(|at| paths.get(*at).map(|other| other.components().count())),
                dir: Mutex::default(),
            })
            .collect();
        let roots = Self { permits, roots };
        for root in &roots.roots {
            // One that is not there yet is opened when it is.
            let _ = roots.open(root, false);
        }
        roots
    }

    fn open(&self, root: &Root, make: bool) -> io::Result<Arc<Dir>> {
        let mut slot = root.dir.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dir) = &*slot {
            return Ok(Arc::clone(dir));
        }
        let outer = root.outer.and_then(|at| self.roots.get(at));
        let dir = match outer {
            Some(outer) => {
                let through = self.open(outer, make)?;
                let below = root.path.strip_prefix(&outer.path).unwrap_or(Path::new("."));
                if make {
                    through.create_dir_all(below)?;
                }
                through.open_dir(below)?
            }
            None => {
                if make {
                    Dir::create_ambient_dir_all(&root.path, ambient_authority())?;
                }
                Dir::open_ambient_dir(&root.path, ambient_authority())?
            }
        };
        let dir = Arc::new(dir);
        *slot = Some(Arc::clone(&dir));
        Ok(dir)
    }

    /// Where `path` is, if a grant covers it. `make`: makes the granted folder if it is not there.
    pub(super) fn find(
        &self,
        path: &str,
        want: Want,
        syscall: &'static str,
        make: bool,
    ) -> Result<Found, Fault> {
        if path.contains('\0') {
            return Err(Fault::new(
                "ERR_INVALID_ARG_VALUE",
                "The argument 'path' must be a string, Uint8Array, or URL without null bytes",
            ));
        }
        if path.is_empty() {
            return Err(fault::coded("ENOENT", 2, "no such file or directory", syscall, path));
        }
        let full = self.permits.absolute(path);
        let covering = self.roots.iter().filter_map(|root| {
            let below = full
                .strip_prefix(&root.path)
                .or_else(|error| root.real.as_ref().map_or(Err(error), |real| full.strip_prefix(real)));
            below.ok().map(|below| (root, below))
        });
        let best = covering
            .filter(|(root, _)| want == Want::Read || root.access == FileAccess::Write)
            .max_by_key(|(root, _)| root.path.components().count());
        let Some((root, below)) = best else { return Err(self.refuse(&full, path, want, syscall)) };
        let dir = self
            .open(root, make && root.access == FileAccess::Write)
            .map_err(|error| fault::system(&error, syscall, path))?;
        Ok(Found {
            dir,
            below: if below.as_os_str().is_empty() { PathBuf::from(".") } else { below.to_owned() },
            root: root.real.clone().unwrap_or_else(|| root.path.clone()),
            path: path.to_owned(),
        })
    }

    /// The denial of `full`.
    fn refuse(&self, full: &Path, path: &str, want: Want, syscall: &'static str) -> Fault {
        let access = if want == Want::Write { "write" } else { "read" };
        let grant = format!("files: {access} {}", full.display());
        let mut fault = self.permits.deny("EACCES", &format!("EACCES: {syscall} '{path}'"), &grant);
        fault.errno = Some(-13);
        fault.with("syscall", syscall).with("path", path)
    }

    /// An error of the system at `found`; one that says that a link leads out becomes a denial.
    pub(super) fn explain(&self, error: &io::Error, syscall: &'static str, found: &Found) -> Fault {
        if error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none() {
            let grant = format!("files: the place that the link in {} leads to", found.path);
            let what = format!("EACCES: {syscall} '{}', which leads out of the granted folder,", found.path);
            let mut fault = self.permits.deny("EACCES", &what, &grant);
            fault.errno = Some(-13);
            return fault.with("syscall", syscall).with("path", &found.path);
        }
        fault::system(error, syscall, &found.path)
    }
}
