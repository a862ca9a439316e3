//! What people are shown of a call: masked secrets, and what its command would start.

use std::collections::BTreeSet;
use std::sync::Arc;

use backstop_engine::{Foresight, Masker, Snapshot};
use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{CallContext, Text};
use backstop_scan::{Action, Catalogue, Class, Policy, Redactor, Scanner};
use backstop_shell::programs::Programs;
use backstop_shell::{Argument, Fact, Trace};
use backstop_store::{StartedProcess, Starts, TouchedPath};
use serde_json::Value;

use super::CommandSafety;
use super::hosts::{hosts_of, in_addresses};

/// The most entries of each list.
const MOST_LISTED: usize = 64;
/// The most words of a process, and the most programs that it is started through.
const MOST_WORDS: usize = 64;
/// The most characters of a word.
const MOST_CHARS: usize = 512;

/// Masks secrets in what people are shown of calls, whatever is done with secrets elsewhere.
pub fn mask_for_people(snapshot: &mut Snapshot, catalogue: Arc<Catalogue>) {
    let scanner = Scanner::for_classes(&[Class::Secret]).with(catalogue);
    let policy = Policy::new(Action::Ignore).class(Class::Secret, Action::Mask);
    snapshot.set_masker(Arc::new(Secrets(Redactor::new(Arc::new(scanner), policy))));
}

#[derive(Debug)]
struct Secrets(Redactor);

impl Masker for Secrets {
    fn mask(&self, value: &mut Value) -> usize {
        self.0.apply_json_and_keys(value).len()
    }
}

impl Foresight for CommandSafety {
    fn foresee(&self, event: &ToolCallEvent, call: &CallContext) -> Option<Starts> {
        let (traces, unread) = self.traces(event, call)?;
        let mut list = List::default();
        traces.iter().for_each(|trace| list.add(trace, self.guard.programs()));
        for language in unread {
            let unknown = cut(&format!("code in {language} is not read"));
            push(&mut list.starts.unknown, unknown, &mut list.starts.more);
        }
        Some(list.starts)
    }
}

/// What was found so far, within its bounds.
#[derive(Default)]
struct List {
    starts: Starts,
    paths: BTreeSet<TouchedPath>,
    hosts: BTreeSet<String>,
}

impl List {
    fn add(&mut self, trace: &Trace, programs: &Programs) {
        for process in &trace.processes {
            let words: Vec<Text> =
                process.argv().iter().take(MOST_WORDS).map(|word| cut(&word.display())).collect();
            let shown: Vec<_> = process.argv().iter().map(Argument::display).collect();
            let argv: Vec<&str> = shown.iter().map(AsRef::as_ref).collect();
            hosts_of(&argv, programs).into_iter().for_each(|host| self.host(host));
            // The code of an interpreter that comes on its input.
            process.code().into_iter().flat_map(in_addresses).for_each(|host| self.host(host));
            let through = process.via().iter().take(MOST_WORDS).map(|program| cut(program)).collect();
            let started = StartedProcess { words, through, folder: process.cwd().map(cut) };
            let left_out = |words: usize| words.saturating_sub(MOST_WORDS);
            self.starts.more += left_out(process.argv().len()) + left_out(process.via().len());
            push(&mut self.starts.processes, started, &mut self.starts.more);
        }
        for fact in &trace.facts {
            let Fact::Touches { touch, .. } = fact else { continue };
            let action = serde_json::to_value(touch.action).ok();
            let action = action.as_ref().and_then(Value::as_str).unwrap_or("touch").to_owned();
            let touched = TouchedPath { action, path: cut(&Argument::marked(touch.path.clone()).display()) };
            if self.paths.insert(touched.clone()) {
                push(&mut self.starts.paths, touched, &mut self.starts.more);
            }
        }
        for unknown in &trace.unknowns {
            push(&mut self.starts.unknown, cut(&unknown.reason), &mut self.starts.more);
        }
    }

    /// Adds a host, as it is written.
    fn host(&mut self, host: &str) {
        if self.hosts.insert(host.to_owned()) {
            push(&mut self.starts.hosts, cut(host), &mut self.starts.more);
        }
    }
}

fn push<T>(list: &mut Vec<T>, item: T, more: &mut usize) {
    if list.len() < MOST_LISTED { list.push(item) } else { *more += 1 }
}

fn cut(text: &str) -> Text {
    match text.char_indices().nth(MOST_CHARS) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()).into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use backstop_hooks::Params;
    use serde_json::json;

    use super::*;
    use crate::CommandGuard;

    fn foreseen(tool: &str, params: Value) -> Option<Starts> {
        let guard = CommandSafety::new(CommandGuard::new(crate::GuardSettings::default()), Some("/home/u"));
        let call = CallContext { workspace_dir: Some("/w".to_owned()), ..CallContext::default() };
        guard.foresee(&ToolCallEvent::new(tool, Params::from_value(params).unwrap()), &call)
    }

    fn texts(texts: &[Text]) -> Vec<&str> {
        texts.iter().map(Text::as_str).collect()
    }

    #[test]
    fn what_a_command_starts_and_touches_is_listed() {
        let command = "cd sub && env A=1 make all > out.txt; curl https://u:p@example.org:8080/x?y -o \"$F\"";
        let starts = foreseen("exec", json!({ "command": command })).unwrap();
        let processes: Vec<_> = starts.processes.iter().map(|process| texts(&process.words)).collect();
        assert!(processes.contains(&vec!["make", "all"]), "{processes:?}");
        let curl = processes.iter().find(|words| words[0] == "curl").unwrap();
        assert_eq!(curl.last(), Some(&"…"), "what is not known is a mark");
        assert_eq!(texts(&starts.hosts), ["example.org:8080"]);
        let written = starts.paths.iter().find(|touched| touched.path.ends_with("out.txt")).unwrap();
        assert_eq!(written.action, "write");
        assert_eq!(foreseen("read", json!({ "path": "/w/x" })), None, "that starts nothing");
    }

    #[test]
    fn every_list_is_bounded_and_says_so() {
        let many = (0..200).map(|n| format!("make {n} > f{n}")).collect::<Vec<_>>().join("; ");
        let long = format!("make {} {}", "x".repeat(5_000), "y ".repeat(200));
        let starts = foreseen("exec", json!({ "command": format!("{long}; {many}") })).unwrap();
        assert_eq!((starts.processes.len(), starts.paths.len()), (MOST_LISTED, MOST_LISTED));
        assert!(starts.more > 100, "{}", starts.more);
        let words = &starts.processes[0].words;
        assert!(words.len() == MOST_WORDS && words[1].chars().count() == MOST_CHARS + 1);
    }

    #[test]
    fn secrets_are_masked_and_counted() {
        let mut snapshot = Snapshot::empty(backstop_engine::OperatorSettings::default());
        mask_for_people(&mut snapshot, Arc::default());
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let mut value = json!({ "command": format!("echo {token}"), "cwd": "/w" });
        let scanner = Scanner::for_classes(&[Class::Secret]);
        let policy = Policy::new(Action::Ignore).class(Class::Secret, Action::Mask);
        assert_eq!(Secrets(Redactor::new(Arc::new(scanner), policy)).mask(&mut value), 1);
        let shown = value.to_string();
        assert!(!shown.contains(&token) && shown.contains("echo ") && shown.contains("/w"), "{shown}");
    }
}
