//! Laws of verdicts: what stands around a command never makes its verdict milder, names that mean nothing never change
//! it, and it does not depend on what else is judged, when, or how often.
//!
//! Each law holds for every command of the case files, and for programs put together at random from dangerous and
//! harmless commands, which are judged and never run. Where a command is not the same command any more, the exception
//! is written down beside the law, with its reason.

#![expect(clippy::panic, reason = "helpers of tests may fail loudly")]

#[path = "../corpus/mod.rs"]
mod corpus;
mod frames;
mod generated;
mod joining;
mod once;
mod renaming;
mod wrapping;

use std::time::Duration;

use backstop_guards::{CommandGuard, GuardSettings, Place, Profile, ShellKind, Verdict};

/// Unoptimised builds are slow; work is bounded by steps.
const PATIENCE: Duration = Duration::from_secs(60);

fn guard_of(profile: Profile) -> CommandGuard {
    CommandGuard::new(GuardSettings { profile, budget: PATIENCE, ..GuardSettings::default() })
}

fn guard() -> CommandGuard {
    guard_of(Profile::Standard)
}

fn verdict(guard: &CommandGuard, command: &str) -> Verdict {
    let place = Place::new("/work/project").with_home("/home/me");
    guard.judge(command, ShellKind::Posix, &place, 0).verdict
}

/// Commands that stand on lines of their own as they are: no document or quote is left open in them.
fn whole() -> Vec<String> {
    let mut commands: Vec<String> =
        corpus::commands().into_iter().filter(|command| backstop_shell::is_whole(command)).collect();
    commands.sort();
    commands.dedup();
    commands
}

/// Those that are stopped, so that there is something to become milder.
fn stopped(guard: &CommandGuard) -> Vec<(String, Verdict)> {
    let judged = whole().into_iter().map(|command| (verdict(guard, &command), command));
    judged
        .filter(|(verdict, _)| *verdict > Verdict::Pass)
        .map(|(verdict, command)| (command, verdict))
        .collect()
}

/// A word as a shell reads it back.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A change of commands by its name; `None` where it makes another command of one.
type Change<'c> = (&'c str, Box<dyn Fn(&str) -> Option<String> + 'c>);

/// Every command that is judged milder changed than as it was. Each change meets another part of the commands, one of
/// `every`.
fn milder<'c>(
    commands: &[(String, Verdict)],
    every: usize,
    changes: impl IntoIterator<Item = Change<'c>>,
) -> Vec<String> {
    let guard = guard();
    let mut wrong = Vec::new();
    for (at, (name, change)) in changes.into_iter().enumerate() {
        for (command, before) in commands.iter().skip(at % every).step_by(every) {
            let Some(changed) = change(command) else { continue };
            let after = verdict(&guard, &changed);
            if after < *before {
                wrong.push(format!("{name}: {before:?}, now {after:?}: {changed}"));
            }
        }
    }
    wrong
}

fn assert_none(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n---\n"));
}
