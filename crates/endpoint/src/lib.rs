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

use std::time::Duration;

use backstop_hooks::{HookError, Malformed, Secret};
use backstop_http_client::tls::Trust;
use backstop_http_client::{Client, Error, Origin, Proxies, Request, Response, Route, Settings};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use url::Url;

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
    authorization: Option<HeaderValue>,
    client: Client,
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
        let origin = Origin::of_url(&url).ok_or_else(|| Malformed::new("`url` has no host"))?;
        let away_and_plain = !origin.is_encrypted() && !origin.is_loopback();
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
        let client = Client::new(Settings {
            trust: Trust::System,
            route: Route::Proxied(Proxies::of_process()),
            connect_timeout: timeout,
            timeout: Some(timeout),
        });
        Ok(Self { words, url: Secret::new(url), authorization, client })
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
        let answer = self.post(body).await?;
        answer.whole(MOST_ANSWER_BYTES).await.map_err(|error| self.broken_off(&error))
    }

    async fn post(&self, body: String) -> Result<Response, HookError> {
        let mut headers = HeaderMap::new();
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let request = Request { method: Method::POST, url: self.url.expose(), headers, body: body.into() };
        let response = self.client.send(request).await.map_err(|error| self.unanswered(&error))?;
        let (status, what) = (response.status(), self.words.what);
        match status.as_u16() {
            200..=299 => Ok(response),
            408 | 429 | 500..=599 => Err(HookError::Unreachable(format!("the {what} answered {status}"))),
            _ => Err(HookError::failed(format!("the {what} answered {status}"))),
        }
    }

    /// Why there is no answer.
    fn unanswered(&self, error: &Error) -> HookError {
        let what = self.words.what;
        let why = match error {
            Error::Address(_) | Error::Setup(_) => {
                return HookError::failed(format!("no http client: {error}"));
            }
            error if error.is_timeout() => "no answer in time",
            error if error.is_connect() => "no connection",
            error if error.is_no_http() => {
                return Malformed::new(format!("the {what}'s answer is no HTTP")).into();
            }
            _ => "a connection that broke",
        };
        HookError::Unreachable(format!("the {what} gave {why}"))
    }

    /// Why an answer that has begun has no end.
    fn broken_off(&self, error: &Error) -> HookError {
        let what = self.words.what;
        match error {
            error if error.is_timeout() => self.unanswered(error),
            Error::TooLarge(_) => Malformed::new(format!("the {what}'s answer has more than 1 MiB")).into(),
            _ => Malformed::new(format!("the {what}'s answer broke off")).into(),
        }
    }
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
