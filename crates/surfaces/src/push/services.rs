//! Where pushes may go.
//!
//! The browser names the address, and whoever has a session at the console could name any. So it is one of a push service that browsers
//! use, or of one that the operator named; what is not on the public internet is reached only where the operator named it.

use thiserror::Error;
use url::{Host, Url};

/// The push services of browsers: Chrome and what is made of it, Firefox, Edge, Safari. With a dot before it, any name below.
const KNOWN: [&str; 4] =
    ["fcm.googleapis.com", ".push.services.mozilla.com", ".notify.windows.com", ".push.apple.com"];
/// The longest address.
const LONGEST: usize = 2_048;

/// Why nothing is pushed to an address. It holds no more of it than the host.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadEndpoint {
    /// It is none.
    #[error(
        "that is no address of a push service: an address with `https`, of at most 2 048 bytes, without a user and a fragment"
    )]
    NoAddress,
    /// It is one of somebody else.
    #[error(
        "`{0}` is no push service that is known here\nhint: the operator can name it in `approvals.surfaces.web_push.services`"
    )]
    Unknown(String),
}

/// Whose a push service is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// One of the browsers'.
    Browsers,
    /// One that the operator named.
    Operators,
}

/// Returns the address of a subscription, and whose the service is; `named` are the origins of services that the operator named.
pub(super) fn judge(endpoint: &str, named: &[Url]) -> Result<(Url, Whose), BadEndpoint> {
    if endpoint.len() > LONGEST {
        return Err(BadEndpoint::NoAddress);
    }
    let url = Url::parse(endpoint).map_err(|_| BadEndpoint::NoAddress)?;
    let is_plain = url.scheme() == "https"
        && url.username().is_empty()
        && url.password().is_none()
        && url.fragment().is_none()
        && url.as_str().len() <= LONGEST;
    let (true, Some(host)) = (is_plain, url.host()) else { return Err(BadEndpoint::NoAddress) };
    if named.iter().any(|named| named.origin() == url.origin()) {
        return Ok((url, Whose::Operators));
    }
    let is_known = match &host {
        Host::Domain(host) => url.port().is_none() && KNOWN.iter().any(|known| is_of(host, known)),
        Host::Ipv4(_) | Host::Ipv6(_) => false,
    };
    if is_known {
        Ok((url, Whose::Browsers))
    } else {
        Err(BadEndpoint::Unknown(crate::shown::line(&host.to_string(), 100)))
    }
}

fn is_of(host: &str, known: &str) -> bool {
    if known.starts_with('.') { host.len() > known.len() && host.ends_with(known) } else { host == known }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_push_services_are_pushed_to() {
        let named = ["https://push.example:8443".parse().unwrap(), "https://10.0.0.7".parse().unwrap()];
        for (endpoint, whose) in [
            ("https://fcm.googleapis.com/fcm/send/x:y", Whose::Browsers),
            ("https://updates.push.services.mozilla.com/wpush/v2/x", Whose::Browsers),
            ("https://wns2-by3p.notify.windows.com/w/?token=x", Whose::Browsers),
            ("https://web.push.apple.com/x", Whose::Browsers),
            ("https://FCM.googleapis.com:443/x", Whose::Browsers),
            ("https://push.example:8443/x", Whose::Operators),
            ("https://10.0.0.7/x", Whose::Operators),
        ] {
            assert_eq!(judge(endpoint, &named).map(|(_, whose)| whose), Ok(whose), "{endpoint}");
        }
        for endpoint in [
            "http://fcm.googleapis.com/x",
            "https://fcm.googleapis.com:8443/x",
            "https://user@fcm.googleapis.com/x",
            "https://:pass@fcm.googleapis.com/x",
            "https://fcm.googleapis.com/x#y",
            "https://fcm.googleapis.com.evil.example/x",
            "https://evilfcm.googleapis.com/x",
            "https://.push.apple.com/x",
            "https://push.apple.com/x",
            "https://evilpush.apple.com/x",
            "https://fcm.googleapis.com@evil.example/x",
            "https://evil.example/fcm.googleapis.com",
            "https://127.0.0.1/x",
            "https://2130706433/x",
            "https://[::1]/x",
            "https://[::ffff:10.0.0.7]/x",
            "https://169.254.169.254/latest/meta-data",
            "https://localhost/x",
            "https://10.0.0.7:8443/x",
            "https://push.example/x",
            "http://push.example:8443/x",
            "https://push.example.:8443/x",
            "file:///etc/passwd",
            "ftp://fcm.googleapis.com/x",
            "//fcm.googleapis.com/x",
            "fcm.googleapis.com",
            "",
            &format!("https://fcm.googleapis.com/{}", "x".repeat(2_048)),
        ] {
            assert!(judge(endpoint, &named).is_err(), "{endpoint}");
        }
    }
}
