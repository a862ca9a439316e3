//! What an adapter is: everything that Backstop knows about one client, in one record.
//!
//! What a client can honour is not a list of flags beside the code: a gate is the function that encodes the
//! answer, and a client without that function can't be given that answer. The degradation table
//! ([`Client::degradation`](crate::Client::degradation)) is read off the same record, so that what `doctor`
//! prints is what happens.

use std::time::Duration;

use backstop_hooks::Params;
use serde_json::Value;

use crate::answer::Answer;
use crate::event::{ClientEvent, Frame, MomentKind};
use crate::install::Layout;
use crate::payload::{Payload, PayloadError};
use crate::reason::Reason;
use crate::tools::ToolOutput;

/// Encodes an answer that carries a reason.
pub(crate) type Say = fn(&Frame, &Reason) -> Answer;

/// Reads a payload; the second argument is the event's name from the command line.
pub(crate) type Read = fn(&Payload, Option<&str>) -> Result<ClientEvent, PayloadError>;

/// Everything about one client.
#[derive(Debug)]
pub(crate) struct Adapter {
    /// The name on the command line and in records.
    pub(crate) name: &'static str,
    /// The product's name.
    pub(crate) title: &'static str,
    /// Other names that people use.
    pub(crate) aliases: &'static [&'static str],
    /// How it is read.
    pub(crate) read: Read,
    /// What the events that an installation listens to report.
    pub(crate) reports: &'static [MomentKind],
    /// How answers are said, in the dialect that an installation uses.
    pub(crate) gates: Gates,
    /// Another dialect that the client speaks as well.
    pub(crate) other_dialect: Option<Dialect>,
    /// What is known about the client's behaviour.
    pub(crate) facts: Facts,
    /// What an installation writes, and where.
    pub(crate) layout: Layout,
}

/// A dialect beside the one that an installation uses.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// Whether an event came in this dialect.
    pub(crate) speaks: fn(&Frame) -> bool,
    /// How answers are said in it.
    pub(crate) gates: Gates,
}

/// How a client is told things. A gate that is absent can't be used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gates {
    /// Nothing to say.
    pub(crate) pass: fn(&Frame) -> Answer,
    /// A tool must not run. Said in every way that the client honours at once.
    pub(crate) deny: Say,
    /// A human is to be asked.
    pub(crate) ask: AskGate,
    /// A tool runs with other arguments: the whole object, in the client's shape.
    pub(crate) rewrite: Option<fn(&Frame, &Params) -> Answer>,
    /// The client must not ask its user, but refuse.
    pub(crate) deny_permission: Option<Say>,
    /// What one of the client's own tools returned.
    pub(crate) result: ResultGate,
    /// What a tool of an MCP server returned.
    pub(crate) mcp_result: ResultGate,
    /// What a tool that failed said.
    pub(crate) failure: ResultGate,
    /// A message must not go to the model.
    pub(crate) block_prompt: Option<Say>,
    /// The agent goes on instead of ending its turn.
    pub(crate) revise: Option<Say>,
}

/// Whether the client's own user interface asks a human.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AskGate {
    /// It has no such answer, or one that lets the tool run.
    Never,
    /// It does.
    Native {
        /// Whether at this event, in this mode, the question really reaches a human or is refused.
        when: fn(&Frame) -> bool,
        /// The question, and the whole changed arguments.
        encode: fn(&Frame, &Reason, Option<&Params>) -> Answer,
        /// Whether a question may carry changed arguments.
        with_changes: bool,
        /// What a user should know about it.
        note: &'static str,
    },
}

/// Whether and how what a tool returned can be kept from the model.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ResultGate {
    /// The result is rewritten in the tool's own shape.
    Rewrite(fn(&Frame, &ToolOutput, Value) -> Answer),
    /// The result is replaced by a text.
    Replace(fn(&Frame, &str) -> Answer),
    /// The run can be ended before the model reads the result.
    EndRun(Say),
    /// The model has read it.
    Unreachable,
}

/// How well a fact is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Observed with the real client.
    Live,
    /// Taken from the vendor's documents or source; not run.
    Documented,
}

/// What happens to a tool call when the hook itself fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// The tool runs.
    Runs,
    /// The tool does not run.
    Denied,
    /// The client waits for ever.
    Hangs,
}

/// What happens to a tool call when the hook fails, with the entry that an installation writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureFacts {
    /// The program is missing.
    pub missing: OnFailure,
    /// The program ends by a signal or with an exit code of its own.
    pub crash: OnFailure,
    /// The program does not answer in time.
    pub timeout: OnFailure,
    /// By what the installed entry makes a failure a refusal.
    pub closed_by: &'static str,
}

/// What is known about a client.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The version that the facts are about.
    pub version: &'static str,
    /// How they are known.
    pub evidence: Evidence,
    /// When the hook fails.
    pub failure: FailureFacts,
    /// How long the client waits for a hook before a tool call, as an installation sets it.
    pub timeout: Duration,
    /// Events for which the client waits less: the event, and how long.
    pub short: &'static [(&'static str, Duration)],
    /// Events at which text that a hook adds reaches the model. Backstop adds none; for `doctor` only.
    pub context: &'static [&'static str],
    /// What the client does not show to any hook, and what a user must do for hooks to work at all.
    pub gaps: &'static [&'static str],
    /// Events that the client has and an installation leaves out.
    pub unused: &'static [Unused],
    /// Whether the folder that a payload names is the one that the agent chose for the call, and not the session's;
    /// hooks are started in that one.
    pub names_the_calls_folder: bool,
    /// What types into a running program of the agent's shell without any hook being told, if anything does.
    pub unseen_input: Option<&'static str>,
}

/// Events of a client that nothing is judged at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unused {
    /// The events, as the client spells them.
    pub events: &'static [&'static str],
    /// Why not.
    pub why: &'static str,
}

impl Facts {
    /// Whether this is an event of the client that an installation leaves out. It passes unjudged.
    pub fn leaves_out(&self, event: &str) -> bool {
        self.unused.iter().any(|unused| unused.events.contains(&event))
    }

    /// How long a hook may take at this event. An answer that comes later is no answer.
    pub fn patience(&self, event: &str) -> Duration {
        let short = self.short.iter().find(|(name, _)| *name == event).map(|(_, time)| *time);
        let time = short.unwrap_or(self.timeout);
        // What is left is for starting the process, writing the answer and the client's own clock.
        time.saturating_sub((time / 5).min(Duration::from_secs(5)))
    }
}
