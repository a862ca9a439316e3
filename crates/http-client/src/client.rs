//! A client for any number of servers, with request bodies in memory.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header, response};
use http_body_util::Full;
use hyper::body::Body as _;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::time::{Instant, timeout_at};
use url::{Position, Url};

use crate::body::ResponseBody;
use crate::connect::{ConnectError, Connector, Route, SetupError};
use crate::origin::Origin;
use crate::pool::{Pool, SendError};
use crate::root;
use crate::tls::{Tls, Trust};

/// The most pools that a client keeps.
const MOST_POOLS: usize = 32;
/// A pool without a request for this time is dropped.
const IDLE: Duration = Duration::from_secs(55);

/// The settings of a client.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The certificate authorities that are trusted.
    pub trust: Trust,
    /// How servers are reached.
    pub route: Route,
    /// The limit for each connection attempt.
    pub connect_timeout: Duration,
    /// The limit from the request to the end of its answer; `None` leaves it to the caller.
    pub timeout: Option<Duration>,
}

/// A client for any number of servers. Nothing is set up before the first request.
#[derive(Debug)]
pub struct Client {
    settings: Settings,
    tls: Tls,
    /// The most recently used is the last.
    pools: Mutex<Vec<Kept>>,
}

#[derive(Debug)]
struct Kept {
    pool: Arc<Pool<Full<Bytes>>>,
    used: Instant,
}

/// A request as it is sent, and the pool for its address.
type Asked = (Arc<Pool<Full<Bytes>>>, http::Request<Full<Bytes>>);

/// A request.
pub struct Request<'a> {
    /// Its method.
    pub method: Method,
    /// Its address. The fragment is not sent; credentials in it are an error.
    pub url: &'a Url,
    /// Its headers. `host` is always derived from the address; `accept` defaults to `*/*`.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// An answer whose head has arrived. Dropping it closes its connection unless the rest of the body has arrived, too.
pub struct Response {
    head: response::Parts,
    body: ResponseBody<Full<Bytes>>,
    end: Option<End>,
}

/// A connection on which something else than HTTP is spoken.
pub type Socket = TokioIo<Upgraded>;

/// When an answer must be complete, and how long that was at the beginning.
#[derive(Clone, Copy, Debug)]
struct End(Instant, Duration);

/// Why there is no complete answer.
#[derive(Debug, Error)]
pub enum Error {
    /// The address can't be requested.
    #[error("the address can't be requested: {0}")]
    Address(&'static str),
    /// No connections can be made.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// There is no connection.
    #[error(transparent)]
    Connect(ConnectError),
    /// The connection broke before the answer began, or what came is not HTTP.
    #[error("the connection broke before an answer came: {}", root(.0))]
    Broken(#[source] hyper::Error),
    /// The connection broke in the middle of the answer, or the rest is not HTTP.
    #[error("the connection broke in the middle of the answer: {}", root(.0))]
    Cut(#[source] hyper::Error),
    /// [`Settings::timeout`] is over.
    #[error("no complete answer within {0:?}")]
    Timeout(Duration),
    /// The answer is larger than the caller accepts.
    #[error("the answer has more than {0} bytes")]
    TooLarge(usize),
}

impl Error {
    /// Returns whether a time limit was reached, for the connection or for the whole exchange.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout(_) | Self::Connect(ConnectError::Timeout(_)))
    }

    /// Returns whether no connection was made, for whatever reason.
    pub fn is_connect(&self) -> bool {
        matches!(self, Self::Connect(_))
    }

    /// Returns whether the server answered something that is not HTTP.
    pub fn is_no_http(&self) -> bool {
        matches!(self, Self::Broken(error) if error.is_parse())
    }
}

impl From<SendError> for Error {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Connect(error) => Self::Connect(error),
            SendError::Broken(error) => Self::Broken(error),
        }
    }
}

impl Client {
    /// Returns a client with these settings.
    pub fn new(settings: Settings) -> Self {
        let tls = Tls::new(settings.trust.clone());
        Self { settings, tls, pools: Mutex::default() }
    }

    /// Sends a request and returns when the head of its answer has arrived.
    ///
    /// # Errors
    ///
    /// [`enum@Error`] if none arrives.
    pub async fn send(&self, request: Request<'_>) -> Result<Response, Error> {
        let end = self.end();
        let (pool, asked) = self.asked(request)?;
        // The future that connects is large; callers do not embed it in theirs.
        let (head, body) = by(end, Box::pin(pool.send(asked))).await??.into_parts();
        Ok(Response { head, body, end })
    }

    /// Sends a request to go on with another protocol, on a connection of its own. Returns the head of the answer, and the
    /// connection if the server agreed: how long that may then last is up to the caller.
    ///
    /// # Errors
    ///
    /// [`enum@Error`] if no head of an answer arrives.
    pub async fn open(&self, request: Request<'_>) -> Result<(response::Parts, Option<Socket>), Error> {
        let end = self.end();
        let (pool, asked) = self.asked(request)?;
        let (head, socket) = by(end, Box::pin(pool.open(asked))).await??;
        Ok((head, socket.map(TokioIo::new)))
    }

    fn end(&self) -> Option<End> {
        self.settings.timeout.map(|timeout| End(Instant::now() + timeout, timeout))
    }

    /// Returns a request as it is sent, and the pool for its address.
    fn asked(&self, request: Request<'_>) -> Result<Asked, Error> {
        let Request { method, url, mut headers, body } = request;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Error::Address("it holds credentials"));
        }
        let pool = self.pool(url)?;
        let target = url[Position::BeforePath..Position::AfterQuery].parse();
        headers.insert(header::HOST, pool.origin().host().clone());
        headers.entry(header::ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        let mut asked = http::Request::new(Full::new(body));
        *asked.method_mut() = method;
        *asked.uri_mut() = target.map_err(|_| Error::Address("its path is malformed"))?;
        *asked.headers_mut() = headers;
        Ok((pool, asked))
    }

    /// Returns the pool for an address.
    fn pool(&self, url: &Url) -> Result<Arc<Pool<Full<Bytes>>>, Error> {
        let origin =
            Origin::of_url(url).ok_or(Error::Address("it is not `http` or `https`, or has no host"))?;
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|kept| kept.used.elapsed() <= IDLE);
        let known = pools.iter().position(|kept| *kept.pool.origin() == origin);
        let pool = match known.map(|at| pools.remove(at)) {
            Some(kept) => kept.pool,
            None => {
                let Settings { connect_timeout, route, .. } = &self.settings;
                Arc::new(Pool::new(Connector::new(origin, *connect_timeout, &self.tls, route)?))
            }
        };
        if pools.len() >= MOST_POOLS {
            pools.remove(0);
        }
        pools.push(Kept { pool: Arc::clone(&pool), used: Instant::now() });
        Ok(pool)
    }
}

impl Response {
    /// Returns its status.
    pub fn status(&self) -> StatusCode {
        self.head.status
    }

    /// Returns its headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// Returns the target if this answer to a request for `url` is a redirect. It is never followed by the client itself.
    ///
    /// # Errors
    ///
    /// [`url::ParseError`] if the target is malformed.
    pub fn redirect(&self, url: &Url) -> Option<Result<Url, url::ParseError>> {
        if !matches!(self.head.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
            return None;
        }
        let location = self.head.headers.get(header::LOCATION)?;
        Some(url.join(&String::from_utf8_lossy(location.as_bytes())))
    }

    /// Returns the next piece of the body: what has arrived, up to about 64 KiB; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`enum@Error`] if the body breaks off or the time is up.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let body = &mut self.body;
            let frame = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx));
            let Some(frame) = by(self.end, frame).await? else { return Ok(None) };
            // Trailers are about what came.
            if let Ok(data) = frame.map_err(Error::Cut)?.into_data()
                && !data.is_empty()
            {
                return Ok(Some(data));
            }
        }
    }

    /// Reads the whole body, if it has at most `most` bytes.
    ///
    /// # Errors
    ///
    /// [`enum@Error`] if it is larger, breaks off or takes too long.
    pub async fn whole(mut self, most: usize) -> Result<Vec<u8>, Error> {
        let mut whole = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if whole.len().saturating_add(chunk.len()) > most {
                return Err(Error::TooLarge(most));
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(whole)
    }
}

impl Drop for Response {
    fn drop(&mut self) {
        self.body.leave();
    }
}

impl std::fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").field("method", &self.method).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Response").field("status", &self.head.status).finish_non_exhaustive()
    }
}

/// Waits for something until the time is up.
async fn by<T>(end: Option<End>, what: impl Future<Output = T>) -> Result<T, Error> {
    match end {
        None => Ok(what.await),
        Some(End(end, whole)) => timeout_at(end, what).await.map_err(|_| Error::Timeout(whole)),
    }
}
