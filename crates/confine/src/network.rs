//! A network of the tree's own, in which there is nothing but this machine's loopback, and that is not the one of the rest.
//!
//! What leads out is a set of listeners on that loopback. They are made inside and handed to a process outside, which takes
//! what connects to them and decides where it goes: a socket stays in the network in which it was made, whoever holds it. So no
//! process has to run inside, and none that the tree could end or imitate decides anything.

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketType, recv, recvmsg, send, sendmsg, socket,
};

/// How long either side waits for the other while listeners change hands.
const HAND_OVER: Duration = Duration::from_secs(5);
/// The most listeners that are taken from one tree.
const MOST_LISTENERS: usize = 64;
/// What says that listeners were taken.
const TAKEN: u8 = b'+';

/// Switches the loopback of a new network on.
///
/// # Errors
///
/// What the system says, where it can't be.
pub(crate) fn raise_loopback() -> io::Result<()> {
    let netlink = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    let question = link_up();
    if send(&netlink, &question, SendFlags::empty())? != question.len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    let mut answer = [0; 256];
    let (_, length) = recv(&netlink, answer.as_mut_slice(), RecvFlags::empty())?;
    match answer.get(..length).and_then(errno_in) {
        Some(0) => Ok(()),
        Some(errno) => Err(io::Error::from_raw_os_error(errno.saturating_neg())),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// A message of netlink(7), rtnetlink(7): the first link, which is the loopback, is to be up.
fn link_up() -> Vec<u8> {
    const NEW_LINK: u16 = 16;
    const REQUEST_AND_ANSWER: u16 = 1 | 4;
    const LENGTH: u32 = 32;
    const LOOPBACK: i32 = 1;
    const UP: u32 = 1;
    [
        LENGTH.to_ne_bytes().as_slice(),
        &NEW_LINK.to_ne_bytes(),
        &REQUEST_AND_ANSWER.to_ne_bytes(),
        // Number and sender, which nobody reads.
        &[0; 8],
        // Family, padding and kind.
        &[0; 4],
        &LOOPBACK.to_ne_bytes(),
        // The flags, and which of them count.
        &UP.to_ne_bytes(),
        &UP.to_ne_bytes(),
    ]
    .concat()
}

/// The number of an answer that says what became of a message: 0, or an error below it.
fn errno_in(answer: &[u8]) -> Option<i32> {
    const ERROR: u16 = 2;
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let number = i32::from_ne_bytes(answer.get(16..20)?.try_into().ok()?);
    (kind == ERROR).then_some(number)
}

/// Listens at these ports of the loopback, and hands that over to who listens at `outlet`.
///
/// # Errors
///
/// Where a port can't be listened at, or the other side does not take it.
pub(crate) fn hand_over(outlet: &UnixStream, ports: &[u16]) -> io::Result<()> {
    let mut outlet = outlet;
    for port in ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, *port))?;
        let descriptors = [listener.as_fd()];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut attached = SendAncillaryBuffer::new(&mut space);
        if !attached.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let name = port.to_be_bytes();
        if sendmsg(outlet, &[IoSlice::new(&name)], &mut attached, SendFlags::NOSIGNAL)? != name.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
    }
    outlet.shutdown(std::net::Shutdown::Write)?;
    let mut answer = [0];
    outlet.read_exact(&mut answer)?;
    if answer == [TAKEN] { Ok(()) } else { Err(io::ErrorKind::ConnectionRefused.into()) }
}

/// The way to who takes the listeners. It is sought before the network is left.
pub(crate) fn find_outlet(path: &Path) -> io::Result<UnixStream> {
    let outlet = UnixStream::connect(path)?;
    outlet.set_read_timeout(Some(HAND_OVER))?;
    outlet.set_write_timeout(Some(HAND_OVER))?;
    Ok(outlet)
}

/// Takes the listeners that a launcher hands over, each with the port that it says. This waits for the launcher, for seconds
/// at most.
///
/// # Errors
///
/// Where it says nonsense, or nothing in time.
pub fn take_listeners(launcher: &UnixStream) -> io::Result<Vec<(u16, TcpListener)>> {
    launcher.set_read_timeout(Some(HAND_OVER))?;
    launcher.set_write_timeout(Some(HAND_OVER))?;
    let mut taken = Vec::new();
    while let Some(one) = take_one(launcher)? {
        if taken.len() == MOST_LISTENERS {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "too many listeners"));
        }
        taken.push(one);
    }
    let mut launcher = launcher;
    launcher.write_all(&[TAKEN])?;
    Ok(taken)
}

fn take_one(launcher: &UnixStream) -> io::Result<Option<(u16, TcpListener)>> {
    let nonsense = || io::Error::new(io::ErrorKind::InvalidData, "a port and its listener were expected");
    let mut name = [0; 2];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut attached = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(launcher, &mut [IoSliceMut::new(&mut name)], &mut attached, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let descriptors: Vec<OwnedFd> = attached
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    let [listener] = <[OwnedFd; 1]>::try_from(descriptors).map_err(|_| nonsense())?;
    if received.bytes != name.len() {
        return Err(nonsense());
    }
    Ok(Some((u16::from_be_bytes(name), TcpListener::from(listener))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_change_hands_with_their_ports() {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let (inside, outside) = UnixStream::pair().unwrap();
        std::thread::scope(|threads| {
            let given = threads.spawn(|| hand_over(&inside, &[free]));
            let taken = take_listeners(&outside).unwrap();
            given.join().unwrap().unwrap();
            let [(port, listener)] = taken.as_slice() else { panic!("{taken:?}") };
            assert_eq!((*port, listener.local_addr().unwrap().port()), (free, free));
        });
    }

    #[test]
    fn a_launcher_that_sends_no_listener_is_not_believed() {
        for nonsense in [&b"\x01\x02"[..], b"\x01"] {
            let (mut inside, outside) = UnixStream::pair().unwrap();
            inside.write_all(nonsense).unwrap();
            inside.shutdown(std::net::Shutdown::Write).unwrap();
            assert!(take_listeners(&outside).is_err());
        }
    }

    #[test]
    fn an_answer_of_the_kernel_says_what_became_of_a_message() {
        let mut answer = vec![0; 36];
        answer[4..6].copy_from_slice(&2_u16.to_ne_bytes());
        answer[16..20].copy_from_slice(&(-1_i32).to_ne_bytes());
        assert_eq!(errno_in(&answer), Some(-1));
        assert_eq!(errno_in(&answer[..10]), None);
        answer[4] = 3;
        assert_eq!(errno_in(&answer), None);
        assert_eq!(link_up().len(), 32);
    }
}
