//! Hooks on live traffic, end to end: raw clients, the gateway, a scripted model.

mod answers;
mod support;
