//! What a shell holds while it runs: variables, functions, working directory, files it wrote, open
//! descriptors.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use brush_parser::ast;

use super::data::{Data, Taint};
use super::limits::{self, Over};
use super::word::HOLE;
use crate::place::Place;

/// The value of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// Text that may contain holes.
    Text(String),
    /// An indexed array.
    List(Vec<String>),
    /// Certainly not set.
    Unset,
}

impl Value {
    /// The value as one text, arrays by their first element.
    pub(crate) fn scalar(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::List(list) => list.first().map_or("", String::as_str),
            Self::Unset => "",
        }
    }
}

/// How a declared variable changes what is assigned to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Casing {
    Lower,
    Upper,
}

/// A function: its body, shared with the syntax tree that was copied once.
#[derive(Clone)]
pub(crate) struct Function {
    pub(crate) definition: Rc<ast::FunctionDefinition>,
}

/// A state that is copied when it is written to, not when it is handed on: most subshells only read.
#[derive(Clone)]
pub(crate) struct Shared(Rc<State>);

impl Shared {
    /// The state of a shell that starts at `place`.
    pub(crate) fn at(place: &Place) -> Self {
        Self(Rc::new(State::at(place)))
    }

    /// Keeps of this state and `other` what both agree on; what they disagree about becomes a hole,
    /// except that a branch which assigned beats one which did not.
    pub(crate) fn join(&mut self, other: Self) {
        if !Rc::ptr_eq(&self.0, &other.0) {
            Rc::make_mut(&mut self.0).merge(Rc::unwrap_or_clone(other.0));
        }
    }

    /// Takes over what a subshell wrote to files: files outlive the shell that wrote them.
    pub(crate) fn keep_files_of(&mut self, inner: &Self) {
        if !Rc::ptr_eq(&self.0, &inner.0) && self.writes != inner.writes {
            self.files.clone_from(&inner.files);
            self.fetched.clone_from(&inner.fetched);
            self.writes = inner.writes;
        }
    }
}

impl Deref for Shared {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

impl DerefMut for Shared {
    fn deref_mut(&mut self) -> &mut State {
        Rc::make_mut(&mut self.0)
    }
}

/// The state of one (sub)shell.
#[derive(Clone)]
pub(crate) struct State {
    vars: HashMap<String, Value>,
    casings: HashMap<String, Casing>,
    references: HashMap<String, String>,
    taints: HashMap<String, Taint>,
    pub(crate) functions: HashMap<String, Function>,
    pub(crate) aliases: HashMap<String, String>,
    /// `$1`, `$2`, …
    pub(crate) positional: Vec<String>,
    /// `$0`.
    pub(crate) name: String,
    /// The working directory; `None` when a `cd` went somewhere unknown.
    pub(crate) cwd: Option<String>,
    /// Files whose content is known from this very command, by resolved path.
    pub(crate) files: HashMap<String, Data>,
    /// How often a file was written.
    writes: usize,
    /// Symbolic links this command made, by resolved path, and where they lead.
    links: Vec<(String, String)>,
    /// Directories that this command filled from the network, by resolved path.
    fetched: Vec<String>,
    /// Data behind open descriptors.
    pub(crate) descriptors: HashMap<String, Data>,
    /// Descriptors that lead to the network when written.
    pub(crate) sockets: Vec<String>,
    /// After this point the environment of the shell is not ours to know (an unknown script was sourced).
    pub(crate) foreign: bool,
}

impl State {
    /// The state of a shell that starts at `place`.
    fn at(place: &Place) -> Self {
        Self {
            vars: HashMap::new(),
            casings: HashMap::new(),
            references: HashMap::new(),
            taints: HashMap::new(),
            functions: HashMap::new(),
            aliases: HashMap::new(),
            positional: Vec::new(),
            name: "bash".into(),
            cwd: Some(place.cwd().to_owned()),
            files: HashMap::new(),
            writes: 0,
            links: Vec::new(),
            fetched: Vec::new(),
            descriptors: HashMap::new(),
            sockets: Vec::new(),
            foreign: false,
        }
    }

    /// The variable `name` stands for, following one name reference.
    fn target<'a>(&'a self, name: &'a str) -> &'a str {
        self.references.get(name).map_or(name, String::as_str)
    }

    /// True when anything was assigned in this command.
    pub(crate) fn has_assignments(&self) -> bool {
        !self.vars.is_empty()
    }

    /// The value that was assigned in this command, if one was.
    pub(crate) fn assigned(&self, name: &str) -> Option<&Value> {
        self.vars.get(self.target(name))
    }

    /// The value a reference to `name` expands to; unknown ones are a hole.
    pub(crate) fn value(&self, name: &str, home: Option<&str>) -> Value {
        if let Some(value) = self.assigned(name) {
            return value.clone();
        }
        let known = match name {
            "HOME" => home,
            "PWD" => self.cwd.as_deref(),
            "SHELL" | "BASH" => Some("/bin/bash"),
            "IFS" => Some(" \t\n"),
            "TMPDIR" => Some("/tmp"),
            _ => None,
        };
        Value::Text(known.map_or_else(|| HOLE.to_string(), str::to_owned))
    }

    /// Assigns, honouring declared casing.
    pub(crate) fn assign(&mut self, name: &str, value: Value) {
        let name = self.target(name).to_owned();
        let value = match (self.casings.get(&name), value) {
            (Some(Casing::Lower), Value::Text(text)) => Value::Text(text.to_lowercase()),
            (Some(Casing::Upper), Value::Text(text)) => Value::Text(text.to_uppercase()),
            (_, value) => value,
        };
        self.vars.insert(name, value);
    }

    /// Remembers where the value of a variable comes from.
    pub(crate) fn mark(&mut self, name: &str, taint: Taint) {
        if taint == Taint::NONE {
            self.taints.remove(name);
        } else {
            self.taints.insert(name.to_owned(), taint);
        }
    }

    /// Where the value of a variable comes from.
    pub(crate) fn taint(&self, name: &str) -> Taint {
        self.taints.get(self.target(name)).copied().unwrap_or_default()
    }

    /// Declares casing for later assignments.
    pub(crate) fn declare_casing(&mut self, name: &str, casing: Casing) {
        self.casings.insert(name.to_owned(), casing);
    }

    /// Makes `name` another name of `target`.
    pub(crate) fn declare_reference(&mut self, name: &str, target: &str) {
        if name != target {
            self.references.insert(name.to_owned(), target.to_owned());
        }
    }

    /// Forgets a variable for certain.
    pub(crate) fn unset(&mut self, name: &str) {
        self.vars.insert(name.to_owned(), Value::Unset);
    }

    fn merge(&mut self, other: Self) {
        self.writes = self.writes.max(other.writes) + 1;
        for (name, theirs) in other.vars {
            match self.vars.get(&name) {
                Some(ours) if *ours != theirs => {
                    let kept = if ours.scalar().is_empty() { theirs } else { ours.clone() };
                    self.vars.insert(name, kept);
                }
                Some(_) => {}
                None => {
                    self.vars.insert(name, theirs);
                }
            }
        }
        for (name, taint) in other.taints {
            *self.taints.entry(name).or_default() |= taint;
        }
        for (name, function) in other.functions {
            self.functions.entry(name).or_insert(function);
        }
        for (path, data) in other.files {
            self.files.entry(path).or_insert(data);
        }
        if self.cwd != other.cwd {
            self.cwd = None;
        }
        self.foreign |= other.foreign;
    }

    /// Names and values assigned in this command whose name starts with `prefix`.
    pub(crate) fn assigned_with_prefix<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.vars.iter().filter(move |(name, _)| name.starts_with(prefix)).map(|(n, v)| (n.as_str(), v))
    }

    /// Remembers that `link` leads to `target`.
    pub(crate) fn link(&mut self, link: String, target: String) -> Over {
        if self.links.len() >= limits::LINKS.most {
            return Over::of(&limits::LINKS);
        }
        self.links.push((link, target));
        Over::NOTHING
    }

    /// Where a resolved path leads through the links this command made.
    pub(crate) fn followed(&self, path: &str) -> Option<String> {
        self.links.iter().rev().find_map(|(link, target)| {
            let rest = path.strip_prefix(link.as_str())?;
            (rest.is_empty() || rest.starts_with('/')).then(|| format!("{target}{rest}"))
        })
    }

    /// Remembers that what lies below a directory came from the network.
    pub(crate) fn fetch_into(&mut self, directory: String) -> Over {
        if self.fetched.len() >= limits::FETCHED.most {
            return Over::of(&limits::FETCHED);
        }
        self.writes += 1;
        self.fetched.push(directory);
        Over::NOTHING
    }

    /// True for a path below a directory that this command filled from the network.
    pub(crate) fn is_fetched(&self, path: &str) -> bool {
        self.fetched
            .iter()
            .any(|directory| path.strip_prefix(directory.as_str()).is_some_and(|rest| rest.starts_with('/')))
    }

    /// Remembers what a file holds from now on.
    pub(crate) fn write(&mut self, path: String, data: Data) -> Over {
        if self.files.len() >= limits::FILES.most && !self.files.contains_key(&path) {
            return Over::of(&limits::FILES);
        }
        self.writes += 1;
        self.files.insert(path, data);
        Over::NOTHING
    }
}
