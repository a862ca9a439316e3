//! Tests the cases of the built-in languages, and relations between code and its rewritten forms.
//!
//! A case is code, `=>`, and what is true of it; `CALL` in it stands for each name of its entry.

use std::sync::Arc;

use serde::Deserialize;

use super::calls::Call;
use super::language::{Language, Languages};
use super::reader::{Found, read};
use crate::Taint;
use crate::effects::Action;

#[derive(Deserialize)]
struct Written {
    language: String,
    calls: Vec<Entry>,
    #[serde(default)]
    programs: Vec<String>,
}

#[derive(Deserialize)]
struct Entry {
    does: String,
    names: Vec<String>,
    source: String,
    #[serde(rename = "match")]
    matches: Vec<String>,
    no_match: Vec<String>,
}

fn written() -> Vec<(String, Written)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("languages");
    let mut all = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name: Arc<str> = Arc::from(path.to_string_lossy());
        let text = std::fs::read_to_string(&path).unwrap();
        let root = backstop_yaml::parse(&name, &text).unwrap_or_else(|problem| panic!("{problem}")).unwrap();
        let fields: serde_json::Value = root.read().unwrap_or_else(|problem| panic!("{problem}"));
        all.push((name.to_string(), serde_json::from_value(fields).unwrap()));
    }
    all
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

fn starts(call: &Call, wanted: &str) -> bool {
    match call {
        Call::Shell(text) => words(text).starts_with(&words(wanted)),
        Call::Vector { argv, .. } => words(&argv.join(" ")).starts_with(&words(wanted)),
        _ => false,
    }
}

/// Returns whether it is true of the code, also of code in it that is evaluated.
fn is_true(fact: &str, found: &Found, language: &Language) -> bool {
    let (verb, rest) = fact.split_once(' ').unwrap_or((fact, ""));
    let inner = |text: &String| is_true(fact, &read(text, language, "~", 0), language);
    let evaluated =
        found.calls.iter().any(|call| matches!(call, Call::Code { text: Some(text), .. } if inner(text)));
    let touches = |call: &Call, tree: bool, action: &str| match call {
        Call::Touch(touch) => {
            let is = |action: &str| serde_json::from_value::<Action>(action.into()).unwrap() == touch.action;
            is(action) && touch.path == rest && touch.recursive >= tree
        }
        _ => false,
    };
    evaluated && verb != "harmless"
        || match verb {
            "starts" => found.calls.iter().any(|call| starts(call, rest)),
            "list" => found.calls.iter().any(|call| matches!(call, Call::Lists(folder) if folder == rest)),
            "enters" => found.calls.iter().any(|call| matches!(call, Call::Enters(folder) if folder == rest)),
            "unread" => found.calls.iter().any(|call| matches!(call, Call::Unread)),
            "network" => found.network,
            "harmless" => found.is_harmless(),
            "prints" => {
                found.printed.as_ref().is_some_and(|(text, _)| text.replace('\n', " ").trim() == rest)
            }
            "decoded" => found.printed.as_ref().is_none_or(|(_, taint)| taint.has(Taint::DECODED)),
            "delete-tree" => found.calls.iter().any(|call| touches(call, true, "delete")),
            action => found.calls.iter().any(|call| touches(call, false, action)),
        }
}

#[test]
fn every_call_has_a_source_and_does_what_its_cases_say() {
    let languages = Languages::built_in();
    let mut wrong = Vec::new();
    for (file, written) in written() {
        let language =
            written.programs.first().map_or(languages.any(), |program| languages.of_program(program));
        for entry in &written.calls {
            let of = format!("{file}: {} {}", entry.does, entry.names.join(", "));
            if entry.source.is_empty() || entry.matches.is_empty() || entry.no_match.is_empty() {
                wrong.push(format!("{of}: an entry needs a source, a case and a near miss"));
            }
            let cases = entry.matches.iter().map(|case| (case, true));
            for (case, wanted) in cases.chain(entry.no_match.iter().map(|case| (case, false))) {
                let (code, fact) = case.rsplit_once(" => ").unwrap_or_else(|| panic!("{of}: `{case}`"));
                for name in &entry.names {
                    let code = code.replace("CALL", name);
                    if is_true(fact, &read(&code, language, "~", 0), language) != wanted {
                        wrong.push(format!("{of}: `{fact}` {}of `{code}`", if wanted { "" } else { "not " }));
                    }
                }
            }
        }
        assert!(!written.language.is_empty());
    }
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
}
