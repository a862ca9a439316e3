//! Decisions that wait for a human, and those that were made: kept until whoever asked has read them.
//!
//! A decision is judged in a task of its own. The task ends with the question: by an answer, by the question's deadline, or because
//! it was cancelled; a connection that breaks ends nothing. The law: *a permit is used where it is read.* What hooks judged by besides
//! the call is looked at once more whenever somebody is about to be told that it may run, and not when the human answered. A program
//! that is [called back](super::callbacks) reads it by that: while one is told that a call may run, nobody else is. *What is given up is told to nobody*, from the next try on.
//!
//! Limits: [`MOST`] decisions at once, each read within [`KEPT`] after it was made.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use backstop_engine::{AskFuture, Asker, ToolVerdict};
use backstop_store::ApprovalRecord;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::super::operators::Problem;
use super::judge::{Judgement, Question};

/// How many decisions there may be.
const MOST: usize = 10_000;
/// How long a decision is kept that was made.
const KEPT: Duration = Duration::from_secs(600);
/// How long somebody who asks waits for the end of a call: longer than a call takes.
const LONGEST_CALL: Duration = Duration::from_secs(15);

/// How far a decision is.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// Hooks judge.
    Judging,
    /// A human is asked.
    Asked(Box<Question>),
    /// It is made.
    Made(Arc<Made>, Instant),
}

/// A decision that was made.
#[derive(Debug)]
pub(super) struct Made {
    reading: Mutex<Reading>,
    bytes: usize,
    /// Nobody is being called any more.
    called: Notify,
}

#[derive(Debug)]
enum Reading {
    /// Nobody was told that it may run.
    Fresh(Box<ToolVerdict>),
    /// Somebody was told that it may not.
    Read(Box<Judgement>),
    /// Somebody is being called, to be told that it may run. INVARIANT (a permit is used where it is read): the verdict is kept, so that whoever
    /// is told after a call that failed is told by what is there then.
    Calling(Box<ToolVerdict>),
    /// Somebody was told that it may run.
    Used,
    /// Somebody reads it for the first time, and broke.
    Lost,
}

impl Made {
    pub(super) fn new(verdict: ToolVerdict) -> Self {
        let bytes = bytes_of(&verdict);
        let reading = Mutex::new(Reading::Fresh(Box::new(verdict)));
        Self { reading, bytes, called: Notify::new() }
    }

    /// Returns about how many bytes it has.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns what was decided. That something may run is told once: the permit is used by that. Where somebody is being called to be told
    /// so, waits until they were, or could not be. What was given up by then is there no more.
    pub(super) async fn read(&self, kept: Option<&Kept>) -> Result<Judgement, Problem> {
        let reading = async {
            loop {
                let mut called = pin!(self.called.notified());
                called.as_mut().enable();
                if kept.is_some_and(|kept| !kept.is_kept()) {
                    return Err(Problem::no_decision());
                }
                if let Some(read) = self.read_now() {
                    return read;
                }
                called.await;
            }
        };
        let slow = || Problem::conflict("somebody is being called to be told of it: ask again".to_owned());
        timeout(LONGEST_CALL, reading).await.unwrap_or_else(|_| Err(slow()))
    }

    /// Returns what was decided; `None` while somebody is being called to be told that it may run.
    fn read_now(&self) -> Option<Result<Judgement, Problem>> {
        let mut reading = self.reading();
        let judgement = match std::mem::replace(&mut *reading, Reading::Lost) {
            Reading::Fresh(verdict) => Judgement::of_tool_call(&verdict),
            Reading::Read(judgement) => *judgement,
            calling @ Reading::Calling(_) => {
                *reading = calling;
                return None;
            }
            Reading::Used => {
                *reading = Reading::Used;
                let told = "that the call may run was told before, and counts once";
                return Some(Err(Problem::conflict(told.to_owned())));
            }
            Reading::Lost => return Some(Err(Problem::failed())),
        };
        *reading = match judgement.permits() {
            true => Reading::Used,
            false => Reading::Read(Box::new(judgement.clone())),
        };
        Some(Ok(judgement))
    }

    /// Returns what was decided, for somebody who is called; `None` if that it may run was told already. Until the call has ended, nobody
    /// else is told.
    pub(super) fn call(&self) -> Option<(Judgement, Calling<'_>)> {
        let mut reading = self.reading();
        let judgement = match std::mem::replace(&mut *reading, Reading::Lost) {
            Reading::Fresh(verdict) => {
                let judgement = Judgement::of_tool_call(&verdict);
                *reading = match judgement.permits() {
                    true => Reading::Calling(verdict),
                    false => Reading::Read(Box::new(judgement.clone())),
                };
                judgement
            }
            Reading::Read(judgement) => {
                *reading = Reading::Read(judgement.clone());
                *judgement
            }
            other @ (Reading::Calling(_) | Reading::Used | Reading::Lost) => {
                *reading = other;
                return None;
            }
        };
        Some((judgement, Calling(self)))
    }

    fn reading(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns about how many bytes a verdict has: those of the call and of its record.
fn bytes_of(verdict: &ToolVerdict) -> usize {
    let call = verdict.permit.as_ref().map_or(&verdict.event, |permit| permit);
    let receipt = serde_json::to_string(&verdict.receipt).unwrap_or_default();
    call.params.to_value().to_string().len().saturating_add(receipt.len())
}

/// Somebody is being called. Whoever could not be told leaves the decision to those who ask.
pub(super) struct Calling<'a>(&'a Made);

impl Calling<'_> {
    /// They were told.
    pub(super) fn told(self) {
        let mut reading = self.0.reading();
        if let Reading::Calling(_) = &*reading {
            *reading = Reading::Used;
        }
    }
}

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        let mut reading = self.0.reading();
        match std::mem::replace(&mut *reading, Reading::Lost) {
            Reading::Calling(verdict) => *reading = Reading::Fresh(verdict),
            other => *reading = other,
        }
        self.0.called.notify_waiters();
    }
}

/// Sees the question, and answers nothing: people do that elsewhere.
pub(super) struct Watcher {
    pub(super) stage: watch::Sender<Stage>,
    /// Until when an answer is of use.
    pub(super) until: Option<Instant>,
}

impl Asker for Watcher {
    fn ask<'a>(&'a self, record: &'a ApprovalRecord) -> AskFuture<'a> {
        self.stage.send_replace(Stage::Asked(Box::new(Question::of(record))));
        Box::pin(std::future::pending())
    }

    fn patience(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    fn name(&self) -> &str {
        "the API"
    }
}

/// The decisions that are pending or kept.
#[derive(Debug, Default)]
pub(super) struct Decisions(Mutex<HashMap<String, Entry>>);

#[derive(Debug)]
struct Entry {
    whose: String,
    stage: watch::Receiver<Stage>,
    task: AbortHandle,
    /// There as long as the entry.
    kept: Arc<()>,
}

/// Whether a decision is still kept, for whoever is about to tell of it.
#[derive(Clone, Debug)]
pub(super) struct Kept(Weak<()>);

impl Kept {
    /// Returns whether nobody has given it up, and it was not kept for too long.
    pub(super) fn is_kept(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // What was made has ended by itself. What is given up cancels its question.
        self.task.abort();
    }
}

/// A decision whose task ends when it is dropped, unless it is kept.
pub(super) struct UnderWay {
    pub(super) stage: watch::Receiver<Stage>,
    pub(super) task: Option<AbortHandle>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// Waits until a decision is made, or until a human is asked and `patience` is over.
pub(super) async fn wait(stage: &mut watch::Receiver<Stage>, patience: Duration) -> Result<Stage, Problem> {
    let settled = |stage: &Stage| !matches!(stage, Stage::Judging);
    let made = |stage: &Stage| matches!(stage, Stage::Made(..));
    let gone = |_| Problem::failed();
    let first = stage.wait_for(settled).await.map_err(gone)?.clone();
    if patience.is_zero() || made(&first) {
        return Ok(first);
    }
    match timeout(patience, stage.wait_for(made)).await {
        Ok(made) => made.map(|stage| stage.clone()).map_err(gone),
        Err(_) => Ok(first),
    }
}

impl Decisions {
    /// Keeps a decision that is not made yet, and returns its id, and how to see whether it is kept.
    pub(super) fn keep(&self, whose: String, mut under_way: UnderWay) -> Result<(String, Kept), Problem> {
        let mut all = self.all();
        if all.len() >= MOST {
            return Err(Problem::api_busy());
        }
        let Some(task) = under_way.task.take() else { return Err(Problem::failed()) };
        let id = Uuid::new_v4().simple().to_string();
        let there = Arc::new(());
        let kept = Kept(Arc::downgrade(&there));
        all.insert(id.clone(), Entry { whose, stage: under_way.stage.clone(), task, kept: there });
        Ok((id, kept))
    }

    /// Returns how far somebody's decision is, and how to see whether it is kept.
    pub(super) fn find(&self, whose: &str, id: &str) -> Result<(watch::Receiver<Stage>, Kept), Problem> {
        let all = self.all();
        // That another agent has one of this id is nobody's business.
        let entry = all.get(id).filter(|entry| entry.whose == whose).ok_or(Problem::no_decision())?;
        Ok((entry.stage.clone(), Kept(Arc::downgrade(&entry.kept))))
    }

    /// Gives a decision up.
    pub(super) fn give_up(&self, whose: &str, id: &str) -> Result<(), Problem> {
        self.find(whose, id)?;
        self.all().remove(id);
        Ok(())
    }

    /// The decisions, without those that nobody came for.
    fn all(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        all.retain(|_, entry| match &*entry.stage.borrow() {
            Stage::Made(_, at) => now.duration_since(*at) < KEPT,
            // The task is gone without a decision: the process ends.
            Stage::Judging | Stage::Asked(_) => !entry.task.is_finished(),
        });
        all
    }
}
