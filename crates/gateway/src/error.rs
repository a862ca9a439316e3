//! What goes wrong: at the start ([`StartError`]), and for one request ([`Failure`]).

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use backstop_llm::frames::BadFrame;
use backstop_llm::{ProviderError, ProviderErrorKind};
use http::{Method, StatusCode};
use thiserror::Error;

use crate::auth::AuthError;
use crate::cloud::{MOST_FIELDS, NotSpoken, Unspoken};
use crate::compression::Undecodable;
use crate::endpoint::{AmbiguousPath, Family};
use crate::operations;
use crate::query::Strange;
use crate::quota::NoRoom;
use crate::upstream::{BodyError, NoKey, SendError};

/// Why a gateway does not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// Nobody can listen there.
    #[error("{address} can't be listened on: {source}{}", in_use(.source))]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Nobody can listen for operators there.
    #[error(
        "`gateway.operators.listen`: {address} can't be listened on: {source}\nhint: give operators another address there, or port 0 for a free one"
    )]
    ListenForOperators {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Operators would be answered where everybody is.
    #[error(
        "`gateway.operators.listen` is {0}, where the gateway listens itself\nhint: give operators another port there, or leave the key out"
    )]
    OperatorsHere(SocketAddr),
    /// Operators of a running gateway are answered where they were.
    #[error("`gateway.operators.listen` can't change while the gateway runs\nhint: start it anew")]
    OperatorsMoved,
    /// A running gateway stays where it is.
    #[error("the gateway listens at {from}, and can't move to {to} while it runs\nhint: start it anew")]
    Moved {
        /// Where it listens.
        from: SocketAddr,
        /// Where it was to.
        to: SocketAddr,
    },
    /// Its certificates are of no use.
    #[error("`{file}` can't be used for TLS: {problem}")]
    Tls {
        /// Where they are from.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// A provider can't be asked as it is configured.
    #[error("provider `{name}`: {problem}")]
    Provider {
        /// Its name.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// Requests are to go to a provider that does not exist.
    #[error("{place} names the provider `{name}`, which does not exist")]
    NoProvider {
        /// The name.
        name: String,
        /// Who names it.
        place: String,
    },
    /// A pattern of model names is none.
    #[error("`{pattern}` in {place} is not a pattern of model names")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Where it stands.
        place: String,
    },
    /// The token that opens the gateway can be guessed.
    #[error(
        "`gateway.token` is too short: it has fewer than 16 bytes\nhint: leave it out, and one is made at each start"
    )]
    ShortToken,
    /// The token of operators can be guessed, or an agent has it.
    #[error(
        "`gateway.operators.token` {problem}\nhint: give operators a long random one of their own, for example by `openssl rand -hex 32`, and keep it where no agent can read it"
    )]
    OperatorToken {
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Somebody is to vouch for callers who can't.
    #[error("the issuer `{issuer}` in `gateway.identity` {problem}")]
    Issuer {
        /// Its name.
        issuer: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// People are to sign in at an issuer, and can't.
    #[error("the issuer `{issuer}` in `gateway.console.oidc` {problem}")]
    SignIn {
        /// Its name.
        issuer: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// Two agents can't be told apart, or one can be guessed.
    #[error(
        "the token of agent `{agent}` {problem}\nhint: give each of `gateway.agents` a long random one of its own, for example by `openssl rand -hex 32`"
    )]
    Token {
        /// The agent.
        agent: String,
        /// What is wrong with its token.
        problem: &'static str,
    },
}

impl StartError {
    pub(crate) fn issuer(issuer: &str, problem: &'static str) -> Self {
        Self::Issuer { issuer: issuer.to_owned(), problem }
    }

    pub(crate) fn provider(name: &str, problem: &str) -> Self {
        Self::Provider { name: name.to_owned(), problem: problem.to_owned() }
    }
}

fn in_use(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "\nhint: another process listens there; choose another port with `--port`, or 0 for a free one"
        }
        _ => "",
    }
}

/// Why a request is not answered by a provider.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Refused(#[from] AuthError),
    #[error(transparent)]
    Ambiguous(#[from] AmbiguousPath),
    #[error(
        "no provider is configured for requests of the {api} API\nhint: name one in `gateway.providers.{api}`",
        api = .0.as_str()
    )]
    NoProvider(Family),
    #[error(
        "no provider in Amazon Bedrock is configured for this, and only there is it spoken\nhint: a provider with `api: anthropic`, `cloud: bedrock` and a `region` is asked for any model there"
    )]
    NoBedrock,
    #[error(
        "no provider is called `{0}`\nhint: `/p/<name>/` in front of a path takes the names of `providers`"
    )]
    UnknownProvider(String),
    #[error(
        "no configured provider may be asked for this model\nhint: `providers.<name>.models` lists those that may be"
    )]
    ModelNotOffered,
    #[error(
        "the request names no model, and only certain models may be asked for\nhint: `providers.<name>.models` lists them"
    )]
    NoModel,
    #[error("the provider `{provider}` can't be asked: {reason}")]
    NoKey { provider: String, reason: NoKey },
    #[error(
        "the request's body is too large; at most {0} bytes are allowed\nhint: `gateway.limits.max_body_bytes` says how many"
    )]
    TooLarge(usize),
    #[error(transparent)]
    NotSpoken(#[from] NotSpoken),
    #[error("the provider `{provider}` can't be asked for this: {reason}")]
    Unspoken { provider: String, reason: Unspoken },
    #[error("the request's body did not come within the time allowed")]
    Slow,
    #[error(
        "the request's body takes too long: it came with less than {0} bytes a second\nhint: `gateway.limits.min_body_rate` says how many it has to be"
    )]
    Dripping(u64),
    #[error("the request's body broke off")]
    Broken,
    #[error(
        "the request's body is no JSON object, or has a key twice or more than {MOST_FIELDS} fields: its address names a model, and what the body says of one can't be told"
    )]
    Unclear,
    #[error("the request's body can't be read: {0}")]
    Undecodable(Undecodable),
    #[error(
        "`{0}` is not among the operations that pass here\nhint: `gateway.allow: [\"{0}\"]` opens this one; in its place a segment that changes may stand as `{{id}}`"
    )]
    Closed(String),
    #[error(
        "WebSockets do not pass here: send the request over HTTP, where its answer streams as server-sent events"
    )]
    Socket,
    #[error(
        "the provider `{provider}` opens no WebSocket (it answered {status}): send the request over HTTP, where its answer streams as server-sent events"
    )]
    NoSocket { provider: String, status: StatusCode },
    #[error(
        "the query holds `{0}`, which does not pass with the key of this proxy\nhint: leave it out, or send your own key to a provider that is configured without one"
    )]
    Query(String),
    #[error(transparent)]
    Address(#[from] Strange),
    #[error("this is no opening of a WebSocket (RFC 6455): {0}")]
    Handshake(&'static str),
    #[error("{0}")]
    Message(String),
    #[error("{0}\nhint: `retry-after` says when there may be room")]
    Quota(NoRoom),
    #[error("too much is going on at once; try again later")]
    Overloaded,
    #[error("this proxy stops, and what was asked did not end in time; try again later")]
    Stopping,
    #[error("the provider `{provider}` gave no answer: {cause}")]
    Upstream { provider: String, cause: Cause },
}

/// Why a provider gave no answer, or no whole one.
#[derive(Debug, Error)]
pub(crate) enum Cause {
    #[error(transparent)]
    Send(#[from] SendError),
    #[error("the connection broke in the middle of the answer")]
    Broken,
    #[error("nothing more of the answer came within {0:?}")]
    Silent(Duration),
    #[error("the answer can't be read: {0}")]
    Undecodable(Undecodable),
    #[error("the answer can't be read: {0}")]
    Frames(BadFrame),
    #[error("its answer is empty")]
    Empty,
}

impl From<NoRoom> for Failure {
    fn from(no_room: NoRoom) -> Self {
        match no_room {
            NoRoom::Callers => Self::Overloaded,
            no_room => Self::Quota(no_room),
        }
    }
}

impl From<BodyError> for Failure {
    fn from(error: BodyError) -> Self {
        Self::of_body(&error)
    }
}

impl Failure {
    /// A request for an operation that is neither listed nor opened.
    pub(crate) fn closed(method: &Method, path: &str) -> Self {
        Self::Closed(operations::name_of(method, path))
    }

    /// What is wrong with a request's own body.
    pub(crate) fn of_body(error: &BodyError) -> Self {
        match error {
            BodyError::TooLarge(limit) => Self::TooLarge(*limit),
            BodyError::Slow(_) => Self::Slow,
            BodyError::Dripping(rate) => Self::Dripping(*rate),
            BodyError::Broken(_) => Self::Broken,
        }
    }

    /// After how many seconds it may be worth to ask again.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        match self {
            Self::Overloaded | Self::Stopping => Some(1),
            Self::Quota(no_room) => Some(no_room.retry_after()),
            Self::NoKey { reason: NoKey::Unleased(unleased), .. } => {
                Some(unleased.retry_after.as_millis().div_ceil(1000).try_into().unwrap_or(1).max(1))
            }
            _ => None,
        }
    }

    /// The failure in the words that wires have for it.
    pub(crate) fn to_provider_error(&self) -> ProviderError {
        use ProviderErrorKind as Kind;
        let (kind, status) = match self {
            Self::Refused(AuthError::Token | AuthError::Ended | AuthError::Signed(_)) => (Kind::Auth, 401),
            Self::Refused(AuthError::Host | AuthError::Origin | AuthError::Agent) => (Kind::Auth, 403),
            Self::Closed(_) | Self::NotSpoken(_) => (Kind::InvalidRequest, 403),
            Self::Refused(AuthError::Path | AuthError::ForOperators) | Self::Ambiguous(_) => {
                (Kind::InvalidRequest, 400)
            }
            Self::Refused(AuthError::Method) => (Kind::InvalidRequest, 405),
            Self::Undecodable(Undecodable::TooLarge) => (Kind::RequestTooLarge, 413),
            Self::NoModel | Self::Broken | Self::Unclear | Self::Undecodable(_) | Self::Unspoken { .. } => {
                (Kind::InvalidRequest, 400)
            }
            Self::NoProvider(_) | Self::NoBedrock | Self::UnknownProvider(_) | Self::ModelNotOffered => {
                (Kind::NotFound, 404)
            }
            Self::Slow | Self::Dripping(_) => (Kind::InvalidRequest, 408),
            Self::Handshake(_) | Self::Message(_) | Self::Query(_) | Self::Address(_) => {
                (Kind::InvalidRequest, 400)
            }
            Self::Socket | Self::NoSocket { .. } => (Kind::InvalidRequest, 426),
            Self::TooLarge(_) => (Kind::RequestTooLarge, 413),
            Self::Quota(_) => (Kind::RateLimit, 429),
            Self::Overloaded | Self::Stopping => (Kind::Overloaded, 503),
            Self::NoKey { reason: NoKey::Missing(_), .. } => (Kind::Server, 500),
            Self::NoKey { reason: NoKey::Unleased(_), .. } => (Kind::Overloaded, 503),
            Self::Upstream { cause, .. } if cause.is_silence() => (Kind::Server, 504),
            Self::Upstream { .. } => (Kind::Server, 502),
        };
        let code = matches!(self, Self::Closed(_) | Self::NotSpoken(_)).then_some("operation_not_allowed");
        ProviderError::new(kind, status, code, &format!("backstop: {}", self.told()))
    }

    /// What a client is told of it. Files and programs of the operator's are in the log alone.
    fn told(&self) -> String {
        let Self::NoKey { provider, reason } = self else { return self.to_string() };
        tracing::warn!(provider, %reason, "a provider can't be asked");
        let told = match reason {
            NoKey::Missing(_) => "what is to pay for it is missing\nhint: the log of the gateway says what",
            NoKey::Unleased(_) => "its credentials can't be had now; try again later",
        };
        format!("the provider `{provider}` can't be asked: {told}")
    }
}

impl Cause {
    fn is_silence(&self) -> bool {
        matches!(self, Self::Silent(_) | Self::Send(SendError::Silent(_)))
    }
}
