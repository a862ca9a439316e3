//! Exchanges that are parts of a larger one: the single requests and answers of a batch.

use std::sync::Arc;

use backstop_hooks::Trace;
use backstop_hooks::points::{LlmOutput, ModelCallEnded};

use http::{HeaderMap, Method, StatusCode};

use super::{Answer, InspectedExchange};
use crate::endpoint::{Endpoint, Family, Operation};
use crate::exchange::Call;
use crate::inspect::batched::Counted;
use crate::inspect::form::{Answers, Form, Kind};
use crate::inspect::identity::SESSION_HEADERS;
use crate::operations::Permission;

impl InspectedExchange {
    /// Another exchange of the same client at the same address.
    pub(in crate::inspect) fn like(&self, kind: Kind) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            active_hooks: self.active_hooks,
            endpoint: self.endpoint,
            path: self.path.clone(),
            named_outside: self.named_outside.clone(),
            api: self.api,
            kind,
            agent: self.agent.clone(),
            user: self.user.clone(),
            recorder: self.recorder.clone(),
            session: self.session.clone(),
            headers: self.headers.clone(),
            trace: self.trace,
            span: None,
            is_utf8: self.is_utf8,
            is_plain: false,
            is_part: true,
            in_batch: self.in_batch,
            asks_no_model: false,
            model_call: None,
            answer: Answer::None,
            again: None,
            failing: None,
            ended: false,
            error_status: StatusCode::BAD_GATEWAY,
        }
    }

    /// One of the requests of OpenAI's that a file has, for `url`; `None` if what is asked there is not judged.
    pub(in crate::inspect) fn at(&self, url: &str) -> Option<Self> {
        let (method, headers) = (Method::POST, HeaderMap::new());
        let endpoint = Endpoint::of(url, &headers).ok().filter(|_| url.starts_with('/'))?;
        let permission = Permission::of(endpoint, &method, url, None, &headers, &[]);
        let (path, query, agent) = (url, None, self.agent.as_ref());
        let call = Call {
            number: 0,
            endpoint: &endpoint,
            method: &method,
            path,
            query,
            headers: &headers,
            permission,
            agent,
            user: self.user.as_ref(),
            recorder: &self.recorder,
            session: None,
        };
        let form = Form::of(&call).filter(|_| permission == Permission::Read)?;
        let is_asked = match &form.kind {
            Kind::Ask(_) => endpoint.operation != Operation::CountTokens,
            Kind::Texts { readable, .. } => readable.asked.is_some() && Answers::to(url).is_some(),
            Kind::Fetch { .. } | Kind::BedrockCount | Kind::Unreadable(_) => false,
        };
        if !is_asked || endpoint.family != Family::OpenAi {
            return None;
        }
        let mut one = self.like(form.kind).in_batch();
        (one.endpoint, one.path, one.api) = (endpoint, url.to_owned(), form.api);
        one.named_outside.clear();
        Some(one)
    }

    /// An answer to an earlier request, by the id of that.
    pub(in crate::inspect) fn fetching(&self, answers: Answers, response: String) -> Self {
        let (api, document) = match answers {
            Answers::Wire(api) => (api, None),
            Answers::Document(readable) => (readable.api, Some(readable)),
        };
        let mut one = self.like(Kind::Fetch { response, document });
        one.api = api;
        one
    }

    /// The same, as one request of many, whose answer comes when its provider has time.
    pub(in crate::inspect) fn in_batch(mut self) -> Self {
        self.in_batch = true;
        self
    }

    /// The same, by which no model is asked.
    pub(in crate::inspect) fn asking_no_model(mut self) -> Self {
        self.asks_no_model = true;
        self
    }

    /// The same, in the span in which it was counted.
    pub(in crate::inspect) fn in_span(mut self, span: Option<Trace>) -> Self {
        self.span = span;
        self
    }

    /// The same, whatever conversation its client names in a header.
    pub(in crate::inspect) fn of_no_session(mut self) -> Self {
        SESSION_HEADERS.iter().for_each(|name| drop(self.headers.remove(*name)));
        self
    }

    /// What was counted for a request that was let through, if somebody counts.
    pub(in crate::inspect) fn counted(&self) -> Option<Counted> {
        let engine = &self.shared.engine;
        let counts = engine.has_hooks::<LlmOutput>() || engine.has_hooks::<ModelCallEnded>();
        let model_call = self.model_call.as_ref().filter(|_| counts)?;
        Some(Counted {
            call: Arc::clone(&model_call.call),
            id: model_call.id.clone(),
            run: model_call.identity.run.clone(),
            provider: model_call.provider.clone(),
            model: model_call.request.model.clone(),
        })
    }
}
