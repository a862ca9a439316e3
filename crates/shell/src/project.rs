//! Files of the workspace that decide what a command runs: scripts, makefiles, package scripts.
//!
//! They are read only if the place offers a reader, a few per command, and none larger than
//! any other data may be. A file that can't be read is treated as without a reader: it is not seen through.

use std::collections::{BTreeMap, HashMap};

use super::data::{Data, MAX_TEXT, Taint};
use super::limits::{self, Over};
use super::place::Looked;
use super::walk::Shell;
use super::word::sanitise;

/// Most files looked into for one command.
pub(super) const MAX_FILES: usize = 64;

impl Shell<'_> {
    /// Returns what a file holds that this command did not write.
    pub(super) fn workspace_file(&mut self, resolved: &str) -> Data {
        self.look_at(resolved).0
    }

    /// Returns what a file holds, and whether it begins as scripts do.
    fn look_at(&mut self, resolved: &str) -> (Data, bool) {
        let unknown = Data::unknown(Taint::FILE);
        if self.readable == 0 {
            return (unknown, false);
        }
        let text = match self.place.look_at(resolved) {
            Looked::Text(text) => text,
            Looked::Missing => return (unknown, false),
            Looked::Unreadable => return (unknown.tainted(Taint::UNREAD), false),
        };
        let is_script = text.starts_with("#!");
        if text.len() > MAX_TEXT {
            return (unknown.tainted(Taint::UNREAD), is_script);
        }
        self.readable -= 1;
        (Data::text(sanitise(&text)), is_script)
    }

    /// True when files that could be looked into no longer are: what runs from one then is as unknown as can be.
    pub(super) fn has_read_enough(&self) -> bool {
        self.readable == 0 && self.place.reads_files()
    }

    /// A program started by path that is a shell script of the workspace.
    pub(super) fn script(&mut self, word: &str) -> Option<Data> {
        if self.has_read_enough() {
            self.note_limit();
        }
        let resolved = self.resolve(word);
        let (data, is_script) = self.look_at(&resolved);
        if data.taint.has(Taint::UNREAD) {
            return (is_script || word.ends_with(".sh")).then_some(data);
        }
        let is_shell = data.exact().is_some_and(|text| {
            let first = text.lines().next().unwrap_or_default();
            first.starts_with("#!") && first.ends_with("sh")
                || !first.starts_with("#!") && word.ends_with(".sh")
        });
        is_shell.then_some(data)
    }
}

/// Returns the scripts of a `package.json` that `args` start, with those before and after them.
pub(super) fn scripts(package: &str, program: &str, args: &[&str]) -> Vec<String> {
    let words: Vec<&str> = args.iter().copied().filter(|arg| !arg.starts_with('-')).collect();
    let name = match words.as_slice() {
        ["run" | "run-script", name, ..] => *name,
        [name @ ("test" | "start" | "stop" | "restart" | "install"), ..] => *name,
        ["t", ..] => "test",
        ["i" | "ci" | "add", ..] => "install",
        [name, ..] if program != "npm" => *name,
        _ => return Vec::new(),
    };
    let package: serde_json::Value = serde_json::from_str(package).unwrap_or_default();
    [format!("pre{name}"), name.to_owned(), format!("post{name}"), "prepare".to_owned()]
        .iter()
        .filter(|script| *script != "prepare" || name == "install")
        .filter_map(|script| package.get("scripts")?.get(script)?.as_str().map(str::to_owned))
        .collect()
}

/// Returns the recipes that `make` runs for these targets (the first of the file when there are none) and for what
/// they depend on, as shell text, and whether some of a text is missing.
pub(super) fn recipes(makefile: &str, targets: &[&str]) -> (Vec<String>, Over) {
    let mut rules: BTreeMap<&str, (Vec<&str>, Vec<&str>)> = BTreeMap::new();
    let mut values: HashMap<&str, &str> = HashMap::new();
    let mut first = None;
    let mut current: Vec<&str> = Vec::new();
    for line in makefile.lines() {
        if let Some(recipe) = line.strip_prefix('\t') {
            for name in &current {
                rules.entry(name).or_default().1.push(recipe);
            }
        } else if let Some((name, value)) = assignment(line) {
            values.insert(name, value);
        } else if let Some((names, needs)) = line.split_once(':').filter(|_| !line.starts_with(['#', ' '])) {
            current = names.split_whitespace().collect();
            first = first.or(current.first().copied().filter(|name| !name.starts_with('.')));
            for name in &current {
                let (needs, recipe) =
                    needs.split_once(';').map_or((needs, None), |(needs, recipe)| (needs, Some(recipe)));
                let rule = rules.entry(name).or_default();
                rule.0.extend(needs.trim_start_matches(':').split_whitespace());
                rule.1.extend(recipe.map(str::trim_start));
            }
        }
    }
    let mut wanted: Vec<&str> = targets.iter().copied().filter(|target| !target.contains('=')).collect();
    if wanted.is_empty() {
        wanted.extend(first);
    }
    let mut texts = Vec::new();
    let mut over = Over::NOTHING;
    while let Some(target) = wanted.pop() {
        // Each rule is taken out, so that circles end.
        let Some((needs, lines)) = rules.remove(target) else { continue };
        wanted.extend(needs);
        for line in lines {
            let (text, left_out) = expanded(line.trim_start_matches(['@', '-', '+']), &values);
            over = over.or(left_out);
            texts.push(text);
        }
    }
    (texts, over)
}

/// Returns the text with the values of variables in place; `None` when it names none that has one.
fn filled(text: &str, values: &HashMap<&str, &str>) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut found = false;
    while let Some((head, tail)) = rest.split_once('$') {
        out.push_str(head);
        let close = match tail.chars().next() {
            Some('(') => Some(')'),
            Some('{') => Some('}'),
            _ => None,
        };
        let named = close.and_then(|close| tail.get(1..)?.split_once(close));
        match named.and_then(|(name, after)| Some((values.get(name)?, after))) {
            Some((value, after)) => {
                found = true;
                out.push_str(value);
                rest = after;
            }
            None => {
                out.push('$');
                rest = tail;
            }
        }
    }
    out.push_str(rest);
    found.then_some(out)
}

/// `NAME = value` and its kin.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim_end_matches([':', '?', '+']).trim();
    let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    plain.then(|| (name, value.trim()))
}

/// A recipe as shell text: variables of the makefile by their values, others as variables of the shell.
fn expanded(line: &str, values: &HashMap<&str, &str>) -> (String, Over) {
    let mut text = line.to_owned();
    let mut over = Over::NOTHING;
    for pass in 0_usize.. {
        let Some(filled) = filled(&text, values) else { break };
        if filled.len() > MAX_TEXT || pass >= limits::FILLINGS.most {
            over = Over::of(&limits::FILLINGS);
            break;
        }
        text = filled;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some((head, tail)) = rest.split_once("$(") {
        out.push_str(head);
        match tail.split_once(')') {
            Some((name, after)) if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => {
                out.push_str(&format!("${{{name}}}"));
                rest = after;
            }
            _ => {
                let code = tail.strip_prefix("shell ").unwrap_or(tail);
                out.push_str("$(");
                rest = code;
            }
        }
    }
    out.push_str(rest);
    (out.replace("$$", "$"), over)
}
