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
    /// Most bytes of memory that it, and each process that it starts, may write to. Where less is allowed already, that stays. A
    /// program that takes more is told that there is none, and mostly ends of it. Only Linux holds to it.
    pub memory: Option<u64>,
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

/// Closes the descriptors in `$1`, allows itself no more than `$2` KiB of memory, if that says a number, and becomes the rest. What can't be
/// limited is not started.
const BECOMING: &str = r#"for fd in $1; do eval "exec $fd>&-"; done
if [ -n "$2" ]; then
  now=$(ulimit -d) || exit 126
  if [ "$now" = unlimited ] || [ "$now" -gt "$2" ]; then ulimit -d "$2" || exit 126; fi
fi
shift 2; exec "$@""#;

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
            memory: None,
        }
    }

    /// The command that starts it.
    pub(crate) fn into_command(self) -> Command {
        let open = match self.descriptors {
            Descriptors::HandedOn => Vec::new(),
            Descriptors::None => handed_on(),
        };
        let memory = self.memory.map(|bytes| (bytes / 1024).to_string()).unwrap_or_default();
        let mut command = if open.is_empty() && memory.is_empty() {
            Command::new(&self.path)
        } else {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", BECOMING, "sh", &open.join(" "), &memory]).arg(&self.path);
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_bound_of_memory_never_allows_more_than_there_was() {
        let inner = || Program {
            arguments: vec!["-c".into(), "ulimit -d".into()],
            memory: Some(64 << 20),
            ..Program::new("/bin/sh")
        };
        for (outer, left) in [("unlimited", "65536"), ("1048576", "65536"), ("16384", "16384")] {
            let command = inner().into_command();
            let command = command.as_std();
            let mut within = std::process::Command::new("/bin/sh");
            within.args(["-c", &format!("ulimit -d {outer}; exec \"$@\""), "sh"]);
            within.arg(command.get_program()).args(command.get_args());
            let printed =
                within.output().map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
            assert_eq!(printed.ok().as_deref(), Some(left), "{outer}");
        }
    }
}
