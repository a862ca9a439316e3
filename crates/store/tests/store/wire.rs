//! A network between the store and its server, which loses what it is told to lose.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use backstop_store::{PostgresOptions, Timestamp};

/// Passes on what comes to a port of loopback, to a server's socket and back.
pub(crate) struct Wire {
    port: u16,
    network: Arc<Network>,
}

struct Network {
    /// Where new connections lead.
    to: Mutex<PathBuf>,
    open: Mutex<Vec<(TcpStream, UnixStream)>>,
    /// The next commit is passed on, and the connection is cut once the server has answered it.
    loses: AtomicBool,
    has_lost: AtomicBool,
    closed: AtomicBool,
    /// Nothing is passed on, and nobody is told.
    silent: AtomicBool,
    /// That is so from the moment at which a transaction has its lock.
    falls_silent: AtomicBool,
    /// By how many milliseconds the server's clock is shown wrong.
    shift: AtomicI64,
}

impl Wire {
    pub(crate) fn to(socket: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let network = Arc::new(Network {
            to: Mutex::new(socket),
            open: Mutex::default(),
            loses: AtomicBool::new(false),
            has_lost: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            silent: AtomicBool::new(false),
            falls_silent: AtomicBool::new(false),
            shift: AtomicI64::new(0),
        });
        let (port, known) = (listener.local_addr().unwrap().port(), Arc::clone(&network));
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let server = UnixStream::connect(&*known.to.lock().unwrap());
                if let (Ok(server), false) = (server, known.closed.load(Ordering::SeqCst)) {
                    pass(client, server, &known);
                }
            }
        });
        Self { port, network }
    }

    pub(crate) fn options(&self) -> PostgresOptions {
        let address = format!("postgres://backstop@127.0.0.1:{}/postgres?sslmode=disable", self.port);
        PostgresOptions::from_url(&address).unwrap().connections(1)
    }

    pub(crate) fn lose_the_answer_to_a_commit(&self) {
        self.network.loses.store(true, Ordering::SeqCst);
    }

    pub(crate) fn has_lost(&self) -> bool {
        self.network.has_lost.load(Ordering::SeqCst)
    }

    /// New connections are closed.
    pub(crate) fn let_nobody_in(&self) {
        self.network.closed.store(true, Ordering::SeqCst);
    }

    /// Leads new connections to another server. Those that there are go on.
    pub(crate) fn lead_to(&self, socket: PathBuf) {
        *self.network.to.lock().unwrap() = socket;
    }

    /// Cuts all connections, as the network does when the address moves to another machine.
    pub(crate) fn cut(&self) {
        for (client, server) in self.network.open.lock().unwrap().drain(..) {
            let _ = client.shutdown(Shutdown::Both);
            let _ = server.shutdown(Shutdown::Both);
        }
    }

    /// Keeps what is sent and tells nobody, once the next transaction has begun.
    pub(crate) fn fall_silent_in_a_transaction(&self) {
        self.network.falls_silent.store(true, Ordering::SeqCst);
    }

    /// Delivers what it kept.
    pub(crate) fn speak_again(&self) {
        self.network.silent.store(false, Ordering::SeqCst);
    }

    /// Shows the server's clock as it would be if it were set to another time.
    pub(crate) fn set_clock(&self, ahead_by: i64) {
        self.network.shift.store(ahead_by, Ordering::SeqCst);
    }
}

fn pass(client: TcpStream, server: UnixStream, network: &Arc<Network>) {
    let losing = Arc::new(AtomicBool::new(false));
    network.open.lock().unwrap().push((client.try_clone().unwrap(), server.try_clone().unwrap()));
    let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let (known, is_losing) = (Arc::clone(network), Arc::clone(&losing));
    thread::spawn(move || {
        let mut bytes = [0; 65_536];
        while let Ok(count @ 1..) = from_client.read(&mut bytes) {
            known.hold();
            let is_commit = bytes[..count].windows(7).any(|word| word == b"COMMIT\0");
            if is_commit && known.loses.swap(false, Ordering::SeqCst) {
                is_losing.store(true, Ordering::SeqCst);
            }
            if to_server.write_all(&bytes[..count]).is_err() {
                break;
            }
            let has_begun = bytes[..count].windows(21).any(|word| word == b"pg_advisory_xact_lock");
            if has_begun && known.falls_silent.swap(false, Ordering::SeqCst) {
                known.silent.store(true, Ordering::SeqCst);
            }
        }
        known.hold();
        let _ = to_server.shutdown(Shutdown::Both);
    });
    let (mut from_server, mut to_client, known) = (server, client, Arc::clone(network));
    thread::spawn(move || {
        let mut bytes = [0; 65_536];
        while let Ok(count @ 1..) = from_server.read(&mut bytes) {
            known.hold();
            if losing.load(Ordering::SeqCst) {
                known.has_lost.store(true, Ordering::SeqCst);
                break;
            }
            set_clocks(&mut bytes[..count], known.shift.load(Ordering::SeqCst));
            if to_client.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        known.hold();
        let _ = to_client.shutdown(Shutdown::Both);
        let _ = from_server.shutdown(Shutdown::Both);
    });
}

impl Network {
    fn hold(&self) {
        while self.silent.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Moves what is the time of now, in milliseconds, by so many.
fn set_clocks(bytes: &mut [u8], shift: i64) {
    const DIGITS: usize = 13;
    let now = Timestamp::now().as_millis();
    for place in 0..(bytes.len() + 1).saturating_sub(DIGITS) {
        let shown =
            std::str::from_utf8(&bytes[place..place + DIGITS]).ok().and_then(|text| text.parse::<i64>().ok());
        if let Some(shown) = shown.filter(|shown| shown.abs_diff(now) < 60_000 && shift != 0) {
            bytes[place..place + DIGITS].copy_from_slice((shown + shift).to_string().as_bytes());
            return;
        }
    }
}
