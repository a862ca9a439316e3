//! What a shell holds while it runs: variables, functions, working directory, files it wrote, open
//! descriptors.

use std::collections::{HashMap, HashSet};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use brush_parser::ast;

use super::data::{Data, Taint};
use super::limits::{self, Over};
use super::redirect::Output;
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
    /// What it is outside of this command, which is not known.
    Outside,
    /// One of these.
    OneOf(Rc<[Value]>),
}

/// Most values of which a variable may have one; where there are more, it may have any.
const MAX_VALUES: usize = 8;

impl Value {
    /// The value as one text, arrays by their first element.
    pub(crate) fn scalar(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::List(list) => list.first().map_or("", String::as_str),
            Self::Unset | Self::Outside => "",
            Self::OneOf(values) => values.first().map_or("", Self::scalar),
        }
    }

    /// This value or the other: those that say more come first.
    fn or(self, other: Self) -> Self {
        let mut kept: Vec<Self> = Vec::new();
        for value in [self, other] {
            let each = match &value {
                Self::OneOf(values) => values.as_ref(),
                one => std::slice::from_ref(one),
            };
            for one in each {
                if !kept.contains(one) {
                    kept.push(one.clone());
                }
            }
        }
        kept.sort_by_key(|value| value.scalar().is_empty());
        if kept.len() > MAX_VALUES {
            kept.drain(MAX_VALUES - 1..);
            kept.push(Self::Text(HOLE.to_string()));
        }
        match kept.pop() {
            Some(only) if kept.is_empty() => only,
            last => Self::OneOf(kept.into_iter().chain(last).collect()),
        }
    }
}

/// How a declared variable changes what is assigned to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Casing {
    Lower,
    Upper,
    /// What is assigned is an arithmetic expression.
    Number,
}

/// A function: its body, shared with the syntax tree that was copied once.
#[derive(Clone)]
pub(crate) struct Function {
    /// Each body that it may have; `None` where it may not be defined.
    pub(crate) definitions: Vec<Option<Rc<ast::FunctionDefinition>>>,
}

impl Function {
    /// A function that is certainly this one.
    pub(crate) fn new(definition: Rc<ast::FunctionDefinition>) -> Self {
        Self { definitions: vec![Some(definition)] }
    }

    fn or(&mut self, other: Option<Self>) {
        let others = other.map_or_else(|| vec![None], |other| other.definitions);
        for one in others {
            let known = self.definitions.iter().any(|ours| match (ours, &one) {
                (Some(ours), Some(one)) => Rc::ptr_eq(ours, one),
                (None, None) => true,
                _ => false,
            });
            if !known {
                self.definitions.push(one);
            }
        }
    }

    fn is(&self, other: &Self) -> bool {
        self.definitions.len() == other.definitions.len()
            && self.definitions.iter().zip(&other.definitions).all(|pair| match pair {
                (Some(ours), Some(theirs)) => Rc::ptr_eq(ours, theirs),
                (None, None) => true,
                _ => false,
            })
    }
}

/// Variables that a shell shows, and in which it substitutes commands.
pub(crate) fn is_prompt(name: &str) -> bool {
    const NAMES: [&str; 16] = [
        "PS0", "PS1", "PS2", "PS3", "PS4", "PROMPT", "PROMPT2", "PROMPT3", "PROMPT4", "RPROMPT", "RPROMPT2",
        "RPS1", "RPS2", "SPROMPT", "MAILPATH", "TIMEFMT",
    ];
    name.starts_with(['P', 'R', 'S', 'M', 'T']) && NAMES.contains(&name)
}

/// How far an open file was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Cursor {
    /// Bytes that are gone.
    pub(crate) at: usize,
    /// Another program may have read on.
    pub(crate) shared: bool,
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
            self.installed.clone_from(&inner.installed);
            self.links.clone_from(&inner.links);
            self.fetched.clone_from(&inner.fetched);
            self.writes = inner.writes;
        }
        if !Rc::ptr_eq(&self.0, &inner.0) && self.cursors != inner.cursors {
            self.cursors.clone_from(&inner.cursors);
        }
    }

    /// Whether nothing was written to either since one was handed on as the other.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Whether what a command can see of both is the same.
    pub(crate) fn looks_like(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0) || self.0.looks_like(&other.0)
    }

    /// What `self` and `other` disagree about becomes anything.
    pub(crate) fn widen(&mut self, other: &Self) {
        if !Rc::ptr_eq(&self.0, &other.0) {
            Rc::make_mut(&mut self.0).widen(&other.0);
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
    /// Each text that a word was ever an alias of: a shell replaces aliases when it reads a line, not when it runs it.
    pub(crate) aliases: HashMap<String, Vec<String>>,
    /// `$1`, `$2`, …
    pub(crate) positional: Vec<String>,
    /// The lists that they may be besides.
    pub(crate) positionals: Vec<Vec<String>>,
    /// Variables that can no longer be assigned.
    readonly: HashSet<String>,
    /// Arrays whose keys are words.
    keyed: HashSet<String>,
    /// What was assigned that the shell does something with by itself.
    pub(crate) watched: Vec<(String, Value)>,
    /// This shell was given a prompt.
    pub(crate) prompted: bool,
    /// Functions that the shell calls by itself.
    pub(crate) hooks: Vec<String>,
    /// For each function that is being called, what its local variables hide.
    hidden: Vec<HashMap<String, Value>>,
    /// How far the files that are open were read.
    pub(crate) cursors: HashMap<usize, Cursor>,
    /// The last command of a pipe runs in the shell itself.
    pub(crate) last_pipe: bool,
    /// Commands to run when the shell ends.
    pub(crate) farewells: Vec<String>,
    /// `$0`.
    pub(crate) name: String,
    /// The working directory; `None` when a `cd` went somewhere unknown.
    pub(crate) cwd: Option<String>,
    /// Others that it may be besides, where branches went different ways.
    others: Vec<Option<String>>,
    /// Files whose content is known from this very command, by resolved path.
    pub(crate) files: HashMap<String, Data>,
    /// Those of them that lie in a folder for programs, by their names.
    installed: HashMap<String, String>,
    /// How often a file was written.
    writes: usize,
    /// Symbolic links this command made, by resolved path, and where they lead.
    links: Vec<(String, String)>,
    /// Directories that this command filled from the network, by resolved path.
    fetched: Vec<String>,
    /// What `exec` made the standard input of the shell.
    pub(crate) input: Option<Data>,
    /// Where `exec` sends the standard output of the shell.
    pub(crate) outputs: Vec<Output>,
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
            positionals: Vec::new(),
            readonly: HashSet::new(),
            keyed: HashSet::new(),
            watched: Vec::new(),
            prompted: false,
            hooks: Vec::new(),
            hidden: Vec::new(),
            cursors: HashMap::new(),
            last_pipe: false,
            farewells: Vec::new(),
            name: "bash".into(),
            cwd: Some(place.cwd().to_owned()),
            others: Vec::new(),
            files: HashMap::new(),
            installed: HashMap::new(),
            writes: 0,
            links: Vec::new(),
            fetched: Vec::new(),
            input: None,
            outputs: Vec::new(),
            descriptors: HashMap::new(),
            sockets: Vec::new(),
            foreign: false,
        }
    }

    /// What a command reads that is given `stdin`: where that is the session's, what `exec` put in its place.
    pub(crate) fn input_or(&self, stdin: &Data) -> Data {
        let Some(input) = &self.input else { return stdin.clone() };
        if stdin.marked().is_none() && stdin.taint == Taint::INPUT {
            return input.clone();
        }
        let mut either = stdin.clone();
        if either.marked() != input.marked() {
            either.or(input);
        }
        either
    }

    /// The variable `name` stands for, following one name reference.
    fn target<'a>(&'a self, name: &'a str) -> &'a str {
        self.references.get(name).map_or(name, String::as_str)
    }

    /// The element of an array that a name stands for.
    pub(crate) fn referred_element(&self, name: &str) -> Option<(String, String)> {
        let (array, index) = super::simple::element_of(self.references.get(name)?)?;
        Some((array.to_owned(), index.to_owned()))
    }

    /// The value that was assigned in this command, if one was. Where it is one of several, this is the first; see
    /// `Shell::settle`.
    pub(crate) fn assigned(&self, name: &str) -> Option<&Value> {
        let value = self.vars.get(self.target(name))?;
        let value = match value {
            Value::OneOf(values) => values.first()?,
            one => one,
        };
        (*value != Value::Outside).then_some(value)
    }

    /// All that is known of the value of a variable.
    pub(crate) fn raw(&self, name: &str) -> Option<&Value> {
        self.vars.get(self.target(name))
    }

    /// Takes one of its values for the value of a variable.
    pub(crate) fn narrow(&mut self, name: &str, value: Value) {
        let name = self.target(name).to_owned();
        self.vars.insert(name, value);
    }

    /// Makes a word an alias.
    pub(crate) fn alias(&mut self, name: &str, text: String) {
        let texts = self.aliases.entry(name.to_owned()).or_default();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }

    /// Enters a function.
    pub(crate) fn enter(&mut self) {
        self.hidden.push(HashMap::new());
    }

    /// Leaves a function: its local variables are gone.
    pub(crate) fn leave(&mut self) {
        for (name, value) in self.hidden.pop().into_iter().flatten() {
            match value {
                Value::Outside => drop(self.vars.remove(&name)),
                value => drop(self.vars.insert(name, value)),
            }
        }
    }

    /// Leaves a function whose local variables stay.
    pub(crate) fn stay(&mut self) {
        self.hidden.pop();
    }

    /// Whether a function is being called.
    pub(crate) fn is_inside(&self) -> bool {
        !self.hidden.is_empty()
    }

    /// Makes a variable local to the function that is being called; false where none is.
    pub(crate) fn hide(&mut self, name: &str) -> bool {
        let before = self.vars.get(name).cloned().unwrap_or(Value::Outside);
        let Some(hidden) = self.hidden.last_mut() else { return false };
        hidden.entry(name.to_owned()).or_insert(before);
        true
    }

    /// Whether the function that is being called has the variable for itself.
    pub(crate) fn is_hidden(&self, name: &str) -> bool {
        self.hidden.last().is_some_and(|hidden| hidden.contains_key(name))
    }

    /// Keeps a variable from being assigned again.
    pub(crate) fn freeze(&mut self, name: &str) {
        self.readonly.insert(name.to_owned());
    }

    /// Whether assigning the variable may fail.
    pub(crate) fn is_frozen(&self, name: &str) -> bool {
        self.readonly.contains(self.target(name))
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
        let mut value = match (self.casings.get(&name), value) {
            (Some(Casing::Lower), Value::Text(text)) => Value::Text(text.to_lowercase()),
            (Some(Casing::Upper), Value::Text(text)) => Value::Text(text.to_uppercase()),
            (Some(Casing::Number), Value::Text(text)) => {
                let number = super::arith::evaluate(&text, self);
                Value::Text(number.map_or_else(|| HOLE.to_string(), |number| number.to_string()))
            }
            (_, value) => value,
        };
        if self.readonly.contains(&name) {
            // Some shells refuse, others begin anew in a function.
            value = value.or(self.vars.get(&name).cloned().unwrap_or(Value::Outside));
        }
        self.watch(&name, &value);
        self.vars.insert(name, value);
    }

    /// Takes down an assignment that means more to the shell than a value.
    fn watch(&mut self, name: &str, value: &Value) {
        if is_prompt(name) || name == "PROMPT_COMMAND" {
            self.watched.push((name.to_owned(), value.clone()));
        } else if name.ends_with("_functions") {
            self.hooks.extend(match value {
                Value::List(list) => list.clone(),
                one => vec![one.scalar().to_owned()],
            });
            self.watched.push((name.to_owned(), value.clone()));
        } else if let Some((table, key)) = super::simple::element_of(name) {
            let text = value.scalar();
            match table {
                "BASH_ALIASES" | "BASH_CMDS" | "aliases" | "galiases" | "saliases" | "commands" => {
                    self.alias(key, text.to_owned());
                }
                "functions" => self.alias(key, format!("{key}() {{\n{text}\n}}\n{key}")),
                _ => {}
            }
        }
    }

    /// Makes the keys of an array words.
    pub(crate) fn key_by_words(&mut self, name: &str) {
        self.keyed.insert(name.to_owned());
    }

    /// Whether the keys of an array are words, whatever they look like.
    pub(crate) fn is_keyed(&self, name: &str) -> bool {
        const TABLES: [&str; 7] =
            ["BASH_ALIASES", "BASH_CMDS", "aliases", "galiases", "saliases", "commands", "functions"];
        self.keyed.contains(name) || TABLES.contains(&name)
    }

    /// A variable may have been given another value, which is not known.
    pub(crate) fn blur(&mut self, name: &str) {
        let name = self.target(name).to_owned();
        if let Some(value) = self.vars.remove(&name) {
            self.vars.insert(name, value.or(Value::Text(HOLE.to_string())));
        }
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

    /// Whether what is assigned to a variable is read as arithmetic.
    pub(crate) fn is_number(&self, name: &str) -> bool {
        self.casings.get(self.target(name)) == Some(&Casing::Number)
    }

    /// Makes `name` another name of `target`.
    pub(crate) fn declare_reference(&mut self, name: &str, target: &str) {
        if name != target {
            self.references.insert(name.to_owned(), target.to_owned());
        }
    }

    /// A variable is what it is by itself again.
    pub(crate) fn forget(&mut self, name: &str) {
        if self.vars.contains_key(name) {
            self.vars.remove(name);
        }
    }

    /// Forgets a variable for certain.
    pub(crate) fn unset(&mut self, name: &str) {
        self.vars.insert(name.to_owned(), Value::Unset);
    }

    fn merge(&mut self, other: Self) {
        self.writes = self.writes.max(other.writes) + 1;
        for (name, value) in &mut self.vars {
            if !other.vars.contains_key(name) && *value != Value::Outside {
                *value = std::mem::replace(value, Value::Outside).or(Value::Outside);
            }
        }
        for (name, theirs) in other.vars {
            let ours = self.vars.remove(&name).unwrap_or(Value::Outside);
            self.vars.insert(name, if ours == theirs { ours } else { ours.or(theirs) });
        }
        for (name, taint) in other.taints {
            *self.taints.entry(name).or_default() |= taint;
        }
        for (name, function) in &mut self.functions {
            function.or(other.functions.get(name).cloned());
        }
        for (name, mut function) in other.functions {
            self.functions.entry(name).or_insert_with(|| {
                function.or(None);
                function
            });
        }
        for (name, texts) in other.aliases {
            for text in texts {
                self.alias(&name, text);
            }
        }
        self.merge_files(other.files, other.installed, other.links);
        for (number, data) in other.descriptors {
            match self.descriptors.get_mut(&number) {
                Some(ours) => ours.or(&data),
                None => drop(self.descriptors.insert(number, data)),
            }
        }
        self.merge_streams(other.input, other.outputs);
        for list in std::iter::once(other.positional).chain(other.positionals) {
            if self.positional != list && !self.positionals.contains(&list) {
                self.positionals.push(list);
            }
        }
        for (stream, theirs) in other.cursors {
            let ours = self.cursors.entry(stream).or_insert(theirs);
            if *ours != theirs {
                *ours = Cursor { at: ours.at.min(theirs.at), shared: true };
            }
        }
        for (ours, theirs) in self.hidden.iter_mut().zip(other.hidden) {
            for (name, value) in theirs {
                ours.entry(name).or_insert(value);
            }
        }
        for text in other.farewells {
            if !self.farewells.contains(&text) {
                self.farewells.push(text);
            }
        }
        self.readonly.extend(other.readonly);
        self.keyed.extend(other.keyed);
        self.watched.extend(other.watched);
        self.prompted |= other.prompted;
        self.merge_hooks(other.hooks);
        self.casings.extend(other.casings);
        self.references.extend(other.references);
        self.sockets.extend(other.sockets);
        self.sockets.sort();
        self.sockets.dedup();
        for folder in std::iter::once(other.cwd).chain(other.others) {
            if self.cwd != folder && !self.others.contains(&folder) {
                self.others.push(folder);
            }
        }
        if self.others.len() >= MAX_VALUES {
            self.cwd = None;
            self.others.clear();
        }
        self.foreign |= other.foreign;
        self.last_pipe |= other.last_pipe;
    }

    fn merge_hooks(&mut self, hooks: Vec<String>) {
        for hook in hooks {
            if !self.hooks.contains(&hook) {
                self.hooks.push(hook);
            }
        }
    }

    /// What either wrote, and the links that either made.
    fn merge_files(
        &mut self,
        files: HashMap<String, Data>,
        installed: HashMap<String, String>,
        links: Vec<(String, String)>,
    ) {
        self.installed.extend(installed);
        for link in links {
            if !self.links.contains(&link) {
                self.links.push(link);
            }
        }
        for (path, data) in files {
            match self.files.get_mut(&path) {
                Some(ours) => ours.or(&data),
                None => drop(self.files.insert(path, data)),
            }
        }
    }

    /// What `exec` may have redirected.
    fn merge_streams(&mut self, input: Option<Data>, outputs: Vec<Output>) {
        match (&mut self.input, input) {
            (Some(ours), Some(theirs)) => ours.or(&theirs),
            (ours, theirs) => *ours = ours.take().or(theirs),
        }
        for output in outputs {
            if !self.outputs.contains(&output) {
                self.outputs.push(output);
            }
        }
    }

    fn looks_like(&self, other: &Self) -> bool {
        let same_functions = self.functions.len() == other.functions.len()
            && self
                .functions
                .iter()
                .all(|(name, ours)| other.functions.get(name).is_some_and(|theirs| ours.is(theirs)));
        same_functions
            && self.vars == other.vars
            && self.positional == other.positional
            && self.positionals == other.positionals
            && self.aliases == other.aliases
            && self.cwd == other.cwd
            && self.others == other.others
            && self.farewells == other.farewells
    }

    fn widen(&mut self, other: &Self) {
        for (name, value) in &mut self.vars {
            if other.vars.get(name) != Some(value) {
                *value = Value::Text(HOLE.to_string());
            }
        }
        if self.positional != other.positional || self.positionals != other.positionals {
            self.positional = vec![HOLE.to_string()];
            self.positionals.clear();
        }
        if self.cwd != other.cwd || self.others != other.others {
            self.cwd = None;
            self.others.clear();
        }
    }

    /// The working directories that it may be; empty where it is certain.
    pub(crate) fn places(&self) -> Vec<Option<String>> {
        if self.others.is_empty() {
            return Vec::new();
        }
        std::iter::once(&self.cwd).chain(&self.others).cloned().collect()
    }

    /// Takes one of them for the working directory.
    pub(crate) fn stand_in(&mut self, cwd: Option<String>) {
        self.cwd = cwd;
        self.others.clear();
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
        self.writes += 1;
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
        if let Some((folder, name)) = path.rsplit_once('/')
            && matches!(folder.rsplit('/').next(), Some("bin" | "sbin"))
            && !name.is_empty()
        {
            self.installed.insert(name.to_owned(), path.clone());
        }
        self.files.insert(path, data);
        Over::NOTHING
    }

    /// The path of a program that this command wrote into a folder for programs.
    pub(crate) fn installed(&self, name: &str) -> Option<&str> {
        self.installed.get(name).map(String::as_str)
    }
}
