//! Scores the guards per category and prints a table in Markdown: `report [FILE.jsonl...]`.
//!
//! Without files it judges the project's own cases, with files the rows in these: `{"kind": "command" | "path" |
//! "text", "input", "expected": "allow" | "ask" | "block", "category", "tier"}` and where they apply `cwd`, `home`,
//! `scope`, `needs_fs`. Recall is the share of what should be stopped or found that was; false alarms are
//! the share of what should pass that did not. Left out are rows that need files of their source, and, of those
//! that should pass, rows with a `scope`: they concern one rule of their source only. Rows whose label is
//! disputed are counted apart when they are judged against it.

#![expect(clippy::print_stdout, reason = "a command-line tool")]

mod disputed;
#[path = "../../scan/tests/tokens/mod.rs"]
mod tokens;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop_guards::{
    Access, CommandGuard, GuardSettings, Judgement, PathGuard, Place, Profile, RuleSet, ShellKind, Verdict,
};
use backstop_scan::{Class, Policy, Redactor, Scanner};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// How often everything is judged.
const TIMES: usize = 5;

type Done<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Done {
    let files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let mut report = Report::default();
    if files.is_empty() {
        own_rules(&mut report)?;
        own_commands(&mut report)?;
        own_hidden(&mut report)?;
        own_paths(&mut report)?;
        own_texts(&mut report)?;
        own_streams(&mut report)?;
    }
    for file in files {
        foreign(&file, &mut report)?;
    }
    report.print();
    Ok(())
}

/// How many of those that count. Rows that are judged against a label which is disputed count for neither.
#[derive(Default)]
struct Share {
    hits: usize,
    rows: usize,
    disputed: usize,
}

impl Share {
    fn shown(&self) -> String {
        if self.rows == 0 {
            return "–".to_owned();
        }
        let percent = 100.0 * self.hits as f64 / self.rows as f64;
        let disputed = match self.disputed {
            0 => String::new(),
            more => format!("; {more} disputed"),
        };
        format!("{percent:.1}% ({} of {}{disputed})", self.hits, self.rows)
    }
}

#[derive(Default)]
struct Score {
    recall: Share,
    alarms: Share,
    times: Vec<Duration>,
}

/// Scores in the order of their names.
#[derive(Default)]
struct Report {
    scores: BTreeMap<String, Score>,
}

impl Report {
    fn add(&mut self, name: &str, wanted: bool, (hit, time): (bool, Duration)) {
        self.add_row(name, wanted, hit, time, false);
    }

    fn add_row(&mut self, name: &str, wanted: bool, hit: bool, time: Duration, disputed: bool) {
        let score = self.scores.entry(name.to_owned()).or_default();
        let share = if wanted { &mut score.recall } else { &mut score.alarms };
        score.times.push(time);
        if disputed && hit != wanted {
            share.disputed += 1;
            return;
        }
        share.rows += 1;
        share.hits += usize::from(hit);
    }

    fn print(self) {
        println!("| category | recall | false alarms | time: median | worst |");
        println!("| --- | --- | --- | --- | --- |");
        for (name, mut score) in self.scores {
            score.times.sort_unstable();
            let median = score.times.get(score.times.len() / 2).copied().unwrap_or_default();
            let worst = score.times.last().copied().unwrap_or_default();
            println!(
                "| {name} | {} | {} | {} | {} |",
                score.recall.shown(),
                score.alarms.shown(),
                micros(median),
                micros(worst)
            );
        }
    }
}

fn micros(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}

/// What `judge` answers, and how long it takes at its fastest: whatever else the machine does is not its time.
fn timed<T>(mut judge: impl FnMut() -> T) -> (T, Duration) {
    let mut once = || {
        let start = Instant::now();
        let answer = judge();
        (answer, start.elapsed())
    };
    let (answer, first) = once();
    (answer, (1..TIMES).map(|_| once().1).fold(first, Duration::min))
}

fn rows<T: DeserializeOwned>(path: &Path) -> Done<Vec<T>> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("`{name}` can't be read: {error}"))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let row = |(number, line)| {
        serde_json::from_str(line)
            .map_err(|error| format!("`{name}`, line {}, is no case: {error}", number + 1).into())
    };
    lines.map(row).collect()
}

/// The case files of the scanner.
fn texts(name: &str) -> PathBuf {
    own("../../../scan/tests/cases").join(name)
}

/// The project's own case files below this one.
fn own(name: &str) -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).join("tests/cases").join(name)
}

fn guard(profile: Profile) -> CommandGuard {
    let budget = Duration::from_secs(5);
    CommandGuard::new(GuardSettings { profile, budget, ..GuardSettings::default() })
}

fn place() -> Place {
    Place::new("/work/project").with_home("/home/me")
}

fn own_rules(report: &mut Report) -> Done {
    #[derive(Deserialize)]
    struct Case {
        rule: String,
        kind: String,
        command: String,
    }
    let guard = guard(Profile::Strict);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(own("rules"))?.map(|entry| Ok(entry?.path())).collect::<Done<_>>()?;
    files.sort();
    let mut cases: Vec<Case> = files
        .iter()
        .map(|file| rows::<Case>(file))
        .collect::<Done<Vec<_>>>()?
        .into_iter()
        .flatten()
        .collect();
    for rule in RuleSet::built_in().rules() {
        let examples = [("match", &rule.matches), ("no_match", &rule.no_match)];
        cases.extend(examples.into_iter().flat_map(|(kind, commands)| {
            commands.iter().map(|command| Case {
                rule: rule.id.clone(),
                kind: kind.to_owned(),
                command: command.clone(),
            })
        }));
    }
    for case in cases {
        let (judgement, time) = timed(|| guard.judge(&case.command, ShellKind::Posix, &place(), 0));
        let hit = judgement.findings.iter().any(|finding| finding.rule_id == case.rule);
        let category = case.rule.split('.').next().unwrap_or_default();
        report.add(&format!("rules: {category}"), case.kind != "no_match", (hit, time));
    }
    Ok(())
}

#[derive(Deserialize)]
struct Judged {
    input: String,
    verdict: Verdict,
    #[serde(default)]
    profile: Profile,
}

fn own_commands(report: &mut Report) -> Done {
    for file in ["dangerous.jsonl", "everyday.jsonl"] {
        for case in rows::<Judged>(&own(file))? {
            let guard = guard(case.profile);
            let (judgement, time) = timed(|| guard.judge(&case.input, ShellKind::Posix, &place(), 0));
            report.add("commands", case.verdict != Verdict::Pass, (is_stopped(&judgement), time));
        }
    }
    Ok(())
}

fn own_hidden(report: &mut Report) -> Done {
    #[derive(Deserialize)]
    struct Case {
        input: String,
    }
    let guard = guard(Profile::Standard);
    for case in rows::<Case>(&own("hidden.jsonl"))? {
        let (judgement, time) = timed(|| guard.judge(&case.input, ShellKind::Posix, &place(), 0));
        report.add("commands, hidden", true, (is_stopped(&judgement), time));
    }
    Ok(())
}

fn own_paths(report: &mut Report) -> Done {
    for case in rows::<Judged>(&own("paths.jsonl"))? {
        let guard = PathGuard::new(case.profile);
        let (judgement, time) = timed(|| guard.judge(&case.input, Access::Read, &place()));
        report.add("paths", case.verdict != Verdict::Pass, (is_stopped(&judgement), time));
    }
    Ok(())
}

fn own_texts(report: &mut Report) -> Done {
    /// A text in parts, so that no file holds what looks like a secret.
    #[derive(Deserialize)]
    struct Case {
        parts: Vec<String>,
        kind: Option<String>,
    }
    let scanner = Scanner::new();
    for (name, class) in [("secrets", Class::Secret), ("pii", Class::Pii), ("hidden", Class::Hidden)] {
        for file in [format!("{name}.jsonl"), format!("{name}_clean.jsonl")] {
            for case in rows::<Case>(&texts(&file))? {
                let found = finds(&scanner, class, &case.parts.concat(), Policy::DEFAULT_CONFIDENCE);
                report.add(&format!("texts: {name}"), case.kind.is_some(), found);
            }
        }
    }
    Ok(())
}

fn is_stopped(judgement: &Judgement) -> bool {
    judgement.verdict != Verdict::Pass
}

fn finds(scanner: &Scanner, class: Class, text: &str, least: f32) -> (bool, Duration) {
    let (spans, time) = timed(|| scanner.detect(text));
    (spans.iter().any(|span| span.class == class && span.confidence >= least), time)
}

/// A row of somebody else's cases.
#[derive(Deserialize)]
struct Row {
    #[serde(default)]
    id: String,
    kind: String,
    input: String,
    expected: String,
    category: String,
    tier: String,
    scope: Option<serde_json::Value>,
    cwd: Option<String>,
    home: Option<String>,
    #[serde(default)]
    needs_fs: bool,
}

impl Row {
    fn counts(&self) -> bool {
        !self.needs_fs && (self.expected != "allow" || self.scope.is_none())
    }

    fn place(&self) -> Place {
        let place = match self.cwd.as_deref() {
            Some(cwd) if cwd.starts_with('/') => Place::new(cwd),
            _ => Place::unknown(),
        };
        self.home.iter().fold(place, Place::with_home)
    }
}

fn foreign(file: &Path, report: &mut Report) -> Done {
    const PROFILES: [(Profile, &str); 3] =
        [(Profile::Core, "core"), (Profile::Standard, "standard"), (Profile::Strict, "strict")];
    let scanner = Scanner::new();
    for row in rows::<Row>(file)?.into_iter().filter(Row::counts) {
        let wanted = row.expected != "allow";
        if row.kind == "text" {
            let (class, name) = if row.category.starts_with("pii") {
                (Class::Pii, "pii")
            } else {
                (Class::Secret, "secrets")
            };
            let found = finds(&scanner, class, &row.input, 0.0);
            report.add(&format!("texts: {name}, tier {}", row.tier), wanted, found);
            continue;
        }
        for (profile, name) in PROFILES {
            let (judgement, time) = if row.kind == "path" {
                let guard = PathGuard::new(profile);
                timed(|| guard.judge(&row.input, Access::Read, &row.place()))
            } else {
                let guard = guard(profile);
                timed(|| guard.judge(&row.input, ShellKind::Posix, &row.place(), 0))
            };
            let name = format!("{}s: profile {name}, tier {}", row.kind, row.tier);
            let disputed = disputed::ROWS.iter().any(|(id, _)| *id == row.id);
            report.add_row(&name, wanted, is_stopped(&judgement), time, disputed);
        }
    }
    Ok(())
}

/// Answers of a model as they stream through the redactor: a token is a hit if all of it leaves at once.
fn own_streams(report: &mut Report) -> Done {
    let redactor = Redactor::new(Arc::new(Scanner::new()), Policy::default());
    for name in ["code", "markdown", "prose"] {
        let text = std::fs::read_to_string(texts(&format!("stream/{name}.txt")))?;
        let mut streams: Vec<_> = (0..TIMES).map(|_| redactor.stream()).collect();
        for token in tokens::tokens(&text) {
            let pushed = streams.iter_mut().map(|stream| {
                let start = Instant::now();
                stream.push(&token);
                (stream.held() == 0, start.elapsed())
            });
            let fastest = pushed.min_by_key(|(_, time)| *time).unwrap_or_default();
            report.add(&format!("streams: {name}"), true, fastest);
        }
    }
    Ok(())
}
