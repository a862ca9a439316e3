//! Entries of the trail: those that are written by themselves, and those of a transaction, which are in the trail before it counts.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, Transaction, params};

use super::trail::{Trail, head};
use crate::sql::{Driver, SqlStore};
use crate::{
    AppendAuditError, AuditBody, AuditBound, AuditEntry, AuditFilter, AuditHead, AuditPage, AuditPlace,
    AuditReport, AuditStore, DigestKey, Durability, NewAuditEntry, ProveAuditError, RotatedAuditKey,
    StoreError, Timestamp, VerifyAuditError,
};

/// Where a connection collects what its transaction says. It is in memory, and gone with a transaction that fails.
pub(super) const SAID: &str = "CREATE TEMP TABLE said (row INTEGER PRIMARY KEY, at INTEGER NOT NULL, \
                               kind TEXT NOT NULL, session TEXT, run TEXT, body TEXT NOT NULL) STRICT;";

/// The trail of the store, whatever its form.
#[async_trait]
impl<D: Driver> AuditStore for SqlStore<D> {
    async fn check_writable(&self) -> Result<(), StoreError> {
        self.database.probe().await?;
        self.trail.log().check_writable().await
    }

    fn digest_key(&self) -> Option<&Arc<DigestKey>> {
        self.trail.log().digest_key()
    }

    fn fits_audit(&self, body: &AuditBody) -> bool {
        self.trail.log().fits_audit(body)
    }

    async fn append_audit(&self, entry: NewAuditEntry) -> Result<AuditEntry, AppendAuditError> {
        self.trail.log().append_audit(entry).await
    }

    async fn append_audit_all(
        &self,
        entries: Vec<NewAuditEntry>,
        durability: Durability,
    ) -> Result<AuditHead, AppendAuditError> {
        self.trail.log().append_audit_all(entries, durability).await
    }

    async fn announce_audit(&self, program: &str) -> Result<(), AppendAuditError> {
        self.trail.log().announce_audit(program).await
    }

    async fn conclude_audit(&self) -> Result<(), StoreError> {
        self.trail.log().conclude_audit().await
    }

    fn audit_late(&self) -> u64 {
        self.trail.log().audit_late()
    }

    fn audit_kept(&self) -> u64 {
        self.trail.log().audit_kept()
    }

    async fn audit(
        &self,
        filter: &AuditFilter,
        after: u64,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        self.trail.log().audit(filter, after, limit).await
    }

    async fn audit_page(
        &self,
        filter: &AuditFilter,
        from: AuditPlace,
        limit: usize,
    ) -> Result<AuditPage, StoreError> {
        self.trail.log().audit_page(filter, from, limit).await
    }

    async fn audit_head(&self) -> Result<AuditHead, StoreError> {
        self.trail.log().audit_head().await
    }

    async fn verify_audit(&self, known: Option<AuditHead>) -> Result<AuditReport, VerifyAuditError> {
        self.trail.log().verify_audit(known).await
    }

    async fn verify_audit_with(
        &self,
        known: Option<AuditHead>,
        kept: &[String],
        key: Option<&str>,
    ) -> Result<AuditReport, VerifyAuditError> {
        self.trail.log().verify_audit_with(known, kept, key).await
    }

    async fn audit_origin(&self) -> Result<String, ProveAuditError> {
        self.trail.log().audit_origin().await
    }

    async fn audit_keys(&self) -> Result<Vec<String>, ProveAuditError> {
        self.trail.log().audit_keys().await
    }

    async fn offer_audit(&self, old: u64) -> Result<String, ProveAuditError> {
        self.trail.log().offer_audit(old).await
    }

    async fn prove_audit(&self, seq: u64) -> Result<String, ProveAuditError> {
        self.trail.log().prove_audit(seq).await
    }

    async fn rotate_audit_key(&self, now: Timestamp, by: &str) -> Result<RotatedAuditKey, ProveAuditError> {
        self.trail.log().rotate_audit_key(now, by).await
    }

    async fn prune_audit(
        &self,
        bound: AuditBound,
        limit: usize,
        now: Timestamp,
        by: &str,
    ) -> Result<u64, StoreError> {
        self.trail.log().prune_audit(bound, limit, now, by).await
    }
}

/// The trail in files.
#[async_trait]
impl AuditStore for Trail {
    async fn check_writable(&self) -> Result<(), StoreError> {
        self.probe().await
    }

    fn digest_key(&self) -> Option<&Arc<DigestKey>> {
        self.keying().key()
    }

    fn fits_audit(&self, body: &AuditBody) -> bool {
        self.keying().fits(body)
    }

    async fn append_audit(&self, entry: NewAuditEntry) -> Result<AuditEntry, AppendAuditError> {
        let written = self.append(vec![entry], Durability::Soon).await?;
        Ok(self.entry(written.first).await?)
    }

    async fn append_audit_all(
        &self,
        entries: Vec<NewAuditEntry>,
        durability: Durability,
    ) -> Result<AuditHead, AppendAuditError> {
        Ok(head(self.append(entries, durability).await?.extent))
    }

    async fn announce_audit(&self, program: &str) -> Result<(), AppendAuditError> {
        self.announce(program)
    }

    async fn conclude_audit(&self) -> Result<(), StoreError> {
        self.conclude().await
    }

    fn audit_late(&self) -> u64 {
        self.late()
    }

    fn audit_kept(&self) -> u64 {
        self.kept()
    }

    async fn audit(
        &self,
        filter: &AuditFilter,
        after: u64,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        self.list(filter.clone(), after, limit).await
    }

    async fn audit_page(
        &self,
        filter: &AuditFilter,
        from: AuditPlace,
        limit: usize,
    ) -> Result<AuditPage, StoreError> {
        self.page(filter.clone(), from, limit).await
    }

    async fn audit_head(&self) -> Result<AuditHead, StoreError> {
        self.head().await
    }

    async fn verify_audit(&self, known: Option<AuditHead>) -> Result<AuditReport, VerifyAuditError> {
        self.verify(known, &[], None).await
    }

    async fn verify_audit_with(
        &self,
        known: Option<AuditHead>,
        kept: &[String],
        key: Option<&str>,
    ) -> Result<AuditReport, VerifyAuditError> {
        self.verify(known, kept, key).await
    }

    async fn audit_origin(&self) -> Result<String, ProveAuditError> {
        self.origin().await
    }

    async fn audit_keys(&self) -> Result<Vec<String>, ProveAuditError> {
        self.keys().await
    }

    async fn offer_audit(&self, old: u64) -> Result<String, ProveAuditError> {
        self.offer(old).await
    }

    async fn prove_audit(&self, seq: u64) -> Result<String, ProveAuditError> {
        self.prove(seq).await
    }

    async fn rotate_audit_key(&self, now: Timestamp, by: &str) -> Result<RotatedAuditKey, ProveAuditError> {
        self.rotate(now, by).await
    }

    async fn prune_audit(
        &self,
        bound: AuditBound,
        limit: usize,
        now: Timestamp,
        by: &str,
    ) -> Result<u64, StoreError> {
        self.prune(bound, limit, now, by).await
    }
}

/// Says something in the transaction of what it is about. Its facts are bounded, so that the trail takes it.
pub(crate) fn say(db: &Connection, entry: NewAuditEntry) -> rusqlite::Result<()> {
    let NewAuditEntry { at, kind, session, run, body } = entry;
    let sql = "INSERT INTO temp.said (at, kind, session, run, body) VALUES (?1, ?2, ?3, ?4, ?5)";
    let (session, run) = (session.as_ref().map(AsRef::<str>::as_ref), run.as_ref().map(AsRef::<str>::as_ref));
    db.prepare_cached(sql)?.execute(params![at.as_millis(), kind, session, run, body.as_str()])?;
    Ok(())
}

/// Writes what a transaction says into the trail, and waits for the disk. Called when nothing but the end of the transaction is left to do:
/// what is said counts only if it is in the trail, so one that can't be written there fails. A process that is killed between the two leaves
/// an entry about something that did not come to count.
pub(super) fn write_said(db: &Transaction<'_>, trail: &Trail) -> Result<(), SaidError> {
    let entries = said(db)?;
    if entries.is_empty() {
        return Ok(());
    }
    trail.append_and_wait(entries).map_err(SaidError::Trail)
}

/// Takes what a transaction says.
pub(super) fn said(db: &Transaction<'_>) -> rusqlite::Result<Vec<NewAuditEntry>> {
    let mut said = db.prepare_cached("SELECT at, kind, session, run, body FROM temp.said ORDER BY row")?;
    let entries = said.query_map([], |row| {
        let body: String = row.get("body")?;
        let body: serde_json::Value = serde_json::from_str(&body).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(4, rusqlite::types::Type::Text, error.into())
        })?;
        Ok(NewAuditEntry {
            at: Timestamp::from_millis(row.get("at")?),
            kind: row.get("kind")?,
            session: row.get::<_, Option<String>>("session")?.map(Into::into),
            run: row.get::<_, Option<String>>("run")?.map(Into::into),
            body: AuditBody::from(body),
        })
    })?;
    let entries = entries.collect::<rusqlite::Result<Vec<_>>>()?;
    if !entries.is_empty() {
        db.prepare_cached("DELETE FROM temp.said")?.execute([])?;
    }
    Ok(entries)
}

/// Why what a transaction says is not in the trail.
pub(super) enum SaidError {
    Sql(rusqlite::Error),
    Trail(StoreError),
}

impl From<rusqlite::Error> for SaidError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}
