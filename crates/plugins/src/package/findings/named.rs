//! Which files the code of a plugin names, so that prose and pictures that it imports or starts are read as code.
//!
//! A file is known by its last name, in any case. What is imported or started counts for every file of that name; other texts in quotes
//! count in the package that has them. Names that code puts together while it runs are not seen, nor are names that are not in quotes.

use std::collections::BTreeSet;

use super::{MEDIA, TEXTS, ending};

/// Most names that are remembered. Beyond, every file counts as named.
const MOST_NAMES: usize = 100_000;
/// Longest name that a file may have, in bytes; systems have 255.
const LONGEST_NAME: usize = 1_024;
/// Fields of a `package.json` that name files which are imported or started.
const ENTRIES: [&str; 7] = ["main", "module", "browser", "exports", "imports", "bin", "openclaw"];
/// What stands before the name of a file that is imported.
const IMPORTS: [&str; 4] = ["import", "from", "import(", "require("];

/// Names of files whose endings say that they are prose or media.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// The package, and the name.
    quoted: BTreeSet<(String, String)>,
    imported: BTreeSet<String>,
}

impl Names {
    /// Takes the names from a file of source: texts in quotes that end in one.
    pub(super) fn of_source(&mut self, name: &str, text: &str) {
        let quotes = ['"', '\'', '`'];
        let mut before = "";
        for piece in text.split_inclusive(quotes) {
            if let Some(inside) = piece.strip_suffix(quotes) {
                let path = inside.split(['?', '#']).next().unwrap_or(inside);
                if is_prose_or_media(path) {
                    let is_imported = IMPORTS.iter().any(|import| before.trim_end().ends_with(import));
                    self.add(path, if is_imported { None } else { Some(package(name)) });
                }
                before = inside;
            }
        }
    }

    /// Takes what a `package.json` has the plugin, or a package, begin with.
    pub(super) fn of_package(&mut self, text: &str) {
        self.of_fields(text, &ENTRIES);
    }

    /// Takes what a manifest starts.
    pub(super) fn of_manifest(&mut self, text: &str) {
        self.of_fields(text, &["command", "entry"]);
    }

    /// Takes every word of these fields, or of all of the text where it is no JSON: manifests may be written in more than that.
    fn of_fields(&mut self, text: &str, fields: &[&str]) {
        match serde_json::from_str::<serde_json::Value>(text.trim_start_matches('\u{feff}')) {
            Ok(object) => {
                let values = fields.iter().filter_map(|field| object.get(field));
                values.for_each(|value| self.of_value(value));
            }
            Err(_) => self.of_words(text),
        }
    }

    /// Takes the file that a link leads to.
    pub(super) fn of_link(&mut self, name: &str, target: &str) {
        if !is_prose_or_media(name) && is_prose_or_media(target) {
            self.add(target, None);
        }
    }

    fn of_value(&mut self, value: &serde_json::Value) {
        match value {
            serde_json::Value::String(text) => self.of_words(text),
            serde_json::Value::Array(values) => values.iter().for_each(|value| self.of_value(value)),
            serde_json::Value::Object(fields) => fields.values().for_each(|value| self.of_value(value)),
            _ => {}
        }
    }

    fn of_words(&mut self, text: &str) {
        let words = text.split(|c: char| c.is_whitespace() || "\"'`()[]{}=,;".contains(c));
        for word in words.chain([text]).filter(|word| is_prose_or_media(word)) {
            self.add(word, None);
        }
    }

    /// Adds a name that counts in this package, or everywhere.
    fn add(&mut self, path: &str, package: Option<&str>) {
        let name = last(path);
        if self.is_full() || name.len() > LONGEST_NAME {
            return;
        }
        match package {
            Some(package) => self.quoted.insert((package.to_owned(), name.to_lowercase())),
            None => self.imported.insert(name.to_lowercase()),
        };
    }

    fn is_full(&self) -> bool {
        self.quoted.len() + self.imported.len() >= MOST_NAMES
    }

    /// Whether source has the name of this file in quotes, or imports or starts it.
    pub(super) fn has(&self, name: &str) -> bool {
        self.imports(name) || self.quoted.contains(&(package(name).to_owned(), last(name).to_lowercase()))
    }

    /// Whether this file is imported or started.
    pub(super) fn imports(&self, name: &str) -> bool {
        self.is_full() || self.imported.contains(&last(name).to_lowercase())
    }
}

fn last(path: &str) -> &str {
    path.rsplit(['/', '\\', '"', '\'', '`']).next().unwrap_or(path)
}

/// The folder of the package in `node_modules` that has this file, or nothing for the plugin's own files.
fn package(name: &str) -> &str {
    let Some((_, inner)) = name.rsplit_once("node_modules/") else { return "" };
    let parts = if inner.starts_with('@') { 2 } else { 1 };
    let length: usize = inner.split_inclusive('/').take(parts).map(str::len).sum();
    name.get(..name.len() - inner.len() + length).unwrap_or(name)
}

fn is_prose_or_media(path: &str) -> bool {
    let ending = ending(path);
    TEXTS.contains(&ending.as_str()) || MEDIA.contains(&ending.as_str())
}
