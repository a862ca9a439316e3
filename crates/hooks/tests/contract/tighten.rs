//! Law 3: merging only tightens.

use backstop_hooks::{Latch, Mode, Outcome, Point};
use serde_json::Value;

use crate::sample::{Sample, Visit, each_point, field, merged};

fn decides<P: Point>() -> bool {
    P::INFO.mode == Mode::Decide
}

/// What names an element of a list that can only shrink.
fn name(element: &Value) -> &str {
    element
        .as_str()
        .or_else(|| element.get("name").and_then(Value::as_str))
        .or_else(|| element.get("id").and_then(Value::as_str))
        .unwrap()
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(name).collect()
}

fn shrank(from: &Value, to: &Value) -> bool {
    let from = names(from);
    from.contains(&"*") || names(to).iter().all(|name| from.contains(name))
}

fn strength(action: &Value) -> usize {
    ["continue", "revise", "finalize"].iter().position(|known| action == known).unwrap()
}

/// `after` is `before` with one more answer merged in.
fn assert_tighter<O: Outcome>(before: &O, after: &O) {
    if before.blocks() {
        assert!(after.blocks(), "a block was lifted");
        assert_eq!(before.block_reason(), after.block_reason(), "the first reason stays");
    }
    assert!(after.approvals().starts_with(before.approvals()), "an approval was taken back");
    let stronger = O::FIELDS
        .iter()
        .any(|of| of.latch == Latch::Strongest && field(before, of.name) != field(after, of.name));
    for of in O::FIELDS {
        let (old, new) = (field(before, of.name), field(after, of.name));
        let Some(old) = old else { continue };
        if stronger && of.latch != Latch::Strongest {
            // What belonged to the weaker action goes with it.
            continue;
        }
        let new = new.unwrap_or_else(|| panic!("`{}` vanished", of.name));
        match of.latch {
            Latch::First | Latch::AnyOf => assert_eq!(old, new, "`{}`: the first answer wins", of.name),
            Latch::Narrow => assert!(shrank(&old, &new), "`{}` grew", of.name),
            Latch::Strongest => assert!(strength(&new) >= strength(&old), "`{}` got weaker", of.name),
            Latch::Append => {
                assert!(new.as_str().unwrap().starts_with(old.as_str().unwrap()), "`{}` lost text", of.name);
            }
            Latch::Collect if old.is_array() => {
                assert!(
                    new.as_array().unwrap().starts_with(old.as_array().unwrap()),
                    "`{}` lost some",
                    of.name
                );
            }
            _ => {}
        }
    }
}

struct OneMore;

impl Visit for OneMore {
    fn visit<P: Point>(&mut self, sample: &Sample) {
        if !decides::<P>() {
            return;
        }
        sample.for_all_answers::<P>(|answers| {
            let mut all = P::Outcome::default();
            for answer in answers {
                let before = all.clone();
                all.merge(answer);
                assert_tighter(&before, &all);
            }
        });
    }
}

#[test]
fn law_3_tighten_only_with_each_further_answer() {
    each_point(&mut OneMore);
}

struct Anywhere;

impl Visit for Anywhere {
    fn visit<P: Point>(&mut self, sample: &Sample) {
        if !decides::<P>() {
            return;
        }
        sample.for_all_answers::<P>(|answers| {
            let with = merged(&answers);
            for left_out in 0..answers.len() {
                let mut fewer = answers.clone();
                fewer.remove(left_out);
                let without = merged(&fewer);
                assert!(with.blocks() || !without.blocks(), "a hook lifted a block");
                assert!(
                    !with.approvals().is_empty() || without.approvals().is_empty(),
                    "a hook kept a human from being asked"
                );
                for of in P::Outcome::FIELDS {
                    match (of.latch, field(&without, of.name), field(&with, of.name)) {
                        (Latch::Narrow, Some(few), Some(many)) => assert!(shrank(&few, &many)),
                        (Latch::Strongest, Some(weak), Some(strong)) => {
                            assert!(strength(&strong) >= strength(&weak));
                        }
                        (Latch::Narrow | Latch::Strongest, Some(_), None) => panic!("`{}` vanished", of.name),
                        _ => {}
                    }
                }
            }
        });
    }
}

#[test]
fn law_3_tighten_only_wherever_a_hook_is_added() {
    each_point(&mut Anywhere);
}

struct Reported;

impl Visit for Reported {
    fn visit<P: Point>(&mut self, sample: &Sample) {
        if !decides::<P>() {
            return;
        }
        sample.for_all_answers::<P>(|answers| {
            let mut all = P::Outcome::default();
            for answer in answers {
                let before = all.clone();
                for refused in all.merge(answer) {
                    assert!(P::INFO.fields.iter().any(|of| of.name == refused), "`{refused}` is no field");
                    assert_eq!(
                        field(&before, refused),
                        field(&all, refused),
                        "`{refused}` was taken after all"
                    );
                }
            }
        });
    }
}

#[test]
fn law_3_what_a_latch_refused_is_reported_and_has_no_effect() {
    each_point(&mut Reported);
}

struct Preferences;

impl Visit for Preferences {
    fn visit<P: Point>(&mut self, _: &Sample) {
        /// What somebody prefers, and nobody reads or runs: which model answers, where a child's answer goes.
        const PREFERENCES: &[&str] = &["providerOverride", "modelOverride", "threadId", "origin"];
        if !decides::<P>() {
            return;
        }
        for of in P::Outcome::FIELDS {
            if matches!(of.latch, Latch::First | Latch::AnyOf) {
                assert!(PREFERENCES.contains(&of.name), "`{}` at {} drops wishes", of.name, P::INFO.name);
            }
        }
    }
}

#[test]
fn law_03_only_preferences_go_to_the_first_answer() {
    each_point(&mut Preferences);
}

struct Withdraws;

impl Visit for Withdraws {
    fn visit<P: Point>(&mut self, sample: &Sample) {
        if !decides::<P>() {
            return;
        }
        sample.for_all_answers::<P>(|answers| {
            let all = merged(&answers);
            let mut rest = all.clone();
            let withdrawn = rest.withdraw();
            let gates = all.clone().gates_only();
            for of in P::Outcome::FIELDS {
                let proposed = of.latch == Latch::Propose && field(&all, of.name).is_some();
                assert_eq!(withdrawn.contains(&of.name), proposed, "`{}`", of.name);
                let stays = field(&rest, of.name) == field(&all, of.name);
                assert_eq!(stays, !proposed, "`{}`: only proposals are taken back", of.name);
                assert!(!proposed || field(&gates, of.name).is_none(), "`{}` is no gate", of.name);
            }
            assert_eq!((rest.blocks(), gates.blocks()), (all.blocks(), all.blocks()));
            assert_eq!(rest.approvals(), all.approvals());
            assert_eq!(gates.approvals(), all.approvals(), "what is asked for is never optional");
        });
    }
}

#[test]
fn law_03_taking_a_rewrite_back_leaves_every_gate() {
    each_point(&mut Withdraws);
}

struct Settles;

impl Visit for Settles {
    fn visit<P: Point>(&mut self, sample: &Sample) {
        use backstop_hooks::Event as _;
        sample.for_all_answers::<P>(|answers| {
            let all = merged(&answers);
            let before = sample.event::<P>();
            let mut event = before.clone();
            assert_eq!(event.absorb(&all), event != before, "absorb says whether the event changed");
            let settled = event.clone();
            assert!(!event.absorb(&all), "the same outcome changes the event twice");
            assert_eq!(event, settled);
        });
    }
}

#[test]
fn law_4_absorbing_an_outcome_settles() {
    each_point(&mut Settles);
}
