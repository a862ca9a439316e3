//! Asking the human at the terminal.
//!
//! The question is in the store already and may be answered from another terminal meanwhile; the engine then drops
//! this one, and the terminal is as it was.

use std::io::{self, Write as _};
use std::time::Duration;

use backstop::engine::{AskFuture, Asker};
use backstop::hooks::Decision;
use backstop::store::{ApprovalRecord, Timestamp};

use super::keyboard::{Keyboard, SingleKeys};
use crate::commands::approvals::{question, who};
use crate::output::{Paint, Style, in_future};

/// Asks on stderr, takes the answer from the keyboard.
#[derive(Debug)]
pub(crate) struct TerminalAsker {
    keyboard: Keyboard,
    paint: Paint,
    who: String,
}

impl TerminalAsker {
    pub(crate) fn new(keyboard: Keyboard, paint: Paint) -> Self {
        Self { keyboard, paint, who: who() }
    }

    async fn answer(&self, record: &ApprovalRecord) -> Option<Decision> {
        let shown = Shown::begin(record, self.paint);
        let mut forget = true;
        loop {
            shown.countdown(record);
            let key = tokio::select! {
                key = self.keyboard.key(forget) => key?,
                () = tokio::time::sleep(Duration::from_secs(1)) => {
                    forget = false;
                    continue;
                }
            };
            forget = false;
            let decision = match key {
                b'a' | b'y' => Decision::AllowOnce,
                b'A' => Decision::AllowAlways,
                b'd' | b'n' => Decision::Deny,
                _ => continue,
            };
            if decision == Decision::Deny || record.request.allowed_decisions.contains(&decision) {
                return Some(decision);
            }
        }
    }
}

impl Asker for TerminalAsker {
    fn ask<'a>(&'a self, record: &'a ApprovalRecord) -> AskFuture<'a> {
        Box::pin(self.answer(record))
    }

    fn name(&self) -> &str {
        &self.who
    }
}

/// The question on the screen; gone from it in one piece, however the asking ends.
struct Shown {
    paint: Paint,
    keys: Option<SingleKeys>,
}

impl Shown {
    fn begin(record: &ApprovalRecord, paint: Paint) -> Self {
        let text = question(record, Timestamp::now(), paint);
        let _ = write!(io::stderr().lock(), "\n{text}");
        Self { paint, keys: SingleKeys::on() }
    }

    fn countdown(&self, record: &ApprovalRecord) {
        let offered = &record.request.allowed_decisions;
        let mut keys = Vec::new();
        for (decision, key) in [
            (Decision::AllowOnce, "a allow once"),
            (Decision::AllowAlways, "A allow always"),
            (Decision::Deny, "d deny"),
        ] {
            if decision == Decision::Deny || offered.contains(&decision) {
                keys.push(key);
            }
        }
        let expires = in_future(Timestamp::now(), record.request.expires_at);
        let line = format!("  {} (expires {expires}) ", self.paint.with(Style::Name, keys.join(" · ")));
        let mut talk = io::stderr().lock();
        // Back to the start of the line, and clear it: this is only reached where stderr is a terminal.
        let _ = write!(talk, "\r\u{1b}[2K{line}").and_then(|()| talk.flush());
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.keys.take();
        let _ = writeln!(io::stderr().lock());
    }
}
