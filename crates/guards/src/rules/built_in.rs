//! The built-in packs, compiled by the build script: rules that are parsed on first use, and tables that
//! index them.

use backstop_shell::Action;

use super::set::{Condition, RuleSet};

include!(concat!(env!("OUT_DIR"), "/packs.rs"));

/// Returns the built-in rules.
pub(super) fn rules() -> RuleSet {
    let mut set = RuleSet::written(RULES);
    for (program, conditions) in RUNS {
        conditions.iter().for_each(|condition| set.add_run((*program).into(), *condition));
    }
    for action in Action::ALL {
        let about = TOUCHES.iter().filter(|(name, _)| name.is_empty() || *name == action.name());
        let mut conditions: Vec<Condition> =
            about.flat_map(|(_, conditions)| conditions.iter().copied()).collect();
        conditions.sort_unstable();
        conditions.into_iter().for_each(|condition| set.add_touch(action, condition));
    }
    let all = |table: &[(&str, &[Condition])]| -> Vec<Condition> {
        table.iter().flat_map(|(_, conditions)| conditions.iter().copied()).collect()
    };
    set.add_others(all(CODE), all(SENDS), all(SIGNALS));
    set
}
