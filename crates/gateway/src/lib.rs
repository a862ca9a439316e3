//! The HTTP front end of Backstop: an LLM proxy that any program can be pointed at.
//!
//! A client sets its base URL; the gateway knows who it is, finds the provider, and passes the request on.
//! Whoever wants to look at traffic (the hooks) does so through the [`exchange`] seam; where nobody looks,
//! bytes pass undecoded.

mod compression;
mod door;
mod endpoint;
mod error;
pub mod exchange;
mod head;
pub mod hooked;
mod route;
mod server;
mod settings;
mod shape;
mod upstream;

pub use endpoint::{AmbiguousPath, Endpoint, Family, Operation};
pub use error::StartError;
pub use exchange::{Exchange, Interceptor, Plan, Transparent};
pub use server::Gateway;
pub use settings::{Credential, Limits, ModelRoute, Provider, Proxies, Settings, Timeouts};
