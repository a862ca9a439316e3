//! The digest of a configuration: another one for each key that is changed, the same one for whatever is no value.

use std::collections::BTreeSet;
use std::sync::Arc;

use backstop_config::{LayerKind, Loader, Source};
use backstop_yaml::{Kind, Node};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{FULL, TOKEN, load, names, operator};

fn json_of(node: &Node) -> Value {
    match &node.kind {
        Kind::Null => Value::Null,
        Kind::Bool(value) => json!(value),
        Kind::Integer(value) => json!(value),
        Kind::Number(value) => json!(value),
        Kind::Text(text) => json!(text),
        Kind::List(items) => items.iter().map(json_of).collect(),
        Kind::Map(entries) => {
            Value::Object(entries.iter().map(|entry| (entry.key.clone(), json_of(&entry.value))).collect())
        }
    }
}

/// The file that uses every key, as JSON, which is read by the same code.
fn full() -> Value {
    json_of(&backstop_yaml::parse(&Arc::from("full.yaml"), FULL).unwrap().unwrap())
}

fn digest(text: &str) -> Option<String> {
    load(&[operator(text)]).ok().map(|loaded| loaded.digest().to_string())
}

/// The places of all values that have none below them, as JSON pointers.
fn leaves(at: &str, value: &Value, found: &mut Vec<String>) {
    let step = |name: &str| format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
    match value {
        Value::Object(map) => map.iter().for_each(|(name, value)| leaves(&step(name), value, found)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, value)| leaves(&step(&n.to_string()), value, found));
        }
        _ => found.push(at.to_owned()),
    }
}

/// All words that a schema lists anywhere.
fn words(schema: &Value, found: &mut BTreeSet<String>) {
    if let Some(listed) = schema.get("enum").and_then(Value::as_array) {
        found.extend(listed.iter().filter_map(Value::as_str).map(str::to_owned));
    }
    match schema {
        Value::Object(map) => map.values().for_each(|value| words(value, found)),
        Value::Array(items) => items.iter().for_each(|value| words(value, found)),
        _ => {}
    }
}

/// What might stand in the place of a value.
fn others(value: &Value, words: &BTreeSet<String>) -> Vec<Value> {
    match value {
        Value::Bool(value) => vec![json!(!value)],
        Value::Number(number) => {
            let number = number.as_f64().unwrap();
            [number + 1.0, number - 1.0, number / 2.0]
                .map(|other| serde_json::from_str(&other.to_string()).unwrap())
                .into()
        }
        Value::String(text) => {
            let fixed = [
                "x",
                "2027-03-04",
                "23:00",
                "Europe/Paris",
                "https://other.example/v1",
                "keys/other",
                "env",
                "ann",
                "[::1]:1",
            ];
            let made = [format!("{text}x"), format!("x{text}"), format!("{text}1"), text.replace('a', "b")];
            let cut = text.char_indices().nth_back(0).map(|(at, _)| text.split_at(at).0.to_owned());
            let texts = made.into_iter().chain(cut).chain(words.iter().cloned());
            texts.chain(fixed.map(str::to_owned)).filter(|other| other != text).map(Value::from).collect()
        }
        _ => vec![json!("x")],
    }
}

/// What is harmless: a secret that is written in the file, which is masked.
const HARMLESS: [&str; 1] = ["/telemetry/traces/headers/x-team"];

#[test]
fn each_key_that_is_changed_makes_another_digest() {
    let (full, mut all, mut listed) = (full(), Vec::new(), BTreeSet::new());
    let before = digest(&full.to_string()).unwrap();
    assert_eq!(Some(before.clone()), digest(FULL), "JSON and YAML are the same values");
    leaves("", &full, &mut all);
    words(&backstop_config::schema(), &mut listed);
    assert!(all.len() > 400, "{}", all.len());
    let mut unchangeable = Vec::new();
    for at in &all {
        let value = full.pointer(at).unwrap();
        let changed = others(value, &listed).into_iter().find_map(|other| {
            let mut changed = full.clone();
            *changed.pointer_mut(at).unwrap() = other.clone();
            Some((other, digest(&changed.to_string())?))
        });
        match changed {
            Some((other, now)) => {
                assert_eq!(
                    now == before,
                    HARMLESS.contains(&at.as_str()),
                    "{at} is {other} instead of {value}"
                );
            }
            None => unchangeable.push(at.as_str()),
        }
    }
    // Something else in the file has to be changed with these.
    assert!(unchangeable.len() < 60, "{unchangeable:?}");
}

/// Secrets are masked: that another one is written changes nothing, and nobody can guess one from the digest.
#[test]
fn a_secret_is_not_in_the_digest_and_what_a_variable_holds_is_not() {
    let text =
        |secret: &str| format!("gateway: {{token: '{secret}'}}\nagent: {{system_prompt: '${{TOKEN}}'}}\n");
    let (one, other) = ("first-secret-of-nobody-0123456789", "other-secret-of-nobody-0123456789");
    assert_eq!(digest(&text(one)).unwrap(), digest(&text(other)).unwrap());
    let with = |value: &str| {
        let value = value.to_owned();
        let environment = move |name: &str| (name == "TOKEN").then(|| value.clone());
        Loader::new(&names(), &environment).load(&[operator(&text(one))]).unwrap()
    };
    let (one, other) = (with(TOKEN), with("another"));
    assert_eq!(one.digest(), other.digest());
    // Only who keys it may write what tells them apart.
    assert_ne!(one.readings.variables(), other.readings.variables());
    let shown = format!("{one:?}");
    for hidden in [one.readings.variables().unwrap(), one.readings.texts()[0].1] {
        assert!(!shown.contains(&hidden.prefix(64)), "{shown}");
    }
}

#[test]
fn what_a_file_held_when_it_was_read_is_noted() {
    let loaded = load(&[operator("{}")]).unwrap();
    loaded.readings.note_file("/a".as_ref(), "one");
    loaded.clone().readings.note_file("/b".as_ref(), "two");
    let files = loaded.readings.files();
    assert_eq!(files.keys().collect::<Vec<_>>(), ["/a", "/b"]);
    loaded.readings.note_file("/a".as_ref(), "one");
    assert_eq!(loaded.readings.files(), files);
    loaded.readings.note_file("/a".as_ref(), "three");
    assert_ne!(loaded.readings.files()["/a"], files["/a"], "it was two things");
}

/// The same values with the keys of each mapping in an order that `seed` says.
fn shuffled(value: &Value, seed: u64) -> String {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(name, _)| {
                name.bytes().fold(seed, |hash, byte| hash.rotate_left(7).wrapping_mul(31) ^ u64::from(byte))
            });
            let entries: Vec<_> = entries
                .iter()
                .map(|(name, value)| format!("{}: {}", json!(name), shuffled(value, seed)))
                .collect();
            format!("{{{}}}", entries.join(",\n  "))
        }
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| shuffled(item, seed)).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.to_string(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_keys_and_what_is_no_value_change_nothing(seed in any::<u64>(), comment in "[a-z ]{0,20}") {
        let text = format!("# {comment}\n{}\n", shuffled(&full(), seed));
        let elsewhere = Source::new(LayerKind::Operator, &format!("{seed}.yaml"), text);
        prop_assert_eq!(load(&[elsewhere]).unwrap().digest().to_string(), digest(FULL).unwrap());
    }
}

/// A repository's file tightens: what holds is digested, whoever said it.
#[test]
fn what_holds_is_digested_whichever_layer_said_it() {
    let operators = load(&[operator("guards: {sensitive_files: {deny: ['**/*.tfstate']}}")]).unwrap();
    let repository =
        Source::new(LayerKind::Repository, "r.yaml", "guards: {sensitive_files: {deny: ['**/*.tfstate']}}");
    let both = load(&[operator("{}"), repository]).unwrap();
    assert_eq!(operators.digest(), both.digest());
    assert_ne!(load(&[operator("{}")]).unwrap().digest(), both.digest());
}
