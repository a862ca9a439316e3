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
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use backstop::config::Notify;
use backstop::engine::{AskFuture, Asker};
use backstop::hooks::ApprovalId;
use backstop::store::{AnswerStore, ApprovalFilter, ApprovalRecord, Timestamp};
use rustix::fs::{Mode, OFlags};
use tokio::process::Command;

use crate::output::one_line;

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
    loop {
        // One that can't be read is told of by whoever is asked.
        let waiting = answers.approvals(ApprovalFilter::Pending, MOST).await.unwrap_or_default();
        let waiting =
            waiting.into_iter().filter(|record| record.request.created_at >= since).map(|record| record.id);
        let new = filed().into_iter().chain(waiting).filter(|id| told.insert(id.clone())).count();
        if new > 0 {
            // A terminal that has gone has nobody to tell.
            let _ = on_terminal(&bytes);
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

/// Writes to the terminal that this process was started on, at once or not at all: one whose user holds it must not hold up a
/// run.
fn on_terminal(bytes: &str) -> io::Result<()> {
    let (error, output) = (io::stderr().is_terminal(), io::stdout().is_terminal());
    let own = match (error, output) {
        (true, _) => "/dev/fd/2",
        (_, true) => "/dev/fd/1",
        _ => return Err(io::ErrorKind::NotFound.into()),
    };
    // Opened anew, so that the program's own descriptor still waits.
    let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let terminal = File::from(rustix::fs::open(own, flags, Mode::empty())?);
    (&terminal).write_all(bytes.as_bytes())
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
    let tool = one_line(&format!("{:#}", record.request.tool_name), 60);
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
