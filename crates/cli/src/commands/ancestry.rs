//! Whether this process was started from inside of a guarded agent.
//!
//! The law: *nothing from inside a guarded tree answers, and nothing in there installs or is told a code*. Where agent and
//! person are one user, the system knows no difference between them but where their processes come from. So the
//! ancestors of whoever answers are walked, each by its number and the time it was started, up to the first process: one
//! that is a coding agent, `backstop run`, `backstop agent` or `backstop serve`, whose agent people talk with, has this
//! one inside. A link that is gone counts as one: processes are orphaned on purpose; and whoever connected to this
//! process and is gone when it is asked who that was. So does what an agent leaves in the environment of what it starts, and the control group that Backstop
//! gives to a run, or to the commands of a conversation. Of a service, which has no terminal, nothing is gone; there whoever is below a process of which
//! nothing is above, however many sessions are in between, counts as inside if such a program was in the service before that process. Where a person's terminal
//! is in between, as in one of a multiplexer, this holds only if such a program is what the service began with.
//!
//! Limits: this shows what does not hide. A program that takes itself out of its session and its environment, or has a
//! service of the same user start it (a terminal multiplexer, the service manager, a container daemon), is not told from
//! a person; nor is one in namespaces of its own, where it sees nothing of what is above. What must hold against that needs another user, or a tree that is
//! confined. On systems that have no `/proc` only the environment is looked at; where Linux does not show it, nobody counts as a person.

use std::io::ErrorKind;
use std::path::Path;

use backstop::clients::Client;

use super::clients::program_of;
use crate::confine::is_group;
use crate::daemon::SOCKET_VARIABLE;
use crate::error::Error;

/// The most ancestors that are walked. No person's terminal is further away, so whoever has more of them hides.
const MOST_ANCESTORS: usize = 128;

/// What agents leave in the environment of what they start.
const MARKS: [&str; 12] = [
    SOCKET_VARIABLE,
    "AI_AGENT",
    "BACKSTOP_EXEC_ID",
    "CLAUDECODE",
    "CLINE_ACTIVE",
    "CODEX_SANDBOX",
    "CODEX_THREAD_ID",
    "COPILOT_CLI",
    "CURSOR_AGENT",
    "GEMINI_CLI",
    "OPENCODE",
    "QWEN_CODE",
];

/// A process, as far as it is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    id: i32,
    parent: i32,
    session: i32,
    /// Its terminal; 0 for none.
    terminal: i64,
    /// The control group of the service that it is in, if it is in one.
    service: Option<String>,
    /// The name of the control group of a run or a conversation that it is in, if it is in one.
    group: Option<String>,
    /// In the system's ticks since it was started.
    started: u64,
    arguments: Vec<String>,
}

/// Why a process is held to be inside.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Inside {
    /// An ancestor is this program.
    Below { program: String, id: i32 },
    /// This program began before it in the service in which nobody else is above it.
    Beside { program: String, id: i32 },
    /// A process on the way to it, or it, is in the control group of a run or a conversation.
    Grouped { group: String, id: i32 },
    /// What else is in the service in which nobody is above it can't be seen.
    Unseen,
    /// Which processes there are can't be seen.
    Blind,
    /// Somebody on the way to its session is gone.
    Orphaned,
    /// It is not the process that connected any more.
    Gone,
    /// More processes are above it than are walked.
    Deep,
    /// This variable is set.
    Marked(&'static str),
}

/// Refuses what a person does, where this process was started from inside of a guarded agent.
///
/// # Errors
///
/// [`Error::Inside`], saying by what that shows.
pub(crate) fn only_people(what: &'static str) -> Result<(), Error> {
    let marks = |name: &str| std::env::var_os(name).is_some();
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    refused(what, inside(own, &look, &members, &marks))
}

/// Another process that asks something of this one, as it was when it came. Whoever is gone by then, or cannot be seen, is nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker(Option<(i32, u64)>);

impl Asker {
    /// The process of this number, as it is now.
    pub(crate) fn now(process: Option<i32>) -> Self {
        Self::seen(process, &look)
    }

    fn seen(process: Option<i32>, look: &dyn Fn(i32) -> Option<Process>) -> Self {
        Self(process.and_then(look).map(|found| (found.id, found.started)))
    }

    /// Its number, if it is still the process that came: an agent can have its child connect, and end.
    fn still(self, look: &dyn Fn(i32) -> Option<Process>) -> Option<Process> {
        let (id, started) = self.0?;
        look(id).filter(|found| found.started == started)
    }
}

/// Refuses another process what a person does, where that was started from inside of a guarded agent, or is not there any more.
///
/// # Errors
///
/// [`Error::Inside`], saying by what that shows.
pub(crate) fn only_people_at(asker: Asker) -> Result<(), Error> {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let inside = asks_from_inside(asker, own, &look, &members, &environment);
    refused("answering questions, and seeing their codes,", inside)
}

/// The variables that a process was started with.
fn environment(process: i32) -> Vec<u8> {
    std::fs::read(Path::new("/proc").join(process.to_string()).join("environ")).unwrap_or_default()
}

fn asks_from_inside(
    asker: Asker,
    own: i32,
    look: &dyn Fn(i32) -> Option<Process>,
    members: &dyn Fn(&str) -> Option<Vec<i32>>,
    environment: &dyn Fn(i32) -> Vec<u8>,
) -> Option<Inside> {
    if look(own).is_none() {
        return blind();
    }
    let Some(process) = asker.still(look) else { return Some(Inside::Gone) };
    let environment = environment(process.id);
    let marks = |name: &str| {
        environment
            .split(|byte| *byte == 0)
            .any(|set| set.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"=")))
    };
    // An agent may ask by itself; of this program, what it was started for says who asks.
    if let Some(program) = guarded(&process.arguments).filter(|program| !program.starts_with("backstop ")) {
        return Some(Inside::Below { program, id: process.id });
    }
    let said = inside(process.id, look, members, &marks);
    // What was walked is what came, and not what has its number since.
    if asker.still(look).is_none() { Some(Inside::Gone) } else { said }
}

fn refused(what: &'static str, inside: Option<Inside>) -> Result<(), Error> {
    match inside {
        None => Ok(()),
        Some(inside) => Err(Error::Inside { what, why: inside.to_string() }),
    }
}

impl std::fmt::Display for Inside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Below { program, id } => write!(f, "process {id} on the way to it is `{program}`"),
            Self::Beside { program, id } => {
                write!(f, "process {id} in the service it is from is `{program}`")
            }
            Self::Grouped { group, id } => {
                write!(f, "process {id} is in the control group `{group}` of an agent")
            }
            Self::Blind => f.write_str("`/proc` does not say which processes are above it"),
            Self::Unseen => f.write_str("what else is in the service it is from can't be seen"),
            Self::Orphaned => f.write_str("whoever started this is gone"),
            Self::Gone => f.write_str("whoever connected is gone"),
            Self::Deep => write!(f, "more than {MOST_ANCESTORS} processes are above it"),
            Self::Marked(name) => write!(f, "`{name}` is set"),
        }
    }
}

/// What is said where no process can be seen: on Linux somebody has hidden them, other systems show none.
fn blind() -> Option<Inside> {
    cfg!(target_os = "linux").then_some(Inside::Blind)
}

/// A process on the way that whoever takes orphans in is above: what a service manager started, or what was left behind.
struct Top {
    process: Process,
    /// It, or somebody below it, leads a session that has a terminal.
    is_sat_at: bool,
}

fn inside(
    own: i32,
    look: &dyn Fn(i32) -> Option<Process>,
    members: &dyn Fn(&str) -> Option<Vec<i32>>,
    is_set: &dyn Fn(&str) -> bool,
) -> Option<Inside> {
    if let Some(mark) = MARKS.into_iter().find(|mark| is_set(mark)) {
        return Some(Inside::Marked(mark));
    }
    let Some(mut process) = look(own) else { return blind() };
    let session = process.session;
    let mut leader = (session == own).then(|| (process.clone(), None));
    let (mut tops, mut is_sat_at, mut grouped) = (Vec::new(), false, None);
    let mut left = MOST_ANCESTORS;
    // Up to the first process, or to one of which the rest is outside of what can be seen.
    loop {
        if let Some(group) = &process.group {
            grouped = grouped.or_else(|| Some(Inside::Grouped { group: group.clone(), id: process.id }));
        }
        is_sat_at |= process.id == process.session && process.terminal != 0;
        if process.parent <= 0 {
            break;
        }
        if left == 0 {
            return Some(Inside::Deep);
        }
        left -= 1;
        let Some(parent) = look(process.parent) else { return Some(Inside::Orphaned) };
        // A number that was given away again is no parent.
        if parent.started > process.started {
            return Some(Inside::Orphaned);
        }
        if let Some(program) = guarded(&parent.arguments) {
            return Some(Inside::Below { program, id: parent.id });
        }
        match &mut leader {
            Some((leader, above @ None)) if leader.parent == parent.id => *above = Some(parent.clone()),
            None if parent.id == session => leader = Some((parent.clone(), None)),
            _ => {}
        }
        if takes_orphans(&parent) {
            // Where whoever takes orphans in leads its session, as the first shell of a container does, they are the one who sits there.
            let is_led = parent.id == process.session && parent.terminal != 0;
            tops.push(Top { process, is_sat_at: is_sat_at || is_led });
        }
        process = parent;
    }
    // A program above it would have said more.
    if grouped.is_some() {
        return grouped;
    }
    // Whoever left their session behind has its leader not among their ancestors, or leads one that nobody sits at.
    let Some((leader, above)) = leader else { return (session != 0).then_some(Inside::Orphaned) };
    let is_top = above.is_some_and(|above| takes_orphans(&above));
    if is_top && leader.terminal == 0 && leader.service.is_none() {
        return Some(Inside::Orphaned);
    }
    tops.iter().find_map(|top| beside(top, look, members))
}

/// Whether what is at the top in a service is not what the service manager started, but what was left behind by a guarded agent in there. An agent that the
/// service itself has started began after that. Where somebody sits at a terminal below it, an agent that is not the first in the service shows nothing: a
/// multiplexer that a person started beside it is at the top, too.
fn beside(
    top: &Top,
    look: &dyn Fn(i32) -> Option<Process>,
    members: &dyn Fn(&str) -> Option<Vec<i32>>,
) -> Option<Inside> {
    let Top { process, is_sat_at } = top;
    let members = members(process.service.as_ref()?);
    // Of a group in which it is not, nothing is known.
    let Some(members) = members.filter(|members| members.contains(&process.id)) else {
        return (!is_sat_at).then_some(Inside::Unseen);
    };
    // One that is gone since can't be looked at; that all others can, the first process of all shows, which was seen on the way.
    let earlier = members.into_iter().filter(|id| *id != process.id).filter_map(look);
    let earlier: Vec<Process> = earlier.filter(|other| other.started <= process.started).collect();
    let first = earlier.iter().map(|other| other.started).min();
    earlier.into_iter().filter(|other| !is_sat_at || Some(other.started) == first).find_map(|other| {
        let program = guarded(&other.arguments)?;
        Some(Inside::Beside { program, id: other.id })
    })
}

/// The processes of a control group; `None` where the system does not show all of them.
fn members(group: &str) -> Option<Vec<i32>> {
    for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"] {
        match std::fs::read_to_string(format!("{root}{group}/cgroup.procs")) {
            Ok(processes) => return processes.lines().map(|id| id.parse().ok()).collect(),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(_) => return None,
        }
    }
    None
}

/// What takes the processes in whose parents are gone, beside the first one of all.
const REAPERS: [&str; 8] =
    ["systemd", "init", "launchd", "tini", "dumb-init", "docker-init", "catatonit", "s6-svscan"];

fn takes_orphans(process: &Process) -> bool {
    let name = process.arguments.first().and_then(|first| Path::new(first).file_name()?.to_str());
    process.id == 1 || name.is_some_and(|name| REAPERS.contains(&name))
}

/// What runs a program that its first argument names.
const INTERPRETERS: [&str; 8] = ["node", "bun", "deno", "sh", "bash", "dash", "zsh", "env"];

/// Folders of clients whose script is called like many others (`cli.js`, `index.js`).
const PACKAGES: [&str; 4] = ["claude-code", "gemini-cli", "qwen-code", "cursor-agent"];

/// The guarded program that a process with these arguments is, if it is one.
fn guarded(arguments: &[String]) -> Option<String> {
    let named = |argument: &String| {
        let name = Path::new(argument).file_name()?.to_str()?.trim_start_matches('-');
        let script = name.strip_suffix(".js").or_else(|| name.strip_suffix(".mjs"));
        Some(script.unwrap_or(name).to_owned())
    };
    let (first, more) = arguments.split_first()?;
    let name = named(first)?;
    if name == "backstop" {
        let word = more.iter().find(|word| matches!(word.as_str(), "run" | "agent" | "hook" | "serve"))?;
        return Some(format!("backstop {word}"));
    }
    let name = match INTERPRETERS.contains(&name.as_str()) {
        true => {
            let script = more.iter().find(|argument| !argument.starts_with('-'))?;
            let mut folders = Path::new(script).iter().filter_map(|part| part.to_str());
            if let Some(package) = folders.find(|part| PACKAGES.contains(part)) {
                return Some(package.to_owned());
            }
            named(script)?
        }
        false => name,
    };
    Client::ALL.into_iter().any(|client| program_of(client) == Some(name.as_str())).then_some(name)
}

/// The control group by which a service manager knows a process, by its `/proc/PID/cgroup`: lines of `hierarchy:controllers:path`.
fn group_of_manager(list: &str) -> Option<&str> {
    let of = |controllers: &str| {
        list.lines().find_map(|line| line.split_once(':')?.1.strip_prefix(controllers)?.strip_prefix(':'))
    };
    // Where there are both versions, systemd has a hierarchy of its own of the first; version 2 has no controllers here.
    of("name=systemd").or_else(|| of(""))
}

/// What the system says of a process.
fn look(id: i32) -> Option<Process> {
    let folder = Path::new("/proc").join(id.to_string());
    let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
    let arguments = std::fs::read(folder.join("cmdline")).unwrap_or_default();
    let arguments = arguments.split(|byte| *byte == 0).filter(|argument| !argument.is_empty());
    let arguments = arguments.map(|argument| String::from_utf8_lossy(argument).into_owned()).collect();
    let cgroup = std::fs::read_to_string(folder.join("cgroup")).unwrap_or_default();
    // The name in parentheses may hold anything; the fields begin behind the last one.
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let number = |index: usize| fields.get(index)?.parse::<i64>().ok();
    Some(Process {
        id,
        parent: i32::try_from(number(1)?).ok()?,
        session: i32::try_from(number(3)?).ok()?,
        terminal: number(4)?,
        service: group_of_manager(&cgroup).filter(|group| group.ends_with(".service")).map(str::to_owned),
        group: cgroup.lines().flat_map(|line| line.split('/')).find(|name| is_group(name)).map(str::to_owned),
        started: u64::try_from(number(19)?).ok()?,
        arguments,
    })
}

#[cfg(test)]
mod tests;
