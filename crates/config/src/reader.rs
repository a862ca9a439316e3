//! The state of reading one file: which kind of file it is, the current place in it, and the problems and dropped values so
//! far.
//!
//! Reading never stops at the first problem: each reader records what is wrong in the [`Reader`] and returns `None`
//! if it has no value; a section is `None` if one of its keys is. What was read counts only if nothing was recorded.

use crate::config_value::ConfigValue;
use crate::names::KnownNames;
use crate::place::Place;
use crate::problem::{Problem, ProblemKind, quote, suggestion};
use crate::rules::Admit;
use crate::secret_source::{SecretOrigin, SecretSource};
use crate::text::Environment;
use backstop_yaml::{Entry, Kind, Node};

/// Which kind of file is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerKind {
    /// The operator's own file: may set everything.
    Operator,
    /// A file found in or above the working directory: may only tighten.
    Repository,
}

impl LayerKind {
    /// Returns the kind as a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Repository => "repository",
        }
    }
}

/// Something in a repository file that was not adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The key path, such as `guards.command_safety.enabled`.
    pub key: String,
    /// Where it is written.
    pub at: Place,
    /// Why it has no effect.
    pub reason: String,
}

/// The state of reading and layering.
pub(crate) struct Reader<'a> {
    pub(crate) layer: LayerKind,
    pub(crate) names: &'a KnownNames,
    pub(crate) environment: &'a Environment<'a>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) dropped: Vec<Dropped>,
    pub(crate) secrets: Vec<SecretSource>,
    path: Vec<String>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(layer: LayerKind, names: &'a KnownNames, environment: &'a Environment<'a>) -> Self {
        Self {
            layer,
            names,
            environment,
            problems: Vec::new(),
            dropped: Vec::new(),
            secrets: Vec::new(),
            path: Vec::new(),
        }
    }

    /// Returns the key path of the value being read; empty for the whole file.
    pub(crate) fn path(&self) -> String {
        self.path.concat()
    }

    /// Returns the value being read, for messages.
    pub(crate) fn subject(&self) -> String {
        if self.path.is_empty() { "the file".to_owned() } else { format!("`{}`", self.path()) }
    }

    /// Runs `read` with the key path extended by a key.
    pub(crate) fn in_key<T>(&mut self, key: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        let dot = if self.path.is_empty() { "" } else { "." };
        self.path.push(format!("{dot}{}", quote(key)));
        let value = read(self);
        self.path.pop();
        value
    }

    /// Runs `read` with the key path extended by a list index.
    pub(crate) fn in_item<T>(&mut self, index: usize, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(format!("[{index}]"));
        let value = read(self);
        self.path.pop();
        value
    }

    pub(crate) fn report(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    pub(crate) fn drop_value(&mut self, at: &Place, reason: impl Into<String>) {
        self.dropped.push(Dropped { key: self.path(), at: at.clone(), reason: reason.into() });
    }

    /// Records what holds the secret that is being read.
    pub(crate) fn secret_from(&mut self, at: &Place, origin: SecretOrigin) {
        self.secrets.push(SecretSource { key: self.path(), at: at.clone(), origin });
    }

    /// Records "... must be ..., found ...".
    pub(crate) fn expected<T>(&mut self, node: &Node, what: &str) -> Option<T> {
        let problem = self.mismatch(node, what, &node.describe());
        self.report(problem);
        None
    }

    /// "... must be ..., found ...".
    pub(crate) fn mismatch(&self, node: &Node, what: &str, found: &str) -> Problem {
        let subject = self.subject();
        let wrong = |message| Problem::new(ProblemKind::BadValue, node.at.clone(), message);
        match node.kind {
            Kind::Null => wrong(format!("{subject} has no value"))
                .with_hint(format!("it must be {what}; remove the key to keep the default")),
            _ => wrong(format!("{subject} must be {what}, found {found}")),
        }
    }

    /// Returns the entries of a mapping.
    pub(crate) fn map<'n>(&mut self, node: &'n Node) -> Option<&'n [Entry]> {
        match &node.kind {
            Kind::Map(entries) => Some(entries),
            _ => {
                let problem = self.mismatch(node, "a mapping", node.shape());
                self.report(problem);
                None
            }
        }
    }

    /// Returns the items of a list.
    pub(crate) fn list<'n>(&mut self, node: &'n Node) -> Option<&'n [Node]> {
        match &node.kind {
            Kind::List(items) => Some(items),
            _ => {
                let problem = self.mismatch(node, "a list", node.shape());
                self.report(problem);
                None
            }
        }
    }

    /// Records every key of a mapping that is not in `known`.
    pub(crate) fn known_keys(&mut self, entries: &[Entry], known: &[&str]) {
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let message = format!("unknown key `{}`", quote(&entry.key));
            let problem = Problem::new(ProblemKind::UnknownKey, entry.key_at.clone(), message)
                .with_hint(suggestion(&entry.key, known, "keys"));
            self.report(problem);
        }
    }

    /// Reads one key of a section under its rule for repository files.
    pub(crate) fn key<T: ConfigValue, R: Admit<T>>(
        &mut self,
        section: &Node,
        key: &str,
        absent: impl FnOnce() -> Option<T>,
    ) -> Option<T> {
        let Kind::Map(entries) = &section.kind else { return None };
        let Some(entry) = entries.iter().find(|entry| entry.key == key) else {
            return absent().or_else(|| {
                let message = format!("`{key}` is missing in {}", self.subject());
                self.report(Problem::new(ProblemKind::MissingKey, section.at.clone(), message));
                None
            });
        };
        self.in_key(key, |cx| {
            if cx.layer == LayerKind::Repository && R::OPERATOR_ONLY {
                cx.drop_value(&entry.key_at, "only the operator's file may set this");
                return absent();
            }
            let value = T::read(&entry.value, cx)?;
            Some(if cx.layer == LayerKind::Repository { R::restrict(value, cx) } else { value })
        })
    }
}
