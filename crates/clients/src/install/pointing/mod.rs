//! Pointing: a client's model calls sent to the gateway of a run.
//!
//! Most programs read an address from a variable. Coding agents have settings of their own, which beat the variable, and
//! some of those come with a repository: one line there sends prompts and key to whoever wrote it. So each client is
//! pointed the way that none of its files undoes, and what would make it speak another service's protocol is switched
//! off, or the run does not begin.
//!
//! The law: *where a client's model calls go is for the person who starts it, never for a repository.* A service that a
//! variable of the environment, the user's own settings or the client's arguments choose, and that the gateway can't
//! stand in for, is an error that names it.
//!
//! Limits: what was seen to hold is what the client of the version in `docs/clients.md` does. A client that is started
//! by another one is not pointed by this. Some clients can't be pointed at all ([`Pointed::Not`]).

mod claude;
mod cline;
mod codex;
mod copilot;
mod goose;
mod opencode;
mod qwen;
mod telemetry;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use serde_json::Value;

use super::once::{Once, OnceError};
use super::{Folders, edit};
use crate::client::Client;

/// The largest file of settings that is read, in bytes.
const MOST_BYTES: u64 = 4 * 1024 * 1024;

/// The gateway of a run, as its program sees it.
#[derive(Clone, Debug)]
pub struct Gateway {
    /// Its address with the run's token, without a slash at its end and without a version.
    pub url: String,
    /// The hosts that no proxy of the environment is asked for, as `NO_PROXY` lists them; the gateway's among them.
    pub no_proxy: String,
    /// Whether it has a key of its own for OpenAI, so that the client's is never used.
    pub has_openai_key: bool,
    /// The clouds whose envelope it takes, having a key of its own there.
    pub clouds: Clouds,
}

/// Clouds that host models of Anthropic's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clouds {
    /// Amazon Bedrock.
    pub bedrock: bool,
    /// Vertex AI.
    pub vertex: bool,
}

impl Gateway {
    /// The address of clients that leave the version to it.
    fn versioned(&self) -> String {
        format!("{}/v1", self.url)
    }

    /// The address at which requests go to that provider.
    fn of_provider(&self, name: &str) -> String {
        format!("{}/p/{name}", self.url)
    }
}

/// What a client is started with, besides its arguments.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// Where its files are.
    pub folders: &'a Folders,
    /// Where the files of the run are.
    pub folder: &'a Path,
    /// What it would inherit.
    pub environment: &'a dyn Fn(&str) -> Option<OsString>,
}

impl Surroundings<'_> {
    /// The variable, where it is set to something.
    fn variable(&self, name: &str) -> Option<OsString> {
        (self.environment)(name).filter(|value| !value.is_empty())
    }

    /// Whether a switch is on: set, and to nothing that programs read as "off".
    fn is_on(&self, name: &str) -> bool {
        self.variable(name).is_some_and(|value| is_on(&value.to_string_lossy()))
    }
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// Whether a client's model calls were pointed at the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointed {
    /// They were, and no file of a repository or of the user undoes it.
    Yes,
    /// They can't be, for this reason.
    Not(&'static str),
}

/// Why a client is not started: its model calls would go elsewhere, or nobody knows where.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PointingError {
    /// The person who starts it chose a service that the gateway can't stand in for.
    #[error("{what} sends its model calls elsewhere, past the proxy")]
    Elsewhere {
        /// What says so, and where.
        what: String,
    },
    /// A file of the project says something that is not known to leave its model calls to the gateway.
    #[error("{what} in `{file}` may send its model calls elsewhere, or what is said in them; {instead}")]
    OfProject {
        /// What is said.
        what: String,
        /// Where.
        file: String,
        /// What the person who starts it can do.
        instead: String,
    },
    /// The settings that it would have had are no settings.
    #[error(transparent)]
    Settings(#[from] OnceError),
}

impl PointingError {
    fn elsewhere(what: impl Into<String>) -> Self {
        Self::Elsewhere { what: what.into() }
    }
}

/// A provider that a client's own login wants, and that nobody configures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoginProvider {
    /// Its name in a path of the gateway.
    pub name: &'static str,
    /// Its address.
    pub base_url: &'static str,
}

/// The provider behind the login of `client`, where it has one that the gateway can stand in for. It speaks OpenAI's
/// protocol and is paid for by the client's own credentials.
pub const fn login_provider(client: Client) -> Option<LoginProvider> {
    match client {
        Client::Codex => Some(codex::LOGIN),
        Client::Copilot => Some(copilot::LOGIN),
        _ => None,
    }
}

/// Adds to `once` what `client` has to be started with so that its model calls go to `gateway`.
///
/// Variables that many programs read, such as `ANTHROPIC_BASE_URL`, are not among it: every program gets those.
///
/// # Errors
///
/// [`PointingError`] when it would go elsewhere all the same.
pub fn point(
    client: Client,
    once: &mut Once,
    gateway: &Gateway,
    given: Surroundings<'_>,
) -> Result<Pointed, PointingError> {
    match client {
        Client::Claude => claude::point(once, gateway, given),
        Client::Codex => codex::point(once, gateway, given),
        Client::Qwen => qwen::point(once, gateway, given),
        Client::OpenCode => opencode::point(once, gateway, given),
        Client::Cline => cline::point(once, gateway, given),
        Client::Copilot => copilot::point(once, gateway, given),
        Client::Gemini => {
            // With a Google login it asks another service, whose protocol the gateway refuses rather than passes on.
            let variables = ["GOOGLE_VERTEX_BASE_URL", "CODE_ASSIST_ENDPOINT"];
            once.variables.extend(variables.map(|name| (name, gateway.url.clone().into())));
            telemetry::settle(client, once, given)?;
            Ok(Pointed::Yes)
        }
        Client::Goose => goose::point(once, gateway, given),
        Client::Kimi => Ok(Pointed::Not("the addresses of its models stand in its own `config.toml`")),
        Client::Cursor | Client::Windsurf | Client::Kiro | Client::Droid | Client::Devin => {
            Ok(Pointed::Not("its models are reached through the service of its maker"))
        }
    }
}

fn is_on(value: &str) -> bool {
    let value = value.trim();
    !value.is_empty() && !["0", "false", "no", "off"].iter().any(|off| value.eq_ignore_ascii_case(off))
}

/// The text of a file; empty where there is none.
fn read(path: &Path) -> Result<String, OnceError> {
    let unreadable = |source| OnceError::Unreadable { place: path.display().to_string(), source };
    // Looked at before it is opened: a pipe would hold the run up.
    match fs::metadata(path) {
        Ok(found) if found.is_file() => {}
        Ok(_) => return Err(unreadable(io::ErrorKind::InvalidInput.into())),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(String::new());
        }
        Err(error) => return Err(unreadable(error)),
    }
    let mut text = String::new();
    let file = fs::File::open(path).map_err(unreadable)?;
    file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
    match u64::try_from(text.len()) {
        Ok(length) if length <= MOST_BYTES => Ok(text),
        _ => Err(OnceError::TooLong { place: path.display().to_string() }),
    }
}

/// The settings in a text with comments, as an object; an empty one where there are none.
fn settings(text: &str, place: &str) -> Result<Value, OnceError> {
    if text.trim().is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    let wrong = |source| OnceError::Settings { place: place.to_owned(), source };
    let node = edit::parse(text).map_err(wrong)?;
    match node.as_ref().map(edit::value_of) {
        None => Ok(Value::Object(serde_json::Map::new())),
        Some(value @ Value::Object(_)) => Ok(value),
        Some(_) => Err(wrong(edit::ConfigError::Shape {
            key: "the whole text".to_owned(),
            line: 1,
            expected: "an object",
        })),
    }
}

fn settings_in(path: &Path) -> Result<Value, OnceError> {
    settings(&read(path)?, &path.display().to_string())
}

/// Puts the fields of `more` over those of `value`, into objects that both have.
fn lay_over(value: &mut Value, more: Value) {
    match (value, more) {
        (Value::Object(fields), Value::Object(more)) => {
            for (name, field) in more {
                match fields.get_mut(&name) {
                    Some(found) => lay_over(found, field),
                    None => drop(fields.insert(name, field)),
                }
            }
        }
        (value, more) => *value = more,
    }
}

/// The values of an option in arguments, however it is written: `-c a`, `-ca`, `--config a`, `--config=a`.
fn values_of<'a>(arguments: &'a [OsString], short: &str, long: &str) -> Vec<&'a str> {
    let mut values = Vec::new();
    let mut rest = arguments.iter().filter_map(|argument| argument.to_str());
    while let Some(argument) = rest.next() {
        if argument == "--" {
            break;
        }
        let glued = |option: &str| argument.strip_prefix(option);
        if argument == long || argument == short {
            values.extend(rest.next());
        } else if let Some(value) = glued(long).and_then(|rest| rest.strip_prefix('=')) {
            values.push(value);
        } else if let Some(value) = glued(short).filter(|_| !argument.starts_with("--")) {
            values.push(value.strip_prefix('=').unwrap_or(value));
        }
    }
    values
}

fn has(arguments: &[OsString], option: &str) -> bool {
    let mut before = arguments.iter().take_while(|argument| *argument != "--");
    let is = |argument: &OsString| {
        argument
            .to_str()
            .and_then(|text| text.strip_prefix(option))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    };
    before.any(is)
}
