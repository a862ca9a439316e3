//! All the processes that one command starts, and how they are ended.
//!
//! A command leads a process group of its own, and every process in it inherits a marker variable. Ending the
//! command signals the group; a process that left the group (`setsid`, a daemon) is then found by its marker, where
//! the system shows environments to their owner (Linux). A process that does both, leave the group and clear its
//! environment, escapes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::lifeline::Lifeline;

/// The environment variable that marks the processes of a command.
pub(in crate::tools) const MARKER: &str = "BACKSTOP_EXEC_ID";

/// How often to look whether a group is gone.
const POLL: Duration = Duration::from_millis(10);

/// A process group that dies with this value unless it [ended](Self::ended) before.
#[derive(Debug)]
pub(in crate::tools) struct Group {
    leader: Pid,
    marker: String,
    lifeline: Arc<Lifeline>,
    over: AtomicBool,
}

impl Group {
    pub(super) fn new(leader: Pid, marker: String, lifeline: Arc<Lifeline>) -> Self {
        Self { leader, marker, lifeline, over: AtomicBool::new(false) }
    }

    pub(super) fn id(&self) -> Pid {
        self.leader
    }

    /// Whether any process in the group still runs.
    pub(super) fn is_alive(&self) -> bool {
        test_kill_process_group(self.leader).is_ok() && has_running_member(self.leader)
    }

    /// Asks the group to end.
    pub(super) fn terminate(&self) {
        // Fails only if nobody is left.
        let _ = kill_process_group(self.leader, Signal::TERM);
    }

    /// Waits until the group is gone, for at most `patience`.
    pub(super) async fn gone_within(&self, patience: Duration) {
        let gone = async {
            while self.is_alive() {
                tokio::time::sleep(POLL).await;
            }
        };
        let _ = tokio::time::timeout(patience, gone).await;
    }

    /// Ends what is left of the group at once.
    pub(super) fn kill(&self) {
        let _ = kill_process_group(self.leader, Signal::KILL);
    }

    /// Ends at once all that the command started, also what left the group.
    pub(in crate::tools) fn kill_all(&self) {
        if !self.over.load(Ordering::Acquire) {
            self.kill();
            sweep(&self.marker);
        }
    }

    /// Declares the command to be over: its number may be given to others from now on.
    pub(super) fn ended(&self) {
        if !self.over.swap(true, Ordering::AcqRel) {
            self.lifeline.forget(self.leader);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill_all();
        self.ended();
    }
}

/// Kills every process that carries `marker`, or a marker made from it by adding `.` and more.
#[cfg(target_os = "linux")]
pub(in crate::tools) fn sweep(marker: &str) {
    /// A process can start another one while we look; it takes a storm to survive this many looks.
    const ROUNDS: usize = 5;
    for _ in 0..ROUNDS {
        if linux::kill_marked(marker) == 0 {
            return;
        }
    }
}

/// Other systems do not show the environment of a process.
#[cfg(not(target_os = "linux"))]
pub(in crate::tools) fn sweep(_marker: &str) {}

/// Whether a group that exists is more than dead processes which nobody has collected yet. In a container whose
/// first process does not collect orphans these stay for ever.
#[cfg(target_os = "linux")]
fn has_running_member(group: Pid) -> bool {
    linux::processes().any(|process| linux::is_running_in(process, group))
}

/// Other systems offer no way to tell.
#[cfg(not(target_os = "linux"))]
fn has_running_member(_group: Pid) -> bool {
    true
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::io::Read as _;

    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    use super::MARKER;

    const MAX_ENVIRONMENT_BYTES: u64 = 4 * 1024 * 1024;

    pub(super) fn kill_marked(marker: &str) -> usize {
        processes().filter(|&process| kill_if_marked(process, marker)).count()
    }

    pub(super) fn processes() -> impl Iterator<Item = Pid> {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok()))
            .filter_map(Pid::from_raw)
    }

    pub(super) fn is_running_in(process: Pid, group: Pid) -> bool {
        let stat = std::fs::read(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
        let stat = String::from_utf8_lossy(&stat);
        // The name of the program comes before and may hold anything, also parentheses.
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
        let (state, _parent, its_group) = (fields.next(), fields.next(), fields.next());
        let runs = state.is_some_and(|state| !matches!(state, "Z" | "X"));
        runs && its_group.and_then(|id| id.parse().ok()) == Some(group.as_raw_nonzero().get())
    }

    fn kill_if_marked(process: Pid, marker: &str) -> bool {
        // The descriptor is taken before looking, so that the signal reaches the process that was looked at even
        // if its number is reused in between.
        let Ok(handle) = pidfd_open(process, PidfdFlags::empty()) else { return false };
        is_marked(process, marker) && pidfd_send_signal(&handle, Signal::KILL).is_ok()
    }

    fn is_marked(process: Pid, marker: &str) -> bool {
        let path = format!("/proc/{}/environ", process.as_raw_nonzero());
        let mut environment = Vec::new();
        let read =
            File::open(path).and_then(|file| file.take(MAX_ENVIRONMENT_BYTES).read_to_end(&mut environment));
        read.is_ok()
            && environment.split(|byte| *byte == 0).any(|variable| {
                let value = variable.strip_prefix(MARKER.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
                let rest = value.and_then(|value| value.strip_prefix(marker.as_bytes()));
                rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'.')))
            })
    }
}
