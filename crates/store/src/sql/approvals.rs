use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstop_hooks::{AgentId, ApprovalId, Digest, RunId, SessionId, ToolCallId};

use super::db::tell_unread;
use super::hosted::Hosted;
use super::row::{AsJson, Count, Word, id as id_column, json, limit as limit_of, to_json};
use super::spoilt::{Found, QUESTIONS, due, end_at_odds, end_spoilt, found, is_any_due, say_spoilt};
use super::votes;
use super::{Area, Db, Driver, Fault, Row, SqlResult, SqlStore, ToValue, params, texts};
use crate::answered;
use crate::approvals::machine::{self, Step};
use crate::approvals::{code, wait};
use crate::asked::{self, Ended, Unanswered};
use crate::keyed::Keying;
use crate::sqlite::MEMORY;
use crate::{
    ANSWERABLE, AllowanceScope, Answerer, ApprovalFilter, ApprovalRecord, ApprovalState, ApprovalStore,
    AskingLimits, ConsumeError, CreateApprovalError, DigestKey, FindApprovalError, Grant, NewApproval,
    NewGrant, OpenApprovals, Overview, PersonsAnswer, RefusedQuestions, ResolveError, Resolved, StoreError,
    StoreErrorKind, Timestamp, TooMany, Uptime,
};

/// Those before one, the newest first. By numbers alone at first: what people are shown of questions is large.
const OLDER: &str = "WHERE row IN (SELECT row FROM approvals WHERE row < (SELECT row FROM approvals WHERE id = ?1) \
                     ORDER BY row DESC LIMIT ?2) ORDER BY row DESC";
const OLDER_THAT_WAIT: &str = "WHERE row IN (SELECT row FROM approvals WHERE status = 'pending' \
                               AND row < (SELECT row FROM approvals WHERE id = ?1) ORDER BY row DESC LIMIT ?2) \
                               ORDER BY row DESC";
/// The most questions that end in one transaction because their time has passed.
const MOST_ENDED: usize = 256;

#[async_trait]
impl<D: Driver> ApprovalStore for SqlStore<D> {
    fn answers_digest_key(&self) -> Option<&Arc<DigestKey>> {
        self.answers_key.as_ref()
    }

    async fn file_approval(
        &self,
        request: NewApproval,
        unattended: bool,
        limits: &AskingLimits,
    ) -> Result<ApprovalRecord, CreateApprovalError> {
        let at = request.created_at;
        let hosted = false;
        let state =
            if unattended { ApprovalState::Unattended { at, hosted } } else { ApprovalState::Pending };
        self.add(request, state, *limits).await
    }

    async fn file_hosted_approval(
        &self,
        request: NewApproval,
        limits: &AskingLimits,
    ) -> Result<ApprovalRecord, CreateApprovalError> {
        let state = ApprovalState::Unattended { at: request.created_at, hosted: true };
        self.add(request, state, *limits).await
    }

    async fn end_hosted_approvals(
        &self,
        agent: &AgentId,
        session: &SessionId,
        call: &ToolCallId,
        now: Timestamp,
    ) -> Result<Vec<ApprovalRecord>, StoreError> {
        let of = Hosted { agent: agent.clone(), session: session.clone(), call: call.clone() };
        let looked = of.clone();
        // Looking costs less than writing, and mostly there is nothing.
        let found: Result<_, StoreError> = self.database.read(move |db| Ok(looked.found(db, now)?)).await;
        if found?.is_empty() {
            return Ok(Vec::new());
        }
        let write = move |db: &Db<'_>| {
            Ok(step_all(db, of.found(db, now)?, |record| machine::hosted_ran(record, now))?)
        };
        self.database.write(Area::Questions, write).await
    }

    async fn refused_questions(&self, now: Timestamp) -> Result<Vec<RefusedQuestions>, StoreError> {
        self.database.read(move |db| Ok(votes::refused(db, now)?)).await
    }

    async fn approval(&self, id: &ApprovalId) -> Result<Option<ApprovalRecord>, StoreError> {
        let id = id.clone();
        self.database.read(move |db| Ok(find(db, &id)?)).await
    }

    async fn approvals_before(
        &self,
        id: &ApprovalId,
        filter: ApprovalFilter,
        limit: usize,
    ) -> Result<Vec<ApprovalRecord>, StoreError> {
        let (id, limit) = (id.clone(), limit_of(limit));
        let clause = match filter {
            ApprovalFilter::Pending => OLDER_THAT_WAIT,
            ApprovalFilter::All => OLDER,
        };
        self.database.read(move |db| Ok(readable(db, clause, &[&id.as_str(), &limit])?)).await
    }

    async fn find_approval(&self, name: &str) -> Result<ApprovalRecord, FindApprovalError> {
        let (name, code) = (name.to_owned(), code::normalize(name));
        let found: Vec<ApprovalRecord> = self
            .database
            .read::<_, FindApprovalError>({
                let name = name.clone();
                move |db| {
                    let exact = select(db, "WHERE code = ?1 OR id = ?2", &[&code, &name])
                        .map(|found| found.into_iter().next())?;
                    if let Some(record) = exact {
                        return Ok(vec![record]);
                    }
                    let sql = "WHERE ?1 <> '' AND id >= ?1 AND substr(id, 1, length(?1)) = ?1 LIMIT 2";
                    Ok(select(db, sql, &[&name])?)
                }
            })
            .await?;
        let mut found = found.into_iter();
        match (found.next(), found.next()) {
            (Some(record), None) => Ok(record),
            (Some(_), Some(_)) => Err(FindApprovalError::Ambiguous(name)),
            (None, _) => Err(FindApprovalError::Unknown(name)),
        }
    }

    async fn approvals(
        &self,
        filter: ApprovalFilter,
        limit: usize,
    ) -> Result<Vec<ApprovalRecord>, StoreError> {
        let clause = match filter {
            ApprovalFilter::Pending => WAITING,
            ApprovalFilter::All => "ORDER BY row DESC LIMIT ?1",
        };
        self.database.read(move |db| Ok(readable(db, clause, &[&limit_of(limit)])?)).await
    }

    async fn open_approvals(
        &self,
        now: Timestamp,
        skip: usize,
        limit: usize,
    ) -> Result<OpenApprovals, StoreError> {
        let until = now.before(ANSWERABLE);
        let (skip, limit) = (limit_of(skip), limit_of(limit));
        self.database
            .read(move |db| {
                let count = format!("SELECT count(*) FROM approvals WHERE {OPEN}");
                let all: i64 = db.one(&count, params![until], |row| row.get(0))?;
                // By numbers alone at first: what people are shown of them is large.
                let clause = format!(
                    "WHERE row IN (SELECT row FROM approvals WHERE {OPEN} ORDER BY {IN_ORDER} LIMIT ?2 OFFSET ?3) \
                     ORDER BY {IN_ORDER}"
                );
                let sql = select_sql(db, &clause);
                let listed = |row: &Row<'_>| record(row).map(ApprovalRecord::listed);
                let records = db.readable(QUESTIONS, &sql, params![until, limit, skip], listed)?;
                Ok(OpenApprovals { records, all: usize::try_from(all).unwrap_or_default() })
            })
            .await
    }

    async fn overview(&self) -> Result<Overview, StoreError> {
        self.database
            .read(|db| {
                let sql = "SELECT (SELECT count(*) FROM approvals WHERE status = 'pending'), \
                           (SELECT coalesce(max(row), 0) FROM approvals), \
                           (SELECT coalesce(max(change), 0) FROM approval_changes)";
                Ok(db.one(sql, params![], |row| {
                    let (waiting, last, changes): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
                    Ok(Overview {
                        waiting: usize::try_from(waiting).unwrap_or_default(),
                        // It only has to be another one: numbers that others wrote may be as large as they like.
                        mark: last.wrapping_add(changes).cast_unsigned(),
                    })
                })?)
            })
            .await
    }

    async fn answer_approval(
        &self,
        id: &ApprovalId,
        answer: PersonsAnswer,
    ) -> Result<Resolved, ResolveError> {
        self.answer(id, answer, Vec::new()).await.map(|(resolved, _)| resolved)
    }

    async fn answer_with_grants(
        &self,
        id: &ApprovalId,
        answer: PersonsAnswer,
        grants: Vec<NewGrant>,
    ) -> Result<(Resolved, Vec<Grant>), ResolveError> {
        self.answer(id, answer.with_grants(), grants).await
    }

    async fn cancel_approval(&self, id: &ApprovalId, now: Timestamp) -> Result<ApprovalRecord, ResolveError> {
        let stepped: Result<_, ResolveError> =
            self.step(id, move |_, record| Ok(machine::cancel(record, Unanswered::Withdrawn, now))).await;
        let (record, ()) = stepped?.ok_or_else(|| ResolveError::Unknown(id.clone()))?;
        Ok(record)
    }

    async fn cancel_run_approvals(
        &self,
        session: &SessionId,
        run: &RunId,
        now: Timestamp,
    ) -> Result<Vec<ApprovalRecord>, StoreError> {
        let (session, run) = (session.clone(), run.clone());
        let changed = self.database.write(Area::Questions, move |db| {
            let rows = "SELECT row FROM approvals WHERE status = 'pending' AND session = ?1 AND run = ?2";
            let Found { records, spoilt } = found(db, rows, params![session.as_str(), run.as_str()])?;
            end_spoilt(db, &spoilt, now)?;
            Ok(step_all(db, records, |record| machine::cancel(record, Unanswered::RunEnded, now))?)
        });
        self.told_all(changed.await)
    }

    async fn expire_approvals(&self, now: Timestamp) -> Result<Vec<ApprovalRecord>, StoreError> {
        self.wipe_arguments(now).await?;
        // Looking costs less than writing, and mostly there is nothing.
        let found: Result<_, StoreError> = self.database.read(move |db| Ok(is_any_due(db, now)?)).await;
        let (mut ended, mut is_more) = (Vec::new(), found?);
        // Some at a time: each is said in the trail before its transaction counts.
        while is_more {
            let changed = self.database.write(Area::Questions, move |db| {
                let Found { records, spoilt } = due(db, now, MOST_ENDED)?;
                let looked_at = records.len() + spoilt.len();
                let (over, others): (Vec<_>, Vec<_>) =
                    records.into_iter().partition(|record| machine::expire(record, now).next.is_some());
                // What says of itself that it waits on, or no longer, while its row says that it is over, was not written here.
                end_at_odds(db, &others, now)?;
                end_spoilt(db, &spoilt, now)?;
                let is_any_spoilt = !spoilt.is_empty() || !others.is_empty();
                Ok((step_all(db, over, |record| machine::expire(record, now))?, is_any_spoilt, looked_at))
            });
            let changed: Result<_, StoreError> = changed.await;
            let (changed, is_any_spoilt, looked_at) = changed?;
            if is_any_spoilt {
                self.seats.wake_all();
            }
            is_more = looked_at == MOST_ENDED;
            ended.extend(self.told_all(Ok(changed))?);
        }
        Ok(ended)
    }

    async fn end_lost_approvals(&self, now: Timestamp) -> Result<usize, StoreError> {
        self.tell_lost(now).await
    }

    async fn end_waiting(
        &self,
        id: &ApprovalId,
        now: Timestamp,
    ) -> Result<Option<ApprovalRecord>, StoreError> {
        let stepped: Result<_, StoreError> =
            self.step(id, move |_, record| Ok(machine::end_waiting(record, now))).await;
        if let Err(error) = &stepped
            && error.kind() == StoreErrorKind::Corrupt
        {
            self.set_aside(id, now).await?;
        }
        Ok(stepped?.map(|(record, ())| record))
    }

    async fn consume_approval(
        &self,
        id: &ApprovalId,
        digest: &Digest,
        now: Timestamp,
    ) -> Result<ApprovalRecord, ConsumeError> {
        let digest = *digest;
        let step = move |_: &Db<'_>, record: &ApprovalRecord| Ok(machine::consume(record, &digest, now));
        let stepped: Result<_, ConsumeError> = self.step(id, step).await;
        let (record, answer) = stepped?.ok_or_else(|| ConsumeError::Unknown(id.clone()))?;
        answer.map(|()| record)
    }

    async fn take_given(
        &self,
        id: &ApprovalId,
        digest: &Digest,
        now: Timestamp,
    ) -> Result<ApprovalRecord, ConsumeError> {
        let (of, digest) = (id.clone(), *digest);
        let taken = self.database.erase::<_, StoreError>(Area::Questions, move |db| {
            let Some(mut record) = find(db, &of)? else { return Ok(None) };
            let Step { next, answer, .. } = machine::take_given(&record, &digest, now);
            let mut taken = record.clone();
            if let Some(next) = next {
                change(db, &mut record, next)?;
                taken.state = record.state.clone();
                record.request.forget_texts();
                rewrite(db, &record)?;
            }
            Ok(Some((taken, answer)))
        });
        let (record, answer) = taken.await?.0.ok_or_else(|| ConsumeError::Unknown(id.clone()))?;
        answer.map(|()| record)
    }

    async fn allow_later(
        &self,
        id: &ApprovalId,
        by: &Answerer,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<ApprovalRecord, ResolveError> {
        let by = by.clone();
        let step = move |db: &Db<'_>, record: &ApprovalRecord| {
            Ok(machine::allow_later(record, &votes::vouched(db, by)?, ttl, now))
        };
        let stepped: Result<_, ResolveError> = self.step(id, step).await;
        let (record, answer) = stepped?.ok_or_else(|| ResolveError::Unknown(id.clone()))?;
        answer.map(|()| record)
    }

    async fn keep_allowance(
        &self,
        id: &ApprovalId,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<ApprovalRecord, ResolveError> {
        let step = move |_: &Db<'_>, record: &ApprovalRecord| Ok(machine::keep(record, ttl, now));
        let stepped: Result<_, ResolveError> = self.step(id, step).await;
        let (record, answer) = stepped?.ok_or_else(|| ResolveError::Unknown(id.clone()))?;
        answer.map(|()| record)
    }

    async fn take_allowance(
        &self,
        scope: &AllowanceScope,
        now: Timestamp,
    ) -> Result<Option<ApprovalRecord>, StoreError> {
        let scope = scope.clone();
        self.database
            .write(Area::Questions, move |db| {
                let clause = "WHERE status = 'allowed' AND digest = ?1 ORDER BY row";
                for mut record in readable(db, clause, &[&scope.digest.to_string()])? {
                    let Step { next, answer, .. } = machine::take(&record, &scope, now);
                    if let (Some(next), true) = (next, answer) {
                        change(db, &mut record, next)?;
                        return Ok(Some(record));
                    }
                }
                Ok(None)
            })
            .await
    }

    async fn wait_approval(
        &self,
        id: &ApprovalId,
        until: Timestamp,
    ) -> Result<Option<ApprovalRecord>, StoreError> {
        let watch = || match self.seats.wants_watch() {
            true => self.database.watch(&self.seats).inspect_err(|_| self.seats.lose_watch()),
            false => Ok(()),
        };
        let patience =
            wait::Patience { answer: Timestamp::now().until(until), outage: self.database.outage() };
        wait::wait_answered(self, &self.seats, id, patience, watch).await
    }

    async fn erase_preview(&self, id: &ApprovalId) -> Result<bool, StoreError> {
        Ok(self.rewrite(id, NewApproval::forget_arguments).await?.is_some())
    }

    async fn mark_seen(&self, id: &ApprovalId) -> Result<Option<ApprovalRecord>, StoreError> {
        self.rewrite(id, |request| request.unseen &= request.whole.is_none()).await
    }
}

/// Those that wait, the newest first. By numbers alone at first: what is sorted is copied, and what people are shown of questions is large.
const WAITING: &str = "WHERE row IN (SELECT row FROM approvals WHERE status = 'pending' ORDER BY row DESC LIMIT ?1) \
                       ORDER BY row DESC";

/// Those for which an answer would count, by the last moment at which those that ended can have been over.
const OPEN: &str = "(status = 'pending' OR status IN ('unattended', 'timed-out') AND expires_at >= ?1)";
/// Those that wait come first, by their last moment; the newest of the others after them.
const IN_ORDER: &str = "status <> 'pending', CASE WHEN status = 'pending' THEN expires_at ELSE ~row END, row";

#[expect(private_bounds, reason = "there are no drivers but our own")]
impl<D: Driver> SqlStore<D> {
    /// Ends a question that can't be read, if it waits.
    async fn set_aside(&self, id: &ApprovalId, now: Timestamp) -> Result<(), StoreError> {
        let id = id.clone();
        let ended: Result<(), StoreError> = self
            .database
            .write(Area::Questions, move |db| {
                let rows = "SELECT row FROM approvals WHERE id = ?1 AND status = 'pending'";
                let Found { spoilt, .. } = found(db, rows, params![id.as_str()])?;
                Ok(end_spoilt(db, &spoilt, now)?)
            })
            .await;
        self.seats.wake_all();
        ended
    }

    /// Writes a request anew, and wipes what it said before. Returns the record as it is then.
    async fn rewrite(
        &self,
        id: &ApprovalId,
        change: impl FnOnce(&mut NewApproval) + Send + 'static,
    ) -> Result<Option<ApprovalRecord>, StoreError> {
        let id = id.clone();
        let rewritten = self.database.erase::<_, StoreError>(Area::Questions, move |db| {
            let Some(mut record) = find(db, &id)? else { return Ok(None) };
            change(&mut record.request);
            rewrite(db, &record)?;
            Ok(Some(record))
        });
        Ok(rewritten.await?.0)
    }

    async fn add(
        &self,
        request: NewApproval,
        state: ApprovalState,
        limits: AskingLimits,
    ) -> Result<ApprovalRecord, CreateApprovalError> {
        let json = machine::encoded(&request)?;
        let (agent, most) = (request.agent.clone(), self.most_questions);
        let keying = Keying::from(self.answers_key.clone());
        let filed: Result<Result<_, TooMany>, CreateApprovalError> = self
            .database
            .write(Area::Questions, move |db| {
                if let ApprovalState::Unattended { .. } = state {
                    let clause = "WHERE status = 'unattended' AND digest = ?1 AND session = ?2 ORDER BY row DESC LIMIT 32";
                    let (digest, session) = (request.digest.to_string(), request.session.as_str());
                    let known = readable(db, clause, &[&digest, &session])?;
                    let is_same = |known: &ApprovalRecord| {
                        let is_hosted = state.is_hosted();
                        // Of two calls of its own, a program tells which has run.
                        let is_one = !is_hosted || known.request.is_of_call(&request);
                        known.request.asks_as(&request) && known.state.is_hosted() == is_hosted && is_one
                    };
                    if let Some(known) = known.into_iter().find(is_same) {
                        return Ok(Ok(known));
                    }
                }
                if let Err(why) = votes::admit(db, &request, state.status(), limits)? {
                    return Ok(Err(why));
                }
                if let Some(most) = most
                    && !make_room(db, most)?
                {
                    let full = StoreError::because(MEMORY, StoreErrorKind::Full, "too many questions wait: answer or cancel some");
                    return Err(Fault::Refused(full.into()));
                }
                let (id, code) = (code::random_id(), free_code(db)?);
                let record = ApprovalRecord { id, code, request, state, votes: Vec::new() };
                insert(db, &record, &json)?;
                // INVARIANT (said): a question that can't be recorded is none.
                db.say(asked::asked(&record, &keying, most.is_some()))?;
                Ok(Ok(record))
            })
            .await;
        filed?.map_err(|why| CreateApprovalError::TooMany { agent, why })
    }

    /// Takes one step with one record; `None` if there is no such record.
    async fn step<T, E>(
        &self,
        id: &ApprovalId,
        step: impl FnOnce(&Db<'_>, &ApprovalRecord) -> SqlResult<Step<T>> + Send + 'static,
    ) -> Result<Option<(ApprovalRecord, T)>, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let of = id.clone();
        let stepped = self.database.write(Area::Questions, move |db| {
            let Some(mut record) = find(db, &of)? else { return Ok(None) };
            let step = step(db, &record)?;
            let answer = apply(db, &mut record, step)?;
            Ok(Some((record, answer)))
        });
        let stepped = stepped.await;
        self.seats.wake(id);
        stepped
    }

    /// Wakes those who wait for these in this process.
    fn told_all(
        &self,
        changed: Result<Vec<ApprovalRecord>, StoreError>,
    ) -> Result<Vec<ApprovalRecord>, StoreError> {
        changed.inspect(|changed| changed.iter().for_each(|record| self.seats.wake(&record.id)))
    }
}

/// Writes down what a step does to a record. Returns its answer.
pub(super) fn apply<T>(db: &Db<'_>, record: &mut ApprovalRecord, step: Step<T>) -> SqlResult<T> {
    let Step { vote, next, ended, given, answer } = step;
    if let Some(ended) = ended {
        db.say(asked::ended(record, ended))?;
    }
    if let Some(voted) = vote {
        votes::put(db, record, voted)?;
    }
    if let Some(given) = given {
        record.request.given = Some(given);
        rewrite(db, record)?;
    }
    if let Some(next) = next {
        change(db, record, next)?;
    }
    Ok(answer)
}

/// Writes the request of a record anew, and wipes what it said before.
pub(super) fn rewrite(db: &Db<'_>, record: &ApprovalRecord) -> SqlResult<()> {
    texts::wipe(db, "SELECT text FROM approvals WHERE id = ?1", &[&record.id.as_str()])?;
    let json = to_json(&record.request)?;
    let sql = "UPDATE approvals SET text = ?2, has_arguments = ?3 WHERE id = ?1";
    // The column is named for what it said at first: by now it says whether there is any text to be wiped.
    let has_texts = i64::from(record.request.has_texts());
    db.execute(sql, params![record.id.as_str(), texts::put(db, &json)?, has_texts])?;
    Ok(())
}

/// Forgets the oldest question that is over, if there are as many as may be. Returns whether there is room for one more.
fn make_room(db: &Db<'_>, most: u64) -> SqlResult<bool> {
    let count: Count = db.one("SELECT count(*) FROM approvals", &[], |row| row.get(0))?;
    if count.0 < most {
        return Ok(true);
    }
    let sql = "DELETE FROM approvals WHERE row = \
               (SELECT row FROM approvals WHERE status NOT IN ('pending', 'allowed') ORDER BY row LIMIT 1)";
    Ok(db.execute(sql, &[])? > 0)
}

fn free_code(db: &Db<'_>) -> SqlResult<String> {
    loop {
        let code = code::random_code();
        if !db.exists("SELECT 1 FROM approvals WHERE code = ?1", params![&code])? {
            return Ok(code);
        }
    }
}

fn insert(db: &Db<'_>, record: &ApprovalRecord, request: &str) -> SqlResult<()> {
    let sql = "INSERT INTO approvals (id, code, session, run, digest, expires_at, status, text, state, \
               deadline_boot, deadline_at, agent, created_at) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
    let (boot, at) = record.request.deadline.as_ref().map(Uptime::parts).unzip();
    db.execute(
        sql,
        params![
            record.id.as_str(),
            record.code,
            record.request.session.as_str(),
            record.request.run.as_ref().map(RunId::as_str),
            record.request.digest.to_string(),
            record.request.expires_at,
            Word(record.state.status()),
            texts::put(db, request)?,
            AsJson(&record.state),
            boot,
            at.map(Count),
            record.request.agent.as_str(),
            record.request.created_at,
        ],
    )?;
    Ok(())
}

pub(super) fn find(db: &Db<'_>, id: &ApprovalId) -> SqlResult<Option<ApprovalRecord>> {
    Ok(select(db, "WHERE id = ?1", &[&id.as_str()])?.into_iter().next())
}

/// Says that the questions of a session that wait end with it.
pub(super) fn end_with_session(db: &Db<'_>, session: &SessionId, at: Timestamp) -> SqlResult<()> {
    let rows = "SELECT row FROM approvals WHERE status = 'pending' AND session = ?1";
    let Found { records, spoilt } = found(db, rows, params![session.as_str()])?;
    for record in records {
        db.say(asked::ended(&record, Ended { why: Unanswered::SessionDeleted, at }))?;
    }
    for row in &spoilt {
        say_spoilt(db, *row, at)?;
    }
    tell_unread(QUESTIONS, spoilt.len());
    Ok(())
}

pub(super) fn select(db: &Db<'_>, clause: &str, values: &[&dyn ToValue]) -> SqlResult<Vec<ApprovalRecord>> {
    db.all(&select_sql(db, clause), values, record)
}

/// As [`select`], without those that can't be read, which count for nothing.
pub(super) fn readable(db: &Db<'_>, clause: &str, values: &[&dyn ToValue]) -> SqlResult<Vec<ApprovalRecord>> {
    db.readable(QUESTIONS, &select_sql(db, clause), values, record)
}

fn select_sql(db: &Db<'_>, clause: &str) -> String {
    format!(
        "SELECT id, code, body, state, {} FROM approvals JOIN texts ON text_id = text {clause}",
        db.votes()
    )
}

/// A row of what [`select_sql`] selects.
fn record(row: &Row<'_>) -> SqlResult<ApprovalRecord> {
    // By their places: names are looked for among all columns, row by row.
    Ok(ApprovalRecord {
        id: id_column(row, 0)?,
        code: row.get(1)?,
        request: json(row, 2)?,
        state: json(row, 3)?,
        votes: votes::of(row, 4)?,
    })
}

fn step_all(
    db: &Db<'_>,
    records: Vec<ApprovalRecord>,
    step: impl Fn(&ApprovalRecord) -> Step<()>,
) -> SqlResult<Vec<ApprovalRecord>> {
    let mut changed = Vec::new();
    for mut record in records {
        let Step { next, ended, .. } = step(&record);
        if let Some(ended) = ended {
            db.say(asked::ended(&record, ended))?;
        }
        if let Some(next) = next {
            change(db, &mut record, next)?;
            changed.push(record);
        }
    }
    Ok(changed)
}

fn change(db: &Db<'_>, record: &mut ApprovalRecord, next: ApprovalState) -> SqlResult<()> {
    let status = next.status();
    if let Some(entry) = answered::answer(record, &next) {
        db.say(entry)?;
    }
    let sql = "UPDATE approvals SET status = ?2, state = ?3 WHERE id = ?1";
    db.execute(sql, params![record.id.as_str(), Word(status), AsJson(&next)])?;
    record.state = next;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SqliteStore;

    #[tokio::test]
    async fn what_people_are_shown_is_not_sorted_for_a_list_of_what_waits() {
        let store = SqliteStore::in_memory();
        let steps: Result<Vec<(i64, String)>, StoreError> = store
            .database
            .read(|db| {
                let sql = format!("EXPLAIN QUERY PLAN {}", select_sql(db, WAITING));
                Ok(db.all(&sql, params![9_i64], |row| Ok((row.get(1)?, row.get(3)?)))?)
            })
            .await;
        let steps = steps.unwrap();
        assert!(steps.iter().all(|(of, step)| *of != 0 || !step.contains("ORDER BY")), "{steps:?}");
    }
}
