//! OpenAI Realtime, spoken with those who know OpenAI Responses.
//!
//! A client configures a session, adds items to a conversation and asks for an answer; the provider keeps all of that, so
//! no single message of it is a request. Here it becomes one: what came since the last answer, under the settings of the
//! session, in a conversation that the provider keeps. Its answer is that of Responses in other words.
//!
//! ```text
//! said   what clients say, and what a provider is told
//! heard  what a provider says, as events of Responses, and what clients are told
//! sound  settings of sound, and sound itself, where it passes
//! ear    what a provider has heard of the human, and wrote of it
//! ```
//!
//! - *Nothing reaches the provider before an answer is asked for*, and then as it was judged. So the client is told here that
//!   its session and its items were taken, in the provider's words.
//! - *The session is the gateway's.* The provider hears of each answer how it is to be made, and of the session only how it sounds.
//! - *Sound is refused, or passes unread where the operator has it so*: nobody can judge it. What is written of it is text: an answer's
//!   transcript is judged as its text, and what the human said aloud as a message in the request of the answer to it.
//! - *A provider never begins an answer.* Where a client wishes for one once somebody fell silent, it is asked for here, like any other,
//!   and where it wishes that one ends when somebody begins to speak, it is cancelled here. One that begins all the same ends the session.
//!
//! Limits: the protocol of general availability, without its beta; items come in their order; an answer outside of the
//! conversation, sessions of transcription and translation, and those that began as a call (WebRTC, SIP) are refused; transcripts have no
//! words with times and speakers, and come whole. What a request brought that was refused is no part of the conversation.

mod ear;
mod heard;
mod said;
mod sound;

use std::sync::Arc;

use backstop_llm::wire::parse_json;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::message::Create;
use crate::error::Failure;
use crate::server::load::{Buffered, Load};

use ear::Ear;
use heard::Answer;
use said::{Sounds, TRANSCRIBED};
use sound::Tuning;

pub(super) use heard::Heard;
pub(super) use said::{Envelope, Utterance};

/// How messages of our own are named whose errors are told nobody.
const ASIDE: &str = "backstop_";
/// Items that wait for an answer to be asked for.
const MOST_PENDING: usize = 1_000;

/// One session.
#[derive(Debug)]
pub(super) struct Talk {
    load: Arc<Load>,
    /// Bytes that a request may have, and so what waits for one.
    most: usize,
    /// Sound passes.
    media: bool,
    id: String,
    model: String,
    /// The configuration: a JSON object, as text.
    config: String,
    /// What counts the configuration.
    counted: Buffered,
    /// How the session sounds.
    tuning: Tuning,
    /// The message that told the provider so.
    sent: Option<String>,
    pending: Vec<Pending>,
    ear: Ear,
    request: Named,
    /// The request that is about to be judged.
    asking: Option<Asking>,
    answer: Answer,
    /// The item that the client was told of last.
    last: Option<String>,
    events: u64,
}

/// An item that the provider has not heard of: a JSON object, as text, and the sounds that belong into it.
#[derive(Debug)]
struct Pending {
    id: String,
    fields: String,
    sounds: Vec<Arc<str>>,
    counted: Buffered,
}

impl Pending {
    fn len(&self) -> usize {
        self.fields.len() + self.sounds.iter().map(|sound| sound.len()).sum::<usize>()
    }
}

/// What a human said that the provider has heard: as it is judged, it can't be another.
#[derive(Clone, Debug, Default)]
struct Held {
    id: String,
    text: String,
}

impl Held {
    fn item(&self) -> Value {
        let content = json!([{"type": "input_text", "text": self.text}]);
        json!({"type": "message", "role": "user", "id": self.id, "content": content})
    }

    /// Whether an item of a request still says this, and nothing else.
    fn is(&self, item: &Value) -> bool {
        let is_user = item.get("role").is_some_and(|role| role == "user");
        let says = match item.get("content") {
            Some(Value::String(text)) => *text == self.text,
            Some(Value::Array(parts)) => match parts.as_slice() {
                [part] => part.get("text").is_some_and(|text| *text == self.text),
                _ => false,
            },
            _ => false,
        };
        is_user && says
    }
}

/// What a provider learns with a request.
#[derive(Debug)]
struct Asking {
    asks: bool,
    session: Option<String>,
    modality: &'static str,
}

/// How the last request for an answer is named.
#[derive(Debug, Default)]
struct Named {
    event: String,
    /// The client gave it no name, and hears of none.
    is_ours: bool,
    /// An error of the provider named it: there is no answer to it.
    is_refused: bool,
}

/// What comes of what a client said.
#[derive(Debug)]
pub(super) enum Taken {
    /// The client is told, and maybe the provider.
    Told { client: Vec<String>, provider: Option<String> },
    /// The provider is asked for an answer, with what counts the request until then.
    Ask(Box<Create>, Vec<Buffered>),
    /// The client is told, then the provider of the session, once that was judged, and maybe of this.
    Open { create: Box<Create>, counted: Vec<Buffered>, client: Vec<String>, provider: Option<String> },
}

impl Talk {
    /// A session with this model, in which sound passes or not. A request of it has at most so many bytes.
    pub(super) fn new(model: String, media: bool, load: &Arc<Load>, most: usize) -> Self {
        Self {
            load: Arc::clone(load),
            most,
            media,
            id: named("sess"),
            model,
            config: "{}".to_owned(),
            counted: load.buffer(),
            tuning: Tuning::default(),
            sent: None,
            pending: Vec::new(),
            ear: Ear::default(),
            request: Named::default(),
            asking: None,
            answer: Answer::default(),
            last: None,
            events: 0,
        }
    }

    /// Reads what a client said.
    pub(super) fn hear(&self, text: &str) -> Result<Utterance, Failure> {
        said::hear(text, self.media)
    }

    /// The message that ends the answer under way.
    pub(super) fn cancel() -> String {
        said::cancel()
    }

    /// What a client is told at first.
    pub(super) fn greeting(&mut self) -> String {
        self.session("session.created", Map::new())
    }

    /// Whether a message passes while an answer is under way.
    pub(super) fn passes(&self, said: &Utterance) -> bool {
        self.sent.is_some() && matches!(said, Utterance::Pass(_))
    }

    /// Whether somebody has said something that is to be judged, or answered.
    pub(super) fn is_due(&self) -> bool {
        self.ear.is_due(self.tuning.interrupts()) || self.ear.texts().next().is_some()
    }

    /// How much the provider has heard, if this waits for its words.
    pub(super) fn waits_for(&self, said: &Utterance) -> Option<u64> {
        matches!(said, Utterance::Create { .. } | Utterance::Due).then(|| self.ear.count())
    }

    /// Whether words of so much of what was said are to come.
    pub(super) fn is_awaiting(&self, count: u64) -> bool {
        self.tuning.is_transcribed() && self.ear.is_awaiting(count)
    }

    /// Forgets what waited for the request that is about to be judged. Answers what counts that.
    pub(super) fn asked(&mut self, is_unasked: bool) -> Vec<Buffered> {
        self.ear.shown();
        if is_unasked {
            return Vec::new();
        }
        std::mem::take(&mut self.pending).into_iter().map(|item| item.counted).collect()
    }

    /// What the client is told once a request passes.
    pub(super) fn permitted(&mut self) -> Vec<String> {
        let judged = self.ear.take_judged();
        judged.into_iter().map(|told| self.named_event(told)).collect()
    }

    /// A request does not pass, and nobody is told what it brought of what was said aloud. Answers whether it brought any.
    pub(super) fn refused(&mut self) -> bool {
        !self.ear.take_judged().is_empty()
    }

    /// The provider is told of the request that was judged last.
    pub(super) fn begins(&mut self) {
        let Some(asking) = self.asking.take() else { return };
        self.sent = asking.session.or(self.sent.take());
        self.answer.begins(asking.asks, asking.modality);
    }

    /// The answer is over.
    pub(super) fn ended(&mut self) {
        self.answer = Answer::default();
    }

    /// Whether something of the answer was said aloud.
    pub(super) fn has_sounded(&self) -> bool {
        self.answer.has_sounded
    }

    /// Whether the provider's last error says that there is no answer to the last request, so that none is still to come.
    pub(super) fn is_refused(&self) -> bool {
        self.request.is_refused
    }

    /// Takes what a client said between two answers, and sound at any time. `counted` is what counts it.
    pub(super) fn take(&mut self, said: Utterance, counted: Buffered) -> Result<Taken, Failure> {
        let told = |client: Vec<String>| Taken::Told { client, provider: None };
        match said {
            Utterance::Configure { model, fields, tuning } => self.configure(model, &fields, *tuning),
            Utterance::Item { id, fields, sounds } => {
                if self.pending.len() >= MOST_PENDING {
                    return Err(Failure::Message("too many items wait for a `response.create`".to_owned()));
                }
                if self.pending.iter().any(|item| item.id == id) {
                    let why = format!(
                        "an item `{id}` waits for a `response.create` already\nhint: `conversation.item.delete` takes it away"
                    );
                    return Err(Failure::Message(why));
                }
                let item = Pending { id, fields, sounds, counted };
                self.has_room(self.config.len().saturating_add(item.len()))?;
                let client = self.added(&item.id, object(&item.fields)?);
                self.pending.push(item);
                Ok(told(client))
            }
            Utterance::Delete { id } => {
                let before = self.pending.len();
                self.pending.retain(|item| item.id != id);
                let provider = (self.pending.len() == before).then(|| said::delete(&id));
                let client = self.named_event(json!({"type": "conversation.item.deleted", "item_id": id}));
                Ok(Taken::Told { client: vec![client], provider })
            }
            Utterance::Create { event, fields, tuning } => self.ask(event, &fields, &tuning, counted),
            Utterance::Due if self.ear.is_due(self.tuning.interrupts()) => {
                self.ask(None, "{}", &Tuning::default(), counted)
            }
            Utterance::Due if self.ear.texts().next().is_some() => self.open(Vec::new(), None),
            Utterance::Due => Ok(told(Vec::new())),
            Utterance::Pass(passing) => {
                if passing.is_commit {
                    let too_much = "too much was said that nobody asked about";
                    self.ear.committing().map_err(|_| Failure::Message(too_much.to_owned()))?;
                }
                let provider = Some(passing.message);
                match self.sent {
                    Some(_) => Ok(Taken::Told { client: Vec::new(), provider }),
                    None => self.open(Vec::new(), provider),
                }
            }
            Utterance::Cancel => Err(Failure::Message("no answer is under way".to_owned())),
        }
    }

    fn configure(&mut self, model: Option<String>, fields: &str, tuning: Tuning) -> Result<Taken, Failure> {
        if model.is_some_and(|model| model != self.model) {
            let why = "the model of a session is the one that it was opened with";
            return Err(Failure::Message(why.to_owned()));
        }
        let mut config = object(&self.config)?;
        config.extend(object(fields)?);
        let text = Value::Object(config.clone()).to_string();
        self.has_room(text.len())?;
        let mut counted = self.load.buffer();
        counted.grow(text.len())?;
        (self.config, self.counted) = (text, counted);
        self.tuning.extend(tuning);
        let client = vec![self.session("session.updated", config)];
        // What the provider knows has to stay what the client was told.
        if self.sent.as_ref().is_some_and(|sent| *sent != self.tuning.session()) {
            return self.open(client, None);
        }
        Ok(Taken::Told { client, provider: None })
    }

    /// Whether so many bytes fit into a request with what waits for it.
    fn has_room(&self, bytes: usize) -> Result<(), Failure> {
        let waiting: usize = self.pending.iter().map(Pending::len).sum();
        if waiting.saturating_add(bytes) > self.most {
            return Err(Failure::TooLarge(self.most));
        }
        Ok(())
    }

    /// The request for an answer that is made of the session and of what waits. That waits on until [`asked`](Self::asked).
    fn ask(
        &mut self,
        event: Option<String>,
        fields: &str,
        tuning: &Tuning,
        counted: Buffered,
    ) -> Result<Taken, Failure> {
        // Before anything can fail: nobody asks for the same once more.
        self.ear.asked();
        let mut body = object(&self.config)?;
        body.extend(object(fields)?);
        let is_endless = body.get("max_output_tokens").is_some_and(|most| most == "inf");
        if is_endless {
            body.remove("max_output_tokens");
        }
        let mut answer = self.tuning.clone();
        answer.extend(tuning.clone());
        let sounding = self.pending.iter().filter(|item| !item.sounds.is_empty());
        let sounds: Sounds = sounding.map(|item| (item.id.clone(), item.sounds.clone())).collect();
        let is_ours = event.is_none();
        let event = event.unwrap_or_else(|| named("ask"));
        self.request = Named { event: event.clone(), is_ours, is_refused: false };
        let envelope = Envelope {
            event: Some(event),
            is_endless,
            modality: if self.media { answer.modality() } else { "text" },
            audio: tuning.of_answer(),
            sounds: Arc::new(sounds),
            ..Envelope::default()
        };
        let (create, counted) = self.request(body, envelope, counted)?;
        Ok(Taken::Ask(create, counted))
    }

    /// The request in which nobody asks: the provider is told how the session sounds, and what it wrote is judged.
    fn open(&mut self, client: Vec<String>, provider: Option<String>) -> Result<Taken, Failure> {
        let mut body = object(&self.config)?;
        body.retain(|key, value| key != "max_output_tokens" || value != "inf");
        let (create, counted) = self.request(body, Envelope::default(), self.load.buffer())?;
        Ok(Taken::Open { create, counted, client, provider })
    }

    fn request(
        &mut self,
        mut body: Map<String, Value>,
        mut envelope: Envelope,
        mut counted: Buffered,
    ) -> Result<(Box<Create>, Vec<Buffered>), Failure> {
        body.insert("model".to_owned(), self.model.as_str().into());
        body.insert("conversation".to_owned(), self.id.as_str().into());
        body.insert("stream".to_owned(), true.into());
        if let Some(model) = self.tuning.transcriber() {
            body.insert(TRANSCRIBED.to_owned(), json!({"transcription": {"model": model}}));
        }
        let settings = Value::Object(body).to_string();
        let held: Vec<_> = self.ear.texts().cloned().collect();
        let heard: usize = held.iter().map(|held| held.text.len()).sum();
        self.has_room(settings.len().saturating_add(heard))?;
        let mut items: Vec<String> = held.iter().map(|held| held.item().to_string()).collect();
        if envelope.asks() {
            items.extend(self.pending.iter().map(|item| item.fields.clone()));
        }
        let settings = settings.strip_suffix('}').unwrap_or(&settings);
        let body = format!("{settings},\"input\":[{}]}}", items.join(","));
        counted.grow(body.len())?;
        let session = self.media.then(|| self.tuning.session());
        envelope.session = session.filter(|session| self.sent.as_ref() != Some(session));
        envelope.held = Arc::new(held);
        let (asks, session) = (envelope.asks(), envelope.session.clone());
        self.asking = Some(Asking { asks, session, modality: envelope.modality });
        Ok((Box::new(Create::of_session(body.into(), envelope)), vec![counted]))
    }

    /// In what answers are given where nothing else is said.
    fn modality(&self) -> &'static str {
        if self.media { self.tuning.modality() } else { "text" }
    }

    /// What a client is told about its session.
    fn session(&mut self, kind: &str, config: Map<String, Value>) -> String {
        let mut session = json!({
            "type": "realtime",
            "object": "realtime.session",
            "id": self.id,
            "model": self.model,
            "output_modalities": ["text"],
            "instructions": "",
            "tools": [],
            "tool_choice": "auto",
            "max_output_tokens": "inf",
        });
        if let Value::Object(session) = &mut session {
            if self.media {
                session.extend(self.tuning.shown());
            }
            session.extend(config);
        }
        self.named_event(json!({"type": kind, "session": session}))
    }

    /// What a client is told about an item of its own.
    fn added(&mut self, id: &str, mut item: Map<String, Value>) -> Vec<String> {
        item.insert("object".to_owned(), "realtime.item".into());
        item.insert("status".to_owned(), "completed".into());
        let previous = self.last.replace(id.to_owned());
        let kinds = ["conversation.item.added", "conversation.item.done"];
        let told = kinds
            .map(|kind| self.named_event(json!({"type": kind, "previous_item_id": previous, "item": item})));
        told.into()
    }

    /// An event for the client under a name of its own.
    fn named_event(&mut self, mut event: Value) -> String {
        let name = self.next_event();
        if let Value::Object(event) = &mut event {
            event.insert("event_id".to_owned(), name.into());
        }
        event.to_string()
    }

    fn next_event(&mut self) -> String {
        self.events += 1;
        format!("event_{}_{}", self.id.trim_start_matches("sess_"), self.events)
    }
}

/// Reads what was kept as text.
fn object(text: &str) -> Result<Map<String, Value>, Failure> {
    match parse_json(text.as_bytes()) {
        Ok(Value::Object(fields)) => Ok(fields),
        _ => Err(Failure::Message("what was said before can't be read again".to_owned())),
    }
}

/// A name that nothing else has, as short as those of the provider.
fn named(prefix: &str) -> String {
    let unique = Uuid::new_v4().simple().to_string();
    format!("{prefix}_{}", unique.get(..24).unwrap_or(&unique))
}
