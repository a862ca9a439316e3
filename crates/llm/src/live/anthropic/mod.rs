//! Anthropic Messages on their way.
//!
//! | part | treatment |
//! | --- | --- |
//! | text | leaves as it is settled; an edited delta has its one string spliced, one that says nothing any more is dropped |
//! | citations | leave with the text they belong to; those of a text that was edited are dropped, since they quote it |
//! | thinking | leaves as a whole: its signature is for all of it. If it was edited, its text is withheld (`"thinking": ""`, as the provider itself writes thinking that is not shown) and the signature stays, so that the conversation can go on. A judge who does not care settles it once and for all, and it streams |
//! | redacted thinking | passes: nobody here can read it |
//! | `tool_use` | held until the calls are decided; a removed one takes its block with it, later blocks move up |
//! | server tools and their results | pass in order: they have run already |
//! | blocks of unknown types | a call named after the type, with the whole block as arguments |
//! | deltas and events of unknown types | a call named after the type, with what they say as arguments |
//! | stop reason | `tool_use` becomes `end_turn` if no call is left |
//! | usage | as billed |
//!
//! A note about withheld calls is a text block of its own at the end.

mod stream;
mod whole;

pub(crate) use stream::AnthropicStream;
pub(crate) use whole::AnthropicWhole;

use crate::wire::Api;

const API: Api = Api::AnthropicMessages;
/// The stop reason of an answer that waits for tools, and of one that does not.
const TOOL_USE: &str = "tool_use";
const END_TURN: &str = "end_turn";
