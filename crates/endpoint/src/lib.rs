//! An endpoint: an HTTP server that is posted JSON about a call and answers JSON. Webhooks and hooks over HTTP are asked
//! through it.
//!
//! An outage is that nobody answered: no connection, one that ends before an answer begins, no answer in time, or a server
//! that says it can't (408, 429, 5xx). Anything else is an answer, and where it is none that can be read, nobody knows what it
//! said; it may have been no. So the two are told apart: [`HookError::Unreachable`], and everything else.
//!
//! INVARIANT (credentials stay private): they leave this machine encrypted or not at all. Plain HTTP with them is for loopback
//! addresses, which are never asked through a proxy, and redirects are not followed, since they would carry what is judged and
//! the credentials to somebody else. The address may hold a token, so no error and no `Debug` shows it.
//!
//! Limits: an answer has at most 1 MiB. Connections are kept and used again.

use std::error::Error as _;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

use backstop_hooks::{HookError, Malformed, Secret};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};

/// Most bytes of an answer.
pub const MOST_ANSWER_BYTES: usize = 1 << 20;

/// How an endpoint is spoken of in errors, and which settings they name.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// What it is: `webhook`.
    pub what: &'static str,
    /// The setting with the credentials: `auth_header`.
    pub credentials: &'static str,
}

/// Where plain HTTP without credentials may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain {
    /// Anywhere.
    Anywhere,
    /// To this machine only.
    ThisMachine,
}

/// An endpoint, ready to be asked.
#[derive(Debug)]
pub struct Endpoint {
    words: Words,
    url: Secret<Url>,
    on_this_machine: bool,
    authorization: Option<HeaderValue>,
    timeout: Duration,
    client: OnceLock<Result<reqwest::Client, String>>,
}

impl Endpoint {
    /// Checks the address and the credentials, which are the value of the `Authorization` header. Nothing is called.
    ///
    /// # Errors
    ///
    /// [`Malformed`] naming the setting, without its value.
    pub fn new(
        url: &str,
        authorization: Option<&str>,
        plain: Plain,
        timeout: Duration,
        words: Words,
    ) -> Result<Self, Malformed> {
        let credentials = words.credentials;
        let url = Url::parse(url).map_err(|error| Malformed::new(format!("`url`: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Malformed::new("`url` must begin with `http://` or `https://`"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Malformed::new(format!(
                "`url` must not hold a user name or password\nhint: put them into `{credentials}`"
            )));
        }
        let on_this_machine = is_loopback(&url);
        let away_and_plain = url.scheme() == "http" && !on_this_machine;
        let authorization = match authorization {
            None | Some("") => None,
            Some(header) => {
                let mut value = HeaderValue::from_str(header).map_err(|_| {
                    Malformed::new(format!("`{credentials}` has characters that a header can't have"))
                })?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        if authorization.is_some() && away_and_plain {
            return Err(Malformed::new(format!(
                "`{credentials}` would travel unencrypted to `url`\nhint: use `https://`; plain `http://` is for this machine only"
            )));
        }
        if plain == Plain::ThisMachine && away_and_plain {
            return Err(Malformed::new(
                "what is judged would travel unencrypted to `url`\nhint: use `https://`; plain `http://` is for this machine only",
            ));
        }
        let url = Secret::new(url);
        Ok(Self { words, url, on_this_machine, authorization, timeout, client: OnceLock::new() })
    }

    /// Posts JSON; the answer is not read.
    ///
    /// # Errors
    ///
    /// [`HookError`], where the endpoint has not taken it.
    pub async fn tell(&self, body: String) -> Result<(), HookError> {
        self.post(body).await.map(drop)
    }

    /// Posts JSON and reads the answer.
    ///
    /// # Errors
    ///
    /// [`HookError`], where there is no whole answer of a server that says it is one.
    pub async fn ask(&self, body: String) -> Result<Vec<u8>, HookError> {
        let mut response = self.post(body).await?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.broken_off(&error))? {
            if body.len().saturating_add(chunk.len()) > MOST_ANSWER_BYTES {
                return Err(
                    Malformed::new(format!("the {}'s answer has more than 1 MiB", self.words.what)).into()
                );
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    async fn post(&self, body: String) -> Result<reqwest::Response, HookError> {
        let client = self.client.get_or_init(|| client(self.on_this_machine));
        let client =
            client.as_ref().map_err(|error| HookError::failed(format!("no http client: {error}")))?;
        let mut request = client.post(self.url.expose().clone()).timeout(self.timeout);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let request = request.header(CONTENT_TYPE, "application/json").body(body);
        // The error's own text would quote the address.
        let response = request.send().await.map_err(|error| self.unanswered(&error))?;
        let (status, what) = (response.status(), self.words.what);
        match status.as_u16() {
            200..=299 => Ok(response),
            408 | 429 | 500..=599 => Err(HookError::Unreachable(format!("the {what} answered {status}"))),
            _ => Err(HookError::failed(format!("the {what} answered {status}"))),
        }
    }

    /// Why there is no answer. The error's own text would quote the address.
    fn unanswered(&self, error: &reqwest::Error) -> HookError {
        let what = self.words.what;
        let why = match error {
            error if error.is_timeout() => "no answer in time",
            error if error.is_connect() => "no connection",
            error if is_nonsense(error) => {
                return Malformed::new(format!("the {what}'s answer is no HTTP")).into();
            }
            _ => "a connection that broke",
        };
        HookError::Unreachable(format!("the {what} gave {why}"))
    }

    /// Why an answer that has begun has no end.
    fn broken_off(&self, error: &reqwest::Error) -> HookError {
        match error.is_timeout() {
            true => self.unanswered(error),
            false => Malformed::new(format!("the {}'s answer broke off", self.words.what)).into(),
        }
    }
}

/// Whether the endpoint is on this machine.
fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

fn client(on_this_machine: bool) -> Result<reqwest::Client, String> {
    // An error means that a provider of cryptography is installed, which is all that is wanted.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    if on_this_machine {
        // Neither a proxy nor a name server may turn this machine into another one. The port is the URL's.
        let addresses: [SocketAddr; 2] = [(Ipv4Addr::LOCALHOST, 0).into(), (Ipv6Addr::LOCALHOST, 0).into()];
        builder = builder.no_proxy().resolve_to_addrs("localhost", &addresses);
    }
    builder.build().map_err(|error| error.to_string())
}

/// Whether something was answered that the protocol does not know.
fn is_nonsense(error: &reqwest::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = error.source();
    while let Some(error) = cause {
        if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse) {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: Words = Words { what: "endpoint", credentials: "auth" };

    fn endpoint(url: &str, auth: Option<&str>, plain: Plain) -> Result<Endpoint, Malformed> {
        Endpoint::new(url, auth, plain, Duration::from_secs(1), WORDS)
    }

    #[test]
    fn plain_http_is_for_this_machine() {
        for away in [
            "http://example.com/",
            "http://10.0.0.1/",
            "http://localhost.example.com/",
            "http://127.0.0.1.example.com/",
            "http://0.0.0.0/",
            "http://[fe80::1]/",
        ] {
            for (auth, plain) in [(Some("Bearer x"), Plain::Anywhere), (None, Plain::ThisMachine)] {
                let error = endpoint(away, auth, plain).unwrap_err();
                assert!(error.message().contains("unencrypted"), "{away}: {error}");
            }
            assert!(endpoint(away, None, Plain::Anywhere).is_ok(), "{away}");
        }
        for here in ["http://127.0.0.1:8080/", "http://localhost/", "http://[::1]/", "https://example.com/"] {
            assert!(endpoint(here, Some("Bearer x"), Plain::ThisMachine).is_ok(), "{here}");
        }
    }

    #[test]
    fn address_and_credentials_are_not_shown() {
        let shown = endpoint("http://127.0.0.1/?token=hunter2", Some("Bearer hunter2"), Plain::Anywhere);
        assert!(!format!("{:?}", shown.unwrap()).contains("hunter2"));
        for (url, auth) in [
            ("https://me:hunter2@example.com/", None),
            ("http://[/", Some("hunter2")),
            ("https://x/", Some("hunter2\n")),
        ] {
            let error = endpoint(url, auth, Plain::Anywhere).unwrap_err();
            assert!(!error.message().contains("hunter2"), "{error}");
        }
    }
}
