//! What a command made before, and may take away again.

use std::cell::OnceCell;
use std::collections::HashMap;

use backstop_shell::options::Options;
use backstop_shell::{Argument, Process, Trace, marks};

/// Programs that keep containers in the same way.
const ENGINES: [&str; 3] = ["docker", "podman", "nerdctl"];

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

    /// Whether a process before the one at index `process` made the container of this name.
    pub(super) fn is_container(&self, name: &str, process: usize) -> bool {
        let all = || {
            let mut all = HashMap::new();
            for (at, process) in self.trace.processes.iter().enumerate() {
                if let Some(name) = container(process, self.trace) {
                    all.entry(name).or_insert(at);
                }
            }
            all
        };
        self.containers.get_or_init(all).get(name).is_some_and(|made| *made < process)
    }
}

/// The container that a process makes: by the name it is given, or as what the engine prints stands for it.
fn container<'a>(process: &'a Process, trace: &Trace) -> Option<&'a str> {
    let program = process.program();
    if !ENGINES.contains(&program.as_str()) {
        return None;
    }
    let mut words = process.argv().iter().skip(1).map(Argument::raw).skip_while(|word| *word == "container");
    let sub = words.next().filter(|word| matches!(*word, "run" | "create"))?;
    let rest: Vec<&str> = words.collect();
    // Both take the same options (Docker 27).
    let options = Options::parse(&rest, trace.programs.takes_of(&program, "run").until_operand());
    let printed = || (sub == "create" || options.has('d', "detach")).then_some(marks::MADE);
    options.value(None, "name").filter(|name| !marks::has_hole(name)).or_else(printed)
}
