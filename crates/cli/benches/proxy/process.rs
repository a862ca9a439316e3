//! Processes under measurement: where they run, what they use.

use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

/// Ends its process when it goes.
#[derive(Debug)]
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Puts this process and those it starts on one core.
pub(crate) fn pin_to(core: usize) {
    let pid = std::process::id().to_string();
    let _ = Command::new("taskset").args(["-cp", &core.to_string(), &pid]).output();
}

/// A command that runs on one core, where `taskset` is there to say so.
pub(crate) fn on_core(core: usize, program: impl AsRef<std::ffi::OsStr>) -> Command {
    if Command::new("taskset").arg("--version").output().is_err() {
        return Command::new(program);
    }
    let mut command = Command::new("taskset");
    command.args(["-c", &core.to_string()]).arg(program);
    command
}

/// A process and its children.
pub(crate) fn family(pid: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|child| child.parse().ok());
    std::iter::once(pid).chain(children).collect()
}

/// The CPU time that these processes have used.
pub(crate) fn cpu(pids: &[u32]) -> Duration {
    let ticks: u64 = pids.iter().filter_map(|pid| ticks(*pid)).sum();
    Duration::from_millis(ticks * 10)
}

/// User and system time in ticks of 10 ms.
fn ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

/// Resident memory in bytes, now (`VmRSS`) or at most so far (`VmHWM`).
pub(crate) fn memory(pids: &[u32], field: &str) -> u64 {
    pids.iter().filter_map(|pid| status(*pid, field)).sum::<u64>() * 1024
}

fn status(pid: u32, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(field))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
