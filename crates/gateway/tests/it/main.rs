//! The gateway on real sockets, between a provider and clients that speak in raw bytes.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests may fail loudly"
)]

mod access;
mod api;
mod clouds;
mod console;
mod credentials;
mod exchange;
mod failures;
mod fairness;
mod headers;
mod http2;
mod identity;
mod inspect;
mod judging;
mod listener;
mod matrix;
mod metrics;
#[cfg(target_os = "linux")]
mod nodelay;
mod operators;
mod proxies;
mod quotas;
mod routing;
mod sockets;
mod support;
mod surfaces;
mod tls;
mod transparency;
mod websockets;
mod witness;
