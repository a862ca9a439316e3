//! Our decisions in Windsurf's words: an exit code.

pub(super) use crate::adapters::exit_code::GATES;
