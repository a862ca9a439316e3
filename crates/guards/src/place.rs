//! Where a command would run, and what a path means there.

use crate::paths::normal;

/// The surroundings of a command or a file access. Paths are absolute, with `/` between segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    cwd: String,
    cwd_given: bool,
    home: Option<String>,
    workspace: Option<String>,
}

impl Place {
    /// A place whose working directory is `cwd`. Without a workspace root the working directory is the
    /// workspace.
    pub fn new(cwd: impl AsRef<str>) -> Self {
        let cwd = normal::lexical(cwd.as_ref(), "/");
        Self { cwd, cwd_given: true, home: None, workspace: None }
    }

    /// A place of which nothing is known but that it is some project directory.
    pub fn unknown() -> Self {
        Self { cwd: "/workspace/project".into(), cwd_given: false, home: None, workspace: None }
    }

    /// Sets the home directory of the user.
    #[must_use]
    pub fn with_home(mut self, home: impl AsRef<str>) -> Self {
        self.home = Some(normal::lexical(home.as_ref(), "/"));
        self
    }

    /// Sets the root of the workspace, inside which the agent is at home.
    #[must_use]
    pub fn with_workspace(mut self, root: impl AsRef<str>) -> Self {
        self.workspace = Some(normal::lexical(root.as_ref(), "/"));
        self
    }

    /// The working directory.
    pub fn cwd(&self) -> &str {
        &self.cwd
    }

    /// The home directory; a stand-in when it was not given.
    pub fn home(&self) -> &str {
        self.home.as_deref().unwrap_or("/home/user")
    }

    /// The root of the workspace.
    pub fn workspace(&self) -> &str {
        self.workspace.as_deref().unwrap_or(&self.cwd)
    }
}
