//! Backstop: one pipeline of hooks around the whole life of an AI agent.
//!
//! Whatever an agent reads, asks a model, calls or says passes hooks, which may change it, stop it, ask a
//! human, or only watch. This crate is the one that programs embed. It puts the parts together:
//! configuration, hooks, store, audit trail, [`Engine`]; the parts themselves are re-exported as modules
//! under their own names.
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
//! # What holds
//!
//! - A [`Backstop`] is built whole or not at all: an unknown hook type, a bad option, a matcher that matches
//!   nothing, an id that nothing answers to is a [`BuildError`] that names file, line and column.
//! - The configuration is lowered into engine settings once, in [`Builder::build`]; nothing reads it later.
//! - The audit trail never makes a decision wait, and never loses an entry silently ([`AuditSink`]).

mod audit;
mod builder;
mod error;
mod hook_types;
mod locations;
mod providers;
mod wire;

pub use backstop_agent as agent;
pub use backstop_clients as clients;
pub use backstop_config as config;
pub use backstop_engine as engine;
pub use backstop_gateway as gateway;
pub use backstop_guards as guards;
pub use backstop_hooks as hooks;
pub use backstop_llm as llm;
pub use backstop_store as store;

pub use audit::AuditSink;
pub use backstop_engine::Engine;
pub use builder::{Backstop, Builder};
pub use error::{BuildError, NoDataFolder};
pub use hook_types::HookTypes;
pub use locations::{daemon_socket, from_operator, load, load_sources, policy_files, store_path};
pub use providers::Providers;
pub use wire::agent::agent_settings;
pub use wire::gateway::{GatewayConfigError, gateway_settings, new_token};
pub use wire::limits::gateway_hooks;
pub use wire::provider::ProviderError;
