//! What a provider of OpenAI Realtime has heard, and wrote of it.
//!
//! Sound that was taken for said is a message of the human whose words come later, if they come at all. Nothing is asked before they
//! are there, so that they stand in the request that is judged; then the client is told of them. The provider has heard them by
//! then, so what is judged can't be made another.

use std::collections::VecDeque;

use serde_json::{Map, Value, json};

use super::{Held, named};
use crate::server::sockets::dialect::Unread;
use crate::server::sockets::message::is_id;

/// What was said and nobody has judged or answered.
const MOST_SAID: usize = 1_000;

/// What a provider has heard.
#[derive(Debug, Default)]
pub(super) struct Ear {
    said: VecDeque<Spoken>,
    /// How much was said so far.
    count: u64,
    /// Somebody speaks.
    is_speaking: bool,
    /// What was judged, and the client is to be told.
    judged: Vec<Value>,
}

/// Something that was said in one.
#[derive(Debug)]
struct Spoken {
    number: u64,
    /// The item that it is; `None` while the provider has not said that it took it.
    id: Option<String>,
    words: Words,
    /// An answer is wished for.
    is_due: bool,
}

#[derive(Debug)]
enum Words {
    /// They are to come.
    Awaited,
    Written(Box<Written>),
    /// There are none, or they were judged.
    None,
}

/// What was said, as the provider wrote it.
#[derive(Debug)]
struct Written {
    held: Held,
    /// What the client is told of it.
    told: Value,
}

impl Ear {
    fn push(&mut self, id: Option<String>, words: Words, is_due: bool) -> Result<(), Unread> {
        if self.said.len() >= MOST_SAID {
            return Err(Unread);
        }
        self.count += 1;
        self.said.push_back(Spoken { number: self.count, id, words, is_due });
        Ok(())
    }

    /// The client has the provider take what it heard for said, and asks for the answer itself.
    pub(super) fn committing(&mut self) -> Result<(), Unread> {
        self.push(None, Words::Awaited, false)
    }

    /// There was nothing to take.
    pub(super) fn not_committed(&mut self) {
        if let Some(at) = self.said.iter().position(|spoken| spoken.id.is_none()) {
            self.said.remove(at);
        }
    }

    /// The provider took what it heard for said.
    pub(super) fn committed(&mut self, id: &str, is_transcribed: bool, is_due: bool) -> Result<(), Unread> {
        self.is_speaking = false;
        let words = || if is_transcribed { Words::Awaited } else { Words::None };
        match self.said.iter_mut().find(|spoken| spoken.id.is_none()) {
            Some(spoken) => (spoken.id, spoken.words) = (Some(id.to_owned()), words()),
            None => self.push(Some(id.to_owned()), words(), is_due)?,
        }
        self.tidy();
        Ok(())
    }

    /// Somebody begins to speak, or has fallen silent.
    pub(super) fn speaks(&mut self, is_speaking: bool) {
        self.is_speaking = is_speaking;
    }

    /// What somebody said was written down, or will not be. Answers what the client is told at once: nobody has to judge silence.
    pub(super) fn written(
        &mut self,
        message: &Map<String, Value>,
        most: usize,
    ) -> Result<Option<Value>, Unread> {
        let id = message.get("item_id").filter(|id| is_id(id)).and_then(Value::as_str).ok_or(Unread)?;
        let content = message.get("content_index").filter(|index| index.is_u64()).ok_or(Unread)?;
        let text = message.get("transcript").map(|text| text.as_str().ok_or(Unread)).transpose()?;
        let told = match text {
            Some(text) => json!({
                "type": "conversation.item.input_audio_transcription.completed",
                "item_id": id, "content_index": content, "transcript": text,
                "usage": usage(message.get("usage")),
            }),
            None => json!({
                "type": "conversation.item.input_audio_transcription.failed",
                "item_id": id, "content_index": content,
                "error": failed(message.get("error")),
            }),
        };
        let is_own =
            |spoken: &&mut Spoken| spoken.id.as_deref() == Some(id) && matches!(spoken.words, Words::Awaited);
        let known = self.said.iter_mut().find(is_own);
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            if let Some(known) = known {
                known.words = Words::None;
            }
            self.tidy();
            return Ok(Some(told));
        };
        let held = Held { id: named("heard"), text: text.to_owned() };
        let words = Words::Written(Box::new(Written { held, told }));
        match known {
            Some(known) => known.words = words,
            // Nobody knows what was heard, and it was all the same.
            None => self.push(Some(id.to_owned()), words, false)?,
        }
        let waiting = self.texts().map(|held| held.text.len()).sum::<usize>();
        if waiting > most { Err(Unread) } else { Ok(None) }
    }

    fn tidy(&mut self) {
        self.said.retain(|spoken| spoken.is_due || !matches!(spoken.words, Words::None));
    }

    /// How much was said so far.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Whether words of the first `count` of what was said are to come.
    pub(super) fn is_awaiting(&self, count: u64) -> bool {
        self.said.iter().any(|spoken| spoken.number <= count && matches!(spoken.words, Words::Awaited))
    }

    /// Whether an answer is wished for; not while somebody speaks, where that ends answers.
    pub(super) fn is_due(&self, interrupts: bool) -> bool {
        !(interrupts && self.is_speaking) && self.said.iter().any(|spoken| spoken.is_due)
    }

    /// What was written and nobody has judged.
    pub(super) fn texts(&self) -> impl Iterator<Item = &Held> {
        self.said.iter().filter_map(|spoken| match &spoken.words {
            Words::Written(written) => Some(&written.held),
            Words::Awaited | Words::None => None,
        })
    }

    /// An answer is asked for to all that was said in words, or without.
    pub(super) fn asked(&mut self) {
        for spoken in &mut self.said {
            spoken.is_due &= matches!(spoken.words, Words::Awaited);
        }
        self.tidy();
    }

    /// What was written is about to be judged.
    pub(super) fn shown(&mut self) {
        for spoken in &mut self.said {
            if matches!(spoken.words, Words::Written(_))
                && let Words::Written(written) = std::mem::replace(&mut spoken.words, Words::None)
            {
                self.judged.push(written.told);
            }
        }
        self.tidy();
    }

    /// What was judged. It is told, or it did not pass.
    pub(super) fn take_judged(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.judged)
    }
}

/// What the transcript cost: numbers, and a word that says of what.
fn usage(usage: Option<&Value>) -> Value {
    let Some(Value::Object(usage)) = usage else { return json!({"type": "duration", "seconds": 0}) };
    let number = |value: &Value| value.is_number();
    let fits = |key: &str, value: &Value| match key {
        "type" => value == "tokens" || value == "duration",
        "seconds" | "input_tokens" | "output_tokens" | "total_tokens" => number(value),
        _ => false,
    };
    let mut told: Map<String, Value> =
        usage.clone().into_iter().filter(|(key, value)| fits(key, value)).collect();
    if let Some(Value::Object(details)) = usage.get("input_token_details") {
        let known = |key: &str| matches!(key, "audio_tokens" | "text_tokens");
        let details = details.clone().into_iter().filter(|(key, value)| known(key) && number(value));
        told.insert("input_token_details".to_owned(), details.collect::<Map<_, _>>().into());
    }
    told.into()
}

/// Why nothing was written: the words that name it.
fn failed(error: Option<&Value>) -> Value {
    let word = |key: &str| error.and_then(|error| error.get(key)).filter(|word| is_id(word));
    json!({
        "type": word("type"), "code": word("code"), "param": null,
        "message": "backstop: the provider wrote nothing down of what it heard",
    })
}
