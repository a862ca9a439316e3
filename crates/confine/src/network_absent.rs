//! Systems without networks that differ from process to process.

use std::io;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::launch::Handed;

pub(crate) fn hand_over(_: &UnixStream, _: &[u16]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn find_outlet(_: &Path) -> io::Result<UnixStream> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The addresses that this machine has, and the networks in which they are: not known.
///
/// # Errors
///
/// Always, here.
pub fn own_networks() -> io::Result<Vec<(IpAddr, u8)>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Takes the listeners that a launcher hands over.
///
/// # Errors
///
/// Always, here.
pub fn take_listeners(_: &UnixStream) -> io::Result<Handed> {
    Err(io::ErrorKind::Unsupported.into())
}
