//! Exit codes: all of them, in one place. `docs/cli.md` says the same for people.
//!
//! The law: *a program that reads nothing but the exit code never takes a failure for an approval.* Zero
//! means that the command did what it was asked to do. Whatever could not be judged ends with 2, which the
//! hook protocols of coding agents read as "deny".

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It did what it was asked to do.
    Success,
    /// It failed: a file, the store, a provider.
    Failed,
    /// It was not understood, the configuration is wrong, or there is a bug: nothing was judged or done. For
    /// `hook`: the event is refused, for these reasons or by policy.
    Refused,
    /// `check --jsonl`, `scan --jsonl`, `test`, `replay`: some lines, cases or calls could not be judged; the others were. `tape show`,
    /// `replay`, `suggest`: some of the tape is missing or could not be read. `audit verify`: nothing is wrong, and something can't be proved: entries
    /// older than a minute are covered by no checkpoint, copies are not by the trail's key, a witness is silent, or, by `--strict`, entries were
    /// signed late.
    Incomplete,
    /// The agent's turn was stopped by a hook.
    Blocked,
    /// `run`: the program ended well, and not one request of it that asks a model came to the proxy.
    Unasked,
    /// `test`: what came of a case is not what was expected. `replay --fail-on`: calls would be judged otherwise.
    Unexpected,
    /// Ended by Ctrl-C.
    Interrupted,
    /// `run`: the program ended, with this code.
    Program(u8),
}

impl Exit {
    /// Every way in which Backstop itself ends.
    pub const ALL: [Self; 8] = [
        Self::Success,
        Self::Failed,
        Self::Refused,
        Self::Incomplete,
        Self::Blocked,
        Self::Unasked,
        Self::Unexpected,
        Self::Interrupted,
    ];

    /// The code that the shell sees.
    pub const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed => 1,
            Self::Refused => 2,
            Self::Incomplete => 3,
            Self::Blocked => 4,
            Self::Unasked => 5,
            Self::Unexpected => 6,
            // What shells report for a process that SIGINT ended.
            Self::Interrupted => 130,
            Self::Program(code) => code,
        }
    }

    /// What the code means, for the reference.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Success => "the command did what it was asked to do",
            Self::Failed => "the command failed: a file, the database, a model provider",
            Self::Refused => {
                "the command line or the configuration is wrong, or there is a bug: nothing was judged or done; `hook`: the event is refused"
            }
            Self::Incomplete => {
                "`check --jsonl`, `scan --jsonl`, `test`, `replay`: some lines, cases or calls could not be judged, the others were; `tape show`, `replay`, `suggest`: some of the tape is missing or could not be read; `audit verify`: nothing is wrong, and not all can be proved"
            }
            Self::Blocked => "`agent -m`: a hook stopped the turn or its answer",
            Self::Unasked => {
                "`run`: the program ended well, and not one request of it that asks a model came to the proxy"
            }
            Self::Unexpected => {
                "`test`: what came of a case is not what was expected; `replay --fail-on`: calls would be judged otherwise"
            }
            Self::Interrupted => "ended by Ctrl-C",
            Self::Program(_) => "`run`: the exit code of the program",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
