use std::time::Duration;

use async_trait::async_trait;
use backstop_hooks::points::SessionEndReason;
use backstop_hooks::{SessionId, SessionKey};

use super::db::tell_unread;
use super::row::{AsJson, Word, id as id_column, json, limit as limit_of, optional_id};
use super::{Area, Db, Driver, Fault, Row, SqlError, SqlResult, SqlStore, params};
use crate::{
    Lease, LeaseError, LeaseHolder, Session, SessionEnd, SessionError, SessionStore, StoreError, Timestamp,
};

#[async_trait]
impl<D: Driver> SessionStore for SqlStore<D> {
    async fn create_session(&self, session: Session) -> Result<(), SessionError> {
        self.database
            .write(Area::Conversations, move |db| {
                if has_session(db, &session.id)? {
                    return Err(Fault::Refused(SessionError::Exists(session.id)));
                }
                Ok(insert(db, &session)?)
            })
            .await
    }

    async fn session(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        let id = id.clone();
        self.database.read(move |db| Ok(find(db, &id)?)).await
    }

    async fn latest_session(&self, key: &SessionKey) -> Result<Option<Session>, StoreError> {
        let key = key.clone();
        self.database
            .read(move |db| {
                let sql = "SELECT * FROM sessions WHERE key = ?1 ORDER BY created_at DESC, row DESC LIMIT 1";
                Ok(db.optional(sql, params![key.as_str()], session)?)
            })
            .await
    }

    async fn sessions(&self, limit: usize) -> Result<Vec<Session>, StoreError> {
        self.database
            .read(move |db| {
                let sql = "SELECT * FROM sessions ORDER BY updated_at DESC, row DESC LIMIT ?1";
                Ok(db.readable("sessions", sql, params![limit_of(limit)], session)?)
            })
            .await
    }

    async fn end_session(
        &self,
        id: &SessionId,
        reason: SessionEndReason,
        now: Timestamp,
    ) -> Result<bool, SessionError> {
        let id = id.clone();
        self.database
            .write(Area::Conversations, move |db| {
                let sql = "UPDATE sessions SET ended_at = ?2, end_reason = ?3, updated_at = CASE WHEN updated_at < ?2 THEN ?2 ELSE updated_at END \
                           WHERE id = ?1 AND ended_at IS NULL";
                let ended = db.execute(sql, params![id.as_str(), now, Word(reason)])?;
                if ended == 0 && !has_session(db, &id)? {
                    return Err(Fault::Refused(SessionError::Unknown(id)));
                }
                Ok(ended > 0)
            })
            .await
    }

    async fn touch_session(&self, id: &SessionId, now: Timestamp) -> Result<(), SessionError> {
        let id = id.clone();
        self.database
            .write(Area::Conversations, move |db| {
                let sql = "UPDATE sessions SET updated_at = CASE WHEN updated_at < ?2 THEN ?2 ELSE updated_at END WHERE id = ?1";
                match db.execute(sql, params![id.as_str(), now])? {
                    0 => Err(Fault::Refused(SessionError::Unknown(id))),
                    _ => Ok(()),
                }
            })
            .await
    }

    async fn lease_session(
        &self,
        id: &SessionId,
        holder: &LeaseHolder,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Lease, LeaseError> {
        let wanted = Lease { session: id.clone(), holder: holder.clone(), until: now.after(ttl) };
        self.database
            .write(Area::Conversations, move |db| {
                if !has_session(db, &wanted.session)? {
                    return Err(Fault::Refused(LeaseError::Unknown(wanted.session)));
                }
                match current_lease(db, &wanted.session)? {
                    Some(Lease { session, holder, until })
                        if holder != wanted.holder && until > now && !holder.is_gone() =>
                    {
                        Err(Fault::Refused(LeaseError::Held { session, holder, until }))
                    }
                    _ => Ok(put_lease(db, wanted)?),
                }
            })
            .await
    }

    async fn renew_lease(
        &self,
        id: &SessionId,
        holder: &LeaseHolder,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Lease, LeaseError> {
        let wanted = Lease { session: id.clone(), holder: holder.clone(), until: now.after(ttl) };
        self.database
            .write(Area::Conversations, move |db| match current_lease(db, &wanted.session)? {
                Some(lease) if lease.holder == wanted.holder => Ok(put_lease(db, wanted)?),
                _ => Err(Fault::Refused(LeaseError::Lost(wanted.session))),
            })
            .await
    }

    async fn release_lease(&self, id: &SessionId, holder: &LeaseHolder) -> Result<(), StoreError> {
        let (id, holder) = (id.clone(), holder.clone());
        self.database
            .write(Area::Conversations, move |db| {
                let sql = "DELETE FROM leases WHERE session = ?1 AND holder = ?2";
                db.execute(sql, params![id.as_str(), holder.as_str()])?;
                Ok(())
            })
            .await
    }
}

pub(super) fn find(db: &Db<'_>, id: &SessionId) -> SqlResult<Option<Session>> {
    let sql = "SELECT * FROM sessions WHERE id = ?1";
    db.optional(sql, params![id.as_str()], session)
}

/// Returns a session that is to be deleted. What can't be read of it keeps it from nothing: without that it is what is told of it.
pub(super) fn find_to_delete(db: &Db<'_>, id: &SessionId) -> SqlResult<Option<Session>> {
    match find(db, id) {
        Err(SqlError::Unreadable) => {}
        found => return found,
    }
    tell_unread("sessions", 1);
    let sql = "SELECT * FROM sessions WHERE id = ?1";
    db.optional(sql, params![id.as_str()], |row| {
        Ok(Session {
            id: id.clone(),
            key: id_column(row, "key")?,
            agent: id_column(row, "agent").unwrap_or_else(|_| String::new().into()),
            workspace: row.get("workspace").unwrap_or_default(),
            created_at: row.get("created_at")?,
            updated_at: row.get("updated_at")?,
            ended: None,
            resumed_from: None,
            meta: serde_json::json!({}).into(),
        })
    })
}

pub(super) fn has_session(db: &Db<'_>, id: &SessionId) -> SqlResult<bool> {
    db.exists("SELECT 1 FROM sessions WHERE id = ?1", params![id.as_str()])
}

fn insert(db: &Db<'_>, session: &Session) -> SqlResult<()> {
    let sql = "INSERT INTO sessions (id, key, agent, workspace, created_at, updated_at, ended_at, end_reason, \
               resumed_from, meta) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    db.execute(
        sql,
        params![
            session.id.as_str(),
            session.key.as_str(),
            session.agent.as_str(),
            session.workspace,
            session.created_at,
            session.updated_at,
            session.ended.map(|end| end.at),
            session.ended.map(|end| Word(end.reason)),
            session.resumed_from.as_ref().map(SessionId::as_str),
            AsJson(&session.meta),
        ],
    )?;
    Ok(())
}

fn session(row: &Row<'_>) -> SqlResult<Session> {
    let at: Option<Timestamp> = row.get("ended_at")?;
    let reason: Option<Word<SessionEndReason>> = row.get("end_reason")?;
    Ok(Session {
        id: id_column(row, "id")?,
        key: id_column(row, "key")?,
        agent: id_column(row, "agent")?,
        workspace: row.get("workspace")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
        ended: at.zip(reason).map(|(at, reason)| SessionEnd { at, reason: reason.0 }),
        resumed_from: optional_id(row, "resumed_from")?,
        meta: json(row, "meta")?,
    })
}

pub(super) fn is_leased_to(db: &Db<'_>, session: &SessionId, holder: &LeaseHolder) -> SqlResult<bool> {
    Ok(current_lease(db, session)?.is_some_and(|lease| lease.holder == *holder))
}

pub(super) fn current_lease(db: &Db<'_>, session: &SessionId) -> SqlResult<Option<Lease>> {
    let sql = "SELECT holder, until FROM leases WHERE session = ?1";
    let lease = |row: &Row<'_>| {
        let holder = LeaseHolder::new(row.get::<String>("holder")?);
        Ok(Lease { session: session.clone(), holder, until: row.get("until")? })
    };
    db.optional(sql, params![session.as_str()], lease)
}

fn put_lease(db: &Db<'_>, lease: Lease) -> SqlResult<Lease> {
    let sql = "INSERT INTO leases (session, holder, until) VALUES (?1, ?2, ?3) \
               ON CONFLICT (session) DO UPDATE SET holder = excluded.holder, until = excluded.until";
    db.execute(sql, params![lease.session.as_str(), lease.holder.as_str(), lease.until])?;
    Ok(lease)
}
