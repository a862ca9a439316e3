//! The decision: configuration, engine, answer, and the record of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop::clients::{ClientEvent, Reason, Reply, refuse, respond};
use backstop::config::Loaded;
use backstop::engine::Attendance;
use backstop::store::{SqliteStore, Store};
use backstop::store_path;

use crate::error::Error;
use crate::session::{Surroundings, builder, environment};

/// Takes the event through the hooks in force in the client's folder.
pub(super) async fn decide(
    event: &ClientEvent,
    started: Instant,
    surroundings: &Surroundings,
) -> Result<Reply, Error> {
    let loaded = surroundings.load_in(&folder(event)?)?;
    let attendance = attendance(event, &loaded);
    let path = store_path(&loaded, &environment)?;
    // What is not there can't hold what a proxy decided about the call; what can't be looked at may.
    let shared = path.try_exists().unwrap_or(true);
    let store: Arc<dyn Store> = Arc::new(SqliteStore::new(path));
    let backstop = builder(loaded).store(store).shared_decisions(shared).build().await?;
    let left = patience(event).saturating_sub(started.elapsed());
    let reply = match tokio::time::timeout(left, respond(backstop.engine(), event, &attendance)).await {
        Ok(reply) => reply,
        Err(_) => refuse(event, &late(event)),
    };
    let recorded = backstop.shut_down().await;
    if recorded || reply.answer.exit_code() != 0 {
        return Ok(reply);
    }
    Err(Error::Failed(
        "the audit trail can't be written\nhint: `backstop audit verify` says why; `audit.enabled: false` does without one"
            .to_owned(),
    ))
}

/// The folder in which the client works; repository files are looked for from there upward.
fn folder(event: &ClientEvent) -> Result<PathBuf, Error> {
    let said = event.frame.folder().map(Path::new);
    match said.filter(|folder| folder.is_absolute() && folder.is_dir()) {
        Some(folder) => Ok(folder.to_path_buf()),
        None => crate::session::working_directory(),
    }
}

/// A client that asks its own user is let to. Elsewhere the operator says whether to wait for an answer from
/// `backstop approvals`; without that the call is refused, with the code by which it can be allowed.
fn attendance(event: &ClientEvent, loaded: &Loaded) -> Attendance {
    if loaded.config.agent.approvals.wait.value && !event.frame.can_ask() {
        Attendance::Queue
    } else {
        Attendance::Nobody
    }
}

/// What the client waits, less what is needed to withdraw a question and to write the record.
fn patience(event: &ClientEvent) -> Duration {
    let whole = event.frame.client().facts().patience(event.frame.event());
    whole.saturating_sub((whole / 10).min(Duration::from_secs(2)))
}

fn late(event: &ClientEvent) -> Reason {
    Reason::new(&format!(
        "nobody answered in the time that {} waits for a hook. `backstop approvals list --all` shows the question, and `backstop allow-once` allows the call once, after which you may call it again",
        event.frame.client().title()
    ))
}
