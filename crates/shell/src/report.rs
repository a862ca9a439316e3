//! What the walk reports: a process with its words and environment, and what it touches.
//!
//! Both lists are limited, and whatever exceeds a limit is an unknown.

use super::data::{Data, Taint};
use super::limits::{self, Over};
use super::state::Value;
use super::trace::{Fact, Process};
use super::walk::Shell;
use super::word::Argument;
use crate::effects::Touch;
use crate::variables::{self, Value as Kind};

/// Variables that make git skip its hooks, beside those of [`variables`] that run other code: both are kept for the
/// programs started after their assignment.
const SKIPPING: &[&str] =
    &["HUSKY", "HUSKY_SKIP_HOOKS", "SKIP", "LEFTHOOK", "PRE_COMMIT_ALLOW_NO_CONFIG", "OVERCOMMIT_DISABLE"];

impl Shell<'_> {
    /// Returns the variables of a new process that are known to matter: those in front of it, and those that
    /// change what a program loads or skips when they were assigned before.
    pub(crate) fn process_environment(&self) -> Vec<(String, String)> {
        let mut environment = self.environment.clone();
        let in_front = environment.len();
        for (name, _) in self.state.assigned_with_prefix("") {
            let matters = SKIPPING.contains(&name)
                || name.starts_with("GIT_CONFIG_")
                || variables::leads_agents(name)
                || variables::of(name).is_some();
            if matters
                && !environment.iter().any(|(known, _)| known == name)
                && let Some(value) = self.state.assigned(name)
                && !self.is_usual_folder(name, value)
            {
                environment.push((name.to_owned(), value.scalar().to_owned()));
            }
        }
        // Assignments are kept in no order of their own.
        environment.get_mut(in_front..).unwrap_or_default().sort_unstable();
        environment
    }

    /// Returns whether this is the folder for which the variable stands where nobody set it.
    fn is_usual_folder(&self, name: &str, value: &Value) -> bool {
        let rest = variables::usual_folder(name).and_then(|folder| value.scalar().strip_suffix(folder));
        rest == Some(self.place.home())
    }

    /// Reports a process, with what it touches.
    pub(crate) fn emit(&mut self, argv: &[String]) -> usize {
        let at = self.trace.processes.len();
        if at >= limits::PROCESSES.most {
            self.trace.note(Over::of(&limits::PROCESSES));
            return at.saturating_sub(1);
        }
        let process = Process {
            argv: argv.iter().map(Argument::marked).collect(),
            via: self.via.clone(),
            cwd: self.state.cwd.clone(),
            environment: self.process_environment(),
            open_ended: self.open_ended,
            code: None,
            inputs: Vec::new(),
        };
        self.trace.processes.push(process);
        self.trace.facts.push(Fact::Starts { process: at });
        self.loads_by_variables(at);
        at
    }

    /// Reports code from the network that a variable of a process has it load: from a file, or from a folder or an archive.
    fn loads_by_variables(&mut self, process: usize) {
        let environment = self.trace.processes.get(process).map_or(&[][..], |process| &process.environment);
        let loads = |name: &str| matches!(variables::of(name), Some((_, kind)) if !matches!(kind, Kind::Sources | Kind::Setting));
        let values = environment.iter().filter(|(name, _)| loads(name)).map(|(_, value)| value);
        let parts =
            values.flat_map(|value| value.split([':', ';', '=', ',', ' '])).filter(|part| !part.is_empty());
        let parts: Vec<String> = parts.map(str::to_owned).collect();
        parts.iter().for_each(|part| self.loads_from(part, process));
    }

    /// Reports that a process looks for code in a file or folder, where that came from the network.
    pub(crate) fn loads_from(&mut self, path: &str, process: usize) {
        let path = self.located(path);
        let is_network = |data: &Data| data.taint.has(Taint::NET) || data.taint.has(Taint::FETCHED);
        let disk = &self.state.disk;
        if disk.is_fetched(&path)
            || disk.is_fetched(&format!("{path}/x"))
            || disk.file(&path).is_some_and(is_network)
        {
            self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::FETCHED });
        }
    }

    /// Returns the text that a program is sent. Data of which nothing is known, not even where it comes from, is a text that
    /// was too long to be carried along, which is reported.
    pub(crate) fn text_of<'d>(&mut self, data: &'d Data) -> Option<&'d str> {
        if data.marked().is_none() && data.taint == Taint::NONE {
            self.trace.note(Over::of(&limits::TEXT));
        }
        data.marked()
    }

    /// Reports that the last process touches a file.
    pub(crate) fn touch(&mut self, touch: Touch) {
        let process = self.trace.processes.len().checked_sub(1);
        self.touch_by(process, touch);
    }

    pub(crate) fn touch_by(&mut self, process: Option<usize>, mut touch: Touch) {
        touch.resolve(self.state.cwd.as_deref(), self.place);
        if touch.path.len() > limits::PATH.most {
            self.trace.note(Over::of(&limits::PATH));
            // Judged by where it leads: what was written is cut only then, since the part in the middle may lead away.
            touch.path = ends_of(&touch.resolved).unwrap_or_else(|| touch.resolved.clone());
            touch.resolve(self.state.cwd.as_deref(), self.place);
        }
        if let Some(mounts) = &self.mounts {
            mounts.lead(&mut touch);
        }
        if let Some(target) = self.state.disk.led(&touch.resolved) {
            touch.path = target;
            touch.resolve(self.state.cwd.as_deref(), self.place);
        }
        if self.trace.facts.len() < limits::FACTS.most {
            self.trace.facts.push(Fact::Touches { process, touch });
        } else {
            self.trace.note(Over::of(&limits::FACTS));
        }
    }
}

/// Returns the beginning and the end of a path in its normal form that is too long for any system, which has to be
/// reported; none of others.
fn ends_of(path: &str) -> Option<String> {
    let half = limits::PATH.most / 2;
    if path.len() <= limits::PATH.most {
        return None;
    }
    let (head, tail) = (path.floor_char_boundary(half), path.ceil_char_boundary(path.len() - half));
    Some(format!("{}/{}", path.get(..head)?, path.get(tail..)?))
}
