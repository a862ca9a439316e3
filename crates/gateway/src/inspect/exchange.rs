//! One request and its answer, taken through the hook points of a model call.
//!
//! [`InspectedExchange`] holds the state that both halves share; it implements the gateway's
//! [`Exchange`](crate::exchange::Exchange) in `seam.rs`.

mod again;
mod approved;
mod failing;
mod part;
mod seam;
pub(super) mod told;
mod watching;

use std::sync::Arc;
use std::time::Instant;

use backstop_engine::Blocked;
use backstop_hooks::conversation::TokenUsage;
use backstop_hooks::points::{
    BeforeLlmCall, LlmInput, LlmOutput, LlmOutputEvent, ModelCallEnded, ModelCallEndedEvent, ModelCallResult,
    ModelCallStarted, ModelCallStartedEvent, NO_MODEL,
};
use backstop_hooks::{
    AgentId, CallContext, CallId, Digest, FrontEnd, Requester, SessionKey, Text, Trace, TraceParent, Trigger,
};
use backstop_llm::live::AnswerEditor;
use backstop_llm::{Api, FailureKind, ModelRequest, ProviderError, ProviderErrorKind, WireError};
use http::{HeaderMap, StatusCode};

use self::again::Again;
use self::told::output;
use super::document::DocumentJudge;
use super::form::{AnswerForm, Form, Kind};
use super::gate::{Asking, messages_of_turn};
use super::heads::trace_parent;
use super::identity::{Identity, SESSION_HEADERS, identify};
use super::incoming::Incoming;
use super::judge::{AnswerJudge, Facts, JudgeError, Progress};
use super::names::withheld;
use super::numbers::Numbers;
use super::settings::BlockedForm;
use super::usage::UsageReader;
use super::watch::Watchers;
use super::{ActiveHooks, Shared, charset, number, reply};
use crate::cloud::azure;
use crate::endpoint::{Endpoint, Family, Operation};
use crate::exchange::{Call, Outgoing, Requested, Step};
use crate::models::{NamedModels, in_query};
use crate::readable::Readable;
use crate::record::Recorder;

/// The transport of calls that only count tokens: no model answered.
const ONLY_COUNTED: &str = "count";

/// The longest name of a model: counters and receipts are named after it.
const LONGEST_MODEL: usize = 256;

/// Headers in which the user is named where clients are trusted to.
const USER_HEADER: &str = "x-backstop-user";

/// One request of a client and its answer, as the hooks see them. One is made per inspected request and dropped when the
/// answer has ended or the client has disconnected.
#[derive(Debug)]
pub(super) struct InspectedExchange {
    shared: Arc<Shared>,
    active_hooks: ActiveHooks,
    endpoint: Endpoint,
    /// What the address names.
    path: String,
    /// The models in its query and its headers.
    named_outside: Vec<String>,
    api: Api,
    kind: Kind,
    agent: Option<AgentId>,
    /// Whom the request's token names.
    user: Option<Arc<str>>,
    recorder: Recorder,
    /// The session on a socket to which the request belongs.
    session: Option<String>,
    /// The few headers that say where the request belongs.
    headers: HeaderMap,
    /// The span of the request.
    trace: Trace,
    /// The span in which it was counted, where that was another exchange.
    span: Option<Trace>,
    /// Whether the provider reads the request in the charset in which it is judged.
    is_utf8: bool,
    /// Whether the answer is asked for as a plain text.
    is_plain: bool,
    /// Whether it is one of the requests or answers that one request or answer holds.
    is_part: bool,
    /// Whether it is one request of a file.
    in_batch: bool,
    /// Whether no model is asked by it.
    asks_no_model: bool,
    /// The call to the model; `None` until the request has been read and the hooks have let it through.
    model_call: Option<ModelCall>,
    answer: Answer,
    /// How the answer goes on after a refusal, where it may.
    again: Option<Again>,
    /// An error that the provider reported inside of its answer, whose words are to be judged.
    failing: Option<ProviderError>,
    /// Set once `model_call_ended` has been emitted, or must not be.
    ended: bool,
    /// The status with which the provider answered, if that is an error.
    error_status: StatusCode,
}

/// A request that is sent to a model, with what is measured about it for the events of the call.
#[derive(Debug)]
struct ModelCall {
    call: Arc<CallContext>,
    id: CallId,
    identity: Identity,
    facts: Facts,
    provider: String,
    request: ModelRequest,
    /// The form of the answer: the requested one at first, and the one that the provider sent once it is known.
    form: AnswerForm,
    watchers: Watchers,
    started: Instant,
    request_bytes: u64,
    response_bytes: u64,
    first_byte_ms: Option<u64>,
    upstream_id: Option<Digest>,
}

/// How the answer is treated.
#[derive(Debug)]
enum Answer {
    /// No answer has arrived yet, or it passes unread.
    None,
    /// Hooks judge it as it arrives.
    Judged(Box<AnswerJudge>),
    /// A document, which is judged once it is complete.
    Document(Box<DocumentJudge>),
    /// A document without text to judge: it passes as it arrives and is read only for its token usage.
    Counted(UsageReader),
    /// Numbers, which are read as they pass.
    Numbers(Box<Numbers>, UsageReader),
    /// It passes as it arrives and is decoded only for hooks that watch. `None` once decoding failed.
    Watched(Option<Box<dyn AnswerEditor>>),
}

impl InspectedExchange {
    pub(super) fn new(shared: Arc<Shared>, active_hooks: ActiveHooks, form: Form, call: &Call<'_>) -> Self {
        let kept = SESSION_HEADERS.iter().copied().chain([USER_HEADER]);
        let headers = kept.filter_map(|name| {
            let value = call.headers.get(name)?;
            Some((http::HeaderName::from_static(name), value.clone()))
        });
        let trace = call.recorder.trace().unwrap_or_else(|| {
            // Any 32 digits are a trace, also those of a secret.
            let is_withheld = |text| {
                let context = CallContext { agent_id: call.agent.cloned(), ..CallContext::default() };
                let gates = active_hooks.gates(&shared.settings);
                gates.is_some_and(|gates| !withheld(&shared.engine, &context, &gates, &[text]).is_empty())
            };
            let parent = trace_parent(call.headers).filter(|(text, _)| !is_withheld(*text));
            Trace::begin(parent.map(|(_, parent)| parent))
        });
        Self {
            shared,
            active_hooks,
            endpoint: *call.endpoint,
            path: call.path.to_owned(),
            named_outside: [in_query(call.query), azure::in_headers(call.headers)].concat(),
            api: form.api,
            kind: form.kind,
            agent: call.agent.cloned(),
            user: call.user.cloned(),
            recorder: call.recorder.clone(),
            session: call.session.map(str::to_owned),
            headers: headers.collect(),
            trace,
            span: None,
            is_utf8: charset::is_utf8(call.headers),
            is_plain: false,
            is_part: false,
            in_batch: false,
            asks_no_model: false,
            model_call: None,
            answer: Answer::None,
            again: None,
            failing: None,
            ended: false,
            error_status: StatusCode::BAD_GATEWAY,
        }
    }

    /// Returns the engine whose hooks judge.
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Returns the family whose wire format the client uses.
    pub(super) fn family(&self) -> Family {
        self.endpoint.family
    }

    fn context(&self, identity: &Identity, request: &ModelRequest) -> CallContext {
        if !self.is_part {
            self.recorder.converses(&identity.session);
        }
        CallContext {
            agent_id: self.agent.clone(),
            session_key: Some(SessionKey::new(identity.session.as_str())),
            session_id: Some(identity.session.clone()),
            run_id: Some(identity.run.clone()),
            trigger: Some(Trigger::User),
            requester: self.requester(request),
            trace: Some(self.span()),
            front_end: FrontEnd { client: self.shared.settings.client, ..FrontEnd::of_host("gateway") },
            sight: self.shared.settings.sight.clone(),
            ..CallContext::default()
        }
    }

    /// The span in which it is judged: that of the request, or one of its own where it is a part of one, since budgets count by spans.
    fn span(&self) -> Trace {
        let Trace { trace_id, span_id, .. } = self.trace;
        self.span.unwrap_or_else(|| {
            if !self.is_part {
                return self.trace;
            }
            let part = Trace::begin(Some(TraceParent { trace_id, span_id, is_sampled: true }));
            self.recorder.has_part(part);
            part
        })
    }

    fn requester(&self, request: &ModelRequest) -> Option<Requester> {
        if let Some(user) = &self.user {
            return Some(Requester { sender_id: Some(user.as_ref().to_owned()), ..Requester::default() });
        }
        if !self.shared.settings.trust_user {
            return None;
        }
        let header = self.headers.get(USER_HEADER).and_then(|value| value.to_str().ok());
        let body = || {
            let extra = &request.extra;
            let fields = [
                extra.get("safety_identifier"),
                extra.get("user"),
                extra.get("metadata").and_then(|metadata| metadata.get("user_id")),
            ];
            fields.into_iter().flatten().find_map(|value| value.as_str())
        };
        let user = header.or_else(body).filter(|user| !user.is_empty() && user.len() <= 256)?;
        Some(Requester { sender_id: Some(user.to_owned()), ..Requester::default() })
    }

    fn is_count(&self) -> bool {
        self.endpoint.is_count()
    }

    /// Whether it is one request of many: a model is asked when its provider has time.
    fn is_in_batch(&self) -> bool {
        self.in_batch || self.endpoint.operation == Operation::Batch
    }

    /// What a budget reserves for the answers of a request in a batch.
    fn answer_tokens(&self, live: &Incoming) -> Option<u64> {
        let usual = self.shared.settings.answer_tokens;
        if self.is_in_batch() { live.answer_tokens(usual) } else { None }
    }

    /// A request that nobody here can read. Where something may be stopped or rewritten it is refused.
    pub(super) fn unreadable(&self, why: &dyn std::fmt::Display) -> Requested {
        if !self.active_hooks.decides() {
            return Requested::Unchanged;
        }
        let message = format!("backstop: the request can't be judged: {why}");
        let error = ProviderError::new(ProviderErrorKind::InvalidRequest, 400, None, &message);
        Requested::Reply(reply::error(self.endpoint.family, &error))
    }

    fn blocked(&self, blocked: &Blocked, request: &ModelRequest, form: AnswerForm) -> Requested {
        self.recorder.blocked();
        let is_conversation = matches!(self.kind, Kind::Ask(_)) && !self.is_count() && !self.is_in_batch();
        Requested::Reply(match self.shared.settings.blocked {
            BlockedForm::Answer if is_conversation && !blocked.is_unavailable() => {
                reply::answer(self.api, request, form, &reply::note(blocked))
            }
            // Neither a count nor a document or a batch has a text that could say so.
            BlockedForm::Answer | BlockedForm::Error => {
                reply::error(self.endpoint.family, &reply::error_of(blocked))
            }
        })
    }

    /// Returns where a request belongs.
    fn identify(&self, request: &ModelRequest) -> Identity {
        let (agent, session) = (self.agent.as_ref(), self.session.as_deref());
        let identity = identify(agent, &self.headers, request, session, &self.shared.links);
        // The client chose the name, which may be a secret.
        let name = identity.session.as_str();
        let call = CallContext { agent_id: agent.cloned(), ..CallContext::default() };
        let gates = self.active_hooks.gates(&self.shared.settings);
        let is_withheld =
            gates.is_some_and(|gates| !withheld(&self.shared.engine, &call, &gates, &[name]).is_empty());
        if is_withheld { identity.unnamed(self.shared.links.names()) } else { identity }
    }

    /// Builds the call for a request of `bytes` bytes that goes to `provider`.
    fn model_call(
        &self,
        call: Arc<CallContext>,
        identity: Identity,
        request: ModelRequest,
        provider: &str,
        bytes: usize,
    ) -> ModelCall {
        let facts = Facts {
            run: identity.run.clone(),
            model: request.model.clone(),
            iteration: identity.iteration,
            messages: messages_of_turn(&request.messages).saturating_add(1),
        };
        ModelCall {
            id: CallId::new(number::timed().simple().to_string()),
            watchers: Watchers::new(&self.shared, Arc::clone(&call), bytes),
            call,
            identity,
            facts,
            provider: provider.to_owned(),
            request,
            form: AnswerForm::Whole,
            started: Instant::now(),
            request_bytes: bytes as u64,
            response_bytes: 0,
            first_byte_ms: None,
            upstream_id: None,
        }
    }

    /// Builds the call for an answer that is fetched later: it belongs to the conversation that requested it.
    fn fetched(&self, response: &str, provider: &str) -> ModelCall {
        let extra = serde_json::json!({ "previous_response_id": response });
        let request = ModelRequest { extra: extra.into(), ..ModelRequest::default() };
        let identity = self.identify(&request);
        let call = Arc::new(self.context(&identity, &request));
        self.model_call(call, identity, request, provider, 0)
    }

    /// Returns the call context and facts for judging a stored file, for which no model is called.
    pub(super) fn of_file(&self, file: &str, provider: &str) -> (Arc<CallContext>, Facts) {
        let ModelCall { call, facts, .. } = self.fetched(file, provider);
        (call, facts)
    }

    /// Records the call and emits `llm_input` and `model_call_started`.
    fn started(&mut self, model_call: ModelCall) {
        let model_call = self.model_call.insert(model_call);
        let ModelCall { call: _, id, identity, provider, request, form, watchers, .. } = model_call;
        let call = Arc::clone(&model_call.call);
        let unasked = self.shared.settings.tool_calls.unasked_of_provider();
        let (engine, api) = (&self.shared.engine, self.api);
        let asking = Asking {
            engine,
            call: &call,
            identity,
            provider,
            other_models: &[],
            api,
            unasked,
            stored: None,
            unlisted: None,
            answer_tokens: None,
        };
        watchers.tell::<LlmInput>(|| asking.input(request));
        if self.in_batch || self.endpoint.operation == Operation::Batch {
            // No model is asked now.
            self.ended = true;
            return;
        }
        watchers.tell::<ModelCallStarted>(|| {
            ModelCallStartedEvent::new(
                identity.run.clone(),
                id.clone(),
                provider.clone(),
                request.model.clone(),
            )
            .api(self.api.as_str().to_owned())
            .transport(form.transport().to_owned())
        });
    }

    /// Why a request that was read can't be judged all the same.
    fn unjudgeable(&self, live: &Incoming) -> Option<String> {
        if live.request().model == NO_MODEL && !self.asks_no_model {
            return Some(format!("`{NO_MODEL}` is no name of a model"));
        }
        if live.request().model.len() > LONGEST_MODEL {
            return Some(format!("the model's name has more than {LONGEST_MODEL} bytes"));
        }
        let unjudged_request = live.unjudgeable().filter(|_| self.active_hooks.request);
        let answer = || live.unanswerable(self.readable()).filter(|_| self.active_hooks.gates_answers());
        unjudged_request.or_else(answer).map(str::to_owned)
    }

    /// The models that a request names besides the one that it is for: in the object `fields`, and `in_parts` that this leaves out.
    fn other_models(
        &self,
        model: &str,
        fields: &[u8],
        in_parts: &[String],
    ) -> Result<Vec<String>, serde_json::Error> {
        if !self.shared.engine.has_hooks::<BeforeLlmCall>() {
            return Ok(Vec::new());
        }
        let outside = [self.named_outside.as_slice(), in_parts].concat();
        let named = NamedModels::of(self.endpoint, &self.path, &outside, fields)?;
        let all = named.main.into_iter().chain(named.others);
        Ok(all.filter(|other| other != model).collect())
    }

    fn readable(&self) -> Option<&'static Readable> {
        match &self.kind {
            Kind::Texts { readable, .. } => Some(readable),
            Kind::Fetch { document, .. } => *document,
            Kind::Ask(_) | Kind::BedrockCount | Kind::Unreadable(_) => None,
        }
    }

    /// Tells how the call ended, once.
    fn end(&mut self, failure: Option<(&'static str, Option<FailureKind>)>) {
        let Some(model_call) = self.model_call.as_mut().filter(|_| !self.ended) else { return };
        self.ended = true;
        let (api, known) = (self.api, |bytes: u64| (bytes > 0).then_some(bytes));
        let transport = if self.endpoint.is_count() { ONLY_COUNTED } else { model_call.form.transport() };
        let event = ModelCallEndedEvent::new(
            model_call.identity.run.clone(),
            model_call.id.clone(),
            model_call.provider.clone(),
            model_call.request.model.clone(),
            millis(model_call.started),
            if failure.is_some() { ModelCallResult::Error } else { ModelCallResult::Completed },
        )
        .api(api.as_str().to_owned())
        .transport(transport.to_owned())
        .error_category(failure.map(|(category, _)| category.to_owned()))
        .failure_kind(failure.and_then(|(_, kind)| kind).map(|kind| kind.as_str().to_owned()))
        .request_bytes(known(model_call.request_bytes))
        .response_bytes(known(model_call.response_bytes))
        .time_to_first_byte_ms(model_call.first_byte_ms)
        .upstream_request_id_hash(model_call.upstream_id.map(|digest| digest.to_string()));
        model_call.watchers.tell::<ModelCallEnded>(|| event);
    }

    /// The answer is whole: what it says is shown to those who watch.
    fn whole(&mut self) {
        self.end(None);
        let Some(model_call) = &mut self.model_call else { return };
        let responses = match &self.answer {
            Answer::Judged(judge) => judge.responses(),
            Answer::Watched(Some(editor)) => editor.responses(),
            Answer::None
            | Answer::Document(_)
            | Answer::Counted(_)
            | Answer::Numbers(..)
            | Answer::Watched(None) => &[],
        };
        for response in responses {
            if matches!(self.kind, Kind::Ask(_)) {
                let (agent, identity) = (self.agent.as_ref(), &model_call.identity);
                let links = &self.shared.links;
                links.remember(agent, &response.id, &model_call.request, identity);
                if let Some(session) = &self.session {
                    links.remember_session(agent, session, identity);
                }
                if let Some(shown) = self.again.as_ref().and_then(Again::shown) {
                    self.shared.owed.goes_on(self.agent.as_ref(), shown, &response.id);
                }
            }
            let identity = &model_call.identity;
            let (provider, model) = (&model_call.provider, &model_call.request.model);
            self.recorder.used(model, response.usage);
            self.recorder.heard(&response.model, &response.stop);
            model_call.watchers.tell::<LlmOutput>(|| output(identity, provider, model, response));
        }
    }

    /// A document is whole: what it says and what it cost is shown to those who watch.
    fn document_whole(&mut self, said: Vec<Text>, usage: TokenUsage) {
        self.end(None);
        let Some(model_call) = &mut self.model_call else { return };
        let ModelCall { identity, provider, request, watchers, .. } = model_call;
        self.recorder.used(&request.model, usage);
        watchers.tell::<LlmOutput>(|| {
            let (run, session) = (identity.run.clone(), identity.session.clone());
            LlmOutputEvent::new(run, session, provider.clone(), request.model.clone(), said).usage(usage)
        });
    }

    /// What comes after bytes were taken in.
    fn advance(&mut self, progress: Result<Progress, JudgeError>, out: &mut Outgoing) -> Step {
        match progress {
            Err(JudgeError::Wire(WireError::Provider(error))) if self.judges_texts() => {
                self.failing = Some(error);
                Step::Decide
            }
            Err(error) => self.fail(&error, out),
            // Nothing leaves before it is known how the answer ends.
            Ok(Progress::Stopped) => Step::Decide,
            Ok(progress) => {
                // An answer that may still become an error begins with its first judged byte.
                let may_fail = self.shared.settings.blocked == BlockedForm::Error;
                let holds = matches!(&self.answer, Answer::Judged(judge) if judge.holds_everything());
                self.let_be_approved_unjudged();
                // An answer that is no stream leaves as a whole, and so once it is decided.
                let form = self.model_call.as_ref().map(|model_call| model_call.form);
                let is_decided_whole = progress == Progress::Decide && form == Some(AnswerForm::Whole);
                let must_wait = (may_fail && holds) || is_decided_whole;
                if !must_wait {
                    self.let_out(out);
                }
                match progress {
                    Progress::Decide | Progress::Results => Step::Decide,
                    Progress::More | Progress::Over | Progress::Stopped => Step::Continue,
                }
            }
        }
    }

    /// Judges results of the provider's tools that have come; `None` if the answer is to be judged as a whole now.
    async fn decide_results(&mut self, out: &mut Outgoing) -> Option<Step> {
        let (Answer::Judged(judge), Some(model_call)) = (&mut self.answer, &self.model_call) else {
            return None;
        };
        if !judge.has_results() {
            return None;
        }
        if let Err(error) = judge.judge_results(self.api, &model_call.call).await {
            return Some(self.fail(&error, out));
        }
        if judge.editor().is_whole() {
            return None;
        }
        Some(self.advance(Ok(Progress::More), out))
    }
}

/// The client went away.
impl Drop for InspectedExchange {
    fn drop(&mut self) {
        self.end(Some(("aborted", Some(FailureKind::Aborted))));
        if let Some(model_call) = &self.model_call {
            let session = model_call.call.session_id.as_ref();
            self.shared.engine.forget_run(session, &model_call.identity.run);
        }
    }
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
