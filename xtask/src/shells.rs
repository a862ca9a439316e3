//! `cargo xtask shells`: what real shells start, held against what the analysis of commands says they would.
//!
//! The harness is a test of the shell crate that can also be told how many programs to run; here it runs optimised,
//! with as many as asked for. See `crates/shell/tests/shells`.

use crate::error::Error;
use crate::step::execute;
use crate::workspace::cargo;

/// Runs so many programs in each shell, from this seed on.
pub(crate) fn run(args: &[&str]) -> Result<(), Error> {
    let mut command = cargo(["test", "--release", "--package", "backstop-shell", "--test", "shells", "--"]);
    if !matches!(args, ["show" | "print" | "case", ..]) {
        command.arg("run");
    }
    command.args(args);
    execute(command)
}
