//! What the system is told about sockets.

use std::fs;
use std::net::{SocketAddr, TcpStream};

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use tokio::io::AsyncWriteExt as _;

use crate::support::{Script, Upstream, connect, gateway, post, settings, until};

/// The sockets of this process whose other end is `peer`.
fn sockets_to(peer: SocketAddr) -> Vec<TcpStream> {
    let own = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let numbers = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().file_name());
    let sockets = numbers.filter_map(|number| {
        let number = number.to_str()?.parse().ok()?;
        Some(TcpStream::from(pidfd_getfd(&own, number, PidfdGetfdFlags::empty()).ok()?))
    });
    sockets.filter(|socket| socket.peer_addr().is_ok_and(|address| address == peer)).collect()
}

/// Each event is a small packet: none may wait for the acknowledgement of the one before.
#[tokio::test]
async fn no_socket_waits_for_acknowledgements() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let gateway = gateway(settings(&upstream)).await;
    let mut client = connect(&gateway).await;
    let request = post("/v1/messages", "{}").replace("connection: close\r\n", "");
    client.write_all(request.as_bytes()).await.unwrap();
    until(&mut client, "{}").await;
    for peer in [client.local_addr().unwrap(), upstream.address] {
        let sockets = sockets_to(peer);
        assert!(!sockets.is_empty(), "{peer}");
        assert!(sockets.iter().all(|socket| socket.nodelay().unwrap()), "{peer}");
    }
}
