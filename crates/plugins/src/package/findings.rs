//! What people should know of a plugin's files before they trust it.
//!
//! None of this is a verdict. A finding says that something is there which a reader would not see, could not read, or should
//! expect consequences of; whether that is fine is for the person who installs the plugin.
//!
//! Limits: findings are told by file for the plugin itself and by package for what lies in `node_modules`, at most [`MOST_PLACES`] of each kind,
//! and how many more there are. Words are looked for as they are written: code that hides what it does is found as obfuscated, or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

/// Most places that are told of one kind.
const MOST_PLACES: usize = 8;
/// A line of source that nobody reads.
const LONG_LINE: usize = 5_000;
/// Text without any place to break it that stands for something else, in bytes.
const LONG_WORD: usize = 2_000;
/// Extensions of source that a person could read.
const SOURCES: [&str; 10] = ["js", "mjs", "cjs", "ts", "mts", "cts", "jsx", "tsx", "py", "sh"];
/// Scripts of a package that npm runs when it is installed.
const INSTALL_SCRIPTS: [&str; 4] = ["preinstall", "install", "postinstall", "prepare"];
/// What reaches the network.
const NETWORK: [&str; 14] = [
    "fetch(",
    "XMLHttpRequest",
    "WebSocket(",
    "node:http",
    "node:net",
    "node:dgram",
    "node:tls",
    "require(\"http",
    "require('http",
    "require(\"net\"",
    "require('net'",
    "urllib.request",
    "import requests",
    "import socket",
];
/// What makes code out of data.
const OBFUSCATED: [&str; 8] = [
    "eval(atob(",
    "eval(Buffer.from(",
    "new Function(atob(",
    "Function(Buffer.from(",
    "exec(base64",
    "exec(zlib",
    "exec(marshal",
    "eval(unescape(",
];

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// Characters that can't be seen, or that change the direction of text.
    HiddenText,
    /// Source in lines that nobody can read.
    Minified,
    /// Code that makes code out of data, or long data that stands for code.
    Obfuscated,
    /// Programs for the machine.
    NativeCode,
    /// Scripts that a package wants to be run when it is installed. They are not.
    InstallScript,
    /// Calls of the network.
    Network,
    /// A name that a reader may take for another's.
    LookAlike,
}

impl FindingKind {
    /// What it means, in plain words.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::HiddenText => "has text that can't be seen, so that it may not do what it seems to",
            Self::Minified => "has source that nobody can read",
            Self::Obfuscated => "makes code out of data, so that nobody can tell what it does",
            Self::NativeCode => "brings programs for the machine, which no reader can check",
            Self::InstallScript => "wants scripts to be run when it is installed; they are not run",
            Self::Network => "uses the network",
            Self::LookAlike => "has a name that may be taken for another's",
        }
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// One kind of thing that was found, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What.
    pub kind: FindingKind,
    /// Files of the plugin, or packages that it brings along.
    pub places: Vec<String>,
    /// How many further places there are.
    pub more: usize,
}

impl Finding {
    /// That `name` may be taken for the other name.
    pub fn look_alike(other: &str) -> Self {
        Self { kind: FindingKind::LookAlike, places: vec![other.to_owned()], more: 0 }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.sentence(), self.places.join(", "))?;
        match self.more {
            0 => Ok(()),
            more => write!(f, ", and {more} more"),
        }
    }
}

/// Collects findings while files are read.
#[derive(Debug, Default)]
pub(super) struct Findings(BTreeMap<FindingKind, BTreeSet<String>>);

impl Findings {
    fn found(&mut self, kind: FindingKind, name: &str) {
        self.0.entry(kind).or_default().insert(backstop_yaml::quote(&place(name)));
    }

    /// Looks at one file.
    pub(super) fn look(&mut self, name: &str, bytes: &[u8]) {
        if name.chars().any(backstop_yaml::is_invisible) {
            self.found(FindingKind::HiddenText, name);
        }
        if is_native(name, bytes) {
            return self.found(FindingKind::NativeCode, name);
        }
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        let is_source = SOURCES.contains(&extension) || bytes.starts_with(b"#!");
        let Ok(text) = std::str::from_utf8(bytes) else {
            if is_source {
                self.found(FindingKind::Obfuscated, name);
            }
            return;
        };
        let is_package = name.rsplit('/').next() == Some("package.json");
        if is_package && wants_scripts(text) {
            self.found(FindingKind::InstallScript, name);
        }
        let is_read = is_source || is_package || name.ends_with(".plugin.json");
        if is_read && has_hidden(text) {
            self.found(FindingKind::HiddenText, name);
        }
        if !is_source {
            return;
        }
        if text.lines().any(|line| line.len() > LONG_LINE) {
            self.found(FindingKind::Minified, name);
        }
        let is_long = |word: &str| word.len() > LONG_WORD && word.bytes().all(is_of_data);
        if OBFUSCATED.iter().any(|word| text.contains(word)) || text.split(['"', '\'', '`']).any(is_long) {
            self.found(FindingKind::Obfuscated, name);
        }
        if NETWORK.iter().any(|word| text.contains(word)) {
            self.found(FindingKind::Network, name);
        }
    }

    /// What was found, the gravest first.
    pub(super) fn finish(self) -> Vec<Finding> {
        let finding = |(kind, places): (FindingKind, BTreeSet<String>)| Finding {
            kind,
            more: places.len().saturating_sub(MOST_PLACES),
            places: places.into_iter().take(MOST_PLACES).collect(),
        };
        self.0.into_iter().map(finding).collect()
    }
}

/// What a finding is told of: the file, or the package that brings it.
fn place(name: &str) -> String {
    let Some((_, inner)) = name.rsplit_once("node_modules/") else { return name.to_owned() };
    let parts = if inner.starts_with('@') { 2 } else { 1 };
    format!("node_modules/{}", inner.split('/').take(parts).collect::<Vec<_>>().join("/"))
}

fn is_of_data(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_' | b'\\')
}

/// What can't be seen, but for white space and for a mark at the file's beginning.
fn has_hidden(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}');
    text.chars()
        .any(|c| backstop_yaml::is_invisible(c) && !matches!(c, '\n' | '\r' | '\t' | '\u{c}' | '\u{1b}'))
}

fn is_native(name: &str, bytes: &[u8]) -> bool {
    const MAGIC: [&[u8]; 7] = [
        b"\x7fELF",
        b"MZ",
        b"\0asm",
        b"\xfe\xed\xfa\xce",
        b"\xfe\xed\xfa\xcf",
        b"\xcf\xfa\xed\xfe",
        b"\xca\xfe\xba\xbe",
    ];
    let is_named = [".node", ".so", ".dll", ".dylib", ".exe", ".wasm", ".pyc"];
    is_named.iter().any(|end| name.ends_with(end))
        || MAGIC.iter().any(|magic| bytes.starts_with(magic)) && bytes.iter().take(512).any(|byte| *byte == 0)
}

fn wants_scripts(text: &str) -> bool {
    let package: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let scripts = package.get("scripts").and_then(serde_json::Value::as_object);
    let has = |name: &&str| scripts.is_some_and(|scripts| scripts.contains_key(*name));
    INSTALL_SCRIPTS.iter().any(has) || package.get("gypfile").is_some()
}
