//! A server that is asked about each event.
//!
//! It is posted `{"protocol": 1, "hook": NAME, "point": POINT, "event": EVENT}` and answers with the outcome of the point, or
//! `null`; an empty body is no answer. What holds for the connection holds for every
//! [endpoint](backstop_endpoint): `https`, or `http` on this machine; no redirects; answers of at most 1 MiB; an outage is told
//! from an answer that can't be read. Both fail the hook, and at a gate that blocks.

use std::path::PathBuf;
use std::time::Duration;

use backstop_endpoint::{Endpoint, Plain, Words};
use backstop_hooks::{HookError, JsonFuture, JsonHook, Malformed, PointId, Secret, Unambiguous};
use serde::Serialize;
use serde_json::Value;

use super::{PROTOCOL, no_opinion};

const WORDS: Words = Words { what: "endpoint", credentials: "authorization" };
/// Most bytes of a file with credentials.
const MOST_CREDENTIAL_BYTES: u64 = 64 * 1024;

/// Where the value of the `Authorization` header comes from. It is read once, when the hook is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authorization {
    /// An environment variable of this process.
    Variable(String),
    /// A file with nothing else in it.
    File(PathBuf),
}

/// Which server it is.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Where to post to. It may hold a token, and is never shown.
    pub url: Secret,
    /// The credentials, if it wants any.
    pub authorization: Option<Authorization>,
    /// How long to wait for an answer. The hook's budget holds as well.
    pub timeout: Duration,
}

/// Why a server can't be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The settings make no sense.
    #[error("{}", .0.message())]
    Settings(Malformed),
    /// There are no credentials where they should be.
    #[error(
        "there is no `authorization` in {place}: {why}\nhint: it is the whole value of the header, as in `Bearer ...`"
    )]
    NoCredentials {
        /// Where.
        place: String,
        /// What is wrong there.
        why: String,
    },
}

impl Authorization {
    fn read(&self, environment: &dyn Fn(&str) -> Option<String>) -> Result<Secret, HttpError> {
        let (place, found) = match self {
            Self::Variable(name) => (
                format!("the variable `{name}`"),
                environment(name).ok_or_else(|| "it is not set".to_owned()),
            ),
            Self::File(path) => (format!("the file `{}`", path.display()), read_file(path)),
        };
        let found = found.and_then(|text| match text.trim() {
            "" => Err("it is empty".to_owned()),
            text if text.contains('\n') => Err("it has more than one line".to_owned()),
            text => Ok(Secret::new(text.to_owned())),
        });
        found.map_err(|why| HttpError::NoCredentials { place, why })
    }
}

fn read_file(path: &std::path::Path) -> Result<String, String> {
    use std::io::Read as _;
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let read = file.take(MOST_CREDENTIAL_BYTES + 1).read_to_string(&mut text);
    match read {
        Ok(length) if u64::try_from(length).is_ok_and(|length| length <= MOST_CREDENTIAL_BYTES) => Ok(text),
        Ok(_) => Err(format!("it has more than {MOST_CREDENTIAL_BYTES} bytes")),
        Err(error) => Err(error.to_string()),
    }
}

/// One hook of a server.
#[derive(Debug)]
pub struct HttpHook {
    name: String,
    endpoint: Endpoint,
}

#[derive(Serialize)]
struct Body<'a> {
    protocol: u32,
    hook: &'a str,
    point: PointId,
    event: &'a Value,
}

impl HttpHook {
    /// Checks the settings and reads the credentials. The server is not called. `name` tells it which hook is meant.
    ///
    /// # Errors
    ///
    /// [`HttpError`], which names the setting or the place.
    pub fn new(
        name: impl Into<String>,
        settings: &HttpSettings,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, HttpError> {
        let authorization = settings.authorization.as_ref().map(|from| from.read(environment)).transpose()?;
        let header = authorization.as_ref().map(|secret| secret.expose().as_str());
        let endpoint =
            Endpoint::new(settings.url.expose(), header, Plain::ThisMachine, settings.timeout, WORDS)
                .map_err(HttpError::Settings)?;
        Ok(Self { name: name.into(), endpoint })
    }
}

impl JsonHook for HttpHook {
    fn call<'a>(&'a self, point: PointId, event: Value) -> JsonFuture<'a> {
        Box::pin(async move {
            let body = Body { protocol: PROTOCOL, hook: &self.name, point, event: &event };
            let body = serde_json::to_string(&body).map_err(HookError::failed)?;
            let answer = self.endpoint.ask(body).await?;
            if answer.is_empty() {
                return Err(
                    Malformed::new("the endpoint's answer is empty\nhint: no opinion is `null`").into()
                );
            }
            Unambiguous::read(&answer).map(|answer| silence(point, answer)).map_err(|error| {
                let (line, column) = (error.line(), error.column());
                let what = if error.is_data() { "has a key twice" } else { "is no JSON" };
                Malformed::new(format!("the endpoint's answer {what} (line {line}, column {column})")).into()
            })
        })
    }
}

/// A server says nothing with `null` wherever it stands.
fn silence(point: PointId, answer: Value) -> Value {
    if answer.is_null() { no_opinion(point) } else { answer }
}
