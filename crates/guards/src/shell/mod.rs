//! From a command line to everything it could start.
//!
//! A guard that looks at the text of a command judges spelling; this module computes meaning. It is a
//! small abstract interpreter of the shell language: it walks the syntax tree, keeps the variables,
//! functions, working directory, files and data streams that the text itself determines, and reports
//! every process that could start as an argument vector, together with what is fed to it.
//!
//! Laws:
//!
//! - **Nothing runs.** The only I/O is optional symlink resolution, done elsewhere.
//! - **What is not known is said.** An argument is known, partly known or unknown; a piece of code that
//!   could not be read is an [`Unknown`], never silence.
//! - **Both branches run.** Conditions that cannot be decided take every branch.
//! - **Bounded.** Length, nesting, steps, produced words and bytes have limits; what is beyond them is an
//!   [`Unknown`] too.

mod arith;
mod builtin;
mod carrier;
mod code;
mod data;
mod decode;
mod each;
mod expand;
mod launch;
mod limits;
mod obscure;
mod param;
mod parse;
mod pattern;
mod prescan;
mod project;
mod pure;
mod readers;
mod redirect;
mod simple;
mod state;
mod trace;
mod transfer;
mod waits;
mod walk;
mod windows;
mod word;
mod worker;
mod wrap;
mod wrappers;

pub(crate) use data::Taint;
pub(crate) use limits::STEPS;
pub(crate) use parse::is_whole;
pub(crate) use prescan::{MAX_BYTES, Weight, weigh};
pub(crate) use readers::leaves_input_alone;
pub(crate) use trace::{Fact, Reader, Trace};
pub use trace::{Process, Unknown, UnknownKind};
pub(crate) use waits::waits;
pub(crate) use walk::{Limits, trace, trace_fed};
pub use word::{Argument, Certainty};
pub(crate) use worker::on_big_stack;

/// Marks and patterns, for the other modules of the crate.
pub(crate) mod marks {
    pub(crate) use super::word::{ANY, HOLE, NOT_EMPTY, SET, STAR, has_hole};
}
pub(crate) use carrier::quote as quoted;
pub(crate) use pattern::matches as glob_matches;
