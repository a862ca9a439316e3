//! Simple commands: words, assignments and redirections put together.
//!
//! Words are expanded in the order in which they are written, assignments in front of a command belong to
//! that command alone, and without a command they change the shell.

use brush_parser::ast;

use super::data::{Data, Taint};
use super::state::{Casing, Value};
use super::trace::program_name;
use super::walk::Shell;

impl Shell<'_> {
    pub(super) fn run_simple(&mut self, simple: &ast::SimpleCommand, stdin: &Data) -> (Data, Option<bool>) {
        self.word_taint = Taint::NONE;
        let outer_sinks = std::mem::take(&mut self.sinks);
        let mut argv: Vec<String> = Vec::new();
        let mut redirects: Vec<&ast::IoRedirect> = Vec::new();
        let mut assignments: Vec<(&ast::Assignment, bool)> = Vec::new();
        let prefix = simple.prefix.iter().flat_map(|prefix| &prefix.0);
        let suffix = simple.suffix.iter().flat_map(|suffix| &suffix.0);
        let mut items: Vec<&ast::CommandPrefixOrSuffixItem> = prefix.collect();
        let prefix_len = items.len();
        items.extend(suffix);
        for (at, item) in items.iter().enumerate() {
            if at == prefix_len
                && let Some(word) = &simple.word_or_name
            {
                argv.extend(self.fields(&word.value));
            }
            match item {
                ast::CommandPrefixOrSuffixItem::IoRedirect(redirect) => redirects.push(redirect),
                ast::CommandPrefixOrSuffixItem::Word(word) => argv.extend(self.fields(&word.value)),
                ast::CommandPrefixOrSuffixItem::AssignmentWord(assignment, word) => {
                    if at < prefix_len {
                        assignments.push((assignment, true));
                    } else {
                        self.declared(assignment, &word.value, &mut argv);
                    }
                }
                ast::CommandPrefixOrSuffixItem::ProcessSubstitution(kind, subshell) => {
                    let path = self.process_substitution(kind, subshell);
                    argv.push(path);
                }
            }
        }
        if items.len() == prefix_len
            && let Some(word) = &simple.word_or_name
        {
            argv.extend(self.fields(&word.value));
        }
        self.bare = argv.is_empty();
        let streams = self.streams(redirects, stdin);
        self.bare = false;
        let words_taint = self.word_taint;
        let environment = self.assignments(&assignments, argv.is_empty());
        self.word_taint |= words_taint;
        let (output, status) = if argv.is_empty() {
            (Data::empty(), Some(true))
        } else {
            let outer = std::mem::replace(&mut self.environment, environment);
            let status = status_of(&argv, self);
            let wired = std::mem::replace(&mut self.wired, streams.to_network || streams.from_network);
            let output = self.dispatch(&argv, &streams.stdin);
            self.wired = wired;
            self.environment = outer;
            (output, status)
        };
        let program = argv.first().map(|word| program_name(word));
        let output = self.deliver(streams, output, program.as_deref());
        self.drain_sinks(&output);
        self.sinks = outer_sinks;
        (output, status)
    }

    /// Assigns (when there is no command) or collects the environment of the command.
    fn assignments(
        &mut self,
        assignments: &[(&ast::Assignment, bool)],
        persist: bool,
    ) -> Vec<(String, String)> {
        let mut environment = Vec::new();
        for (assignment, _) in assignments {
            self.word_taint = Taint::NONE;
            let (name, value) = self.assigned_value(assignment);
            if persist {
                self.state.mark(&name, self.word_taint);
                self.assign(&name, value);
            } else {
                environment.push((name, value.scalar().to_owned()));
            }
        }
        environment
    }

    fn assigned_value(&mut self, assignment: &ast::Assignment) -> (String, Value) {
        let name = match &assignment.name {
            ast::AssignmentName::VariableName(name) | ast::AssignmentName::ArrayElementName(name, _) => {
                name.clone()
            }
        };
        let value = match &assignment.value {
            ast::AssignmentValue::Scalar(word) => {
                let text = self.single(&word.value);
                if assignment.append {
                    let before =
                        self.state.assigned(&name).map(|value| value.scalar().to_owned()).unwrap_or_default();
                    Value::Text(before + &text)
                } else {
                    Value::Text(text)
                }
            }
            ast::AssignmentValue::Array(items) => {
                let mut list = match (assignment.append, self.state.assigned(&name)) {
                    (true, Some(Value::List(list))) => list.clone(),
                    _ => Vec::new(),
                };
                for (key, word) in items {
                    let fields = self.fields(&word.value);
                    if let Some(key) = key.as_ref().map(|key| key.value.as_str()).filter(|key| is_key(key)) {
                        let value = Value::Text(fields.join(" "));
                        self.state.assign(&keyed(&name, key), value);
                    }
                    list.extend(fields);
                }
                Value::List(list)
            }
        };
        match &assignment.name {
            ast::AssignmentName::VariableName(_) => (name, value),
            ast::AssignmentName::ArrayElementName(_, key) if is_key(key) => {
                (keyed(&name, key), Value::Text(value.scalar().to_owned()))
            }
            ast::AssignmentName::ArrayElementName(_, index) => {
                let index = self.arithmetic(index).and_then(|index| usize::try_from(index).ok());
                let mut list = match self.state.assigned(&name) {
                    Some(Value::List(list)) => list.clone(),
                    _ => Vec::new(),
                };
                match index {
                    Some(index) if index < 256 => {
                        if list.len() <= index {
                            list.resize(index + 1, String::new());
                        }
                        if let Some(slot) = list.get_mut(index) {
                            *slot = value.scalar().to_owned();
                        }
                    }
                    _ => list.push(value.scalar().to_owned()),
                }
                (name, Value::List(list))
            }
        }
    }

    /// An assignment after the command word: `export X=1`, but also `make X=1` and `dd of=/dev/sda`.
    fn declared(&mut self, assignment: &ast::Assignment, written: &str, argv: &mut Vec<String>) {
        let declares = argv.first().is_some_and(|word| {
            matches!(word.as_str(), "export" | "declare" | "typeset" | "local" | "readonly" | "alias")
        });
        if !declares || argv.first().is_some_and(|word| word == "alias") {
            argv.extend(self.fields(written));
            return;
        }
        let (name, value) = self.assigned_value(assignment);
        if argv.iter().any(|flag| flag.starts_with('-') && flag.contains('n')) {
            let target = value.scalar().to_owned();
            self.state.declare_reference(&name, &target);
            return;
        }
        for flag in argv.iter().filter(|flag| flag.starts_with('-')) {
            if flag.contains('l') {
                self.state.declare_casing(&name, Casing::Lower);
            } else if flag.contains('u') {
                self.state.declare_casing(&name, Casing::Upper);
            }
        }
        self.state.mark(&name, self.word_taint);
        self.assign(&name, value);
        argv.push(name);
    }

    /// Assigns a variable; those that the shell itself runs are run.
    fn assign(&mut self, name: &str, value: Value) {
        let code = matches!(name, "PROMPT_COMMAND" | "PS0")
            .then(|| Data::text(value.scalar()).tainted(self.word_taint));
        self.state.assign(name, value);
        if let Some(code) = code {
            self.in_subshell(|shell| shell.run_code(&code, &[], None, name));
        }
    }
}

/// True for the key of an associative array: anything that is no number.
pub(super) fn is_key(key: &str) -> bool {
    !key.is_empty() && !key.contains(|c: char| c.is_ascii_digit() || "$`()+*/".contains(c))
}

/// The name under which an element of an associative array is kept.
pub(super) fn keyed(name: &str, key: &str) -> String {
    format!("{name}[{}]", key.trim_matches(['"', '\'']))
}

/// The status of commands that always end the same way.
fn status_of(argv: &[String], shell: &Shell<'_>) -> Option<bool> {
    let name = argv.first()?;
    if shell.state.functions.contains_key(name) {
        return None;
    }
    match name.as_str() {
        "true" | ":" | "echo" | "printf" | "export" | "unset" | "declare" => Some(true),
        "false" => Some(false),
        "[" | "test" => match argv.get(1).map(String::as_str) {
            Some("1" | "true" | "0" | "false") if argv.len() <= 3 => Some(true),
            _ => None,
        },
        _ => None,
    }
}
