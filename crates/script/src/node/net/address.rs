//! Which hosts and addresses a script may connect to.
//!
//! A host is looked at by its name before it is resolved, and by its addresses after. An address that is not plainly
//! on the public internet is connected to only if it stands in a grant itself; `localhost` stands for the addresses
//! of loopback.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

use crate::node::fault::Fault;
use crate::node::permits::Permits;
use crate::permissions::HostGrant;

/// IPv4 networks that are not public: address and prefix length.
const INNER_V4: [([u8; 4], u32); 15] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];

/// Whether `address` is plainly on the public internet.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => public_v4(address),
        IpAddr::V6(address) => public_v6(address),
    }
}

fn public_v4(address: Ipv4Addr) -> bool {
    INNER_V4.iter().all(|(network, length)| {
        (address.to_bits() ^ Ipv4Addr::from(*network).to_bits()).leading_zeros() < *length
    })
}

fn public_v6(address: Ipv6Addr) -> bool {
    let inside = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        // Addresses that carry one of IPv4: mapped, translated, 6to4.
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => public_v4(inside(high, low)),
        // Protocol assignments, documentation.
        [0x2001, second, ..] if second < 0x200 || second == 0xdb8 => false,
        [0x3fff, second, ..] if second < 0x1000 => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

impl HostGrant {
    fn names(&self, host: &Host<&str>, usual: bool, port: u16) -> bool {
        let by_port = self.port.map_or(usual, |granted| granted == port);
        by_port
            && match host {
                Host::Domain(name) => self.names_domain(name),
                Host::Ipv4(address) => self.names_address(IpAddr::V4(*address)),
                Host::Ipv6(address) => self.names_address(IpAddr::V6(*address)),
            }
    }

    fn names_domain(&self, name: &str) -> bool {
        let (name, granted) = (name.trim_end_matches('.'), self.host.trim_end_matches('.'));
        match granted.strip_prefix("*.") {
            Some(above) => {
                let below = name.len().checked_sub(above.len() + 1).and_then(|at| name.split_at_checked(at));
                !above.is_empty()
                    && below.is_some_and(|(first, rest)| {
                        !first.is_empty()
                            && rest.strip_prefix('.').is_some_and(|rest| rest.eq_ignore_ascii_case(above))
                    })
            }
            None => name.eq_ignore_ascii_case(granted),
        }
    }

    fn names_address(&self, address: IpAddr) -> bool {
        let granted = self.host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        granted.is_ok_and(|granted| granted.to_canonical() == address.to_canonical())
    }
}

/// `host:port` of an address, which is all that errors say of it.
pub(super) fn shown(url: &Url) -> String {
    let port = url.port_or_known_default().map_or_else(String::new, |port| format!(":{port}"));
    format!("{}{port}", url.host_str().unwrap_or_default())
}

impl Permits {
    /// Refuses an address whose host is not granted. Nothing is resolved before this.
    pub(super) fn check_host(&self, url: &Url) -> Result<(), Fault> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Fault::new("ERR_INVALID_URL_SCHEME", format!("unknown scheme `{}`", url.scheme())));
        }
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err(Fault::new("ERR_INVALID_URL", "the address has no host"));
        };
        let usual = url.port().is_none();
        if self.all().hosts.iter().any(|grant| grant.names(&host, usual, port)) {
            return Ok(());
        }
        let at = shown(url);
        Err(self.deny("ERR_ACCESS_DENIED", &format!("a connection to {at}"), &format!("hosts: {at}")))
    }

    /// Refuses a host that has an address which is not public and which no grant names. One such address among
    /// others is enough: it is a trick, and no mistake.
    pub(super) fn check_addresses(&self, host: &str, addresses: &[IpAddr]) -> Result<(), Fault> {
        let hosts = &self.all().hosts;
        let local = host.trim_end_matches('.').eq_ignore_ascii_case("localhost")
            && hosts.iter().any(|grant| grant.names_domain("localhost"));
        let bad = addresses.iter().find(|address| {
            let named = hosts.iter().any(|grant| grant.names_address(**address));
            !(is_public(**address) || named || (local && address.to_canonical().is_loopback()))
        });
        match bad {
            None => Ok(()),
            Some(address) => Err(self.deny(
                "ERR_ACCESS_DENIED",
                &format!("a connection to {host}, which is at {address} and so not on the public internet,"),
                &format!("hosts: {address}"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::bridge::{CallScope, NoBridge};
    use crate::limits::Limits;
    use crate::permissions::Permissions;
    use crate::realm::HostScope;

    #[test]
    fn inner_addresses_are_inner_in_any_clothing() {
        for address in [
            "127.0.0.1",
            "0.0.0.0",
            "10.1.2.3",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::127.0.0.1",
            "2002:7f00:1::1",
            "2001:0:1::1",
            "2001:db8::1",
            "3fff::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        for address in ["1.1.1.1", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "2001:4860:4860::8888"]
        {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn a_grant_names_what_it_says_and_nothing_beside() {
        let grant = |host: &str, port| HostGrant { host: host.to_owned(), port };
        let names = |grant: &HostGrant, url: &str| {
            let url = Url::parse(url).unwrap();
            grant.names(&url.host().unwrap(), url.port().is_none(), url.port_or_known_default().unwrap())
        };
        let one = grant("api.example.org", None);
        assert!(names(&one, "https://API.example.org./x") && names(&one, "http://api.example.org"));
        for other in [
            "https://api.example.org:8443",
            "https://x.api.example.org",
            "https://api.example.org.evil.example",
            "https://example.org",
        ] {
            assert!(!names(&one, other), "{other}");
        }
        let below = grant("*.example.org", Some(8443));
        assert!(names(&below, "https://a.b.example.org:8443"));
        for other in [
            "https://example.org:8443",
            "https://evilexample.org:8443",
            "https://a.example.org",
            "https://.example.org:8443",
        ] {
            assert!(!Url::parse(other).is_ok_and(|_| names(&below, other)), "{other}");
        }
        assert!(names(&grant("127.0.0.1", Some(80)), "http://2130706433:80/"));
        assert!(names(&grant("::1", None), "http://[::1]/"));
        assert!(!names(&grant("*.0.0.1", None), "http://127.0.0.1/"));
    }

    fn permits(hosts: &[&str]) -> Permits {
        let hosts = hosts.iter().map(|host| HostGrant { host: (*host).to_owned(), port: None }).collect();
        let permissions = Permissions { hosts, ..Permissions::default() };
        let scope = CallScope { script: "test".into(), generation: 1 };
        let bridge = Arc::new(NoBridge);
        Permits::new(Arc::new(HostScope::new(scope, Arc::new(permissions), bridge, Limits::default())))
    }

    #[test]
    fn a_granted_name_for_an_inner_address_is_refused_and_one_among_others_is_enough() {
        let at = |list: &[&str]| list.iter().map(|one| one.parse().unwrap()).collect::<Vec<IpAddr>>();
        let named = permits(&["api.example.org", "localhost"]);
        for inner in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1"] {
            let fault = named.check_addresses("api.example.org", &at(&["1.1.1.1", inner])).unwrap_err();
            let inner: IpAddr = inner.parse().unwrap();
            assert!(fault.message.ends_with(&format!("missing grant: hosts: {inner}")), "{}", fault.message);
        }
        assert!(named.check_addresses("api.example.org", &at(&["1.1.1.1"])).is_ok());
        assert!(named.check_addresses("localhost", &at(&["127.0.0.1", "::1"])).is_ok());
        assert!(named.check_addresses("localhost", &at(&["10.0.0.1"])).is_err());
        assert!(permits(&["*.example.org"]).check_addresses("localhost", &at(&["127.0.0.1"])).is_err());
        assert!(permits(&["x.example", "10.0.0.1"]).check_addresses("x.example", &at(&["10.0.0.1"])).is_ok());
    }
}
