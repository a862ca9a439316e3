//! Variables: their values, the origin of these, and their declared attributes.
//!
//! A name may refer to another (`declare -n`), be local to a function, be read-only, or have a meaning for the
//! shell itself. This module only records what the shell does by itself.

use std::collections::HashMap;

use super::{Casing, State, Value};
use crate::data::Taint;
use crate::word::HOLE;

/// Variables that a shell shows, and in which it substitutes commands.
pub(crate) fn is_prompt(name: &str) -> bool {
    const NAMES: [&str; 16] = [
        "PS0", "PS1", "PS2", "PS3", "PS4", "PROMPT", "PROMPT2", "PROMPT3", "PROMPT4", "RPROMPT", "RPROMPT2",
        "RPS1", "RPS2", "SPROMPT", "MAILPATH", "TIMEFMT",
    ];
    name.starts_with(['P', 'R', 'S', 'M', 'T']) && NAMES.contains(&name)
}

impl State {
    /// Returns the variable `name` stands for, following one name reference.
    fn target<'a>(&'a self, name: &'a str) -> &'a str {
        self.references.get(name).map_or(name, String::as_str)
    }

    /// Returns the element of an array that a name stands for.
    pub(crate) fn referred_element(&self, name: &str) -> Option<(String, String)> {
        let (array, index) = crate::simple::element_of(self.references.get(name)?)?;
        Some((array.to_owned(), index.to_owned()))
    }

    /// Returns the value that was assigned in this command, if one was. Where it is one of several, this is the first; see
    /// `Shell::settle`.
    pub(crate) fn assigned(&self, name: &str) -> Option<&Value> {
        let value = self.vars.get(self.target(name))?;
        let value = match value {
            Value::OneOf(values) => values.first()?,
            one => one,
        };
        (*value != Value::Outside).then_some(value)
    }

    /// Returns all that is known of the value of a variable.
    pub(crate) fn raw(&self, name: &str) -> Option<&Value> {
        self.vars.get(self.target(name))
    }

    /// Takes one of its values for the value of a variable.
    pub(crate) fn narrow(&mut self, name: &str, value: Value) {
        let name = self.target(name).to_owned();
        self.vars.insert(name, value);
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

    /// Returns whether a function is being called.
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

    /// Returns whether the function that is being called has the variable for itself.
    pub(crate) fn is_hidden(&self, name: &str) -> bool {
        self.hidden.last().is_some_and(|hidden| hidden.contains_key(name))
    }

    /// Keeps a variable from being assigned again.
    pub(crate) fn freeze(&mut self, name: &str) {
        self.readonly.insert(name.to_owned());
    }

    /// Returns whether assigning the variable may fail.
    pub(crate) fn is_frozen(&self, name: &str) -> bool {
        self.readonly.contains(self.target(name))
    }

    /// Returns the value a reference to `name` expands to; unknown ones are a hole.
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
                let number = crate::arith::evaluate(&text, self);
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
        } else if let Some((table, key)) = crate::simple::element_of(name) {
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

    /// Returns whether the keys of an array are words, whatever they look like.
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

    /// Returns where the value of a variable comes from.
    pub(crate) fn taint(&self, name: &str) -> Taint {
        self.taints.get(self.target(name)).copied().unwrap_or_default()
    }

    /// Declares casing for later assignments.
    pub(crate) fn declare_casing(&mut self, name: &str, casing: Casing) {
        self.casings.insert(name.to_owned(), casing);
    }

    /// Returns whether what is assigned to a variable is read as arithmetic.
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

    /// Names and values assigned in this command whose name starts with `prefix`.
    pub(crate) fn assigned_with_prefix<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.vars.iter().filter(move |(name, _)| name.starts_with(prefix)).map(|(n, v)| (n.as_str(), v))
    }
}
