//! What one owner starts.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rustix::process::Pid;

use crate::group::{Group, sweep};
use crate::lifeline::{Lifeline, Target};
use crate::program::Program;
use crate::running::Running;

/// The programs of one owner: they share a mark and a lifeline. When it is dropped, what still carries the mark dies.
#[derive(Debug)]
pub struct Family {
    variable: &'static str,
    mark: String,
    started: AtomicU64,
    lifeline: Arc<Lifeline>,
}

impl Family {
    /// A family whose programs are told by `variable` of their environment. `mark` is its value, of which no other family may
    /// have the same; each program adds a number to it.
    pub fn new(variable: &'static str, mark: impl Into<String>) -> Self {
        Self { variable, mark: mark.into(), started: AtomicU64::new(0), lifeline: Arc::default() }
    }

    /// Starts a program, at the head of a process group of its own.
    ///
    /// # Errors
    ///
    /// What the system says: most often that there is no such program. Nothing runs then.
    pub fn start(&self, program: Program) -> io::Result<Running> {
        let mark = format!("{}.{}", self.mark, self.started.fetch_add(1, Ordering::Relaxed));
        let started = Instant::now();
        let mut command = program.into_command();
        command.env(self.variable, &mark).process_group(0).kill_on_drop(true);
        self.lifeline.hold()?;
        let child = command.spawn()?;
        // The command holds ends of the program's pipes, which end only when all of them are closed.
        drop(command);
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let leader = leader.ok_or_else(|| io::Error::other("the program has no process number"))?;
        let group = Arc::new(Group::new(leader, self.variable, mark, Arc::clone(&self.lifeline)));
        self.lifeline.watch(Target::Group(leader))?;
        Ok(Running::new(child, group, started))
    }

    /// Ends at once everything that carries the mark of this family, whoever its parent is by now.
    pub fn end(&self) {
        if self.started.load(Ordering::Relaxed) > 0 {
            sweep(self.variable, &self.mark);
        }
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        self.end();
    }
}
