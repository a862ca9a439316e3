//! One request on a WebSocket, and its answer.

use std::sync::Arc;

use http::{HeaderValue, StatusCode, header};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::message::{self, Create, Kind};
use super::outlet::{self, Outlet};
use super::relay::{Ending, Frame, Next, Relay};
use crate::error::{Cause, Failure};
use crate::exchange::{Answered, Body, Exchange, Outgoing, Plan, Reply, Requested, Step, Watch};
use crate::server::load::Visitors;
use crate::server::visit::{Sending, Visit};

/// An answer that an exchange looks at.
struct Answer<'a> {
    create: &'a Create,
    exchange: Box<dyn Exchange>,
    out: Outgoing,
    outlet: Outlet,
    /// The exchange was shown its head.
    begun: bool,
    /// The provider has said its last.
    ended: bool,
    /// The exchange was told so.
    finished: bool,
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
    Message(Utf8Bytes),
    Reply(Reply),
    Failed(Failure),
}

impl Relay {
    /// Takes a request to the provider, and its answer to the client.
    pub(super) async fn turn(&mut self, text: Utf8Bytes, create: &Create) -> Result<(), Ending> {
        let session = Arc::clone(&self.session);
        let shared = &session.shared;
        let mut buffered = shared.load.buffer();
        let begun = buffered.grow(text.len().saturating_add(create.body.len()));
        let running = begun.and_then(|()| shared.load.begin(Visitors::default().enter()));
        let running = match running {
            Ok(running) => running,
            Err(failure) => return self.tell(&failure).await,
        };
        let (visit, plan) = Visit::begin(shared, &session.head, session.entered.clone(), session.endpoint);
        if let Err(failure) = self.goes_here(&visit, create.body.clone()) {
            return self.tell(&failure).await;
        }
        let mut exchange = match plan {
            Plan::Opaque => None,
            Plan::Inspect(exchange) => Some(exchange),
        };
        let text = match &mut exchange {
            None => text,
            Some(exchange) => match self.shown(&visit, exchange.as_mut(), text, create).await? {
                Made::Message(text) => text,
                Made::Failed(failure) => return self.tell(&failure).await,
                Made::Reply(reply) => {
                    let messages = outlet::replied(&reply).unwrap_or_default();
                    return self.say(messages).await;
                }
            },
        };
        if let Err(ending) = self.ask(text).await {
            if let Some(exchange) = &mut exchange {
                exchange.unanswered();
            }
            return Err(ending);
        }
        drop(buffered);
        let answer = exchange.map(|exchange| Answer {
            create,
            exchange,
            out: Outgoing::new(outlet::head()),
            outlet: Outlet::new(),
            begun: false,
            ended: false,
            finished: false,
        });
        let answered = self.answer(answer).await;
        drop(running);
        answered
    }

    /// Whether a request may go to the provider of this connection.
    fn goes_here(&self, visit: &Visit<'_>, body: bytes::Bytes) -> Result<(), Failure> {
        let providers = visit.providers(&Sending::Replaced(body))?;
        if providers.iter().any(|provider| Arc::ptr_eq(provider, &self.session.provider)) {
            return Ok(());
        }
        let name = &self.session.provider.name;
        Err(Failure::Message(format!(
            "this connection goes to the provider `{name}`, and the model elsewhere: send the request over HTTP"
        )))
    }

    async fn shown(
        &mut self,
        visit: &Visit<'_>,
        exchange: &mut dyn Exchange,
        text: Utf8Bytes,
        create: &Create,
    ) -> Result<Made, Ending> {
        let provider = Arc::clone(&self.session.provider);
        let body = Body { bytes: &create.body, provider: &provider.name };
        Ok(match self.attend(exchange.request(&body)).await? {
            Requested::Unchanged => Made::Message(text),
            Requested::Reply(reply) => Made::Reply(reply),
            Requested::Replaced(body) => match (create.with(&body), self.goes_here(visit, body)) {
                (Some(text), Ok(())) => Made::Message(text.into()),
                (_, Err(failure)) => Made::Failed(failure),
                (None, _) => Made::Failed(Failure::Message("the request can't be rewritten".to_owned())),
            },
        })
    }

    /// Takes an answer to the client, to its end.
    async fn answer(&mut self, mut answer: Option<Answer<'_>>) -> Result<(), Ending> {
        let idle = self.session.provider.idle_timeout;
        let mut silent = Instant::now() + self.session.shared.timeouts.first_byte.max(idle);
        loop {
            let next = match self.ahead.take() {
                Some(frame) => Next::Upstream(frame),
                None => self.next(Some(silent)).await,
            };
            let frame = match next {
                Next::Upstream(frame) => frame,
                Next::Silent => return self.broken(answer, Cause::Silent(idle)).await,
                Next::Client(_) | Next::Quiet | Next::Stopping => {
                    self.mind(next).await?;
                    continue;
                }
            };
            silent = Instant::now() + idle;
            let text = match read(frame) {
                Ok(Some(text)) => text,
                Ok(None) => continue,
                Err(Unread) => return self.broken(answer, Cause::Broken).await,
            };
            let flow = match &mut answer {
                None => {
                    let is_last = Kind::of(&text).is_last();
                    self.pass(text).await?;
                    if is_last { Flow::Over } else { Flow::More }
                }
                Some(answer) => self.take(answer, text).await?,
            };
            match flow {
                Flow::More => {}
                Flow::Opaque => answer = None,
                Flow::Over => return Ok(()),
                Flow::Cut => {
                    return Err(Ending::new(CloseCode::Policy, "the answer was ended here"));
                }
            }
        }
    }

    /// Shows the exchange what the provider said.
    async fn take(&mut self, answer: &mut Answer<'_>, text: Utf8Bytes) -> Result<Flow, Ending> {
        let kind = Kind::of(&text);
        if !std::mem::replace(&mut answer.begun, true) {
            let refusal = message::refusal(&text);
            match answer.begin(&self.session.provider.name, refusal) {
                Watch::Look { keep_alive } => {
                    self.patience = keep_alive.map(|keep_alive| keep_alive.every);
                    self.told = Instant::now();
                }
                Watch::Opaque => {
                    self.pass(text).await?;
                    return Ok(if kind.is_last() { Flow::Over } else { Flow::Opaque });
                }
                Watch::Refuse(reply) => {
                    self.say(outlet::replied(&reply).unwrap_or_default()).await?;
                    return Ok(if kind.is_last() { Flow::Over } else { Flow::Cut });
                }
            }
        }
        answer.ended = kind.is_last();
        let step = answer.exchange.chunk(message::event(&text), &mut answer.out);
        self.settle(answer, step).await
    }

    /// Goes where the exchange says.
    async fn settle(&mut self, answer: &mut Answer<'_>, mut step: Step) -> Result<Flow, Ending> {
        loop {
            let messages = answer.outlet.take(&mut answer.out);
            let messages = messages.map_err(|_| Ending::new(CloseCode::Error, "the answer can't be written"));
            self.say(messages?).await?;
            step = match step {
                Step::Continue if !answer.ended => return Ok(Flow::More),
                Step::Continue if answer.finished => return Ok(Flow::Over),
                Step::Continue => {
                    answer.finished = true;
                    answer.exchange.finish(&mut answer.out)
                }
                Step::Decide => self.attend(answer.exchange.decide(&mut answer.out)).await?,
                Step::End if answer.ended => return Ok(Flow::Over),
                Step::End => return Ok(Flow::Cut),
                Step::Again(body) => {
                    // The provider has ended its answer, or what it says still would be read as the next.
                    let asked = answer.create.with(&body).filter(|_| answer.ended);
                    (answer.ended, answer.finished) = (false, false);
                    match asked {
                        Some(text) => {
                            self.ask(text.into()).await?;
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
        let provider = self.session.provider.name.as_ref().to_owned();
        let ending = Ending::of_provider();
        let told = Failure::Upstream { provider, cause };
        let Some(mut answer) = answer else { return Err(ending.told(told)) };
        let step = answer.exchange.failed(&mut answer.out);
        let messages = answer.outlet.take(&mut answer.out).unwrap_or_default();
        self.say(messages).await?;
        Err(if step == Step::End { ending } else { ending.told(told) })
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

/// A provider's message that nobody can read: bytes, or none at all.
struct Unread;

/// The text of a provider's message, if it is one.
fn read(frame: Frame) -> Result<Option<Utf8Bytes>, Unread> {
    match frame {
        Some(Ok(Message::Text(text))) => Ok(Some(text)),
        Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Ok(None),
        Some(Ok(Message::Binary(_) | Message::Close(_)) | Err(_)) | None => Err(Unread),
    }
}
