//! What SQLite does about texts that nobody names any more.
//!
//! The law is that of [`sql::texts`](crate::sql): in a file, no row of theirs moves or is deleted before all is written anew.

use rusqlite::Connection;

/// In memory, a text is gone with the row that named it: there nothing is left behind in a file, and a process may run for long.
pub(super) const GONE_AT_ONCE: &str = "
    CREATE TEMP TRIGGER message_changed AFTER UPDATE OF text ON main.entries
        BEGIN DELETE FROM texts WHERE text_id = OLD.text; END;
    CREATE TEMP TRIGGER message_gone AFTER DELETE ON main.entries
        BEGIN DELETE FROM texts WHERE text_id = OLD.text; END;
    CREATE TEMP TRIGGER request_changed AFTER UPDATE OF text ON main.approvals
        BEGIN DELETE FROM texts WHERE text_id = OLD.text; END;
    CREATE TEMP TRIGGER request_gone AFTER DELETE ON main.approvals
        BEGIN DELETE FROM texts WHERE text_id = OLD.text; END;";

/// Gives the space of wiped texts back to the file system, by writing the whole database anew.
pub(super) fn reclaim(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(
        "DELETE FROM texts WHERE NOT EXISTS (SELECT 1 FROM entries WHERE entries.text = text_id) \
           AND NOT EXISTS (SELECT 1 FROM approvals WHERE approvals.text = text_id); \
         VACUUM;",
    )
}
