//! The client against real sockets.
#![expect(clippy::unwrap_used, reason = "tests may fail loudly, their helpers too")]

mod encrypted;
mod plain;
mod support;
