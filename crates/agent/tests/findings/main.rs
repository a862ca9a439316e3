//! What reviews of such a system have found, each as a test by its name: turns of a real agent with real
//! tools, a real store, and a model that plays a script.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail loudly")]

mod calls;
mod context;
mod egress;
mod emit;
mod http;
mod lifecycle;
mod order;
mod processes;
mod runs;
mod support;
