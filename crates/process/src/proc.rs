//! What Linux tells about processes, under `/proc`.
//!
//! The law: a number is not a process. Whoever is signalled is held by a descriptor that was taken before the look that
//! found them to be the right one, so that a number that was given to somebody else in between harms nobody.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

const MAX_ENVIRONMENT_BYTES: u64 = 4 * 1024 * 1024;
/// The most descendants that are looked for; a tree with more is a bomb, and its group and mark end it.
const MOST_DESCENDANTS: usize = 4096;

/// One process that can't be taken for another one.
#[derive(Debug)]
pub(crate) struct Held(OwnedFd);

impl Held {
    fn new(process: Pid) -> Option<Self> {
        pidfd_open(process, PidfdFlags::empty()).ok().map(Self)
    }

    /// Kills it; whether it was still there.
    pub(crate) fn kill(&self) -> bool {
        pidfd_send_signal(&self.0, Signal::KILL).is_ok()
    }
}

/// What the system says of a process, as far as it is needed here.
struct Stat {
    runs: bool,
    parent: Option<i32>,
    group: Option<i32>,
    started: Option<u64>,
}

impl Stat {
    fn read(process: Pid) -> Self {
        let stat = std::fs::read(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
        let stat = String::from_utf8_lossy(&stat);
        // The name of the program comes before and may hold anything, also parentheses.
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
        let state = fields.next();
        Self {
            runs: state.is_some_and(|state| !matches!(state, "Z" | "X")),
            parent: fields.next().and_then(|id| id.parse().ok()),
            group: fields.next().and_then(|id| id.parse().ok()),
            // The 22nd field of the line is the 20th from the state on.
            started: fields.nth(16).and_then(|ticks| ticks.parse().ok()),
        }
    }
}

/// When a process was started, in ticks since the system was: with its number, its identity.
pub(crate) fn start_time(process: Pid) -> Option<u64> {
    Stat::read(process).started
}

/// All processes.
pub(crate) fn processes() -> impl Iterator<Item = Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok()))
        .filter_map(Pid::from_raw)
}

/// Whether it runs, dead processes that nobody has collected aside, and in this group.
pub(crate) fn is_running_in(process: Pid, group: Pid) -> bool {
    let stat = Stat::read(process);
    stat.runs && stat.group == Some(group.as_raw_nonzero().get())
}

/// The children of a process, as far as the system tells.
pub(crate) fn children(process: Pid) -> Vec<Pid> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero()));
    tasks
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>())
        .filter_map(Pid::from_raw)
        .collect()
}

/// All that descends from `leader`, if that is still the process that was started at `started`.
pub(crate) fn descendants(leader: Pid, started: Option<u64>) -> Vec<Held> {
    let mut found = Vec::new();
    if started.is_none() || start_time(leader) != started {
        return found;
    }
    let mut open = vec![leader];
    while let Some(parent) = open.pop() {
        for child in children(parent) {
            let held = Held::new(child);
            let is_child = Stat::read(child).parent == Some(parent.as_raw_nonzero().get());
            if let (Some(held), true, true) = (held, is_child, found.len() < MOST_DESCENDANTS) {
                found.push(held);
                open.push(child);
            }
        }
    }
    found
}

/// Kills all processes whose environment has `variable` set to `mark`, or to a mark made from it by adding `.` and more.
/// Answers how many there were.
pub(crate) fn kill_marked(variable: &str, mark: &str) -> usize {
    let kill = |process: &Pid| {
        let held = Held::new(*process);
        held.is_some_and(|held| is_marked(*process, variable, mark) && held.kill())
    };
    processes().filter(kill).count()
}

fn is_marked(process: Pid, variable: &str, mark: &str) -> bool {
    let path = format!("/proc/{}/environ", process.as_raw_nonzero());
    let mut environment = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(MAX_ENVIRONMENT_BYTES).read_to_end(&mut environment));
    read.is_ok()
        && environment.split(|byte| *byte == 0).any(|entry| {
            let value = entry.strip_prefix(variable.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
            let rest = value.and_then(|value| value.strip_prefix(mark.as_bytes()));
            rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'.')))
        })
}

/// Whether this process has the descriptor and hands it on to programs that it starts.
pub(crate) fn is_handed_on(descriptor: u8) -> bool {
    const CLOSE_ON_EXEC: u32 = 0o2_000_000;
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & CLOSE_ON_EXEC == 0)
}
