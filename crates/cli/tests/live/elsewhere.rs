//! A place where no request should come: it counts them, and refuses each.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The longest that one who came is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// Whatever comes on a connection after this is not read.
const MOST_BYTES: usize = 64 * 1024;
const REFUSED: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// A server on a port of this machine, for a model's address or for a proxy, until it is dropped.
pub(crate) struct Elsewhere {
    address: SocketAddr,
    came: Arc<Mutex<Vec<String>>>,
    is_over: Arc<AtomicBool>,
}

impl Elsewhere {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (came, is_over) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<AtomicBool>::default());
        let (told, ends) = (Arc::clone(&came), Arc::clone(&is_over));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if ends.load(Ordering::Relaxed) {
                    break;
                }
                let told = Arc::clone(&told);
                std::thread::spawn(move || refuse(stream, &told));
            }
        });
        Self { address, came, is_over }
    }

    pub(crate) fn address(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The first line of each request that came, in any order. One of no HTTP counts as well.
    pub(crate) fn came(&self) -> Vec<String> {
        self.came.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // So that it looks. Nobody is there where it ended by itself.
        let _ = TcpStream::connect(self.address);
    }
}

fn refuse(mut stream: TcpStream, told: &Mutex<Vec<String>>) {
    let tell = |line: String| told.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
    while head.len() < MOST_BYTES && !head.windows(2).any(|two| two == b"\r\n") {
        match stream.read(&mut buffer) {
            Ok(length @ 1..) => head.extend_from_slice(buffer.get(..length).unwrap()),
            // Who says nothing (a check whether somebody listens) has sent no request.
            _ if head.is_empty() => return,
            _ => break,
        }
    }
    tell(String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned());
    let _ = stream.write_all(REFUSED);
}
