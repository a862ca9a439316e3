//! Compiles the catalogue of programs into the binary.
//!
//! The catalogue is YAML for people. Reading it as such takes longer than a judgement may, so it becomes JSON here. A
//! file that is no YAML, and a name that two entries claim, fail the build with their lines; what the entries say is
//! checked by the tests of `programs`.

#![expect(clippy::print_stderr, reason = "how a build script talks to cargo")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use backstop_yaml::Kind;
use serde_json::{Map, Value};

const CATALOGUE: &str = "programs";

/// Keys for people and tests; the binary does not need them.
const NOTES: [&str; 3] = ["source", "match", "no_match"];

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed={CATALOGUE}");
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
    let compiled = Value::Array(entries()?).to_string();
    std::fs::write(Path::new(&folder).join("programs.json"), compiled).map_err(|error| error.to_string())
}

/// The entries of all files.
fn entries() -> Result<Vec<Value>, String> {
    let unreadable = |error: std::io::Error| format!("`{CATALOGUE}` can't be read: {error}");
    let files = std::fs::read_dir(CATALOGUE).map_err(unreadable)?;
    let mut paths: Vec<PathBuf> =
        files.map(|file| file.map(|file| file.path())).collect::<Result<_, _>>().map_err(unreadable)?;
    paths.sort();
    let mut claimed = HashMap::new();
    let mut entries = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).map_err(unreadable)?;
        let file = Arc::from(path.to_string_lossy());
        let root = backstop_yaml::parse(&file, &text).map_err(|problem| problem.to_string())?;
        let root = root.ok_or_else(|| format!("`{file}` holds no entries"))?;
        let Kind::List(nodes) = root.kind else { return Err(format!("`{file}` is no list of entries")) };
        for node in nodes {
            let mut entry: Map<String, Value> = node.read().map_err(|problem| problem.to_string())?;
            let names = entry.get("names").and_then(Value::as_array).into_iter().flatten();
            for name in names.filter_map(Value::as_str) {
                if let Some(other) = claimed.insert(name.to_owned(), node.at.clone()) {
                    return Err(format!("{}: `{name}` has an entry at {other} already", node.at));
                }
            }
            NOTES.iter().for_each(|note| {
                entry.remove(*note);
            });
            entries.push(Value::Object(entry));
        }
    }
    Ok(entries)
}
