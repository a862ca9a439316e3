//! What can go wrong between Backstop and a model.
//!
//! Three layers: a provider says no ([`ProviderError`]), bytes make no sense ([`WireError`]), a call fails
//! ([`ModelError`], which holds the other two). No message holds a key, and none holds what was sent; what
//! a provider writes into its error body is shown shortened, and not at all where it may quote the key.

use std::time::Duration;

use thiserror::Error;

/// What kind of no a provider said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProviderErrorKind {
    /// The key is missing, wrong, or not allowed to do this.
    Auth,
    /// Too many requests or tokens.
    RateLimit,
    /// The account has no credit left.
    Quota,
    /// The provider has no capacity just now.
    Overloaded,
    /// The request is not understood.
    InvalidRequest,
    /// The conversation is longer than the model can read.
    ContextLength,
    /// The request's body is larger than the provider takes.
    RequestTooLarge,
    /// No such model or address.
    NotFound,
    /// The provider's safety filter refused.
    ContentFilter,
    /// The provider failed.
    Server,
    /// An answer that is none of the above (a redirect, an unknown status).
    Unexpected,
}

/// A provider's no.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the provider answered {status}{}: {message}{}", code_suffix(.code), hint_suffix(.hint))]
pub struct ProviderError {
    /// What kind.
    pub kind: ProviderErrorKind,
    /// HTTP status; for an error inside a stream, the status that its kind would have had.
    pub status: u16,
    /// The provider's own name of the error, if it gave one.
    pub code: Option<String>,
    /// What the provider wrote, shortened.
    pub message: String,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
    /// What the reader can do.
    pub hint: Option<String>,
}

fn code_suffix(code: &Option<String>) -> String {
    code.as_deref().map(|code| format!(" `{code}`")).unwrap_or_default()
}

fn hint_suffix(hint: &Option<String>) -> String {
    hint.as_deref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default()
}

const MAX_MESSAGE_CHARS: usize = 500;
const MAX_CODE_CHARS: usize = 80;

impl ProviderError {
    /// An error of the given kind and status. The message is shortened and kept on one line.
    pub fn new(kind: ProviderErrorKind, status: u16, code: Option<&str>, message: &str) -> Self {
        Self {
            kind,
            status,
            code: code.filter(|code| !code.is_empty()).map(|code| one_line(code, MAX_CODE_CHARS)),
            message: one_line(message, MAX_MESSAGE_CHARS),
            retry_after: None,
            hint: None,
        }
    }

    /// Whether the same request may succeed a little later.
    pub fn is_transient(&self) -> bool {
        match self.kind {
            ProviderErrorKind::RateLimit | ProviderErrorKind::Overloaded | ProviderErrorKind::Server => true,
            ProviderErrorKind::Unexpected => matches!(self.status, 408 | 409),
            ProviderErrorKind::Auth
            | ProviderErrorKind::Quota
            | ProviderErrorKind::InvalidRequest
            | ProviderErrorKind::ContextLength
            | ProviderErrorKind::RequestTooLarge
            | ProviderErrorKind::NotFound
            | ProviderErrorKind::ContentFilter => false,
        }
    }
}

/// `text` without control characters, at most `limit` characters long.
pub(crate) fn one_line(text: &str, limit: usize) -> String {
    let mut line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(limit)
        .collect::<String>()
        .trim()
        .to_owned();
    if text.chars().nth(limit).is_some() {
        line.push('…');
    }
    line
}

impl ProviderErrorKind {
    /// The kind that an HTTP status stands for, when the body does not say more.
    pub fn of_status(status: u16) -> Self {
        match status {
            401 | 403 => Self::Auth,
            402 => Self::Quota,
            404 => Self::NotFound,
            413 => Self::RequestTooLarge,
            429 => Self::RateLimit,
            503 | 529 => Self::Overloaded,
            400 | 405 | 406 | 410..=412 | 414..=428 | 430..=499 => Self::InvalidRequest,
            500..=599 => Self::Server,
            _ => Self::Unexpected,
        }
    }

    /// The HTTP status that a server answers an error of this kind with.
    pub fn status(self) -> u16 {
        match self {
            Self::Auth => 401,
            Self::Quota => 402,
            Self::RateLimit => 429,
            Self::Overloaded => 529,
            Self::InvalidRequest | Self::ContextLength | Self::ContentFilter => 400,
            Self::RequestTooLarge => 413,
            Self::NotFound => 404,
            Self::Server | Self::Unexpected => 500,
        }
    }
}

/// Bytes that are not what the wire's documentation promises.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// Not JSON.
    #[error("{what} is not JSON: {reason}")]
    NotJson {
        /// What was read.
        what: &'static str,
        /// Why, with line and column; never the text.
        reason: String,
    },
    /// JSON of a shape that the wire does not have.
    #[error("{what}: `{field}` {problem}")]
    Malformed {
        /// What was read.
        what: &'static str,
        /// The field.
        field: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The stream says something that is impossible at this place, or that can be understood in two ways.
    #[error("the stream is out of order: {problem}")]
    OutOfOrder {
        /// What is wrong.
        problem: String,
    },
    /// The stream ended before the answer was whole.
    #[error("the answer ended before it was whole")]
    Truncated,
    /// One event is larger than allowed.
    #[error("an event of the stream is larger than {limit} bytes")]
    EventTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The answer holds several alternatives, of which only one could be judged.
    #[error("the answer has more than one choice\nhint: ask for one (`n: 1`, `candidateCount: 1`)")]
    SeveralChoices,
    /// The provider reported an error inside the stream.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

/// What a provider says at the wrong place, or twice and differently.
pub(crate) fn out_of_order(problem: impl Into<String>) -> WireError {
    WireError::OutOfOrder { problem: problem.into() }
}

/// Which wait was too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeoutPhase {
    /// Until the connection stood.
    Connect,
    /// From the request to the first byte of the answer.
    FirstByte,
    /// Between two pieces of the answer.
    Idle,
    /// The call as a whole, retries included.
    Total,
}

impl std::fmt::Display for TimeoutPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Connect => "no connection",
            Self::FirstByte => "no answer began",
            Self::Idle => "the answer stalled",
            Self::Total => "the call did not end",
        })
    }
}

/// Why a call of a model failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ModelError {
    /// The provider said no.
    #[error(transparent)]
    Provider(ProviderError),
    /// The answer makes no sense.
    #[error("the provider's answer cannot be used: {0}")]
    Wire(#[source] WireError),
    /// No connection.
    #[error("no connection to `{host}`: {reason}")]
    Connect {
        /// Host and port.
        host: String,
        /// Why.
        reason: String,
    },
    /// The connection broke off after it stood.
    #[error("the connection to `{host}` broke off: {reason}")]
    Interrupted {
        /// Host and port.
        host: String,
        /// Whether the other side reset it, in place of closing it too early.
        reset: bool,
        /// Why.
        reason: String,
    },
    /// A wait was too long.
    #[error("{phase} within {} ms", .after.as_millis())]
    Timeout {
        /// Which wait.
        phase: TimeoutPhase,
        /// How long it was.
        after: Duration,
    },
    /// The answer is larger than allowed.
    #[error("the answer is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// The HTTP client could not be set up.
    #[error("the HTTP client cannot start: {reason}")]
    Setup {
        /// Why.
        reason: String,
    },
}

impl From<WireError> for ModelError {
    fn from(error: WireError) -> Self {
        match error {
            WireError::Provider(error) => Self::Provider(error),
            other => Self::Wire(other),
        }
    }
}

/// The coarse reason of a failed call, as `model_call_ended` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCategory {
    /// Key missing, wrong or without rights.
    Auth,
    /// Too many requests, or no credit.
    RateLimit,
    /// No capacity.
    Overloaded,
    /// The request is at fault.
    InvalidRequest,
    /// The conversation is too long.
    ContextLength,
    /// The provider is at fault.
    Server,
    /// Connection and TLS.
    Network,
    /// A wait was too long.
    Timeout,
    /// The answer could not be used.
    Protocol,
    /// The provider's filter refused.
    ContentFilter,
}

impl ErrorCategory {
    /// The name in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::RateLimit => "rate_limit",
            Self::Overloaded => "overloaded",
            Self::InvalidRequest => "invalid_request",
            Self::ContextLength => "context_length",
            Self::Server => "server",
            Self::Network => "network",
            Self::Timeout => "timeout",
            Self::Protocol => "protocol",
            Self::ContentFilter => "content_filter",
        }
    }
}

/// How the transport failed, as `model_call_ended` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// The caller gave up: the stream was dropped. Named by callers; no [`ModelError`] has it.
    Aborted,
    /// The connection was closed, or never stood.
    ConnectionClosed,
    /// The other side reset the connection.
    ConnectionReset,
    /// The answer ended before it was whole.
    Terminated,
    /// A wait was too long.
    Timeout,
}

impl FailureKind {
    /// The name in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Aborted => "aborted",
            Self::ConnectionClosed => "connection_closed",
            Self::ConnectionReset => "connection_reset",
            Self::Terminated => "terminated",
            Self::Timeout => "timeout",
        }
    }
}

impl ModelError {
    /// The coarse reason.
    pub fn category(&self) -> ErrorCategory {
        match self {
            Self::Provider(error) => match error.kind {
                ProviderErrorKind::Auth => ErrorCategory::Auth,
                ProviderErrorKind::RateLimit | ProviderErrorKind::Quota => ErrorCategory::RateLimit,
                ProviderErrorKind::Overloaded => ErrorCategory::Overloaded,
                ProviderErrorKind::InvalidRequest
                | ProviderErrorKind::RequestTooLarge
                | ProviderErrorKind::NotFound => ErrorCategory::InvalidRequest,
                ProviderErrorKind::ContextLength => ErrorCategory::ContextLength,
                ProviderErrorKind::ContentFilter => ErrorCategory::ContentFilter,
                ProviderErrorKind::Server | ProviderErrorKind::Unexpected => ErrorCategory::Server,
            },
            Self::Wire(_) | Self::TooLarge { .. } => ErrorCategory::Protocol,
            Self::Connect { .. } | Self::Interrupted { .. } | Self::Setup { .. } => ErrorCategory::Network,
            Self::Timeout { .. } => ErrorCategory::Timeout,
        }
    }

    /// How the transport failed, if it did.
    pub fn failure_kind(&self) -> Option<FailureKind> {
        match self {
            Self::Provider(_) | Self::Setup { .. } => None,
            Self::Wire(WireError::Truncated) | Self::TooLarge { .. } => Some(FailureKind::Terminated),
            Self::Wire(_) => None,
            Self::Connect { .. } | Self::Interrupted { reset: false, .. } => {
                Some(FailureKind::ConnectionClosed)
            }
            Self::Interrupted { reset: true, .. } => Some(FailureKind::ConnectionReset),
            Self::Timeout { .. } => Some(FailureKind::Timeout),
        }
    }

    /// Whether the same request may be sent again without the risk that it is answered (and paid) twice.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Provider(error) => error.is_transient(),
            Self::Connect { .. } | Self::Timeout { phase: TimeoutPhase::Connect, .. } => true,
            Self::Wire(_)
            | Self::Interrupted { .. }
            | Self::Timeout { .. }
            | Self::TooLarge { .. }
            | Self::Setup { .. } => false,
        }
    }
}
