//! The proxies of the environment.

use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::Matcher;

use crate::connect::SetupError;
use crate::origin::Origin;

/// The proxies of the environment, as `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` name them.
#[derive(Clone, Default)]
pub struct Proxies {
    /// For plain addresses.
    pub http: Option<String>,
    /// For encrypted addresses.
    pub https: Option<String>,
    /// For both, where neither of them says otherwise.
    pub all: Option<String>,
    /// Hosts that are reached directly.
    pub no: Option<String>,
}

/// A proxy of one origin.
pub(crate) struct Proxy {
    pub(crate) uri: Uri,
    pub(crate) authorization: Option<HeaderValue>,
}

impl Proxies {
    /// What the environment says, lower case first. In a CGI program `HTTP_PROXY` is what a client sent as `Proxy:`, and
    /// is not read.
    pub fn of(environment: &dyn Fn(&str) -> Option<String>) -> Self {
        let is_cgi = environment("REQUEST_METHOD").is_some();
        let either = |upper: &str| {
            let lower = environment(&upper.to_ascii_lowercase());
            let upper = || if is_cgi && upper == "HTTP_PROXY" { None } else { environment(upper) };
            lower.or_else(upper).filter(|value| !value.is_empty())
        };
        Self {
            http: either("HTTP_PROXY"),
            https: either("HTTPS_PROXY"),
            all: either("ALL_PROXY"),
            no: either("NO_PROXY"),
        }
    }

    /// What the environment of this process says now.
    pub fn of_process() -> Self {
        Self::of(&|name| std::env::var(name).ok())
    }

    /// The proxy for this origin, if it has one.
    pub(crate) fn proxy(&self, origin: &Origin) -> Result<Option<Proxy>, SetupError> {
        if origin.is_loopback() {
            return Ok(None);
        }
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let matcher = Matcher::builder()
            .http(text(&self.http))
            .https(text(&self.https))
            .all(text(&self.all))
            .no(text(&self.no))
            .build();
        let Some(found) = matcher.intercept(origin.uri()) else { return Ok(None) };
        if !matches!(found.uri().scheme_str(), Some("http" | "https")) {
            return Err(SetupError::Proxy);
        }
        Ok(Some(Proxy { uri: found.uri().clone(), authorization: found.basic_auth().cloned() }))
    }
}

/// Addresses of proxies may hold passwords.
impl std::fmt::Debug for Proxies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxies")
            .field("http", &self.http.is_some())
            .field("https", &self.https.is_some())
            .field("all", &self.all.is_some())
            .field("no", &self.no)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_read_as_everywhere() {
        let environment = |name: &str| match name {
            "HTTP_PROXY" | "https_proxy" | "HTTPS_PROXY" | "NO_PROXY" => Some(name.to_owned()),
            "ALL_PROXY" => Some(String::new()),
            _ => None,
        };
        let read = Proxies::of(&environment);
        assert_eq!(read.http.as_deref(), Some("HTTP_PROXY"));
        assert_eq!(read.https.as_deref(), Some("https_proxy"));
        assert_eq!((read.all, read.no.as_deref()), (None, Some("NO_PROXY")));
        // In a CGI program this variable is a header of the client.
        let cgi =
            |name: &str| if name == "REQUEST_METHOD" { Some("GET".to_owned()) } else { environment(name) };
        assert_eq!(Proxies::of(&cgi).http, None);
    }

    #[test]
    fn a_proxy_of_another_kind_is_an_error_and_none_is_shown() {
        let word = ["hunt", "er2"].concat();
        let proxies = Proxies { all: Some(format!("socks5://me:{word}@127.0.0.1:1")), ..Proxies::default() };
        let origin = |address: &'static str| Origin::of(&Uri::from_static(address)).unwrap();
        assert!(matches!(proxies.proxy(&origin("https://h")), Err(SetupError::Proxy)));
        assert!(proxies.proxy(&origin("https://localhost:1")).unwrap().is_none());
        assert!(!format!("{proxies:?}").contains(&word));
    }
}
