//! The binary as its users meet it: real processes, real files, a real database, loopback sockets only.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail loudly, helpers of tests too"
)]

mod agent;
mod api;
mod approvals;
mod author_types;
mod authors;
mod cases;
mod certificates;
mod chat;
mod check;
mod config;
mod confine;
mod daemon;
mod demo;
mod dialects;
mod editing;
mod explain;
mod files_behind;
mod flood;
mod footing;
mod gateway;
mod help;
mod hook;
mod hooks;
mod hooks_at;
mod hosts;
mod install;
mod keyed;
mod log;
mod model;
mod plugin_sessions;
mod plugin_tools;
mod plugin_uses;
mod plugins;
mod policy;
mod postgres;
#[path = "../../../store/tests/store/server.rs"]
#[expect(dead_code, reason = "the tests of the store use more of it")]
mod postgres_server;
mod records;
mod reload;
mod retention;
mod run_client;
mod scan;
mod service;
mod sources;
mod strict;
mod support;
mod surfaces;
mod system;
mod tape;
mod terminal;
mod token;
mod tour;
mod traces;
mod trying;
mod walls;
