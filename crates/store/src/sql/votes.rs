//! Votes, and how much agents ask: what goes with questions.

use serde::Deserialize;

use super::row::{AsJson, Count, id as id_column, json, limit as limit_of};
use super::{Db, Row, SqlResult, params};
use crate::answered;
use crate::approvals::limits::{MINUTE, MOST_REFUSED};
use crate::approvals::machine::Voted;
use crate::{
    ANSWERABLE, AccessTokenId, Answerer, ApprovalRecord, ApprovalStatus, AskingLimits, NewApproval,
    REFUSALS_SHOWN, RefusedQuestions, Timestamp, TooMany, Vote,
};

/// A vote as it is read: beside it, the moment at which what it was given with ends.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Known {
    vote: Vote,
    ends_at: Option<Timestamp>,
}

/// The votes about the question of a row, which [`Db::votes`] finds.
pub(super) fn of(row: &Row<'_>, column: usize) -> SqlResult<Vec<Vote>> {
    let known: Vec<Known> = json(row, column)?;
    Ok(known.into_iter().map(|Known { vote, ends_at }| Vote { ends_at, ..vote }).collect())
}

/// Adds a vote, in the place of an earlier one of the same person, and says so in the trail.
pub(super) fn put(db: &Db<'_>, record: &mut ApprovalRecord, voted: Voted) -> SqlResult<()> {
    db.say(answered::voted(record, &voted))?;
    let sql = "INSERT INTO approval_votes (approval, person, vote) VALUES (?1, ?2, ?3) \
               ON CONFLICT (approval, person) DO UPDATE SET vote = excluded.vote";
    let values = params![record.id.as_str(), voted.vote.person.as_str(), AsJson(&voted.vote)];
    db.execute(sql, values)?;
    record.put_vote(voted.vote);
    Ok(())
}

/// Looks up whether what somebody is known by still counts.
pub(super) fn vouched(db: &Db<'_>, by: Answerer) -> SqlResult<Answerer> {
    let ends_at = by.token.as_ref().map(|token| end_of(db, token)).transpose()?.flatten();
    Ok(Answerer { ends_at, ..by })
}

/// The first moment at which a token no longer counts; `None` if there is no such token.
fn end_of(db: &Db<'_>, id: &AccessTokenId) -> SqlResult<Option<Timestamp>> {
    let sql = "SELECT CASE WHEN revoked_at < ends_at THEN revoked_at ELSE ends_at END FROM access_tokens WHERE id = ?1";
    db.optional(sql, params![id.as_str()], |row| row.get(0))
}

/// Refuses the question of an agent that asks more than it may, and counts that.
pub(super) fn admit(
    db: &Db<'_>,
    request: &NewApproval,
    status: ApprovalStatus,
    limits: AskingLimits,
) -> SqlResult<Result<(), TooMany>> {
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
    let count = |sql: &str, since: Timestamp| db.one(sql, params![agent, since], |row| row.get::<Count>(0));
    let open = count(open, now.before(ANSWERABLE))?;
    let recent = "SELECT count(*) FROM approvals WHERE agent = ?1 AND created_at > ?2";
    let recent = count(recent, now.before(MINUTE))?;
    let Err(why) = limits.check(open.0, recent.0) else { return Ok(Ok(())) };
    let sql = "SELECT * FROM approval_refusals WHERE agent = ?1";
    // What counts for nothing but for what people are shown is counted anew where it can't be read.
    let known = db.readable("refused questions", sql, params![agent], refusal)?.into_iter().next();
    let RefusedQuestions { count, since, last, .. } = RefusedQuestions::and_one(known, &request.agent, now);
    let sql = "INSERT INTO approval_refusals (agent, count, since, last) VALUES (?1, ?2, ?3, ?4) \
               ON CONFLICT (agent) DO UPDATE SET count = ?2, since = ?3, last = ?4";
    db.execute(sql, params![agent, Count(count), since, last])?;
    let sql = "DELETE FROM approval_refusals WHERE agent NOT IN \
               (SELECT agent FROM approval_refusals ORDER BY last DESC LIMIT ?1)";
    db.execute(sql, params![limit_of(MOST_REFUSED)])?;
    Ok(Err(why))
}

/// Returns of which agents questions were refused, those of the newest first.
pub(super) fn refused(db: &Db<'_>, now: Timestamp) -> SqlResult<Vec<RefusedQuestions>> {
    let sql = "SELECT * FROM approval_refusals WHERE last >= ?1 ORDER BY last DESC";
    db.readable("refused questions", sql, params![now.before(REFUSALS_SHOWN)], refusal)
}

fn refusal(row: &Row<'_>) -> SqlResult<RefusedQuestions> {
    Ok(RefusedQuestions {
        agent: id_column(row, "agent")?,
        count: row.get::<Count>("count")?.0,
        since: row.get("since")?,
        last: row.get("last")?,
    })
}
