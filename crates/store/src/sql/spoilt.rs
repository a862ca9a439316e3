//! Questions of which some rows can't be read: a row may be damaged, restored in part, or written by somebody else.
//!
//! The law: *one row stops no other*. Whoever asks about a question that can't be read is told so, and nothing is allowed by it. Whoever goes through many
//! leaves it out, and says so; and what ends questions ends it too, with an entry that says why.

use backstop_hooks::{ApprovalId, SessionId};

use super::approvals::select;
use super::db::tell_unread;
use super::row::{AsJson, Count, Word, limit as limit_of};
use super::{Db, SqlError, SqlResult, ToValue, params};
use crate::asked::{self, Ended, Unanswered};
use crate::{ApprovalRecord, ApprovalState, Timestamp, Uptime};

/// What such rows hold.
pub(super) const QUESTIONS: &str = "questions";

/// The questions whose last moment has passed, by [`NewApproval::is_over`].
const DUE: &str = "SELECT row FROM approvals WHERE status = 'pending' \
                   AND CASE WHEN deadline_boot = ?2 THEN deadline_at < ?3 ELSE expires_at < ?1 END ORDER BY row LIMIT ?4";

pub(super) fn due(db: &Db<'_>, now: Timestamp, most: usize) -> SqlResult<Found> {
    let uptime = Uptime::now();
    let (boot, at) = uptime.as_ref().map(Uptime::parts).unzip();
    found(db, DUE, &[&now, &boot, &at.map(Count), &limit_of(most)])
}

pub(super) fn is_any_due(db: &Db<'_>, now: Timestamp) -> SqlResult<bool> {
    let uptime = Uptime::now();
    let (boot, at) = uptime.as_ref().map(Uptime::parts).unzip();
    db.exists(DUE, &[&now, &boot, &at.map(Count), &limit_of(1)])
}

/// Questions, and the rows of those that can't be read.
#[derive(Default)]
pub(super) struct Found {
    pub(super) records: Vec<ApprovalRecord>,
    pub(super) spoilt: Vec<i64>,
}

/// Finds the questions in the rows that a statement names. One that can't be read, or whose text is gone, hides no other.
pub(super) fn found(db: &Db<'_>, rows: &str, values: &[&dyn ToValue]) -> SqlResult<Found> {
    let numbers: Vec<i64> = db.all(rows, values, |row| row.get(0))?;
    match select(db, &format!("WHERE row IN ({rows}) ORDER BY row"), values) {
        Ok(records) if records.len() == numbers.len() => return Ok(Found { records, spoilt: Vec::new() }),
        Ok(_) | Err(SqlError::Unreadable) => {}
        Err(error) => return Err(error),
    }
    let mut found = Found::default();
    for number in numbers {
        match select(db, "WHERE row = ?1", params![number]) {
            Ok(records) if !records.is_empty() => found.records.extend(records),
            Ok(_) | Err(SqlError::Unreadable) => found.spoilt.push(number),
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn row_of(db: &Db<'_>, id: &ApprovalId) -> SqlResult<i64> {
    db.one("SELECT row FROM approvals WHERE id = ?1", params![id.as_str()], |row| row.get(0))
}

/// Ends questions that waited and can't be read: nobody can answer them, and what is in the way of none of the others is deleted in its time.
pub(super) fn end_spoilt(db: &Db<'_>, rows: &[i64], now: Timestamp) -> SqlResult<()> {
    for row in rows {
        say_spoilt(db, *row, now)?;
        close(db, *row, now)?;
    }
    tell_unread(QUESTIONS, rows.len());
    Ok(())
}

/// Ends questions whose rows say something else than their texts, which were not written here. The entries have what the texts say.
pub(super) fn end_at_odds(db: &Db<'_>, records: &[ApprovalRecord], now: Timestamp) -> SqlResult<()> {
    for record in records {
        db.say(asked::ended(record, Ended { why: Unanswered::Unreadable, at: now }))?;
        close(db, row_of(db, &record.id)?, now)?;
    }
    tell_unread(QUESTIONS, records.len());
    Ok(())
}

fn close(db: &Db<'_>, row: i64, now: Timestamp) -> SqlResult<()> {
    let sql = "UPDATE approvals SET status = ?2, state = ?3, \
               expires_at = CASE WHEN expires_at > ?4 THEN ?4 ELSE expires_at END WHERE row = ?1";
    let state = ApprovalState::Cancelled { at: now };
    db.execute(sql, params![row, Word(state.status()), AsJson(&state), now])?;
    Ok(())
}

/// Says that a question ends that can't be read, by as much of its row as can.
pub(super) fn say_spoilt(db: &Db<'_>, row: i64, now: Timestamp) -> SqlResult<()> {
    let sql = "SELECT id, session FROM approvals WHERE row = ?1";
    let (id, session) = db.one(sql, params![row], |row| {
        Ok((row.get::<String>("id").ok(), row.get::<String>("session").ok()))
    })?;
    db.say(asked::unreadable(id.map(ApprovalId::from), session.map(SessionId::from), now))
}
