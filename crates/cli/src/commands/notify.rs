//! Telling a person that a question waits, where their terminal belongs to another program.
//!
//! It is told on the desktop. A terminal is written to only where the operator asks for it: what is written there is in the midst of
//! what the program writes, and a sequence that it has half written is broken by it.
//!
//! A notification says that there is a question and which tool it is about. What the call holds, and the code by which
//! it is answered, is shown by `backstop approvals`: notifications are kept and passed on by other programs.

use std::collections::HashSet;
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use backstop::config::Notify;
use backstop::engine::{AskFuture, Asker};
use backstop::hooks::ApprovalId;
use backstop::store::{AnswerStore, ApprovalFilter, ApprovalRecord, Timestamp};
use rustix::fs::{Mode, OFlags};
use tokio::process::Command;

/// The program that shows notifications on the desktop. Not looked for in `PATH`, which agents choose.
const NOTIFY: &str = "/usr/bin/notify-send";

/// How often it is looked whether a question waits.
const LOOK: Duration = Duration::from_millis(500);
/// The most questions that are looked at.
const MOST: usize = 99;
/// What a terminal is told. Nothing of a call is in it, so that no call can write to a terminal by it.
const SAID: &str = "An agent's call waits for you: backstop approvals list";

/// Tells of a question on the desktop, if that is wanted and there is one, and leaves it to whoever answers elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notifier(pub(crate) Notify);

impl Asker for Notifier {
    fn ask<'a>(&'a self, record: &'a ApprovalRecord) -> AskFuture<'a> {
        if self.0 == Notify::Desktop {
            tell(record);
        }
        Box::pin(std::future::ready(None))
    }

    fn name(&self) -> &str {
        "nobody"
    }
}

/// Tells the terminal of this process of each question that comes, for as long as this is not dropped. Nothing is told where the
/// operator wants no such thing, and where there is no terminal. `filed` are those that were asked already, or denied for want of an
/// answer.
pub(super) async fn ring(
    notify: Notify,
    filed: impl Fn() -> Vec<ApprovalId>,
    answers: &dyn AnswerStore,
) -> Infallible {
    let Some(bytes) = bytes(notify) else { return std::future::pending().await };
    let since = Timestamp::now();
    let mut told = HashSet::new();
    let mut is_open = false;
    loop {
        // One that can't be read is told of by whoever is asked.
        let waiting = answers.approvals(ApprovalFilter::Pending, MOST).await.unwrap_or_default();
        let waiting =
            waiting.into_iter().filter(|record| record.request.created_at >= since).map(|record| record.id);
        let new = filed().into_iter().chain(waiting).filter(|id| told.insert(id.clone())).count();
        let said = if is_open { END } else { bytes.as_str() };
        if is_open || new > 0 {
            // A terminal that has gone has nobody to tell.
            is_open = on_terminal(said).unwrap_or(Written::Nothing).leaves_open(is_open);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What a terminal is sent.
fn bytes(notify: Notify) -> Option<String> {
    match notify {
        Notify::Off | Notify::Desktop => None,
        Notify::Bell => Some("\x07".to_owned()),
        Notify::Osc9 => Some(format!("\x1b]9;{SAID}\x07")),
        Notify::Osc777 => Some(format!("\x1b]777;notify;Backstop;{SAID}\x07")),
    }
}

/// What ends a sequence, and rings where there is none.
const END: &str = "\x07";

/// How much of something was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    All,
    /// Of a sequence, what the terminal would read on as if the program's own output belonged to it.
    Beginning,
    Nothing,
}

impl Written {
    /// Whether a sequence waits for its end, if one did before.
    fn leaves_open(self, did_before: bool) -> bool {
        match self {
            Self::All => false,
            Self::Beginning => true,
            Self::Nothing => did_before,
        }
    }
}

/// Writes at once what can be: what comes in two parts may have the program's output between them.
fn write_once(mut to: impl io::Write, text: &str) -> Written {
    match to.write(text.as_bytes()) {
        Ok(written) if written >= text.len() => Written::All,
        Ok(0) | Err(_) => Written::Nothing,
        // If this can't be written either, it is tried again.
        Ok(_) => match to.write(END.as_bytes()) {
            Ok(1) => Written::All,
            _ => Written::Beginning,
        },
    }
}

/// Writes to the terminal that this process was started on, without waiting: one whose user holds it must not hold up a run.
fn on_terminal(text: &str) -> io::Result<Written> {
    let (error, output) = (io::stderr().is_terminal(), io::stdout().is_terminal());
    let own = match (error, output) {
        (true, _) => "/dev/fd/2",
        (_, true) => "/dev/fd/1",
        _ => return Err(io::ErrorKind::NotFound.into()),
    };
    // Opened anew, so that the program's own descriptor still waits.
    let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let terminal = File::from(rustix::fs::open(own, flags, Mode::empty())?);
    Ok(write_once(&terminal, text))
}

fn tell(record: &ApprovalRecord) {
    let has_desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    if !has_desktop || !Path::new(NOTIFY).exists() {
        return;
    }
    let mut command = Command::new(NOTIFY);
    command.args(arguments(record)).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // That nothing is shown is no failure: the question is in the list.
    let _ = command.spawn();
}

fn arguments(record: &ApprovalRecord) -> Vec<String> {
    let tool = &record.request.tool_name;
    [
        "--app-name=Backstop".to_owned(),
        "--".to_owned(),
        "An agent's call waits for you".to_owned(),
        format!("It calls {tool}. `backstop approvals list` shows what waits."),
    ]
    .into()
}

#[cfg(test)]
mod tests {
    use backstop::hooks::Digest;
    use serde_json::json;

    use super::*;

    /// A terminal that takes so many bytes of each write.
    struct Full(Vec<usize>, String);

    impl io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let free = self.0.pop().ok_or(io::ErrorKind::WouldBlock)?.min(bytes.len());
            self.1.push_str(std::str::from_utf8(&bytes[..free]).unwrap());
            Ok(free)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_sequence_that_was_cut_off_is_ended_and_not_gone_on_with() {
        let said = bytes(Notify::Osc9).unwrap();
        for (free, written, expected) in [
            (vec![99], Written::All, said.as_str()),
            (vec![1, 5], Written::All, "\x1b]9;A\x07"),
            (vec![5], Written::Beginning, "\x1b]9;A"),
            (vec![], Written::Nothing, ""),
        ] {
            let mut full = Full(free, String::new());
            assert_eq!(write_once(&mut full, &said), written);
            assert_eq!(full.1, expected);
        }
        assert!(Written::Beginning.leaves_open(false) && Written::Nothing.leaves_open(true));
        assert!(!Written::All.leaves_open(true) && !Written::Nothing.leaves_open(false));
    }

    #[test]
    fn a_notification_holds_neither_the_call_nor_the_code() {
        let record: ApprovalRecord = serde_json::from_value(json!({
            "id": "id-1", "code": "K7Q2MX", "agent": "main", "sessionKey": "k", "session": "s", "run": null,
            "call": "c", "toolName": "exec", "digest": Digest::of_text("tool_call", "x"), "title": "SECRET?",
            "description": "SECRET", "severity": "warning", "reasons": [], "preview": {"command": "SECRET"},
            "allowedDecisions": ["deny"], "createdAt": 1, "expiresAt": 2, "timeoutBehavior": "deny",
            "state": {"status": "pending"},
        }))
        .unwrap();
        let shown = arguments(&record).join(" ");
        assert!(shown.contains("exec") && shown.contains("backstop approvals list"), "{shown}");
        assert!(!shown.contains("SECRET") && !shown.contains("K7Q2MX"), "{shown}");
    }
}
