//! Code of other languages given on the command line.
//!
//! No language is parsed in full. A scanner that knows strings, comments, calls, concatenation and plain
//! assignments finds the calls that matter in all of them: those that start processes, delete, read or
//! write files, decode text, evaluate code, or talk to the network.

mod calls;
mod names;
mod scan;

use super::data::{Data, Taint};
use super::trace::{Fact, UnknownKind};
use super::walk::{Shell, slices};
use super::word::has_hole;
use crate::options::Options;
use crate::programs::{Code, Does, Programs};
use calls::Call;

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

impl Shell<'_> {
    /// Reads the code a program was given in its arguments or input.
    pub(crate) fn inline_code(&mut self, program: &str, args: &[String], stdin: &Data, process: usize) {
        let refs = slices(args);
        match program {
            "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => return self.awk(&refs, process),
            "sed" | "gsed" => return self.sed_commands(&refs, stdin, process),
            "powershell" | "pwsh" => return self.powershell(&refs, stdin, process),
            "iex" | "invoke-expression" => {
                if stdin.taint.has(Taint::NET) || stdin.taint.has(Taint::DECODED) {
                    self.trace.facts.push(Fact::RunsCode { process: Some(process), from: stdin.taint });
                }
                return self.power_code(&refs.join(" "), process);
            }
            "go" | "dotnet" | "cargo" | "java" | "zig" | "rust-script" => {
                for file in refs.iter().filter(|arg| is_source(arg)) {
                    self.script_argument(file, process);
                }
                return;
            }
            "cpan" | "irb" | "ghci" if !refs.contains(&"-e") => {
                if let Some(text) = stdin.exact() {
                    self.code(text, process, 0);
                }
                return;
            }
            "eval" => return,
            _ => {}
        }
        let programs = self.programs;
        let Some(language) = programs.code(program) else { return };
        let mut found = false;
        let mut at = 0;
        while let Some(arg) = refs.get(at) {
            at += 1;
            if *arg == "--" {
                break;
            }
            let next = || refs.get(at).copied().unwrap_or_default();
            let exact = language.options.iter().any(|option| option == arg).then(next);
            let in_cluster = || clustered(arg, language).then(next);
            let attached = || {
                language.options.iter().find_map(|flag| {
                    let rest = arg.strip_prefix(flag.as_str())?;
                    if flag.starts_with("--") {
                        rest.strip_prefix('=')
                    } else {
                        (flag.len() == 2).then_some(rest)
                    }
                })
            };
            let code = exact.or_else(in_cluster).or_else(attached);
            match code {
                Some(code) => {
                    found = true;
                    self.code_argument(program, code, process);
                }
                None if !arg.starts_with('-') => {
                    self.script_argument(arg, process);
                    found = true;
                    break;
                }
                None => {}
            }
        }
        if !found && language.input {
            let data = stdin.clone();
            if data.taint.has(Taint::NET) || data.taint.has(Taint::DECODED) {
                self.trace.facts.push(Fact::RunsCode { process: Some(process), from: data.taint });
            }
            if let Some(text) = data.exact() {
                self.code(text, process, 0);
            } else if self.open_ended || !data.taint.has(Taint::INPUT) {
                self.trace.facts.push(Fact::RunsCode { process: Some(process), from: data.taint });
                if !self.open_ended {
                    self.note_unknown_code(program, data.taint);
                }
            }
        }
    }

    fn code_argument(&mut self, program: &str, code: &str, process: usize) {
        if has_hole(code) {
            self.trace
                .facts
                .push(Fact::RunsCode { process: Some(process), from: self.word_taint | Taint::PROGRAM });
            if code.chars().all(|c| c == super::word::HOLE) {
                self.trace.unknown(
                    UnknownKind::Code,
                    format!("`{program}` runs code that is not written in the command"),
                    true,
                );
                return;
            }
        } else if self.open_ended && (uses_arguments(code) || !program.starts_with("py")) {
            // Only Python takes no options of its own behind code.
            self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::PROGRAM });
        }
        self.code(code, process, 0);
    }

    fn script_argument(&mut self, script: &str, process: usize) {
        if has_hole(script) {
            self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::PROGRAM });
            return;
        }
        let data = self.content_of(script);
        if data.taint.has(Taint::NET) || data.taint.has(Taint::DECODED) || data.taint.has(Taint::FETCHED) {
            self.trace.facts.push(Fact::RunsCode { process: Some(process), from: data.taint });
        }
        if let Some(text) = data.exact() {
            let text = text.to_owned();
            self.code(&text, process, 0);
        } else if data.taint.has(Taint::UNREAD)
            || data.taint == Taint::FILE && self.has_read_enough()
            || data.taint.has(Taint::PROGRAM) && !data.taint.has(Taint::FILE)
        {
            self.trace.facts.push(Fact::RunsCode { process: Some(process), from: data.taint });
            self.note_unknown_code("an interpreter", data.taint);
        }
    }

    /// Finds what code does.
    pub(crate) fn code(&mut self, text: &str, process: usize, depth: usize) {
        if depth > MAX_DEPTH {
            return self.note_limit();
        }
        if !self.step() {
            return;
        }
        if starts_like_command(text) {
            self.run_found(text, process);
            return;
        }
        let found = scan::scan(text, self.place.home());
        self.trace.note(found.over);
        if found.reverse_shell {
            self.trace.facts.push(Fact::NetworkShell { process });
        }
        if found.fork_bomb {
            self.trace.facts.push(Fact::ForkBomb);
        }
        let starts = found.calls.iter().any(|call| !matches!(call, Call::Touch(_) | Call::Lists(_)));
        if starts || found.network || found.evaluates {
            self.trace.facts.push(Fact::CodeActs { process });
        }
        self.deletes_what_it_lists(&found.calls, process);
        let mut secret = false;
        for call in &found.calls {
            secret |= self.code_call(call, process, depth);
        }
        if secret && found.network {
            self.trace.facts.push(Fact::Sends { process, what: Taint::SECRET });
        }
        if found.environment && found.network {
            self.trace.facts.push(Fact::Sends { process, what: Taint::ENVIRONMENT });
        }
        if found.evaluates && found.network {
            self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::NET });
        }
        if found.evaluates {
            let read: Vec<String> = found.calls.iter().filter_map(Call::reads).map(str::to_owned).collect();
            for path in read {
                self.script_argument(&path, process);
            }
            if found.calls.iter().any(Call::fetches) {
                self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::NET });
            }
        }
        for literal in found.literals.iter().filter(|literal| starts_like_command(literal)) {
            self.run_found(literal, process);
        }
    }

    /// Code that lists a directory and deletes names which are not written in it deletes what it listed.
    fn deletes_what_it_lists(&mut self, calls: &[Call], process: usize) {
        let deletes_unknown = calls.iter().any(|call| match call {
            Call::Touch(touch) => touch.action == crate::effects::Action::Delete && has_hole(&touch.path),
            _ => false,
        });
        for folder in calls.iter().filter_map(|call| match call {
            Call::Lists(folder) if deletes_unknown => Some(folder),
            _ => None,
        }) {
            let mut touch = crate::effects::Touch::new(crate::effects::Action::Delete, folder.clone());
            touch.recursive = true;
            touch.searched = true;
            self.touch_by(Some(process), touch);
        }
    }

    /// Judges one call; true when it reads credentials.
    fn code_call(&mut self, call: &Call, process: usize, depth: usize) -> bool {
        match call {
            Call::Shell(text) => self.run_found(text, process),
            Call::Vector(argv) => {
                let argv = argv.clone();
                self.in_subshell(|shell| shell.dispatch(&argv, &Data::empty()));
            }
            Call::Code { text, from } => {
                if *from != Taint::NONE {
                    self.trace.facts.push(Fact::RunsCode { process: Some(process), from: *from });
                }
                if let Some(text) = text {
                    self.code(text, process, depth + 1);
                }
            }
            Call::Lists(_) => {}
            Call::Carrier(from) => {
                self.trace.facts.push(Fact::RunsCode { process: Some(process), from: *from });
            }
            Call::Touch(touch) => {
                let reads = touch.action == crate::effects::Action::Read;
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

    fn awk(&mut self, args: &[&str], process: usize) {
        let takes = self.programs.takes("awk");
        let options = Options::parse(args, takes);
        let named = options.value(Some('f'), "file");
        let mut programs: Vec<&str> = options.values(Some('e'), "source").collect();
        if programs.is_empty() && named.is_none() {
            programs.extend(options.operands.first());
        }
        for program in programs.into_iter().map(str::to_owned).collect::<Vec<_>>() {
            if program.chars().all(|c| c == super::word::HOLE) && !program.is_empty()
                || self.open_ended && program == super::word::HOLE.to_string()
            {
                self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::PROGRAM });
                continue;
            }
            let mut program = program;
            for (name, value) in options.values(Some('v'), "assign").filter_map(|pair| pair.split_once('=')) {
                let call = format!("system({name})");
                program = program.replace(&call, &format!("system({value:?})"));
            }
            let found = scan::awk(&program);
            self.trace.note(found.over);
            if found.network {
                self.trace.facts.push(Fact::NetworkShell { process });
            }
            let computed = found.calls.iter().any(|call| matches!(call, Call::Carrier(_)));
            if computed && found.calls.iter().any(Call::fetches) {
                self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::NET });
            }
            for call in &found.calls {
                self.code_call(call, process, 0);
            }
        }
        if let Some(file) = named {
            let file = file.to_owned();
            if has_hole(&file) || file == "-" {
                self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::PROGRAM });
            }
        }
    }

    /// The `e` command and flag of GNU sed.
    fn sed_commands(&mut self, args: &[&str], stdin: &Data, process: usize) {
        let options = Options::parse(args, self.programs.takes("sed"));
        let mut scripts: Vec<String> = options.values(Some('e'), "expression").map(str::to_owned).collect();
        if scripts.is_empty() {
            scripts.extend(options.operands.first().map(|script| (*script).to_owned()));
        }
        for script in scripts {
            for command in script.split([';', '\n']) {
                let command = command
                    .trim()
                    .trim_start_matches(|c: char| c.is_ascii_digit() || c == ',' || c == '$')
                    .trim();
                if let Some(text) = command.strip_prefix("e ") {
                    self.run_found(text, process);
                } else if let Some((replacement, flags)) = substitution(command)
                    && flags.contains('e')
                {
                    self.run_found(&replacement, process);
                    if let Some(text) = stdin.exact().map(str::to_owned) {
                        self.run_found(&text, process);
                    }
                }
            }
        }
    }

    fn powershell(&mut self, args: &[&str], stdin: &Data, process: usize) {
        let mut at = 0;
        while let Some(arg) = args.get(at) {
            at += 1;
            let lower = arg.to_ascii_lowercase();
            let Some(name) = lower.strip_prefix(['-', '/']).map(|name| name.trim_start_matches('-')) else {
                if let Some(data) = Some(self.content_of(arg)).filter(|data| data.taint.has(Taint::NET)) {
                    self.trace.facts.push(Fact::RunsCode { process: Some(process), from: data.taint });
                }
                let text = args.get(at - 1..).unwrap_or_default().join(" ");
                return self.power_code(&text, process);
            };
            let is = |full: &str| !name.is_empty() && full.starts_with(name);
            if name.starts_with('e') && (is("encodedcommand") || name == "ec" || name == "enc") {
                self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::DECODED });
                if let Some(text) = args.get(at).and_then(|text| scan::utf16_base64(text)) {
                    self.power_code(&text, process);
                }
                return;
            }
            if is("command") && name.starts_with('c') || name == "commandwithargs" {
                let text = args.get(at..).unwrap_or_default().join(" ");
                if has_hole(&text) && text.chars().all(|c| c == super::word::HOLE) {
                    self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::PROGRAM });
                }
                if text == "-" {
                    self.trace.facts.push(Fact::RunsCode { process: Some(process), from: stdin.taint });
                }
                return self.power_code(&text, process);
            }
            if is("file") && name.starts_with('f') {
                if let Some(script) = args.get(at) {
                    let script = (*script).to_owned();
                    self.script_argument(&script, process);
                }
                return;
            }
            if [
                "executionpolicy",
                "ex",
                "ep",
                "windowstyle",
                "w",
                "version",
                "inputformat",
                "outputformat",
                "workingdirectory",
                "configurationname",
            ]
            .contains(&name)
            {
                at += 1;
            }
        }
    }

    fn power_code(&mut self, text: &str, process: usize) {
        let lower = text.to_ascii_lowercase();
        let evaluates = ["iex", "invoke-expression", "scriptblock", "invoke-command"]
            .iter()
            .any(|word| lower.contains(word));
        let fetches = [
            "downloadstring",
            "downloadfile",
            "invoke-webrequest",
            "iwr",
            "irm",
            "invoke-restmethod",
            "net.webclient",
            "curl ",
            "wget ",
        ]
        .iter()
        .any(|word| lower.contains(word));
        if evaluates && fetches {
            self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::NET });
        }
        if lower.contains("frombase64string") && evaluates {
            self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::DECODED });
        }
        if lower.contains("net.sockets.tcpclient") && (lower.contains("getstream") || evaluates) {
            self.trace.facts.push(Fact::NetworkShell { process });
        }
        let text = super::windows::from_powershell(text, self.place);
        if text.contains("]::") {
            self.code(&text, process, 0);
        }
        self.pushed_code(&text);
    }

    fn pushed_code(&mut self, text: &str) {
        // The pipeline syntax of PowerShell is near enough for finding its commands.
        self.via.push("powershell".into());
        let text = text.trim().trim_matches(['"', '\'', '&', '{', '}']).to_owned();
        self.in_subshell(|shell| shell.run_text(&text, &Data::empty()));
        self.via.pop();
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
    let first = first.rsplit('/').next().unwrap_or(first);
    let named = COMMANDS.contains(&first) || first.starts_with("mkfs.");
    named && !rest.trim_start().starts_with(['=', '(', '.'])
}

/// Splits `s/a/b/flags` into replacement and flags.
fn substitution(command: &str) -> Option<(String, String)> {
    let rest = command.strip_prefix('s')?;
    let mut chars = rest.chars();
    let separator = chars.next().filter(|c| !c.is_alphanumeric() && !c.is_whitespace())?;
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for c in chars {
        if c == separator && !escaped {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            if escaped && c != separator {
                part.push('\\');
            }
            if c != '\\' || escaped {
                part.push(c);
            }
        }
        escaped = c == '\\' && !escaped;
    }
    match parts.as_slice() {
        [_, replacement, flags, ..] => Some((replacement.clone(), flags.clone())),
        _ => None,
    }
}
