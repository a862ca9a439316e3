//! All the processes that one program starts, and how they are ended.
//!
//! A program leads a process group of its own, and every process in it inherits a mark. Ending the program signals the group;
//! a process that left the group (`setsid`, a daemon) is then found among the descendants of the program or by its mark,
//! where the system shows these (Linux).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use crate::lifeline::{Lifeline, Target};

/// How often to look whether a group is gone.
const POLL: Duration = Duration::from_millis(10);

/// A process group that dies with this value, unless it ended before.
#[derive(Debug)]
pub struct Group {
    leader: Pid,
    variable: &'static str,
    mark: String,
    lifeline: Arc<Lifeline>,
    over: AtomicBool,
    #[cfg(target_os = "linux")]
    started: Option<u64>,
    /// Descendants that were there when the group was first asked to end.
    #[cfg(target_os = "linux")]
    strays: std::sync::Mutex<Vec<crate::proc::Held>>,
}

impl Group {
    pub(crate) fn new(leader: Pid, variable: &'static str, mark: String, lifeline: Arc<Lifeline>) -> Self {
        Self {
            leader,
            variable,
            mark,
            lifeline,
            over: AtomicBool::new(false),
            #[cfg(target_os = "linux")]
            started: crate::proc::start_time(leader),
            #[cfg(target_os = "linux")]
            strays: std::sync::Mutex::default(),
        }
    }

    /// The process that leads it.
    pub fn leader(&self) -> Pid {
        self.leader
    }

    /// Whether any process in the group still runs.
    pub fn is_alive(&self) -> bool {
        test_kill_process_group(self.leader).is_ok() && has_running_member(self.leader)
    }

    /// Asks the group to end.
    pub(crate) fn terminate(&self) {
        self.remember_strays();
        // Fails only if nobody is left.
        let _ = kill_process_group(self.leader, Signal::TERM);
    }

    /// Waits until the group is gone, for at most `patience`.
    pub(crate) async fn gone_within(&self, patience: Duration) {
        let gone = async {
            while self.is_alive() {
                tokio::time::sleep(POLL).await;
            }
        };
        let _ = tokio::time::timeout(patience, gone).await;
    }

    /// Ends what is left of the group at once.
    pub(crate) fn kill(&self) {
        let _ = kill_process_group(self.leader, Signal::KILL);
    }

    /// Ends at once all that the program started, also what left the group.
    pub fn kill_all(&self) {
        if !self.over.load(Ordering::Acquire) {
            self.remember_strays();
            self.kill();
            self.kill_strays();
            sweep(self.variable, &self.mark);
        }
    }

    /// Declares the program to be over: its number may be given to others from now on.
    pub(crate) fn ended(&self) {
        if !self.over.swap(true, Ordering::AcqRel) {
            self.lifeline.forget(Target::Group(self.leader));
        }
    }

    #[cfg(target_os = "linux")]
    fn remember_strays(&self) {
        let found = crate::proc::descendants(self.leader, self.started);
        self.strays.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend(found);
    }

    #[cfg(target_os = "linux")]
    fn kill_strays(&self) {
        let strays =
            std::mem::take(&mut *self.strays.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        for stray in strays {
            stray.kill();
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn remember_strays(&self) {}

    #[cfg(not(target_os = "linux"))]
    fn kill_strays(&self) {}
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill_all();
        self.ended();
    }
}

/// Kills every process that carries `mark`, or a mark made from it by adding `.` and more.
#[cfg(target_os = "linux")]
pub(crate) fn sweep(variable: &str, mark: &str) {
    /// A process can start another one while we look; it takes a storm to survive this many looks.
    const ROUNDS: usize = 5;
    for _ in 0..ROUNDS {
        if crate::proc::kill_marked(variable, mark) == 0 {
            return;
        }
    }
}

/// Other systems do not show the environment of a process.
#[cfg(not(target_os = "linux"))]
pub(crate) fn sweep(_variable: &str, _mark: &str) {}

/// Whether a group that exists is more than dead processes which nobody has collected yet. In a container whose
/// first process does not collect orphans these stay for ever.
#[cfg(target_os = "linux")]
fn has_running_member(group: Pid) -> bool {
    crate::proc::processes().any(|process| crate::proc::is_running_in(process, group))
}

/// Other systems offer no way to tell.
#[cfg(not(target_os = "linux"))]
fn has_running_member(_group: Pid) -> bool {
    true
}
