//! The command line of Backstop.
fn main() {}
