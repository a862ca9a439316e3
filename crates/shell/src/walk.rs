//! The walk over the syntax tree: lists, pipelines, loops and branches.
//!
//! Every command that could run is visited. A status that is known decides `&&`, `||` and `if` only where
//! it can't be otherwise; loops over known words run once for each, all others once. Each visit is a step,
//! and steps, depth and time are limited.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use brush_parser::ast;

use super::data::{Data, Taint};
use super::limits::{self, Bounded, Over};
use super::parse::{self, Parsed};
use super::pattern;
use super::prescan::Refusal;
use super::redirect::Streams;
use super::state::{Function, Shared, Value};
use super::trace::{Fact, Process, Trace, UnknownKind};
use super::word::{Argument, has_hole, sanitise};
use crate::analyzer::Labels;
use crate::effects::Touch;
use crate::place::Place;
use crate::programs::Programs;

/// Bounds of one analysis.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Commands looked at, repeats included.
    pub(crate) steps: usize,
    /// Code inside code inside code.
    pub(crate) depth: usize,
    /// When to stop in any case.
    pub(crate) deadline: Option<Instant>,
}

/// What whoever asks knows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Knowledge<'a> {
    pub(crate) labels: &'a dyn Labels,
    pub(crate) programs: &'a Arc<Programs>,
}

/// Variables that change what the programs started after their assignment load, run or skip.
const MEANINGFUL: &[&str] = &[
    "LD_PRELOAD",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "DYLD_INSERT_LIBRARIES",
    "GIT_SSH_COMMAND",
    "GIT_EXTERNAL_DIFF",
    "GIT_CONFIG_COUNT",
    "HUSKY",
    "HUSKY_SKIP_HOOKS",
    "SKIP",
    "LEFTHOOK",
    "PRE_COMMIT_ALLOW_NO_CONFIG",
    "OVERCOMMIT_DISABLE",
    "NODE_OPTIONS",
    "PYTHONSTARTUP",
    "PERL5OPT",
    "RUBYOPT",
];

/// Analyses a command as a shell at `place` would run it.
pub(crate) fn trace(command: &str, place: &Place, known: Knowledge<'_>, limits: Limits) -> Trace {
    trace_with(command, &Data::session_input(), place, known, limits)
}

/// Analyses a command as a shell at `place` would run it, with `input` as its standard input.
pub(crate) fn trace_fed(
    command: &str,
    input: &str,
    place: &Place,
    known: Knowledge<'_>,
    limits: Limits,
) -> Trace {
    let input = sanitise(input);
    let mut trace = trace_with(command, &Data::text(&input), place, known, limits);
    if super::obscure::is_obfuscated(&input) {
        trace.facts.push(Fact::Obfuscated);
    }
    trace
}

fn trace_with(command: &str, input: &Data, place: &Place, known: Knowledge<'_>, limits: Limits) -> Trace {
    let command = sanitise(command);
    let mut files = std::collections::HashMap::new();
    let mut second = false;
    loop {
        let mut shell = Shell::new(place, known, limits);
        shell.state.files = files;
        if super::obscure::is_obfuscated(&command) {
            shell.trace.facts.push(Fact::Obfuscated);
        }
        if known.programs.is_broken() {
            let reason = "the catalogue of programs can't be read";
            shell.trace.unknown(UnknownKind::Limit, reason, true);
        }
        shell.run_text(&command, input);
        // What is written to a named pipe late is read from it early: once its content is known, the
        // command is walked again with it.
        let written: Vec<_> =
            shell.fifos.iter().filter_map(|path| shell.state.files.get_key_value(path)).collect();
        if second || written.is_empty() {
            shell.trace.programs = Arc::clone(known.programs);
            return shell.trace;
        }
        files = written.into_iter().map(|(path, data)| (path.clone(), data.clone())).collect();
        second = true;
    }
}

impl<'p> Shell<'p> {
    fn new(place: &'p Place, known: Knowledge<'p>, limits: Limits) -> Self {
        Self {
            place,
            labels: known.labels,
            programs: known.programs,
            state: Shared::at(place),
            trace: Trace::default(),
            word_taint: Taint::NONE,
            via: Vec::new(),
            calls: Vec::new(),
            forks: 0,
            pending: 0,
            depth: 0,
            open_ended: false,
            environment: Vec::new(),
            sinks: Vec::new(),
            pipes: 0,
            inherited: Data::session_input(),
            wired: false,
            bare: false,
            captures: false,
            readable: super::project::MAX_FILES,
            fifos: Vec::new(),
            limits,
        }
    }
}

/// One interpreter of the shell language.
pub(crate) struct Shell<'p> {
    pub(crate) place: &'p Place,
    pub(crate) labels: &'p dyn Labels,
    pub(crate) programs: &'p Programs,
    pub(crate) state: Shared,
    pub(crate) trace: Trace,
    /// What flowed into the words of the current command.
    pub(crate) word_taint: Taint,
    pub(crate) via: Vec<String>,
    /// Functions being called, with the forks at the time of the call.
    pub(crate) calls: Vec<(String, usize)>,
    pub(crate) forks: usize,
    /// Background jobs that nobody waited for.
    pub(crate) pending: usize,
    pub(crate) depth: usize,
    pub(crate) open_ended: bool,
    /// Assignments in front of the current command.
    pub(crate) environment: Vec<(String, String)>,
    /// Commands that read what is written to a path (`>(...)`).
    pub(crate) sinks: Vec<(String, Rc<ast::SubshellCommand>)>,
    pub(crate) pipes: usize,
    /// How many files of the workspace may still be looked into.
    pub(crate) readable: usize,
    /// Named pipes this command made.
    pub(crate) fifos: Vec<String>,
    /// The current redirections belong to no command.
    pub(crate) bare: bool,
    /// What is printed may go elsewhere than to whoever started the command.
    pub(crate) captures: bool,
    /// Standard input of the code that is about to be run.
    pub(crate) inherited: Data,
    /// The current command is connected to the network by redirections.
    pub(crate) wired: bool,
    pub(crate) limits: Limits,
}

impl Shell<'_> {
    /// Counts one step; false when the limits are used up.
    pub(crate) fn step(&mut self) -> bool {
        let late = self.limits.steps.is_multiple_of(16)
            && self.limits.deadline.is_some_and(|end| Instant::now() >= end);
        if self.limits.steps == 0 || late {
            self.limits.steps = 0;
            self.note_limit();
            return false;
        }
        self.limits.steps -= 1;
        true
    }

    pub(crate) fn note_limit(&mut self) {
        self.trace.unknown(UnknownKind::Limit, "the command does too much to be followed", true);
    }

    pub(crate) fn note_unread(&mut self, reason: &str) {
        self.trace.unknown(UnknownKind::Unparsed, reason, false);
    }

    /// Runs text as shell code in the current shell.
    pub(crate) fn run_text(&mut self, text: &str, stdin: &Data) -> Data {
        if self.depth >= self.limits.depth {
            self.note_limit();
            return Data::unknown(Taint::NONE);
        }
        self.depth += 1;
        self.captures |= text.contains(['|', '>', '`'])
            || ["$(", "<(", "coproc", "fish"].iter().any(|word| text.contains(word));
        let output = match parse::parse(text) {
            Ok(parsed) => {
                if !parsed.complete {
                    // A shell runs the lines before an error, and may know syntax that the parser does not.
                    // The pieces are judged below; what was cut wrongly must not hide in them.
                    let carrier = names_a_carrier(text);
                    self.trace.unknown(
                        UnknownKind::Unparsed,
                        "the command is not valid shell syntax",
                        carrier,
                    );
                }
                self.run_parsed(&parsed, stdin)
            }
            Err(refusal) => {
                let reason = match refusal {
                    Refusal::TooLong => "the command is too long to be analysed",
                    Refusal::TooDeep => "the command is nested too deeply to be analysed",
                };
                self.trace.unknown(UnknownKind::Limit, reason, true);
                self.run_parsed(&parse::recover(text), stdin)
            }
        };
        self.depth -= 1;
        output
    }

    fn run_parsed(&mut self, parsed: &Parsed, stdin: &Data) -> Data {
        self.trace.note(parsed.over);
        let mut output = Data::empty();
        for program in &parsed.programs {
            for list in &program.complete_commands {
                output.then(&self.run_list(list, stdin).0);
            }
        }
        for piece in &parsed.leftovers {
            let words = parse::rough_words(piece);
            output.then(&self.dispatch(&words, stdin));
        }
        output
    }

    /// Runs text in a subshell and returns what it prints.
    pub(crate) fn substitute(&mut self, text: &str) -> Data {
        let taint = std::mem::take(&mut self.word_taint);
        let environment = std::mem::take(&mut self.environment);
        // `$(<file)` reads the file.
        let output = self.in_subshell(|shell| match text.trim().strip_prefix('<') {
            Some(path) if !path.starts_with(['<', '(']) && !path.contains([';', '|', '\n']) => {
                let path = shell.single(path.trim());
                shell.touch_read(&path);
                shell.content_of(&path)
            }
            _ => shell.run_text(text, &Data::session_input()),
        });
        self.word_taint = taint;
        self.environment = environment;
        output
    }

    /// Runs `work` on a copy of the state.
    pub(crate) fn in_subshell<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.state.clone();
        let pending = std::mem::take(&mut self.pending);
        let result = work(self);
        // What a subshell wrote stays written; its orphans are nobody's to wait for.
        let inner = std::mem::replace(&mut self.state, outer);
        self.state.keep_files_of(&inner);
        self.pending += pending;
        result
    }

    /// Runs a list; the second part is its status where that is known.
    pub(crate) fn run_list(&mut self, list: &ast::CompoundList, stdin: &Data) -> (Data, Option<bool>) {
        let mut output = Data::empty();
        let mut status = None;
        for ast::CompoundListItem(and_or, separator) in &list.0 {
            if !self.step() {
                break;
            }
            if matches!(separator, ast::SeparatorOperator::Async) {
                self.forks += 1;
                let (data, _) = self.in_subshell(|shell| shell.run_and_or(and_or, stdin));
                self.forks -= 1;
                self.pending += 1;
                output.then(&data);
                status = Some(true);
            } else {
                let (data, known) = self.run_and_or(and_or, stdin);
                output.then(&data);
                status = known;
            }
        }
        (output, status)
    }

    fn run_and_or(&mut self, list: &ast::AndOrList, stdin: &Data) -> (Data, Option<bool>) {
        let (mut output, mut status) = self.run_pipeline(&list.first, stdin);
        for next in &list.additional {
            let (pipeline, runs_after) = match next {
                ast::AndOr::And(pipeline) => (pipeline, true),
                ast::AndOr::Or(pipeline) => (pipeline, false),
            };
            if status == Some(!runs_after) {
                continue;
            }
            let (data, known) = self.run_pipeline(pipeline, stdin);
            output.then(&data);
            status = if status.is_none() { None } else { known };
        }
        (output, status)
    }

    fn run_pipeline(&mut self, pipeline: &ast::Pipeline, stdin: &Data) -> (Data, Option<bool>) {
        let (output, status) = match pipeline.seq.as_slice() {
            [] => (Data::empty(), Some(true)),
            [only] => self.run_command(only, stdin),
            many => {
                let mut data = stdin.clone();
                self.forks += 1;
                for command in many {
                    data = self.in_subshell(|shell| shell.run_command(command, &data)).0;
                }
                self.forks -= 1;
                (data, None)
            }
        };
        (output, if pipeline.bang { status.map(|ok| !ok) } else { status })
    }

    fn run_command(&mut self, command: &ast::Command, stdin: &Data) -> (Data, Option<bool>) {
        if !self.step() {
            return (Data::unknown(Taint::NONE), None);
        }
        match command {
            ast::Command::Simple(simple) => self.run_simple(simple, stdin),
            ast::Command::Compound(compound, redirects) => {
                let streams = self.streams(redirects.iter().flat_map(|list| &list.0), stdin);
                let (output, status) = self.run_compound(compound, &streams.stdin);
                (self.deliver(streams, output, None), status)
            }
            ast::Command::Function(definition) => {
                let name = definition.fname.value.clone();
                self.state.functions.insert(name, Function { definition: Rc::new(definition.clone()) });
                (Data::empty(), Some(true))
            }
            ast::Command::ExtendedTest(test, redirects) => {
                let streams = self.streams(redirects.iter().flat_map(|list| &list.0), stdin);
                self.run_test(&test.expr);
                (self.deliver(streams, Data::empty(), None), None)
            }
        }
    }

    /// Runs the body of a function.
    pub(crate) fn run_body(&mut self, body: &ast::Command, stdin: &Data) -> Data {
        self.run_command(body, stdin).0
    }

    fn run_compound(&mut self, compound: &ast::CompoundCommand, stdin: &Data) -> (Data, Option<bool>) {
        use ast::CompoundCommand as C;
        match compound {
            C::Arithmetic(command) => {
                // The parser ends an expression at the last `))` of the text, a shell at the first.
                let text = &command.expr.value;
                let (expr, more) = text.split_once("))").unwrap_or((text, ""));
                let value = self.arithmetic(expr);
                if !more.is_empty() {
                    return (self.run_text(&format!("{more}))"), stdin), None);
                }
                (Data::empty(), value.map(|value| value != 0))
            }
            C::BraceGroup(group) => self.run_list(&group.list, stdin),
            C::Subshell(subshell) => {
                let pending = self.pending;
                let result = self.in_subshell(|shell| {
                    let result = shell.run_list(&subshell.list, stdin);
                    let orphans = shell.pending;
                    (result, orphans)
                });
                // A job started inside a subshell outlives it.
                self.pending = pending + usize::from(result.1 > 0) * 1000;
                result.0
            }
            C::ForClause(clause) => (self.run_for(clause, stdin), None),
            C::ArithmeticForClause(clause) => {
                if let Some(initializer) = &clause.initializer {
                    self.arithmetic(&initializer.value);
                }
                let endless = clause
                    .condition
                    .as_ref()
                    .is_none_or(|c| c.value.trim().is_empty() || c.value.trim() == "1");
                (self.run_loop(None, &clause.body.list, stdin, endless), None)
            }
            C::WhileClause(ast::WhileOrUntilClauseCommand(condition, body, _)) => {
                (self.run_loop(Some((condition, true)), &body.list, stdin, false), None)
            }
            C::UntilClause(ast::WhileOrUntilClauseCommand(condition, body, _)) => {
                (self.run_loop(Some((condition, false)), &body.list, stdin, false), None)
            }
            C::IfClause(clause) => (self.run_if(clause, stdin), None),
            C::CaseClause(clause) => (self.run_case(clause, stdin), None),
            C::Coprocess(coproc) => {
                self.forks += 1;
                let (output, _) = self.in_subshell(|shell| shell.run_command(&coproc.body, stdin));
                self.forks -= 1;
                self.state.descriptors.insert("coproc".into(), output);
                (Data::empty(), Some(true))
            }
        }
    }

    fn run_for(&mut self, clause: &ast::ForClauseCommand, stdin: &Data) -> Data {
        let mut values: Vec<String> = Vec::new();
        match &clause.values {
            Some(words) => {
                for word in words {
                    values.extend(self.fields(&word.value));
                }
            }
            None => values.extend(self.state.positional.iter().cloned()),
        }
        let mut output = Data::empty();
        let taint = self.word_taint;
        let (values, over) = Bounded::of(&limits::ROUNDS, values).into_parts();
        for value in values {
            self.state.assign(&clause.variable_name, Value::Text(value));
            self.state.mark(&clause.variable_name, taint);
            output.then(&self.run_list(&clause.body.list, stdin).0);
        }
        if over != Over::NOTHING {
            self.trace.note(over);
            self.state.assign(&clause.variable_name, Value::Text(super::word::HOLE.into()));
            output.then(&self.run_list(&clause.body.list, stdin).0);
        }
        output
    }

    /// Walks a loop body once; `condition` carries the status for which the loop goes on.
    fn run_loop(
        &mut self,
        condition: Option<(&ast::CompoundList, bool)>,
        body: &ast::CompoundList,
        stdin: &Data,
        endless: bool,
    ) -> Data {
        let mut endless = endless;
        if let Some((condition, goes_on)) = condition {
            let (_, status) = self.run_list(condition, stdin);
            endless |= status == Some(goes_on);
        }
        let before = self.state.clone();
        let pending = std::mem::take(&mut self.pending);
        let (output, _) = self.run_list(body, stdin);
        if endless && self.pending > 0 {
            self.trace.facts.push(Fact::ForkBomb);
        }
        self.pending += pending;
        self.state.join(before);
        // How often the body ran, and so what it printed, is not known; where it came from is.
        if output.is_empty() { output } else { Data::unknown(output.taint) }
    }

    fn run_if(&mut self, clause: &ast::IfClauseCommand, stdin: &Data) -> Data {
        let (mut output, _) = self.run_list(&clause.condition, stdin);
        let before = self.state.clone();
        output.then(&self.run_list(&clause.then, stdin).0);
        let mut joined = std::mem::replace(&mut self.state, before);
        for clause in clause.elses.iter().flatten() {
            if let Some(condition) = &clause.condition {
                self.run_list(condition, stdin);
            }
            let before = self.state.clone();
            output.then(&self.run_list(&clause.body, stdin).0);
            joined.join(std::mem::replace(&mut self.state, before));
        }
        joined.join(self.state.clone());
        self.state = joined;
        output
    }

    fn run_case(&mut self, clause: &ast::CaseClauseCommand, stdin: &Data) -> Data {
        let value = self.single(&clause.value.value);
        let known = !has_hole(&value);
        let mut output = Data::empty();
        let mut falls_through = false;
        for case in &clause.cases {
            let hit = falls_through
                || !known
                || case.patterns.iter().any(|word| {
                    let pattern = self.inner_pattern(&word.value);
                    pattern::matches(&pattern, &value)
                });
            if !hit {
                continue;
            }
            let before = self.state.clone();
            if let Some(list) = &case.cmd {
                output.then(&self.run_list(list, stdin).0);
            }
            if !known {
                self.state.join(before);
            }
            match case.post_action {
                ast::CaseItemPostAction::ExitCase if known => break,
                ast::CaseItemPostAction::UnconditionallyExecuteNextCaseItem => falls_through = true,
                _ => falls_through = false,
            }
        }
        output
    }

    fn run_test(&mut self, expr: &ast::ExtendedTestExpr) {
        use ast::ExtendedTestExpr as T;
        match expr {
            T::And(left, right) | T::Or(left, right) => {
                self.run_test(left);
                self.run_test(right);
            }
            T::Not(inner) | T::Parenthesized(inner) => self.run_test(inner),
            T::UnaryTest(_, word) => {
                self.single(&word.value);
            }
            T::BinaryTest(_, left, right) => {
                self.single(&left.value);
                self.single(&right.value);
            }
        }
    }

    /// The variables of a new process that are known to matter: those in front of it, and those that
    /// change what a program loads or skips when they were assigned before.
    fn process_environment(&self) -> Vec<(String, String)> {
        let mut environment = self.environment.clone();
        if self.state.has_assignments() {
            for name in MEANINGFUL {
                if let Some(value) = self.state.assigned(name)
                    && !environment.iter().any(|(known, _)| known == name)
                {
                    environment.push(((*name).to_owned(), value.scalar().to_owned()));
                }
            }
        }
        environment
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
        };
        self.trace.processes.push(process);
        self.trace.facts.push(Fact::Starts { process: at });
        at
    }

    /// Reports that the last process touches a file.
    pub(crate) fn touch(&mut self, touch: Touch) {
        let process = self.trace.processes.len().checked_sub(1);
        self.touch_by(process, touch);
    }

    pub(crate) fn touch_by(&mut self, process: Option<usize>, mut touch: Touch) {
        touch.resolve(self.state.cwd.as_deref(), self.place);
        if let Some(target) = self.state.followed(&touch.resolved) {
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

/// True when unread text mentions a program that could carry or do harm.
fn names_a_carrier(text: &str) -> bool {
    const NAMES: [&str; 22] = [
        "sh", "bash", "zsh", "dash", "eval", "exec", "source", "rm", "dd", "curl", "wget", "nc", "ncat",
        "python", "python3", "perl", "ruby", "node", "base64", "sudo", "xargs", "chmod",
    ];
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-' && c != '.')
        .any(|word| NAMES.contains(&word) || word.starts_with("mkfs"))
}

/// Arguments as slices, for option parsing.
pub(crate) fn slices(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

impl Streams {
    /// True when nothing is redirected.
    pub(crate) fn is_plain(&self) -> bool {
        self.outputs.is_empty() && !self.to_network
    }
}
