//! What plugins bring besides hooks, as whoever has a place for it takes it from a [`PluginSet`](crate::set::PluginSet).
//!
//! The laws: what a plugin brings has a name that nobody else's has, or the set does not load; what its code answers is data that
//! is read strictly, and whatever else it does (it throws, hangs, or is gone) is an answer that says so. What is taken from a set
//! keeps the code of that set: a call that is under way ends on the code that it began with.

pub mod cli;
pub mod commands;
pub mod lifecycle;
pub mod projections;
pub mod services;
pub mod tools;
