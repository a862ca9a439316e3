//! The schema, as numbered steps. A step that was released is never edited; changes are new steps.

use rusqlite::{Connection, TransactionBehavior};

const STEPS: &[&str] = &[
    include_str!("migrations/0001_initial.sql"),
    include_str!("migrations/0002_live_traffic.sql"),
    include_str!("migrations/0003_pruned_audit.sql"),
];

/// The schema version that this program writes: the number of steps.
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
    transaction.pragma_update(None, "application_id", application_id)?;
    transaction.pragma_update(None, "user_version", newest().max(done))?;
    transaction.commit()
}
