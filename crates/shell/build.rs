//! Compiles the catalogues of programs and of languages into the binary.
//!
//! They are YAML for people. Reading them as such takes longer than a judgement may, so they become JSON here. A
//! file that is no YAML, and a name that two programs claim, fail the build with their lines; what the entries say is
//! checked by the tests of `programs` and of `code`.

#![expect(clippy::print_stderr, reason = "how a build script talks to cargo")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use backstop_yaml::{Kind, Node};
use serde_json::{Map, Value};

const CATALOGUE: &str = "programs";
const LANGUAGES: &str = "languages";

/// Keys for people and tests; the binary does not need them.
const NOTES: [&str; 3] = ["source", "match", "no_match"];

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed={CATALOGUE}");
    println!("cargo::rerun-if-changed={LANGUAGES}");
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
    for (entries, to) in [(programs()?, "programs.json"), (languages()?, "languages.json")] {
        let compiled = Value::Array(entries).to_string();
        std::fs::write(Path::new(&folder).join(to), compiled).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The files of a catalogue, read.
fn files(catalogue: &str) -> Result<Vec<Node>, String> {
    let unreadable = |error: std::io::Error| format!("`{catalogue}` can't be read: {error}");
    let files = std::fs::read_dir(catalogue).map_err(unreadable)?;
    let mut paths: Vec<PathBuf> =
        files.map(|file| file.map(|file| file.path())).collect::<Result<_, _>>().map_err(unreadable)?;
    paths.sort();
    let mut roots = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).map_err(unreadable)?;
        let file = Arc::from(path.to_string_lossy());
        let root = backstop_yaml::parse(&file, &text).map_err(|problem| problem.to_string())?;
        roots.push(root.ok_or_else(|| format!("`{file}` holds no entries"))?);
    }
    Ok(roots)
}

fn without_notes(entry: &mut Map<String, Value>) {
    NOTES.iter().for_each(|note| {
        entry.remove(*note);
    });
}

/// The entries of programs of all files.
fn programs() -> Result<Vec<Value>, String> {
    let mut claimed = HashMap::new();
    let mut entries = Vec::new();
    for root in files(CATALOGUE)? {
        let Kind::List(nodes) = root.kind else {
            return Err(format!("{}: this is no list of entries", root.at));
        };
        for node in nodes {
            let mut entry: Map<String, Value> = node.read().map_err(|problem| problem.to_string())?;
            let names = entry.get("names").and_then(Value::as_array).into_iter().flatten();
            for name in names.filter_map(Value::as_str) {
                if let Some(other) = claimed.insert(name.to_owned(), node.at.clone()) {
                    return Err(format!("{}: `{name}` has an entry at {other} already", node.at));
                }
            }
            without_notes(&mut entry);
            entries.push(Value::Object(entry));
        }
    }
    Ok(entries)
}

/// The languages, one for each file.
fn languages() -> Result<Vec<Value>, String> {
    let mut languages = Vec::new();
    for root in files(LANGUAGES)? {
        let mut language: Map<String, Value> = root.read().map_err(|problem| problem.to_string())?;
        let calls = language.get_mut("calls").and_then(Value::as_array_mut).into_iter().flatten();
        calls.filter_map(Value::as_object_mut).for_each(without_notes);
        languages.push(Value::Object(language));
    }
    Ok(languages)
}
