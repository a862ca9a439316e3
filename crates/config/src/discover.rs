//! Which files make up the configuration.
//!
//! The operator's file is the one given explicitly, or the one in the user's configuration folder. Every file found in
//! the working directory or above it is a repository file, outermost first, whoever wrote it. The content of a folder does
//! not show whether it was cloned or created by the user, and a cloned one must not become the operator. All of
//! them count, not only the nearest, so that a file in a vendored folder can't hide the one of the surrounding project.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::place::Place;
use crate::problem::{ConfigError, Problem, ProblemKind, escape};
use crate::reader::LayerKind;
use crate::text::Environment;
use crate::trust;
use backstop_yaml::MAX_BYTES;

/// The names a configuration file may have. A folder may hold only one of them.
pub const FILE_NAMES: [&str; 3] = ["backstop.yaml", "backstop.yml", "backstop.json"];

/// Where to look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Locations {
    /// The operator's file, given explicitly. Replaces the one in `user_folder`.
    pub explicit: Option<PathBuf>,
    /// The folder from which to look upward for repository files; `None` to look for none.
    pub working_directory: Option<PathBuf>,
    /// The folder of the operator's file. A file there must be the user's own and out of a workspace's reach.
    pub user_folder: Option<PathBuf>,
    /// The user's home directory. A working directory that contains it is not a foreign workspace.
    pub home: Option<PathBuf>,
}

impl Locations {
    /// Returns the user's configuration folder: `$XDG_CONFIG_HOME/backstop`, or `$HOME/.config/backstop`. Relative paths in
    /// these variables are ignored, because they would make the working directory choose the operator.
    #[must_use]
    pub fn user_folder(environment: &Environment<'_>) -> Option<PathBuf> {
        let absolute = |name: &str| environment(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
        Some(base.join("backstop"))
    }

    /// Finds and reads the files, the operator's first, then the repository files from the outermost to the nearest.
    ///
    /// # Errors
    ///
    /// When the explicit file does not exist, a folder holds two configuration files, or a file cannot be read, is not
    /// a regular file, is not UTF-8 or is larger than 1 MiB. A repository file that is a symbolic link is refused, and an
    /// operator's file in the user's folder that others may write, or that a workspace or `/proc` leads to.
    pub fn read(&self) -> Result<Vec<Source>, ConfigError> {
        let mut problems = Vec::new();
        let mut sources = Vec::new();
        let mut take = |result: Result<Option<Source>, Problem>| match result {
            Ok(source) => sources.extend(source),
            Err(problem) => problems.push(problem),
        };
        let operator = self.operator_file();
        let operator_path = operator.as_ref().ok().and_then(|path| fs::canonicalize(path.as_deref()?).ok());
        take(operator.and_then(|path| path.map(|path| self.read_operators(&path)).transpose()));
        let mut folders: Vec<&Path> =
            self.working_directory.iter().flat_map(|folder| folder.ancestors()).collect();
        folders.reverse();
        for folder in folders.into_iter().filter(|folder| !folder.as_os_str().is_empty()) {
            take(file_in(folder).and_then(|path| match path {
                Some(path) if operator_path.is_none() || fs::canonicalize(&path).ok() != operator_path => {
                    Source::read(LayerKind::Repository, &path).map(Some)
                }
                _ => Ok(None),
            }));
        }
        ConfigError::check(problems)?;
        Ok(sources)
    }

    fn read_operators(&self, path: &Path) -> Result<Source, Problem> {
        match &self.explicit {
            // Somebody has named it just now.
            Some(_) => Source::read(LayerKind::Operator, path),
            None => Source::from_file(LayerKind::Operator, path, trust::open(path, self)?),
        }
    }

    fn operator_file(&self) -> Result<Option<PathBuf>, Problem> {
        match (&self.explicit, &self.user_folder) {
            (Some(path), _) => Ok(Some(path.clone())),
            (None, Some(folder)) => file_in(folder),
            (None, None) => Ok(None),
        }
    }
}

/// Returns the configuration file in a folder, if there is one.
fn file_in(folder: &Path) -> Result<Option<PathBuf>, Problem> {
    let mut found: Option<PathBuf> = None;
    for name in FILE_NAMES {
        let path = folder.join(name);
        match fs::symlink_metadata(&path) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                continue;
            }
            Err(error) => return Err(unreadable(&path, &error.to_string())),
            Ok(_) => {}
        }
        if let Some(first) = &found {
            let message =
                format!("there are two configuration files in one folder, the other is `{}`", shown(first));
            let problem = Problem::new(ProblemKind::Conflict, Place::file_only(shown(&path)), message);
            return Err(problem.with_hint("keep one of them"));
        }
        found = Some(path);
    }
    Ok(found)
}

/// A configuration text and its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its kind.
    pub kind: LayerKind,
    /// The name of the file for errors and provenance.
    pub name: Arc<str>,
    /// The text.
    pub text: String,
    /// The folder of the file, from which relative paths in it count; `None` for a text without a file.
    pub folder: Option<PathBuf>,
}

impl Source {
    /// Creates a text that did not come from a file, or whose file the caller has read.
    #[must_use]
    pub fn new(kind: LayerKind, name: &str, text: impl Into<String>) -> Self {
        Self { kind, name: name.into(), text: text.into(), folder: None }
    }

    fn read(kind: LayerKind, path: &Path) -> Result<Self, Problem> {
        let fail = |error: io::Error| unreadable(path, &error.to_string());
        if kind == LayerKind::Repository && fs::symlink_metadata(path).map_err(fail)?.is_symlink() {
            return Err(unreadable(path, "a repository's configuration may not be a symbolic link"));
        }
        if !fs::metadata(path).map_err(fail)?.is_file() {
            return Err(unreadable(path, "it is not a regular file"));
        }
        Self::from_file(kind, path, File::open(path).map_err(fail)?)
    }

    fn from_file(kind: LayerKind, path: &Path, file: File) -> Result<Self, Problem> {
        let fail = |error: io::Error| unreadable(path, &error.to_string());
        if !file.metadata().map_err(fail)?.is_file() {
            return Err(unreadable(path, "it is not a regular file"));
        }
        let mut bytes = Vec::new();
        let limit = MAX_BYTES as u64 + 1;
        file.take(limit).read_to_end(&mut bytes).map_err(fail)?;
        if bytes.len() > MAX_BYTES {
            return Err(unreadable(path, &format!("it is larger than {MAX_BYTES} bytes")));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let line = error
                .as_bytes()
                .iter()
                .take(error.utf8_error().valid_up_to())
                .filter(|b| **b == b'\n')
                .count()
                + 1;
            unreadable(path, &format!("it is not UTF-8 in line {line}"))
        })?;
        let folder = path.parent().map(Path::to_path_buf);
        Ok(Self { kind, name: shown(path).into(), text, folder })
    }
}

pub(crate) fn unreadable(path: &Path, why: &str) -> Problem {
    let message = format!("the configuration file cannot be read: {why}");
    Problem::new(ProblemKind::Unreadable, Place::file_only(shown(path)), message)
}

/// A path for people: what cannot be seen is escaped.
pub(crate) fn shown(path: &Path) -> String {
    escape(path.to_string_lossy().chars())
}
