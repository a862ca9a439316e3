//! The pipe to the host: what is said goes out as one line, what is asked waits for its answer.

use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::Failure;
use super::wire::MOST_LINE;

/// What the host answered.
pub(super) type Reply = Result<Value, Failure>;

/// Who waits for an answer.
enum Waiter {
    /// A thread.
    Now(mpsc::SyncSender<Reply>),
    /// A task.
    Later(oneshot::Sender<Reply>),
}

/// See the module.
pub(super) struct Pipe {
    output: Mutex<Box<dyn Write + Send>>,
    waiting: Mutex<HashMap<u64, Waiter>>,
    last: AtomicU64,
}

fn gone() -> Failure {
    Failure { message: "the host has gone".to_owned(), data: Value::Null }
}

impl Pipe {
    pub(super) fn new(output: impl Write + Send + 'static) -> Self {
        Self { output: Mutex::new(Box::new(output)), waiting: Mutex::default(), last: AtomicU64::new(0) }
    }

    /// Says something. A host that has gone has closed what is read from it, too.
    pub(super) fn say(&self, message: &Value) {
        let _ = self.write(message.to_string());
    }

    fn write(&self, message: String) -> Result<(), Failure> {
        let mut line = message.into_bytes();
        if line.len() >= MOST_LINE {
            let message = format!("it has {} bytes; the most is {MOST_LINE}", line.len());
            return Err(Failure { message, data: json!({ "code": "E2BIG" }) });
        }
        line.push(b'\n');
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        output.write_all(&line).and_then(|()| output.flush()).map_err(|_| gone())
    }

    fn ask(&self, method: &str, params: &str, waiter: Option<Waiter>) -> (u64, Result<(), Failure>) {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(waiter) = waiter {
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(id, waiter);
        }
        let asked =
            self.write(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#));
        if asked.is_err() {
            self.forget(id);
        }
        (id, asked)
    }

    /// Tells the host what needs no answer.
    pub(super) fn tell(&self, method: &str, params: &Value) {
        // A host that has gone has closed what is read from it, too.
        let _ = self.ask(method, &params.to_string(), None);
    }

    /// Asks, and waits for the answer on this thread. `params` are JSON, in one line.
    pub(super) fn ask_now(&self, method: &str, params: &str) -> Reply {
        let (sender, answer) = mpsc::sync_channel(1);
        self.ask(method, params, Some(Waiter::Now(sender))).1?;
        answer.recv().map_err(|_| gone())?
    }

    /// Asks, in JSON of one line. The answer comes with the second.
    pub(super) fn ask_later(
        &self,
        method: &str,
        params: &str,
    ) -> Result<(u64, oneshot::Receiver<Reply>), Failure> {
        let (sender, answer) = oneshot::channel();
        let (id, asked) = self.ask(method, params, Some(Waiter::Later(sender)));
        asked.map(|()| (id, answer))
    }

    /// The host has answered.
    pub(super) fn answered(&self, id: u64, reply: Reply) {
        // Who has gone in the meantime misses nothing.
        match self.forget(id) {
            Some(Waiter::Now(waiter)) => drop(waiter.send(reply)),
            Some(Waiter::Later(waiter)) => drop(waiter.send(reply)),
            None => {}
        }
    }

    /// Nobody waits for this any more.
    pub(super) fn forgotten(&self, id: u64) {
        drop(self.forget(id));
    }

    fn forget(&self, id: u64) -> Option<Waiter> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&id)
    }
}
