//! The connection of a store in memory, and how operations reach it.
//!
//! Nothing here waits for a disk, so an operation runs where it is called, one after the other, and pays no way to another thread.
//!
//! The law: *the connection is never given up*, because all data ends with it. What fails is undone, and the next operation finds what was
//! there before. If not even that is possible, the transaction that is left open refuses every later one: a store that has lost its data
//! never answers as if it had none.
//!
//! What an operation says is in a trail before the operation counts: in the trail in memory, or in the one of another store. The other store
//! is waited for while the transaction is open, so no operation comes between.

use std::fmt;
use std::sync::Arc;

use rusqlite::{Connection, DropBehavior, TransactionBehavior};
use tokio::sync::Mutex;

use super::audit::said;
use super::memory_trail::MemoryTrail;
use super::{open, texts};
use crate::sql::{Db, Fault};
use crate::{
    AppendAuditError, AuditStore as _, Durability, NewAuditEntry, PolicyInForce, Store, StoreError,
    StoreErrorKind,
};

/// What a store in memory is called where others are called by their files.
pub(crate) const PLACE: &str = "memory";

/// Where it is said what counts.
#[derive(Clone, Debug)]
pub(super) enum SaidIn {
    /// In the trail of the same store.
    Memory(Arc<MemoryTrail>),
    /// In the trail of another store.
    Other(Arc<dyn Store>),
}

/// A database in memory, which is made by its first operation.
pub(super) struct InPlace {
    connection: Mutex<Option<Connection>>,
    said_in: SaidIn,
}

impl InPlace {
    pub(super) fn new(said_in: SaidIn) -> Self {
        Self { connection: Mutex::new(None), said_in }
    }

    /// One operation, from its beginning to its end. If its future is dropped meanwhile, it is undone.
    pub(super) async fn transaction<T, E>(
        &self,
        policy: Option<PolicyInForce>,
        behavior: TransactionBehavior,
        work: impl FnOnce(&Db<'_>) -> Result<T, Fault<E>> + Send,
    ) -> Result<T, E>
    where
        T: Send,
        E: From<StoreError> + Send,
    {
        let mut connection = self.connection.lock().await;
        let mut open = Open(made(&mut connection)?);
        let (answer, said) = open.run(behavior, work).map_err(ended)?;
        self.tell(said, policy).await?;
        open.commit().map_err(|error| E::from(open::describe(PLACE, &error)))?;
        Ok(answer)
    }

    /// Gives the space of what is gone back.
    pub(super) async fn reclaim(&self) -> Result<(), StoreError> {
        let mut connection = self.connection.lock().await;
        texts::reclaim(made(&mut connection)?).map_err(|error| open::describe(PLACE, &error))
    }

    /// INVARIANT (said): what a transaction says is in the trail before the transaction counts.
    async fn tell(&self, said: Vec<NewAuditEntry>, policy: Option<PolicyInForce>) -> Result<(), StoreError> {
        if said.is_empty() {
            return Ok(());
        }
        // What is too large would count without being in the trail.
        let fits = |entry: &NewAuditEntry| match &self.said_in {
            SaidIn::Memory(trail) => trail.fits_audit(&entry.body),
            SaidIn::Other(store) => store.fits_audit(&entry.body),
        };
        if !said.iter().all(fits) {
            return Err(StoreError::because(PLACE, StoreErrorKind::Internal, "an audit entry is too large"));
        }
        let told = match &self.said_in {
            SaidIn::Memory(trail) => trail.under(policy).append(said),
            SaidIn::Other(store) => {
                let bound = policy.map(|policy| store.under(policy));
                bound.as_ref().unwrap_or(store).append_audit_all(said, Durability::Now).await
            }
        };
        told.map(drop).map_err(|error| match error {
            AppendAuditError::Store(error) => error,
            error @ AppendAuditError::TooLarge(_) => {
                StoreError::because(PLACE, StoreErrorKind::Internal, error)
            }
        })
    }
}

impl fmt::Debug for InPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InPlace").finish_non_exhaustive()
    }
}

/// Returns the connection. It is made once: one that could not be made never held anything.
fn made(connection: &mut Option<Connection>) -> Result<&mut Connection, StoreError> {
    let made = match connection.take() {
        Some(made) => made,
        None => open::in_memory(PLACE)?,
    };
    Ok(connection.insert(made))
}

fn ended<E: From<StoreError>>(fault: Fault<E>) -> E {
    match fault {
        Fault::Refused(refused) => refused,
        Fault::Sql(error) => E::from(open::describe_sql(PLACE, &error)),
    }
}

/// A transaction that is undone when this is dropped, unless it was committed.
struct Open<'c>(&'c mut Connection);

impl Open<'_> {
    /// Does the work, and leaves the transaction open. Returns what is to be said before it counts.
    fn run<T, E>(
        &mut self,
        behavior: TransactionBehavior,
        work: impl FnOnce(&Db<'_>) -> Result<T, Fault<E>>,
    ) -> Result<(T, Vec<NewAuditEntry>), Fault<E>> {
        let mut transaction = self.0.transaction_with_behavior(behavior)?;
        transaction.set_drop_behavior(DropBehavior::Ignore);
        let answer = work(&Db::Sqlite(&transaction))?;
        let said = match behavior {
            TransactionBehavior::Deferred => Vec::new(),
            _ => said(&transaction)?,
        };
        Ok((answer, said))
    }

    fn commit(self) -> rusqlite::Result<()> {
        self.0.execute_batch("COMMIT")
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.0.is_autocommit() {
            // What can't be undone stays open, and refuses whatever comes next.
            let _ = self.0.execute_batch("ROLLBACK");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use backstop_hooks::SessionId;
    use backstop_hooks::conversation::Message;

    use super::super::SqliteStore;
    use super::super::database::Form;
    use super::*;
    use crate::sql::{Area, SqlError, params};
    use crate::{
        Change, Erasure, LeaseHolder, NewEntry, Session, SessionStore as _, Timestamp, TranscriptStore as _,
    };

    async fn write(
        store: &SqliteStore,
        work: impl FnOnce(&Db<'_>) -> Result<(), Fault<StoreError>> + Send + 'static,
    ) -> Result<(), StoreError> {
        store.database.write(Area::Everything, work).await
    }

    /// A store that keeps the numbers 1 to 3.
    async fn filled() -> Arc<SqliteStore> {
        let store = Arc::new(SqliteStore::in_memory());
        let table = "CREATE TABLE kept (number INTEGER PRIMARY KEY, text TEXT NOT NULL)";
        write(&store, move |db| Ok(db.execute(table, &[]).map(drop)?)).await.unwrap();
        for number in 1..=3 {
            write(&store, move |db| put(db, number)).await.unwrap();
        }
        store
    }

    fn put(db: &Db<'_>, number: i64) -> Result<(), Fault<StoreError>> {
        db.execute("INSERT INTO kept VALUES (?1, ?2)", params![number, "x".repeat(9_000)])?;
        Ok(())
    }

    async fn kept(store: &SqliteStore) -> Result<Vec<i64>, StoreError> {
        let sql = "SELECT number FROM kept ORDER BY number";
        store.database.read(move |db| Ok(db.all(sql, &[], |row| row.get(0))?)).await
    }

    #[tokio::test]
    async fn what_fails_is_undone_and_nothing_else_is_lost() {
        let store = filled().await;
        let refused = write(&store, |db| {
            put(db, 4)?;
            Err(Fault::Refused(StoreError::because(PLACE, StoreErrorKind::Internal, "no")))
        });
        refused.await.unwrap_err();
        let faulty = write(&store, |db| put(db, 4).and_then(|()| put(db, 4)));
        assert_eq!(faulty.await.unwrap_err().kind(), StoreErrorKind::Internal);
        let unread = write(&store, |db| {
            put(db, 4)?;
            Ok(db.one("SELECT 'text'", &[], |row| row.get::<i64>(0)).map(drop)?)
        });
        assert_eq!(unread.await.unwrap_err().kind(), StoreErrorKind::Corrupt);
        let unwritten = write(&store, |db| {
            put(db, 4)?;
            Err(SqlError::Unwritable.into())
        });
        assert_eq!(unwritten.await.unwrap_err().kind(), StoreErrorKind::Internal);
        assert_eq!(kept(&store).await.unwrap(), [1, 2, 3]);
        write(&store, |db| put(db, 4)).await.unwrap();
        assert_eq!(kept(&store).await.unwrap(), [1, 2, 3, 4]);
    }

    #[tokio::test]
    async fn where_no_room_is_left_nothing_that_was_kept_is_lost() {
        let store = filled().await;
        let limit = |pages: i64| {
            write(&store, move |db| {
                let now: i64 = db.one("PRAGMA page_count", &[], |row| row.get(0))?;
                let sql = format!("PRAGMA max_page_count = {}", now + pages);
                db.one(&sql, &[], |row| row.get::<i64>(0))?;
                Ok(())
            })
        };
        limit(1).await.unwrap();
        let full = write(&store, |db| (4..99).try_for_each(|number| put(db, number))).await.unwrap_err();
        assert_eq!((full.kind(), full.place()), (StoreErrorKind::Full, PLACE));
        assert_eq!(kept(&store).await.unwrap(), [1, 2, 3]);
        limit(99).await.unwrap();
        write(&store, |db| put(db, 4)).await.unwrap();
        assert_eq!(kept(&store).await.unwrap(), [1, 2, 3, 4]);
    }

    #[tokio::test]
    async fn an_operation_that_panics_is_undone() {
        let store = filled().await;
        let panicking = Arc::clone(&store);
        let panicked =
            tokio::spawn(async move { write(&panicking, |db| put(db, 4).map(|()| panic!("a bug"))).await });
        assert!(panicked.await.unwrap_err().is_panic());
        assert_eq!(kept(&store).await.unwrap(), [1, 2, 3]);
    }

    #[tokio::test]
    async fn what_is_damaged_fails_and_is_never_empty() {
        let store = filled().await;
        let Form::Memory(in_place) = &store.database.driver().0 else { panic!("it is in memory") };
        let connection = in_place.connection.lock().await;
        let sql = "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET rootpage = 4000 WHERE name = 'kept'";
        connection.as_ref().unwrap().execute_batch(sql).unwrap();
        connection.as_ref().unwrap().execute_batch("PRAGMA writable_schema = RESET").unwrap();
        drop(connection);
        for _ in 0..2 {
            assert_eq!(kept(&store).await.unwrap_err().kind(), StoreErrorKind::Corrupt);
            write(&store, |db| put(db, 4)).await.unwrap_err();
        }
    }

    #[tokio::test]
    async fn a_transaction_that_stays_open_refuses_every_later_one() {
        let store = filled().await;
        let Form::Memory(in_place) = &store.database.driver().0 else { panic!("it is in memory") };
        let connection = in_place.connection.lock().await;
        connection.as_ref().unwrap().execute_batch("BEGIN").unwrap();
        drop(connection);
        kept(&store).await.unwrap_err();
    }

    #[tokio::test]
    async fn what_nobody_asks_is_not_made() {
        let store = SqliteStore::in_memory();
        let Form::Memory(in_place) = &store.database.driver().0 else { panic!("it is in memory") };
        assert!(in_place.connection.lock().await.is_none());
        write(&store, |_| Ok(())).await.unwrap();
        assert!(in_place.connection.lock().await.is_some());
    }

    #[tokio::test]
    async fn texts_are_gone_with_the_rows_that_named_them() {
        let (store, now) = (SqliteStore::in_memory(), Timestamp::from_millis(1));
        let texts = async || {
            let sql = "SELECT count(*), sum(octet_length(body)) FROM texts";
            let counted: Result<(i64, i64), StoreError> = store
                .database
                .read(move |db| Ok(db.one(sql, &[], |row| Ok((row.get(0)?, row.get(1)?)))?))
                .await;
            counted.unwrap()
        };
        let (id, me) = (SessionId::new("s1"), LeaseHolder::new("me"));
        let session = Session {
            id: id.clone(),
            key: "chat".into(),
            agent: "main".into(),
            workspace: "/work".to_owned(),
            created_at: now,
            updated_at: now,
            ended: None,
            resumed_from: None,
            meta: serde_json::json!({}).into(),
        };
        store.create_session(session).await.unwrap();
        store.lease_session(&id, &me, Duration::from_secs(60), now).await.unwrap();
        let entry = |name: &str| NewEntry {
            id: name.into(),
            run: None,
            message: Message::user("x".repeat(100_000)),
            at: now,
            tokens: None,
        };
        store.append(&id, &me, ["one", "two", "three"].map(entry).to_vec()).await.unwrap();
        assert!(texts().await >= (3, 300_000));
        let changes = vec![
            Change::Replace { id: "one".into(), message: Message::user("short") },
            Change::Remove { id: "two".into() },
        ];
        assert_eq!(store.apply(&id, &me, changes).await.unwrap(), Erasure::Complete);
        let (count, bytes) = texts().await;
        assert_eq!(count, 2);
        assert!(bytes < 101_000, "{bytes}");
        assert_eq!(store.transcript(&id).await.unwrap().len(), 2);
    }
}
