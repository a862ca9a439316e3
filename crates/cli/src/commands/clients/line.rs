//! The status line of a client in which Backstop is installed for good: what of its session was judged.
//!
//! The client starts this program with the word [`STATUS_WORD`](backstop::clients::install::STATUS_WORD) and tells its session;
//! the audit trail says what became of the session's calls. It says that it guards only where a call of this session was heard of.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};

use backstop::hooks::SessionId;
use backstop::store::{ApprovalFilter, AuditEntry, AuditFilter, Store};
use serde_json::Value;

use super::heard::MOST_ENTRIES;
use crate::commands::gateway::banner::{MOST_CHARS, MOST_TAKEN, MOST_WAITING, guarded, waits};
use crate::commands::gateway::watch::Counted;
use crate::commands::hook::folders_of;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::one_line;
use crate::session::{OperatorFolders, Surroundings, working_directory};

/// Prints the line. What is wrong stands in it: a client shows nothing of a command that fails.
pub(in crate::commands) async fn run(folders: Option<OperatorFolders>, surroundings: &Surroundings) -> Exit {
    let mut given = String::new();
    // Without a session there is no count.
    let _ = std::io::stdin().lock().take(MOST_TAKEN).read_to_string(&mut given);
    let given: Value = serde_json::from_str(&given).unwrap_or_default();
    let session = given.get("session_id").and_then(Value::as_str).filter(|session| !session.is_empty());
    let said = match folders_of(folders) {
        Ok(folders) => line(session.map(SessionId::new), &surroundings.fixed(folders)).await,
        Err(error) => Err(error),
    };
    let line =
        said.unwrap_or_else(|error| format!("backstop: calls are refused, run `backstop doctor`: {error}"));
    let _ = writeln!(std::io::stdout().lock(), "{}", one_line(&line, MOST_CHARS));
    Exit::Success
}

async fn line(session: Option<SessionId>, surroundings: &Surroundings) -> Result<String, Error> {
    let loaded = surroundings.load_over(surroundings.load_operators()?, &working_directory()?)?;
    let profile = loaded.config.guards.command_safety.profile.value.name();
    let store = surroundings.store(&loaded)?;
    let waiting = store.approvals(ApprovalFilter::Pending, MOST_WAITING).await?.len();
    let counted = match session {
        Some(session) => counted(store.as_ref(), session).await?,
        None => Counted::default(),
    };
    if counted.judged > 0 {
        return Ok(guarded(profile, counted, waiting));
    }
    let heard = match loaded.config.audit.enabled.value {
        true => "no call of this session was heard of yet",
        false => "calls are not counted without an audit trail",
    };
    Ok(format!("backstop ({profile}) \u{b7} {heard}{}", waits(waiting)))
}

/// What became of the calls of a session, each once, whatever it was reported as.
async fn counted(store: &dyn Store, session: SessionId) -> Result<Counted, Error> {
    let after = store.audit_head().await?.seq.saturating_sub(MOST_ENTRIES as u64);
    let filter =
        AuditFilter { kind: Some("receipt".to_owned()), session: Some(session), ..AuditFilter::default() };
    let entries = store.audit(&filter, after, MOST_ENTRIES).await?;
    let calls: BTreeMap<String, Became> = entries.iter().filter_map(call).collect();
    let of = |wanted| calls.values().filter(|became| **became == wanted).count() as u64;
    Ok(Counted { judged: calls.len() as u64, blocked: of(Became::Blocked), asked: of(Became::Asked) })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Became {
    Passed,
    Blocked,
    Asked,
}

fn call(entry: &AuditEntry) -> Option<(String, Became)> {
    let text = |name: &str| entry.body.get(name).and_then(Value::as_str);
    if text("point") != Some("before_tool_call") {
        return None;
    }
    let id = text("toolCallId").map_or_else(|| entry.seq.to_string(), str::to_owned);
    let became = match (entry.body.get("approval"), text("verdict")) {
        (Some(_), _) => Became::Asked,
        (None, Some("block")) => Became::Blocked,
        (None, _) => Became::Passed,
    };
    Some((id, became))
}
