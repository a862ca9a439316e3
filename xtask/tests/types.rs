//! The tables of types against what the SDKs of the providers declare, in both directions.
//!
//! A type that an SDK declares and no table has would be judged as something that nobody meant, and one that a table has and
//! no SDK is there for nothing, unless somebody else wrote it down: `DOCUMENTED` says who. `cargo xtask test` installs the
//! SDKs, from locked lists.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests may fail loudly, their helpers too"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use backstop_llm::wire::{DOCUMENTED, TypeTable, WordTable, type_tables, word_tables};

/// What one SDK declares: types by table.
type Declared = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// States and reasons that no table has, and why none has to.
const NO_WORDS: [(&str, &str); 4] = [
    ("anthropic-messages words of category", "names a policy in the provider's own words about a refusal"),
    ("gemini words of blockReason", "stands in the provider's own explanation of a prompt that it refused"),
    ("gemini words of urlRetrievalStatus", "stands in a result, which is judged as one"),
    ("bedrock-converse words of status", "stands in a result, which is judged as one"),
];

/// What tells words from types in the name of a table.
const WORDS: &str = " words of ";

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
    let of_language = type_tables().filter(|table| table.source.contains(language));
    let tables: BTreeMap<String, &TypeTable> = of_language.map(|table| (name(table), table)).collect();
    let declared = || declared.iter().filter(|(table, _)| !table.contains(WORDS));
    assert_eq!(declared().map(|(table, _)| table).collect::<Vec<_>>(), tables.keys().collect::<Vec<_>>());
    let missing = declared().flat_map(|(table, types)| {
        let without = types.iter().filter(|name| tables[table].class(name).is_none());
        without.map(move |name| format!("{table}: {name}"))
    });
    missing.collect()
}

/// All tables, of types and of words, with the names that each has.
fn held() -> Declared {
    let types =
        type_tables().map(|table| (name(table), table.types().map(|(of, _)| of.to_owned()).collect()));
    let words = word_tables().flat_map(|table| {
        let named = |field: &&str| (format!("{}{WORDS}{field}", table.api), owned(table.words));
        // Fields of one list have the same words: the first stands for all.
        table.fields.first().map(named)
    });
    types.chain(words).collect()
}

fn owned(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// What is written down elsewhere, by table.
fn documented() -> Declared {
    let mut by_table = Declared::new();
    for beside in DOCUMENTED {
        assert!(!beside.source.is_empty(), "{:?} comes from somewhere", beside.names);
        let table = by_table.entry(format!("{} {}", beside.api, beside.things)).or_default();
        for of in beside.names {
            assert!(table.insert((*of).to_owned()), "`{of}` is documented twice");
        }
    }
    by_table
}

/// The tables whose names one list has: the fields of a list of words share it.
fn same_words(table: &str) -> Vec<String> {
    match table.contains(WORDS).then(|| word_table(table)).flatten() {
        Some(list) => list.fields.iter().map(|field| format!("{}{WORDS}{field}", list.api)).collect(),
        None => vec![table.to_owned()],
    }
}

/// What one of the tables has that `other` has not, as `table: name`.
fn beyond(tables: &Declared, other: &[&Declared]) -> Vec<String> {
    let known = |table: &str, name: &str| {
        let tables = same_words(table);
        let has =
            |of: &&Declared| tables.iter().any(|table| of.get(table).is_some_and(|of| of.contains(name)));
        other.iter().any(has)
    };
    let each = tables.iter().flat_map(|(table, names)| names.iter().map(move |name| (table, name)));
    each.filter(|(table, name)| !known(table, name)).map(|(table, name)| format!("{table}: {name}")).collect()
}

/// What both tables have, as `table: name`.
fn both(tables: &Declared, other: &Declared) -> Vec<String> {
    let without: BTreeSet<String> = beyond(tables, &[other]).into_iter().collect();
    let all = beyond(tables, &[]).into_iter();
    all.filter(|name| !without.contains(name)).collect()
}

#[test]
fn every_type_that_an_sdk_declares_has_a_class() {
    for (declared, language) in [(in_python(), "(Python)"), (in_typescript(), "(TypeScript)")] {
        assert!(declared.values().map(BTreeSet::len).sum::<usize>() > 100, "the walk found next to nothing");
        assert_eq!(unclassed(&declared, language), Vec::<String>::new());
    }
}

#[test]
fn every_name_in_a_table_is_declared_by_an_sdk_or_documented_elsewhere() {
    let (python, typescript, documented) = (in_python(), in_typescript(), documented());
    assert_eq!(beyond(&held(), &[&python, &typescript, &documented]), Vec::<String>::new(), "is it stale?");
    assert_eq!(beyond(&documented, &[&held()]), Vec::<String>::new(), "documented, and in no table");
    for declared in [python, typescript] {
        assert_eq!(both(&documented, &declared), Vec::<String>::new(), "documented, and declared as well");
    }
}

#[test]
fn a_type_of_tomorrow_is_noticed() {
    let mut declared = in_python();
    for (table, types) in declared.iter_mut().filter(|(table, _)| !table.contains(WORDS)) {
        types.insert(format!("future of {table}"));
    }
    let tables = declared.keys().filter(|table| !table.contains(WORDS));
    let expected: Vec<String> = tables.map(|table| format!("{table}: future of {table}")).collect();
    assert_eq!(unclassed(&declared, "(Python)"), expected);
}

#[test]
fn a_type_of_yesterday_is_noticed() {
    let (python, typescript, documented) = (in_python(), in_typescript(), documented());
    let mut held = held();
    held.values_mut().for_each(|names| assert!(names.insert("of yesterday".to_owned())));
    let expected: Vec<String> = held.keys().map(|table| format!("{table}: of yesterday")).collect();
    assert_eq!(beyond(&held, &[&python, &typescript, &documented]), expected);
}

/// The table of words of that name.
fn word_table(name: &str) -> Option<&'static WordTable> {
    let (api, field) = name.split_once(WORDS).unwrap();
    word_tables().find(|table| table.api.as_str() == api && table.fields.contains(&field))
}

/// The words of states and reasons that an SDK declares and no table has, and the tables that there should be.
fn unlisted(declared: &Declared) -> Vec<String> {
    let words = declared.iter().filter(|(table, _)| table.contains(WORDS));
    let words = words.filter(|(table, _)| NO_WORDS.iter().all(|(name, _)| name != table));
    let missing = words.flat_map(|(name, words)| {
        let table = word_table(name);
        let without =
            words.iter().filter(move |word| table.is_none_or(|table| !table.words.contains(&word.as_str())));
        without.map(move |word| format!("{name}: {word}"))
    });
    missing.collect()
}

#[test]
fn every_word_of_a_state_or_reason_that_an_sdk_declares_is_in_a_table() {
    let (python, typescript) = (in_python(), in_typescript());
    for declared in [&python, &typescript] {
        let words = declared.iter().filter(|(table, _)| table.contains(WORDS));
        assert!(words.map(|(_, words)| words.len()).sum::<usize>() > 60, "the walk found next to nothing");
        assert_eq!(unlisted(declared), Vec::<String>::new());
    }
    // Who is excepted is declared, and tables have what a walk finds: a field that was renamed would be held for nothing.
    for (name, why) in NO_WORDS {
        assert!(python.contains_key(name) && word_table(name).is_none() && !why.is_empty(), "{name}");
    }
    for table in word_tables() {
        let name = |field: &&str| format!("{}{WORDS}{field}", table.api);
        // Bedrock adds its own, of which no SDK knows, and some are plain texts in all of them.
        let is_declared = table.fields.iter().any(|field| python.contains_key(&name(field)));
        let is_documented = table.fields.iter().any(|field| documented().contains_key(&name(field)));
        assert!(is_declared || is_documented, "{:?}", table.fields);
    }
}

#[test]
fn a_word_of_tomorrow_is_noticed() {
    let mut declared = in_typescript();
    declared.get_mut("anthropic-messages words of stop_reason").unwrap().insert("future_reason".to_owned());
    declared.insert("openai-chat words of future_status".to_owned(), BTreeSet::from(["waiting".to_owned()]));
    let expected = [
        "anthropic-messages words of stop_reason: future_reason",
        "openai-chat words of future_status: waiting",
    ];
    assert_eq!(unlisted(&declared), expected);
}

/// A source names the versions that the lock files have.
#[test]
fn sources_name_the_locked_versions() {
    let read = |path: &str| std::fs::read_to_string(root().join("crates/cli/tests/sdk").join(path)).unwrap();
    let (python, node) = (read("python/sdks.txt"), read("node/package.json"));
    for table in type_tables() {
        for sdk in table.source.split(", ").filter(|sdk| !sdk.is_empty()) {
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
