//! The way out of a confined tree that has a network of its own: a proxy outside of it, which asks the operator's list of hosts.
//!
//! The tree's launcher hands over listeners on the loopback inside. What connects to one of them is taken here: at the proxy's port a
//! request says which host is wanted; at any other it is the port of the same number on this machine's loopback.
//!
//! The laws: *names are resolved here, and what is connected to is the address that was judged*; *what is not listed is refused,
//! with a text that says so*. Which host a server behind a permitted address then serves is not seen.

mod hosts;
mod proxy;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use backstop::config::HostRule;
use backstop::confine::{Outlet, take_listeners};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};

use self::hosts::Hosts;
use crate::error::Error;
use crate::output::one_line;

/// The port inside at which the proxy is. Systems give it to nobody by themselves, nor is it any service's.
const PROXY: u16 = 61_128;
/// The most connections that are served at once; more wait.
const MOST_CONNECTIONS: usize = 256;
/// The most trees whose listeners are held. The oldest ones lose their way out.
const MOST_TREES: usize = 256;
/// The most refused hosts that are kept, and the most that are told.
const MOST_REFUSED: usize = 200;
const MOST_TOLD: usize = 8;
/// The longest name that is told, in characters.
const MOST_CHARS: usize = 100;

/// What is served, and what was refused.
#[derive(Debug)]
struct Desk {
    hosts: Hosts,
    free: Arc<Semaphore>,
    refused: Mutex<BTreeMap<String, u64>>,
}

impl Desk {
    fn refuse(&self, host: &str) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let name = one_line(host, MOST_CHARS);
        if refused.len() < MOST_REFUSED || refused.contains_key(&name) {
            let times = refused.entry(name).or_default();
            *times = times.saturating_add(1);
        }
    }
}

/// The way out, for as long as it is not dropped.
#[derive(Debug)]
pub(crate) struct Gate {
    outlet: Outlet,
    desk: Arc<Desk>,
    serving: AbortHandle,
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Gate {
    /// Takes listeners at `socket`, and serves them. `ports` of this machine's loopback are there inside, besides those that are
    /// listed.
    pub(crate) fn open(socket: PathBuf, rules: Vec<HostRule>, ports: &[u16]) -> Result<Self, Error> {
        let listener = UnixListener::bind(&socket).map_err(|source| Error::File {
            path: socket.clone(),
            what: "listened at",
            source,
        })?;
        let mut ports = ports.to_vec();
        ports.extend(rules.iter().filter_map(HostRule::port_here));
        ports.sort_unstable();
        ports.dedup();
        if ports.contains(&PROXY) {
            return Err(Error::Failed(format!(
                "port {PROXY} of this machine can't be there inside: it is the proxy's"
            )));
        }
        let hosts = Hosts { rules, ports: ports.clone() };
        let free = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        let desk = Arc::new(Desk { hosts, free, refused: Mutex::default() });
        let serving = tokio::spawn(take_trees(listener, Arc::clone(&desk))).abort_handle();
        Ok(Self { outlet: Outlet { socket, proxy: PROXY, ports }, desk, serving })
    }

    /// What a launcher is told.
    pub(crate) fn outlet(&self) -> &Outlet {
        &self.outlet
    }

    /// Which hosts were refused, for people. `None` where none were.
    pub(crate) fn refused(&self) -> Option<String> {
        let refused = self.desk.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        for (name, times) in refused.iter().take(MOST_TOLD) {
            let between = if text.is_empty() { "" } else { ", " };
            let _ = write!(text, "{between}{name} ({times})");
        }
        if let more @ 1.. = refused.len().saturating_sub(MOST_TOLD) {
            let _ = write!(text, " and {more} more");
        }
        (!text.is_empty()).then_some(text)
    }
}

async fn take_trees(listener: UnixListener, desk: Arc<Desk>) {
    let mut trees = VecDeque::new();
    // One that can't be accepted has gone already.
    while let Ok((launcher, _)) = listener.accept().await {
        let taken = tokio::task::spawn_blocking(move || {
            let launcher: BlockingStream = launcher.into_std()?;
            launcher.set_nonblocking(false)?;
            take_listeners(&launcher)
        });
        let Ok(Ok(taken)) = taken.await else { continue };
        let mut tree = JoinSet::new();
        for (port, listener) in taken {
            let is_known = port == PROXY || desk.hosts.ports.contains(&port);
            let ready = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener));
            if let (true, Ok(listener)) = (is_known, ready) {
                tree.spawn(serve(listener, port, Arc::clone(&desk)));
            }
        }
        trees.push_back(tree);
        if trees.len() > MOST_TREES {
            trees.pop_front();
        }
    }
}

/// Serves what connects to a port inside.
async fn serve(listener: TcpListener, port: u16, desk: Arc<Desk>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok(turn) = Arc::clone(&desk.free).acquire_owned().await else { return };
        let Ok((connection, _)) = listener.accept().await else { return };
        let desk = Arc::clone(&desk);
        connections.spawn(async move {
            let _turn = turn;
            if port == PROXY {
                proxy::serve(connection, &desk).await;
            } else {
                pass(connection, port).await;
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Joins a connection with the port of that number on this machine.
async fn pass(mut inside: TcpStream, port: u16) {
    if let Ok(mut outside) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
        // A connection that breaks is closed on both sides.
        let _ = tokio::io::copy_bidirectional(&mut inside, &mut outside).await;
    }
}
