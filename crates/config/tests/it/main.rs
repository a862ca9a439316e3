//! The configuration as its users meet it: files in, effective configuration or errors out.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "helpers of tests may fail as loudly as tests"
)]

mod arbitrary;
mod digest;
mod discovery;
mod errors;
mod layers;
mod schema;
mod support;
