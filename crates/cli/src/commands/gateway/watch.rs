//! Decisions as they are made: on stderr, or counted where a program owns the terminal.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use backstop::engine::{Receipt, ReceiptSink, Verdict};
use backstop::gateway::Metrics;
use backstop::hooks::{ApprovalId, PointId};

use serde_json::{Value, json};

use crate::commands::receipts;
use crate::log::{self, Format, Level, Log};
use crate::output::Paint;

/// The most questions that are remembered.
const MOST_QUESTIONS: usize = 256;

/// Tells of what was stopped or changed, a line each, and counts tool calls.
pub(super) struct Decisions {
    paint: Paint,
    /// Nothing is said while it is made: the terminal is another program's.
    is_silent: bool,
    judged: AtomicU64,
    blocked: AtomicU64,
    asked: AtomicU64,
    /// The questions that were asked or filed.
    questions: Mutex<Vec<ApprovalId>>,
}

/// What became of tool calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::commands) struct Counted {
    pub(in crate::commands) judged: u64,
    pub(in crate::commands) blocked: u64,
    pub(in crate::commands) asked: u64,
}

impl Decisions {
    pub(super) fn new(paint: Paint, is_silent: bool) -> Self {
        let (judged, blocked, asked, questions) = Default::default();
        Self { paint, is_silent, judged, blocked, asked, questions }
    }

    /// The questions that were asked or filed, oldest first, each once.
    pub(super) fn questions(&self) -> Vec<ApprovalId> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn counted(&self) -> Counted {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counted { judged: of(&self.judged), blocked: of(&self.blocked), asked: of(&self.asked) }
    }
}

impl ReceiptSink for Decisions {
    fn reads_idle(&self, _: PointId) -> bool {
        false
    }

    fn record(&self, receipt: &Receipt) {
        // A tool that is only offered has no id of a call.
        if receipt.point == PointId::BeforeToolCall && receipt.key.tool_call_id.is_some() {
            self.judged.fetch_add(1, Ordering::Relaxed);
            match (&receipt.approval, receipt.verdict) {
                (Some(_), _) => self.asked.fetch_add(1, Ordering::Relaxed),
                (None, Verdict::Block) => self.blocked.fetch_add(1, Ordering::Relaxed),
                (None, _) => 0,
            };
            if let Some(id) = receipt.approval.as_ref().and_then(|approval| approval.id.as_ref()) {
                let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
                if questions.len() < MOST_QUESTIONS && !questions.contains(id) {
                    questions.push(id.clone());
                }
            }
        }
        let is_told = matches!(receipt.verdict, Verdict::Block | Verdict::Modify | Verdict::Ask);
        let Log { format, level } = log::current();
        if !self.is_silent && is_told && level >= Level::Warn {
            match format {
                Format::Text => log::write(&format!("backstop: {}", logged(receipt, self.paint))),
                Format::Json => log::json("decision", Level::Warn, decided(receipt)),
            }
        }
    }
}

/// Everybody who is shown the receipts of one engine.
pub(super) struct Shown {
    decisions: Arc<Decisions>,
    metrics: Option<Metrics>,
}

impl Shown {
    /// Shows them to both.
    pub(super) fn to(decisions: &Arc<Decisions>, metrics: Option<&Metrics>) -> Arc<dyn ReceiptSink> {
        Arc::new(Self { decisions: Arc::clone(decisions), metrics: metrics.cloned() })
    }
}

impl ReceiptSink for Shown {
    fn reads_idle(&self, _: PointId) -> bool {
        false
    }

    fn record(&self, receipt: &Receipt) {
        self.decisions.record(receipt);
        if let Some(metrics) = &self.metrics {
            metrics.record(receipt);
        }
    }
}

/// A receipt as a line of the log. A question is told of by its id: whoever knows its code can answer it, and a log may be read
/// by an agent, also one that a terminal keeps.
fn logged(receipt: &Receipt, paint: Paint) -> String {
    let line = receipts::line(receipt, paint);
    match receipt.approval.as_ref().and_then(|approval| approval.id.as_ref()) {
        Some(id) => format!("{line} · question {id}: `backstop approvals list` has its code"),
        None => line,
    }
}

/// The same for programs.
fn decided(receipt: &Receipt) -> Vec<(&'static str, Value)> {
    let block = receipt.blocked.as_ref();
    let approval = receipt.approval.as_ref();
    vec![
        ("receipt", receipt.id().into()),
        ("point", receipt.point.name().into()),
        ("verdict", json!(receipt.verdict)),
        ("hook", json!(block.and_then(|block| block.hook.as_ref()))),
        ("question", json!(approval.and_then(|approval| approval.id.as_ref()))),
        ("resolution", json!(approval.and_then(|approval| approval.resolution))),
        ("elapsedUs", json!(u64::try_from(receipt.elapsed.as_micros()).unwrap_or(u64::MAX))),
        ("judged", json!(receipt.judged)),
        ("traceId", json!(receipt.key.trace.map(|trace| trace.trace_id))),
    ]
}

impl std::fmt::Display for Counted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let calls = if self.judged == 1 { "tool call" } else { "tool calls" };
        write!(f, "{} {calls} judged, {} blocked, {} asked about", self.judged, self.blocked, self.asked)?;
        match self.asked {
            0 => Ok(()),
            _ => f.write_str("; `backstop approvals list` shows what can still be answered"),
        }
    }
}
