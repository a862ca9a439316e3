//! A network between the store and its server, which loses what it is told to lose.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use backstop_store::PostgresOptions;

/// Passes on what comes to a port of loopback, to a server's socket and back.
pub(crate) struct Wire {
    port: u16,
    faults: Arc<Faults>,
}

#[derive(Default)]
struct Faults {
    /// The next commit is passed on, and the connection is cut once the server has answered it.
    loses: AtomicBool,
    has_lost: AtomicBool,
    closed: AtomicBool,
}

impl Wire {
    pub(crate) fn to(socket: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, faults) = (listener.local_addr().unwrap().port(), Arc::new(Faults::default()));
        let known = Arc::clone(&faults);
        thread::spawn(move || {
            for client in listener.incoming() {
                if known.closed.load(Ordering::SeqCst) {
                    continue;
                }
                let (client, server) = (client.unwrap(), UnixStream::connect(&socket).unwrap());
                pass(client, server, &known);
            }
        });
        Self { port, faults }
    }

    pub(crate) fn options(&self) -> PostgresOptions {
        let address = format!("postgres://backstop@127.0.0.1:{}/postgres", self.port);
        PostgresOptions::from_url(&address).unwrap().connections(1)
    }

    pub(crate) fn lose_the_answer_to_a_commit(&self) {
        self.faults.loses.store(true, Ordering::SeqCst);
    }

    pub(crate) fn has_lost(&self) -> bool {
        self.faults.has_lost.load(Ordering::SeqCst)
    }

    /// New connections are closed.
    pub(crate) fn let_nobody_in(&self) {
        self.faults.closed.store(true, Ordering::SeqCst);
    }
}

fn pass(client: TcpStream, server: UnixStream, faults: &Arc<Faults>) {
    let losing = Arc::new(AtomicBool::new(false));
    let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let (known, is_losing) = (Arc::clone(faults), Arc::clone(&losing));
    thread::spawn(move || {
        let mut bytes = [0; 65_536];
        while let Ok(count @ 1..) = from_client.read(&mut bytes) {
            let is_commit = bytes[..count].windows(7).any(|word| word == b"COMMIT\0");
            if is_commit && known.loses.swap(false, Ordering::SeqCst) {
                is_losing.store(true, Ordering::SeqCst);
            }
            if to_server.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to_server.shutdown(Shutdown::Both);
    });
    let (mut from_server, mut to_client, known) = (server, client, Arc::clone(faults));
    thread::spawn(move || {
        let mut bytes = [0; 65_536];
        while let Ok(count @ 1..) = from_server.read(&mut bytes) {
            if losing.load(Ordering::SeqCst) {
                known.has_lost.store(true, Ordering::SeqCst);
                break;
            }
            if to_client.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to_client.shutdown(Shutdown::Both);
        let _ = from_server.shutdown(Shutdown::Both);
    });
}
