//! The way out of a confined tree that has a network of its own: a proxy outside of it, which asks the operator's list of hosts.
//!
//! The tree's launcher hands over listeners on the loopback inside. What connects to one of them is taken here: at the proxy's port a
//! request says which host is wanted; at any other it is the port of the same number on this machine's loopback.
//!
//! The laws: *names are resolved here, and what is connected to is the address that was judged*; *what is not listed is refused,
//! with a text that says so*; *only a launcher that this process started hands over listeners, and nothing takes them away from its
//! tree*. Which host a server behind a permitted address then serves is not seen.

mod hosts;
mod proxy;

use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop::config::HostRule;
use backstop::confine::{Handed, Outlet, take_listeners};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::{Notify, Semaphore};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use self::hosts::Hosts;
use crate::error::Error;
use crate::output::one_line;

/// The port inside at which the proxy is. Systems give it to nobody by themselves, nor is it any service's.
const PROXY: u16 = 61_128;
/// The most connections that are served at once, and the most to the ports that a program can't work without; more wait.
const MOST_CONNECTIONS: usize = 256;
/// The most trees that have a way out at once. More are not started.
const MOST_TREES: usize = 256;
/// How long it is waited after a connection that could not be taken: mostly there are too many files open.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a connection may be silent, on both sides.
const MOST_IDLE: Duration = Duration::from_secs(60 * 60);
/// How much is passed on at once, in bytes.
const PIECE: usize = 16 * 1024;
/// The most refused hosts that are kept, and the most that are told.
const MOST_REFUSED: usize = 200;
const MOST_TOLD: usize = 8;
/// The longest name that is told, in characters.
const MOST_CHARS: usize = 100;

/// What is served, and what was refused.
#[derive(Debug)]
struct Desk {
    hosts: Hosts,
    /// Ports that are there without being listed, so that the program can work.
    needed: Vec<u16>,
    /// Turns of connections to those, which nothing else can use up.
    free_for_needed: Arc<Semaphore>,
    free: Arc<Semaphore>,
    refused: Mutex<Refused>,
}

/// Which hosts were refused.
#[derive(Debug, Default)]
struct Refused {
    /// Each with how often, in the order in which they were first asked for.
    hosts: Vec<(String, u64)>,
    /// How often any was, those that are not kept as well.
    times: u64,
}

impl Refused {
    fn add(&mut self, name: String) {
        self.times = self.times.saturating_add(1);
        if let Some((_, times)) = self.hosts.iter_mut().find(|(known, _)| *known == name) {
            *times = times.saturating_add(1);
        } else if self.hosts.len() < MOST_REFUSED {
            self.hosts.push((name, 1));
        }
    }

    fn told(&self) -> Option<String> {
        let mut text = String::new();
        let told = self.hosts.iter().take(MOST_TOLD);
        for (name, times) in told.clone() {
            let between = if text.is_empty() { "" } else { ", " };
            let _ = write!(text, "{between}{name} ({times})");
        }
        if let rest @ 1.. = self.times.saturating_sub(told.map(|(_, times)| times).sum()) {
            let _ = write!(text, " and others ({rest})");
        }
        (!text.is_empty()).then_some(text)
    }
}

impl Desk {
    fn turns(&self, port: u16) -> &Arc<Semaphore> {
        if self.needed.contains(&port) { &self.free_for_needed } else { &self.free }
    }

    fn refuse(&self, host: &str) {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).add(one_line(host, MOST_CHARS));
    }
}

/// For how many trees there is a way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trees {
    /// The first; after it nobody is heard.
    One,
    /// As they come and go.
    Many,
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
    pub(crate) fn open(
        socket: PathBuf,
        rules: Vec<HostRule>,
        ports: &[u16],
        trees: Trees,
    ) -> Result<Self, Error> {
        let listener = UnixListener::bind(&socket).map_err(|source| Error::File {
            path: socket.clone(),
            what: "listened at",
            source,
        })?;
        let needed = ports.to_vec();
        let mut ports = needed.clone();
        ports.extend(rules.iter().filter_map(HostRule::port_here));
        ports.sort_unstable();
        ports.dedup();
        if ports.contains(&PROXY) {
            return Err(Error::Failed(format!(
                "port {PROXY} of this machine can't be there inside: it is the proxy's"
            )));
        }
        let hosts = Hosts { rules, ports: ports.clone() };
        let [free, free_for_needed] = [(); 2].map(|()| Arc::new(Semaphore::new(MOST_CONNECTIONS)));
        let desk = Arc::new(Desk { hosts, needed, free_for_needed, free, refused: Mutex::default() });
        let serving =
            tokio::spawn(take_trees(listener, socket.clone(), trees, Arc::clone(&desk))).abort_handle();
        Ok(Self { outlet: Outlet { socket, proxy: PROXY, ports }, desk, serving })
    }

    /// What a launcher is told.
    pub(crate) fn outlet(&self) -> &Outlet {
        &self.outlet
    }

    /// Which hosts were refused and how often, for people. `None` where none were.
    pub(crate) fn refused(&self) -> Option<String> {
        self.desk.refused.lock().unwrap_or_else(PoisonError::into_inner).told()
    }
}

/// The next who comes. Nothing that fails here ends the way out of those that have one.
async fn next(listener: &UnixListener) -> UnixStream {
    loop {
        match listener.accept().await {
            Ok((launcher, _)) => return launcher,
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn take_trees(listener: UnixListener, socket: PathBuf, trees: Trees, desk: Arc<Desk>) {
    if trees == Trees::One {
        let tree = loop {
            if let Some(tree) = take(next(&listener).await).await {
                break tree;
            }
        };
        drop(listener);
        // One that is left takes nobody's word any longer.
        let _ = std::fs::remove_file(socket);
        return serve_tree(tree, &desk).await;
    }
    let mut held = JoinSet::new();
    loop {
        let launcher = next(&listener).await;
        while held.try_join_next().is_some() {}
        // Rather than one that has a way out, the new one gets none, and is not started.
        if held.len() < MOST_TREES {
            let desk = Arc::clone(&desk);
            held.spawn(async move {
                if let Some(tree) = take(launcher).await {
                    serve_tree(tree, &desk).await;
                }
            });
        }
    }
}

/// What a launcher hands over. Only one that this process started is one.
async fn take(launcher: UnixStream) -> Option<Handed> {
    let started = launcher.peer_cred().ok()?.pid()?;
    let taken = tokio::task::spawn_blocking(move || {
        if !is_child(started) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let launcher: BlockingStream = launcher.into_std()?;
        launcher.set_nonblocking(false)?;
        take_listeners(&launcher)
    });
    taken.await.ok()?.ok()
}

/// Whether this process is the parent of that one, as proc_pid_stat(5) says it: behind the name in brackets stand its state and
/// its parent.
fn is_child(process: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
    parent.and_then(|parent| parent.parse().ok()) == Some(std::process::id())
}

/// Serves the ports of one tree until its program ends.
async fn serve_tree(tree: Handed, desk: &Arc<Desk>) {
    let mut serving = JoinSet::new();
    for (port, listener) in tree.listeners {
        let is_known = port == PROXY || desk.hosts.ports.contains(&port);
        if let (true, Ok(listener)) = (is_known, watched(listener)) {
            serving.spawn(serve(listener, port, Arc::clone(desk)));
        }
    }
    match tree.ended.map(watched) {
        Some(Ok(ended)) => {
            let _ = ended.readable().await;
        }
        // It can't be seen when it ends.
        _ => while serving.join_next().await.is_some() {},
    }
}

/// Has the runtime say when something can be read there.
#[expect(
    deprecated,
    reason = "its successor is `unsafe` because of types that do not own their descriptor, as those here do"
)]
fn watched<T: AsFd + AsRawFd>(descriptor: T) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(descriptor, Interest::READABLE)
}

/// Serves what connects to a port inside. A listener is kept whatever happens: without it the port would be anybody's.
async fn serve(listener: AsyncFd<TcpListener>, port: u16, desk: Arc<Desk>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok(connection) = accept(&listener).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        let Ok(turn) = Arc::clone(desk.turns(port)).acquire_owned().await else { continue };
        let desk = Arc::clone(&desk);
        connections.spawn(async move {
            let _turn = turn;
            if port == PROXY {
                proxy::serve(connection, &desk).await;
            } else {
                pass(connection, port).await;
            }
        });
    }
}

async fn accept(listener: &AsyncFd<TcpListener>) -> io::Result<TcpStream> {
    let next = |listener: &TcpListener| {
        // Whoever else holds it can have it wait, and so could have this process wait for a connection that has gone.
        listener.set_nonblocking(true)?;
        listener.accept()
    };
    let (connection, _) = listener.async_io(Interest::READABLE, next).await?;
    connection.set_nonblocking(true)?;
    TcpStream::from_std(connection)
}

/// Joins a connection with the port of that number on this machine.
async fn pass(inside: TcpStream, port: u16) {
    if let Ok(outside) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
        join(inside, outside, MOST_IDLE).await;
    }
}

/// Passes on what either side says, until both have ended, one breaks, or neither says anything for that long.
async fn join(mut inside: TcpStream, mut outside: TcpStream, most_idle: Duration) {
    let moved = Notify::new();
    let (from_inside, to_inside) = inside.split();
    let (from_outside, to_outside) = outside.split();
    let both = async {
        tokio::try_join!(pass_on(from_inside, to_outside, &moved), pass_on(from_outside, to_inside, &moved))
    };
    let idle = async { while timeout(most_idle, moved.notified()).await.is_ok() {} };
    // A connection that breaks is closed on both sides.
    tokio::select! { _ = both => {} () = idle => {} }
}

async fn pass_on(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, moved: &Notify) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let length = from.read(&mut piece).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(piece.get(..length).unwrap_or_default()).await?;
        moved.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::process::Command;

    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (one, listener.accept().await.unwrap().0)
    }

    /// With so many turns for ports that are not needed.
    fn desk(needed: Vec<u16>, turns: usize) -> Arc<Desk> {
        let [free, free_for_needed] = [turns, 1].map(|turns| Arc::new(Semaphore::new(turns)));
        let hosts = Hosts { rules: Vec::new(), ports: needed.clone() };
        Arc::new(Desk { hosts, needed, free_for_needed, free, refused: Mutex::default() })
    }

    fn listener() -> (u16, TcpListener) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        (listener.local_addr().unwrap().port(), listener)
    }

    #[tokio::test]
    async fn a_connection_that_is_silent_on_both_sides_ends() {
        let (mut program, inside) = pair().await;
        let (outside, mut host) = pair().await;
        let joined = tokio::spawn(join(inside, outside, Duration::from_millis(300)));
        let mut word = [0; 3];
        program.write_all(b"ask").await.unwrap();
        host.read_exact(&mut word).await.unwrap();
        host.write_all(&word).await.unwrap();
        program.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"ask");
        joined.await.unwrap();
        assert_eq!(program.read(&mut word).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn needed_ports_have_turns_that_others_do_not_use_up() {
        let desk = desk(vec![4000], 0);
        assert!(desk.turns(4000).try_acquire().is_ok());
        assert!(desk.turns(PROXY).try_acquire().is_err() && desk.turns(5432).try_acquire().is_err());
    }

    #[tokio::test]
    async fn a_listener_holds_no_turn_before_somebody_connects() {
        let desk = desk(Vec::new(), 1);
        let mut serving = JoinSet::new();
        let listeners: Vec<(u16, TcpListener)> = (0..3).map(|_| listener()).collect();
        for (_, listener) in &listeners {
            let listener = watched(listener.try_clone().unwrap()).unwrap();
            serving.spawn(serve(listener, PROXY, Arc::clone(&desk)));
        }
        for (port, _) in listeners {
            let mut answer = Vec::new();
            let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
            connection.write_all(b"nonsense\r\n\r\n").await.unwrap();
            connection.read_to_end(&mut answer).await.unwrap();
            assert!(answer.starts_with(b"HTTP/1.1 400"), "{answer:?}");
        }
    }

    #[test]
    fn who_holds_a_copy_of_a_listener_stops_nobody() {
        let (port, listener) = listener();
        let copy = listener.try_clone().unwrap();
        // A process of one thread, which a call that waits would stop.
        std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { serve(watched(listener).unwrap(), PROXY, desk(Vec::new(), 9)).await });
        });
        for _ in 0..3 {
            copy.set_nonblocking(false).unwrap();
            let mut connection = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            connection.write_all(b"nonsense\r\n\r\n").unwrap();
            let mut answer = String::new();
            connection.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 400"), "{answer:?}");
        }
    }

    #[tokio::test]
    async fn the_ports_of_a_tree_are_given_up_when_its_program_ends() {
        let (port, listener) = listener();
        let mut program = Command::new("sleep").arg("60").spawn().unwrap();
        let ended = pidfd_open(Pid::from_child(&program), PidfdFlags::empty()).unwrap();
        let tree = Handed { listeners: vec![(PROXY, listener)], ended: Some(ended) };
        let desk = desk(Vec::new(), 1);
        let serving = tokio::spawn(async move { serve_tree(tree, &desk).await });
        let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        connection.write_all(b"nonsense\r\n\r\n").await.unwrap();
        connection.read_to_end(&mut Vec::new()).await.unwrap();
        assert!(!serving.is_finished());
        program.kill().unwrap();
        program.wait().unwrap();
        serving.await.unwrap();
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err());
    }

    #[tokio::test]
    async fn listeners_of_a_process_that_was_not_started_here_are_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("outlet.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        // As a launcher does that has no ports to hand over.
        let mut stranger = UnixStream::connect(&socket).await.unwrap();
        stranger.shutdown().await.unwrap();
        assert!(take(next(&listener).await).await.is_none());
        assert_eq!(stranger.read(&mut [0]).await.unwrap(), 0, "it is not told that they were");
    }

    #[test]
    fn a_child_is_told_from_others() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let number = i32::try_from(child.id()).unwrap();
        assert!(is_child(number));
        assert!(!is_child(1) && !is_child(i32::try_from(std::process::id()).unwrap()));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn refused_hosts_are_told_as_they_came_and_counted_to_the_last() {
        let mut refused = Refused::default();
        assert_eq!(refused.told(), None);
        for name in ["z:443", "a:443", "z:443"] {
            refused.add(name.to_owned());
        }
        assert_eq!(refused.told().as_deref(), Some("z:443 (2), a:443 (1)"));
        for number in 0..1000 {
            refused.add(format!("{number}:443"));
        }
        let told = refused.told().unwrap();
        assert!(told.ends_with("3:443 (1), 4:443 (1), 5:443 (1) and others (994)"), "{told}");
    }
}
