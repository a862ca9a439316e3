//! Surfaces against servers of their wires on loopback, which also answer late, twice, out of order, and not at all.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests and their helpers may fail loudly"
)]

mod browser;
mod email;
mod notices;
mod push;
mod quiet;
mod server;
mod short;
mod shown;
mod slack;
mod socket;
mod stage;
mod telegram;
mod told;
mod turns;
mod webhook;
