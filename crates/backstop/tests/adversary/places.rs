//! The home and the workspace that ways are judged against.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::ways::Thing;

/// What a home with every client and with Backstop in it holds.
const HOME: &[&str] = &[
    ".claude/settings.json",
    ".claude.json",
    ".claude/plugins/installed_plugins.json",
    ".codex/config.toml",
    ".codex/hooks.json",
    ".gemini/settings.json",
    ".gemini/trustedFolders.json",
    ".qwen/settings.json",
    ".copilot/config.json",
    ".copilot/hooks/backstop.json",
    ".cline/hooks/PreToolUse",
    ".config/opencode/opencode.json",
    ".config/opencode/plugins/backstop.js",
    ".cursor/hooks.json",
    ".cursor/mcp.json",
    ".codeium/windsurf/hooks.json",
    ".agents/plugins/backstop/hooks/hooks.json",
    ".config/goose/config.yaml",
    ".kiro/hooks/backstop.json",
    ".config/backstop/backstop.yaml",
    ".local/share/backstop/backstop.db",
    ".local/share/backstop/backstop.trail/entries/0000000000000000.log",
    ".local/share/backstop/plugins/trust.json",
    ".local/share/backstop/plugins/code/mine/0/hook.sh",
    ".local/share/backstop/audit.key",
    ".local/share/backstop/daemon/hooks.sock",
    ".cargo/bin/backstop",
    ".ssh/id_rsa",
    ".bashrc",
];

/// What the workspace holds.
const WORKSPACE: &[&str] = &[
    "README.md",
    "src/main.rs",
    "src/a.rs",
    "docs/claude.md",
    "docs/codex.md",
    ".claude/commands/x.md",
    ".codex/config.toml",
    ".git/HEAD",
];

/// A home and a workspace in it, removed when dropped.
pub(crate) struct Places {
    root: tempfile::TempDir,
}

impl Places {
    /// Below `folder`, which is no folder for temporary files: those are judged more mildly than a home.
    pub(crate) fn new(folder: &Path) -> Self {
        let root = tempfile::Builder::new().prefix("adversary-").tempdir_in(folder).unwrap();
        let places = Self { root };
        HOME.iter().for_each(|path| write(&places.at("home").join(path), "\n"));
        places
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(crate) fn home(&self) -> String {
        self.at("home").to_str().unwrap().to_owned()
    }

    pub(crate) fn work(&self) -> String {
        format!("{}/project", self.home())
    }

    /// The text with the folders in the place of their names.
    pub(crate) fn fill(&self, text: &str) -> String {
        text.replace("@home@", &self.home()).replace("@work@", &self.work())
    }

    /// Makes the workspace anew, with these things in it.
    pub(crate) fn lay_out(&self, things: &[Thing]) {
        let work = PathBuf::from(self.work());
        let _ = fs::remove_dir_all(&work);
        WORKSPACE.iter().for_each(|path| write(&work.join(path), "\n"));
        for thing in things {
            match thing {
                Thing::Link { link, to } => symlink(self.fill(to), work.join(link)).unwrap(),
                Thing::File { file, text } => write(&work.join(file), &self.fill(text)),
            }
        }
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}
