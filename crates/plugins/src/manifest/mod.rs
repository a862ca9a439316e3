//! What a plugin says of itself before any of its code runs.
//!
//! A plugin is a folder with a manifest: ours (`backstop.plugin.json`), or those that plugins of OpenClaw are published with
//! (`package.json` with `openclaw.extensions`, and `openclaw.plugin.json`). Both become a [`Manifest`]. The law: *no silent gap*.
//! A key that ours has not is an error with its place and the nearest name; a key of theirs that nothing here reads is in
//! [`Manifest::notes`], and whoever lists the plugin shows it.
//!
//! Limits: a manifest has at most 1 MiB. It is data of a stranger: names are held to a small set of characters, and paths to the
//! plugin's own folder.

mod ours;
mod points;
mod theirs;

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use backstop_hooks::{Json, OwnerId, PointId};
use backstop_yaml::{Node, Place, Problem, ProblemKind};

use crate::external::command::Dialect;
use crate::package::{Seal, open_itself};
use crate::permissions::Permissions;
use crate::registration::HookSpec;

/// Our manifest's name.
pub const OURS: &str = "backstop.plugin.json";
/// The names of the manifests that plugins of OpenClaw have.
pub const THEIRS: [&str; 2] = ["openclaw.plugin.json", "package.json"];

/// A plugin's id: 1 to 64 of `a-z`, `A-Z`, `0-9`, `-`, `_`, `.`, beginning with a letter or digit and not ending with a dot. It is the
/// owner of the plugin's hooks, and the name of its folders: so none is a name that a system keeps for a device, and no two plugins
/// have ids that differ in case only ([`PluginId::folded`]).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String")]
pub struct PluginId(String);

/// A name that no plugin can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` can't be the id of a plugin\nhint: {hint}", backstop_yaml::quote(.id))]
pub struct BadId {
    id: String,
    hint: &'static str,
}

impl PluginId {
    /// Most characters.
    const LIMIT: usize = 64;

    /// Checks a name.
    ///
    /// # Errors
    ///
    /// [`BadId`], for other characters and for names of Backstop itself.
    pub fn new(id: impl Into<String>) -> Result<Self, BadId> {
        let id = id.into();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let begins = id.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        if id.to_ascii_lowercase().starts_with("builtin:") {
            return Err(BadId { id, hint: "`builtin:` is for what is a part of Backstop" });
        }
        if !begins || id.len() > Self::LIMIT || !id.bytes().all(is_plain) || id.ends_with('.') {
            let hint = "an id has 1 to 64 letters, digits, `-`, `_` and `.`, begins with a letter or digit and does not end with a dot";
            return Err(BadId { id, hint });
        }
        if is_device(&id) {
            return Err(BadId { id, hint: "some systems have no folder of that name" });
        }
        let is_ours = ["builtin", "operator", "backstop"].map(skeleton).contains(&skeleton(&id));
        if is_ours || OwnerId::new(id.as_str()).is_builtin() {
            return Err(BadId { id, hint: "it is a name of Backstop itself, or looks like one" });
        }
        Ok(Self(id))
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id as systems have it that do not tell case apart.
    pub fn folded(&self) -> String {
        self.0.to_ascii_lowercase()
    }

    /// Whether a reader may take one for the other although they are not the same.
    pub fn looks_like(&self, other: &str) -> bool {
        self.0 != other && skeleton(&self.0) == skeleton(other)
    }
}

/// Whether a name, or what stands before its first dot, is that of a device of Windows.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let is_numbered =
        |start: &str| stem.strip_prefix(start).is_some_and(|rest| matches!(rest.as_bytes(), [b'0'..=b'9']));
    matches!(stem.as_str(), "con" | "prn" | "aux" | "nul") || is_numbered("com") || is_numbered("lpt")
}

/// A name without what a reader passes over.
fn skeleton(name: &str) -> String {
    let plain =
        name.chars().filter(|c| !matches!(c, '-' | '_' | '.')).map(|c| match c.to_ascii_lowercase() {
            '0' => 'o',
            '1' | 'i' => 'l',
            '5' => 's',
            other => other,
        });
    plain.collect::<String>().replace("rn", "m").replace("vv", "w")
}

impl TryFrom<String> for PluginId {
    type Error = BadId;

    fn try_from(id: String) -> Result<Self, BadId> {
        Self::new(id)
    }
}

impl fmt::Display for PluginId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whose names and shapes a plugin speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// Ours.
    Backstop,
    /// OpenClaw's.
    OpenClaw,
}

/// Where a plugin's code runs.
#[derive(Clone, Debug)]
pub enum Kind {
    /// JavaScript or TypeScript, in Backstop.
    Script {
        /// The module to begin with, relative to the plugin's folder.
        entry: String,
    },
    /// A program that stays.
    Process {
        /// What is run, and its arguments.
        command: Vec<String>,
    },
    /// A program for each event.
    Command {
        /// What is run, and its arguments.
        command: Vec<String>,
        /// Whose words it speaks.
        dialect: Dialect,
    },
    /// A server.
    Http {
        /// Where to post to.
        url: String,
        /// The variable that holds the value of its `Authorization` header.
        authorization: Option<String>,
    },
}

impl Kind {
    /// Its word in a manifest.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Script { .. } => "script",
            Self::Process { .. } => "process",
            Self::Command { .. } => "command",
            Self::Http { .. } => "http",
        }
    }

    /// What consent to it means, beyond its permissions.
    pub fn sentence(&self) -> String {
        match self {
            Self::Script { .. } => {
                "runs inside of Backstop and reaches nothing but what is granted to it".to_owned()
            }
            Self::Process { command } => {
                format!("starts `{}` and keeps it running, with all the rights that you have", line(command))
            }
            Self::Command { command, .. } => {
                format!("starts `{}` for each event, with all the rights that you have", line(command))
            }
            Self::Http { url, .. } => {
                format!("sends each event to `{}`", backstop_yaml::quote(without_query(url)))
            }
        }
    }
}

fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

/// A command as people read it before they consent to it: whole, and an argument that says more than a word is quoted.
fn line(command: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+${}".contains(c);
    let words = command.iter().map(|word| match !word.is_empty() && word.chars().all(is_plain) {
        true => word.clone(),
        false => format!("{word:?}"),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// What a plugin brings besides hooks, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contracts {
    /// Its tools.
    pub tools: Vec<String>,
    /// Its trusted tool policies.
    pub trusted_tool_policies: Vec<String>,
}

/// A manifest.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The plugin.
    pub id: PluginId,
    /// Its name, for people.
    pub name: String,
    /// Its version.
    pub version: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Whose names and shapes it speaks.
    pub api: Api,
    /// Where its code runs.
    pub kind: Kind,
    /// The hooks that it has. `None` where only its code says.
    pub points: Option<Vec<HookSpec>>,
    /// The points among them at which its code may have no hook.
    pub optional: BTreeSet<PointId>,
    /// What it asks for; `None` where its manifest has no words for that.
    pub asked: Option<Permissions>,
    /// What else it brings.
    pub contracts: Contracts,
    /// The JSON Schema of its options.
    pub config_schema: Option<Json>,
    /// What in it nothing here reads, in words.
    pub notes: Vec<String>,
    /// The file that it was read from.
    pub file: PathBuf,
}

/// Why a folder is no plugin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// There is none.
    #[error(
        "`{}` has no manifest\nhint: a plugin has a `{OURS}`, or a `package.json` with `openclaw.extensions`", .0.display()
    )]
    None(PathBuf),
    /// It can't be read.
    #[error("can't read `{}`: {error}", .path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is not what was looked at.
    #[error("`{}` was changed since the plugin was looked at", .0.display())]
    Changed(PathBuf),
    /// What it says is wrong.
    #[error("{}", .0.to_string().trim_start_matches("error: "))]
    Wrong(Problem),
}

impl From<Problem> for ManifestError {
    fn from(problem: Problem) -> Self {
        Self::Wrong(problem)
    }
}

impl Manifest {
    /// Reads the manifest of the plugin in `folder`. No file outside of it is read, and none through a link.
    ///
    /// # Errors
    ///
    /// [`ManifestError`], with file, line and column of what is wrong.
    pub fn read(folder: &Path) -> Result<Self, ManifestError> {
        Self::looked(Look { folder, seal: None, shown: folder })
    }

    /// Reads it from a folder that was looked at; what was not seen then is not read.
    ///
    /// # Errors
    ///
    /// As [`Self::read`], and [`ManifestError::Changed`].
    pub fn sealed(folder: &Path, seal: &Seal) -> Result<Self, ManifestError> {
        Self::looked(Look { folder, seal: Some(seal), shown: folder })
    }

    /// As [`Self::read`], of a plugin that came from `shown`, which is where its author finds what is wrong.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn read_from(folder: &Path, shown: &Path) -> Result<Self, ManifestError> {
        Self::looked(Look { folder, seal: None, shown })
    }

    fn looked(look: Look<'_>) -> Result<Self, ManifestError> {
        if let Some(ours) = Text::of(look, OURS)? {
            let mut manifest = ours::read(look.folder, &ours)?;
            if Text::of(look, "openclaw.plugin.json")?.is_some() {
                manifest.notes.push(format!("`openclaw.plugin.json` is not read, since there is a `{OURS}`"));
            }
            return Ok(manifest);
        }
        theirs::read(look)
    }

    /// What it asks for, in plain words, with what running it means at all.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = vec![self.kind.sentence()];
        match &self.asked {
            Some(asked) => {
                sentences.extend(asked.sentences().into_iter().map(|words| format!("asks to {words}")));
            }
            None => sentences.push("does not say what it needs; it gets what you grant".to_owned()),
        }
        sentences
    }
}

/// A plugin's folder, and what was seen in it before.
#[derive(Clone, Copy)]
struct Look<'a> {
    folder: &'a Path,
    seal: Option<&'a Seal>,
    /// What errors call the folder.
    shown: &'a Path,
}

/// A file with JSON, and its tree with places.
struct Text {
    path: PathBuf,
    name: Arc<str>,
    text: String,
}

impl Text {
    fn of(look: Look<'_>, name: &str) -> Result<Option<Self>, ManifestError> {
        let path = look.folder.join(name);
        let shown = look.shown.join(name);
        let unreadable = |error| ManifestError::Unreadable { path: shown.clone(), error };
        match path.symlink_metadata() {
            Ok(found) if found.is_file() => {}
            Ok(_) => return Err(unreadable(io::Error::other("it is no file"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(error)),
        }
        let most = backstop_yaml::MAX_BYTES;
        let mut text = String::new();
        // It may be another by now.
        let file = open_itself(&path).map_err(unreadable)?;
        if !file.metadata().map_err(unreadable)?.is_file() {
            return Err(unreadable(io::Error::other("it is no file")));
        }
        let bound = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
        file.take(bound).read_to_string(&mut text).map_err(unreadable)?;
        if text.len() > most {
            return Err(unreadable(io::Error::other(format!("it is larger than {most} bytes"))));
        }
        if look.seal.is_some_and(|seal| !seal.holds(name, text.as_bytes())) {
            return Err(ManifestError::Changed(shown));
        }
        Ok(Some(Self { name: Arc::from(shown.display().to_string()), path, text }))
    }

    /// Its value. JSON alone, as others read it, and no key twice.
    fn json(&self) -> Result<serde_json::Value, Problem> {
        serde_json::from_str(self.text.trim_start_matches('\u{feff}')).map_err(|error| {
            let at = Place::new(Arc::clone(&self.name), error.line(), error.column());
            Problem::new(ProblemKind::Unreadable, at, format!("this is no JSON: {}", reason(&error)))
        })
    }

    fn tree(&self) -> Result<Node, Problem> {
        self.json()?;
        let empty = || Problem::new(ProblemKind::Unreadable, self.place(), "there is nothing in it");
        backstop_yaml::parse(&self.name, &self.text)?.ok_or_else(empty)
    }

    fn place(&self) -> Place {
        Place::file_only(Arc::clone(&self.name))
    }
}

/// What the parser says, without the place at its end.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

/// A path of a manifest, which stays in the plugin's folder: relative, without a leading `./`.
fn inside(folder: &Path, path: &str) -> Result<String, String> {
    let parts: Vec<Component<'_>> =
        Path::new(path).components().filter(|part| *part != Component::CurDir).collect();
    let is_plain = !parts.is_empty() && parts.iter().all(|part| matches!(part, Component::Normal(_)));
    if !is_plain || path.contains('\\') {
        return Err(format!("`{}` is no path inside of the plugin's folder", backstop_yaml::quote(path)));
    }
    let inner: PathBuf = parts.iter().collect();
    let whole = folder.join(&inner);
    let really = whole.canonicalize().ok().zip(folder.canonicalize().ok());
    match really {
        Some((file, root)) if file.starts_with(&root) && file.is_file() => {
            inner.to_str().map(str::to_owned).ok_or_else(|| "a path is not valid text".to_owned())
        }
        Some((file, root)) if !file.starts_with(&root) => {
            Err(format!("`{}` leads out of the plugin's folder", backstop_yaml::quote(path)))
        }
        _ => Err(format!("there is no file `{}`", backstop_yaml::quote(path))),
    }
}

#[cfg(test)]
mod tests;
