//! Backstop: one pipeline of hooks around the whole life of an AI agent.
//!
//! Whatever an agent reads, asks a model, calls or says passes hooks, which may change it, stop it, ask a
//! human, or only watch. This crate is the one that programs embed, and the only one they need. Its modules
//! name what of each part is theirs; with the feature `config` it puts the parts together: configuration,
//! hooks, store, audit trail, [`Engine`].
//!
//! ```
//! use backstop::engine::HookOptions;
//! use backstop::hooks::points::{BeforeToolCall, ToolCallEvent, ToolCallOutcome};
//! use backstop::hooks::{CallContext, OwnerId, Params, ToolName, hook_fn};
//! use backstop::Backstop;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let backstop = Backstop::builder()
//!     .hooks(|snapshot| {
//!         let no_deploy = hook_fn::<BeforeToolCall, _>(|event, _cx| {
//!             let deploys = event.params.get("command").is_some_and(|c| c == "deploy");
//!             Ok(deploys.then(|| ToolCallOutcome::block("deployments need a human")))
//!         });
//!         snapshot.on(no_deploy, HookOptions::new(OwnerId::new("my-program")))?;
//!         Ok(())
//!     })
//!     .build()
//!     .await?;
//!
//! let params = Params::from_value(serde_json::json!({ "command": "deploy" })).unwrap_or_default();
//! let event = ToolCallEvent::new(ToolName::new("exec"), params);
//! let reviewed = backstop.engine().review_tool_call(event, &CallContext::default(), false).await;
//! assert!(reviewed.blocked.is_some());
//! backstop.shut_down().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! Without features this is the contract ([`hooks`]), the [`engine`] and its state, in memory or in a file ([`store`]); such
//! a program compiles no HTTP and no TLS. `guards` are the built-in guards, `config` is `backstop.yaml` and [`Backstop::builder`], `llm` the wires of providers; `agent`,
//! `gateway` and `clients` are the hosts; `plugins` are hooks that others bring; `confine` starts programs behind walls, and `process` ends them whole. All are on by default.
//!
//! # What holds
//!
//! - A [`Backstop`] is built whole or not at all: an unknown hook type, a bad option, a matcher that matches
//!   nothing, an id that nothing answers to is a [`BuildError`] that names file, line and column.
//! - The configuration is lowered into engine settings once, in [`Builder::build`]; nothing reads it later.
//! - What was stopped or asked is in the audit trail before its answer leaves; no other decision waits for it, and it
//!   never loses an entry silently ([`AuditSink`]).

#[cfg(feature = "agent")]
pub mod agent;
#[cfg(feature = "clients")]
pub mod clients;
#[cfg(feature = "config")]
pub mod config;
#[cfg(feature = "confine")]
pub mod confine;
pub mod engine;
#[cfg(feature = "gateway")]
pub mod gateway;
#[cfg(feature = "guards")]
pub mod guards;
pub mod hooks;
#[cfg(feature = "llm")]
pub mod llm;
#[cfg(feature = "plugins")]
pub mod plugins;
#[cfg(feature = "process")]
pub mod process;
pub mod store;
#[cfg(feature = "gateway")]
pub mod surfaces;
#[cfg(feature = "config")]
pub mod yaml;

mod audit;
#[cfg(feature = "gateway")]
mod backlog;
#[cfg(feature = "plugins")]
mod brought;
#[cfg(feature = "config")]
mod builder;
#[cfg(all(feature = "agent", feature = "gateway"))]
mod chat;
#[cfg(feature = "config")]
mod configured;
#[cfg(feature = "config")]
mod error;
#[cfg(feature = "config")]
mod hook_types;
#[cfg(feature = "config")]
mod hosts;
#[cfg(feature = "config")]
mod locations;
#[cfg(feature = "config")]
mod lower;
#[cfg(feature = "config")]
mod not_asked;
#[cfg(feature = "config")]
mod pin;
#[cfg(feature = "config")]
mod policy;
#[cfg(feature = "config")]
mod proposed;
#[cfg(feature = "agent")]
mod providers;
#[cfg(feature = "config")]
mod retention;
#[cfg(feature = "config")]
mod state;
#[cfg(feature = "config")]
pub mod tape;
#[cfg(feature = "config")]
mod traces;
#[cfg(feature = "witness")]
mod witness;

#[cfg(feature = "signed-heads")]
pub use audit::head::{HeadError, HeadKey, SignedHead};
pub use audit::hook_sets::{AskedHook, HookLists, WhoWasAsked, asked_in};
#[cfg(feature = "signed-heads")]
pub use audit::proof::{ProofError, ProvedEntry, check_audit_proof};
pub use audit::{AuditBacklog, AuditSink};
pub use backstop_engine::Engine;
#[cfg(feature = "config")]
pub use configured::{CONFIGURATION_READ, Cause, policy_of};

// From a configuration to what runs.
#[cfg(feature = "config")]
pub use builder::{Backstop, Builder};
#[cfg(all(feature = "agent", feature = "gateway"))]
pub use chat::{ChatBase, ChatSeat, ChatSeats, Chats, MakingSeat};
#[cfg(feature = "config")]
pub use error::{BuildError, NoDataFolder};
#[cfg(feature = "config")]
pub use hook_types::HookTypes;
#[cfg(feature = "config")]
pub use hosts::all_hosts;
#[cfg(feature = "gateway")]
pub use hosts::server_hosts;
#[cfg(feature = "config")]
pub use locations::{
    audit_key, daemon_socket, data_folder, digest_key, digest_key_file, from_operator, kept_key_file, load,
    load_sources, policy_files, store_in_file, store_path, tape_folder,
};
#[cfg(feature = "agent")]
pub use lower::agent::agent_settings;
#[cfg(feature = "plugins")]
pub use lower::at::hook_places;
#[cfg(feature = "gateway")]
pub use lower::credentials::{CredentialPlaces, CredentialProblem, credential_places, credential_problems};
#[cfg(feature = "gateway")]
pub use lower::gateway::{GatewayConfigError, gateway_hooks, gateway_settings, new_token};
#[cfg(feature = "plugins")]
pub use lower::machine::program_places;
#[cfg(feature = "config")]
pub use lower::people;
#[cfg(any(feature = "agent", feature = "gateway"))]
pub use lower::provider::ProviderError;
#[cfg(feature = "config")]
pub use lower::secrets::{
    secret_files, secret_variables, server_secrets, withheld_variables, written_secrets,
};
#[cfg(feature = "config")]
pub use not_asked::NotAsked;
#[cfg(feature = "config")]
pub use pin::{Pin, PinChange, PinDifference, PinError};
#[cfg(feature = "config")]
pub use proposed::{Proposed, ProposedError, Unasked};
#[cfg(feature = "agent")]
pub use providers::Providers;
#[cfg(feature = "config")]
pub use retention::{Bounds, ClockJump, Retention, RetentionError, Swept, delete_session, retention};
#[cfg(feature = "config")]
pub use state::{
    FoundStore, OpenStoreError, OpenedStore, StoreFiles, StorePlace, check_store_authorities, open_store,
    store_files,
};
#[cfg(feature = "config")]
pub use traces::Traces;
#[cfg(feature = "witness")]
pub use witness::{Reached, Stamps, WitnessError, Witnessed, Witnesses};
