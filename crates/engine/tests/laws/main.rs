//! The twelve laws of the engine, each as tests that carry its name.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "helpers of tests may fail loudly"
)]

mod support;

mod law_01_order;
mod law_02_chain;
mod law_03_no_wish_is_dropped;
mod law_03_optional_rewrites;
mod law_03_shadows_change_nothing;
mod law_03_tighten_only;
mod law_04_hooks_that_come_later;
mod law_04_what_was_judged_is_what_runs;
mod law_05_failing_is_not_passing;
mod law_06_ask_keeps;
mod law_07_no_silent_gap;
mod law_08_on_the_way;
mod law_08_receipts;
mod law_08_what_is_kept;
mod law_09_blocked_is_gone;
mod law_10_batches;
mod law_10_depth;
mod law_10_destructors;
mod law_10_isolation;
mod law_10_threads;
mod law_11_runs_do_not_mix;
mod law_12_absent_is_not_empty;

mod attacks;
mod findings;
mod model;
mod sealed_arguments;
mod wrong_words;
mod wrong_words_of_hosts;
