//! The other address at which browsers look for this machine.
//!
//! Names below `.localhost` are this machine's, and a browser tries `[::1]` and `127.0.0.1` for one. Whoever listens at the one that we leave free,
//! with our port, would be taken for the console. So we listen at both, or serve no console in the clear.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::TcpListener;

/// What became of the other address.
pub(super) enum Beside {
    /// It is ours, too.
    Held(TcpListener),
    /// This machine has none.
    Absent,
    /// Somebody else may be there.
    Taken,
}

/// Takes the other address of this machine at the port of `address`.
pub(super) async fn hold(address: SocketAddr) -> Beside {
    let other = match address.ip() {
        IpAddr::V4(ip) if ip == Ipv4Addr::LOCALHOST || ip.is_unspecified() => {
            IpAddr::from(Ipv6Addr::LOCALHOST)
        }
        IpAddr::V6(ip) if ip == Ipv6Addr::LOCALHOST => IpAddr::from(Ipv4Addr::LOCALHOST),
        // No name below `.localhost` leads there, or nobody knows who is at the other.
        IpAddr::V4(_) | IpAddr::V6(_) => return Beside::Taken,
    };
    match TcpListener::bind((other, address.port())).await {
        Ok(listener) => Beside::Held(listener),
        Err(_) if TcpListener::bind((other, 0)).await.is_err() => Beside::Absent,
        Err(_) => Beside::Taken,
    }
}
