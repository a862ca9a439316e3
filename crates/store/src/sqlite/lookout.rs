//! Answers of other processes.
//!
//! While somebody waits for an answer, one thread of the process asks SQLite at a short interval whether another connection
//! has committed anything (`PRAGMA data_version`, a few microseconds, whoever waits and however many). Only then it reads
//! which approvals changed, and wakes those who wait for them. It has a connection of its own, which
//! SQLite wants for that comparison, and which no long operation of the store's keeps busy.
//!
//! The law: *nothing is missed*. A connection that has just been opened does not know what it missed, so everybody who waits
//! reads their row; and so does everybody when the list of changes does not reach back far enough, or can't be read.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use backstop_hooks::ApprovalId;
use rusqlite::Connection;

use super::open;
use crate::approvals::wait::Seats;

/// How often it is looked. Half of it passes between an answer and its notice, in the middle.
const INTERVAL: Duration = Duration::from_millis(5);
/// How long a database that can't be read is left alone. Those who wait read their rows then.
const BROKEN: Duration = Duration::from_millis(150);

/// Looks from now on, in a thread that ends once nobody waits.
pub(super) fn start(path: PathBuf, seats: Arc<Seats>) -> std::io::Result<()> {
    let post = Post(seats);
    let lookout = thread::Builder::new().name("backstop-lookout".to_owned());
    lookout.spawn(move || look(&path, &post.0)).map(drop)
}

/// Whose thread looks. If it panics, those who wait are not left without one.
struct Post(Arc<Seats>);

impl Drop for Post {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.lose_watch();
        }
    }
}

fn look(path: &Path, seats: &Seats) {
    let mut view: Option<View> = None;
    while !seats.is_over() {
        let known = view.take();
        let is_new = known.is_none();
        view = known.map_or_else(|| View::open(path), |known| known.look(seats)).ok();
        if is_new || view.is_none() {
            seats.wake_all();
        }
        thread::sleep(if view.is_some() { INTERVAL } else { BROKEN });
    }
}

/// The database as it was last looked at.
struct View {
    connection: Connection,
    version: i64,
    last: i64,
}

impl View {
    fn open(path: &Path) -> rusqlite::Result<Self> {
        let connection = open::view(path)?;
        let version = version(&connection)?;
        let sql = "SELECT coalesce(max(change), 0) FROM approval_changes";
        let last = connection.query_row(sql, [], |row| row.get(0))?;
        Ok(Self { connection, version, last })
    }

    /// Wakes those who wait for what has changed.
    fn look(mut self, seats: &Seats) -> rusqlite::Result<Self> {
        // Read first: what is committed after it is seen now or the next time.
        let version = version(&self.connection)?;
        if version == self.version {
            return Ok(self);
        }
        let sql = "SELECT change, approval FROM approval_changes WHERE change > ?1 ORDER BY change";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut changes = statement.query([self.last])?;
        let mut last = self.last;
        while let Some(row) = changes.next()? {
            let change: i64 = row.get("change")?;
            if change > last.saturating_add(1) {
                seats.wake_all();
            }
            last = change;
            seats.wake(&ApprovalId::from(row.get::<_, String>("approval")?));
        }
        drop(changes);
        drop(statement);
        (self.version, self.last) = (version, last);
        Ok(self)
    }
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::super::trail::Trail;
    use super::*;
    use crate::keyed::Keying;

    fn changed(db: &Connection, approvals: &[&str]) {
        for approval in approvals {
            db.execute("INSERT INTO approval_changes (approval) VALUES (?1)", [approval]).unwrap();
        }
    }

    fn woken(seats: &Seats, view: View) -> (Vec<&'static str>, View) {
        let mut all = ["a", "b", "c"].map(|id| (id, seats.take(&id.into())));
        let view = view.look(seats).unwrap();
        (all.iter_mut().filter_map(|(id, seat)| seat.is_woken().then_some(*id)).collect(), view)
    }

    #[test]
    fn what_changed_elsewhere_wakes_those_who_wait_for_it() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("state.db");
        let other =
            open::open("state.db", &path, Duration::from_secs(1), &Trail::beside(&path, Keying::default()))
                .unwrap();
        changed(&other, &["a", "a"]);
        let (seats, view) = (Seats::default(), View::open(&path).unwrap());
        let (nobody, view) = woken(&seats, view);
        assert!(nobody.is_empty(), "that was before");
        changed(&other, &["b", "x"]);
        let (some, view) = woken(&seats, view);
        assert_eq!(some, ["b"]);
        other.execute("INSERT INTO pending_erasure VALUES (1)", []).unwrap();
        let (nobody, view) = woken(&seats, view);
        assert!(nobody.is_empty(), "no approval changed");
        changed(&other, &["c"]);
        changed(&other, &["x"; 1_024]);
        let kept: i64 =
            other.query_row("SELECT count(*) FROM approval_changes", [], |row| row.get(0)).unwrap();
        assert_eq!(kept, 1_024, "the list is bounded");
        let (all, view) = woken(&seats, view);
        assert_eq!(all, ["a", "b", "c"], "what is not known may be anything");
        let (nobody, _) = woken(&seats, view);
        assert!(nobody.is_empty());
    }
}
