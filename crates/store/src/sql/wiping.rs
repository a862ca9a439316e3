//! Wiping what people were shown of questions that nobody answers any more.

use super::db::tell_unread;
use super::row::limit as limit_of;
use super::spoilt::{Found, QUESTIONS, found};
use super::{Area, Driver, SqlStore, approvals, params, texts};
use crate::{ANSWERABLE, StoreError, Timestamp};

/// The most questions of which the arguments are wiped at once.
const MOST_WIPED: usize = 64;
/// The most that were allowed and are looked at for that. While as many are for a later call, others that were allowed wait until those end.
const MOST_ALLOWED: usize = 1_024;
/// Those for which no answer can count any more, so that nobody needs to be shown the arguments.
const PAST_ANSWERING: &str = "WHERE has_arguments = 1 AND (status IN ('used', 'denied') \
                              OR (status IN ('unattended', 'timed-out', 'cancelled', 'edited', 'responded') \
                              AND expires_at < ?1)) LIMIT ?2";
/// Those that were allowed. On their own, since some may stay: they keep none of the others from being wiped.
const PAST_USING: &str = "WHERE has_arguments = 1 AND status = 'allowed' AND expires_at < ?1 LIMIT ?2";

const OF_ROW: &str = "SELECT row FROM approvals WHERE row = ?1";

#[expect(private_bounds, reason = "there are no drivers but our own")]
impl<D: Driver> SqlStore<D> {
    /// Wipes arguments, and what was said of them, that nobody needs to be shown any more.
    pub(super) async fn wipe_arguments(&self, now: Timestamp) -> Result<(), StoreError> {
        let before = now.before(ANSWERABLE);
        let past: Result<Vec<i64>, StoreError> = self
            .database
            .read(move |db| {
                let rows = |which: &str, most| {
                    let sql = format!("SELECT row FROM approvals {which}");
                    db.all(&sql, params![before, limit_of(most)], |row| row.get::<i64>(0))
                };
                let mut past = rows(PAST_ANSWERING, MOST_WIPED)?;
                for row in rows(PAST_USING, MOST_ALLOWED)? {
                    // What was asked is what a later call is compared with.
                    if !found(db, OF_ROW, params![row])?
                        .records
                        .iter()
                        .any(|one| one.state.awaits_a_call(now))
                    {
                        past.push(row);
                    }
                }
                Ok(past)
            })
            .await;
        let past = past?;
        if past.is_empty() {
            return Ok(());
        }
        let wiped = self.database.erase::<_, StoreError>(Area::Questions, move |db| {
            let mut unread = 0;
            for row in past {
                let Found { records, spoilt } = found(db, OF_ROW, params![row])?;
                // It may have been allowed for a later call meanwhile.
                for mut record in records.into_iter().filter(|one| !one.state.awaits_a_call(now)) {
                    record.request.forget_texts();
                    approvals::rewrite(db, &record)?;
                }
                // Nothing can be kept of what can't be read.
                for row in spoilt {
                    unread += 1;
                    texts::wipe(db, "SELECT text FROM approvals WHERE row = ?1", params![row])?;
                    db.execute("UPDATE approvals SET has_arguments = 0 WHERE row = ?1", params![row])?;
                }
            }
            tell_unread(QUESTIONS, unread);
            Ok(())
        });
        wiped.await.map(drop)
    }
}
