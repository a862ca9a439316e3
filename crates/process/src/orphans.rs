//! A tree of processes that ends with this process: orphans come to this process, and are told from its own children.
//!
//! It is a label and no wall: what another service starts on request was never in the tree.

use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// The most rounds in which descendants are ended: a process that is being killed may have started another, and what it
/// leaves is told of only once it is gone.
const ROUNDS: usize = 200;
/// What the system is given to take a killed process away.
const PAUSE: Duration = Duration::from_millis(5);

/// From now on, a process of the tree whose parent has died becomes a child of this process.
///
/// # Errors
///
/// Where the system has no such thing.
pub fn adopt_orphans() -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

/// Clears away adopted children that have ended. `own` are the children that somebody else waits for.
pub fn reap_orphans(own: &[Pid]) {
    for child in children(rustix::process::getpid()).into_iter().filter(|child| !own.contains(child)) {
        let _ = waitpid(Some(child), WaitOptions::NOHANG);
    }
}

/// Kills all that descends from this process, but for `spared`, and returns when it is gone, or after a second: what the
/// system can't end, nobody can.
pub fn end_descendants(spared: &[Pid]) {
    for _ in 0..ROUNDS {
        let mut left = 0;
        let mut open = vec![rustix::process::getpid()];
        while let Some(process) = open.pop() {
            for child in children(process).into_iter().filter(|child| !spared.contains(child)) {
                left += 1;
                open.push(child);
                let _ = kill_process(child, Signal::KILL);
                let _ = waitpid(Some(child), WaitOptions::NOHANG);
            }
        }
        if left == 0 {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// The children of a process, as far as the system tells.
#[cfg(target_os = "linux")]
fn children(process: Pid) -> Vec<Pid> {
    crate::proc::children(process)
}

/// Other systems don't.
#[cfg(not(target_os = "linux"))]
fn children(_process: Pid) -> Vec<Pid> {
    Vec::new()
}
