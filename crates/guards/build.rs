//! Compiles the packs of rules, and the words of command lines, into the binary.
//!
//! Packs are YAML for people. What is compiled in is one text for each rule, read when the rule is first looked at, and
//! tables that say where to look: which conditions are about which program, and which about which action on a file. A
//! process that judges one command reads the few rules that could be about it. A file that is no YAML, or has a key
//! twice, fails the build with its line; what the rules mean is checked by the tests of `rules`.

#![expect(clippy::print_stderr, reason = "how a build script talks to cargo")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Map, Value};

const PACKS: &str = "src/rules/packs";

/// Words of command lines and what they mean, class by class.
const WORDS: &str = "src/rules/words";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed={PACKS}");
    println!("cargo::rerun-if-changed={WORDS}");
    match compile() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn compile() -> Result<(), String> {
    let folder = std::env::var_os("OUT_DIR").ok_or("cargo did not say where to write")?;
    std::fs::write(Path::new(&folder).join("packs.rs"), packs()?).map_err(|error| error.to_string())?;
    std::fs::write(Path::new(&folder).join("words.rs"), words()?).map_err(|error| error.to_string())
}

/// A table for each class of words, in their order; a group may belong to several. A program in two lists that exclude each other, and a class that says
/// not where it is from, fail the build.
fn words() -> Result<String, String> {
    let mut classes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for root in backstop_yaml::read_files(WORDS)? {
        for group in root.read::<Vec<BTreeMap<String, String>>>().map_err(|problem| problem.to_string())? {
            let [class, source, words] = ["class", "source", "words"].map(|key| group.get(key));
            let (Some(class), Some(_), Some(words), 3) = (class, source, words, group.len()) else {
                return Err(format!("{WORDS}: a group has `class`, `source` and `words`, found {group:?}"));
            };
            for class in class.split_whitespace() {
                let known = classes.entry(class.to_owned()).or_default();
                known.extend(words.split_whitespace().map(str::to_owned));
            }
        }
    }
    for [one, other] in [["local", "own"], ["local", "service"], ["own", "service"]] {
        let of = |class| classes.get(class).into_iter().flatten().collect::<BTreeSet<_>>();
        if let Some(both) = of(one).intersection(&of(other)).next() {
            return Err(format!("{WORDS}: `{both}` is {one} and {other}"));
        }
    }
    let mut out = String::new();
    for (class, words) in classes {
        let words: Vec<String> = words.into_iter().collect();
        let name = class.to_ascii_uppercase().replace('-', "_");
        let _ = writeln!(out, "pub(crate) static {name}: &[&str] = &{words:?};");
    }
    Ok(out)
}

/// Where conditions stand, by what they are about.
#[derive(Default)]
struct Index(BTreeMap<String, BTreeMap<String, Vec<(usize, usize)>>>);

impl Index {
    fn add(&mut self, kind: &str, about: &str, place: (usize, usize)) {
        self.0.entry(kind.to_owned()).or_default().entry(about.to_owned()).or_default().push(place);
    }

    fn add_condition(&mut self, condition: &Value, place: (usize, usize)) {
        let words = |of: &Value, key: &str| -> Vec<String> {
            let words = of.get(key).and_then(Value::as_array).into_iter().flatten();
            words.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        for (kind, of) in condition.as_object().into_iter().flatten() {
            let about = match kind.as_str() {
                "run" => words(of, "program"),
                "touch" => words(of, "action"),
                _ => Vec::new(),
            };
            if about.is_empty() {
                self.add(kind, "", place);
            }
            about.iter().for_each(|about| self.add(kind, about, place));
        }
    }
}

/// The rules of all packs, file by file in the order of their names, and where their conditions stand.
fn packs() -> Result<String, String> {
    let mut index = Index::default();
    let mut rules = Vec::new();
    for root in backstop_yaml::read_files(PACKS)? {
        for rule in root.read::<Vec<Map<String, Value>>>().map_err(|problem| problem.to_string())? {
            let conditions = rule.get("when").and_then(Value::as_array).into_iter().flatten();
            for (nth, condition) in conditions.enumerate() {
                index.add_condition(condition, (rules.len(), nth));
            }
            rules.push(Value::Object(rule).to_string());
        }
    }
    let mut out = String::from("static RULES: &[&str] = &[\n");
    for rule in rules {
        let _ = writeln!(out, "    {rule:?},");
    }
    out.push_str("];\n");
    let mut remaining = index.0;
    for (name, kind) in
        [("RUNS", "run"), ("TOUCHES", "touch"), ("CODE", "code"), ("SENDS", "sends"), ("SIGNALS", "signal")]
    {
        let _ = writeln!(out, "static {name}: &[(&str, &[Condition])] = &[");
        for (about, places) in remaining.remove(kind).unwrap_or_default() {
            let _ = writeln!(out, "    ({about:?}, &{places:?}),");
        }
        out.push_str("];\n");
    }
    match remaining.pop_first() {
        Some((kind, _)) => Err(format!("a rule has a condition of an unknown kind: `{kind}`")),
        None => Ok(out),
    }
}
