//! What a shell command would start, read, write and send, worked out without running it.
//!
//! Looking at the text of a command judges its spelling; this crate computes its meaning. It is a small abstract
//! interpreter of the shell language. It walks the syntax tree, tracks the variables, functions, working directory,
//! files and data streams that the text itself determines, and follows wrappers and inline code. It reports every
//! process that could start as an argument vector, every file that is touched, and the origin of data that is
//! run as code or leaves the machine.
//!
//! ```
//! use backstop_shell::{Action, Analyzer, Fact, Place, ShellKind};
//!
//! let place = Place::new("/work/project").with_home("/home/me");
//! let command = "cd build; X=out; sudo env A=b sh -c \"cat notes.txt > ../$X.txt\"";
//! let trace = Analyzer::new().trace(command, ShellKind::Posix, &place);
//!
//! let programs: Vec<_> = trace.processes.iter().map(|process| process.program()).collect();
//! assert_eq!(programs, ["sudo", "env", "sh", "cat"]);
//! let cat = trace.processes.last().expect("four processes");
//! assert_eq!(cat.via(), ["sudo", "env", "sh"]);
//! let written = trace.facts.iter().find_map(|fact| match fact {
//!     Fact::Touches { touch, .. } if touch.action == Action::Write => Some(touch.resolved.as_str()),
//!     _ => None,
//! });
//! assert_eq!(written, Some("/work/project/out.txt"));
//! assert!(trace.unknowns.is_empty());
//! ```
//!
//! # Concepts
//!
//! - A [`Trace`] is the result: [`Process`]es, [`Fact`]s and [`Unknown`]s. It says what a command would do and not
//!   whether it should: there is no policy here, no rule and no list of dangerous files.
//! - A [`Place`] is where the command would run: working directory, home, workspace, and a reader for files of the
//!   workspace if they may be read.
//! - [`programs`] are known as data: one entry each. Callers can add entries.
//! - [`Labels`] are how the caller says which files hold secrets. The analysis propagates that, as [`Taint`],
//!   through pipes, variables, copies and archives.
//! - An [`Argument`] is text, parts of which may be unknown before the command runs. Such parts, and unquoted
//!   pattern operators, are [marks] in the text.
//!
//! # Laws
//!
//! - **Nothing runs.** No process is started and no file is opened. Only the reader of a [`Place`] does I/O, and only
//!   for files of the workspace that the command would run.
//! - **The unknown is reported.** An argument is known, partly known or unknown; a piece of code that could not be
//!   read is an [`Unknown`], never silence.
//! - **Both branches run.** Conditions that can't be decided take every branch.
//! - **Bounded, out loud.** Length, nesting, steps, produced words and bytes have limits; whatever exceeds them is an
//!   [`Unknown`] that may carry code.
//!
//! # Limits
//!
//! It is neither a sandbox nor a shell: a program that is not modelled is reported with its arguments and assumed to read
//! the files it is given; anything else it does is not seen. PowerShell and the Windows command prompt are read as
//! far as a single line goes. A command with more than a little nesting is analysed on a separate thread.

mod analyzer;
mod arith;
mod builtin;
mod carrier;
mod code;
mod container;
mod cover;
mod credentials;
mod data;
mod decode;
mod dialect;
mod each;
mod effects;
mod expand;
mod fair;
mod flow;
mod forever;
mod git;
pub mod git_settings;
mod kept;
mod launch;
mod limits;
mod listen;
mod long;
mod obscure;
pub mod options;
mod param;
mod parse;
pub mod paths;
mod pattern;
mod place;
mod prescan;
pub mod programs;
mod project;
mod pure;
mod read;
mod readers;
mod redirect;
mod report;
mod respell;
mod shifted;
mod simple;
mod startup;
mod state;
mod statements;
mod stored;
mod subscript;
mod texts;
mod tilde;
mod trace;
mod transfer;
pub mod variables;
mod waits;
mod walk;
mod ways;
mod windows;
mod word;
mod worker;
mod wrap;

pub use analyzer::{Analyzer, Labels, ShellKind};
pub use container::containers_made;
pub use data::Taint;
pub use effects::{Action, Holder, Touch, patched};
pub use parse::is_whole;
pub use pattern::matches as pattern_matches;
pub use place::{Looked, Place};
pub use prescan::MAX_BYTES;
pub use readers::leaves_input_alone;
pub use trace::{Fact, Input, Process, Reader, Trace, Unknown, UnknownKind};
pub use word::{Argument, Certainty};

/// The characters that represent, in paths and arguments, what only the running shell knows.
///
/// They are in a private use area of Unicode. The same characters in a command are replaced before anything looks at it,
/// so that it can't forge them.
pub mod marks {
    pub use crate::word::{ANY, HOLE, MADE, NOT_EMPTY, SET, STAR, has_hole};
}
