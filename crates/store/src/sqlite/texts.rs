//! Texts that can be wiped: messages, and what approvals show.
//!
//! SQLite zeroes the space it frees, but when it moves rows between pages it leaves copies of them in the
//! gaps of the old pages, which later deletions don't reach. Texts are therefore in a table
//! in which no row ever moves: rows are appended, never deleted, and wiped by overwriting them with zeros of
//! the same length, which SQLite does in place. [`reclaim`] recovers the space.

use rusqlite::{Connection, params};

/// Keeps a text. Returns its number.
pub(super) fn put(db: &Connection, text: &str) -> rusqlite::Result<i64> {
    let sql = "INSERT INTO texts (body) VALUES (?1) RETURNING text_id";
    db.prepare_cached(sql)?.query_row(params![text.as_bytes()], |row| row.get(0))
}

/// Writes zeros over the texts that a query names.
pub(super) fn wipe(db: &Connection, query: &str, values: &[&dyn rusqlite::ToSql]) -> rusqlite::Result<()> {
    let sql = format!("UPDATE texts SET body = zeroblob(octet_length(body)) WHERE text_id IN ({query})");
    db.prepare_cached(&sql)?.execute(values)?;
    Ok(())
}

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
