//! One connection, and what it must be before it is used.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Client, Statement};

use super::options::PostgresOptions;
use super::{Failure, migrations};
use crate::sql::Kind;
use crate::{StoreErrorKind, Timestamp};

/// By how much the clock of this machine may differ from the server's. Deadlines of questions and leases are written by one machine and read by
/// others.
pub const MOST_CLOCK_DIFFERENCE: Duration = Duration::from_secs(30);

/// How long finding the server, encrypting, and proving who one is may take together.
const MOST_CONNECTING: Duration = Duration::from_secs(5);
/// How much longer than the server itself is waited for its answer.
const GRACE: Duration = Duration::from_secs(5);
/// How long the server waits for the next statement of a transaction, which holds its locks. The trail is written in this time.
const MOST_IDLE: Duration = Duration::from_secs(30);
/// The oldest server that knows `pg_current_xact_id`, `pg_xact_status` and all else that is asked of it.
const OLDEST: i64 = 130_000;

/// A connection. It belongs to one thread, which waits for each answer.
pub(super) struct Connection {
    pub(super) client: Client,
    runtime: Runtime,
    heard: Arc<Notify>,
    statements: RefCell<HashMap<(String, Vec<Kind>), Statement>>,
    patience: Duration,
    /// The server's process for it.
    pub(super) process: i32,
    /// Which server it is, and which of its histories: another one after it was replaced by its standby. `None` if it does not say.
    pub(super) server: Option<String>,
}

impl Connection {
    /// Connects, and brings the schema to the newest version if it is older.
    pub(super) fn open(options: &PostgresOptions) -> Result<Self, Failure> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::new(StoreErrorKind::Stopped, error.to_string()))?;
        let connecting = options.config.connect(options.encryption.clone());
        let connected = runtime.block_on(async { timeout(MOST_CONNECTING, connecting).await });
        let (client, mut connection) = match connected {
            Ok(Ok(connected)) => connected,
            failed => {
                // The system may still be looking for the address.
                runtime.shutdown_background();
                return Err(failed.map_or_else(
                    |_| Failure::silent(),
                    |failed| failed.map_or_else(Failure::from, |_| Failure::silent()),
                ));
            }
        };
        let heard = Arc::new(Notify::new());
        let hears = Arc::clone(&heard);
        runtime.spawn(async move {
            while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notification(_) = message {
                    hears.notify_one();
                }
            }
            hears.notify_one();
        });
        let patience = options.statement.saturating_add(GRACE);
        let statements = RefCell::default();
        let mut opened = Self { client, runtime, heard, statements, patience, process: 0, server: None };
        opened.set_up(options)?;
        migrations::bring_up(&opened, &options.schema)?;
        Ok(opened)
    }

    fn set_up(&mut self, options: &PostgresOptions) -> Result<(), Failure> {
        let (schema, most) = (&options.schema, options.statement.as_millis());
        self.batch(&format!(
            "SET search_path TO \"{schema}\", pg_temp; SET lock_timeout = {most}; SET statement_timeout = {}; \
             SET idle_in_transaction_session_timeout = {}; SET tcp_keepalives_idle = 5; \
             SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3;",
            most.saturating_add(1_000),
            MOST_IDLE.as_millis(),
        ))?;
        let sql = "SELECT current_setting('server_version_num')::bigint, current_setting('server_encoding'), \
                   (extract(epoch FROM clock_timestamp()) * 1000)::bigint, pg_backend_pid(), pg_is_in_recovery(), \
                   current_setting('synchronous_commit') = 'off'";
        let before = Timestamp::now();
        let row = self.wait_for(self.client.query_one(sql, &[]))?;
        let after = Timestamp::now();
        let (version, encoding, clock): (i64, String, i64) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        self.process = row.try_get(3)?;
        let cannot = |cause: String| Err(Failure::new(StoreErrorKind::CannotOpen, cause));
        if version < OLDEST {
            return cannot("the server is older than PostgreSQL 13".to_owned());
        }
        if encoding != "UTF8" {
            return cannot(format!("its encoding is {encoding}, and has to be UTF8"));
        }
        let difference = apart(before, Timestamp::from_millis(clock), after);
        if difference > MOST_CLOCK_DIFFERENCE {
            let seconds = difference.as_secs();
            return cannot(format!(
                "the clocks of this machine and of the server differ by {seconds} s: set them"
            ));
        }
        if row.try_get(4)? {
            return Err(Failure::new(StoreErrorKind::ReadOnly, "the server is a standby"));
        }
        if row.try_get(5)? {
            // A commit that was reported has to survive the server.
            self.batch("SET synchronous_commit = on")?;
        }
        let sql = "SELECT (SELECT system_identifier FROM pg_control_system())::text || ' ' \
                   || left(pg_walfile_name(pg_current_wal_lsn()), 8)";
        self.server = self.wait_for(self.client.query_one(sql, &[])).ok().and_then(|row| row.try_get(0).ok());
        Ok(())
    }

    /// Waits for an answer of the server, up to a deadline.
    pub(super) fn wait_for<T>(
        &self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Failure> {
        let answered = self.runtime.block_on(async { timeout(self.patience, answer).await });
        Ok(answered.map_err(|_| Failure::silent())??)
    }

    /// Waits until the server says that something changed, the connection ends, or `most` has passed. Returns whether it was none but the last.
    pub(super) fn listen(&self, most: Duration) -> bool {
        self.runtime.block_on(async { timeout(most, self.heard.notified()).await.is_ok() })
    }

    /// Runs statements without parameters.
    pub(super) fn batch(&self, sql: &str) -> Result<(), Failure> {
        self.wait_for(self.client.batch_execute(sql))
    }

    /// Returns a statement with numbered parameters of these kinds. There are as many as the program has.
    pub(super) fn prepared(&self, sql: &str, kinds: Vec<Kind>) -> Result<Statement, Failure> {
        let key = (sql.to_owned(), kinds);
        if let Some(known) = self.statements.borrow().get(&key) {
            return Ok(known.clone());
        }
        let types: Vec<_> = key.1.iter().map(|kind| kind.of_server()).collect();
        let statement = self.wait_for(self.client.prepare_typed(&sql.replace('?', "$"), &types))?;
        self.statements.borrow_mut().insert(key, statement.clone());
        Ok(statement)
    }
}

/// By how much a clock that was read between two moments of ours differs from ours at least.
fn apart(before: Timestamp, clock: Timestamp, after: Timestamp) -> Duration {
    clock.until(before).max(after.until(clock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_read_in_between_agrees_and_others_are_apart() {
        let at = Timestamp::from_millis;
        assert_eq!(apart(at(1_000), at(1_500), at(2_000)), Duration::ZERO);
        assert_eq!(apart(at(1_000), at(400), at(2_000)), Duration::from_millis(600));
        assert_eq!(apart(at(1_000), at(2_700), at(2_000)), Duration::from_millis(700));
    }
}
