//! A transaction on a connection.

use std::cell::{Cell, RefCell};

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::Failure;
use super::connection::Connection;
use crate::sql::{SqlError, SqlResult, ToValue, Value};
use crate::{NewAuditEntry, StoreErrorKind};

/// A transaction that has begun.
pub(crate) struct Session<'c> {
    connection: &'c Connection,
    said: RefCell<Vec<NewAuditEntry>>,
    /// A statement failed. The server ends such a transaction without an error and without effect, even if it is told to commit it.
    has_failed: Cell<bool>,
    has_written: Cell<bool>,
}

impl<'c> Session<'c> {
    pub(super) fn new(connection: &'c Connection) -> Self {
        Self {
            connection,
            said: RefCell::default(),
            has_failed: Cell::new(false),
            has_written: Cell::new(false),
        }
    }

    pub(crate) fn execute(&self, sql: &str, values: &[&dyn ToValue]) -> SqlResult<usize> {
        let changed = self.with(sql, values, |connection, statement, values| {
            connection.wait_for(connection.client.execute(statement, values))
        })?;
        Ok(usize::try_from(changed).unwrap_or(usize::MAX))
    }

    pub(crate) fn query(&self, sql: &str, values: &[&dyn ToValue]) -> SqlResult<Vec<Row>> {
        self.with(sql, values, |connection, statement, values| {
            connection.wait_for(connection.client.query(statement, values))
        })
    }

    fn with<T>(
        &self,
        sql: &str,
        values: &[&dyn ToValue],
        run: impl FnOnce(&Connection, &tokio_postgres::Statement, &[&(dyn ToSql + Sync)]) -> Result<T, Failure>,
    ) -> SqlResult<T> {
        self.has_written.set(self.has_written.get() || !sql.starts_with("SELECT"));
        let values: Vec<Value<'_>> =
            values.iter().copied().map(ToValue::to_value).collect::<SqlResult<_>>()?;
        let done = sendable(&values).and_then(|()| {
            let statement = self.connection.prepared(sql, values.iter().map(Value::kind).collect())?;
            let values: Vec<&(dyn ToSql + Sync)> =
                values.iter().map(|value| -> &(dyn ToSql + Sync) { value }).collect();
            run(self.connection, &statement, &values)
        });
        done.map_err(|failure| {
            self.has_failed.set(true);
            SqlError::Postgres(failure)
        })
    }

    /// Says something in the trail, before the transaction counts.
    pub(crate) fn say(&self, entry: NewAuditEntry) {
        self.said.borrow_mut().push(entry);
    }

    /// Returns whether there was a statement that may have changed something.
    pub(super) fn has_written(&self) -> bool {
        self.has_written.get()
    }

    /// Returns what was said; `None` if the transaction can't count any more.
    pub(super) fn said(self) -> Option<Vec<NewAuditEntry>> {
        (!self.has_failed.get()).then(|| self.said.into_inner())
    }
}

fn sendable(values: &[Value<'_>]) -> Result<(), Failure> {
    let has_null = values.iter().any(|value| matches!(value, Value::Text(text) if text.contains('\0')));
    match has_null {
        true => {
            let cause = "PostgreSQL keeps no text with a null character";
            Err(Failure::new(StoreErrorKind::Internal, cause))
        }
        false => Ok(()),
    }
}
