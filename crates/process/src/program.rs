//! What is to be started.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::Command;

/// Which open files of this process a program gets beside its three standard ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Descriptors {
    /// Those that this process was itself given to hand on. What it opens is never among them.
    #[default]
    HandedOn,
    /// None. Of what this process was given to hand on, those numbered 3 to 9 are closed on the way, which is all that
    /// every shell can name.
    None,
}

/// A program and what it is given. Its environment is this one and nothing else, but for the mark of its family.
pub struct Program {
    /// What to run: a path, or a name that is looked for in the `PATH` of this process.
    pub path: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Where it runs.
    pub directory: PathBuf,
    /// Its environment.
    pub environment: BTreeMap<OsString, OsString>,
    /// Its standard input.
    pub input: Stdio,
    /// Its standard output.
    pub output: Stdio,
    /// Its standard error.
    pub errors: Stdio,
    /// The other open files that it gets.
    pub descriptors: Descriptors,
}

impl std::fmt::Debug for Program {
    /// Without arguments and environment, which may hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program")
            .field("path", &self.path)
            .field("arguments", &self.arguments.len())
            .field("environment", &self.environment.len())
            .finish_non_exhaustive()
    }
}

/// Closes the descriptors in `$1` and becomes the rest.
const CLOSING: &str = r#"for fd in $1; do eval "exec $fd>&-"; done; shift; exec "$@""#;

impl Program {
    /// A program without arguments, environment, input and output, in the root folder.
    pub fn new(path: impl Into<OsString>) -> Self {
        Self {
            path: path.into(),
            arguments: Vec::new(),
            directory: PathBuf::from("/"),
            environment: BTreeMap::new(),
            input: Stdio::null(),
            output: Stdio::null(),
            errors: Stdio::null(),
            descriptors: Descriptors::default(),
        }
    }

    /// The command that starts it.
    pub(crate) fn into_command(self) -> Command {
        let open = match self.descriptors {
            Descriptors::HandedOn => Vec::new(),
            Descriptors::None => handed_on(),
        };
        let mut command = if open.is_empty() {
            Command::new(&self.path)
        } else {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", CLOSING, "sh", &open.join(" ")]).arg(&self.path);
            shell
        };
        command
            .args(&self.arguments)
            .current_dir(&self.directory)
            .env_clear()
            .envs(&self.environment)
            .stdin(self.input)
            .stdout(self.output)
            .stderr(self.errors);
        command
    }
}

/// The descriptors of this process that would go on to a program and that a shell can name.
#[cfg(target_os = "linux")]
fn handed_on() -> Vec<String> {
    (3..=9).filter(|fd| crate::proc::is_handed_on(*fd)).map(|fd: u8| fd.to_string()).collect()
}

/// Other systems don't say; a descriptor that is not open can be closed as well.
#[cfg(not(target_os = "linux"))]
fn handed_on() -> Vec<String> {
    (3..=9).map(|fd: u8| fd.to_string()).collect()
}
