//! One request on a WebSocket, and its answer.

use std::sync::Arc;

use http::{HeaderValue, StatusCode, header};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::dialect::Unread;
use super::ending::Ending;
use super::message::{self, Create, Kind};
use super::outlet::{self, Outlet};
use super::relay::{Next, Relay};
use crate::error::{Cause, Failure};
use crate::exchange::{Answered, Exchange, Outgoing, Plan, Reply, Requested, Step, Watch};
use crate::record::{Maker, Outcome, RecordEnd};
use crate::server::judging;
use crate::server::load::{Buffered, Running, Visitors};
use crate::server::request::{ProxyRequest, Sending};

/// Bytes that a provider may say before its answer begins.
const MAX_EARLY_BYTES: usize = 64 << 10;

/// An answer that an exchange looks at.
struct Answer<'a> {
    create: &'a Create,
    exchange: Box<dyn Exchange>,
    out: Outgoing,
    outlet: Outlet,
    /// The exchange was shown its head.
    begun: bool,
    /// What came before anybody could tell whether there will be an answer or an error.
    early: Vec<Utf8Bytes>,
    /// The provider has said its last.
    ended: bool,
    /// The exchange was told so.
    finished: bool,
}

/// A request that the provider has.
struct Sent {
    /// `None` if nobody looks.
    exchange: Option<Box<dyn Exchange>>,
    running: Running,
    record: RecordEnd,
}

/// How far an answer is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    More,
    /// Nobody looks any more.
    Opaque,
    Over,
    /// It ends here, and the provider goes on.
    Cut,
}

/// What an exchange made of a request.
enum Made {
    Messages(Vec<Utf8Bytes>),
    Reply(Reply),
    Failed(Failure),
}

/// What a request is for the provider, if nobody rewrites it.
fn as_it_came(message: Option<Utf8Bytes>, create: &Create) -> Made {
    match message.map(|message| vec![message]).or_else(|| create.with(&create.body)) {
        Some(messages) => Made::Messages(messages),
        None => Made::Failed(Failure::Message("the request can't be written".to_owned())),
    }
}

impl Relay {
    /// Takes a request to the provider, and its answer to the client.
    ///
    /// `message` is what it is for the provider, where that is what the client said, and `buffered` what counts it until it was
    /// sent.
    pub(super) async fn turn(
        &mut self,
        message: Option<Utf8Bytes>,
        create: &Create,
        buffered: Vec<Buffered>,
    ) -> Result<(), Ending> {
        let sent = self.sent(message, create, buffered).await?;
        let Some(Sent { exchange, running, mut record }) = sent else { return Ok(()) };
        let answer = exchange.map(|exchange| Answer {
            create,
            exchange,
            out: Outgoing::new(outlet::head()),
            outlet: Outlet::new(),
            begun: false,
            early: Vec::new(),
            ended: false,
            finished: false,
        });
        let answered = self.answer(answer).await;
        match &answered {
            Ok(()) if self.has_failed => record.recorder().becomes(Outcome::ProviderError),
            Ok(()) => record.complete(),
            Err(_) => record.recorder().becomes(Outcome::Failed),
        }
        drop((running, record));
        answered
    }

    /// Tells the provider of a session, and asks nothing.
    pub(super) async fn introduce(&mut self, create: &Create, buffered: Vec<Buffered>) -> Result<(), Ending> {
        if let Some(Sent { exchange, mut record, .. }) = self.sent(None, create, buffered).await? {
            record.complete();
            exchange.into_iter().for_each(|mut exchange| exchange.unanswered());
        }
        self.dialect.ended();
        Ok(())
    }

    /// Takes a request to the provider, if it may go there.
    async fn sent(
        &mut self,
        message: Option<Utf8Bytes>,
        create: &Create,
        buffered: Vec<Buffered>,
    ) -> Result<Option<Sent>, Ending> {
        let session = Arc::clone(&self.session);
        let shared = &session.shared;
        let recorder = shared.records.begin(&session.head.method);
        let record = recorder.ending();
        self.recorder = recorder.clone();
        recorder.has_status(StatusCode::OK);
        let running = match shared.load.begin(Visitors::default().enter()) {
            Ok(running) => running,
            Err(failure) => return self.refused(create, Made::Failed(failure)).await,
        };
        recorder.accepted(&session.caller, session.endpoint);
        let running = match shared.admit(&session.caller) {
            Ok(admitted) => running.holding(Some(admitted)),
            Err(failure) => return self.refused(create, Made::Failed(failure)).await,
        };
        let mut caller = session.caller.clone();
        if let Some(target) = self.dialect.target() {
            caller.target = target.clone();
        }
        shared.asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (mut proxied, plan) =
            ProxyRequest::begin(shared, &session.head, caller, session.endpoint, &recorder);
        if let Some(envelope) = session.envelope {
            proxied.speak(envelope);
        }
        if let Err(failure) = self.goes_here(&proxied, create.body.clone()) {
            return self.refused(create, Made::Failed(failure)).await;
        }
        // Not before: what nobody judged can be asked with again.
        let waited = self.dialect.asked(create);
        let mut exchange = match plan {
            Plan::Opaque => None,
            Plan::Inspect(exchange) => Some(exchange),
        };
        let made = match exchange.take() {
            None => as_it_came(message, create),
            Some(unshown) => {
                let (given, made) = self.shown(&proxied, unshown, message, create).await?;
                exchange = Some(given);
                made
            }
        };
        let messages = match made {
            Made::Messages(messages) => messages,
            refused => return self.refused(create, refused).await,
        };
        let told = self.dialect.permitted();
        if !told.is_empty() {
            self.feed(told).await?;
        }
        // The provider of an open connection can't be told of a span.
        let _ = recorder.calls(Maker::of(&session.provider));
        recorder.asks(&session.provider.name);
        // What came while somebody decided is no beginning of this answer.
        let asked = match self.hush().await {
            Ok(()) => self.ask(messages).await,
            Err(ending) => Err(ending.told(self.failure(Cause::Broken))),
        };
        if let Err(ending) = asked {
            if let Some(exchange) = &mut exchange {
                exchange.unanswered();
            }
            return Err(ending);
        }
        drop((buffered, waited));
        Ok(Some(Sent { exchange, running, record }))
    }

    /// Tells the client that a request does not go to the provider. One for what the provider says already, or has heard
    /// already, ends the connection.
    async fn refused<T>(&mut self, create: &Create, made: Made) -> Result<Option<T>, Ending> {
        let ending = || Ending::new(CloseCode::Policy, "what the session is about does not pass here");
        match &made {
            Made::Failed(failure) => self.recorder.failed(failure),
            Made::Messages(_) | Made::Reply(_) => self.recorder.becomes(Outcome::Refused),
        }
        let is_too_late = self.dialect.refused() || create.is_unasked();
        match made {
            Made::Reply(reply) => self.say(outlet::replied(&reply)).await?,
            Made::Failed(failure) if is_too_late => return Err(ending().told(failure)),
            Made::Failed(failure) => self.tell(&failure).await?,
            Made::Messages(_) => {}
        }
        if is_too_late { Err(ending()) } else { Ok(None) }
    }

    /// Whether a request may go to the provider of this connection.
    fn goes_here(&self, proxied: &ProxyRequest<'_>, body: bytes::Bytes) -> Result<(), Failure> {
        let providers = proxied.providers(&Sending::Replaced(body))?;
        if providers.iter().any(|provider| Arc::ptr_eq(provider, &self.session.provider)) {
            return Ok(());
        }
        let name = &self.session.provider.name;
        Err(Failure::Message(format!(
            "this connection goes to the provider `{name}`, and the model elsewhere: send the request over HTTP"
        )))
    }

    /// Shows a request to those who judge it, and gives their exchange back.
    async fn shown(
        &mut self,
        proxied: &ProxyRequest<'_>,
        exchange: Box<dyn Exchange>,
        message: Option<Utf8Bytes>,
        create: &Create,
    ) -> Result<(Box<dyn Exchange>, Made), Ending> {
        let provider = Arc::clone(&self.session.provider);
        let session = Arc::clone(&self.session);
        let (body, name) = (create.body.clone(), Arc::clone(&provider.name));
        let mut judged = session.shared.load.buffer();
        if let Err(failure) = judged.grow(judging::held(&body)) {
            return Ok((exchange, Made::Failed(failure)));
        }
        let (exchange, requested) = self.attend(session.shared.judging.request(exchange, body, name)).await?;
        drop(judged);
        let made = match requested {
            Requested::Unchanged => as_it_came(message, create),
            Requested::Reply(reply) => Made::Reply(reply),
            Requested::Replaced(body) => match (create.with(&body), self.goes_here(proxied, body)) {
                (Some(messages), Ok(())) => Made::Messages(messages),
                (_, Err(failure)) => Made::Failed(failure),
                (None, _) => Made::Failed(Failure::Message("the request can't be rewritten".to_owned())),
            },
        };
        Ok((exchange, made))
    }

    /// Takes an answer to the client, to its end.
    async fn answer(&mut self, mut answer: Option<Answer<'_>>) -> Result<(), Ending> {
        let idle = self.session.provider.idle_timeout;
        loop {
            let (kind, text) = match self.early.take() {
                Some(event) => event,
                None => {
                    let next = match self.ahead.take() {
                        Some(frame) => Next::Upstream(frame),
                        None => self.next(true).await,
                    };
                    let frame = match next {
                        Next::Upstream(frame) => frame,
                        Next::Silent => return self.broken(answer, Cause::Silent(idle)).await,
                        Next::Ended(ended) => {
                            return self.ended(answer, Ending::of(ended), ended.failure()).await;
                        }
                        Next::Client(_) | Next::Quiet => {
                            self.mind(next).await?;
                            continue;
                        }
                    };
                    let heard = match self.dialect.listen(frame) {
                        Ok(heard) => heard.unwrap_or_default(),
                        Err(Unread) => return self.broken(answer, Cause::Broken).await,
                    };
                    self.feed(heard.aside).await?;
                    self.send(heard.provider).await?;
                    match heard.event {
                        Some(event) => event,
                        // Pings are no part of an answer, nor is what the provider says beside it.
                        None if Instant::now() < self.silent => continue,
                        None => return self.broken(answer, Cause::Silent(idle)).await,
                    }
                }
            };
            self.silent = Instant::now() + idle;
            if self.dialect.has_threads() && !self.thread.takes(kind, &text) {
                let told = self.failure(Cause::Broken);
                return self.ended(answer, Ending::of_stray(), told).await;
            }
            if kind == Kind::Error {
                self.has_failed = true;
                if !self.dialect.is_refused() {
                    self.thread.break_off();
                }
            }
            if let Some(steering) = &mut self.steering {
                steering.begun(self.thread.id());
            }
            let flow = match &mut answer {
                None => {
                    self.recorder.came(true);
                    self.recorder.left(text.len());
                    self.pass(text).await?;
                    if kind.is_last() { Flow::Over } else { Flow::More }
                }
                Some(answer) => self.take(answer, kind, text).await?,
            };
            // The provider was not read while somebody decided or the client did not read; another request has its own time.
            self.silent = self.silent.max(Instant::now() + idle);
            match flow {
                Flow::More => {}
                Flow::Opaque => answer = None,
                Flow::Over if self.thread.is_broken() => {
                    return Err(Ending::new(
                        CloseCode::Error,
                        "the provider failed, and may say more all the same",
                    ));
                }
                Flow::Over => return Ok(()),
                Flow::Cut => {
                    return Err(Ending::new(CloseCode::Policy, "the answer was ended here"));
                }
            }
        }
    }

    /// Shows the exchange what the provider said.
    async fn take(&mut self, answer: &mut Answer<'_>, kind: Kind, text: Utf8Bytes) -> Result<Flow, Ending> {
        self.recorder.came(true);
        if !answer.begun {
            if kind == Kind::Other {
                answer.early.push(text);
                if answer.early.iter().map(|early| early.len()).sum::<usize>() > MAX_EARLY_BYTES {
                    return Err(Ending::of_stray().told(self.failure(Cause::Broken)));
                }
                return Ok(Flow::More);
            }
            answer.begun = true;
            let refusal = message::refusal(&text);
            // In front of an error that passes unread nothing else does.
            let early = std::mem::take(&mut answer.early);
            let early = if refusal.is_none() { early } else { Vec::new() };
            match answer.begin(&self.session.provider.name, refusal) {
                Watch::Look { keep_alive } => {
                    self.patience = keep_alive.map(|keep_alive| keep_alive.every);
                    self.told = Instant::now();
                }
                Watch::Opaque => {
                    for early in early {
                        self.pass(early).await?;
                    }
                    self.pass(text).await?;
                    return Ok(if kind.is_last() { Flow::Over } else { Flow::Opaque });
                }
                Watch::Refuse(reply) => {
                    self.say(outlet::replied(&reply)).await?;
                    return Ok(if kind.is_last() { Flow::Over } else { Flow::Cut });
                }
            }
            for early in early {
                match self.show(answer, &early).await? {
                    Flow::More => {}
                    flow => return Ok(flow),
                }
            }
        }
        answer.ended = kind.is_last();
        self.show(answer, &text).await
    }

    async fn show(&mut self, answer: &mut Answer<'_>, text: &str) -> Result<Flow, Ending> {
        let step = answer.exchange.chunk(message::event(text), &mut answer.out);
        self.settle(answer, step).await
    }

    /// Goes where the exchange says.
    async fn settle(&mut self, answer: &mut Answer<'_>, mut step: Step) -> Result<Flow, Ending> {
        loop {
            let messages = answer.outlet.take(&mut answer.out);
            let messages = messages.map_err(|_| Ending::new(CloseCode::Error, "the answer can't be written"));
            let messages = messages?;
            if !messages.is_empty() {
                self.recorder.left(messages.iter().map(String::len).sum());
            }
            self.say(messages).await?;
            step = match step {
                Step::Continue if !answer.ended => return Ok(Flow::More),
                Step::Continue if answer.finished => return Ok(Flow::Over),
                Step::Continue => {
                    answer.finished = true;
                    answer.exchange.finish(&mut answer.out)
                }
                Step::Decide => self.attend(answer.exchange.decide(&mut answer.out)).await?,
                // What is said aloud left before anybody could judge it: a session in which that was wrong goes no further.
                Step::End if answer.ended && !self.dialect.has_sounded() => return Ok(Flow::Over),
                Step::End => return Ok(Flow::Cut),
                Step::Again(body) => {
                    // The provider has ended its answer, and owes no other, or what it says still would be read as the next.
                    let is_over = answer.ended && !self.thread.is_broken();
                    let may_ask = is_over && !self.has_failed;
                    let asked = if may_ask { self.dialect.again(answer.create, &body) } else { None };
                    (answer.ended, answer.finished) = (is_over && self.has_failed, false);
                    match asked {
                        Some(messages) => {
                            self.ask(messages).await?;
                            answer.again(&self.session.provider.name)
                        }
                        None => answer.exchange.again(None, &mut answer.out),
                    }
                }
            };
        }
    }

    /// Ends an answer that will never be whole.
    async fn broken(&mut self, answer: Option<Answer<'_>>, cause: Cause) -> Result<(), Ending> {
        let told = self.failure(cause);
        self.ended(answer, Ending::of_provider(), told).await
    }

    /// Ends an answer and its connection, whoever is to blame.
    async fn ended(
        &mut self,
        answer: Option<Answer<'_>>,
        ending: Ending,
        told: Failure,
    ) -> Result<(), Ending> {
        let Some(mut answer) = answer else { return Err(ending.told(told)) };
        let step = answer.exchange.failed(&mut answer.out);
        let messages = answer.outlet.take(&mut answer.out).unwrap_or_default();
        let has_said = !messages.is_empty();
        self.say(messages).await?;
        Err(if step == Step::End && has_said { ending } else { ending.told(told) })
    }

    fn failure(&self, cause: Cause) -> Failure {
        Failure::Upstream { provider: self.session.provider.name.as_ref().to_owned(), cause }
    }
}

impl Answer<'_> {
    /// Shows the exchange the head that the answer would have over HTTP.
    fn begin(&mut self, provider: &str, refusal: Option<StatusCode>) -> Watch {
        let mut head = outlet::head();
        if let Some(status) = refusal {
            head.status = status;
            head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        self.exchange.response(&Answered { provider, status: head.status, headers: &head.headers })
    }

    fn again(&mut self, provider: &str) -> Step {
        let head = outlet::head();
        let answered = Answered { provider, status: head.status, headers: &head.headers };
        self.exchange.again(Some(&answered), &mut self.out)
    }
}
