//! The contract, pinned: the laws of merging, the strictness of the wire form, the catalogue, the schemas.
//!
//! Every hook point has a file in `samples` with one event and several outcomes in their JSON form.
//! They are golden fixtures (what is read is what is written), and the laws below are tried on mixtures
//! of them, so that a point which is added to the catalogue is under every law at once.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests may fail loudly"
)]

mod absent;
mod authoring;
mod catalogue;
mod digests;
mod merging;
mod sample;
mod schema;
mod strict;
mod tighten;
mod wire;
