//! What a provider says on a WebSocket of Gemini Live, as events of a stream of Gemini, and back.
//!
//! A message is a frame around what an answer of Gemini has: its content, its calls, its grounding. The frame is taken off here, and
//! what is left is judged as an event of that stream. What leaves is made anew of what was judged: of a frame nothing is kept but
//! switches, words of the wire and counts. A field that no table has stays in the event, where it is a call named after it. A
//! message with something in an unexpected shape is no message of this wire, and ends the session.

use std::collections::BTreeSet;

use backstop_llm::wire::{
    LIVE_CONTENTS, LIVE_MESSAGES, TypeTable, is_disguised, is_field_of_answer, parse_json, parse_request,
};
use serde_json::{Map, Value, json};

use super::said::{is_handle, is_name, is_plain};
use super::{Live, MOST_CALLS};
use crate::server::sockets::dialect::Unread;
use crate::server::sockets::message::Kind;

/// Says of a part that it is what was said aloud.
const ALOUD: &str = "outputTranscription";
/// Switches of a message, and words of the wire.
const FLAGS: [&str; 4] = ["generationComplete", "interrupted", "turnComplete", "waitingForInput"];
const WORDS: [&str; 2] = ["interactionStatus", "turnCompleteReason"];
/// Counts that have another name in a stream of Gemini, and that name.
const COUNTS: [(&str, &str); 2] =
    [("responseTokenCount", "candidatesTokenCount"), ("responseTokensDetails", "candidatesTokensDetails")];

/// The answer under way, as both sides know it.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) is_under_way: bool,
    /// How it ends for the client, once it does.
    flags: Map<String, Value>,
    /// The calls that the provider made, and waits for.
    calls: Vec<Call>,
    /// The names of those that the client knows of.
    told: BTreeSet<String>,
    has_told_calls: bool,
    has_text: bool,
    /// Something was said aloud, or shown.
    pub(super) has_sound: bool,
    has_transcript: bool,
}

/// A call, as far as the session has to know.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) id: Option<String>,
    pub(super) name: String,
}

impl Answer {
    /// The calls that the provider waits for and that nobody will answer.
    pub(super) fn withheld(&self) -> Vec<Call> {
        let is_told = |call: &&Call| call.id.as_ref().is_some_and(|id| self.told.contains(id));
        self.calls.iter().filter(|call| !is_told(call)).cloned().collect()
    }

    /// The names of the calls that the client knows of.
    pub(super) fn told(&self) -> &BTreeSet<String> {
        &self.told
    }
}

/// What a provider said.
#[derive(Debug, Default)]
pub(in crate::server::sockets) struct Heard {
    /// For the client, at once: nobody can say anything in it.
    pub(in crate::server::sockets) aside: Vec<String>,
    /// Of an answer, for those who judge.
    pub(in crate::server::sockets) event: Option<(Kind, String)>,
}

/// A message without its frame.
#[derive(Default)]
struct Frame {
    root: Map<String, Value>,
    candidate: Map<String, Value>,
    content: Map<String, Value>,
    parts: Vec<Value>,
    flags: Map<String, Value>,
    usage: Option<Value>,
    is_last: bool,
}

impl Frame {
    /// Whether it says something that somebody has to judge.
    fn says_something(&self) -> bool {
        !(self.root.is_empty()
            && self.candidate.is_empty()
            && self.content.is_empty()
            && self.parts.is_empty())
    }

    fn event(mut self) -> Value {
        let has_content = !self.parts.is_empty() || !self.content.is_empty();
        if has_content {
            self.content.insert("parts".to_owned(), self.parts.into());
            self.content.insert("role".to_owned(), "model".into());
            self.candidate.insert("content".to_owned(), self.content.into());
        }
        if self.is_last {
            self.candidate.insert("finishReason".to_owned(), "STOP".into());
        }
        if !self.candidate.is_empty() {
            self.candidate.insert("index".to_owned(), 0.into());
            self.root.insert("candidates".to_owned(), json!([self.candidate]));
        }
        if let Some(usage) = self.usage {
            self.root.insert("usageMetadata".to_owned(), usage);
        }
        self.root.into()
    }
}

/// A field that no table has, unless somebody would take it for one that is known.
fn unknown(table: &TypeTable, key: &str) -> Result<(), Unread> {
    if is_disguised(table, key) || is_field_of_answer(key) { Err(Unread) } else { Ok(()) }
}

fn object(value: Value) -> Result<Map<String, Value>, Unread> {
    if let Value::Object(fields) = value { Ok(fields) } else { Err(Unread) }
}

/// The value of a field of words or switches, if it is one.
fn plain(value: Value) -> Result<Value, Unread> {
    if is_plain(&value) { Ok(value) } else { Err(Unread) }
}

impl Live {
    /// Reads what a provider said.
    pub(in crate::server::sockets) fn read(&mut self, message: &str) -> Result<Heard, Unread> {
        let Ok(Value::Object(message)) = parse_request(message.as_bytes()) else { return Err(Unread) };
        let (mut frame, mut heard) = (Frame::default(), Heard::default());
        for (key, value) in message.into_iter().filter(|(_, value)| !value.is_null()) {
            match key.as_str() {
                "serverContent" => self.content(object(value)?, &mut frame)?,
                "toolCall" => self.calls(object(value)?, &mut frame)?,
                "usageMetadata" => frame.usage = Some(usage(object(value)?)?),
                "toolCallCancellation" => heard.aside.extend(self.cancelled(object(value)?)?),
                "sessionResumptionUpdate" => heard.aside.push(resumption(value)?),
                "goAway" | "voiceActivity" | "voiceActivityDetectionSignal" => {
                    heard.aside.push(json!({key: plain(value)?}).to_string());
                }
                // The client was told by the gateway.
                "setupComplete" => self.is_open = true,
                key => {
                    unknown(&LIVE_MESSAGES, key)?;
                    frame.root.insert(key.to_owned(), value);
                }
            }
        }
        if !self.answer.is_under_way && !frame.says_something() {
            heard.aside.extend(aside(frame));
            return Ok(heard);
        }
        if self.answer.calls.len() > MOST_CALLS {
            return Err(Unread);
        }
        self.answer.flags.append(&mut frame.flags);
        if frame.says_something() || frame.usage.is_some() || frame.is_last {
            let kind = if frame.is_last { Kind::Last } else { Kind::Event };
            heard.event = Some((kind, frame.event().to_string()));
        }
        Ok(heard)
    }

    fn content(&mut self, content: Map<String, Value>, frame: &mut Frame) -> Result<(), Unread> {
        for (key, value) in content.into_iter().filter(|(_, value)| !value.is_null()) {
            match key.as_str() {
                "modelTurn" => self.turn(object(value)?, frame)?,
                ALOUD => {
                    let Some(text) = transcript(value)? else { continue };
                    self.answer.has_sound = true;
                    self.answer.has_transcript = true;
                    frame.parts.push(json!({"text": text, "partMetadata": {"backstop": ALOUD}}));
                }
                "inputTranscription" if self.media => {
                    let text = transcript(value)?.unwrap_or_default();
                    if self.transcript.len().saturating_add(text.len()) > self.most {
                        return Err(Unread);
                    }
                    self.transcript.push_str(&text);
                }
                // It says again, and differently, what is written for good later.
                "interimInputTranscription" if self.media => {}
                "inputTranscription" | "interimInputTranscription" => return Err(Unread),
                "groundingMetadata" | "urlContextMetadata" => {
                    frame.candidate.insert(key, value);
                }
                flag if FLAGS.contains(&flag) && value.is_boolean() => {
                    frame.is_last |= flag == "turnComplete" && value == true;
                    frame.flags.insert(key, value);
                }
                word if WORDS.contains(&word) && value.as_str().is_some_and(is_name) => {
                    frame.flags.insert(key, value);
                }
                key if LIVE_CONTENTS.class(key).is_some() => return Err(Unread),
                key => {
                    unknown(&LIVE_CONTENTS, key)?;
                    frame.candidate.insert(key.to_owned(), value);
                }
            }
        }
        // Text between what is said aloud would part what was said in one.
        if self.answer.has_text && self.answer.has_transcript { Err(Unread) } else { Ok(()) }
    }

    fn turn(&mut self, turn: Map<String, Value>, frame: &mut Frame) -> Result<(), Unread> {
        for (key, value) in turn.into_iter().filter(|(_, value)| !value.is_null()) {
            match (key.as_str(), value) {
                ("role", Value::String(_)) => {}
                ("parts", Value::Array(parts)) => {
                    for part in parts {
                        self.part(object(part)?, frame)?;
                    }
                }
                ("role" | "parts", _) => return Err(Unread),
                (key, value) => {
                    unknown(&LIVE_CONTENTS, key)?;
                    frame.content.insert(key.to_owned(), value);
                }
            }
        }
        Ok(())
    }

    fn part(&mut self, part: Map<String, Value>, frame: &mut Frame) -> Result<(), Unread> {
        let blob = part.get("inlineData").or_else(|| part.get("inline_data"));
        let kind = blob.and_then(|blob| blob.get("mimeType").or_else(|| blob.get("mime_type")));
        let is_picture = kind.and_then(Value::as_str).is_some_and(|kind| kind.starts_with("image/"));
        if blob.is_some() && !is_picture && !self.media {
            return Err(Unread);
        }
        self.answer.has_sound |= blob.is_some() && !is_picture;
        if part.contains_key("audioTranscription") || part.contains_key("audio_transcription") {
            return Err(Unread);
        }
        let is_thought = part.get("thought") == Some(&Value::Bool(true));
        let has_text = part.get("text").and_then(Value::as_str).is_some_and(|text| !text.is_empty());
        self.answer.has_text |= has_text && !is_thought;
        for call in [part.get("functionCall"), part.get("function_call")].into_iter().flatten() {
            self.answer.calls.extend(call_of(call));
        }
        frame.parts.push(part.into());
        Ok(())
    }

    fn calls(&mut self, mut fields: Map<String, Value>, frame: &mut Frame) -> Result<(), Unread> {
        let Some(Value::Array(calls)) = fields.remove("functionCalls") else { return Err(Unread) };
        if !fields.is_empty() || !calls.iter().all(Value::is_object) {
            return Err(Unread);
        }
        let goes_on = |call: &Value| call.get("willContinue").or_else(|| call.get("will_continue")).cloned();
        // The provider waits for what they come to.
        frame.is_last |= calls.last().is_some_and(|last| goes_on(last) != Some(true.into()));
        for call in calls {
            self.answer.calls.extend(call_of(&call));
            frame.parts.push(json!({"functionCall": call}));
        }
        Ok(())
    }

    /// Calls that are not to be made any more. Of those that the client does not know it is told nothing.
    fn cancelled(&mut self, mut fields: Map<String, Value>) -> Result<Option<String>, Unread> {
        let Some(Value::Array(ids)) = fields.remove("ids") else { return Err(Unread) };
        if !fields.is_empty() {
            return Err(Unread);
        }
        self.owed.retain(|call| !ids.iter().any(|id| call.id.as_deref() == id.as_str()));
        let known = |id: &&Value| {
            id.as_str().is_some_and(|id| self.answer.told.contains(id) || self.waits_for.contains(id))
        };
        let known: Vec<&Value> = ids.iter().filter(known).collect();
        let told = json!({"toolCallCancellation": {"ids": known}}).to_string();
        let is_one = !known.is_empty();
        self.waits_for.retain(|waiting| !ids.iter().any(|id| id.as_str() == Some(waiting)));
        Ok(is_one.then_some(told))
    }

    /// An event of a stream of Gemini as messages of Live.
    ///
    /// # Errors
    /// The status and the words of an event that is an error: Live has no message for one.
    pub(in crate::server::sockets) fn write(&mut self, event: &str) -> Result<Vec<String>, (u16, String)> {
        let Ok(Value::Object(mut event)) = parse_json(event.as_bytes()) else {
            return Err((502, "backstop: the answer can't be written".to_owned()));
        };
        if let Some(error) = event.get("error") {
            let number =
                |value: Option<&Value>| value.and_then(Value::as_u64).and_then(|n| u16::try_from(n).ok());
            let status = number(event.get("status")).or_else(|| number(error.get("code"))).unwrap_or(500);
            let words = error.get("message").and_then(Value::as_str).unwrap_or_default();
            return Err((status, words.to_owned()));
        }
        let candidate = match event.remove("candidates") {
            Some(Value::Array(candidates)) => candidates.into_iter().next(),
            _ => None,
        };
        let mut candidate = match candidate {
            Some(Value::Object(candidate)) => candidate,
            _ => Map::new(),
        };
        let mut messages = Vec::new();
        if let Some(Value::Object(content)) = candidate.remove("content") {
            self.write_content(content, &mut messages);
        }
        let is_last = candidate.remove("finishReason").is_some();
        candidate.retain(|key, _| {
            matches!(key.as_str(), "groundingMetadata" | "urlContextMetadata") || !is_field_of_answer(key)
        });
        if !candidate.is_empty() {
            messages.push(json!({"serverContent": candidate}));
        }
        let usage = event.remove("usageMetadata");
        for (key, value) in event.into_iter().filter(|(key, _)| !is_field_of_answer(key)) {
            messages.push(json!({key: value}));
        }
        let mut end = Map::new();
        if is_last {
            let flags = self.end();
            if !flags.is_empty() {
                end.insert("serverContent".to_owned(), flags.into());
            }
        }
        if let Some(Value::Object(usage)) = usage {
            end.insert("usageMetadata".to_owned(), renamed(usage, |(live, other)| (other, live)).into());
        }
        if !end.is_empty() {
            messages.push(end.into());
        }
        Ok(messages.iter().map(Value::to_string).collect())
    }

    fn write_content(&mut self, mut content: Map<String, Value>, messages: &mut Vec<Value>) {
        let parts = match content.remove("parts") {
            Some(Value::Array(parts)) => parts,
            _ => Vec::new(),
        };
        content.retain(|key, _| !is_field_of_answer(key));
        let (mut said, mut calls) = (Vec::new(), Vec::new());
        for part in parts {
            let Value::Object(mut part) = part else { continue };
            let is_aloud =
                part.get("partMetadata").and_then(|of| of.get("backstop")).is_some_and(|of| of == ALOUD);
            if let Some(call) = part.remove("functionCall").or_else(|| part.remove("function_call")) {
                self.answer.has_told_calls = true;
                self.answer.told.extend(call_of(&call).and_then(|call| call.id));
                calls.push(call);
            } else if is_aloud {
                turn(&mut said, &mut content, messages);
                let text = part.remove("text").unwrap_or_default();
                messages.push(json!({"serverContent": {ALOUD: {"text": text}}}));
            } else if part.get("text").is_none_or(|text| text != "") || part.len() > 1 {
                said.push(part.into());
            }
        }
        turn(&mut said, &mut content, messages);
        // Behind what is said about those that are not among them.
        if !calls.is_empty() {
            messages.push(json!({"toolCall": {"functionCalls": calls}}));
        }
    }

    /// How the answer ends for the client. One that lost all its calls is over for it, though the provider waits.
    fn end(&mut self) -> Map<String, Value> {
        let mut flags = std::mem::take(&mut self.answer.flags);
        if !self.answer.has_told_calls && flags.get("turnComplete") != Some(&Value::Bool(true)) {
            flags.insert("generationComplete".to_owned(), true.into());
            flags.insert("turnComplete".to_owned(), true.into());
        }
        flags
    }
}

/// What a message says that nobody has to judge.
fn aside(frame: Frame) -> Option<String> {
    let mut message = Map::new();
    if !frame.flags.is_empty() {
        message.insert("serverContent".to_owned(), frame.flags.into());
    }
    if let Some(Value::Object(usage)) = frame.usage {
        message.insert("usageMetadata".to_owned(), renamed(usage, |(live, other)| (other, live)).into());
    }
    (!message.is_empty()).then(|| Value::Object(message).to_string())
}

fn turn(said: &mut Vec<Value>, content: &mut Map<String, Value>, messages: &mut Vec<Value>) {
    if said.is_empty() && content.keys().all(|key| key == "role") {
        return;
    }
    let mut turn = std::mem::take(content);
    turn.insert("parts".to_owned(), std::mem::take(said).into());
    turn.insert("role".to_owned(), "model".into());
    messages.push(json!({"serverContent": {"modelTurn": turn}}));
}

fn call_of(call: &Value) -> Option<Call> {
    let text = |key: &str| call.get(key).and_then(Value::as_str).map(str::to_owned);
    // More of a call that has begun has no name.
    Some(Call { id: text("id"), name: text("name").filter(|name| !name.is_empty())? })
}

/// What of somebody's speech was written. Its words one by one, and when they were said, say it a second time.
fn transcript(value: Value) -> Result<Option<String>, Unread> {
    match object(value)?.remove("text") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
        Some(_) => Err(Unread),
    }
}

/// What an answer cost, under the names that it has in a stream of Gemini.
fn usage(usage: Map<String, Value>) -> Result<Value, Unread> {
    let is_twofold = COUNTS.iter().any(|(_, other)| usage.contains_key(*other));
    let usage = plain(usage.into())?;
    if is_twofold { Err(Unread) } else { Ok(renamed(object(usage)?, |names| names).into()) }
}

/// The counts, each with a name of `names` under the other one.
fn renamed(
    mut counts: Map<String, Value>,
    names: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str),
) -> Map<String, Value> {
    for (from, to) in COUNTS.map(names) {
        if let Some(count) = counts.remove(from) {
            counts.insert(to.to_owned(), count);
        }
    }
    counts
}

fn resumption(value: Value) -> Result<String, Unread> {
    let fits = |(key, value): (&String, &Value)| match key.as_str() {
        "newHandle" => is_handle(value),
        "resumable" => value.is_boolean(),
        "lastConsumedClientMessageIndex" => is_plain(value),
        _ => false,
    };
    let is_one = value.as_object().is_some_and(|fields| fields.iter().all(fits));
    if is_one { Ok(json!({"sessionResumptionUpdate": value}).to_string()) } else { Err(Unread) }
}
