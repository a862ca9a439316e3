//! Scripts as a host sees them.

#![expect(clippy::unwrap_used, reason = "tests may fail loudly")]

#[path = "../common/mod.rs"]
mod common;

#[path = "../escapes/mod.rs"]
mod escapes;

mod agree;
mod bounds;
mod calls;
mod events;
mod fair;
mod modules;
mod node;
mod outside;
mod runs;
