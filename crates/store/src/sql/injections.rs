use std::collections::BTreeSet;

use async_trait::async_trait;
use backstop_hooks::{Json, OwnerId, RunId, SessionKey};

use super::row::{AsJson, Count, Word, id as id_column};
use super::{Area, Db, Driver, Fault, Row, SqlResult, SqlStore, params};
use crate::injections::checked;
use crate::{
    EnqueueError, Enqueued, Injection, InjectionStore, MAX_QUEUED_INJECTIONS, NewInjection, StoreError,
    Timestamp,
};

#[async_trait]
impl<D: Driver> InjectionStore for SqlStore<D> {
    async fn enqueue_injection(
        &self,
        injection: NewInjection,
        now: Timestamp,
    ) -> Result<Enqueued, EnqueueError> {
        let new = checked(injection)?;
        self.database
            .write(Area::Queues, move |db| {
                if let Some(seq) = duplicate(db, &new, now)? {
                    return Ok(Enqueued::Duplicate(seq));
                }
                if waiting(db, &new, now)? >= MAX_QUEUED_INJECTIONS {
                    let NewInjection { owner, session_key, .. } = new;
                    return Err(Fault::Refused(EnqueueError::Full { owner, session_key }));
                }
                Ok(Enqueued::Queued(insert(db, &new, now)?))
            })
            .await
    }

    async fn take_injections(
        &self,
        key: &SessionKey,
        run: &RunId,
        owners: &BTreeSet<OwnerId>,
        now: Timestamp,
    ) -> Result<Vec<Injection>, StoreError> {
        let (key, run) = (key.clone(), run.clone());
        let owners = owners.clone();
        self.database
            .write(Area::Queues, move |db| {
                let sql = "DELETE FROM injections WHERE taken_by IS NULL AND expires_at < ?1";
                db.execute(sql, params![now])?;
                let sql = "UPDATE injections SET taken_by = ?2 WHERE session_key = ?1 AND taken_by IS NULL AND owner = ?3";
                for owner in &owners {
                    db.execute(sql, params![key.as_str(), run.as_str(), owner.as_str()])?;
                }
                let sql = "SELECT * FROM injections WHERE session_key = ?1 AND taken_by = ?2 ORDER BY seq";
                let values = params![key.as_str(), run.as_str()];
                let mut taken = db.readable("queued texts", sql, values, injection_of)?;
                taken.retain(|injection| owners.contains(&injection.owner));
                Ok(taken)
            })
            .await
    }

    async fn confirm_injections(&self, run: &RunId) -> Result<usize, StoreError> {
        let run = run.clone();
        let sql = "DELETE FROM injections WHERE taken_by = ?1";
        self.database.write(Area::Queues, move |db| Ok(db.execute(sql, params![run.as_str()])?)).await
    }

    async fn give_back_injections(&self, run: &RunId) -> Result<usize, StoreError> {
        let run = run.clone();
        let sql = "UPDATE injections SET taken_by = NULL WHERE taken_by = ?1";
        self.database.write(Area::Queues, move |db| Ok(db.execute(sql, params![run.as_str()])?)).await
    }
}

fn duplicate(db: &Db<'_>, new: &NewInjection, now: Timestamp) -> SqlResult<Option<u64>> {
    let Some(key) = &new.idempotency_key else { return Ok(None) };
    let sql = "SELECT seq FROM injections WHERE session_key = ?1 AND owner = ?2 AND idempotency_key = ?3 \
               AND (expires_at IS NULL OR expires_at >= ?4)";
    let values = params![new.session_key.as_str(), new.owner.as_str(), key, now];
    let seq: Option<Count> = db.optional(sql, values, |row| row.get(0))?;
    Ok(seq.map(|seq| seq.0))
}

fn waiting(db: &Db<'_>, new: &NewInjection, now: Timestamp) -> SqlResult<usize> {
    let sql = "SELECT count(*) FROM injections WHERE session_key = ?1 AND owner = ?2 \
               AND (expires_at IS NULL OR expires_at >= ?3)";
    let values = params![new.session_key.as_str(), new.owner.as_str(), now];
    let count: Count = db.one(sql, values, |row| row.get(0))?;
    Ok(usize::try_from(count.0).unwrap_or(usize::MAX))
}

fn insert(db: &Db<'_>, new: &NewInjection, now: Timestamp) -> SqlResult<u64> {
    let sql = "INSERT INTO injections (session_key, owner, text, placement, idempotency_key, created_at, \
               expires_at, metadata) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) RETURNING seq";
    let values = params![
        new.session_key.as_str(),
        new.owner.as_str(),
        new.text.as_str(),
        Word(new.placement),
        new.idempotency_key,
        now,
        new.ttl.map(|ttl| now.after(ttl)),
        new.metadata.as_ref().map(AsJson),
    ];
    let seq: Count = db.one(sql, values, |row| row.get(0))?;
    Ok(seq.0)
}

fn injection_of(row: &Row<'_>) -> SqlResult<Injection> {
    Ok(Injection {
        seq: row.get::<Count>("seq")?.0,
        session_key: id_column(row, "session_key")?,
        owner: id_column(row, "owner")?,
        text: id_column(row, "text")?,
        placement: row.get::<Word<_>>("placement")?.0,
        idempotency_key: row.get("idempotency_key")?,
        created_at: row.get("created_at")?,
        expires_at: row.get("expires_at")?,
        metadata: row.get::<Option<AsJson<Json>>>("metadata")?.map(|metadata| metadata.0),
    })
}
