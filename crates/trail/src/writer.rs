//! The thread that writes a log for its process.
//!
//! Callers hand entries over and go on. An entry that nobody waits for is in the file at the latest 50 ms later and on the disk a second after
//! that; what comes meanwhile is written with it. Entries that somebody waits for are written at once, together with all that wait, and whoever
//! waits is told after the disk has them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::entry::{Body, Draft, KIND_HEARTBEAT, KIND_START, KIND_STOP};
use crate::log::{Extent, Log, Options, now, numbered};
use crate::{SignedCheckpoint, TrailError};

/// The most entries that wait.
const QUEUE: usize = 16 * 1024;
/// The most entries of a group.
const GROUP: usize = 4096;
/// How long an entry waits for others.
const LINGER: Duration = Duration::from_millis(50);
/// How long what is written may not be on the disk.
const SYNC_AFTER: Duration = Duration::from_secs(1);
/// After how much time without a checkpoint there is one.
const CHECKPOINT_AFTER: Duration = Duration::from_secs(10);
/// After how much time without entries one says that nothing happened.
const HEARTBEAT_AFTER: Duration = Duration::from_secs(3600);

/// What is told to whoever waits, or why the entries are not in the log, or not on the disk for all that is known.
pub type Written = Result<Appended, Arc<TrailError>>;

/// Entries that are in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The number of the first of them that is no [explanation](Draft::once), the first of the log being 0.
    pub first: u64,
    /// How far the log reached behind the group that they were written with.
    pub extent: Extent,
}

/// A log that a thread of this process writes. Clones share it; the thread ends when the last one is gone.
#[derive(Clone)]
pub struct Writer {
    shared: Arc<Shared>,
    _alive: Arc<Alive>,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("folder", &self.shared.options.folder).finish_non_exhaustive()
    }
}

/// What ends the thread when the last writer is gone.
struct Alive(Arc<Shared>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.queue().closed = true;
        self.0.wake.notify_all();
    }
}

struct Shared {
    options: Options,
    /// After how much time without entries one says that nothing happened.
    heartbeat: Duration,
    /// How many entries the log had when the disk last had all of them because somebody waits.
    kept: AtomicU64,
    /// How many entries were found that a killed process had left unsigned.
    late: AtomicU64,
    queue: Mutex<Queue>,
    wake: Condvar,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// How many entries they have.
    entries: usize,
    /// Since when the oldest one waits.
    since: Option<Instant>,
    urgent: bool,
    closed: bool,
    running: bool,
    /// Entries that found no place.
    refused: u64,
    announces: bool,
}

enum Job {
    /// An entry that nobody waits for.
    One(Draft),
    /// Entries, whether they must be on the disk, and who waits.
    Group(Vec<Draft>, bool, oneshot::Sender<Written>),
    /// A checkpoint, whether the process ends with it, and who waits.
    Checkpoint(bool, oneshot::Sender<Result<SignedCheckpoint, Arc<TrailError>>>),
}

/// Somebody who waits for entries.
#[derive(Debug)]
pub struct Waiting(oneshot::Receiver<Written>);

impl Waiting {
    /// Waits until the entries are written.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when they can't be.
    pub async fn written(self) -> Written {
        self.0.await.unwrap_or_else(|_| Err(Arc::new(TrailError::Closed)))
    }

    /// As [`written`](Self::written), for a thread that may wait.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when they can't be.
    pub fn wait(self) -> Written {
        self.0.blocking_recv().unwrap_or_else(|_| Err(Arc::new(TrailError::Closed)))
    }
}

impl Writer {
    /// Returns a writer. Its thread begins, and the log is opened, with the first entry.
    pub fn new(options: Options) -> Self {
        Self::beating(options, HEARTBEAT_AFTER)
    }

    /// Returns a writer that says, once it is [announced](Self::announce), after so much time without entries that nothing happened.
    pub fn beating(options: Options, heartbeat: Duration) -> Self {
        let shared = Arc::new(Shared {
            options,
            heartbeat,
            kept: AtomicU64::default(),
            late: AtomicU64::default(),
            queue: Mutex::default(),
            wake: Condvar::new(),
        });
        Self { _alive: Arc::new(Alive(Arc::clone(&shared))), shared }
    }

    /// Says that this process begins, and when it ends in order that it stops: a process without that entry was killed.
    ///
    /// # Errors
    ///
    /// [`TrailError::Full`] and [`TrailError::Closed`].
    pub fn announce(&self, body: Body) -> Result<(), TrailError> {
        self.shared.queue().announces = true;
        self.push(Draft::new(now(), KIND_START, body))
    }

    /// Adds an entry that nobody waits for.
    ///
    /// # Errors
    ///
    /// [`TrailError::Full`] when too many wait already: the number of the entry is missing in the log then.
    pub fn push(&self, draft: Draft) -> Result<(), TrailError> {
        let mut queue = self.ready(1, numbered(std::slice::from_ref(&draft)))?;
        queue.add(Job::One(draft), 1);
        // The thread waits for the first one, or to the end of a time that began with it.
        if queue.entries == 1 || queue.entries == GROUP {
            self.shared.wake.notify_all();
        }
        Ok(())
    }

    /// Adds entries, all in one group. They are on the disk when the waiting ends if `durable`, and else in the file.
    ///
    /// # Errors
    ///
    /// [`TrailError::Full`] when too many wait already.
    pub fn append(&self, drafts: Vec<Draft>, durable: bool) -> Result<Waiting, TrailError> {
        let (done, waiting) = oneshot::channel();
        let count = drafts.len();
        let mut queue = self.ready(count, numbered(&drafts))?;
        queue.add(Job::Group(drafts, durable, done), count);
        queue.urgent = true;
        self.shared.wake.notify_all();
        Ok(Waiting(waiting))
    }

    /// Signs how far the log reaches, with all that was handed over before.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when it can't be written.
    pub async fn checkpoint(&self) -> Result<SignedCheckpoint, Arc<TrailError>> {
        self.signed(false).await
    }

    /// Says that this process stops, if it was announced, and signs how far the log reaches. For processes that end without letting go of
    /// the writer.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when it can't be written.
    pub async fn conclude(&self) -> Result<SignedCheckpoint, Arc<TrailError>> {
        self.signed(true).await
    }

    async fn signed(&self, ends: bool) -> Result<SignedCheckpoint, Arc<TrailError>> {
        let (done, waiting) = oneshot::channel();
        {
            let mut queue = self.ready(0, 0).map_err(Arc::new)?;
            queue.add(Job::Checkpoint(ends, done), 0);
            queue.urgent = true;
            self.shared.wake.notify_all();
        }
        waiting.await.unwrap_or_else(|_| Err(Arc::new(TrailError::Closed)))
    }

    /// Returns how many entries this writer found that a killed process had left unsigned, and that are signed since.
    pub fn late(&self) -> u64 {
        self.shared.late.load(Ordering::Acquire)
    }

    /// Returns how many entries the log had when the disk last had all of them because somebody [waits](Self::append) for that. What gets to
    /// the disk by and by is not counted.
    pub fn kept(&self) -> u64 {
        self.shared.kept.load(Ordering::Acquire)
    }

    /// Returns how many entries wait.
    pub fn waiting(&self) -> usize {
        self.shared.queue().entries
    }

    /// Returns the queue with room for so many entries, and a thread that reads it. `numbered`: how many of them are missing if there is none.
    fn ready(&self, entries: usize, numbered: u64) -> Result<MutexGuard<'_, Queue>, TrailError> {
        let mut queue = self.shared.queue();
        if queue.entries + entries > QUEUE && queue.entries > 0 {
            queue.refused += numbered;
            return Err(TrailError::Full(queue.entries));
        }
        if !queue.running {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("backstop-trail".to_owned());
            thread.spawn(move || Thread::new(shared).run()).map_err(|_| TrailError::Closed)?;
            queue.running = true;
        }
        Ok(queue)
    }
}

impl Queue {
    fn add(&mut self, job: Job, entries: usize) {
        self.jobs.push_back(job);
        self.entries += entries;
        self.since.get_or_insert_with(Instant::now);
    }

    /// Returns jobs of one group, at least one.
    fn take(&mut self) -> Vec<Job> {
        let (mut jobs, mut entries) = (Vec::new(), 0);
        while entries < GROUP
            && let Some(job) = self.jobs.pop_front()
        {
            entries += match &job {
                Job::One(_) => 1,
                Job::Group(drafts, ..) => drafts.len(),
                Job::Checkpoint(..) => 0,
            };
            jobs.push(job);
        }
        self.entries -= entries;
        if self.jobs.is_empty() {
            (self.since, self.urgent) = (None, false);
        }
        jobs
    }
}

struct Thread {
    shared: Arc<Shared>,
    log: Option<Log>,
    /// Since when something is written that may not be on the disk.
    unsynced: Option<Instant>,
    /// Since when there are entries without a checkpoint.
    unsigned: Option<Instant>,
    last: Instant,
    /// Entries that were lost, and that have no numbers yet since the log could not be opened.
    unskipped: u64,
}

impl Thread {
    fn new(shared: Arc<Shared>) -> Self {
        Self { shared, log: None, unsynced: None, unsigned: None, last: Instant::now(), unskipped: 0 }
    }

    fn run(mut self) {
        loop {
            let (jobs, refused, closed) = self.next();
            self.unskipped = self.unskipped.saturating_add(refused);
            if let Some(log) = &mut self.log {
                log.skip(std::mem::take(&mut self.unskipped));
            }
            if !jobs.is_empty() {
                self.write(jobs);
            } else if closed {
                break;
            }
            self.housekeeping();
            if let Some(log) = &self.log {
                self.shared.late.store(log.found_late(), Ordering::Release);
            }
        }
        self.end();
    }

    /// Waits for jobs, or until something else is due.
    fn next(&self) -> (Vec<Job>, u64, bool) {
        let mut queue = self.shared.queue();
        loop {
            let now = Instant::now();
            let ready = queue.since.is_some_and(|since| {
                queue.urgent || queue.closed || queue.entries >= GROUP || now >= since + LINGER
            });
            if ready || queue.closed {
                let (jobs, refused) = (queue.take(), std::mem::take(&mut queue.refused));
                return (jobs, refused, queue.closed);
            }
            let due = [
                queue.since.map(|since| since + LINGER),
                self.unsynced.map(|since| since + SYNC_AFTER),
                self.unsigned.map(|since| since + CHECKPOINT_AFTER),
                queue.announces.then_some(self.last + self.shared.heartbeat),
            ];
            let due = due.into_iter().flatten().min();
            let wait = due.map(|due| due.saturating_duration_since(now));
            if wait == Some(Duration::ZERO) {
                return (Vec::new(), 0, false);
            }
            queue = match wait {
                Some(wait) => {
                    self.shared.wake.wait_timeout(queue, wait).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.shared.wake.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn log(&mut self) -> Result<&mut Log, TrailError> {
        let log = match self.log.take() {
            Some(log) => log,
            None => {
                let mut log = Log::open(self.shared.options.clone())?;
                log.skip(std::mem::take(&mut self.unskipped));
                log
            }
        };
        Ok(self.log.insert(log))
    }

    fn write(&mut self, jobs: Vec<Job>) {
        let (mut drafts, mut waiting, mut checkpoints) = (Vec::new(), Vec::new(), Vec::new());
        let (mut durable, mut concludes) = (false, false);
        for job in jobs {
            match job {
                Job::One(draft) => drafts.push(draft),
                Job::Group(group, must, done) => {
                    waiting.push((drafts.len(), done));
                    drafts.extend(group);
                    durable |= must;
                }
                Job::Checkpoint(ends, done) => {
                    concludes |= ends;
                    checkpoints.push(done);
                }
            }
        }
        let written = self.append(&drafts, durable).map_err(Arc::new);
        let left_out = self.log.as_ref().map_or(&[][..], Log::left_out);
        // Where nobody waits any more, nothing is left to tell.
        for (before, done) in waiting {
            // What explains the others is none of them.
            let first =
                drafts.iter().skip(before).position(|draft| !draft.once).map_or(before, |at| before + at);
            let _ = done.send(written.clone().map(|extent| {
                let gone = left_out.iter().filter(|place| **place >= first).count();
                let behind = (drafts.len() - first - gone) as u64;
                Appended { first: extent.size - behind, extent }
            }));
        }
        if concludes {
            self.stop();
        }
        if !checkpoints.is_empty() {
            let signed = self.log().and_then(Log::checkpoint).map_err(Arc::new);
            for done in checkpoints {
                let _ = done.send(signed.clone());
            }
            self.unsigned = None;
        }
    }

    fn append(&mut self, drafts: &[Draft], durable: bool) -> Result<Extent, TrailError> {
        self.last = Instant::now();
        let log = match self.log() {
            Ok(log) => log,
            Err(error) => {
                self.unskipped = self.unskipped.saturating_add(numbered(drafts));
                return Err(error);
            }
        };
        let extent = if drafts.is_empty() { log.look()? } else { log.append(drafts)? };
        let kept = if durable { log.sync().map(|()| true) } else { Ok(false) };
        if !drafts.is_empty() {
            // What the disk refuses is in the log, and is tried again.
            self.unsynced.get_or_insert(self.last);
            self.unsigned.get_or_insert(self.last);
        }
        if kept? {
            self.unsynced = None;
            self.shared.kept.fetch_max(extent.size, Ordering::AcqRel);
        }
        Ok(extent)
    }

    /// What is due by time. What fails is tried again at the next time: entries that somebody waits for say what is wrong.
    fn housekeeping(&mut self) {
        let is_due = |since: Option<Instant>, after| since.is_some_and(|since| since.elapsed() >= after);
        if self.shared.queue().announces
            && self.last.elapsed() >= self.shared.heartbeat
            && let Ok(body) = Body::of(&serde_json::json!({}))
        {
            let _ = self.append(&[Draft::new(now(), KIND_HEARTBEAT, body)], true);
            self.unsigned = self.last.checked_sub(CHECKPOINT_AFTER).or(self.unsigned);
        }
        if is_due(self.unsynced, SYNC_AFTER) {
            // INVARIANT (law 8, what waits for the disk promises all before it): what the disk refused stays unsynced.
            let synced = self.log().and_then(Log::sync);
            self.unsynced = synced.is_err().then(Instant::now);
        }
        if is_due(self.unsigned, CHECKPOINT_AFTER) {
            let _ = self.log().and_then(Log::checkpoint);
            self.unsigned = None;
        }
    }

    /// The last that a process writes.
    fn end(&mut self) {
        self.stop();
        if let Some(log) = &mut self.log {
            let _ = log.checkpoint();
        }
    }

    /// Says that this process stops, if it said that it began.
    fn stop(&mut self) {
        let announced = std::mem::take(&mut self.shared.queue().announces);
        if let Some(log) = self.log.as_mut().filter(|_| announced)
            && let Ok(body) = Body::of(&serde_json::json!({ "last": log.numbered() + 1 }))
        {
            let _ = log.append(&[Draft::new(now(), KIND_STOP, body)]);
            // What comes after all is of another one.
            log.renew();
        }
    }
}
