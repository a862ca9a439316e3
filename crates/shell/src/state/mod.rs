//! The state of a running shell: variables, functions, working directory, what it wrote, open descriptors.

mod disk;
mod function;
mod join;
mod value;
mod variables;

use std::collections::{HashMap, HashSet};
use std::ops::{Deref, DerefMut};
use std::rc::{Rc, Weak};

pub(crate) use self::disk::Disk;
pub(crate) use self::function::Function;
pub(crate) use self::value::{Casing, Value};
pub(crate) use self::variables::is_prompt;
use crate::data::{Data, Taint};
use crate::place::Place;
use crate::redirect::Output;

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

/// A moment in the life of a state.
pub(crate) struct Moment(Weak<State>);

impl Shared {
    /// Returns the state of a shell that starts at `place`.
    pub(crate) fn at(place: &Place) -> Self {
        Self(Rc::new(State::at(place)))
    }

    /// Keeps of this state and `other` what both agree on, and all of the one in which the shell runs on where the other
    /// has ended it; what they disagree about becomes a hole,
    /// except that a branch which assigned beats one which did not.
    pub(crate) fn join(&mut self, other: Self) {
        if self.ended {
            *self = other;
        } else if !other.ended && !Rc::ptr_eq(&self.0, &other.0) {
            Rc::make_mut(&mut self.0).merge(Rc::unwrap_or_clone(other.0));
        }
    }

    /// Takes over what a subshell wrote to files: files outlive the shell that wrote them.
    pub(crate) fn keep_files_of(&mut self, inner: &Self) {
        if Rc::ptr_eq(&self.0, &inner.0) {
            return;
        }
        if self.disk.is_older_than(&inner.disk) {
            self.disk.clone_from(&inner.disk);
        }
        if self.cursors != inner.cursors {
            self.cursors.clone_from(&inner.cursors);
        }
    }

    /// Returns whether nothing was written to either since one was handed on as the other.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Returns what tells whether anything is written from now on, without keeping a copy of what there is.
    pub(crate) fn moment(&self) -> Moment {
        Moment(Rc::downgrade(&self.0))
    }

    /// Returns whether nothing was written since.
    pub(crate) fn is_at(&self, moment: &Moment) -> bool {
        std::ptr::eq(Rc::as_ptr(&self.0), moment.0.as_ptr())
    }

    /// Returns whether what a command can see of both is the same.
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
    /// The shell met what is an error to it, after which it runs nothing more.
    pub(crate) ended: bool,
    /// Commands to run when the shell ends.
    pub(crate) farewells: Vec<String>,
    /// `$0`.
    pub(crate) name: String,
    /// The working directory; `None` when a `cd` went somewhere unknown.
    pub(crate) cwd: Option<String>,
    /// Others that it may be besides, where branches went different ways.
    others: Vec<Option<String>>,
    /// What this command wrote to the disk.
    pub(crate) disk: Disk,
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
    /// Returns the state of a shell that starts at `place`.
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
            ended: false,
            farewells: Vec::new(),
            name: "bash".into(),
            cwd: Some(place.cwd().to_owned()),
            others: Vec::new(),
            disk: Disk::default(),
            input: None,
            outputs: Vec::new(),
            descriptors: HashMap::new(),
            sockets: Vec::new(),
            foreign: false,
        }
    }

    /// Returns what a command reads that is given `stdin`: where that is the session's, what `exec` put in its place.
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

    /// Makes a word an alias.
    pub(crate) fn alias(&mut self, name: &str, text: String) {
        let texts = self.aliases.entry(name.to_owned()).or_default();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }

    /// Returns the working directories that it may be; empty where it is certain.
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
}
