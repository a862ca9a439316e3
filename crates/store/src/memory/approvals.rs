use std::hash::{Hash as _, Hasher as _};
use std::time::Duration;

use async_trait::async_trait;
use backstop_hooks::{ApprovalId, Digest, RunId, SessionId};

use super::{MemoryStore, State};
use crate::answered;
use crate::approvals::limits::{MINUTE, MOST_REFUSED};
use crate::approvals::machine::{self, Step};
use crate::approvals::{code, wait};
use crate::{
    ANSWERABLE, AccessToken, AccessTokenId, AllowanceScope, Answerer, ApprovalFilter, ApprovalRecord,
    ApprovalState, ApprovalStore, AskingLimits, ConsumeError, CreateApprovalError, FindApprovalError,
    NewApproval, NewAuditEntry, OpenApprovals, Overview, PersonsAnswer, RefusedQuestions, ResolveError,
    Resolved, StoreError, StoreErrorKind, Timestamp,
};

/// The most questions that a process keeps which keeps nothing else.
const MOST_QUESTIONS: usize = 2_000;

#[async_trait]
impl ApprovalStore for MemoryStore {
    async fn file_approval(
        &self,
        request: NewApproval,
        unattended: bool,
        limits: &AskingLimits,
    ) -> Result<ApprovalRecord, CreateApprovalError> {
        if !unattended {
            return self.add(request, ApprovalState::Pending, limits);
        }
        let at = request.created_at;
        let is_open = |record: &&ApprovalRecord| matches!(record.state, ApprovalState::Unattended { .. });
        let known = self
            .state()
            .approvals
            .iter()
            .filter(is_open)
            .find(|record| record.request.asks_as(&request))
            .cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        self.add(request, ApprovalState::Unattended { at }, limits)
    }

    async fn refused_questions(&self, now: Timestamp) -> Result<Vec<RefusedQuestions>, StoreError> {
        Ok(self.state().refused.iter().rev().filter(|one| one.is_shown(now)).cloned().collect())
    }

    async fn approval(&self, id: &ApprovalId) -> Result<Option<ApprovalRecord>, StoreError> {
        let state = self.state();
        Ok(state.approvals.iter().find(|record| record.id == *id).map(|record| state.seen(record)))
    }

    async fn find_approval(&self, name: &str) -> Result<ApprovalRecord, FindApprovalError> {
        let state = self.state();
        let code = code::normalize(name);
        let exact = state.approvals.iter().find(|record| record.code == code || record.id.as_str() == name);
        if let Some(record) = exact {
            return Ok(state.seen(record));
        }
        let mut of_prefix =
            state.approvals.iter().filter(|record| !name.is_empty() && record.id.as_str().starts_with(name));
        match (of_prefix.next(), of_prefix.next()) {
            (Some(record), None) => Ok(state.seen(record)),
            (Some(_), Some(_)) => Err(FindApprovalError::Ambiguous(name.to_owned())),
            (None, _) => Err(FindApprovalError::Unknown(name.to_owned())),
        }
    }

    async fn approvals(
        &self,
        filter: ApprovalFilter,
        limit: usize,
    ) -> Result<Vec<ApprovalRecord>, StoreError> {
        let state = self.state();
        let passes = |record: &&ApprovalRecord| {
            filter == ApprovalFilter::All || record.state == ApprovalState::Pending
        };
        Ok(state.approvals.iter().rev().filter(passes).take(limit).map(|record| state.seen(record)).collect())
    }

    async fn open_approvals(
        &self,
        now: Timestamp,
        skip: usize,
        limit: usize,
    ) -> Result<OpenApprovals, StoreError> {
        let state = self.state();
        let until = now.before(ANSWERABLE);
        let (mut waiting, mut ended) = (Vec::new(), Vec::new());
        for record in &state.approvals {
            match record.state {
                ApprovalState::Pending => waiting.push(record),
                ApprovalState::Unattended { .. } | ApprovalState::TimedOut { .. }
                    if record.request.expires_at >= until =>
                {
                    ended.push(record);
                }
                _ => {}
            }
        }
        waiting.sort_by_key(|record| record.request.expires_at);
        let all = waiting.len().saturating_add(ended.len());
        let records = waiting.into_iter().chain(ended.into_iter().rev());
        let records = records.skip(skip).take(limit).map(|record| state.seen(record).listed());
        Ok(OpenApprovals { records: records.collect(), all })
    }

    async fn overview(&self) -> Result<Overview, StoreError> {
        let state = self.state();
        let mut mark = std::hash::DefaultHasher::new();
        for record in &state.approvals {
            (record.id.as_str(), record.state.status().as_str()).hash(&mut mark);
            for vote in &record.votes {
                (&vote.person, vote.decision, vote.at).hash(&mut mark);
            }
        }
        let waiting = state.approvals.iter().filter(|record| record.state == ApprovalState::Pending).count();
        Ok(Overview { waiting, mark: mark.finish() })
    }

    async fn answer_approval(
        &self,
        id: &ApprovalId,
        answer: PersonsAnswer,
    ) -> Result<Resolved, ResolveError> {
        let _turn = self.answering.lock().await;
        let answer = PersonsAnswer { by: self.vouched(answer.by), ..answer };
        let step = |record: &ApprovalRecord| machine::resolve(record, &answer);
        self.announce_all(self.announced(id, step)).await?;
        let (record, answer) = self.step(id, step).ok_or_else(|| ResolveError::Unknown(id.clone()))?;
        if let ApprovalState::Denied { .. } = record.state
            && let Some(kept) = self.state().approvals.iter_mut().find(|kept| kept.id == *id)
        {
            kept.request.forget_texts();
        }
        answer.map(|first| Resolved { record, first })
    }

    async fn cancel_approval(&self, id: &ApprovalId, now: Timestamp) -> Result<ApprovalRecord, ResolveError> {
        let (record, ()) = self
            .step(id, |record| machine::cancel(record, now))
            .ok_or_else(|| ResolveError::Unknown(id.clone()))?;
        Ok(record)
    }

    async fn cancel_run_approvals(
        &self,
        session: &SessionId,
        run: &RunId,
        now: Timestamp,
    ) -> Result<Vec<ApprovalRecord>, StoreError> {
        Ok(self.step_all(|record| {
            let of_run = record.request.session == *session && record.request.run.as_ref() == Some(run);
            of_run.then(|| machine::cancel(record, now))
        }))
    }

    async fn expire_approvals(&self, now: Timestamp) -> Result<Vec<ApprovalRecord>, StoreError> {
        for record in &mut self.state().approvals {
            if record.request.has_arguments() && machine::is_past_answering(record, now) {
                record.request.forget_arguments();
            }
        }
        Ok(self.step_all(|record| Some(machine::expire(record, now))))
    }

    async fn end_waiting(
        &self,
        id: &ApprovalId,
        now: Timestamp,
    ) -> Result<Option<ApprovalRecord>, StoreError> {
        Ok(self.step(id, |record| machine::end_waiting(record, now)).map(|(record, ())| record))
    }

    async fn consume_approval(
        &self,
        id: &ApprovalId,
        digest: &Digest,
        now: Timestamp,
    ) -> Result<ApprovalRecord, ConsumeError> {
        let (record, answer) = self
            .step(id, |record| machine::consume(record, digest, now))
            .ok_or_else(|| ConsumeError::Unknown(id.clone()))?;
        answer.map(|()| record)
    }

    async fn take_given(
        &self,
        id: &ApprovalId,
        digest: &Digest,
        now: Timestamp,
    ) -> Result<ApprovalRecord, ConsumeError> {
        let mut state = self.state();
        let record = state.approvals.iter_mut().find(|record| record.id == *id);
        let record = record.ok_or_else(|| ConsumeError::Unknown(id.clone()))?;
        machine::take_given(record, digest, now).take(record)?;
        let taken = record.clone();
        record.request.forget_texts();
        Ok(taken)
    }

    async fn allow_later(
        &self,
        id: &ApprovalId,
        by: &Answerer,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<ApprovalRecord, ResolveError> {
        let _turn = self.answering.lock().await;
        let by = self.vouched(by.clone());
        let step = |record: &ApprovalRecord| machine::allow_later(record, &by, ttl, now);
        self.announce_all(self.announced(id, step)).await?;
        let (record, answer) = self.step(id, step).ok_or_else(|| ResolveError::Unknown(id.clone()))?;
        answer.map(|()| record)
    }

    async fn keep_allowance(
        &self,
        id: &ApprovalId,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<ApprovalRecord, ResolveError> {
        let _turn = self.answering.lock().await;
        let step = |record: &ApprovalRecord| machine::keep(record, ttl, now);
        self.announce_all(self.announced(id, step)).await?;
        let (record, answer) = self.step(id, step).ok_or_else(|| ResolveError::Unknown(id.clone()))?;
        answer.map(|()| record)
    }

    async fn take_allowance(
        &self,
        scope: &AllowanceScope,
        now: Timestamp,
    ) -> Result<Option<ApprovalRecord>, StoreError> {
        let mut guard = self.state();
        let state = &mut *guard;
        for record in &mut state.approvals {
            look_up(&state.access_tokens, record);
            if let Step { next: Some(next), answer: true, .. } = machine::take(record, scope, now) {
                record.state = next;
                return Ok(Some(record.clone()));
            }
        }
        Ok(None)
    }

    async fn wait_approval(
        &self,
        id: &ApprovalId,
        until: Timestamp,
    ) -> Result<Option<ApprovalRecord>, StoreError> {
        let patience = Timestamp::now().until(until);
        wait::wait_answered(self, &self.seats, id, patience, || Ok(())).await
    }

    async fn erase_preview(&self, id: &ApprovalId) -> Result<bool, StoreError> {
        let mut state = self.state();
        let record = state.approvals.iter_mut().find(|record| record.id == *id);
        Ok(record.map(|record| record.request.forget_arguments()).is_some())
    }

    async fn mark_seen(&self, id: &ApprovalId) -> Result<Option<ApprovalRecord>, StoreError> {
        let mut state = self.state();
        let record = state.approvals.iter_mut().find(|record| record.id == *id);
        Ok(record.map(|record| {
            record.request.unseen &= record.request.whole.is_none();
            record.clone()
        }))
    }
}

impl MemoryStore {
    fn add(
        &self,
        request: NewApproval,
        state: ApprovalState,
        limits: &AskingLimits,
    ) -> Result<ApprovalRecord, CreateApprovalError> {
        machine::encoded(&request)?;
        let mut all = self.state();
        all.admit(&request, &state, limits)?;
        if self.trail.is_some() && all.approvals.len() >= MOST_QUESTIONS {
            let is_over = |record: &ApprovalRecord| {
                !matches!(record.state, ApprovalState::Pending | ApprovalState::Allowed(_))
            };
            let oldest = all.approvals.iter().position(is_over);
            let full = || StoreError::because("memory", StoreErrorKind::Full, "too many questions wait");
            all.approvals.remove(oldest.ok_or_else(full)?);
        }
        let mut code = code::random_code();
        while all.approvals.iter().any(|record| record.code == code) {
            code = code::random_code();
        }
        let record = ApprovalRecord { id: code::random_id(), code, request, state, votes: Vec::new() };
        all.approvals.push(record.clone());
        Ok(record)
    }

    /// Takes one step with one record; `None` if there is no such record.
    fn step<T>(
        &self,
        id: &ApprovalId,
        step: impl FnOnce(&ApprovalRecord) -> Step<T>,
    ) -> Option<(ApprovalRecord, T)> {
        let mut guard = self.state();
        let state = &mut *guard;
        let record = state.approvals.iter_mut().find(|record| record.id == *id)?;
        look_up(&state.access_tokens, record);
        let step = step(record);
        let said = answered::said_of(record, &step);
        if step.next.is_some() {
            self.seats.wake(id);
        }
        let answer = step.take(record);
        let record = record.clone();
        if self.trail.is_none() {
            // What is said of an answer is bounded, so the trail takes it.
            for entry in said {
                let _ = state.tell(entry);
            }
        }
        Some((record, answer))
    }

    /// Returns what there is to say of a step that is about to be taken.
    fn announced<T>(
        &self,
        id: &ApprovalId,
        step: impl FnOnce(&ApprovalRecord) -> Step<T>,
    ) -> Vec<NewAuditEntry> {
        if self.trail.is_none() {
            return Vec::new();
        }
        let state = self.state();
        let Some(record) = state.approvals.iter().find(|record| record.id == *id) else { return Vec::new() };
        let mut record = record.clone();
        look_up(&state.access_tokens, &mut record);
        answered::said_of(&record, &step(&record))
    }

    async fn announce_all(&self, entries: Vec<NewAuditEntry>) -> Result<(), StoreError> {
        for entry in entries {
            self.announce(Some(entry)).await?;
        }
        Ok(())
    }

    /// Looks up whether what somebody is known by still counts.
    fn vouched(&self, by: Answerer) -> Answerer {
        let ends_at = by.token.as_ref().and_then(|token| end_of(&self.state().access_tokens, token));
        Answerer { ends_at, ..by }
    }

    /// Takes a step with each record. Returns those that changed.
    fn step_all(&self, step: impl Fn(&ApprovalRecord) -> Option<Step<()>>) -> Vec<ApprovalRecord> {
        let mut changed = Vec::new();
        for record in &mut self.state().approvals {
            if let Some(Step { next: Some(next), .. }) = step(record) {
                record.state = next;
                self.seats.wake(&record.id);
                changed.push(record.clone());
            }
        }
        changed
    }
}

impl State {
    /// A record as it is read: with what votes were given with as it is now.
    fn seen(&self, record: &ApprovalRecord) -> ApprovalRecord {
        let mut seen = record.clone();
        look_up(&self.access_tokens, &mut seen);
        seen
    }

    /// Refuses the question of an agent that asks more than it may, and counts that.
    fn admit(
        &mut self,
        request: &NewApproval,
        state: &ApprovalState,
        limits: &AskingLimits,
    ) -> Result<(), CreateApprovalError> {
        let now = request.created_at;
        let of_agent = || self.approvals.iter().filter(|record| record.request.agent == request.agent);
        let is_open = |record: &&ApprovalRecord| {
            record.state.status() == state.status() && record.request.expires_at >= now.before(ANSWERABLE)
        };
        let is_recent = |record: &&ApprovalRecord| record.request.created_at > now.before(MINUTE);
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let (open, recent) = (of_agent().filter(is_open).count(), of_agent().filter(is_recent).count());
        let Err(why) = limits.check(count(open), count(recent)) else { return Ok(()) };
        let agent = request.agent.clone();
        let known = self.refused.iter().position(|one| one.agent == agent);
        let known = known.map(|index| self.refused.remove(index));
        if self.refused.len() >= MOST_REFUSED {
            self.refused.remove(0);
        }
        self.refused.push(RefusedQuestions::and_one(known, &agent, now));
        Err(CreateApprovalError::TooMany { agent, why })
    }
}

/// The first moment at which a token no longer counts; `None` if there is no such token.
fn end_of(tokens: &[AccessToken], id: &AccessTokenId) -> Option<Timestamp> {
    let token = tokens.iter().find(|token| token.made.id == *id)?;
    Some(token.revoked_at.map_or(token.ends_at, |revoked_at| revoked_at.min(token.ends_at)))
}

/// Looks up whether what votes were given with still counts.
fn look_up(tokens: &[AccessToken], record: &mut ApprovalRecord) {
    for vote in &mut record.votes {
        vote.ends_at = vote.token.as_ref().and_then(|token| end_of(tokens, token));
    }
}
