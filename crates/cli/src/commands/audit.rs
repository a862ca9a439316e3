//! `backstop audit`.

use backstop::store::{AuditEntry, AuditFilter, Store};
use serde_json::{Value, json};

use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Output, Style, one_line, table};
use crate::session::Surroundings;

/// What is asked.
#[derive(Debug)]
pub(crate) enum Settings {
    /// Entries, the oldest first.
    List { session: Option<String>, after: u64, limit: usize },
    /// Whether the trail is whole.
    Verify,
}

pub(super) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    let store = surroundings.only_store()?;
    let output = &surroundings.output;
    match settings {
        Settings::List { session, after, limit } => {
            let filter = AuditFilter { session: session.map(Into::into), ..AuditFilter::default() };
            list(store.as_ref(), &filter, after, limit, output).await?;
        }
        Settings::Verify => {
            let head = store.verify_audit().await?;
            if output.is_json() {
                output.json(&json!({ "ok": true, "entries": head.seq, "digest": head.digest }))?;
            } else {
                let whole = output.paint().with(Style::Good, "the audit trail is whole");
                output.text(&format!("{whole}: {} entries, head {}", head.seq, head.digest.short()))?;
            }
        }
    }
    Ok(Exit::Success)
}

async fn list(
    store: &dyn Store,
    filter: &AuditFilter,
    after: u64,
    limit: usize,
    output: &Output,
) -> Result<(), Error> {
    let entries = store.audit(filter, after, limit).await?;
    if output.is_json() {
        return Ok(output.json(&entries)?);
    }
    if entries.is_empty() {
        output.say("there are no entries");
        return Ok(());
    }
    let heads = ["number", "time", "point", "tool", "verdict", "by", "hooks"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(entries.iter().map(row));
    Ok(output.text(&table(&rows))?)
}

fn row(entry: &AuditEntry) -> Vec<String> {
    let word = |pointer: &str| {
        entry
            .body
            .pointer(pointer)
            .and_then(Value::as_str)
            .map_or_else(|| "-".to_owned(), |text| one_line(text, 60))
    };
    let verdict = match entry.body.get("lost").and_then(Value::as_u64) {
        Some(lost) => format!("{lost} receipts are missing here"),
        None => word("/verdict"),
    };
    let steps = entry.body.get("steps").and_then(Value::as_array).map_or(0, Vec::len);
    vec![
        entry.seq.to_string(),
        entry.at.to_string(),
        if entry.kind == "receipt" { word("/point") } else { one_line(&entry.kind, 24) },
        word("/tool"),
        verdict,
        word("/blocked/hook"),
        steps.to_string(),
    ]
}
