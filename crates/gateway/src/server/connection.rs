//! Connections: which protocol each speaks, and how long.
//!
//! The laws: *each connection has a place* ([`places`](super::places)), and *who was let in by other settings than those of now ends with what is
//! under way* ([`Current::admits_others_than`]). HTTP/1.1 and HTTP/2 are told apart by the handshake, or by the first bytes.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::current::{Admission, Current};
use super::load::Visitors;
use super::places::{Place, Places};
use super::socket::Socket;
use super::sockets::Guests;
use super::{handle, tls};
use crate::settings::{Limits, Timeouts};

/// Streams at once on one HTTP/2 connection.
const MOST_STREAMS: u32 = 256;
/// Bytes of a request on the way, per HTTP/2 stream and connection.
const WINDOW: u32 = 1 << 20;
const MOST_HEADERS: usize = 128;
/// How many connections operators may have at an address of their own, besides the late ones.
const MOST_OPERATORS: usize = 32;
/// How long clients may take to read that their answers end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// At which listener a connection came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListenerKind {
    /// That of the proxy.
    Clients,
    /// That of operators.
    Operators,
}

/// Answers clients, until the gateway stops.
pub(super) async fn accept(
    listener: TcpListener,
    current: Arc<Current>,
    mut stopped: watch::Receiver<()>,
    end: watch::Sender<bool>,
) {
    let places = Places::new(current.get().limits.connections);
    let mut connections = JoinSet::new();
    loop {
        let (place, socket) = tokio::select! {
            _ = stopped.changed() => break,
            Some(_) = connections.join_next() => continue,
            accepted = async { (places.take().await, listener.accept().await) } => accepted,
        };
        match socket {
            Ok((socket, _)) => {
                let Some(place) = place.map(Arc::new) else { break };
                connections.spawn(serve(
                    socket,
                    place,
                    Arc::clone(&current),
                    stopped.clone(),
                    ListenerKind::Clients,
                ));
            }
            // No file descriptors left, or the peer is gone already: waiting a little is all there is to do.
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    }
    drop(listener);
    let mut drained = pin!(async { while connections.join_next().await.is_some() {} });
    if timeout(current.get().timeouts.drain, &mut drained).await.is_err() {
        let _ = end.send(true);
        // Whatever is left then is dropped with the set.
        let _ = timeout(LAST_WORDS, drained).await;
    }
}

/// Answers operators, for as long as the gateway answers anybody: they also see it stop.
pub(super) async fn accept_operators(listener: TcpListener, current: Arc<Current>) {
    let places = Places::new(MOST_OPERATORS);
    let (_stop, stopped) = watch::channel(());
    let mut connections = JoinSet::new();
    loop {
        let (place, socket) = tokio::select! {
            Some(_) = connections.join_next() => continue,
            accepted = async { (places.take().await, listener.accept().await) } => accepted,
        };
        match socket {
            Ok((socket, _)) => {
                let Some(place) = place.map(Arc::new) else { return };
                connections.spawn(serve(
                    socket,
                    place,
                    Arc::clone(&current),
                    stopped.clone(),
                    ListenerKind::Operators,
                ));
            }
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Which protocol the client speaks.
enum Protocol {
    Http1,
    Http2,
}

async fn serve(
    socket: TcpStream,
    place: Arc<Place>,
    current: Arc<Current>,
    mut stopped: watch::Receiver<()>,
    kind: ListenerKind,
) {
    // Small pieces of an answer must not wait for the acknowledgement of earlier ones.
    let _ = socket.set_nodelay(true);
    // A connection may live long, so it holds no more of its settings than these.
    let (limits, mut timeouts, tls, admission) = {
        let shared = current.get();
        (shared.limits, shared.timeouts, shared.tls.clone(), Arc::clone(&shared.admission))
    };
    timeouts.head = place.patience(timeouts.head);
    let opened = tokio::select! {
        opened = timeout(timeouts.head, open(socket, tls)) => opened,
        _ = stopped.changed() => return,
        () = current.admits_others_than(&admission) => return,
    };
    let patience = timeouts.write;
    let by = (current, admission);
    match opened {
        Ok(Some(Opened::Clear(socket, protocol))) => {
            let socket = Socket::new(socket, patience);
            speak(socket, protocol, (limits, timeouts), (place, kind), by, stopped).await;
        }
        Ok(Some(Opened::Encrypted(stream, protocol))) => {
            let socket = Socket::new(*stream, patience);
            speak(socket, protocol, (limits, timeouts), (place, kind), by, stopped).await;
        }
        // Who does not say what it wants, or who it is, is left.
        Ok(None) | Err(_) => {}
    }
}

/// A connection whose protocol is known.
enum Opened {
    Clear(TcpStream, Protocol),
    Encrypted(Box<TlsStream<TcpStream>>, Protocol),
}

async fn open(socket: TcpStream, tls: Option<TlsAcceptor>) -> Option<Opened> {
    let Some(acceptor) = tls else {
        let protocol = protocol(&socket).await?;
        return Some(Opened::Clear(socket, protocol));
    };
    let stream = acceptor.accept(socket).await.ok()?;
    let protocol = if tls::is_http2(&stream) { Protocol::Http2 } else { Protocol::Http1 };
    Some(Opened::Encrypted(Box::new(stream), protocol))
}

async fn speak<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    socket: Socket<S>,
    protocol: Protocol,
    (limits, timeouts): (Limits, Timeouts),
    (place, kind): (Arc<Place>, ListenerKind),
    (current, admission): (Arc<Current>, Arc<Admission>),
    mut stopped: watch::Receiver<()>,
) {
    let io = TokioIo::new(socket);
    let admits_others = {
        let current = Arc::clone(&current);
        async move { current.admits_others_than(&admission).await }
    };
    let mut admits_others = pin!(admits_others);
    let (visitors, guests) = (Visitors::default(), Guests::default());
    let service = {
        let (visitors, guests, place) = (visitors.clone(), guests.clone(), Arc::clone(&place));
        service_fn(move |request| {
            // A connection may outlive settings; a request never changes them on its way.
            let (changes, visitor, guests) = (current.changes(), visitors.enter(), guests.clone());
            let place = Arc::clone(&place);
            async move {
                Ok::<_, Infallible>(handle::handle(changes, visitor, &guests, (&place, kind), request).await)
            }
        })
    };
    // A connection that breaks concerns nobody but its client, who knows.
    match protocol {
        Protocol::Http1 => {
            let mut builder = http1::Builder::new();
            builder
                .timer(TokioTimer::new())
                .header_read_timeout(timeouts.head)
                .max_headers(MOST_HEADERS)
                .max_buf_size(limits.head_bytes)
                .auto_date_header(false);
            let stop = stopped.clone();
            {
                let mut connection = pin!(builder.serve_connection(io, service).with_upgrades());
                tokio::select! {
                    biased;
                    () = admits_others.as_mut() => {
                        connection.as_mut().graceful_shutdown();
                        let _ = connection.await;
                    }
                    _ = connection.as_mut() => {}
                    _ = stopped.changed() => {
                        connection.as_mut().graceful_shutdown();
                        let _ = connection.await;
                    }
                }
            }
            // What became of the connection lives in its task: with its place, to its end.
            if let Some(guest) = guests.take() {
                guest.stay(stop).await;
            }
        }
        Protocol::Http2 => {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder
                .timer(TokioTimer::new())
                .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
                .max_concurrent_streams(MOST_STREAMS)
                .initial_stream_window_size(WINDOW)
                .initial_connection_window_size(WINDOW.saturating_mul(4))
                .keep_alive_interval(Some(Duration::from_secs(20)))
                .auto_date_header(false);
            let mut connection = pin!(builder.serve_connection(io, service));
            tokio::select! {
                biased;
                () = admits_others.as_mut() => {
                    connection.as_mut().graceful_shutdown();
                    // Whoever says nothing, not even that it has heard, is left once nothing is under way.
                    tokio::select! {
                        _ = connection.as_mut() => {}
                        () = visitors.stay_away(timeouts.head) => {}
                    }
                }
                _ = connection.as_mut() => {}
                _ = stopped.changed() => {
                    connection.as_mut().graceful_shutdown();
                    let _ = connection.await;
                }
                () = leaves(&visitors, &place, timeouts.head) => {
                    connection.as_mut().graceful_shutdown();
                    let _ = timeout(timeouts.head, connection).await;
                }
            }
        }
    }
}

/// Ends when nobody has been there for a while, or whoever was there has to make room.
async fn leaves(visitors: &Visitors, place: &Place, patience: Duration) {
    tokio::select! {
        () = visitors.stay_away(patience) => {}
        () = place.is_refused() => {}
    }
}

/// What the first bytes say; `None` if the client has gone. No method of HTTP/1.1 begins as HTTP/2 does.
async fn protocol(socket: &TcpStream) -> Option<Protocol> {
    const PREFACE: &[u8] = b"PRI";
    let mut first = [0; PREFACE.len()];
    loop {
        let count = socket.peek(&mut first).await.ok().filter(|count| *count > 0)?;
        let begun = first.get(..count).unwrap_or_default();
        if !PREFACE.starts_with(begun) {
            return Some(Protocol::Http1);
        }
        if count == PREFACE.len() {
            return Some(Protocol::Http2);
        }
        // One or two bytes that fit both.
        sleep(Duration::from_millis(5)).await;
    }
}
