//! The agent that Backstop runs itself: sessions, turns, tools.
//!
//! An [`Agent`] takes a message through one *turn*: the prompt is prepared, a model is asked, the tools it
//! asks for are run, its answer goes out. At each step the engine is asked first, and nothing goes on
//! without its word. The laws of this crate:
//!
//! - **One door out.** What a user sees goes through one place ([`Output`]), and gets there only after the
//!   hooks that judge it. Text that was shown is never taken back.
//! - **One door to a tool.** [`tools::Toolbox::run`] takes a permit of the engine and nothing else.
//! - **One door to the transcript.** Each message that is stored passed `before_message_write`; what was not
//!   stored is not sent to a model either.
//! - **The transcript stays whole.** Each tool call of a stored answer has exactly one result, whatever
//!   happens: a block, a failure, a cancellation, a killed process.
//! - **A session's life is told.** It begins, is compacted, reset, grows old and ends, each with its reason.
//! - **A turn touches its own run only.** Blocks and rewrites reach exactly the messages that carry the
//!   run's id, never others by counting.
//!
//! What it does not do: several tools at once, sub-agents, channels, schedules.

mod agent;
mod error;
mod lifecycle;
mod models;
mod output;
mod profile;
mod reply;
mod report;
mod session;
mod settings;
mod stage;
pub mod tools;
mod turn;

pub use agent::{Agent, AgentParts, Leaving};
pub use error::AgentError;
pub use models::{Models, OneModel, UnknownModel};
pub use output::{Fate, Output, Shown, ToolDecided};
pub use profile::host_profile;
pub use report::{ImageAttachment, TurnError, TurnInput, TurnOutcome, TurnReport, TurnTrigger};
pub use session::{AgentSession, Fresh, SessionChoice};
pub use settings::{AgentSettings, Compaction, SessionExpiry, Verbosity};
pub use stage::{Stage, StageSink};
pub use turn::hold_back::HoldBack;
