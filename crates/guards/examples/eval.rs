//! Scores the guards on labelled cases: `eval FILE.jsonl [--list CATEGORY-OR-TIER|slow|sources]`.
//!
//! A row is stopped when the verdict is not "pass". Rows that depend on files of their source are left
//! out; rows whose negative concerns one rule of their source only are left out of the false alarms.

#![expect(clippy::print_stdout, reason = "a command-line tool")]

mod disputed;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use backstop_guards::{Access, CommandGuard, GuardSettings, PathGuard, Place, Profile, ShellKind, Verdict};
use serde::Deserialize;

#[derive(Deserialize)]
struct Row {
    #[serde(default)]
    id: String,
    #[serde(default)]
    source: String,
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
    /// The language of a command, where it isn't that of POSIX shells.
    #[serde(default)]
    shell: ShellKind,
}

impl Row {
    fn place(&self) -> Place {
        let place = match self.cwd.as_deref() {
            Some(cwd) if cwd.starts_with('/') => Place::new(cwd),
            _ => Place::unknown(),
        };
        match &self.home {
            Some(home) => place.with_home(home),
            None => place,
        }
    }
}

#[derive(Default)]
struct Score {
    rows: usize,
    stopped: usize,
    /// Of those judged against their label, how many are disputed.
    disputed: usize,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let file = args.next().ok_or("usage: eval FILE.jsonl [--list TEXT]")?;
    let list = args.next().and_then(|_| args.next());
    let mut scores: BTreeMap<(Profile, String, String), Score> = BTreeMap::new();
    let mut sources: BTreeMap<(Profile, String, String, String), Score> = BTreeMap::new();
    let mut times: Vec<Duration> = Vec::new();
    let mut slowest: Vec<(Duration, String)> = Vec::new();
    for line in std::fs::read_to_string(file)?.lines() {
        let row: Row = serde_json::from_str(line)?;
        if row.needs_fs || row.expected == "allow" && row.scope.is_some() {
            continue;
        }
        for profile in [Profile::Core, Profile::Standard, Profile::Strict] {
            let (verdict, why) = judge(&row, profile);
            // The fastest of a few: whatever else the machine does is not the guard's time.
            let once = || {
                let start = Instant::now();
                judge(&row, profile);
                start.elapsed()
            };
            let took = (0..4).map(|_| once()).min().unwrap_or_default();
            times.push(took);
            slowest.push((took, row.input.chars().take(100).collect::<String>()));
            let score = scores.entry((profile, row.tier.clone(), row.expected.clone())).or_default();
            score.rows += 1;
            let stopped = verdict != Verdict::Pass;
            score.stopped += usize::from(stopped);
            let wrong = stopped != (row.expected != "allow");
            score.disputed += usize::from(wrong && disputed::ROWS.iter().any(|(id, _)| *id == row.id));
            let source = row.source.split(':').next().unwrap_or_default();
            let of_source = sources
                .entry((profile, row.tier.clone(), row.expected.clone(), source.to_owned()))
                .or_default();
            of_source.rows += 1;
            of_source.stopped += usize::from(stopped);
            let name = format!("{profile:?}/{}/{}/{}", row.tier, row.expected, row.category).to_lowercase();
            if wrong && list.as_deref().is_some_and(|wanted| name.contains(wanted)) {
                println!(
                    "{name}\n    {}\n    {verdict:?}: {why}",
                    row.input.chars().take(300).collect::<String>().escape_debug()
                );
            }
        }
    }
    for ((profile, tier, expected), score) in &scores {
        let share = 100.0 * score.stopped as f64 / score.rows.max(1) as f64;
        let disputed =
            if score.disputed > 0 { format!(", {} disputed", score.disputed) } else { String::new() };
        println!(
            "{profile:?} {tier} {expected}: {} of {} stopped ({share:.1}%{disputed})",
            score.stopped, score.rows
        );
    }
    if list.as_deref() == Some("sources") {
        for ((profile, tier, expected, source), score) in &sources {
            println!("{profile:?} {tier} {expected} {source}: {} of {}", score.stopped, score.rows);
        }
    }
    slowest.sort_by_key(|(took, _)| std::cmp::Reverse(*took));
    slowest.dedup_by(|one, other| one.1 == other.1);
    for (took, input) in slowest.iter().take(if list.as_deref() == Some("slow") { 25 } else { 0 }) {
        println!("{took:?} {}", input.escape_debug());
    }
    times.sort();
    let at = |share: usize| times.get(times.len() * share / 1000).copied().unwrap_or_default();
    println!(
        "time: median {:?}, p99 {:?}, worst {:?}",
        at(500),
        at(990),
        times.last().copied().unwrap_or_default()
    );
    Ok(())
}

fn judge(row: &Row, profile: Profile) -> (Verdict, String) {
    let place = row.place();
    let judgement = if row.kind == "path" {
        PathGuard::new(profile).judge(&row.input, Access::Read, &place)
    } else {
        let settings = GuardSettings { profile, budget: Duration::from_secs(5), ..GuardSettings::default() };
        CommandGuard::new(settings).judge(&row.input, row.shell, &place, 0)
    };
    let rules: Vec<&str> = judgement.findings.iter().map(|finding| finding.rule_id.as_str()).collect();
    let unknown: Vec<&str> = judgement.unknown.iter().map(|unknown| unknown.reason.as_str()).collect();
    (judgement.verdict, format!("{} {}", rules.join(","), unknown.join(",")))
}
