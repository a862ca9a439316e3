//! A commit of a git repository.
//!
//! The law: *nothing of the repository runs, and its configuration is not read*. The commit is fetched into an empty repository of our own,
//! and written out of that as an archive, which the reader of archives unpacks: there is no checkout, so no hook, no filter and no
//! file system monitor; attributes of the tree (`export-ignore`, `export-subst`, `eol`) are overruled, so that what is installed is what the
//! commit holds. Submodules are not fetched, and that is said.
//!
//! A repository of this machine is served by git's own `upload-pack`, which reads its configuration. It heeds nothing there that runs
//! programs, except that releases before those of [`FIXED`] could be made to fetch what is missing in it; they are refused.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::Path;

use super::tool::Tool;
use super::{FetchError, Origin, Scratch, archive};
use crate::package::{Bounds, unwritable};

/// Fixed releases of each line in which `upload-pack` could fetch (CVE-2024-32004); what comes later has the fix.
const FIXED: [(u32, u32, u32); 7] =
    [(2, 39, 4), (2, 40, 2), (2, 41, 1), (2, 42, 2), (2, 43, 4), (2, 44, 1), (2, 45, 1)];
/// Attributes by which an archive would not be the tree.
const VERBATIM: &str =
    "* -export-ignore -export-subst -text -eol -ident -filter -working-tree-encoding -crlf\n";
/// Most characters of an address or a reference.
const LONGEST: usize = 1_000;

/// A repository, and what of it is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitSource {
    place: String,
    reference: Option<String>,
}

impl fmt::Display for GitSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)?;
        self.reference.as_ref().map_or(Ok(()), |reference| write!(f, "#{reference}"))
    }
}

impl GitSource {
    pub(super) fn new(text: &str) -> Result<Self, &'static str> {
        let (place, reference) = match text.split_once('#') {
            Some((place, reference)) => (place, Some(reference)),
            None => (text, None),
        };
        if place.is_empty() || place.starts_with('-') || text.chars().count() > LONGEST {
            return Err("it names no repository");
        }
        if text.chars().any(backstop_yaml::is_invisible) {
            return Err("it has characters that can't be seen");
        }
        if reference.is_some_and(|reference| !is_reference(reference)) {
            return Err("behind `#` stands a branch, a tag or a whole commit");
        }
        Protocol::of(place)?;
        Ok(Self { place: place.to_owned(), reference: reference.map(str::to_owned) })
    }
}

/// A name as git has it, without what git reads as an expression.
fn is_reference(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'/' | b'-');
    !name.is_empty()
        && !name.starts_with(['-', '.', '/'])
        && !name.contains("..")
        && name.bytes().all(is_plain)
}

fn is_commit(name: &str) -> bool {
    matches!(name.len(), 40 | 64) && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// How a repository is reached. There are no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Https,
    Ssh,
    File,
}

impl Protocol {
    fn of(place: &str) -> Result<Self, &'static str> {
        let authority = |rest: &str| rest.split('/').next().unwrap_or_default().to_owned();
        match place.split_once("://") {
            Some(("https", rest)) if authority(rest).contains('@') => {
                Err("its address has credentials in it; over `ssh` git takes those of your agent")
            }
            Some(("https", _)) => Ok(Self::Https),
            Some(("ssh", rest)) => match authority(rest).split_once('@') {
                Some((user, _)) if user.contains(':') => Err("its address has a password in it"),
                _ if authority(rest).starts_with('-') => Err("it names no host"),
                _ => Ok(Self::Ssh),
            },
            Some(("file", _)) => Ok(Self::File),
            Some(_) => Err("a repository is reached by `https`, `ssh` or as a folder"),
            // `ext::sh -c ...` and the like: helpers that are programs.
            None if place.contains("::") => Err("a repository is reached by `https`, `ssh` or as a folder"),
            // `git@host:path`, unless a folder's name has a colon.
            None => match place.split_once(':') {
                Some((host, _)) if !host.contains('/') => Ok(Self::Ssh),
                _ => Ok(Self::File),
            },
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Ssh => "ssh",
            Self::File => "file",
        }
    }
}

pub(super) async fn fetch(source: &GitSource, scratch: &Scratch<'_>) -> Result<Origin, FetchError> {
    let protocol =
        Protocol::of(&source.place).map_err(|why| FetchError::Refused(format!("`{source}`: {why}")))?;
    let agent = (scratch.environment)("SSH_AUTH_SOCK");
    let agent = agent.as_deref().map(|agent| ("SSH_AUTH_SOCK", agent));
    let git = Tool::new(
        "git",
        scratch,
        &[
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_SYSTEM", "/dev/null"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_ALLOW_PROTOCOL", protocol.as_str()),
            // Its home is that of the account, whatever `HOME` says; so its configuration, which can name programs, is left out.
            ("GIT_SSH_COMMAND", "ssh -F none -oBatchMode=yes"),
        ]
        .into_iter()
        .chain(agent)
        .collect::<Vec<_>>(),
    );
    if protocol == Protocol::File {
        let version = git.run("say its version", &["--version".into()], scratch.work).await?;
        if !serves_safely(&version) {
            return Err(FetchError::Refused(
                "this git may run what a repository of this machine says\nhint: update git (2.45.1 has the fix), or install a folder"
                    .to_owned(),
            ));
        }
    }
    let place = match protocol {
        Protocol::File if !source.place.contains("://") => std::path::absolute(&source.place)
            .map_or_else(|_| source.place.clone().into(), std::path::PathBuf::into_os_string),
        _ => OsString::from(&source.place),
    };
    let folder = scratch.work.join("repository.git");
    let of = |arguments: &[&str]| -> Vec<OsString> {
        let mut all: Vec<OsString> = vec!["--git-dir".into(), folder.clone().into_os_string()];
        let ours = [
            "core.hooksPath=/dev/null",
            "core.fsmonitor=false",
            "protocol.version=2",
            "gc.auto=0",
            // What is larger is not held in memory; and a pack stays one, which is read in parts.
            "core.bigFileThreshold=16m",
            "fetch.unpackLimit=1",
            "pack.threads=1",
        ];
        all.extend(ours.iter().flat_map(|setting| ["-c".into(), OsString::from(setting)]));
        all.extend(arguments.iter().map(OsString::from));
        all
    };
    let mut init: Vec<OsString> =
        ["init", "--quiet", "--bare", "--template=", "--"].map(OsString::from).into();
    init.push(folder.clone().into_os_string());
    git.run("make a repository", &init, scratch.work).await?;
    let mut fetch = of(&["fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--"]);
    fetch.extend([place, source.reference.as_deref().unwrap_or("HEAD").into()]);
    git.run("fetch that", &fetch, scratch.work).await?;
    let found = git
        .run("tell the commit", &of(&["rev-parse", "--verify", "FETCH_HEAD^{commit}"]), scratch.work)
        .await?;
    let commit = found.trim().to_owned();
    let is_asked = source.reference.as_ref().is_none_or(|asked| !is_commit(asked) || *asked == commit);
    if !is_commit(&commit) || !is_asked {
        return Err(FetchError::Refused(format!(
            "git fetched `{commit}`, which is not the commit that was asked for"
        )));
    }
    write_out(&git, &of, &commit, &folder, scratch).await?;
    let mut notes = Vec::new();
    if scratch.plugin.join(".gitmodules").symlink_metadata().is_ok() {
        notes.push("it has submodules, which are not fetched".to_owned());
    }
    Ok(Origin { words: format!("git:{source} at {commit}"), notes })
}

/// Writes the commit's tree into the plugin's folder.
async fn write_out(
    git: &Tool<'_>,
    of: &dyn Fn(&[&str]) -> Vec<OsString>,
    commit: &str,
    folder: &Path,
    scratch: &Scratch<'_>,
) -> Result<(), FetchError> {
    let info = folder.join("info");
    fs::create_dir_all(&info).map_err(unwritable(&info))?;
    fs::write(info.join("attributes"), VERBATIM).map_err(unwritable(&info))?;
    let (reader, writer) = std::io::pipe().map_err(unwritable(folder))?;
    let to = scratch.plugin.to_owned();
    let unpacked = tokio::task::spawn_blocking(move || {
        let bounds = Bounds::default();
        archive::untar(archive::Bounded::new(std::io::BufReader::new(reader), &bounds, None), &to, &bounds)
    });
    let tree = format!("{commit}^{{tree}}");
    let arguments = of(&["archive", "--format=tar", &tree]);
    let poured = git.pour("write the commit out", &arguments, scratch.work, writer).await;
    // What the reader found wrong comes first: git only fails because nobody reads on.
    unpacked.await.unwrap_or_else(|error| Err(FetchError::Form(error.to_string())))?;
    poured
}

/// Whether this release serves a repository without doing what that says.
fn serves_safely(version: &str) -> bool {
    let numbers = version.split_whitespace().nth(2).unwrap_or_default();
    let mut parts = numbers.split('.').map_while(|part| part.parse::<u32>().ok());
    let (Some(major), Some(minor)) = (parts.next(), parts.next()) else { return false };
    let release = (major, minor, parts.next().unwrap_or(0));
    let newest = FIXED.iter().max().is_some_and(|newest| release >= *newest);
    newest
        || FIXED
            .iter()
            .any(|(major, minor, patch)| (release.0, release.1) == (*major, *minor) && release.2 >= *patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_that_could_be_made_to_fetch_are_told_apart() {
        for (version, safe) in [
            ("git version 2.47.3", true),
            ("git version 2.45.1", true),
            ("git version 2.45.0", false),
            ("git version 2.39.5 (Apple Git-154)", true),
            ("git version 2.39.3", false),
            ("git version 2.30.2", false),
            ("git version 3.0", true),
            ("git version 2.50.1.windows.1", true),
            ("hello", false),
        ] {
            assert_eq!(serves_safely(version), safe, "{version}");
        }
    }

    #[test]
    fn repositories_are_reached_in_three_ways_and_in_no_other() {
        for (place, protocol) in [
            ("https://example.org/a.git", Protocol::Https),
            ("ssh://git@example.org/a.git", Protocol::Ssh),
            ("git@example.org:a.git", Protocol::Ssh),
            ("file:///srv/a.git", Protocol::File),
            ("/srv/a.git", Protocol::File),
            ("./a:b", Protocol::File),
        ] {
            assert_eq!(Protocol::of(place), Ok(protocol), "{place}");
        }
        let password = ["https://me:", "word", "@example.org/a.git"].concat();
        for bad in [
            "ext::sh -c true",
            "http://example.org/a.git",
            "git://example.org/a.git",
            "ftp://example.org/a",
            "fd::3",
            "https://me@example.org/a.git",
            &password,
            "ssh://-oProxyCommand=x/a",
            "-u",
            "",
            "a#",
            "a#-x",
            "a#a..b",
            "a#HEAD@{1}",
            "a#v1^{}",
            "a\u{202e}b",
        ] {
            assert!(GitSource::new(bad).is_err(), "{bad}");
        }
        assert_eq!(
            GitSource::new("/srv/a#v1.0").map(|source| source.to_string()),
            Ok("/srv/a#v1.0".to_owned())
        );
    }
}
