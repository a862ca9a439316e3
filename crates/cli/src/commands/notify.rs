//! Telling a person that a question waits, where their terminal belongs to another program.
//!
//! A notification says that there is a question and which tool it is about. What the call holds, and the code by which
//! it is answered, is shown by `backstop approvals`: notifications are kept and passed on by other programs.

use std::path::Path;
use std::process::Stdio;

use backstop::engine::{AskFuture, Asker};
use backstop::store::ApprovalRecord;
use tokio::process::Command;

use crate::output::one_line;

/// The program that shows notifications on the desktop. Not looked for in `PATH`, which agents choose.
const NOTIFY: &str = "/usr/bin/notify-send";

/// Tells of a question on the desktop, if there is one, and leaves it to whoever answers elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notifier;

impl Asker for Notifier {
    fn ask<'a>(&'a self, record: &'a ApprovalRecord) -> AskFuture<'a> {
        tell(record);
        Box::pin(std::future::ready(None))
    }

    fn name(&self) -> &str {
        "nobody"
    }
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
