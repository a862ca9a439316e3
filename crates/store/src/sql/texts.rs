//! Texts that can be wiped: messages, and what approvals show.
//!
//! SQLite zeroes the space it frees, but when it moves rows between pages it leaves copies of them in the
//! gaps of the old pages, which later deletions don't reach. Texts are therefore in a table
//! in which no row ever moves: rows are appended, never deleted, and wiped by overwriting them with zeros of
//! the same length, which SQLite does in place. `SqliteStore::reclaim` recovers the space.
//!
//! PostgreSQL writes rows anew and lets go of the old ones when it vacuums: there, a wiped text is out of what a statement can read at once, and
//! out of the server's files, its log and its backups when the server sees to that.

use super::{Db, SqlResult, ToValue, params};

/// Keeps a text. Returns its number.
pub(super) fn put(db: &Db<'_>, text: &str) -> SqlResult<i64> {
    let sql = "INSERT INTO texts (body) VALUES (?1) RETURNING text_id";
    db.one(sql, params![text.as_bytes()], |row| row.get(0))
}

/// Writes zeros over the texts that a query names.
pub(super) fn wipe(db: &Db<'_>, query: &str, values: &[&dyn ToValue]) -> SqlResult<()> {
    let sql = format!("UPDATE texts SET body = {} WHERE text_id IN ({query})", db.nothing_in_its_place());
    db.execute(&sql, values)?;
    Ok(())
}
