//! Scores the scanner on labelled rows: `scan_eval [--list] FILE.jsonl...`
//!
//! A row is `{"input", "expected": "block" | "allow", "tier", "category", "source"}`. It counts as found when
//! a span of the judged class is answered at any confidence: `pii` for rows whose category begins with `pii`,
//! `secret` for all others. Rows with a `scope` concern one rule of their source only and are shown apart.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool")]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use backstop_scan::{Class, Scanner};
use serde::Deserialize;

#[derive(Deserialize)]
struct Row {
    input: String,
    expected: String,
    category: String,
    tier: String,
    scope: Option<serde_json::Value>,
}

#[derive(Default)]
struct Score {
    rows: usize,
    hits: usize,
}

fn score(scanner: &Scanner, text: &str, list: bool) -> Result<Duration, serde_json::Error> {
    let mut table: BTreeMap<(String, &str, &str), Score> = BTreeMap::new();
    let mut spent = Duration::ZERO;
    for line in text.lines() {
        let row: Row = serde_json::from_str(line)?;
        let class = if row.category.starts_with("pii") { Class::Pii } else { Class::Secret };
        let began = Instant::now();
        let spans = scanner.detect(&row.input);
        spent += began.elapsed();
        let kinds: Vec<_> = spans.iter().filter(|span| span.class == class).map(|span| span.kind).collect();
        let block = row.expected == "block";
        let what = if block { "found" } else { "false alarms" };
        let scope = if row.scope.is_some() { "scoped" } else { "" };
        let score = table.entry((row.tier, what, scope)).or_default();
        score.rows += 1;
        score.hits += usize::from(!kinds.is_empty());
        if list && block == kinds.is_empty() {
            let shown: String = row.input.chars().take(160).collect();
            println!("{} {} {kinds:?} {shown:?}", if block { "missed" } else { "false" }, row.category);
        }
    }
    for ((tier, what, scope), Score { rows, hits }) in table {
        println!("{tier:10} {what:12} {scope:6} {hits:5} of {rows:5}");
    }
    Ok(spent)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let list = arguments.iter().any(|argument| argument == "--list");
    let scanner = Scanner::new();
    for file in arguments.iter().filter(|argument| *argument != "--list") {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) => {
                eprintln!("cannot read `{file}`: {error}");
                return ExitCode::FAILURE;
            }
        };
        match score(&scanner, &text, list) {
            Ok(spent) => println!("{file}: {spent:?}"),
            Err(error) => {
                eprintln!("`{file}` holds a line that is no labelled row: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
