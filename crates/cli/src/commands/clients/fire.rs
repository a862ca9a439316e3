//! Firing: the command in a client's configuration is started as the client would start it, and its answer is
//! looked at.
//!
//! Two events: a harmless call, which must get a whole answer, whatever policy says about it; and half of one,
//! which must be refused. Neither runs anything but the hook.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use backstop::clients::Client;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::timeout;

use crate::output::one_line;

/// The longest that an answer may take here.
const PATIENCE: Duration = Duration::from_secs(10);

/// Starts `command` with both events. What is wrong with the answers, if something is.
pub(super) async fn fire(client: Client, command: &str, folder: &Path) -> Result<(), String> {
    let sample = client.sample();
    let whole = start(command, sample.payload, folder).await?;
    if !is_whole(&whole) {
        return Err(format!("a harmless call got no answer that a client understands: {}", shown(&whole)));
    }
    let half: String = sample.payload.chars().take(sample.payload.chars().count() / 2).collect();
    let refused = start(command, &half, folder).await?;
    if !is_refusal(client, &refused) {
        return Err(format!("half an event was not refused: {}", shown(&refused)));
    }
    Ok(())
}

async fn start(command: &str, payload: &str, folder: &Path) -> Result<Output, String> {
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("it can't be started: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A hook that does not read to the end has answered already, or never will.
        let _ = stdin.write_all(payload.as_bytes()).await;
    }
    match timeout(PATIENCE, child.wait_with_output()).await {
        Ok(ended) => ended.map_err(|error| format!("its answer can't be read: {error}")),
        Err(_) => Err(format!("it did not answer within {} s", PATIENCE.as_secs())),
    }
}

/// Consent or refusal, and nothing else on stdout.
fn is_whole(ended: &Output) -> bool {
    let clean = ended.stdout.is_empty() || json(ended).is_some();
    match ended.status.code() {
        Some(0) => clean,
        Some(2) => clean && !ended.stderr.is_empty(),
        _ => false,
    }
}

fn is_refusal(client: Client, ended: &Output) -> bool {
    match client {
        // It looks at nothing but this.
        Client::Cline => json(ended).is_some_and(|said| said.get("cancel") == Some(&Value::Bool(true))),
        _ => ended.status.code() == Some(2) && !ended.stderr.is_empty(),
    }
}

fn json(ended: &Output) -> Option<Value> {
    serde_json::from_slice::<Value>(&ended.stdout).ok().filter(Value::is_object)
}

fn shown(ended: &Output) -> String {
    let code = ended.status.code().map_or_else(|| "a signal".to_owned(), |code| format!("exit code {code}"));
    match one_line(&String::from_utf8_lossy(&ended.stderr), 200) {
        said if said.is_empty() => code,
        said => format!("{code}, {said}"),
    }
}
