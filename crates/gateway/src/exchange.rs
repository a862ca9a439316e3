//! The seam between the HTTP machinery and whoever looks at the traffic.
//!
//! The gateway moves bytes; it does not know what a hook is. For each authenticated request (token,
//! host, limits) it asks its [`Interceptor`] for a [`Plan`]. [`Plan::Opaque`] means that nobody looks: bytes
//! stream both ways as they come, undecoded. [`Plan::Inspect`] brings an [`Exchange`], which lives as long as
//! the request and is shown everything in this order:
//!
//! ```text
//! request(body)          once; the whole body, decoded of its compression, at most `max_body_bytes`
//!   ├ Requested::Reply   answered here; no provider is asked, nothing else is called
//!   └ forward            providers are asked, retried and failed over by the gateway; only the answer that
//!                        goes to the client is shown, and `unanswered()` is called if there is none:
//! response(answered)     once; its status and headers
//!   ├ Watch::Opaque      streams untouched, nothing else is called
//!   ├ Watch::Refuse      the provider is cut off, something else is answered, nothing else is called
//!   └ Watch::Look
//!       chunk(bytes)*    what one read of the network brought, decoded of its compression
//!         └ Step::Decide ──► decide().await ──► its Step
//!       finish()         after the last chunk, if the answer ended as HTTP says it should
//!         └ Step::Decide ──► decide().await ──► its Step
//!         └ Step::Again ──► the same provider is asked once more ──► again(answered), then chunk(bytes)* as before
//!       or failed()      the provider broke off, fell silent, or sent what can't be decoded
//! ```
//!
//! Laws:
//!
//! - *Nothing reaches the client that the exchange did not put into [`Outgoing`]*, except keep-alives that it
//!   asked for and the error that ends a broken answer. What it still holds at [`failed`](Exchange::failed)
//!   is gone.
//! - *The head waits.* Status and headers leave with the first byte of output or the first keep-alive, and
//!   can be changed until then; an answer that is blocked before its first byte can become a 4xx.
//! - *Calls do not overlap.* While [`decide`](Exchange::decide) runs, nothing is read from upstream (TCP and
//!   HTTP/2 windows hold the provider back), so what is in memory is bounded by what the exchange keeps.
//! - *Dropped means gone.* When the client disconnects or the gateway stops, the exchange is dropped wherever
//!   it is, also inside `decide`, and the provider's connection with it. An exchange that must write down how it
//!   ended does so in `Drop`.
//! - *Events stay whole.* Output of an event stream ends at an event boundary after every call, so that a
//!   keep-alive or an error event can follow it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use backstop_engine::Engine;
use backstop_hooks::AgentId;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, StatusCode, response};
use thiserror::Error;

use crate::endpoint::Endpoint;
use crate::operations::Permission;
use crate::record::Recorder;

/// Decides for each request who looks at it.
pub trait Interceptor: Send + Sync + 'static {
    /// Called once for each authenticated request, before its body is read. Must not block or wait.
    fn begin(&self, call: &Call<'_>) -> Plan;

    /// Whether anybody judges: then only headers of requests pass that are known to be harmless.
    fn decides(&self) -> bool {
        true
    }

    /// Which of these words of a head or an address can't be shown to whom they are for, by their places. Must not block or wait.
    /// Whoever wraps another asks that.
    fn withholds(&self, agent: Option<&AgentId>, words: &[&str]) -> Vec<usize>;

    /// Whether sound and pictures of a session pass, in which nobody can judge anything.
    fn passes_media(&self) -> bool {
        true
    }

    /// Returns the hooks, where there are any: programs can have events judged by them over the API.
    fn engine(&self) -> Option<&Engine> {
        None
    }

    /// Finds out whether requests can be judged now, and what comes of it kept. Operators ask, and whoever balances load.
    fn ready(&self) -> Readiness<'_> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The wait until it is known whether an [`Interceptor`] is ready.
pub type Readiness<'a> = Pin<Box<dyn Future<Output = Result<(), NotReady>> + Send + 'a>>;

/// What is not ready. There is no variant for a policy: a gateway listens only once it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotReady {
    /// Where decisions are kept can't be written.
    Store,
    /// An issuer of signed tokens has no keys that count: its tokens open nothing.
    Keys,
    /// The gateway is about to stop.
    Stopping,
}

impl NotReady {
    /// Its name for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Keys => "identity_keys",
            Self::Stopping => "stopping",
        }
    }
}

/// Nobody looks: a plain proxy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transparent;

impl Interceptor for Transparent {
    fn decides(&self) -> bool {
        false
    }

    fn begin(&self, _: &Call<'_>) -> Plan {
        Plan::Opaque
    }

    fn withholds(&self, _: Option<&AgentId>, _: &[&str]) -> Vec<usize> {
        Vec::new()
    }
}

/// A request as it is known before its body is read.
pub struct Call<'a> {
    /// Number of the request in this process, from 1.
    pub number: u64,
    /// What is asked of which wire.
    pub endpoint: &'a Endpoint,
    /// Its method.
    pub method: &'a Method,
    /// Its path, without the gateway's own prefixes and without the query.
    pub path: &'a str,
    /// Its query, without a token of the gateway. The provider's key may be in it: never keep or show it.
    pub query: Option<&'a str>,
    /// Its headers. Credentials are in them, marked as sensitive: never keep or show them.
    pub headers: &'a HeaderMap,
    /// Whether it may pass without anybody who reads it.
    pub permission: Permission,
    /// Whose request it is, if the client said so; never guessed.
    pub agent: Option<&'a AgentId>,
    /// On whose behalf it is, if its token says so. No client can say otherwise.
    pub user: Option<&'a Arc<str>>,
    /// Notes what becomes of it, for its record.
    pub recorder: &'a Recorder,
    /// The session on a socket to which it belongs, where each request holds only what is new and does not name what it continues.
    pub session: Option<&'a str>,
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("number", &self.number)
            .field("endpoint", self.endpoint)
            .field("method", self.method)
            .field("agent", &self.agent)
            .finish_non_exhaustive()
    }
}

/// What is to be done with a request.
pub enum Plan {
    /// Bytes stream untouched.
    Opaque,
    /// The exchange is shown everything.
    Inspect(Box<dyn Exchange>),
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Opaque => "Opaque",
            Self::Inspect(_) => "Inspect",
        })
    }
}

/// One request and its answer, seen by whoever judges them.
#[async_trait]
pub trait Exchange: Send + 'static {
    /// The request's body. It may wait (for hooks, for a human) as long as it wants; the client's disconnect
    /// drops it.
    async fn request(&mut self, body: &Body<'_>) -> Requested;

    /// The head of the answer that goes to the client. Errors of the provider come here like answers do.
    fn response(&mut self, answered: &Answered<'_>) -> Watch;

    /// More of the answer.
    fn chunk(&mut self, chunk: Bytes, out: &mut Outgoing) -> Step;

    /// The answer has come as a whole. After [`Step::Continue`] it is over for the client too.
    fn finish(&mut self, out: &mut Outgoing) -> Step;

    /// What could not be decided at once: asked for with [`Step::Decide`].
    async fn decide(&mut self, out: &mut Outgoing) -> Step;

    /// The head of the answer to what [`Step::Again`] asked, whose status and headers do not leave; `None` if the provider gave
    /// none. After [`Step::Continue`] its body is shown like that of the first.
    fn again(&mut self, answered: Option<&Answered<'_>>, out: &mut Outgoing) -> Step {
        let (_, _) = (answered, out);
        Step::End
    }

    /// Whether a request that was shown is for the provider that it was shown with, and for no other.
    fn stays(&self) -> bool {
        false
    }

    /// No provider answered; nothing else is called.
    fn unanswered(&mut self) {}

    /// The answer will never be whole. What was judged already may still be put out; then the gateway ends
    /// the stream with the wire's own error event, or, before the first byte, with an error answer. After
    /// [`Step::End`] it adds nothing: the exchange has ended the answer itself.
    fn failed(&mut self, out: &mut Outgoing) -> Step {
        let _ = out;
        Step::Continue
    }
}

/// A request's body, as an [`Exchange`] is shown it.
#[derive(Debug)]
pub struct Body<'a> {
    /// The bytes, decoded of their compression.
    pub bytes: &'a Bytes,
    /// The provider that is asked first.
    pub provider: &'a str,
}

/// What becomes of a request.
#[derive(Debug)]
pub enum Requested {
    /// It goes on as it came, but for a compression.
    Unchanged,
    /// It goes on with this body, uncompressed. Its `model` decides anew where it goes.
    Replaced(Bytes),
    /// It is answered here. Failover and retries never see it.
    Reply(Reply),
}

/// An answer that no provider gave.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Its status.
    pub status: StatusCode,
    /// Its headers; length and connection headers are the gateway's.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// The head of an answer.
#[derive(Debug)]
pub struct Answered<'a> {
    /// The provider that gave it.
    pub provider: &'a str,
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: &'a HeaderMap,
}

/// How an answer is treated.
#[derive(Clone, Debug)]
pub enum Watch {
    /// It streams untouched.
    Opaque,
    /// Nothing of it leaves, not even its head; this does.
    Refuse(Reply),
    /// Every byte of it passes the exchange.
    Look {
        /// What keeps the client patient while output is held back; `None` for answers that are not event
        /// streams.
        keep_alive: Option<KeepAlive>,
    },
}

/// Bytes that say "still here" to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// How long nothing must have been sent.
    pub every: Duration,
    /// A whole event or comment of the wire.
    pub bytes: Bytes,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// More of the answer is wanted.
    Continue,
    /// [`Exchange::decide`] is to be awaited first.
    Decide,
    /// What is left of the provider's answer is dropped, and the same provider is asked once more, with this body. Its
    /// answer goes on in this exchange: see [`Exchange::again`].
    Again(Bytes),
    /// The answer ends here: what is in [`Outgoing`] is its last, and the provider is cut off at once.
    End,
}

/// Status and headers are on their way to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the head of the answer has been sent")]
pub struct HeadSent;

/// What goes to the client.
#[derive(Debug)]
pub struct Outgoing {
    head: Option<response::Parts>,
    /// Shared with the driver, which may have to send the head while a decision holds this.
    head_sent: Arc<AtomicBool>,
    data: BytesMut,
}

impl Outgoing {
    pub(crate) fn new(head: response::Parts) -> Self {
        Self { head: Some(head), head_sent: Arc::default(), data: BytesMut::new() }
    }

    /// Puts bytes out. Those put out before the exchange is asked for more leave together. Bytes that nobody else
    /// holds are not copied, if they are the first.
    pub fn push(&mut self, bytes: Bytes) {
        if !self.data.is_empty() {
            self.data.extend_from_slice(&bytes);
            return;
        }
        match bytes.try_into_mut() {
            Ok(bytes) => self.data = bytes,
            Err(shared) => self.data.extend_from_slice(&shared),
        }
    }

    /// Whether nothing was put out since the last write.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Status and headers, as long as they have not been sent.
    pub fn head_mut(&mut self) -> Option<&mut response::Parts> {
        self.head.as_mut().filter(|_| !self.head_sent.load(Ordering::Relaxed))
    }

    /// Answers something else altogether, which is possible until the head is sent. Whoever calls it ends the
    /// answer with [`Step::End`].
    ///
    /// # Errors
    /// [`HeadSent`] if it is too late.
    pub fn replace(&mut self, reply: Reply) -> Result<(), HeadSent> {
        let Some(head) = self.head_mut() else { return Err(HeadSent) };
        head.status = reply.status;
        head.headers = reply.headers;
        self.data.clear();
        self.data.extend_from_slice(&reply.body);
        Ok(())
    }

    pub(crate) fn take_data(&mut self) -> BytesMut {
        self.data.split()
    }

    /// The head, to be sent now; `None` if it was sent.
    pub(crate) fn release_head(&mut self) -> Option<response::Parts> {
        let head = self.head.take();
        if self.head_sent.swap(true, Ordering::Relaxed) { None } else { head }
    }

    /// Clones the head and its sent flag, so that the driver can send the head while `decide` borrows `self`. Returns `None`
    /// once the head has been sent.
    pub(crate) fn spare_head(&self) -> Option<(response::Parts, Arc<AtomicBool>)> {
        let head = self.head.as_ref().filter(|_| !self.head_sent.load(Ordering::Relaxed))?;
        Some((head.clone(), Arc::clone(&self.head_sent)))
    }
}
