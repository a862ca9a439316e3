//! A network of the tree's own, in which there is nothing but this machine's loopback, and that is not the one of the rest.
//!
//! What leads out is a set of listeners on that loopback. They are made inside and handed to a process outside, which takes
//! what connects to them and decides where it goes: a socket stays in the network in which it was made, whoever holds it. So no
//! process has to run inside, and none that the tree could end or imitate decides anything.

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketType, recv, recvmsg, send, sendmsg, socket, sockopt,
};
use rustix::process::{PidfdFlags, pidfd_open};

use crate::launch::Handed;

/// How long either side waits for the other while listeners change hands, in all.
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

/// The addresses that this machine has, and the networks in which they are: each with the number of bits that count.
///
/// # Errors
///
/// Where the system does not list them.
pub fn own_networks() -> io::Result<Vec<(IpAddr, u8)>> {
    let netlink = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    let question = every_address();
    if send(&netlink, &question, SendFlags::empty())? != question.len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    let mut found = Vec::new();
    let mut answer = vec![0; 64 * 1024];
    loop {
        let (_, length) = recv(&netlink, answer.as_mut_slice(), RecvFlags::empty())?;
        if addresses_in(answer.get(..length).unwrap_or_default(), &mut found)? {
            return Ok(found);
        }
    }
}

/// A message of rtnetlink(7) that asks for all addresses.
fn every_address() -> Vec<u8> {
    const GET_ADDRESS: u16 = 22;
    const REQUEST_ALL: u16 = 1 | 0x300;
    const LENGTH: u32 = 24;
    [
        LENGTH.to_ne_bytes().as_slice(),
        &GET_ADDRESS.to_ne_bytes(),
        &REQUEST_ALL.to_ne_bytes(),
        // Number, sender, and a description of addresses, of which nothing is said.
        &[0; 16],
    ]
    .concat()
}

/// Adds the addresses of some messages. Returns whether those were the last.
fn addresses_in(mut messages: &[u8], found: &mut Vec<(IpAddr, u8)>) -> io::Result<bool> {
    const HEAD: usize = 16;
    const ERROR: u16 = 2;
    const DONE: u16 = 3;
    const NEW_ADDRESS: u16 = 20;
    let nonsense = || io::Error::new(io::ErrorKind::InvalidData, "addresses were expected");
    while !messages.is_empty() {
        let length = field(messages, 0).map(u32::from_ne_bytes).ok_or_else(nonsense)?;
        let length = usize::try_from(length).ok().filter(|length| *length >= HEAD).ok_or_else(nonsense)?;
        let (message, rest) = split_padded(messages, length).ok_or_else(nonsense)?;
        match field(message, 4).map(u16::from_ne_bytes) {
            Some(DONE) => return Ok(true),
            Some(NEW_ADDRESS) => add_address(message.get(HEAD..).unwrap_or_default(), found),
            None | Some(ERROR) => return Err(nonsense()),
            Some(_) => {}
        }
        messages = rest;
    }
    Ok(false)
}

/// Reads one address with its network. Between two points there are two addresses.
fn add_address(message: &[u8], found: &mut Vec<(IpAddr, u8)>) {
    const ATTRIBUTES: usize = 8;
    const HEAD: usize = 4;
    const ADDRESS: u16 = 1;
    const LOCAL: u16 = 2;
    let Some([_, bits]) = field(message, 0) else { return };
    let mut attributes = message.get(ATTRIBUTES..).unwrap_or_default();
    while let (Some(length), Some(kind)) = (field(attributes, 0), field(attributes, 2)) {
        let length = usize::from(u16::from_ne_bytes(length));
        let Some((attribute, rest)) = split_padded(attributes, length.max(HEAD)) else { return };
        let value = attribute.get(HEAD..).unwrap_or_default();
        let v4 = <[u8; 4]>::try_from(value).map(|bytes| (IpAddr::from(Ipv4Addr::from(bytes)), 32));
        let v6 = <[u8; 16]>::try_from(value).map(|bytes| (IpAddr::from(Ipv6Addr::from(bytes)), 128));
        if let (ADDRESS | LOCAL, Ok((address, all))) = (u16::from_ne_bytes(kind), v4.or(v6)) {
            found.extend([(address, bits.min(all)), (address, all)]);
        }
        attributes = rest;
    }
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// What has this length, and what is behind it at the next fourth byte.
fn split_padded(bytes: &[u8], length: usize) -> Option<(&[u8], &[u8])> {
    let next = length.checked_next_multiple_of(4)?;
    Some((bytes.get(..length)?, bytes.get(next..).unwrap_or_default()))
}

/// Listens at these ports of the loopback, and hands that over to who listens at `outlet`.
///
/// # Errors
///
/// Where a port can't be listened at, or the other side does not take it.
pub(crate) fn hand_over(outlet: &UnixStream, ports: &[u16]) -> io::Result<()> {
    let mut outlet = outlet;
    for port in ports {
        give(outlet, *port, &TcpListener::bind((Ipv4Addr::LOCALHOST, *port))?)?;
    }
    outlet.shutdown(std::net::Shutdown::Write)?;
    let mut answer = [0];
    outlet.read_exact(&mut answer)?;
    if answer == [TAKEN] { Ok(()) } else { Err(io::ErrorKind::ConnectionRefused.into()) }
}

fn give(outlet: &UnixStream, port: u16, listener: &TcpListener) -> io::Result<()> {
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
    Ok(())
}

/// The way to who takes the listeners. It is sought before the network is left.
pub(crate) fn find_outlet(path: &Path) -> io::Result<UnixStream> {
    let outlet = UnixStream::connect(path)?;
    outlet.set_read_timeout(Some(HAND_OVER))?;
    outlet.set_write_timeout(Some(HAND_OVER))?;
    Ok(outlet)
}

/// Takes the listeners that a launcher hands over, each with its port. This waits for the launcher, for seconds at most.
///
/// # Errors
///
/// Where it says nonsense, or not all of it in time.
pub fn take_listeners(launcher: &UnixStream) -> io::Result<Handed> {
    take_within(launcher, HAND_OVER)
}

fn take_within(launcher: &UnixStream, most: Duration) -> io::Result<Handed> {
    let begun = Instant::now();
    launcher.set_write_timeout(Some(most))?;
    // It waits for the answer, so its number is its own as yet, and becomes the program's.
    let ended = sockopt::socket_peercred(launcher).and_then(|peer| pidfd_open(peer.pid, PidfdFlags::empty()));
    let mut listeners = Vec::new();
    loop {
        let left = most.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        launcher.set_read_timeout(Some(left))?;
        let Some(one) = take_one(launcher)? else { break };
        if listeners.len() == MOST_LISTENERS {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "too many listeners"));
        }
        listeners.push(one);
    }
    let mut launcher = launcher;
    launcher.write_all(&[TAKEN])?;
    Ok(Handed { listeners, ended: ended.ok() })
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
    let (port, listener) = (u16::from_be_bytes(name), TcpListener::from(listener));
    if listener.local_addr()? != (Ipv4Addr::LOCALHOST, port).into() {
        return Err(nonsense());
    }
    Ok(Some((port, listener)))
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
            assert!(taken.ended.is_some(), "it can be seen when who handed them over ends");
            let [(port, listener)] = taken.listeners.as_slice() else { panic!("{taken:?}") };
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
    fn a_launcher_that_never_ends_is_left() {
        let (inside, outside) = UnixStream::pair().unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
                let port = listener.local_addr().unwrap().port();
                for _ in 0..10 {
                    std::thread::sleep(Duration::from_millis(100));
                    // The other side may have gone.
                    let _ = give(&inside, port, &listener);
                }
                let _ = inside.shutdown(std::net::Shutdown::Write);
            });
            assert!(take_within(&outside, Duration::from_millis(300)).is_err());
        });
    }

    #[test]
    fn a_listener_elsewhere_than_at_its_port_of_the_loopback_is_not_believed() {
        for (address, added) in [(Ipv4Addr::LOCALHOST, 1), (Ipv4Addr::UNSPECIFIED, 0)] {
            let listener = TcpListener::bind((address, 0)).unwrap();
            let port = listener.local_addr().unwrap().port();
            let (inside, outside) = UnixStream::pair().unwrap();
            give(&inside, port.wrapping_add(added), &listener).unwrap();
            inside.shutdown(std::net::Shutdown::Write).unwrap();
            assert!(take_listeners(&outside).is_err(), "{address} {added}");
        }
    }

    #[test]
    fn this_machine_has_addresses_and_networks_around_them() {
        let networks = own_networks().unwrap();
        assert!(networks.contains(&(Ipv4Addr::LOCALHOST.into(), 8)), "{networks:?}");
        assert!(networks.contains(&(Ipv4Addr::LOCALHOST.into(), 32)), "{networks:?}");
    }

    #[test]
    fn addresses_are_read_from_answers_of_the_kernel() {
        let answer = |kind: u16, body: &[u8]| {
            let length = u32::try_from(body.len()).unwrap() + 16;
            [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10], body].concat()
        };
        let attribute = |kind: u16, value: &[u8]| {
            let length = u16::try_from(value.len()).unwrap() + 4;
            [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat()
        };
        let both = [attribute(1, &[10, 0, 0, 2]), attribute(2, &[10, 0, 0, 1])].concat();
        let v4 = answer(20, &[&[2, 24, 0, 0, 1, 0, 0, 0][..], &both].concat());
        let v6 = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
        let v6 = answer(20, &[&[10, 64, 0, 0, 1, 0, 0, 0][..], &attribute(1, &v6)].concat());
        let mut found = Vec::new();
        assert!(!addresses_in(&[v4, v6].concat(), &mut found).unwrap());
        let expected = [("10.0.0.2", 24), ("10.0.0.2", 32), ("10.0.0.1", 24), ("10.0.0.1", 32)];
        let expected = expected.into_iter().chain([("2001:db8::9", 64), ("2001:db8::9", 128)]);
        let expected: Vec<(IpAddr, u8)> =
            expected.map(|(text, bits)| (text.parse().unwrap(), bits)).collect();
        assert_eq!(found, expected);
        assert!(addresses_in(&answer(3, &[]), &mut found).unwrap(), "that was all");
        for nonsense in [answer(2, &[0; 4]), vec![0; 16], vec![1; 7]] {
            assert!(addresses_in(&nonsense, &mut found).is_err());
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
