//! Scheme, host and port.

use std::net::IpAddr;

use http::{HeaderValue, Uri};
use url::Url;

/// Scheme, host and port of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    uri: Uri,
    host: HeaderValue,
    encrypted: bool,
}

impl Origin {
    /// Returns the origin of an `http` or `https` address, without its credentials, or `None` for any other address.
    pub fn of(address: &Uri) -> Option<Self> {
        let authority = address.authority().filter(|authority| !authority.host().is_empty())?;
        let host = authority.as_str().rsplit_once('@').map_or(authority.as_str(), |(_, host)| host);
        Self::new(address.scheme_str()?, host)
    }

    /// Returns the origin of an address that was parsed by the rules of browsers. The host is exactly that of `url`, so the
    /// connection is made to the host that was checked.
    pub fn of_url(url: &Url) -> Option<Self> {
        let host = url.host_str()?;
        let authority = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        Self::new(url.scheme(), &authority).filter(|origin| origin.uri.host() == Some(host))
    }

    fn new(scheme: &str, authority: &str) -> Option<Self> {
        let encrypted = match scheme {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let uri = Uri::builder().scheme(scheme).authority(authority).path_and_query("/").build().ok()?;
        Some(Self { uri, host: HeaderValue::from_str(authority).ok()?, encrypted })
    }

    /// Returns the address of its root.
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Returns the value of the `host` header.
    pub fn host(&self) -> &HeaderValue {
        &self.host
    }

    /// Returns whether its scheme is `https`.
    pub fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// Returns whether its host is `localhost` or a loopback address.
    pub fn is_loopback(&self) -> bool {
        let name = self.name();
        is_localhost(name) || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// The name of its host; an address has no brackets.
    pub(crate) fn name(&self) -> &str {
        name_of(&self.uri)
    }
}

/// The name of a host; an address has no brackets.
pub(crate) fn name_of(address: &Uri) -> &str {
    address.host().unwrap_or_default().trim_matches(['[', ']'])
}

pub(crate) fn is_localhost(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(address: &str) -> Option<Origin> {
        Origin::of_url(&Url::parse(address).ok()?)
    }

    #[test]
    fn an_origin_has_scheme_host_and_port_and_nothing_else() {
        for (address, uri, host) in [
            ("https://me:word@Example.com:8443/a?b#c", "https://example.com:8443/", "example.com:8443"),
            ("https://example.com:443", "https://example.com/", "example.com"),
            ("http://[::1]:80/", "http://[::1]/", "[::1]"),
            ("http://2130706433/", "http://127.0.0.1/", "127.0.0.1"),
        ] {
            let origin = of(address).unwrap();
            assert_eq!((origin.uri().to_string().as_str(), origin.host().to_str().unwrap()), (uri, host));
        }
        let origin = Origin::of(&Uri::from_static("http://me:word@h:1/x")).unwrap();
        assert_eq!(origin.uri(), "http://h:1/");
        assert!(of("ftp://example.com/").is_none() && Origin::of(&Uri::from_static("/x")).is_none());
    }

    proptest! {
        #[test]
        fn what_is_connected_to_is_what_was_checked(text in "https?://[ -~]{1,40}") {
            let Ok(url) = Url::parse(&text) else { return Ok(()) };
            let Some(origin) = Origin::of_url(&url) else { return Ok(()) };
            prop_assert_eq!(origin.uri().host(), url.host_str());
            prop_assert_eq!(origin.uri().port_u16(), url.port());
            prop_assert_eq!(origin.uri().scheme_str(), Some(url.scheme()));
            prop_assert!(!origin.host().to_str().is_ok_and(|host| host.contains('@')));
            let is_here = match url.host() {
                Some(url::Host::Domain(name)) => name == "localhost",
                Some(url::Host::Ipv4(address)) => address.is_loopback(),
                Some(url::Host::Ipv6(address)) => address.is_loopback(),
                None => false,
            };
            prop_assert_eq!(origin.is_loopback(), is_here);
        }
    }

    #[test]
    fn this_machine_is_known_by_its_names_and_by_no_other() {
        for here in ["http://localhost", "https://LOCALHOST:1", "http://127.9.9.9", "http://[::1]:1"] {
            assert!(of(here).unwrap().is_loopback(), "{here}");
        }
        for away in
            ["http://localhost.example.com", "http://127.0.0.1.example.com", "http://0.0.0.0", "http://x"]
        {
            assert!(!of(away).unwrap().is_loopback(), "{away}");
        }
    }
}
