//! [`Exchange`] for [`InspectedExchange`]: what happens with each part of the request and the answer as the gateway shows it.

use std::sync::Arc;

use async_trait::async_trait;
use backstop_llm::live::{self, AnswerEditor};
use backstop_llm::{Api, ErrorCategory, FailureKind, ModelError, WireError, estimate_tokens};
use bytes::Bytes;

use super::again::Again;
use super::approved::Stop;
use super::told::{feed_watcher, provider_error, unread_error, unwritable};
use super::{Answer, InspectedExchange, ModelCall, millis};
use crate::exchange::{Answered, Body, Exchange, KeepAlive, Outgoing, Requested, Step, Watch};
use crate::inspect::form::{AnswerForm, Kind};
use crate::inspect::gate::Asking;
use crate::inspect::heads::{is_event_stream, unjudgeable, upstream_id};
use crate::inspect::incoming::Incoming;
use crate::inspect::judge::{AnswerJudge, JudgeError};
use crate::inspect::known;
use crate::inspect::life;
use crate::inspect::numbers::Fault;
use crate::inspect::settings::BlockedForm;
use crate::readable::COUNTS;

#[async_trait]
impl Exchange for InspectedExchange {
    async fn request(&mut self, body: &Body<'_>) -> Requested {
        self.shared.housekeeping.tidy(&self.shared.engine);
        let known = known::of(&self.shared, self.agent.as_ref());
        let read = Incoming::read(&self.kind, self.api, &self.path, body.bytes, &known);
        if matches!(read, Ok(None)) {
            let response = if let Kind::Fetch { response, .. } = &self.kind { response.as_str() } else { "" };
            self.model_call = Some(self.fetched(response, body.provider));
            // Its call was told of when it was asked for.
            self.ended = true;
            return Requested::Unchanged;
        }
        if !self.is_utf8 {
            return self.unreadable(&"its charset is not UTF-8");
        }
        let live = match read {
            Ok(Some(live)) => live,
            Ok(None) => return Requested::Unchanged,
            Err(error) => return self.unreadable(&error),
        };
        if let Some(why) = self.unjudgeable(&live) {
            return self.unreadable(&why);
        }
        let (fields, in_parts) = live.naming(body.bytes);
        let other_models = match self.other_models(&live.request().model, &fields, in_parts) {
            Ok(others) => others,
            Err(error) => return self.unreadable(&error),
        };
        self.is_plain = live.is_plain();
        let mut request = live.request().clone();
        self.recorder.is_for(&request.model);
        let form = self.kind.answer(live.is_stream());
        let identity = self.identify(&request);
        let call = Arc::new(self.context(&identity, &request));
        if matches!(live, Incoming::Conversation(_)) {
            life::heard(&self.shared, &call, request.messages.len());
        }
        if self.api == Api::OpenAiResponses {
            self.shared.owed.read(self.shared.engine.store().as_ref()).await;
            self.shared.owed.add(self.agent.as_ref(), &mut request);
            let approved = match live.stored() {
                Some(stored) => self.approved_in_store(stored.items(), &identity, &call).await,
                None => self.approved(&mut request, &identity, &call).await,
            };
            match approved {
                Ok(()) => {}
                Err(Stop::Unread(why)) => return self.unreadable(&why),
                Err(Stop::Blocked(blocked)) => return self.blocked(&blocked, live.request(), form),
            }
        }
        let unlisted = live.unlisted(self.readable());
        let asking = Asking {
            engine: &self.shared.engine,
            call: &call,
            identity: &identity,
            provider: body.provider,
            other_models: &other_models,
            api: live.api().unwrap_or(self.api),
            unasked: self.shared.settings.tool_calls.unasked_of_provider(),
            stored: live.stored(),
            unlisted: unlisted.as_ref(),
            answer_tokens: self.answer_tokens(&live),
        };
        if let Err(blocked) = asking.gate(&mut request, &self.shared.remembered).await {
            return self.blocked(&blocked, live.request(), form);
        }
        let rewritten = if request == *live.request() { None } else { Some(live.write(&request)) };
        let Ok(rewritten) = rewritten.map(|body| body.ok_or(())).transpose() else {
            return self.blocked(&unwritable(), live.request(), form);
        };
        let bytes = rewritten.as_ref().unwrap_or(body.bytes).len();
        let model_call = self.model_call(call, identity, request, body.provider, bytes);
        self.started(ModelCall { form, ..model_call });
        let goes_on =
            self.active_hooks.calls && form != AnswerForm::Array && !self.is_count() && !self.is_in_batch();
        let refusals = self.shared.settings.refusals;
        self.again = match live {
            Incoming::Conversation(live) if goes_on && refusals > 0 => Some(Again::new(live, refusals)),
            Incoming::Conversation(_)
            | Incoming::Counted(_)
            | Incoming::Document(..)
            | Incoming::Stored(..)
            | Incoming::Parts(..) => None,
        };
        rewritten.map_or(Requested::Unchanged, Requested::Replaced)
    }

    fn response(&mut self, answered: &Answered<'_>) -> Watch {
        let Some(model_call) = &mut self.model_call else { return Watch::Opaque };
        answered.provider.clone_into(&mut model_call.provider);
        model_call.upstream_id = upstream_id(answered.headers);
        if let Some(why) = self.active_hooks.decides().then(|| unjudgeable(answered)).flatten() {
            return self.refuse(why);
        }
        if !answered.status.is_success() {
            let error = self.api.decode_error(answered.status.as_u16(), answered.headers, &[]);
            let category = ModelError::Provider(error).category();
            self.end(Some((category.as_str(), None)));
            return self.error(answered);
        }
        if let Some(readable) = self.readable() {
            return self.document(answered, readable.answered);
        }
        if self.is_count() {
            self.end(None);
            let gates = self.active_hooks.gates(&self.shared.settings);
            return gates.map_or(Watch::Opaque, |gates| self.numbers(&COUNTS, gates));
        }
        let Some(model_call) = &mut self.model_call else { return Watch::Opaque };
        self.shared.owed.answered(self.agent.as_ref(), &model_call.request);
        model_call.form = match model_call.form {
            _ if is_event_stream(answered.headers) => AnswerForm::Events,
            AnswerForm::Array => AnswerForm::Array,
            AnswerForm::Whole | AnswerForm::Events => AnswerForm::Whole,
        };
        let mut editor = match model_call.form {
            AnswerForm::Whole => live::whole_editor(self.api, &model_call.request),
            AnswerForm::Events => live::stream_editor(self.api, &model_call.request),
            AnswerForm::Array => live::array_editor(&model_call.request),
        };
        let is_array = model_call.form == AnswerForm::Array;
        let gates = self.active_hooks.gates(&self.shared.settings);
        self.answer = match gates {
            Some(gates) => {
                let engine = self.shared.engine.clone();
                Answer::Judged(Box::new(AnswerJudge::new(editor, engine, &model_call.call, gates)))
            }
            None => {
                editor.release_results();
                Answer::Watched(Some(editor))
            }
        };
        let may_fail = self.shared.settings.blocked == BlockedForm::Error;
        let keep_alive = match &mut self.answer {
            // Nothing may stand in front of an array that may still become an error.
            Answer::Judged(judge) if is_array && may_fail && judge.holds_everything() => None,
            Answer::Judged(judge) => judge.editor().keep_alive(),
            Answer::None
            | Answer::Document(_)
            | Answer::Counted(_)
            | Answer::Numbers(..)
            | Answer::Watched(_) => None,
        };
        let every = self.shared.settings.keep_alive;
        Watch::Look { keep_alive: keep_alive.map(|bytes| KeepAlive { every, bytes }) }
    }

    fn chunk(&mut self, chunk: Bytes, out: &mut Outgoing) -> Step {
        if let Some(model_call) = &mut self.model_call {
            model_call.response_bytes = model_call.response_bytes.saturating_add(chunk.len() as u64);
            model_call.first_byte_ms.get_or_insert_with(|| millis(model_call.started));
        }
        match &mut self.answer {
            Answer::Document(judge) => match judge.push(&chunk) {
                Ok(()) => Step::Continue,
                Err(error) => self.fail(&error, out),
            },
            Answer::Judged(judge) => {
                let progress = judge.push(&chunk);
                self.advance(progress, out)
            }
            Answer::Watched(reader) => {
                let limit = self.shared.settings.answer_bytes;
                let fits = |editor: &mut Box<dyn AnswerEditor>| feed_watcher(&mut **editor, &chunk, limit);
                if reader.as_mut().is_some_and(|editor| !fits(editor)) {
                    *reader = None;
                }
                self.let_be_approved_unjudged();
                out.push(chunk);
                Step::Continue
            }
            Answer::Counted(reader) => {
                reader.push(&chunk);
                out.push(chunk);
                Step::Continue
            }
            Answer::Numbers(numbers, reader) => match numbers.push(&chunk) {
                Ok(()) => {
                    reader.push(&chunk);
                    out.push(chunk);
                    Step::Continue
                }
                Err(Fault::Name) => Step::Decide,
                Err(fault) => self.fail(&fault.into(), out),
            },
            Answer::None => {
                out.push(chunk);
                Step::Continue
            }
        }
    }

    fn finish(&mut self, out: &mut Outgoing) -> Step {
        match &mut self.answer {
            Answer::Judged(judge) => {
                let progress = judge.finish();
                self.advance(progress, out)
            }
            Answer::Watched(reader) => {
                match reader.as_mut().map(|editor| editor.finish()) {
                    Some(Ok(())) => {
                        self.let_be_approved_unjudged();
                        self.whole();
                    }
                    Some(Err(_)) | None => {
                        *reader = None;
                        self.end(Some((ErrorCategory::Protocol.as_str(), None)));
                    }
                }
                Step::Continue
            }
            Answer::Document(_) => Step::Decide,
            Answer::Counted(reader) => {
                let usage = reader.usage();
                self.document_whole(Vec::new(), usage);
                Step::Continue
            }
            Answer::Numbers(numbers, reader) => {
                let (read, usage) = (numbers.finish(), reader.usage());
                if let Err(fault) = read {
                    return self.fail(&fault.into(), out);
                }
                if !self.is_count() {
                    self.document_whole(Vec::new(), usage);
                }
                Step::Continue
            }
            Answer::None => Step::Continue,
        }
    }

    async fn decide(&mut self, out: &mut Outgoing) -> Step {
        if let (Answer::Document(judge), Some(model_call)) = (&mut self.answer, &self.model_call) {
            let usage = judge.usage(estimate_tokens(&model_call.request));
            let decided = judge.decide(&model_call.facts, millis(model_call.started), &model_call.call).await;
            let (said, is_error) = (judge.said(), judge.is_error());
            if !is_error {
                self.document_whole(said, usage);
            }
            match decided {
                Ok(body) => out.push(body),
                Err(JudgeError::Wire(_)) if is_error => {
                    return self.end_with_error(&unread_error(self.error_status), out);
                }
                Err(error) => return self.fail(&error, out),
            }
            return Step::End;
        }
        if let Answer::Numbers(numbers, _) = &mut self.answer {
            let blocked = numbers.blocked().await;
            return blocked.map_or(Step::End, |blocked| self.stop(&blocked, out));
        }
        if let Some(error) = self.failing.take() {
            return self.provider_failed(error, out).await;
        }
        if let Answer::Judged(judge) = &mut self.answer
            && let Some(blocked) = judge.stopped().await
        {
            return self.stop(&blocked, out);
        }
        if let Some(step) = self.decide_results(out).await {
            return step;
        }
        self.whole();
        let (Answer::Judged(judge), Some(model_call)) = (&mut self.answer, &self.model_call) else {
            return Step::End;
        };
        let decided = judge.decide(&model_call.facts, millis(model_call.started), &model_call.call).await;
        if let Err(error) = decided {
            if let JudgeError::Blocked(blocked) = &error {
                self.owe(Some(blocked));
                self.shared.owed.write(self.shared.engine.store().as_ref()).await;
            }
            return self.fail(&error, out);
        }
        self.owe(None);
        self.let_be_approved();
        self.shared.owed.write(self.shared.engine.store().as_ref()).await;
        self.go_on(out).await
    }

    fn again(&mut self, answered: Option<&Answered<'_>>, out: &mut Outgoing) -> Step {
        self.resumed(answered, out)
    }

    fn unanswered(&mut self) {
        self.end(Some((ErrorCategory::Network.as_str(), None)));
    }

    fn failed(&mut self, out: &mut Outgoing) -> Step {
        let mut step = Step::Continue;
        if let Some(end) = self.end_before() {
            out.push(end);
            step = Step::End;
        } else if matches!(self.answer, Answer::Judged(_)) {
            self.let_out(out);
            if let Answer::Judged(judge) = &mut self.answer
                && judge.editor().has_ended()
            {
                step = Step::End;
            }
            // The gateway knows how events go on, and not how an array does.
            let is_array =
                self.model_call.as_ref().is_some_and(|model_call| model_call.form == AnswerForm::Array);
            if is_array && !(out.is_empty() && out.head_mut().is_some()) {
                if let Answer::Judged(judge) = &mut self.answer {
                    judge.editor().fail(&provider_error(&JudgeError::Wire(WireError::Truncated)));
                }
                self.let_out(out);
                step = Step::End;
            }
        }
        self.end(Some((ErrorCategory::Network.as_str(), Some(FailureKind::ConnectionClosed))));
        step
    }
}
