//! What a provider says on a WebSocket of OpenAI Realtime, as events of OpenAI Responses, and back.
//!
//! The two are one wire in most of their words. What is taken off a message here is written anew when the event leaves: names
//! of answers and of what is an object. All else stays in the event and is judged with it, under the tables of Responses; what
//! leaves is made of what was judged alone.

use std::collections::{BTreeMap, BTreeSet};

use backstop_llm::wire::{REALTIME_EVENTS, parse_json};
use serde_json::{Map, Value, json};

use super::sound::{self, About};
use super::{Talk, said};
use crate::server::sockets::dialect::Unread;
use crate::server::sockets::message::is_id;

/// Why an answer may end before it is whole.
const REASONS: [&str; 4] = ["turn_detected", "client_cancelled", "max_output_tokens", "content_filter"];

/// The answer under way, as both sides know it.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// Its name at the provider.
    id: Option<String>,
    /// Its name for the client.
    shown: Option<String>,
    /// The calls that the client knows of, by their items.
    calls: BTreeMap<String, String>,
    /// The texts that are transcripts of what is said aloud: their items, and their places in them.
    spoken: BTreeSet<(String, u64)>,
    /// In text, or aloud.
    modality: Option<&'static str>,
    is_under_way: bool,
    /// It is ended because somebody speaks.
    is_interrupted: bool,
    /// Something of it was said aloud to the client.
    pub(super) has_sounded: bool,
}

impl Answer {
    /// The provider is asked for it, or for nothing.
    pub(super) fn begins(&mut self, is_asked: bool, modality: &'static str) {
        (self.is_under_way, self.modality) = (is_asked, is_asked.then_some(modality));
    }

    fn is_spoken(&self, item: Option<&str>, place: Option<u64>) -> bool {
        item.zip(place).is_some_and(|(item, place)| self.spoken.contains(&(item.to_owned(), place)))
    }

    /// A text is a transcript.
    fn speaks(&mut self, item: Option<&str>, place: Option<u64>) {
        self.spoken.extend(item.map(str::to_owned).zip(place));
    }
}

/// What a provider said.
#[derive(Debug, Default)]
pub(in crate::server::sockets) struct Heard {
    /// For the client, at once: nobody can say anything in it.
    pub(in crate::server::sockets) aside: Vec<String>,
    /// For the provider, at once.
    pub(in crate::server::sockets) provider: Vec<String>,
    /// Of an answer, for those who judge.
    pub(in crate::server::sockets) event: Option<String>,
}

impl Heard {
    fn of(event: Value) -> Self {
        Self { event: Some(event.to_string()), ..Self::default() }
    }
}

fn text<'a>(fields: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    fields.get(key).and_then(Value::as_str)
}

fn put(fields: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    fields.insert(key.to_owned(), value.into());
}

/// Takes a field away if it is what it always is.
fn take(fields: &mut Map<String, Value>, key: &str, is_usual: impl FnOnce(&Value) -> bool) {
    if fields.get(key).is_some_and(is_usual) {
        fields.remove(key);
    }
}

impl Talk {
    /// Reads what a provider said: events of answers are those of Responses.
    pub(in crate::server::sockets) fn read(&mut self, message: &str) -> Result<Heard, Unread> {
        // What can't be read is for those who judge: nothing of it leaves.
        let Ok(Value::Object(mut event)) = parse_json(message.as_bytes()) else {
            return Ok(Heard { event: Some(message.to_owned()), ..Heard::default() });
        };
        let kind = text(&event, "type").unwrap_or_default().to_owned();
        take(&mut event, "event_id", is_id);
        if kind == "error" {
            return Ok(self.read_error(event));
        }
        if !kind.starts_with("response.") {
            if self.media
                && let Some(heard) = self.overhear(&kind, &event)?
            {
                return Ok(heard);
            }
            let is_known = REALTIME_EVENTS.class(&kind).is_some();
            return Ok(if is_known { Heard::default() } else { Heard::of(event.into()) });
        }
        if kind == "response.created" {
            let id = event.get("response").and_then(|response| response.get("id"));
            self.answer.id = id.and_then(Value::as_str).map(str::to_owned);
        }
        // An event of another answer keeps its name, and is judged as something that nobody knows.
        let own = self.answer.id.clone();
        take(&mut event, "response_id", |id| own.is_some() && id.as_str() == own.as_deref());
        if self.media && !event.contains_key("response_id") && kind.starts_with("response.output_audio.") {
            return Ok(sound::piece(&kind, &event)?.map(Heard::of).unwrap_or_default());
        }
        // As such sound goes by, and nothing else.
        if kind == sound::PIECE {
            return Err(Unread);
        }
        self.read_answer(&kind, &mut event);
        Ok(Heard::of(event.into()))
    }

    fn read_error(&mut self, mut event: Map<String, Value>) -> Heard {
        let of = event.get("error").and_then(|error| error.get("event_id")).and_then(Value::as_str);
        let of = of.map(str::to_owned);
        let about = About::of(of.as_deref().unwrap_or_default(), self.media);
        let is_session = matches!(about, About::Session);
        match about {
            About::Ours => return Heard::default(),
            About::Sound(name) => {
                let told = self.named_event(sound::error(&event, name));
                return Heard { aside: vec![told], ..Heard::default() };
            }
            About::Commit(name) => {
                self.ear.not_committed();
                let told = self.named_event(sound::error(&event, name));
                return Heard { aside: vec![told], ..Heard::default() };
            }
            About::Session | About::Other => {}
        }
        self.request.is_refused = of.as_deref() == Some(self.request.event.as_str());
        if self.request.is_refused
            && self.request.is_ours
            && let Some(Value::Object(error)) = event.get_mut("error")
        {
            put(error, "event_id", Value::Null);
        }
        // Between answers it ends the session, and the client is to know why.
        let is_told = is_session && !self.answer.is_under_way;
        let aside = is_told.then(|| sound::error(&event, None)).map(|told| self.named_event(told));
        // Whichever way it goes, it tells nothing else.
        let event = if is_session { sound::error(&event, None) } else { event.into() };
        Heard { aside: aside.into_iter().collect(), ..Heard::of(event) }
    }

    /// Hears what the provider says of what it hears; `None` if it is no such thing.
    fn overhear(&mut self, kind: &str, event: &Map<String, Value>) -> Result<Option<Heard>, Unread> {
        let mut heard = Heard::default();
        if let Some(what) = kind.strip_prefix("conversation.item.input_audio_transcription.") {
            // Pieces say before what is said again in the whole.
            if matches!(what, "completed" | "failed")
                && let Some(told) = self.ear.written(event, self.most)?
            {
                heard.aside.push(self.named_event(told));
            }
            return Ok(matches!(what, "completed" | "failed" | "delta" | "segment").then_some(heard));
        }
        let Some(mut told) = sound::aside(kind, event)? else { return Ok(None) };
        let id = text(event, "item_id").unwrap_or_default();
        match kind {
            "input_audio_buffer.speech_started" => {
                self.ear.speaks(true);
                let answer = &mut self.answer;
                if answer.is_under_way && !answer.is_interrupted && self.tuning.interrupts() {
                    answer.is_interrupted = true;
                    heard.provider.push(said::cancel());
                }
            }
            "input_audio_buffer.speech_stopped" | "input_audio_buffer.cleared" => self.ear.speaks(false),
            "input_audio_buffer.committed" => {
                self.ear.committed(id, self.tuning.is_transcribed(), self.tuning.answers())?;
                put_in(&mut told, "previous_item_id", self.last.clone());
            }
            _ => {}
        }
        heard.aside.push(self.named_event(told));
        if kind == "input_audio_buffer.committed" {
            let content = json!([{"type": "input_audio", "transcript": null}]);
            let item = json!({"id": id, "type": "message", "role": "user", "content": content});
            if let Value::Object(item) = item {
                heard.aside.extend(self.added(id, item));
            }
        }
        Ok(Some(heard))
    }

    fn read_answer(&mut self, kind: &str, event: &mut Map<String, Value>) {
        if let Some(Value::Object(item)) = event.get_mut("item") {
            self.read_item(item);
        }
        let place = event.get("content_index").and_then(Value::as_u64);
        match kind {
            "response.done" => {
                let Some(Value::Object(response)) = event.get_mut("response") else { return };
                let end = read_end(response, self.answer.is_interrupted);
                self.read_response(response);
                put(event, "type", end);
            }
            "response.created" => {
                if let Some(Value::Object(response)) = event.get_mut("response") {
                    self.read_response(response);
                }
            }
            "response.content_part.added" | "response.content_part.done" => {
                let item = text(event, "item_id").map(str::to_owned);
                let Some(Value::Object(part)) = event.get_mut("part") else { return };
                if self.media && matches!(text(part, "type"), Some("audio" | "output_audio")) {
                    self.answer.speaks(item.as_deref(), place);
                    read_spoken(part);
                } else if text(part, "type") == Some("text") {
                    put(part, "type", "output_text");
                    put(part, "annotations", json!([]));
                }
            }
            "response.output_audio_transcript.delta" | "response.output_audio_transcript.done"
                if self.media =>
            {
                self.answer.speaks(text(event, "item_id"), place);
                let end = kind.strip_prefix("response.output_audio_transcript").unwrap_or_default();
                put(event, "type", format!("response.output_text{end}"));
                if let Some(transcript) = event.remove("transcript") {
                    put(event, "text", transcript);
                }
            }
            "response.function_call_arguments.delta" | "response.function_call_arguments.done" => {
                // It is written again as the item has it.
                event.remove("call_id");
            }
            _ if kind.starts_with("response.output_audio") => put(event, "type", "response.audio.delta"),
            _ => {}
        }
    }

    fn read_item(&mut self, item: &mut Map<String, Value>) {
        take(item, "object", |object| object == "realtime.item");
        let id = text(item, "id").map(str::to_owned);
        let parts = item.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten();
        for (place, part) in parts.enumerate() {
            let Value::Object(part) = part else { continue };
            match text(part, "type") {
                Some("output_audio") if self.media => {
                    self.answer.speaks(id.as_deref(), Some(place as u64));
                    read_spoken(part);
                }
                Some("output_text") => {
                    part.entry("annotations").or_insert_with(|| json!([]));
                }
                _ => {}
            }
        }
    }

    /// What an answer has here and not in Responses.
    fn read_response(&mut self, response: &mut Map<String, Value>) {
        for key in ["object", "conversation_id", "output_modalities", "audio", "status_details"] {
            response.remove(key);
        }
        take(response, "max_output_tokens", |most| *most == "inf");
        put(response, "model", self.model.as_str());
        for item in response.get_mut("output").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Value::Object(item) = item {
                self.read_item(item);
            }
        }
        if let Some(Value::Object(usage)) = response.get_mut("usage") {
            let details = |usage: &Map<String, Value>, key: &str| {
                usage.get(key).and_then(|details| details.get("cached_tokens")).and_then(Value::as_u64)
            };
            let cached = details(usage, "input_token_details").unwrap_or_default();
            usage.remove("input_token_details");
            usage.remove("output_token_details");
            put(usage, "input_tokens_details", json!({"cached_tokens": cached}));
            put(usage, "output_tokens_details", json!({"reasoning_tokens": 0}));
        }
    }

    /// An event of Responses as messages of Realtime.
    pub(in crate::server::sockets) fn write(&mut self, event: &str) -> Vec<String> {
        let Ok(Value::Object(mut event)) = parse_json(event.as_bytes()) else {
            return vec![event.to_owned()];
        };
        let kind = text(&event, "type").unwrap_or_default().to_owned();
        put(&mut event, "event_id", self.next_event());
        event.remove("sequence_number");
        take(&mut event, "logprobs", |probabilities| *probabilities == json!([]));
        let place = event.get("content_index").and_then(Value::as_u64);
        let mut also = None;
        match kind.as_str() {
            "response.queued" | "response.in_progress" => return Vec::new(),
            "response.created" | "response.completed" | "response.incomplete" | "response.failed" => {
                let Some(Value::Object(response)) = event.get_mut("response") else { return Vec::new() };
                if kind == "response.created" {
                    self.answer.shown = text(response, "id").map(str::to_owned);
                } else {
                    put(response, "id", self.answer.shown.clone());
                }
                self.write_response(response, &kind);
                put(&mut event, "type", if kind == "response.created" { &kind } else { "response.done" });
            }
            "response.output_item.added" | "response.output_item.done" => {
                if let Some(Value::Object(item)) = event.get_mut("item") {
                    self.write_item(item);
                    if let (Some(id), Some(call)) = (text(item, "id"), text(item, "call_id")) {
                        self.answer.calls.insert(id.to_owned(), call.to_owned());
                    }
                    let kind = if kind.ends_with("added") { "added" } else { "done" };
                    also = Some((format!("conversation.item.{kind}"), item.clone()));
                }
            }
            "response.content_part.added" | "response.content_part.done" => {
                let is_spoken = self.answer.is_spoken(text(&event, "item_id"), place);
                if let Some(Value::Object(part)) = event.get_mut("part") {
                    write_part(part);
                    if is_spoken {
                        write_spoken(part, "audio");
                    }
                    take(part, "type", |kind| kind == "output_text");
                    part.entry("type").or_insert_with(|| "text".into());
                }
            }
            "response.output_text.delta" | "response.output_text.done"
                if self.answer.is_spoken(text(&event, "item_id"), place) =>
            {
                let end = kind.strip_prefix("response.output_text").unwrap_or_default();
                write_spoken(&mut event, &format!("response.output_audio_transcript{end}"));
            }
            sound::PIECE if self.media => {
                sound::of_piece(&mut event);
                self.answer.has_sounded |= event.contains_key("delta");
            }
            "response.function_call_arguments.delta" | "response.function_call_arguments.done" => {
                let call = text(&event, "item_id").and_then(|item| self.answer.calls.get(item)).cloned();
                if let Some(call) = call {
                    put(&mut event, "call_id", call);
                }
            }
            _ => {}
        }
        if kind.starts_with("response.") && !event.contains_key("response") {
            put(&mut event, "response_id", self.answer.shown.clone());
        }
        let mut messages = vec![Value::Object(event).to_string()];
        if let Some((kind, item)) = also {
            let previous = if kind.ends_with("added") { self.last.take() } else { None };
            let id = text(&item, "id").map(str::to_owned);
            messages
                .push(self.named_event(json!({"type": kind, "previous_item_id": previous, "item": item})));
            self.last = id;
        }
        messages
    }

    fn write_item(&self, item: &mut Map<String, Value>) {
        put(item, "object", "realtime.item");
        let id = text(item, "id").map(str::to_owned);
        let parts = item.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten();
        for (place, part) in parts.enumerate() {
            let Value::Object(part) = part else { continue };
            write_part(part);
            if self.answer.is_spoken(id.as_deref(), Some(place as u64)) {
                write_spoken(part, "output_audio");
            }
        }
    }

    /// An answer as Realtime has it, made of what was judged.
    fn write_response(&self, response: &mut Map<String, Value>, kind: &str) {
        let mut output = response.remove("output").unwrap_or_else(|| json!([]));
        for item in output.as_array_mut().into_iter().flatten() {
            if let Value::Object(item) = item {
                self.write_item(item);
            }
        }
        let reason = response.get("incomplete_details").and_then(|details| details.get("reason")).cloned();
        let was_cancelled =
            matches!(reason.as_ref().and_then(Value::as_str), Some("turn_detected" | "client_cancelled"));
        let status = match kind {
            "response.created" => "in_progress",
            "response.completed" => "completed",
            "response.incomplete" if was_cancelled => "cancelled",
            "response.incomplete" => "incomplete",
            _ => "failed",
        };
        let details = match kind {
            "response.incomplete" => json!({"type": status, "reason": reason}),
            "response.failed" => json!({"type": status, "error": response.get("error")}),
            _ => Value::Null,
        };
        let number =
            |key: &str| response.get("usage").and_then(|usage| usage.get(key)).and_then(Value::as_u64);
        let cached = response.get("usage").and_then(|usage| usage.get("input_tokens_details"));
        let cached = cached.and_then(|details| details.get("cached_tokens")).and_then(Value::as_u64);
        let usage = number("total_tokens").map_or(Value::Null, |total| {
            json!({
                "total_tokens": total,
                "input_tokens": number("input_tokens"),
                "output_tokens": number("output_tokens"),
                "input_token_details": {"cached_tokens": cached.unwrap_or_default()},
                "output_token_details": {},
            })
        });
        let written = json!({
            "object": "realtime.response",
            "id": response.get("id"),
            "status": status,
            "status_details": details,
            "output": output,
            "output_modalities": [self.answer.modality.unwrap_or(self.modality())],
            "usage": usage,
            "metadata": response.get("metadata"),
        });
        if let Value::Object(written) = written {
            *response = written;
        }
    }
}

fn put_in(message: &mut Value, key: &str, value: Option<String>) {
    if let Value::Object(message) = message {
        message.insert(key.to_owned(), value.into());
    }
}

/// The transcript of what is said aloud, as the text that it is.
fn read_spoken(part: &mut Map<String, Value>) {
    let transcript = part.remove("transcript").filter(|text| !text.is_null());
    put(part, "type", "output_text");
    put(part, "text", transcript.unwrap_or_else(|| "".into()));
    put(part, "annotations", json!([]));
}

/// How an answer ended: the event of Responses that says so. One that was interrupted ended as its client wished.
fn read_end(response: &mut Map<String, Value>, is_interrupted: bool) -> &'static str {
    let details = response.get("status_details");
    let reason = details.and_then(|details| details.get("reason")).and_then(Value::as_str);
    let reason = reason.filter(|reason| REASONS.contains(reason)).unwrap_or("unknown");
    let reason = if is_interrupted && reason == "client_cancelled" { "turn_detected" } else { reason };
    match text(response, "status") {
        Some("completed") => "response.completed",
        Some("cancelled" | "incomplete") => {
            let reason = reason.to_owned();
            put(response, "status", "incomplete");
            put(response, "incomplete_details", json!({"reason": reason}));
            "response.incomplete"
        }
        _ => {
            let error = details.and_then(|details| details.get("error")).cloned();
            put(response, "error", error.unwrap_or_else(|| json!({"code": "server_error", "message": ""})));
            put(response, "status", "failed");
            "response.failed"
        }
    }
}

fn write_part(part: &mut Map<String, Value>) {
    take(part, "annotations", |annotations| *annotations == json!([]));
    take(part, "logprobs", |probabilities| *probabilities == json!([]));
}

/// A text as the transcript of what is said aloud.
fn write_spoken(part: &mut Map<String, Value>, kind: &str) {
    if let Some(transcript) = part.remove("text") {
        put(part, "transcript", transcript);
    }
    put(part, "type", kind);
}
