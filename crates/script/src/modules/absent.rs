//! Names that a module of ours does not have, and modules that are not provided at all.
//!
//! **Law.** What is not provided links, says so by name when it is used, and is told to the host when it is imported. So code
//! that imports at its top what it never uses here is loaded, and whoever loads it knows what it will not find.
//!
//! A module can only be linked to names that it has. So whoever takes others gets a module of its own: everything that the
//! module has, and besides it the names that it lacks.

use std::collections::{BTreeSet, HashMap};

use super::{FOR, source};

/// How such modules are named. Stacks leave them out, as they do all modules of ours.
pub(super) const ABSENT: &str = "backstop:absent/";

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
        let name = format!("{ABSENT}{module}{FOR}{importer}");
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

/// A module with exports that throw when they are used.
fn text(module: &str, lacking: &Lacking<'_>, names: &BTreeSet<String>) -> String {
    let quote = |text: &str| serde_json::to_string(text).unwrap_or_else(|_| "\"\"".to_owned());
    let why = match lacking {
        Lacking::Whole(reason) => format!(" is not provided: {reason}"),
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
