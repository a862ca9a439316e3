//! Whether this process was started from inside of a guarded agent.
//!
//! The law: *nothing from inside a guarded tree answers, and nothing in there installs or is told a code*. Where agent and
//! person are one user, the system knows no difference between them but where their processes come from. So the
//! ancestors of whoever answers are walked, each by its number and the time it was started, up to the first process: one
//! that is a coding agent, `backstop run`, `backstop agent` or `backstop serve`, whose agent people talk with, has this
//! one inside. A link that is gone counts as one: processes are orphaned on purpose; and whoever connected to this
//! process and is gone when it is asked who that was. So does what an agent leaves in the environment of what it starts. Of a service, which has no terminal,
//! nothing is gone; there whoever comes from a session of which nothing is above counts as inside if such a program was in the service before that session.
//!
//! Limits: this shows what does not hide. A program that takes itself out of its session and its environment, or has a
//! service of the same user start it (a terminal multiplexer, the service manager, a container daemon), is not told from
//! a person. What must hold against that needs another user, or a tree that is confined. On systems without `/proc` only
//! the environment is looked at.

use std::io::ErrorKind;
use std::path::Path;

use backstop::clients::Client;

use super::clients::program_of;
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
    /// What else is in that service can't be seen.
    Unseen,
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
    // Without a list of processes there is nothing to walk.
    look(own)?;
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
            Self::Unseen => f.write_str("what else is in the service it is from can't be seen"),
            Self::Orphaned => f.write_str("whoever started this is gone"),
            Self::Gone => f.write_str("whoever connected is gone"),
            Self::Deep => write!(f, "more than {MOST_ANCESTORS} processes are above it"),
            Self::Marked(name) => write!(f, "`{name}` is set"),
        }
    }
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
    // Without a list of processes there is nothing to walk.
    let mut process = look(own)?;
    let session = process.session;
    let mut leader = (session == own).then(|| (process.clone(), None));
    let mut left = MOST_ANCESTORS;
    // Up to the first process, or to one of which the rest is outside of what can be seen.
    while process.parent > 0 {
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
        process = parent;
    }
    // Whoever left their session behind has its leader not among their ancestors, or leads one that nobody sits at.
    let Some((leader, above)) = leader else { return (session != 0).then_some(Inside::Orphaned) };
    if leader.terminal != 0 || !above.is_some_and(|above| takes_orphans(&above)) {
        return None;
    }
    match &leader.service {
        Some(group) => beside(&leader, group, look, members),
        None => Some(Inside::Orphaned),
    }
}

/// Whether the leader of a session in a service is not what the service manager started, but what was left behind by a guarded agent in there. An agent that
/// the service itself has started began after that.
fn beside(
    leader: &Process,
    group: &str,
    look: &dyn Fn(i32) -> Option<Process>,
    members: &dyn Fn(&str) -> Option<Vec<i32>>,
) -> Option<Inside> {
    let Some(members) = members(group) else { return Some(Inside::Unseen) };
    let others = members.into_iter().filter(|id| *id != leader.id).filter_map(look);
    others.filter(|other| other.started <= leader.started).find_map(|other| {
        let program = guarded(&other.arguments)?;
        Some(Inside::Beside { program, id: other.id })
    })
}

/// The processes of a control group; none where the system shows no such group, `None` where they can't be seen. Where a unit of Backstop's own is not shown,
/// nothing of it can be seen.
fn members(group: &str) -> Option<Vec<i32>> {
    for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"] {
        match std::fs::read_to_string(format!("{root}{group}/cgroup.procs")) {
            Ok(processes) => return Some(processes.lines().filter_map(|id| id.parse().ok()).collect()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(_) => return None,
        }
    }
    let is_own = group.rsplit('/').next().is_some_and(|unit| unit.starts_with("backstop"));
    (!is_own).then(Vec::new)
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
        // Of `hierarchy:controllers:path`, the path.
        service: cgroup
            .lines()
            .next()
            .and_then(|group| group.splitn(3, ':').nth(2))
            .filter(|group| group.ends_with(".service"))
            .map(str::to_owned),
        started: u64::try_from(number(19)?).ok()?,
        arguments,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process whose number says when it was started.
    fn process(id: i32, parent: i32, session: i32, command: &str) -> Process {
        let arguments = command.split(' ').map(str::to_owned).collect();
        let (started, terminal) = (u64::try_from(id).unwrap(), i64::from(session == 30));
        Process { id, parent, session, terminal, service: None, started, arguments }
    }

    fn judged(tree: &[Process], own: i32) -> Option<Inside> {
        judged_among(tree, own, &|group| {
            let of_group = tree.iter().filter(|process| process.service.as_deref() == Some(group));
            Some(of_group.map(|process| process.id).collect())
        })
    }

    fn judged_among(
        tree: &[Process],
        own: i32,
        members: &dyn Fn(&str) -> Option<Vec<i32>>,
    ) -> Option<Inside> {
        inside(own, &|id| tree.iter().find(|process| process.id == id).cloned(), members, &|_| false)
    }

    fn in_service(process: Process, unit: &str) -> Process {
        Process { service: Some(format!("/system.slice/{unit}.service")), ..process }
    }

    fn person() -> Vec<Process> {
        vec![
            process(1, 0, 1, "/sbin/init"),
            process(20, 1, 20, "tmux new-session"),
            process(30, 20, 30, "-zsh"),
            process(90, 30, 30, "backstop approvals approve X"),
        ]
    }

    #[test]
    fn a_person_at_a_terminal_is_outside() {
        assert_eq!(judged(&person(), 90), None);
        // In a container, whose first process is the shell; and where the rest can't be seen.
        assert_eq!(judged(&[process(1, 0, 1, "sh"), process(7, 1, 1, "backstop allow-once X")], 7), None);
        assert_eq!(judged(&[process(7, 0, 0, "backstop allow-once X")], 7), None);
        assert_eq!(judged(&[], 7), None, "nothing can be seen here");
        // A service that answers for people, and what somebody's shell started on the console.
        let service = in_service(process(50, 1, 50, "bot"), "bot");
        let console = Process { terminal: 4, ..process(50, 1, 50, "sh") };
        for leader in [service, console] {
            let tree = [person(), vec![leader, process(51, 50, 50, "backstop allow-once X")]].concat();
            assert_eq!(judged(&tree, 51), None);
        }
    }

    #[test]
    fn what_an_agent_started_is_inside() {
        for client in [
            "claude",
            "/usr/bin/claude -p hi",
            "node /usr/lib/claude",
            "node --no-warnings /opt/bin/gemini",
            "/usr/bin/node /x/bin/codex.js exec",
            "/bin/sh /home/me/bin/qwen",
            "node --enable-source-maps /x/node_modules/@anthropic-ai/claude-code/cli.js",
            "/x/cursor-agent/versions/1/node --use-system-ca /x/cursor-agent/versions/1/index.js",
            "backstop --config x run -- cat",
            "/opt/backstop agent",
            "backstop serve --port 8484",
        ] {
            let mut tree = person();
            tree.extend([
                process(40, 30, 30, client),
                process(41, 40, 41, "bash -c make"),
                process(42, 41, 41, "make answer"),
                process(99, 42, 41, "./b allow-once X"),
            ]);
            let said = judged(&tree, 99);
            assert!(matches!(said, Some(Inside::Below { id: 40, .. })), "{client}: {said:?}");
        }
        for command in ["cargo test claude", "vim claude", "backstop install claude"] {
            let mut tree = person();
            tree.extend([process(40, 30, 30, command), process(41, 40, 30, "backstop allow-once X")]);
            assert_eq!(judged(&tree, 41), None, "`{command}` is no agent");
        }
        let mut other = person();
        other.extend([process(40, 30, 30, "vim claude.md"), process(41, 40, 30, "backstop allow-once X")]);
        assert_eq!(judged(&other, 41), None, "a file of that name is no agent");
    }

    #[test]
    fn who_asks_has_to_be_there_and_be_the_one_who_came() {
        let mut tree = person();
        tree.push(process(95, 30, 30, "backstop approvals approve X"));
        let look = |id| tree.iter().find(|process| process.id == id).cloned();
        let nothing = |_| Vec::new();
        let alone = |_: &str| Some(Vec::<i32>::new());
        let asks = |asker| asks_from_inside(asker, 90, &look, &alone, &nothing);
        assert_eq!(asks(Asker::seen(Some(95), &look)), None);
        // Whoever has its child connect and end, or comes from where its number means nothing here.
        for gone in [Some(96), Some(0), None] {
            assert_eq!(asks(Asker::seen(gone, &look)), Some(Inside::Gone), "{gone:?}");
        }
        // The number was given to somebody else since.
        assert_eq!(asks(Asker(Some((95, 94)))), Some(Inside::Gone));
        let nobody = |_| None;
        let said = asks_from_inside(Asker(None), 90, &nobody, &alone, &nothing);
        assert_eq!(said, None, "nothing can be seen here");
        let marked = |_| b"A=1\0CLAUDECODE=1\0".to_vec();
        let said = asks_from_inside(Asker::seen(Some(95), &look), 90, &look, &alone, &marked);
        assert_eq!(said, Some(Inside::Marked("CLAUDECODE")));
    }

    #[test]
    fn a_link_that_is_gone_counts_as_inside() {
        let orphan = |id, session| process(id, 1, session, "./b allow-once X");
        let with = |more: &[Process]| [person(), more.to_vec()].concat();
        assert_eq!(
            judged(&with(&[orphan(99, 30)]), 99),
            Some(Inside::Orphaned),
            "its session is above nobody"
        );
        assert_eq!(judged(&with(&[orphan(99, 40)]), 99), Some(Inside::Orphaned), "its session is gone");
        assert_eq!(judged(&with(&[orphan(99, 99)]), 99), Some(Inside::Orphaned), "it made one for itself");
        let behind = [process(98, 1, 98, "sh -c x"), process(99, 98, 98, "./b allow-once X")];
        assert_eq!(judged(&with(&behind), 99), Some(Inside::Orphaned), "nobody sits at its session");
        // On a desktop the user's own service manager takes orphans in.
        let manager = process(15, 1, 15, "/usr/lib/systemd/systemd --user");
        let taken = process(99, 15, 99, "./b allow-once X");
        assert_eq!(judged(&with(&[manager, taken]), 99), Some(Inside::Orphaned), "it was taken in");
        let gone = process(99, 55, 30, "./b allow-once X");
        assert_eq!(
            judged(&with(std::slice::from_ref(&gone)), 99),
            Some(Inside::Orphaned),
            "its parent is gone"
        );
        let reused = Process { started: 200, ..process(55, 30, 30, "sh") };
        assert_eq!(
            judged(&with(&[gone, reused]), 99),
            Some(Inside::Orphaned),
            "its parent's number is another's"
        );
    }

    #[test]
    fn what_a_guarded_service_leaves_behind_is_inside_although_a_service_has_no_terminal() {
        let tree = |unit: &str, first: &str, later: &str| {
            let all = [
                in_service(process(50, 1, 50, first), unit),
                in_service(process(60, 1, 60, "sh -c x"), unit),
                in_service(process(61, 60, 60, "backstop allow-once X"), unit),
                in_service(process(70, 50, 50, later), unit),
            ];
            [vec![process(1, 0, 1, "/sbin/init")], all.to_vec()].concat()
        };
        for guarded in ["backstop serve --port 8484", "claude -p hi"] {
            let said = judged(&tree("proxy", guarded, "sh"), 61);
            assert!(matches!(said, Some(Inside::Beside { id: 50, .. })), "{guarded}: {said:?}");
        }
        // A service whose own process has started an agent answers for people as before.
        let of_people = tree("bot", "bot", "claude -p hi");
        assert_eq!(judged(&of_people, 61), None);
        assert_eq!(judged_among(&of_people, 61, &|_| None), Some(Inside::Unseen));
        // A person who sits at it is one, whatever the terminal was started by.
        let mut at_terminal = tree("tmux", "tmux", "sh");
        at_terminal.extend([
            in_service(process(80, 50, 80, "claude"), "tmux"),
            in_service(Process { terminal: 3, ..process(81, 50, 81, "-zsh") }, "tmux"),
            in_service(process(82, 81, 81, "backstop allow-once X"), "tmux"),
        ]);
        assert_eq!(judged(&at_terminal, 82), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_group_that_is_not_there_has_nobody_in_it_unless_it_is_our_own() {
        assert_eq!(members("/no.slice/of-this-name.service"), Some(Vec::new()));
        assert_eq!(members("/no.slice/backstop-of-this-name.service"), None);
    }

    #[test]
    fn whoever_hides_behind_many_processes_is_inside() {
        let chain = |length: i32| -> Vec<Process> {
            let first = process(100, 30, 30, "claude");
            let row = (101..100 + length).map(|id| process(id, id - 1, 30, "sh -c x"));
            [person(), vec![first], row.collect()].concat()
        };
        assert!(matches!(judged(&chain(20), 119), Some(Inside::Below { .. })));
        assert_eq!(judged(&chain(200), 299), Some(Inside::Deep));
    }

    #[test]
    fn what_an_agent_leaves_in_the_environment_counts() {
        for mark in MARKS {
            assert_eq!(inside(90, &|_| None, &|_| None, &|name| name == mark), Some(Inside::Marked(mark)));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_says_who_started_this() {
        let own = look(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert_eq!(own.parent, i32::try_from(std::os::unix::process::parent_id()).unwrap());
        assert!(own.started > 0 && !own.arguments.is_empty());
        assert!(look(own.parent).unwrap().started <= own.started);
    }
}
