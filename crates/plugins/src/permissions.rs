//! What a plugin asks for, what the operator grants, and what it gets: never more than both.
//!
//! A manifest and the operator's entry use the same words: folders to read or to write, names of environment variables, hosts,
//! programs, and whether the plugin may know who runs it. The law: *what a plugin gets is what it asked for and was granted*, so
//! neither a wide grant nor a wide wish gives anything by itself. There is no word for "everything". A plugin whose manifest has
//! no words for this, as those of OpenClaw have not, gets what was granted.
//!
//! Two things are not a matter of words. Its own folder a plugin may read, since its code comes from there. And *nobody writes where
//! code is*: neither in the plugin's own folder nor anywhere in or around the folder of all plugins but the plugin's own data, since what is
//! written there would run with the trust that something else was given ([`Folder::may_be_written`]).
//!
//! Limits: the words say what a plugin may reach through this crate's runtimes. A program of its own (`kind: process`) has the
//! rights of the user that Backstop runs as; of these words only `env` holds for it.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;

/// Most words of one kind.
pub const MOST_WORDS: usize = 256;

/// The words as they are written, in a manifest or in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Words {
    /// Folders.
    pub files: FileWords,
    /// Names of environment variables.
    pub env: Vec<String>,
    /// Hosts: `api.example.org`, `*.example.org`, `127.0.0.1:8080`, `[::1]:8080`.
    pub hosts: Vec<String>,
    /// Programs: names that are looked for in `PATH`, or absolute paths.
    pub programs: Vec<String>,
    /// Whether it may know the user's name and home folder.
    pub user: bool,
}

/// Folders, as they are written: absolute, or below `${plugin}`, `${workspace}` or `${data}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FileWords {
    /// To read.
    pub read: Vec<String>,
    /// To read and to change.
    pub write: Vec<String>,
}

/// A word that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is no {what}\nhint: {hint}", backstop_yaml::quote(.word))]
pub struct BadWord {
    /// Which list it stands in: `files`, `env`, `hosts` or `programs`.
    pub list: &'static str,
    word: String,
    what: &'static str,
    hint: &'static str,
}

/// Where a folder begins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Base {
    Plugin,
    Workspace,
    Data,
    Root,
}

/// A folder, as a permission names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Folder {
    base: Base,
    below: PathBuf,
}

/// The folders that stand behind `${plugin}`, `${workspace}` and `${data}`.
#[derive(Clone, Debug)]
pub struct Folders {
    /// Of the plugin's own files.
    pub plugin: PathBuf,
    /// Where the agent works, if that is known.
    pub workspace: Option<PathBuf>,
    /// Where the plugin may keep files.
    pub data: PathBuf,
}

impl FromStr for Folder {
    type Err = BadWord;

    fn from_str(word: &str) -> Result<Self, BadWord> {
        let bases = [("${plugin}", Base::Plugin), ("${workspace}", Base::Workspace), ("${data}", Base::Data)];
        let placed = bases.into_iter().find_map(|(name, base)| {
            let rest = word.strip_prefix(name)?;
            (rest.is_empty() || rest.starts_with('/')).then(|| (base, rest.trim_start_matches('/')))
        });
        let absolute = || word.strip_prefix('/').map(|rest| (Base::Root, rest));
        let found =
            placed.or_else(absolute).filter(|(_, below)| is_plain(Path::new(below)) && is_clean(below));
        let (base, below) = found.ok_or_else(|| BadWord {
            list: "files",
            word: word.to_owned(),
            what: "folder that a plugin can ask for",
            hint: "write an absolute path without `..`, or one that begins with `${plugin}`, `${workspace}` or `${data}`",
        })?;
        // Written again without a slash at its end or two in a row.
        Ok(Self { base, below: Path::new(below).components().collect() })
    }
}

impl Folder {
    /// All of the plugin's own folder.
    fn own() -> Self {
        Self { base: Base::Plugin, below: PathBuf::new() }
    }

    /// Whether it is the folder that the agent works in, or lies there.
    pub fn is_of_workspace(&self) -> bool {
        self.base == Base::Workspace
    }

    /// Whether writing in it changes no code of plugins. `store` is the folder of all of them.
    pub fn may_be_written(&self, folders: &Folders, store: &Path) -> bool {
        match self.base {
            Base::Plugin => false,
            Base::Data => true,
            Base::Workspace | Base::Root => self.resolve(folders).is_none_or(|folder| {
                // By their names, and by where links lead to.
                let pairs = [(folder.clone(), store.to_owned()), (really(&folder), really(store))];
                pairs.iter().all(|(folder, store)| !folder.starts_with(store) && !store.starts_with(folder))
            }),
        }
    }

    /// Whether `other` is this folder or lies in it.
    fn holds(&self, other: &Self) -> bool {
        self.base == other.base && other.below.starts_with(&self.below)
    }

    /// Where it is. `None` for the workspace of a process that has none.
    pub fn resolve(&self, folders: &Folders) -> Option<PathBuf> {
        let base = match self.base {
            Base::Plugin => folders.plugin.as_path(),
            Base::Workspace => folders.workspace.as_deref()?,
            Base::Data => folders.data.as_path(),
            Base::Root => Path::new("/"),
        };
        Some(if self.below.as_os_str().is_empty() { base.to_owned() } else { base.join(&self.below) })
    }
}

impl fmt::Display for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = match self.base {
            Base::Plugin => "the plugin's own folder",
            Base::Workspace => "the folder that the agent works in",
            Base::Data => "the plugin's folder for data",
            Base::Root => return write!(f, "`/{}`", shown(&self.below)),
        };
        match self.below.as_os_str().is_empty() {
            true => f.write_str(base),
            false => write!(f, "`{}` in {base}", shown(&self.below)),
        }
    }
}

/// A path as the disk has it, as far as it is there.
fn really(path: &Path) -> PathBuf {
    path.ancestors()
        .find_map(|above| {
            let real = above.canonicalize().ok()?;
            Some(path.strip_prefix(above).map_or_else(|_| real.clone(), |below| real.join(below)))
        })
        .unwrap_or_else(|| path.to_owned())
}

fn shown(path: &Path) -> String {
    backstop_yaml::quote(&path.to_string_lossy())
}

fn is_plain(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_)))
}

fn is_clean(word: &str) -> bool {
    !word.contains("${") && !word.chars().any(|c| c.is_control() || backstop_yaml::is_invisible(c))
}

/// What may be done with a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Reading.
    Read,
    /// Reading, making, changing and removing.
    Write,
}

/// A host, as a permission names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host {
    /// A name, `*.` and a name, or an address without brackets; lower case.
    pub name: String,
    /// The port; `None` is the usual one of the scheme.
    pub port: Option<u16>,
}

impl FromStr for Host {
    type Err = BadWord;

    fn from_str(word: &str) -> Result<Self, BadWord> {
        let bad = || BadWord {
            list: "hosts",
            word: word.to_owned(),
            what: "host",
            hint: "write a name such as `api.example.org`, `*.example.org` for all below it, or an address, and `:PORT` where it is not the usual one",
        };
        let port = |text: &str| text.parse().ok().filter(|port| *port != 0).ok_or_else(bad);
        let (name, port) = match word.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, "")) => (address, None),
            Some((address, rest)) => (address, Some(port(rest.strip_prefix(':').ok_or_else(bad)?)?)),
            None => match word.split_once(':') {
                // More than one colon: an address of version 6 without brackets.
                Some((_, rest)) if rest.contains(':') => (word, None),
                Some((name, text)) => (name, Some(port(text)?)),
                None => (word, None),
            },
        };
        let labels = name.strip_prefix("*.").unwrap_or(name);
        let is_label = |label: &str| {
            !label.is_empty()
                && label.len() <= 63
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        };
        // What ends in a number is an address in one of its other spellings.
        let is_number = |label: &str| {
            label.bytes().all(|byte| byte.is_ascii_digit()) || label.to_ascii_lowercase().starts_with("0x")
        };
        let is_name = labels.len() <= 253
            && labels.split('.').all(is_label)
            && !labels.rsplit('.').next().is_some_and(is_number);
        // All below a top-level name is as good as everything.
        let is_wide = name.starts_with("*.") && !labels.contains('.');
        let is_address = name.parse::<std::net::IpAddr>().is_ok();
        match is_address || is_name && !is_wide {
            true => Ok(Self { name: name.to_ascii_lowercase(), port }),
            false => Err(bad()),
        }
    }
}

impl Host {
    fn holds(&self, other: &Self) -> bool {
        let below = |pattern: &str| {
            let own = other.name.strip_prefix("*.").unwrap_or(&other.name);
            let suffix = pattern.strip_prefix('*').unwrap_or(pattern);
            // `*.a.b` holds `c.a.b`, `*.c.a.b` and `*.a.b`, and not `a.b`.
            own.strip_suffix(suffix).is_some_and(|rest| !rest.is_empty()) && suffix.starts_with('.')
        };
        self.port == other.port
            && (self.name == other.name || self.name.starts_with("*.") && below(&self.name))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name.strip_prefix("*."), self.port) {
            (Some(above), None) => write!(f, "any host below `{above}`"),
            (Some(above), Some(port)) => write!(f, "any host below `{above}`, port {port}"),
            (None, None) => write!(f, "`{}`", self.name),
            (None, Some(port)) => write!(f, "`{}`, port {port}", self.name),
        }
    }
}

/// Permissions that were read. The default is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Folders, and what may be done there.
    pub files: BTreeSet<(Folder, Access)>,
    /// Names of environment variables.
    pub env: BTreeSet<String>,
    /// Hosts.
    pub hosts: BTreeSet<Host>,
    /// Programs.
    pub programs: BTreeSet<String>,
    /// Whether it may know the user's name and home folder.
    pub user: bool,
}

/// What a plugin gets, and what it asked for in vain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effective {
    /// What it gets.
    pub given: Permissions,
    /// What it asked for and was not granted, or not whole.
    pub missing: Permissions,
    /// What was granted and never asked for; it is not given.
    pub unasked: Permissions,
}

impl TryFrom<&Words> for Permissions {
    type Error = BadWord;

    fn try_from(words: &Words) -> Result<Self, BadWord> {
        let lists = [&words.files.read, &words.files.write, &words.env, &words.hosts, &words.programs];
        if let Some(word) = lists.into_iter().find_map(|list| list.get(MOST_WORDS)) {
            let (what, hint) = ("word that is read", "a list has at most 256 of them");
            return Err(BadWord { list: "permissions", word: word.clone(), what, hint });
        }
        let mut files = BTreeSet::new();
        for word in &words.files.read {
            files.insert((word.parse()?, Access::Read));
        }
        for word in &words.files.write {
            let folder: Folder = word.parse()?;
            if folder.base == Base::Plugin {
                let (what, hint) = (
                    "folder that a plugin can write in",
                    "its own code is there; files of its own are kept below `${data}`",
                );
                return Err(BadWord { list: "files", word: word.clone(), what, hint });
            }
            files.insert((folder, Access::Write));
        }
        Ok(Self {
            files,
            env: words.env.iter().map(|word| variable(word)).collect::<Result<_, _>>()?,
            hosts: words.hosts.iter().map(|word| word.parse()).collect::<Result<_, _>>()?,
            programs: words.programs.iter().map(|word| program(word)).collect::<Result<_, _>>()?,
            user: words.user,
        })
    }
}

fn variable(word: &str) -> Result<String, BadWord> {
    let is_name = word.len() <= 128
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && word.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    let hint = "it is letters, digits and `_`; there is no pattern for several";
    let bad = || BadWord { list: "env", word: word.to_owned(), what: "name of a variable", hint };
    is_name.then(|| word.to_owned()).ok_or_else(bad)
}

fn program(word: &str) -> Result<String, BadWord> {
    let is_path = word.strip_prefix('/').is_some_and(|rest| !rest.is_empty() && is_plain(Path::new(rest)));
    let is_name =
        !word.is_empty() && !word.contains('/') && !matches!(word, "." | "..") && !word.starts_with('-');
    let hint = "write its name, or its absolute path without `..`; there is no pattern for several";
    let bad = || BadWord { list: "programs", word: word.to_owned(), what: "program", hint };
    let is_one = (is_path || is_name) && is_clean(word) && !word.contains(['*', '?', ' ']);
    is_one.then(|| word.to_owned()).ok_or_else(bad)
}

impl Permissions {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether this folder may be used in this way.
    fn allows(&self, folder: &Folder, access: Access) -> bool {
        self.files.iter().any(|(own, may)| own.holds(folder) && *may >= access)
    }

    /// What a plugin that asks for this gets of `granted`.
    pub fn granted(&self, granted: &Self) -> Effective {
        let mut own = self.clone();
        own.files.retain(|(folder, access)| Folder::own().holds(folder) && *access == Access::Read);
        let own = Self { files: own.files, ..Self::default() };
        let mut given = self.both(granted);
        given.files.extend(own.files);
        let missing = self.without(&given);
        let unasked = granted.without(&given);
        Effective { given, missing, unasked }
    }

    /// What both hold.
    fn both(&self, other: &Self) -> Self {
        let mut files = BTreeSet::new();
        for (one, may) in &self.files {
            for (two, also) in &other.files {
                let access = (*may).min(*also);
                if one.holds(two) {
                    files.insert((two.clone(), access));
                } else if two.holds(one) {
                    files.insert((one.clone(), access));
                }
            }
        }
        let narrower = |one: &Host, two: &Host| match (one.holds(two), two.holds(one)) {
            (true, _) => Some(two.clone()),
            (_, true) => Some(one.clone()),
            _ => None,
        };
        let hosts =
            self.hosts.iter().flat_map(|one| other.hosts.iter().filter_map(move |two| narrower(one, two)));
        Self {
            files,
            env: self.env.intersection(&other.env).cloned().collect(),
            hosts: hosts.collect(),
            programs: self.programs.intersection(&other.programs).cloned().collect(),
            user: self.user && other.user,
        }
    }

    /// What of this is not in `other`, or not whole.
    fn without(&self, other: &Self) -> Self {
        let is_missing = |(folder, access): &&(Folder, Access)| !other.allows(folder, *access);
        Self {
            files: self.files.iter().filter(is_missing).cloned().collect(),
            env: self.env.difference(&other.env).cloned().collect(),
            hosts: (self.hosts.iter())
                .filter(|host| !other.hosts.iter().any(|given| given.holds(host)))
                .cloned()
                .collect(),
            programs: self.programs.difference(&other.programs).cloned().collect(),
            user: self.user && !other.user,
        }
    }

    /// In plain words, one line for each, to be read before consent.
    pub fn sentences(&self) -> Vec<String> {
        let files = self.files.iter().map(|(folder, access)| match access {
            Access::Read => format!("read files in {folder}"),
            Access::Write => format!("read, change and remove files in {folder}"),
        });
        let env = self.env.iter().map(|name| format!("see the environment variable `{name}`"));
        let hosts = self.hosts.iter().map(|host| format!("connect to {host}"));
        let programs =
            self.programs.iter().map(|name| format!("start `{name}`, which then may do whatever you may do"));
        let user = self.user.then(|| "know your user name and home folder".to_owned());
        files.chain(env).chain(hosts).chain(programs).chain(user).collect()
    }
}

#[cfg(test)]
mod tests;
