//! What shells read differently.
//!
//! A command may be meant for any shell of the family. It is read as `bash` reads it. Where another shell would have read
//! something differently, it is read again as that shell reads it, and everything that any of them would start is reported.

use super::walk::Shell;

/// A shell of the family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Bash,
    Dash,
    Zsh,
}

impl Shell<'_> {
    /// Notes that this shell would have read something differently, and says whether it is the one that reads.
    pub(crate) fn differs(&mut self, dialect: Dialect) -> bool {
        if !self.differing.contains(&dialect) {
            self.differing.push(dialect);
        }
        self.dialect == dialect
    }

    /// Notes an expansion that `bash` alone knows (`${x^^}`): to the other shells it is an error, after which they run
    /// nothing more. A shell that a command starts by its name is taken for one that knows it.
    pub(crate) fn expands_as_bash(&mut self) {
        if self.dialect != Dialect::Bash && self.via.is_empty() && !self.state.ended {
            self.remember_start();
            self.state.ended = true;
        }
    }

    /// Takes it that the shell runs on.
    pub(crate) fn go_on(&mut self) {
        if self.state.ended {
            self.state.ended = false;
        }
    }
}
