//! What failures of the server mean.

use std::error::Error as _;
use std::fmt::Write as _;

use tokio_postgres::error::SqlState;

use crate::{StoreError, StoreErrorKind};

/// Why something on the server failed. Neither SQL nor stored values get into the text.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(super) kind: StoreErrorKind,
    pub(super) cause: Option<String>,
    /// The connection is of no use any more.
    pub(super) is_lost: bool,
    /// Whoever is at its other end says nothing, so that another connection would hear nothing either.
    pub(super) is_silent: bool,
}

impl Failure {
    pub(super) fn new(kind: StoreErrorKind, cause: impl Into<String>) -> Self {
        Self { kind, cause: Some(cause.into()), is_lost: false, is_silent: false }
    }

    /// The connection does not answer.
    pub(super) fn silent() -> Self {
        let cause = "the server did not answer in time".to_owned();
        Self { kind: StoreErrorKind::Unreachable, cause: Some(cause), is_lost: true, is_silent: true }
    }

    pub(super) fn told(self, place: &str) -> StoreError {
        match self.cause {
            Some(cause) => StoreError::because(place, self.kind, cause).of_server(),
            None => StoreError::new(place, self.kind).of_server(),
        }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(said) = error.as_db_error() else {
            let is_answered = !error.is_closed() && error.source().is_some_and(is_refused);
            let kind = if is_answered { StoreErrorKind::CannotOpen } else { StoreErrorKind::Unreachable };
            return Self { kind, cause: Some(with_causes(&error)), is_lost: true, is_silent: false };
        };
        let (code, kind) = (said.code(), kind_of(said.code()));
        let is_fatal = said.parsed_severity().is_none_or(|severity| {
            use tokio_postgres::error::Severity;
            matches!(severity, Severity::Fatal | Severity::Panic)
        });
        // What the server says about data quotes data.
        let cause = match kind {
            StoreErrorKind::Internal | StoreErrorKind::Corrupt => format!("SQLSTATE {}", code.code()),
            _ => format!("{} (SQLSTATE {})", said.message(), code.code()),
        };
        Self {
            kind,
            cause: Some(cause),
            is_lost: is_fatal || kind == StoreErrorKind::Unreachable,
            is_silent: false,
        }
    }
}

/// Returns whether this is no failure of the network: who answers is not who was meant, or something was said that can't be used.
fn is_refused(cause: &(dyn std::error::Error + 'static)) -> bool {
    let io = cause.downcast_ref::<std::io::Error>();
    io.is_none_or(|io| io.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<rustls::Error>))
}

fn with_causes(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let more = next.to_string();
        if !text.contains(&more) {
            let _ = write!(text, ": {more}");
        }
        cause = next.source();
    }
    text
}

/// By the table of codes in the appendix "PostgreSQL Error Codes" of its manual.
fn kind_of(code: &SqlState) -> StoreErrorKind {
    let class = code.code().get(..2).unwrap_or_default();
    match code.code() {
        // lock_not_available, query_canceled (by a timeout), deadlock_detected.
        "55P03" | "57014" | "40P01" => StoreErrorKind::Locked,
        // disk_full.
        "53100" => StoreErrorKind::Full,
        // read_only_sql_transaction (a standby), insufficient_privilege.
        "25006" | "42501" => StoreErrorKind::ReadOnly,
        // idle_in_transaction_session_timeout.
        "25P03" => StoreErrorKind::Unreachable,
        _ => match class {
            // connection_exception, insufficient_resources, operator_intervention, system_error.
            "08" | "53" | "57" | "58" => StoreErrorKind::Unreachable,
            // invalid_authorization_specification, invalid_catalog_name.
            "28" | "3D" => StoreErrorKind::CannotOpen,
            "XX" => StoreErrorKind::Corrupt,
            _ => StoreErrorKind::Internal,
        },
    }
}
