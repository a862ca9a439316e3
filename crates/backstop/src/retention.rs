//! Deleting what is kept no longer.
//!
//! What the operator's `retention:` says is applied by whoever has time for it: a server when it starts and every hour,
//! the agent when it starts, `backstop prune` when somebody asks. Each pass is bounded ([`Bounds`]), so that a store that has
//! grown for years does not hold anybody up; the next pass goes on. The store says every deletion in the audit
//! trail. Where hooks watch sessions, the end of a session that had not ended is told as `deleted`.

use std::time::Duration;

use backstop_config::Loaded;
use backstop_engine::Engine;
use backstop_hooks::points::{SessionEnd, SessionEndEvent, SessionEndReason};
use backstop_hooks::{CallContext, SessionId};
use backstop_store::{
    AuditBound, AuditEntry, AuditFilter, AuditPlace, DeleteError, DeletedSession, Deletion, DeletionCause,
    Store, StoreError, StoreErrorKind, Timestamp,
};

/// What of small things, approvals and audit entries, counts as much as a session.
const SMALL: usize = 20;
/// The most sessions of a pass that is one of many.
const MANY: usize = 500;
/// How much longer than what passed decisions are kept, where nothing is said about them.
const DECISIONS_LONGER: u32 = 4;
const DAY: Duration = Duration::from_hours(24);

/// How long what is stored is kept. What is `None` is kept for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Sessions, after something last happened in one.
    pub session_age: Option<Duration>,
    /// The newest so many sessions.
    pub most_sessions: Option<u64>,
    /// Transcripts, after something last happened in the session.
    pub transcript_age: Option<Duration>,
    /// So many bytes of transcripts.
    pub transcript_bytes: Option<u64>,
    /// Settled approvals, after their deadline.
    pub approval_age: Option<Duration>,
    /// The newest so many approvals.
    pub most_approvals: Option<u64>,
    /// Entries of the audit trail that are no [decisions](backstop_store::is_decision).
    pub audit_age: Option<Duration>,
    /// Decisions in it.
    pub decision_age: Option<Duration>,
    /// The newest so many entries.
    pub most_audit: Option<u64>,
}

/// What a pass deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Sessions, with everything that was kept of them.
    pub sessions: u64,
    /// Transcripts of sessions that stay.
    pub transcripts: u64,
    /// Approvals, besides those of sessions that went.
    pub approvals: u64,
    /// Entries of the audit trail.
    pub audit_entries: u64,
    /// Sessions that were due and that a process works in.
    pub in_use: u64,
}

impl Swept {
    /// Whether anything was deleted.
    pub fn is_empty(self) -> bool {
        self.sessions == 0 && self.transcripts == 0 && self.approvals == 0 && self.audit_entries == 0
    }

    /// What this pass and another deleted together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            sessions: self.sessions.saturating_add(other.sessions),
            transcripts: self.transcripts.saturating_add(other.transcripts),
            approvals: self.approvals.saturating_add(other.approvals),
            audit_entries: self.audit_entries.saturating_add(other.audit_entries),
            in_use: other.in_use,
        }
    }
}

/// Why a pass broke off. What it had deleted by then is deleted, and said.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RetentionError {
    /// Something could not be deleted.
    #[error(transparent)]
    Delete(#[from] DeleteError),
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How far one pass goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The most sessions, and the most transcripts, that it deletes; of approvals and audit entries, 20 times as many.
    pub most: usize,
    /// A session that is left alone: somebody is about to work in it.
    pub spare: Option<SessionId>,
}

/// How long what is stored is kept, as the configuration has it.
pub fn retention(loaded: &Loaded) -> Retention {
    let section = &loaded.config.retention;
    let age = |days: &Option<backstop_config::Spanned<backstop_config::Days>>| {
        days.as_ref().map(|days| DAY.saturating_mul(u32::try_from(days.value.get()).unwrap_or(u32::MAX)))
    };
    let most = |most: &Option<backstop_config::Spanned<backstop_config::Most>>| {
        most.as_ref().map(|most| most.value.get())
    };
    let audit_age = age(&section.audit.days);
    Retention {
        session_age: age(&section.sessions.days),
        most_sessions: most(&section.sessions.most),
        transcript_age: age(&section.transcripts.days),
        transcript_bytes: most(&section.transcripts.bytes),
        approval_age: age(&section.approvals.days),
        most_approvals: most(&section.approvals.most),
        audit_age,
        decision_age: age(&section.audit.decisions.days)
            .or_else(|| audit_age.map(|age| age.saturating_mul(DECISIONS_LONGER))),
        most_audit: most(&section.audit.most),
    }
}

impl Retention {
    /// Whether everything is kept for ever.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// What may go of the audit trail.
    pub fn audit_bound(self, now: Timestamp) -> AuditBound {
        AuditBound {
            since: self.audit_age.map(|age| now.before(age)),
            decisions_since: self.decision_age.map(|age| now.before(age)),
            most: self.most_audit,
            through: None,
        }
    }

    /// Makes one pass over the engine's store, in the name of `by`.
    ///
    /// # Errors
    ///
    /// [`RetentionError`] for the first deletion that fails.
    pub async fn apply(
        self,
        engine: &Engine,
        by: &str,
        now: Timestamp,
        bounds: &Bounds,
    ) -> Result<Swept, RetentionError> {
        let mut pass = Pass { engine, by, now, bounds, swept: Swept::default() };
        pass.sessions(self).await?;
        pass.transcripts(self).await?;
        pass.approvals(self).await?;
        pass.audit(self).await?;
        Ok(pass.swept)
    }

    /// Makes passes until nothing is due any more.
    ///
    /// # Errors
    ///
    /// As [`apply`](Self::apply).
    pub async fn apply_all(self, engine: &Engine, by: &str, now: Timestamp) -> Result<Swept, RetentionError> {
        let mut all = Swept::default();
        loop {
            let swept = self.apply(engine, by, now, &Bounds { most: MANY, spare: None }).await?;
            all = all.and(swept);
            if swept.is_empty() {
                return Ok(all);
            }
        }
    }
}

/// How far a clock may jump between two entries without being asked about.
const JUMP: Duration = Duration::from_hours(30 * 24);
/// What speaks against deleting by age at a time without a human.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClockJump {
    /// The clock jumped within the last day, as the audit trail shows it.
    #[error(
        "within a day the clock went from {before} to {after}, so nothing is deleted by age until a day has passed; {due} audit entries would go\n\
         hint: set the clock, or where it is right, wait, or have `backstop prune` delete now"
    )]
    Shown {
        /// The time of the last entry before it.
        before: Timestamp,
        /// The time of the first one behind it, or now.
        after: Timestamp,
        /// How many entries of the audit trail would go, as far as one pass reaches.
        due: u64,
    },
    /// The last day has more entries than were read.
    #[error(
        "whether the clock was set within a day can't be told, since the audit trail has too many entries of it, so nothing is deleted by age\n\
         hint: have `backstop prune` delete what is kept no longer"
    )]
    Untold,
}

impl Retention {
    /// Returns what speaks against deleting by age at this time without a human: a clock that is set forward makes everything old. A
    /// machine that was off for a month looks the same, and deletes a day later. It can't be told where no entry that is older than a day
    /// is in the first `most` pages, each of which has [`MOST_PAGE_READ`](backstop_store::MOST_PAGE_READ) entries.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when the trail can't be read.
    pub async fn clock_jump(
        self,
        store: &dyn Store,
        now: Timestamp,
        most: usize,
    ) -> Result<Option<ClockJump>, StoreError> {
        let older = AuditFilter { until: Some(now.before(DAY)), ..AuditFilter::default() };
        let mut from = AuditPlace::END;
        for _ in 0..most {
            let page = store.audit_page(&older, from, 1).await?;
            if let Some(last) = page.entries.first() {
                return self.jump_behind(last, store, now).await;
            }
            if page.ended {
                return Ok(None);
            }
            from = page.next;
        }
        Ok(Some(ClockJump::Untold))
    }

    /// Returns whether the clock jumped after `last`, the last entry that is older than a day.
    async fn jump_behind(
        self,
        last: &AuditEntry,
        store: &dyn Store,
        now: Timestamp,
    ) -> Result<Option<ClockJump>, StoreError> {
        if last.at.until(now) <= JUMP {
            return Ok(None);
        }
        let behind = store.audit(&AuditFilter::default(), last.seq, 1).await?;
        let after = behind.first().map_or(now, |entry| entry.at.min(now));
        if last.at.until(after) <= JUMP {
            return Ok(None);
        }
        let due = store.prunable_audit(self.audit_bound(now), MANY * SMALL).await?.entries;
        Ok(Some(ClockJump::Shown { before: last.at, after, due }))
    }
}

/// Deletes a session with everything that is kept of it, and tells its end where it had not ended.
///
/// # Errors
///
/// [`DeleteError`]: there is none, a process works in it, the storage failed.
pub async fn delete_session(
    engine: &Engine,
    id: &SessionId,
    why: Deletion,
) -> Result<DeletedSession, DeleteError> {
    let at = why.at;
    let deleted = engine.store().delete_session(id, why).await?;
    let session = &deleted.session;
    if session.ended.is_none() && engine.has_hooks::<SessionEnd>() {
        let event = SessionEndEvent {
            session_id: session.id.clone(),
            session_key: Some(session.key.clone()),
            message_count: u32::try_from(deleted.messages).unwrap_or(u32::MAX),
            duration_ms: Some(u64::try_from(session.created_at.until(at).as_millis()).unwrap_or(u64::MAX)),
            reason: SessionEndReason::Deleted,
            next_session_id: None,
        };
        let call = CallContext {
            agent_id: Some(session.agent.clone()),
            session_key: Some(session.key.clone()),
            session_id: Some(session.id.clone()),
            ..CallContext::default()
        };
        engine.observe::<SessionEnd>(&event, &call).await;
    }
    Ok(deleted)
}

struct Pass<'a> {
    engine: &'a Engine,
    by: &'a str,
    now: Timestamp,
    bounds: &'a Bounds,
    swept: Swept,
}

impl Pass<'_> {
    fn why(&self, cause: DeletionCause) -> Deletion {
        Deletion { cause, by: self.by.to_owned(), at: self.now }
    }

    async fn sessions(&mut self, keep: Retention) -> Result<(), RetentionError> {
        if let Some(age) = keep.session_age {
            let due =
                self.engine.store().stored_sessions(self.now.before(age), true, self.bounds.most).await?;
            for due in due {
                self.session(&due.id, DeletionCause::Age).await?;
            }
        }
        let Some(most) = keep.most_sessions else { return Ok(()) };
        let size = self.engine.store().stored_size().await?;
        let surplus = usize::try_from(size.sessions.saturating_sub(most)).unwrap_or(usize::MAX);
        let surplus = surplus.min(self.bounds.most);
        if surplus > 0 {
            // One more, in case that one of them is spared.
            let due = self.engine.store().stored_sessions(self.now, true, surplus.saturating_add(1)).await?;
            let due: Vec<_> = due.into_iter().filter(|due| !self.spares(&due.id)).take(surplus).collect();
            for due in due {
                self.session(&due.id, DeletionCause::Size).await?;
            }
        }
        Ok(())
    }

    fn spares(&self, id: &SessionId) -> bool {
        self.bounds.spare.as_ref() == Some(id)
    }

    async fn session(&mut self, id: &SessionId, cause: DeletionCause) -> Result<(), RetentionError> {
        if self.spares(id) {
            return Ok(());
        }
        match delete_session(self.engine, id, self.why(cause)).await {
            Ok(_) => self.swept.sessions += 1,
            Err(error) => self.passed_over(error)?,
        }
        Ok(())
    }

    /// Somebody works there, or another pass was faster.
    fn passed_over(&mut self, error: DeleteError) -> Result<(), DeleteError> {
        match error {
            DeleteError::InUse { .. } => self.swept.in_use += 1,
            DeleteError::Unknown(_) => {}
            // One that can't be read keeps back none of the others.
            DeleteError::Store(error) if error.kind() == StoreErrorKind::Corrupt => {
                tracing::warn!(%error, "a session is not deleted");
            }
            error => return Err(error),
        }
        Ok(())
    }

    async fn transcripts(&mut self, keep: Retention) -> Result<(), RetentionError> {
        if let Some(age) = keep.transcript_age {
            let due =
                self.engine.store().stored_sessions(self.now.before(age), false, self.bounds.most).await?;
            for due in due {
                self.transcript(&due.id, DeletionCause::Age).await?;
            }
        }
        let Some(most) = keep.transcript_bytes else { return Ok(()) };
        let mut surplus = self.engine.store().stored_size().await?.transcript_bytes.saturating_sub(most);
        if surplus == 0 {
            return Ok(());
        }
        for due in self.engine.store().stored_sessions(self.now, false, self.bounds.most).await? {
            if surplus == 0 {
                break;
            }
            if self.transcript(&due.id, DeletionCause::Size).await? {
                surplus = surplus.saturating_sub(due.bytes);
            }
        }
        Ok(())
    }

    async fn transcript(&mut self, id: &SessionId, cause: DeletionCause) -> Result<bool, RetentionError> {
        if self.spares(id) {
            return Ok(false);
        }
        match self.engine.store().delete_transcript(id, self.why(cause)).await {
            Ok(_) => self.swept.transcripts += 1,
            Err(error) => {
                self.passed_over(error)?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn approvals(&mut self, keep: Retention) -> Result<(), RetentionError> {
        let limit = self.bounds.most.saturating_mul(SMALL);
        for (before, most, cause) in [
            (keep.approval_age.map(|age| self.now.before(age)), None, DeletionCause::Age),
            (None, keep.most_approvals, DeletionCause::Size),
        ] {
            if before.is_some() || most.is_some() {
                let why = self.why(cause);
                self.swept.approvals +=
                    self.engine.store().delete_approvals(before, most, limit, why).await?;
            }
        }
        Ok(())
    }

    async fn audit(&mut self, keep: Retention) -> Result<(), RetentionError> {
        let bound = keep.audit_bound(self.now);
        if !bound.is_empty() {
            let limit = self.bounds.most.saturating_mul(SMALL);
            let store = self.engine.store();
            self.swept.audit_entries += store.prune_audit(bound, limit, self.now, self.by).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use backstop_store::{AuditStore as _, Durability, NewAuditEntry, SqliteStore};

    use super::*;

    const NOW: i64 = 2_000_000_000_000;

    /// A trail with entries of so many days ago.
    async fn trail(days: &[u32]) -> SqliteStore {
        let store = SqliteStore::in_memory();
        let entries = days.iter().map(|days| NewAuditEntry {
            at: Timestamp::from_millis(NOW).before(DAY * *days),
            kind: "test".to_owned(),
            session: None,
            run: None,
            body: serde_json::json!({}).into(),
        });
        store.append_audit_all(entries.collect(), Durability::Now).await.unwrap();
        store
    }

    #[tokio::test]
    async fn a_clock_that_was_set_forward_deletes_nothing_before_a_day_has_passed() {
        let keep =
            Retention { audit_age: Some(DAY * 90), decision_age: Some(DAY * 360), ..Retention::default() };
        let jump = async |days: &[u32]| {
            keep.clock_jump(&trail(days).await, Timestamp::from_millis(NOW), 1).await.unwrap()
        };
        assert_eq!(jump(&[]).await, None);
        assert_eq!(
            jump(&[
                400, 399, 380, 360, 340, 320, 300, 280, 260, 240, 220, 200, 180, 150, 125, 100, 80, 60, 40,
                20, 1
            ])
            .await,
            None
        );
        // The entries behind it have the wrong time, too.
        for days in [&[5_001, 5_000][..], &[5_001, 5_000, 0]] {
            let jump = jump(days).await.unwrap();
            assert!(jump.to_string().contains("hint: "));
            let ClockJump::Shown { before, due, .. } = jump else { panic!("{jump}") };
            assert_eq!(
                (before, due),
                (Timestamp::from_millis(NOW).before(DAY * 5_000), if days.len() == 2 { 1 } else { 2 })
            );
        }
        // A day later it is the time that it is.
        assert_eq!(jump(&[5_001, 5_000, 2, 1, 0]).await, None);
    }

    #[tokio::test]
    async fn nothing_is_deleted_where_the_trail_of_a_day_is_too_long_to_tell() {
        let keep = Retention { audit_age: Some(DAY * 90), ..Retention::default() };
        let store = trail(&[5_000, 0, 0, 0]).await;
        let jump = async |most| keep.clock_jump(&store, Timestamp::from_millis(NOW), most).await.unwrap();
        assert_eq!(jump(0).await, Some(ClockJump::Untold));
        assert!(matches!(jump(1).await, Some(ClockJump::Shown { .. })));
        // A trail that begins within the day has no jump in it.
        let store = trail(&[0, 0, 0]).await;
        assert_eq!(keep.clock_jump(&store, Timestamp::from_millis(NOW), 1).await.unwrap(), None);
    }
}
