//! The queue of spans, and the thread that sends them.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use backstop_hooks::TraceId;
use backstop_http_client::tls::{NoAuthorities, Trust};
use backstop_http_client::{Client, Proxies, Request, Route, root};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use thiserror::Error;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::timeout;
use url::Url;

use crate::span::Span;
use crate::wire::{Sender, rejected};

/// The most spans of one request.
const BATCH: usize = 512;
/// How long the first span of a batch waits for others.
const LINGER: Duration = Duration::from_secs(1);
/// How often a batch is sent, if the collector may take it later.
const TRIES: u32 = 3;
/// How long is waited before the second time; twice as long before the third.
const WAIT: Duration = Duration::from_secs(1);
/// The longest answer that is read.
const LONGEST_ANSWER: usize = 64 * 1024;
/// The longest time to connect.
const CONNECT: Duration = Duration::from_secs(5);

/// Where spans go, and which.
#[derive(Clone)]
pub struct Settings {
    /// The address that takes them: `https://collector.example/v1/traces`.
    pub endpoint: String,
    /// Headers that are sent along, as name and value. The values are secrets.
    pub headers: Vec<(String, String)>,
    /// Which part of all traces is recorded, from 0 to 1.
    pub sample: f64,
    /// How long a request may take.
    pub timeout: Duration,
    /// The most spans that wait.
    pub queue: usize,
    /// What is said of this process.
    pub resource: Vec<(String, String)>,
    /// The version of this program.
    pub version: &'static str,
    /// The authorities that vouch for the collector, as PEM; `None` for those of the system.
    pub authorities: Option<Vec<u8>>,
    /// Whether the collector is reached directly, whatever proxies the environment names.
    pub is_direct: bool,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("headers", &self.headers.len())
            .field("sample", &self.sample)
            .field("timeout", &self.timeout)
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

/// Why no spans can be sent.
#[derive(Debug, Error)]
pub enum InvalidSettings {
    /// The address is malformed.
    #[error("the collector's address is malformed: {0}")]
    Endpoint(url::ParseError),
    /// A header can't be sent.
    #[error("the header `{0}` can't be sent")]
    Header(String),
    /// The authorities can't be used.
    #[error("the authorities that vouch for the collector can't be used: {0}")]
    Authorities(NoAuthorities),
    /// The system has no thread left.
    #[error("no thread can be started: {0}")]
    Thread(std::io::Error),
}

impl Settings {
    fn header_map(&self) -> Result<HeaderMap, InvalidSettings> {
        let pairs = self.headers.iter().map(|(name, value)| {
            let header = HeaderName::try_from(name).ok().zip(HeaderValue::try_from(value).ok());
            let (header, mut value) = header.ok_or_else(|| InvalidSettings::Header(name.clone()))?;
            value.set_sensitive(true);
            Ok((header, value))
        });
        pairs.collect()
    }
}

enum Item {
    Span(Box<Span>),
    Flush(oneshot::Sender<()>),
}

/// Sends spans. Its clones send together; when the last one is dropped, what waits is sent, and the thread ends.
#[derive(Clone)]
pub struct Exporter {
    queue: mpsc::Sender<Item>,
    hurry: Arc<Notify>,
    /// Ends the wait for another try: somebody waits for the end. That much is to be sent ends none.
    ending: Arc<Notify>,
    state: Arc<State>,
    sample: f64,
}

/// What all exporters of this process have dropped.
static DROPPED: AtomicU64 = AtomicU64::new(0);

#[derive(Default)]
struct State {
    dropped: AtomicU64,
    /// Whether the log was told of spans that were dropped, and of none since that arrived.
    is_told: AtomicBool,
}

impl State {
    fn drops(&self, count: u64, why: &dyn fmt::Display) {
        if count == 0 {
            return;
        }
        self.dropped.fetch_add(count, Ordering::Relaxed);
        DROPPED.fetch_add(count, Ordering::Relaxed);
        if !self.is_told.swap(true, Ordering::Relaxed) {
            tracing::warn!("spans of traces are dropped, which costs nothing else: {why}");
        }
    }
}

impl Exporter {
    /// Starts the thread that sends. It connects when there is something to send.
    ///
    /// # Errors
    ///
    /// [`InvalidSettings`] if they make no sense, or the system has no thread left.
    pub fn start(settings: &Settings) -> Result<Self, InvalidSettings> {
        let mut headers = settings.header_map()?;
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let endpoint = Url::parse(&settings.endpoint).map_err(InvalidSettings::Endpoint)?;
        let trust = match &settings.authorities {
            Some(pem) => Trust::only(pem).map_err(InvalidSettings::Authorities)?,
            None => Trust::System,
        };
        let (queue, items) = mpsc::channel(settings.queue.max(1));
        let (hurry, ending, state) =
            (Arc::new(Notify::new()), Arc::new(Notify::new()), Arc::<State>::default());
        let sample = settings.sample;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(InvalidSettings::Thread)?;
        let sending = Sending {
            client: Client::new(backstop_http_client::Settings {
                trust,
                route: match settings.is_direct {
                    true => Route::Direct,
                    false => Route::Proxied(Proxies::of_process()),
                },
                connect_timeout: CONNECT.min(settings.timeout),
                timeout: Some(settings.timeout),
            }),
            sender: Sender::new(&settings.resource, settings.version),
            items,
            hurry: Arc::clone(&hurry),
            ending: Arc::clone(&ending),
            state: Arc::clone(&state),
            endpoint,
            headers,
        };
        let thread = std::thread::Builder::new().name("backstop-traces".to_owned()).spawn(move || {
            runtime.block_on(sending.run());
            // A name that is being looked up is nobody's to wait for.
            runtime.shutdown_background();
        });
        thread.map_err(InvalidSettings::Thread)?;
        Ok(Self { queue, hurry, ending, state, sample })
    }

    /// Returns whether a trace is recorded. The same for each of its spans in this process; whoever chooses ids of traces can't foresee it.
    pub fn samples(&self, trace: TraceId) -> bool {
        static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        // 53 bits, which is what a number from 0 to 1 has.
        let number = KEY.hash_one(trace) >> 11;
        (number as f64) / ((1_u64 << 53) as f64) < self.sample
    }

    /// Takes a span, if its trace is recorded and there is room. Waits for nobody.
    pub fn record(&self, span: Span) {
        if !self.samples(span.trace) {
            return;
        }
        if self.queue.try_send(Item::Span(Box::new(span))).is_err() {
            self.state.drops(1, &"their queue is full");
        }
        if self.queue.capacity() < self.queue.max_capacity() / 2 {
            self.hurry.notify_one();
        }
    }

    /// Returns how many spans of recorded traces no collector has.
    pub fn dropped(&self) -> u64 {
        self.state.dropped.load(Ordering::Relaxed)
    }

    /// Returns how many spans all exporters of this process have dropped.
    pub fn dropped_by_all() -> u64 {
        DROPPED.load(Ordering::Relaxed)
    }

    /// Waits until everything that was recorded so far is sent, or dropped, and no longer than `patience`. Returns whether it is.
    pub async fn flush(&self, patience: Duration) -> bool {
        let (done, sent) = oneshot::channel();
        let flushed = async {
            self.hurry.notify_one();
            self.ending.notify_one();
            let is_asked = self.queue.send(Item::Flush(done)).await.is_ok();
            // The thread may have begun to wait in between.
            self.hurry.notify_one();
            is_asked && sent.await.is_ok()
        };
        timeout(patience, flushed).await.unwrap_or(false)
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").field("dropped", &self.dropped()).finish_non_exhaustive()
    }
}

/// The thread that sends.
struct Sending {
    client: Client,
    sender: Sender,
    items: mpsc::Receiver<Item>,
    hurry: Arc<Notify>,
    /// Ends the wait for another try: somebody waits for the end. That much is to be sent ends none.
    ending: Arc<Notify>,
    state: Arc<State>,
    endpoint: Url,
    headers: HeaderMap,
}

/// Why a batch did not arrive, and whether it may later.
struct Lost {
    why: String,
    again: Option<Duration>,
}

impl Sending {
    async fn run(mut self) {
        let mut waiting = Vec::with_capacity(BATCH);
        while self.items.recv_many(&mut waiting, BATCH).await > 0 {
            self.linger(&mut waiting).await;
            let (mut spans, mut flushed) = (Vec::with_capacity(waiting.len()), Vec::new());
            for item in waiting.drain(..) {
                match item {
                    Item::Span(span) => spans.push(*span),
                    Item::Flush(done) => flushed.push(done),
                }
            }
            if !spans.is_empty() {
                // Whoever waits for the end does not wait for a second try.
                let tries = if flushed.is_empty() && !self.items.is_closed() { TRIES } else { 1 };
                let has_arrived = self.send(&spans, tries).await;
                // With each change of the configuration an exporter takes the place of another. Before a collector that hangs
                // those that were replaced would pile up.
                if !has_arrived && self.items.is_closed() {
                    self.give_up();
                }
            }
            for done in flushed {
                // Where nobody waits any more, nothing is left to tell.
                let _ = done.send(());
            }
        }
    }

    /// Drops what is left to send.
    fn give_up(&mut self) {
        let mut left = 0;
        while let Ok(item) = self.items.try_recv() {
            match item {
                Item::Span(_) => left += 1,
                Item::Flush(done) => drop(done.send(())),
            }
        }
        self.state.drops(left, &"the collector gives no answer, and nobody records here any more");
    }

    /// Waits for more, unless somebody waits for what is there.
    async fn linger(&mut self, waiting: &mut Vec<Item>) {
        let is_asked = |items: &[Item]| items.iter().any(|item| matches!(item, Item::Flush(_)));
        if waiting.len() >= BATCH || is_asked(waiting) || self.items.is_closed() {
            return;
        }
        // Either way what has come by then is sent.
        let _ = timeout(LINGER, self.hurry.notified()).await;
        while waiting.len() < BATCH
            && let Ok(item) = self.items.try_recv()
        {
            waiting.push(item);
        }
    }

    /// Sends a batch. Returns whether the collector answered it.
    async fn send(&self, spans: &[Span], tries: u32) -> bool {
        let body = Bytes::from(self.sender.request(spans));
        let count = u64::try_from(spans.len()).unwrap_or(u64::MAX);
        let mut wait = WAIT;
        for left in (0..tries).rev() {
            match self.post(body.clone()).await {
                Ok(0) => {
                    if self.state.is_told.swap(false, Ordering::Relaxed) {
                        tracing::info!("spans of traces arrive again");
                    }
                    return true;
                }
                Ok(refused) => {
                    self.state.drops(refused.min(count), &"the collector refused some of a batch");
                    return true;
                }
                Err(Lost { again: Some(least), .. }) if left > 0 => {
                    let _ = timeout(least.max(wait), self.ending.notified()).await;
                    wait *= 2;
                }
                Err(Lost { why, .. }) => {
                    self.state.drops(count, &why);
                    return false;
                }
            }
        }
        false
    }

    /// Sends a request. Returns how many of its spans were refused.
    async fn post(&self, body: Bytes) -> Result<u64, Lost> {
        let headers = self.headers.clone();
        let request = Request { method: Method::POST, url: &self.endpoint, headers, body };
        let lost = |error: &backstop_http_client::Error| Lost {
            why: format!("the collector gives no answer: {}", root(error)),
            again: Some(Duration::ZERO),
        };
        let answer = self.client.send(request).await.map_err(|error| lost(&error))?;
        let status = answer.status();
        let after = answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let after = after.and_then(|value| value.parse().ok()).map(Duration::from_secs);
        if status.is_success() {
            // An answer that can't be read is one all the same.
            return Ok(answer.whole(LONGEST_ANSWER).await.map_or(0, |answer| rejected(&answer)));
        }
        let may_later = matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT
        );
        Err(Lost {
            why: format!("the collector answers with status {}", status.as_u16()),
            again: may_later.then(|| after.unwrap_or_default().min(WAIT * 8)),
        })
    }
}
