//! The HTTP front end of Backstop: an LLM proxy that any program can be pointed at.
//!
//! A client sets its base URL; the gateway knows who it is, finds the provider, and passes the request on.
//! Whoever wants to look at traffic (the hooks) does so through the [`exchange`] seam; where nobody looks,
//! bytes pass undecoded. `docs/gateway.md` says how it behaves; this is how it is made:
//!
//! ```text
//! server      listener, connections, one task each
//!  ├ operators  what is asked of the gateway itself, below `/-/`
//!  ├ sockets  WebSockets: turns of OpenAI Responses and Realtime, each through an exchange of its own
//!  └ request  one request: auth ► endpoint ► Interceptor::begin ► body ► route ► Exchange::request
//!             ► provider (retries, failover) ► answer, passed or driven through the exchange
//! auth        tokens, agents, hosts, the gateway's own prefixes
//! endpoint    what a path means
//! operations  which requests may pass unread
//! readable    which are no conversation and have texts
//! multipart   bodies in parts, as they can be read in one way
//! query       what an address may hold where hooks decide or the operator pays
//! route       which provider
//! cloud       addresses and envelopes of those who host models of others
//! upstream    providers: connections, pools
//! identity    who vouches for callers by signed tokens, and their keys
//! quota       how much one caller may ask at once and in a minute
//! credentials those of the operator that are had when they are needed, and anew before they expire
//! head        headers on their way, both directions
//! headers     which of them pass, and with which values
//! compression bodies that must be read
//! record      what is left of a request, for the access log and for metrics
//! metrics     views of records and receipts, as Prometheus has them
//! error_body  failures in the error format of each wire
//! inspect     hooks on requests and answers, as an Interceptor
//! sight       what is seen of the disk for callers who may be on another machine
//! ```
//!
//! Laws: *no request is accepted without a token; Backstop's tokens never leave, providers' keys never come back; what is not
//! looked at is not changed; every size and every wait has a limit; when one side goes, the other side's
//! work ends at once.*

mod access;
mod auth;
mod brings;
pub mod chat;
mod cloud;
mod compression;
mod configuration;
mod credentials;
mod endpoint;
mod error;
mod error_body;
pub mod exchange;
mod head;
mod headers;
mod identity;
pub mod inspect;
mod metrics;
mod models;
mod multipart;
mod operations;
mod query;
mod quota;
mod readable;
mod record;
mod route;
mod server;
mod settings;
mod sight;
mod upstream;

pub use backstop_console::Exception;
pub use configuration::{
    CheckedConfiguration, Configuration, ConfigurationProblem, ReloadedConfiguration, ServedPlugin,
    ShownConfiguration, TriedCall,
};
pub use credentials::{AwsProfile, CredentialSource, OperatorFiles, Renewed, TokenCommand};
pub use endpoint::{AmbiguousPath, Endpoint, Family, Operation};
pub use error::StartError;
pub use exchange::{Exchange, Interceptor, NotReady, Plan, Readiness, Transparent};
pub use identity::{PersonClaim, PersonIssuer, TokenAlgorithm, TokenIssuer};
pub use metrics::{AuditLag, Metrics, Waiting};
pub use operations::{AllowedOperation, Permission};
pub use quota::{Quota, Quotas};
pub use record::{
    Label, Maker, Outcome, ProviderCall, Recorder, RequestPart, RequestRecord, RequestSink, Word,
};
pub use server::{Gateway, Observers, openapi};
pub use settings::{
    AwsCredentials, Cloud, Credential, Limits, ModelRoute, Pem, Pricing, Provider, Proxies, Settings,
    Timeouts, Tls, Trust, WebSockets,
};
pub use sight::SharedFolders;
