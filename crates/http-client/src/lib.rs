//! The HTTP client of every crate that calls a server.
//!
//! It has two entry points. A [`Pool`] holds the connections to one origin and sends any body: the LLM proxy has one pool per
//! provider and drives each connection in the task of the client that it serves. A [`Client`] calls any address with a body
//! in memory and manages the pools itself.
//!
//! Laws:
//!
//! - *Redirects are never followed.* Following one would carry credentials and what is judged to another server.
//!   [`Response::redirect`] returns the target; a caller that follows it sends a new request, which passes all checks again.
//! - *A name is resolved once.* With [`Route::Judged`], all addresses of a host are judged after resolution, and the connection
//!   is made to these addresses only. This route uses no proxy, since a proxy would resolve the name itself. A host written as
//!   an address is judged in the same place.
//! - *`localhost` is this machine.* The name is never resolved, and no loopback address is reached through a proxy.
//! - *TLS is configured in one place* ([`tls`]), when the first encrypted connection needs it.
//! - *No error and no `Debug` output contains an address, a header or a body.*
//! - *A request is sent twice only if the first connection surely took nothing of it.*
//!
//! The server chooses HTTP/2 or HTTP/1.1 (ALPN); without TLS it is HTTP/1.1. The client requests no compression, decompresses
//! nothing, and has no cookies, no cache and no retries.
//!
//! Limits: the head of an answer has at most 32 KiB and 256 headers. The caller reads the body piece by piece, or whole up to a
//! limit ([`Response::whole`]). A pool keeps at most 256 idle connections, each for 55 s; a client keeps at most 32 pools.

mod body;
mod client;
mod coalesce;
mod connect;
mod origin;
mod pool;
mod proxies;
pub mod tls;

pub use body::ResponseBody;
pub use client::{Client, Error, Request, Response, Settings, Socket};
pub use connect::{ConnectError, Connector, Egress, Route, SetupError};
pub use origin::Origin;
pub use pool::{Pool, RequestBody, SendError};
pub use proxies::Proxies;

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Returns the first error of this type in the chain of an error and its sources.
pub fn cause<'a, E: std::error::Error + 'static>(
    error: &'a (dyn std::error::Error + 'static),
) -> Option<&'a E> {
    std::iter::successors(Some(error), |error| error.source()).find_map(<dyn std::error::Error>::downcast_ref)
}

/// Returns the message of the innermost source, which says what happened; the outer errors only repeat that something did.
pub fn root(error: &(dyn std::error::Error + 'static)) -> String {
    std::iter::successors(Some(error), |error| error.source()).last().unwrap_or(error).to_string()
}
