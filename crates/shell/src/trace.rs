//! What an analysis reports: the processes, the facts about them, and what could not be decided.
//!
//! A trace is independent of the shell that produced it. The code that fills it bounds its size.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Serialize;

use super::data::Taint;
use super::limits::{self, Bounded};
use super::word::Argument;
use crate::effects::Touch;
use crate::programs::Programs;

/// A process that could start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The program and its arguments.
    pub(crate) argv: Vec<Argument>,
    /// The programs it is started through, outermost first (`sudo`, `xargs`, `bash -c`).
    pub(crate) via: Vec<String>,
    /// The working directory, when it is known.
    pub(crate) cwd: Option<String>,
    /// Variables set for this process alone.
    pub(crate) environment: Vec<(String, String)>,
    /// True when arguments that are not written here are added (by `xargs`, `find -exec`).
    pub(crate) open_ended: bool,
    /// The code that an interpreter is given other than in its arguments, where that is known.
    pub(crate) code: Option<Arc<str>>,
    /// What it reads, as far as the command itself says what that is.
    pub(crate) inputs: Vec<Input>,
}

/// What a process reads: its standard input, or a file in its arguments that the same command wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// The text, where it is known and short enough to be looked at.
    pub(crate) text: Option<Arc<str>>,
    /// Where it comes from.
    pub(crate) from: Taint,
    /// Whether it flows in, by a pipe or a redirection, and is not the name of a file.
    pub(crate) flows: bool,
}

impl Input {
    /// Returns the text, if it is known and short enough to be read.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Returns whether it is a text that was too long to be tracked.
    pub fn is_lost(&self) -> bool {
        self.text.is_none() && self.from == Taint::NONE
    }

    /// Returns where it comes from.
    pub fn from(&self) -> Taint {
        self.from
    }

    /// Returns whether it comes through a pipe or a redirection and not from a named file.
    pub fn flows(&self) -> bool {
        self.flows
    }
}

impl Process {
    /// Returns the program and its arguments.
    pub fn argv(&self) -> &[Argument] {
        &self.argv
    }

    /// Returns the programs it is started through, outermost first.
    pub fn via(&self) -> &[String] {
        &self.via
    }

    /// Returns the variables set for this process only, with their values.
    pub fn environment(&self) -> &[(String, String)] {
        &self.environment
    }

    /// Returns whether arguments that are not written in the command are added (by `xargs`, `find -exec`).
    pub fn is_open_ended(&self) -> bool {
        self.open_ended
    }

    /// Returns the code that an interpreter gets from its input, or from a file that the same command wrote, if it is
    /// known.
    pub fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    /// Returns what it reads, as far as the command itself determines that.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// Returns the working directory, when it is known.
    pub fn cwd(&self) -> Option<&str> {
        self.cwd.as_deref()
    }

    /// Returns the name of the program without its directory, in lower case.
    pub fn program(&self) -> String {
        self.argv.first().map_or_else(String::new, |arg| program_name(arg.raw()))
    }
}

/// The longest name of a file, in bytes (`NAME_MAX` in `include/uapi/linux/limits.h`).
const LONGEST_NAME: usize = 255;

/// Returns the name of a program without directory, extension or capitals.
pub(crate) fn program_name(word: &str) -> String {
    let base = word.as_bytes().rsplit(|byte| matches!(byte, b'/' | b'\\')).next().unwrap_or_default();
    let base = word.get(word.len() - base.len()..).unwrap_or(word);
    // No file has so long a name, so that it is none that anybody knows.
    let base = base.get(..base.floor_char_boundary(LONGEST_NAME)).unwrap_or(base);
    let lower = base.to_ascii_lowercase();
    lower.strip_suffix(".exe").map(str::to_owned).unwrap_or(lower)
}

/// What kind of thing could not be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownKind {
    /// The text is not a command in the shell's grammar, or not fully.
    Unparsed,
    /// The command is too long or too deeply nested to be analysed, or the analysis took too long.
    Limit,
    /// A shell or interpreter runs code that is not known here.
    Code,
    /// It is not known which program runs.
    Program,
}

/// Something that could not be decided, and whether it can carry code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unknown {
    /// What kind of thing it is.
    pub kind: UnknownKind,
    /// The reason, for people.
    pub reason: String,
    /// Whether arbitrary code could hide in it.
    pub carrier: bool,
}

/// Something that the command would do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Fact {
    /// A process could start.
    Starts {
        /// Its index in [`Trace::processes`].
        process: usize,
    },
    /// A file is touched.
    Touches {
        /// By which process; `None` for the shell itself.
        process: Option<usize>,
        /// The file.
        touch: Touch,
    },
    /// Code of this origin is run by a shell or interpreter.
    RunsCode {
        /// By which process; `None` for the shell itself.
        process: Option<usize>,
        /// Where the code comes from.
        from: Taint,
    },
    /// A shell is wired to the network.
    NetworkShell {
        /// Which process that is.
        process: usize,
    },
    /// Data of this origin goes to the network.
    Sends {
        /// By which process.
        process: usize,
        /// Where the data comes from.
        what: Taint,
    },
    /// Inline code of another language starts processes, evaluates text or talks to the network.
    CodeActs {
        /// In which process.
        process: usize,
    },
    /// Processes multiply without end.
    ForkBomb,
    /// A loop, or what is written to a file, has no end.
    Endless,
    /// The text is written so that it cannot be read.
    Obfuscated,
}

impl Fact {
    /// Returns the same of other processes.
    fn of_processes(self, moved: impl Fn(usize) -> usize) -> Self {
        match self {
            Self::Starts { process } => Self::Starts { process: moved(process) },
            Self::Touches { process, touch } => Self::Touches { process: process.map(moved), touch },
            Self::RunsCode { process, from } => Self::RunsCode { process: process.map(moved), from },
            Self::NetworkShell { process } => Self::NetworkShell { process: moved(process) },
            Self::Sends { process, what } => Self::Sends { process: moved(process), what },
            Self::CodeActs { process } => Self::CodeActs { process: moved(process) },
            Self::ForkBomb | Self::Endless | Self::Obfuscated => self,
        }
    }
}

/// Everything found about one command.
#[derive(Debug)]
pub struct Trace {
    /// Every process that could start.
    pub processes: Vec<Process>,
    /// What they do, in the order in which it was found.
    pub facts: Vec<Fact>,
    /// What could not be decided.
    pub unknowns: Vec<Unknown>,
    /// Commands that wait for instructions from the session's own input.
    pub waiting: Vec<String>,
    /// Programs that may read the session's own input.
    pub readers: Vec<Reader>,
    /// The catalogue of programs that was used.
    pub programs: Arc<Programs>,
}

impl Default for Trace {
    fn default() -> Self {
        Self {
            processes: Vec::new(),
            facts: Vec::new(),
            unknowns: Vec::new(),
            waiting: Vec::new(),
            readers: Vec::new(),
            programs: Programs::built_in(),
        }
    }
}

/// A program that may read what is typed.
#[derive(Debug, Clone)]
pub struct Reader {
    /// Its name; for code that was not read, the name of the program that runs it.
    pub program: String,
    /// Its arguments, and the word that started it.
    pub argv: Vec<String>,
}

/// More readers than this are as good as this many: two are too many to know who reads.
const MAX_READERS: usize = 64;

/// Most unknowns that are listed; one stands for all the others.
const MAX_UNKNOWNS: usize = LAST_UNKNOWN + 1;
const LAST_UNKNOWN: usize = 64;

impl Trace {
    /// Takes over what another reading of the same command found. What both found in the same place is the same
    /// process, and known already: most of a command means the same to every shell.
    pub(super) fn absorb(&mut self, other: Self) {
        let before = self.processes.len();
        let mut places = Vec::with_capacity(other.processes.len());
        let mut added = Vec::new();
        for (at, process) in other.processes.into_iter().enumerate() {
            if self.processes.get(at) == Some(&process) {
                places.push(at);
            } else {
                places.push(before + added.len());
                added.push(process);
            }
        }
        let (processes, over) =
            Bounded::of(&limits::PROCESSES, self.processes.drain(..).chain(added)).into_parts();
        self.processes = processes;
        self.note(over);
        let last = self.processes.len().saturating_sub(1);
        let moved = |process: usize| places.get(process).map_or(last, |place| last.min(*place));
        let facts: Vec<Fact> = other.facts.into_iter().map(|fact| fact.of_processes(moved)).collect();
        let known: HashSet<&Fact> = self.facts.iter().collect();
        let is_new: Vec<bool> = facts.iter().map(|fact| !known.contains(fact)).collect();
        let facts = facts.into_iter().zip(is_new).filter_map(|(fact, is_new)| is_new.then_some(fact));
        let (facts, over) = Bounded::of(&limits::FACTS, self.facts.drain(..).chain(facts)).into_parts();
        self.facts = facts;
        self.note(over);
        for unknown in other.unknowns {
            self.unknown(unknown.kind, unknown.reason, unknown.carrier);
        }
        for text in other.waiting {
            if !self.waiting.contains(&text) {
                self.waiting.push(text);
            }
        }
        for reader in other.readers {
            if !self.readers.iter().any(|known| known.argv == reader.argv && known.program == reader.program)
            {
                self.reader(reader);
            }
        }
    }

    pub(super) fn reader(&mut self, reader: Reader) {
        if self.readers.len() < MAX_READERS {
            self.readers.push(reader);
        }
    }

    pub(crate) fn unknown(&mut self, kind: UnknownKind, reason: impl Into<String>, carrier: bool) {
        let unknown = Unknown { kind, reason: reason.into(), carrier };
        if self.unknowns.contains(&unknown) {
            return;
        }
        // The last one stands for all that are not listed, and is as bad as any of them can be.
        match self.unknowns.len() {
            MAX_UNKNOWNS => {}
            LAST_UNKNOWN => self.unknowns.push(Unknown {
                kind: UnknownKind::Limit,
                reason: "more of it can't be decided than is listed".to_owned(),
                carrier: true,
            }),
            _ => self.unknowns.push(unknown),
        }
    }
}
