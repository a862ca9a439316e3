//! Input typed into a running program, judged as that program will read it.
//!
//! A program reads lines, not pieces: the beginning of a line that it already has and the new text are one line, in the
//! language of the program, and earlier input is the state in which it is read. The text is therefore judged as the
//! standard input of the command line that started the program, after everything it was given before. The
//! earlier part has already been judged.
//!
//! The law: *an unknown reader asks*. The reader is known as long as each of these holds; they are lists of
//! what is harmless:
//!
//! - the host says which command line started the program, and everything it was given since;
//! - that command line is one plain command, and exactly one program in it can read: a shell, Python, Node, or a
//!   database client;
//! - no character has a meaning for a terminal or a line editor (only the line feed is permitted), no line is
//!   longer than a terminal accepts, and nothing asks a shell for its history or changes how it reads;
//! - nothing that was typed before the last line can read instead of the program, or change how it reads.
//!
//! Input for an unknown reader is also judged as shell commands, so that it is never judged more mildly.

mod plain;

use backstop_shell::programs::Programs;
use backstop_shell::{
    MAX_BYTES, Place, Reader, ShellKind, Trace, Unknown, UnknownKind, is_whole, leaves_input_alone,
};

use self::plain::{NODE, PYTHON};
use crate::guard::{CommandGuard, Finding, Judgement, Verdict, typed_finding};

/// The rule for typed input whose reader is unknown. It applies in every profile.
pub const UNKNOWN_READER: &str = "terminal.unknown-reader";

/// Longest line that a terminal hands on whole, in bytes; what is longer it cuts.
const MAX_LINE: usize = 4095;

/// What a call types into a running program.
#[derive(Debug, Clone, Copy, Default)]
pub struct Typing<'a> {
    /// The command line that started the program.
    pub program: Option<&'a str>,
    /// The whole lines it was given before; `None` when they are not known.
    pub before: Option<&'a str>,
    /// The line of which it already has the beginning, and the new input.
    pub text: &'a str,
    /// Whether the host vouches for the other fields. What a model says about them proves nothing.
    pub vouched: bool,
}

/// The language of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    Shell,
    Python,
    Node,
    Statements,
}

impl CommandGuard {
    /// Judges what is typed into a program that runs at `place`, at the time `now` (seconds since 1970).
    pub fn judge_typed(&self, typing: &Typing<'_>, place: &Place, now: u64) -> Judgement {
        if typing.text.is_empty() {
            return Judgement::default();
        }
        let reader = self.reader(typing, place);
        let mut judgement = match typing.program {
            Some(program) => self.judge_input(program, typing, reader.ok(), place, now),
            None => self.judge(typing.text, ShellKind::Posix, place, now),
        };
        if let Err(why) = reader {
            if typing.program.is_some() {
                judgement.add(self.judge(typing.text, ShellKind::Posix, place, now));
            }
            let allowed_by = self.exception(UNKNOWN_READER, typing.text, now);
            if allowed_by.is_none() {
                let reason = format!("what reads it is not known: {why}");
                judgement.unknown.push(Unknown { kind: UnknownKind::Code, reason, carrier: true });
                judgement.verdict =
                    judgement.verdict.max(Verdict::Ask).max(self.about_unknown(&judgement.unknown));
            }
            judgement.findings.push(unknown_reader(why, allowed_by));
        }
        judgement
    }

    /// Judges the text as the input of the program, without what has been judged before.
    fn judge_input(
        &self,
        program: &str,
        typing: &Typing<'_>,
        language: Option<Language>,
        place: &Place,
        now: u64,
    ) -> Judgement {
        let before = typing.before.unwrap_or_default();
        let settled = match language {
            Some(Language::Shell) => is_settled(before),
            Some(Language::Statements) => before.trim_end().ends_with(';'),
            _ => false,
        };
        let known = self.trace_fed(program, if settled { before } else { "" }, place);
        let fed = self.trace_fed(program, &format!("{before}{}", typing.text), place);
        self.conclude(fed, Some(&known), typing.text, place, now)
    }

    /// Returns the language of what will read the text, or why that is not known.
    fn reader(&self, typing: &Typing<'_>, place: &Place) -> Result<Language, &'static str> {
        let (Some(program), true) = (typing.program, typing.vouched) else {
            return Err("nobody says which program it is");
        };
        let before = typing.before.ok_or("what was typed before is not known any more")?;
        let whole = format!("{before}{}", typing.text);
        if whole.len() > MAX_BYTES {
            return Err("more was typed than can be judged");
        }
        if whole.chars().any(|c| c.is_control() && c != '\n') {
            return Err("it holds control characters");
        }
        if whole.split('\n').any(|line| line.len() > MAX_LINE) {
            return Err("a line is longer than a terminal takes");
        }
        let language =
            self.started(program, place).ok_or("the program is no reader whose language is known")?;
        let last = whole.trim_end_matches('\n').rfind('\n').map_or(0, |at| at + 1);
        let head = whole.get(..last).unwrap_or_default();
        let certain = match language {
            Language::Shell => {
                if let Some(why) = changes_reading(&whole) {
                    return Err(why);
                }
                let alone = |text: &str| leaves_input_alone(&self.trace_fed(program, text, place));
                alone(&whole) || is_whole(head) && alone(head)
            }
            Language::Python => PYTHON.holds(&whole) || PYTHON.holds(head),
            Language::Node => NODE.holds(&whole) || NODE.holds(head),
            Language::Statements => plain::statements(&whole),
        };
        if certain {
            Ok(language)
        } else {
            Err("something typed before may read it, or change how it is read")
        }
    }

    /// Returns the language of the one program in the command line that reads what is typed.
    fn started(&self, program: &str, place: &Place) -> Option<Language> {
        let plain = |c: char| c.is_ascii_alphanumeric() || " _-./=:,@%+~'\"".contains(c);
        if !program.trim().trim_end_matches("2>&1").chars().all(plain) {
            return None;
        }
        let trace: Trace = self.trace(program, ShellKind::Posix, place);
        let [reader] = trace.readers.as_slice() else { return None };
        if trace.unknowns.iter().any(|unknown| unknown.carrier) {
            return None;
        }
        language_of(reader, &trace.programs)
    }
}

fn language_of(reader: &Reader, programs: &Programs) -> Option<Language> {
    let args: Vec<&str> = reader.argv.iter().skip(1).map(String::as_str).collect();
    if !programs.waits(&reader.program, &args) {
        return None;
    }
    let version = |c: char| c.is_ascii_digit() || c == '.';
    match reader.program.as_str() {
        "sh" | "bash" | "dash" | "ash" => {
            args.iter().all(|arg| SHELL_OPTIONS.contains(arg)).then_some(Language::Shell)
        }
        "node" => args.iter().all(|arg| *arg == "-i").then_some(Language::Node),
        "psql" | "mysql" | "mariadb" | "sqlite3" => Some(Language::Statements),
        python if python.trim_end_matches(version) == "python" => {
            args.iter().all(|arg| matches!(*arg, "-i" | "-q" | "-u" | "-B")).then_some(Language::Python)
        }
        _ => None,
    }
}

/// Options with which a shell reads what it would read without them.
const SHELL_OPTIONS: &[&str] =
    &["-i", "-l", "--login", "--norc", "--noprofile", "-e", "-u", "-x", "-eu", "-s"];

/// Words behind which a shell reads otherwise: other input, other keys, other lines, other names.
const READING_WORDS: &[&str] = &[
    "exec",
    "set",
    "setopt",
    "unsetopt",
    "emulate",
    "shopt",
    "enable",
    "disable",
    "bind",
    "bindkey",
    "stty",
    "fc",
    "history",
    "trap",
    "coproc",
    "select",
    "vared",
    "zle",
    "alias",
    "unalias",
    "hash",
    "fg",
    "bg",
    "suspend",
    "IFS",
    "PATH",
    "ENV",
    "BASH_ENV",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS2",
    "PS3",
    "PS4",
    "TMOUT",
    "histchars",
    "INPUTRC",
    "command_not_found_handle",
    "command_not_found_handler",
    "precmd",
    "preexec",
    "chpwd",
    "periodic",
    "zshexit",
];

/// Returns why a shell may read other lines than were typed.
fn changes_reading(text: &str) -> Option<&'static str> {
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    if words.any(|word| READING_WORDS.contains(&word) || word.starts_with("TRAP")) {
        return Some("it may change how the shell reads");
    }
    let history = |at: usize| !text.get(at + 1..).unwrap_or_default().starts_with([' ', '=', '\n']);
    if text.match_indices('!').any(|(at, _)| history(at))
        || text.split('\n').any(|line| line.starts_with('^'))
    {
        return Some("a shell may put a line of its history there");
    }
    let devices = text.replace("/dev/null", "");
    if text.contains("<&") || devices.contains("/dev/") || text.contains("/proc/") {
        return Some("it may reach the program's input by another name");
    }
    None
}

/// Returns whether the lines are finished in the grammar of every shell, so that nothing typed behind them changes what
/// they were.
fn is_settled(before: &str) -> bool {
    !before.contains(['#', '`']) && !before.contains("$'") && !before.contains("$\"") && is_whole(before)
}

fn unknown_reader(why: &str, allowed_by: Option<String>) -> Finding {
    typed_finding(
        UNKNOWN_READER,
        "UNKNOWN_READER",
        "it is typed into a program, and what that program makes of it is not known",
        "run it as a command of its own, or give what reads along its input by `< /dev/null`",
        why,
        allowed_by,
    )
}

#[cfg(test)]
mod tests;
