//! Questions that the trail has and the database has not.
//!
//! What a transaction says is in the trail before the transaction counts. A process that is killed in between leaves an entry about a question that was never
//! filed: nobody can find it, nobody waits for it, and nothing is allowed by it. So does a database that was set back. The law: *what is told stays true*: whoever
//! starts says of such questions that they ended.
//!
//! A transaction that files a question holds the questions from before it says so until it is over. Whoever holds them finds no entry of one that is under way.
//!
//! The limits: only of a database of one machine is anything told. Where several machines have one database, each has a trail of its own: a question of this one can
//! have been answered, and deleted since, as the trail of another one says. Of a trail the [`MOST_ASKED`] newest questions are looked at. One that nobody
//! could be asked has no end on record once it is deleted, so of those only such are told that came after the last deletion.

use std::collections::BTreeSet;

use super::{Area, AuditTrail, Db, Driver, SqlResult, SqlStore, params};
use crate::{
    APPROVAL_ANSWERED, APPROVAL_ASKED, APPROVAL_ENDED, APPROVALS_DELETED, AuditEntry, AuditFilter,
    AuditPlace, SESSION_DELETED, StoreError, TRANSCRIPT_DELETED, Timestamp, asked,
};

/// How many questions are looked at, the newest first.
const MOST_ASKED: usize = 200;
/// How many pages of the trail are read for them, and for what became of them.
const MOST_PAGES: usize = 16;
/// How many entries are read at once.
const PAGE: usize = 1_000;

#[expect(private_bounds, reason = "there are no drivers but our own")]
impl<D: Driver> SqlStore<D> {
    /// Says of questions that the trail has and the database has not that they are lost. Returns how many there were.
    pub(super) async fn tell_lost(&self, now: Timestamp) -> Result<usize, StoreError> {
        if let AuditTrail::Memory(_) = self.trail {
            return Ok(0);
        }
        let mut asked = self.entries(APPROVAL_ASKED, MOST_ASKED).await?.0;
        // What is kept in the memory of a process is not here, and may wait there.
        asked.retain(|entry| !is_set(entry, "inMemory"));
        let read: Result<_, StoreError> = self
            .database
            .read(move |db| {
                Ok(match db.is_of_one_machine() {
                    true => missing(db, asked)?,
                    false => Vec::new(),
                })
            })
            .await;
        let mut lost = self.unended(read?).await?;
        let has_no_end = |entry: &AuditEntry| is_set(entry, "unattended") || is_set(entry, "hosted");
        if lost.iter().any(has_no_end) {
            let deleted = self.deleted_last().await?;
            lost.retain(|entry| !has_no_end(entry) || deleted.is_some_and(|last| entry.seq > last));
        }
        if lost.is_empty() {
            return Ok(0);
        }
        self.database
            .write(Area::Questions, move |db| {
                let lost = missing(db, lost)?;
                for entry in &lost {
                    db.say(asked::lost(entry, now))?;
                }
                Ok(lost.len())
            })
            .await
    }

    /// Returns those of these questions of which the trail does not say what became of them.
    async fn unended(&self, mut asked: Vec<AuditEntry>) -> Result<Vec<AuditEntry>, StoreError> {
        let Some(oldest) = asked.iter().map(|entry| entry.seq).min() else { return Ok(asked) };
        for kind in [APPROVAL_ENDED, APPROVAL_ANSWERED] {
            let (ends, is_all) = self.entries_since(kind, oldest).await?;
            if !is_all {
                tracing::warn!(
                    "the audit trail is too long to find out what became of questions that are not in the database"
                );
                return Ok(Vec::new());
            }
            let ended: BTreeSet<&str> = ends.iter().filter_map(question).collect();
            asked.retain(|entry| question(entry).is_some_and(|id| !ended.contains(id)));
        }
        Ok(asked)
    }

    /// Returns the number of the last entry that tells of deleted questions, 0 where there is none; `None` where that was not found out.
    async fn deleted_last(&self) -> Result<Option<u64>, StoreError> {
        let mut last = 0;
        for kind in [APPROVALS_DELETED, SESSION_DELETED, TRANSCRIPT_DELETED] {
            let (newest, is_all) = self.entries(kind, 1).await?;
            match newest.first() {
                Some(entry) => last = last.max(entry.seq),
                None if is_all => {}
                None => return Ok(None),
            }
        }
        Ok(Some(last))
    }

    /// Returns the newest entries of a kind, and whether there are no others.
    async fn entries(&self, kind: &str, most: usize) -> Result<(Vec<AuditEntry>, bool), StoreError> {
        self.read_back(kind, 0, most).await
    }

    /// Returns the entries of a kind since a number, and whether these are all.
    async fn entries_since(&self, kind: &str, seq: u64) -> Result<(Vec<AuditEntry>, bool), StoreError> {
        self.read_back(kind, seq, MOST_PAGES * PAGE).await
    }

    async fn read_back(
        &self,
        kind: &str,
        since: u64,
        most: usize,
    ) -> Result<(Vec<AuditEntry>, bool), StoreError> {
        let filter = AuditFilter { kind: Some(kind.to_owned()), ..AuditFilter::default() };
        let (mut found, mut from) = (Vec::new(), AuditPlace::END);
        for _ in 0..MOST_PAGES {
            let lacking = most.saturating_sub(found.len()).min(PAGE);
            if lacking == 0 {
                return Ok((found, false));
            }
            let page = self.trail.log().audit_page(&filter, from, lacking).await?;
            let before = page.entries.iter().any(|entry| entry.seq < since);
            found.extend(page.entries.into_iter().filter(|entry| entry.seq >= since));
            if page.ended || before {
                return Ok((found, true));
            }
            from = page.next;
        }
        Ok((found, false))
    }
}

/// Returns those of which the database has nothing.
fn missing(db: &Db<'_>, asked: Vec<AuditEntry>) -> SqlResult<Vec<AuditEntry>> {
    let mut missing = Vec::new();
    for entry in asked {
        let Some(id) = question(&entry) else { continue };
        if !db.exists("SELECT 1 FROM approvals WHERE id = ?1", params![id])? {
            missing.push(entry);
        }
    }
    Ok(missing)
}

fn question(entry: &AuditEntry) -> Option<&str> {
    entry.body.get("approval")?.as_str()
}

fn is_set(entry: &AuditEntry, field: &str) -> bool {
    entry.body.get(field).and_then(serde_json::Value::as_bool) == Some(true)
}
