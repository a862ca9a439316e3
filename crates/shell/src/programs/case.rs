//! Checks the cases of an entry.
//!
//! A case is a command, `=>`, and what is true of it: `starts WORDS`, an action and a path (`read x`, `delete x`),
//! `operand WORD`, `sends`, `endless`, `waits`, `reads-input`, `runs-code`, `looks` (no program in it does more),
//! `unknown` (which code runs is unknown). Files called `secret` hold secrets. If a command begins with the first name of
//! its entry, the case is checked for all names of the entry.

use std::sync::Arc;

use super::{Program, Programs};
use crate::effects::Action;
use crate::options::Options;
use crate::trace::{Fact, Process, Trace};
use crate::word::Argument;
use crate::{Analyzer, Labels, Place, ShellKind};

#[derive(Debug)]
struct CalledSecret;

impl Labels for CalledSecret {
    fn is_secret(&self, path: &str, _: &Place) -> bool {
        path.ends_with("/secret")
    }

    fn is_ordinary(&self, _: &str, _: &Place) -> bool {
        true
    }
}

impl Program {
    /// Checks the cases of the entry with `programs`, which contain it.
    ///
    /// # Errors
    ///
    /// The first case that fails.
    pub fn check(&self, programs: &Arc<Programs>) -> Result<(), String> {
        let analyzer =
            Analyzer::new().with_labels(Arc::new(CalledSecret)).with_programs(Arc::clone(programs));
        let place = Place::new("/work");
        for (case, wanted) in self.cases() {
            let (command, fact) = case
                .split_once(" => ")
                .ok_or_else(|| format!("the case `{case}` lacks ` => ` and what is true of the command"))?;
            for command in self.called_by_all_names(command) {
                let trace = analyzer.trace(&command, ShellKind::Posix, &place);
                let holds = is_true(fact, &command, &trace, programs)
                    .ok_or_else(|| format!("`{fact}` is nothing that a case can say"))?;
                if holds != wanted {
                    let is = if wanted { "should be" } else { "should not be" };
                    return Err(format!("by its own entry, `{fact}` {is} true of `{command}`"));
                }
            }
        }
        Ok(())
    }

    fn called_by_all_names(&self, command: &str) -> Vec<String> {
        let first = self.names.first().map(String::as_str).unwrap_or_default();
        match command.strip_prefix(first).filter(|rest| rest.is_empty() || rest.starts_with(' ')) {
            Some(rest) if !first.ends_with('*') => {
                let names = self.names.iter().filter(|name| !name.ends_with('*'));
                names.map(|name| format!("{name}{rest}")).collect()
            }
            _ => vec![command.to_owned()],
        }
    }
}

/// Returns whether it is true of the command; `None` when nobody knows what it means.
fn is_true(fact: &str, command: &str, trace: &Trace, programs: &Programs) -> Option<bool> {
    let (verb, rest) = fact.split_once(' ').unwrap_or((fact, ""));
    let any = |is: fn(&Fact) -> bool| trace.facts.iter().any(is);
    Some(match verb {
        "starts" => trace.processes.iter().skip(1).any(|process| spelled(process) == rest),
        "operand" => trace.processes.first().is_some_and(|process| {
            let args: Vec<&str> = process.argv().iter().skip(1).map(Argument::raw).collect();
            Options::parse(&args, programs.takes(&process.program())).operands.contains(&rest)
        }),
        "looks" => !crate::parse::names_a_carrier(command, programs),
        "waits" => !trace.waiting.is_empty(),
        "reads-input" => !trace.readers.is_empty(),
        "endless" => any(|fact| matches!(fact, Fact::Endless)),
        "sends" => any(|fact| matches!(fact, Fact::Sends { .. })),
        "unknown" => trace.unknowns.iter().any(|unknown| unknown.carrier),
        "runs-code" => any(|fact| matches!(fact, Fact::RunsCode { .. })),
        _ => {
            let wanted: Action = serde_json::from_value(verb.into()).ok()?;
            trace.facts.iter().any(|fact| match fact {
                Fact::Touches { touch, .. } => touch.action == wanted && touch.path == rest,
                _ => false,
            })
        }
    })
}

fn spelled(process: &Process) -> String {
    process.argv().iter().map(Argument::display).collect::<Vec<_>>().join(" ")
}
