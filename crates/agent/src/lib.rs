//! The agent that Backstop runs itself: turns, tools, sessions.
//!
//! So far this crate holds the built-in [`tools`]: what a model can do inside a workspace once the
//! engine has permitted the call.

pub mod tools;
