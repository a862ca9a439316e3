//! One transaction, of either database.

use std::ops::ControlFlow;

use super::{Row, ToValue};
use crate::NewAuditEntry;
#[cfg(feature = "postgres")]
use crate::postgres::Session;

/// A transaction.
pub(crate) enum Db<'a> {
    Sqlite(&'a rusqlite::Connection),
    #[cfg(feature = "postgres")]
    Postgres(&'a Session<'a>),
}

/// What a statement or a row led to.
pub(crate) type SqlResult<T> = Result<T, SqlError>;

/// Why a statement failed, or a row can't be read.
#[derive(Debug)]
pub(crate) enum SqlError {
    Sqlite(rusqlite::Error),
    #[cfg(feature = "postgres")]
    Postgres(crate::postgres::Failure),
    /// A row holds something else than what was written. It is not quoted.
    Unreadable,
    /// A value has no form in the database.
    Unwritable,
}

impl From<rusqlite::Error> for SqlError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// What ends an operation early and undoes it.
pub(crate) enum Fault<E> {
    /// The database failed.
    Sql(SqlError),
    /// The operation can't be done in this state of the data.
    Refused(E),
}

impl<E> From<SqlError> for Fault<E> {
    fn from(error: SqlError) -> Self {
        Self::Sql(error)
    }
}

impl<E> From<rusqlite::Error> for Fault<E> {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error.into())
    }
}

impl Db<'_> {
    /// Runs a statement. Returns how many rows it changed.
    pub(crate) fn execute(&self, sql: &str, values: &[&dyn ToValue]) -> SqlResult<usize> {
        match self {
            Self::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(sql)?;
                Ok(statement.execute(rusqlite::params_from_iter(bound(values)?))?)
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(session) => session.execute(sql, values),
        }
    }

    /// Shows the rows that a statement finds to a function, until it wants no more.
    pub(crate) fn each(
        &self,
        sql: &str,
        values: &[&dyn ToValue],
        mut see: impl FnMut(&Row<'_>) -> SqlResult<ControlFlow<()>>,
    ) -> SqlResult<()> {
        match self {
            Self::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(sql)?;
                let mut rows = statement.query(rusqlite::params_from_iter(bound(values)?))?;
                while let Some(row) = rows.next()? {
                    if see(&Row::Sqlite(row))?.is_break() {
                        break;
                    }
                }
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(session) => {
                for row in &session.query(sql, values)? {
                    if see(&Row::Postgres(row))?.is_break() {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads all rows that a statement finds.
    pub(crate) fn all<T>(
        &self,
        sql: &str,
        values: &[&dyn ToValue],
        read: impl Fn(&Row<'_>) -> SqlResult<T>,
    ) -> SqlResult<Vec<T>> {
        let mut found = Vec::new();
        self.each(sql, values, |row| {
            found.push(read(row)?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    /// Reads the rows that a statement finds. Those that hold something else than what was written are left out, and it is said of `what` they are, and how many.
    pub(crate) fn readable<T>(
        &self,
        what: &str,
        sql: &str,
        values: &[&dyn ToValue],
        read: impl Fn(&Row<'_>) -> SqlResult<T>,
    ) -> SqlResult<Vec<T>> {
        let (mut found, mut unread) = (Vec::new(), 0);
        self.each(sql, values, |row| {
            match read(row) {
                Ok(value) => found.push(value),
                Err(SqlError::Unreadable) => unread += 1,
                Err(error) => return Err(error),
            }
            Ok(ControlFlow::Continue(()))
        })?;
        tell_unread(what, unread);
        Ok(found)
    }

    /// Reads the first row that a statement finds.
    pub(crate) fn optional<T>(
        &self,
        sql: &str,
        values: &[&dyn ToValue],
        read: impl FnOnce(&Row<'_>) -> SqlResult<T>,
    ) -> SqlResult<Option<T>> {
        let (mut found, mut read) = (None, Some(read));
        self.each(sql, values, |row| {
            found = read.take().map(|read| read(row)).transpose()?;
            Ok(ControlFlow::Break(()))
        })?;
        Ok(found)
    }

    /// Reads the row that a statement always finds.
    pub(crate) fn one<T>(
        &self,
        sql: &str,
        values: &[&dyn ToValue],
        read: impl FnOnce(&Row<'_>) -> SqlResult<T>,
    ) -> SqlResult<T> {
        self.optional(sql, values, read)?.ok_or(SqlError::Unreadable)
    }

    /// Returns whether a statement finds a row.
    pub(crate) fn exists(&self, sql: &str, values: &[&dyn ToValue]) -> SqlResult<bool> {
        Ok(self.optional(sql, values, |_| Ok(()))?.is_some())
    }

    /// Says something in the trail, before the transaction counts.
    pub(crate) fn say(&self, entry: NewAuditEntry) -> SqlResult<()> {
        match self {
            Self::Sqlite(connection) => Ok(crate::sqlite::say(connection, entry)?),
            #[cfg(feature = "postgres")]
            Self::Postgres(session) => {
                session.say(entry);
                Ok(())
            }
        }
    }
}

/// Where the two databases have different words.
impl Db<'_> {
    /// The votes about the question of a row, as JSON: each vote, and the moment at which what it was given with ends. One whose token
    /// is gone has no such moment. A vote that is none fails no statement, since one would fail those of all questions: it is read as none, which makes
    /// its question unreadable; and no token has an escaped character, which a database may not take.
    pub(crate) fn votes(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => {
                "(SELECT json_group_array(json_object('vote', CASE WHEN json_valid(vote) THEN json(vote) END, 'endsAt', \
                  (SELECT CASE WHEN revoked_at < ends_at THEN revoked_at ELSE ends_at END FROM access_tokens \
                  WHERE access_tokens.id = CASE WHEN json_valid(vote) THEN vote ->> 'token' END))) \
                  FROM approval_votes WHERE approval_votes.approval = approvals.id)"
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => {
                "(SELECT coalesce(json_agg(json_build_object('vote', vote, 'endsAt', \
                  (SELECT CASE WHEN revoked_at < ends_at THEN revoked_at ELSE ends_at END FROM access_tokens \
                  WHERE access_tokens.id = CASE WHEN position('\\u' in vote::text) = 0 THEN vote ->> 'token' END)) \
                  ORDER BY approval_votes.row), '[]') \
                  FROM approval_votes WHERE approval_votes.approval = approvals.id)"
            }
        }
    }

    /// What is written over a text that is wiped: zeros of the same length where that overwrites it in place.
    pub(crate) fn nothing_in_its_place(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "zeroblob(octet_length(body))",
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => "''",
        }
    }

    /// Whether nobody deletes from this database but processes of this machine, which have one trail.
    pub(crate) fn is_of_one_machine(&self) -> bool {
        matches!(self, Self::Sqlite(_))
    }

    /// Whether an earlier version kept grants in this database that were bound to no place.
    pub(crate) fn had_earlier_grants(&self) -> bool {
        matches!(self, Self::Sqlite(_))
    }
}

/// Tells of rows that can't be read, without what is in them.
pub(super) fn tell_unread(what: &str, unread: usize) {
    if unread > 0 {
        tracing::warn!(
            what,
            unread,
            "the database has rows that can't be read, which are left out and count for nothing: somebody else wrote them, or it is damaged"
        );
    }
}

fn bound<'v>(values: &'v [&dyn ToValue]) -> SqlResult<Vec<super::Value<'v>>> {
    values.iter().map(ToValue::to_value).collect()
}
