//! One connection, and what it must be before it is used.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_postgres::error::Severity;
use tokio_postgres::{AsyncMessage, Client, SimpleQueryMessage, Statement};

use super::history::Seen;
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
/// The oldest server that knows `pg_current_xact_id`, `pg_xact_status` and all else that is asked of it.
const OLDEST: i64 = 130_000;
/// The server's clock, in milliseconds.
const CLOCK: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint::text";

/// A connection. It belongs to one thread, which waits for each answer.
pub(super) struct Connection {
    pub(super) client: Client,
    runtime: Runtime,
    heard: Arc<Notify>,
    /// The server has warned of something since this was last asked.
    is_warned: Arc<AtomicBool>,
    statements: RefCell<HashMap<(String, Vec<Kind>), Statement>>,
    patience: Duration,
    /// The server's process for it.
    pub(super) process: i32,
    /// The name of the history that its data go on in.
    pub(super) history: String,
}

/// A transaction that has begun.
pub(super) struct Begun {
    /// Its number, if it may write.
    pub(super) number: String,
}

impl Connection {
    /// Connects, and brings the schema to the newest version if it is older.
    pub(super) fn open(options: &PostgresOptions, seen: &Seen) -> Result<Self, Failure> {
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
        let is_warned = Arc::new(AtomicBool::new(false));
        let warned = Arc::clone(&is_warned);
        runtime.spawn(async move {
            while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                match message {
                    AsyncMessage::Notification(_) => hears.notify_one(),
                    AsyncMessage::Notice(said) if said.parsed_severity() == Some(Severity::Warning) => {
                        warned.store(true, Ordering::SeqCst);
                    }
                    _ => {}
                }
            }
            hears.notify_one();
        });
        let patience = options.statement.saturating_add(GRACE);
        let statements = RefCell::default();
        let mut opened = Self {
            client,
            runtime,
            heard,
            is_warned,
            statements,
            patience,
            process: 0,
            history: String::new(),
        };
        opened.set_up(options)?;
        migrations::bring_up(&opened, &options.schema)?;
        opened.history = seen.admit(&opened, &options.schema)?;
        Ok(opened)
    }

    fn set_up(&mut self, options: &PostgresOptions) -> Result<(), Failure> {
        let (schema, most) = (&options.schema, options.statement.as_millis());
        self.batch(&format!(
            "SET search_path TO \"{schema}\", pg_temp; SET lock_timeout = {most}; SET statement_timeout = {}; \
             SET idle_in_transaction_session_timeout = {}; SET tcp_keepalives_idle = 5; \
             SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3; SET tcp_user_timeout = 10000",
            most.saturating_add(1_000),
            options.outage().as_millis(),
        ))?;
        let sql = "SELECT current_setting('server_version_num')::bigint, current_setting('server_encoding'), \
                   pg_backend_pid(), pg_is_in_recovery(), \
                   current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')";
        let row = self.wait_for(self.client.query_one(sql, &[]))?;
        let (version, encoding): (i64, String) = (row.try_get(0)?, row.try_get(1)?);
        self.process = row.try_get(2)?;
        let cannot = |cause: String| Err(Failure::new(StoreErrorKind::CannotOpen, cause));
        if version < OLDEST {
            return cannot("the server is older than PostgreSQL 13".to_owned());
        }
        if encoding != "UTF8" {
            return cannot(format!("its encoding is {encoding}, and has to be UTF8"));
        }
        if row.try_get(3)? {
            return Err(Failure::new(StoreErrorKind::ReadOnly, "the server is a standby"));
        }
        if row.try_get(4)? {
            // A commit that was reported has to survive the server, and to be where the server says it always is.
            self.batch("SET synchronous_commit = on")?;
        }
        self.begin("").map(drop)
    }

    /// Begins a transaction with these statements, or none, and compares the clocks.
    ///
    /// # Errors
    ///
    /// As the statements have, and if the clocks differ by too much by now.
    pub(super) fn begin(&self, sql: &str) -> Result<Begun, Failure> {
        let before = Timestamp::now();
        let asked = format!("{sql}SELECT {CLOCK}, coalesce(pg_current_xact_id_if_assigned()::text, '')");
        let messages = self.wait_for(self.client.simple_query(&asked))?;
        let after = Timestamp::now();
        let said = messages.iter().rev().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some((row.get(0)?.parse().ok()?, row.get(1)?)),
            _ => None,
        });
        let unreadable = || Failure::new(StoreErrorKind::Internal, "the server does not tell the time");
        let (clock, number) = said.ok_or_else(unreadable)?;
        let difference = apart(before, Timestamp::from_millis(clock), after);
        if difference > MOST_CLOCK_DIFFERENCE {
            let seconds = difference.as_secs();
            let cause =
                format!("the clocks of this machine and of the server differ by {seconds} s: set them");
            return Err(Failure::new(StoreErrorKind::CannotOpen, cause));
        }
        Ok(Begun { number: number.to_owned() })
    }

    /// Has the server write something that means nothing, and returns once that is kept. Then so is all that it had written before.
    pub(super) fn settle(&self) -> Result<(), Failure> {
        self.is_warned();
        self.batch("SELECT pg_logical_emit_message(true, 'backstop'::text, ''::text)")?;
        if self.is_warned() {
            return Err(Failure::new(StoreErrorKind::Uncertain, "the server did not wait for its standby"));
        }
        Ok(())
    }

    /// Returns whether the server has warned of something since this was last asked. It does if it was told to wait no longer for its standby.
    pub(super) fn is_warned(&self) -> bool {
        self.is_warned.swap(false, Ordering::SeqCst)
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
