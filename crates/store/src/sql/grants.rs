use std::ops::ControlFlow;

use async_trait::async_trait;

use super::db::tell_unread;
use super::row::{AsJson, Count, Word, id as id_column, json, limit as limit_of};
use super::{Area, Db, Driver, Row, SqlError, SqlResult, SqlStore, params};
use crate::answered;
use crate::grants::MOST_GRANTS_READ;
use crate::{
    Amount, Grant, GrantId, GrantList, GrantQuery, GrantStore, NewGrant, StoreError, Timestamp, VoidGrant,
};

#[async_trait]
impl<D: Driver> GrantStore for SqlStore<D> {
    async fn add_grant(&self, grant: NewGrant) -> Result<Grant, StoreError> {
        self.database.write(Area::Questions, move |db| Ok(add(db, grant)?)).await
    }

    async fn grants_in_force(&self, now: Timestamp, limit: usize) -> Result<GrantList, StoreError> {
        self.database
            .read(move |db| {
                let sql = "SELECT * FROM grants WHERE revoked_at IS NULL ORDER BY row DESC";
                let (mut list, mut read) = (GrantList::default(), 0);
                db.each(sql, params![], |row| {
                    if read >= MOST_GRANTS_READ {
                        list.is_cut = true;
                        return Ok(ControlFlow::Break(()));
                    }
                    read += 1;
                    // One that can't be read allows nothing.
                    match grant_of(row) {
                        Ok(grant) if grant.is_in_force(now) => list.grants.push(grant),
                        Ok(_) => {}
                        Err(SqlError::Unreadable) => list.unreadable += 1,
                        Err(error) => return Err(error),
                    }
                    let is_enough = list.grants.len() >= limit;
                    Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
                })?;
                Ok(list)
            })
            .await
    }

    async fn find_grant(&self, query: &GrantQuery, now: Timestamp) -> Result<Option<Grant>, StoreError> {
        let query = query.clone();
        self.database.read(move |db| Ok(covering(db, &query, now)?)).await
    }

    async fn use_grant(&self, query: &GrantQuery, now: Timestamp) -> Result<Option<Grant>, StoreError> {
        let query = query.clone();
        self.database
            .write(Area::Questions, move |db| {
                let Some(mut grant) = covering(db, &query, now)? else { return Ok(None) };
                grant.count(&query);
                let sql = "UPDATE grants SET uses = ?2, spent = ?3 WHERE id = ?1";
                let values = params![grant.id.as_str(), Count(grant.uses), grant.spent.to_string()];
                db.execute(sql, values)?;
                Ok(Some(grant))
            })
            .await
    }

    async fn grants(&self, limit: usize) -> Result<Vec<Grant>, StoreError> {
        self.database
            .read(move |db| {
                let sql = "SELECT * FROM grants ORDER BY row DESC LIMIT ?1";
                Ok(db.readable("grants", sql, params![limit_of(limit)], grant_of)?)
            })
            .await
    }

    async fn revoke_grant(
        &self,
        id: &GrantId,
        by: &str,
        now: Timestamp,
    ) -> Result<Option<Grant>, StoreError> {
        let (id, by) = (id.clone(), by.to_owned());
        self.database
            .write(Area::Questions, move |db| {
                let sql =
                    "UPDATE grants SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL RETURNING *";
                let revoked = db.optional(sql, params![id.as_str(), now], grant_of)?;
                if let Some(grant) = revoked {
                    db.say(answered::revoked(&grant, &by, now))?;
                    return Ok(Some(grant));
                }
                let sql = "SELECT * FROM grants WHERE id = ?1";
                Ok(db.optional(sql, params![id.as_str()], grant_of)?)
            })
            .await
    }

    async fn void_grants(&self, limit: usize) -> Result<Vec<VoidGrant>, StoreError> {
        self.database
            .read(move |db| {
                if !db.had_earlier_grants() {
                    return Ok(Vec::new());
                }
                let sql = "SELECT id, CASE WHEN json_valid(granted) THEN coalesce(granted ->> '$.title', '') END AS title, \
                           CASE WHEN json_valid(granted) THEN coalesce(granted ->> '$.createdBy', '') END AS created_by FROM void_grants \
                           WHERE revoked_at IS NULL ORDER BY row DESC LIMIT ?1";
                Ok(db.readable("earlier grants", sql, params![limit_of(limit)], |row| {
                    let title: String = row.get("title")?;
                    let (id, created_by) = (id_column(row, "id")?, row.get("created_by")?);
                    Ok(VoidGrant { id, title: title.into(), created_by })
                })?)
            })
            .await
    }
}

/// Writes a grant, and says so in the trail.
pub(super) fn add(db: &Db<'_>, granted: NewGrant) -> SqlResult<Grant> {
    let id = GrantId::random();
    let grant = Grant { id, granted, revoked_at: None, uses: 0, spent: Amount::default() };
    let sql = "INSERT INTO grants (id, agent, tool_name, granted) VALUES (?1, ?2, ?3, ?4)";
    let NewGrant { agent, tool_name, .. } = &grant.granted;
    let values = params![grant.id.as_str(), agent.as_str(), tool_name.canonical(), AsJson(&grant.granted)];
    db.execute(sql, values)?;
    db.say(answered::granted(&grant))?;
    Ok(grant)
}

/// Finds a grant that allows something. One that can't be read allows nothing, and stands before no other.
fn covering(db: &Db<'_>, query: &GrantQuery, now: Timestamp) -> SqlResult<Option<Grant>> {
    let sql = "SELECT * FROM grants WHERE agent = ?1 AND tool_name = ?2 AND revoked_at IS NULL ORDER BY row";
    let (mut found, mut unread) = (None, 0);
    db.each(sql, params![query.agent.as_str(), query.tool_name.canonical()], |row| {
        let grant = match grant_of(row) {
            Ok(grant) => grant,
            Err(SqlError::Unreadable) => {
                unread += 1;
                return Ok(ControlFlow::Continue(()));
            }
            Err(error) => return Err(error),
        };
        if grant.covers(query, now) {
            found = Some(grant);
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    tell_unread("grants", unread);
    Ok(found)
}

fn grant_of(row: &Row<'_>) -> SqlResult<Grant> {
    Ok(Grant {
        id: id_column(row, "id")?,
        granted: json(row, "granted")?,
        revoked_at: row.get("revoked_at")?,
        uses: row.get::<Count>("uses")?.0,
        spent: row.get::<Word<Amount>>("spent")?.0,
    })
}
