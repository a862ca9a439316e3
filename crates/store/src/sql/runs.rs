use async_trait::async_trait;
use backstop_hooks::{RunId, SessionId};

use super::row::{Word, id as id_column};
use super::sessions::has_session;
use super::{Area, Db, Driver, Fault, Row, SqlResult, SqlStore, params};
use crate::{Run, RunEnd, RunError, RunOutcome, RunStore, StoreError, Timestamp};

#[async_trait]
impl<D: Driver> RunStore for SqlStore<D> {
    async fn start_run(&self, session: &SessionId, run: &RunId, now: Timestamp) -> Result<(), RunError> {
        let (session, run) = (session.clone(), run.clone());
        self.database
            .write(Area::Conversations, move |db| {
                if !has_session(db, &session)? {
                    return Err(Fault::Refused(RunError::UnknownSession(session)));
                }
                if find(db, &session, &run)?.is_some() {
                    return Err(Fault::Refused(RunError::Exists { session, run }));
                }
                let sql = "INSERT INTO runs (session, id, started_at) VALUES (?1, ?2, ?3)";
                db.execute(sql, params![session.as_str(), run.as_str(), now])?;
                Ok(())
            })
            .await
    }

    async fn end_run(
        &self,
        session: &SessionId,
        run: &RunId,
        outcome: RunOutcome,
        now: Timestamp,
    ) -> Result<bool, RunError> {
        let (session, run) = (session.clone(), run.clone());
        self.database
            .write(Area::Conversations, move |db| {
                let sql = "UPDATE runs SET ended_at = ?3, outcome = ?4 \
                           WHERE session = ?1 AND id = ?2 AND ended_at IS NULL";
                let values = params![session.as_str(), run.as_str(), now, Word(outcome)];
                let ended = db.execute(sql, values)?;
                if ended == 0 && find(db, &session, &run)?.is_none() {
                    return Err(Fault::Refused(RunError::Unknown { session, run }));
                }
                Ok(ended > 0)
            })
            .await
    }

    async fn run(&self, session: &SessionId, run: &RunId) -> Result<Option<Run>, StoreError> {
        let (session, run) = (session.clone(), run.clone());
        self.database.read(move |db| Ok(find(db, &session, &run)?)).await
    }

    async fn open_runs(&self, session: &SessionId) -> Result<Vec<Run>, StoreError> {
        let session = session.clone();
        self.database
            .read(move |db| {
                let sql = "SELECT * FROM runs WHERE session = ?1 AND ended_at IS NULL ORDER BY row";
                Ok(db.all(sql, params![session.as_str()], run_of)?)
            })
            .await
    }
}

fn find(db: &Db<'_>, session: &SessionId, run: &RunId) -> SqlResult<Option<Run>> {
    let sql = "SELECT * FROM runs WHERE session = ?1 AND id = ?2";
    db.optional(sql, params![session.as_str(), run.as_str()], run_of)
}

fn run_of(row: &Row<'_>) -> SqlResult<Run> {
    let at: Option<Timestamp> = row.get("ended_at")?;
    let outcome: Option<Word<RunOutcome>> = row.get("outcome")?;
    Ok(Run {
        id: id_column(row, "id")?,
        session: id_column(row, "session")?,
        started_at: row.get("started_at")?,
        ended: at.zip(outcome).map(|(at, outcome)| RunEnd { at, outcome: outcome.0 }),
    })
}
