//! Clouds: wires that we know, in addresses and envelopes of those who host the models of others.
//!
//! Whatever a client or a provider speaks, what is judged is the maker's wire: what an envelope says beside the body is put
//! where the maker's wire has it, judged there, and taken out again on the way to the provider.
//!
//! Laws: *what is judged is what is asked*, so a part of a request that is said in two places is taken from the one that the
//! cloud goes by, and the other one is not sent; *what an envelope can't say is refused*, never left out.

pub(crate) mod azure;
mod fields;

use thiserror::Error;

/// Why a provider can't be asked for something in its envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Unspoken {
    #[error("the path is malformed")]
    Path,
    #[error("its address has the model, and the request names none, or not in exactly one way")]
    NoModel,
    #[error("the model's name can't be a part of its address")]
    Model,
}
