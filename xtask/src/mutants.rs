//! `cargo xtask mutants`: whether the engine's tests notice when its code is wrong.
//!
//! cargo-mutants changes one thing at a time (a condition turned round, a function that returns at once) in a copy of
//! the workspace and runs the tests of the engine and of the contract. A change that no test notices is a *missed*
//! mutant: either a test is missing, or the code does nothing that matters. What is changed, and what is left out, stands
//! in `.cargo/mutants.toml`; arguments go through to cargo-mutants (`--shard 3/40`, `--file`, `--re`).
//!
//! The score is the share of caught mutants among those that compile. A mutant that runs into the timeout counts as
//! caught: the tests did not pass. It takes hours, so it is no part of `cargo xtask test`.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::error::Error;
use crate::step::execute;
use crate::workspace::{cargo, read, root};

/// Where cargo-mutants leaves what it found, from the root of the workspace.
const OUTPUT: &str = "target/mutants";
/// The least share of mutants, in percent, that the tests have to catch.
const LEAST: f64 = 95.0;

/// Changes what `.cargo/mutants.toml` says, or the part of it that `args` name.
pub(crate) fn run(args: &[&str]) -> Result<(), Error> {
    if !is_installed() {
        return Err(Error::Missing {
            tool: "cargo-mutants",
            hint: "`cargo install --locked cargo-mutants cargo-nextest` installs it",
        });
    }
    forget_last();
    let mut command = cargo(["mutants", "--workspace", "--output", OUTPUT]);
    // Debug information doubles the time of linking, and nobody looks at it.
    command.args(args).env("CARGO_PROFILE_DEV_DEBUG", "0");
    match execute(command) {
        // That some were missed is what the score is about.
        Err(Error::Failed { status, .. }) if matches!(status.code(), Some(MISSED | TIMED_OUT)) => {}
        ran => ran?,
    }
    // Arguments such as `--list` change nothing, and leave no score.
    if !outcomes().exists() {
        return Ok(());
    }
    let score = Score::read()?;
    println!("{score}");
    for missed in &score.missed {
        println!("  missed: {missed}");
    }
    if score.percent() < LEAST {
        return Err(Error::Mutants { caught: score.percent(), least: LEAST });
    }
    Ok(())
}

fn outcomes() -> PathBuf {
    root().join(OUTPUT).join("mutants.out/outcomes.json")
}

/// Takes away what the last run counted, so that it is not taken for what this one does.
fn forget_last() {
    // Where it can't be removed there is none.
    let _ = std::fs::remove_file(outcomes());
}

/// The exit codes by which cargo-mutants says that it ran to its end, and not all mutants were caught.
const MISSED: i32 = 2;
const TIMED_OUT: i32 = 3;

fn is_installed() -> bool {
    let mut command = Command::new("cargo-mutants");
    let asked = command.args(["mutants", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// What the tests made of the mutants.
#[derive(Debug, Default, PartialEq, Eq)]
struct Score {
    caught: u32,
    timed_out: u32,
    unviable: u32,
    missed: Vec<String>,
}

impl Score {
    fn read() -> Result<Self, Error> {
        let path = outcomes();
        let what = path.display().to_string();
        let outcomes: Value =
            serde_json::from_str(&read(path)?).map_err(|source| Error::Json { what, source })?;
        Ok(Self::of(&outcomes))
    }

    fn of(outcomes: &Value) -> Self {
        let mut score = Self::default();
        for outcome in outcomes.get("outcomes").and_then(Value::as_array).into_iter().flatten() {
            match outcome.get("summary").and_then(Value::as_str) {
                Some("CaughtMutant") => score.caught += 1,
                Some("Timeout") => score.timed_out += 1,
                Some("Unviable") => score.unviable += 1,
                Some("MissedMutant") => {
                    let name = outcome.pointer("/scenario/Mutant/name").and_then(Value::as_str);
                    score.missed.push(name.unwrap_or("one without a name").to_owned());
                }
                _ => {}
            }
        }
        score
    }

    fn noticed(&self) -> u32 {
        self.caught + self.timed_out
    }

    /// The share of those that compile, in percent; nothing can be missed where there are none.
    fn percent(&self) -> f64 {
        let missed = u32::try_from(self.missed.len()).unwrap_or(u32::MAX);
        match self.noticed().saturating_add(missed) {
            0 => 100.0,
            all => f64::from(self.noticed()) * 100.0 / f64::from(all),
        }
    }
}

impl std::fmt::Display for Score {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { caught, timed_out, unviable, missed } = self;
        write!(
            f,
            "{:.1} % caught: {caught} by a test, {timed_out} by the timeout; {} missed, {unviable} did not compile",
            self.percent(),
            missed.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn outcome(summary: &str, name: &str) -> Value {
        json!({ "scenario": { "Mutant": { "name": name } }, "summary": summary })
    }

    #[test]
    fn the_score_is_the_share_of_the_caught_among_those_that_compile() {
        let outcomes = json!({ "outcomes": [
            { "scenario": "Baseline", "summary": "Success" },
            outcome("CaughtMutant", "a"),
            outcome("CaughtMutant", "b"),
            outcome("Timeout", "c"),
            outcome("Unviable", "d"),
            outcome("MissedMutant", "replace e with false"),
        ]});
        let score = Score::of(&outcomes);
        assert_eq!(score.missed, ["replace e with false"]);
        assert_eq!(
            score.to_string(),
            "75.0 % caught: 2 by a test, 1 by the timeout; 1 missed, 1 did not compile"
        );
    }

    #[test]
    fn where_there_is_no_mutant_none_is_missed() {
        assert!((Score::of(&json!({})).percent() - 100.0).abs() < f64::EPSILON);
    }
}
