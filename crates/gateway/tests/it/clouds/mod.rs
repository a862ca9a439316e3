//! Providers and clients that speak the wires in the envelopes of clouds.

mod azure;
