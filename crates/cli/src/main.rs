//! The binary `backstop`. Everything is in the library, so that the generated reference and the tests see
//! the same definitions.

use std::process::ExitCode;

fn main() -> ExitCode {
    backstop_cli::main()
}
