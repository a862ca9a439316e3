//! Answers of other machines.
//!
//! While somebody waits for an answer, one thread of the process has a connection that listens. The server tells it when a transaction that changed
//! approvals has been committed, and it reads which. Changes are numbered while their area is locked, so that they are committed in the order of
//! their numbers.
//!
//! The law: *nothing is missed*. It listens, and only then reads what the last change was, and has everybody who waits read their row. So it is again after
//! each connection that was lost. Since a message may get lost with its network, it also
//! looks from time to time ([`PostgresOptions::look_every`](super::PostgresOptions::look_every)). Since others who write the database may put a change there whose number
//! hides what comes, it begins anew where the last change is gone, and has everybody who waits read their row once a minute in any case.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use backstop_hooks::ApprovalId;

use super::Failure;
use super::connection::Connection;
use super::pool::Shared;
use crate::approvals::wait::Seats;

/// How long a server that can't be reached is left alone. Those who wait read their rows then, and fail.
const BROKEN: Duration = Duration::from_secs(1);
/// After how long those who wait read their rows, whatever was heard.
const AT_LATEST: Duration = Duration::from_mins(1);
/// How long the connection is kept when nobody waits any more.
const LINGER: Duration = Duration::from_secs(10);

/// Looks from now on, in a thread that ends once nobody has waited for a while.
pub(super) fn start(shared: Arc<Shared>, seats: Arc<Seats>) -> std::io::Result<()> {
    let post = Post(seats);
    let lookout = thread::Builder::new().name("backstop-lookout".to_owned());
    lookout.spawn(move || look(&shared, &post.0)).map(drop)
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

fn look(shared: &Shared, seats: &Seats) {
    let (mut view, mut waited, mut woken): (Option<View>, _, _) = (None, Instant::now(), Instant::now());
    loop {
        if woken.elapsed() >= AT_LATEST {
            seats.wake_all();
            woken = Instant::now();
        }
        if !seats.are_free() {
            waited = Instant::now();
        } else if waited.elapsed() > LINGER && seats.is_over() {
            return;
        }
        if let Some(view) = &view
            && !view.is_due(shared.options.look)
        {
            continue;
        }
        let known = view.take();
        let is_new = known.is_none();
        view = known.map_or_else(|| View::open(shared), |known| known.look(seats)).ok();
        if is_new || view.is_none() {
            seats.wake_all();
        }
        if view.is_none() {
            thread::sleep(BROKEN);
        }
    }
}

/// The changes as they were last looked at.
struct View {
    connection: Connection,
    last: i64,
    looked: Instant,
}

impl View {
    fn open(shared: &Shared) -> Result<Self, Failure> {
        let connection = shared.open()?;
        connection.batch(&format!("LISTEN \"backstop_{}\"", shared.options.schema))?;
        let last = newest(&connection)?;
        Ok(Self { connection, last, looked: Instant::now() })
    }

    /// Waits for a message, for a while. Returns whether there was one, or it is time to look without.
    fn is_due(&self, pace: Duration) -> bool {
        let left = pace.saturating_sub(self.looked.elapsed());
        self.connection.listen(left.min(LINGER)) || self.looked.elapsed() >= pace
    }

    /// Wakes those who wait for what has changed.
    fn look(mut self, seats: &Seats) -> Result<Self, Failure> {
        self.looked = Instant::now();
        let newest = newest(&self.connection)?;
        // Numbers only grow, so the last one was none of ours, and hid those that came since.
        if newest < self.last {
            self.last = newest;
            seats.wake_all();
        }
        let sql = "SELECT change, approval FROM approval_changes WHERE change > $1 ORDER BY change";
        let changes = self.connection.wait_for(self.connection.client.query(sql, &[&self.last]))?;
        for row in changes {
            let (change, approval): (i64, String) = (row.try_get(0)?, row.try_get(1)?);
            // What is between was undone, or is no longer kept.
            if change > self.last.saturating_add(1) {
                seats.wake_all();
            }
            self.last = change;
            seats.wake(&ApprovalId::from(approval));
        }
        Ok(self)
    }
}

/// Returns the number of the last change.
fn newest(connection: &Connection) -> Result<i64, Failure> {
    let sql = "SELECT coalesce(max(change), 0) FROM approval_changes";
    Ok(connection.wait_for(connection.client.query_one(sql, &[]))?.try_get(0)?)
}
