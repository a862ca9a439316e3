use async_trait::async_trait;

use super::row::{Count, limit as limit_of};
use super::{Area, Driver, Row, SqlResult, SqlStore, params};
use crate::checkpoints::{CheckpointStore, LeftCheckpoint, MOST_LEFT_CHECKPOINTS};
use crate::{StoreError, Timestamp};

#[async_trait]
impl<D: Driver> CheckpointStore for SqlStore<D> {
    async fn leave_checkpoint(&self, left: LeftCheckpoint, now: Timestamp) -> Result<(), StoreError> {
        self.database
            .write(Area::Checkpoints, move |db| {
                let LeftCheckpoint { origin, entries, checkpoint } = &left;
                let sql = "INSERT INTO checkpoints (origin, entries, checkpoint, left_at) VALUES (?1, ?2, ?3, ?4) \
                           ON CONFLICT (origin, entries, checkpoint) DO UPDATE SET left_at = excluded.left_at";
                db.execute(sql, params![origin, Count(*entries), checkpoint, now])?;
                let sql = "DELETE FROM checkpoints WHERE origin = ?1 AND row NOT IN \
                           (SELECT row FROM checkpoints WHERE origin = ?1 ORDER BY entries DESC, row DESC LIMIT ?2)";
                db.execute(sql, params![origin, limit_of(MOST_LEFT_CHECKPOINTS)])?;
                Ok(())
            })
            .await
    }

    async fn left_checkpoints(&self, origin: &str) -> Result<Vec<LeftCheckpoint>, StoreError> {
        let origin = origin.to_owned();
        self.database
            .read(move |db| {
                let sql = "SELECT origin, entries, checkpoint FROM checkpoints WHERE origin = ?1 \
                           ORDER BY entries DESC, row DESC";
                Ok(db.all(sql, params![origin], left)?)
            })
            .await
    }

    async fn checkpoints_of_others(
        &self,
        origin: &str,
        limit: usize,
    ) -> Result<Vec<LeftCheckpoint>, StoreError> {
        let (origin, limit) = (origin.to_owned(), limit_of(limit));
        self.database
            .read(move |db| {
                let sql = "SELECT origin, entries, checkpoint FROM checkpoints AS newest WHERE origin <> ?1 \
                           AND NOT EXISTS (SELECT 1 FROM checkpoints AS later WHERE later.origin = newest.origin AND \
                           (later.left_at > newest.left_at OR (later.left_at = newest.left_at AND later.row > newest.row))) \
                           ORDER BY left_at DESC, row DESC LIMIT ?2";
                Ok(db.all(sql, params![origin, limit], left)?)
            })
            .await
    }
}

fn left(row: &Row<'_>) -> SqlResult<LeftCheckpoint> {
    let Count(entries) = row.get("entries")?;
    Ok(LeftCheckpoint { origin: row.get("origin")?, entries, checkpoint: row.get("checkpoint")? })
}
