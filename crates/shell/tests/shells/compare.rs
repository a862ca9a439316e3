//! What the interpreter says a program would start, held against what it started.

use std::path::Path;

use backstop_shell::{Analyzer, Place, Process, ShellKind};

/// How well one start was foreseen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Foreseen {
    /// Word for word.
    Exactly,
    /// By a process of which some words were not known.
    InPart,
    /// Something was said to be unknown that may carry code.
    Covered,
    /// Not at all: the interpreter is wrong.
    Not,
}

/// What the interpreter says about one program.
#[derive(Debug)]
pub(crate) struct Prediction {
    processes: Vec<Process>,
    /// What is unknown, where it may carry code.
    carriers: Vec<String>,
}

impl Prediction {
    /// Reads a program that runs in `home`.
    pub(crate) fn of(program: &str, home: &Path) -> Self {
        let home = home.to_string_lossy();
        let place = Place::new(home.as_ref()).with_home(home.as_ref());
        let trace = Analyzer::new().trace(program, ShellKind::Posix, &place);
        let carriers = trace.unknowns.into_iter().filter(|unknown| unknown.carrier);
        Self { processes: trace.processes, carriers: carriers.map(|unknown| unknown.reason).collect() }
    }

    /// How well it foresaw that a process with these words starts.
    pub(crate) fn foresees(&self, words: &[String]) -> Foreseen {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let fitting = || self.processes.iter().filter(|process| process.may_be(&words));
        match fitting().next() {
            Some(_) if fitting().any(Process::is_known) => Foreseen::Exactly,
            Some(_) => Foreseen::InPart,
            None if self.carriers.is_empty() => Foreseen::Not,
            None => Foreseen::Covered,
        }
    }

    /// For people.
    pub(crate) fn shown(&self) -> String {
        let words = |process: &Process| {
            process.argv().iter().map(|word| format!("`{}`", word.display())).collect::<Vec<_>>().join(" ")
        };
        let processes: Vec<String> = self.processes.iter().map(words).collect();
        format!("{}; unknown: {}", processes.join(", "), self.carriers.join(", "))
    }
}
