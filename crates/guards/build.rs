//! Compiles the packs of rules into the binary.
//!
//! Packs are YAML for people. Reading all of them as such takes some 16 ms, a hundred times a judgement, and `check`
//! judges once and ends; so they become JSON here, which takes less than one. A file that is no YAML, or has a key
//! twice, fails the build with its line; what the rules mean is checked by the tests of `rules`.

#![expect(clippy::print_stderr, reason = "how a build script talks to cargo")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::Value;

const PACKS: &str = "src/rules/packs";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed={PACKS}");
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
    let compiled = Value::Array(rules()?).to_string();
    std::fs::write(Path::new(&folder).join("packs.json"), compiled).map_err(|error| error.to_string())
}

/// The rules of all packs, file by file in the order of their names.
fn rules() -> Result<Vec<Value>, String> {
    let unreadable = |error: std::io::Error| format!("`{PACKS}` can't be read: {error}");
    let entries = std::fs::read_dir(PACKS).map_err(unreadable)?;
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>().map_err(unreadable)?;
    paths.sort();
    let mut rules = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).map_err(unreadable)?;
        let file = Arc::from(path.to_string_lossy());
        let root = backstop_yaml::parse(&file, &text).map_err(|problem| problem.to_string())?;
        let root = root.ok_or_else(|| format!("`{file}` holds no rules"))?;
        rules.extend(root.read::<Vec<Value>>().map_err(|problem| problem.to_string())?);
    }
    Ok(rules)
}
