//! `daemon`: where `backstop serve` and `backstop run` answer the hooks of coding agents. Only the operator can set it: a
//! repository that could set it could make its own program the judge.

use crate::config_value::section;
use crate::place::{Setting, Spanned};
use crate::text::Text;
use crate::values::DaemonFailure;

section! {
    /// The daemon: `backstop serve` listens for `backstop hook`, which then need not read and build everything itself.
    pub struct Daemon {
        /// Whether `backstop serve` listens, and whether hooks look for it.
        enabled ("enabled"): Setting<bool> = true, OperatorOnly;
        /// The Unix socket. Its folder must be the user's alone. Without it, one in the user's data folder.
        socket ("socket"): Option<Spanned<Text>>, OperatorOnly;
        /// What becomes of an event when the daemon is there and gives no answer.
        on_failure ("on_failure"): Setting<DaemonFailure> = DaemonFailure::Block, OperatorOnly;
    }
}
