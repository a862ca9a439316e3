//! The tables of types against what the SDKs of the providers declare.
//!
//! A type that an SDK knows and no table has would be judged as a call that nobody meant, and one that was renamed
//! would stay in a table for nothing. `cargo xtask test` installs the SDKs, from locked lists.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests may fail loudly, their helpers too"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use backstop_llm::wire::{TYPE_TABLES, TypeTable};

/// What one SDK declares: types by table.
type Declared = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn declared(mut command: Command, script: &str) -> Declared {
    let script = root().join("crates/cli/tests/sdk").join(script);
    let output = command
        .arg(&script)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; `cargo xtask sdks` installs the SDKs"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}:\n{errors}", script.display());
    serde_json::from_slice(&output.stdout).unwrap()
}

fn in_python() -> Declared {
    declared(Command::new(root().join("target/sdk/sdks/bin/python")), "python/declared_types.py")
}

fn in_typescript() -> Declared {
    declared(Command::new("node"), "node/declared_types.mjs")
}

fn name(table: &TypeTable) -> String {
    format!("{} {}", table.api, table.things)
}

/// What is declared and has no class, as `table: type`. An SDK of this `language` declares all tables whose source names one.
fn unclassed(declared: &Declared, language: &str) -> Vec<String> {
    let of_language = TYPE_TABLES.into_iter().filter(|table| table.source.contains(language));
    let tables: BTreeMap<String, &TypeTable> = of_language.map(|table| (name(table), table)).collect();
    assert_eq!(declared.keys().collect::<Vec<_>>(), tables.keys().collect::<Vec<_>>());
    let missing = declared.iter().flat_map(|(table, types)| {
        let without = types.iter().filter(|name| tables[table].class(name).is_none());
        without.map(move |name| format!("{table}: {name}"))
    });
    missing.collect()
}

#[test]
fn every_type_that_an_sdk_declares_has_a_class() {
    for (declared, language) in [(in_python(), "(Python)"), (in_typescript(), "(TypeScript)")] {
        assert!(declared.values().map(BTreeSet::len).sum::<usize>() > 100, "the walk found next to nothing");
        assert_eq!(unclassed(&declared, language), Vec::<String>::new());
    }
}

#[test]
fn a_type_of_tomorrow_is_noticed() {
    let mut declared = in_python();
    declared.get_mut("openai-responses items").unwrap().insert("future_call".to_owned());
    assert_eq!(unclassed(&declared, "(Python)"), ["openai-responses items: future_call"]);
}

/// A source names the versions that the lock files have.
#[test]
fn sources_name_the_locked_versions() {
    let read = |path: &str| std::fs::read_to_string(root().join("crates/cli/tests/sdk").join(path)).unwrap();
    let (python, node) = (read("python/sdks.txt"), read("node/package.json"));
    for table in TYPE_TABLES {
        for sdk in table.source.split(", ") {
            let mut words = sdk.split(' ');
            let (package, version) = (words.next().unwrap(), words.next().unwrap());
            let locked = match words.next() {
                Some("(Python)") => python.contains(&format!("{package}=={version} ")),
                _ => node.contains(&format!("\"{package}\": \"{version}\"")),
            };
            assert!(locked, "{}: `{sdk}` is not what is locked", name(table));
        }
    }
}
