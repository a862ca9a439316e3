//! Gemini Live, spoken with those who know a stream of Gemini.
//!
//! A client sets a session up, adds to a conversation, tells what calls came to, and the model answers; the provider keeps all of
//! that, so no single message is a request. Here it becomes one: what came since the last answer, under the setup of the session.
//! Its answer is that of `streamGenerateContent` in other frames.
//!
//! ```text
//! said   what clients say, and what a provider is told
//! heard  what a provider says, as events of a stream of Gemini, and what clients are told
//! ```
//!
//! - *Nothing reaches the provider before it was judged*: not the setup either, which goes with the first request. So the
//!   client is told here that its session is there.
//! - *A setup holds to the end.* The provider hears of it once. A later request for which those who judge would have
//!   another setup is refused.
//! - *An answer ends with a turn, or with calls*: a provider waits for what they come to. What it says then is another answer,
//!   and so is what it says without having been asked: each is judged as one.
//! - *A call that was taken out is answered here*, since the provider waits for it: with the results of the others, if there are
//!   any.
//! - *What nobody can judge* (sound, pictures as they are made) is refused in both directions, or passes unread where the
//!   operator has it so. What the provider writes of the sound is text then, and judged.
//!
//! Limits: one answer is under way at a time, and what a client says waits for its end, so that it does not interrupt; a session is
//! not updated (`contextUpdate`); transcripts have no words with times.

mod heard;
mod said;

use std::collections::BTreeSet;
use std::sync::Arc;

use backstop_llm::wire::parse_json;
use http::uri::PathAndQuery;
use serde_json::{Map, Value, json};

use super::message::Create;
use super::realtime::Taken;
use crate::error::Failure;
use crate::server::load::{Buffered, Load};

use heard::{Answer, Call};
use said::{Ask, Form, Setup, results_of, text_of};

pub(super) use heard::Heard;
pub(super) use said::{Envelope, Saying};

/// Contents that wait for an answer to be asked for.
const MOST_PENDING: usize = 1_000;
/// Calls of an answer, and calls that nobody has said of what they came to.
const MOST_CALLS: usize = 1_000;
/// What the provider is told that a call came to which was taken out.
const REFUSED: &str = "backstop: this call was refused and not made";

/// One session.
#[derive(Debug)]
pub(super) struct Live {
    load: Arc<Load>,
    /// Bytes that a request may have, and so what waits for one.
    most: usize,
    /// What nobody can judge passes.
    media: bool,
    /// What stands in front of a model's name at the provider.
    models: String,
    setup: Option<Known>,
    /// The setup as the provider was told of it.
    sent: Option<Arc<Value>>,
    /// The provider has taken it.
    is_open: bool,
    pending: Vec<Pending>,
    /// The human has begun to say something.
    activity: bool,
    /// The calls of which the client has not said what they came to.
    waits_for: BTreeSet<String>,
    /// The calls of which nobody will, and for which the provider waits.
    owed: Vec<Call>,
    /// What the provider wrote of what it heard, and nobody has judged.
    transcript: String,
    /// What was judged of that, and the client is to be told.
    judged: String,
    answer: Answer,
    is_binary: bool,
}

/// The setup of a session.
#[derive(Debug)]
struct Known {
    judged: String,
    plain: Arc<Map<String, Value>>,
    target: PathAndQuery,
    /// What counts it.
    _counted: Buffered,
}

/// A content that the provider has not heard of: the text of a JSON object.
#[derive(Debug)]
struct Pending {
    content: String,
    form: Form,
    counted: Buffered,
}

impl Live {
    /// A session at a provider with `models` in front of the names of its models. A request of it has at most so many bytes.
    pub(super) fn new(models: String, media: bool, load: &Arc<Load>, most: usize) -> Self {
        Self {
            load: Arc::clone(load),
            most,
            media,
            models,
            setup: None,
            sent: None,
            is_open: false,
            pending: Vec::new(),
            activity: false,
            waits_for: BTreeSet::new(),
            owed: Vec::new(),
            transcript: String::new(),
            judged: String::new(),
            answer: Answer::default(),
            // As the provider does it.
            is_binary: true,
        }
    }

    /// Reads what a client said.
    pub(super) fn hear(&self, text: &str) -> Result<Saying, Failure> {
        said::hear(text, self.media)
    }

    /// The address of a request of the session.
    pub(super) fn target(&self) -> Option<&PathAndQuery> {
        self.setup.as_ref().map(|setup| &setup.target)
    }

    /// Whether messages are bytes for the client, as they are for the gateway.
    pub(super) fn is_binary(&self) -> bool {
        self.is_binary
    }

    /// The provider has sent its last message as bytes, or as text.
    pub(super) fn framed(&mut self, is_binary: bool) {
        self.is_binary = is_binary;
    }

    /// The setup as the provider was told of it.
    pub(super) fn sent(&self) -> Option<&Value> {
        self.sent.as_deref()
    }

    /// Whether a message passes while an answer is under way.
    pub(super) fn passes(&self, said: &Saying) -> bool {
        self.media && self.is_open && matches!(said, Saying::Media(_) | Saying::Activity { .. })
    }

    /// Whether the provider has taken the setup.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Forgets what waited for the request that is about to be judged; what waits for another waits on. Answers what counts
    /// that.
    pub(super) fn asked(&mut self, is_unasked: bool) -> Vec<Buffered> {
        self.judged.push_str(&std::mem::take(&mut self.transcript));
        if is_unasked {
            return Vec::new();
        }
        self.owed.clear();
        std::mem::take(&mut self.pending).into_iter().map(|content| content.counted).collect()
    }

    /// What the client is told once a request passes.
    pub(super) fn permitted(&mut self) -> Option<String> {
        let text = std::mem::take(&mut self.judged);
        (!text.is_empty())
            .then(|| json!({"serverContent": {"inputTranscription": {"text": text}}}).to_string())
    }

    /// A request does not pass, and nobody is told what it brought of what was said aloud. Answers whether it brought any.
    pub(super) fn refused(&mut self) -> bool {
        !std::mem::take(&mut self.judged).is_empty()
    }

    /// These messages go to the provider, and an answer follows.
    pub(super) fn begins(&mut self, messages: &[impl AsRef<str>]) {
        for message in messages {
            if let Ok(Value::Object(mut message)) = parse_json(message.as_ref().as_bytes())
                && let Some(setup) = message.remove("setup")
            {
                self.sent = Some(Arc::new(setup));
            }
        }
        self.answer.is_under_way = true;
    }

    /// The provider is asked once more for the same answer, and has what its calls came to.
    pub(super) fn again(&mut self) {
        self.answer = Answer::default();
    }

    /// Whether something of the answer was said aloud.
    pub(super) fn has_sounded(&self) -> bool {
        self.answer.has_sound
    }

    /// The answer is over.
    pub(super) fn ended(&mut self) {
        let answer = std::mem::take(&mut self.answer);
        self.owed.extend(answer.withheld());
        self.waits_for.extend(answer.told().iter().cloned());
        // Whoever never says what calls came to is waited for no longer: the next results are told at once.
        if self.waits_for.len() > MOST_CALLS {
            self.waits_for.clear();
        }
        if self.owed.len() > MOST_CALLS {
            self.owed.clear();
        }
    }

    /// Takes what a client said between two answers. `counted` is what counts it.
    pub(super) fn take(&mut self, said: Saying, counted: Buffered) -> Result<Taken, Failure> {
        if let Saying::Setup(setup) = said {
            return self.set_up(*setup, counted);
        }
        if self.setup.is_none() {
            return Err(Failure::Message("the first message of a session is its `setup`".to_owned()));
        }
        match said {
            Saying::Setup(_) => Err(Failure::Message("a session is set up once".to_owned())),
            Saying::Content { turns, is_complete } => {
                let mut counted = Some(counted);
                for turn in turns {
                    let counted = counted.take().unwrap_or_else(|| self.load.buffer());
                    self.wait(turn, Form::Turn, counted)?;
                }
                if !is_complete {
                    return Ok(told(None));
                }
                // The provider takes it for an interruption, and waits for nothing any more.
                self.owed.clear();
                self.waits_for.clear();
                self.ask(Ask::Complete)
            }
            Saying::Text(text) => {
                self.wait(text_of(&text), Form::Text, counted)?;
                if self.activity { Ok(told(None)) } else { self.ask(Ask::Said) }
            }
            Saying::Activity { begins } if self.media => {
                let message = if begins { "activityStart" } else { "activityEnd" };
                self.pass(json!({"realtimeInput": {message: {}}}).to_string())
            }
            Saying::Activity { begins } if begins == self.activity => {
                Err(Failure::Message("an activity begins once, and ends once".to_owned()))
            }
            Saying::Activity { begins: true } => {
                self.activity = true;
                Ok(told(None))
            }
            Saying::Activity { begins: false } => {
                self.activity = false;
                self.ask(Ask::ActivityEnd)
            }
            Saying::Results { content, calls } => {
                let before = self.waits_for.len();
                self.waits_for.retain(|call| !calls.contains(call));
                let are_known = self.waits_for.len() < before;
                self.wait(content, Form::Results, counted)?;
                // The model goes on once it knows of all.
                if are_known && !self.waits_for.is_empty() { Ok(told(None)) } else { self.ask(Ask::Said) }
            }
            Saying::Media(message) => self.pass(message),
            Saying::Unasked => self.ask(Ask::Nothing),
        }
    }

    fn set_up(&mut self, setup: Setup, counted: Buffered) -> Result<Taken, Failure> {
        if self.setup.is_some() {
            return Err(Failure::Message("a session is set up once".to_owned()));
        }
        self.has_room(setup.len())?;
        let mut plain = object(&setup.plain)?;
        plain.insert("model".to_owned(), format!("{}{}", self.models, setup.model).into());
        let target = format!("/v1beta/models/{}:streamGenerateContent?alt=sse", setup.model);
        let target = target.parse().map_err(|_| Failure::NoModel)?;
        let judged = setup.judged;
        self.setup = Some(Known { judged, plain: Arc::new(plain), target, _counted: counted });
        Ok(Taken::Told { client: vec![json!({"setupComplete": {}}).to_string()], provider: None })
    }

    /// Whether so many bytes fit into a request with what waits for it.
    fn has_room(&self, bytes: usize) -> Result<(), Failure> {
        let waiting: usize = self.pending.iter().map(|content| content.content.len()).sum();
        let setup = self.setup.as_ref().map_or(0, |setup| setup.judged.len());
        if waiting.saturating_add(setup).saturating_add(bytes) > self.most {
            return Err(Failure::TooLarge(self.most));
        }
        Ok(())
    }

    fn wait(&mut self, content: String, form: Form, counted: Buffered) -> Result<(), Failure> {
        if self.pending.len() >= MOST_PENDING {
            return Err(Failure::Message("too many contents wait for an answer to be asked for".to_owned()));
        }
        self.has_room(content.len())?;
        self.pending.push(Pending { content, form, counted });
        Ok(())
    }

    /// What passes unread. The provider has to know the session by then.
    fn pass(&mut self, message: String) -> Result<Taken, Failure> {
        if self.is_open {
            return Ok(told(Some(message)));
        }
        let (create, counted) = self.request(Ask::Nothing, Vec::new())?;
        let create = Box::new(create);
        Ok(Taken::Open { create, counted, client: Vec::new(), provider: Some(message) })
    }

    /// The request that is made of the session and of what waits. That waits on until [`asked`](Self::asked).
    fn ask(&mut self, ask: Ask) -> Result<Taken, Failure> {
        let mut contents: Vec<(String, Form)> = Vec::new();
        if ask != Ask::Nothing {
            contents
                .extend(self.pending.iter().map(|content| (content.content.clone(), content.form.clone())));
        }
        if !self.owed.is_empty() && ask != Ask::Nothing {
            let refusal = |call: &Call| {
                let mut response = json!({"name": call.name, "response": {"error": REFUSED}});
                if let (Some(fields), Some(id)) = (response.as_object_mut(), &call.id) {
                    fields.insert("id".to_owned(), id.as_str().into());
                }
                response
            };
            let refused = self.owed.iter().map(refusal).collect();
            contents.insert(0, (results_of(refused), Form::Results));
        }
        let (create, counted) = self.request(ask, contents)?;
        Ok(Taken::Ask(Box::new(create), counted))
    }

    fn request(
        &self,
        ask: Ask,
        mut contents: Vec<(String, Form)>,
    ) -> Result<(Create, Vec<Buffered>), Failure> {
        let Some(setup) = &self.setup else { return Err(Failure::NoModel) };
        if !self.transcript.is_empty() {
            contents.insert(0, held(json!({"role": "user", "parts": [{"text": self.transcript}]})));
        }
        if contents.is_empty() {
            // Nobody says anything, and a request has to have something.
            contents.push(held(json!({"role": "model", "parts": [{"text": ""}]})));
        }
        let (texts, forms): (Vec<String>, Vec<Form>) = contents.into_iter().unzip();
        let settings = setup.judged.strip_suffix('}').unwrap_or(&setup.judged);
        let comma = if settings == "{" { "" } else { "," };
        let body = format!("{settings}{comma}\"contents\":[{}]}}", texts.join(","));
        if body.len() > self.most {
            return Err(Failure::TooLarge(self.most));
        }
        let mut counted = self.load.buffer();
        counted.grow(body.len())?;
        let envelope = Envelope {
            plain: Arc::clone(&setup.plain),
            sent: self.sent.clone(),
            forms,
            ask,
            activity: ask == Ask::ActivityEnd,
        };
        Ok((Create::of_live(body.into(), envelope), vec![counted]))
    }
}

fn told(provider: Option<String>) -> Taken {
    Taken::Told { client: Vec::new(), provider }
}

/// A content that the provider has.
fn held(content: Value) -> (String, Form) {
    (content.to_string(), Form::Held(content))
}

/// Reads what was kept as text.
fn object(text: &str) -> Result<Map<String, Value>, Failure> {
    match parse_json(text.as_bytes()) {
        Ok(Value::Object(fields)) => Ok(fields),
        _ => Err(Failure::Message("what was said before can't be read again".to_owned())),
    }
}
