//! Cases per kind, from files under `cases`. A secret-like text is stored in parts and joined here, so
//! that no file of the project holds one.

#![expect(clippy::unwrap_used, reason = "a case file that cannot be read fails the test")]

use std::fs;
use std::path::Path;

use backstop_scan::{Class, Policy, Scanner};
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    parts: Vec<String>,
    kind: Option<String>,
    why: Option<String>,
    /// The kind that a clean text nearly holds.
    near: Option<String>,
}

fn cases(name: &str) -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name);
    let text = fs::read_to_string(&path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[track_caller]
fn judge(class: Class, found: &str, clean: &str) {
    let scanner = Scanner::new();
    let mut wrong = Vec::new();
    for case in cases(found).into_iter().chain(cases(clean)) {
        let text = case.parts.concat();
        // These two never are more than a shape.
        let shape = matches!(case.kind.as_deref(), Some("date" | "url"));
        let likely = |confidence| shape || confidence >= Policy::DEFAULT_CONFIDENCE;
        let spans: Vec<_> = scanner
            .detect(&text)
            .into_iter()
            .filter(|span| span.class == class && likely(span.confidence))
            .collect();
        for span in &spans {
            assert!(Scanner::kinds(class).contains(span.kind), "`{}` is not among the kinds", span.kind);
        }
        let right = match &case.kind {
            Some(kind) => spans.iter().any(|span| span.kind == kind),
            None => spans.is_empty(),
        };
        if !right {
            wrong.push(format!("{text:?} ({:?}, {:?}): {spans:?}", case.kind, case.why));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Kinds with code of their own have no entry in the catalogue; their cases stand here.
#[track_caller]
fn every_structured_kind_has_cases(class: Class, found: &str, clean: &str) {
    let (found, clean) = (cases(found), cases(clean));
    for kind in Scanner::structured(class) {
        let shown = found.iter().any(|case| case.kind.as_deref() == Some(kind));
        let near = clean.iter().any(|case| case.near.as_deref() == Some(kind));
        assert!(shown && near, "`{kind}` needs a match ({shown}) and a near miss ({near})");
    }
}

#[test]
fn secrets() {
    judge(Class::Secret, "secrets.jsonl", "secrets_clean.jsonl");
    every_structured_kind_has_cases(Class::Secret, "secrets.jsonl", "secrets_clean.jsonl");
}

#[test]
fn personal_data() {
    judge(Class::Pii, "pii.jsonl", "pii_clean.jsonl");
    every_structured_kind_has_cases(Class::Pii, "pii.jsonl", "pii_clean.jsonl");
}

#[test]
fn hidden_text() {
    judge(Class::Hidden, "hidden.jsonl", "hidden_clean.jsonl");
    every_structured_kind_has_cases(Class::Hidden, "hidden.jsonl", "hidden_clean.jsonl");
}
