use async_trait::async_trait;

use super::row::{Count, limit as limit_of};
use super::{Area, Db, Driver, Fault, Row, SqlError, SqlResult, SqlStore, ToValue, params};
use crate::checkpoints::{
    CheckpointStore, LeftCheckpoint, LeftCheckpoints, MOST_LEFT_CHECKPOINT_BYTES, MOST_LEFT_CHECKPOINTS,
    MOST_ORIGIN_BYTES, MOST_SHOWN_CHECKPOINTS,
};
use crate::{StoreError, Timestamp};

#[async_trait]
impl<D: Driver> CheckpointStore for SqlStore<D> {
    async fn leave_checkpoint(&self, left: LeftCheckpoint, now: Timestamp) -> Result<(), StoreError> {
        self.database
            .write(Area::Checkpoints, move |db| {
                let LeftCheckpoint { origin, entries, checkpoint } = &left;
                if checkpoint.len() > MOST_LEFT_CHECKPOINT_BYTES || origin.len() > MOST_ORIGIN_BYTES {
                    return Err(Fault::Sql(SqlError::Unwritable));
                }
                // The same one again gets a new number: it is what was left last.
                let sql = "DELETE FROM checkpoints WHERE origin = ?1 AND entries = ?2 AND checkpoint = ?3";
                db.execute(sql, params![origin, Count(*entries), checkpoint])?;
                let sql =
                    "INSERT INTO checkpoints (origin, entries, checkpoint, left_at) VALUES (?1, ?2, ?3, ?4)";
                db.execute(sql, params![origin, Count(*entries), checkpoint, now])?;
                let sql = "DELETE FROM checkpoints WHERE origin = ?1 AND row NOT IN \
                           (SELECT row FROM checkpoints WHERE origin = ?1 ORDER BY row DESC LIMIT ?2)";
                db.execute(sql, params![origin, limit_of(MOST_LEFT_CHECKPOINTS)])?;
                Ok(())
            })
            .await
    }

    async fn left_checkpoints(&self, origin: &str) -> Result<LeftCheckpoints, StoreError> {
        let origin = origin.to_owned();
        self.database
            .read(move |db| {
                let sql = "SELECT origin, entries, checkpoint FROM \
                           (SELECT row, origin, entries, checkpoint FROM checkpoints WHERE origin = ?1 \
                           AND octet_length(checkpoint) <= ?2 AND entries >= 0 ORDER BY row DESC LIMIT ?3) AS newest \
                           ORDER BY entries DESC, row DESC";
                let values = params![
                    origin,
                    limit_of(MOST_LEFT_CHECKPOINT_BYTES),
                    limit_of(MOST_LEFT_CHECKPOINTS)
                ];
                let found = db.readable("checkpoints", sql, values, left)?;
                let sql = "SELECT count(*) AS found FROM checkpoints WHERE origin = ?1";
                let all = count(db, sql, params![origin])?;
                let read = u64::try_from(found.len()).unwrap_or(u64::MAX);
                Ok(LeftCheckpoints { unread: all.saturating_sub(read), found })
            })
            .await
    }

    async fn checkpoints_of_others(
        &self,
        origin: &str,
        trails: usize,
    ) -> Result<LeftCheckpoints, StoreError> {
        let (origin, trails) = (origin.to_owned(), limit_of(trails));
        self.database
            .read(move |db| {
                let (most_bytes, most_of_origin) =
                    (limit_of(MOST_LEFT_CHECKPOINT_BYTES), limit_of(MOST_ORIGIN_BYTES));
                let sql = "SELECT origin, entries, checkpoint FROM \
                           (SELECT row, origin, entries, checkpoint, \
                           row_number() OVER (PARTITION BY origin ORDER BY row DESC) AS turn FROM checkpoints \
                           WHERE octet_length(checkpoint) <= ?2 AND entries >= 0 AND origin IN \
                           (SELECT origin FROM checkpoints WHERE origin <> ?1 AND octet_length(origin) <= ?3 \
                           AND octet_length(checkpoint) <= ?2 AND entries >= 0 \
                           GROUP BY origin ORDER BY max(row) DESC LIMIT ?4)) AS newest \
                           WHERE turn <= ?5 ORDER BY row DESC";
                let shown = limit_of(MOST_SHOWN_CHECKPOINTS);
                let values = params![origin, most_bytes, most_of_origin, trails, shown];
                let found = db.readable("checkpoints", sql, values, left)?;
                let sql = "SELECT count(*) AS found FROM checkpoints WHERE origin <> ?1 \
                           AND (octet_length(checkpoint) > ?2 OR octet_length(origin) > ?3 OR entries < 0)";
                let unread = count(db, sql, params![origin, most_bytes, most_of_origin])?;
                Ok(LeftCheckpoints { found, unread })
            })
            .await
    }
}

fn left(row: &Row<'_>) -> SqlResult<LeftCheckpoint> {
    let Count(entries) = row.get("entries")?;
    Ok(LeftCheckpoint { origin: row.get("origin")?, entries, checkpoint: row.get("checkpoint")? })
}

fn count(db: &Db<'_>, sql: &str, values: &[&dyn ToValue]) -> SqlResult<u64> {
    let found = db.optional(sql, values, |row| row.get::<Count>("found"))?;
    Ok(found.map_or(0, |Count(found)| found))
}
