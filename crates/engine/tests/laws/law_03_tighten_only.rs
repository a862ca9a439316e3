//! Adding a hook never makes the result more permissive.

use proptest::prelude::*;

use crate::model::{Spec, actual, hooks, quiet, steady};

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// For hooks whose judgement does not hang on what others rewrite.
    #[test]
    fn law_03_tighten_only_one_more_hook_never_loosens(
        mut specs in hooks(steady()),
        more in hooks(steady()),
        at in any::<prop::sample::Index>(),
    ) {
        quiet();
        let before = actual(&specs).strictness();
        if let Some(spec) = more.first() {
            specs.insert(at.index(specs.len() + 1), Spec { ..*spec });
        }
        prop_assert!(actual(&specs).strictness() >= before);
    }
}
