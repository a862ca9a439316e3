//! The walk over the syntax tree: lists, pipelines, loops and branches.
//!
//! Every command that could run is visited. A known status decides `&&`, `||` and `if` only if
//! it can't be otherwise. Loops over known words run once per word, all other loops once. Each visit is a step,
//! and steps, depth and time are limited.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use brush_parser::ast;

use super::carrier::Call;
use super::container::Mounts;
use super::data::{Data, Taint};
use super::dialect::Dialect;
use super::flow::{Block, Turn, joined};
use super::forever::Running;
use super::limits;
use super::listen::Listener;
use super::parse::{self, Parsed};
use super::redirect::Streams;
use super::respell;
use super::state::{Disk, Function, Shared};
use super::texts::Texts;
use super::trace::{Fact, Trace, UnknownKind};
use super::ways::Ways;
use super::word::{has_hole, sanitise};
use crate::analyzer::Labels;
use crate::place::Place;
use crate::programs::Programs;

/// Bounds of one analysis.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Commands looked at, repeats included.
    pub(crate) steps: usize,
    /// Steps that are kept for the statements behind those which used up all others.
    pub(crate) spare: usize,
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

/// Substitutions that are the path of what a process prints or reads.
const PROCESSES: [(char, ast::ProcessSubstitutionKind); 2] = [
    (respell::READS, ast::ProcessSubstitutionKind::Read),
    (respell::WRITES, ast::ProcessSubstitutionKind::Write),
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
    let mut texts = Texts::default();
    let mut read = |dialect| read_as(dialect, &command, input, place, known, limits, &mut texts);
    let (mut trace, others) = read(Dialect::Bash);
    // Shells that would read something in it differently read it as well.
    for dialect in others {
        trace.absorb(read(dialect).0);
    }
    trace
}

/// Returns what one shell would do; and the shells that might do something else.
fn read_as(
    dialect: Dialect,
    command: &str,
    input: &Data,
    place: &Place,
    known: Knowledge<'_>,
    limits: Limits,
    texts: &mut Texts,
) -> (Trace, Vec<Dialect>) {
    let mut files = HashMap::new();
    let mut second = false;
    loop {
        let mut shell = Shell::new(place, known, limits);
        shell.dialect = dialect;
        shell.texts = std::mem::take(texts);
        shell.state.disk = Disk::with(files);
        if super::obscure::is_obfuscated(command) {
            shell.trace.facts.push(Fact::Obfuscated);
        }
        shell.run_text(command, input);
        shell.say_farewell();
        shell.end_listeners();
        *texts = std::mem::take(&mut shell.texts);
        // What is written to a named pipe late is read from it early: once its content is known, the
        // command is walked again with it.
        let written: Vec<_> = shell
            .fifos
            .iter()
            .filter_map(|path| shell.state.disk.file(path).map(|data| (path, data)))
            .collect();
        if second || written.is_empty() {
            if known.programs.is_broken() {
                let reason = "the catalogue of programs can't be read";
                shell.trace.unknown(UnknownKind::Limit, reason, true);
            }
            shell.trace.programs = Arc::clone(known.programs);
            return (shell.trace, shell.differing);
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
            partly: None,
            calls: Vec::new(),
            forks: 0,
            jobs: Vec::new(),
            pending: 0,
            depth: 0,
            open_ended: false,
            environment: Vec::new(),
            sinks: Vec::new(),
            listeners: HashMap::new(),
            answered: Data::empty(),
            stdin: Data::session_input(),
            pipes: 0,
            inherited: Data::session_input(),
            wired: false,
            bare: false,
            captures: false,
            readable: super::project::MAX_FILES,
            fifos: Vec::new(),
            dialect: Dialect::Bash,
            differing: Vec::new(),
            ways: Ways::default(),
            moved: false,
            starting: Vec::new(),
            texts: Texts::default(),
            blocks: Vec::new(),
            status: None,
            streams: 0,
            running: Vec::new(),
            rests: 0,
            material: 0,
            inputs: 0,
            mounts: None,
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
    /// What reads the code that is being walked, and where that comes from, if some part of its text is not known.
    pub(crate) partly: Option<(String, Taint)>,
    /// Functions being called.
    pub(crate) calls: Vec<Call>,
    pub(crate) forks: usize,
    /// The processes of background jobs.
    pub(crate) jobs: Vec<Range<usize>>,
    /// Background jobs that nobody waited for.
    pub(crate) pending: usize,
    pub(crate) depth: usize,
    pub(crate) open_ended: bool,
    /// Assignments in front of the current command.
    pub(crate) environment: Vec<(String, String)>,
    /// The pipes of `>(...)` in the current command.
    pub(crate) sinks: Vec<String>,
    /// What reads what is written to a path.
    pub(crate) listeners: HashMap<String, Listener>,
    /// What those printed that were heard of last.
    pub(crate) answered: Data,
    /// Standard input of the current command.
    pub(crate) stdin: Data,
    pub(crate) pipes: usize,
    /// How many files of the workspace may still be looked into.
    pub(crate) readable: usize,
    /// Named pipes this command made.
    pub(crate) fifos: Vec<String>,
    /// The shell whose language this is.
    pub(crate) dialect: Dialect,
    /// Shells that would have read something differently.
    pub(crate) differing: Vec<Dialect>,
    /// What was decided in the current command that can't be known.
    pub(crate) ways: Ways,
    /// Startup files that shells are reading.
    pub(crate) starting: Vec<String>,
    /// `exec` may have moved what this shell prints.
    pub(crate) moved: bool,
    /// What was parsed before.
    pub(crate) texts: Texts,
    /// The loops and functions around the current command.
    pub(crate) blocks: Vec<Block>,
    /// The status of the builtin that was just run, where it is known.
    pub(crate) status: Option<bool>,
    /// How many files were opened.
    pub(crate) streams: usize,
    /// The texts that are being read, one inside the other.
    pub(crate) running: Vec<Running>,
    /// The current redirections belong to no command.
    pub(crate) bare: bool,
    /// What is printed may go elsewhere than to whoever started the command.
    pub(crate) captures: bool,
    /// How many commands were seen at which a loop waits, or which may leave it or take long.
    pub(crate) rests: usize,
    /// Bytes that long expansions came to.
    pub(crate) material: usize,
    /// Bytes that are kept of what programs read.
    pub(crate) inputs: usize,
    /// The container the current command runs in.
    pub(crate) mounts: Option<Rc<Mounts>>,
    /// Standard input of the code that is about to be run.
    pub(crate) inherited: Data,
    /// The current command is connected to the network by redirections.
    pub(crate) wired: bool,
    pub(crate) limits: Limits,
}

impl Shell<'_> {
    /// Returns whether there are steps left for another statement. Where those before it used up all, the statements of the
    /// outermost program get a few more, one after another.
    pub(crate) fn has_steps(&mut self) -> bool {
        if self.limits.steps > 0 {
            return true;
        }
        self.note_limit();
        if self.depth == 1 && self.blocks.is_empty() {
            self.limits.steps = self.limits.spare.min(limits::STEPS_AT_A_TIME);
            self.limits.spare -= self.limits.steps;
        }
        self.limits.steps > 0
    }

    /// Counts one step; false when the limits are used up.
    pub(crate) fn step(&mut self) -> bool {
        let late = self.limits.steps.is_multiple_of(16)
            && self.limits.deadline.is_some_and(|end| Instant::now() >= end);
        if self.limits.steps == 0 || late {
            self.limits.steps = 0;
            if late {
                self.limits.spare = 0;
            }
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
        if !self.begin_text(text) {
            self.end_text();
            return Data::unknown(Taint::PROGRAM);
        }
        self.depth += 1;
        self.captures = self.captures || may_capture(text);
        let output = match self.run_long(text, stdin) {
            Some(output) => output,
            None => self.run_whole(text, stdin),
        };
        self.depth -= 1;
        self.end_text();
        // Not all shells end with a text that they were told to read.
        self.go_on();
        output
    }

    /// Runs text that is parsed in one piece.
    fn run_whole(&mut self, text: &str, stdin: &Data) -> Data {
        match &*self.texts.program(text) {
            Ok(parsed) => {
                if !parsed.complete {
                    // A shell runs the lines before an error, and may know syntax that the parser does not.
                    // The pieces are judged below; what was cut wrongly must not hide in them.
                    let carrier = parse::names_a_carrier(text, self.programs);
                    self.trace.unknown(
                        UnknownKind::Unparsed,
                        "the command is not valid shell syntax",
                        carrier,
                    );
                }
                self.run_parsed(parsed, stdin)
            }
            Err(refusal) => self.run_refused(text, *refusal, stdin),
        }
    }

    pub(crate) fn run_parsed(&mut self, parsed: &Parsed, stdin: &Data) -> Data {
        self.trace.note(parsed.over);
        // What the outermost program prints is nobody's input.
        let unheard = self.depth == 1;
        let mut output = Data::empty();
        let mut print = |data: &Data| {
            if !unheard {
                output.then(data);
            }
        };
        for program in &parsed.programs {
            for list in &program.complete_commands {
                // Who types them line by line is asked for the next one.
                self.go_on();
                print(&self.run_list(list, stdin).0);
            }
        }
        for piece in &parsed.leftovers {
            let (words, over) = parse::rough_words(piece);
            self.trace.note(over);
            if let Some(plain) = parse::without_redirections(&words) {
                print(&self.dispatch(&plain, stdin));
            }
            print(&self.dispatch(&words, stdin));
        }
        output
    }

    /// Runs text in a subshell and returns what it prints.
    pub(crate) fn substitute(&mut self, text: &str) -> Data {
        for (mark, kind) in PROCESSES {
            if let Some(subshell) = text.strip_prefix(mark).and_then(parse::subshell) {
                return Data::text(self.process_substitution(&kind, &subshell));
            }
        }
        if let Some(code) = text.strip_prefix([respell::HERE, respell::REPLIES]) {
            return self.substitute_here(code, text.starts_with(respell::REPLIES));
        }
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

    /// Runs text in this shell and returns what it prints, or what it leaves in `REPLY`.
    fn substitute_here(&mut self, text: &str, replies: bool) -> Data {
        self.remember_start();
        let taint = std::mem::take(&mut self.word_taint);
        let environment = std::mem::take(&mut self.environment);
        let printed = self.in_function(|shell| shell.run_text(text, &Data::session_input()));
        self.word_taint = taint;
        self.environment = environment;
        if !replies {
            return printed;
        }
        self.settle("REPLY");
        let taint = self.state.taint("REPLY");
        match self.state.assigned("REPLY") {
            Some(value) => Data::text(value.scalar()).tainted(taint),
            None => Data::unknown(taint),
        }
    }

    /// Runs `work` on a copy of the state.
    pub(crate) fn in_subshell<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.state.clone();
        let pending = std::mem::take(&mut self.pending);
        let blocks = std::mem::take(&mut self.blocks);
        if !self.state.farewells.is_empty() {
            self.state.farewells.clear();
        }
        if self.state.prompted {
            self.state.prompted = false;
        }
        let result = work(self);
        self.say_farewell();
        self.blocks = blocks;
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
            if self.state.ended || !self.has_steps() || !self.step() {
                break;
            }
            if matches!(separator, ast::SeparatorOperator::Async) {
                self.forks += 1;
                let started = self.trace.processes.len();
                let (data, _) = self.in_subshell(|shell| shell.run_and_or(and_or, stdin));
                self.forks -= 1;
                self.pending += 1;
                self.jobs.push(started..self.trace.processes.len());
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

    /// Runs a list of `&&` and `||`: a command runs in what those before it leave that ended as it asks for.
    fn run_and_or(&mut self, list: &ast::AndOrList, stdin: &Data) -> (Data, Option<bool>) {
        let (mut output, mut status) = self.run_pipeline(&list.first, stdin);
        // The state in which another outcome than the one at hand leaves the shell.
        let mut aside: [Option<Shared>; 2] = [None, None];
        for next in &list.additional {
            let (pipeline, runs_after) = match next {
                ast::AndOr::And(pipeline) => (pipeline, true),
                ast::AndOr::Or(pipeline) => (pipeline, false),
            };
            let [failed, succeeded] = &mut aside;
            let (same, other) = if runs_after { (succeeded, failed) } else { (failed, succeeded) };
            // What is not known may end what would be skipped: `true || a; b`.
            match status.filter(|_| self.partly.is_none()) {
                Some(known) if known == runs_after => {}
                Some(_) => {
                    joined(other, self.state.clone());
                    let Some(state) = same.take() else { continue };
                    self.state = state;
                }
                None => joined(other, self.state.clone()),
            }
            if let Some(state) = same.take() {
                self.state.join(state);
            }
            let skipped = other.is_some();
            let (mut data, known) = self.run_pipeline(pipeline, stdin);
            if skipped && !data.is_empty() {
                data.or(&Data::empty());
            }
            output.then(&data);
            status = known;
        }
        for (state, outcome) in aside.into_iter().zip([false, true]) {
            if let Some(state) = state {
                self.state.join(state);
                status = status.filter(|known| *known == outcome);
            }
        }
        (output, status)
    }

    fn run_pipeline(&mut self, pipeline: &ast::Pipeline, stdin: &Data) -> (Data, Option<bool>) {
        let (output, status) = match pipeline.seq.as_slice() {
            [] => (Data::empty(), Some(true)),
            [only] => self.run_command(only, stdin),
            [first @ .., last] => {
                let before = self.streams;
                let mut data = stdin.clone();
                self.forks += 1;
                let mut succeeds = true;
                for command in first {
                    let (output, status) = self.in_subshell(|shell| shell.run_command(command, &data));
                    succeeds &= status == Some(true);
                    data = self.opened(output);
                }
                let (output, status) = self.run_last(last, &data);
                self.forks -= 1;
                self.close_after(before);
                // By the option `pipefail`, which may be set outside, a pipe fails with any of its commands.
                (output, status.filter(|ok| !ok || succeeds))
            }
        };
        (output, if pipeline.bang { status.map(|ok| !ok) } else { status })
    }

    /// Runs the last command of a pipe: some shells do that themselves, so that what it reads stays.
    fn run_last(&mut self, command: &ast::Command, stdin: &Data) -> (Data, Option<bool>) {
        if self.dialect == Dialect::Zsh || self.state.last_pipe {
            return self.run_command(command, stdin);
        }
        let outer = self.state.clone();
        let (result, stays) = self.in_subshell(|shell| {
            let result = shell.run_command(command, stdin);
            (result, !shell.state.looks_like(&outer))
        });
        if stays {
            self.differs(Dialect::Zsh);
        }
        result
    }

    /// Runs a command each way it can go.
    fn run_command(&mut self, command: &ast::Command, stdin: &Data) -> (Data, Option<bool>) {
        if self.state.ended {
            return (Data::empty(), None);
        }
        if !self.step() {
            return (Data::unknown(Taint::NONE), None);
        }
        let before = self.streams;
        let result = self.each_way(|shell| shell.run_once(command, stdin));
        self.close_after(before);
        result
    }

    fn run_once(&mut self, command: &ast::Command, stdin: &Data) -> (Data, Option<bool>) {
        match command {
            ast::Command::Simple(simple) => {
                self.settle_place();
                self.run_simple(simple, stdin)
            }
            ast::Command::Compound(compound, redirects) => {
                if redirects.is_some() {
                    self.settle_place();
                }
                let outer = std::mem::take(&mut self.sinks);
                let streams = self.streams(redirects.iter().flat_map(|list| &list.0), stdin);
                let wired = self.wired;
                self.wired |= streams.is_wired();
                let (output, status) = self.run_compound(compound, &streams.stdin);
                self.wired = wired;
                let mut output = self.deliver(streams, output, None);
                self.drain_sinks(&output);
                self.sinks = outer;
                output.then(&self.answers());
                (output, status)
            }
            ast::Command::Function(definition) => {
                let name = definition.fname.value.clone();
                let definition = Rc::new(definition.clone());
                self.state.functions.insert(name.clone(), Function::new(Rc::clone(&definition)));
                self.call_hook(&name, &definition);
                self.look_into(&definition);
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
                if has_hole(text) {
                    self.note_partly();
                }
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
            C::Coprocess(coproc) => {
                self.coprocess(coproc);
                (Data::empty(), Some(true))
            }
            C::ForClause(clause) => (self.run_for(clause, stdin), None),
            C::ArithmeticForClause(clause) => (self.run_counted(clause, stdin), None),
            C::WhileClause(ast::WhileOrUntilClauseCommand(condition, body, _)) => {
                (self.run_loop(Turn::While(condition, true), &body.list, stdin), None)
            }
            C::UntilClause(ast::WhileOrUntilClauseCommand(condition, body, _)) => {
                (self.run_loop(Turn::While(condition, false), &body.list, stdin), None)
            }
            C::IfClause(clause) => (self.run_if(clause, stdin), None),
            C::CaseClause(clause) => (self.run_case(clause, stdin), None),
        }
    }
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

    /// True when the input comes from a network connection, or the output goes to one.
    pub(crate) fn is_wired(&self) -> bool {
        self.to_network || self.from_network
    }
}

/// Returns whether something that a text starts may print to another program than whoever started it.
fn may_capture(text: &str) -> bool {
    text.bytes().any(|byte| matches!(byte, b'|' | b'>' | b'`'))
        || ["$(", "<(", "coproc", "fish"].iter().any(|word| text.contains(word))
}
