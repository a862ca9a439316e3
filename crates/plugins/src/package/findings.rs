//! What people should know of a plugin's files before they trust it.
//!
//! None of this is a verdict. A finding says that something is there which a reader would not see, could not read, or should
//! expect consequences of; whether that is fine is for the person who installs the plugin.
//!
//! Every file is read as code, whatever its name ends in, but for those whose ending says that they are prose or data
//! ([`TEXTS`], [`MEDIA`]). Those are read as code if the plugin's code or its manifest names them ([`named`]), since what is imported
//! or started may be called anything; JSON is no code. Hidden text is looked for in prose and data as well, and pictures, sounds and
//! fonts have to begin as such, and may not be archives too.
//!
//! Limits: findings are told by file for the plugin itself and by package for what lies in `node_modules`, at most [`MOST_PLACES`] of each kind,
//! and how many more there are. Words are looked for as they are written: code that hides what it does is found as obfuscated, or not at all.

mod media;
mod named;
mod readable;
mod seen;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use self::media::is_media;
use self::named::Names;
use self::readable::is_minified;
use self::seen::{has_hidden, is_visible};

/// Most places that are told of one kind.
const MOST_PLACES: usize = 8;
/// Text without any place to break it that stands for something else, in bytes.
const LONG_WORD: usize = 2_000;
/// Endings of text that is prose, data or looks, and that nobody runs.
const TEXTS: [&str; 19] = [
    "md", "markdown", "rst", "txt", "json", "jsonc", "json5", "yaml", "yml", "toml", "ini", "csv", "tsv",
    "xml", "svg", "css", "map", "lock", "snap",
];
/// Endings of data that is no text: pictures, sounds, fonts.
const MEDIA: [&str; 18] = [
    "png", "jpg", "jpeg", "gif", "webp", "avif", "bmp", "ico", "icns", "mp3", "wav", "ogg", "mp4", "webm",
    "woff", "woff2", "ttf", "otf",
];
/// Endings of source that is text, so that bytes that are none hide something.
const SOURCES: [&str; 16] = [
    "js", "mjs", "cjs", "ts", "mts", "cts", "jsx", "tsx", "py", "sh", "bash", "rb", "pl", "php", "ps1", "lua",
];
/// Scripts of a package that npm runs when it is installed.
const INSTALL_SCRIPTS: [&str; 7] =
    ["preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare", "postprepare"];
/// Files that are run, or start a compiler, when a package is installed.
const INSTALL_FILES: [&str; 3] = ["binding.gyp", "setup.py", "extconf.rb"];
/// What reaches the network.
const NETWORK: [&str; 43] = [
    "fetch(",
    "XMLHttpRequest",
    "WebSocket(",
    "EventSource(",
    "sendBeacon(",
    "node:http",
    "node:net",
    "node:dgram",
    "node:tls",
    "node:dns",
    "require(\"http",
    "require('http",
    "require(\"net\"",
    "require('net'",
    "from \"http",
    "from 'http",
    "from \"net\"",
    "from 'net'",
    "axios",
    "undici",
    "Deno.connect",
    "Bun.connect",
    "urllib.request",
    "http.client",
    "import requests",
    "from requests",
    "import httpx",
    "import aiohttp",
    "import socket",
    "from socket",
    "Net::HTTP",
    "open-uri",
    "LWP::",
    "IO::Socket",
    "TCPSocket",
    "curl_init",
    "fsockopen",
    "Invoke-WebRequest",
    "Invoke-RestMethod",
    "Net.WebClient",
    "/dev/tcp/",
    "curl ",
    "wget ",
];
/// What makes code out of data.
const OBFUSCATED: [&str; 13] = [
    "eval(atob(",
    "eval(Buffer.from(",
    "new Function(atob(",
    "Function(Buffer.from(",
    "exec(base64",
    "exec(zlib",
    "exec(marshal",
    "eval(unescape(",
    "eval(base64_decode(",
    "eval(gzinflate(",
    "eval(Base64.decode64(",
    "eval(decode_base64(",
    "FromBase64String(",
];

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// Characters that can't be seen, or that change the direction of text.
    HiddenText,
    /// Source in lines, or with names, that nobody can read.
    Minified,
    /// Code that makes code out of data, or long data that stands for code.
    Obfuscated,
    /// Files that are neither text nor pictures, sounds or fonts: archives, databases, whatever else.
    Unreadable,
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
            Self::Unreadable => "has files that are no text, and that no reader can look into",
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
pub(super) struct Findings {
    kinds: BTreeMap<FindingKind, BTreeSet<String>>,
    names: Names,
    /// What is found in prose and media that code names. Which these are is known at the end.
    if_named: Vec<(FindingKind, String)>,
}

impl Findings {
    fn found(&mut self, kind: FindingKind, name: &str) {
        self.kinds.entry(kind).or_default().insert(backstop_yaml::quote(&place(name)));
    }

    /// Looks at a link, by where it leads.
    pub(super) fn look_at_link(&mut self, name: &str, target: &str) {
        self.names.of_link(name, target);
    }

    /// Looks at one file.
    pub(super) fn look(&mut self, name: &str, bytes: &[u8]) {
        if !name.chars().all(is_visible) {
            self.found(FindingKind::HiddenText, name);
        }
        if is_native(name, bytes) {
            return self.found(FindingKind::NativeCode, name);
        }
        let file = name.rsplit('/').next().unwrap_or(name);
        let ending = ending(name);
        let is_started = bytes.starts_with(b"#!");
        let Ok(text) = std::str::from_utf8(bytes) else {
            if is_started || SOURCES.contains(&ending.as_str()) {
                self.found(FindingKind::Obfuscated, name);
            } else if MEDIA.contains(&ending.as_str()) && is_media(bytes) {
                self.if_named.push((FindingKind::Unreadable, name.to_owned()));
            } else {
                self.found(FindingKind::Unreadable, name);
            }
            return;
        };
        if INSTALL_FILES.contains(&file) || file == "package.json" && wants_scripts(text) {
            self.found(FindingKind::InstallScript, name);
        }
        let is_code = is_started || !TEXTS.contains(&ending.as_str());
        if has_hidden(text, is_code) {
            self.found(FindingKind::HiddenText, name);
        }
        match file {
            "package.json" => self.names.of_package(text),
            crate::manifest::OURS if name == file => self.names.of_manifest(text),
            _ => {}
        }
        let found = in_code(text);
        if is_code {
            self.names.of_source(name, text);
            found.for_each(|kind| self.found(kind, name));
            return;
        }
        let found: Vec<_> = found.map(|kind| (kind, name.to_owned())).collect();
        if !found.is_empty() && serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
            self.if_named.extend(found);
        }
    }

    /// What was found, the gravest first.
    pub(super) fn finish(mut self) -> Vec<Finding> {
        for (kind, name) in std::mem::take(&mut self.if_named) {
            // A text in quotes may name a picture to show it.
            let counts = match kind {
                FindingKind::Unreadable => self.names.imports(&name),
                _ => self.names.has(&name),
            };
            if counts {
                self.found(kind, &name);
            }
        }
        let finding = |(kind, places): (FindingKind, BTreeSet<String>)| Finding {
            kind,
            more: places.len().saturating_sub(MOST_PLACES),
            places: places.into_iter().take(MOST_PLACES).collect(),
        };
        self.kinds.into_iter().map(finding).collect()
    }
}

/// What is found in text that is read as code.
fn in_code(text: &str) -> impl Iterator<Item = FindingKind> {
    let is_long = |word: &str| word.len() > LONG_WORD && word.bytes().all(is_of_data);
    let is_obfuscated =
        OBFUSCATED.iter().any(|word| text.contains(word)) || text.split(['"', '\'', '`']).any(is_long);
    [
        (is_minified(text), FindingKind::Minified),
        (is_obfuscated, FindingKind::Obfuscated),
        (NETWORK.iter().any(|word| text.contains(word)), FindingKind::Network),
    ]
    .into_iter()
    .filter_map(|(is_found, kind)| is_found.then_some(kind))
}

/// The ending of a file's name, in small letters.
fn ending(name: &str) -> String {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.rsplit_once('.').map_or_else(String::new, |(_, ending)| ending.to_ascii_lowercase())
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

fn is_native(name: &str, bytes: &[u8]) -> bool {
    const MAGIC: [&[u8]; 8] = [
        b"\x7fELF",
        b"MZ",
        b"!<arch>\n",
        b"\0asm",
        b"\xfe\xed\xfa\xce",
        b"\xfe\xed\xfa\xcf",
        b"\xcf\xfa\xed\xfe",
        b"\xca\xfe\xba\xbe",
    ];
    let is_named = [
        ".node", ".so", ".dll", ".dylib", ".exe", ".wasm", ".pyc", ".pyo", ".pyd", ".class", ".jar", ".o",
        ".a",
    ];
    let name = name.to_ascii_lowercase();
    is_named.iter().any(|end| name.ends_with(end))
        || MAGIC.iter().any(|magic| bytes.starts_with(magic)) && bytes.iter().take(512).any(|byte| *byte == 0)
}

fn wants_scripts(text: &str) -> bool {
    let package: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let scripts = package.get("scripts").and_then(serde_json::Value::as_object);
    let has = |name: &&str| scripts.is_some_and(|scripts| scripts.contains_key(*name));
    INSTALL_SCRIPTS.iter().any(has) || package.get("gypfile").is_some()
}

#[cfg(test)]
mod tests {
    use backstop_script::CODE_ENDINGS;

    use super::*;

    #[test]
    fn what_is_read_as_prose_or_media_is_nothing_that_a_script_can_import() {
        let of_code = |ending: &&str| CODE_ENDINGS.contains(ending);
        let both: Vec<_> = TEXTS.iter().chain(&MEDIA).copied().filter(of_code).collect();
        assert_eq!(both, ["json"], "JSON is data, for both");
    }
}
