//! Simple commands: words, assignments and redirections combined.
//!
//! Words are expanded in the order in which they are written. Assignments in front of a command apply to
//! that command only; without a command they change the shell.

use brush_parser::ast;

use super::data::{Data, Taint};
use super::dialect::Dialect;
use super::limits::{self, Over};
use super::redirect::Streams;
use super::state::{Casing, Value};
use super::trace::program_name;
use super::walk::Shell;
use super::word::{GAP, HOLE, unglob};

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
                ast::CommandPrefixOrSuffixItem::IoRedirect(redirect) => {
                    argv.extend(self.as_word(redirect));
                    redirects.push(redirect);
                }
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
        if !self.state.watched.is_empty() {
            self.act_on_assignments();
        }
        let (output, status) = if self.state.ended {
            (Data::empty(), None)
        } else if argv.is_empty() {
            // One shell prints what is redirected into nothing.
            let shown = streams.feeds && self.differs(Dialect::Zsh);
            (if shown { streams.stdin.clone() } else { Data::empty() }, Some(true))
        } else {
            self.start_with(&argv, environment, &streams)
        };
        if argv == ["exec"] {
            self.keep_streams(&streams);
            // What follows has the connection as its own input or output.
            self.wired |= streams.is_wired();
        }
        let program = argv.first().map(|word| program_name(word));
        let mut output = self.deliver(streams, output, program.as_deref());
        self.drain_sinks(&output);
        self.sinks = outer_sinks;
        output.then(&self.answers());
        (output, status)
    }

    /// Runs a command with its variables and its streams; the answer is what it prints, and whether it succeeds.
    fn start_with(
        &mut self,
        argv: &[String],
        environment: Vec<(String, String)>,
        streams: &Streams,
    ) -> (Data, Option<bool>) {
        let outer = std::mem::replace(&mut self.environment, environment);
        self.expand_prompts();
        let status = status_of(argv, self);
        self.status = None;
        let wired = self.wired;
        self.wired |= streams.is_wired();
        let output = self.dispatch_with_assignments(argv, &streams.stdin);
        self.wired = wired;
        self.environment = outer;
        if !self.state.watched.is_empty() {
            self.act_on_assignments();
        }
        (output, status.or(self.status.take()))
    }

    /// Runs a command; a function or builtin sees the assignments in front of it as variables.
    fn dispatch_with_assignments(&mut self, argv: &[String], stdin: &Data) -> Data {
        const SPECIAL: [&str; 12] = [
            "eval", ".", "source", ":", "export", "readonly", "set", "shift", "trap", "unset", "exec",
            "return",
        ];
        let word = argv.first().map_or("", String::as_str);
        let special = SPECIAL.contains(&word);
        let sees = special
            || matches!(word, "read" | "mapfile" | "readarray" | "command" | "builtin")
            || self.state.functions.contains_key(word);
        if self.environment.is_empty() || !sees {
            return self.dispatch(argv, stdin);
        }
        self.state.enter();
        for (name, value) in self.environment.clone() {
            self.state.hide(&name);
            self.state.assign(&name, Value::Text(value));
        }
        let output = self.dispatch(argv, stdin);
        if special && self.differs(Dialect::Dash) {
            self.state.stay();
        } else {
            self.state.leave();
        }
        output
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
                    self.settle(&name);
                    let before =
                        self.state.assigned(&name).map(|value| value.scalar().to_owned()).unwrap_or_default();
                    Value::Text(before + &text)
                } else {
                    Value::Text(text)
                }
            }
            ast::AssignmentValue::Array(items) => Value::List(self.array(&name, assignment.append, items)),
        };
        match &assignment.name {
            ast::AssignmentName::VariableName(_) => (name, value),
            ast::AssignmentName::ArrayElementName(_, index) => {
                let list = self.with_element(&name, index, value.scalar());
                (name, list)
            }
        }
    }

    /// An array with one element assigned, by a number or by a word.
    fn with_element(&mut self, name: &str, index: &str, value: &str) -> Value {
        let words = self.state.is_keyed(name);
        let key = if words { self.single(index) } else { index.to_owned() };
        if words || is_key(index) {
            self.state.assign(&keyed(name, &key), Value::Text(value.to_owned()));
        }
        let at = if words { None } else { self.index(index) };
        let mut list = self.list(name);
        match at {
            Some(at) => put(&mut list, at, value.to_owned()),
            None => list.push(value.to_owned()),
        }
        Value::List(list)
    }

    /// Assigns what a builtin was given as a name: a variable, or an element of an array.
    pub(super) fn assign_named(&mut self, written: &str, value: Value) {
        let written = &*unglob(written);
        match element_of(written) {
            Some((name, index)) => {
                let list = self.with_element(name, index, value.scalar());
                self.state.mark(name, self.word_taint);
                self.assign(name, list);
            }
            None => self.assign(written, value),
        }
    }

    /// Returns the array that a text is read as which is declared to be one: `declare -a a='(b c)'`.
    fn compound(&mut self, name: &str, flags: &str, value: Value) -> Value {
        let Value::Text(text) = &value else { return value };
        let is_list = text.starts_with('(') && text.ends_with(')');
        let is_array =
            flags.contains(['a', 'A']) || matches!(self.state.assigned(name), Some(Value::List(_)));
        if !(is_list && is_array) {
            return value;
        }
        let program = self.texts.program(&format!("{name}={text}"));
        let Ok(parsed) = &*program else { return value };
        let item = parsed.programs.first().and_then(|program| program.complete_commands.first());
        let item = item.and_then(|list| list.0.first()).and_then(|item| item.0.first.seq.first());
        let Some(ast::Command::Simple(simple)) = item else { return value };
        match simple.prefix.as_ref().and_then(|prefix| prefix.0.first()) {
            Some(ast::CommandPrefixOrSuffixItem::AssignmentWord(assignment, _)) => {
                self.assigned_value(assignment).1
            }
            _ => value,
        }
    }

    /// Returns the elements of an array, as it stands.
    fn list(&mut self, name: &str) -> Vec<String> {
        self.settle(name);
        let bytes = match self.state.assigned(name) {
            Some(Value::List(list)) => list.iter().map(|item| item.len() + size_of::<String>()).sum(),
            _ => 0,
        };
        if !self.has_room(bytes) && bytes > limits::LONG_MATERIAL {
            self.trace.note(Over::of(&limits::MATERIAL));
            return vec![HOLE.to_string()];
        }
        match self.state.assigned(name) {
            Some(Value::List(list)) => list.clone(),
            Some(Value::Text(text)) => vec![text.clone()],
            _ => Vec::new(),
        }
    }

    /// Returns the place of an element, counted from 0.
    pub(super) fn index(&mut self, text: &str) -> Option<usize> {
        let index = self.arithmetic(text)?;
        let from = i64::from(index > 0 && self.differs(Dialect::Zsh));
        usize::try_from(index - from).ok().filter(|index| *index < MOST_ELEMENTS)
    }

    fn array(&mut self, name: &str, append: bool, items: &[(Option<ast::Word>, ast::Word)]) -> Vec<String> {
        let mut list = if append { self.list(name) } else { Vec::new() };
        for (key, word) in items {
            let fields = self.fields(&word.value);
            match key.as_ref().map(|key| key.value.as_str()) {
                Some(key) if self.state.is_keyed(name) || is_key(key) => {
                    let key = self.single(key);
                    self.state.assign(&keyed(name, &key), Value::Text(fields.join(" ")));
                    list.extend(fields);
                }
                Some(key) => match self.index(key) {
                    Some(index) => put(&mut list, index, fields.join(" ")),
                    None => list.extend(fields),
                },
                None => list.extend(fields),
            }
        }
        list
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
        let flags: String =
            argv.iter().filter(|flag| flag.starts_with('-')).flat_map(|f| f.chars()).collect();
        if flags.contains('A')
            && let ast::AssignmentName::VariableName(name) = &assignment.name
        {
            self.state.key_by_words(name);
        }
        let (name, value) = self.assigned_value(assignment);
        if flags.contains('n') && argv.first().is_some_and(|word| word != "export") {
            let target = value.scalar().to_owned();
            self.state.declare_reference(&name, &target);
            return;
        }
        let command = argv.first().cloned().unwrap_or_default();
        self.declare(&command, &flags, &name);
        let value = self.compound(&name, &flags, value);
        self.state.mark(&name, self.word_taint);
        self.assign(&name, value);
        if command == "readonly" || flags.contains('r') {
            self.state.freeze(&name);
        }
        argv.push(name);
    }

    /// Gives a variable the scope and kind that `command` declares.
    pub(super) fn declare(&mut self, command: &str, flags: &str, name: &str) {
        let local = match command {
            "local" => true,
            "declare" | "typeset" => !flags.contains('g'),
            "readonly" => self.state.is_inside() && self.differs(Dialect::Zsh),
            _ => false,
        };
        if local {
            self.state.hide(name);
        }
        if flags.contains('A') && command != "export" {
            self.state.key_by_words(name);
        }
        for (flag, casing) in [('l', Casing::Lower), ('u', Casing::Upper), ('i', Casing::Number)] {
            if flags.contains(flag) && command != "export" {
                self.state.declare_casing(name, casing);
            }
        }
    }

    /// Assigns a variable; what the shell does by itself with some of them is done.
    pub(super) fn assign(&mut self, name: &str, value: Value) {
        if self.state.is_number(name) {
            // The text is an expression, in which variables are looked up.
            self.evaluated(value.scalar());
        }
        self.state.assign(name, value);
        self.act_on_assignments();
    }
}

/// True for the key of an associative array: anything that is no number.
pub(super) fn is_key(key: &str) -> bool {
    !key.is_empty() && !key.contains(|c: char| c.is_ascii_digit() || "$`()+*/".contains(c))
}

/// Elements beyond this are kept without their place.
const MOST_ELEMENTS: usize = 256;

/// Puts an element in its place; the places before it that are empty are gaps.
fn put(list: &mut Vec<String>, index: usize, value: String) {
    if list.len() <= index {
        list.resize(index + 1, GAP.to_string());
    }
    if let Some(slot) = list.get_mut(index) {
        *slot = value;
    }
}

/// Returns the array and the subscript of a name that is an element.
pub(super) fn element_of(written: &str) -> Option<(&str, &str)> {
    let (name, index) = written.strip_suffix(']')?.split_once('[')?;
    (!name.is_empty()).then_some((name, index))
}

/// Returns the name under which an element of an associative array is kept.
pub(super) fn keyed(name: &str, key: &str) -> String {
    format!("{name}[{}]", key.trim_matches(['"', '\'']))
}

/// Returns the status of commands that always end the same way.
fn status_of(argv: &[String], shell: &Shell<'_>) -> Option<bool> {
    let name = argv.first()?;
    if shell.state.functions.contains_key(name) {
        return None;
    }
    match name.as_str() {
        "true" | ":" | "echo" | "printf" => Some(true),
        "export" | "unset" | "declare" if argv.iter().all(|name| !shell.state.is_frozen(name)) => Some(true),
        "false" => Some(false),
        "[" | "test" => match argv.get(1).map(String::as_str) {
            Some("1" | "true" | "0" | "false") if argv.len() <= 3 => Some(true),
            _ => None,
        },
        _ => None,
    }
}
