//! The one place that is asked what a script may reach. It says no in words of the permissions: what was asked for,
//! and the grant that is missing; and tells the bridge, which counts.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::fault::Fault;
use crate::permissions::{FileAccess, Permissions};
use crate::realm::HostScope;

/// Bytes of a name or path in a message.
const MOST_SHOWN: usize = 512;

/// What a script may reach, asked at each call.
#[derive(Clone)]
pub(crate) struct Permits {
    scope: Arc<HostScope>,
}

impl Permits {
    pub(super) fn new(scope: Arc<HostScope>) -> Self {
        Self { scope }
    }

    pub(super) fn all(&self) -> &Permissions {
        &self.scope.permissions
    }

    pub(super) fn scope(&self) -> &Arc<HostScope> {
        &self.scope
    }

    /// Refuses `what`, for which `grant` is missing.
    pub(super) fn deny(&self, code: &str, what: &str, grant: &str) -> Fault {
        let grant = crate::error::bounded(grant, MOST_SHOWN);
        self.scope.bridge.denied(&self.scope.scope, &grant);
        let what = crate::error::bounded(what, MOST_SHOWN);
        Fault::new(code, format!("{what} is not granted; missing grant: {grant}")).with("permission", grant)
    }

    /// Notes that the script was not told something, without failing for it.
    pub(super) fn withheld(&self, grant: &str) {
        self.scope.bridge.denied(&self.scope.scope, grant);
    }

    /// The folder that relative paths begin at: the first that may be written, or the first, or `/`.
    pub(super) fn cwd(&self) -> PathBuf {
        let files = &self.all().files;
        let writable = files.iter().find(|grant| grant.access == FileAccess::Write);
        writable.or_else(|| files.first()).map_or_else(|| PathBuf::from("/"), |grant| plain(&grant.root))
    }

    /// `path` as an absolute path without `.` and `..`.
    pub(super) fn absolute(&self, path: &str) -> PathBuf {
        plain(&self.cwd().join(path))
    }
}

/// A path without `.` and `..`, taken out as text. What a link makes of a step is decided where it is opened.
pub(super) fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for step in path.components() {
        match step {
            Component::Normal(name) => out.push(name),
            Component::ParentDir => {
                out.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    out
}
