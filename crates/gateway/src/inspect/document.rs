//! The judgement of an answer that is a document: a continued text, the caption of a picture, a list of stored items.
//!
//! It is held until it is whole. Each of its texts passes `before_response_emit` and is spliced where that changed it; its words
//! (ids, types, names, what is sealed) pass the redactors as [those of any answer](super::names) do, and stay. Calls
//! in it are judged like those of an answer; they can't be taken out of a list that is only read, so one that is denied
//! stops the answer. Results among its items pass `tool.after` first.

use backstop_engine::{BlockCause, Blocked, Engine, ResponseGate};
use backstop_hooks::conversation::{Message, Part, Role, TokenUsage, ToolCall};
use backstop_hooks::points::{AfterLlmCallEvent, BeforeResponseEmit};
use backstop_hooks::{CallContext, ShownName, Text};

use backstop_llm::Api;
use backstop_llm::live::{LiveDocument, TextTable, listed_result};
use backstop_llm::sse::{SseDecoder, SseEvent};
use backstop_llm::wire::openai_responses::listed_calls;
use backstop_store::ToolDecision;
use bytes::{Bytes, BytesMut};
use serde_json::Value;

use super::judge::{Facts, Gates, JudgeError, emission};
use super::names::Names;
use super::numbers::Numbers;
use super::results;
use super::settings::ToolCalls;
use super::usage::usage_of;
use crate::readable::{Answered, LOGPROBS, Shape};

/// The event in which a stream says that it failed.
const ERROR_EVENT: &str = "error";

/// What is told of a denied call whose name can't be shown.
const DENIED: &str = "the answer has a call that is denied";

/// Fields in which a document lists items.
const LISTS: [&str; 3] = ["data", "output", "items"];

/// One answer being judged.
#[derive(Debug)]
pub(super) struct DocumentJudge {
    answered: Answered,
    engine: Engine,
    gates: Gates,
    body: BytesMut,
    /// Whether it was asked for as a plain text.
    is_plain: bool,
    /// What it says, once it was read, as it came.
    said: Vec<Text>,
}

impl DocumentJudge {
    pub(super) fn new(answered: Answered, is_plain: bool, engine: Engine, gates: Gates) -> Self {
        Self { answered, engine, gates, body: BytesMut::new(), is_plain, said: Vec::new() }
    }

    /// Takes bytes of the provider.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), JudgeError> {
        self.body.extend_from_slice(bytes);
        let limit = self.gates.answer_bytes;
        if self.body.len() > limit { Err(JudgeError::TooLarge { limit }) } else { Ok(()) }
    }

    /// Whether it is an error of the provider's.
    pub(super) fn is_error(&self) -> bool {
        matches!(self.answered, Answered::Error(_))
    }

    /// The tokens that it cost, before it is judged; as many as were `asked` if it says nothing of them.
    pub(super) fn usage(&self, asked: u64) -> TokenUsage {
        usage_of(&self.body, asked)
    }

    /// What it said, for those who watch.
    pub(super) fn said(&mut self) -> Vec<Text> {
        std::mem::take(&mut self.said)
    }

    /// Judges the whole answer; answers what leaves.
    pub(super) async fn decide(
        &mut self,
        facts: &Facts,
        latency_ms: u64,
        call: &CallContext,
    ) -> Result<Bytes, JudgeError> {
        let body = self.body.split().freeze();
        let (table, has_items) = match self.answered {
            Answered::Sound => return Ok(body),
            Answered::State if body.is_empty() => return Ok(body),
            Answered::State => return self.state(body, facts, call).await,
            Answered::Numbers(shape) => return self.numbers(shape, body, call).await,
            Answered::Error(_) if body.is_empty() => return Ok(body),
            Answered::Error(table) => return self.error(table, body, facts, call).await,
            Answered::Texts(table) => (table, false),
            Answered::Items(table) => (table, true),
            Answered::Said(_) if self.is_plain => return self.plain(&body, facts, call).await,
            Answered::Said(table) => (table, false),
        };
        let mut document = LiveDocument::read(table, body)?;
        if let (Answered::Said(_), Value::Object(fields)) = (self.answered, document.value())
            && !fields
                .keys()
                .all(|key| table.texts.contains(&key.as_str()) || table.names.contains(&key.as_str()))
        {
            // Another copy of the text, in pieces or as numbers of tokens.
            return Err(JudgeError::Blocked(withheld("the transcript has more than a text".to_owned())));
        }
        if has_items && self.gates.calls {
            let calls = listed_calls(&items(document.value()))?;
            self.judge_calls(calls, facts, latency_ms, call).await?;
        }
        if has_items && self.gates.emit != ResponseGate::Open && repeats_text(document.value()) {
            let told = "probabilities of tokens repeat the text in pieces; ask without `logprobs`";
            return Err(JudgeError::Blocked(withheld(told.to_owned())));
        }
        if has_items
            && self.gates.results
            && let Some(edited) = self.judge_results(document.value(), call).await?
        {
            document = LiveDocument::read(table, edited.to_string().into())?;
        }
        self.texts(&document, facts, call).await
    }

    /// Judges what an error says, which may stand in an event.
    async fn error(
        &mut self,
        table: &TextTable,
        body: Bytes,
        facts: &Facts,
        call: &CallContext,
    ) -> Result<Bytes, JudgeError> {
        let Some(event) = only_event(&body) else {
            let document = LiveDocument::read(table, body)?;
            return self.texts(&document, facts, call).await;
        };
        let document = LiveDocument::read(table, Bytes::from(event.data))?;
        let judged = self.texts(&document, facts, call).await?;
        // Nothing else of the event was read.
        let name = event.event.as_deref().filter(|name| *name == ERROR_EVENT);
        Ok(SseEvent::new(name, str::from_utf8(&judged).unwrap_or_default()).encode())
    }

    /// Judges a state, which servers may write as a line of text as well.
    async fn state(&mut self, body: Bytes, facts: &Facts, call: &CallContext) -> Result<Bytes, JudgeError> {
        match LiveDocument::listed(body.clone()) {
            Ok(document) => self.texts(&document, facts, call).await,
            // What has an object or a list in it may be read as one, behind whatever stands in front: with its escapes undone.
            Err(_) if !body.iter().any(|byte| matches!(byte, b'{' | b'[')) => {
                self.plain(&body, facts, call).await
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Judges what should be numbers.
    async fn numbers(
        &self,
        shape: &'static Shape,
        body: Bytes,
        call: &CallContext,
    ) -> Result<Bytes, JudgeError> {
        let mut numbers = Numbers::new(shape, Names::new(&self.engine, call, &self.gates));
        let read = numbers.push(&body).and_then(|()| numbers.finish());
        match (read, numbers.blocked().await) {
            (_, Some(blocked)) => Err(JudgeError::Blocked(blocked)),
            (Err(fault), None) => Err(fault.into()),
            (Ok(()), None) => Ok(body),
        }
    }

    /// Judges the texts of a document.
    async fn texts(
        &mut self,
        document: &LiveDocument,
        facts: &Facts,
        call: &CallContext,
    ) -> Result<Bytes, JudgeError> {
        let mut names = Names::new(&self.engine, call, &self.gates);
        if !names.pass(document.words())
            && let Some(blocked) = names.blocked().await
        {
            return Err(JudgeError::Blocked(blocked));
        }
        self.said = document.texts().map(Text::from).collect();
        let mut texts = Vec::new();
        for text in document.texts() {
            texts.push(self.text(text, facts, call).await?);
        }
        let unable = "a hook rewrote what has to stay: an argument of a call, or the name of a field";
        document.write(&texts).ok_or_else(|| JudgeError::Blocked(withheld(unable.into())))
    }

    /// Judges an answer that is a plain text.
    async fn plain(&mut self, body: &Bytes, facts: &Facts, call: &CallContext) -> Result<Bytes, JudgeError> {
        let Ok(text) = str::from_utf8(body) else {
            return Err(JudgeError::Blocked(withheld("the answer is no text".to_owned())));
        };
        if text.is_empty() {
            return Ok(body.clone());
        }
        self.said = vec![text.into()];
        let new = self.text(text, facts, call).await?;
        Ok(if new.as_str() == text { body.clone() } else { Bytes::copy_from_slice(new.as_bytes()) })
    }

    /// What hooks make of a text.
    async fn text(&self, text: &str, facts: &Facts, call: &CallContext) -> Result<Text, JudgeError> {
        let decided = self.engine.decide::<BeforeResponseEmit>(emission(facts, text.into()), call).await;
        let decided = decided.into_parts();
        match decided.blocked {
            Some(blocked) => Err(JudgeError::Blocked(blocked)),
            None => Ok(decided.event.all_content.iter().map(Text::as_str).collect::<String>().into()),
        }
    }

    /// Judges the results among the items; answers the document with what stands in their places, if that is another.
    async fn judge_results(&self, document: &Value, call: &CallContext) -> Result<Option<Value>, JudgeError> {
        let mut edited = document.clone();
        for item in items_mut(&mut edited) {
            let Some((tool, id)) = listed_result(item) else { continue };
            let judged =
                results::judge_value(Api::OpenAiResponses, tool, &id, item, &self.engine, call).await;
            if let Some(new) = judged.map_err(JudgeError::Blocked)? {
                *item = new;
            }
        }
        Ok((edited != *document).then_some(edited))
    }

    async fn judge_calls(
        &self,
        calls: Vec<ToolCall>,
        facts: &Facts,
        latency_ms: u64,
        call: &CallContext,
    ) -> Result<(), JudgeError> {
        if calls.is_empty() {
            return Ok(());
        }
        let event = AfterLlmCallEvent {
            run_id: facts.run.clone(),
            response: Message::new(Role::Assistant, calls.iter().cloned().map(Part::ToolCall).collect()),
            tool_calls: calls.clone(),
            iteration: facts.iteration,
            model: facts.model.clone(),
            latency_ms,
            token_usage: None,
        };
        let judged = match self.gates.tool_calls {
            ToolCalls::Judge(unasked) => self.engine.judge_answer_and_calls(event, call, unasked).await,
            ToolCalls::Leave => self.engine.judge_answer(event, call).await,
        };
        if let Some(blocked) = judged.decided.into_parts().blocked {
            return Err(JudgeError::Blocked(blocked));
        }
        for (tool, ruling) in calls.iter().zip(judged.rulings) {
            if let ToolDecision::Deny { reason } = ruling {
                // The name of a call may be what it is denied for.
                let told = format!("the answer has a call of `{}`: {reason}", ShownName::new(&tool.name));
                let told = Names::new(&self.engine, call, &self.gates).shown(&told);
                return Err(JudgeError::Blocked(withheld(told.unwrap_or_else(|| DENIED.to_owned()))));
            }
        }
        Ok(())
    }
}

/// The one event that a body is; `None` if it is anything else.
fn only_event(body: &[u8]) -> Option<SseEvent> {
    let mut frames = SseDecoder::default().push(body).ok()?;
    let event = frames.pop()?.event?;
    frames.is_empty().then_some(event)
}

fn withheld(reason: String) -> Blocked {
    Blocked { cause: BlockCause::Withheld, reason: Some(reason.into()), hook: None, owner: None }
}

/// Whether a text stands somewhere once more, token by token.
fn repeats_text(value: &Value) -> bool {
    let says = |value: &Value| match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::String(text) => !text.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    };
    match value {
        Value::Array(items) => items.iter().any(repeats_text),
        Value::Object(fields) => {
            fields.iter().any(|(key, value)| (key == LOGPROBS && says(value)) || repeats_text(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The same as [`items`], to be edited.
fn items_mut(document: &mut Value) -> Vec<&mut Value> {
    if items_listed(document) == 0 {
        return vec![document];
    }
    let Value::Object(fields) = document else { return Vec::new() };
    let lists = fields.iter_mut().filter(|(field, _)| LISTS.contains(&field.as_str()));
    lists.filter_map(|(_, list)| list.as_array_mut()).flatten().collect()
}

fn items_listed(document: &Value) -> usize {
    LISTS.iter().filter_map(|field| document.get(field)?.as_array()).map(Vec::len).sum()
}

/// The items of a document: those in its list, or itself if it is one.
fn items(document: &Value) -> Vec<Value> {
    let lists = LISTS.iter().filter_map(|field| document.get(field)?.as_array());
    let mut items: Vec<Value> = lists.flatten().cloned().collect();
    if items.is_empty() && document.get("type").is_some() {
        items.push(document.clone());
    }
    items
}
