//! The two sockets between turns, and how they end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use backstop_llm::sse::DEFAULT_MAX_EVENT_BYTES;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::dialect::{Dialect, Unread};
use super::ending::{Ending, short};
use super::inbound::Inbound;
use super::live::Saying;
use super::message::{self, Create, Kind, Said, Thread};
use super::realtime::{Taken, Utterance};
use super::steer::{Steered, Steering, Unsteered};
use super::{Session, Shared};
use crate::error::{Cause, Failure};
use crate::record::Recorder;
use crate::server::ending::Ended;
use crate::server::load::Buffered;
use crate::settings::WebSockets;

/// Messages of a client on one connection, pings included.
const MOST_MESSAGES: usize = 100_000;
/// How long the other side may take to say that it has read a close.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Bytes that one read brings at most.
const READ: usize = 16 << 10;

/// The connection of a client.
type Client = WebSocketStream<Inbound<TokioIo<Upgraded>>>;
/// The connection of a provider.
type Upstream = WebSocketStream<TokioIo<Upgraded>>;
/// What one read of a socket brought.
pub(super) type Frame = Option<Result<Message, Error>>;

/// Two sockets, tied together.
pub(super) struct Relay {
    pub(super) client: Client,
    pub(super) upstream: Upstream,
    pub(super) dialect: Dialect,
    pub(super) session: Arc<Session>,
    settings: WebSockets,
    opened: Instant,
    /// Requests that came while another was answered.
    pub(super) waiting: VecDeque<Heard>,
    /// Messages to the answer that is under way.
    pub(super) steers: usize,
    /// What comes of them.
    pub(super) steering: Option<Steering>,
    /// When nothing will have been asked for too long; what is no request does not put it off.
    idle: Instant,
    /// When the provider will have been silent for too long.
    pub(super) silent: Instant,
    /// The answer that is under way.
    pub(super) thread: Thread,
    /// Notes what becomes of it.
    pub(super) recorder: Recorder,
    /// The provider said that something failed. An answer that comes behind that may be the one to any request before it.
    pub(super) has_failed: bool,
    /// What the provider said while nobody could read it.
    pub(super) ahead: Option<Frame>,
    /// What it said without having been asked, and is to be judged.
    pub(super) early: Option<(Kind, Utf8Bytes)>,
    /// Messages of the client so far.
    heard: usize,
    /// When the client was last told anything.
    pub(super) told: Instant,
    /// After how much silence the client of an answer is told to be patient.
    pub(super) patience: Option<Duration>,
}

/// What a client said, read once, and counted for as long as it is kept.
pub(super) struct Heard {
    pub(super) text: Utf8Bytes,
    pub(super) said: Result<Said, Failure>,
    pub(super) buffered: Vec<Buffered>,
}

/// What comes next.
pub(super) enum Next {
    Client(Frame),
    Upstream(Frame),
    /// The client has waited for long.
    Quiet,
    /// The provider has said nothing for too long.
    Silent,
    /// It ends now.
    Ended(Ended),
}

impl Relay {
    pub(super) async fn new(
        client: Upgraded,
        upstream: Upgraded,
        dialect: Dialect,
        session: Session,
        settings: WebSockets,
    ) -> Self {
        let config = |most: usize| {
            let config = WebSocketConfig::default().read_buffer_size(READ).write_buffer_size(READ);
            Some(config.max_message_size(Some(most)).max_frame_size(Some(most)))
        };
        let asked = config(session.shared.limits.body_bytes);
        let answered = config(DEFAULT_MAX_EVENT_BYTES);
        let client = Inbound::new(TokioIo::new(client), &session.shared.load, session.shared.timeouts.body);
        Self {
            client: WebSocketStream::from_raw_socket(client, Role::Server, asked).await,
            upstream: WebSocketStream::from_raw_socket(TokioIo::new(upstream), Role::Client, answered).await,
            dialect,
            session: Arc::new(session),
            settings,
            opened: Instant::now(),
            waiting: VecDeque::new(),
            steers: 0,
            steering: None,
            idle: Instant::now() + settings.idle,
            silent: Instant::now(),
            thread: Thread::default(),
            recorder: Recorder::default(),
            has_failed: false,
            ahead: None,
            early: None,
            heard: 0,
            told: Instant::now(),
            patience: None,
        }
    }

    /// Carries turns until something ends the connection, and says what.
    pub(super) async fn run(
        mut self,
        mut stopped: watch::Receiver<()>,
        mut changes: watch::Receiver<Arc<Shared>>,
    ) {
        let greeting = self.dialect.greeting();
        if let Err(ending) = self.feed(greeting.into_iter().map(Utf8Bytes::from)).await {
            return self.end(ending).await;
        }
        let ending = loop {
            let said = match self.asked(&mut stopped, &mut changes).await {
                Ok(heard) => Box::pin(self.hear(heard)).await,
                Err(ending) => break ending,
            };
            if let Err(ending) = said {
                break ending;
            }
        };
        self.end(ending).await;
    }

    /// What the client says next, between two turns.
    async fn asked(
        &mut self,
        stopped: &mut watch::Receiver<()>,
        changes: &mut watch::Receiver<Arc<Shared>>,
    ) -> Result<Heard, Ending> {
        let idle = self.idle;
        let old = self.opened + self.settings.total;
        // Whoever sees the end of the gateway, or of its settings, does not go on with what waits.
        if !Arc::ptr_eq(&changes.borrow_and_update(), &self.session.shared) {
            return Err(Ending::new(CloseCode::Restart, "other settings hold"));
        }
        if stopped.has_changed().unwrap_or(true) {
            return Err(Ending::of(Ended::Stopping));
        }
        let word = self.session.ending();
        if let Some(ended) = word.clone().heard().now_or_never() {
            return Err(Ending::of(ended));
        }
        if old <= Instant::now() {
            return Err(Ending::too_old());
        }
        self.hush().await?;
        if self.early.is_none()
            && let Some(heard) = self.waiting.pop_front()
        {
            return Ok(heard);
        }
        loop {
            let unasked =
                if self.early.is_some() { Some(Said::Live(Saying::Unasked)) } else { self.dialect.due() };
            if let Some(said) = unasked {
                let buffered = vec![self.session.shared.load.buffer()];
                return Ok(Heard { text: Utf8Bytes::default(), said: Ok(said), buffered });
            }
            let frame = tokio::select! {
                biased;
                _ = stopped.changed() => return Err(Ending::of(Ended::Stopping)),
                ended = word.clone().heard() => return Err(Ending::of(ended)),
                _ = changes.changed() => return Err(Ending::new(CloseCode::Restart, "other settings hold")),
                () = sleep_until(old) => return Err(Ending::too_old()),
                () = sleep_until(idle) => {
                    return Err(Ending::new(CloseCode::Away, "nothing was asked for long (`gateway.websockets.idleMs`)"));
                }
                frame = self.upstream.next() => {
                    self.unasked(frame).await?;
                    continue;
                }
                frame = self.client.next() => frame,
            };
            let Some(text) = self.text_of(frame)? else { continue };
            match self.read(text) {
                Ok(heard) => return Ok(heard),
                Err(failure) => self.tell(&failure).await?,
            }
        }
    }

    /// Reads what a client said once there is room for it.
    pub(super) fn read(&self, text: Utf8Bytes) -> Result<Heard, Failure> {
        let mut buffered = self.session.shared.load.buffer();
        buffered.grow(text.len())?;
        let said = self.dialect.hear(&text);
        let mut heard = Heard { text, said, buffered: Vec::new() };
        match &heard.said {
            Ok(Said::Create(create)) => buffered.grow(create.body.len())?,
            // It is kept in place of the text, and may be longer: numbers are written out.
            Ok(Said::Talk(said)) => {
                buffered.grow(said.len().saturating_sub(heard.text.len()))?;
                heard.text = Utf8Bytes::default();
            }
            Ok(Said::Live(said)) => {
                buffered.grow(said.len().saturating_sub(heard.text.len()))?;
                heard.text = Utf8Bytes::default();
            }
            _ => {}
        }
        heard.buffered.push(buffered);
        Ok(heard)
    }

    /// Takes what a client said while nothing else is going on.
    async fn hear(&mut self, heard: Heard) -> Result<(), Ending> {
        let Heard { text, said, mut buffered } = heard;
        match said {
            Ok(Said::Create(create)) => self.request(Some(text), &create, buffered).await,
            Ok(Said::Steer(steer)) => self.say([steer.failed(Unsteered::Over)]).await,
            Ok(Said::Processed(said)) => self.ask(vec![said.into()]).await,
            Ok(said @ (Said::Talk(_) | Said::Live(_))) => match buffered.pop() {
                Some(buffered) => self.talk(said, buffered).await,
                None => Ok(()),
            },
            Err(failure) => self.tell(&failure).await,
        }
    }

    async fn request(
        &mut self,
        message: Option<Utf8Bytes>,
        create: &Create,
        buffered: Vec<Buffered>,
    ) -> Result<(), Ending> {
        self.steers = 0;
        self.steering = Some(Steering::of(create));
        let told = self.turn(message, create, buffered).await;
        self.dialect.ended();
        self.patience = None;
        self.idle = Instant::now() + self.settings.idle;
        told?;
        match self.steering.take().and_then(Steering::end) {
            None => Ok(()),
            Some(Steered::Failed(told)) => self.say(told).await,
            Some(Steered::Ask(create, text, buffered)) => {
                self.waiting.push_front(Heard { text, said: Ok(Said::Create(create)), buffered });
                Ok(())
            }
        }
    }

    /// Goes on with a session.
    pub(super) async fn talk(&mut self, said: Said, buffered: Buffered) -> Result<(), Ending> {
        if let Some(heard) = self.dialect.waits_for(&said) {
            self.listen(heard).await?;
        }
        let is_asked = !matches!(said, Said::Talk(Utterance::Due));
        let taken = match (&mut self.dialect, said) {
            (Dialect::Realtime(talk), Said::Talk(said)) => talk.take(said, buffered),
            (Dialect::Live(live), Said::Live(said)) => live.take(said, buffered),
            _ => return Ok(()),
        };
        match taken {
            Ok(Taken::Told { client, provider }) => {
                self.feed(client.into_iter().map(Utf8Bytes::from)).await?;
                self.send(provider.into_iter().map(Utf8Bytes::from).collect()).await
            }
            Ok(Taken::Ask(create, buffered)) => self.request(None, &create, buffered).await,
            Ok(Taken::Open { create, counted, client, provider }) => {
                self.feed(client.into_iter().map(Utf8Bytes::from)).await?;
                self.introduce(&create, counted).await?;
                self.send(provider.into_iter().map(Utf8Bytes::from).collect()).await
            }
            Err(failure) if is_asked => self.tell(&failure).await,
            // It would be due at once again.
            Err(failure) => Err(Ending::too_much(failure)),
        }
    }

    /// Waits until the provider has written down so much of what it heard: a request has that in it.
    async fn listen(&mut self, heard: u64) -> Result<(), Ending> {
        self.silent = Instant::now() + self.session.shared.timeouts.first_byte;
        while self.dialect.is_awaiting(heard) {
            let next = match self.ahead.take() {
                Some(frame) => Next::Upstream(frame),
                None => self.next(true).await,
            };
            match next {
                Next::Upstream(frame) => self.unasked(frame).await?,
                Next::Silent => {
                    let why = "the provider did not write down what it heard";
                    return Err(Ending::saying(CloseCode::Error, why));
                }
                Next::Client(_) | Next::Quiet | Next::Ended(_) => self.mind(next).await?,
            }
        }
        Ok(())
    }

    /// Reads what the provider has said by now, which is no part of an answer that was not asked for yet.
    pub(super) async fn hush(&mut self) -> Result<(), Ending> {
        // An answer that nobody asked for is read no further than it has begun.
        while self.early.is_none()
            && let Some(frame) = self.ahead.take().or_else(|| self.upstream.next().now_or_never())
        {
            self.unasked(frame).await?;
        }
        Ok(())
    }

    /// What a provider says outside of an answer does not leave. Another answer ends the connection, or is judged as one that
    /// nobody asked for, where providers give such.
    async fn unasked(&mut self, frame: Frame) -> Result<(), Ending> {
        if matches!(frame, Some(Ok(Message::Close(_)) | Err(_)) | None) {
            return Err(Ending::of_provider());
        }
        let heard = self.dialect.listen(frame).map_err(|Unread| Ending::of_stray())?;
        let Some(heard) = heard else { return Ok(()) };
        self.feed(heard.aside).await?;
        self.send(heard.provider).await?;
        match heard.event {
            Some(_) if self.dialect.is_opening() => Err(Ending::of_stray()),
            Some(event) if !self.dialect.has_threads() => {
                self.early = Some(event);
                Ok(())
            }
            Some((kind, _)) if kind != Kind::Other => Err(Ending::of_stray()),
            Some((_, text)) => {
                tracing::debug!(bytes = text.len(), "a provider's message outside of an answer was dropped");
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The text of a client's message, if it is one.
    pub(super) fn text_of(&mut self, frame: Frame) -> Result<Option<Utf8Bytes>, Ending> {
        self.heard += 1;
        if self.heard > MOST_MESSAGES {
            return Err(Ending::saying(CloseCode::Policy, "too many messages came on this connection"));
        }
        match frame {
            Some(Ok(Message::Text(text))) => Ok(Some(text)),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Ok(None),
            Some(Ok(Message::Binary(bytes))) if self.dialect.takes_bytes() => {
                let text = Utf8Bytes::try_from(bytes).map(Some);
                text.map_err(|_| Ending::new(CloseCode::Invalid, "the message is no UTF-8"))
            }
            Some(Ok(Message::Binary(_))) => {
                Err(Ending::saying(CloseCode::Unsupported, "bytes that are no text do not pass here"))
            }
            Some(Ok(Message::Close(_))) | None => Err(Ending::gone()),
            Some(Err(error)) => Err(Ending::of_error(&error)),
        }
    }

    /// Sends events to the client, in the words of its wire.
    pub(super) async fn say(&mut self, events: impl IntoIterator<Item = String>) -> Result<(), Ending> {
        let (mut messages, mut farewell) = (Vec::new(), None);
        for event in events {
            match self.dialect.write(event.into()) {
                Ok(written) => messages.extend(written),
                Err(said) => {
                    farewell = Some(said);
                    break;
                }
            }
        }
        self.feed(messages).await?;
        farewell.map_or(Ok(()), |farewell| Err(Ending::of_farewell(farewell)))
    }

    /// Sends messages to the client.
    pub(super) async fn feed(&mut self, messages: impl IntoIterator<Item = Utf8Bytes>) -> Result<(), Ending> {
        for message in messages {
            if let Some(steering) = &mut self.steering {
                steering.see(&message);
            }
            let message = self.dialect.frame(message);
            self.client.feed(message).await.map_err(|_| Ending::gone())?;
            self.told = Instant::now();
        }
        self.client.flush().await.map_err(|_| Ending::gone())
    }

    pub(super) async fn put(&mut self, message: Message) -> Result<(), Ending> {
        self.told = Instant::now();
        self.client.send(message).await.map_err(|_| Ending::gone())
    }

    /// Sends an event of the provider to the client, as it came.
    pub(super) async fn pass(&mut self, text: Utf8Bytes) -> Result<(), Ending> {
        let messages = self.dialect.write(text).map_err(Ending::of_farewell)?;
        self.feed(messages).await
    }

    /// Tells the client of a failure after which the connection goes on.
    pub(super) async fn tell(&mut self, failure: &Failure) -> Result<(), Ending> {
        self.say([message::failed(failure)]).await
    }

    /// Asks the provider for an answer.
    pub(super) async fn ask(&mut self, mut messages: Vec<Utf8Bytes>) -> Result<(), Ending> {
        self.dialect.begins(&messages);
        if self.dialect.is_opening() && !messages.is_empty() {
            let rest = messages.split_off(1);
            self.send(messages).await?;
            self.opened().await?;
            messages = rest;
        }
        self.send(messages).await?;
        let first_byte = self.session.shared.timeouts.first_byte;
        self.silent = Instant::now() + first_byte.max(self.session.provider.idle_timeout);
        self.thread = Thread::default();
        Ok(())
    }

    /// Waits until the provider has taken the setup of a session.
    async fn opened(&mut self) -> Result<(), Ending> {
        self.silent = Instant::now() + self.session.shared.timeouts.first_byte;
        while self.dialect.is_opening() {
            let next = match self.ahead.take() {
                Some(frame) => Next::Upstream(frame),
                None => self.next(true).await,
            };
            match next {
                // An error, as HTTP would have one.
                Next::Upstream(Some(Ok(Message::Close(Some(close))))) => {
                    return Err(self.unopened(close.code, close.reason.as_str()));
                }
                Next::Upstream(frame) => self.unasked(frame).await?,
                Next::Silent => return Err(Ending::new(CloseCode::Error, "the provider opened no session")),
                Next::Client(_) | Next::Quiet | Next::Ended(_) => self.mind(next).await?,
            }
        }
        Ok(())
    }

    /// The provider says why it opens no session, in words of its own.
    fn unopened(&self, code: CloseCode, reason: &str) -> Ending {
        let (interceptor, caller) = (&self.session.shared.interceptor, &self.session.caller);
        match interceptor.withholds(caller.agent.as_ref(), &[reason]).as_slice() {
            [] => Ending::new(code, reason.to_owned()),
            _ => Ending::new(code, "the provider opened no session, for a reason that is not shown"),
        }
    }

    /// Sends messages to the provider.
    pub(super) async fn send(&mut self, messages: Vec<Utf8Bytes>) -> Result<(), Ending> {
        let patience = self.session.shared.timeouts.write;
        let sending = async {
            for message in messages {
                self.upstream.feed(Message::Text(message)).await?;
            }
            self.upstream.flush().await
        };
        if matches!(timeout(patience, sending).await, Ok(Ok(()))) {
            return Ok(());
        }
        let provider = self.session.provider.name.as_ref().to_owned();
        Err(Ending::of_provider().told(Failure::Upstream { provider, cause: Cause::Broken }))
    }

    /// Says goodbye to both sides.
    async fn end(mut self, ending: Ending) {
        let Ending { code, mut reason, words } = ending;
        let words = words.map(|failure| self.dialect.write(message::failed(&failure).into()));
        let words = match words {
            Some(Ok(words)) => words,
            Some(Err(farewell)) => {
                reason = short(farewell.words).into();
                Vec::new()
            }
            None => Vec::new(),
        };
        let words: Vec<Message> = words.into_iter().map(|text| self.dialect.frame(text)).collect();
        let goodbye = async {
            for message in words {
                let _ = self.client.feed(message).await;
            }
            let close = CloseFrame { code, reason: reason.as_ref().into() };
            let _ = self.client.send(Message::Close(Some(close))).await;
            // What was said is read before the connection breaks: until the other side says so, or goes.
            while let Some(Ok(_)) = self.client.next().await {}
        };
        let close = async { self.upstream.close(None).await };
        let _ = tokio::join!(timeout(LAST_WORDS, goodbye), timeout(LAST_WORDS, close));
    }
}
