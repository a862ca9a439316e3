use async_trait::async_trait;
use backstop_hooks::{Json, OwnerId, SessionKey};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::SqliteStore;
use super::database::Fault;
use super::row::{AsJson, Count, id as id_column};
use crate::extensions::checked;
use crate::{
    Expected, Extension, ExtensionError, ExtensionKey, ExtensionStore, Forget, Forgotten, MAX_EXTENSIONS,
    StoreError, Timestamp,
};

#[async_trait]
impl ExtensionStore for SqliteStore {
    async fn extension(&self, key: &ExtensionKey) -> Result<Option<Extension>, StoreError> {
        let key = key.clone();
        let sql = "SELECT * FROM extensions WHERE session_key = ?1 AND owner = ?2 AND namespace = ?3";
        self.database
            .read(move |db| Ok(db.prepare_cached(sql)?.query_row(words(&key), extension_of).optional()?))
            .await
    }

    async fn extensions(&self, session: &SessionKey) -> Result<Vec<Extension>, StoreError> {
        let session = session.clone();
        let sql = "SELECT * FROM extensions WHERE session_key = ?1 ORDER BY owner, namespace";
        self.database
            .read(move |db| {
                let mut statement = db.prepare_cached(sql)?;
                let found = statement.query_map([session.as_str()], extension_of)?;
                Ok(found.collect::<Result<_, _>>()?)
            })
            .await
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
            .write(move |db| {
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
                let sql = "INSERT OR REPLACE INTO extensions (session_key, owner, namespace, value, updated_at) \
                           VALUES (?1, ?2, ?3, ?4, ?5) RETURNING revision";
                let values = params![session_key.as_str(), owner.as_str(), namespace, value, now];
                let revision: Count = db.prepare_cached(sql)?.query_row(values, |row| row.get(0))?;
                Ok(revision.0)
            })
            .await
    }

    async fn remove_extension(&self, key: &ExtensionKey) -> Result<bool, StoreError> {
        let key = key.clone();
        let sql = "DELETE FROM extensions WHERE session_key = ?1 AND owner = ?2 AND namespace = ?3";
        self.database.write(move |db| Ok(db.prepare_cached(sql)?.execute(words(&key))? > 0)).await
    }

    async fn forget_owner(&self, owner: &OwnerId, what: &Forget) -> Result<Forgotten, StoreError> {
        let (owner, what) = (owner.clone(), what.clone());
        self.database
            .write(move |db| {
                let session = match &what {
                    Forget::Session(key) => Some(key.as_str()),
                    Forget::Everything => None,
                };
                let sql = "DELETE FROM extensions WHERE owner = ?1 AND (?2 IS NULL OR session_key = ?2)";
                let extensions = db.prepare_cached(sql)?.execute(params![owner.as_str(), session])?;
                let sql = "DELETE FROM injections WHERE owner = ?1 AND (?2 IS NULL OR session_key = ?2)";
                let injections = db.prepare_cached(sql)?.execute(params![owner.as_str(), session])?;
                Ok(Forgotten { extensions, injections })
            })
            .await
    }
}

fn words(key: &ExtensionKey) -> [&str; 3] {
    [key.session_key.as_str(), key.owner.as_str(), &key.namespace]
}

fn revision(db: &Connection, key: &ExtensionKey) -> rusqlite::Result<Option<u64>> {
    let sql = "SELECT revision FROM extensions WHERE session_key = ?1 AND owner = ?2 AND namespace = ?3";
    let revision: Option<Count> =
        db.prepare_cached(sql)?.query_row(words(key), |row| row.get(0)).optional()?;
    Ok(revision.map(|revision| revision.0))
}

fn neighbours(db: &Connection, key: &ExtensionKey) -> rusqlite::Result<usize> {
    let sql = "SELECT count(*) FROM extensions WHERE session_key = ?1 AND owner = ?2";
    let values = [key.session_key.as_str(), key.owner.as_str()];
    let count: Count = db.prepare_cached(sql)?.query_row(values, |row| row.get(0))?;
    Ok(usize::try_from(count.0).unwrap_or(usize::MAX))
}

fn extension_of(row: &Row<'_>) -> rusqlite::Result<Extension> {
    Ok(Extension {
        key: ExtensionKey {
            session_key: id_column(row, "session_key")?,
            owner: id_column(row, "owner")?,
            namespace: row.get("namespace")?,
        },
        value: row.get::<_, AsJson<Json>>("value")?.0,
        revision: row.get::<_, Count>("revision")?.0,
        updated_at: row.get("updated_at")?,
    })
}
