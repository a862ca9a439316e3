//! The scripted model: answers from a file, over the same wires as real ones.
//!
//! A script is JSON: one document `{"turns": [...]}`, or one turn on each line. A turn says what to answer:
//!
//! ```json
//! {"expect": {"user_contains": "fix"}, "tool_calls": [{"name": "read", "arguments": {"path": "a.rs"}}]}
//! {"when": {"tool_result_contains": "fn main"}, "text": "Done."}
//! {"fault": {"http_status": {"status": 429, "retry_after": 1}}}
//! ```
//!
//! The rule of choice: *each request takes the first turn that is left and whose `when` holds*. Turns without
//! `when` therefore play in order, and the order is global: a server can't tell conversations apart, so
//! scripts for several at once need `when`. A turn is used up, unless it says `"repeat": true`. If the
//! chosen turn's `expect` does not hold, or no turn is left, the answer is an error that says what was
//! expected, and the [`ScriptReport`] lists it.
//!
//! [`ScriptedModel`] plays in-process, [`ScriptedServer`] on a loopback port. Both play the same bytes,
//! made by the same encoders, and the in-process one reads them with the same decoders as the HTTP client
//! does.

mod cloud;
mod format;
mod local;
mod play;
mod report;
mod server;

pub use format::{Conditions, Fault, HttpFault, Script, ScriptError, ScriptedToolCall, Turn};
pub use local::ScriptedModel;
pub use report::{Mismatch, RecordedRequest, ScriptReport};
pub use server::{ScriptedServer, ServerOptions};
