//! The corpus of adversarial answers, as the tests of more than one crate read it. `README.md` says how it is written.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use backstop_llm::Api;
use serde::Deserialize;

/// What no client may be told: it stands in a call that is denied, or in a text that is redacted.
pub(crate) const SECRET: &str = "sw0rdfish-9151";

/// The files of the corpus.
pub(crate) const FILES: [&str; 5] = ["grammar", "encodings", "framing", "truncation", "types"];

/// How an answer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Written {
    #[default]
    Events,
    Whole,
    Array,
}

/// In which encoding, against what every wire says.
#[derive(Clone, Copy, Debug, Deserialize)]
enum Encoding {
    #[serde(rename = "utf-16le")]
    Utf16Le,
    #[serde(rename = "utf-16be")]
    Utf16Be,
    #[serde(rename = "utf-32le")]
    Utf32Le,
}

/// A case as its file has it: what is put together from the answers of a wire, and what is changed in them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    form: Written,
    #[serde(default = "a_call")]
    answer: String,
    #[serde(default)]
    all: Vec<(String, String)>,
    #[serde(default)]
    said: Vec<(String, String)>,
    #[serde(default)]
    hidden: Vec<(String, String)>,
    #[serde(default)]
    secret: Vec<(String, String)>,
    #[serde(default)]
    called: Vec<(String, String)>,
    #[serde(default)]
    told: Vec<(String, String)>,
    encoding: Option<Encoding>,
    #[serde(default)]
    truncated: bool,
}

fn a_call() -> String {
    "{start}{said}{hidden}{called}".to_owned()
}

/// One answer of the corpus on one wire.
#[derive(Clone, Debug)]
pub(crate) struct Adverse {
    /// What is strange about it, for people.
    pub(crate) name: String,
    pub(crate) api: Api,
    pub(crate) form: Written,
    pub(crate) bytes: Vec<u8>,
    /// Whether each of its beginnings is a case.
    pub(crate) truncated: bool,
}

/// The answers of a file on the wires on which they can be written.
pub(crate) fn corpus(file: &str) -> Vec<Adverse> {
    let parts: BTreeMap<String, BTreeMap<String, String>> = read("answers");
    let cases: Vec<Case> = read(file);
    let mut found = Vec::new();
    for case in &cases {
        let before = found.len();
        for api in Api::ALL {
            if let Some(bytes) = case.on(&parts[api.as_str()]) {
                let (name, form) = (format!("{file}: {} ({api})", case.name), case.form);
                found.push(Adverse { name, api, form, bytes, truncated: case.truncated });
            }
        }
        assert!(found.len() > before, "{file}: `{}` is an answer of no wire", case.name);
    }
    found
}

/// The answer of a wire with a call, as no provider would mind to write it.
pub(crate) fn plain(api: Api, form: Written) -> Vec<u8> {
    let parts: BTreeMap<String, BTreeMap<String, String>> = read("answers");
    let part = |name: &str| parts[api.as_str()][name].as_bytes();
    let names: &[&str] = match form {
        Written::Events => &["start", "said", "hidden", "called"],
        Written::Whole => &["whole"],
        Written::Array => &["first", "element", "last"],
    };
    names.iter().flat_map(|name| part(name)).copied().collect()
}

fn read<T: for<'a> Deserialize<'a>>(file: &str) -> T {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../llm/tests/adversarial");
    let text = fs::read_to_string(folder.join(format!("{file}.json"))).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"))
}

impl Case {
    /// The answer put together from `parts` of a wire; `None` if they lack what it needs.
    fn on(&self, parts: &BTreeMap<String, String>) -> Option<Vec<u8>> {
        let mut answer = self.answer.clone();
        let (mut changes, mut changed) = (0, false);
        let mut edit = |text: &mut String, edits: &[(String, String)]| {
            changes += edits.len();
            for (from, to) in edits {
                changed |= text.contains(from.as_str());
                *text = text.replace(from.as_str(), to);
            }
        };
        for (name, part) in parts {
            let place = format!("{{{name}}}");
            if !answer.contains(&place) {
                continue;
            }
            let mut part = part.clone();
            match name.as_str() {
                "said" => edit(&mut part, &self.said),
                "hidden" => edit(&mut part, &self.hidden),
                "secret" => edit(&mut part, &self.secret),
                "called" => edit(&mut part, &self.called),
                "told" => edit(&mut part, &self.told),
                _ => {}
            }
            answer = answer.replace(&place, &part);
        }
        edit(&mut answer, &self.all);
        let lacks = ["{first}", "{element}", "{last}"].iter().any(|place| answer.contains(place));
        if lacks || (changes > 0 && !changed) || (self.form == Written::Array && !parts.contains_key("first"))
        {
            return None;
        }
        Some(match self.encoding {
            None => octets(&answer),
            Some(Encoding::Utf16Le) => answer.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            Some(Encoding::Utf16Be) => answer.encode_utf16().flat_map(u16::to_be_bytes).collect(),
            Some(Encoding::Utf32Le) => answer.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect(),
        })
    }
}

/// The bytes of a text in which `\x` and two digits stand for any one.
fn octets(text: &str) -> Vec<u8> {
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at(2);
        bytes.push(u8::from_str_radix(digits, 16).unwrap());
        bytes.extend_from_slice(rest.as_bytes());
    }
    bytes
}

/// Whether a reader of any kind finds the secret in `bytes`: as it is, behind escapes, in another encoding, in pieces.
pub(crate) fn tells(bytes: &[u8]) -> bool {
    let plain: Vec<u8> = bytes.iter().copied().filter(|byte| *byte != 0).collect();
    let text = String::from_utf8_lossy(&plain);
    // Nobody is shown a comment; but what some take for the end of a line ends it for them.
    let is_comment =
        |line: &&str| line.starts_with(':') && line.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let text =
        text.split_inclusive(['\n', '\r']).filter(|line| !is_comment(&line.trim_end())).collect::<String>();
    let joined = text.replace("\ndata: ", "").replace("\rdata: ", "");
    [&*text, &*joined].iter().any(|text| text.contains(SECRET) || unescaped(text).contains(SECRET))
}

fn unescaped(text: &str) -> String {
    let mut parts = text.split("\\u");
    let mut found = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        match digits.and_then(char::from_u32) {
            Some(letter) => {
                found.push(letter);
                found.push_str(&part[4..]);
            }
            None => found.push_str(part),
        }
    }
    found
}
