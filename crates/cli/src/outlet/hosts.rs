//! Which hosts may be reached: by the name that was asked for, and by the address that it turned out to have.
//!
//! The law: *a name does not make an address reachable that is not everybody's*. What a name resolves to is chosen by whoever
//! answers for it; so addresses of this machine, of its networks, and those at which clouds tell secrets are reached only where they
//! are themselves listed.

use std::net::{IpAddr, Ipv4Addr};

use backstop::config::{Host, HostRule};

/// What a program asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Address(IpAddr),
    Name(String),
}

impl Wanted {
    /// Reads the host of an address such as `example.com:443`. `None` for what is neither a name nor an address.
    pub(super) fn read(host: &str) -> Option<Self> {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Some(Self::Address(address.to_canonical()));
        }
        let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        (!name.is_empty() && name.bytes().all(is_plain)).then_some(Self::Name(name))
    }
}

/// The hosts that an operator listed, and the ports of this machine that are there inside.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    pub(super) rules: Vec<HostRule>,
    pub(super) ports: Vec<u16>,
}

impl Hosts {
    /// Whether it may be asked for.
    pub(super) fn permits(&self, wanted: &Wanted, port: u16) -> bool {
        match wanted {
            Wanted::Address(address) => self.lists(*address, port),
            Wanted::Name(name) => self.rules.iter().any(|rule| {
                rule.has_port(port)
                    && match rule.host() {
                        Host::Named(own) => own == name,
                        Host::Below(above) => name
                            .strip_suffix(above.as_str())
                            .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
                        Host::Network(..) => false,
                    }
            }),
        }
    }

    /// Whether an address that a permitted name has may be connected to, from a machine with addresses in these networks.
    pub(super) fn permits_found(&self, address: IpAddr, port: u16, own: &[(IpAddr, u8)]) -> bool {
        let meant = meant(address);
        let is_own = own.iter().any(|(network, bits)| shares(meant, *network, *bits));
        (is_everybodys(meant) && !is_own) || self.lists(address, port)
    }

    fn lists(&self, address: IpAddr, port: u16) -> bool {
        let address = address.to_canonical();
        let is_in = |rule: &HostRule| match rule.host() {
            Host::Network(network, bits) => shares(address, *network, *bits),
            _ => false,
        };
        (address == Ipv4Addr::LOCALHOST && self.ports.contains(&port))
            || self.rules.iter().any(|rule| rule.has_port(port) && is_in(rule))
    }
}

/// Whether two addresses begin with the same bits.
fn shares(one: IpAddr, other: IpAddr, bits: u8) -> bool {
    let bits = u32::from(bits);
    match (one, other.to_canonical()) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            let differ = one.to_bits() ^ other.to_bits();
            differ.leading_zeros() >= bits.min(u32::BITS)
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros() >= bits,
        _ => false,
    }
}

/// The address of version 4 in one of version 6 that means it, also as networks without version 4 write it (RFC 6052).
fn meant(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => match address.segments() {
            [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
                Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low)).into()
            }
            _ => address.into(),
        },
        address @ IpAddr::V4(_) => address,
    }
}

/// Whether an address means the same host to everybody (the registries of special addresses, RFC 6890).
fn is_everybodys(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !is_special(address),
        IpAddr::V6(address) => match address.segments() {
            // Protocol assignments, documentation, and those that hold one of version 4.
            [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..=0xfff, ..] => false,
            [first, ..] => first & 0xe000 == 0x2000,
        },
    }
}

fn is_special(address: Ipv4Addr) -> bool {
    const SPECIAL: [(Ipv4Addr, u8); 16] = [
        (Ipv4Addr::new(0, 0, 0, 0), 8),
        (Ipv4Addr::new(10, 0, 0, 0), 8),
        (Ipv4Addr::new(100, 64, 0, 0), 10),
        (Ipv4Addr::new(127, 0, 0, 0), 8),
        (Ipv4Addr::new(169, 254, 0, 0), 16),
        // The host of a virtual machine in Azure, which is told apart from nobody else's by its network only.
        (Ipv4Addr::new(168, 63, 129, 16), 32),
        (Ipv4Addr::new(172, 16, 0, 0), 12),
        (Ipv4Addr::new(192, 0, 0, 0), 24),
        (Ipv4Addr::new(192, 0, 2, 0), 24),
        (Ipv4Addr::new(192, 88, 99, 0), 24),
        (Ipv4Addr::new(192, 168, 0, 0), 16),
        (Ipv4Addr::new(198, 18, 0, 0), 15),
        (Ipv4Addr::new(198, 51, 100, 0), 24),
        (Ipv4Addr::new(203, 0, 113, 0), 24),
        // What is sent to many, and what is for no one yet.
        (Ipv4Addr::new(224, 0, 0, 0), 4),
        (Ipv4Addr::new(240, 0, 0, 0), 4),
    ];
    SPECIAL.iter().any(|(network, bits)| shares(address.into(), (*network).into(), *bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(list: &[&str]) -> Hosts {
        Hosts { rules: list.iter().map(|rule| rule.parse().unwrap()).collect(), ports: vec![4000] }
    }

    fn permits(hosts: &Hosts, host: &str, port: u16) -> bool {
        Wanted::read(host).is_some_and(|wanted| hosts.permits(&wanted, port))
    }

    #[test]
    fn a_host_is_reached_where_it_is_listed_and_nowhere_else() {
        let hosts = hosts(&["example.com", "*.example.org:8443", "10.1.0.0/16", "[2001:db8::1]:22"]);
        for (host, port) in [
            ("example.com", 443),
            ("EXAMPLE.com.", 80),
            ("a.b.example.org", 8443),
            ("10.1.255.3", 443),
            ("[::ffff:10.1.0.9]", 443),
            ("[2001:db8::1]", 22),
            ("127.0.0.1", 4000),
        ] {
            assert!(permits(&hosts, host, port), "{host}:{port}");
        }
        for (host, port) in [
            ("example.com", 22),
            ("www.example.com", 443),
            ("notexample.com", 443),
            ("example.com.evil.net", 443),
            ("example.org", 8443),
            (".example.org", 8443),
            ("evilexample.org", 8443),
            ("a.example.org", 443),
            ("10.2.0.1", 443),
            ("127.0.0.1", 4001),
            ("localhost", 4000),
            ("127.1", 4000),
            ("2130706433", 4000),
            ("example.com@evil.net", 443),
            ("example.com\t", 443),
            ("", 443),
        ] {
            assert!(!permits(&hosts, host, port), "{host}:{port}");
        }
    }

    #[test]
    fn a_name_leads_to_no_address_that_is_not_everybodys() {
        let hosts = hosts(&["example.com", "192.168.7.0/24"]);
        let own = [("93.184.216.9", 24), ("2606:4700:7::1", 64)];
        let own = own.map(|(address, bits)| (address.parse().unwrap(), bits));
        let found = |address: &str| hosts.permits_found(address.parse().unwrap(), 443, &own);
        for address in
            ["93.184.215.14", "2606:4700::1111", "64:ff9b::5db8:d70e", "192.168.7.9", "::ffff:1.1.1.1"]
        {
            assert!(found(address), "{address}");
        }
        for address in [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "10.0.0.1",
            "100.100.100.200",
            "169.254.169.254",
            "168.63.129.16",
            "93.184.216.9",
            "93.184.216.200",
            "::ffff:93.184.216.9",
            "64:ff9b::5db8:d809",
            "2606:4700:7::ff",
            "172.31.0.1",
            "192.168.8.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001::1",
            "ff02::1",
        ] {
            assert!(!found(address), "{address}");
        }
    }
}
