//! Which hosts and addresses a script may connect to.
//!
//! A host is looked at by its name before it is resolved, and by its addresses after. An address that is not plainly
//! on the public internet is connected to only if it stands in a grant itself; `localhost` stands for the addresses
//! of loopback.

use std::net::IpAddr;

use backstop_address::is_public;
use url::{Host, Url};

use crate::node::fault::Fault;
use crate::node::permits::Permits;
use crate::permissions::HostGrant;

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
