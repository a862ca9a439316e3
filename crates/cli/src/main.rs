//! The binary `backstop`. Everything is in the library, so that the generated reference and the tests see
//! the same definitions.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Gives memory back to the system when load is over; the allocator of glibc keeps what its threads once needed.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    backstop_cli::main()
}
