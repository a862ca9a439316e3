//! What a command created earlier, and may delete again.

use std::cell::OnceCell;
use std::collections::HashMap;

use backstop_shell::options::Options;
use backstop_shell::programs::Programs;
use backstop_shell::{Argument, Place, Process, Trace, containers_made, paths};

use crate::paths::{Class, class};

/// What the processes of a trace made, worked out when it is first asked for.
pub(super) struct Made<'a> {
    trace: &'a Trace,
    /// Names of containers, each with the first process that made it.
    containers: OnceCell<HashMap<&'a str, usize>>,
}

impl<'a> Made<'a> {
    pub(super) fn by(trace: &'a Trace) -> Self {
        Self { trace, containers: OnceCell::new() }
    }

    pub(super) fn trace(&self) -> &'a Trace {
        self.trace
    }

    /// Returns whether a process before the one at index `process` made the container of this name.
    pub(super) fn is_container(&self, name: &str, process: usize) -> bool {
        let all = || {
            let mut all = HashMap::new();
            for (at, process) in self.trace.processes.iter().enumerate() {
                let args: Vec<&str> = process.argv().iter().skip(1).map(Argument::raw).collect();
                for name in containers_made(&process.program(), &args, &self.trace.programs) {
                    all.entry(name).or_insert(at);
                }
            }
            all
        };
        self.containers.get_or_init(all).get(name).is_some_and(|made| *made < process)
    }

    /// Returns whether the process at index `nth` works in a repository that one before it made in a temporary folder. No
    /// command before it may have put something else in the place of that folder by a link.
    pub(super) fn is_in_repository(&self, process: &Process, nth: usize, at: &Place) -> bool {
        let Some(folder) = Repository::of(process, &self.trace.programs, at).map(|call| call.folder) else {
            return false;
        };
        let before = self.trace.processes.get(..nth).unwrap_or_default();
        let links = |process: &Process| {
            matches!(&*process.program(), "ln" | "gln" | "link" | "mount" | "cp" | "gcp" | "mv")
        };
        let made =
            before.iter().filter_map(|process| Repository::of(process, &self.trace.programs, at)?.made);
        let is_it = |made: &String| {
            folder.strip_prefix(made.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        is_temporary(&folder, at) && !before.iter().any(links) && made.into_iter().any(|made| is_it(&made))
    }
}

/// A call of git, by the folders it is about.
struct Repository {
    /// Where it works.
    folder: String,
    /// The folder in which it makes a repository, if it does.
    made: Option<String>,
}

impl Repository {
    /// `None` for another program, and for a call that is told where its repository is in another way.
    fn of(process: &Process, programs: &Programs, at: &Place) -> Option<Self> {
        let args: Vec<&str> = process.argv().iter().skip(1).map(Argument::raw).collect();
        let globals = Options::parse(&args, programs.takes("git").until_operand());
        let told = ["GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR"];
        let is_told = process.environment().iter().any(|(name, _)| told.contains(&name.as_str()))
            || ["git-dir", "work-tree"].iter().any(|name| globals.long(name));
        if process.program() != "git" || is_told {
            return None;
        }
        let mut folder = process.cwd()?.to_owned();
        for to in globals.values(Some('C'), "") {
            folder = paths::lexical(to, &folder);
        }
        let (sub, rest) = args.get(globals.consumed..)?.split_first()?;
        let operands = Options::parse(rest, programs.takes_of("git", sub)).operands;
        let made = match (*sub, operands.as_slice()) {
            ("init", []) => Some(folder.clone()),
            ("init", [inside]) | ("clone", [_, inside]) => Some(paths::lexical(inside, &folder)),
            ("clone", [url]) => {
                let name = url.trim_end_matches('/').trim_end_matches(".git").rsplit(['/', ':']).next();
                name.map(|name| paths::lexical(name, &folder))
            }
            _ => None,
        };
        Some(Self { made: made.filter(|made| is_temporary(made, at)), folder })
    }
}

/// Returns whether a folder is temporary, also behind the links on the disk, where these can be looked at.
fn is_temporary(folder: &str, at: &Place) -> bool {
    let leads = if at.follows_links() { at.leads_to(folder) } else { Some(folder.to_owned()) };
    class::of(folder, at) == Class::Temp && leads.is_some_and(|real| class::of(&real, at) == Class::Temp)
}
