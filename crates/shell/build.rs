//! Compiles the catalogues of programs and of languages into the binary.
//!
//! They are YAML for people. What is compiled in is a table of names, sorted, and one text for each entry, which is
//! read when somebody asks for the first of its names: a command names a few programs, and a process that judges one
//! command should not wait for all of them. A file that is no YAML, and a name that two programs claim, fail the build
//! with their lines; what the entries say is checked by the tests of `programs` and of `code`.

#![expect(clippy::print_stderr, reason = "how a build script talks to cargo")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use backstop_yaml::{Kind, read_files};
use serde_json::{Map, Value};

const CATALOGUE: &str = "programs";
const LANGUAGES: &str = "languages";
const CREDENTIALS: &str = "credentials";

/// Keys for people and tests; the binary does not need them.
const NOTES: [&str; 3] = ["source", "match", "no_match"];

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed={CATALOGUE}");
    println!("cargo::rerun-if-changed={LANGUAGES}");
    println!("cargo::rerun-if-changed={CREDENTIALS}");
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
    for (tables, to) in
        [(programs()?, "programs.rs"), (languages()?, "languages.rs"), (services()?, "services.rs")]
    {
        std::fs::write(Path::new(&folder).join(to), tables).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn without_notes(entry: &mut Map<String, Value>) {
    NOTES.iter().for_each(|note| {
        entry.remove(*note);
    });
}

fn names<'a>(entry: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = &'a str> {
    entry.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// A static table in Rust.
fn table(name: &str, of: &str, items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    format!(
        "static {name}: &[{of}] = &[\n{}];\n",
        items.iter().fold(String::new(), |mut all, item| {
            let _ = writeln!(all, "    {item},");
            all
        })
    )
}

/// The tables of programs: their names, the beginnings of names, and the entries.
fn programs() -> Result<String, String> {
    let mut claimed = BTreeMap::new();
    let mut entries = Vec::new();
    for root in read_files(CATALOGUE)? {
        let Kind::List(nodes) = root.kind else {
            return Err(format!("{}: this is no list of entries", root.at));
        };
        for node in nodes {
            let mut entry: Map<String, Value> = node.read().map_err(|problem| problem.to_string())?;
            for name in names(&entry, "names") {
                if let Some((other, _)) = claimed.insert(name.to_owned(), (node.at.clone(), entries.len())) {
                    return Err(format!("{}: `{name}` has an entry at {other} already", node.at));
                }
            }
            without_notes(&mut entry);
            entries.push(Value::Object(entry).to_string());
        }
    }
    let (beginnings, names): (Vec<_>, Vec<_>) =
        claimed.iter().map(|(name, (_, at))| (name, at)).partition(|(name, _)| name.ends_with('*'));
    let mut beginnings: Vec<_> =
        beginnings.into_iter().map(|(name, at)| (at, name.trim_end_matches('*'))).collect();
    // The first entry of the catalogue that fits is the one that counts.
    beginnings.sort_unstable();
    let named = names.into_iter().map(|(name, at)| format!("({name:?}, {at})"));
    let begun = beginnings.into_iter().map(|(at, name)| format!("({name:?}, {at})"));
    Ok(table("NAMES", "(&str, usize)", named)
        + &table("BEGINNINGS", "(&str, usize)", begun)
        + &table("ENTRIES", "&str", entries.iter().map(|entry| format!("{entry:?}"))))
}

/// The tables of services: the variables of their credentials, and their hosts.
fn services() -> Result<String, String> {
    let mut variables = BTreeMap::new();
    let mut hosts = Vec::new();
    for root in read_files(CREDENTIALS)? {
        let entries: Vec<Map<String, Value>> = root.read().map_err(|problem| problem.to_string())?;
        for entry in &entries {
            variables.extend(names(entry, "names").map(|name| (name.to_owned(), hosts.len())));
            hosts.push(format!("&{:?}", names(entry, "hosts").collect::<Vec<_>>()));
        }
    }
    let named = variables.iter().map(|(name, at)| format!("({name:?}, {at})"));
    Ok(table("NAMES", "(&str, usize)", named) + &table("HOSTS", "&[&str]", hosts.iter().cloned()))
}

/// The tables of languages: the programs that run them, the endings of their files, and the languages.
fn languages() -> Result<String, String> {
    let mut programs = BTreeMap::new();
    let mut endings = Vec::new();
    let mut entries = Vec::new();
    for root in read_files(LANGUAGES)? {
        let mut language: Map<String, Value> = root.read().map_err(|problem| problem.to_string())?;
        programs.extend(names(&language, "programs").map(|name| (name.to_owned(), entries.len())));
        endings.extend(names(&language, "endings").map(|ending| (ending.to_owned(), entries.len())));
        // The tables say them.
        ["programs", "endings"].iter().for_each(|key| drop(language.remove(*key)));
        let calls = language.get_mut("calls").and_then(Value::as_array_mut).into_iter().flatten();
        calls.filter_map(Value::as_object_mut).for_each(without_notes);
        entries.push(Value::Object(language).to_string());
    }
    let pair = |(name, at): &(String, usize)| format!("({name:?}, {at})");
    let programs: Vec<_> = programs.into_iter().collect();
    Ok(table("PROGRAMS", "(&str, usize)", programs.iter().map(pair))
        + &table("ENDINGS", "(&str, usize)", endings.iter().map(pair))
        + &table("ENTRIES", "&str", entries.iter().map(|entry| format!("{entry:?}"))))
}
