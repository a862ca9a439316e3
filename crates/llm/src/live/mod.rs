//! Live traffic: reading what passes by, and editing it without touching the rest.
//!
//! A proxy must not re-write what it does not change: clients compare cache markers, verify signatures and
//! use fields that nobody here has heard of. So requests and answers are kept as the bytes that came, read on
//! the side, and edited in place.
//!
//! - [`LiveRequest`]: a request's body, what it says, and the body that says
//!   something else.
//! - [`LiveDocument`]: a body that is no conversation, and the texts in it.
//! - [`AnswerEditor`]: an answer on its way, whole or streamed: one interface for both, so that a host judges
//!   them with the same code. One implementation per wire and form.
//! - [`Joint`]: two answers as one, where a model goes on after it was told that its calls were [`refused`].
//!
//! What happens to each kind of part (thinking, citations, log probabilities, ...) is said in the module of its
//! wire.
//!
//! # Laws
//!
//! - *Untouched is identical.* Bytes in which nothing was edited leave as they came: field order, white space,
//!   escapes, unknown fields, comments, event names, line ends. A streamed answer that nobody edits leaves byte
//!   for byte, whatever the cuts between reads.
//! - *Nothing leaves before it is settled.* Visible text leaves when the host has settled it, a tool call when
//!   the host has decided about the calls, the end of the answer (stop reason, final copies of what was said)
//!   when everything before it has left. What an edit removed is in no copy that leaves: wires that repeat
//!   themselves (deltas, `*.done`, a final object) are edited in all places.
//! - *Order stays.* What follows a held part waits behind it.
//! - *An edited answer is a valid answer.* Indexes, counts, stop reason and sequence numbers are those of an
//!   answer in which the removed part never was; token usage stays what the provider billed. The readers of the
//!   provider's own SDKs accept it.
//! - *Two readings are refused.* An answer whose copies disagree, or whose events contradict each other, is an
//!   error and not a choice.
//! - *Unknown is a call.* What has a type that no table knows ([`type_tables`](crate::wire::type_tables)) is held and
//!   judged as a call that is named after its type.
//! - *Bounded.* What is held is counted ([`AnswerEditor::held_bytes`]); the host ends an answer that holds too much.

mod anthropic;
mod asked;
mod converse;
mod document;
mod findings;
mod frame;
mod framing;
mod gemini;
mod joint;
mod known;
mod ledger;
mod openai_chat;
mod openai_responses;
mod refused;
mod request;
mod span;
pub(crate) mod steps;
mod stream;
mod template;
mod unknown;
mod waiting;
mod whole;
mod words;

use std::fmt;
use std::ops::Range;

use backstop_hooks::Text;
use bytes::Bytes;

use crate::error::{ProviderError, WireError, out_of_order};
use crate::model::{ModelRequest, ModelResponse};
use crate::wire::Api;

use anthropic::{AnthropicStream, AnthropicWhole};
use asked::Asked;
use converse::{ConverseStream, ConverseWhole};
pub use document::{LiveDocument, TextTable, is_name, sealed};
pub use findings::{FreshResult, ResultKey, Word};
use framing::Framing;
use gemini::{GeminiStream, GeminiWhole};
pub use joint::Joint;
pub use known::{KnownBodies, Naming};
use openai_chat::{ChatStream, ChatWhole};
pub use openai_responses::listed_result;
use openai_responses::{ResponsesStream, ResponsesWhole};
pub use refused::refused;
pub use request::LiveRequest;
use stream::{StreamEditor, StreamWire};
pub use unknown::is_unknown_call;
use whole::WholeEditor;

/// An editor for the answer to `request` that is streamed as events.
pub fn stream_editor(api: Api, request: &ModelRequest) -> Box<dyn AnswerEditor> {
    let asked = Asked::of(api, request);
    match api {
        Api::AnthropicMessages => Box::new(stream(AnthropicStream::new(&request.model), asked)),
        Api::OpenAiChat => Box::new(stream(ChatStream::new(&request.model), asked)),
        Api::OpenAiResponses => Box::new(stream(ResponsesStream::new(&request.model), asked)),
        Api::Gemini => Box::new(stream(GeminiStream::new(&request.model), asked)),
        Api::BedrockConverse => Box::new(stream(ConverseStream::new(), asked)),
    }
}

fn stream<W: StreamWire>(wire: W, asked: Asked) -> StreamEditor<W> {
    StreamEditor::new(wire, Framing::events(), asked)
}

/// An editor for the answer of Gemini to `request` that is streamed as one JSON array.
pub fn array_editor(request: &ModelRequest) -> Box<dyn AnswerEditor> {
    let asked = Asked::of(Api::Gemini, request);
    Box::new(StreamEditor::new(GeminiStream::new(&request.model), Framing::array(), asked))
}

/// An editor for the answer in one piece to `request`.
pub fn whole_editor(api: Api, request: &ModelRequest) -> Box<dyn AnswerEditor> {
    let (model, asked) = (&request.model, Asked::of(api, request));
    match api {
        Api::AnthropicMessages => Box::new(WholeEditor::new(AnthropicWhole::default(), model, asked)),
        Api::OpenAiChat => Box::new(WholeEditor::new(ChatWhole::default(), model, asked)),
        Api::OpenAiResponses => Box::new(WholeEditor::new(ResponsesWhole::default(), model, asked)),
        Api::Gemini => Box::new(WholeEditor::new(GeminiWhole::default(), model, asked)),
        Api::BedrockConverse => Box::new(WholeEditor::new(ConverseWhole::default(), model, asked)),
    }
}

/// More choices than any provider gives.
const MOST_CHOICES: usize = 1024;

/// The number of a choice.
///
/// # Errors
/// If it is beyond all bounds.
fn choice_number(index: u64) -> Result<u32, WireError> {
    let number = u32::try_from(index).ok().filter(|_| index < MOST_CHOICES as u64);
    number.ok_or_else(|| out_of_order("a choice has a number beyond all bounds"))
}

/// A note behind the text of a choice.
fn spaced_note(note: &str, has_text: bool) -> String {
    if has_text { format!("\n\n{note}") } else { note.to_owned() }
}

/// A part of an answer: of which choice, and which of its parts, in the order in which parts began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartKey {
    /// The choice (candidate); 0 for wires that have one answer only.
    pub choice: u32,
    /// The part within the choice, by the order of appearance.
    pub part: u32,
}

/// Who reads a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextKind {
    /// The person: answers and refusals.
    Visible,
    /// Nobody but the model, and clients that show reasoning.
    Thinking,
}

/// Text that has arrived and is not settled.
#[derive(Clone, PartialEq, Eq)]
pub struct FreshText {
    /// The part that it belongs to.
    pub part: PartKey,
    /// Who reads it.
    pub kind: TextKind,
    /// What was added to the part since the last time; all that arrived in one read is one piece.
    pub text: String,
    /// The part is whole with this.
    pub last: bool,
}

impl fmt::Debug for FreshText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FreshText")
            .field("part", &self.part)
            .field("kind", &self.kind)
            .field("bytes", &self.text.len())
            .field("last", &self.last)
            .finish()
    }
}

/// A piece of a text that is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextEdit {
    /// Bytes of the part's text as it came, on character boundaries.
    pub span: Range<usize>,
    /// What stands there instead.
    pub replacement: Text,
}

/// An answer on its way through a host.
///
/// The host's loop: [`push`](Self::push) what one read brought, judge what [`fresh`](Self::fresh) gives and
/// [`settle`](Self::settle) it, send what [`take`](Self::take) gives. When the answer [`is_whole`](Self::is_whole),
/// judge [`responses`](Self::responses), say [`keep_calls`](Self::keep_calls) and send the rest.
///
/// Bytes that a text frame carries leave when the text is settled up to the end of that frame.
pub trait AnswerEditor: fmt::Debug + Send {
    /// Takes bytes of the provider's answer, cut anywhere.
    ///
    /// # Errors
    /// If the bytes are not what the wire has at this place, or repeat something differently. The answer has
    /// failed then: nothing that was not taken yet may leave; the host ends it with [`fail`](Self::fail).
    fn push(&mut self, bytes: &[u8]) -> Result<(), WireError>;

    /// The provider's bytes are over.
    ///
    /// # Errors
    /// [`WireError::Truncated`] if the answer is not whole, and what [`push`](Self::push) has.
    fn finish(&mut self) -> Result<(), WireError>;

    /// The texts that arrived since the last time, at most one per part.
    fn fresh(&mut self) -> Vec<FreshText>;

    /// Settles the text of a part up to the byte `up_to` (of the text as it came), with `edits` in it, which
    /// begin and end between the place settled before and `up_to`. `usize::MAX` settles what is still to come,
    /// too: nobody judges this part any more. Thinking is settled in the same way; where it is signed, it
    /// leaves as a whole once it is whole and settled, or as it comes if it is settled with `usize::MAX`.
    fn settle(&mut self, part: PartKey, up_to: usize, edits: Vec<TextEdit>);

    /// Replaces the texts of parts that have not left, as a judge of whole answers wants it. A part whose text
    /// has left in part keeps what left, and the rest of `text` must begin with that.
    fn replace_text(&mut self, part: PartKey, text: &str) -> Result<(), AlreadySent>;

    /// Whether the provider has said everything (the last event has come; trailing bytes may follow).
    fn is_whole(&self) -> bool;

    /// What was said, as it came, one per choice. Meaningful once the answer is whole.
    fn responses(&self) -> &[ModelResponse];

    /// The tool calls that may leave; `removed` never do. From now on calls are not held. `note` is added as
    /// visible text behind what is there (in each choice that lost a call), to say what was withheld.
    fn keep_calls(&mut self, removed: &[PartKey], note: Option<&str>);

    /// The part of the `call`-th tool call of a choice, to say what to remove.
    fn call_part(&self, choice: u32, call: usize) -> Option<PartKey>;

    /// Calls are not held at all: nobody judges them.
    fn release_calls(&mut self);

    /// The results of the provider's tools that arrived since the last time, each once however often it stands in the
    /// answer. What carries one waits until it is settled.
    fn results(&mut self) -> Vec<FreshResult>;

    /// The words that arrived since the last time in fields that hold no text (ids, names, signatures), once each. Bytes that hold one
    /// may be taken at once: whoever finds fault with a word takes nothing more and ends the answer with [`fail`](Self::fail).
    fn words(&mut self) -> Vec<Word>;

    /// A result was judged; `new` stands in its place from now on, in every copy.
    fn settle_result(&mut self, result: ResultKey, new: Option<&serde_json::Value>);

    /// Results are not held at all: nobody judges them.
    fn release_results(&mut self);

    /// Drops everything that has not left and ends the answer in the wire's own way: open parts are closed,
    /// `note` is the last visible text, the stop reason is that of an answer that ended by itself. If nothing has
    /// left yet, the answer is `note` alone.
    fn end_with(&mut self, note: &str);

    /// Drops everything that has not left and ends with the wire's own error event (of a streamed answer) or
    /// error body.
    fn fail(&mut self, error: &ProviderError);

    /// The bytes that may leave now. All that is ready is one piece.
    fn take(&mut self) -> Bytes;

    /// Whether anything has been taken: if so, the status and the form of the answer can't change any more.
    fn has_sent(&self) -> bool;

    /// Whether the end of a stream has left, behind which its client reads nothing: what fails then is told nobody.
    fn has_ended(&self) -> bool {
        false
    }

    /// How many bytes wait: all of them, since what follows a held part waits too.
    fn held_bytes(&self) -> usize;

    /// How many bytes of what was said are remembered besides, to its end, also where they have left: each counts once, though
    /// more than one reader keeps it.
    fn kept_bytes(&self) -> usize;

    /// Bytes that keep a client waiting while something is held, in a form that every reader of the wire skips
    /// (a comment, a `ping`, white space); `None` for answers in one piece. In an array they have their place behind
    /// the first byte that was taken.
    fn keep_alive(&self) -> Option<Bytes>;
}

/// A text was to be replaced of which a different beginning has left already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the text has left in part, and its new form begins differently")]
pub struct AlreadySent;
