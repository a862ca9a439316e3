//! One proxied request: its body is read, shown to the exchange and sent to a provider, and the answer is passed on.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header, request};
use hyper::body::{Body as _, Incoming};
use hyper::upgrade::Upgraded;
use tokio::time::{sleep, timeout};

mod sending;

pub(super) use sending::{PATIENCE_FOR_WHOLE, Sending};

use super::Shared;
use super::answer::{AnswerBody, is_event_stream};
use super::asking::Asking;
use super::driver::{Asked, Driver, Unread, shown};
use super::ending::Ending;
use super::judging;
use super::load::Buffered;
use super::retries::{first_wait, is_denied, is_transient, wait_asked};
use super::sockets::{Offer, SocketSession};
use crate::auth::Caller;
use crate::cloud::{Envelope, NotSpoken, Spoken, azure, bedrock};
use crate::endpoint::{Endpoint, Family, Operation};
use crate::error::{Cause, Failure};
use crate::exchange::{Answered, Call, Exchange, Plan, Reply, Requested, Watch};
use crate::head::{AnswerHeaders, Credentials, RequestHeaders};
use crate::headers::{KnownHeaders, Way};
use crate::inspect::trace_parent;
use crate::models::{NamedModels, in_query, main_model, names_in_one_way};
use crate::operations::Permission;
use crate::query::strange;
use crate::quota::Admitted;
use crate::record::{Maker, Outcome, Recorder};
use crate::settings::Cloud;
use crate::upstream::{NoKey, Paying, Provider, RequestBody, UpstreamBody, error_in};

/// What vendors say of a trace (W3C Trace Context).
const TRACE_STATE: &str = "tracestate";

/// How long the first byte of a stream is waited for before its head is passed on.
const FIRST_BYTE: Duration = Duration::from_secs(1);

/// An authenticated request that the gateway forwards to a provider.
pub(super) struct ProxyRequest<'a> {
    shared: &'a Arc<Shared>,
    head: &'a request::Parts,
    caller: Caller,
    endpoint: Endpoint,
    permission: Permission,
    /// The cloud envelope that the client uses.
    spoken: Option<Spoken>,
    recorder: Recorder,
    /// Its place among the requests of its caller, until somebody else holds that.
    admitted: Option<Admitted>,
}

/// An answer and who gave it.
struct Given<'a> {
    provider: &'a Arc<Provider>,
    /// What it was asked.
    asking: Asking,
    response: Response<UpstreamBody>,
}

impl<'a> ProxyRequest<'a> {
    /// Authenticates a request, determines its endpoint and asks the interceptor for its [`Plan`].
    ///
    /// # Errors
    /// If the request is not authenticated, or its path or its model is ambiguous.
    pub(super) fn accept(
        shared: &'a Arc<Shared>,
        head: &'a request::Parts,
        recorder: &Recorder,
    ) -> Result<(Self, Plan), Failure> {
        let mut caller = shared.auth.authenticate(head)?;
        let spoken = Spoken::of(&head.method, &caller.target)?;
        if let Some(spoken) = &spoken {
            caller.target = spoken.target.clone();
        }
        let path = caller.target.path();
        let endpoint = match spoken.as_ref().and_then(|spoken| spoken.endpoint) {
            Some(endpoint) => endpoint,
            None => Endpoint::of(path, &head.headers)?,
        };
        if endpoint.family == Family::Gemini && endpoint.has_document() && !names_in_one_way(path) {
            return Err(NotSpoken::Model.into());
        }
        if head.method == Method::POST && endpoint.asks_a_model() {
            shared.asked.fetch_add(1, Ordering::Relaxed);
        }
        recorder.accepted(&caller, endpoint);
        let admitted = Some(shared.admit(&caller)?);
        let (proxied, plan) = Self::begin(shared, head, caller, endpoint, recorder);
        Ok((Self { spoken, admitted, ..proxied }, plan))
    }

    /// Asks the interceptor for its [`Plan`] for a request that is already authenticated.
    pub(super) fn begin(
        shared: &'a Arc<Shared>,
        head: &'a request::Parts,
        caller: Caller,
        endpoint: Endpoint,
        recorder: &Recorder,
    ) -> (Self, Plan) {
        let proxied = Self { recorder: recorder.clone(), ..Self::quiet(shared, head, caller, endpoint) };
        recorder.accepted(&proxied.caller, endpoint);
        // Any 32 digits are a trace, also those of a secret.
        if let Some((text, parent)) = trace_parent(&head.headers)
            && proxied.withholds(&[text]).is_empty()
        {
            recorder.below(parent);
        }
        let Caller { agent, user, target, .. } = &proxied.caller;
        let plan = shared.interceptor.begin(&Call {
            number: shared.numbers.fetch_add(1, Ordering::Relaxed),
            endpoint: &endpoint,
            method: &head.method,
            path: target.path(),
            query: target.query(),
            headers: &head.headers,
            permission: proxied.permission,
            agent: agent.as_ref(),
            user: user.as_ref(),
            recorder,
            session: head.extensions.get::<SocketSession>().map(|session| session.0.as_str()),
        });
        (proxied, plan)
    }

    /// Makes a request that the interceptor is not told about.
    pub(super) fn quiet(
        shared: &'a Arc<Shared>,
        head: &'a request::Parts,
        caller: Caller,
        endpoint: Endpoint,
    ) -> Self {
        let (path, query) = (caller.target.path(), caller.target.query());
        let permission = Permission::of(endpoint, &head.method, path, query, &head.headers, &shared.allow);
        let recorder = Recorder::default();
        Self { shared, head, caller, endpoint, permission, spoken: None, recorder, admitted: None }
    }

    /// Sets the cloud envelope that the client uses.
    pub(super) fn speak(&mut self, envelope: Envelope) {
        let target = self.caller.target.clone();
        self.spoken = Some(Spoken::at(envelope, target));
    }

    /// Gives its place away to what holds it to the end of its answer.
    pub(super) fn place(&mut self) -> Option<Admitted> {
        self.admitted.take()
    }

    /// What ends it before its time.
    pub(super) fn ending(&self) -> Ending {
        self.shared.ending.with(self.caller.token.as_ref())
    }

    pub(super) fn permission(&self) -> Permission {
        self.permission
    }

    pub(super) fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    /// Forwards the request and returns the head of the answer, with a body that streams the rest.
    pub(super) async fn answer(
        self,
        plan: Plan,
        incoming: Incoming,
    ) -> Result<Response<AnswerBody>, Failure> {
        let mut exchange = match plan {
            Plan::Opaque => None,
            Plan::Inspect(exchange) => Some(exchange),
        };
        let mut buffered = self.shared.load.buffer();
        let mut sending = if incoming.is_end_stream() {
            Sending::Whole(Bytes::new())
        } else if exchange.is_some() || self.endpoint.has_document() {
            let begun = Instant::now();
            let bytes = self.read(incoming, |size| buffered.grow(size)).await?;
            self.recorder.body_took(begun.elapsed());
            Sending::Whole(bytes)
        } else {
            Sending::Stream(Box::new(self.body(incoming)))
        };
        let is_read = exchange.is_some() || self.shared.routes.reads_models();
        if let Some(plain) = self.decompressed(&sending, is_read).await? {
            buffered.grow(plain.len())?;
            sending = match sending {
                Sending::Whole(sent) if exchange.is_none() || !self.shared.interceptor.decides() => {
                    Sending::Partial { sent, whole: plain }
                }
                // What was judged is what leaves: a compression has room for more than the body.
                _ => Sending::Replaced(plain),
            };
        }
        if (is_read || self.spoken.is_some()) && self.endpoint.has_document() {
            sending = self.with_address(sending)?;
            if let Sending::Partial { whole, .. } | Sending::Replaced(whole) = &sending {
                buffered.grow(whole.len())?;
            }
        }
        let mut providers = self.providers(&sending)?;
        // Whoever pays decides what for.
        if self.permission == Permission::Closed && providers.iter().any(|provider| provider.has_own_key()) {
            return Err(Failure::closed(&self.head.method, self.caller.target.path()));
        }
        let is_paid = providers.iter().any(|provider| provider.has_own_key());
        self.address_fits(self.permission, is_paid)?;
        sending = self.declared(sending, is_paid, |size| buffered.grow(size)).await?;
        if let Some(unshown) = exchange.take() {
            let bytes = self.decoded(&sending)?;
            if !sending.is(&bytes) {
                buffered.grow(bytes.len())?;
            }
            let shown = providers.first().map(|provider| Arc::clone(&provider.name));
            let mut judged = self.shared.load.buffer();
            judged.grow(judging::held(&bytes))?;
            let name = shown.clone().unwrap_or_else(|| "".into());
            let (given, requested) = self.shared.judging.request(unshown, bytes, name).await;
            drop(judged);
            let exchange = exchange.insert(given);
            match requested {
                Requested::Unchanged => {}
                Requested::Replaced(bytes) => {
                    buffered.grow(bytes.len())?;
                    sending = Sending::Replaced(bytes);
                    providers = self.providers(&sending)?;
                }
                Requested::Reply(reply) => {
                    self.recorder.becomes(Outcome::Refused);
                    return Ok(self.replied(reply));
                }
            }
            if exchange.stays() {
                let position = providers.iter().position(|provider| Some(&provider.name) == shown.as_ref());
                providers = position.and_then(|at| providers.get(at..=at)).unwrap_or_default();
            }
        }
        let given = match self.ask(providers, sending, exchange.is_some()).await {
            Ok(given) => given,
            Err(failure) => {
                if let Some(exchange) = &mut exchange {
                    exchange.unanswered();
                }
                return Err(failure);
            }
        };
        drop(buffered);
        self.pass(given, exchange).await
    }

    /// The providers to ask, in order. The body is read for its model only where that makes a difference.
    pub(super) fn providers(&self, sending: &Sending) -> Result<&'a [Arc<Provider>], Failure> {
        let shared: &'a Shared = self.shared;
        let named = self.caller.provider.as_deref();
        if !shared.routes.reads_models() {
            return shared.routes.find(named, self.endpoint, self.envelope(), None);
        }
        let body = if self.endpoint.has_document() { self.naming(sending)? } else { Bytes::new() };
        let model: Option<Cow<'_, str>> = main_model(self.endpoint, self.caller.target.path(), &body);
        if let Some(model) = &model {
            self.recorder.is_for(model);
        }
        let found = shared.routes.find(named, self.endpoint, self.envelope(), model.as_deref())?;
        // A list of models concerns requests that use one.
        let asks = self.endpoint.has_document()
            && !(self.endpoint.operation == Operation::Batch && self.head.method != Method::POST);
        let lists = asks && found.iter().any(|provider| provider.lists_models());
        let others = if lists {
            let mut in_query = in_query(self.caller.target.query());
            in_query.extend(azure::in_headers(&self.head.headers));
            let named = NamedModels::of(self.endpoint, self.caller.target.path(), &in_query, &body);
            named.map_err(|_| Failure::NoModel)?.others
        } else {
            Vec::new()
        };
        let fits = |provider: &Arc<Provider>| {
            provider.offers(model.as_deref()) && others.iter().all(|other| provider.offers(Some(other)))
        };
        if !asks || found.iter().all(fits) {
            return Ok(found);
        }
        let begin = found.iter().position(fits);
        let end = begin.map(|begin| begin + found.iter().skip(begin).take_while(|p| fits(p)).count());
        match begin.zip(end).and_then(|(begin, end)| found.get(begin..end)) {
            Some(offering) => Ok(offering),
            None if model.is_none() => Err(Failure::NoModel),
            None => Err(Failure::ModelNotOffered),
        }
    }

    /// Asks the providers until one answers, or none is left.
    async fn ask(
        &self,
        providers: &'a [Arc<Provider>],
        mut sending: Sending,
        inspected: bool,
    ) -> Result<Given<'a>, Failure> {
        let mut failure = Failure::NoProvider(self.endpoint.family);
        let mut is_unpaid = false;
        for (position, provider) in providers.iter().enumerate() {
            // What the operator could not pay for, no client is made to.
            if is_unpaid && !provider.has_own_key() {
                continue;
            }
            let mut others = providers.iter().skip(position + 1);
            let is_last = others.all(|other| is_unpaid && !other.has_own_key());
            let (mut retries, mut refused) = (0, None);
            loop {
                let can_repeat = !matches!(sending, Sending::Stream(_));
                let may_wait = retries < self.shared.max_retries;
                let paying = match provider.paying_after(refused.as_ref()).await {
                    Ok(paying) => paying,
                    Err(reason @ NoKey::Unleased(_)) => {
                        is_unpaid = true;
                        failure = unpaid(provider, reason);
                        break;
                    }
                    Err(reason @ NoKey::Missing(_)) => return Err(unpaid(provider, reason)),
                };
                let span = self.recorder.calls(Maker::of(provider));
                let asking = self.asking(provider, &paying, &sending, inspected).in_span(span);
                let (request, built) = self.request(&asking, &mut sending)?;
                self.recorder.asks(&provider.name);
                let mut answer = provider.send(request).await;
                drop(built);
                match &answer {
                    Ok(response) => self.recorder.provider_answered(response.status()),
                    Err(_) => self.recorder.call_failed(),
                }
                if let Ok(response) = &mut answer
                    && provider.refuses(&paying, response).await
                    && can_repeat
                    && refused.is_none()
                {
                    refused = Some(paying);
                    continue;
                }
                let wait = match answer {
                    Ok(mut response) => {
                        if self.asks_a_model()
                            && let Some(cause) = self.says_nothing(provider, &mut response).await
                        {
                            let provider = provider.name.as_ref().to_owned();
                            failure = Failure::Upstream { provider, cause };
                            if !can_repeat {
                                return Err(failure);
                            }
                            break;
                        }
                        let status = response.status();
                        let may_wait = may_wait && is_transient(status);
                        let wait = may_wait.then(|| wait_asked(response.headers(), retries)).flatten();
                        let is_final = is_last && wait.is_none();
                        if !can_repeat || is_final || !(is_transient(status) || is_denied(status)) {
                            return Ok(Given { provider, asking, response });
                        }
                        wait
                    }
                    Err(error) => {
                        if let Some(error) = error.body_error() {
                            return Err(Failure::of_body(error));
                        }
                        let is_unsent = error.is_unsent();
                        let provider = provider.name.as_ref().to_owned();
                        failure = Failure::Upstream { provider, cause: Cause::Send(error) };
                        if !can_repeat {
                            return Err(failure);
                        }
                        (may_wait && is_unsent).then(|| first_wait(retries))
                    }
                };
                self.recorder.call_failed();
                let Some(wait) = wait else { break };
                retries += 1;
                sleep(wait).await;
            }
        }
        Err(failure)
    }

    /// Returns whether an empty answer to this request is a failure.
    fn asks_a_model(&self) -> bool {
        self.head.method == Method::POST && self.endpoint.has_document()
    }

    /// Why an answer that should say something does not, as far as that is seen before its head is passed on: nobody waits
    /// long for the first byte of a stream, whose client wants to see that it begins.
    async fn says_nothing(
        &self,
        provider: &Provider,
        response: &mut Response<UpstreamBody>,
    ) -> Option<Cause> {
        if response.status() != StatusCode::OK {
            return None;
        }
        let is_whole =
            is_json(response.headers()) && self.endpoint.operation != Operation::StreamGenerateContent;
        let patience = if is_whole { provider.idle_timeout } else { FIRST_BYTE.min(provider.idle_timeout) };
        match timeout(patience, response.body_mut().has_any()).await {
            Ok(true) => None,
            Ok(false) => Some(Cause::Empty),
            Err(_) => is_whole.then_some(Cause::Silent(patience)),
        }
    }

    /// Opens a WebSocket at a provider, with the credentials and headers that a request of the client gets there.
    pub(super) async fn open(&self, provider: &Arc<Provider>) -> Result<Upgraded, Failure> {
        let nothing = &mut Sending::Replaced(Bytes::new());
        // What else such an address can't be was said before.
        self.address_fits(Permission::Read, provider.has_own_key())?;
        let paying = provider.paying().await.map_err(|reason| unpaid(provider, reason))?;
        let asking = self.asking(provider, &paying, nothing, true);
        let (mut request, _) = self.request(&asking, nothing)?;
        let offer = Offer::new();
        *request.method_mut() = Method::GET;
        offer.write(request.headers_mut());
        let name = || provider.name.as_ref().to_owned();
        let opened = provider.open(request, self.shared.timeouts.head).await;
        let (answer, socket) =
            opened.map_err(|error| Failure::Upstream { provider: name(), cause: Cause::Send(error) })?;
        provider.refused(&paying, answer.status, error_in(&answer.headers).as_deref());
        let socket = socket.filter(|_| offer.is_taken(&answer.headers));
        socket.ok_or_else(|| Failure::NoSocket { provider: name(), status: answer.status })
    }

    /// The request as this provider gets it, and what was made for it in memory.
    fn request(
        &self,
        asking: &Asking,
        sending: &mut Sending,
    ) -> Result<(Request<RequestBody>, Buffered), Failure> {
        let is_replaced = matches!(sending, Sending::Replaced(_));
        let is_wrapped = asking.provider.cloud.is_some() || self.spoken.is_some();
        let plain = if is_wrapped { self.naming(sending)? } else { Bytes::new() };
        let mut built = self.shared.load.buffer();
        if !sending.is(&plain) {
            built.grow(plain.len())?;
        }
        let body = match sending {
            Sending::Whole(bytes) | Sending::Replaced(bytes) | Sending::Partial { sent: bytes, .. } => {
                RequestBody::Whole(bytes.clone())
            }
            Sending::Stream(_) => match std::mem::replace(sending, Sending::Whole(Bytes::new())) {
                Sending::Stream(body) => RequestBody::Stream(body),
                Sending::Whole(bytes) | Sending::Replaced(bytes) | Sending::Partial { sent: bytes, .. } => {
                    RequestBody::Whole(bytes)
                }
            },
        };
        asking.request(body, &plain, !is_replaced, built)
    }

    /// Who is asked for what, but for the body.
    fn asking(
        &self,
        provider: &Arc<Provider>,
        paying: &Paying,
        sending: &Sending,
        inspected: bool,
    ) -> Asking {
        let (host, credentials) = (Some(provider.host()), &paying.credentials);
        let replaced = matches!(sending, Sending::Replaced(_));
        let known = self.known(credentials);
        let request_headers =
            RequestHeaders { auth: &self.shared.auth, host, credentials, replaced, inspected, known };
        let (mut headers, mut left_out) =
            request_headers.build(&self.head.headers, |words| self.withholds(words));
        if !self.continues_trace(known) && headers.remove(TRACE_STATE).is_some() {
            left_out = left_out.saturating_add(1);
        }
        self.recorder.leaves_out(Way::Request, left_out);
        let at_azure = matches!(provider.cloud, Some(Cloud::Azure { .. }));
        Asking {
            provider: Arc::clone(provider),
            endpoint: self.endpoint,
            method: self.head.method.clone(),
            permission: self.permission,
            target: self.caller.target.clone(),
            is_closed: known.is_some(),
            says_more: azure::says_more(&self.head.headers, self.endpoint.operation, at_azure),
            headers,
            paying: paying.clone(),
            spoken: self.envelope(),
            load: Arc::clone(&self.shared.load),
        }
    }

    /// The headers that may pass; `None` where no hook decides and the client pays.
    fn known(&self, credentials: &Credentials) -> Option<&KnownHeaders> {
        let is_open = !self.shared.interceptor.decides() && matches!(credentials, Credentials::Client);
        (!is_open).then_some(&self.shared.headers)
    }

    /// Whether a provider may be told what vendors say of the trace that it belongs to. Where traces are recorded, the trace is ours to
    /// tell of: such a text passes only if the operator has named it, and the trace is still that of the client.
    fn continues_trace(&self, known: Option<&KnownHeaders>) -> bool {
        self.recorder.is_traced().is_none_or(|is_below| is_below && known.is_some())
    }

    /// Refuses an address in which a text may stand, where hooks decide or the operator pays.
    fn address_fits(&self, permission: Permission, is_paid: bool) -> Result<(), Failure> {
        let target = &self.caller.target;
        let is_usual = matches!(
            target.as_str(),
            "/v1/messages" | "/v1/messages?beta=true" | "/v1/chat/completions" | "/v1/responses"
        );
        if is_usual || !(is_paid || self.shared.interceptor.decides()) {
            return Ok(());
        }
        let strange = strange(permission, &self.head.method, target, |words| self.withholds(words));
        strange.map_or(Ok(()), |strange| Err(strange.into()))
    }

    /// Which of these words of a head or an address can't be shown.
    fn withholds(&self, words: &[&str]) -> Vec<usize> {
        self.shared.interceptor.withholds(self.caller.agent.as_ref(), words)
    }

    /// The headers of an answer as they leave.
    fn leaving(&self, from: &HeaderMap, credentials: &Credentials, decoded: bool) -> HeaderMap {
        let headers = AnswerHeaders { decoded, known: self.known(credentials) };
        let (headers, left_out) = headers.build(from, |words| self.withholds(words));
        self.recorder.leaves_out(Way::Answer, left_out);
        headers
    }

    fn envelope(&self) -> Option<Envelope> {
        self.spoken.as_ref().map(|spoken| spoken.envelope)
    }

    /// An answer of our own in the envelope of the client.
    fn replied(&self, reply: Reply) -> Response<AnswerBody> {
        let Reply { status, mut headers, body } = reply;
        let body = match self.envelope() {
            Some(Envelope::Bedrock) => {
                bedrock::whole_answer(bedrock::Events::of(self.endpoint), status, &mut headers, body)
            }
            Some(Envelope::Vertex) | None => body,
        };
        let mut response = Response::new(AnswerBody::whole(body));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }

    /// Passes an answer on, through the exchange if it wants to look.
    async fn pass(
        &self,
        given: Given<'a>,
        exchange: Option<Box<dyn Exchange>>,
    ) -> Result<Response<AnswerBody>, Failure> {
        let Given { provider, asking, response } = given;
        let credentials = asking.paying.credentials.clone();
        let (mut head, body) = response.into_parts();
        head.extensions.clear();
        let is_empty = body.is_end_stream() || self.head.method == Method::HEAD;
        // One whose first byte nobody waited for may still turn out to be empty.
        let owes = self.asks_a_model() && head.status == StatusCode::OK && !is_empty;
        let mut looking = None;
        let shown = shown(provider, &head.headers);
        let headers = shown.as_ref().unwrap_or(&head.headers);
        if let Some(mut exchange) = exchange {
            let answered = Answered { provider: &provider.name, status: head.status, headers };
            match exchange.response(&answered) {
                Watch::Look { keep_alive } if !is_empty => looking = Some((exchange, keep_alive)),
                Watch::Look { .. } | Watch::Opaque => {}
                Watch::Refuse(reply) => {
                    self.recorder.becomes(Outcome::Failed);
                    return Ok(self.replied(reply));
                }
            }
        }
        let speaks_frames = self.envelope() == Some(Envelope::Bedrock);
        if looking.is_none() && is_event_stream(headers) && shown.is_some() != speaks_frames && !is_empty {
            looking = Some((Box::new(Unread), None));
        }
        let Some((exchange, keep_alive)) = looking else {
            let ending = self.ending().watch();
            let recorder = self.recorder.clone();
            let body =
                AnswerBody::passing(self.endpoint, &head.headers, body, provider, ending, recorder, owes);
            head.headers = self.leaving(&head.headers, &credentials, false);
            return Ok(Response::from_parts(head, body));
        };
        let is_framed = shown.is_some();
        head.headers = shown.unwrap_or(head.headers);
        let asked = Asked {
            again: asking.with_another_body(),
            headers: self.leaving(&head.headers, &credentials, true),
            decoded_limit: self.shared.limits.decoded_answer_bytes,
            is_framed,
            ending: self.ending().watch(),
            recorder: self.recorder.clone(),
            judging: self.shared.judging.clone(),
        };
        let driver = Driver::new(asked, head, body, exchange, keep_alive);
        let driver = driver.map_err(|undecodable| Failure::Upstream {
            provider: provider.name.as_ref().to_owned(),
            cause: Cause::Undecodable(undecodable),
        })?;
        Ok(driver.begin().await)
    }
}

/// A provider that can't be asked, since there is nothing to pay it with.
fn unpaid(provider: &Provider, reason: NoKey) -> Failure {
    Failure::NoKey { provider: provider.name.as_ref().to_owned(), reason }
}

/// Whether an answer is one document of JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map(|kind| kind.as_bytes().trim_ascii_start());
    let begins = kind.and_then(|kind| kind.get(.."application/json".len()));
    begins.is_some_and(|begins| begins.eq_ignore_ascii_case(b"application/json"))
}
