//! Systems without networks that differ from process to process.

use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;

pub(crate) fn hand_over(_: &UnixStream, _: &[u16]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn find_outlet(_: &Path) -> io::Result<UnixStream> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Takes the listeners that a launcher hands over.
///
/// # Errors
///
/// Always, here.
pub fn take_listeners(_: &UnixStream) -> io::Result<Vec<(u16, TcpListener)>> {
    Err(io::ErrorKind::Unsupported.into())
}
