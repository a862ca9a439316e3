//! The machine's Node: which program it is, whether it is new enough, and what it is told to keep a plugin from.
//!
//! The law: *a program is looked up once*. Whoever looks says where it is; it is asked for its version then, and each start is of the file that
//! answered. Node holds a plugin to the files that are granted, and to no programs, threads and native code where none is ([`unheld`] says
//! what it does not hold).
//!
//! Limits: Node says of its walls that they keep code from mistakes, not from malice. What is not trusted runs inside.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use backstop_process::{Family, Program, read_bounded};
use backstop_script::{FileAccess, FileGrant, Permissions, ScriptError};

use crate::permissions::{Access, Permissions as Granted};

/// The oldest Node that has what is needed of it: modules that are handed over, and a wall around files.
const OLDEST: Version = Version { major: 20, minor: 12 };
/// How long it may take to say its version.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most bytes of what it says then.
const MOST_SAID: usize = 4 << 10;
/// Megabytes that objects of a plugin may take.
const MOST_MEGABYTES: u32 = 512;
/// What it runs: it reads the program that it is to be from its standard input.
const STUB: &str = include_str!("stub.js");

/// A version of Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    major: u32,
    minor: u32,
}

impl Version {
    /// Reads `v22.1.0`.
    fn read(text: &str) -> Option<Self> {
        let mut parts = text.trim().strip_prefix('v')?.split('.').map(|part| part.parse().ok());
        Some(Self { major: parts.next()??, minor: parts.next()?? })
    }

    /// The word for the wall around files, which had another one while it was new.
    fn wall(self) -> &'static str {
        let is_settled = self >= (Self { major: 23, minor: 5 })
            || (self.major == 22 && self >= (Self { major: 22, minor: 13 }));
        if is_settled { "--permission" } else { "--experimental-permission" }
    }

    /// Whether its wall stands around the network, too, which can be opened as a whole.
    fn walls_network(self) -> bool {
        self.major >= 25
    }
}

/// Which file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> std::io::Result<Self> {
        let data = std::fs::metadata(path)?;
        Ok(Self {
            device: data.dev(),
            inode: data.ino(),
            size: data.len(),
            changed: (data.ctime(), data.ctime_nsec()),
        })
    }
}

/// Node, as it was looked up.
#[derive(Clone, Debug)]
pub struct Node {
    program: PathBuf,
    version: Version,
    stamp: Stamp,
}

/// Why there is no Node that a plugin could run under.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// There is none.
    #[error("there is no Node.js to run it under: {0}\nhint: install Node.js {major}.{minor} or later, or take `runtime: node` out of its entry", major = OLDEST.major, minor = OLDEST.minor)]
    None(String),
    /// It does not say which it is.
    #[error("`{}` does not say which Node.js it is: {why}", .program.display())]
    Silent {
        /// The program.
        program: PathBuf,
        /// What it did instead.
        why: String,
    },
    /// It is too old.
    #[error("`{}` is Node.js {major}.{minor}, and plugins need {}.{} or later\nhint: install a newer one", .program.display(), OLDEST.major, OLDEST.minor)]
    Old {
        /// The program.
        program: PathBuf,
        /// Its version.
        major: u32,
        /// The second part of it.
        minor: u32,
    },
    /// It is another program now.
    #[error("`{}` is not the file that was looked up\nhint: load plugins anew with `backstop plugins reload`", .0.display())]
    Changed(PathBuf),
}

impl Node {
    /// The Node at `program`, a path without links. It is started once, to say its version.
    ///
    /// # Errors
    ///
    /// [`NodeError`].
    pub async fn at(program: PathBuf) -> Result<Self, NodeError> {
        let none = |error: std::io::Error| NodeError::None(format!("`{}`: {error}", program.display()));
        let stamp = Stamp::of(&program).map_err(none)?;
        let silent = |why: String| NodeError::Silent { program: program.clone(), why };
        let said = version(&program).await.map_err(|error| silent(error.to_string()))?;
        let version = Version::read(&said).ok_or_else(|| silent("it said something else".to_owned()))?;
        if version < OLDEST {
            let Version { major, minor } = version;
            return Err(NodeError::Old { program, major, minor });
        }
        Ok(Self { program, version, stamp })
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Whether it still is the file that was looked up.
    pub(super) fn check(&self) -> Result<(), NodeError> {
        match Stamp::of(&self.program) {
            Ok(stamp) if stamp == self.stamp => Ok(()),
            _ => Err(NodeError::Changed(self.program.clone())),
        }
    }

    /// What it is started with for a plugin that may reach this.
    pub(super) fn arguments(&self, permissions: &Permissions) -> Result<Vec<OsString>, ScriptError> {
        let mut words: Vec<OsString> = [
            self.version.wall(),
            "--no-addons",
            "--experimental-vm-modules",
            "--disable-warning=ExperimentalWarning",
        ]
        .map(OsString::from)
        .to_vec();
        words.push(format!("--max-old-space-size={MOST_MEGABYTES}").into());
        let writable = permissions.files.iter().filter(|grant| grant.access == FileAccess::Write);
        words.extend(open("--allow-fs-read=", permissions.files.iter())?);
        words.extend(open("--allow-fs-write=", writable)?);
        if !permissions.programs.is_empty() {
            words.push("--allow-child-process".into());
        }
        if self.version.walls_network() && !permissions.hosts.is_empty() {
            words.push("--allow-net".into());
        }
        words.extend(["-e".into(), STUB.into()]);
        Ok(words)
    }
}

/// The words that open folders, each once and none inside of another: Node 20 ends in its list of them otherwise.
fn open<'a>(word: &str, grants: impl Iterator<Item = &'a FileGrant>) -> Result<Vec<OsString>, ScriptError> {
    let places =
        grants.flat_map(|grant| std::iter::once(grant.root.clone()).chain(grant.root.canonicalize().ok()));
    let places: BTreeSet<PathBuf> = places.collect();
    let is_outermost = |place: &&PathBuf| !place.ancestors().skip(1).any(|above| places.contains(above));
    let word = |place: &PathBuf| {
        let text = place.to_str().filter(|text| !text.contains(['*', ','])).ok_or_else(|| {
            let place = place.display();
            let reason = format!("Node can't be granted the folder `{place}`, whose name has `*` or `,`");
            ScriptError::Runtime { reason }
        })?;
        Ok(format!("{word}{}/*", text.trim_end_matches('/')).into())
    };
    places.iter().filter(is_outermost).map(word).collect()
}

async fn version(program: &Path) -> std::io::Result<String> {
    let family = Family::new("BACKSTOP_NODE_VERSION", uuid::Uuid::now_v7().simple().to_string());
    let asked =
        Program { arguments: vec!["--version".into()], output: Stdio::piped(), ..Program::new(program) };
    let mut running = family.start(asked)?;
    let output = running.take_output();
    let said = async {
        match output {
            Some(output) => read_bounded(output, MOST_SAID).await,
            None => Err(std::io::Error::other("it has no output")),
        }
    };
    let (_, said) = tokio::join!(running.finish(tokio::time::sleep(PATIENCE), Duration::ZERO), said);
    Ok(String::from_utf8_lossy(&said?.bytes).into_owned())
}

/// What Node does not hold a plugin to that is granted this, in plain words, for people before they consent.
#[must_use]
pub fn unheld(granted: &Granted) -> Vec<String> {
    let mut words = vec![
        "its code runs under Node.js, in a process with your account's rights".to_owned(),
        "Node.js keeps it from files, programs, threads and native code that it is not granted, and promises to hold code by that which does not want out, not code that does".to_owned(),
        "it is not kept from the network (only from Node.js 25 on, where no host is granted): it can connect to any host, and to any service of this machine, which may do for it what it is kept from".to_owned(),
    ];
    if !granted.programs.is_empty() {
        words.push(
            "it is granted a program, so it can start any, and what it starts is kept from nothing"
                .to_owned(),
        );
    }
    if !granted.files.is_empty() {
        words.push("links that lie in folders that it is granted lead it wherever they lead".to_owned());
    }
    if granted.files.iter().any(|(_, access)| *access == Access::Write) {
        words.push("it can make links in folders that it may change".to_owned());
    }
    words.push("it can see who runs it and how this machine is called, and end your other processes, Backstop among them".to_owned());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_say_what_is_needed_of_them() {
        let read = |text| Version::read(text).unwrap();
        assert!(read("v20.20.2\n") >= OLDEST && read("v18.19.1") < OLDEST && read("v20.9.0") < OLDEST);
        assert_eq!(read("v22.12.0").wall(), "--experimental-permission");
        assert_eq!(read("v22.13.1").wall(), "--permission");
        assert_eq!(read("v23.4.0").wall(), "--experimental-permission");
        assert_eq!(read("v24.0.0").wall(), "--permission");
        assert!(!read("v24.9.0").walls_network() && read("v25.0.0").walls_network());
        for bad in ["", "20.1.0", "v20", "vx.1", "node"] {
            assert_eq!(Version::read(bad), None, "{bad}");
        }
    }

    #[test]
    fn folders_are_opened_once_and_none_with_a_pattern_in_its_name_is() {
        let grant = |root: &str| FileGrant { root: root.into(), access: FileAccess::Read };
        assert!(open("--x=", [grant("/a*b")].iter()).is_err());
        let words = open("--x=", ["/none/b/", "/none/b/c", "/none/bc", "/none/b"].map(grant).iter()).unwrap();
        assert_eq!(words, ["--x=/none/b/*", "--x=/none/bc/*"]);
        assert_eq!(open("--x=", [grant("/")].iter()).unwrap(), ["--x=/*"]);
    }
}
