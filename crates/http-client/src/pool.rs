//! The connections to one origin.
//!
//! An HTTP/1.1 connection is driven by the task whose request it carries: there is no connection task, and no chunk is handed
//! over between tasks. Dropping the request or its answer closes the connection. HTTP/2 connections are shared, and dropping a
//! request resets its stream.

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri, Version, header, response};
use hyper::body::Body;
use hyper::client::conn::{http1, http2};
use hyper::upgrade::{self, Upgraded};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use thiserror::Error;
use tokio::time::Instant;

use crate::BoxError;
use crate::body::ResponseBody;
use crate::coalesce::CoalesceChunks;
use crate::connect::{ConnectError, Connector, Stream};
use crate::origin::Origin;

/// Connections that wait for a request, at most.
const MOST_IDLE: usize = 256;
/// After that time without a request a connection is not used again: many servers have closed it by then.
const IDLE: Duration = Duration::from_secs(55);
/// Bytes of an answer on the way, per HTTP/2 stream and connection.
const WINDOW: u32 = 1 << 20;
const MOST_HEADERS: usize = 256;
/// Bytes that one read of an HTTP/1.1 connection brings at most, and the largest head of an answer.
const READ: usize = 32 << 10;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum SendError {
    /// There is no connection, so the other side surely saw nothing of the request.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The connection broke, or what came is no HTTP, or the request's own body failed.
    #[error("the connection broke before an answer came")]
    Broken(#[source] hyper::Error),
}

/// What can be the body of a request.
pub trait RequestBody: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static {}
impl<T: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static> RequestBody for T {}

/// The connections to one origin.
pub struct Pool<B: RequestBody> {
    connector: Connector,
    idle: Mutex<Vec<Http1<B>>>,
    shared: Mutex<Option<http2::SendRequest<B>>>,
}

/// An HTTP/1.1 connection, driven by whoever holds it.
pub(crate) struct Http1<B: RequestBody> {
    sender: http1::SendRequest<B>,
    connection: http1::Connection<TokioIo<CoalesceChunks<Box<dyn Stream>>>, B>,
    used: Instant,
}

impl<B: RequestBody> Pool<B> {
    /// Returns an empty pool.
    pub fn new(connector: Connector) -> Self {
        Self { connector, idle: Mutex::default(), shared: Mutex::default() }
    }

    /// Returns the origin.
    pub fn origin(&self) -> &Origin {
        self.connector.origin()
    }

    /// Takes a connection back, if it can be used again.
    pub(crate) fn put(&self, mut connection: Http1<B>) {
        if !connection.sender.is_ready() {
            return;
        }
        connection.used = Instant::now();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MOST_IDLE {
            idle.push(connection);
        }
    }

    /// The connection that was used last, if it still stands.
    async fn take(&self) -> Option<Http1<B>> {
        loop {
            let mut connection = {
                let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
                let connection = idle.pop()?;
                if connection.used.elapsed() > IDLE {
                    // Those below were used even longer ago.
                    idle.clear();
                    return None;
                }
                connection
            };
            let closed = std::future::poll_fn(|cx| Poll::Ready(connection.poll_drive(cx).is_ready())).await;
            if !closed && connection.sender.is_ready() {
                return Some(connection);
            }
        }
    }

    fn shared(&self) -> Option<http2::SendRequest<B>> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.take_if(|sender| sender.is_closed());
        shared.clone()
    }

    /// Sends a request and waits for the head of its answer. `request` has a path as its address, and a `host`. A connection
    /// that turns out to be dead before it took anything of the request is replaced.
    ///
    /// # Errors
    ///
    /// [`SendError`] if no head of an answer comes. How long that may take is up to whoever asks.
    pub async fn send(
        self: Arc<Self>,
        mut request: Request<B>,
    ) -> Result<Response<ResponseBody<B>>, SendError> {
        if let Some(mut sender) = self.shared() {
            match sender.try_send_request(self.for_http2(request)).await {
                Ok(response) => return Ok(response.map(|body| ResponseBody::new(body, None))),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(SendError::Broken(error.into_error())),
                },
            }
        }
        while let Some(connection) = self.take().await {
            match self.send_on(connection, request).await? {
                Ok(response) => return Ok(response),
                Err(unsent) => request = *unsent,
            }
        }
        let connected = self.connector.connect().await?;
        if connected.http2 {
            return self.send_on_http2(TokioIo::new(connected.stream), request).await;
        }
        let (sender, connection) = http1::Builder::new()
            .max_headers(MOST_HEADERS)
            .read_buf_exact_size(Some(READ))
            .handshake(TokioIo::new(CoalesceChunks::new(connected.stream)))
            .await
            .map_err(SendError::Broken)?;
        let connection = Http1 { sender, connection, used: Instant::now() };
        match self.send_on(connection, request).await? {
            Ok(response) => Ok(response),
            // A new connection that takes nothing was closed by the other side.
            Err(_) => Err(ConnectError::Closed.into()),
        }
    }

    /// Sends a request to go on with another protocol, on a connection of its own. Gives the head of the answer, and the
    /// connection if the other side agreed.
    ///
    /// # Errors
    ///
    /// [`SendError`] if no head of an answer comes.
    pub async fn open(&self, request: Request<B>) -> Result<(response::Parts, Option<Upgraded>), SendError> {
        let request = self.for_http1(request);
        let stream = self.connector.connect_http1().await?;
        let (mut sender, connection) = http1::Builder::new()
            .max_headers(MOST_HEADERS)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(SendError::Broken)?;
        let mut connection = pin!(connection.with_upgrades());
        let mut opening = pin!(async {
            let mut answer = sender.send_request(request).await?;
            let agreed = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
            let socket = if agreed { Some(upgrade::on(&mut answer).await?) } else { None };
            Ok((answer.into_parts().0, socket))
        });
        let mut ended = false;
        loop {
            tokio::select! {
                opened = &mut opening => return opened.map_err(SendError::Broken),
                _ = &mut connection, if !ended => ended = true,
            }
        }
    }

    /// Sends on an HTTP/1.1 connection; gives the request back if nothing of it was sent.
    async fn send_on(
        self: &Arc<Self>,
        mut connection: Http1<B>,
        request: Request<B>,
    ) -> Result<Result<Response<ResponseBody<B>>, Box<Request<B>>>, SendError> {
        let request = self.for_http1(request);
        // The length of an answer to `HEAD` is not that of a body, which only who asked knows.
        let is_followed = request.method() != Method::HEAD;
        let mut ended = false;
        let sent = {
            let mut answer = pin!(connection.sender.try_send_request(request));
            let driver = &mut connection.connection;
            std::future::poll_fn(|cx| {
                if !ended {
                    ended = Pin::new(&mut *driver).poll(cx).is_ready();
                }
                answer.as_mut().poll(cx)
            })
            .await
        };
        match sent {
            Ok(response) => {
                let kept = (is_followed && !ended).then(|| (connection, Arc::clone(self)));
                let held = |body| ResponseBody::new(body, kept);
                Ok(Ok(response.map(held)))
            }
            Err(mut error) => match error.take_message() {
                Some(unsent) => Ok(Err(Box::new(unsent))),
                None => Err(SendError::Broken(error.into_error())),
            },
        }
    }

    async fn send_on_http2(
        &self,
        io: TokioIo<Box<dyn Stream>>,
        request: Request<B>,
    ) -> Result<Response<ResponseBody<B>>, SendError> {
        let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW.saturating_mul(4))
            .keep_alive_interval(Some(Duration::from_secs(20)))
            .handshake(io)
            .await
            .map_err(SendError::Broken)?;
        // It ends by itself when the last sender is gone or the connection breaks, which each request sees.
        tokio::spawn(async move { drop(connection.await) });
        *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender.clone());
        let response = sender.send_request(self.for_http2(request)).await.map_err(SendError::Broken)?;
        Ok(response.map(|body| ResponseBody::new(body, None)))
    }

    fn for_http1(&self, mut request: Request<B>) -> Request<B> {
        *request.version_mut() = Version::HTTP_11;
        if let Some(origin) = self.connector.names_origin() {
            place(request.uri_mut(), origin);
        }
        if let Some(authorization) = self.connector.proxy_authorization() {
            request.headers_mut().insert(header::PROXY_AUTHORIZATION, authorization.clone());
        }
        request
    }

    fn for_http2(&self, mut request: Request<B>) -> Request<B> {
        *request.version_mut() = Version::HTTP_2;
        request.headers_mut().remove(header::HOST);
        place(request.uri_mut(), self.connector.origin().uri());
        request
    }
}

/// Puts scheme and authority in front of a path.
fn place(target: &mut Uri, origin: &Uri) {
    let mut parts = std::mem::take(target).into_parts();
    let origin = origin.clone().into_parts();
    parts.scheme = origin.scheme;
    parts.authority = origin.authority;
    // An origin and a path always make an address.
    *target = Uri::from_parts(parts).unwrap_or_default();
}

impl<B: RequestBody> Http1<B> {
    /// Moves the connection on. Ready when it is over.
    pub(crate) fn poll_drive(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.connection).poll(cx).map(drop)
    }
}

impl<B: RequestBody> std::fmt::Debug for Http1<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http1").finish_non_exhaustive()
    }
}

impl<B: RequestBody> std::fmt::Debug for Pool<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}
