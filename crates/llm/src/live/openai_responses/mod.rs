//! OpenAI Responses on their way.
//!
//! | what | treatment |
//! | --- | --- |
//! | text, refusal | visible text: leaves as it is settled; an edited delta has its one string spliced, one that says nothing any more is dropped. Its copies (`*.done`, the part, the item, the final answer, `output_text`) are edited with it |
//! | reasoning summaries and texts | thinking, edited like text. Encrypted reasoning passes: nobody here, and no client, can read it |
//! | spoken answers | refused: nobody here can judge what is said aloud |
//! | annotations | leave with the text they belong to; from the first edit of that text on they are dropped, since they quote it |
//! | log probabilities | none, from the first edit of their text on. Where they say another text than their event, they wait until everything that has begun is settled |
//! | calls that the client runs (functions, custom tools, shells, patches, the computer), and what makes somebody act (requests for approval, programs, searches among tools, messages to other agents) | held until the calls are decided; a removed one takes its item with it, and its result if the provider gave one; later items move up |
//! | items and events of unknown types | a call named after the type, with the whole of it as arguments |
//! | parts of unknown types | refused: a message can't leave without its parts |
//! | what the provider runs | passes in order: it has run already |
//! | status, usage | as billed; the status does not depend on calls |
//! | sequence numbers | ascend as they did, without the events that were dropped and with those that were added |
//!
//! A note about withheld calls is a message of its own at the end.

mod frames;
mod items;
mod stream;
mod whole;

pub(crate) use stream::ResponsesStream;
pub(crate) use whole::ResponsesWhole;

use super::span::Node;
use crate::error::{WireError, out_of_order};
use crate::wire::Api;

const API: Api = Api::OpenAiResponses;

/// Refuses a part of an item that is said aloud.
fn refuse_spoken<'a>(parts: impl IntoIterator<Item = Node<'a>>) -> Result<(), WireError> {
    let is_spoken = |part: Node<'a>| {
        part.get_some("type").and_then(|kind| kind.string()).as_deref() == Some("output_audio")
    };
    if parts.into_iter().any(is_spoken) { Err(out_of_order("the answer is spoken")) } else { Ok(()) }
}

/// The parts in an item's content.
fn content<'a>(item: &Node<'a>) -> Vec<Node<'a>> {
    item.get_some("content").map(|content| content.items()).unwrap_or_default()
}
