//! A branch of a Git repository elsewhere, to which checkpoints are only added: a commit for each.
//!
//! The branch is `backstop/` and a hash of the name of the log. Each commit has one file, `checkpoint`, and the commit before it as its parent.
//! What that proves is a matter of the repository: it has to refuse what is no fast-forward and to keep its branches
//! (`receive.denyNonFastForwards`, `receive.denyDeletes`), and to belong to somebody else.
//!
//! The laws: *nothing is ever forced*: a commit is added behind the one that was read, or not at all, and a branch that is not what this process
//! left is told. *`git` asks nobody, waits for nobody, and runs nothing but itself and `ssh`*: it has a folder of its own that is thrown away, no
//! configuration and no hooks but those of the repository elsewhere, no terminal and no helper for passwords, an environment that is written
//! down here, and an end. What it says is bounded, and made harmless before it is shown.
//!
//! Limits: who may push is proved by `ssh` alone, by a key file or by the agent of the account. Whoever runs as the same user can push, too, so a
//! commit behind another is worth what the checkpoints in it are: all are compared when the log is verified.

use std::fs;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::SignedCheckpoint;
use crate::witness::file_name;

/// How often it is looked whether a program has ended.
const LOOK: Duration = Duration::from_millis(10);
/// Where `git` is looked for: whoever is judged chooses no program.
const FOLDERS: [&str; 4] = ["/usr/local/bin", "/usr/bin", "/bin", "/run/current-system/sw/bin"];
/// The most commits that are compared.
const MOST_COMMITS: usize = 100_000;
/// How far back the commit is looked for that this process made last.
const NEAR: usize = 1_000;
/// The most bytes of checkpoints of a branch.
const MOST_BYTES: usize = 256 << 20;
/// The most bytes of a short answer.
const MOST_SHORT_BYTES: usize = 64 << 10;
/// The most characters of what `git` says of a failure.
const MOST_SAID_CHARS: usize = 300;
/// The variables that are passed on: how the network is reached.
const PASSED: [&str; 6] = ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"];

/// Why a branch could not be read, or not be added to.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// There is no `git`.
    #[error("there is no program `git` in /usr/local/bin, /usr/bin or /bin\nhint: install it")]
    NoGit,
    /// A folder or a pipe of this machine.
    #[error("`git` can't be run: {0}")]
    Run(#[from] std::io::Error),
    /// It took too long.
    #[error("`git` did not end in its time")]
    Slow,
    /// It said no.
    #[error("`git {what}` failed: {said}")]
    Failed {
        /// What it was asked.
        what: &'static str,
        /// The beginning of what it said, without what drives a terminal.
        said: String,
    },
    /// It said more than is read.
    #[error("`git {0}` said more than is read")]
    TooMuch(&'static str),
    /// Somebody else pushed at the same moment.
    #[error("somebody else pushed to the branch `{0}` at the same moment")]
    Raced(String),
    /// The branch is not one to which was only added.
    #[error(
        "its branch `{0}` does not hold what was pushed to it: somebody has removed it or written it anew\nhint: `receive.denyNonFastForwards` and `receive.denyDeletes` in the repository prevent that"
    )]
    Rewound(String),
}

/// Where a branch is, and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitSettings {
    /// The address: `ssh://`, `https://` or `file://`.
    pub url: String,
    /// The file of the key for `ssh`; without it, the keys of the account and its agent.
    pub ssh_key: Option<PathBuf>,
    /// The file with the keys of hosts for `ssh`; without it, those of the account.
    pub known_hosts: Option<PathBuf>,
    /// A PEM file with the authorities that vouch for the server; without it, those of the system.
    pub authorities: Option<PathBuf>,
    /// How long reading, and adding behind what was read, may take together.
    pub budget: Duration,
}

/// A branch elsewhere.
#[derive(Debug)]
pub struct GitBranches {
    settings: GitSettings,
    /// The commit that this process pushed, or found, last.
    last: Mutex<Option<String>>,
}

/// What a branch has.
#[derive(Debug)]
pub struct GitBranch {
    folder: Scratch,
    name: String,
    /// Its newest commit; `None` where there is no such branch.
    tip: Option<String>,
    /// Its checkpoints, the newest first.
    pub notes: Vec<SignedCheckpoint>,
    /// How many commits have none that can be read.
    pub unreadable: u64,
    /// Whether it has more commits than were read.
    pub is_cut: bool,
    until: Instant,
}

impl GitBranches {
    /// Returns the branches there. Nothing is asked yet.
    pub fn new(settings: GitSettings) -> Self {
        Self { settings, last: Mutex::default() }
    }

    /// Returns the address.
    pub fn url(&self) -> &str {
        &self.settings.url
    }

    /// Reads the newest checkpoint of the branch of a log. Waits.
    ///
    /// # Errors
    ///
    /// [`GitError`]; [`Rewound`](GitError::Rewound) where the branch no longer has what this process found there.
    pub fn newest(&self, origin: &str) -> Result<GitBranch, GitError> {
        self.read(origin, 1)
    }

    /// Reads all checkpoints of the branch of a log, the newest hundred thousand at most. Waits.
    ///
    /// # Errors
    ///
    /// [`GitError`].
    pub fn all(&self, origin: &str) -> Result<GitBranch, GitError> {
        self.read(origin, MOST_COMMITS)
    }

    fn read(&self, origin: &str, depth: usize) -> Result<GitBranch, GitError> {
        let name = branch_of(origin);
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut branch = GitBranch {
            folder: Scratch::new()?,
            tip: None,
            notes: Vec::new(),
            unreadable: 0,
            is_cut: false,
            until: Instant::now() + self.settings.budget,
            name,
        };
        self.git(&branch, "init", &["--quiet", "--bare", "--template=", "."])?;
        let full = format!("refs/heads/{}", branch.name);
        let listed = self.git(&branch, "ls-remote", &["--quiet", "--", self.url(), &full])?;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let tip = listed.lines().find_map(|line| line.split_once('\t').filter(|(_, name)| *name == full));
        branch.tip = tip.map(|(commit, _)| commit.to_owned()).filter(|commit| is_commit(commit));
        match (&branch.tip, last) {
            (None, None) => return Ok(branch),
            (None, Some(_)) => return Err(GitError::Rewound(branch.name.clone())),
            (Some(tip), last) => {
                // One that this process knows is to be among those before it.
                let known = last.filter(|last| last != tip);
                let depth = if known.is_some() { depth.max(NEAR) } else { depth };
                self.fetch(&branch, &full, depth)?;
                if let Some(known) = known {
                    self.is_behind(&branch, &known, tip)?;
                }
            }
        }
        self.read_notes(&mut branch, depth)?;
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&branch.tip);
        Ok(branch)
    }

    fn fetch(&self, branch: &GitBranch, full: &str, depth: usize) -> Result<(), GitError> {
        let (depth, spec) = (format!("--depth={depth}"), format!("+{full}:{full}"));
        let options =
            ["--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", &depth, "--"];
        let arguments = [&options[..], &[self.url(), &spec]].concat();
        self.git(branch, "fetch", &arguments).map(drop)
    }

    /// Finds the commit that was there among those before the newest.
    fn is_behind(&self, branch: &GitBranch, known: &str, tip: &str) -> Result<(), GitError> {
        match self.git(branch, "merge-base", &["--is-ancestor", known, tip]) {
            Err(GitError::Failed { .. }) => Err(GitError::Rewound(branch.name.clone())),
            found => found.map(drop),
        }
    }

    fn read_notes(&self, branch: &mut GitBranch, depth: usize) -> Result<(), GitError> {
        let Some(tip) = branch.tip.clone() else { return Ok(()) };
        let most = format!("--max-count={depth}");
        let commits = self.git(branch, "rev-list", &["--first-parent", &most, &tip])?;
        let commits = String::from_utf8_lossy(&commits).into_owned();
        let asked: String = commits.lines().map(|commit| format!("{commit}:checkpoint\n")).collect();
        branch.is_cut = fs::metadata(branch.folder.0.join("shallow")).is_ok_and(|file| file.len() > 0);
        let found = self.asked(branch, "cat-file", &["--batch"], asked.into_bytes(), MOST_BYTES)?;
        let mut rest = found.as_slice();
        for _ in commits.lines() {
            let (text, after) = blob(rest);
            rest = after;
            let note =
                text.and_then(|text| std::str::from_utf8(text).ok()).and_then(|text| text.parse().ok());
            match note {
                Some(note) => branch.notes.push(note),
                None => branch.unreadable += 1,
            }
        }
        Ok(())
    }

    /// Adds a checkpoint behind the newest commit that was read. Waits.
    ///
    /// # Errors
    ///
    /// [`GitError`]; [`Raced`](GitError::Raced) where another commit is the newest by now, and nothing was added.
    pub fn add(&self, branch: GitBranch, note: &SignedCheckpoint) -> Result<(), GitError> {
        let short = MOST_SHORT_BYTES;
        let text = note.to_string().into_bytes();
        let blob = self.asked(&branch, "hash-object", &["-w", "--stdin"], text, short).and_then(id)?;
        let tree = format!("100644 blob {blob}\tcheckpoint\n");
        let tree = self.asked(&branch, "mktree", &[], tree.into_bytes(), short).and_then(id)?;
        let parent = branch.tip.iter().flat_map(|tip| ["-p", tip.as_str()]);
        let arguments: Vec<&str> = [tree.as_str()].into_iter().chain(parent).collect();
        let what = format!("checkpoint of {} entries\n", note.checkpoint().size).into_bytes();
        let commit = self.asked(&branch, "commit-tree", &arguments, what, short).and_then(id)?;
        let full = format!("refs/heads/{}", branch.name);
        // What was read has to be the newest still: then the new one is behind it, and nothing is forced.
        let lease = format!("--force-with-lease={full}:{}", branch.tip.as_deref().unwrap_or_default());
        let spec = format!("{commit}:{full}");
        let options = ["--porcelain", "--no-verify", "--recurse-submodules=no", &lease, "--"];
        match self.git(&branch, "push", &[&options[..], &[self.url(), &spec]].concat()) {
            Err(GitError::Failed { said, .. }) if is_race(&said) => Err(GitError::Raced(branch.name.clone())),
            pushed => {
                pushed?;
                *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(commit);
                Ok(())
            }
        }
    }

    fn git(&self, branch: &GitBranch, what: &'static str, arguments: &[&str]) -> Result<Vec<u8>, GitError> {
        self.asked(branch, what, arguments, Vec::new(), MOST_BYTES)
    }

    /// Runs `git` once, and returns what it writes.
    fn asked(
        &self,
        branch: &GitBranch,
        what: &'static str,
        arguments: &[&str],
        input: Vec<u8>,
        most: usize,
    ) -> Result<Vec<u8>, GitError> {
        let mut command = self.command(&branch.folder.0)?;
        command.arg(what).args(arguments);
        let mut child = command.spawn()?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        // Threads that nobody waits for longer than for the program: what it has started may hold the pipes.
        std::thread::spawn(move || {
            // Who does not read it all says so by its end.
            let _ = stdin.map(|mut stdin| stdin.write_all(&input));
        });
        let (out, errors) = (reader(stdout, most), reader(stderr, MOST_SHORT_BYTES));
        let ended = wait(&mut child, branch.until);
        if ended.is_err() {
            end(&mut child);
        }
        let status = ended?;
        let (out, mut said) = (taken(&out, branch.until)?, taken(&errors, branch.until)?);
        if !status.success() {
            // A push says on its output what was refused.
            if what == "push" {
                said.extend_from_slice(out.get(..out.len().min(MOST_SHORT_BYTES)).unwrap_or_default());
            }
            return Err(GitError::Failed { what, said: harmless(&said) });
        }
        if out.len() > most {
            return Err(GitError::TooMuch(what));
        }
        Ok(out)
    }

    fn command(&self, folder: &Path) -> Result<Command, GitError> {
        let found = FOLDERS.iter().map(|folder| Path::new(folder).join("git")).find(|path| path.is_file());
        let mut command = Command::new(found.ok_or(GitError::NoGit)?);
        command.current_dir(folder).env_clear();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        for name in PASSED {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        let (scheme, _) = self.url().split_once("://").unwrap_or_default();
        command.envs([
            ("PATH", FOLDERS.join(":").as_str()),
            ("LC_ALL", "C"),
            ("GIT_DIR", "."),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_SYSTEM", "/dev/null"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_ASKPASS", "/bin/false"),
            ("SSH_ASKPASS_REQUIRE", "never"),
            ("GIT_ALLOW_PROTOCOL", scheme),
            ("GIT_SSH_COMMAND", self.ssh().as_str()),
            ("GIT_SSH_VARIANT", "ssh"),
        ]);
        command.env("HOME", folder);
        for who in ["GIT_AUTHOR", "GIT_COMMITTER"] {
            command.env(format!("{who}_NAME"), "backstop").env(format!("{who}_EMAIL"), "backstop@localhost");
        }
        if let Some(agent) = std::env::var_os("SSH_AUTH_SOCK").filter(|_| self.settings.ssh_key.is_none()) {
            command.env("SSH_AUTH_SOCK", agent);
        }
        if let Some(authorities) = &self.settings.authorities {
            command.env("GIT_SSL_CAINFO", authorities);
        }
        for setting in
            ["core.hooksPath=/dev/null", "gc.auto=0", "maintenance.auto=false", "http.followRedirects=false"]
        {
            command.args(["-c", setting]);
        }
        Ok(command)
    }

    /// The line that starts `ssh`, which a shell reads.
    fn ssh(&self) -> String {
        let quoted = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', "'\\''"));
        let mut line = "ssh -F none -o BatchMode=yes -o StrictHostKeyChecking=yes -o ForwardAgent=no -o ConnectTimeout=10".to_owned();
        if let Some(key) = &self.settings.ssh_key {
            line.push_str(&format!(" -o IdentitiesOnly=yes -i {}", quoted(key)));
        }
        if let Some(hosts) = &self.settings.known_hosts {
            line.push_str(&format!(
                " -o GlobalKnownHostsFile=/dev/null -o UserKnownHostsFile={}",
                quoted(hosts)
            ));
        }
        line
    }
}

/// Returns the branch of a log.
pub(crate) fn branch_of(origin: &str) -> String {
    let hash: String = file_name(origin).chars().take(32).collect();
    format!("backstop/{hash}")
}

/// A folder that goes with its owner.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, GitError> {
        let folder = std::env::temp_dir().join(format!("backstop-git-{}", uuid::Uuid::new_v4().simple()));
        let mut folders = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut folders, 0o700);
        folders.create(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays is a copy of what the repository has.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Reads a pipe on a thread, and one byte more than the most.
fn reader(pipe: Option<impl Read + Send + 'static>, most: usize) -> Receiver<Vec<u8>> {
    let (done, bytes) = channel();
    std::thread::spawn(move || {
        let mut read = Vec::new();
        let most = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
        // What was read before a failure says more than nothing.
        let _ = pipe.map(|pipe| pipe.take(most).read_to_end(&mut read));
        let _ = done.send(read);
    });
    bytes
}

fn taken(bytes: &Receiver<Vec<u8>>, until: Instant) -> Result<Vec<u8>, GitError> {
    match bytes.recv_timeout(until.saturating_duration_since(Instant::now()).max(LOOK)) {
        Ok(bytes) => Ok(bytes),
        Err(RecvTimeoutError::Timeout) => Err(GitError::Slow),
        Err(RecvTimeoutError::Disconnected) => Ok(Vec::new()),
    }
}

fn wait(child: &mut Child, until: Instant) -> Result<std::process::ExitStatus, GitError> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() >= until {
            return Err(GitError::Slow);
        }
        std::thread::sleep(LOOK);
    }
}

/// Ends a program with what it has started.
fn end(child: &mut Child) {
    #[cfg(unix)]
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Returns the id that `git` wrote.
fn id(bytes: Vec<u8>) -> Result<String, GitError> {
    let text = String::from_utf8(bytes).unwrap_or_default().trim().to_owned();
    if is_commit(&text) { Ok(text) } else { Err(GitError::TooMuch("for an id")) }
}

fn is_commit(text: &str) -> bool {
    [40, 64].contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the next object of `cat-file --batch`, `None` where there is none, and what stands behind it.
fn blob(bytes: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (head, rest) = bytes.split_at(end);
    let rest = rest.get(1..).unwrap_or_default();
    let head = String::from_utf8_lossy(head);
    let mut words = head.split(' ').skip(1);
    let (Some(kind), Some(size)) = (words.next(), words.next().and_then(|size| size.parse().ok())) else {
        return (None, rest);
    };
    let (text, after) = rest.split_at_checked(size).unwrap_or((rest, &[]));
    (Some(text).filter(|_| kind == "blob"), after.get(1..).unwrap_or_default())
}

/// Returns whether a push was refused since the branch is another by now.
fn is_race(said: &str) -> bool {
    let ways = ["stale info", "fetch first", "non-fast-forward", "cannot lock ref", "failed to update ref"];
    ways.iter().any(|way| said.contains(way))
}

/// Returns the beginning of what a program said, on one line and without what drives a terminal.
fn harmless(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let words =
        text.split(|char: char| char.is_whitespace() || char.is_control()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    let is_shown = |char: char| char.is_ascii_graphic() || char == ' ' || char.is_alphanumeric();
    line.chars().map(|char| if is_shown(char) { char } else { '?' }).take(MOST_SAID_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_repository_says_drives_no_terminal() {
        assert_eq!(harmless(b"fatal:\x1b[2J no\n\nremote: \xff x"), "fatal: [2J no remote: ? x");
        assert_eq!(harmless("x".repeat(5000).as_bytes()).len(), MOST_SAID_CHARS);
    }

    #[test]
    fn the_line_for_ssh_is_read_by_a_shell_as_it_was_meant() {
        let settings = GitSettings {
            url: "ssh://git@w.example/t".to_owned(),
            ssh_key: Some("/a b/it's".into()),
            known_hosts: Some("/$(x)".into()),
            authorities: None,
            budget: Duration::ZERO,
        };
        let line = GitBranches::new(settings).ssh();
        let done = Command::new("sh").args(["-c", &format!("printf '%s\\n' {line}")]).output().unwrap();
        let words: Vec<_> = std::str::from_utf8(&done.stdout).unwrap().lines().collect();
        assert!(words.contains(&"/a b/it's") && words.contains(&"UserKnownHostsFile=/$(x)"), "{words:?}");
    }

    #[test]
    fn objects_are_read_one_after_the_other() {
        let bytes = b"aa blob 3\nx\ny\nbb:checkpoint missing\ncc tree 1\nz\ndd blob 0\n\n";
        let (first, rest) = blob(bytes);
        let (second, rest) = blob(rest);
        let (third, rest) = blob(rest);
        let (fourth, rest) = blob(rest);
        assert_eq!((first, second, third, fourth), (Some(&b"x\ny"[..]), None, None, Some(&b""[..])));
        assert!(rest.is_empty());
    }
}
