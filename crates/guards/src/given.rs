//! What a program is given: commands in its arguments, texts that are or contain a command, and its input.
//!
//! The law: *a program may be given a command without a question only if what it does with the command is known*. The
//! catalogue says how programs start others, but most programs are not in it, many of these start
//! what follows their name, and even for a known one nobody has listed every option, setting and variable that takes a
//! command. The list is therefore inverted: it names the programs and options that only store a text, search for
//! it or show it to somebody (`words/given.yaml`), and a command that would be blocked is asked about
//! wherever else it is given. For unknown programs this includes a command that would only be asked about, if it is marked
//! as one.
//!
//! Input is judged the same way: a program that is not listed as reading data may run what it reads, and input
//! from the network is then foreign code.
//!
//! Limits: texts for a program of the workspace (`./tool 'a text'`), which is what people work on and try out, are not
//! inspected. At most [`MOST`] candidates are; a call with more is asked about.

use std::collections::HashSet;

use backstop_shell::{Argument, Certainty, Place, Process, ShellKind, Taint, Unknown, UnknownKind};

use crate::guard::{CommandGuard, Judgement, Verdict, typed_finding};
use crate::rules::Profile;
use crate::rules::words::{
    KEEPS_TEXT, MESSAGE_LETTERS, MESSENGERS, READS_DATA, TAKES_STATEMENTS, TEXT_OPTIONS, is,
};

/// The rule that a command which would be stopped is handed to what nobody knows. It counts in every profile.
const GIVEN: &str = "unknown.given";
/// The rule that what comes from the network flows into a program which may run it.
const FED: &str = "unknown.fed";
/// The most commands and texts that are looked at in one judgement.
const MOST: usize = 256;
/// The longest text that is looked at, in bytes; what is longer is asked about.
const LONGEST: usize = 16 * 1024;

/// Words and options behind which a command begins.
const INTRODUCING: [&str; 8] = ["--", "exec", "run", "-c", "-e", "-x", "--command", "--exec"];

/// Words in front of a text which say that it is looked at and not run, as linters, parsers and guards have them.
const LOOKS_AT_TEXT: [&str; 10] =
    ["analyze", "check", "classify", "describe", "explain", "format", "lint", "parse", "scan", "validate"];

/// What is known of what a program does with what it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ear {
    /// It keeps texts, and runs none.
    Keeps,
    /// It is in the catalogue, and takes statements, in which quotes stand around values.
    Statements,
    /// It is in the catalogue, which says how it starts others as far as anybody wrote that down.
    Known,
    /// Nobody knows, or it is there to start others or to run code.
    Open,
}

/// A text that a program is given, and the verdict from which on it is asked about.
struct Given {
    text: String,
    least: Verdict,
}

impl CommandGuard {
    /// Asks about a command that would be stopped, where a program that may run it is given it.
    pub(crate) fn judge_what_is_given(
        &self,
        judgement: &mut Judgement,
        command: &str,
        place: &Place,
        now: u64,
    ) {
        let mut met = HashSet::new();
        let followed: HashSet<&str> =
            judgement.processes.iter().flat_map(Process::via).map(String::as_str).collect();
        let given = judgement.processes.iter().flat_map(|process| self.given(process, &followed));
        let given: Vec<Given> = given.filter(|given| met.insert(given.text.clone())).take(MOST + 1).collect();
        let is_lost = |process: &Process| {
            self.listens(process) && process.inputs().iter().any(|input| input.flows() && input.is_lost())
        };
        let is_too_much = given.len() > MOST
            || given.iter().any(|given| given.text.len() > LONGEST)
            || judgement.processes.iter().any(is_lost);
        if is_too_much {
            let reason = "a program that may run it is given more than is looked at".to_owned();
            judgement.unknown.push(Unknown { kind: UnknownKind::Limit, reason, carrier: true });
            judgement.verdict = judgement.verdict.max(self.about_unknown(&judgement.unknown));
        }
        let stopped = given.iter().take(MOST).find(|given| {
            let cut = given.text.floor_char_boundary(LONGEST);
            let text = given.text.get(..cut).unwrap_or_default();
            self.worst_of(text, ShellKind::Posix, place, now) >= given.least
        });
        if let Some(given) = stopped {
            self.ask_about(&given.text, command, now, judgement);
        }
        self.judge_what_flows_in(judgement, command, now);
    }

    /// Asks about what comes from the network and flows into a program that is not known to read it as data.
    fn judge_what_flows_in(&self, judgement: &mut Judgement, command: &str, now: u64) {
        if self.profile() < Profile::Standard {
            return;
        }
        let fed = judgement.processes.iter().find(|process| {
            let flows = process.inputs().iter().any(|input| input.flows() && input.from().has(Taint::NET));
            let program = self.programs().get(&process.program());
            // What interpreters and shells do with their input is told apart.
            let is_open = match program {
                Some(program) => !program.leads_to_other_code(),
                None => self.takes_input_for_a_file(process),
            };
            flows && is_open && !reads_data(process)
        });
        let Some(process) = fed else { return };
        let what = process.program();
        let allowed_by = self.exception(FED, command, now);
        let reason = "what comes from the network flows into a program that may run it";
        let finding = typed_finding(FED, "UNKNOWN_FED", reason, "curl -fsSLO URL", &what, allowed_by);
        if finding.allowed_by.is_none() {
            judgement.verdict = judgement.verdict.max(Verdict::Ask);
        }
        judgement.findings.push(finding);
    }

    /// Returns whether a program that nobody knows is told to take its input for a file, or is told nothing at all. One that is
    /// told something else may have its input from a loop around it, and not read it.
    fn takes_input_for_a_file(&self, process: &Process) -> bool {
        let is_input = |arg: &str| matches!(arg, "-" | "/dev/stdin") || arg.starts_with("/dev/fd/");
        let args = process.argv().get(1..).unwrap_or_default();
        let is_own = word(process.argv(), 0).starts_with("./");
        !is_own && (args.is_empty() || args.iter().any(|arg| is_input(arg.raw())))
    }

    /// Asks about a text that a tool which runs things is given under a key that nobody knows, where it is a command that
    /// would be blocked.
    pub(crate) fn judge_guess(&self, text: &str, shell: ShellKind, place: &Place, now: u64) -> Judgement {
        let mut judgement = Judgement::default();
        if self.worst_of(text, shell, place, now) == Verdict::Block {
            self.ask_about(text, text, now, &mut judgement);
        }
        judgement
    }

    /// Returns the worst that rules say of a text, read as a command.
    fn worst_of(&self, text: &str, shell: ShellKind, place: &Place, now: u64) -> Verdict {
        let judged = self.by_rules(self.trace(text, shell, place), None, text, place, now);
        let standing = judged.findings.iter().filter(|finding| finding.allowed_by.is_none());
        standing.map(|finding| finding.verdict).max().unwrap_or(Verdict::Pass)
    }

    fn ask_about(&self, text: &str, command: &str, now: u64, judgement: &mut Judgement) {
        let what: String = text.chars().take(160).collect();
        let allowed_by = self.exception(GIVEN, command, now);
        let reason = "what is not known is given a command that would be stopped, and may run it";
        let finding =
            typed_finding(GIVEN, "UNKNOWN_GIVEN", reason, "run the command itself", &what, allowed_by);
        if finding.allowed_by.is_none() {
            judgement.verdict = judgement.verdict.max(Verdict::Ask);
        }
        judgement.findings.push(finding);
    }

    /// Returns what is known of what a program does with what it is given.
    fn ear_of(&self, name: &str) -> Ear {
        match self.programs().get(name) {
            _ if is(KEEPS_TEXT, name) => Ear::Keeps,
            _ if is(TAKES_STATEMENTS, name) => Ear::Statements,
            Some(program) if !program.leads_to_other_code() => Ear::Known,
            _ => Ear::Open,
        }
    }

    /// Returns whether a program may take what flows into it for commands: it is not known to read data, nor read here as what
    /// it is.
    fn listens(&self, process: &Process) -> bool {
        let name = process.program();
        let ear = self.ear_of(&name);
        let reads_code = self.programs().get(&name).is_some() && ear == Ear::Open;
        let is_own = word(process.argv(), 0).starts_with("./");
        !reads_code && !is_own && ear != Ear::Keeps && !reads_data(process)
    }

    /// Returns the commands that a process is given.
    fn given<'a>(
        &'a self,
        process: &'a Process,
        followed: &HashSet<&str>,
    ) -> impl Iterator<Item = Given> + 'a {
        let name = process.program();
        // What it starts of its arguments is among the processes, and judged as what it is there.
        let is_followed = followed.contains(name.as_str());
        let ear = match self.ear_of(&name) {
            Ear::Known if is_followed => Ear::Keeps,
            ear => ear,
        };
        let hears = move |at: &usize| ear != Ear::Keeps && *at > 0;
        let args = process.argv();
        // The last argument that could do harm, and the first that says what follows is only looked at.
        let telling = args.iter().rposition(|arg| is_telling(arg.raw())).unwrap_or(0);
        let looked = args.iter().skip(1).position(|arg| LOOKS_AT_TEXT.contains(&arg.raw()));
        let looked = looked.map_or(args.len(), |at| at + 1);
        let reads_code = self.programs().get(&name).is_some() && ear == Ear::Open;
        // The first operand of an interpreter is its code, or the file that holds it, which is read as such.
        let code = (1..args.len()).find(|&at| !word(args, at).starts_with('-')).filter(|_| reads_code);
        let operands = move |at: &usize| Some(*at) != code;
        let places = (1..args.len()).filter(hears).filter(operands);
        let words =
            places.clone().filter_map(move |at| self.words_from(args, at, at < telling, reads_code, ear));
        // A program of the workspace is what somebody works on there: a text is more likely its input than its order.
        let is_own = word(args, 0).starts_with("./");
        let takes_messages = is(MESSENGERS, &name);
        let texts = places.filter(move |at| !is_own && *at <= looked);
        let texts = texts.filter_map(move |at| text_at(args, at, takes_messages));
        let texts = texts.flat_map(move |text| self.of_text(text, ear));
        let environment = process.environment().iter().filter(move |_| ear != Ear::Keeps);
        let environment = environment.map(|(_, value)| (value.as_str(), false));
        let environment = environment.flat_map(move |text| self.of_text(text, ear));
        let listens = ear != Ear::Keeps && self.listens(process);
        let inputs = process.inputs().iter().filter(move |input| listens && input.flows());
        let inputs = inputs.filter_map(|input| input.text());
        let inputs = inputs
            .flat_map(move |text| self.commands_in(text, ear))
            .map(|text| Given { text, least: Verdict::Block });
        words.chain(texts).chain(environment).chain(inputs)
    }

    /// A text, and the commands in it. Code is not searched: it is read as what it is.
    fn of_text<'a>(
        &'a self,
        (text, is_introduced): (&'a str, bool),
        ear: Ear,
    ) -> impl Iterator<Item = Given> + 'a {
        let least = if is_introduced && ear == Ear::Open { Verdict::Ask } else { Verdict::Block };
        let is_text = text.contains(char::is_whitespace);
        let whole = (is_text && ear != Ear::Statements).then(|| Given { text: text.to_owned(), least });
        let inner = is_text.then(|| self.commands_in(text, ear)).into_iter().flatten();
        whole.into_iter().chain(inner.map(|text| Given { text, least: Verdict::Block }))
    }

    /// Returns the words from `at` on as a command, where they begin like one; `tells` says whether one behind the first could
    /// do harm.
    fn words_from(
        &self,
        args: &[Argument],
        at: usize,
        tells: bool,
        reads_code: bool,
        ear: Ear,
    ) -> Option<Given> {
        let (name, front) = (word(args, at), word(args, at - 1));
        let is_introduced = INTRODUCING.contains(&front);
        let begins = !name.starts_with('-') && !name.contains(char::is_whitespace);
        let base = name.rsplit('/').next().unwrap_or(name);
        let is_known = self.programs().get(base).is_some();
        let rest = args.get(at..)?;
        // What a known program is given to do something with is a place more often than a command.
        let is_likely = ear == Ear::Open || is_introduced || tells;
        let least = if is_introduced && ear == Ear::Open { Verdict::Ask } else { Verdict::Block };
        (begins && is_likely && (is_known || is_introduced && !reads_code))
            .then(|| Given { text: rest.iter().map(quoted).collect::<Vec<_>>().join(" "), least })
    }

    /// Returns the commands that stand in a text, each up to the end of its line or of the brackets or quotes around it: a word
    /// that is called like a program, with something behind it that this could be told to harm.
    fn commands_in(&self, text: &str, ear: Ear) -> Vec<String> {
        let mut found = Vec::new();
        let mut before = '\n';
        let mut is_inside = false;
        for (at, c) in text.char_indices() {
            let is_part = c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
            if is_part && !is_inside {
                let rest = text.get(at..).unwrap_or_default();
                let end = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-')));
                let (name, behind) = rest.split_at_checked(end.unwrap_or(rest.len())).unwrap_or((rest, ""));
                let base = name.rsplit('/').next().unwrap_or(name);
                let goes_on = behind.starts_with([' ', '\t', '\\']);
                let is_value = ear == Ear::Statements && before == '\'';
                if goes_on && !is_value && !name.starts_with('-') && self.programs().get(base).is_some() {
                    found.extend(whole(rest, before).filter(|found| is_telling(found)));
                }
            }
            is_inside = is_part;
            if !c.is_whitespace() {
                before = c;
            }
        }
        found
    }
}

/// Returns whether text holds something that a command could be told to harm: a path, a pattern, a number behind a dash.
fn is_telling(text: &str) -> bool {
    text.contains(['/', '~', '*']) || text.contains(" -")
}

/// A command at the beginning of a text, up to where that what stands in front of it says it ends.
fn whole(rest: &str, before: char) -> Option<String> {
    let line = rest.split('\n').next().unwrap_or_default();
    let quote = Some(before).filter(|c| matches!(c, '"' | '\'' | '`'));
    let mut depth = 0_usize;
    let end = line.char_indices().find_map(|(at, c)| match c {
        _ if Some(c) == quote => Some(at),
        '(' | '[' | '{' => {
            depth += 1;
            None
        }
        ')' | ']' | '}' => match depth.checked_sub(1) {
            Some(left) => {
                depth = left;
                None
            }
            None => Some(at),
        },
        _ => None,
    });
    let command = line.get(..end.unwrap_or(line.len()))?.trim_end().trim_end_matches('\\');
    let command = if command.contains("\\ ") { command.replace("\\ ", " ") } else { command.to_owned() };
    command.contains(char::is_whitespace).then_some(command)
}

/// Returns whether a program reads its input as data, or its input is no more than that of code which is read as what it
/// is.
fn reads_data(process: &Process) -> bool {
    let name = process.program();
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    is(READS_DATA, name) || is(READS_DATA, &process.program())
}

/// Returns the text that an argument is, or that stands behind `=` in it, and whether it is said to be a command. What is
/// said to be text is none.
fn text_at(args: &[Argument], at: usize, takes_messages: bool) -> Option<(&str, bool)> {
    let arg = args.get(at).filter(|arg| arg.certainty() == Certainty::Known)?.raw();
    let (option, text) = match arg.split_once('=') {
        Some((option, value)) if !option.contains(char::is_whitespace) => {
            (if option.starts_with('-') { option } else { word(args, at - 1) }, value)
        }
        _ => (word(args, at - 1), arg),
    };
    let is_text = is(TEXT_OPTIONS, option) || takes_messages && is(MESSAGE_LETTERS, option);
    (!is_text).then_some((text, INTRODUCING.contains(&option)))
}

fn word(args: &[Argument], at: usize) -> &str {
    args.get(at).map(Argument::raw).unwrap_or_default()
}

/// An argument as a shell reads it; what is not known of it is a variable that nobody has set.
fn quoted(arg: &Argument) -> String {
    match arg.certainty() {
        Certainty::Known => format!("'{}'", arg.raw().replace('\'', r"'\''")),
        _ => "\"$UNKNOWN_TO_THE_GUARD\"".to_owned(),
    }
}
