//! Hosts that may be reached, in the operator's notation.

use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use serde_json::{Value, json};

use crate::config_value::ConfigValue;
use crate::problem::{Problem, ProblemKind, quote};
use crate::reader::Reader;
use crate::values::plain_text;
use backstop_yaml::Node;

/// The longest name of a host, in bytes (RFC 1035).
const MOST_BYTES: usize = 253;
/// The longest part of one.
const MOST_LABEL: usize = 63;

/// What a name is, for who wrote another one.
const NAME: &str =
    "a name has letters, digits, `-` and dots, and at most `*.` before it; it has no scheme and no path";

/// Which host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// The host with this name, in lower case.
    Named(String),
    /// Every host whose name ends with a dot and this.
    Below(String),
    /// Hosts whose addresses share this many leading bits with this one.
    Network(IpAddr, u8),
}

/// One host, or several, at one port or at the web ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRule {
    host: Host,
    port: Option<u16>,
    written: String,
}

impl HostRule {
    /// The default ports: those of HTTP and HTTPS.
    pub const WEB: [u16; 2] = [80, 443];

    /// Returns the host.
    #[must_use]
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// Returns whether the rule covers the port.
    #[must_use]
    pub fn has_port(&self, port: u16) -> bool {
        self.port.map_or_else(|| Self::WEB.contains(&port), |own| own == port)
    }

    /// Returns the port on this machine's loopback that the rule names, if it names one.
    #[must_use]
    pub fn port_here(&self) -> Option<u16> {
        match self.host {
            Host::Network(address, _) if address == Ipv4Addr::LOCALHOST => self.port,
            _ => None,
        }
    }
}

impl FromStr for HostRule {
    /// Why it is none, for people.
    type Err = &'static str;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        if written.contains("://") {
            return Err(NAME);
        }
        let (host, port) = split(written)?;
        let host = host_of(host)?;
        let is_here = matches!(host, Host::Network(address, _) if address.is_loopback());
        if is_here && port.is_none() {
            return Err("a host of this machine needs a port, such as `127.0.0.1:5432`");
        }
        Ok(Self { host, port, written: written.to_owned() })
    }
}

/// Takes the port off. An address of version 6 stands in brackets where a port follows.
fn split(written: &str) -> Result<(&str, Option<u16>), &'static str> {
    const PORT: &str = "a port is a number from 1 to 65535";
    let (host, port) = match written.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or("the bracket is not closed")?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err(PORT),
            }
        }
        None if written.matches(':').count() > 1 => (written, None),
        None => written.split_once(':').map_or((written, None), |(host, port)| (host, Some(port))),
    };
    let number = |port: &str| match port.parse::<u16>() {
        Ok(number) if number > 0 && port.bytes().all(|byte| byte.is_ascii_digit()) => Ok(number),
        _ => Err(PORT),
    };
    Ok((host, port.map(number).transpose()?))
}

fn host_of(host: &str) -> Result<Host, &'static str> {
    let host = host.to_ascii_lowercase();
    if let Some((address, bits)) = host.split_once('/') {
        let address: IpAddr =
            address.parse().map_err(|_| "a network is an address, `/` and a number of bits")?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        return match bits.parse::<u8>() {
            Ok(bits) if (1..=most).contains(&bits) => Ok(Host::Network(address, bits)),
            _ => Err("a network is an address, `/` and a number of bits"),
        };
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(Host::Network(address, if address.is_ipv4() { 32 } else { 128 }));
    }
    if host == "localhost" {
        return Ok(Host::Network(Ipv4Addr::LOCALHOST.into(), 32));
    }
    let (name, is_below) = host.strip_prefix("*.").map_or((host.as_str(), false), |name| (name, true));
    if !is_name(name) {
        return Err(NAME);
    }
    // Everything below one label is nearly everything there is.
    if is_below && !name.contains('.') {
        return Err("`*.` stands before a name with a dot in it");
    }
    Ok(if is_below { Host::Below(name.to_owned()) } else { Host::Named(name.to_owned()) })
}

/// Returns whether resolvers take it for nothing but a name: one whose last part is a number may be read as an address.
fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=MOST_LABEL).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    name.len() <= MOST_BYTES
        && name.split('.').all(is_label)
        && last.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
}

impl ConfigValue for HostRule {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        let written = plain_text(node, cx, "a host, such as `example.com` or `10.0.0.5:5432`")?;
        let refused = |why: &str| {
            let message = format!("{} is no host: `{}`", cx.subject(), quote(written));
            Problem::new(ProblemKind::BadValue, node.at.clone(), message).with_hint(why)
        };
        written.parse().map_err(refused).map_err(|problem| cx.report(problem)).ok()
    }

    fn schema() -> Value {
        json!({ "type": "string", "minLength": 1 })
    }

    fn show(&self) -> Value {
        Value::from(self.written.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_and_may_have_a_port() {
        let parse = |written: &str| written.parse().map(|rule: HostRule| (rule.host, rule.port));
        let network = |address: &str, bits| Host::Network(address.parse().unwrap(), bits);
        assert_eq!(parse("GitHub.com"), Ok((Host::Named("github.com".to_owned()), None)));
        assert_eq!(parse("*.npmjs.org:443"), Ok((Host::Below("npmjs.org".to_owned()), Some(443))));
        assert_eq!(parse("10.0.0.0/8"), Ok((network("10.0.0.0", 8), None)));
        assert_eq!(parse("localhost:5432"), Ok((network("127.0.0.1", 32), Some(5432))));
        assert_eq!(parse("2001:db8::1"), Ok((network("2001:db8::1", 128), None)));
        assert_eq!(parse("[2001:db8::1]:22"), Ok((network("2001:db8::1", 128), Some(22))));
    }

    #[test]
    fn what_could_mean_another_host_is_none() {
        for written in [
            "*",
            "*.com",
            "a.*.com",
            "https://a.com",
            "a.com/x",
            "a.com:",
            "a.com:0",
            "a.com:+80",
            "a.com:99999",
            "127.1",
            "0x7f.0.0.1",
            "2130706433",
            "a..com",
            "a.com.",
            "",
            "localhost",
            "::1",
            "10.0.0.0/0",
            "[::1",
            "ä.com",
            "a b",
        ] {
            assert!(written.parse::<HostRule>().is_err(), "{written}");
        }
    }
}
