//! Programs that are ended with all that they start.

pub use backstop_process::{Lifeline, Target, adopt_orphans, end_descendants, reap_orphans};
