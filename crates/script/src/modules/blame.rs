//! Whose import it was that failed, and where it stands.
//!
//! The engine asks for a module by its name alone, and reports errors without a place. An author needs the file with the import, its line
//! and the word as it was written; they are worked out once something has failed, and what succeeds costs nothing.
//!
//! Limits: an import inside of an expression (`import(..)`, `require(..)`) is named by its file, since its place is that of the call, which
//! the stack says.

use std::fmt::Write as _;

use super::{Asked, Found, Modules, source};
use crate::error::{Place, ScriptError};
use crate::typescript;

/// Most exported names that a message lists.
const MOST_NAMES: usize = 12;
/// Most characters of a name that is quoted out of a source.
const MOST_NAME: usize = 64;

/// The latest import whose module was found. A module is read right after it was asked for.
#[derive(Debug)]
pub(super) struct Latest {
    name: String,
    importer: String,
    specifier: String,
}

impl Modules {
    /// Notes who asked for the module `name`.
    pub(super) fn note_asked(&self, importer: &str, specifier: &str, name: &str) {
        let latest =
            Latest { name: name.to_owned(), importer: importer.to_owned(), specifier: specifier.to_owned() };
        self.latest.replace(Some(latest));
    }

    /// The error about an import, with its place where it is a statement of a module that is being linked.
    pub(super) fn refused_at(
        &self,
        importer: &str,
        specifier: &str,
        reason: impl Into<String>,
    ) -> ScriptError {
        let mut error = Self::refused(importer, specifier, reason);
        let text = self.linking.borrow().get(importer).map(|module| module.text.clone());
        if let ScriptError::Module { importer: shown, .. } = &mut error
            && let Some((line, column)) = text.and_then(|text| typescript::import_at(&text, specifier))
        {
            // Writing to a text can't fail.
            let _ = write!(shown, ":{line}:{column}");
        }
        error
    }

    /// The error about a module that can't be read, as it was asked for.
    pub(super) fn unreadable(&self, name: &str, reason: impl Into<String>) -> ScriptError {
        let latest = self.latest.borrow();
        match latest.as_ref().filter(|latest| latest.name == name) {
            Some(latest) => self.refused_at(&latest.importer, &latest.specifier, reason),
            None => Self::refused(name, name, reason),
        }
    }

    /// The text of a file that was loaded.
    fn loaded_text(&self, name: &str) -> Option<String> {
        let is_loaded = self.names.borrow().contains(name);
        is_loaded.then(|| self.read(name, &self.files.path(name)).ok()).flatten()
    }

    /// That text as JavaScript.
    fn loaded_javascript(&self, name: &str) -> Option<String> {
        source::javascript(name, &self.loaded_text(name)?).ok()
    }

    /// Where the import stands that takes what its module does not export, if that is what `message` says.
    pub(crate) fn lacking_export(&self, error: &ScriptError) -> Option<ScriptError> {
        let ScriptError::Thrown { message, .. } = error else { return None };
        let rest = message.strip_prefix("SyntaxError: Could not find export '")?;
        let (wanted, module) = rest.strip_suffix('\'')?.split_once("' in module '")?;
        let exports = typescript::exports(&self.loaded_javascript(module)?).names;
        let names = self.names.borrow().clone();
        names.iter().find_map(|importer| {
            let text = self.loaded_javascript(importer)?;
            let takes = typescript::imports(&text);
            let is_it = |specifier: &str| {
                let found = self.files.resolve(importer, specifier, Asked::Import);
                matches!(found, Ok(Found::File(name)) if name == module)
            };
            let (specifier, _) =
                takes.iter().find(|(specifier, taken)| taken.contains(wanted) && is_it(specifier))?;
            let (line, column) = typescript::import_at(&text, specifier)?;
            let place = Place { file: importer.clone(), line, column };
            let mut known: Vec<String> =
                exports.iter().take(MOST_NAMES).map(|name| format!("`{name}`")).collect();
            if let more @ 1.. = exports.len().saturating_sub(MOST_NAMES) {
                known.push(format!("and {more} more"));
            }
            let hint = match known.is_empty() {
                true => "it exports nothing by name".to_owned(),
                false => format!("it exports {}", known.join(", ")),
            };
            let message = format!("`{specifier}` does not export `{wanted}`\n  hint: {hint}");
            Some(ScriptError::Syntax { place, message })
        })
    }

    /// What the source calls at a place, where the engine says that it is no function. A stack is a text that a script may write, so
    /// only files that are loaded are read.
    pub(crate) fn called_at(&self, place: &Place) -> Option<String> {
        let text = self.loaded_text(&place.file)?;
        let number = |number: u32| usize::try_from(number).ok()?.checked_sub(1);
        let line = text.lines().nth(number(place.line)?)?;
        let column = number(place.column)?;
        let is_part = |character: &char| character.is_alphanumeric() || "_$".contains(*character);
        let after = line.chars().skip(column).skip_while(|character| "?.".contains(*character));
        let mut name: String = after.take_while(is_part).take(MOST_NAME + 1).collect();
        if name.is_empty() {
            // Of a plain call the engine names the place behind the name.
            let before: Vec<char> = line.chars().take(column).collect();
            let backwards: Vec<char> =
                before.into_iter().rev().take_while(is_part).take(MOST_NAME + 1).collect();
            name = backwards.into_iter().rev().collect();
        }
        (1..=MOST_NAME).contains(&name.chars().count()).then_some(name)
    }
}
