//! Where plugins come from: a folder, an archive, a commit of a git repository, a package of npm.
//!
//! A [`Source`] is what a person writes. Whatever it is becomes a folder in [`Home`]'s staging, and from there all are alike: looked at,
//! judged, shown, consented to by content hash, renamed into place. The laws: *nothing of the plugin runs before it is trusted*:
//! no install script, no hook or filter of git, no configuration of a repository or of a package; *what is shown is what is pinned*: a
//! branch is a commit and a range is a version by then, and the content hash is over all of it, also over what npm brought along; *one
//! installation at a time*, by a lock that ends with its process.
//!
//! `git` and `npm` are the machine's, found in `PATH`. They are given an environment of our own: a home that is empty, no configuration but
//! what stands on their command line, and of the person's environment only [`KEPT`], which says how the network is reached and which
//! authorities are believed. So registries and credentials of their own are not known here.
//!
//! Limits: [`MOST_TIME`] for each step, [`MOST_DISK`] bytes and [`MOST_ENTRIES`] on the way, [`MOST_MEMORY`] for each process. What a registry or a server says is believed; people consent to the
//! bytes that came of it.

mod archive;
mod git;
mod npm;
mod replaced;
mod tool;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

pub use self::git::GitSource;
pub use self::npm::NpmSource;
pub use self::replaced::Replaced;
use crate::manifest::{OURS, THEIRS};
use crate::package::{self, Bounds, PackageError};
use crate::trust::{Home, Purpose, Staged, TrustError, really};

/// How long one step of fetching may take.
pub const MOST_TIME: Duration = Duration::from_secs(10 * 60);
/// Most bytes that a program may put into its folder on the way. Whatever is there counts as 4 KiB at least.
pub const MOST_DISK: u64 = 3 << 30;
/// Most files and folders that it may put there.
pub const MOST_ENTRIES: u64 = 300_000;
/// Most bytes of memory that it, and each program that it starts, may write to. Only Linux holds to it.
pub const MOST_MEMORY: u64 = 1 << 30;
/// Of the environment, what `git` and `npm` get. git gets the agent of `ssh`, too.
pub const KEPT: [&str; 15] = [
    "PATH",
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "USER",
];
/// How archives are named.
const ARCHIVES: [&str; 3] = [".tgz", ".tar.gz", ".tar"];

/// Where a plugin is to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A folder of this machine.
    Folder(PathBuf),
    /// An archive of this machine.
    Archive(PathBuf),
    /// A commit of a repository.
    Git(GitSource),
    /// A package.
    Npm(NpmSource),
}

/// A text that names no source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is no place to get a plugin from: {why}\nhint: it is a folder, an archive (`.tgz`, `.tar`), `git:REPOSITORY#COMMIT` or `npm:NAME@VERSION`", backstop_yaml::quote(.text))]
pub struct NoSource {
    text: String,
    why: &'static str,
}

impl Source {
    /// What it is, as `before_install` has it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Folder(_) => "plugin-dir",
            Self::Archive(_) => "plugin-archive",
            Self::Git(_) => "plugin-git",
            Self::Npm(_) => "plugin-npm",
        }
    }

    /// Whether it comes by a program of the machine, and mostly from elsewhere.
    pub const fn is_fetched(&self) -> bool {
        matches!(self, Self::Git(_) | Self::Npm(_))
    }
}

impl FromStr for Source {
    type Err = NoSource;

    fn from_str(text: &str) -> Result<Self, NoSource> {
        let wrong = |why| NoSource { text: without_credentials(text), why };
        if let Some(package) = text.strip_prefix("npm:") {
            return package.parse().map(Self::Npm).map_err(wrong);
        }
        if let Some(place) = text.strip_prefix("git:").or_else(|| text.strip_prefix("git+")) {
            return GitSource::new(place).map(Self::Git).map_err(wrong);
        }
        let scheme = text.split_once(':').map(|(scheme, _)| scheme);
        let is_word = |word: &str| {
            word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+')
        };
        if scheme.is_some_and(is_word) && !Path::new(text).exists() {
            return Err(wrong("nothing is downloaded by that name"));
        }
        if text.is_empty() {
            return Err(wrong("it is empty"));
        }
        let path = PathBuf::from(text);
        let is_archive =
            ARCHIVES.iter().any(|end| text.to_ascii_lowercase().ends_with(end)) && !path.is_dir();
        Ok(if is_archive { Self::Archive(path) } else { Self::Folder(path) })
    }
}

/// A place as it may be shown: what stands where an address has its user and password is left out, and what it asks a server for. Rather
/// too much is left out than too little.
fn without_credentials(text: &str) -> String {
    let scheme = text.find("://").map(|at| at + "://".len());
    let begin = scheme
        .or_else(|| text.find([':', '+']).map(|at| at + 1).filter(|_| text.starts_with("git")))
        .unwrap_or(0);
    let (head, rest) = text.split_at_checked(begin).unwrap_or((text, ""));
    let (shown, query) = match rest.split_once('?').filter(|_| scheme.is_some()) {
        Some((shown, _)) => (shown, "?..."),
        None => (rest, ""),
    };
    match rest.rsplit_once('@') {
        // `git@host:path` has a user, and no password before it.
        Some((user, place)) if scheme.is_some() || (user.contains(':') && !text.starts_with("npm:")) => {
            let place = place.split('?').next().unwrap_or_default();
            format!("{head}...@{place}{query}")
        }
        _ => format!("{head}{shown}{query}"),
    }
}

/// Where a plugin did come from: which commit, which version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// In words, for the list and for people. It holds no credentials.
    pub words: String,
    /// What people should know of how it was fetched.
    pub notes: Vec<String>,
}

/// Why a plugin can't be had from where it is said to be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The program that gets it is not there.
    #[error(
        "`{tool}` is needed for that, and can't be started: {error}\nhint: install {tool}, or get the plugin some other way and install its folder"
    )]
    NoTool {
        /// The program.
        tool: &'static str,
        /// Why it does not start.
        error: std::io::Error,
    },
    /// The program did not do it.
    #[error(
        "`{tool}` could not {what}: {said}\nhint: look whether the name is right, and whether the network is reached; nothing was changed"
    )]
    Tool {
        /// The program.
        tool: &'static str,
        /// What it was to do.
        what: &'static str,
        /// What it said.
        said: String,
    },
    /// It needs more than it may.
    #[error(
        "`{tool}` was ended: it {what}\nhint: get the plugin some other way and install its folder; nothing was changed"
    )]
    TooMuch {
        /// The program.
        tool: &'static str,
        /// What it did.
        what: &'static str,
    },
    /// Something in it that is not taken.
    #[error("{0}")]
    Refused(String),
    /// An entry of an archive.
    #[error(
        "`{name}` in the archive {what}\nhint: it is refused as a whole; pack the plugin's files, folders and links that stay inside"
    )]
    Entry {
        /// Its name.
        name: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// An archive is larger than it looks.
    #[error(
        "the archive is not unpacked: {0}\nhint: leave out what the plugin does not need, or install its folder"
    )]
    Exceeded(String),
    /// It is no archive that is read.
    #[error("the archive can't be read: {0}\nhint: it is a `.tar`, or one that gzip has compressed")]
    Form(String),
    /// Its files.
    #[error(transparent)]
    Package(#[from] PackageError),
}

impl fmt::Display for Source {
    /// As it was written, without what nobody needs to see.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) | Self::Archive(path) => write!(f, "{}", path.display()),
            Self::Git(git) => write!(f, "git:{git}"),
            Self::Npm(npm) => write!(f, "npm:{npm}"),
        }
    }
}

/// Where a plugin is fetched to: a folder for itself, and one for what is needed on the way.
pub(crate) struct Scratch<'a> {
    /// The plugin's. It is made, and empty.
    pub(crate) plugin: &'a Path,
    /// Beside it. It is made, and empty.
    pub(crate) work: &'a Path,
    /// The person's environment.
    pub(crate) environment: &'a (dyn Fn(&str) -> Option<String> + Sync),
}

impl Home {
    /// Gets a plugin beside those that are installed, and looks at it.
    ///
    /// # Errors
    ///
    /// [`TrustError`]; nothing of it is left then.
    pub async fn fetch(
        &self,
        source: &Source,
        purpose: Purpose,
        environment: &(dyn Fn(&str) -> Option<String> + Sync),
    ) -> Result<Staged, TrustError> {
        let room = self.room(purpose)?;
        let work = room.work()?;
        let scratch = Scratch { plugin: room.plugin(), work: &work, environment };
        let origin = match source {
            Source::Folder(path) => {
                package::copy(&really(path)?, scratch.plugin, &Bounds::default())?;
                Origin { words: absolute(path), ..Origin::default() }
            }
            Source::Archive(path) => {
                archive::unpack(path, scratch.plugin, &Bounds::default())?;
                Origin { words: absolute(path), ..Origin::default() }
            }
            Source::Git(source) => git::fetch(source, &scratch).await?,
            Source::Npm(source) => npm::fetch(source, &scratch).await?,
        };
        if !matches!(source, Source::Folder(_)) {
            only_folder(scratch.plugin, &work)?;
        }
        self.staged(room, origin)
    }
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// Archives often hold one folder, and the plugin is in that.
fn only_folder(plugin: &Path, work: &Path) -> Result<(), TrustError> {
    if [OURS].iter().chain(&THEIRS).any(|name| plugin.join(name).symlink_metadata().is_ok()) {
        return Ok(());
    }
    let failed = crate::trust::io_error(plugin);
    let inside: Vec<PathBuf> =
        fs::read_dir(plugin).map_err(&failed)?.take(2).flatten().map(|entry| entry.path()).collect();
    let [only] = inside.as_slice() else { return Ok(()) };
    if !only.symlink_metadata().map_err(&failed)?.is_dir() {
        return Ok(());
    }
    let beside = work.join("only-folder");
    fs::rename(only, &beside).map_err(&failed)?;
    fs::remove_dir(plugin).map_err(&failed)?;
    fs::rename(&beside, plugin).map_err(&failed)
}

#[cfg(test)]
mod tests;
