//! Joining, wrapping and once: what stands beside a command or around it never makes its verdict milder, and a verdict
//! does not depend on what else is judged, when, or how often.

#![expect(clippy::panic, reason = "helpers of tests may fail loudly")]

mod corpus;

use std::time::Duration;

use backstop_guards::{CommandGuard, GuardSettings, Place, ShellKind, Verdict};

fn guard() -> CommandGuard {
    CommandGuard::new(GuardSettings { budget: Duration::from_secs(60), ..GuardSettings::default() })
}

fn verdict(guard: &CommandGuard, command: &str) -> Verdict {
    let place = Place::new("/work/project").with_home("/home/me");
    guard.judge(command, ShellKind::Posix, &place, 0).verdict
}

/// Commands that stand on lines of their own as they are: no document or quote is left open in them.
fn whole() -> Vec<String> {
    corpus::commands().into_iter().filter(|command| backstop_shell::is_whole(command)).collect()
}

/// The profile by default stops these, so that there is something to become milder.
fn stopped(guard: &CommandGuard) -> Vec<(String, Verdict)> {
    whole()
        .into_iter()
        .map(|command| (verdict(guard, &command), command))
        .filter(|(verdict, _)| *verdict > Verdict::Pass)
        .map(|(verdict, command)| (command, verdict))
        .collect()
}

fn milder(change: impl Fn(&str) -> String) -> Vec<String> {
    let guard = guard();
    stopped(&guard)
        .into_iter()
        .filter(|(command, before)| verdict(&guard, &change(command)) < *before)
        .map(|(command, before)| format!("{before:?}: {}", change(&command)))
        .collect()
}

#[test]
fn joining_never_makes_a_verdict_milder() {
    let joins: [fn(&str) -> String; 6] = [
        |command| format!("ls notes\n{command}\n"),
        |command| format!("{command}\nls notes\n"),
        |command| format!("ls notes && {{\n{command}\n}}"),
        |command| format!("(\n{command}\n)"),
        |command| format!("around() {{\n{command}\n}}\naround\n"),
        |command| format!("if test -f notes; then\n{command}\nfi\n"),
    ];
    for join in joins {
        let wrong = milder(join);
        assert!(wrong.is_empty(), "{} of them, such as {:#?}", wrong.len(), wrong.first());
    }
}

#[test]
fn a_verdict_is_the_same_whoever_else_is_judged() {
    let all = whole();
    let alone: Vec<Verdict> = all.iter().map(|command| verdict(&guard(), command)).collect();
    let shared = guard();
    std::thread::scope(|scope| {
        for worker in 0..8_usize {
            let (all, alone, shared) = (&all, &alone, &shared);
            scope.spawn(move || {
                // Each worker goes through them in another order.
                for at in 0..all.len() {
                    let at = (at * 7919 + worker * 101) % all.len();
                    let (Some(command), Some(before)) = (all.get(at), alone.get(at)) else { continue };
                    assert_eq!(verdict(shared, command), *before, "{command}");
                }
            });
        }
    });
}
