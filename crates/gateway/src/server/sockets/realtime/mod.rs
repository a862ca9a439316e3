//! OpenAI Realtime in text, spoken with those who know OpenAI Responses.
//!
//! A client configures a session, adds items to a conversation and asks for an answer; the provider keeps all of that, so
//! no single message of it is a request. Here it becomes one: what came since the last answer, under the settings of the
//! session, in a conversation that the provider keeps. Its answer is that of Responses in other words.
//!
//! ```text
//! said   what clients say, and what a provider is told
//! heard  what a provider says, as events of Responses, and what clients are told
//! ```
//!
//! - *Nothing reaches the provider before an answer is asked for*, and then as it was judged. So the client is told here that
//!   its session and its items were taken, in the provider's words.
//! - *The session is the gateway's.* The provider hears of no session, but of each answer how it is to be made.
//! - *Text alone.* Sound that comes or is asked for is refused: nobody could judge it. With it go the answers that a provider
//!   begins because somebody fell silent.
//!
//! Limits: the protocol of general availability, without its beta; items come in their order; an answer outside of the
//! conversation, transcriptions, translations, and sessions that began as a call (WebRTC, SIP) are refused. What a request brought
//! that was refused is no part of the conversation.

mod heard;
mod said;

use std::sync::Arc;

use backstop_llm::wire::parse_json;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::message::Create;
use crate::error::Failure;
use crate::server::load::{Buffered, Load};

use heard::Answer;

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
    id: String,
    model: String,
    /// The configuration: a JSON object, as text.
    config: String,
    /// What counts the configuration.
    counted: Buffered,
    pending: Vec<Pending>,
    request: Named,
    answer: Answer,
    /// The item that the client was told of last.
    last: Option<String>,
    events: u64,
}

/// An item that the provider has not heard of: a JSON object, as text.
#[derive(Debug)]
struct Pending {
    id: String,
    fields: String,
    counted: Buffered,
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
    /// The provider is told of the session, once that was judged, and then this.
    Open(Box<Create>, Vec<Buffered>, String),
}

impl Talk {
    /// A session with this model. A request of it has at most so many bytes.
    pub(super) fn new(model: String, load: &Arc<Load>, most: usize) -> Self {
        Self {
            load: Arc::clone(load),
            most,
            id: named("sess"),
            model,
            config: "{}".to_owned(),
            counted: load.buffer(),
            pending: Vec::new(),
            request: Named::default(),
            answer: Answer::default(),
            last: None,
            events: 0,
        }
    }

    /// Reads what a client said.
    pub(super) fn hear(text: &str) -> Result<Utterance, Failure> {
        said::hear(text)
    }

    /// The message that ends the answer under way.
    pub(super) fn cancel() -> String {
        said::cancel()
    }

    /// What a client is told at first.
    pub(super) fn greeting(&mut self) -> String {
        self.session("session.created", Map::new())
    }

    /// Forgets what waited for the request that is about to be judged. Answers what counts that.
    pub(super) fn asked(&mut self) -> Vec<Buffered> {
        std::mem::take(&mut self.pending).into_iter().map(|item| item.counted).collect()
    }

    /// Whether the provider's last error says that there is no answer to the last request, so that none is still to come.
    pub(super) fn is_refused(&self) -> bool {
        self.request.is_refused
    }

    /// Takes what a client said between two answers. `counted` is what counts it.
    pub(super) fn take(&mut self, said: Utterance, counted: Buffered) -> Result<Taken, Failure> {
        let told = |client: Vec<String>| Taken::Told { client, provider: None };
        match said {
            Utterance::Configure { model, fields } => {
                if model.is_some_and(|model| model != self.model) {
                    let why = "the model of a session is the one that it was opened with";
                    return Err(Failure::Message(why.to_owned()));
                }
                let mut config = object(&self.config)?;
                config.extend(object(&fields)?);
                let text = Value::Object(config.clone()).to_string();
                self.has_room(text.len())?;
                let mut counted = self.load.buffer();
                counted.grow(text.len())?;
                (self.config, self.counted) = (text, counted);
                Ok(told(vec![self.session("session.updated", config)]))
            }
            Utterance::Item { id, fields } => {
                if self.pending.len() >= MOST_PENDING {
                    return Err(Failure::Message("too many items wait for a `response.create`".to_owned()));
                }
                self.has_room(self.config.len().saturating_add(fields.len()))?;
                let client = self.added(&id, object(&fields)?);
                self.pending.push(Pending { id, fields, counted });
                Ok(told(client))
            }
            Utterance::Delete { id } => {
                let before = self.pending.len();
                self.pending.retain(|item| item.id != id);
                let provider = (self.pending.len() == before).then(|| said::delete(&id));
                let event = self.next_event();
                let client = json!({"type": "conversation.item.deleted", "event_id": event, "item_id": id});
                Ok(Taken::Told { client: vec![client.to_string()], provider })
            }
            Utterance::Create { event, fields } => self.ask(event, &fields, counted),
            Utterance::Cancel => Err(Failure::Message("no answer is under way".to_owned())),
        }
    }

    /// Whether so many bytes fit into a request with what waits for it.
    fn has_room(&self, bytes: usize) -> Result<(), Failure> {
        let waiting: usize = self.pending.iter().map(|item| item.fields.len()).sum();
        if waiting.saturating_add(bytes) > self.most {
            return Err(Failure::TooLarge(self.most));
        }
        Ok(())
    }

    /// The request that is made of the session and of what waits. That waits on until [`asked`](Self::asked).
    fn ask(&mut self, event: Option<String>, fields: &str, mut counted: Buffered) -> Result<Taken, Failure> {
        let mut body = object(&self.config)?;
        body.extend(object(fields)?);
        let is_endless = body.get("max_output_tokens").is_some_and(|most| most == "inf");
        if is_endless {
            body.remove("max_output_tokens");
        }
        body.insert("model".to_owned(), self.model.as_str().into());
        body.insert("conversation".to_owned(), self.id.as_str().into());
        body.insert("stream".to_owned(), true.into());
        let settings = Value::Object(body).to_string();
        self.has_room(settings.len())?;
        let items: Vec<&str> = self.pending.iter().map(|item| item.fields.as_str()).collect();
        let settings = settings.strip_suffix('}').unwrap_or(&settings);
        let body = format!("{settings},\"input\":[{}]}}", items.join(","));
        counted.grow(body.len())?;
        let is_ours = event.is_none();
        let event = event.unwrap_or_else(|| named("ask"));
        self.request = Named { event: event.clone(), is_ours, is_refused: false };
        let create = Create::of_session(body.into(), Envelope::new(event, is_endless));
        Ok(Taken::Ask(Box::new(create), vec![counted]))
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
            session.extend(config);
        }
        let event = self.next_event();
        json!({"type": kind, "event_id": event, "session": session}).to_string()
    }

    /// What a client is told about an item of its own.
    fn added(&mut self, id: &str, mut item: Map<String, Value>) -> Vec<String> {
        item.insert("object".to_owned(), "realtime.item".into());
        item.insert("status".to_owned(), "completed".into());
        let previous = self.last.replace(id.to_owned());
        let kinds = ["conversation.item.added", "conversation.item.done"];
        let told = kinds.map(|kind| {
            let event = self.next_event();
            json!({"type": kind, "event_id": event, "previous_item_id": previous, "item": item}).to_string()
        });
        told.into()
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
