//! Joins two possible states of a shell into one.
//!
//! Where branches differ, a variable has one of their values, a function one of their bodies, a file one of
//! their contents; what is equal in both stays as it is.

use super::value::MAX_VALUES;
use super::{Cursor, State, Value};
use crate::data::Data;
use crate::redirect::Output;
use crate::word::HOLE;

impl State {
    pub(super) fn merge(&mut self, other: Self) {
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
        self.disk.join(other.disk);
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

    pub(super) fn looks_like(&self, other: &Self) -> bool {
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

    pub(super) fn widen(&mut self, other: &Self) {
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
}
