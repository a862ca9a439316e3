//! Requests: what a body says, and the body that says something else.
//!
//! The edited request is compared with the one that was read, and the differences are spliced into the bytes:
//!
//! - a text that was rewritten is one JSON string; the block around it, its cache marker and its neighbours stay,
//! - messages, blocks, calls and tools that are gone go with their comma; a message of which nothing is left goes
//!   as a whole,
//! - what was added, or changed in more than its text, name or arguments, is written by the wire's codec,
//! - any other field of the body is replaced if its encoded form differs, and stays as it was written if not.
//!
//! Tools that are gone can't be asked for: a `tool_choice` that names one is dropped (or becomes `auto` where it
//! says more than the name), one that lists tools is narrowed, and without tools nothing is said about their
//! choice. Signed thinking is never altered under its signature: a rewrite withholds its text, as the provider
//! itself does for thinking that is not shown.

mod align;
mod anthropic;
mod content;
mod converse;
mod gemini;
mod openai_chat;
mod openai_responses;
mod tools;

use std::collections::{BTreeMap, BTreeSet};

use backstop_hooks::conversation::Content;
use bytes::Bytes;
use serde_json::{Map, Value};

use super::known::{KnownBodies, Naming, Read};
use super::span::{Node, Slot, Splices};
use super::steps::step;
use crate::error::WireError;
use crate::model::ModelRequest;
use crate::wire::{Api, DecodedRequest, RequestTarget, not_json, parse_request};

/// A request on its way to the provider.
#[derive(Debug)]
pub struct LiveRequest {
    api: Api,
    body: Bytes,
    decoded: DecodedRequest,
    /// Where its models are named, if its parts were known.
    models: Option<Models>,
}

/// Where a request names models.
#[derive(Debug)]
struct Models {
    /// The body without its parts.
    frame: Bytes,
    /// The models that the parts name.
    named: Vec<String>,
}

impl LiveRequest {
    /// Reads a request's body.
    ///
    /// # Errors
    /// If the body is not a request of the wire `api`, is too much to be read, or has a key twice: readers differ in
    /// what that says.
    pub fn read(api: Api, body: Bytes) -> Result<Self, WireError> {
        Self::read_at(api, &RequestTarget::default(), body)
    }

    /// Reads the body of a request that was sent to `target`, which on some wires says a part of it.
    ///
    /// # Errors
    /// As [`read`](Self::read), and if body and address contradict each other.
    pub fn read_at(api: Api, target: &RequestTarget, body: Bytes) -> Result<Self, WireError> {
        let value = parse_request(&body).map_err(|error| not_json("the request", &error))?;
        let decoded = api.decode_request_at(target, &value)?;
        Ok(Self { api, body, decoded, models: None })
    }

    /// Reads the body of a request that was sent to `target`, as far as its conversation is not known, and remembers what it says.
    /// `naming` collects the models that a part of the body names.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    pub fn read_known(
        api: Api,
        target: &RequestTarget,
        body: Bytes,
        known: &KnownBodies,
        naming: Naming<'_>,
    ) -> Result<Self, WireError> {
        match known.read(api, target, &body, naming) {
            Some(Read { decoded, frame, named, known: read, continues }) => {
                known.keep(read, continues.as_ref());
                Ok(Self { api, body, decoded, models: Some(Models { frame, named }) })
            }
            None => Self::read_at(api, target, body),
        }
    }

    /// Returns the object in which the request names models, and the ones that are named in those of its parts which the object
    /// leaves out.
    pub fn models(&self) -> (&Bytes, &[String]) {
        self.models.as_ref().map_or((&self.body, &[]), |models| (&models.frame, &models.named))
    }

    /// What is asked.
    pub fn request(&self) -> &ModelRequest {
        &self.decoded.request
    }

    /// Whether the answer is to be streamed.
    pub fn is_stream(&self) -> bool {
        self.decoded.stream
    }

    /// The bytes as they came.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The body that asks for `edited`, which came from [`request`](Self::request). Without a difference it is
    /// the body as it came.
    pub fn write(&self, edited: &ModelRequest) -> Bytes {
        let old = &self.decoded.request;
        let mut new = edited.clone();
        tools::narrow_choice(old, &mut new);
        if self.api == Api::OpenAiChat {
            openai_chat::narrow_functions(old, &mut new);
        }
        if new == *old {
            return self.body.clone();
        }
        self.spliced(&new)
            .unwrap_or_else(|| Bytes::from(self.api.encode_request(&new, self.decoded.stream).to_string()))
    }

    fn spliced(&self, new: &ModelRequest) -> Option<Bytes> {
        let old = &self.decoded.request;
        let text = str::from_utf8(&self.body).ok()?;
        let root = Node::root(text)?;
        let mut edit = BodyEdit::default();
        let (old_rest, new_rest) = match self.api {
            Api::BedrockConverse => {
                converse::edit(&root, old, new, &mut edit);
                edit.fields(&converse::fields(old), &converse::fields(new));
                return Some(edit.apply(&root, text));
            }
            Api::AnthropicMessages => {
                anthropic::edit(&root, old, new, &mut edit);
                (without_lists(old), without_lists(new))
            }
            Api::OpenAiChat => {
                openai_chat::edit(&root, old, new, &mut edit);
                (without_lists(old), without_lists(new))
            }
            Api::OpenAiResponses => {
                openai_responses::edit(&root, old, new, &mut edit);
                (without_lists(old), without_lists(new))
            }
            Api::Gemini => {
                gemini::edit(&root, old, new, &mut edit)?;
                (without_lists(old), without_lists(new))
            }
        };
        let encode = |request: &ModelRequest| match self.api.encode_request(request, false) {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        edit.fields(&encode(&old_rest), &encode(&new_rest));
        Some(edit.apply(&root, text))
    }
}

/// The request without what is compared piece by piece.
fn without_lists(request: &ModelRequest) -> ModelRequest {
    ModelRequest { system: Content::default(), messages: Vec::new(), tools: Vec::new(), ..request.clone() }
}

/// Edits of a body: inside its fields, and of its fields.
#[derive(Default)]
struct BodyEdit {
    splices: Splices,
    /// New values of fields; `None` for a field that goes.
    fields: Vec<(String, Option<String>)>,
}

impl BodyEdit {
    fn set_field(&mut self, key: &str, value: Option<String>) {
        self.fields.push((key.to_owned(), value));
    }

    /// Sets the fields whose encoded form differs.
    fn fields(&mut self, old: &Map<String, Value>, new: &Map<String, Value>) {
        for (key, value) in new {
            if old.get(key) != Some(value) {
                self.set_field(key, Some(value.to_string()));
            }
        }
        for key in old.keys().filter(|key| !new.contains_key(*key)) {
            self.set_field(key, None);
        }
    }

    fn apply(mut self, root: &Node<'_>, text: &str) -> Bytes {
        let members = root.members();
        let spans: Vec<_> = members.iter().map(|member| member.span.clone()).collect();
        let mut slots = Vec::new();
        // What was said first of a field counts.
        let said = self.fields.iter().rev().inspect(|_| step());
        let said: BTreeMap<&str, Option<&str>> =
            said.map(|(key, value)| (key.as_str(), value.as_deref())).collect();
        for (place, member) in members.iter().enumerate() {
            match said.get(&*member.key) {
                None => slots.push(Slot::Keep(place)),
                Some(Some(value)) => {
                    self.splices.replace(member.value.span(), *value);
                    slots.push(Slot::Keep(place));
                }
                Some(None) => {}
            }
        }
        let there: BTreeSet<&str> = members.iter().map(|member| &*member.key).collect();
        for (key, value) in &self.fields {
            let is_there = there.contains(key.as_str());
            if let (false, Some(value)) = (is_there, value) {
                slots.push(Slot::New(format!("{}:{value}", super::span::quote(key))));
            }
        }
        self.splices.set_list(root, &spans, slots);
        self.splices.apply(text).into()
    }
}
