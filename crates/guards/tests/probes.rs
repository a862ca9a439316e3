//! Probes: commands and paths that were written down, with what the guard should say, before anybody looked at what it
//! says.
//!
//! A row says whether the default profile stops it. One that is missed says why, so that it can't be forgotten, and one whose
//! expectation turned out to be wrong says that; both are named in the file.

#![expect(clippy::panic, reason = "helpers of tests may fail loudly")]

use std::time::Duration;

use backstop_guards::{Access, CommandGuard, GuardSettings, PathGuard, Place, Profile, ShellKind, Verdict};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Probe {
    input: String,
    stopped: bool,
    class: String,
    /// Why the expectation is wrong.
    disputed: Option<String>,
    /// Why the guard is wrong.
    missed: Option<String>,
}

fn probes(text: &str) -> Vec<Probe> {
    let read = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    text.lines().map(read).filter(|probe: &Probe| probe.disputed.is_none()).collect()
}

/// Every probe is judged as expected, and what is missed is still missed: what was mended loses its mark.
fn check(text: &str, verdict: impl Fn(&Probe) -> Verdict) {
    let mut wrong = Vec::new();
    for probe in probes(text) {
        let verdict = verdict(&probe);
        let right = (verdict != Verdict::Pass) == probe.stopped;
        if right == probe.missed.is_some() {
            wrong.push(format!("{} {verdict:?}: {}", probe.class, probe.input));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn place() -> Place {
    Place::new("/work/project").with_home("/home/me")
}

#[test]
fn commands_are_judged_as_was_expected_of_them() {
    let settings = GuardSettings { budget: Duration::from_secs(10), ..GuardSettings::default() };
    let guard = CommandGuard::new(settings);
    check(include_str!("cases/probes/commands.jsonl"), |probe| {
        guard.judge(&probe.input, ShellKind::Posix, &place(), 0).verdict
    });
}

#[test]
fn paths_are_judged_as_was_expected_of_them() {
    let guard = PathGuard::new(Profile::Standard);
    check(include_str!("cases/probes/paths.jsonl"), |probe| {
        let access = if probe.class == "write" { Access::Write } else { Access::Read };
        guard.judge(&probe.input, access, &place()).verdict
    });
}
