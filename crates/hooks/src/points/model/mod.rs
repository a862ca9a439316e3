//! A: around model calls, from the message that starts a turn to the answer that leaves it.

mod answer;
mod call;
mod prompt;
mod run;
mod turn;

pub use answer::*;
pub use call::*;
pub use prompt::*;
pub use run::*;
pub use turn::*;
