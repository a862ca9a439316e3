//! A place in which generated programs can reach nothing but stubs.
//!
//! The folder of a sandbox is the working directory and the home of every program, its PATH has one entry with nothing
//! but stubs in it, and its environment is otherwise empty. Processes have bounds of time, memory, size of files and
//! number of descriptors, and there is no network where the system can take it away. What is still there when a shell has
//! ended is ended too.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::generator::Dialect;
use super::stub::{STUBS, records};

/// How long a program may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long jobs that a shell left behind may go on.
const FAREWELL: Duration = Duration::from_millis(30);
/// Bounds for the shell and what it starts: seconds, blocks, kilobytes, descriptors, processes.
const BOUNDS: &str = "ulimit -t 5; ulimit -f 2048; ulimit -v 2000000; ulimit -n 64; \
                      ulimit -u 4000 2>/dev/null || ulimit -p 4000 2>/dev/null || :; exec \"$0\" \"$@\"";

/// Files that every program finds in its folder.
const FILES: [(&str, &str); 3] = [("k1", "k one\nk two\n"), ("k2", "a:b c\n"), ("k3", "")];

/// A folder with stubs.
#[derive(Debug)]
pub(crate) struct Sandbox {
    root: tempfile::TempDir,
}

impl Sandbox {
    /// A new one.
    pub(crate) fn new() -> io::Result<Self> {
        let root = tempfile::TempDir::with_prefix("shells-")?;
        let bin = root.path().join("bin");
        std::fs::create_dir(&bin)?;
        std::fs::create_dir(root.path().join("home"))?;
        let (first, others) = STUBS.split_first().ok_or(io::ErrorKind::NotFound)?;
        // A copy, since a link to another disk can't be made, and a soft one would hide where the stub is.
        std::fs::copy(std::env::current_exe()?, bin.join(first))?;
        for other in others {
            std::fs::hard_link(bin.join(first), bin.join(other))?;
        }
        Ok(Self { root })
    }

    /// The folder in which programs run.
    pub(crate) fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    fn log(&self) -> PathBuf {
        self.root.path().join("log")
    }

    /// Runs a program and says what it started; `None` when it took too long.
    pub(crate) fn run(&self, dialect: Dialect, program: &str) -> io::Result<Option<Vec<Vec<String>>>> {
        let home = self.home();
        std::fs::remove_dir_all(&home)?;
        std::fs::create_dir(&home)?;
        for (name, text) in FILES {
            std::fs::write(home.join(name), text)?;
        }
        std::fs::write(self.log(), "")?;
        let mut child = self.command(dialect, program).spawn()?;
        let in_time = end(&mut child)?;
        let log = String::from_utf8_lossy(&std::fs::read(self.log())?).into_owned();
        Ok(in_time.then(|| records(&log)))
    }

    fn command(&self, dialect: Dialect, program: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", BOUNDS]).args(dialect.call()).arg(program);
        command.env_clear().env("PATH", self.root.path().join("bin")).env("HOME", self.home());
        command.current_dir(self.home()).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

/// Waits for the end of a shell and of all it started; false when that took too long.
fn end(child: &mut Child) -> io::Result<bool> {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let begin = Instant::now();
    let mut pause = Duration::from_micros(200);
    let mut in_time = true;
    while child.try_wait()?.is_none() {
        if begin.elapsed() > PATIENCE {
            in_time = false;
            child.kill()?;
        }
        sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(4));
    }
    let Some(group) = group else { return Ok(in_time) };
    let begin = Instant::now();
    while begin.elapsed() < FAREWELL && test_kill_process_group(group).is_ok() {
        sleep(Duration::from_millis(1));
    }
    // An error says that nobody is left.
    let _gone = kill_process_group(group, Signal::KILL);
    Ok(in_time)
}

/// Whether a shell is there.
pub(crate) fn is_there(dialect: Dialect) -> bool {
    dialect.call().first().is_some_and(|path| Path::new(path).exists())
}
