//! What is known about programs, as data: one entry each, with a source and cases.
//!
//! The catalogue is written in YAML (`programs/*.yaml` of this crate). An entry describes a program completely:
//! its names, which options take values, what it does to the files it is given, where its data goes, what
//! it starts, and whether it waits for commands. Programs that need more have code of their own beside
//! their entry. Programs that embed the analysis can add entries ([`Programs::with`]) in the same form.
//!
//! The law: *every entry is verifiable*. It names the source of its knowledge, and it has cases: commands
//! of which something is true, and near misses of which it is not ([`Program::check`]).

mod case;
mod entry;
mod read;

mod built_in;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use backstop_yaml::{Problem, ProblemKind, Spanned};

pub(crate) use entry::{Code, Does, Escapes, Formats, Operands, Starts, Stores, Touches, Waits};
pub use entry::{Flags, Program};
pub use read::{programs_of, read_programs};

use crate::options::Takes;

static BUILT_IN: LazyLock<Arc<Programs>> = LazyLock::new(|| Arc::new(Programs::empty()));

/// Programs by name: the built-in ones and those that were added.
pub struct Programs {
    added: Vec<Program>,
    names: HashMap<String, usize>,
    /// Names that end in `*`, without it.
    beginnings: Vec<(String, usize)>,
    is_broken: bool,
}

impl fmt::Debug for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Programs({} added)", self.added.len())
    }
}

impl Programs {
    /// Returns the built-in catalogue.
    pub fn built_in() -> Arc<Self> {
        Arc::clone(&BUILT_IN)
    }

    /// Returns the built-in catalogue and `more`, whose cases are checked. An entry may add a program but not change a known
    /// one, because what is known about that holds for everybody.
    ///
    /// # Errors
    ///
    /// The first entry that claims a known name, lacks source or cases, or contradicts its cases, at its place.
    pub fn with(more: Vec<Spanned<Program>>) -> Result<Self, Problem> {
        let mut all = Self::empty();
        for Spanned { value: entry, at } in &more {
            if let Some(known) = entry.names.iter().find(|name| all.get(name).is_some()) {
                let message = format!("the program `{known}` has an entry already");
                return Err(Problem::new(ProblemKind::Conflict, at.clone(), message).with_hint(
                    "write a rule for it in `packs`; what is known of a program can't be changed",
                ));
            }
            if let Some(lacking) = entry.lacking() {
                return Err(Problem::new(ProblemKind::MissingKey, at.clone(), lacking));
            }
            all.add(entry.clone());
        }
        let all = Arc::new(all);
        for Spanned { value: entry, at } in &more {
            if let Err(wrong) = entry.check(&all) {
                return Err(Problem::new(ProblemKind::Conflict, at.clone(), wrong));
            }
        }
        // Nobody else holds it: what checked the cases is gone.
        Ok(Arc::try_unwrap(all).unwrap_or_else(|all| {
            let mut again = Self::empty();
            all.added.iter().for_each(|entry| again.add(entry.clone()));
            again
        }))
    }

    fn empty() -> Self {
        Self { added: Vec::new(), names: HashMap::new(), beginnings: Vec::new(), is_broken: false }
    }

    fn add(&mut self, entry: Program) {
        let at = self.added.len();
        for name in &entry.names {
            match name.strip_suffix('*') {
                Some(beginning) => self.beginnings.push((beginning.to_owned(), at)),
                None => {
                    self.names.insert(name.clone(), at);
                }
            }
        }
        self.added.push(entry);
    }

    /// Returns whether an entry that was asked for could not be read. Nothing is known then, not even what is dangerous.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken || built_in::is_broken()
    }

    /// Returns what is known about the program `name`, which may have a version suffix (`python3.12`).
    pub fn get(&self, name: &str) -> Option<&Program> {
        let named = |name: &str| {
            built_in::named(name).or_else(|| self.names.get(name).and_then(|at| self.added.get(*at)))
        };
        let versioned = || {
            let base = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
            let windowed = || base.strip_suffix('w').and_then(named);
            let unversioned = || if base.len() < name.len() { named(base) } else { None };
            unversioned().or_else(windowed).filter(|entry| entry.versions)
        };
        let begun = || {
            let (_, at) = self.beginnings.iter().find(|(beginning, _)| name.starts_with(beginning))?;
            self.added.get(*at)
        };
        named(name).or_else(versioned).or_else(|| built_in::begun(name)).or_else(begun)
    }

    /// Returns which options of the program take a value.
    pub fn takes(&self, name: &str) -> Takes<'_> {
        self.get(name).map_or(Takes::NOTHING, |entry| entry.values.takes())
    }

    /// Returns which options of a subcommand take a value.
    pub fn takes_of(&self, name: &str, subcommand: &str) -> Takes<'_> {
        let flags = self.get(name).and_then(|entry| entry.subcommands.get(subcommand));
        flags.map_or(Takes::NOTHING, Flags::takes)
    }

    /// Returns the folder that the program is told to fill.
    pub(crate) fn fills<'a>(&self, name: &str, args: &[&'a str]) -> Option<&'a str> {
        self.get(name)?.into.value_among(args)
    }

    pub(crate) fn does(&self, name: &str, what: Does) -> bool {
        self.get(name).is_some_and(|entry| entry.does.contains(&what))
    }

    /// Returns whether its operands can name other machines: it sends to them, or fetches from them.
    pub fn reaches_machines(&self, name: &str) -> bool {
        self.does(name, Does::Sends) || self.does(name, Does::Fetches)
    }

    /// Returns whether it copies files, also from and to other machines.
    pub fn copies(&self, name: &str) -> bool {
        self.get(name).is_some_and(|entry| entry.stores == Some(Stores::Copies))
    }

    /// Returns whether it is the client of a database.
    pub fn is_client(&self, name: &str) -> bool {
        self.does(name, Does::ReadsStatements)
    }

    pub(crate) fn starts(&self, name: &str) -> Option<&Starts> {
        self.get(name)?.starts.as_ref()
    }

    /// Returns its options that name a program to run.
    pub(crate) fn runs(&self, name: &str) -> &[String] {
        self.get(name).map_or(&[], |entry| entry.runs.as_slice())
    }

    pub(crate) fn escapes(&self, name: &str) -> Option<&Escapes> {
        self.get(name)?.escapes.as_ref()
    }

    /// Returns whether it sends what it is given, called like that.
    pub(crate) fn sends(&self, name: &str, args: &[&str]) -> bool {
        let is_upload = |entry: &Program| {
            entry.uploads.is_empty() || args.iter().any(|arg| entry.uploads.iter().any(|word| word == arg))
        };
        self.get(name).is_some_and(|entry| entry.does.contains(&Does::Sends) && is_upload(entry))
    }

    pub(crate) fn waits_when(&self, name: &str) -> Option<&Waits> {
        self.get(name)?.waits.as_ref()
    }

    pub(crate) fn code(&self, name: &str) -> Option<&Code> {
        self.get(name)?.code.as_ref()
    }

    /// Returns whether the program runs code in a language other than the shell's.
    pub(crate) fn is_interpreter(&self, name: &str) -> bool {
        self.code(name).is_some()
    }

    pub(crate) fn prints_secrets(&self, name: &str, args: &[&str]) -> bool {
        self.get(name)
            .and_then(|entry| entry.secrets.as_ref())
            .is_some_and(|secrets| secrets.are_printed(args))
    }

    pub(crate) fn touches(&self, name: &str) -> Option<&Touches> {
        self.get(name)?.touches.as_ref()
    }
}

#[cfg(test)]
mod tests;
