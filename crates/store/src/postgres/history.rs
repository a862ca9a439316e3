//! Which history of the data a server has.
//!
//! When a standby takes the place of its server, the data go on with what the standby had of them; where it had been sent less than was kept, what is
//! missing is gone. When the old server comes back, its data go on beside the others. Neither is told to those who connect.
//!
//! So whoever first connects to a server that has crashed or taken over, before anything can be written there, puts a random name in the list of the
//! data's *histories*, with how many transactions had written in each area by then. That it has is told by a table that is not in the server's log, and is empty
//! by then. Each process remembers the history that it used last, and the newest of its own transactions in each area that was kept, for all stores that it opens at
//! one place.
//!
//! The law: *never behind*. A process uses no server that lacks the history it used last, or one of its own transactions that were kept; not even by
//! a connection that it already has. It says so ([`StoreErrorKind::SetBack`]) until the server has them, or the process is started again.
//!
//! The limits: nobody but who was told that a transaction was kept can miss it, and a process that was started since knows of nothing. So this finds
//! a mistake, and makes up for none: only a standby that has what was kept, before that is told, loses nothing (`synchronous_standby_names`).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio_postgres::SimpleQueryMessage;

use super::Failure;
use super::connection::Connection;
use crate::StoreErrorKind;

/// How many histories are kept, the newest. There is one more with each server that takes over.
const MOST_HISTORIES: i64 = 1_024;

/// How many transactions have written in each area.
pub(super) type Written = BTreeMap<String, i64>;

/// What this process knows of the data.
#[derive(Default)]
pub(super) struct Seen(Mutex<Option<Known>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    history: History,
    /// Up to which transaction each area has been written, by the newest of this process.
    kept: Written,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct History {
    number: i64,
    name: String,
}

/// A history as a server has it.
struct Listed {
    history: History,
    /// What was written when it began.
    began: Written,
    /// What is written by now.
    now: Written,
}

impl Seen {
    fn known(&self) -> MutexGuard<'_, Option<Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the name of a server's history, if nothing that this process knows of is missing there.
    pub(super) fn admit(&self, connection: &Connection, schema: &str) -> Result<String, Failure> {
        enlist(connection, schema)?;
        loop {
            let known = self.known().clone();
            let listed = listed(connection, known.as_ref())?;
            let newest = newest_of(known.as_ref(), &listed)?;
            let mut now = self.known();
            // Others of this process may have gone on meanwhile, here or there.
            if now.as_ref().map(|now| &now.history) == Some(&newest) {
                return Ok(newest.name);
            }
            if *now == known {
                let kept = known.map(|known| known.kept).unwrap_or_default();
                let name = newest.name.clone();
                *now = Some(Known { history: newest, kept });
                return Ok(name);
            }
        }
    }

    /// Returns whether this process uses no newer history than this one.
    pub(super) fn is_current(&self, name: &str) -> bool {
        self.known().as_ref().is_none_or(|known| known.history.name == name)
    }

    /// Remembers that a transaction was kept. Returns whether that means anything: not if another server had taken over by then.
    pub(super) fn keep(&self, name: &str, written: Written) -> bool {
        let mut known = self.known();
        let Some(known) = known.as_mut().filter(|known| known.history.name == name) else { return false };
        for (area, count) in written {
            let kept = known.kept.entry(area).or_default();
            *kept = count.max(*kept);
        }
        true
    }
}

/// Puts the server's history in the list if it has none.
fn enlist(connection: &Connection, schema: &str) -> Result<(), Failure> {
    if is_enlisted(connection)? {
        return Ok(());
    }
    connection.batch(&format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE; \
         SELECT pg_advisory_xact_lock(hashtextextended('backstop/{schema}', 0))"
    ))?;
    if !is_enlisted(connection)? {
        connection.batch(&format!(
            "INSERT INTO histories (history, name, began) SELECT coalesce(max(history), 0) + 1, gen_random_uuid()::text, \
             (SELECT json_object_agg(area, written) FROM areas) FROM histories; \
             DELETE FROM histories WHERE history <= (SELECT max(history) FROM histories) - {MOST_HISTORIES}; \
             INSERT INTO current_history SELECT max(history) FROM histories"
        ))?;
    }
    connection.batch("COMMIT")
}

fn is_enlisted(connection: &Connection) -> Result<bool, Failure> {
    let sql = "SELECT EXISTS (SELECT 1 FROM current_history)";
    Ok(connection.wait_for(connection.client.query_one(sql, &[]))?.try_get(0)?)
}

/// Returns the known history and those after it; only the newest if none is known.
fn listed(connection: &Connection, known: Option<&Known>) -> Result<Vec<Listed>, Failure> {
    let sql = "SELECT history, name, began::text, (SELECT json_object_agg(area, written) FROM areas)::text FROM histories \
               WHERE history >= coalesce($1::bigint, (SELECT max(history) FROM histories)) ORDER BY history";
    let from = known.map(|known| known.history.number);
    let rows = connection.wait_for(connection.client.query(sql, &[&from]))?;
    let read = |row: &tokio_postgres::Row| {
        let (began, now): (String, String) = (row.try_get(2)?, row.try_get(3)?);
        let read = |text: &str| {
            let unreadable = |_| Failure::new(StoreErrorKind::Corrupt, "a row can't be read");
            serde_json::from_str(text).map_err(unreadable)
        };
        let history = History { number: row.try_get(0)?, name: row.try_get(1)? };
        Ok(Listed { history, began: read(&began)?, now: read(&now)? })
    };
    rows.iter().map(read).collect()
}

/// Returns the newest of the histories from the known one on, unless something is missing.
fn newest_of(known: Option<&Known>, listed: &[Listed]) -> Result<History, Failure> {
    let (Some(first), Some(newest)) = (listed.first(), listed.last()) else { return Err(replaced()) };
    let Some(known) = known else { return Ok(newest.history.clone()) };
    if first.history != known.history {
        return Err(replaced());
    }
    let then = listed.get(1).map_or(&first.now, |next| &next.began);
    let missing = |(area, kept): (&String, &i64)| then.get(area).copied().unwrap_or_default() < *kept;
    if known.kept.iter().any(missing) {
        return Err(set_back("changes are gone that it had already kept"));
    }
    Ok(newest.history.clone())
}

fn replaced() -> Failure {
    set_back("this server is not the one that was used last, nor one that took its place")
}

fn set_back(cause: &str) -> Failure {
    Failure::new(StoreErrorKind::SetBack, cause)
}

/// Commits, and counts that these areas were written. Returns how often they were by then.
pub(super) fn commit(connection: &Connection, areas: &[&str], has_written: bool) -> Result<Written, Failure> {
    let counted = if has_written {
        let areas = areas.iter().map(|area| format!("'{area}'")).collect::<Vec<_>>().join(", ");
        format!("UPDATE areas SET written = written + 1 WHERE area IN ({areas}) RETURNING area, written; ")
    } else {
        String::new()
    };
    let messages = connection.wait_for(connection.client.simple_query(&format!("{counted}COMMIT")))?;
    let read = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => Some((row.get(0)?.to_owned(), row.get(1)?.parse().ok()?)),
        _ => None,
    };
    Ok(messages.iter().filter_map(read).collect())
}

/// Returns how often these areas are written by now.
pub(super) fn written(connection: &Connection, areas: &[&str]) -> Result<Written, Failure> {
    let sql = "SELECT area, written FROM areas WHERE area = ANY($1)";
    let rows = connection.wait_for(connection.client.query(sql, &[&areas]))?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(number: i64, name: &str) -> History {
        History { number, name: name.to_owned() }
    }

    fn written(questions: i64) -> Written {
        [("questions".to_owned(), questions)].into()
    }

    fn listed(of: &[(i64, &str, i64)], now: i64) -> Vec<Listed> {
        let listed = |&(number, name, began): &(i64, &str, i64)| Listed {
            history: history(number, name),
            began: written(began),
            now: written(now),
        };
        of.iter().map(listed).collect()
    }

    #[test]
    fn a_server_is_used_if_it_has_all_that_is_known() {
        let known = |kept| Known { history: history(1, "a"), kept: written(kept) };
        let fits =
            |kept, of: &[(i64, &str, i64)], now| newest_of(Some(&known(kept)), &listed(of, now)).is_ok();
        assert!(fits(5, &[(1, "a", 0)], 5) && fits(5, &[(1, "a", 0)], 9));
        assert!(!fits(5, &[(1, "a", 0)], 4), "set back");
        assert!(fits(5, &[(1, "a", 0), (2, "b", 5)], 5));
        assert!(!fits(5, &[(1, "a", 0), (2, "b", 4)], 99), "whatever others have written since");
        assert!(fits(5, &[(1, "a", 0), (2, "b", 5), (3, "c", 6)], 6));
        assert!(!fits(5, &[], 99) && !fits(5, &[(1, "other", 0)], 99) && !fits(5, &[(2, "b", 99)], 99));
        assert!(newest_of(None, &listed(&[(7, "g", 3)], 3)).is_ok(), "who knows nothing misses nothing");
    }

    #[test]
    fn what_an_older_server_keeps_means_nothing_any_more() {
        let seen = Seen(Mutex::new(Some(Known { history: history(2, "b"), kept: written(5) })));
        assert!(seen.is_current("b") && !seen.is_current("a"));
        assert!(!seen.keep("a", written(9)) && seen.keep("b", written(3)) && seen.keep("b", written(7)));
        assert_eq!(seen.known().as_ref().unwrap().kept, written(7));
    }
}
