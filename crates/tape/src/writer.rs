//! The recorder: a bounded queue, and the thread that writes what comes out of it.
//!
//! The law: *what is missing is told*, in a line of the tape where that can be written, by [`Recorder::lost`], and to whoever started
//! the recorder. It does not matter why it is missing: the queue was full, it could not be made ready, the disk was full.

use std::fmt;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::age::{Encryptor, TapeError};
use crate::keys::Recipient;
use crate::segments::{Bounds, MOST_LINE, Tape};

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
    /// So many segments, with so many bytes in all, were kept long enough and are deleted.
    Pruned {
        /// The segments.
        segments: usize,
        /// Their bytes.
        bytes: u64,
    },
}

enum Item<T> {
    Recording(Box<T>, usize),
    End,
}

#[derive(Default)]
struct Counts {
    waiting: AtomicUsize,
    /// Recordings that are missing, of which no line tells yet.
    untold: AtomicU64,
    lost: AtomicU64,
}

impl Counts {
    fn lose(&self, recordings: u64) {
        self.untold.fetch_add(recordings, Ordering::Relaxed);
        self.lost.fetch_add(recordings, Ordering::Relaxed);
    }
}

/// Records. When it is dropped, what waits is written, and the segment is ended.
pub struct Recorder<T: Redact> {
    queue: SyncSender<Item<T>>,
    counts: Arc<Counts>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl<T: Redact> Recorder<T> {
    /// Starts the thread. `told` is told there of what goes wrong, and of what is deleted.
    ///
    /// # Errors
    ///
    /// [`TapeError::Io`] if there can't be a thread.
    pub fn start(settings: Settings, told: impl Fn(Note<'_>) + Send + 'static) -> Result<Self, TapeError> {
        let (queue, items) = sync_channel(QUEUE);
        let counts = Arc::<Counts>::default();
        let writer =
            Writer { settings, counts: Arc::clone(&counts), told, open: None, missing: 0, is_failing: false };
        let thread =
            std::thread::Builder::new().name("backstop-tape".to_owned()).spawn(move || writer.run(&items))?;
        Ok(Self { queue, counts, thread: Mutex::new(Some(thread)) })
    }

    /// Records, or counts what there is no room for. Never waits.
    pub fn record(&self, what: T) {
        let weight = what.weight();
        let waiting = self.counts.waiting.fetch_add(weight, Ordering::Relaxed);
        let fits = waiting.saturating_add(weight) <= MOST_WAITING;
        if !fits || self.queue.try_send(Item::Recording(Box::new(what), weight)).is_err() {
            self.counts.waiting.fetch_sub(weight, Ordering::Relaxed);
            self.counts.lose(1);
        }
    }

    /// Returns how many recordings are missing, and never will be there.
    pub fn lost(&self) -> u64 {
        self.counts.lost.load(Ordering::Relaxed)
    }

    /// Writes what waits and ends the segment. Nothing is recorded afterwards. Waits for the disk.
    pub fn end(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = self.queue.send(Item::End);
            // A thread that panicked has nothing more to write.
            let _ = thread.join();
        }
    }
}

impl<T: Redact> fmt::Debug for Recorder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("lost", &self.lost()).finish_non_exhaustive()
    }
}

impl<T: Redact> Drop for Recorder<T> {
    fn drop(&mut self) {
        self.end();
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
}

struct Writer<F> {
    settings: Settings,
    counts: Arc<Counts>,
    told: F,
    open: Option<Open>,
    /// What is missing, of which nobody was told yet.
    missing: u64,
    is_failing: bool,
}

impl<F: Fn(Note<'_>)> Writer<F> {
    fn run<T: Redact>(mut self, items: &Receiver<Item<T>>) {
        loop {
            let left = self.open.as_ref().map(|open| OLDEST_SEGMENT.saturating_sub(open.since.elapsed()));
            let next = match left {
                Some(left) => items.recv_timeout(left),
                None => items.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let done = match next {
                Ok(Item::Recording(what, weight)) => {
                    let line = what.line().filter(|line| line.len() < MOST_LINE);
                    self.counts.waiting.fetch_sub(weight, Ordering::Relaxed);
                    match line {
                        Some(line) => self.write::<T>(&line),
                        None => {
                            self.counts.lose(1);
                            Ok(())
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.end(),
                Ok(Item::End) | Err(RecvTimeoutError::Disconnected) => {
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
        let Some(Open { to, path, held, .. }) = self.open.take() else { return };
        self.counts.lose(held);
        drop(to);
        // One in which nothing is tells nobody anything.
        if fs::metadata(&path).is_ok_and(|met| met.len() == 0) {
            let _ = fs::remove_file(&path);
        }
    }

    fn write<T: Redact>(&mut self, line: &[u8]) -> Result<(), TapeError> {
        if let Err(error) = self.tell::<T>().and_then(|()| self.begin()) {
            self.counts.lose(1);
            return Err(error);
        }
        self.put(line, 1)
    }

    /// Says on the tape how many recordings are missing, if any are.
    fn tell<T: Redact>(&mut self) -> Result<(), TapeError> {
        if self.counts.untold.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        self.begin()?;
        let untold = self.counts.untold.swap(0, Ordering::Relaxed);
        self.missing += untold;
        let told = self.put(&T::gap(untold), 0);
        if told.is_err() {
            self.counts.untold.fetch_add(untold, Ordering::Relaxed);
        }
        told
    }

    /// Writes a line that holds so many recordings, which are counted as lost if it can't be written.
    fn put(&mut self, line: &[u8], recordings: u64) -> Result<(), TapeError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        open.held += recordings;
        let chunks = open.to.chunks();
        open.to.push(line)?;
        open.to.push(b"\n")?;
        if open.to.chunks() > chunks {
            // The end of this line may still wait.
            open.held = recordings;
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
        let gone = tape.prune_sometimes(*bounds)?;
        if !gone.is_empty() {
            let bytes = gone.iter().map(|segment| segment.bytes).fold(0, u64::saturating_add);
            (self.told)(Note::Pruned { segments: gone.len(), bytes });
        }
        let (file, path) = tape.begin()?;
        let to = Encryptor::new(BufWriter::new(file), recipient)?;
        self.open = Some(Open { to, path, since: Instant::now(), bytes: 0, held: 0 });
        Ok(())
    }

    fn end(&mut self) -> Result<(), TapeError> {
        let Some(Open { to, path, held, .. }) = self.open.take() else { return Ok(()) };
        let ended = to
            .finish()
            .and_then(|to| to.into_inner().map_err(|error| TapeError::Io(error.into_error())))
            .and_then(|_| Tape::end(&path));
        if ended.is_err() {
            self.counts.lose(held);
        }
        self.tell_missing();
        ended
    }
}
