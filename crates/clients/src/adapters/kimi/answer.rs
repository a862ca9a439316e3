//! Our decisions in Kimi Code's words: exit code 2 with the reason on stderr blocks a call, a message and the end of a turn.
//! What stands on stdout beside a message becomes text for the model, so nothing does.

use crate::adapter::Gates;
use crate::adapters::exit_code;

pub(super) const GATES: Gates = Gates { revise: exit_code::GATES.block_prompt, ..exit_code::GATES };
