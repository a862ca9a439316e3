use std::ops::ControlFlow;

use async_trait::async_trait;
use serde_json::Value;

use super::row::{AsJson, json, limit as limit_of};
use super::{Area, Db, Driver, Fault, Row, SqlError, SqlResult, SqlStore, ToValue, params};
use crate::{
    AccessToken, AccessTokenId, AccessTokenList, AccessTokenStore, AddAccessTokenError, MAX_ACCESS_TOKENS,
    NewAccessToken, StoreError, Timestamp, UnreadableAccessToken, answered,
};

#[async_trait]
impl<D: Driver> AccessTokenStore for SqlStore<D> {
    async fn add_access_token(&self, made: NewAccessToken) -> Result<AccessToken, AddAccessTokenError> {
        self.database.write(Area::Tokens, move |db| add(db, made)).await
    }

    async fn access_tokens_after(
        &self,
        after: Option<i64>,
        limit: usize,
    ) -> Result<AccessTokenList, StoreError> {
        self.database
            .read(move |db| {
                let sql =
                    "SELECT * FROM access_tokens WHERE ?1 IS NULL OR row < ?1 ORDER BY row DESC LIMIT ?2";
                let list = listed(db, sql, params![after, limit_of(limit)])?;
                let sql = "SELECT min(row) AS last FROM (SELECT row FROM access_tokens \
                           WHERE ?1 IS NULL OR row < ?1 ORDER BY row DESC LIMIT ?2) AS page";
                let last: Option<i64> =
                    db.one(sql, params![after, limit_of(limit)], |row| row.get("last"))?;
                let more = "SELECT 1 FROM access_tokens WHERE row < ?1";
                let next = match last {
                    Some(last) if db.exists(more, params![last])? => Some(last),
                    _ => None,
                };
                Ok(AccessTokenList { next, ..list })
            })
            .await
    }

    async fn counting_access_tokens(&self, now: Timestamp) -> Result<AccessTokenList, StoreError> {
        self.database
            .read(move |db| {
                let sql = "SELECT * FROM access_tokens WHERE revoked_at IS NULL AND ends_at > ?1";
                Ok(listed(db, sql, params![now])?)
            })
            .await
    }

    async fn revoke_access_token(
        &self,
        id: &AccessTokenId,
        by: &str,
        now: Timestamp,
    ) -> Result<Option<AccessToken>, StoreError> {
        let (id, by) = (id.clone(), by.to_owned());
        self.database
            .write(Area::Tokens, move |db| {
                let sql = "UPDATE access_tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL \
                           RETURNING *";
                let revoked = db.optional(sql, params![id.as_str(), now], token_of)?;
                if let Some(token) = revoked {
                    db.say(answered::token_revoked(&token, &by, now))?;
                    return Ok(Some(token));
                }
                Ok(find(db, &id)?)
            })
            .await
    }

    async fn note_access_tokens(&self, used: Vec<(AccessTokenId, Timestamp)>) -> Result<(), StoreError> {
        self.database
            .write(Area::Tokens, move |db| {
                let sql = "UPDATE access_tokens SET last_used_at = ?2 WHERE id = ?1 \
                           AND (last_used_at IS NULL OR last_used_at < ?2)";
                for (id, at) in &used {
                    db.execute(sql, params![id.as_str(), at])?;
                }
                Ok(())
            })
            .await
    }
}

fn add(db: &Db<'_>, made: NewAccessToken) -> Result<AccessToken, Fault<AddAccessTokenError>> {
    if !made.is_sound() {
        return Err(Fault::Refused(AddAccessTokenError::Mixed));
    }
    let now = made.created_at;
    let sql = "SELECT count(*) FROM access_tokens WHERE revoked_at IS NULL AND ends_at > ?1";
    let counting: i64 = db.one(sql, params![now], |row| row.get(0))?;
    if counting >= limit_of(MAX_ACCESS_TOKENS) {
        return Err(Fault::Refused(AddAccessTokenError::TooMany));
    }
    if let Some(replaced) = &made.replaces {
        let old = find(db, &replaced.id)?;
        if !old.is_some_and(|old| old.counts(now) && old.made.is_like(&made)) {
            let (holder, id) = (made.holder(), replaced.id.clone());
            return Err(Fault::Refused(AddAccessTokenError::NothingToReplace { holder, id }));
        }
        let sql = "UPDATE access_tokens SET ends_at = ?2 WHERE id = ?1 AND ends_at > ?2";
        db.execute(sql, params![replaced.id.as_str(), replaced.ends_at])?;
    }
    let token = AccessToken::new(made);
    let sql = "INSERT INTO access_tokens (id, made, ends_at) VALUES (?1, ?2, ?3)";
    let values = params![token.made.id.as_str(), AsJson(&token.made), token.ends_at];
    db.execute(sql, values)?;
    db.say(answered::token_created(&token))?;
    Ok(token)
}

fn find(db: &Db<'_>, id: &AccessTokenId) -> SqlResult<Option<AccessToken>> {
    let sql = "SELECT * FROM access_tokens WHERE id = ?1";
    db.optional(sql, params![id.as_str()], token_of)
}

/// The tokens of these rows. A row that holds something else is told apart, and an error of the database is one.
fn listed(db: &Db<'_>, sql: &str, values: &[&dyn ToValue]) -> SqlResult<AccessTokenList> {
    let mut list = AccessTokenList::default();
    db.each(sql, values, |row| {
        match token_of(row) {
            Ok(token) => list.tokens.push(token),
            Err(_) => list.unreadable.push(UnreadableAccessToken {
                id: row.get::<String>("id").ok().map(AccessTokenId::from),
                agent: json::<Value>(row, "made")
                    .ok()
                    .and_then(|made| Some(made.get("agent")?.as_str()?.into())),
            }),
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(list)
}

fn token_of(row: &Row<'_>) -> SqlResult<AccessToken> {
    let made: NewAccessToken = json(row, "made")?;
    // What would be both an agent's and a person's was not made here.
    if row.get::<String>("id")? != made.id.as_str() || !made.is_sound() {
        return Err(SqlError::Unreadable);
    }
    Ok(AccessToken {
        made,
        ends_at: row.get("ends_at")?,
        revoked_at: row.get("revoked_at")?,
        last_used_at: row.get("last_used_at")?,
    })
}
