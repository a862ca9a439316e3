//! What clients say on a WebSocket of Gemini Live, by a closed list, and what a provider is told in its place.

use std::sync::Arc;

use backstop_llm::wire::{LIVE_SETUPS, TypeClass, is_disguised, parse_json, parse_request};
use serde_json::{Map, Value, json};

use crate::error::Failure;
use crate::server::sockets::message::shown;

/// Longer names are no models, calls or handles.
const MAX_NAME_BYTES: usize = 128;
/// The longest handle of a session that a provider keeps.
const MAX_HANDLE_BYTES: usize = 2_048;
/// Settings have settings in them up to here.
const MAX_DEPTH: usize = 6;
/// Fields of a setup that belong to the request in which it is judged, where that has them, too.
const OF_REQUEST: [&str; 5] = ["generationConfig", "labels", "safetySettings", "systemInstruction", "tools"];

/// What a client said. What is kept is the text of JSON: parsed it would take many times the bytes that count it.
#[derive(Debug)]
pub(in crate::server::sockets) enum Saying {
    /// The session is set up.
    Setup(Box<Setup>),
    /// There is more of the conversation, and the model is to answer or not.
    Content { turns: Vec<String>, is_complete: bool },
    /// The human says something.
    Text(String),
    /// The human begins or ends to say something.
    Activity { begins: bool },
    /// What calls came to: a content, and the names of the calls.
    Results { content: String, calls: Vec<String> },
    /// Sound or pictures, as they came: nobody can judge them.
    Media(String),
    /// The provider speaks, and nobody had asked.
    Unasked,
}

impl Saying {
    /// The bytes of what is kept of it.
    pub(in crate::server::sockets) fn len(&self) -> usize {
        match self {
            Self::Setup(setup) => setup.len(),
            Self::Content { turns, .. } => turns.iter().map(String::len).sum(),
            Self::Text(text) | Self::Media(text) => text.len(),
            Self::Results { content, .. } => content.len(),
            Self::Activity { .. } | Self::Unasked => 0,
        }
    }
}

/// A session as its client sets it up.
#[derive(Debug)]
pub(in crate::server::sockets) struct Setup {
    /// The model, by its own name.
    pub(super) model: String,
    /// The fields that are judged, as the text of an object.
    pub(super) judged: String,
    /// The settings that hold nothing but numbers and words of the wire, as the text of an object.
    pub(super) plain: String,
}

impl Setup {
    pub(super) fn len(&self) -> usize {
        self.judged.len() + self.plain.len()
    }
}

fn refused(why: impl Into<String>) -> Failure {
    Failure::Message(why.into())
}

/// Whether a value is a name as providers give them, in which nobody can say anything.
pub(super) fn is_name(text: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

/// Whether a value is the handle of a session that the provider keeps.
pub(super) fn is_handle(value: &Value) -> bool {
    value.as_str().is_some_and(|text| {
        text.len() <= MAX_HANDLE_BYTES
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-+/=.:~".contains(&byte))
    })
}

/// Whether a value holds numbers, switches, words of the wire and spans of time, and nothing else.
pub(super) fn is_plain(value: &Value) -> bool {
    fn fits(value: &Value, depth: usize) -> bool {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => true,
            Value::String(word) => word.is_empty() || is_name(word),
            Value::Array(items) => depth > 0 && items.iter().all(|item| fits(item, depth - 1)),
            Value::Object(fields) => {
                depth > 0 && fields.iter().all(|(key, value)| is_name(key) && fits(value, depth - 1))
            }
        }
    }
    fits(value, MAX_DEPTH)
}

/// Reads what a client said. Text that two readers could understand in two ways is refused, and without `media` what nobody can
/// judge.
pub(super) fn hear(text: &str, media: bool) -> Result<Saying, Failure> {
    let value = parse_request(text.as_bytes())
        .map_err(|error| refused(format!("the message can't be read: {error}")))?;
    let Value::Object(message) = value else { return Err(refused("the message is no JSON object")) };
    let mut fields = message.into_iter();
    let (Some((kind, said)), None) = (fields.next(), fields.next()) else {
        return Err(refused("a message has one field, which says what it is"));
    };
    let Value::Object(said) = said else {
        return Err(refused(format!("{} is no object", shown(&kind))));
    };
    match kind.as_str() {
        // Google's SDK for Python spells these as the definition of the protocol does, which its servers take for the same.
        "setup" => setup(said, media).map(|setup| Saying::Setup(Box::new(setup))),
        "clientContent" | "client_content" => content(said),
        "realtimeInput" | "realtime_input" => realtime(said, media, text),
        "toolResponse" | "tool_response" => results(said),
        _ => Err(refused(format!(
            "a message with the field {} does not pass here\nhint: `setup`, `clientContent`, `realtimeInput` and `toolResponse` do",
            shown(&kind)
        ))),
    }
}

/// A field under its name or under the one that the definition of the protocol has for it.
fn either(fields: &mut Map<String, Value>, name: &str, other: &str) -> Result<Option<Value>, Failure> {
    match (fields.remove(name), fields.remove(other)) {
        (Some(_), Some(_)) => Err(refused(format!("`{name}` stands there twice, as `{other}` too"))),
        (one, two) => Ok(one.or(two)),
    }
}

/// The first field that is left.
fn no_other(whose: &str, fields: &Map<String, Value>) -> Result<(), Failure> {
    match fields.keys().next() {
        None => Ok(()),
        Some(field) => Err(refused(format!("`{whose}` has no field {} here", shown(field)))),
    }
}

fn setup(mut fields: Map<String, Value>, media: bool) -> Result<Setup, Failure> {
    let named = fields.remove("model");
    let model = named.as_ref().and_then(Value::as_str).and_then(model_of);
    let model = model.ok_or_else(|| {
        refused("`setup.model` names no model\nhint: `models/<name>`, or `projects/../publishers/google/models/<name>`")
    })?;
    let (mut judged, mut plain) = (Map::new(), Map::new());
    for (key, value) in fields {
        // What is spelled otherwise some servers take for the field, and others for nothing.
        if is_disguised(&LIVE_SETUPS, &key) || key == "contents" {
            return Err(refused(format!("`setup` has no field {} here", shown(&key))));
        }
        let is_known = LIVE_SETUPS.class(&key).is_some_and(|class| class == TypeClass::Inert);
        let is_own = is_known && !OF_REQUEST.contains(&key.as_str());
        let is_silent = match key.as_str() {
            "sessionResumption" => is_resumption(&value),
            _ => is_plain(&value),
        };
        // What says more is judged as a field that nobody knows.
        let side = if is_own && is_silent { &mut plain } else { &mut judged };
        side.insert(key, value);
    }
    let modes = judged.get("generationConfig").and_then(|config| config.get("responseModalities"));
    if !media && modes != Some(&json!(["TEXT"])) {
        return Err(refused(
            "sound does not pass here, since nobody could judge it\nhint: `\"responseModalities\": [\"TEXT\"]` in `setup.generationConfig`, or `gateway.hooks.unjudged_media: pass`",
        ));
    }
    Ok(Setup {
        model: model.to_owned(),
        judged: Value::Object(judged).to_string(),
        plain: Value::Object(plain).to_string(),
    })
}

/// The name of a model behind those of the places where it is.
fn model_of(named: &str) -> Option<&str> {
    let segments: Vec<&str> = named.split('/').collect();
    let model = match segments.as_slice() {
        [model]
        | ["models", model]
        | ["publishers", "google", "models", model]
        | ["projects", _, "locations", _, "publishers", "google", "models", model] => *model,
        _ => return None,
    };
    (is_name(model) && !model.bytes().all(|byte| byte == b'.')).then_some(model)
}

fn is_resumption(value: &Value) -> bool {
    value.as_object().is_some_and(|fields| {
        fields.iter().all(|(key, value)| match key.as_str() {
            "handle" => value.is_null() || is_handle(value),
            "transparent" => value.is_boolean() || value.is_null(),
            _ => false,
        })
    })
}

fn content(mut fields: Map<String, Value>) -> Result<Saying, Failure> {
    let turns = match fields.remove("turns") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(turns)) => turns,
        Some(_) => return Err(refused("`clientContent.turns` is no list")),
    };
    let is_complete = match either(&mut fields, "turnComplete", "turn_complete")? {
        None | Some(Value::Null) => false,
        Some(Value::Bool(is_complete)) => is_complete,
        Some(_) => return Err(refused("`clientContent.turnComplete` is neither true nor false")),
    };
    no_other("clientContent", &fields)?;
    if !turns.iter().all(Value::is_object) {
        return Err(refused("a turn of `clientContent` is no object"));
    }
    Ok(Saying::Content { turns: turns.iter().map(Value::to_string).collect(), is_complete })
}

fn realtime(mut fields: Map<String, Value>, media: bool, message: &str) -> Result<Saying, Failure> {
    const MEDIA: [&str; 4] = ["audio", "audioStreamEnd", "mediaChunks", "video"];
    fields.retain(|_, value| !value.is_null());
    let is_media = !fields.is_empty() && fields.keys().all(|key| MEDIA.contains(&key.as_str()));
    if is_media && media {
        return if fields.values().all(is_blob) {
            Ok(Saying::Media(message.to_owned()))
        } else {
            Err(refused(
                "sound and pictures of `realtimeInput` have a `mimeType` and `data`, and nothing else",
            ))
        };
    }
    let mut fields = fields.into_iter();
    match (fields.next(), fields.next()) {
        (Some((key, Value::String(text))), None) if key == "text" => Ok(Saying::Text(text)),
        (Some((key, Value::Object(nothing))), None)
            if matches!(key.as_str(), "activityStart" | "activityEnd") && nothing.is_empty() =>
        {
            Ok(Saying::Activity { begins: key == "activityStart" })
        }
        (Some((key, _)), None) if MEDIA.contains(&key.as_str()) => Err(refused(
            "sound and pictures do not pass here as they are made, since nobody could judge them\nhint: `gateway.hooks.unjudged_media: pass`",
        )),
        _ => Err(refused("a `realtimeInput` has one field here: `text`, `activityStart` or `activityEnd`")),
    }
}

/// Whether a value is sound, pictures, or their end, in which nothing is said in words.
fn is_blob(value: &Value) -> bool {
    match value {
        Value::Bool(_) => true,
        Value::Array(items) => items.iter().all(is_blob),
        Value::Object(fields) => fields.iter().all(|(key, value)| match (key.as_str(), value) {
            ("mimeType", Value::String(kind)) => is_media_type(kind),
            ("data", Value::String(data)) => {
                data.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=_-".contains(&byte))
            }
            _ => false,
        }),
        _ => false,
    }
}

fn is_media_type(kind: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-+.;= ".contains(&byte);
    let is_one = ["audio/", "video/", "image/"].iter().any(|of| kind.starts_with(of));
    is_one && kind.len() <= MAX_NAME_BYTES && kind.bytes().all(plain)
}

fn results(mut fields: Map<String, Value>) -> Result<Saying, Failure> {
    let Some(Value::Array(responses)) = either(&mut fields, "functionResponses", "function_responses")?
    else {
        return Err(refused("`toolResponse.functionResponses` is no list"));
    };
    no_other("toolResponse", &fields)?;
    if responses.is_empty() || !responses.iter().all(Value::is_object) {
        return Err(refused("`toolResponse.functionResponses` has something that is no object, or nothing"));
    }
    let calls = responses.iter().filter_map(|response| response.get("id")?.as_str());
    let calls = calls.map(str::to_owned).collect();
    Ok(Saying::Results { content: results_of(responses), calls })
}

/// What calls came to, as a content.
pub(super) fn results_of(responses: Vec<Value>) -> String {
    let parts: Vec<Value> =
        responses.into_iter().map(|response| json!({"functionResponse": response})).collect();
    json!({"role": "user", "parts": parts}).to_string()
}

/// A text of the human, as a content.
pub(super) fn text_of(text: &str) -> String {
    json!({"role": "user", "parts": [{"text": text}]}).to_string()
}

/// How a content of a request is told the provider.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Form {
    /// Among the turns of `clientContent`.
    Turn,
    /// As the text of `realtimeInput`.
    Text,
    /// As what calls came to.
    Results,
    /// The provider has it already, and so it can't be another.
    Held(Value),
}

/// How the model is told to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// The turn is complete.
    Complete,
    /// By what was said.
    Said,
    /// The human has said it.
    ActivityEnd,
    /// It has begun to, or is not to.
    Nothing,
}

/// What a request has besides its body.
#[derive(Clone, Debug)]
pub(in crate::server::sockets) struct Envelope {
    /// The settings of the session that no body has.
    pub(super) plain: Arc<Map<String, Value>>,
    /// The session as the provider was told of it.
    pub(super) sent: Option<Arc<Value>>,
    pub(super) forms: Vec<Form>,
    pub(super) ask: Ask,
    /// The human has begun to say it.
    pub(super) activity: bool,
}

impl Envelope {
    /// Whether an answer to it is under way already.
    pub(in crate::server::sockets) fn is_unasked(&self) -> bool {
        self.ask == Ask::Nothing
    }

    /// The messages that a request is for a provider; `None` if it has something that none could be made of.
    pub(in crate::server::sockets) fn with(&self, body: &[u8]) -> Option<Vec<String>> {
        let Ok(Value::Object(mut setup)) = parse_json(body) else { return None };
        let Some(Value::Array(contents)) = setup.remove("contents") else { return None };
        let mut messages = self.session(setup)?;
        let is_turns = self.forms.iter().all(|form| *form == Form::Turn);
        let forms = if is_turns { vec![Form::Turn; contents.len()] } else { self.forms.clone() };
        if forms.len() != contents.len() {
            return None;
        }
        if self.activity {
            messages.push(json!({"realtimeInput": {"activityStart": {}}}));
        }
        let (mut turns, mut results) = (Vec::new(), Vec::new());
        for (form, content) in forms.iter().zip(contents) {
            match form {
                Form::Turn => turns.push(content),
                Form::Results => results.extend(responses(&content)?),
                Form::Held(held) if *held == content => {}
                Form::Held(_) => return None,
                Form::Text => {
                    flush(&mut turns, false, &mut messages);
                    messages.push(said(content)?);
                }
            }
        }
        // In one message: a provider may go on with each.
        if !results.is_empty() {
            flush(&mut turns, false, &mut messages);
            messages.push(json!({"toolResponse": {"functionResponses": results}}));
        }
        match self.ask {
            Ask::Complete if turns.is_empty() => {
                messages.push(json!({"clientContent": {"turnComplete": true}}));
            }
            Ask::Complete => flush(&mut turns, true, &mut messages),
            Ask::Said | Ask::Nothing => flush(&mut turns, false, &mut messages),
            Ask::ActivityEnd => {
                flush(&mut turns, false, &mut messages);
                messages.push(json!({"realtimeInput": {"activityEnd": {}}}));
            }
        }
        Some(messages.iter().map(Value::to_string).collect())
    }

    /// The messages by which a model goes on after its calls were refused: what they came to stands last in the body. `sent` is
    /// the session as the provider was told of it.
    pub(in crate::server::sockets) fn again(&self, body: &[u8], sent: &Value) -> Option<Vec<String>> {
        let Ok(Value::Object(mut setup)) = parse_json(body) else { return None };
        let Some(Value::Array(contents)) = setup.remove("contents") else { return None };
        if self.whole(setup) != *sent {
            return None;
        }
        let results = responses(contents.last()?)?;
        Some(vec![json!({"toolResponse": {"functionResponses": results}}).to_string()])
    }

    /// What a body says of the session, and what stands in none.
    fn whole(&self, mut setup: Map<String, Value>) -> Value {
        setup.extend(self.plain.iter().map(|(key, value)| (key.clone(), value.clone())));
        setup.into()
    }

    /// The message that sets the session up, if the provider has not heard of it; `None` if it heard of another one.
    fn session(&self, setup: Map<String, Value>) -> Option<Vec<Value>> {
        let setup = self.whole(setup);
        match &self.sent {
            Some(sent) => (**sent == setup).then(Vec::new),
            None => Some(vec![json!({"setup": setup})]),
        }
    }
}

fn flush(turns: &mut Vec<Value>, is_complete: bool, messages: &mut Vec<Value>) {
    if !turns.is_empty() {
        let turns = std::mem::take(turns);
        messages.push(json!({"clientContent": {"turns": turns, "turnComplete": is_complete}}));
    }
}

/// A content of the human's as the text that it is.
fn said(mut content: Value) -> Option<Value> {
    let parts = content.get_mut("parts")?.as_array_mut()?;
    let [Value::Object(part)] = parts.as_mut_slice() else { return None };
    let text = part.remove("text").filter(|text| text.is_string() && part.is_empty())?;
    Some(json!({"realtimeInput": {"text": text}}))
}

/// A content as what calls came to.
fn responses(content: &Value) -> Option<Vec<Value>> {
    let responses = content.get("parts")?.as_array()?.iter().map(|part| {
        let part = part.as_object().filter(|part| part.len() == 1)?;
        part.get("functionResponse").cloned()
    });
    responses.collect::<Option<Vec<_>>>().filter(|responses| !responses.is_empty())
}
