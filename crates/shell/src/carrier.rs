//! Programs and builtins that run other commands: functions, shells, `eval`, wrappers, interpreters.

use std::rc::Rc;

use brush_parser::ast;

use super::data::{Data, Taint};
use super::limits::{self, Bounded};
use super::trace::{Fact, UnknownKind, program_name};
use super::walk::{Shell, slices};
use super::word::{ANY, HOLE, SET, STAR, has_hole, unglob};
use crate::programs::Does;

impl Shell<'_> {
    /// Runs an argument vector; the answer is what it prints.
    pub(crate) fn dispatch(&mut self, argv: &[String], stdin: &Data) -> Data {
        let Some((word, args)) = argv.split_first() else { return Data::empty() };
        if !self.step() {
            return Data::unknown(Taint::NONE);
        }
        if self.depth >= self.limits.depth {
            self.note_limit();
            self.innermost(argv, stdin);
            return Data::unknown(Taint::NONE);
        }
        self.depth += 1;
        let outer = std::mem::replace(&mut self.stdin, stdin.clone());
        // A bracket of its own is a command, not a pattern.
        let searched = self.searched(word);
        let mut output = match word.strip_prefix(SET) {
            Some("") => {
                let argv: Vec<String> = std::iter::once("[".to_owned()).chain(args.iter().cloned()).collect();
                self.dispatch_inner(&argv, "[", args, stdin)
            }
            _ => self.dispatch_inner(argv, word, args, stdin),
        };
        if let Some(path) = searched {
            output.or(&self.run_searched(&path, argv, stdin));
        }
        self.stdin = outer;
        self.depth -= 1;
        output
    }

    fn dispatch_inner(&mut self, argv: &[String], word: &str, args: &[String], stdin: &Data) -> Data {
        if let Some(definition) = self.function(word) {
            return self.call(word, &definition, args, stdin);
        }
        if self.state.aliases.contains_key(word)
            && let Some(text) = self.alias(word)
        {
            return self.run_alias(word, &text, args, stdin);
        }
        if let Some((_, ending)) = word.rsplit_once('.').filter(|_| !self.state.aliases.is_empty())
            && let Some(text) = self.alias(&format!(".{ending}"))
        {
            // A file that is opened by a program of this ending.
            return self.run_alias(&format!(".{ending}"), &text, argv, stdin);
        }
        if has_hole(word) {
            if !self.is_named(word) {
                return self.unknown_program(argv, stdin);
            }
            // In a folder that is not known, unless what stands for the folder is code.
            self.note_partly();
        }
        if word.contains([STAR, ANY]) || word.contains(SET) && word.contains(']') {
            self.trace.unknown(UnknownKind::Program, "the program is named by a pattern", true);
        }
        if word.contains(char::is_whitespace) {
            return self.command_inside(argv, word, stdin);
        }
        let program = program_name(word);
        if let Some(data) = self.made_here(word, &program) {
            let process = self.emit(argv);
            let name = std::mem::replace(&mut self.state.name, word.to_owned());
            let output = self.run_code(&data, args, Some(process), &program);
            self.state.name = name;
            return output;
        }
        if word.contains('/')
            && let Some(script) = self.script(word)
        {
            let process = self.emit(argv);
            return self.in_subshell(|shell| {
                word.clone_into(&mut shell.state.name);
                shell.run_code(&script, args, Some(process), &program)
            });
        }
        self.note_waiting(argv, &program, stdin);
        self.note_reading_builtin(argv, &program, stdin);
        if args.iter().any(|arg| arg.contains('[') || arg == "-eq")
            || matches!(word, "exit" | "return" | "shift")
        {
            self.expand_subscripts(&program, args);
        }
        if let Some(output) = self.builtin(&program, args, stdin) {
            return output;
        }
        if self.programs.does(&program, Does::SpeaksShell) {
            self.reads_on(&program, stdin);
            return self.run_shell(argv, &program, stdin);
        }
        self.reads_on(&program, stdin);
        let readers = self.trace.readers.len();
        if let Some(output) = self.wrapper(argv, &program, stdin) {
            self.note_reading_wrapper(argv, &program, stdin, readers);
            return output;
        }
        if let Some(output) = self.opened_shell(argv, &program, stdin) {
            return output;
        }
        self.note_reader(argv, &program, stdin);
        let process = self.emit(argv);
        self.note_inputs(process, args, stdin);
        self.client_input(&program, stdin);
        let printed = self.inline_code(&program, args, stdin, process);
        self.transfer(&program, args, stdin, process);
        let output = self.output_of(&program, args, stdin);
        printed.unwrap_or(output)
    }

    /// Runs the command that stands in the name of a program: none is called that, and whoever wrote it meant the command inside.
    fn command_inside(&mut self, argv: &[String], word: &str, stdin: &Data) -> Data {
        let process = self.emit(argv);
        self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::PROGRAM });
        let text = word.replace(['\u{2028}', '\u{2029}'], "\n");
        self.run_text(&text, stdin)
    }

    /// Runs what a wrapper is fed that was not told what to start, and starts a shell instead.
    fn opened_shell(&mut self, argv: &[String], program: &str, stdin: &Data) -> Option<Data> {
        let typed = stdin.taint.has(Taint::INPUT) && stdin.marked().is_none();
        let opens = self.programs.does(program, Does::OpensShell);
        if typed || stdin.is_empty() || !opens {
            return None;
        }
        let process = self.emit(argv);
        self.transfer(program, argv.get(1..).unwrap_or_default(), stdin, process);
        let printed = self.in_subshell(|shell| shell.run_code(stdin, &[], Some(process), program));
        Some(Data::unknown(printed.taint))
    }

    /// Reports the last program that is named in a chain of wrappers too long to be followed.
    fn innermost(&mut self, argv: &[String], stdin: &Data) {
        let programs = self.programs;
        let named = |word: &String| super::code::is_command(programs, &program_name(word));
        let inner = argv.iter().rposition(named).and_then(|at| argv.get(at..)).unwrap_or_default();
        if let Some((word, args)) = inner.split_first() {
            let process = self.emit(inner);
            self.transfer(&program_name(word), args, stdin, process);
        }
    }

    /// Returns what a program holds that this command wrote or fetched before.
    fn made_here(&self, word: &str, program: &str) -> Option<Data> {
        let by_path =
            word.contains('/') || [".exe", ".bat", ".cmd", ".ps1"].iter().any(|e| word.ends_with(e));
        if !by_path {
            return None;
        }
        let path = self.located(word);
        let fetched = || {
            let runs = self.state.disk.is_fetched(&path) && !self.programs.is_interpreter(program);
            runs.then(|| Data::unknown(Taint::FETCHED))
        };
        self.state.disk.file(&path).cloned().or_else(fetched)
    }

    /// A client that is fed statements does what one that is given them as an argument does.
    fn client_input(&mut self, program: &str, stdin: &Data) {
        if !self.programs.does(program, Does::ReadsStatements) {
            return;
        }
        let statements = self.text_of(stdin).into_iter().flat_map(|text| text.split([';', '\n']));
        for line in Bounded::of(&limits::STATEMENTS, statements).reported(&mut self.trace) {
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            let mut argv = vec![program.to_owned()];
            if program == "redis-cli" {
                argv.extend(line.split_whitespace().map(str::to_owned));
            } else {
                argv.push(line.to_owned());
            }
            self.emit(&argv);
        }
    }

    /// True for a program in a folder that is not known: what it is called says what it is, unless the folder is
    /// somebody's answer.
    fn is_named(&self, word: &str) -> bool {
        let name = word.rsplit_once('/').map_or("", |(_, name)| name);
        !name.is_empty() && !has_hole(name) && !suspicious(self.word_taint)
    }

    /// A command whose program is not known.
    ///
    /// The law: *a word behind it makes nothing milder*. `eval "$plan"` runs code that nobody sees, and so does
    /// `eval "$plan; true"`: what is not known is read as code, which may hold any number of commands. So it is in front of the
    /// name of a program (`eval "$dir/ls"`). Behind such a name it is taken for an argument (`eval "cd $dir"`), which is what people mean by it; and so it
    /// is where a word is tested, or matched by `case`, where a loop takes words, and where something is redirected.
    fn unknown_program(&mut self, argv: &[String], stdin: &Data) -> Data {
        let process = self.emit(argv);
        self.note_reader(argv, "", stdin);
        self.note_partly();
        let from = self.partly.as_ref().map_or(Taint::NONE, |(_, from)| *from) | self.word_taint;
        self.trace.facts.push(Fact::RunsCode { process: Some(process), from });
        let bare = argv.first().is_some_and(|word| word.chars().all(|c| c == HOLE));
        if bare {
            // A whole command that some program prints is code like any other.
            let carrier = argv.len() == 1 && from.has(Taint::PROGRAM);
            self.trace.unknown(UnknownKind::Program, "which program runs is not known", carrier);
        }
        let (word, args) = argv.split_first().map_or(("", &[][..]), |(word, args)| (word.as_str(), args));
        self.transfer("", args, stdin, process);
        self.without_the_unknown(word, args, stdin);
        Data::unknown(stdin.taint | Taint::PROGRAM)
    }

    /// What is unknown may be empty: the words that are left are a command too.
    fn without_the_unknown(&mut self, word: &str, args: &[String], stdin: &Data) {
        let rest: String = word.chars().filter(|c| *c != HOLE).collect();
        let first = Some(rest).filter(|rest| !rest.is_empty());
        // So may those behind it: what is left begins with the first word of which something is known.
        let nothing = |arg: &&String| first.is_none() && !arg.is_empty() && arg.chars().all(|c| c == HOLE);
        let known = args.iter().skip_while(nothing).cloned();
        let left: Vec<String> = first.clone().into_iter().chain(known).collect();
        if !left.is_empty() {
            self.in_subshell(|shell| shell.dispatch(&left, stdin));
        }
    }

    /// Calls a function with arguments.
    pub(crate) fn call(
        &mut self,
        name: &str,
        definition: &Rc<ast::FunctionDefinition>,
        args: &[String],
        stdin: &Data,
    ) -> Data {
        if let Some(call) = self.calls.iter().find(|call| Rc::ptr_eq(&call.definition, definition)) {
            if self.forks > call.forks {
                self.trace.facts.push(Fact::ForkBomb);
            }
            let active = self.calls.iter().filter(|call| Rc::ptr_eq(&call.definition, definition)).count();
            let same =
                self.calls.iter().any(|call| Rc::ptr_eq(&call.definition, definition) && call.args == args);
            if same && active > 1 || active > MOST_CALLS {
                return Data::unknown(Taint::PROGRAM);
            }
            if active == MOST_CALLS {
                // What it is called with at the end of a long chain stands for all that follow.
                return self.called(name, definition, &[HOLE.to_string()], stdin);
            }
        }
        self.called(name, definition, args, stdin)
    }

    fn called(
        &mut self,
        name: &str,
        definition: &Rc<ast::FunctionDefinition>,
        args: &[String],
        stdin: &Data,
    ) -> Data {
        let call = Call { definition: Rc::clone(definition), args: args.to_vec(), forks: self.forks };
        self.calls.push(call);
        // It may be written elsewhere; what is not known in it was found where it was defined.
        let partly = self.partly.take();
        let positional = std::mem::replace(&mut self.state.positional, args.to_vec());
        let others = std::mem::take(&mut self.state.positionals);
        let body = ast::Command::Compound(definition.body.0.clone(), definition.body.1.clone());
        self.state.enter();
        let before = self.calls.len();
        let output = self.in_function(|shell| shell.run_body(&body, stdin));
        debug_assert_eq!(before, self.calls.len(), "the calls of `{name}` end before it does");
        self.state.leave();
        self.state.positional = positional;
        self.state.positionals = others;
        self.partly = partly;
        self.calls.pop();
        output
    }

    /// Walks the body of a function that is defined in code of which some part is not known, whether it is called or not: that
    /// part may end the function, and go on behind it.
    pub(crate) fn look_into(&mut self, definition: &ast::FunctionDefinition) {
        if self.partly.is_none() {
            return;
        }
        if has_hole(&definition.fname.value) {
            self.note_partly();
        }
        let body = ast::Command::Compound(definition.body.0.clone(), definition.body.1.clone());
        self.in_subshell(|shell| {
            shell.in_function(|shell| shell.run_body(&body, &Data::session_input()));
        });
    }

    /// Returns the body that a function has, if it is defined.
    fn function(&mut self, name: &str) -> Option<Rc<ast::FunctionDefinition>> {
        let definitions = self.state.functions.get(name)?.definitions.clone();
        // With more bodies than are walked, the first one is as good as any.
        let way = self.decide(definitions.len()).unwrap_or(0);
        definitions.into_iter().nth(way).flatten()
    }

    /// Returns what a word is an alias of, if it is one here: shells expand aliases or not, by how they were started.
    fn alias(&mut self, word: &str) -> Option<String> {
        let texts = self.state.aliases.get(word)?.clone();
        let way = self.decide(texts.len() + 1).unwrap_or(0);
        texts.into_iter().nth(way)
    }

    fn run_alias(&mut self, word: &str, text: &str, args: &[String], stdin: &Data) -> Data {
        let mut words: Vec<String> = args.iter().map(|arg| quote(arg)).collect();
        if text.ends_with([' ', '\t'])
            && let Some(first) = words.first_mut()
            && let Some(next) = self.alias(first)
        {
            *first = next;
        }
        let aliases = self.state.aliases.remove(word);
        // A here-document ends with its last line.
        let text = if words.is_empty() { text.to_owned() } else { format!("{text} {}", words.join(" ")) };
        let output = self.run_text(&text, stdin);
        for text in aliases.into_iter().flatten() {
            self.state.alias(word, text);
        }
        output
    }

    /// Runs code that arrives as data: known text is read, the rest is reported.
    pub(crate) fn run_code(
        &mut self,
        data: &Data,
        args: &[String],
        process: Option<usize>,
        name: &str,
    ) -> Data {
        let positional = std::mem::replace(&mut self.state.positional, args.to_vec());
        let others = std::mem::take(&mut self.state.positionals);
        let stdin = std::mem::replace(&mut self.inherited, Data::session_input());
        // Words are added to the program that runs the code, not to those that the code starts.
        let open_ended = std::mem::take(&mut self.open_ended);
        let output = self.run_here(data, process, name, &stdin);
        self.open_ended = open_ended;
        self.state.positional = positional;
        self.state.positionals = others;
        output
    }

    /// Runs code that arrives as data, with the arguments of the shell that runs it.
    pub(crate) fn run_here(&mut self, data: &Data, process: Option<usize>, name: &str, stdin: &Data) -> Data {
        if data.is_empty() {
            return Data::empty();
        }
        let suspicious = data.taint.has(Taint::NET) || data.taint.has(Taint::DECODED);
        match data.marked().filter(|text| text.chars().any(|c| c != HOLE && !c.is_whitespace())) {
            Some(text) => {
                if suspicious {
                    self.trace.facts.push(Fact::RunsCode { process, from: data.taint });
                }
                let text = unglob(text).into_owned();
                let partly = has_hole(&text).then(|| (name.to_owned(), data.taint));
                let outer = std::mem::replace(&mut self.partly, partly);
                self.via.push(name.to_owned());
                let output = self.run_text(&text, stdin);
                self.via.pop();
                self.partly = outer;
                output
            }
            None => {
                self.trace.facts.push(Fact::RunsCode { process, from: data.taint });
                self.note_unknown_code(name, data.taint);
                if let Some(text) = data.like().map(str::to_owned) {
                    // What was done to it may have left it as it was.
                    self.via.push(name.to_owned());
                    self.in_subshell(|shell| shell.run_text(&text, stdin));
                    self.via.pop();
                }
                Data::unknown(data.taint | Taint::PROGRAM)
            }
        }
    }

    /// Code that is not known is run. A file of the workspace is no news; what a program prints could be anything.
    pub(crate) fn note_unknown_code(&mut self, name: &str, from: Taint) {
        self.note_unread_reader(name);
        let reason = format!("`{name}` runs code that is not written in the command");
        let carrier = !from.has(Taint::FILE) || from.has(Taint::UNREAD) || self.has_read_enough();
        self.trace.unknown(UnknownKind::Code, reason, carrier);
    }

    /// Code of which some part is not known is walked, and what is not known is no argument of a program in it.
    pub(crate) fn note_partly(&mut self) {
        if let Some((name, from)) = self.partly.clone() {
            self.note_unknown_code(&name, from);
        }
    }

    /// Returns whether a path is standard input by another name.
    fn is_input(&self, path: &str) -> bool {
        path == "-" || super::redirect::descriptor_in(&self.resolve(path)) == Some("0")
    }

    /// `bash ...` and its family.
    fn run_shell(&mut self, argv: &[String], program: &str, stdin: &Data) -> Data {
        let process = self.emit(argv);
        if self.wired {
            self.trace.facts.push(Fact::NetworkShell { process });
        }
        let args = argv.get(1..).unwrap_or_default();
        let call = ShellCall::parse(&slices(args));
        self.run_startup_files(&call.startup, process, program);
        if call.noexec {
            return Data::empty();
        }
        self.run_inherited_code(process, program);
        let operands: Vec<String> = call.operands.iter().map(|s| (*s).to_owned()).collect();
        if call.command {
            let Some((text, rest)) = operands.split_first() else {
                if self.open_ended {
                    self.trace.facts.push(Fact::RunsCode { process: Some(process), from: stdin.taint });
                }
                return Data::empty();
            };
            let name = rest.first().cloned().unwrap_or_else(|| program.to_owned());
            let data = Data::text(text).tainted(self.word_taint);
            return self.in_subshell(|shell| {
                shell.state.name = name;
                shell.import_environment();
                shell.inherited = stdin.clone();
                shell.run_code(&data, rest.get(1..).unwrap_or_default(), Some(process), program)
            });
        }
        match operands.split_first() {
            Some((script, rest)) if !call.from_stdin && !self.is_input(script) => {
                let opened = super::redirect::descriptor_in(&self.resolve(script)).is_some();
                let data = match has_hole(script) && !opened {
                    // Which script it is depends on a program; that it is a file does not.
                    true if self.word_taint.has(Taint::PROGRAM) => {
                        Data::unknown(self.word_taint | Taint::FILE)
                    }
                    true => Data::unknown(self.word_taint),
                    false => self.program_text(script),
                };
                self.touch(crate::effects::Touch::new(crate::effects::Action::Run, script));
                if data.taint == Taint::FILE
                    || data.marked().is_some_and(|text| text.contains(HOLE) && text.len() < 4)
                {
                    if self.place.reads_files() {
                        let reason = "a script that can't be looked into is run";
                        self.trace.unknown(UnknownKind::Code, reason, self.has_read_enough());
                    }
                    self.note_reader(argv, program, stdin);
                    return Data::unknown(Taint::PROGRAM);
                }
                self.in_subshell(|shell| {
                    shell.state.name.clone_from(script);
                    shell.run_code(&data, rest, Some(process), program)
                })
            }
            _ => {
                if stdin.taint.has(Taint::INPUT) && stdin.marked().is_none() && !suspicious(stdin.taint) {
                    self.note_reader(argv, program, stdin);
                    // What an interactive shell prints; see `Data::is_dialogue`.
                    return Data::unknown(Taint::INPUT | Taint::PROGRAM);
                }
                let words =
                    if call.from_stdin { operands.as_slice() } else { operands.get(1..).unwrap_or_default() };
                self.in_subshell(|shell| shell.run_code(stdin, words, Some(process), program))
            }
        }
    }

    /// Makes the assignments in front of a command variables of the shell it starts.
    fn import_environment(&mut self) {
        for (name, value) in std::mem::take(&mut self.environment) {
            self.state.assign(&name, super::state::Value::Text(value));
        }
    }
}

/// Returns whether a shell that is started like that takes its commands from its standard input.
pub(super) fn reads_commands(args: &[&str]) -> bool {
    let call = ShellCall::parse(args);
    let script = call.operands.first().copied();
    let is_input =
        |path| matches!(path, "-" | "/dev/tty") || super::redirect::descriptor_in(path) == Some("0");
    !call.command && !call.noexec && (call.from_stdin || script.is_none_or(is_input))
}

fn suspicious(taint: Taint) -> bool {
    taint.has(Taint::NET) || taint.has(Taint::DECODED)
}

/// Quotes a word so that a shell reads it as one; operators of patterns stay what they are.
pub(crate) fn quote(word: &str) -> String {
    if !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "-_./=:,@%+".contains(c)) {
        return word.to_owned();
    }
    let literal = |text: &str| match text {
        "" => String::new(),
        text => format!("'{}'", text.replace('\'', "'\\''")),
    };
    if !word.contains([STAR, ANY, SET]) {
        return if word.is_empty() { "''".to_owned() } else { literal(word) };
    }
    let parts = word.split_inclusive([STAR, ANY, SET]).map(|part| {
        let text = part.trim_end_matches([STAR, ANY, SET]);
        literal(text) + &unglob(part.get(text.len()..).unwrap_or_default())
    });
    parts.collect()
}

/// Calls of one function inside another that are followed one by one.
const MOST_CALLS: usize = 3;

/// A function that is being called.
pub(crate) struct Call {
    definition: Rc<ast::FunctionDefinition>,
    args: Vec<String>,
    forks: usize,
}

/// How a shell is started.
struct ShellCall<'a> {
    command: bool,
    from_stdin: bool,
    noexec: bool,
    /// Files that it reads first.
    startup: Vec<&'a str>,
    operands: Vec<&'a str>,
}

impl<'a> ShellCall<'a> {
    fn parse(args: &[&'a str]) -> Self {
        let mut call = Self {
            command: false,
            from_stdin: false,
            noexec: false,
            startup: Vec::new(),
            operands: Vec::new(),
        };
        let mut at = 0;
        while let Some(&arg) = args.get(at) {
            at += 1;
            match arg {
                "--" | "-" => break,
                "--rcfile" | "--init-file" => {
                    call.startup.extend(args.get(at));
                    at += 1;
                }
                "-o" | "+o" | "-O" | "+O" => at += 1,
                "--command" => call.command = true,
                _ if arg.starts_with("--") => {
                    let file = |name| arg.strip_prefix(name);
                    call.startup.extend(file("--rcfile=").or_else(|| file("--init-file=")));
                }
                _ => match arg.strip_prefix('-').or_else(|| arg.strip_prefix('+')) {
                    Some(letters) if !letters.is_empty() => {
                        let sets = arg.starts_with('-');
                        for letter in letters.chars() {
                            match letter {
                                'c' => call.command |= sets,
                                's' => call.from_stdin |= sets,
                                'n' => call.noexec = sets,
                                'o' | 'O' => at += 1,
                                _ => {}
                            }
                        }
                    }
                    _ => {
                        at -= 1;
                        break;
                    }
                },
            }
        }
        call.operands = args.get(at..).unwrap_or_default().to_vec();
        call
    }
}
