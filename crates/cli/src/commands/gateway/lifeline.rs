//! What ends the program when Backstop is killed and can't end it.
//!
//! A tiny shell waits on a pipe. When this process dies, be it by `kill -9`, the system closes the pipe and the
//! shell kills the program, and removes the folder of the run with the files in it. When the program has ended by itself,
//! the shell is told so first.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::Pid;

/// At the end of input, unless a line comes before: kills `$1`, a process or (with a minus) a group, and clears the folder
/// `$2`.
const SCRIPT: &str =
    r#"read -r line || { kill -s KILL -- "$1"; cd -- "$2" && rm -f -- ./*; rmdir -- "$2"; } 2>/dev/null"#;

/// Holds the pipe.
#[derive(Debug)]
pub(super) struct Lifeline {
    watcher: Child,
}

impl Lifeline {
    /// Has the process killed when this one dies, and the folder cleared; with `group`, the group it leads.
    pub(super) fn new(process: Pid, group: bool, folder: &Path) -> io::Result<Self> {
        let sign = if group { "-" } else { "" };
        let target = format!("{sign}{}", process.as_raw_nonzero());
        let watcher = Command::new("/bin/sh")
            .args([OsStr::new("-c"), SCRIPT.as_ref(), "sh".as_ref(), target.as_ref(), folder.as_os_str()])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self { watcher })
    }

    /// The process that watches.
    pub(super) fn process(&self) -> Option<Pid> {
        i32::try_from(self.watcher.id()).ok().and_then(Pid::from_raw)
    }

    /// The process has ended; its number may belong to another one soon.
    pub(super) fn cut(mut self) {
        if let Some(pipe) = &mut self.watcher.stdin {
            let _ = pipe.write_all(b"\n");
        }
        let _ = self.watcher.wait();
    }
}
