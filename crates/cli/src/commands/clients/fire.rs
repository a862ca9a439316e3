//! Firing: the command in a client's configuration is started as the client would start it, and its answer is
//! looked at.
//!
//! Three events: a harmless call, which must pass; a stand-in of a bad one, which must be refused; and half of one,
//! which must be refused, too. None of them runs anything but the hook.

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

/// A command that does nothing, and must pass.
const HARMLESS: &str = "true";
/// A command that every profile refuses, and that does nothing either where it runs all the same: there is no such device.
const STAND_IN: &str = "mkfs.ext4 /dev/mapper/backstop-doctor-stand-in";

/// Starts `command` with each event. What is wrong with the answers, if something is.
pub(crate) async fn fire(client: Client, command: &str, folder: &Path) -> Result<(), String> {
    let sample = client.sample();
    let harmless = start(client, command, &sample.with(HARMLESS), folder).await?;
    if !is_whole(&harmless) {
        return Err(format!("a harmless call got no answer that a client understands: {}", shown(&harmless)));
    }
    if !is_pass(&harmless) {
        return Err(format!("a harmless call was refused: {}", shown(&harmless)));
    }
    let bad = start(client, command, &sample.with(STAND_IN), folder).await?;
    if !is_refusal(client, &bad) {
        return Err(format!(
            "a call that nothing should let pass was not refused, so calls are not judged: {}",
            shown(&bad)
        ));
    }
    let half: String = sample.payload.chars().take(sample.payload.chars().count() / 2).collect();
    let refused = start(client, command, &half, folder).await?;
    if !is_refusal(client, &refused) {
        return Err(format!("half an event was not refused: {}", shown(&refused)));
    }
    Ok(())
}

/// The shell that the client gives its commands to.
fn shell(client: Client) -> &'static str {
    match client {
        Client::Copilot => "bash",
        _ => "/bin/sh",
    }
}

async fn start(client: Client, command: &str, payload: &str, folder: &Path) -> Result<Output, String> {
    let mut child = Command::new(shell(client))
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

/// Consent: nothing is said against it.
fn is_pass(ended: &Output) -> bool {
    const AGAINST: [&str; 5] = ["deny", "ask", "block", "cancel", "reject"];
    let says = |value: &Value| match value {
        Value::String(word) => AGAINST.contains(&word.as_str()),
        _ => false,
    };
    let mut pending: Vec<Value> = json(ended).into_iter().collect();
    while let Some(value) = pending.pop() {
        if says(&value) {
            return false;
        }
        match value {
            Value::Object(fields) if fields.get("cancel") == Some(&Value::Bool(true)) => return false,
            Value::Object(fields) => pending.extend(fields.into_iter().map(|(_, field)| field)),
            Value::Array(items) => pending.extend(items),
            _ => {}
        }
    }
    ended.status.code() == Some(0)
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
