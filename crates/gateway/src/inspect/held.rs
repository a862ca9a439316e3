//! Answers that are no answer of a model: states, lists, and the errors in their place.
//!
//! Nobody asked a model, so nothing is counted and no calls are told of; but whoever answers says something, in names, ids and messages,
//! and it reaches people and programs as any answer does. So such an answer is held until it is whole, its texts pass
//! `before_response_emit` and its words the redactors of answers.
//!
//! Limits: what is no JSON and no text is refused; an answer may have as many bytes as any that is held.

use std::sync::Arc;

use backstop_engine::ResponseGate;
use backstop_hooks::CallContext;
use backstop_llm::live::Word;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use serde_json::Value;

use super::document::DocumentJudge;
use super::exchange::{InspectedExchange, told};
use super::judge::{Facts, Gates, JudgeError};
use super::lines::unusable;
use super::names::Names;
use super::{ActiveHooks, Shared, reply};
use crate::endpoint::Family;
use crate::exchange::{Answered, Outgoing, Reply, Step, Watch};
use crate::readable::{self, ERROR};

/// An answer on its way.
#[derive(Debug)]
pub(super) struct HeldAnswer {
    judge: DocumentJudge,
    status: StatusCode,
    family: Family,
    call: Arc<CallContext>,
    facts: Facts,
}

impl HeldAnswer {
    /// What judges this answer about the thing that is called `about`; `None` if nobody judges texts.
    pub(super) fn of(
        shared: &Shared,
        active_hooks: ActiveHooks,
        sample: &InspectedExchange,
        about: &str,
        answered: &Answered<'_>,
    ) -> Option<Self> {
        let gates = gates_of_texts(shared, active_hooks)?;
        let is_error = !answered.status.is_success();
        let document = if is_error { readable::Answered::Error(&ERROR) } else { readable::Answered::State };
        let (call, facts) = sample.of_file(about, answered.provider);
        let judge = DocumentJudge::new(document, false, shared.engine.clone(), gates);
        Some(Self { judge, status: answered.status, family: sample.family(), call, facts })
    }

    /// Takes more of it.
    ///
    /// # Errors
    /// What is told in its place, if it is too large.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Result<(), Box<Reply>> {
        self.judge.push(chunk).map_err(|error| self.told(&error))
    }

    /// What leaves of the whole of it.
    ///
    /// # Errors
    /// What is told in its place, if nothing of it may leave.
    pub(super) async fn decide(&mut self) -> Result<Bytes, Box<Reply>> {
        let decided = self.judge.decide(&self.facts, 0, &self.call).await;
        decided.map_err(|error| self.told(&error))
    }

    fn told(&self, error: &JudgeError) -> Box<Reply> {
        let told = match error {
            JudgeError::Blocked(blocked) => reply::error_of(blocked),
            JudgeError::Wire(_) if self.judge.is_error() => told::unread_error(self.status),
            JudgeError::Wire(_) | JudgeError::TooLarge { .. } => told::provider_error(error),
        };
        Box::new(reply::error(self.family, &told))
    }
}

/// What texts of answers are judged by, where they are.
fn gates_of_texts(shared: &Shared, active_hooks: ActiveHooks) -> Option<Gates> {
    active_hooks.gates(&shared.settings).filter(|gates| gates.emit != ResponseGate::Open)
}

/// What judges the lines of a document of answers besides the answers in them: their ids, and errors.
#[derive(Debug)]
pub(super) struct Line {
    names: Names,
    error: HeldAnswer,
}

impl Line {
    /// `None` where nobody judges texts.
    pub(super) fn of(
        shared: &Shared,
        active_hooks: ActiveHooks,
        sample: &InspectedExchange,
        about: &str,
        provider: &str,
    ) -> Option<Self> {
        let gates = gates_of_texts(shared, active_hooks)?;
        let headers = HeaderMap::new();
        let answered = Answered { provider, status: StatusCode::BAD_GATEWAY, headers: &headers };
        let error = HeldAnswer::of(shared, active_hooks, sample, about, &answered)?;
        Some(Self { names: Names::new(&shared.engine, &error.call, &gates), error })
    }

    /// Judges the strings in `ids`, none of which is a text.
    ///
    /// # Errors
    /// What is wrong with the line, if one may not leave.
    pub(super) async fn ids(&mut self, ids: &[Option<&Value>]) -> Result<(), String> {
        let words = ids.iter().copied().flatten().filter_map(Value::as_str).map(Word::new);
        let words: Vec<Word> = words.collect();
        if self.names.pass(&words) {
            return Ok(());
        }
        // That is in the trail by then.
        drop(self.names.blocked().await);
        Err("has an id that can't be shown".to_owned())
    }

    /// What stands in the place of an error; `None` if it stays as it is.
    ///
    /// # Errors
    /// What is wrong with the line, if nothing of the error may leave.
    pub(super) async fn error(&mut self, error: &Value) -> Result<Option<Value>, String> {
        let withheld = || "has an error that can't be shown".to_owned();
        self.error.push(error.to_string().as_bytes()).map_err(|_| withheld())?;
        let left = self.error.decide().await.map_err(|_| withheld())?;
        let left: Value = serde_json::from_slice(&left).map_err(|_| withheld())?;
        Ok((left != *error).then_some(left))
    }
}

/// A state on its way to the client, or an error in its place: held until it was looked at, unless nobody judges answers.
#[derive(Debug)]
pub(super) struct HeldState {
    /// Whether it waits.
    is_held: bool,
    is_error: bool,
    limit: usize,
    came: BytesMut,
    /// `None` where nobody judges texts.
    judge: Option<HeldAnswer>,
}

impl HeldState {
    /// One of at most `limit` bytes.
    pub(super) fn new(active_hooks: ActiveHooks, limit: usize) -> Self {
        let is_held = active_hooks.gates_answers();
        Self { is_held, is_error: false, limit, came: BytesMut::new(), judge: None }
    }

    /// The head of the answer has come, which `judge` judges.
    pub(super) fn begin(&mut self, judge: Option<HeldAnswer>, status: StatusCode) -> Watch {
        self.is_error = !status.is_success();
        self.judge = judge;
        if self.is_error && self.judge.is_none() { Watch::Opaque } else { Watch::Look { keep_alive: None } }
    }

    /// Takes more of it.
    pub(super) fn push(&mut self, chunk: Bytes, family: Family, out: &mut Outgoing) -> Step {
        // What is too long is not kept, but the byte that says so.
        let room = (self.limit + 1).saturating_sub(self.came.len());
        self.came.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
        if !self.is_held {
            out.push(chunk);
        } else if self.came.len() > self.limit {
            let _ = out
                .replace(unusable(family, &format!("it is a state, and has more than {} bytes", self.limit)));
            return Step::End;
        }
        Step::Continue
    }

    /// What it says, if that can be read; it may leave if it is one of a closed form, and if nobody objects.
    pub(super) fn finish(
        &mut self,
        is_closed: impl Fn(Option<&Value>) -> bool,
        family: Family,
        out: &mut Outgoing,
    ) -> (Option<Value>, Step) {
        if self.is_error {
            return (None, self.hand_over(out));
        }
        let state = backstop_llm::wire::parse_json(&self.came).ok();
        if !self.is_held {
            return (state, Step::Continue);
        }
        if is_closed(state.as_ref()) {
            return (state, self.hand_over(out));
        }
        let _ = out.replace(unusable(family, "it is no state of what was asked for"));
        (state, Step::End)
    }

    /// Hands what came to the judge.
    fn hand_over(&mut self, out: &mut Outgoing) -> Step {
        let bytes = self.came.split().freeze();
        let Some(judge) = &mut self.judge else {
            out.push(bytes);
            return Step::Continue;
        };
        match judge.push(&bytes) {
            Ok(()) => Step::Decide,
            Err(reply) => {
                let _ = out.replace(*reply);
                Step::End
            }
        }
    }

    /// Puts out what leaves of it.
    pub(super) async fn decide(&mut self, out: &mut Outgoing) -> Step {
        if let Some(judge) = &mut self.judge {
            match judge.decide().await {
                Ok(bytes) => out.push(bytes),
                // Nothing of it has left.
                Err(reply) => drop(out.replace(*reply)),
            }
        }
        Step::End
    }
}
