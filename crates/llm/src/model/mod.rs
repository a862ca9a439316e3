//! What is asked of a model and what it answers, free of any provider's wire.
//!
//! An answer exists twice: as a stream of [`ModelEvent`]s and as the [`ModelResponse`] that the last event
//! carries. The law: the deltas of a part, put together, are the part that [`ModelEvent::PartFinished`]
//! reports, and those parts are the message of the response. Whoever needs the whole answer waits for the
//! last event; whoever wants what there was when a stream broke asks an [`Accumulator`].

mod accumulator;
mod event;
mod request;
mod stream;

pub use accumulator::{Accumulator, Incomplete};
pub(crate) use accumulator::{ToolCallBuilder, parse_arguments};
pub use event::{ModelEvent, ModelResponse, StopReason};
pub use request::{ModelRequest, ThinkLevel, ToolChoice, ToolDefinition};
pub(crate) use stream::StatsCell;
pub use stream::{CallStats, Model, ModelStream};
