//! Drives an answer through an exchange.
//!
//! A state machine that is polled by the client's connection, so that whoever stops reading stops the rest: the
//! provider is read only when there is nothing to send and nothing to decide. Nothing is spawned; dropping
//! the driver drops the exchange, its decision and the provider's connection. However much has come, other answers have
//! their turn after a few pieces of it, and while its items are judged.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response, header, response};
use hyper::body::{Body, SizeHint};

use super::answer::{AnswerBody, BrokenOff, is_event_stream};
use super::asking::Asking;
use super::ending::EndWatch;
use super::judging::Judging;
use crate::cloud::bedrock::{self, Events, Framer, Unframer};
use crate::cloud::{self, Envelope};
use crate::compression::{Coding, Decoder, Undecodable};
use crate::endpoint::Endpoint;
use crate::error::{Cause, Failure};
use crate::error_body;
use crate::exchange::{self, Answered, Exchange, KeepAlive, Outgoing, Requested, Step, Watch};
use crate::record::{Maker, Recorder};
use crate::upstream::{Provider, Silence, UpstreamBody};

/// Output leaves when it has reached this size, even if there is more to read.
const MOST_AT_ONCE: usize = 64 << 10;
/// How many pieces of an answer are shown to its exchange before others have their turn.
const MOST_PIECES: usize = 4;

type Deciding = Pin<Box<dyn Future<Output = (Box<dyn Exchange>, Outgoing, Waited)> + Send>>;

/// What was waited for.
enum Waited {
    /// The exchange decided.
    Step(Step),
    /// The provider was asked once more.
    Answer(Box<Option<Response<UpstreamBody>>>),
    /// A piece of the answer was decompressed.
    Decoded(Box<Decoder>, Result<Bytes, Undecodable>),
}

/// Where a driver stands.
enum State {
    /// The provider is read.
    Reading(Box<dyn Exchange>, Outgoing),
    /// The exchange decides, the provider is asked once more, or what came is decompressed.
    Deciding(Deciding),
    /// Nothing more comes.
    Over,
}

/// How an answer leaves.
enum Leaving {
    /// As the exchange puts it out.
    Plain,
    /// In frames.
    Frames(Box<Framer>),
    /// As an error in one piece, which the envelope writes in its own way.
    Error,
}

/// An answer of which only the envelope changes.
pub(super) struct Unread;

#[async_trait]
impl Exchange for Unread {
    async fn request(&mut self, _: &exchange::Body<'_>) -> Requested {
        Requested::Unchanged
    }

    fn response(&mut self, _: &Answered<'_>) -> Watch {
        Watch::Look { keep_alive: None }
    }

    fn chunk(&mut self, chunk: Bytes, out: &mut Outgoing) -> Step {
        out.push(chunk);
        Step::Continue
    }

    fn finish(&mut self, _: &mut Outgoing) -> Step {
        Step::Continue
    }

    async fn decide(&mut self, _: &mut Outgoing) -> Step {
        Step::End
    }
}

/// The headers of an answer that comes in frames, as an exchange is shown them; `None` of any other.
pub(super) fn shown(provider: &Provider, headers: &HeaderMap) -> Option<HeaderMap> {
    let speaks_frames = cloud::envelope(provider.cloud.as_ref()) == Some(Envelope::Bedrock);
    (speaks_frames && bedrock::is_framed(headers)).then(|| {
        let mut headers = headers.clone();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers
    })
}

/// An answer that passes an exchange.
pub(crate) struct Driver {
    endpoint: Endpoint,
    provider: Arc<Provider>,
    /// The request that another body is sent with.
    again: Asking,
    /// What takes the events of an answer out of their frames.
    unframer: Option<Unframer>,
    leaving: Leaving,
    /// `None` when it has ended or was cut off.
    upstream: Option<UpstreamBody>,
    decoder: Option<Decoder>,
    decoded_limit: u64,
    state: State,
    silence: Silence,
    is_events: bool,
    /// What is sent while nothing else is, and how long that is.
    keep_alive: Option<(Bytes, Silence)>,
    /// A head to send with a keep-alive while a decision holds the other.
    spare: Option<(response::Parts, Arc<AtomicBool>)>,
    /// What leaves next.
    head: Option<response::Parts>,
    ready: BytesMut,
    broken: bool,
    /// The head has left, or does so next.
    has_head: bool,
    ending: EndWatch,
    recorder: Recorder,
    judging: Judging,
}

/// What an answer answers.
pub(super) struct Asked {
    /// The request, for another body.
    pub(super) again: Asking,
    /// The most bytes of a decoded answer.
    pub(super) decoded_limit: u64,
    /// Its headers, as they leave.
    pub(super) headers: HeaderMap,
    /// Whether it comes in frames.
    pub(super) is_framed: bool,
    /// When it has to end.
    pub(super) ending: EndWatch,
    /// Notes what becomes of it.
    pub(super) recorder: Recorder,
    /// Where it is decompressed.
    pub(super) judging: Judging,
}

fn decoder_of(headers: &HeaderMap, limit: u64) -> Result<Option<Decoder>, Undecodable> {
    Coding::of(headers)?.map(|coding| Decoder::new(coding, limit)).transpose()
}

impl Driver {
    pub(super) fn new(
        asked: Asked,
        mut head: response::Parts,
        upstream: UpstreamBody,
        exchange: Box<dyn Exchange>,
        keep_alive: Option<KeepAlive>,
    ) -> Result<Self, Undecodable> {
        let Asked { decoded_limit, again, headers, is_framed, ending, recorder, judging } = asked;
        let provider = Arc::clone(&again.provider);
        // Frames have no comments: an event that clients pass over takes their place.
        let in_frames = again.spoken == Some(Envelope::Bedrock);
        let keep_alive = keep_alive.map(|keep_alive| {
            let bytes = if in_frames { bedrock::keep_alive() } else { keep_alive.bytes };
            (bytes, Silence::new(keep_alive.every))
        });
        let decoder = decoder_of(&head.headers, decoded_limit)?;
        let is_events = is_event_stream(&head.headers);
        head.headers = headers;
        Ok(Self {
            endpoint: again.endpoint,
            unframer: is_framed.then(|| Unframer::new(Events::of(again.endpoint))),
            leaving: Leaving::Plain,
            silence: Silence::new(provider.idle_timeout),
            provider,
            again,
            upstream: Some(upstream),
            decoder,
            decoded_limit,
            is_events,
            state: State::Reading(exchange, Outgoing::new(head)),
            keep_alive,
            spare: None,
            head: None,
            has_head: false,
            ending,
            recorder,
            judging,
            ready: BytesMut::new(),
            broken: false,
        })
    }

    /// Runs until the head leaves, and makes the rest the body.
    pub(super) async fn begin(mut self) -> Response<AnswerBody> {
        std::future::poll_fn(|cx| self.poll_advance(cx)).await;
        let head = self.head.take().unwrap_or_else(|| Response::new(()).into_parts().0);
        Response::from_parts(head, AnswerBody::driven(Box::new(self)))
    }

    pub(super) fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BrokenOff>>> {
        if self.ready.is_empty() && !self.is_over() && self.poll_advance(cx).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(if !self.ready.is_empty() {
            Some(Ok(self.ready.split().freeze()))
        } else if std::mem::take(&mut self.broken) {
            Some(Err(BrokenOff))
        } else {
            None
        })
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Over) && self.ready.is_empty() && !self.broken
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        match self.state {
            State::Over if !self.broken => SizeHint::with_exact(self.ready.len() as u64),
            _ => SizeHint::default(),
        }
    }

    /// Ready when there is something to send, or nothing will ever be.
    fn poll_advance(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(ended) = self.ending.over(cx) {
            self.stop(&ended.failure());
        }
        let mut pieces = 0;
        loop {
            match std::mem::replace(&mut self.state, State::Over) {
                State::Over => return Poll::Ready(()),
                State::Deciding(mut deciding) => match deciding.as_mut().poll(cx) {
                    Poll::Ready((exchange, out, waited)) => {
                        self.spare = None;
                        match waited {
                            Waited::Step(step) => self.take(exchange, out, step),
                            Waited::Answer(answer) => self.resume(exchange, out, *answer),
                            Waited::Decoded(decoder, decoded) => {
                                self.decoder = Some(*decoder);
                                let data = decoded.map_err(Cause::Undecodable);
                                self.show(exchange, out, data);
                            }
                        }
                    }
                    Poll::Pending => {
                        self.state = State::Deciding(deciding);
                        return if self.ready.is_empty() {
                            self.poll_keep_alive(cx)
                        } else {
                            Poll::Ready(())
                        };
                    }
                },
                State::Reading(exchange, out) => {
                    if self.ready.len() >= MOST_AT_ONCE {
                        self.state = State::Reading(exchange, out);
                        return Poll::Ready(());
                    }
                    if pieces == MOST_PIECES {
                        self.state = State::Reading(exchange, out);
                        if self.ready.is_empty() {
                            cx.waker().wake_by_ref();
                            return Poll::Pending;
                        }
                        return Poll::Ready(());
                    }
                    pieces += 1;
                    if self.poll_read(exchange, out, cx).is_pending() {
                        return if self.ready.is_empty() {
                            self.poll_keep_alive(cx)
                        } else {
                            Poll::Ready(())
                        };
                    }
                }
            }
        }
    }

    /// Shows the exchange what comes next. Pending when nothing has come.
    fn poll_read(&mut self, exchange: Box<dyn Exchange>, out: Outgoing, cx: &mut Context<'_>) -> Poll<()> {
        let Some(upstream) = &mut self.upstream else {
            // The answer has ended, and everything about it is decided.
            self.end(out);
            return Poll::Ready(());
        };
        match Pin::new(upstream).poll_frame(cx) {
            Poll::Pending if self.silence.is_over(cx) => {
                self.fail(exchange, out, Cause::Silent(self.silence.patience));
            }
            Poll::Pending => {
                self.state = State::Reading(exchange, out);
                return Poll::Pending;
            }
            Poll::Ready(Some(Err(_))) => self.fail(exchange, out, Cause::Broken),
            Poll::Ready(Some(Ok(frame))) => {
                self.silence.broken();
                if !self.has_head {
                    self.recorder.came(self.is_events);
                }
                // Trailers belong to the bytes that came, not to those that leave.
                let Ok(data) = frame.into_data() else {
                    self.state = State::Reading(exchange, out);
                    return Poll::Ready(());
                };
                match self.decoder.take() {
                    None => self.show(exchange, out, Ok(data)),
                    Some(mut decoder) => {
                        self.spare = self.keep_alive.is_some().then(|| out.spare_head()).flatten();
                        let judging = self.judging.clone();
                        self.state = State::Deciding(Box::pin(async move {
                            let decoded = judging.aside(move || {
                                let decoded = decoder.push(&data);
                                (Box::new(decoder), decoded)
                            });
                            let (decoder, decoded) = decoded.await;
                            (exchange, out, Waited::Decoded(decoder, decoded))
                        }));
                    }
                }
            }
            Poll::Ready(None) => self.finish(exchange, out),
        }
        Poll::Ready(())
    }

    /// Shows the exchange what came, without its compression.
    fn show(&mut self, mut exchange: Box<dyn Exchange>, mut out: Outgoing, data: Result<Bytes, Cause>) {
        match data.and_then(|data| self.unframed(data)) {
            Ok(data) if data.is_empty() => self.state = State::Reading(exchange, out),
            Ok(data) => {
                let step = exchange.chunk(data, &mut out);
                self.take(exchange, out, step);
            }
            Err(cause) => self.fail(exchange, out, cause),
        }
    }

    fn unframed(&mut self, data: Bytes) -> Result<Bytes, Cause> {
        match &mut self.unframer {
            Some(unframer) => unframer.push(&data).map_err(Cause::Frames),
            None => Ok(data),
        }
    }

    fn finish(&mut self, mut exchange: Box<dyn Exchange>, mut out: Outgoing) {
        let rest = match self.decoder.take().map(|mut decoder| decoder.finish()) {
            Some(Err(undecodable)) => {
                return self.fail(exchange, out, Cause::Undecodable(undecodable));
            }
            Some(Ok(rest)) if !rest.is_empty() => rest,
            Some(Ok(_)) | None => {
                if let Some(Err(bad)) = self.unframer.as_ref().map(Unframer::finish) {
                    return self.fail(exchange, out, Cause::Frames(bad));
                }
                self.upstream = None;
                let step = exchange.finish(&mut out);
                return self.take(exchange, out, step);
            }
        };
        // The body has ended: the next poll says so again, without a decoder.
        let rest = match self.unframed(rest) {
            Ok(rest) => rest,
            Err(cause) => return self.fail(exchange, out, cause),
        };
        let step = if rest.is_empty() { Step::Continue } else { exchange.chunk(rest, &mut out) };
        self.take(exchange, out, step);
    }

    /// Takes what an exchange put out, and goes where it says.
    fn take(&mut self, mut exchange: Box<dyn Exchange>, mut out: Outgoing, step: Step) {
        self.collect(&mut out);
        self.state = match step {
            Step::Continue => State::Reading(exchange, out),
            Step::End => return self.end(out),
            Step::Decide => {
                self.spare = self.keep_alive.is_some().then(|| out.spare_head()).flatten();
                State::Deciding(Box::pin(async move {
                    let step = exchange.decide(&mut out).await;
                    (exchange, out, Waited::Step(step))
                }))
            }
            Step::Again(body) => {
                self.spare = self.keep_alive.is_some().then(|| out.spare_head()).flatten();
                (self.upstream, self.decoder, self.unframer) = (None, None, None);
                let provider = Arc::clone(&self.provider);
                let again = self.again.clone().in_span(self.recorder.calls(Maker::of(&provider)));
                let recorder = self.recorder.clone();
                State::Deciding(Box::pin(async move {
                    let request = again.renewed().await.ok().and_then(|again| again.with(body).ok());
                    let answer = match request {
                        Some((request, built)) => {
                            recorder.asks(&provider.name);
                            let answer = provider.send(request).await.ok();
                            match &answer {
                                Some(answer) => recorder.provider_answered(answer.status()),
                                None => recorder.call_failed(),
                            }
                            drop(built);
                            answer
                        }
                        None => None,
                    };
                    (exchange, out, Waited::Answer(Box::new(answer)))
                }))
            }
        };
    }

    /// Goes on with the answer to what was asked once more.
    fn resume(
        &mut self,
        mut exchange: Box<dyn Exchange>,
        mut out: Outgoing,
        answer: Option<Response<UpstreamBody>>,
    ) {
        let opened = answer.and_then(|answer| {
            let (head, body) = answer.into_parts();
            Some((decoder_of(&head.headers, self.decoded_limit).ok()?, head, body))
        });
        let step = match opened {
            Some((decoder, head, body)) => {
                self.decoder = decoder;
                let shown = shown(&self.provider, &head.headers);
                self.unframer = shown.is_some().then(|| Unframer::new(Events::of(self.endpoint)));
                let headers = shown.as_ref().unwrap_or(&head.headers);
                self.upstream = Some(body);
                self.silence = Silence::new(self.provider.idle_timeout);
                let provider = &self.provider.name;
                let answered = Answered { provider, status: head.status, headers };
                exchange.again(Some(&answered), &mut out)
            }
            None => exchange.again(None, &mut out),
        };
        self.take(exchange, out, step);
    }

    fn collect(&mut self, out: &mut Outgoing) {
        if !out.is_empty() {
            self.release(out);
            self.put(out.take_data());
            if let Some((_, quiet)) = &mut self.keep_alive {
                quiet.broken();
            }
        }
    }

    fn release(&mut self, out: &mut Outgoing) {
        if let Some(head) = out.release_head() {
            self.set_head(head);
        }
    }

    fn end(&mut self, mut out: Outgoing) {
        self.collect(&mut out);
        self.release(&mut out);
        if let (Leaving::Frames(framer), false) = (&mut self.leaving, self.broken) {
            self.ready.unsplit(framer.finish());
        }
        self.upstream = None;
        self.state = State::Over;
    }

    fn fail(&mut self, exchange: Box<dyn Exchange>, out: Outgoing, cause: Cause) {
        let failure = Failure::Upstream { provider: self.provider.name.as_ref().to_owned(), cause };
        self.fail_by(exchange, out, &failure);
    }

    fn fail_by(&mut self, mut exchange: Box<dyn Exchange>, mut out: Outgoing, failure: &Failure) {
        if exchange.failed(&mut out) == Step::End {
            return self.end(out);
        }
        self.collect(&mut out);
        self.break_off(failure);
    }

    /// Ends the answer with a failure, as far as it has come.
    fn break_off(&mut self, failure: &Failure) {
        self.recorder.failed(failure);
        if !self.has_head {
            let (head, body) = error_body::response(self.endpoint.family, failure).into_parts();
            self.set_head(head);
            self.put(BytesMut::from(body));
        } else if self.is_events {
            // Half an event would take the error in.
            if let Leaving::Frames(framer) = &mut self.leaving {
                **framer = framer.anew();
            }
            self.put(BytesMut::from(error_body::stream_error(self.endpoint, failure)));
        } else {
            self.broken = true;
        }
        self.upstream = None;
        self.state = State::Over;
    }

    /// Ends what can't go on because the gateway stops, or its token has ended. A decision that is being made is dropped, and what it held with it.
    fn stop(&mut self, failure: &Failure) {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Over => {}
            State::Reading(exchange, out) => self.fail_by(exchange, out, failure),
            State::Deciding(deciding) => {
                drop(deciding);
                self.break_off(failure);
            }
        }
    }

    /// Puts bytes on their way, in the envelope of the client.
    fn put(&mut self, bytes: BytesMut) {
        match &mut self.leaving {
            Leaving::Plain => self.ready.unsplit(bytes),
            Leaving::Frames(framer) => match framer.push(&bytes) {
                Some(frames) => self.ready.unsplit(frames),
                None => {
                    (self.broken, self.upstream) = (true, None);
                }
            },
            Leaving::Error => self.ready.extend_from_slice(&bedrock::error_body(&bytes)),
        }
    }

    fn set_head(&mut self, mut head: response::Parts) {
        if self.again.spoken == Some(Envelope::Bedrock) {
            self.leaving = if is_event_stream(&head.headers) {
                head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(bedrock::FRAMES));
                Leaving::Frames(Box::new(Framer::new(Events::of(self.endpoint))))
            } else if head.status.is_success() {
                Leaving::Plain
            } else {
                bedrock::name_error(head.status, &mut head.headers);
                Leaving::Error
            };
        }
        self.has_head = true;
        self.head = Some(head);
    }

    fn poll_keep_alive(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some((bytes, quiet)) = &mut self.keep_alive else { return Poll::Pending };
        if !quiet.is_over(cx) {
            return Poll::Pending;
        }
        quiet.broken();
        self.ready.extend_from_slice(bytes);
        match &mut self.state {
            State::Reading(_, out) => {
                if let Some(head) = out.release_head() {
                    self.set_head(head);
                }
            }
            State::Deciding(_) => {
                if let Some((head, sent)) = self.spare.take() {
                    sent.store(true, Ordering::Relaxed);
                    self.set_head(head);
                }
            }
            State::Over => {}
        }
        Poll::Ready(())
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}
