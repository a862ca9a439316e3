//! Laws of live traffic: what passes untouched is untouched, what is edited says exactly what it should.
#![expect(
    clippy::unwrap_used,
    clippy::string_slice,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests may fail loudly, their helpers too"
)]

mod adversarial;
mod answers;
mod arrays;
mod attacks;
mod candidates;
mod findings;
mod functions;
mod laws;
mod levels;
mod quiet;
mod requests;
mod responses;
mod responses_requests;
mod streams;
mod support;
mod types;
