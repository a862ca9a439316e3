//! Where a command would run, and what a path means there.

use std::fmt;
use std::sync::Arc;

use crate::paths;

/// The result of looking at a file of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Looked {
    /// Its text, or over 64 KiB of it.
    Text(String),
    /// There is no such file.
    Missing,
    /// There is something that the reader can't or should not read: a link, a pipe, anything that is not text. Running it
    /// is unknown code.
    Unreadable,
}

impl From<Option<String>> for Looked {
    fn from(text: Option<String>) -> Self {
        text.map_or(Self::Missing, Self::Text)
    }
}

type Read = dyn Fn(&str) -> Looked + Send + Sync;

type Follow = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Looks at the disk for the analysis: an absolute path in, what was found out.
struct Look<F: ?Sized>(Arc<F>);

impl<F: ?Sized> Clone for Look<F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<F: ?Sized> fmt::Debug for Look<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Look")
    }
}

impl<F: ?Sized> PartialEq for Look<F> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<F: ?Sized> Eq for Look<F> {}

/// The surroundings of a command or a file access. Paths are absolute, with `/` between segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    cwd: String,
    cwd_given: bool,
    home: Option<String>,
    workspace: Option<String>,
    files: Option<Look<Read>>,
    links: Option<Look<Follow>>,
    input_is_unseen: bool,
}

impl Place {
    /// Creates a place whose working directory is `cwd`. Without a workspace root the working directory is the
    /// workspace.
    pub fn new(cwd: impl AsRef<str>) -> Self {
        let cwd = paths::lexical(cwd.as_ref(), "/");
        Self {
            cwd,
            cwd_given: true,
            home: None,
            workspace: None,
            files: None,
            links: None,
            input_is_unseen: false,
        }
    }

    /// Creates a place about which nothing is known except that it is some project directory.
    pub fn unknown() -> Self {
        Self {
            cwd: "/workspace/project".into(),
            cwd_given: false,
            home: None,
            workspace: None,
            files: None,
            links: None,
            input_is_unseen: false,
        }
    }

    /// Sets the home directory of the user.
    #[must_use]
    pub fn with_home(mut self, home: impl AsRef<str>) -> Self {
        self.home = Some(paths::lexical(home.as_ref(), "/"));
        self
    }

    /// Sets the root of the workspace, inside which the agent is at home.
    #[must_use]
    pub fn with_workspace(mut self, root: impl AsRef<str>) -> Self {
        self.workspace = Some(paths::lexical(root.as_ref(), "/"));
        self
    }

    /// Lets the analysis read files of the workspace that a command would run: scripts, makefiles, the
    /// scripts of a `package.json`. `read` gets an absolute path and must bound what it reads to slightly more than
    /// 64 KiB: a longer text is not read, and running it is unknown code. At most a few files are
    /// read, and none outside the workspace.
    #[must_use]
    pub fn with_files<L: Into<Looked>>(mut self, read: impl Fn(&str) -> L + Send + Sync + 'static) -> Self {
        self.files = Some(Look(Arc::new(move |path| read(path).into())));
        self
    }

    /// Lets the analysis resolve links on the disk. `follow` gets an absolute path, which
    /// may contain `..`, and returns where it leads, even if nothing is there; `None` if it leads nowhere.
    #[must_use]
    pub fn with_links(mut self, follow: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.links = Some(Look(Arc::new(follow)));
        self
    }

    /// Returns whether links on the disk may be resolved.
    pub fn follows_links(&self) -> bool {
        self.links.is_some()
    }

    /// Returns where an absolute path leads when links on the disk are followed, if links may be resolved.
    pub fn leads_to(&self, path: &str) -> Option<String> {
        self.links.as_ref().and_then(|follow| (follow.0)(path))
    }

    /// Declares that nobody sees what is typed into a program that runs here. The analysis does not change; this is for
    /// callers that judge programs which wait for commands ([`Trace::waiting`](crate::Trace::waiting)).
    #[must_use]
    pub fn with_unseen_input(mut self) -> Self {
        self.input_is_unseen = true;
        self
    }

    /// Returns whether nobody sees what is typed into a running program.
    pub fn input_is_unseen(&self) -> bool {
        self.input_is_unseen
    }

    /// Returns whether files of the workspace may be read.
    pub fn reads_files(&self) -> bool {
        self.files.is_some()
    }

    /// Looks at a file in the workspace, if files may be read.
    pub fn look_at(&self, path: &str) -> Looked {
        let is_inside = path.strip_prefix(self.workspace()).is_some_and(|rest| rest.starts_with('/'));
        match &self.files {
            Some(read) if is_inside => (read.0)(path),
            _ => Looked::Missing,
        }
    }

    /// Returns the working directory.
    pub fn cwd(&self) -> &str {
        &self.cwd
    }

    /// Returns the home directory; a placeholder if it was not given.
    pub fn home(&self) -> &str {
        self.home.as_deref().unwrap_or("/home/user")
    }

    /// Returns the root of the workspace.
    pub fn workspace(&self) -> &str {
        self.workspace.as_deref().unwrap_or(&self.cwd)
    }
}
