//! Once: a verdict is a function of the command, the place and the rules.

use backstop_guards::Verdict;

use super::{guard, verdict, whole};

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
