//! The HTTP front end of Backstop: an LLM proxy that any program can be pointed at.
//!
//! A client sets its base URL; the gateway knows who it is, finds the provider, and passes the request on.
//! Whoever wants to look at traffic (the hooks) does so through the [`exchange`] seam; where nobody looks,
//! bytes pass undecoded.

mod endpoint;
pub mod exchange;

pub use endpoint::{AmbiguousPath, Endpoint, Family, Operation};
pub use exchange::{Exchange, Interceptor, Plan, Transparent};
