//! Votes, and how much agents ask: what goes with questions.

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::audit;
use super::row::{AsJson, Count, id as id_column, limit as limit_of};
use crate::answered;
use crate::approvals::limits::{MINUTE, MOST_REFUSED};
use crate::approvals::machine::Voted;
use crate::{
    ANSWERABLE, AccessTokenId, Answerer, ApprovalRecord, ApprovalStatus, AskingLimits, NewApproval,
    REFUSALS_SHOWN, RefusedQuestions, Timestamp, TooMany,
};

/// The votes about the question of a row, as JSON, each with the moment at which what it was given with ends. One whose token is gone has
/// no such moment.
pub(super) const VOTES: &str = "(SELECT json_group_array(json_patch(vote, json_object('endsAt', \
    (SELECT min(ends_at, coalesce(revoked_at, ends_at)) FROM access_tokens WHERE access_tokens.id = vote ->> '$.token')))) \
    FROM approval_votes WHERE approval_votes.approval = approvals.id)";

/// Adds a vote, in the place of an earlier one of the same person, and says so in the trail.
pub(super) fn put(db: &Connection, record: &mut ApprovalRecord, voted: Voted) -> rusqlite::Result<()> {
    audit::say(db, answered::voted(record, &voted))?;
    let sql = "INSERT INTO approval_votes (approval, person, vote) VALUES (?1, ?2, ?3) \
               ON CONFLICT (approval, person) DO UPDATE SET vote = excluded.vote";
    let values = params![record.id.as_str(), voted.vote.person.as_str(), AsJson(&voted.vote)];
    db.prepare_cached(sql)?.execute(values)?;
    record.put_vote(voted.vote);
    Ok(())
}

/// Looks up whether what somebody is known by still counts.
pub(super) fn vouched(db: &Connection, by: Answerer) -> rusqlite::Result<Answerer> {
    let ends_at = by.token.as_ref().map(|token| end_of(db, token)).transpose()?.flatten();
    Ok(Answerer { ends_at, ..by })
}

/// The first moment at which a token no longer counts; `None` if there is no such token.
fn end_of(db: &Connection, id: &AccessTokenId) -> rusqlite::Result<Option<Timestamp>> {
    let sql = "SELECT min(ends_at, coalesce(revoked_at, ends_at)) FROM access_tokens WHERE id = ?1";
    db.prepare_cached(sql)?.query_row([id.as_str()], |row| row.get(0)).optional()
}

/// Refuses the question of an agent that asks more than it may, and counts that.
pub(super) fn admit(
    db: &Connection,
    request: &NewApproval,
    status: ApprovalStatus,
    limits: AskingLimits,
) -> rusqlite::Result<Result<(), TooMany>> {
    if limits == AskingLimits::default() {
        return Ok(Ok(()));
    }
    let (agent, now) = (request.agent.as_str(), request.created_at);
    // In these words: each is an index of its own.
    let open = match status {
        ApprovalStatus::Pending => {
            "SELECT count(*) FROM approvals WHERE agent = ?1 AND status = 'pending' AND expires_at >= ?2"
        }
        _ => "SELECT count(*) FROM approvals WHERE agent = ?1 AND status = 'unattended' AND expires_at >= ?2",
    };
    let count = |sql: &str, since: Timestamp| {
        db.prepare_cached(sql)?.query_row(params![agent, since], |row| row.get::<_, Count>(0))
    };
    let open = count(open, now.before(ANSWERABLE))?;
    let recent = "SELECT count(*) FROM approvals WHERE agent = ?1 AND created_at > ?2";
    let recent = count(recent, now.before(MINUTE))?;
    let Err(why) = limits.check(open.0, recent.0) else { return Ok(Ok(())) };
    let sql = "SELECT * FROM approval_refusals WHERE agent = ?1";
    let known = db.prepare_cached(sql)?.query_row([agent], refusal).optional()?;
    let RefusedQuestions { count, since, last, .. } = RefusedQuestions::and_one(known, &request.agent, now);
    let sql = "INSERT INTO approval_refusals (agent, count, since, last) VALUES (?1, ?2, ?3, ?4) \
               ON CONFLICT (agent) DO UPDATE SET count = ?2, since = ?3, last = ?4";
    db.prepare_cached(sql)?.execute(params![agent, Count(count), since, last])?;
    let sql = "DELETE FROM approval_refusals WHERE agent NOT IN \
               (SELECT agent FROM approval_refusals ORDER BY last DESC LIMIT ?1)";
    db.prepare_cached(sql)?.execute([limit_of(MOST_REFUSED)])?;
    Ok(Err(why))
}

/// Returns of which agents questions were refused, those of the newest first.
pub(super) fn refused(db: &Connection, now: Timestamp) -> rusqlite::Result<Vec<RefusedQuestions>> {
    let sql = "SELECT * FROM approval_refusals WHERE last >= ?1 ORDER BY last DESC";
    let mut statement = db.prepare_cached(sql)?;
    statement.query_map([now.before(REFUSALS_SHOWN)], refusal)?.collect()
}

fn refusal(row: &Row<'_>) -> rusqlite::Result<RefusedQuestions> {
    Ok(RefusedQuestions {
        agent: id_column(row, "agent")?,
        count: row.get::<_, Count>("count")?.0,
        since: row.get("since")?,
        last: row.get("last")?,
    })
}
