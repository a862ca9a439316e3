//! The schema, as numbered steps. A released step is never edited; changes are new steps.

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};

use super::audit::{self, SaidError};
use super::trail::Trail;
use crate::{AUDIT_CHAIN, NewAuditEntry, Timestamp, answered};

pub(super) const STEPS: &[&str] = &[
    include_str!("migrations/0001_initial.sql"),
    include_str!("migrations/0002_live_traffic.sql"),
    include_str!("migrations/0003_pruned_audit.sql"),
    include_str!("migrations/0004_bound_grants.sql"),
    include_str!("migrations/0005_session_extensions.sql"),
    include_str!("migrations/0006_injection_metadata.sql"),
    include_str!("migrations/0007_access_tokens.sql"),
    include_str!("migrations/0008_trail.sql"),
    include_str!("migrations/0009_approval_changes.sql"),
    include_str!("migrations/0010_grant_sums.sql"),
    include_str!("migrations/0011_votes.sql"),
    include_str!("migrations/0012_notices.sql"),
    include_str!("migrations/0013_checkpoints.sql"),
    include_str!("migrations/0014_left_words.sql"),
];

/// The version from which grants are bound to a place.
const BOUND_GRANTS: i64 = 4;
/// The version from which the trail is a log of its own.
const TRAIL: i64 = 8;

/// Returns the schema version that this program writes: the number of steps.
pub(super) fn newest() -> i64 {
    i64::try_from(STEPS.len()).unwrap_or(i64::MAX)
}

/// Brings the schema to the newest version, in one transaction. When two processes do this at once, the
/// second finds nothing left to do. What there is to say of what was there before is said in the trail; a database in memory is new, and has
/// none in files.
pub(super) fn migrate(
    connection: &mut Connection,
    application_id: i32,
    trail: Option<&Trail>,
) -> Result<(), SaidError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    for step in STEPS.iter().skip(usize::try_from(done).unwrap_or_default()) {
        transaction.execute_batch(step)?;
    }
    if done < BOUND_GRANTS {
        say_what_counts_no_longer(&transaction)?;
    }
    if done < TRAIL {
        bind_chain(&transaction)?;
    }
    transaction.pragma_update(None, "application_id", application_id)?;
    transaction.pragma_update(None, "user_version", newest().max(done))?;
    if let Some(trail) = trail {
        audit::write_said(&transaction, trail)?;
    }
    Ok(transaction.commit()?)
}

/// INVARIANT (out loud): what counted and counts no longer is in the trail.
fn say_what_counts_no_longer(db: &Connection) -> rusqlite::Result<()> {
    let mut void = db.prepare("SELECT id FROM void_grants WHERE revoked_at IS NULL ORDER BY row")?;
    let ids = void.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
    if ids.is_empty() {
        return Ok(());
    }
    audit::say(db, answered::voided(&ids, Timestamp::now()))
}

/// The chain of an earlier version stays in the database as it is, and the trail says how it ended, so that it can't be changed either. An
/// empty one goes.
fn bind_chain(db: &Connection) -> rusqlite::Result<()> {
    let sql =
        "SELECT json_object('entries', seq, 'digest', digest) FROM audit_chain ORDER BY seq DESC LIMIT 1";
    let end: Option<String> = db.query_row(sql, [], |row| row.get(0)).optional()?;
    let Some(end) = end else {
        return db.execute_batch("DROP TABLE audit_chain; DROP TABLE audit_chain_start;");
    };
    let end = serde_json::from_str::<serde_json::Value>(&end).unwrap_or_default();
    let entry = NewAuditEntry {
        at: Timestamp::now(),
        kind: AUDIT_CHAIN.to_owned(),
        session: None,
        run: None,
        body: end.into(),
    };
    audit::say(db, entry)
}
