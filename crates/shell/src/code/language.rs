//! What is known about languages, as data: which of their calls matter, and how their code is split into tokens.
//!
//! There is one file per language (`languages/*.yaml` of this crate), compiled into the binary. The law: *a language knows
//! its own calls and no other's*. Code in a language without a file, or in an unknown language, is read with the calls
//! of all languages, and that does not count as understanding it (`is_read`).

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use serde::Deserialize;

// The languages, compiled by the build script.
include!(concat!(env!("OUT_DIR"), "/languages.rs"));

/// The language that stands for all.
const ANY: &str = "any";

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Does {
    /// Gives its first argument to a shell.
    Shell,
    /// Starts a process from a list of arguments.
    Process,
    /// Evaluates text as code of the same language.
    Evaluates,
    /// Starts a process where it is given more than a text, else evaluates that.
    Exec,
    /// Deletes the paths it is given.
    Deletes,
    /// Deletes them with everything below.
    DeletesTree,
    /// Reads a file.
    Reads,
    /// Reads a file or writes it, as its mode says.
    Opens,
    /// Writes a file.
    Writes,
    /// Changes the owner of a file.
    Owns,
    /// Changes permissions of a file.
    Modes,
    /// Moves a file.
    Moves,
    /// Copies a file.
    Copies,
    /// Lists a folder.
    Lists,
    /// Lists files by a pattern.
    Globs,
    /// Talks to the network.
    Fetches,
    /// Talks to the network, on an object that does.
    Requests,
    /// Decodes Base64.
    Base64,
    /// Decodes hexadecimal digits.
    Hex,
    /// Unpacks in the order of a template.
    Pack,
    /// Makes text in a way that is not followed.
    Decodes,
    /// Looks up a function by its name.
    Looks,
    /// Calls the function that is its first argument.
    Sends,
    /// Calls a function by its name, which is its first argument.
    Named,
    /// Loads a module by its name.
    Imports,
    /// Fills a template: what it is called on, or its first argument.
    Formats,
    /// Cuts a text into words.
    Splits,
    /// Reads a variable of the environment.
    Environment,
    /// Moves into another folder.
    Enters,
    /// The working folder.
    Here,
    /// A new temporary folder or file.
    Temporary,
    /// The folder above the path it is called on, or given.
    Climbs,
    /// Joins what it is given.
    Joins,
    /// Gives back the text or path it is called on.
    Same,
    /// Makes a text or path of its arguments, and of what it is called on.
    Text,
    /// The home folder.
    Home,
    /// Prints what it is given.
    Prints,
    /// Does nothing to anything but its own memory.
    Plain,
}

impl Does {
    /// Returns whether it runs nothing, writes nothing and sends nothing, whatever it is given.
    pub(super) fn is_harmless(self) -> bool {
        use Does as D;
        matches!(
            self,
            D::Prints
                | D::Plain
                | D::Same
                | D::Text
                | D::Joins
                | D::Home
                | D::Base64
                | D::Hex
                | D::Pack
                | D::Decodes
                | D::Imports
                | D::Formats
                | D::Splits
                | D::Environment
                | D::Enters
                | D::Here
                | D::Temporary
                | D::Climbs
        ) || self.looks_at_files()
    }

    /// Returns whether it may run what it is given, or something else; what it does to files is no running.
    pub(super) fn may_run(self) -> bool {
        use Does as D;
        let touches = matches!(
            self,
            D::Opens | D::Writes | D::Owns | D::Modes | D::Moves | D::Copies | D::Deletes | D::DeletesTree
        );
        !touches && !self.is_harmless()
    }

    fn looks_at_files(self) -> bool {
        matches!(self, Self::Lists | Self::Globs | Self::Reads)
    }
}

/// What backquotes mean.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Backquotes {
    /// Text.
    #[default]
    Text,
    /// A command.
    Command,
}

/// How code is cut into words. What is left out is not so.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Syntax {
    /// `#` begins a comment.
    pub(super) hash: bool,
    /// `/*` begins a comment.
    pub(super) slash_star: bool,
    pub(super) backquotes: Backquotes,
    /// `%w(a b)`, `q{a}`.
    pub(super) percent: bool,
    /// `a->b` calls a method.
    pub(super) arrows: bool,
    /// `</etc/*>` lists files.
    pub(super) globs: bool,
    /// Names have dashes, `'` quotes no text and `;` begins a comment.
    pub(super) lisp: bool,
    /// What begins code inside a string, up to the bracket that closes.
    pub(super) interpolates: Vec<String>,
    /// Strings in single quotes hold code, too.
    pub(super) single_interpolates: bool,
    /// `f"{x}"` holds code.
    pub(super) formats: bool,
    /// `"$x"` holds a variable, and a dot joins.
    pub(super) sigils: bool,
    /// `[[a]]` is a text.
    pub(super) long_brackets: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    language: String,
    /// Its calls are known, and little else: what does not only print may do anything.
    #[serde(default)]
    unread: bool,
    #[serde(default)]
    syntax: Syntax,
    /// Modules that talk to the network.
    #[serde(default)]
    network: Vec<String>,
    /// Modules whose calls start processes, and an empty name where calls without one do.
    #[serde(default)]
    processes: Vec<String>,
    /// What code says that names folders and archives in which modules are looked for.
    #[serde(default)]
    searched: Vec<String>,
    #[serde(default)]
    calls: Vec<Calls>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Calls {
    does: Does,
    names: Vec<String>,
    /// What is printed between two values.
    #[serde(default)]
    between: String,
    /// What is printed at the end; without it, it is not known what the values look like.
    end: Option<String>,
}

/// How a call prints: what stands between its values, and behind them.
#[derive(Debug, Clone, Default)]
pub(super) struct Printing {
    pub(super) between: String,
    pub(super) end: String,
}

/// A language.
#[derive(Debug, Default)]
pub(crate) struct Language {
    pub(super) name: String,
    pub(super) syntax: Syntax,
    pub(super) network: Vec<String>,
    pub(super) processes: Vec<String>,
    searched: Vec<String>,
    calls: HashMap<String, Vec<Does>>,
    printing: HashMap<String, Printing>,
    /// Whether code in which only known calls stand does what those do, and nothing else.
    is_read: bool,
}

impl Language {
    fn add(&mut self, written: &Written) {
        for calls in &written.calls {
            for name in &calls.names {
                let name = name.to_ascii_lowercase();
                let known = self.calls.entry(name.clone()).or_default();
                if !known.contains(&calls.does) {
                    known.push(calls.does);
                }
                if let Some(end) = &calls.end {
                    self.printing.insert(name, Printing { between: calls.between.clone(), end: end.clone() });
                }
            }
        }
        self.network.extend(written.network.iter().cloned());
        self.processes.extend(written.processes.iter().cloned());
        self.searched.extend(written.searched.iter().cloned());
    }

    /// Returns whether code may say where modules are looked for.
    pub(super) fn says_where_modules_are(&self, code: &str) -> bool {
        self.searched.iter().any(|word| code.contains(word.as_str()))
    }

    /// Returns what the call with this name does, as far as it matters. A name is known by its last parts: the longest that
    /// the language knows.
    pub(super) fn does(&self, name: &str) -> &[Does] {
        parts_of(name).find_map(|part| self.calls.get(part)).map_or(&[], Vec::as_slice)
    }

    pub(super) fn printing(&self, name: &str) -> Option<&Printing> {
        let known = parts_of(name).find(|part| self.calls.contains_key(*part))?;
        self.printing.get(known)
    }

    /// Returns whether it is known what code of this language does.
    pub(crate) fn is_read(&self) -> bool {
        self.is_read
    }
}

/// Returns the last parts of a name, three of them and fewer: `a.b.c`, `b.c`, `c`.
fn parts_of(name: &str) -> impl Iterator<Item = &str> {
    let name = name.trim_end_matches(['!', '?', '(']).trim_start_matches('.');
    let is_end = |c: char| matches!(c, '.' | ':' | '>' | '/');
    let mut starts = name.rmatch_indices(is_end).map(|(at, _)| at + 1).filter(|at| *at < name.len());
    let (one, two) = (starts.next(), starts.next());
    let three = starts.next().unwrap_or(0);
    [Some(three), two, one].into_iter().flatten().filter_map(|at| name.get(at..))
}

/// All languages, each read when it is first asked for.
#[derive(Debug)]
pub(crate) struct Languages {
    read: Vec<OnceLock<Language>>,
    any: OnceLock<Language>,
}

static LANGUAGES: LazyLock<Languages> = LazyLock::new(|| Languages {
    read: ENTRIES.iter().map(|_| OnceLock::new()).collect(),
    any: OnceLock::new(),
});

/// Returns what is written of a language. One that can't be read knows no call, and so takes none to be harmless.
fn written(at: usize) -> Option<Written> {
    serde_json::from_str(ENTRIES.get(at)?).ok()
}

impl Languages {
    /// Returns what is built in.
    pub(crate) fn built_in() -> &'static Self {
        &LANGUAGES
    }

    /// Returns the language that the program runs; one that stands for all if nobody knows.
    pub(crate) fn of_program(&self, program: &str) -> &Language {
        let base = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == 'w' || c == '-');
        let at = |name: &str| {
            let at = PROGRAMS.binary_search_by(|(known, _)| (*known).cmp(name)).ok()?;
            PROGRAMS.get(at).map(|(_, language)| *language)
        };
        self.by(at(program).or_else(|| at(base)))
    }

    /// Returns the language of a file, by its name.
    pub(crate) fn of_file(&self, path: &str) -> &Language {
        let ending =
            path.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map_or("", |(_, ending)| ending);
        self.by(ENDINGS.iter().find(|(known, _)| *known == ending).map(|(_, at)| *at))
    }

    /// Any language.
    pub(crate) fn any(&self) -> &Language {
        self.any.get_or_init(|| {
            let mut any = Language { name: ANY.to_owned(), ..Language::default() };
            for written in (0..ENTRIES.len()).filter_map(written) {
                any.add(&written);
                if written.language == ANY {
                    any.syntax = written.syntax;
                }
            }
            any
        })
    }

    fn by(&self, at: Option<usize>) -> &Language {
        let Some((at, read)) = at.and_then(|at| Some((at, self.read.get(at)?))) else { return self.any() };
        read.get_or_init(|| {
            let Some(written) = written(at) else { return Language::default() };
            let mut language = Language { is_read: !written.unread, ..Language::default() };
            language.add(&written);
            Language { name: written.language, syntax: written.syntax, ..language }
        })
    }
}
