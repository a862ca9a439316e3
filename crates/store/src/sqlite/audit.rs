use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};

use super::SqliteStore;
use super::database::Fault;
use super::row::{Count, limit as limit_of};
use crate::audit::{Link, Walk, carried, name_of_list, pruned};
use crate::{
    AUDIT_GAP, AUDIT_HOOKS, AUDIT_PRUNED, AppendAuditError, AuditEntry, AuditFilter, AuditHead, AuditReport,
    AuditStore, Durability, NewAuditEntry, PruneAuditError, StoreError, Timestamp, VerifyAuditError,
};

#[async_trait]
impl AuditStore for SqliteStore {
    async fn check_writable(&self) -> Result<(), StoreError> {
        self.database
            .write(|db| {
                // The version in the header is written anew, which takes room, a lock and the disk as any row does.
                let version: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
                Ok(db.pragma_update(None, "user_version", version)?)
            })
            .await
    }

    async fn append_audit(&self, entry: NewAuditEntry) -> Result<AuditEntry, AppendAuditError> {
        self.database
            .write_soon(move |db| {
                let (link, _) = Link::next(head(db)?, entry).map_err(Fault::Refused)?;
                insert(db, &link)?;
                Ok(link.entry().ok_or_else(unreadable)?)
            })
            .await
    }

    async fn append_audit_all(
        &self,
        entries: Vec<NewAuditEntry>,
        durability: Durability,
    ) -> Result<AuditHead, AppendAuditError> {
        let work = move |db: &Transaction<'_>| {
            let mut head = head(db)?;
            for entry in entries {
                let (link, next) = Link::next(head, entry).map_err(Fault::Refused)?;
                insert(db, &link)?;
                head = next;
            }
            Ok(head)
        };
        match durability {
            Durability::Now => self.database.write(work).await,
            Durability::Soon => self.database.write_soon(work).await,
        }
    }

    async fn audit(
        &self,
        filter: &AuditFilter,
        after: u64,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let filter = filter.clone();
        self.database
            .read(move |db| {
                let sql = "SELECT * FROM audit WHERE seq > ?1 AND (?2 IS NULL OR kind = ?2) \
                           AND (?3 IS NULL OR session = ?3) AND (?4 IS NULL OR run = ?4) ORDER BY seq LIMIT ?5";
                let mut statement = db.prepare_cached(sql)?;
                let values = params![
                    Count(after),
                    filter.kind,
                    filter.session.as_ref().map(AsRef::<str>::as_ref),
                    filter.run.as_ref().map(AsRef::<str>::as_ref),
                    limit_of(limit),
                ];
                let entries = statement.query_map(values, |row| link_of(row)?.entry().ok_or_else(unreadable))?;
                Ok(entries.collect::<Result<_, _>>()?)
            })
            .await
    }

    async fn audit_head(&self) -> Result<AuditHead, StoreError> {
        self.database.read(|db| Ok(head(db)?)).await
    }

    async fn verify_audit(&self, known: Option<AuditHead>) -> Result<AuditReport, VerifyAuditError> {
        self.database
            .read(move |db| {
                let mut walk = Walk::new(start(db)?, known).map_err(Fault::Refused)?;
                let mut statement = db.prepare("SELECT * FROM audit ORDER BY seq")?;
                let mut rows = statement.query([])?;
                while let Some(row) = rows.next()? {
                    walk.step(link_of(row).ok()).map_err(Fault::Refused)?;
                }
                walk.finish().map_err(Fault::Refused)
            })
            .await
    }

    async fn prune_audit(&self, through: u64, now: Timestamp) -> Result<AuditHead, PruneAuditError> {
        let work = move |db: &Transaction<'_>| {
            let sql = "SELECT * FROM audit WHERE seq = ?1";
            let last = db.prepare_cached(sql)?.query_row([Count(through)], link_of).optional()?;
            let head = head(db)?;
            let Some(last) = last.filter(|_| through < head.seq) else {
                return Err(Fault::Refused(PruneAuditError::NoSuchEntry(through)));
            };
            let start = AuditHead { seq: through, digest: last.digest.parse().map_err(|_| unreadable())? };
            let sql = "SELECT * FROM audit WHERE seq <= ?1 AND kind IN (?2, ?3)";
            let mut telling = db.prepare_cached(sql)?;
            let gone = telling.query_map(params![Count(through), AUDIT_GAP, AUDIT_PRUNED], link_of)?;
            let gone = gone.collect::<Result<Vec<_>, _>>()?;
            let (link, _) =
                Link::next(head, pruned(start, &gone, now)).map_err(|error| Fault::Refused(error.into()))?;
            insert(db, &link)?;
            carry_lists(db, through, now)?;
            // First: the trigger lets go of what is before the start.
            let sql = "INSERT OR REPLACE INTO audit_start (one, seq, digest) VALUES (1, ?1, ?2)";
            db.prepare_cached(sql)?.execute(params![Count(through), start.digest.to_string()])?;
            db.prepare_cached("DELETE FROM audit WHERE seq <= ?1")?.execute([Count(through)])?;
            Ok(start)
        };
        self.database.erase(work).await.map(|(start, _)| start)
    }
}

/// Writes lists of hooks that are about to be pruned once more, where remaining receipts name them and no remaining entry says the same:
/// a long list has several parts, of which some may remain.
fn carry_lists(db: &Connection, through: u64, now: Timestamp) -> Result<(), Fault<PruneAuditError>> {
    let sql = "SELECT * FROM audit WHERE seq <= ?1 AND kind = ?2 ORDER BY seq";
    let mut lists = db.prepare_cached(sql)?;
    let lists =
        lists.query_map(params![Count(through), AUDIT_HOOKS], link_of)?.collect::<Result<Vec<_>, _>>()?;
    let sql = "SELECT count(*) > 0 AND count(*) FILTER (WHERE kind = ?3 AND body = ?4) = 0 FROM audit \
               WHERE seq > ?1 AND instr(body, ?2) > 0";
    let mut needed = db.prepare_cached(sql)?;
    let mut carry = Vec::new();
    for list in lists {
        let Some(name) = name_of_list(&list) else { continue };
        if needed.query_row(params![Count(through), name, AUDIT_HOOKS, list.body], |row| row.get(0))? {
            carry.push(list);
        }
    }
    for list in carry {
        let (link, _) =
            Link::next(head(db)?, carried(list, now)).map_err(|error| Fault::Refused(error.into()))?;
        insert(db, &link)?;
    }
    Ok(())
}

/// Returns the head of what was pruned.
fn start(db: &Connection) -> rusqlite::Result<AuditHead> {
    let start = db.prepare_cached("SELECT seq, digest FROM audit_start")?.query_row([], head_of);
    Ok(start.optional()?.unwrap_or_default())
}

fn head_of(row: &Row<'_>) -> rusqlite::Result<AuditHead> {
    let digest: String = row.get("digest")?;
    let digest = digest.parse().map_err(|_| unreadable())?;
    Ok(AuditHead { seq: row.get::<_, Count>("seq")?.0, digest })
}

pub(super) fn head(db: &Connection) -> rusqlite::Result<AuditHead> {
    let sql = "SELECT seq, digest FROM audit ORDER BY seq DESC LIMIT 1";
    let last = db.prepare_cached(sql)?.query_row([], head_of).optional()?;
    last.map_or_else(|| start(db), Ok)
}

/// Adds an entry in the transaction of what it is about. Its facts are bounded, so that the trail takes it.
pub(super) fn say(db: &Connection, entry: NewAuditEntry) -> rusqlite::Result<()> {
    let refused = |error| rusqlite::Error::ToSqlConversionFailure(Box::new(error));
    let (link, _) = Link::next(head(db)?, entry).map_err(refused)?;
    insert(db, &link)
}

pub(super) fn insert(db: &Connection, link: &Link) -> rusqlite::Result<()> {
    let sql = "INSERT INTO audit (seq, at, kind, session, run, body, prev, digest) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    db.prepare_cached(sql)?.execute(params![
        Count(link.seq),
        link.at,
        link.kind,
        link.session,
        link.run,
        link.body,
        link.prev,
        link.digest
    ])?;
    Ok(())
}

fn link_of(row: &Row<'_>) -> rusqlite::Result<Link> {
    Ok(Link {
        seq: row.get::<_, Count>("seq")?.0,
        at: row.get("at")?,
        kind: row.get("kind")?,
        session: row.get("session")?,
        run: row.get("run")?,
        body: row.get("body")?,
        prev: row.get("prev")?,
        digest: row.get("digest")?,
    })
}

/// The row is there, and is not what was written.
fn unreadable() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    rusqlite::Error::SqliteFailure(code, Some("an audit entry can't be read".to_owned()))
}
