use async_trait::async_trait;
use backstop_hooks::{Json, OwnerId, SessionKey};

use super::row::{AsJson, Count, id as id_column};
use super::{Area, Db, Driver, Fault, Row, SqlResult, SqlStore, ToValue, params};
use crate::extensions::checked;
use crate::{
    Expected, Extension, ExtensionError, ExtensionKey, ExtensionStore, Forget, Forgotten, MAX_EXTENSIONS,
    StoreError, Timestamp,
};

#[async_trait]
impl<D: Driver> ExtensionStore for SqlStore<D> {
    async fn extension(&self, key: &ExtensionKey) -> Result<Option<Extension>, StoreError> {
        let key = key.clone();
        let sql = "SELECT * FROM extensions WHERE session_key = ?1 AND owner = ?2 AND namespace = ?3";
        self.database
            .read(move |db| Ok(db.optional(sql, &words(&key).each_ref().map(value), extension_of)?))
            .await
    }

    async fn extensions(&self, session: &SessionKey) -> Result<Vec<Extension>, StoreError> {
        let session = session.clone();
        let sql = "SELECT * FROM extensions WHERE session_key = ?1 ORDER BY owner, namespace";
        self.database.read(move |db| Ok(db.all(sql, params![session.as_str()], extension_of)?)).await
    }

    async fn put_extension(
        &self,
        key: &ExtensionKey,
        value: &Json,
        expected: Expected,
        now: Timestamp,
    ) -> Result<u64, ExtensionError> {
        let value = checked(key, value)?;
        let key = key.clone();
        self.database
            .write(Area::Queues, move |db| {
                let found = revision(db, &key)?;
                let ExtensionKey { session_key, owner, namespace } = &key;
                if !expected.fits(found) {
                    let namespace = namespace.clone();
                    return Err(Fault::Refused(ExtensionError::Conflict { namespace, revision: found }));
                }
                if found.is_none() && neighbours(db, &key)? >= MAX_EXTENSIONS {
                    let (owner, session_key) = (owner.clone(), session_key.clone());
                    return Err(Fault::Refused(ExtensionError::Full { owner, session_key }));
                }
                // Its place in the order of all writes is its revision.
                let sql = "DELETE FROM extensions WHERE session_key = ?1 AND owner = ?2 AND namespace = ?3";
                db.execute(sql, params![session_key.as_str(), owner.as_str(), namespace])?;
                let sql = "INSERT INTO extensions (session_key, owner, namespace, value, updated_at) \
                           VALUES (?1, ?2, ?3, ?4, ?5) RETURNING revision";
                let values = params![session_key.as_str(), owner.as_str(), namespace, value, now];
                let revision: Count = db.one(sql, values, |row| row.get(0))?;
                Ok(revision.0)
            })
            .await
    }

    async fn remove_extension(&self, key: &ExtensionKey) -> Result<bool, StoreError> {
        let key = key.clone();
        let sql = "DELETE FROM extensions WHERE session_key = ?1 AND owner = ?2 AND namespace = ?3";
        self.database
            .write(Area::Queues, move |db| Ok(db.execute(sql, &words(&key).each_ref().map(value))? > 0))
            .await
    }

    async fn forget_owner(&self, owner: &OwnerId, what: &Forget) -> Result<Forgotten, StoreError> {
        let (owner, what) = (owner.clone(), what.clone());
        self.database
            .write(Area::Queues, move |db| {
                let session = match &what {
                    Forget::Session(key) => Some(key.as_str()),
                    Forget::Everything => None,
                };
                let sql = "DELETE FROM extensions WHERE owner = ?1 AND (?2 IS NULL OR session_key = ?2)";
                let extensions = db.execute(sql, params![owner.as_str(), session])?;
                let sql = "DELETE FROM injections WHERE owner = ?1 AND (?2 IS NULL OR session_key = ?2)";
                let injections = db.execute(sql, params![owner.as_str(), session])?;
                Ok(Forgotten { extensions, injections })
            })
            .await
    }
}

/// A word as a parameter.
fn value<'v>(word: &'v &str) -> &'v dyn ToValue {
    word
}

fn words(key: &ExtensionKey) -> [&str; 3] {
    [key.session_key.as_str(), key.owner.as_str(), &key.namespace]
}

fn revision(db: &Db<'_>, key: &ExtensionKey) -> SqlResult<Option<u64>> {
    let sql = "SELECT revision FROM extensions WHERE session_key = ?1 AND owner = ?2 AND namespace = ?3";
    let revision: Option<Count> = db.optional(sql, &words(key).each_ref().map(value), |row| row.get(0))?;
    Ok(revision.map(|revision| revision.0))
}

fn neighbours(db: &Db<'_>, key: &ExtensionKey) -> SqlResult<usize> {
    let sql = "SELECT count(*) FROM extensions WHERE session_key = ?1 AND owner = ?2";
    let values = params![key.session_key.as_str(), key.owner.as_str()];
    let count: Count = db.one(sql, values, |row| row.get(0))?;
    Ok(usize::try_from(count.0).unwrap_or(usize::MAX))
}

fn extension_of(row: &Row<'_>) -> SqlResult<Extension> {
    Ok(Extension {
        key: ExtensionKey {
            session_key: id_column(row, "session_key")?,
            owner: id_column(row, "owner")?,
            namespace: row.get("namespace")?,
        },
        value: row.get::<AsJson<Json>>("value")?.0,
        revision: row.get::<Count>("revision")?.0,
        updated_at: row.get("updated_at")?,
    })
}
