//! What a command made before, and may take away again.

use std::cell::OnceCell;
use std::collections::HashMap;

use backstop_shell::{Argument, Trace, containers_made};

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
                let args: Vec<&str> = process.argv().iter().skip(1).map(Argument::raw).collect();
                for name in containers_made(&process.program(), &args, &self.trace.programs) {
                    all.entry(name).or_insert(at);
                }
            }
            all
        };
        self.containers.get_or_init(all).get(name).is_some_and(|made| *made < process)
    }
}
