//! Our decisions in Droid's words: an exit code with the reason on stderr, which its documents promise at every event that can
//! be stopped.

pub(super) use crate::adapters::exit_code::GATES;
