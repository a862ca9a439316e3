//! The binary `backstop`. Everything is in the library, so that the generated reference and the tests see
//! the same definitions.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// Gives memory back to the system when load is over; the allocator of glibc keeps what its threads once needed.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    backstop_cli::main()
}
