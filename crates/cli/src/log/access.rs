//! The access log: one line per request, as a view of its record.
//!
//! A thread writes the lines, so that a reader of stderr that hangs stalls no connection. The queue is bounded: lines that do not fit
//! are dropped, and a later line says how many.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop::gateway::{RequestRecord, RequestSink};
use serde_json::{Value, json};

use super::{Format, Level, Log};

/// The most lines in the queue.
const QUEUE: usize = 4_096;
/// How long the end of the process waits for lines in the queue.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Writes one line for each finished request.
pub(crate) struct AccessLog {
    format: Format,
    /// `None` once it ends.
    queue: Option<SyncSender<String>>,
    dropped: Arc<AtomicU64>,
    /// Closed by the thread when it ends.
    written: Mutex<Receiver<()>>,
}

impl AccessLog {
    /// Returns the access log if the level includes requests.
    pub(crate) fn of(log: Log) -> std::io::Result<Option<Self>> {
        (log.level >= Level::Info).then(|| Self::start(log.format, super::write)).transpose()
    }

    fn start(format: Format, write: impl Fn(&str) + Send + 'static) -> std::io::Result<Self> {
        let (queue, lines) = sync_channel::<String>(QUEUE);
        let (writing, written) = sync_channel::<()>(0);
        let dropped = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&dropped);
        std::thread::Builder::new().name("backstop-log".to_owned()).spawn(move || {
            while let Ok(line) = lines.recv() {
                write(&line);
                if let Some(told) = dropped_line(format, counted.swap(0, Ordering::Relaxed)) {
                    write(&told);
                }
            }
            drop(writing);
        })?;
        Ok(Self { format, queue: Some(queue), dropped, written: Mutex::new(written) })
    }
}

impl RequestSink for AccessLog {
    fn ended(&self, record: &RequestRecord) {
        let line = match self.format {
            Format::Text => line(record),
            Format::Json => super::json_line("request", Level::Info, fields(record)),
        };
        let is_kept = self.queue.as_ref().is_some_and(|queue| queue.try_send(line).is_ok());
        if !is_kept {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The end of the process: what is in the queue is written, unless nobody reads it.
impl Drop for AccessLog {
    fn drop(&mut self) {
        self.queue = None;
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        // Either way it is over.
        let _ = written.recv_timeout(LAST_LINES);
    }
}

/// Returns the line that says how many have none.
fn dropped_line(format: Format, dropped: u64) -> Option<String> {
    const WHY: &str = "requests have no line, because the log was not read fast enough";
    let said = || [("message", WHY.into()), ("dropped", dropped.into())];
    (dropped > 0).then(|| match format {
        Format::Text => format!("warning: {dropped} {WHY}"),
        Format::Json => super::json_line("log", Level::Warn, said()),
    })
}

/// Milliseconds, to the microsecond.
fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

fn fields(record: &RequestRecord) -> [(&'static str, Value); 17] {
    let tokens = record.tokens;
    [
        ("method", record.method.as_str().into()),
        ("operation", record.operation.as_str().into()),
        ("wire", record.wire.as_str().into()),
        ("provider", record.provider.as_str().into()),
        ("model", record.model.as_str().into()),
        ("agent", record.agent.as_str().into()),
        ("outcome", record.outcome.as_str().into()),
        ("status", record.status.into()),
        ("elapsedMs", millis(record.elapsed).into()),
        ("firstByteMs", json!(record.first_byte.map(millis))),
        ("addedMs", json!(record.added.map(millis))),
        ("inputTokens", tokens.input.into()),
        ("outputTokens", tokens.output.into()),
        ("cacheReadTokens", tokens.cache_read.into()),
        ("cacheWriteTokens", tokens.cache_write.into()),
        ("answerBytes", record.answer_bytes.into()),
        ("traceId", record.trace.trace_id.to_string().into()),
    ]
}

fn line(record: &RequestRecord) -> String {
    let mut line = "request:".to_owned();
    for (name, value) in fields(record) {
        match value {
            Value::Null => {}
            Value::String(word) => line.push_str(&format!(" {name}={word}")),
            other => line.push_str(&format!(" {name}={other}")),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use backstop::gateway::{Label, Outcome, Word};
    use backstop::hooks::Trace;
    use backstop::hooks::conversation::TokenUsage;

    use super::*;

    fn record() -> RequestRecord {
        let (method, operation, wire) = (Word::default(), Word::default(), Word::default());
        RequestRecord {
            at: SystemTime::UNIX_EPOCH,
            method,
            operation,
            wire,
            provider: Label::none(),
            model: Label::other(),
            agent: Label::none(),
            user: Label::none(),
            outcome: Outcome::Answered,
            status: 200,
            elapsed: Duration::from_micros(1_234_567),
            first_byte: None,
            added: None,
            tokens: TokenUsage::default(),
            cost_micros: 0,
            answer_bytes: 7,
            request_headers_left_out: 0,
            answer_headers_left_out: 0,
            trace: Trace::begin(None),
            conversation: None,
            calls: Vec::new(),
            parts: Vec::new(),
        }
    }

    #[test]
    fn a_log_that_nobody_reads_stalls_no_request_and_says_what_it_dropped() {
        let (written, hung) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(())));
        let (lines, gate) = (Arc::clone(&written), Arc::clone(&hung));
        let hangs = hung.lock().unwrap();
        let write = move |line: &str| {
            drop(gate.lock().unwrap());
            lines.lock().unwrap().push(line.to_owned());
        };
        let log = AccessLog::start(Format::Text, write).unwrap();
        // One line is being written, the queue holds the next ones, and the rest has no room.
        for _ in 0..QUEUE + 10 {
            log.ended(&record());
        }
        drop(hangs);
        drop(log);
        let written = written.lock().unwrap();
        let told =
            written.iter().find_map(|line| line.strip_prefix("warning: ")?.split(' ').next()?.parse().ok());
        let dropped: usize = told.unwrap();
        assert!((9..=10).contains(&dropped), "{dropped}");
        assert_eq!(written.len() - 1 + dropped, QUEUE + 10);
        assert!(written[0].contains(" status=200 elapsedMs=1234.567 inputTokens=0 "), "{}", written[0]);
    }
}
