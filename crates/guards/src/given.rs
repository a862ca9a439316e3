//! What a program that nobody knows is given: commands in its arguments, and texts that are one.
//!
//! The law: *what a program does with a command that it is given is its own affair only where the program is known*. The
//! catalogue says of programs how they start others; most programs of the world are not in it, and many of those exist to
//! start what stands behind their name. So a command that would be stopped by itself is asked about where a program that
//! nobody knows, or code that takes arguments, gets it as words, as a text or in its environment.
//!
//! Limits: what reaches such a program by its standard input or a file is not looked at here, and neither are texts for a
//! program of the workspace (`./tool 'a text'`), which is what somebody works on and tries out. [`MOST`] candidates are
//! looked at, and whoever gives more is asked about.

use backstop_shell::{Argument, Certainty, Place, Process, ShellKind, Unknown, UnknownKind};

use crate::guard::{CommandGuard, Judgement, Verdict, typed_finding};

/// The rule that a command which would be stopped is handed to what nobody knows. It counts in every profile.
const GIVEN: &str = "unknown.given";
/// The most commands and texts that are looked at in one judgement. No tool is given more of them.
const MOST: usize = 64;
/// The longest text that is looked at, in bytes; what is longer is asked about.
const LONGEST: usize = 16 * 1024;

/// Builtins and programs that do nothing with a text but keep it, show it, or name something by it, beyond those of the
/// catalogue (bash(1) 5.2, "SHELL BUILTIN COMMANDS"; notes of Jujutsu 0.25, Mercurial 6, Subversion 1.14; dialog(1) 1.3).
const KEEPS_TEXT: [&str; 22] = [
    ":", "alias", "bind", "declare", "dialog", "export", "false", "hg", "history", "jj", "let", "local",
    "printf", "readonly", "shift", "svn", "trap", "true", "typeset", "unset", "whiptail", "zenity",
];
/// Words and options behind which a command begins.
const INTRODUCING: [&str; 8] = ["--", "exec", "run", "-c", "-e", "-x", "--command", "--exec"];

/// Words in front of a text which say that it is looked at and not run, as linters, parsers and guards have them.
const LOOKS_AT_TEXT: [&str; 10] =
    ["analyze", "check", "classify", "describe", "explain", "format", "lint", "parse", "scan", "validate"];

/// A command that a program is given, and whether it is said there that it is one.
struct Given {
    text: String,
    is_introduced: bool,
}

impl CommandGuard {
    /// Asks about a command that would be stopped, where a program that nobody knows is given it.
    pub(crate) fn judge_what_is_given(
        &self,
        judgement: &mut Judgement,
        command: &str,
        place: &Place,
        now: u64,
    ) {
        let listeners = judgement.processes.iter().filter(|process| self.may_listen(process));
        let given: Vec<Given> = listeners.flat_map(|process| self.given(process)).take(MOST + 1).collect();
        let is_too_much = given.len() > MOST || given.iter().any(|given| given.text.len() > LONGEST);
        if is_too_much {
            let reason = "a program that nobody knows is given more than is looked at".to_owned();
            judgement.unknown.push(Unknown { kind: UnknownKind::Limit, reason, carrier: true });
            judgement.verdict = judgement.verdict.max(self.about_unknown(&judgement.unknown));
        }
        let stopped = given.iter().take(MOST).find(|given| {
            let cut = given.text.floor_char_boundary(LONGEST);
            let text = given.text.get(..cut).unwrap_or_default();
            let worst = self.worst_of(text, ShellKind::Posix, place, now);
            worst == Verdict::Block || worst == Verdict::Ask && given.is_introduced
        });
        if let Some(given) = stopped {
            self.ask_about(&given.text, command, now, judgement);
        }
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

    /// The worst that rules say of a text, read as a command.
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

    /// Whether it is not known what a process does with what it is given.
    fn may_listen(&self, process: &Process) -> bool {
        let name = process.program();
        match self.programs().get(&name) {
            Some(program) => program.leads_to_other_code(),
            None => !KEEPS_TEXT.contains(&name.as_str()),
        }
    }

    /// The commands that a process is given.
    fn given<'a>(&'a self, process: &'a Process) -> impl Iterator<Item = Given> + 'a {
        let args = process.argv();
        let reads_code = self.programs().get(&process.program()).is_some();
        // The first operand of an interpreter is its code, or the file that holds it, which is read as such.
        let code = (1..args.len()).find(|&at| !word(args, at).starts_with('-')).filter(|_| reads_code);
        let operands = move |at: &usize| Some(*at) != code;
        let words =
            (1..args.len()).filter(operands).filter_map(move |at| self.words_from(args, at, reads_code));
        // A program of the workspace is what somebody works on there: a text is more likely its input than its order.
        let is_own = word(args, 0).starts_with("./");
        let is_looked_at = move |at: usize| {
            let front = args.get(1..at).unwrap_or_default();
            front.iter().any(|arg| LOOKS_AT_TEXT.contains(&arg.raw()))
        };
        let texts = (1..args.len()).filter(operands).filter(move |at| !is_own && !is_looked_at(*at));
        let texts = texts.filter_map(move |at| text_at(args, at));
        let environment =
            process.environment().iter().filter(|(_, value)| value.contains(char::is_whitespace));
        let environment = environment.map(|(_, value)| Given { text: value.clone(), is_introduced: false });
        words.chain(texts).chain(environment)
    }

    /// The words from `at` on as a command, where they begin like one.
    fn words_from(&self, args: &[Argument], at: usize, reads_code: bool) -> Option<Given> {
        let (name, front) = (word(args, at), word(args, at - 1));
        let is_introduced = INTRODUCING.contains(&front);
        let begins = !name.starts_with('-') && !name.contains(char::is_whitespace);
        let base = name.rsplit('/').next().unwrap_or(name);
        let is_known = self.programs().get(base).is_some();
        let rest = args.get(at..)?.iter();
        (begins && (is_known || is_introduced && !reads_code))
            .then(|| Given { text: rest.map(quoted).collect::<Vec<_>>().join(" "), is_introduced })
    }
}

/// The text that an argument is, or that stands behind `=` in it.
fn text_at(args: &[Argument], at: usize) -> Option<Given> {
    let arg = args.get(at).filter(|arg| arg.certainty() == Certainty::Known)?.raw();
    let (option, text) = match arg.split_once('=') {
        Some((option, value)) if option.starts_with('-') && !option.contains(char::is_whitespace) => {
            (option, value)
        }
        _ => (word(args, at - 1), arg),
    };
    let is_introduced = INTRODUCING.contains(&option);
    text.contains(char::is_whitespace).then(|| Given { text: text.to_owned(), is_introduced })
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
