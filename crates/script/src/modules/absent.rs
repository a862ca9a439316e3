//! Names that a module of ours does not have, and modules that are not provided at all.
//!
//! **Law.** What is not provided links, says so by name when it is used, and is told to the host when it is imported. So code
//! that imports at its top what it never uses here is loaded, and whoever loads it knows what it will not find.
//!
//! A module can only be linked to names that it has. So whoever takes others gets a module of its own: everything that the
//! module has, and besides it the names that it lacks.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use super::{FOR, source};
use crate::bridge::{Bridge, Provided};
use crate::typescript::{self, Exports};

/// How such modules are named. Stacks leave them out, as they do all modules of ours.
pub(super) const ABSENT: &str = "backstop:absent/";
/// How those are named that are CommonJS themselves.
pub(super) const REQUIRED: &str = "backstop:absent/require/";

/// Bytes of all names and texts of such modules.
const MOST_BYTES: usize = 4 << 20;

/// The modules that lack something, each for one importer.
#[derive(Default)]
pub(super) struct Absent {
    texts: HashMap<String, String>,
    bytes: usize,
}

/// What of a module is not there.
pub(super) enum Lacking<'a> {
    /// All of it, for this reason.
    Whole(&'a str),
    /// All of it, for this reason, for CommonJS that can't wait for an ES module.
    Required(&'a str),
    /// Some names. Whether the module has a default export besides.
    Names { has_default: bool },
}

impl Absent {
    /// The name of the module that `importer` gets for `module`, with these names that throw when they are used.
    ///
    /// # Errors
    ///
    /// That there are too many.
    pub(super) fn add(
        &mut self,
        importer: &str,
        module: &str,
        lacking: &Lacking<'_>,
        names: &BTreeSet<String>,
        most: usize,
    ) -> Result<String, &'static str> {
        let kind = if matches!(lacking, Lacking::Required(_)) { REQUIRED } else { ABSENT };
        let name = format!("{kind}{module}{FOR}{importer}");
        if self.texts.contains_key(&name) {
            return Ok(name);
        }
        let text = text(module, lacking, names);
        let bytes = name.len() + text.len();
        if self.texts.len() >= most || self.bytes + bytes > MOST_BYTES {
            return Err("more names of modules that are not provided were asked for than are remembered");
        }
        self.bytes += bytes;
        self.texts.insert(name.clone(), text);
        Ok(name)
    }

    /// The text of such a module.
    pub(super) fn text(&self, name: &str) -> Option<&String> {
        self.texts.get(name)
    }
}

/// The names that a module seems to take of `specifier`, each that it takes among them: a parser is slower, and is asked where one
/// of these is not there. Nothing where it can't be seen.
pub(super) fn named<'a>(text: &'a str, specifier: &str) -> Option<Vec<&'a str>> {
    let mut names = Vec::new();
    for quote in ['"', '\''] {
        for (at, _) in text.match_indices(&format!("{quote}{specifier}{quote}")) {
            let before = text.get(..at)?.trim_end();
            let Some(clause) = before.strip_suffix("from").map(str::trim_end) else {
                if before.ends_with("*/") {
                    return None;
                }
                continue;
            };
            let (first, list) = match clause.strip_suffix('}') {
                Some(inside) => {
                    let (first, list) = inside.rsplit_once('{')?;
                    (first.trim_end().strip_suffix(',').map(str::trim_end), list)
                }
                None => (Some(clause), ""),
            };
            if list.contains(['"', '\'', '/']) || first.is_some_and(|first| first.ends_with('/')) {
                return None;
            }
            names.extend(list.split(',').filter_map(|part| part.split_whitespace().next()));
            // What is no namespace is the default, also where it is neither; a namespace may stand behind one.
            let is_default = |first: &str| {
                let name = first.rsplit(|c: char| c.is_whitespace() || c == '*').next().unwrap_or_default();
                let rest = first.get(..first.len() - name.len()).unwrap_or_default().trim_end();
                let star =
                    first.strip_suffix('*').or_else(|| rest.strip_suffix("as")?.trim_end().strip_suffix('*'));
                star.is_none_or(|before| before.trim_end().ends_with(','))
            };
            if first.is_some_and(is_default) {
                names.push("default");
            }
        }
    }
    Some(names)
}

/// The names that a module of the bridge exports, with what it passes on of others.
pub(super) fn exports_of(bridge: &dyn Bridge, source: &str) -> BTreeSet<String> {
    /// Modules that it passes on, and they.
    const MOST: usize = 32;
    let mut names = BTreeSet::new();
    let mut sources = vec![Arc::<str>::from(source)];
    for _ in 0..MOST {
        let Some(source) = sources.pop() else { break };
        let exports = parsed(&source);
        names.extend(exports.names.iter().cloned());
        sources.extend(exports.all_of.iter().filter_map(|name| match bridge.module(name) {
            Some(Provided::Source(source)) => Some(source),
            _ => None,
        }));
    }
    names
}

/// The exports of a source of the bridge. There are a few, which each plugin imports, so they are parsed once.
fn parsed(source: &Arc<str>) -> Arc<Exports> {
    const MOST: usize = 32;
    static KNOWN: Mutex<Vec<(Arc<str>, Arc<Exports>)>> = Mutex::new(Vec::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, exports)) = known().iter().find(|(other, _)| other == source) {
        return Arc::clone(exports);
    }
    let exports = Arc::new(typescript::exports(source));
    let mut known = known();
    if known.len() >= MOST {
        known.remove(0);
    }
    known.push((Arc::clone(source), Arc::clone(&exports)));
    exports
}

/// A module with exports that throw when they are used.
fn text(module: &str, lacking: &Lacking<'_>, names: &BTreeSet<String>) -> String {
    let quote = |text: &str| serde_json::to_string(text).unwrap_or_else(|_| "\"\"".to_owned());
    let why = match lacking {
        Lacking::Whole(reason) | Lacking::Required(reason) => format!(" is not provided: {reason}"),
        Lacking::Names { .. } if module.starts_with("node:") => {
            " is not provided here\nhint: a plugin that needs it can run under the machine's Node".to_owned()
        }
        Lacking::Names { .. } => " is not provided here".to_owned(),
    };
    let mut text = format!(
        "const refuse = (name, get) => {{
           const fail = () => {{ throw Object.assign(new Error(`${{name}} of ${{{}}}${{{}}}`), {{ code: 'ERR_METHOD_NOT_IMPLEMENTED' }}) }};
           return new Proxy(function () {{}}, {{
             apply: fail, construct: fail, set: fail,
             get: (target, key) => (typeof key === 'symbol' || key === 'then' || key === 'prototype' ? target[key] : (get ?? fail)(key)),
           }});
         }};",
        quote(module),
        quote(&why),
    );
    let from = quote(module);
    let has_default = match lacking {
        Lacking::Required(_) => {
            text.push_str("module.exports = refuse('default', (name) => refuse(name));");
            return text;
        }
        Lacking::Whole(_) => false,
        Lacking::Names { has_default } => {
            text.push_str(&format!("export * from {from};"));
            *has_default
        }
    };
    text.push_str(&match has_default {
        true => format!("export {{ default }} from {from};"),
        false => "export default refuse('default', (name) => refuse(name));".to_owned(),
    });
    for (index, name) in names.iter().filter(|name| *name != "default" && source::is_name(name)).enumerate() {
        text.push_str(&format!("const v{index} = refuse({}); export {{ v{index} as {name} }};", quote(name)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_seems_to_be_taken_holds_what_is_taken() {
        for source in [
            "import { a, b as c, default as d } from 'x';",
            "import{a}from\"x\";import e,{b}from'x'",
            "import whole from 'x'; import * as all from 'x'; export * from 'x'; export * as more from 'x'",
            "import whole, * as all from 'x'",
            "export { a as b, } from 'x'; import 'x'; import('x'); require('x')",
            "import {\n  a,\n  b,\n}\n  from\n  'x'\n",
            "import { a /* one } */, b } from 'x'",
            "import { 'odd name' as a } from 'x'",
            "import a from /* x */ 'x'",
            "import { a } from 'y'; const b = 'x';",
            "import { $a, _b as $c } from 'x'",
            "const text = \"from 'x'\"; let { a } = b, c = 'x'",
        ] {
            let Some(seen) = named(source, "x") else { continue };
            let seen: BTreeSet<&str> = seen.into_iter().collect();
            let taken = typescript::imports(source).remove("x").unwrap_or_default();
            assert!(taken.iter().all(|name| seen.contains(name.as_str())), "{source}: {taken:?} {seen:?}");
        }
        assert_eq!(named("import { a } from 'x'; import * as b from 'x'; import 'x'", "x").unwrap(), ["a"]);
        assert_eq!(named("import { a /* b */ } from 'x'", "x"), None);
    }
}
