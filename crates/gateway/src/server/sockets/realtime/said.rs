//! What clients say on a WebSocket of OpenAI Realtime, by a closed list, and what a provider is told in its place.
//!
//! A session and the items of a conversation are kept here until an answer is asked for. Then they are one request, as OpenAI
//! Responses has it: that is what those who judge see, and what a provider is told is made of what they leave of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use backstop_llm::wire::{REALTIME_ITEMS, TypeClass, parse_json, parse_request};
use serde_json::{Map, Value, json};

use super::sound::{Passing, Tuning, is_sound};
use super::{ASIDE, Held, named};
use crate::error::Failure;
use crate::server::sockets::message::{is_id, shown};

/// A field that something may have, and what it has to be.
pub(super) type Field = (&'static str, fn(&Value) -> bool);
/// Sounds, by the items that they stand in.
pub(super) type Sounds = BTreeMap<String, Vec<Arc<str>>>;

/// What a session or a request for an answer sets, and the request of Responses has under the same name.
const CONFIGURED: [&str; 8] = [
    "instructions",
    "max_output_tokens",
    "metadata",
    "parallel_tool_calls",
    "prompt",
    "reasoning",
    "tool_choice",
    "tools",
];
/// What stands besides in a request of Responses, and means nothing here.
const OF_REQUEST: [&str; 5] = ["model", "conversation", "stream", "input", TRANSCRIBED];
/// Under which name the model stands in a request that writes down what is heard: lists of models hold for it, too.
pub(super) const TRANSCRIBED: &str = "stream_options";

/// The type of a part that is sound of the user.
const HEARD: &str = "input_audio";

const MESSAGE: [Field; 3] =
    [("type", Value::is_string), ("role", Value::is_string), ("content", Value::is_array)];
const TEXT: [Field; 2] = [("type", Value::is_string), ("text", Value::is_string)];
const PICTURE: [Field; 3] = [("type", Value::is_string), ("image_url", Value::is_string), ("detail", is_id)];
const SOUND: [Field; 2] = [("type", Value::is_string), ("audio", is_sound)];
const CALL: [Field; 4] = [
    ("type", Value::is_string),
    ("call_id", Value::is_string),
    ("name", Value::is_string),
    ("arguments", Value::is_string),
];
/// What a call came to is a text here: what is written as one after it was judged would be another than what was judged.
const OUTPUT: [Field; 3] =
    [("type", Value::is_string), ("call_id", Value::is_string), ("output", Value::is_string)];
const APPROVAL: [Field; 4] = [
    ("type", Value::is_string),
    ("approval_request_id", Value::is_string),
    ("approve", Value::is_boolean),
    ("reason", Value::is_string),
];

/// What a client said. Fields are the text of a JSON object: they may wait for long, and parsed they would take many times the
/// bytes that count them.
#[derive(Debug)]
pub(in crate::server::sockets) enum Utterance {
    /// The session is to be another.
    Configure { model: Option<String>, fields: String, tuning: Box<Tuning> },
    /// There is more of the conversation. Its name is among the fields, too, and its sounds are not.
    Item { id: String, fields: String, sounds: Vec<Arc<str>> },
    /// There is less of it.
    Delete { id: String },
    /// An answer is asked for.
    Create { event: Option<String>, fields: String, tuning: Box<Tuning> },
    /// The answer under way is to end.
    Cancel,
    /// Sound, or what is about it.
    Pass(Passing),
    /// Nobody asks, and somebody has said something: it is to be judged, and answered where that is wished for.
    Due,
}

impl Utterance {
    /// The bytes of what is kept of it.
    pub(in crate::server::sockets) fn len(&self) -> usize {
        match self {
            Self::Configure { fields, .. } | Self::Create { fields, .. } => fields.len(),
            Self::Item { fields, sounds, .. } => {
                fields.len() + sounds.iter().map(|sound| sound.len()).sum::<usize>()
            }
            Self::Delete { id } => id.len(),
            Self::Pass(passing) => passing.message.len(),
            Self::Cancel | Self::Due => 0,
        }
    }
}

pub(super) fn refused(why: impl Into<String>) -> Failure {
    Failure::Message(why.into())
}

/// Refuses fields that are in no list, and those that are not what the list says.
pub(super) fn only(whose: &str, fields: &Map<String, Value>, known: &[Field]) -> Result<(), Failure> {
    for (key, value) in fields {
        match known.iter().find(|(name, _)| name == key) {
            Some((_, fits)) if fits(value) => {}
            Some((name, _)) => {
                return Err(refused(format!("`{name}` of {whose} is of a kind that does not pass here")));
            }
            None => return Err(refused(format!("{whose} has no field {} here", shown(key)))),
        }
    }
    Ok(())
}

/// Reads what a client said. Text that two readers could understand in two ways is refused, and without `media` sound.
pub(super) fn hear(text: &str, media: bool) -> Result<Utterance, Failure> {
    let value = parse_request(text.as_bytes())
        .map_err(|error| refused(format!("the message can't be read: {error}")))?;
    let Value::Object(mut message) = value else { return Err(refused("the message is no JSON object")) };
    let kind = message.remove("type").and_then(|kind| kind.as_str().map(str::to_owned)).unwrap_or_default();
    let event = message.remove("event_id").filter(|id| !id.is_null());
    if event.as_ref().is_some_and(|id| !is_id(id)) {
        return Err(refused("`event_id` is no name of at most 64 letters, digits, `_` and `-`"));
    }
    let event = event.and_then(|id| id.as_str().map(str::to_owned));
    // Errors about what is named so are told nobody.
    if event.as_ref().is_some_and(|id| id.starts_with(ASIDE)) {
        return Err(refused(format!("`event_id` begins with `{ASIDE}`, as names of the proxy do")));
    }
    let mut object = |field: &str| match message.remove(field) {
        Some(Value::Object(fields)) => Ok(fields),
        None if field == "response" => Ok(Map::new()),
        _ => Err(refused(format!("`{field}` is no object"))),
    };
    let said = match kind.as_str() {
        "session.update" => {
            let mut fields = object("session")?;
            if fields.remove("type").is_none_or(|kind| kind != "realtime") {
                return Err(refused("`session.type` is not `realtime`"));
            }
            let model = fields.remove("model").and_then(|model| model.as_str().map(str::to_owned));
            let (fields, tuning) = configuration(fields, false, media)?;
            Utterance::Configure { model, fields, tuning }
        }
        "conversation.item.create" => {
            let (id, fields, sounds) = item(object("item")?, media)?;
            // What is judged comes behind what was judged.
            if message.remove("previous_item_id").is_some_and(|id| !id.is_null()) {
                return Err(refused("items come in their order: leave `previous_item_id` out"));
            }
            Utterance::Item { id, fields, sounds }
        }
        "conversation.item.delete" => {
            let id = message.remove("item_id").filter(is_id);
            let id = id.and_then(|id| id.as_str().map(str::to_owned));
            Utterance::Delete { id: id.ok_or_else(|| refused("`item_id` is no name"))? }
        }
        "response.create" => {
            let (fields, tuning) = configuration(object("response")?, true, media)?;
            Utterance::Create { event, fields, tuning }
        }
        "response.cancel" => {
            message.remove("response_id");
            Utterance::Cancel
        }
        kind => match Passing::read(kind, event.as_deref(), &mut message)?.filter(|_| media) {
            Some(passing) => Utterance::Pass(passing),
            None => {
                let sound =
                    if media { "" } else { ", with text and without sound (`gateway.hooks.unjudged_media`)" };
                return Err(refused(format!(
                    "a message of the type {} does not pass here\nhint: `session.update`, `conversation.item.create`, `conversation.item.delete`, `response.create` and `response.cancel` do{sound}",
                    shown(kind)
                )));
            }
        },
    };
    match message.keys().next() {
        None => Ok(said),
        Some(field) => Err(refused(format!("`{kind}` has no field {} here", shown(field)))),
    }
}

/// The settings of a session, or of one answer, and how it sounds.
fn configuration(
    fields: Map<String, Value>,
    is_answer: bool,
    media: bool,
) -> Result<(String, Box<Tuning>), Failure> {
    let (mut kept, mut tuning) = (Map::new(), Box::<Tuning>::default());
    for (key, value) in fields {
        match key.as_str() {
            _ if value.is_null() => {}
            "output_modalities" if media => tuning.modalities(&value)?,
            "output_modalities" if value == json!(["text"]) => {}
            "output_modalities" => {
                return Err(refused(
                    "sound does not pass here, since nobody could judge it\nhint: `\"output_modalities\": [\"text\"]`, or `gateway.hooks.unjudged_media: pass`",
                ));
            }
            "audio" if media => tuning.audio(value, is_answer)?,
            // How sound would be is of no concern to text.
            "audio" => {}
            "conversation" if is_answer && value == "auto" => {}
            "metadata" if !is_answer => return Err(refused("`session` has no field \"metadata\" here")),
            "max_output_tokens" if value != "inf" && !value.is_u64() => {
                return Err(refused("`max_output_tokens` is neither a number nor \"inf\""));
            }
            key if CONFIGURED.contains(&key) => {
                kept.insert(key.to_owned(), value);
            }
            key => {
                let whose = if is_answer { "response" } else { "session" };
                return Err(refused(format!("`{whose}` has no field {} here", shown(key))));
            }
        }
    }
    Ok((Value::Object(kept).to_string(), tuning))
}

/// An item as an input of Responses, its name and its sounds.
fn item(mut fields: Map<String, Value>, media: bool) -> Result<(String, String, Vec<Arc<str>>), Failure> {
    fields.retain(|_, value| !value.is_null());
    let id = match fields.remove("id") {
        Some(id) => id.as_str().filter(|_| is_id(&id)).map(str::to_owned),
        None => Some(named("item")),
    };
    let id = id.ok_or_else(|| refused("`item.id` is no name of at most 64 letters, digits, `_` and `-`"))?;
    fields.remove("object");
    fields.remove("status");
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    // What the provider does by itself no client says.
    let class = REALTIME_ITEMS.class(&kind).filter(|class| *class != TypeClass::Ran);
    let known: &[Field] = match (class, kind.as_str()) {
        (Some(_), "message") => &MESSAGE,
        (Some(_), "function_call") => &CALL,
        (Some(_), "function_call_output") => &OUTPUT,
        (Some(_), "mcp_approval_response") => &APPROVAL,
        _ => return Err(refused(format!("an item of the type {} does not pass here", shown(&kind)))),
    };
    only(&format!("an item of the type `{kind}`"), &fields, known)?;
    let mut sounds = Vec::new();
    if kind == "message" {
        if media {
            sounds = without_sounds(&mut fields)?;
        }
        parts(&fields, media)?;
    }
    fields.insert("id".to_owned(), id.as_str().into());
    Ok((id, Value::Object(fields).to_string(), sounds))
}

/// Takes the sounds out of a message of the user: the parts that they stood in stay, and say that there is one.
fn without_sounds(message: &mut Map<String, Value>) -> Result<Vec<Arc<str>>, Failure> {
    let is_user = message.get("role").is_some_and(|role| role == "user");
    let mut sounds = Vec::new();
    for part in message.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(part) =
            part.as_object_mut().filter(|part| is_user && part.get("type").is_some_and(|of| of == HEARD))
        else {
            continue;
        };
        part.retain(|_, value| !value.is_null());
        only("a part of a message", part, &SOUND)?;
        match part.remove("audio") {
            Some(Value::String(sound)) => sounds.push(sound.into()),
            _ => return Err(refused("a part `input_audio` has no `audio`")),
        }
    }
    Ok(sounds)
}

/// Refuses a message with parts that are neither texts nor pictures, or that its author does not have.
fn parts(message: &Map<String, Value>, media: bool) -> Result<(), Failure> {
    let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
    let parts = message.get("content").and_then(Value::as_array);
    let known = |part: &Map<String, Value>| -> Option<&'static [Field]> {
        match (part.get("type")?.as_str()?, role) {
            ("input_text", "user" | "system") | ("output_text", "assistant") => Some(&TEXT),
            ("input_image", "user" | "system") => Some(&PICTURE),
            (HEARD, "user") if media => Some(&SOUND),
            _ => None,
        }
    };
    let no_text = || refused("of a message, texts and pictures of the user and texts of others pass here");
    if !matches!(role, "user" | "system" | "assistant") {
        return Err(no_text());
    }
    for part in parts.ok_or_else(no_text)? {
        let part = part.as_object().ok_or_else(no_text)?;
        only("a part of a message", part, known(part).ok_or_else(no_text)?)?;
    }
    Ok(())
}

/// What a request has besides its body.
#[derive(Clone, Debug, Default)]
pub(in crate::server::sockets) struct Envelope {
    /// Its name, if it asks for an answer. Errors about it have that with them.
    pub(super) event: Option<String>,
    /// As much as the model has to say.
    pub(super) is_endless: bool,
    /// In text, or aloud.
    pub(super) modality: &'static str,
    /// How the answer sounds, if not as all do.
    pub(super) audio: Option<Value>,
    /// The message that tells the provider of the session, where that has not heard of it.
    pub(super) session: Option<String>,
    /// What the provider has heard already.
    pub(super) held: Arc<Vec<Held>>,
    pub(super) sounds: Arc<Sounds>,
}

impl Envelope {
    /// Whether an answer is asked for.
    pub(in crate::server::sockets) fn asks(&self) -> bool {
        self.event.is_some()
    }

    /// The messages that a request is for a provider; `None` if it has something that none could be made of.
    pub(in crate::server::sockets) fn with(&self, body: &[u8]) -> Option<Vec<String>> {
        let (input, rest) = split(body)?;
        let (held, input) = self.part(input);
        // The provider has heard it as it was, and has to hear all sounds.
        let are_same = held.len() == self.held.len()
            && held.iter().zip(self.held.iter()).all(|(item, held)| held.is(item));
        let said = |id: &str| input.iter().any(|item| item.get("id").is_some_and(|of| of == id));
        if !are_same || !self.sounds.keys().all(|id| said(id)) {
            return None;
        }
        let mut messages: Vec<String> = self.session.iter().cloned().collect();
        if self.asks() {
            messages.extend(self.ask(input, rest)?);
        }
        Some(messages)
    }

    /// The messages by which the model goes on after its calls were refused.
    pub(in crate::server::sockets) fn again(&self, body: &[u8]) -> Option<Vec<String>> {
        let (input, rest) = split(body)?;
        let (_, input) = self.part(input);
        self.ask(input, rest)
    }

    /// What of an input the provider has heard already, and the rest.
    fn part(&self, input: Vec<Value>) -> (Vec<Value>, Vec<Value>) {
        let is_held = |item: &Value| {
            let id = item.get("id").and_then(Value::as_str);
            id.is_some_and(|id| self.held.iter().any(|held| held.id == id))
        };
        input.into_iter().partition(is_held)
    }

    fn ask(&self, input: Vec<Value>, body: Map<String, Value>) -> Option<Vec<String>> {
        let mut messages = Vec::new();
        for item in input {
            let item = as_item(item, &self.sounds)?;
            messages.push(json!({"type": "conversation.item.create", "item": item}).to_string());
        }
        let mut response = Map::from_iter([("output_modalities".to_owned(), json!([self.modality]))]);
        response.extend(self.audio.iter().map(|audio| ("audio".to_owned(), audio.clone())));
        for (key, value) in body {
            if CONFIGURED.contains(&key.as_str()) {
                response.insert(key, value);
            } else if !OF_REQUEST.contains(&key.as_str()) {
                return None;
            }
        }
        if self.is_endless {
            response.insert("max_output_tokens".to_owned(), "inf".into());
        }
        let create = json!({"type": "response.create", "event_id": self.event, "response": response});
        messages.push(create.to_string());
        Some(messages)
    }
}

/// The input of a request, and what else is in it.
fn split(body: &[u8]) -> Option<(Vec<Value>, Map<String, Value>)> {
    let Ok(Value::Object(mut body)) = parse_json(body) else { return None };
    match body.remove("input") {
        Some(Value::Array(items)) => Some((items, body)),
        None => Some((Vec::new(), body)),
        Some(_) => None,
    }
}

/// An item as a provider of Realtime reads it, with the sounds that belong into it.
fn as_item(item: Value, sounds: &Sounds) -> Option<Value> {
    let Value::Object(mut item) = item else { return None };
    let kind = item.get("type").and_then(Value::as_str).unwrap_or("message").to_owned();
    let own = item.get("id").and_then(Value::as_str).and_then(|id| sounds.get(id));
    let mut own = own.into_iter().flatten();
    match kind.as_str() {
        "message" => {
            item.insert("type".to_owned(), "message".into());
            if item.get("role")?.as_str()? == "developer" {
                item.insert("role".to_owned(), "system".into());
            }
            let usual = if item.get("role")?.as_str()? == "assistant" { "output_text" } else { "input_text" };
            if let Some(Value::String(text)) = item.get("content") {
                let content = json!([{"type": usual, "text": text}]);
                item.insert("content".to_owned(), content);
            }
            for part in item.get_mut("content")?.as_array_mut()? {
                let part = part.as_object_mut()?;
                // What quotes a text stands beside it in answers only.
                part.remove("annotations");
                part.remove("logprobs");
                match part.get("type")?.as_str()? {
                    "input_text" | "input_image" | "output_text" => {}
                    HEARD if part.len() == 1 => {
                        part.insert("audio".to_owned(), own.next()?.as_ref().into());
                    }
                    _ => return None,
                }
            }
        }
        "function_call_output" if !item.get("output")?.is_string() => return None,
        "function_call" | "function_call_output" | "mcp_approval_response" => {}
        _ => return None,
    }
    // A sound that has no place any more would be a message without what was said.
    own.next().is_none().then(|| item.into())
}

/// The message that ends the answer under way. What is said to it concerns nobody.
pub(super) fn cancel() -> String {
    json!({"type": "response.cancel", "event_id": format!("{ASIDE}cancel")}).to_string()
}

/// The message that takes an item away.
pub(super) fn delete(id: &str) -> String {
    json!({"type": "conversation.item.delete", "event_id": format!("{ASIDE}delete"), "item_id": id})
        .to_string()
}
