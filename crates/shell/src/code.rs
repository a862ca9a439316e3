//! Code in other languages, given on the command line.
//!
//! No language is parsed in full. A reader that knows strings, comments, calls, concatenation and plain assignments
//! finds the calls that matter: those that start processes, delete, read or write files, decode text, evaluate code,
//! or talk to the network. The list of these calls is data, per language (`language`).
//!
//! The law: *only what is known to be harmless is assumed to be harmless*. Text that looks like a command counts as one
//! unless everything around it is known to only print text; then it counts where it is printed to. Code
//! in a language that is not read may do anything, unless it only prints and counts.

mod awk;
mod bounded;
mod calls;
mod language;
mod powershell;
mod reader;
mod signs;
mod tokens;
mod values;
mod written;

use std::sync::Arc;

use super::data::{Data, Taint};
use super::trace::{Fact, UnknownKind};
use super::walk::{Shell, slices};
use super::word::{HOLE, STAR, has_hole, unglob};
use crate::effects::{Action, Touch};
use crate::programs::{Code, Does, Programs};
use calls::Call;
pub(crate) use language::{Language, Languages};
use reader::Found;

/// Deepest code inside code.
const MAX_DEPTH: usize = 24;

/// Programs that a string in code must start with to be read as a command of its own.
const COMMANDS: &[&str] = &[
    "rm", "sudo", "mkfs", "dd", "shred", "wipefs", "chmod", "chown", "git", "find", "curl", "wget", "bash",
    "sh", "mv", "nc", "ncat", "shutdown", "reboot",
];

/// True for programs that could do harm, shells, and whatever runs code.
pub(super) fn is_command(programs: &Programs, program: &str) -> bool {
    COMMANDS.contains(&program)
        || programs.does(program, Does::SpeaksShell)
        || programs.is_interpreter(program)
}

/// What an interpreter is given on its command line.
struct Given<'a> {
    /// The code, all pieces of it.
    code: Vec<&'a str>,
    script: Option<&'a str>,
    /// Nothing else is given, so that the code runs once and prints no more than it says.
    plainly: bool,
}

impl<'a> Given<'a> {
    fn of(args: &[&'a str], takes: &Code) -> Self {
        let mut given = Self { code: Vec::new(), script: None, plainly: true };
        let mut at = 0;
        while let Some(arg) = args.get(at) {
            at += 1;
            if *arg == "--" {
                break;
            }
            let next = args.get(at).copied().unwrap_or_default();
            let attached = || {
                takes.options.iter().find_map(|flag| {
                    let rest = arg.strip_prefix(flag.as_str())?;
                    match flag.starts_with("--") {
                        true => rest.strip_prefix('='),
                        false => (flag.len() == 2).then_some(rest),
                    }
                })
            };
            if takes.options.iter().any(|option| option == arg) {
                given.plainly &= given.code.is_empty() && *arg != "-p" && *arg != "--print";
                given.code.push(next);
            } else if clustered(arg, takes) {
                given.plainly = false;
                given.code.push(next);
            } else if let Some(code) = attached() {
                given.plainly = false;
                given.code.push(code);
            } else if !arg.starts_with('-') && given.code.last() != Some(arg) {
                given.script = Some(arg);
                break;
            } else if arg.starts_with('-') && *arg != "-" {
                given.plainly = false;
            }
        }
        given
    }
}

/// For what code is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// For what it does.
    Alone,
    /// Also for what it prints, which the caller passes on.
    Told,
    /// It is a test: what it hands to the code of the project is what that is tried with.
    Test,
}

impl Shell<'_> {
    /// Reads the code a program was given in its arguments or input. The answer is what it prints, where that is known.
    pub(crate) fn inline_code(
        &mut self,
        program: &str,
        args: &[String],
        stdin: &Data,
        process: usize,
    ) -> Option<Data> {
        let refs = slices(args);
        self.collected(program, &refs, process);
        match program {
            "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => self.awk(&refs, stdin, process),
            "sed" | "gsed" => self.sed_commands(&refs, stdin, process),
            "powershell" | "pwsh" => self.powershell(&refs, stdin, process),
            "iex" | "invoke-expression" => {
                if stdin.taint.has(Taint::NET) || stdin.taint.has(Taint::DECODED) {
                    self.runs_code(process, stdin.taint);
                }
                self.power_code(&refs.join(" "), process);
            }
            "go" | "dotnet" | "cargo" | "java" | "zig" | "rust-script" => {
                for file in refs.iter().filter(|arg| is_source(arg)) {
                    self.script_argument(program, file, process);
                }
            }
            "cpan" | "irb" | "ghci" if !refs.contains(&"-e") => {
                if let Some(text) = stdin.exact() {
                    self.code(text, Languages::built_in().of_program(program), process, 0);
                }
            }
            "eval" => {}
            _ => return self.interpreter(program, &refs, stdin, process),
        }
        None
    }

    fn interpreter(&mut self, program: &str, args: &[&str], stdin: &Data, process: usize) -> Option<Data> {
        let programs = self.programs;
        let takes = programs.code(program)?;
        let args = match args.split_first() {
            Some((first, rest)) if takes.under.iter().any(|name| name == first) => rest,
            _ => args,
        };
        let given = Given::of(args, takes);
        if !given.code.is_empty() {
            let code = given.code.join("\n");
            let printed =
                self.code_argument(program, &code, stdin, process, given.plainly && given.script.is_none());
            if let Some(script) = given.script {
                self.script_argument(program, script, process);
            }
            return printed;
        }
        match given.script {
            Some(code) if code.starts_with('(') => {
                return self.code_argument(program, code, stdin, process, false);
            }
            // Modules that read code, as the interpreter does.
            Some("code" | "asyncio" | "IPython") if args.contains(&"-m") && takes.input => {
                return self.code_of_input(program, stdin, process, false);
            }
            // `python -m pytest` is `pytest`.
            Some(module) if args.windows(2).any(|pair| *pair == ["-m", module]) => {
                self.modules(program, std::iter::once(module), process);
                let rest = args.iter().skip_while(|arg| **arg != module).skip(1).copied().collect::<Vec<_>>();
                self.collected(module, &rest, process);
            }
            Some(script) => self.script_argument(program, script, process),
            None if takes.input => return self.code_of_input(program, stdin, process, given.plainly),
            None => {}
        }
        None
    }

    /// Modules that the command wrote itself, by their names.
    fn modules<'m>(&mut self, program: &str, names: impl Iterator<Item = &'m str>, process: usize) {
        if self.state.disk.is_empty() {
            return;
        }
        let names: std::collections::BTreeSet<&str> = names.collect();
        for name in names {
            let path = format!("{}.py", name.replace('.', "/"));
            if self.state.disk.has(&self.resolve(&path)) {
                self.script_argument(program, &path, process);
            }
        }
    }

    /// Keeps the code that a process is given. One text is kept once for the processes that follow each other with it, as a
    /// loop starts them.
    fn note_code(&mut self, process: usize, text: &str) {
        let last = self.trace.processes.iter().rev().find_map(|process| process.code.as_ref());
        let kept = last.filter(|code| &***code == text).map(Arc::clone);
        if let Some(process) = self.trace.processes.get_mut(process) {
            process.code = Some(kept.unwrap_or_else(|| Arc::from(text)));
        }
    }

    pub(super) fn runs_code(&mut self, process: usize, from: Taint) {
        self.trace.facts.push(Fact::RunsCode { process: Some(process), from });
    }

    fn code_of_input(&mut self, program: &str, data: &Data, process: usize, plainly: bool) -> Option<Data> {
        if data.taint.has(Taint::NET) || data.taint.has(Taint::DECODED) {
            self.runs_code(process, data.taint);
        }
        if let Some(text) = data.exact() {
            let text = unglob(text);
            self.note_code(process, &text);
            return self.known_code(program, &text, &Data::empty(), process, plainly);
        }
        if self.open_ended || !data.taint.has(Taint::INPUT) {
            self.runs_code(process, data.taint);
            if !self.open_ended {
                self.note_unknown_code(program, data.taint);
            }
        }
        None
    }

    fn code_argument(
        &mut self,
        program: &str,
        code: &str,
        stdin: &Data,
        process: usize,
        plainly: bool,
    ) -> Option<Data> {
        if has_hole(code) {
            self.runs_code(process, self.word_taint | Taint::PROGRAM);
            if code.chars().all(|c| c == HOLE) {
                let reason = format!("`{program}` runs code that is not written in the command");
                self.trace.unknown(UnknownKind::Code, reason, true);
                return None;
            }
        } else if self.open_ended && (uses_arguments(code) || !program.starts_with("py")) {
            // Only Python takes no options of its own behind code.
            self.runs_code(process, Taint::PROGRAM);
        }
        self.known_code(program, code, stdin, process, plainly && !self.open_ended)
    }

    /// Reads code that is written in the command; what a language does that is not read is not known.
    fn known_code(
        &mut self,
        program: &str,
        code: &str,
        stdin: &Data,
        process: usize,
        plainly: bool,
    ) -> Option<Data> {
        let language = Languages::built_in().of_program(program);
        let reading = if plainly { Reading::Told } else { Reading::Alone };
        let found = self.read_code(code, language, process, 0, reading)?;
        self.give_to(&found, stdin, process);
        self.note_unread_code(program, &found);
        if language.name == "python" && code.contains("import") {
            let words = code.split(|c: char| !(c.is_alphanumeric() || "._".contains(c)));
            self.modules(program, words.filter(|word| !word.is_empty()), process);
        }
        if !language.is_read() && !found.is_harmless() {
            self.note_unknown_code(program, Taint::PROGRAM);
        }
        let is_known = plainly && language.is_read() && !found.acts;
        let (text, taint) = found.printed.filter(|(text, _)| is_known && !text.is_empty())?;
        Some(Data::text(text).tainted(taint))
    }

    /// Code that is written in the command, and starts or deletes something that is not.
    fn note_unread_code(&mut self, program: &str, found: &Found) {
        if found.calls.iter().any(|call| matches!(call, Call::Unread)) {
            let reason = format!("code for `{program}` runs or deletes something that can't be read in it");
            self.trace.unknown(UnknownKind::Code, reason, true);
        }
    }

    fn script_argument(&mut self, program: &str, script: &str, process: usize) {
        self.read_script(program, script, process, Reading::Alone);
    }

    fn read_script(&mut self, program: &str, script: &str, process: usize, reading: Reading) {
        if has_hole(script) {
            return self.runs_code(process, Taint::PROGRAM);
        }
        let data = self.content_of(script);
        if data.taint.has(Taint::NET) || data.taint.has(Taint::DECODED) || data.taint.has(Taint::FETCHED) {
            self.runs_code(process, data.taint);
        }
        if let Some(text) = data.exact() {
            self.note_code(process, text);
            let languages = Languages::built_in();
            let own = languages.of_program(program);
            let language = if own.is_read() { own } else { languages.of_file(script) };
            let found = self.read_code(text, language, process, 0, reading);
            let is_ours = self.state.disk.has(&self.resolve(script));
            if let Some(found) = found.as_ref().filter(|_| is_ours) {
                self.note_unread_code(program, found);
            }
            if is_ours && !language.is_read() && found.is_some_and(|found| !found.is_harmless()) {
                self.note_unknown_code(program, Taint::PROGRAM);
            }
        } else if data.taint.has(Taint::UNREAD)
            || data.taint == Taint::FILE && self.has_read_enough()
            || data.taint.has(Taint::PROGRAM) && !data.taint.has(Taint::FILE)
        {
            self.runs_code(process, data.taint);
            self.note_unknown_code("an interpreter", data.taint);
        }
    }

    /// Finds what code does.
    pub(crate) fn code(&mut self, text: &str, language: &Language, process: usize, depth: usize) {
        self.read_code(text, language, process, depth, Reading::Alone);
    }

    /// Finds what code does.
    fn read_code(
        &mut self,
        text: &str,
        language: &Language,
        process: usize,
        depth: usize,
        reading: Reading,
    ) -> Option<Found> {
        if depth > MAX_DEPTH {
            self.note_limit();
            return None;
        }
        if !self.step() {
            return None;
        }
        if starts_like_command(text) {
            self.run_found(text, process);
            return None;
        }
        let found = reader::read(text, language, self.place.home(), 0);
        self.trace.note(found.over);
        self.signs(&found, process);
        if language.says_where_modules_are(text) {
            found.literals.iter().for_each(|literal| self.loads_from(literal, process));
        }
        let sends = found.network || found.talks;
        let mut secret = self.make_calls(&found, language, process, depth);
        secret |= sends && self.reads_what_it_names(&found, process);
        if secret && sends {
            self.trace.facts.push(Fact::Sends { process, what: Taint::SECRET });
        }
        if found.environment && sends {
            self.trace.facts.push(Fact::Sends { process, what: Taint::ENVIRONMENT });
        }
        if sends
            && !found.hosts.is_empty()
            && super::credentials::is_for_another(found.credentials, &found.hosts)
        {
            self.trace.facts.push(Fact::Sends { process, what: Taint::CREDENTIAL });
        }
        if found.evaluates {
            self.evaluates(&found, process);
        }
        // What is only printed counts where it is printed to.
        let told = reading == Reading::Told;
        let is_told = found.is_harmless() && (told && found.printed.is_some() || !self.captures);
        let is_told = is_told || reading == Reading::Test && language.is_read() && !found.starts_others();
        // What is only written to files counts where one of them is run.
        let is_told = is_told || language.is_read() && found.keeps_to_files() && self.keeps(&found);
        for literal in found.literals.iter().filter(|literal| !is_told && starts_like_command(literal)) {
            self.run_found(literal, process);
        }
        Some(found)
    }

    /// Follows the calls of code, in their order; true when they read credentials.
    fn make_calls(&mut self, found: &Found, language: &Language, process: usize, depth: usize) -> bool {
        let outside = self.state.cwd.clone();
        let mut before = None;
        let mut secret = false;
        for call in &found.calls {
            match call {
                Call::Enters(folder) => {
                    before = Some(self.state.cwd.clone());
                    self.state.cwd = Some(self.resolve(folder));
                }
                Call::Leaves => self.state.cwd = before.take().unwrap_or_else(|| outside.clone()),
                call => secret |= self.code_call(call, language, process, depth),
            }
        }
        self.deletes_what_it_lists(&found.calls, process);
        secret |= self.opens_what_it_finds(&found.calls, process);
        self.state.cwd = outside;
        secret
    }

    /// Code that sends something and reads a file whose name is made may read whatever path is written in it.
    fn reads_what_it_names(&mut self, found: &Found, process: usize) -> bool {
        if !found.calls.iter().filter_map(Call::reads).any(has_hole) {
            return false;
        }
        let is_path =
            |text: &&String| text.starts_with(['~', '/', '.']) && !text.contains(char::is_whitespace);
        let named: Vec<Touch> = found
            .literals
            .iter()
            .filter(is_path)
            .map(|path| Touch::new(Action::Read, path.replace('*', &String::from(STAR))))
            .collect();
        let mut secret = false;
        for touch in named {
            secret |= self.content_of(&touch.path).taint.has(Taint::SECRET);
            self.touch_by(Some(process), touch);
        }
        secret
    }

    /// Takes down what the files hold that code writes; whether it writes any whose names are known.
    fn keeps(&mut self, found: &Found) -> bool {
        let written = found.calls.iter().filter_map(Call::writes);
        let written: Vec<String> = written.filter(|path| !has_hole(path)).map(str::to_owned).collect();
        let text = found.literals.join("\n");
        for path in &written {
            self.write_file(path, &Data::text(&text));
        }
        !written.is_empty()
    }

    /// What is given to code that runs something which is not written in it may be what it runs: its input, and what stands
    /// in variables in front of it.
    pub(super) fn give_to(&mut self, found: &Found, stdin: &Data, process: usize) {
        if !found.runs_what_it_is_given() {
            return;
        }
        if stdin.taint.has(Taint::NET) {
            self.runs_code(process, stdin.taint);
        }
        if let Some(text) = stdin.exact().map(|text| unglob(text).into_owned()) {
            self.run_found(&text, process);
        }
    }

    fn signs(&mut self, found: &Found, process: usize) {
        if found.reverse_shell {
            self.trace.facts.push(Fact::NetworkShell { process });
        }
        if found.fork_bomb {
            self.trace.facts.push(Fact::ForkBomb);
        }
        // What is written out is judged as what it is; here counts what nobody can read, and what leaves the machine.
        let hides = |call: &Call| match call {
            Call::Carrier(_) | Call::Code { text: None, .. } => true,
            Call::Shell(text) => has_hole(text),
            Call::Vector { argv, .. } => argv.iter().any(|word| has_hole(word)),
            _ => false,
        };
        let reads = |call: &Call| matches!(call, Call::Code { text: Some(_), .. });
        let evaluates = found.evaluates && !found.calls.iter().any(reads);
        if found.calls.iter().any(hides) || found.uploads || evaluates {
            self.trace.facts.push(Fact::CodeActs { process });
        }
    }

    /// Code that evaluates text may evaluate whatever it reads or fetches.
    fn evaluates(&mut self, found: &Found, process: usize) {
        if found.network {
            self.runs_code(process, Taint::NET);
        }
        let read: Vec<String> = found.calls.iter().filter_map(Call::reads).map(str::to_owned).collect();
        for path in read {
            self.script_argument("", &path, process);
        }
        if found.calls.iter().any(Call::fetches) {
            self.runs_code(process, Taint::NET);
        }
    }

    /// Code that lists a directory and deletes names which are not written in it deletes what it listed.
    fn deletes_what_it_lists(&mut self, calls: &[Call], process: usize) {
        if !calls.iter().any(Call::deletes_unknown) {
            return;
        }
        for call in calls {
            if let Call::Lists(folder) = call {
                let mut touch = Touch::new(Action::Delete, folder.clone());
                touch.recursive = true;
                touch.searched = true;
                self.touch_by(Some(process), touch);
            }
        }
    }

    /// Code that finds files and opens some whose names are not written in it opens what it found; true when that holds
    /// secrets.
    fn opens_what_it_finds(&mut self, calls: &[Call], process: usize) -> bool {
        let opens =
            |action| calls.iter().any(|call| matches!(call, Call::OpensUnknown(opened) if *opened == action));
        let mut secret = false;
        for action in [Action::Read, Action::Write].into_iter().filter(|action| opens(*action)) {
            for call in calls {
                let Call::Finds(pattern) = call else { continue };
                secret |= action == Action::Read && self.content_of(pattern).taint.has(Taint::SECRET);
                self.touch_by(Some(process), Touch::new(action, pattern));
            }
        }
        secret
    }

    /// Judges one call; true when it reads credentials.
    fn code_call(&mut self, call: &Call, language: &Language, process: usize, depth: usize) -> bool {
        match call {
            Call::Shell(text) => self.run_found(text, process),
            Call::Vector { argv, input } => {
                let input = input.as_ref().map_or_else(Data::empty, Data::text);
                self.in_subshell(|shell| shell.dispatch(argv, &input));
            }
            Call::Code { text, from } => {
                if *from != Taint::NONE {
                    self.runs_code(process, *from);
                }
                if let Some(text) = text {
                    self.code(text, language, process, depth + 1);
                }
            }
            Call::Lists(_)
            | Call::Finds(_)
            | Call::OpensUnknown(_)
            | Call::DeletesUnknown
            | Call::Enters(_)
            | Call::Leaves
            | Call::Unread => {}
            Call::Carrier(from) => self.runs_code(process, *from),
            Call::Touch(touch) => {
                let reads = touch.action == Action::Read;
                let secret = reads && self.content_of(&touch.path).taint.has(Taint::SECRET);
                self.touch_by(Some(process), touch.clone());
                return secret;
            }
        }
        false
    }

    fn run_found(&mut self, text: &str, process: usize) {
        self.in_subshell(|shell| shell.run_code(&Data::text(text), &[], Some(process), "code"));
    }
}

/// True for a cluster such as `-we` or `-lane` that ends with a code option.
fn clustered(arg: &str, language: &Code) -> bool {
    let Some(cluster) = arg.strip_prefix('-').filter(|rest| rest.len() > 1 && !rest.starts_with('-')) else {
        return false;
    };
    let Some((last, head)) = cluster.chars().last().zip(cluster.get(..cluster.len() - 1)) else {
        return false;
    };
    language.options.iter().any(|flag| flag.len() == 2 && flag.ends_with(last))
        && head.chars().all(|c| c.is_ascii_alphanumeric() && !language.values.contains(c))
}

/// True for code that may run what it is given.
fn uses_arguments(code: &str) -> bool {
    const WORDS: [&str; 9] = ["argv", "ARGV", "eval", "exec", "system", "popen", "spawn", "$@", "args"];
    WORDS.iter().any(|word| code.contains(word)) || code.contains("stdin") || code.contains("`")
}

/// True for the names of source files that a compiler runs at once.
fn is_source(arg: &str) -> bool {
    [".go", ".rs", ".java", ".jar", ".cs", ".zig", ".fsx", ".csx"].iter().any(|ending| arg.ends_with(ending))
}

fn starts_like_command(text: &str) -> bool {
    let Some((first, rest)) = text.trim_start().split_once(char::is_whitespace) else { return false };
    // A call whose text begins with a path is no command.
    if first.contains(['(', '"', '\'', '`']) {
        return false;
    }
    let first = first.rsplit('/').next().unwrap_or(first);
    let named = COMMANDS.contains(&first) || first.starts_with("mkfs.");
    named && !rest.trim_start().starts_with(['=', '(', '.'])
}

#[cfg(test)]
mod tests;
