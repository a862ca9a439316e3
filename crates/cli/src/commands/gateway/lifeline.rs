//! What ends the program when Backstop is killed and can't end it.
//!
//! A tiny shell waits on a pipe. When this process dies, be it by `kill -9`, the system closes the pipe and the
//! shell kills the program. When the program has ended by itself, the shell is told so first.

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use rustix::process::Pid;

/// Kills `$1`, a process or (with a minus) a group, at the end of input, unless a line comes before.
const SCRIPT: &str = r#"read -r line || kill -s KILL -- "$1" 2>/dev/null"#;

/// Holds the pipe.
#[derive(Debug)]
pub(super) struct Lifeline {
    watcher: Child,
}

impl Lifeline {
    /// Has the process killed when this one dies; with `group`, the group it leads.
    pub(super) fn new(process: Pid, group: bool) -> io::Result<Self> {
        let sign = if group { "-" } else { "" };
        let watcher = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "sh", &format!("{sign}{}", process.as_raw_nonzero())])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self { watcher })
    }

    /// The process has ended; its number may belong to another one soon.
    pub(super) fn cut(mut self) {
        if let Some(pipe) = &mut self.watcher.stdin {
            let _ = pipe.write_all(b"\n");
        }
        let _ = self.watcher.wait();
    }
}
