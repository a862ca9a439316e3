//! A turn that goes on after all calls of an answer were refused.
//!
//! A client that gets an answer without calls takes the turn for over. So where nothing is left for it to run, the model is
//! told here that its calls were refused, and why, and what it says then follows in the same answer ([`Joint`]), behind
//! the text that says what was withheld. The law: *an answer that goes on is judged like any other*: the request with the
//! refusals passes the gates of requests, the answer to it those of answers, and each is a model call with its iteration,
//! its usage and its receipts.
//!
//! Limits: at most [`HookSettings::refusals`](crate::inspect::HookSettings::refusals) times for one answer, of the same provider,
//! without retries; no answers of several choices, no streams that are JSON arrays, no calls that have no result in words. Where it can't go on,
//! the answer ends as if nobody had tried; where nobody can judge (a store fails), all of it ends as a first answer does.

use std::sync::Arc;

use backstop_engine::Blocked;
use backstop_hooks::conversation::{Message, TokenUsage};
use backstop_llm::live::{Joint, LiveRequest, refused};
use backstop_llm::{Api, ProviderError};

use super::{Answer, InspectedExchange, ModelCall};
use crate::exchange::{Answered, Exchange as _, Outgoing, Step, Watch};
use crate::inspect::form::AnswerForm;
use crate::inspect::gate::Asking;
use crate::inspect::identity::Identity;
use crate::inspect::owed::conversation_of;
use crate::inspect::reply;

/// What is needed to ask once more.
#[derive(Debug)]
pub(super) struct Again {
    live: LiveRequest,
    /// How often that is possible.
    left: u32,
    /// Of all answers that went before.
    usage: TokenUsage,
    /// The id by which the client of a stream knows all of them.
    shown: Option<String>,
    /// Where the answer under way follows another one.
    joint: Option<Joint>,
}

impl Again {
    pub(super) fn new(live: LiveRequest, left: u32) -> Self {
        Self { live, left, usage: TokenUsage::default(), shown: None, joint: None }
    }

    /// The id by which the client knows the answer under way, where that is the id of an earlier one.
    pub(super) fn shown(&self) -> Option<&str> {
        self.shown.as_deref()
    }
}

impl InspectedExchange {
    /// Where the answer under way follows another one.
    pub(super) fn joint(&mut self) -> Option<&mut Joint> {
        self.again.as_mut()?.joint.as_mut()
    }

    /// The end of the answer before, if nothing of the one under way has left.
    pub(super) fn end_before(&mut self) -> Option<bytes::Bytes> {
        self.joint().filter(|joint| !joint.has_begun()).map(|joint| joint.end())
    }

    /// Lets out what may leave.
    pub(super) fn let_out(&mut self, out: &mut Outgoing) {
        let Answer::Judged(judge) = &mut self.answer else { return };
        let bytes = judge.take();
        out.push(match self.joint() {
            Some(joint) => joint.push(&bytes),
            None => bytes,
        });
    }

    /// Remembers what the provider still wants to hear about calls that its client will not see: those that were refused, or all
    /// of an answer that was `blocked`.
    pub(super) fn owe(&self, blocked: Option<&Blocked>) {
        let (Answer::Judged(judge), Some(model_call)) = (&self.answer, &self.model_call) else { return };
        let [response] = judge.responses() else { return };
        let results: Vec<Message> = match blocked {
            None => {
                judge.refused().iter().filter_map(|(call, why)| refused(self.api, call, &told(why))).collect()
            }
            Some(blocked) => {
                let note = reply::note(blocked);
                response.message.tool_calls().filter_map(|call| refused(self.api, call, &note)).collect()
            }
        };
        if self.api == Api::OpenAiResponses {
            self.shared.owed.keep(self.agent.as_ref(), &model_call.request, &response.id, results);
        }
    }

    /// Lets out what was decided, and asks the model once more where it is left with nothing but refusals.
    pub(super) async fn go_on(&mut self, out: &mut Outgoing) -> Step {
        match self.ask_on(out).await {
            Some(step) => step,
            None => {
                self.let_out(out);
                Step::Continue
            }
        }
    }

    async fn ask_on(&mut self, out: &mut Outgoing) -> Option<Step> {
        let (fields, in_parts) = self.again.as_ref().filter(|again| again.left > 0)?.live.models();
        let other_models =
            self.other_models(&self.model_call.as_ref()?.request.model, fields, in_parts).ok()?;
        let again = self.again.as_mut()?;
        let (Answer::Judged(judge), Some(model_call)) = (&mut self.answer, &self.model_call) else {
            return None;
        };
        let ([response], false, false) = (judge.responses(), judge.refused().is_empty(), judge.has_calls())
        else {
            return None;
        };
        let results = judge.refused().iter().map(|(call, why)| refused(self.api, call, &told(why)));
        let results: Vec<Message> = results.collect::<Option<_>>()?;
        let (used, id) = (response.usage, response.id.clone());
        let mut request = model_call.request.clone();
        if conversation_of(&request).is_some() {
            // The provider has what was asked and said.
            request.messages.clear();
        } else {
            request.messages.push(response.message.clone());
        }
        request.messages.extend(results);
        let iteration = model_call.identity.iteration.saturating_add(1);
        let identity = Identity { iteration, ..model_call.identity.clone() };
        let (call, provider, form) =
            (Arc::clone(&model_call.call), model_call.provider.clone(), model_call.form);
        let asking = Asking {
            engine: &self.shared.engine,
            call: &call,
            identity: &identity,
            provider: &provider,
            other_models: &other_models,
            api: self.api,
            unasked: self.shared.settings.tool_calls.unasked_of_provider(),
            stored: None,
            unlisted: None,
            answer_tokens: None,
        };
        match asking.gate(&mut request, &self.shared.remembered).await {
            Ok(()) => {}
            // Nobody judged: that is no end of an answer.
            Err(blocked) if blocked.is_unavailable() => return Some(self.stop(&blocked, out)),
            // What stops the request is in its receipt; the answer ends.
            Err(_) => return None,
        }
        let body = again.live.write(&request);
        let rest = judge.take();
        let rest = match &mut again.joint {
            Some(joint) => joint.push(&rest),
            None => rest,
        };
        again.usage = sum(again.usage, used);
        let streams = form == AnswerForm::Events;
        let Some((before, joint)) = Joint::cut(self.api, streams, &rest, again.usage) else {
            out.push(rest);
            return Some(Step::Continue);
        };
        out.push(before);
        again.left -= 1;
        again.joint = Some(joint);
        if streams {
            again.shown.get_or_insert(id);
        }
        let next = self.model_call(call, identity, request, &provider, body.len());
        self.answer = Answer::None;
        self.ended = false;
        self.started(ModelCall { form, ..next });
        Some(Step::Again(body))
    }

    /// Ends joined answers because nobody could judge the last one: that does not end the ones before as if nothing were wrong.
    pub(super) fn break_off(&mut self, error: &ProviderError, out: &mut Outgoing) -> Step {
        let streams =
            self.model_call.as_ref().is_some_and(|model_call| model_call.form == AnswerForm::Events);
        let has_ended = match &mut self.answer {
            Answer::Judged(judge) => judge.editor().has_ended(),
            _ => false,
        };
        if has_ended {
            // The end has left, and nothing stands behind it.
        } else if streams {
            out.push(self.api.encode_stream_error(error).encode());
        } else if out.replace(reply::error(self.endpoint.family, error)).is_err() {
            // White space has left, that keeps the client patient.
            out.push(self.api.encode_error(error).to_string().into());
        }
        self.answer = Answer::None;
        Step::End
    }

    /// Takes the head of the answer to what was asked once more.
    pub(super) fn resumed(&mut self, answered: Option<&Answered<'_>>, out: &mut Outgoing) -> Step {
        let form = |exchange: &Self| exchange.model_call.as_ref().map(|model_call| model_call.form);
        let expected = form(self);
        let is_judged = match answered {
            Some(answered) => matches!(self.response(answered), Watch::Look { .. }),
            None => {
                self.unanswered();
                false
            }
        };
        if is_judged && form(self) == expected {
            return Step::Continue;
        }
        if let Some(end) = self.end_before() {
            out.push(end);
        }
        self.answer = Answer::None;
        Step::End
    }
}

/// What the model reads in place of a result.
fn told(why: &str) -> String {
    format!("[backstop] this call was refused and did not run: {why}")
}

fn sum(one: TokenUsage, other: TokenUsage) -> TokenUsage {
    TokenUsage {
        input: one.input.saturating_add(other.input),
        output: one.output.saturating_add(other.output),
        cache_read: one.cache_read.saturating_add(other.cache_read),
        cache_write: one.cache_write.saturating_add(other.cache_write),
    }
}
