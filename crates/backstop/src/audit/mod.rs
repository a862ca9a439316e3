//! The audit trail: receipts on their way into the store.
//!
//! Two kinds of receipts take two ways. One that stopped something, or asked somebody, is on the disk before its
//! answer leaves, with all receipts that came before it: who was told of a block, or acts on a human's word,
//! finds it in the trail, whatever happens to the process or to the power. All others wait for nobody: they go
//! through a bounded queue to a task that writes them into the trail, and what comes within [`LINGER`] of the
//! first is written at once. A process that is killed takes the receipts of that time along, and the trail of one that was
//! [announced](AuditSink::announce) shows that it was killed; a machine that loses its power may take the last of these, too.
//!
//! What does not fit into the queue, or can't be written, is not written later: the trail then holds a `gap` entry
//! with the number of receipts that are missing at that place. A trail without gap entries is complete up to
//! the last [`AuditSink::flush`]. Where a receipt can't be on the disk in time, its block stays a block; what a human
//! allowed does not run, since nothing would show that a human did.
//!
//! A dispatch that met no hook leaves nothing, except at `before_tool_call`: every tool call that was
//! permitted is in the trail. So does one whose future was dropped: its receipt says `dropped`.
//!
//! Receipts share the list of hooks that there are ([`HookLists`]).
//!
//! An entry has the time at which it is written; its receipt, when the dispatch began.

#[cfg(feature = "signed-heads")]
pub(crate) mod head;
pub(crate) mod hook_sets;
#[cfg(feature = "signed-heads")]
pub(crate) mod proof;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use backstop_engine::{Keeping, Receipt, ReceiptSink};
use backstop_hooks::PointId;
use backstop_store::{AUDIT_GAP, AuditBody, Durability, NewAuditEntry, Store, Timestamp};
use serde_json::{Value, json};

use self::hook_sets::Listed;
use tokio::sync::{Notify, mpsc, oneshot};

/// The most receipts that wait to be written.
const QUEUE: usize = 8192;
/// The most receipts that are written at once. What waits for the disk behind them is the same for many as for few.
const BATCH: usize = 1024;
/// How long the first receipt of a batch waits for others, while there is room for them.
const LINGER: Duration = Duration::from_millis(50);
/// How long [`AuditSink::flush`] waits for the store.
const FLUSH_BUDGET: Duration = Duration::from_secs(5);

enum Item {
    Receipt(Receipt),
    /// One that somebody waits for; told whether it is on the disk.
    Kept(Receipt, oneshot::Sender<bool>),
    Flush(oneshot::Sender<()>),
}

impl Item {
    /// Whether more may not be waited for.
    fn is_urgent(&self) -> bool {
        match self {
            Self::Receipt(receipt) => receipt.is_decisive(),
            Self::Kept(..) | Self::Flush(_) => true,
        }
    }
}

/// Writes receipts into the audit trail of a store.
#[derive(Clone)]
pub struct AuditSink {
    store: Arc<dyn Store>,
    queue: mpsc::Sender<Item>,
    /// Told when the task must not wait for more.
    hurry: Arc<Notify>,
    lost: Arc<Lost>,
    /// Since when the receipts wait that are being written.
    since: Arc<Mutex<Option<Instant>>>,
}

/// How far the trail is behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditBacklog {
    /// Receipts that wait in the queue.
    pub waiting: usize,
    /// How long those that are being written have waited for it.
    pub oldest: Duration,
    /// Receipts that were not written, and never will be.
    pub lost: u64,
}

/// How many receipts are lost.
#[derive(Debug, Default)]
struct Lost {
    /// Those that no gap entry tells of yet.
    untold: AtomicU64,
    all: AtomicU64,
}

impl Lost {
    fn add(&self, count: u64) {
        self.untold.fetch_add(count, Ordering::AcqRel);
        self.all.fetch_add(count, Ordering::AcqRel);
    }

    fn untold(&self) -> u64 {
        self.untold.load(Ordering::Acquire)
    }
}

impl AuditSink {
    /// Starts the task that writes. Must be called within a Tokio runtime, on which the task runs until
    /// the last clone of the sink is gone.
    pub fn start(store: Arc<dyn Store>) -> Self {
        Self::with_capacity(store, QUEUE)
    }

    fn with_capacity(store: Arc<dyn Store>, capacity: usize) -> Self {
        let (queue, items) = mpsc::channel(capacity);
        let (hurry, lost, since) = (Arc::new(Notify::new()), Arc::<Lost>::default(), Arc::default());
        let writer = Writer {
            store: Arc::clone(&store),
            items,
            hurry: Arc::clone(&hurry),
            lost: Arc::clone(&lost),
            since: Arc::clone(&since),
            listed: Listed::default(),
        };
        tokio::spawn(writer.run());
        Self { store, queue, hurry, lost, since }
    }

    /// Returns how many entries this process has found that a killed one had left unsigned.
    pub fn late(&self) -> u64 {
        self.store.audit_late()
    }

    /// How far the trail is behind.
    pub fn backlog(&self) -> AuditBacklog {
        let since = *self.since.lock().unwrap_or_else(PoisonError::into_inner);
        AuditBacklog {
            waiting: self.queue.max_capacity().saturating_sub(self.queue.capacity()),
            oldest: since.map_or(Duration::ZERO, |since| since.elapsed()),
            lost: self.lost.all.load(Ordering::Acquire),
        }
    }

    /// Says in the trail that this process begins, and when it ends that it stops, so that it shows where one was killed. For processes that
    /// live long. Answers whether it is said.
    pub async fn announce(&self, program: &str) -> bool {
        self.store.announce_audit(program).await.is_ok()
    }

    /// Waits, at most five seconds, until everything recorded so far is in the store, and says there that this process stops. The last that
    /// an announced process does with it.
    pub async fn conclude(&self) -> bool {
        let flushed = self.flush().await;
        let concluded = tokio::time::timeout(FLUSH_BUDGET, self.store.conclude_audit()).await;
        flushed && concluded.is_ok_and(|concluded| concluded.is_ok())
    }

    /// Waits, at most five seconds, until everything recorded so far is in the store. Answers whether it is.
    pub async fn flush(&self) -> bool {
        let (done, written) = oneshot::channel();
        let flushed = async {
            self.hurry.notify_one();
            let asked = self.queue.send(Item::Flush(done)).await.is_ok();
            // The task may have begun to wait in between.
            self.hurry.notify_one();
            asked && written.await.is_ok()
        };
        let in_time = tokio::time::timeout(FLUSH_BUDGET, flushed).await.unwrap_or(false);
        in_time && self.lost.untold() == 0
    }
}

impl ReceiptSink for AuditSink {
    fn reads_idle(&self, point: PointId) -> bool {
        point == PointId::BeforeToolCall
    }

    fn record(&self, receipt: &Receipt) {
        let idle = receipt.steps.is_empty() && receipt.blocked.is_none();
        if idle && !self.reads_idle(receipt.point) {
            return;
        }
        if self.queue.try_send(Item::Receipt(receipt.clone())).is_err() {
            self.lost.add(1);
        }
        if receipt.is_decisive() || self.queue.capacity() < self.queue.max_capacity() / 2 {
            self.hurry.notify_one();
        }
    }

    fn keep(&self, receipt: &Receipt) -> Option<Keeping> {
        let (done, written) = oneshot::channel();
        let full = match self.queue.try_send(Item::Kept(receipt.clone(), done)) {
            Ok(()) => None,
            Err(mpsc::error::TrySendError::Full(item)) => Some(item),
            Err(mpsc::error::TrySendError::Closed(_)) => return Some(Box::pin(std::future::ready(false))),
        };
        self.hurry.notify_one();
        let waits = full.map(|item| (item, Waits { lost: Arc::clone(&self.lost), handed_over: false }));
        let (queue, hurry) = (self.queue.clone(), Arc::clone(&self.hurry));
        Some(Box::pin(async move {
            let kept = async {
                if let Some((item, mut waits)) = waits {
                    queue.send(item).await.ok()?;
                    waits.handed_over = true;
                    hurry.notify_one();
                }
                written.await.ok()
            };
            tokio::time::timeout(FLUSH_BUDGET, kept).await.ok().flatten().unwrap_or(false)
        }))
    }
}

/// A receipt that waits for a place in the queue. Where nobody waits with it any more, it is lost.
struct Waits {
    lost: Arc<Lost>,
    handed_over: bool,
}

impl Drop for Waits {
    fn drop(&mut self) {
        if !self.handed_over {
            self.lost.add(1);
        }
    }
}

impl fmt::Debug for AuditSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditSink").field("lost", &self.lost).finish_non_exhaustive()
    }
}

fn entry(receipt: &Receipt, body: AuditBody) -> NewAuditEntry {
    NewAuditEntry {
        at: Timestamp::now(),
        kind: "receipt".to_owned(),
        session: receipt.key.session_id.clone(),
        run: receipt.key.run_id.clone(),
        body,
    }
}

/// The task that writes.
struct Writer {
    store: Arc<dyn Store>,
    items: mpsc::Receiver<Item>,
    hurry: Arc<Notify>,
    lost: Arc<Lost>,
    since: Arc<Mutex<Option<Instant>>>,
    /// Sets of hooks that receipts may name.
    listed: Listed,
}

impl Writer {
    async fn run(mut self) {
        let mut waiting = Vec::with_capacity(BATCH);
        while self.items.recv_many(&mut waiting, BATCH).await > 0 {
            self.waits_since(Some(Instant::now()));
            self.linger(&mut waiting).await;
            self.write_gap().await;
            self.write(waiting.drain(..)).await;
            self.waits_since(None);
        }
        self.write_gap().await;
    }

    fn waits_since(&self, since: Option<Instant>) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    /// Writes a batch, and tells those who wait for it.
    async fn write(&mut self, items: impl Iterator<Item = Item>) {
        let (mut entries, mut kept, mut flushed) = (Vec::new(), Vec::new(), Vec::new());
        let mut durability = Durability::Soon;
        for item in items {
            match item {
                Item::Receipt(receipt) => {
                    if receipt.is_decisive() {
                        durability = Durability::Now;
                    }
                    let body = self.listed.body(&receipt, &mut entries);
                    entries.push(entry(&receipt, body));
                }
                Item::Kept(receipt, done) => {
                    durability = Durability::Now;
                    let body = self.listed.body(&receipt, &mut entries);
                    entries.push(entry(&receipt, body));
                    kept.push(done);
                }
                Item::Flush(done) => flushed.push(done),
            }
        }
        let written = self.append_all(entries, durability).await;
        if !written {
            self.listed.forget();
        }
        // Where nobody waits any more, nothing is left to tell.
        for done in kept {
            let _ = done.send(written);
        }
        for done in flushed {
            let _ = done.send(());
        }
    }

    /// Waits for more, unless somebody waits for what is there.
    async fn linger(&mut self, waiting: &mut Vec<Item>) {
        let is_asked = |items: &[Item]| items.iter().any(Item::is_urgent);
        if waiting.len() >= BATCH || is_asked(waiting) || self.items.is_closed() {
            return;
        }
        let _ = tokio::time::timeout(LINGER, self.hurry.notified()).await;
        while waiting.len() < BATCH
            && let Ok(item) = self.items.try_recv()
        {
            waiting.push(item);
        }
    }

    /// Writes entries at once, and those that are too large without their steps. Answers whether all are written.
    async fn append_all(&self, entries: Vec<NewAuditEntry>, durability: Durability) -> bool {
        let fits = |entry: &NewAuditEntry| self.store.fits_audit(&entry.body);
        let fit = |entry: NewAuditEntry| if fits(&entry) { entry } else { without_steps(entry) };
        let (fitting, huge): (Vec<_>, Vec<_>) = entries.into_iter().map(fit).partition(fits);
        // What is too large even so is lost alone.
        self.lost.add(huge.len() as u64);
        let count = fitting.len() as u64;
        let written = count == 0 || self.store.append_audit_all(fitting, durability).await.is_ok();
        if !written {
            self.lost.add(count);
        }
        written && huge.is_empty()
    }

    async fn write_gap(&self) {
        let missing = self.lost.untold.swap(0, Ordering::AcqRel);
        if missing == 0 {
            return;
        }
        let gap = NewAuditEntry {
            at: Timestamp::now(),
            kind: AUDIT_GAP.to_owned(),
            session: None,
            run: None,
            body: json!({ "lost": missing }).into(),
        };
        if self.store.append_audit(gap).await.is_err() {
            self.lost.untold.fetch_add(missing, Ordering::AcqRel);
        }
    }
}

/// A receipt of very many hooks may be too large for the trail; then it is kept without its steps.
fn without_steps(mut entry: NewAuditEntry) -> NewAuditEntry {
    if let Ok(Value::Object(mut fields)) = serde_json::from_str(entry.body.as_str()) {
        let steps = fields.remove("steps").and_then(|steps| steps.as_array().map(Vec::len));
        fields.insert("stepsOmitted".to_owned(), json!(steps));
        entry.body = Value::Object(fields).into();
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_engine::Engine;
    use backstop_hooks::points::{BeforeToolCall, ToolCallEvent};
    use backstop_hooks::{CallContext, Params, ToolName};
    use backstop_store::{AuditFilter, SqliteStore};

    async fn receipt() -> Receipt {
        let event = ToolCallEvent::new(ToolName::new("exec"), Params::default());
        Engine::builder()
            .build()
            .decide::<BeforeToolCall>(event, &CallContext::default())
            .await
            .into_parts()
            .receipt
    }

    #[tokio::test]
    async fn what_was_recorded_is_in_the_chain_after_a_flush() {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory());
        let sink = AuditSink::start(Arc::clone(&store));
        for _ in 0..3 {
            sink.record(&receipt().await);
        }
        assert!(sink.flush().await);
        assert_eq!(store.audit(&AuditFilter::default(), 0, 10).await.unwrap().len(), 3);
        assert_eq!(store.verify_audit(None).await.unwrap().head.seq, 3);
    }

    #[tokio::test]
    async fn one_receipt_that_is_too_large_keeps_no_other_out() {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory());
        let (_, items) = mpsc::channel(1);
        let writer = Writer {
            store: Arc::clone(&store),
            items,
            hurry: Arc::default(),
            lost: Arc::default(),
            since: Arc::default(),
            listed: Listed::default(),
        };
        let huge = json!({ "steps": ["x".repeat(backstop_store::MAX_AUDIT_BYTES)], "verdict": "block" });
        let of = |body: Value| NewAuditEntry {
            at: Timestamp::now(),
            kind: "receipt".to_owned(),
            session: None,
            run: None,
            body: body.into(),
        };
        assert!(writer.append_all(vec![of(json!({})), of(huge), of(json!({}))], Durability::Soon).await);
        let entries = store.audit(&AuditFilter::default(), 0, 10).await.unwrap();
        assert_eq!((entries.len(), writer.lost.untold()), (3, 0));
        assert_eq!(entries[1].body.to_value(), json!({ "verdict": "block", "stepsOmitted": 1 }));
    }

    #[tokio::test]
    async fn an_overflow_leaves_a_gap_entry_and_never_waits() {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory());
        let sink = AuditSink::with_capacity(Arc::clone(&store), 2);
        let receipt = receipt().await;
        // The writer can't run before the first await, so the queue overflows for certain.
        for _ in 0..5 {
            sink.record(&receipt);
        }
        assert_eq!(sink.backlog().waiting, 2);
        sink.flush().await;
        let entries = store.audit(&AuditFilter::default(), 0, 10).await.unwrap();
        let gaps: Vec<_> = entries.iter().filter(|entry| entry.kind == "gap").collect();
        assert_eq!(gaps.len(), 1);
        assert_eq!(gaps[0].body.to_value(), json!({ "lost": 3 }));
        assert_eq!((sink.backlog().lost, sink.backlog().waiting), (3, 0), "also once the trail tells of it");
        assert_eq!(entries.len(), 3);
    }
}
