//! What programs do to something that is not on this machine, judged by their words.
//!
//! Nobody can list the clients of all services, so the lists are inverted: one names the programs that reach only
//! this machine (`words/programs.yaml`, with the clients whose verbs have rules of their own), and one names the
//! words that only read or create something (`words/verbs.yaml`). If the words of any other program say that something is
//! deleted, ended or released, a human should be asked.
//!
//! More words count for programs that are known to manage something remote than for unknown programs, because package
//! managers use `remove x`, too. A program that is started by its path inside the workspace is the project's own, unless it
//! has the name of a client of a service, like programs that package managers put there.
//!
//! A word anywhere can say that something is done, but only one of the first few can say that nothing is. Limits: for an
//! unknown program it is unknown where its operands begin, so a file that is named like a verb counts as one, and
//! values of options are ignored from the second word on.

use std::borrow::Cow;

use backstop_shell::marks::has_hole;
use backstop_shell::{Argument, Place, Process, paths};

use super::library;
use super::words::{
    CHANGES, CMDLETS, ENDS, FIRM_CHANGES, FIRM_RELEASES, IGNORES_OPTIONS, INSISTS, LIVE, LOADS, LOCAL, NAMED,
    OVERWRITING, OWN, OWN_THINGS, PLACES, PLAYERS, PRODUCTION, READS, REHEARSAL_STAGES, REHEARSES, RELEASES,
    REMADE, REMOVES, RUNNER, SENDS, SERVICE, SERVICE_MODULES, SHELLS_ELSEWHERE, STATES, is,
};
use crate::paths::{Class, class};

/// How many words of a command line are believed when they say that it does no harm.
const LEADING: usize = 6;

/// A longer word is not believed then.
const LONGEST: usize = 40;

/// Nor does a longer value say that only a rehearsal is meant, in bytes.
const LONGEST_STAGE: usize = 200;

/// What is known of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It reaches this machine alone.
    Local,
    /// It runs tasks of a project, or is a script of it.
    Runner,
    /// A client of a service whose verbs have rules of their own.
    Own,
    /// A client of a service.
    Service,
    /// Not known.
    Unknown,
}

/// What a word says is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Reads,
    Ends,
    Removes,
    Releases,
    Sends,
}

/// A command line, as far as it tells what is done.
struct Line<'a> {
    kind: Kind,
    /// The program without folder, version and ending.
    name: String,
    /// Whether it is written as commands of PowerShell are, or stands in its code.
    is_cmdlet: bool,
    args: Vec<&'a str>,
    /// The words that could be verbs, or be what these are about.
    words: Vec<&'a str>,
    /// Whether a variable that says where programs work names production.
    is_set_to_production: bool,
}

/// Returns whether a program deletes or ends something that it manages elsewhere.
pub(super) fn ends(process: &Process, at: &Place) -> bool {
    Line::read(process, at).is_some_and(|line| line.ends())
}

/// Returns whether a program brings something to those who use it.
pub(super) fn releases(process: &Process, at: &Place) -> bool {
    Line::read(process, at).is_some_and(|line| line.releases())
}

/// Returns whether a client of a service sends a message to people.
pub(super) fn sends(process: &Process, at: &Place) -> bool {
    Line::read(process, at).is_some_and(|line| {
        line.kind == Kind::Service && line.verb().is_some_and(|(verb, _)| verb == Verb::Sends)
    })
}

/// Returns whether a program changes what is called production.
pub(super) fn changes_production(process: &Process, at: &Place) -> bool {
    Line::read(process, at).is_some_and(|line| line.changes_production())
        || changes_production_by_shell(process)
}

/// `ssh HOST COMMAND` where the host is called production: whether the command says that it changes something there.
fn changes_production_by_shell(process: &Process) -> bool {
    if !is(SHELLS_ELSEWHERE, &process.program()) {
        return false;
    }
    let mut args = process.argv().iter().skip(1).map(Argument::raw);
    let host = args.find(|arg| !arg.starts_with('-') && names_production(arg));
    let told: Vec<&str> = args.collect();
    host.is_some()
        && told.join(" ").split([';', '|', '&', '\n']).any(|command| {
            command.split_whitespace().any(|word| {
                let word = &*unquoted(word);
                is(FIRM_CHANGES, word) || is(ENDS, word) || matches!(word, "reload" | "stop" | "start" | "rm")
            })
        })
}

/// A word without the quotes in it, as a shell reads it; one in which a quote only begins or ends is a part of a text.
fn unquoted(word: &str) -> Cow<'_, str> {
    let closes = |quote: char| word.matches(quote).count().is_multiple_of(2);
    match word.contains(['"', '\'', '\\']) && closes('"') && closes('\'') {
        true => Cow::Owned(word.replace(['"', '\'', '\\'], "")),
        false => Cow::Borrowed(word),
    }
}

/// Returns whether a module of a language is the library of a service, by the first part of its name.
pub(super) fn is_service_module(name: &str) -> bool {
    let ends = ["_client", "_python", "_api", "_ruby", "_node", "py"];
    let short = ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    [name, short].iter().any(|name| is(SERVICE_MODULES, name) || name.len() > 3 && is(SERVICE, name))
}

/// Returns whether what a call is about is made again by itself.
pub(super) fn is_remade_thing(name: &str) -> bool {
    is(REMADE, name)
        || matches!(
            name,
            "listener" | "eventlistener" | "all_listeners" | "alllisteners" | "child" | "attribute" | "item"
        )
}

impl<'a> Line<'a> {
    /// Returns the command line of a process; none if it only rehearses, or the program is computed.
    fn read(process: &'a Process, at: &Place) -> Option<Self> {
        let (program, args) = process.argv().split_first()?;
        let args: Vec<&str> = args.iter().map(Argument::raw).collect();
        let (kind, name) = kind_of(program.raw(), process, at)?;
        let ignores = is(IGNORES_OPTIONS, &name);
        let rehearses = |arg: &&str| is_rehearsal(arg) && (!ignores || is_question(arg));
        if kind == Kind::Local || args.iter().any(rehearses) {
            return None;
        }
        let is_last = |word| args.last() == Some(&word);
        let asks = is_last("-h") || is_last("help") || args.first() == Some(&"help");
        let words = words_of(&args);
        let shells = ["pwsh", "powershell"];
        let is_cmdlet =
            is_verb_and_noun(program.raw()) || process.via().iter().any(|via| shells.contains(&via.as_str()));
        let is_set_to_production = process.environment().iter().any(|(name, value)| {
            let name = name.to_ascii_lowercase();
            is(PLACES, name.rsplit('_').next().unwrap_or_default()) && names_production(value)
        });
        (!asks).then_some(Self { kind, name, is_cmdlet, args, words, is_set_to_production })
    }

    fn ends(&self) -> bool {
        match self.kind {
            Kind::Service => {
                self.is_named_for_it()
                    || self.verb().is_some_and(|(verb, _)| matches!(verb, Verb::Ends | Verb::Removes))
                    || !self.looks()
                        && (self.has_ending_option()
                            || self.has_ending_state()
                            || self.has_ending_statement())
            }
            Kind::Unknown => {
                self.is_named_for_it()
                    || self.verb().is_some_and(|(verb, nth)| match verb {
                        Verb::Ends => true,
                        // Words of package managers: only behind what they are about, or where nobody is to be asked.
                        Verb::Removes => nth > 0 && self.words.len() > nth + 1 || self.is_insisted(),
                        _ => false,
                    })
                    || !self.looks() && self.overwrites()
            }
            Kind::Local | Kind::Runner | Kind::Own => false,
        }
    }

    fn releases(&self) -> bool {
        let counts = match self.kind {
            Kind::Service => true,
            Kind::Unknown => {
                self.leading().next().is_some_and(|word| is(FIRM_RELEASES, &word.to_ascii_lowercase()))
            }
            Kind::Local | Kind::Runner | Kind::Own => false,
        };
        let is_stage = |value: &str| pieces(value).any(|piece| is(REHEARSAL_STAGES, &piece));
        let at_rehearsal = || self.values().any(|value| value.len() < LONGEST_STAGE && is_stage(value));
        let by_option = || {
            let mut options = self.long_options();
            self.kind == Kind::Service
                && !self.looks()
                && options.any(|name| name.split('-').any(|part| is(FIRM_RELEASES, part)))
        };
        let says = || self.verb().is_some_and(|(verb, _)| verb == Verb::Releases);
        counts && (says() || by_option()) && !at_rehearsal()
    }

    fn changes_production(&self) -> bool {
        let script = || {
            let mut parts = self.name.split(['-', '_', '.']);
            parts.any(|part| is(FIRM_CHANGES, part))
        };
        let firm = || self.words.iter().any(|word| verbs_in(word).any(|part| is(FIRM_CHANGES, &part)));
        let changes = match self.kind {
            Kind::Local => false,
            Kind::Runner => firm() || script(),
            Kind::Unknown => firm(),
            Kind::Service | Kind::Own => {
                is(PLAYERS, &self.name)
                    || self.words.iter().any(|word| {
                        verbs_in(word)
                            .any(|part| is(CHANGES, &part) || is(ENDS, &part) || is(RELEASES, &part))
                    })
            }
        };
        let about_settings = || self.leading().any(|word| is(REMADE, &word.to_ascii_lowercase()));
        let players_check = is(PLAYERS, &self.name) && self.args.contains(&"-C");
        changes
            && !players_check
            && !self.looks()
            && !about_settings()
            && (self.values().any(names_production) || self.is_set_to_production)
    }

    /// Returns the first words, which are believed when they say that no harm is done.
    fn leading(&self) -> impl Iterator<Item = &'a str> {
        self.words.iter().copied().filter(|word| word.len() <= LONGEST).take(LEADING)
    }

    /// Returns what is done, and by which of the words it is said.
    fn verb(&self) -> Option<(Verb, usize)> {
        let (nth, verb, parts) = self.words.iter().enumerate().find_map(|(nth, word)| {
            let (verb, parts) = verb_of(word)?;
            Some((nth, verb, parts))
        })?;
        let is_remade = |word: &str| {
            let word = word.to_ascii_lowercase();
            is(REMADE, &word) || self.kind == Kind::Unknown && is(OWN_THINGS, &word)
        };
        let before = nth.checked_sub(1).and_then(|before| self.words.get(before));
        let after = self.words.get(nth + 1).filter(|_| nth == 0);
        let harmless = parts.iter().any(|part| is_remade(part))
            || before.into_iter().chain(after).any(|word| is_remade(word));
        // `release list`: a verb that is a noun, too, is one in front of another verb.
        let noun = verb != Verb::Ends
            && self
                .words
                .iter()
                .take(LEADING)
                .skip(nth + 1)
                .any(|word| is(READS, &word.to_ascii_lowercase()));
        (verb != Verb::Reads && !harmless && !noun).then_some((verb, nth))
    }

    /// Returns whether some word says that the program only looks, or makes something new.
    fn looks(&self) -> bool {
        self.leading().any(|word| verb_of(word).is_some_and(|(verb, _)| verb == Verb::Reads))
    }

    /// `cloud-nuke`, `k3s-uninstall.sh`, `Remove-AzVM`: all that the program does is to end something.
    fn is_named_for_it(&self) -> bool {
        if self.kind == Kind::Service && self.name.split(['-', '_', '.']).skip(1).any(|part| is(ENDS, part)) {
            return true;
        }
        if self.is_cmdlet {
            return self.name.split_once('-').is_some_and(|(verb, _)| is(CMDLETS, verb));
        }
        let parts = || self.name.split(['-', '_', '.']);
        parts().count() > 1
            && parts().any(|part| is(NAMED, part))
            && !parts().any(|part| is(REMADE, part) || is(OWN_THINGS, part))
    }

    /// `--yes`, `--force`: nobody is to be asked.
    fn is_insisted(&self) -> bool {
        self.args
            .iter()
            .any(|arg| is(INSISTS, arg.to_ascii_lowercase().trim_start_matches('-')) && arg.starts_with('-'))
    }

    fn long_options(&self) -> impl Iterator<Item = String> {
        let named = self.args.iter().filter_map(|arg| arg.strip_prefix("--"));
        named.map(|name| name.split('=').next().unwrap_or_default().to_ascii_lowercase())
    }

    /// `--purge`, `--delete-data`, and `--overwrite` where a store is filled.
    fn has_ending_option(&self) -> bool {
        let mut options = self.long_options();
        options.any(|name| name.split('-').next().is_some_and(|verb| is(ENDS, verb))) || self.overwrites()
    }

    /// Statements that a client is given for the database behind it: `-c "drop keyspace k"`, `--execute 'db._drop("c")'`.
    fn has_ending_statement(&self) -> bool {
        let statements = self.args.iter().filter(|arg| arg.contains([' ', '(']));
        statements.into_iter().any(|statement| {
            library::deletes(statement) || statement.to_ascii_lowercase().contains("detach delete")
        })
    }

    fn overwrites(&self) -> bool {
        let loads = self.words.iter().any(|word| is(LOADS, &word.to_ascii_lowercase()));
        loads
            && self
                .long_options()
                .any(|name| name.split('-').next().is_some_and(|verb| is(OVERWRITING, verb)))
    }

    /// `Status=Suspended`.
    fn has_ending_state(&self) -> bool {
        let mut set = self.args.iter().filter_map(|arg| arg.rsplit_once('='));
        set.any(|(name, state)| {
            // `PointInTimeRecoveryEnabled=false`, `DeletionProtectionEnabled=false`: what protects is switched off.
            let protects = ["recovery", "protection", "backup", "versioning"]
                .iter()
                .any(|word| name.to_ascii_lowercase().contains(word));
            is(STATES, &state.to_ascii_lowercase())
                || protects && matches!(state, "false" | "off" | "disabled")
        })
    }

    /// Arguments that can name a place: operands, and values of options.
    fn values(&self) -> impl Iterator<Item = &'a str> {
        let values = self.args.iter().filter_map(|arg| match arg.strip_prefix('-') {
            Some(option) => option.split_once('=').map(|(_, value)| value),
            None => Some(*arg),
        });
        values.filter(|value| !value.contains(char::is_whitespace))
    }
}

/// `Remove-AzVM`.
fn is_verb_and_noun(name: &str) -> bool {
    let capital = |part: &str| part.starts_with(|c: char| c.is_ascii_uppercase());
    name.split_once('-').is_some_and(|(verb, noun)| capital(verb) && capital(noun))
}

/// Options that start nothing: `--dry-run`, `--help`, unless they are switched off.
fn is_rehearsal(arg: &str) -> bool {
    let Some(option) = arg.strip_prefix('-') else { return false };
    let option = option.strip_prefix('-').unwrap_or(option).to_ascii_lowercase();
    let (name, value) = option.split_once('=').unwrap_or((&option, ""));
    is(REHEARSES, name) && !matches!(value, "false" | "none" | "no" | "0")
}

/// Options that any program answers, and does nothing else.
fn is_question(arg: &str) -> bool {
    matches!(arg.trim_start_matches('-'), "help" | "usage" | "version")
}

/// Returns what is known of a program, and its name without folder, version and ending; none if that is computed.
fn kind_of(written: &str, process: &Process, at: &Place) -> Option<(Kind, String)> {
    if written.is_empty() || has_hole(written) {
        return None;
    }
    let lower = written.to_ascii_lowercase();
    // `@scope/name@3` is a package of npm; otherwise what stands behind an `@` is a version.
    let scope =
        lower.strip_prefix('@').and_then(|rest| rest.split_once('/')).map(|(scope, _)| scope.to_owned());
    let base = lower.rsplit(['/', '\\']).next().unwrap_or(&lower);
    let base = base.split('@').next().unwrap_or(base);
    let base = base.strip_suffix(".exe").unwrap_or(base);
    let plain = base.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let client = base.strip_suffix("-cli").or_else(|| base.strip_suffix(".sh")).unwrap_or(base);
    let called = |class: &[&str]| [base, plain, client].iter().any(|name| is(class, name));
    let is_path = scope.is_none() && written.contains(['/', '\\']);
    let is_script =
        [".sh", ".py", ".js", ".mjs", ".ts", ".rb", ".pl", ".php", ".bash", ".zsh", ".ps1", ".bat", ".cmd"]
            .iter()
            .any(|ending| base.ends_with(ending));
    let in_project = || {
        let folder = process.cwd().unwrap_or_else(|| at.cwd());
        !matches!(class::of(&paths::lexical(written, folder), at), Class::System | Class::Root | Class::Home)
    };
    let kind = if called(RUNNER) {
        Kind::Runner
    } else if called(LOCAL) {
        Kind::Local
    } else if called(OWN) {
        Kind::Own
    } else if called(SERVICE) || scope.as_deref().is_some_and(|scope| is(SERVICE, scope)) {
        Kind::Service
    } else if is_path && in_project() || is_script && !is_path {
        Kind::Runner
    } else {
        Kind::Unknown
    };
    Some((kind, base.to_owned()))
}

/// Returns the operands that could be a verb or a noun. A value of an option is left out where it can be told from one,
/// which is behind the first word.
fn words_of<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let mut words = Vec::new();
    let mut behind_option = false;
    let mut is_told = false;
    for arg in args.iter().copied().take_while(|arg| *arg != "--") {
        if arg.starts_with(['-', '+']) {
            behind_option = !arg.contains('=');
            continue;
        }
        let plain = arg.chars().all(|c| c.is_ascii_alphanumeric() || "-_:.".contains(c));
        if plain && (!behind_option || !is_told) {
            words.push(arg);
            is_told |= arg.len() <= LONGEST;
        }
        behind_option = false;
    }
    words
}

/// Returns the parts of a word: `delete-thing`, `rmThing`, `thing:delete`, `thing.delete`.
fn parts_of(word: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut part = String::new();
    let mut was_lower = false;
    for c in word.chars() {
        if c.is_ascii_alphanumeric() && !(c.is_ascii_uppercase() && was_lower) {
            part.push(c.to_ascii_lowercase());
        } else {
            parts.push(std::mem::take(&mut part));
            if c.is_ascii_alphanumeric() {
                part.push(c.to_ascii_lowercase());
            }
        }
        was_lower = c.is_ascii_lowercase();
    }
    parts.push(part);
    parts.retain(|part| !part.is_empty());
    parts
}

/// Returns what follows the last `:` or `.` of a word, which is its verb where it has any.
fn last_segment(word: &str) -> &str {
    word.rsplit([':', '.']).find(|segment| !segment.is_empty()).unwrap_or(word)
}

/// Returns the whole of a word and its parts, where a verb can stand.
fn verbs_in(word: &str) -> impl Iterator<Item = String> {
    let whole = last_segment(word).to_ascii_lowercase();
    let mut parts = parts_of(word);
    parts.push(whole);
    parts.into_iter()
}

/// Returns what a word says is done, and its other parts.
fn verb_of(word: &str) -> Option<(Verb, Vec<String>)> {
    let segment = last_segment(word);
    let whole = segment.to_ascii_lowercase();
    let nouns = || parts_of(word.strip_suffix(segment).unwrap_or_default());
    let class = |word: &str| match word {
        word if is(READS, word) => Some(Verb::Reads),
        word if is(ENDS, word) => Some(Verb::Ends),
        word if is(REMOVES, word) => Some(Verb::Removes),
        word if is(RELEASES, word) => Some(Verb::Releases),
        word if is(SENDS, word) => Some(Verb::Sends),
        _ => None,
    };
    if let Some(verb) = class(&whole) {
        return Some((verb, nouns()));
    }
    let parts = parts_of(segment);
    let (first, rest) = parts.split_first().filter(|(_, rest)| !rest.is_empty())?;
    let (last, front) = parts.split_last()?;
    match (class(first), class(last)) {
        (Some(verb), _) => Some((verb, rest.iter().cloned().chain(nouns()).collect())),
        (None, Some(verb @ (Verb::Ends | Verb::Removes))) => {
            Some((verb, front.iter().cloned().chain(nouns()).collect()))
        }
        _ => None,
    }
}

fn pieces(value: &str) -> impl Iterator<Item = String> + '_ {
    value.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_ascii_lowercase)
}

/// Returns whether a value is, or has a part that is, a word for what users see.
fn names_production(value: &str) -> bool {
    pieces(value).any(|piece| is(PRODUCTION, &piece))
        || value.split(['/', '=', ',']).any(|part| is(LIVE, &part.to_ascii_lowercase()))
}
