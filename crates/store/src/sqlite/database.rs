//! The thread that owns the connection to a file, and how operations reach it or a database in memory.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use super::audit::{SaidError, write_said};
use super::in_place::{InPlace, SaidIn};
use super::trail::Trail;
use super::{lookout, open, texts};
use crate::approvals::wait::Seats;
use crate::sql::{Area, Db, Driver, Fault, SqlError};
use crate::{Erasure, PolicyInForce, StoreError, StoreErrorKind};

/// How many operations may wait for the thread before callers wait to hand theirs over.
const QUEUE: usize = 64;

type Job = Box<dyn FnOnce(&mut Worker) + Send>;

/// A database, and how operations reach it.
#[derive(Debug)]
pub struct Database(pub(super) Form);

#[derive(Debug)]
pub(super) enum Form {
    File(File),
    Memory(InPlace),
}

/// The way to the thread of a file, which is started with the first operation.
#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
    busy_timeout: Duration,
    trail: Trail,
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
}

impl Database {
    pub(super) fn new(path: PathBuf, busy_timeout: Duration, trail: Trail) -> Self {
        Self(Form::File(File { path, busy_timeout, trail, jobs: Mutex::new(None) }))
    }

    pub(super) fn in_memory(said_in: SaidIn) -> Self {
        Self(Form::Memory(InPlace::new(said_in)))
    }

    /// Returns the file; `None` in memory.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.0 {
            Form::File(file) => Some(&file.path),
            Form::Memory(_) => None,
        }
    }

    async fn transaction<T, E>(
        &self,
        policy: Option<PolicyInForce>,
        behavior: TransactionBehavior,
        work: impl FnOnce(&Db<'_>) -> Result<T, Fault<E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        match &self.0 {
            Form::File(file) => file.run(move |worker| worker.transaction(policy, behavior, work)).await,
            Form::Memory(in_place) => in_place.transaction(policy, behavior, work).await,
        }
    }

    /// Gives the space of wiped texts back.
    pub(super) async fn reclaim(&self) -> Result<(), StoreError> {
        match &self.0 {
            Form::File(file) => file.reclaim().await,
            Form::Memory(in_place) => in_place.reclaim().await,
        }
    }

    /// Moves the log into the database and empties it, unless another process is at work there.
    pub(super) async fn shorten_log(&self) -> Result<(), StoreError> {
        match &self.0 {
            Form::File(file) => file.shorten_log().await,
            Form::Memory(_) => Ok(()),
        }
    }
}

impl File {
    async fn reclaim(&self) -> Result<(), StoreError> {
        self.run(|worker| {
            let done = texts::reclaim(worker.connection()?);
            worker.wipe(worker.busy_timeout);
            done.map_err(|error| worker.failed(&error.into()))
        })
        .await
    }

    async fn shorten_log(&self) -> Result<(), StoreError> {
        self.run(|worker| {
            let busy_timeout = worker.busy_timeout;
            let connection = worker.connection()?;
            let done = connection.busy_timeout(Duration::ZERO).and_then(|()| empty_log(connection));
            done.and_then(|_| connection.busy_timeout(busy_timeout))
                .map_err(|error| worker.failed(&error.into()))
        })
        .await
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
        let stopped = || StoreError::new(&self.place(), StoreErrorKind::Stopped);
        self.jobs()?.send(job).await.map_err(|_| stopped())?;
        answered.await.map_err(|_| stopped())?
    }

    fn jobs(&self) -> Result<mpsc::Sender<Job>, StoreError> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(jobs) = &*jobs {
            return Ok(jobs.clone());
        }
        let (sender, mut receiver) = mpsc::channel::<Job>(QUEUE);
        let mut worker = Worker {
            place: self.place(),
            path: self.path.clone(),
            busy_timeout: self.busy_timeout,
            trail: self.trail.clone(),
            connection: None,
            erasure_pending: false,
        };
        std::thread::Builder::new()
            .name("backstop-store".to_owned())
            .spawn(move || {
                while let Some(job) = receiver.blocking_recv() {
                    job(&mut worker);
                }
            })
            .map_err(|error| StoreError::because(&self.place(), StoreErrorKind::Stopped, error))?;
        *jobs = Some(sender.clone());
        Ok(sender)
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }
}

impl Driver for Database {
    async fn read<T, E>(
        &self,
        work: impl FnOnce(&Db<'_>) -> Result<T, Fault<E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.transaction(None, TransactionBehavior::Deferred, work).await
    }

    /// No other process writes anywhere in the file meanwhile.
    async fn write<T, E>(
        &self,
        policy: Option<PolicyInForce>,
        _area: Area,
        work: impl FnOnce(&Db<'_>) -> Result<T, Fault<E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.transaction(policy, TransactionBehavior::Immediate, work).await
    }

    /// The text is wiped from the files. In memory it is gone at once.
    async fn erase<T, E>(
        &self,
        policy: Option<PolicyInForce>,
        _area: Area,
        work: impl FnOnce(&Db<'_>) -> Result<T, Fault<E>> + Send + 'static,
    ) -> Result<(T, Erasure), E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        match &self.0 {
            Form::File(file) => file.run(|worker| worker.erase(policy, work)).await,
            Form::Memory(in_place) => {
                let answer = in_place.transaction(policy, TransactionBehavior::Immediate, work).await?;
                Ok((answer, Erasure::Complete))
            }
        }
    }

    async fn probe(&self) -> Result<(), StoreError> {
        let written = self.write(None, Area::Everything, |db| {
            // The version in the header is written anew, which takes room, a lock and the disk as any row does.
            let version: i64 = db.one("PRAGMA user_version", &[], |row| row.get(0))?;
            db.execute(&format!("PRAGMA user_version = {version}"), &[])?;
            Ok::<_, Fault<StoreError>>(())
        });
        written.await
    }

    /// Only a file has other processes: in memory, whoever answers wakes those who wait.
    /// Its file is there, or it is not.
    fn outage(&self) -> Duration {
        Duration::ZERO
    }

    fn watch(&self, seats: &Arc<Seats>) -> Result<(), StoreError> {
        match &self.0 {
            Form::File(file) => lookout::start(file.path.clone(), Arc::clone(seats))
                .map_err(|error| StoreError::because(&file.place(), StoreErrorKind::Stopped, error)),
            Form::Memory(_) => Ok(()),
        }
    }
}

/// What the thread owns.
struct Worker {
    place: String,
    path: PathBuf,
    busy_timeout: Duration,
    trail: Trail,
    connection: Option<Connection>,
    erasure_pending: bool,
}

impl Worker {
    fn transaction<T, E: From<StoreError>>(
        &mut self,
        policy: Option<PolicyInForce>,
        behavior: TransactionBehavior,
        work: impl FnOnce(&Db<'_>) -> Result<T, Fault<E>>,
    ) -> Result<T, E> {
        let trail = self.trail.under(policy);
        let result = transact(self.connection()?, behavior, &trail, work);
        if self.erasure_pending {
            self.wipe(Duration::ZERO);
        }
        result.map_err(|fault| match fault {
            Fault::Refused(refused) => refused,
            Fault::Sql(error) => E::from(self.failed(&error)),
        })
    }

    fn erase<T, E: From<StoreError>>(
        &mut self,
        policy: Option<PolicyInForce>,
        work: impl FnOnce(&Db<'_>) -> Result<T, Fault<E>>,
    ) -> Result<(T, Erasure), E> {
        let answer = self.transaction(policy, TransactionBehavior::Immediate, |db| {
            let answer = work(db)?;
            db.execute("INSERT OR IGNORE INTO pending_erasure VALUES (1)", &[])?;
            Ok(answer)
        })?;
        self.wipe(self.busy_timeout);
        let erasure = if self.erasure_pending { Erasure::Pending } else { Erasure::Complete };
        Ok((answer, erasure))
    }

    /// Moves the log into the database, whose freed space is zeroed, and empties the log. The mark that
    /// this is due is on disk until it is done, for the case that this process is killed before.
    fn wipe(&mut self, wait: Duration) {
        let busy_timeout = self.busy_timeout;
        let Some(connection) = &self.connection else { return };
        let done = connection.busy_timeout(wait).is_ok()
            && empty_log(connection).unwrap_or(false)
            && connection.execute("DELETE FROM pending_erasure", []).is_ok();
        if connection.busy_timeout(busy_timeout).is_err() {
            self.connection = None;
        }
        self.erasure_pending = !done;
    }

    fn connection(&mut self) -> Result<&mut Connection, StoreError> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let connection = open::open(&self.place, &self.path, self.busy_timeout, &self.trail)?;
                let sql = "SELECT EXISTS (SELECT 1 FROM pending_erasure)";
                let pending = connection.query_row(sql, [], |row| row.get(0));
                self.erasure_pending = pending.map_err(|error| open::describe(&self.place, &error))?;
                connection
            }
        };
        Ok(self.connection.insert(connection))
    }

    /// Describes a failure. Unless somebody else merely held the database, the connection is given up:
    /// the next operation starts from a fresh one.
    fn failed(&mut self, error: &SqlError) -> StoreError {
        let is_held = matches!(error, SqlError::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy));
        if !is_held {
            self.connection = None;
        }
        open::describe_sql(&self.place, error)
    }
}

fn transact<T, E: From<StoreError>>(
    connection: &mut Connection,
    behavior: TransactionBehavior,
    trail: &Trail,
    work: impl FnOnce(&Db<'_>) -> Result<T, Fault<E>>,
) -> Result<T, Fault<E>> {
    let transaction = connection.transaction_with_behavior(behavior)?;
    let answer = work(&Db::Sqlite(&transaction))?;
    if matches!(behavior, TransactionBehavior::Immediate) {
        // INVARIANT (said): what a transaction says is in the trail before the transaction counts.
        write_said(&transaction, trail).map_err(|error| match error {
            SaidError::Sql(error) => error.into(),
            SaidError::Trail(error) => Fault::Refused(error.into()),
        })?;
    }
    transaction.commit()?;
    Ok(answer)
}

/// Returns whether the whole log could be moved and emptied; not so while another process reads.
fn empty_log(connection: &Connection) -> rusqlite::Result<bool> {
    let busy: i64 = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    Ok(busy == 0)
}
