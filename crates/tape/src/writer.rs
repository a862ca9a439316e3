//! The recorder: a bounded queue, and the thread that writes what comes out of it.
//!
//! The law: *what is missing is told*, in a line of the tape where that can be written, by [`Recorder::lost`], and to whoever started
//! the recorder. It does not matter why it is missing: the queue was full, it could not be made ready, the disk was full.

use std::fmt;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::age::{Encryptor, TapeError};
use crate::keys::Recipient;
use crate::segments::{Bounds, MOST_LINE, Pruned, Tape};

/// The most recordings that wait.
const QUEUE: usize = 1024;
/// The most bytes of recordings that wait.
const MOST_WAITING: usize = 16 << 20;
/// A segment of so many bytes is ended.
const MOST_SEGMENT: usize = 8 << 20;
/// A segment that began so long ago is ended: what a killed process takes along is not older.
const OLDEST_SEGMENT: Duration = Duration::from_mins(1);

/// What is to be recorded, before the secrets are out of it. It is done by the thread that writes.
pub trait Redact: Send + 'static {
    /// Returns about how many bytes it holds.
    fn weight(&self) -> usize;

    /// Returns the line that is written, without a line break; `None` if it may not be written.
    fn line(self: Box<Self>) -> Option<Vec<u8>>;

    /// Returns the line that says that so many recordings are missing here.
    fn gap(lost: u64) -> Vec<u8>
    where
        Self: Sized;
}

/// Where and to whom is recorded.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The tape.
    pub tape: Tape,
    /// Who can read it.
    pub recipient: Recipient,
    /// How much is kept.
    pub bounds: Bounds,
}

/// What whoever started a recorder is told.
#[derive(Debug)]
pub enum Note<'a> {
    /// It can't record. Told once each time that it begins to fail.
    Failed(&'a TapeError),
    /// So many recordings are missing; told once for each segment.
    Missing(u64),
    /// Something was to be recorded, and the thread that writes has ended. Told once; all of it is missing from then on.
    Gone,
    /// So many segments, with so many bytes in all, were kept long enough and are deleted.
    Pruned {
        /// The segments.
        segments: usize,
        /// Their bytes.
        bytes: u64,
    },
    /// Something that was kept long enough can't be deleted. It is recorded all the same.
    Kept(&'a TapeError),
}

enum Item<T> {
    Recording(Box<T>, usize),
    End,
}

#[derive(Default)]
struct Counts {
    waiting: AtomicUsize,
    /// Recordings that were taken, and are neither written nor lost yet.
    pending: AtomicU64,
    /// Whether nothing is taken any more.
    is_closed: AtomicBool,
    /// Recordings that are missing, of which no line tells yet.
    untold: AtomicU64,
    lost: AtomicU64,
}

impl Counts {
    fn lose(&self, recordings: u64) {
        self.untold.fetch_add(recordings, Ordering::Relaxed);
        self.lost.fetch_add(recordings, Ordering::Relaxed);
    }

    /// Notes that so many recordings that were taken are written, or lost.
    fn settle(&self, recordings: u64) {
        self.pending.fetch_sub(recordings, Ordering::Relaxed);
    }
}

type Told = dyn Fn(Note<'_>) + Send + Sync;

/// Records. When it is dropped, what waits is written and the segment is ended, for which nobody waits.
pub struct Recorder<T: Redact> {
    queue: SyncSender<Item<T>>,
    counts: Arc<Counts>,
    told: Arc<Told>,
    is_gone: AtomicBool,
    /// Hangs up when the thread has ended.
    ended: Mutex<Receiver<()>>,
}

impl<T: Redact> Recorder<T> {
    /// Starts the thread. `told` is told there of what goes wrong, and of what is deleted; and by [`record`](Self::record), once, that the
    /// thread has ended.
    ///
    /// # Errors
    ///
    /// [`TapeError::Io`] if there can't be a thread.
    pub fn start(
        settings: Settings,
        told: impl Fn(Note<'_>) + Send + Sync + 'static,
    ) -> Result<Self, TapeError> {
        let (queue, items) = sync_channel(QUEUE);
        let (ends, ended) = channel();
        let counts = Arc::<Counts>::default();
        let told: Arc<Told> = Arc::new(told);
        let writer = Writer {
            settings,
            counts: Arc::clone(&counts),
            told: Arc::clone(&told),
            open: None,
            missing: 0,
            is_failing: false,
        };
        std::thread::Builder::new().name("backstop-tape".to_owned()).spawn(move || {
            let _ends = ends;
            writer.run(&items);
        })?;
        Ok(Self { queue, counts, told, is_gone: AtomicBool::new(false), ended: Mutex::new(ended) })
    }

    /// Records, or counts what there is no room for. Never waits.
    pub fn record(&self, what: T) {
        if self.counts.is_closed.load(Ordering::SeqCst) {
            self.counts.lose(1);
            return self.tell_gone();
        }
        let weight = what.weight();
        let waiting = self.counts.waiting.fetch_add(weight, Ordering::Relaxed);
        self.counts.pending.fetch_add(1, Ordering::Relaxed);
        let sent = match waiting.saturating_add(weight) <= MOST_WAITING {
            true => self.queue.try_send(Item::Recording(Box::new(what), weight)).map_err(Some),
            false => Err(None),
        };
        if let Err(refused) = sent {
            self.counts.waiting.fetch_sub(weight, Ordering::Relaxed);
            self.counts.settle(1);
            self.counts.lose(1);
            if let Some(TrySendError::Disconnected(_)) = refused {
                self.tell_gone();
            }
        }
    }

    fn tell_gone(&self) {
        if !self.is_gone.swap(true, Ordering::Relaxed) {
            (self.told)(Note::Gone);
        }
    }

    /// Returns how many recordings are missing, and never will be there.
    pub fn lost(&self) -> u64 {
        self.counts.lost.load(Ordering::Relaxed)
    }

    /// Has what waits written and the segment ended, and waits for that so long at most. Nothing is recorded afterwards. Returns how
    /// many recordings were not written by then: a disk may hang, and whoever ends does not.
    pub fn end(&self, patience: Duration) -> u64 {
        self.close();
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        // It hangs up where it has ended, by a panic, too, and says nothing before.
        let _ = ended.recv_timeout(patience);
        self.counts.pending.load(Ordering::Relaxed)
    }

    /// Tells the thread to end, and does not wait for it.
    fn close(&self) {
        self.counts.is_closed.store(true, Ordering::SeqCst);
        // Wakes it; one whose queue is full is awake.
        let _ = self.queue.try_send(Item::End);
    }
}

impl<T: Redact> fmt::Debug for Recorder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("lost", &self.lost()).finish_non_exhaustive()
    }
}

impl<T: Redact> Drop for Recorder<T> {
    fn drop(&mut self) {
        self.close();
    }
}

/// A segment that is being written.
struct Open {
    to: Encryptor<BufWriter<File>>,
    path: PathBuf,
    since: Instant,
    bytes: usize,
    /// How many recordings are lost with what was not written yet.
    held: u64,
    /// How many missing recordings are told of in what was not written yet.
    gaps: u64,
}

struct Writer {
    settings: Settings,
    counts: Arc<Counts>,
    told: Arc<Told>,
    open: Option<Open>,
    /// What is missing, of which nobody was told yet.
    missing: u64,
    is_failing: bool,
}

impl Writer {
    /// What comes next. Where nothing is taken any more, the end comes behind the last one.
    fn next<T>(&self, items: &Receiver<Item<T>>) -> Result<Item<T>, RecvTimeoutError> {
        if self.counts.is_closed.load(Ordering::SeqCst) {
            return items.try_recv().map_err(|_| RecvTimeoutError::Disconnected);
        }
        let left = self.open.as_ref().map(|open| OLDEST_SEGMENT.saturating_sub(open.since.elapsed()));
        match left {
            Some(left) => items.recv_timeout(left),
            None => items.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    /// Counts recordings that were taken as lost.
    fn lose(&self, recordings: u64) {
        self.counts.settle(recordings);
        self.counts.lose(recordings);
    }

    fn run<T: Redact>(mut self, items: &Receiver<Item<T>>) {
        loop {
            let done = match self.next(items) {
                Ok(Item::Recording(what, weight)) => {
                    // INVARIANT (no silent gap): the segment is there before the work, so a process that ends in the midst of it leaves one
                    // without an end. If it can't begin, the line can't be written either, which is counted then.
                    let _ = self.begin();
                    let line = what.line().filter(|line| line.len() < MOST_LINE);
                    self.counts.waiting.fetch_sub(weight, Ordering::Relaxed);
                    match line {
                        Some(line) => self.write::<T>(&line),
                        None => {
                            self.lose(1);
                            Ok(())
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.end(),
                // The end overtakes nothing: what was taken before it stands before it, or is looked for now.
                Ok(Item::End) => continue,
                Err(RecvTimeoutError::Disconnected) => {
                    let done = self.tell::<T>().and_then(|()| self.end());
                    self.note(done);
                    self.missing += self.counts.untold.swap(0, Ordering::Relaxed);
                    self.tell_missing();
                    return;
                }
            };
            self.note(done);
        }
    }

    fn note(&mut self, done: Result<(), TapeError>) {
        match done {
            Ok(()) => self.is_failing = false,
            Err(error) => {
                // What was written so far stays readable; the next recording begins anew.
                self.give_up();
                if !std::mem::replace(&mut self.is_failing, true) {
                    (self.told)(Note::Failed(&error));
                }
            }
        }
    }

    /// Tells of what is missing, other than on the tape.
    fn tell_missing(&mut self) {
        if self.missing > 0 {
            (self.told)(Note::Missing(std::mem::take(&mut self.missing)));
        }
    }

    /// Lets go of a segment that can't be written any further.
    fn give_up(&mut self) {
        let Some(Open { to, path, held, gaps, .. }) = self.open.take() else { return };
        self.lose_unwritten(held, gaps);
        drop(to);
        // One in which nothing is tells nobody anything.
        if fs::metadata(&path).is_ok_and(|met| met.len() == 0) {
            let _ = fs::remove_file(&path);
        }
    }

    /// Counts what a segment has lost, and what it would have told of as not told.
    fn lose_unwritten(&mut self, held: u64, gaps: u64) {
        self.lose(held);
        self.counts.untold.fetch_add(gaps, Ordering::Relaxed);
        self.missing = self.missing.saturating_sub(gaps);
    }

    fn write<T: Redact>(&mut self, line: &[u8]) -> Result<(), TapeError> {
        if let Err(error) = self.tell::<T>().and_then(|()| self.begin()) {
            self.lose(1);
            return Err(error);
        }
        self.put(line, 1, 0)
    }

    /// Says on the tape how many recordings are missing, if any are.
    fn tell<T: Redact>(&mut self) -> Result<(), TapeError> {
        if self.counts.untold.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        self.begin()?;
        let untold = self.counts.untold.swap(0, Ordering::Relaxed);
        self.missing += untold;
        self.put(&T::gap(untold), 0, untold)
    }

    /// Writes a line that holds so many recordings, or tells of so many missing ones. If it can't be written, they are counted as lost, or
    /// as not told, when the segment is let go of.
    fn put(&mut self, line: &[u8], recordings: u64, gaps: u64) -> Result<(), TapeError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        open.held += recordings;
        open.gaps += gaps;
        let chunks = open.to.chunks();
        open.to.push(line)?;
        open.to.push(b"\n")?;
        if open.to.chunks() > chunks {
            // The end of this line may still wait.
            self.counts.settle(open.held - recordings);
            (open.held, open.gaps) = (recordings, gaps);
        }
        open.bytes += line.len() + 1;
        let is_full = open.bytes >= MOST_SEGMENT;
        if is_full { self.end() } else { Ok(()) }
    }

    /// Begins a segment, if there is none.
    fn begin(&mut self) -> Result<(), TapeError> {
        if self.open.is_some() {
            return Ok(());
        }
        let Settings { tape, recipient, bounds } = &self.settings;
        tape.make()?;
        let (file, path) = tape.begin()?;
        let to = Encryptor::new(BufWriter::new(file), recipient).inspect_err(|_| {
            let _ = fs::remove_file(&path);
        })?;
        self.open = Some(Open { to, path, since: Instant::now(), bytes: 0, held: 0, gaps: 0 });
        let Pruned { gone, failed } = tape
            .prune_sometimes(*bounds)
            .unwrap_or_else(|error| Pruned { failed: Some(error), ..Pruned::default() });
        if let Some(error) = &failed {
            (self.told)(Note::Kept(error));
        }
        if !gone.is_empty() {
            let bytes = gone.iter().map(|segment| segment.bytes).fold(0, u64::saturating_add);
            (self.told)(Note::Pruned { segments: gone.len(), bytes });
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), TapeError> {
        let Some(Open { to, path, held, gaps, .. }) = self.open.take() else { return Ok(()) };
        let ended = to
            .finish()
            .and_then(|to| to.into_inner().map_err(|error| TapeError::Io(error.into_error())))
            .and_then(|_| Tape::end(&path));
        match &ended {
            Ok(()) => self.counts.settle(held),
            Err(_) => self.lose_unwritten(held, gaps),
        }
        self.tell_missing();
        ended
    }
}
