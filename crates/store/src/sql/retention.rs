use async_trait::async_trait;
use backstop_hooks::SessionId;

use super::row::{Count, id as id_column, limit as limit_of};
use super::{
    Area, AuditTrail, Db, Driver, Fault, Row, SqlResult, SqlStore, ToValue, approvals, params, sessions,
    texts,
};
use crate::retention::{
    AuditBound, DeleteError, DeletedSession, Deletion, PrunableAudit, RetentionStore, SESSION_DELETED,
    StoredSession, StoredSize, TRANSCRIPT_DELETED,
};
use crate::{AppendAuditError, Erasure, NewAuditEntry, Session, StoreError, Timestamp};

type Outcome<T> = Result<T, Fault<DeleteError>>;

#[async_trait]
impl<D: Driver> RetentionStore for SqlStore<D> {
    async fn stored_sessions(
        &self,
        before: Timestamp,
        empty: bool,
        limit: usize,
    ) -> Result<Vec<StoredSession>, StoreError> {
        self.database
            .read(move |db| {
                let sql = "SELECT sessions.id, sessions.agent, sessions.updated_at, count(entries.row) AS messages, \
                           CAST(coalesce(sum(octet_length(body)), 0) AS BIGINT) AS bytes FROM sessions \
                           LEFT JOIN entries ON entries.session = sessions.id \
                           LEFT JOIN texts ON text_id = entries.text WHERE sessions.updated_at < ?1 \
                           GROUP BY sessions.row HAVING ?2 OR count(entries.row) > 0 \
                           ORDER BY sessions.updated_at, sessions.row LIMIT ?3";
                Ok(db.readable("sessions", sql, params![before, empty, limit_of(limit)], stored)?)
            })
            .await
    }

    async fn stored_size(&self) -> Result<StoredSize, StoreError> {
        self.database
            .read(|db| {
                let sql = "SELECT (SELECT count(*) FROM sessions) AS sessions, \
                           CAST(coalesce(sum(octet_length(body)), 0) AS BIGINT) AS bytes FROM entries JOIN texts ON text_id = text";
                Ok(db.one(sql, params![], |row| {
                    let Count(sessions) = row.get("sessions")?;
                    let Count(transcript_bytes) = row.get("bytes")?;
                    Ok(StoredSize { sessions, transcript_bytes })
                })?)
            })
            .await
    }

    async fn delete_session(&self, id: &SessionId, why: Deletion) -> Result<DeletedSession, DeleteError> {
        let id = id.clone();
        let (deleted, erasure) = self
            .database
            .erase(Area::Everything, move |db| {
                let session = free(db, &id, why.at)?;
                let messages = wipe_transcript(db, &id)?;
                approvals::end_with_session(db, &id, why.at)?;
                wipe_approvals(db, "SELECT row FROM approvals WHERE session = ?1", params![id.as_str()])?;
                let sql = "DELETE FROM approvals WHERE session = ?1";
                let approvals = changed(db.execute(sql, params![id.as_str()])?);
                for sql in [
                    "DELETE FROM decisions WHERE session = ?1",
                    "DELETE FROM runs WHERE session = ?1",
                    "DELETE FROM leases WHERE session = ?1",
                    "DELETE FROM sessions WHERE id = ?1",
                ] {
                    db.execute(sql, params![id.as_str()])?;
                }
                for sql in [
                    "DELETE FROM injections WHERE session_key = ?1 \
                     AND NOT EXISTS (SELECT 1 FROM sessions WHERE key = ?1)",
                    "DELETE FROM extensions WHERE session_key = ?1 \
                     AND NOT EXISTS (SELECT 1 FROM sessions WHERE key = ?1)",
                ] {
                    db.execute(sql, params![session.key.as_str()])?;
                }
                let deleted = DeletedSession { session, messages, approvals, erasure: Erasure::Pending };
                say(db, why.of_session(SESSION_DELETED, &deleted))?;
                Ok(deleted)
            })
            .await?;
        // Who waits for one of its approvals finds that it is gone.
        self.seats.wake_all();
        Ok(DeletedSession { erasure, ..deleted })
    }

    async fn delete_transcript(&self, id: &SessionId, why: Deletion) -> Result<DeletedSession, DeleteError> {
        let id = id.clone();
        let (deleted, erasure) = self
            .database
            .erase(Area::Everything, move |db| {
                let session = free(db, &id, why.at)?;
                let messages = wipe_transcript(db, &id)?;
                let settled = "SELECT row FROM approvals WHERE session = ?1 AND status <> 'pending'";
                wipe_approvals(db, settled, params![id.as_str()])?;
                let sql = "DELETE FROM approvals WHERE session = ?1 AND status <> 'pending'";
                let approvals = changed(db.execute(sql, params![id.as_str()])?);
                let deleted = DeletedSession { session, messages, approvals, erasure: Erasure::Pending };
                say(db, why.of_session(TRANSCRIPT_DELETED, &deleted))?;
                Ok(deleted)
            })
            .await?;
        Ok(DeletedSession { erasure, ..deleted })
    }

    async fn delete_approvals(
        &self,
        before: Option<Timestamp>,
        most: Option<u64>,
        limit: usize,
        why: Deletion,
    ) -> Result<u64, DeleteError> {
        let (most, limit) = (most.map(Count), limit_of(limit));
        let due = "SELECT row FROM approvals WHERE status <> 'pending' AND (expires_at < ?1 OR (?2 IS NOT NULL \
                   AND row <= (SELECT row FROM approvals ORDER BY row DESC LIMIT 1 OFFSET ?2))) ORDER BY row LIMIT ?3";
        // Looking costs less than wiping, and mostly there is nothing.
        let found: Result<bool, DeleteError> =
            self.database.read(move |db| Ok(db.exists(due, params![before, most, limit])?)).await;
        if !found? {
            return Ok(0);
        }
        let (approvals, _) = self
            .database
            .erase(Area::Everything, move |db| {
                let values: &[&dyn ToValue] = &[&before, &most, &limit];
                wipe_approvals(db, due, values)?;
                let sql = format!("DELETE FROM approvals WHERE row IN ({due})");
                let approvals = changed(db.execute(&sql, values)?);
                if approvals > 0 {
                    say(db, why.of_approvals(approvals))?;
                }
                Ok::<_, Fault<DeleteError>>(approvals)
            })
            .await?;
        Ok(approvals)
    }

    async fn prunable_audit(&self, bound: AuditBound, limit: usize) -> Result<PrunableAudit, StoreError> {
        match &self.trail {
            AuditTrail::Files(trail) => trail.prunable(bound, limit).await,
            AuditTrail::Memory(trail) => Ok(trail.prunable(bound, limit)),
        }
    }
}

/// Returns the session, if nobody alive works in it.
fn free(db: &Db<'_>, id: &SessionId, now: Timestamp) -> Outcome<Session> {
    let session = sessions::find_to_delete(db, id)?;
    let session = session.ok_or_else(|| Fault::Refused(DeleteError::Unknown(id.clone())))?;
    match sessions::current_lease(db, id)? {
        Some(lease) if lease.until > now && !lease.holder.is_gone() => {
            Err(Fault::Refused(DeleteError::InUse { session: id.clone(), holder: lease.holder }))
        }
        _ => Ok(session),
    }
}

fn wipe_transcript(db: &Db<'_>, id: &SessionId) -> SqlResult<u64> {
    texts::wipe(db, "SELECT text FROM entries WHERE session = ?1", params![id.as_str()])?;
    Ok(changed(db.execute("DELETE FROM entries WHERE session = ?1", params![id.as_str()])?))
}

/// Wipes what the approvals in these rows show.
fn wipe_approvals(db: &Db<'_>, rows: &str, values: &[&dyn ToValue]) -> SqlResult<()> {
    texts::wipe(db, &format!("SELECT text FROM approvals WHERE row IN ({rows})"), values)
}

/// INVARIANT (said): what is deleted is said before it is.
fn say(db: &Db<'_>, entry: NewAuditEntry) -> Outcome<()> {
    if entry.body.is_too_large() {
        let refused = AppendAuditError::TooLarge(entry.body.as_str().len());
        return Err(Fault::Refused(DeleteError::Unsaid(refused)));
    }
    Ok(db.say(entry)?)
}

fn changed(rows: usize) -> u64 {
    u64::try_from(rows).unwrap_or(u64::MAX)
}

fn stored(row: &Row<'_>) -> SqlResult<StoredSession> {
    Ok(StoredSession {
        id: id_column(row, "id")?,
        agent: id_column(row, "agent")?,
        updated_at: row.get("updated_at")?,
        messages: row.get::<Count>("messages")?.0,
        bytes: row.get::<Count>("bytes")?.0,
    })
}
