//! Protected paths that are passed to a program when nobody knows what it does with them.
//!
//! The law: *a protected path is assumed to be touched by whatever program it is passed to*. The catalogue says for many
//! programs which of their arguments are files, and rules judge that. But there are options that write a log, statements
//! that read a file and settings that name one, and nobody lists them all. A credential of the system or of a user, or a
//! disk, in the arguments of a process without a known touch is therefore asked about, unless the program only looks at
//! names, or the option gives it a key of its own (`words/given.yaml`).
//!
//! A file that an editor, a build or a hook manager runs by itself ([`Level::Runs`]) is asked about in the same way if it
//! is passed to a program that may write it. The list names the programs that only read such arguments, not those that
//! write.
//!
//! Limits: only credential paths that start at the root or a home are looked for. In code, a complete text counts, but not
//! a path within prose.

use std::collections::HashSet;

use backstop_shell::programs::Program;
use backstop_shell::{Argument, Fact, Place, Process, Trace, paths};

use crate::guard::{CommandGuard, Finding, typed_finding};
use crate::paths::{Class, Level, class, sensitive};
use crate::rules::Profile;
use crate::rules::words::{
    FILTERS, KEEPS_TEXT, LOOKS, LOOKS_AT_NAMES, MESSAGE_LETTERS, MESSENGERS, OUTPUT_OPTIONS, OWN_KEY_OPTIONS,
    READS_NAMED, SETTINGS_OPTIONS, TAKES_STATEMENTS, TEXT_OPTIONS, is,
};

/// The rule that a protected path is named to a program in a way that nobody knows.
const NAMED: &str = "unknown.path";
/// Families whose files are handed to tools by name all day long: of a project's own settings, of a cluster, of certificates.
const HANDED_AROUND: [&str; 3] = ["env-file", "key-file", "kubernetes"];

/// A path in an argument.
struct Named<'a> {
    path: &'a str,
    /// What stands in front of it: the word before, or the option that it is attached to.
    front: &'a str,
    /// Whether it is the whole argument, the whole value, or a whole quoted text.
    is_whole: bool,
}

impl CommandGuard {
    /// A question about a protected path that a process is named without a touch of it being known.
    pub(crate) fn judge_what_is_named(
        &self,
        trace: &Trace,
        command: &str,
        place: &Place,
        now: u64,
    ) -> Option<Finding> {
        let mut touched: Option<HashSet<&str>> = None;
        let mut is_touched = |path: &str| {
            let touched = touched.get_or_insert_with(|| {
                let touches = trace.facts.iter().filter_map(|fact| match fact {
                    Fact::Touches { touch, .. } => Some(touch.resolved.as_str()),
                    _ => None,
                });
                touches.collect()
            });
            touched.contains(path)
        };
        let path = trace.processes.iter().find_map(|process| {
            let name = process.program();
            let is_filter = is(FILTERS, &name);
            if is(KEEPS_TEXT, &name) && !is_filter || is(LOOKS_AT_NAMES, &name) {
                return None;
            }
            let reads_code =
                is_filter || self.programs().get(&name).is_some_and(Program::leads_to_other_code);
            let named = named(process, is(MESSENGERS, &name));
            let mut named = named.filter(|named| named.is_whole || !reads_code);
            named.find_map(|named| {
                let path = resolved(named.path, process, place);
                let is_meant = self.is_protected(&path, place)
                    && !is(OWN_KEY_OPTIONS, &named.front.to_ascii_lowercase());
                // Of a program that nobody knows it is only guessed that it reads what it is given.
                let is_guessed =
                    || class::of(&path, place) == Class::Device && self.programs().get(&name).is_none();
                (is_meant && (!is_touched(&path) || is_guessed())).then_some(path)
            })
        })?;
        let allowed_by = self.exception(NAMED, command, now);
        let reason = "a protected file is named to a program of which nobody knows what it does with it";
        Some(typed_finding(NAMED, "UNKNOWN_PATH", reason, "name a file of the workspace", &path, allowed_by))
    }

    /// A question about a file that something runs of its own accord, which is named to a program that may write it: one that is
    /// not known only to read, or any behind an option that says where to write.
    pub(crate) fn judge_what_may_be_rewritten(
        &self,
        trace: &Trace,
        command: &str,
        place: &Place,
        now: u64,
    ) -> Option<Finding> {
        if self.profile() < Profile::Standard {
            return None;
        }
        // What stands in the arguments of a wrapper stands in those of what it starts, too.
        let wrappers: HashSet<&str> =
            trace.processes.iter().flat_map(Process::via).map(String::as_str).collect();
        let path = trace.processes.iter().find_map(|process| {
            let name = process.program();
            let reads = is(READS_NAMED, &name)
                || is(KEEPS_TEXT, &name) && !(is(FILTERS, &name) && process.argv().iter().any(is_in_place))
                || wrappers.contains(name.as_str())
                || only_looks(&name, process);
            let takes_statements = is(TAKES_STATEMENTS, &name);
            (1..process.argv().len()).find_map(|at| {
                let word = |at: usize| process.argv().get(at).map(Argument::raw).unwrap_or_default();
                let (arg, before) = (word(at), word(at - 1));
                let (front, text) =
                    arg.split_once('=').filter(|(front, _)| front.starts_with('-')).unwrap_or((before, arg));
                let is_written = is(OUTPUT_OPTIONS, front);
                let is_read = reads && !is_written
                    || is(TEXT_OPTIONS, front)
                    || is(SETTINGS_OPTIONS, front)
                    || is(MESSENGERS, &name) && is(MESSAGE_LETTERS, front);
                let words = text.split(char::is_whitespace);
                let words =
                    words.map(|word| word.trim_matches(['\'', '"', ';'])).filter(|word| !word.is_empty());
                let mut words = words
                    .take_while(|_| !is_read && (takes_statements || !text.contains(char::is_whitespace)));
                words.find_map(|word| {
                    let path = resolved(word, process, place);
                    sensitive::find(&path, place)
                        .is_some_and(|entry| entry.level == Level::Runs)
                        .then_some(path)
                })
            })
        })?;
        let allowed_by = self.exception(NAMED, command, now);
        let reason = "a file that something runs by itself is named to a program of which nobody knows that it only reads";
        Some(typed_finding(
            NAMED,
            "UNKNOWN_PATH",
            reason,
            "name it to a program that reads",
            &path,
            allowed_by,
        ))
    }

    /// Returns whether what is named is a disk, or holds credentials that nobody hands around.
    fn is_protected(&self, path: &str, place: &Place) -> bool {
        if class::of(path, place) == Class::Device {
            return true;
        }
        self.profile() >= Profile::Standard
            && sensitive::find(path, place)
                .is_some_and(|entry| entry.level == Level::Secret && !HANDED_AROUND.contains(&entry.id))
    }
}

/// Returns whether the program, or the subcommand that it is given, is called what looks and changes nothing: `ci-lint`,
/// `tool validate`.
fn only_looks(name: &str, process: &Process) -> bool {
    let subcommand = process.argv().get(1).map(Argument::raw).unwrap_or_default();
    name.split(['-', '_', '.']).chain([subcommand]).any(|part| is(LOOKS, part))
}

/// `-i`, also beside other letters, and `--in-place`: a filter writes its result over what it read.
fn is_in_place(option: &Argument) -> bool {
    let option = option.raw();
    let letters = option.strip_prefix('-').filter(|letters| letters.len() < 8 && !letters.starts_with('-'));
    option.starts_with("--in-place")
        || option.starts_with("--inplace")
        || letters.is_some_and(|letters| letters.contains('i'))
}

fn resolved(path: &str, process: &Process, place: &Place) -> String {
    match path.strip_prefix('~') {
        Some(rest) => paths::lexical(&format!("{}{rest}", place.home()), "/"),
        None => paths::lexical(path, process.cwd().unwrap_or("/")),
    }
}

/// Returns the paths from the root or a home that stand in the arguments of a process.
fn named(process: &Process, takes_messages: bool) -> impl Iterator<Item = Named<'_>> {
    let args = process.argv();
    let word = |at: usize| args.get(at).map(Argument::raw).unwrap_or_default();
    let places = (1..args.len()).filter(move |at| word(*at).contains('/'));
    places.flat_map(move |at| {
        let (arg, front) = (word(at), word(at - 1));
        let (front, text) = match arg.split_once('=').filter(|(option, _)| option.starts_with('-')) {
            Some((option, value)) => (option, value),
            None => (front, arg),
        };
        let is_text =
            is(TEXT_OPTIONS, front) || takes_messages && is(MESSAGE_LETTERS, front) && !text.contains('@');
        (!is_text).then(|| paths_in(text, front)).into_iter().flatten()
    })
}

/// Returns the paths in a text, each with what stands in front of it.
fn paths_in<'a>(text: &'a str, front: &'a str) -> impl Iterator<Item = Named<'a>> {
    let ends = |c: char| c.is_whitespace() || "\"'`,;()<>[]{}|&".contains(c);
    let starts = text.char_indices().filter(move |(at, c)| {
        let before = text.get(..*at).and_then(|front| front.chars().next_back());
        let begins =
            before.is_none_or(|c| ends(c) || matches!(c, '=' | '@')) || text.get(..*at) == Some("file://");
        // `-o/etc/x`: the value of an option of one letter.
        let attached = *at == 2 && text.starts_with('-');
        (*c == '/' || *c == '~')
            && (begins || attached || text.get(..*at).is_some_and(|front| front.ends_with("file://")))
    });
    starts.map(move |(at, _)| {
        let (head, rest) = text.split_at_checked(at).unwrap_or((text, ""));
        let end = rest.find(|c| ends(c) || c == ':').unwrap_or(rest.len());
        let (path, behind) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let quote = head.strip_suffix("file://").unwrap_or(head).chars().next_back();
        let is_whole = match quote {
            None | Some('=' | '@' | '<' | '>') => behind.is_empty(),
            Some(quote @ ('"' | '\'' | '`')) => behind.starts_with(quote),
            Some(_) => false,
        };
        let last = head.split_whitespace().next_back().filter(|_| head.ends_with(char::is_whitespace));
        Named {
            path,
            front: last
                .or((at > 0 && head.ends_with('=')).then(|| head.trim_end_matches('=')))
                .unwrap_or(front),
            is_whole,
        }
    })
}
