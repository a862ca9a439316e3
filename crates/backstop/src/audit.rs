//! The audit trail: receipts on their way into the store.
//!
//! A decision must not wait for a disk, so receipts go through a bounded queue to a task that writes them
//! into the hash chain. What does not fit into the queue, or can't be written, is not written later: the
//! trail then holds a `gap` entry with the number of receipts that are missing at that place. A trail
//! without gap entries is complete up to the last [`AuditSink::flush`].
//!
//! A dispatch that met no hook leaves nothing, except at `before_tool_call`: every tool call that was
//! permitted is in the trail.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use backstop_engine::{Receipt, ReceiptSink};
use backstop_hooks::{Json, PointId};
use backstop_store::{AppendAuditError, NewAuditEntry, Store, Timestamp};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

/// The most receipts that wait to be written.
const QUEUE: usize = 4096;
/// The most receipts that are written at once.
const BATCH: usize = 256;
/// How long [`AuditSink::flush`] waits for the store.
const FLUSH_BUDGET: Duration = Duration::from_secs(5);

enum Item {
    Entry(Box<NewAuditEntry>),
    Flush(oneshot::Sender<()>),
}

/// Writes receipts into the audit trail of a store.
#[derive(Clone)]
pub struct AuditSink {
    queue: mpsc::Sender<Item>,
    lost: Arc<AtomicU64>,
}

impl AuditSink {
    /// Starts the task that writes. Must be called within a Tokio runtime, on which the task runs until
    /// the last clone of the sink is gone.
    pub fn start(store: Arc<dyn Store>) -> Self {
        Self::with_capacity(store, QUEUE)
    }

    fn with_capacity(store: Arc<dyn Store>, capacity: usize) -> Self {
        let (queue, items) = mpsc::channel(capacity);
        let lost = Arc::new(AtomicU64::new(0));
        tokio::spawn(write(store, items, Arc::clone(&lost)));
        Self { queue, lost }
    }

    /// Waits, at most five seconds, until everything recorded so far is in the store. Answers whether it is.
    pub async fn flush(&self) -> bool {
        let (done, written) = oneshot::channel();
        let flushed = async { self.queue.send(Item::Flush(done)).await.is_ok() && written.await.is_ok() };
        let in_time = tokio::time::timeout(FLUSH_BUDGET, flushed).await.unwrap_or(false);
        in_time && self.lost.load(Ordering::Acquire) == 0
    }
}

impl ReceiptSink for AuditSink {
    fn record(&self, receipt: &Receipt) {
        let idle = receipt.steps.is_empty() && receipt.blocked.is_none();
        if idle && receipt.point != PointId::BeforeToolCall {
            return;
        }
        if self.queue.try_send(Item::Entry(Box::new(entry(receipt)))).is_err() {
            self.lost.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl fmt::Debug for AuditSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditSink").field("lost", &self.lost.load(Ordering::Relaxed)).finish_non_exhaustive()
    }
}

fn entry(receipt: &Receipt) -> NewAuditEntry {
    NewAuditEntry {
        at: match i64::try_from(receipt.at) {
            Ok(0) | Err(_) => Timestamp::now(),
            Ok(at) => Timestamp::from_millis(at),
        },
        kind: "receipt".to_owned(),
        session: receipt.key.session_id.clone(),
        run: receipt.key.run_id.clone(),
        body: Json::new(serde_json::to_value(receipt).unwrap_or_default()),
    }
}

async fn write(store: Arc<dyn Store>, mut items: mpsc::Receiver<Item>, lost: Arc<AtomicU64>) {
    let mut waiting = Vec::with_capacity(BATCH);
    while items.recv_many(&mut waiting, BATCH).await > 0 {
        write_gap(store.as_ref(), &lost).await;
        let mut entries = Vec::new();
        for item in waiting.drain(..) {
            match item {
                Item::Entry(entry) => entries.push(*entry),
                Item::Flush(done) => {
                    append_all(store.as_ref(), std::mem::take(&mut entries), &lost).await;
                    // Nobody waits any more: nothing is left to tell.
                    let _ = done.send(());
                }
            }
        }
        append_all(store.as_ref(), entries, &lost).await;
    }
    write_gap(store.as_ref(), &lost).await;
}

/// Writes entries at once, or, where one of them is too large, one by one.
async fn append_all(store: &dyn Store, entries: Vec<NewAuditEntry>, lost: &AtomicU64) {
    if entries.is_empty() {
        return;
    }
    let missing = match store.append_audit_all(entries.clone()).await {
        Ok(_) => 0,
        Err(AppendAuditError::Store(_)) => entries.len() as u64,
        Err(AppendAuditError::TooLarge(_)) => {
            let mut missing = 0;
            for entry in entries {
                missing += u64::from(append(store, entry).await.is_err());
            }
            missing
        }
    };
    lost.fetch_add(missing, Ordering::AcqRel);
}

async fn write_gap(store: &dyn Store, lost: &AtomicU64) {
    let missing = lost.swap(0, Ordering::AcqRel);
    if missing == 0 {
        return;
    }
    let gap = NewAuditEntry {
        at: Timestamp::now(),
        kind: "gap".to_owned(),
        session: None,
        run: None,
        body: Json::new(json!({ "lost": missing })),
    };
    if store.append_audit(gap).await.is_err() {
        lost.fetch_add(missing, Ordering::AcqRel);
    }
}

/// A receipt of very many hooks may be too large for the trail; then it is kept without its steps.
async fn append(store: &dyn Store, mut entry: NewAuditEntry) -> Result<(), AppendAuditError> {
    match store.append_audit(entry.clone()).await {
        Err(AppendAuditError::TooLarge(_)) => {
            let mut body = entry.body.to_value();
            if let Value::Object(fields) = &mut body {
                let steps = fields.remove("steps").and_then(|steps| steps.as_array().map(Vec::len));
                fields.insert("stepsOmitted".to_owned(), json!(steps));
            }
            entry.body = Json::new(body);
            store.append_audit(entry).await.map(drop)
        }
        written => written.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_engine::Engine;
    use backstop_hooks::points::{BeforeToolCall, ToolCallEvent};
    use backstop_hooks::{CallContext, Params, ToolName};
    use backstop_store::{AuditFilter, MemoryStore};

    async fn receipt() -> Receipt {
        let event = ToolCallEvent {
            tool_name: ToolName::new("exec"),
            params: Params::default(),
            tool_kind: None,
            tool_input_kind: None,
            derived_paths: None,
            run_id: None,
            tool_call_id: None,
        };
        Engine::builder().build().decide::<BeforeToolCall>(event, &CallContext::default()).await.receipt
    }

    #[tokio::test]
    async fn what_was_recorded_is_in_the_chain_after_a_flush() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let sink = AuditSink::start(Arc::clone(&store));
        for _ in 0..3 {
            sink.record(&receipt().await);
        }
        assert!(sink.flush().await);
        assert_eq!(store.audit(&AuditFilter::default(), 0, 10).await.unwrap().len(), 3);
        assert_eq!(store.verify_audit().await.unwrap().seq, 3);
    }

    #[tokio::test]
    async fn one_receipt_that_is_too_large_keeps_no_other_out() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let lost = AtomicU64::new(0);
        let huge = json!({ "steps": ["x".repeat(backstop_store::MAX_AUDIT_BYTES)], "verdict": "block" });
        let of = |body: Value| NewAuditEntry {
            at: Timestamp::now(),
            kind: "receipt".to_owned(),
            session: None,
            run: None,
            body: Json::new(body),
        };
        append_all(store.as_ref(), vec![of(json!({})), of(huge), of(json!({}))], &lost).await;
        let entries = store.audit(&AuditFilter::default(), 0, 10).await.unwrap();
        assert_eq!((entries.len(), lost.load(Ordering::Acquire)), (3, 0));
        assert_eq!(entries[1].body.to_value(), json!({ "verdict": "block", "stepsOmitted": 1 }));
    }

    #[tokio::test]
    async fn an_overflow_leaves_a_gap_entry_and_never_waits() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let sink = AuditSink::with_capacity(Arc::clone(&store), 2);
        let receipt = receipt().await;
        // The writer can't run before the first await, so the queue overflows for certain.
        for _ in 0..5 {
            sink.record(&receipt);
        }
        sink.flush().await;
        let entries = store.audit(&AuditFilter::default(), 0, 10).await.unwrap();
        let gaps: Vec<_> = entries.iter().filter(|entry| entry.kind == "gap").collect();
        assert_eq!(gaps.len(), 1);
        assert_eq!(gaps[0].body.to_value(), json!({ "lost": 3 }));
        assert_eq!(entries.len(), 3);
    }
}
