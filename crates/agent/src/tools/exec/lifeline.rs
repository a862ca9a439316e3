//! What ends the commands when this program is killed and cannot end them itself.
//!
//! A tiny shell process waits on a pipe for the numbers of the process groups that run. When this program dies, be
//! it by `kill -9`, the system closes the pipe, and the shell kills the groups that are left. There is one such
//! process per session, started with the first command. A process that left its group is out of its reach.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::process::Pid;

/// Reads lines `+ 123` and `- 123`; at the end of input kills the groups that were added and not taken away.
const SCRIPT: &str = r#"
groups=
while read -r sign id; do
  case $sign in
    +) groups="$groups $id" ;;
    -) rest=
       for group in $groups; do [ "$group" = "$id" ] || rest="$rest $group"; done
       groups=$rest ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
"#;

/// The watching process, and the groups it knows.
#[derive(Debug, Default)]
pub(in crate::tools) struct Lifeline(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    watcher: Option<Child>,
    groups: BTreeSet<i32>,
}

impl Lifeline {
    /// Has `group` killed when this program dies.
    pub(super) fn watch(&self, group: Pid) -> io::Result<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let group = group.as_raw_nonzero().get();
        state.groups.insert(group);
        match state.tell(&format!("+ {group}\n")) {
            Ok(()) => Ok(()),
            // There is no watcher yet, or somebody killed it.
            Err(_) => state.start(),
        }
    }

    /// Takes back [`watch`](Self::watch).
    pub(super) fn forget(&self, group: Pid) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let group = group.as_raw_nonzero().get();
        state.groups.remove(&group);
        // A watcher that is gone kills nobody; the next one is told only what is left.
        let _ = state.tell(&format!("- {group}\n"));
    }
}

impl State {
    fn start(&mut self) -> io::Result<()> {
        self.stop();
        let watcher = Command::new("/bin/sh")
            .args(["-c", SCRIPT])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        self.watcher = Some(watcher);
        let lines: String = self.groups.iter().map(|group| format!("+ {group}\n")).collect();
        self.tell(&lines)
    }

    fn tell(&mut self, lines: &str) -> io::Result<()> {
        let pipe = self.watcher.as_mut().and_then(|watcher| watcher.stdin.as_mut());
        pipe.ok_or(io::ErrorKind::NotConnected)?.write_all(lines.as_bytes())
    }

    /// Lets the watcher come to its end; it kills the groups that are left.
    fn stop(&mut self) {
        if let Some(mut watcher) = self.watcher.take() {
            drop(watcher.stdin.take());
            // Nothing depends on how it ended.
            let _ = watcher.wait();
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    fn sleeper() -> (Child, Pid) {
        let child = Command::new("/bin/sleep").arg("60").process_group(0).spawn().unwrap();
        let group = Pid::from_child(&child);
        (child, group)
    }

    #[test]
    fn closing_the_pipe_kills_the_groups_that_were_not_forgotten() {
        let lifeline = Lifeline::default();
        let (mut kept, kept_group) = sleeper();
        let (mut forgotten, forgotten_group) = sleeper();
        lifeline.watch(kept_group).unwrap();
        lifeline.watch(forgotten_group).unwrap();
        lifeline.forget(forgotten_group);
        drop(lifeline);
        assert_eq!(kept.wait().unwrap().signal(), Some(9));
        assert!(forgotten.try_wait().unwrap().is_none(), "it must not have been killed");
        forgotten.kill().unwrap();
        forgotten.wait().unwrap();
    }

    #[test]
    fn a_killed_watcher_is_replaced_and_told_everything() {
        let lifeline = Lifeline::default();
        let (mut first, first_group) = sleeper();
        lifeline.watch(first_group).unwrap();
        {
            let mut state = lifeline.0.lock().unwrap();
            let watcher = state.watcher.as_mut().unwrap();
            watcher.kill().unwrap();
            let pipe = watcher.stdin.take();
            watcher.wait().unwrap();
            watcher.stdin = pipe;
        }
        let (mut second, second_group) = sleeper();
        lifeline.watch(second_group).unwrap();
        drop(lifeline);
        assert_eq!(first.wait().unwrap().signal(), Some(9));
        assert_eq!(second.wait().unwrap().signal(), Some(9));
    }
}
