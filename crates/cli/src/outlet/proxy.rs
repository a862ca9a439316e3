//! One connection of a program to the proxy: `CONNECT` (RFC 9110, section 9.3.6), or a request for an `http:` address.
//!
//! One connection serves one request, so that each is judged: what a plain request is answered with ends with the connection.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use backstop::confine::own_networks;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::Desk;
use super::hosts::Wanted;

/// The longest head of a request, in bytes.
const MOST_HEAD: usize = 32 * 1024;
/// How long a head may take, and how long a host may take to be found and to answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// Headers that are about the connection to a proxy.
const OF_CONNECTION: [&str; 4] = ["connection", "proxy-connection", "keep-alive", "proxy-authorization"];

/// What a request wants.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    host: String,
    port: u16,
    /// What its host is sent first; `None` where everything after the head is between the two.
    head: Option<Vec<u8>>,
}

/// Why a request is not served.
enum Refusal {
    Malformed,
    NotListed(String),
    NotFound(String),
    Unreachable(String),
}

impl Refusal {
    fn answer(&self) -> String {
        let (status, text) = match self {
            Self::Malformed => ("400 Bad Request", "backstop: this is no request for a proxy".to_owned()),
            Self::NotListed(host) => (
                "403 Forbidden",
                format!(
                    "backstop: `{host}` is not among the hosts that programs may reach here (`sandbox.hosts`, which is the operator's)"
                ),
            ),
            Self::NotFound(host) => ("502 Bad Gateway", format!("backstop: `{host}` has no address")),
            Self::Unreachable(host) => ("502 Bad Gateway", format!("backstop: `{host}` can't be reached")),
        };
        let length = text.len().saturating_add(1);
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{text}\n"
        )
    }
}

pub(super) async fn serve(mut inside: TcpStream, desk: &Desk) {
    let Ok(Ok((head, rest))) = timeout(PATIENCE, read_head(&mut inside)).await else { return };
    let found = match read(&head) {
        Some(request) => reach(&request, desk).await.map(|outside| (request, outside)),
        None => Err(Refusal::Malformed),
    };
    // A connection that breaks is closed on both sides.
    let _ = match found {
        Ok((request, outside)) => join(inside, outside, &request, &rest).await,
        Err(refusal) => inside.write_all(refusal.answer().as_bytes()).await,
    };
}

async fn join(
    mut inside: TcpStream,
    mut outside: TcpStream,
    request: &Request,
    rest: &[u8],
) -> io::Result<()> {
    match &request.head {
        Some(head) => outside.write_all(head).await?,
        None => inside.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?,
    }
    outside.write_all(rest).await?;
    super::join(inside, outside, super::MOST_IDLE).await;
    Ok(())
}

/// Connects to an address of a host that is permitted, as the host and as the address.
async fn reach(request: &Request, desk: &Desk) -> Result<TcpStream, Refusal> {
    let Request { host, port, .. } = request;
    let named = format!("{host}:{port}");
    let wanted = Wanted::read(host).filter(|wanted| desk.hosts.permits(wanted, *port));
    let refused = || {
        desk.refuse(&named);
        Refusal::NotListed(crate::output::one_line(&named, super::MOST_CHARS))
    };
    let addresses: Vec<SocketAddr> = match wanted.ok_or_else(refused)? {
        Wanted::Address(address) => vec![(address, *port).into()],
        Wanted::Name(name) => {
            let found = timeout(PATIENCE, lookup_host((name.as_str(), *port))).await;
            let found: Vec<SocketAddr> = found.ok().and_then(Result::ok).into_iter().flatten().collect();
            if found.is_empty() {
                return Err(Refusal::NotFound(named));
            }
            // They may change at any time.
            let Ok(own) = own_networks() else { return Err(Refusal::Unreachable(named)) };
            found.into_iter().filter(|found| desk.hosts.permits_found(found.ip(), *port, &own)).collect()
        }
    };
    if addresses.is_empty() {
        return Err(refused());
    }
    let connected = timeout(PATIENCE, TcpStream::connect(addresses.as_slice())).await;
    connected.ok().and_then(Result::ok).ok_or(Refusal::Unreachable(named))
}

/// Reads to the empty line that ends a head. Returns it, and what came behind it.
async fn read_head(inside: &mut TcpStream) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut read = Vec::new();
    loop {
        let before = read.len().saturating_sub(3);
        if inside.read_buf(&mut read).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let ends = read.get(before..).and_then(|new| new.windows(4).position(|four| four == b"\r\n\r\n"));
        if let Some(at) = ends {
            let rest = read.split_off(before.saturating_add(at).saturating_add(4));
            return Ok((read, rest));
        }
        if read.len() > MOST_HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

fn read(head: &[u8]) -> Option<Request> {
    let text = std::str::from_utf8(head).ok()?;
    let (first, headers) = text.split_once("\r\n")?;
    let mut words = first.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return None;
    }
    if method == "CONNECT" {
        let (host, port) = authority(target, None)?;
        return Some(Request { host, port, head: None });
    }
    let (scheme, rest) = target.split_at_checked("http://".len())?;
    if !scheme.eq_ignore_ascii_case("http://") {
        return None;
    }
    let at = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (own, path) = rest.split_at_checked(at)?;
    let slash = if path.starts_with('/') { "" } else { "/" };
    let (host, port) = authority(own, Some(80))?;
    let kept = headers.split_inclusive("\r\n").filter(|line| {
        let name = line.split(':').next().unwrap_or_default().trim();
        !OF_CONNECTION.iter().any(|about| name.eq_ignore_ascii_case(about)) && !line.trim().is_empty()
    });
    let kept: String = kept.collect();
    let head = format!("{method} {slash}{path} {version}\r\n{kept}connection: close\r\n\r\n");
    Some(Request { host, port, head: Some(head.into_bytes()) })
}

/// Host and port of an address. One with a user in it is none: which part is the host is read differently by different programs.
fn authority(text: &str, default: Option<u16>) -> Option<(String, u16)> {
    let is_in_brackets = text.ends_with(']');
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !is_in_brackets => {
            let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            (host, port.parse().ok().filter(|_| is_number)?)
        }
        _ => (text, default?),
    };
    let is_bare_v6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
    (!host.is_empty() && !host.contains('@') && !is_bare_v6 && port > 0).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunnel_names_host_and_port() {
        let wants =
            |head: &str| read(head.as_bytes()).map(|request| (request.host, request.port, request.head));
        assert_eq!(
            wants("CONNECT a.com:443 HTTP/1.1\r\nHost: evil\r\n\r\n"),
            Some(("a.com".to_owned(), 443, None))
        );
        assert_eq!(wants("CONNECT [::1]:22 HTTP/1.1\r\n\r\n"), Some(("[::1]".to_owned(), 22, None)));
        for head in [
            "CONNECT a.com HTTP/1.1\r\n\r\n",
            "CONNECT u@a.com:443 HTTP/1.1\r\n\r\n",
            "CONNECT ::1:22 HTTP/1.1\r\n\r\n",
            "CONNECT a.com:+443 HTTP/1.1\r\n\r\n",
            "CONNECT a.com:443 b HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.com\r\n\r\n",
            "GET https://a.com/ HTTP/1.1\r\n\r\n",
            "GET http://u@a.com/ HTTP/1.1\r\n\r\n",
        ] {
            assert_eq!(wants(head), None, "{head}");
        }
    }

    #[test]
    fn a_plain_request_goes_on_as_its_host_expects_it_and_ends_the_connection() {
        let head =
            "GET http://a.com:8080?q HTTP/1.1\r\nHost: a.com\r\nProxy-Connection: keep-alive\r\nX: y\r\n\r\n";
        let request = read(head.as_bytes()).unwrap();
        assert_eq!((request.host.as_str(), request.port), ("a.com", 8080));
        let sent = String::from_utf8(request.head.unwrap()).unwrap();
        assert_eq!(sent, "GET /?q HTTP/1.1\r\nHost: a.com\r\nX: y\r\nconnection: close\r\n\r\n");
    }
}
