//! The schema, as numbered steps. A released step is never edited; changes are new steps.

use rusqlite::{Connection, TransactionBehavior};

use super::audit;
use crate::{Timestamp, answered};

pub(super) const STEPS: &[&str] = &[
    include_str!("migrations/0001_initial.sql"),
    include_str!("migrations/0002_live_traffic.sql"),
    include_str!("migrations/0003_pruned_audit.sql"),
    include_str!("migrations/0004_bound_grants.sql"),
    include_str!("migrations/0005_session_extensions.sql"),
    include_str!("migrations/0006_injection_metadata.sql"),
    include_str!("migrations/0007_access_tokens.sql"),
];

/// The version from which grants are bound to a place.
const BOUND_GRANTS: i64 = 4;

/// Returns the schema version that this program writes: the number of steps.
pub(super) fn newest() -> i64 {
    i64::try_from(STEPS.len()).unwrap_or(i64::MAX)
}

/// Brings the schema to the newest version, in one transaction. When two processes do this at once, the
/// second finds nothing left to do.
pub(super) fn migrate(connection: &mut Connection, application_id: i32) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    for step in STEPS.iter().skip(usize::try_from(done).unwrap_or_default()) {
        transaction.execute_batch(step)?;
    }
    if done < BOUND_GRANTS {
        say_what_counts_no_longer(&transaction)?;
    }
    transaction.pragma_update(None, "application_id", application_id)?;
    transaction.pragma_update(None, "user_version", newest().max(done))?;
    transaction.commit()
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
