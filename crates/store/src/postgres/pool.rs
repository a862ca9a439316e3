//! The threads that own connections, and how operations reach them.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::connection::{Begun, Connection};
use super::history::{self, Seen};
use super::options::PostgresOptions;
use super::{Failure, Session, lookout};
use crate::approvals::wait::Seats;
use crate::sql::{Area, Db, Driver, Fault, SqlError};
use crate::sqlite::trail::Trail;
use crate::{Erasure, PolicyInForce, StoreError, StoreErrorKind};

/// How many operations may wait for a thread before callers wait to hand theirs over.
const QUEUE: usize = 64;
/// How long a server that could not be reached is not asked again: twice as long after each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MOST_PAUSE: Duration = Duration::from_secs(1);
/// How long it is tried to find out what became of a transaction.
const MOST_FINDING: Duration = Duration::from_secs(5);

/// How many places are remembered that no store is open at.
const MOST_PLACES: usize = 256;

/// What this process knows of the data at each place, the one that was opened last at the end. A store that is opened anew knows what the one before it
/// did: reading a configuration again must not be a way to use a server that was refused.
static SEEN: Mutex<Vec<(String, Arc<Seen>)>> = Mutex::new(Vec::new());

/// Returns what this process knows of the data there.
fn seen_at(place: &str) -> Arc<Seen> {
    let mut all = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = match all.iter().position(|(known, _)| known == place) {
        Some(found) => all.remove(found),
        None => (place.to_owned(), Arc::default()),
    };
    let seen = Arc::clone(&found.1);
    all.push(found);
    let is_idle = |(_, seen): &(String, Arc<Seen>)| Arc::strong_count(seen) == 1;
    while all.len() > MOST_PLACES
        && let Some(oldest) = all.iter().position(is_idle)
    {
        all.remove(oldest);
    }
    seen
}

type Job = Box<dyn FnOnce(&mut Worker) + Send>;

/// A database on a PostgreSQL server: the way to its threads, which are started with the first operation.
pub struct Server {
    shared: Arc<Shared>,
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
}

/// What the threads have in common.
pub(super) struct Shared {
    pub(super) options: PostgresOptions,
    place: String,
    trail: Trail,
    pause: Mutex<Option<Pause>>,
    seen: Arc<Seen>,
}

impl Shared {
    pub(super) fn open(&self) -> Result<Connection, Failure> {
        Connection::open(&self.options, &self.seen)
    }
}

/// A server that could not be reached.
struct Pause {
    until: Instant,
    length: Duration,
    cause: String,
    kind: StoreErrorKind,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("place", &self.shared.place).finish_non_exhaustive()
    }
}

impl Server {
    pub(super) fn new(options: PostgresOptions, trail: Trail) -> Self {
        let place = format!("{}, schema {}", options.place, options.schema);
        let seen = seen_at(&place);
        let shared = Shared { options, place, trail, pause: Mutex::new(None), seen };
        Self { shared: Arc::new(shared), jobs: Mutex::new(None) }
    }

    pub(super) fn place(&self) -> &str {
        &self.shared.place
    }

    async fn run<T, E>(&self, work: impl FnOnce(&mut Worker) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |worker| {
            // Nobody waits for the answer any more if the caller's future was dropped.
            let _ = answer.send(work(worker));
        });
        let stopped = || StoreError::new(self.place(), StoreErrorKind::Stopped);
        self.jobs()?.send(job).await.map_err(|_| stopped())?;
        answered.await.map_err(|_| stopped())?
    }

    fn jobs(&self) -> Result<mpsc::Sender<Job>, StoreError> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(jobs) = &*jobs {
            return Ok(jobs.clone());
        }
        let (sender, receiver) = mpsc::channel::<Job>(QUEUE);
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..self.shared.options.connections {
            let mut worker = Worker { shared: Arc::clone(&self.shared), connection: None };
            let receiver = Arc::clone(&receiver);
            let next = move || receiver.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
            thread::Builder::new()
                .name("backstop-store".to_owned())
                .spawn(move || {
                    while let Some(job) = next() {
                        job(&mut worker);
                    }
                })
                .map_err(|error| StoreError::because(self.place(), StoreErrorKind::Stopped, error))?;
        }
        *jobs = Some(sender.clone());
        Ok(sender)
    }
}

impl Driver for Server {
    /// It sees one snapshot.
    async fn read<T, E>(
        &self,
        work: impl FnOnce(&Db<'_>) -> Result<T, Fault<E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.run(|worker| worker.read(work)).await
    }

    async fn write<T, E>(
        &self,
        policy: Option<PolicyInForce>,
        area: Area,
        work: impl FnOnce(&Db<'_>) -> Result<T, Fault<E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.run(move |worker| worker.write(policy, area, work)).await
    }

    /// The text is out of what statements can read. The server's files keep it until it vacuums, so it is never said to be wiped.
    async fn erase<T, E>(
        &self,
        policy: Option<PolicyInForce>,
        area: Area,
        work: impl FnOnce(&Db<'_>) -> Result<T, Fault<E>> + Send + 'static,
    ) -> Result<(T, Erasure), E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let erased = self.run(move |worker| {
            worker.write(policy, area, |db| {
                let answer = work(db)?;
                let sql = "DELETE FROM texts WHERE octet_length(body) = 0 \
                           AND NOT EXISTS (SELECT 1 FROM entries WHERE entries.text = text_id) \
                           AND NOT EXISTS (SELECT 1 FROM approvals WHERE approvals.text = text_id)";
                db.execute(sql, &[])?;
                Ok(answer)
            })
        });
        erased.await.map(|answer| (answer, Erasure::Pending))
    }

    async fn probe(&self) -> Result<(), StoreError> {
        let written = self.write(None, Area::Tokens, |db| {
            db.execute("UPDATE backstop_schema SET version = version", &[])?;
            Ok::<_, Fault<StoreError>>(())
        });
        written.await
    }

    fn outage(&self) -> Duration {
        self.shared.options.outage()
    }

    fn watch(&self, seats: &Arc<Seats>) -> Result<(), StoreError> {
        lookout::start(Arc::clone(&self.shared), Arc::clone(seats))
            .map_err(|error| StoreError::because(self.place(), StoreErrorKind::Stopped, error))
    }
}

impl Area {
    /// The names of the locks, always in one order, so that nobody waits for somebody who waits for them.
    fn locks(self) -> &'static [&'static str] {
        match self {
            Self::Questions => &["questions"],
            Self::Conversations => &["conversations"],
            Self::Budgets => &["budgets"],
            Self::Decisions => &["decisions"],
            Self::Queues => &["queues"],
            Self::Tokens => &["tokens"],
            Self::Checkpoints => &["checkpoints"],
            Self::Everything => {
                &["questions", "conversations", "budgets", "decisions", "queues", "tokens", "checkpoints"]
            }
        }
    }
}

/// What a thread owns.
struct Worker {
    shared: Arc<Shared>,
    connection: Option<Connection>,
}

impl Worker {
    fn read<T, E: From<StoreError>>(
        &mut self,
        work: impl FnOnce(&Db<'_>) -> Result<T, Fault<E>>,
    ) -> Result<T, E> {
        let (connection, _) = self.begin("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; ")?;
        let session = Session::new(&connection);
        let answer = work(&Db::Postgres(&session));
        let ended = connection.batch("COMMIT");
        let is_kept = ended.is_ok() && !answer.as_ref().is_err_and(is_lost);
        self.connection = is_kept.then_some(connection);
        answer.map_err(|fault| self.told(fault))
    }

    fn write<T, E: From<StoreError>>(
        &mut self,
        policy: Option<PolicyInForce>,
        area: Area,
        work: impl FnOnce(&Db<'_>) -> Result<T, Fault<E>>,
    ) -> Result<T, E> {
        // By then, whoever held the lock is done, and each statement sees what they did.
        let mut sql = "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE".to_owned();
        for lock in area.locks() {
            let schema = &self.shared.options.schema;
            sql += &format!(
                "; SELECT pg_advisory_xact_lock(hashtextextended('backstop/{schema}/{lock}', 0))::text"
            );
        }
        sql += "; SELECT pg_current_xact_id()::text; ";
        let (connection, begun) = self.begin(&sql)?;
        let session = Session::new(&connection);
        let answer = match work(&Db::Postgres(&session)) {
            Ok(answer) => answer,
            Err(fault) => {
                let is_kept = !is_lost(&fault) && connection.batch("ROLLBACK").is_ok();
                self.connection = is_kept.then_some(connection);
                return Err(self.told(fault));
            }
        };
        let has_written = session.has_written();
        // INVARIANT (said): what a transaction says is in the trail before the transaction counts.
        let said = session.said().map_or_else(
            || Err(Failure::new(StoreErrorKind::Internal, "a statement failed").told(&self.shared.place)),
            |said| match said.is_empty() {
                true => Ok(()),
                false => self.shared.trail.under(policy).append_and_wait(said),
            },
        );
        if let Err(error) = said {
            self.connection = connection.batch("ROLLBACK").is_ok().then_some(connection);
            return Err(error.into());
        }
        match history::commit(&connection, area.locks(), has_written) {
            Ok(written) => {
                // INVARIANT (kept): where it was told to wait no longer for the standby, the server reports a commit all the same.
                let is_kept = !connection.is_warned() || connection.settle().is_ok();
                if !is_kept || !self.shared.seen.keep(&connection.history, written) {
                    return Err(self.uncertain().into());
                }
                self.connection = Some(connection);
            }
            Err(failure) if !failure.is_lost => return Err(failure.told(&self.shared.place).into()),
            Err(failure) => {
                let lost = Lost::of(&connection, begun, failure);
                drop(connection);
                self.find_out(lost, area)?;
            }
        }
        Ok(answer)
    }

    fn uncertain(&self) -> StoreError {
        StoreError::new(&self.shared.place, StoreErrorKind::Uncertain).of_server()
    }

    /// Begins a transaction. A connection that has been idle may be gone: nothing has happened by then, so it is begun on another one.
    fn begin(&mut self, sql: &str) -> Result<(Connection, Begun), StoreError> {
        // The server of an older history may still be there, and take what it is told.
        if let Some(connection) = self.connection.take()
            && self.shared.seen.is_current(&connection.history)
        {
            match connection.begin(sql) {
                Ok(begun) => return Ok((connection, begun)),
                Err(failure) if failure.is_lost && !failure.is_silent => {}
                Err(failure) => return Err(self.not_begun(connection, failure)),
            }
        }
        let connection = self.connect()?;
        match connection.begin(sql) {
            Ok(begun) => Ok((connection, begun)),
            Err(failure) => Err(self.not_begun(connection, failure)),
        }
    }

    fn not_begun(&mut self, connection: Connection, failure: Failure) -> StoreError {
        let is_kept = !failure.is_lost && connection.batch("ROLLBACK").is_ok();
        self.connection = is_kept.then_some(connection);
        failure.told(&self.shared.place)
    }

    /// Connects, unless that has just failed.
    fn connect(&self) -> Result<Connection, StoreError> {
        let mut pause = self.shared.pause.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pause) = &*pause
            && Instant::now() < pause.until
        {
            return Err(StoreError::because(&self.shared.place, pause.kind, &pause.cause).of_server());
        }
        let length =
            pause.as_ref().map_or(FIRST_PAUSE, |pause| pause.length.saturating_mul(2).min(MOST_PAUSE));
        match self.shared.open() {
            Ok(connection) => {
                *pause = None;
                Ok(connection)
            }
            Err(failure) => {
                let cause = failure.cause.clone().unwrap_or_default();
                let until = Instant::now() + length;
                *pause = Some(Pause { until, length, cause, kind: failure.kind });
                Err(failure.told(&self.shared.place))
            }
        }
    }

    /// Finds out what became of a transaction whose connection was lost while it was being committed.
    fn find_out(&self, lost: Lost, area: Area) -> Result<(), StoreError> {
        let start = Instant::now();
        let mut pause = FIRST_PAUSE;
        while start.elapsed() < MOST_FINDING {
            if let Ok(connection) = self.shared.open() {
                if lost.history != connection.history {
                    // A server that has crashed or taken over may have other transactions under this number.
                    return Err(self.uncertain());
                }
                match lost.status(&connection) {
                    // INVARIANT (kept): a server that was waiting for its standby, or that was started again meanwhile, has committed what the standby may lack.
                    Ok(Some(status)) if status == "committed" => {
                        // Of others, too: what is settled holds all of it.
                        let written = history::written(&connection, area.locks());
                        let settled = written.and_then(|written| connection.settle().map(|()| written));
                        let is_kept =
                            settled.is_ok_and(|written| self.shared.seen.keep(&connection.history, written));
                        return if is_kept { Ok(()) } else { Err(self.uncertain()) };
                    }
                    Ok(Some(status)) if status == "aborted" => {
                        return Err(lost.failure.told(&self.shared.place));
                    }
                    Ok(None) => return Err(self.uncertain()),
                    Ok(Some(_)) | Err(_) => {}
                }
            }
            thread::sleep(pause);
            pause = pause.saturating_mul(2).min(MOST_PAUSE);
        }
        Err(self.uncertain())
    }

    fn told<E: From<StoreError>>(&self, fault: Fault<E>) -> E {
        let place = &self.shared.place;
        E::from(match fault {
            Fault::Refused(refused) => return refused,
            Fault::Sql(SqlError::Postgres(failure)) => failure.told(place),
            Fault::Sql(SqlError::Unreadable) => {
                StoreError::because(place, StoreErrorKind::Corrupt, "a row can't be read").of_server()
            }
            Fault::Sql(SqlError::Unwritable | SqlError::Sqlite(_)) => {
                StoreError::because(place, StoreErrorKind::Internal, "a value can't be written").of_server()
            }
        })
    }
}

/// A transaction whose connection was lost while it was being committed.
struct Lost {
    number: String,
    /// The server's process that was at it.
    process: i32,
    history: String,
    failure: Failure,
}

impl Lost {
    fn of(connection: &Connection, begun: Begun, failure: Failure) -> Self {
        let (process, history) = (connection.process, connection.history.clone());
        Self { number: begun.number, process, history, failure }
    }

    /// Returns what became of it: `committed`, `aborted` or `in progress`, which it is not left; nothing if it is too long ago.
    fn status(&self, connection: &Connection) -> Result<Option<String>, Failure> {
        let client = &connection.client;
        // Whoever is at it is ended, if it is still at it.
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 \
                   AND backend_xid::text::bigint = $2::text::bigint % 4294967296";
        connection.wait_for(client.query(sql, &[&self.process, &self.number]))?;
        let row = connection
            .wait_for(client.query_one("SELECT pg_xact_status($1::text::xid8)", &[&self.number]))?;
        Ok(row.try_get(0)?)
    }
}

/// Returns whether an operation ended because the connection is of no use any more.
fn is_lost<E>(fault: &Fault<E>) -> bool {
    matches!(fault, Fault::Sql(SqlError::Postgres(failure)) if failure.is_lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_at_a_place_is_known_to_whoever_opens_it_again() {
        let place = |n: usize| format!("db at pool.example:{n}, schema backstop");
        let in_use = seen_at(&place(0));
        let closed = Arc::downgrade(&seen_at(&place(1)));
        assert!(Arc::ptr_eq(&in_use, &seen_at(&place(0))));
        assert!(Arc::ptr_eq(&closed.upgrade().unwrap(), &seen_at(&place(1))));
        assert!(!Arc::ptr_eq(&in_use, &seen_at(&place(1))));
        for n in 2..MOST_PLACES + 10 {
            seen_at(&place(n));
        }
        assert!(Arc::ptr_eq(&in_use, &seen_at(&place(0))), "one that is open is not forgotten");
        assert!(closed.upgrade().is_none(), "no more than so many others are remembered");
    }

    #[test]
    fn what_is_written_in_each_area_is_counted() {
        let made = include_str!("migrations/0002_histories.sql");
        for area in Area::Everything.locks() {
            assert!(made.contains(&format!("('{area}', 0)")), "{area}");
        }
    }
}
