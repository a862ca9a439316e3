//! Our decisions in Kiro's words: an exit code.

pub(super) use crate::adapters::exit_code::GATES;
