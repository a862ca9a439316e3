//! What ends programs when this one is killed and cannot end them itself.
//!
//! A tiny shell process waits on a pipe for the numbers of what runs. When this program dies, be it by `kill -9`, the
//! system closes the pipe, and the shell kills what is left, and clears a folder that was for it alone. There is one such
//! process per lifeline, started with the first program. A process that left its group is out of its reach.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::process::Pid;

/// Reads lines `+ 123` and `- 123`, groups with a minus before their number. At the end of input it kills what was added
/// and not taken away, and if there was any, clears the folder `$1`.
const SCRIPT: &str = r#"
targets=
while read -r sign target; do
  case $sign in
    +) targets="$targets $target" ;;
    -) rest=
       for other in $targets; do [ "$other" = "$target" ] || rest="$rest $other"; done
       targets=$rest ;;
  esac
done
[ -n "$targets" ] || exit 0
for target in $targets; do kill -s KILL -- "$target" 2>/dev/null; done
[ -z "$1" ] || { cd -- "$1" && rm -f -- ./*; rmdir -- "$1"; } 2>/dev/null
"#;

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// One process.
    Process(Pid),
    /// A process group, by its leader.
    Group(Pid),
}

impl Target {
    fn number(self) -> i32 {
        match self {
            Self::Process(process) => process.as_raw_nonzero().get(),
            Self::Group(leader) => -leader.as_raw_nonzero().get(),
        }
    }
}

/// The watching process, and what it is to kill. Dropping it kills what is left.
#[derive(Debug, Default)]
pub struct Lifeline(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    watcher: Option<Child>,
    targets: BTreeSet<i32>,
    folder: PathBuf,
}

impl Lifeline {
    /// A lifeline whose watcher also removes the files in `folder`, and the folder, if it has to kill anything.
    pub fn with_folder(folder: &Path) -> Self {
        Self(Mutex::new(State { folder: folder.to_owned(), watcher: None, targets: BTreeSet::new() }))
    }

    /// Starts the watcher, so that it can be told at once of what is started next: until then nobody would end that.
    ///
    /// # Errors
    ///
    /// What the system says, where none can be started.
    pub fn hold(&self) -> io::Result<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.watcher.is_some() { Ok(()) } else { state.start() }
    }

    /// Has `target` killed when this program dies.
    ///
    /// # Errors
    ///
    /// What the system says, where there is no watcher yet and none can be started.
    pub fn watch(&self, target: Target) -> io::Result<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = target.number();
        state.targets.insert(number);
        match state.tell(&format!("+ {number}\n")) {
            Ok(()) => Ok(()),
            // There is no watcher yet, or somebody killed it.
            Err(_) => state.start(),
        }
    }

    /// Takes back [`watch`](Self::watch): it has ended, and its number may belong to another one soon.
    pub fn forget(&self, target: Target) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = target.number();
        state.targets.remove(&number);
        // A watcher that is gone kills nobody; the next one is told only what is left.
        let _ = state.tell(&format!("- {number}\n"));
    }

    /// The process that watches.
    pub fn watcher(&self) -> Option<Pid> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.watcher.as_ref().map(Pid::from_child)
    }
}

impl State {
    fn start(&mut self) -> io::Result<()> {
        self.stop();
        let watcher = Command::new("/bin/sh")
            .args([OsStr::new("-c"), SCRIPT.as_ref(), "sh".as_ref(), self.folder.as_os_str()])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        self.watcher = Some(watcher);
        let lines: String = self.targets.iter().map(|number| format!("+ {number}\n")).collect();
        self.tell(&lines)
    }

    fn tell(&mut self, lines: &str) -> io::Result<()> {
        let pipe = self.watcher.as_mut().and_then(|watcher| watcher.stdin.as_mut());
        pipe.ok_or(io::ErrorKind::NotConnected)?.write_all(lines.as_bytes())
    }

    /// Lets the watcher come to its end; it kills what is left.
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

    fn sleeper() -> (Child, Target) {
        let child = Command::new("/bin/sleep").arg("60").process_group(0).spawn().unwrap();
        let group = Pid::from_child(&child);
        (child, Target::Group(group))
    }

    #[test]
    fn closing_the_pipe_kills_what_was_not_forgotten() {
        let lifeline = Lifeline::default();
        let (mut kept, kept_group) = sleeper();
        let (mut forgotten, forgotten_group) = sleeper();
        let (mut alone, alone_group) = sleeper();
        let Target::Group(leader) = alone_group else { return };
        lifeline.watch(kept_group).unwrap();
        lifeline.watch(forgotten_group).unwrap();
        lifeline.watch(Target::Process(leader)).unwrap();
        lifeline.forget(forgotten_group);
        drop(lifeline);
        assert_eq!(kept.wait().unwrap().signal(), Some(9));
        assert_eq!(alone.wait().unwrap().signal(), Some(9));
        assert!(forgotten.try_wait().unwrap().is_none(), "it must not have been killed");
        forgotten.kill().unwrap();
        forgotten.wait().unwrap();
    }

    #[test]
    fn the_folder_is_cleared_only_where_something_was_killed() {
        let base = tempfile::tempdir().unwrap();
        for (ended, is_there) in [(false, false), (true, true)] {
            let folder = base.path().join(format!("run {ended}"));
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("file"), "").unwrap();
            let lifeline = Lifeline::with_folder(&folder);
            let (mut child, group) = sleeper();
            lifeline.watch(group).unwrap();
            if ended {
                lifeline.forget(group);
            }
            drop(lifeline);
            let _ = child.kill();
            child.wait().unwrap();
            assert_eq!(folder.exists(), is_there, "{ended}");
        }
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
