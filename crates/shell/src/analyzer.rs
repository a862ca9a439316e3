//! The entry point: takes a command, a place, and what is known about files; returns a trace.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::limits::{SPARE_STEPS, STEPS};
use crate::place::Place;
use crate::prescan::{Weight, weigh};
use crate::programs::Programs;
use crate::trace::{Trace, UnknownKind};
use crate::walk::{self, Knowledge, Limits};
use crate::worker::on_big_stack;

/// Which language a command is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShellKind {
    /// `sh`, `bash`, `zsh` and their family.
    #[default]
    Posix,
    /// PowerShell.
    PowerShell,
    /// The Windows command prompt.
    Cmd,
}

/// What the caller knows about files. The analysis has no list of files of its own: it propagates these labels
/// through pipes, variables, copies and archives.
///
/// Paths are absolute and normalised, as [`paths::lexical`](crate::paths::lexical) makes them, and may hold
/// [marks](crate::marks).
pub trait Labels: fmt::Debug + Send + Sync {
    /// Returns whether the content of the file is secret, so that data derived from it is
    /// [`Taint::SECRET`](crate::Taint::SECRET).
    fn is_secret(&self, path: &str, place: &Place) -> bool;

    /// Returns whether a folder is one of many like it, so that the names that a search below it looks for
    /// say more than the folder: `find build -name '*.o'`, but not `find / -name '*.o'`.
    fn is_ordinary(&self, path: &str, place: &Place) -> bool;
}

/// Knows of no secret. What lies in the workspace or below `/tmp` is ordinary.
#[derive(Debug, Clone, Copy, Default)]
struct Unlabelled;

impl Labels for Unlabelled {
    fn is_secret(&self, _: &str, _: &Place) -> bool {
        false
    }

    fn is_ordinary(&self, path: &str, place: &Place) -> bool {
        let inside = |folder: &str| {
            path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        inside("/tmp") || inside(place.workspace())
    }
}

/// Works out what commands would do. Cheap to clone and to share.
#[derive(Debug, Clone)]
pub struct Analyzer {
    labels: Arc<dyn Labels>,
    programs: Arc<Programs>,
    time: Duration,
}

/// Code inside code inside code is followed this deep.
const DEPTH: usize = 48;
/// How much longer than its own deadline an analysis is waited for.
const PATIENCE: Duration = Duration::from_millis(500);

impl Default for Analyzer {
    fn default() -> Self {
        Self::new()
    }
}

impl Analyzer {
    /// Creates an analysis without labels, bounded only by counted steps.
    pub fn new() -> Self {
        Self { labels: Arc::new(Unlabelled), programs: Programs::built_in(), time: Duration::MAX }
    }

    /// Asks `labels` about files.
    #[must_use]
    pub fn with_labels(mut self, labels: Arc<dyn Labels>) -> Self {
        self.labels = labels;
        self
    }

    /// Sets the known programs.
    #[must_use]
    pub fn with_programs(mut self, programs: Arc<Programs>) -> Self {
        self.programs = programs;
        self
    }

    /// Sets the time limit for one command. Counted steps bound the work; this is a last resort. When it expires,
    /// the findings so far are in the trace and the rest is unknown.
    #[must_use]
    pub fn with_time(mut self, most: Duration) -> Self {
        self.time = most;
        self
    }

    /// Returns what a command would do if it were run at `place`.
    pub fn trace(&self, command: &str, shell: ShellKind, place: &Place) -> Trace {
        let command = match shell {
            ShellKind::Posix => command.to_owned(),
            ShellKind::PowerShell => format!("pwsh -Command {}", crate::carrier::quote(command)),
            ShellKind::Cmd => format!("cmd /c {}", crate::carrier::quote(command)),
        };
        let limits = self.limits();
        if weigh(&command) == Ok(Weight::Light) {
            return walk::trace(&command, place, self.knowledge(), limits);
        }
        let (place, analyzer) = (place.clone(), self.clone());
        self.on_big_stack(move || walk::trace(&command, &place, analyzer.knowledge(), limits))
    }

    /// Returns what a POSIX command would do if it were run at `place` with `input` as its standard input.
    pub fn trace_fed(&self, command: &str, input: &str, place: &Place) -> Trace {
        let limits = self.limits();
        if [command, input].iter().all(|text| weigh(text) == Ok(Weight::Light)) {
            return walk::trace_fed(command, input, place, self.knowledge(), limits);
        }
        let (command, input, place) = (command.to_owned(), input.to_owned(), place.clone());
        let analyzer = self.clone();
        self.on_big_stack(move || walk::trace_fed(&command, &input, &place, analyzer.knowledge(), limits))
    }

    fn knowledge(&self) -> Knowledge<'_> {
        Knowledge { labels: &*self.labels, programs: &self.programs }
    }

    fn limits(&self) -> Limits {
        Limits {
            steps: STEPS,
            spare: SPARE_STEPS,
            depth: DEPTH,
            deadline: Instant::now().checked_add(self.time),
        }
    }

    fn on_big_stack(&self, work: impl FnOnce() -> Trace + Send + 'static) -> Trace {
        // The work ends by its own deadline, with what it has found; only work that is stuck is left behind.
        on_big_stack(self.time.saturating_add(PATIENCE), work).unwrap_or_else(|_| {
            let mut trace = Trace::default();
            trace.unknown(UnknownKind::Limit, "the command could not be analysed in time", true);
            trace
        })
    }
}
