//! Sound of a session of OpenAI Realtime, where it passes: how it is set, what clients send of it, and what a provider says of it.
//!
//! Nobody can judge sound, so nothing else may pass as such: settings are words, numbers and switches of a closed list, sound is
//! Base64, and what stands beside it is written anew here. A provider never begins an answer by itself, whatever the client wished:
//! it is told so, and the wish is the gateway's to follow.

use serde_json::{Map, Value, json};

use super::ASIDE;
use super::said::{Field, only, refused};
use crate::error::Failure;
use crate::server::sockets::dialect::Unread;
use crate::server::sockets::message::{is_id, shown};

/// What names of messages begin with that pass as they are made: errors about them are the client's.
const OF_SOUND: &str = "backstop_sound_";
/// The same of one that has the provider take what it heard for said.
const OF_COMMIT: &str = "backstop_commit_";
/// The event of Responses as which a piece of sound goes by those who judge: it holds Base64, and leaves in its place behind the text
/// that is held.
pub(super) const PIECE: &str = "response.image_generation_call.partial_image";
/// What a client reads of an error of the provider.
const NOT_TAKEN: &str =
    "backstop: the provider does not take this message, or what it says of the session's sound";
/// Longer names are no models, formats or voices.
const MAX_WORD_BYTES: usize = 128;
/// More languages are spoken in no session.
const MOST_LANGUAGES: usize = 32;

const FORMAT: [Field; 2] = [("type", is_word), ("rate", Value::is_u64)];
const NOISE: [Field; 2] = [("type", is_id), ("strength", Value::is_number)];
const TRANSCRIPTION: [Field; 4] =
    [("model", is_word), ("language", is_id), ("languages", are_languages), ("delay", is_id)];
const TURNS: [Field; 8] = [
    ("type", is_id),
    ("create_response", Value::is_boolean),
    ("interrupt_response", Value::is_boolean),
    ("idle_timeout_ms", Value::is_u64),
    ("prefix_padding_ms", Value::is_u64),
    ("silence_duration_ms", Value::is_u64),
    ("threshold", Value::is_number),
    ("eagerness", is_id),
];
const VOICE: [Field; 1] = [("id", is_id)];

/// Whether a value is a name in which nobody can say anything.
fn is_word(value: &Value) -> bool {
    let fits = |word: &str| {
        (1..=MAX_WORD_BYTES).contains(&word.len())
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./:".contains(&byte))
    };
    value.as_str().is_some_and(fits)
}

fn are_languages(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.len() <= MOST_LANGUAGES && items.iter().all(is_id))
}

/// Whether a value is Base64, which sound is.
pub(super) fn is_sound(value: &Value) -> bool {
    value.as_str().is_some_and(|text| {
        let letters = text.trim_end_matches('=');
        text.len() - letters.len() <= 2
            && letters.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte))
    })
}

/// How a session sounds, or one answer, as far as its client said.
#[derive(Clone, Debug, Default)]
pub(in crate::server::sockets) struct Tuning {
    /// In text, and not aloud.
    is_text: Option<bool>,
    input: Map<String, Value>,
    output: Map<String, Value>,
}

impl Tuning {
    /// Reads in what an answer is given.
    pub(super) fn modalities(&mut self, value: &Value) -> Result<(), Failure> {
        let is_only = |word: &str| *value == json!([word]);
        self.is_text = Some(is_only("text"));
        if is_only("text") || is_only("audio") {
            return Ok(());
        }
        Err(refused("`output_modalities` is neither `[\"audio\"]` nor `[\"text\"]`"))
    }

    /// Reads the settings of sound: those of an answer have no input.
    pub(super) fn audio(&mut self, value: Value, is_answer: bool) -> Result<(), Failure> {
        for (key, value) in fields("audio", value)? {
            let (whose, side) = match key.as_str() {
                "input" if !is_answer => ("audio.input", &mut self.input),
                "output" => ("audio.output", &mut self.output),
                key => return Err(refused(format!("`audio` has no field {} here", shown(key)))),
            };
            for (key, value) in fields(whose, value)? {
                let value = setting(whose, &key, value)?;
                side.insert(key, value);
            }
        }
        Ok(())
    }

    /// Takes what was set since.
    pub(super) fn extend(&mut self, later: Self) {
        self.is_text = later.is_text.or(self.is_text);
        self.input.extend(later.input);
        self.output.extend(later.output);
    }

    /// In what an answer is given, as the wire has it where nothing else was said.
    pub(super) fn modality(&self) -> &'static str {
        if self.is_text == Some(true) { "text" } else { "audio" }
    }

    /// How one answer sounds, if that is not as all do.
    pub(super) fn of_answer(&self) -> Option<Value> {
        (!self.output.is_empty()).then(|| json!({"output": self.output}))
    }

    /// Whether a wish about turns holds, as it does where nothing else was said.
    fn wishes(&self, key: &str) -> bool {
        match self.input.get("turn_detection") {
            Some(Value::Object(turns)) => turns.get(key) != Some(&Value::Bool(false)),
            Some(_) => false,
            None => true,
        }
    }

    /// Whether an answer is to be given once somebody has fallen silent.
    pub(super) fn answers(&self) -> bool {
        self.wishes("create_response")
    }

    /// Whether an answer is to end where somebody begins to speak.
    pub(super) fn interrupts(&self) -> bool {
        self.wishes("interrupt_response")
    }

    /// Whether what is heard is written down.
    pub(super) fn is_transcribed(&self) -> bool {
        self.input.get("transcription").is_some_and(Value::is_object)
    }

    /// The model that writes it down.
    pub(super) fn transcriber(&self) -> Option<&str> {
        self.input.get("transcription")?.get("model")?.as_str()
    }

    /// What the client is told about its session.
    pub(super) fn shown(&self) -> Map<String, Value> {
        let mut input = self.input.clone();
        let usual = || json!({"type": "server_vad", "create_response": true, "interrupt_response": true});
        input.entry("turn_detection").or_insert_with(usual);
        Map::from_iter([
            ("output_modalities".to_owned(), json!([self.modality()])),
            ("audio".to_owned(), json!({"input": input, "output": self.output})),
        ])
    }

    /// The message that tells the provider how the session sounds.
    pub(super) fn session(&self) -> String {
        let mut input = self.input.clone();
        let turns = input.entry("turn_detection").or_insert_with(|| json!({"type": "server_vad"}));
        if let Value::Object(turns) = turns {
            turns.insert("create_response".to_owned(), false.into());
            turns.insert("interrupt_response".to_owned(), false.into());
        }
        json!({
            "type": "session.update",
            "event_id": format!("{ASIDE}session"),
            "session": {
                "type": "realtime",
                "output_modalities": [self.modality()],
                "audio": {"input": input, "output": self.output},
            },
        })
        .to_string()
    }
}

fn fields(whose: &str, value: Value) -> Result<Map<String, Value>, Failure> {
    match value {
        Value::Null => Ok(Map::new()),
        Value::Object(fields) => Ok(fields),
        _ => Err(refused(format!("`{whose}` is no object"))),
    }
}

/// One setting, if it says nothing but words and numbers of the wire. `null` switches off what can be.
fn setting(whose: &str, key: &str, mut value: Value) -> Result<Value, Failure> {
    let (known, may_be_off): (&[Field], bool) = match (whose, key) {
        (_, "format") => (&FORMAT, false),
        ("audio.input", "noise_reduction") => (&NOISE, true),
        ("audio.input", "transcription") => (&TRANSCRIPTION, true),
        ("audio.input", "turn_detection") => (&TURNS, true),
        ("audio.output", "speed") if value.is_number() => return Ok(value),
        ("audio.output", "voice") if is_word(&value) => return Ok(value),
        ("audio.output", "voice") => (&VOICE, false),
        _ => return Err(refused(format!("`{whose}` has no field {} here, or not such a one", shown(key)))),
    };
    match &mut value {
        Value::Null if may_be_off => {}
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            only(&format!("{whose}.{key}"), fields, known)?;
        }
        _ => return Err(refused(format!("`{whose}.{key}` is no object"))),
    }
    Ok(value)
}

/// What a client sends that passes as it is made, and is written anew.
#[derive(Debug)]
pub(in crate::server::sockets) struct Passing {
    pub(super) message: String,
    /// The provider is to take what it heard for said.
    pub(super) is_commit: bool,
}

impl Passing {
    /// Reads what such a message has besides its name; `None` if it is none.
    pub(super) fn read(
        kind: &str,
        event: Option<&str>,
        fields: &mut Map<String, Value>,
    ) -> Result<Option<Self>, Failure> {
        const TRUNCATED: [Field; 3] =
            [("item_id", is_id), ("content_index", Value::is_u64), ("audio_end_ms", Value::is_u64)];
        let known: &[Field] = match kind {
            "input_audio_buffer.append" => &[("audio", is_sound)],
            "input_audio_buffer.commit" | "input_audio_buffer.clear" => &[],
            "conversation.item.truncate" => &TRUNCATED,
            _ => return Ok(None),
        };
        only(&format!("`{kind}`"), fields, known)?;
        if fields.len() != known.len() {
            return Err(refused(format!("`{kind}` lacks a field of its own")));
        }
        let is_commit = kind == "input_audio_buffer.commit";
        let prefix = if is_commit { OF_COMMIT } else { OF_SOUND };
        let mut message = std::mem::take(fields);
        message.insert("type".to_owned(), kind.into());
        message.insert("event_id".to_owned(), format!("{prefix}{}", event.unwrap_or_default()).into());
        Ok(Some(Self { message: Value::Object(message).to_string(), is_commit }))
    }
}

/// What an error of the provider is about, by the name of the message that it is about.
pub(super) enum About<'a> {
    /// What passed as it was made, and the name that its client gave it.
    Sound(Option<&'a str>),
    /// The same, and nothing was taken for said.
    Commit(Option<&'a str>),
    /// What the proxy said of its own, and nobody is told of.
    Ours,
    /// How the session sounds: the provider does not take it.
    Session,
    /// What was asked, or anything else.
    Other,
}

impl<'a> About<'a> {
    /// What an error about the message of this name is about. Without `media` nothing passes as it is made.
    pub(super) fn of(id: &'a str, media: bool) -> Self {
        if !media {
            return if id.starts_with(ASIDE) { Self::Ours } else { Self::Other };
        }
        let named = |id: &'a str| (!id.is_empty()).then_some(id);
        if let Some(id) = id.strip_prefix(OF_COMMIT) {
            return Self::Commit(named(id));
        }
        match id.strip_prefix(OF_SOUND) {
            Some(id) => Self::Sound(named(id)),
            None if id == format!("{ASIDE}session") => Self::Session,
            None if id.starts_with(ASIDE) => Self::Ours,
            None => Self::Other,
        }
    }
}

/// An error about what passed, as its client is told of it. Nobody judges that, so what the provider says stays in the names
/// that it has for it.
pub(super) fn error(said: &Map<String, Value>, event: Option<&str>) -> Value {
    let error = said.get("error");
    let name = |key: &str| error.and_then(|error| error.get(key)).filter(|value| is_id(value));
    json!({"type": "error", "error": {
        "type": name("type"), "code": name("code"), "param": name("param"), "message": NOT_TAKEN,
        "event_id": event,
    }})
}

/// A field that a message has, if it is what it has to be.
fn field<'a>(
    message: &'a Map<String, Value>,
    key: &str,
    fits: fn(&Value) -> bool,
) -> Result<&'a Value, Unread> {
    message.get(key).filter(|value| fits(value)).ok_or(Unread)
}

/// What a provider says of sound outside of answers, written anew of names and numbers; `None` for what is no such thing.
pub(super) fn aside(kind: &str, message: &Map<String, Value>) -> Result<Option<Value>, Unread> {
    let known: &[Field] = match kind {
        "input_audio_buffer.speech_started" => &[("item_id", is_id), ("audio_start_ms", Value::is_u64)],
        "input_audio_buffer.speech_stopped" => &[("item_id", is_id), ("audio_end_ms", Value::is_u64)],
        "input_audio_buffer.committed" => &[("item_id", is_id)],
        "input_audio_buffer.cleared" => &[],
        "input_audio_buffer.timeout_triggered" => {
            &[("item_id", is_id), ("audio_start_ms", Value::is_u64), ("audio_end_ms", Value::is_u64)]
        }
        "conversation.item.truncated" => {
            &[("item_id", is_id), ("content_index", Value::is_u64), ("audio_end_ms", Value::is_u64)]
        }
        _ => return Ok(None),
    };
    let mut told = Map::from_iter([("type".to_owned(), kind.into())]);
    for (key, fits) in known {
        told.insert((*key).to_owned(), field(message, key, *fits)?.clone());
    }
    Ok(Some(told.into()))
}

/// A piece of what is said aloud, as an event that goes by those who judge in its place. Its end is a piece without sound.
pub(super) fn piece(kind: &str, message: &Map<String, Value>) -> Result<Option<Value>, Unread> {
    let data = match kind {
        "response.output_audio.delta" => field(message, "delta", is_sound)?.as_str().unwrap_or_default(),
        "response.output_audio.done" => "",
        _ => return Err(Unread),
    };
    if data.is_empty() && kind.ends_with("delta") {
        return Ok(None);
    }
    Ok(Some(json!({
        "type": PIECE,
        "item_id": field(message, "item_id", is_id)?,
        "output_index": field(message, "output_index", Value::is_u64)?,
        "partial_image_index": field(message, "content_index", Value::is_u64)?,
        "partial_image_b64": data,
    })))
}

/// The same as the client hears it.
pub(super) fn of_piece(event: &mut Map<String, Value>) {
    let data = event.remove("partial_image_b64").filter(|data| *data != "");
    if let Some(index) = event.remove("partial_image_index") {
        event.insert("content_index".to_owned(), index);
    }
    let kind = if data.is_some() { "response.output_audio.delta" } else { "response.output_audio.done" };
    event.insert("type".to_owned(), kind.into());
    if let Some(data) = data {
        event.insert("delta".to_owned(), data);
    }
}
