//! What is done with the hooks in clients, and with the pin by which they judge, in the audit trail: of which client, in which files, and who put
//! them in or took them out.
//!
//! The entry is written once it is done. Where the trail can't tell of it, it is done nevertheless, since hooks that are there judge, and whoever
//! may take them out can edit the same files by hand: it is said, and the command fails. Where the trail is, the operator's configuration
//! says, and no repository's; where that can't be read, that is said, too. What ends half way is told as far as it went.
//!
//! What is installed for the whole machine is in no trail: each of its users has one, which belongs to the service and not to root.

use std::fmt::Display;
use std::sync::Arc;

use backstop::clients::install::Plan;
use backstop::store::{Durability, NewAuditEntry, Store, Timestamp};
use serde_json::{Value, json};

use super::install::{Settings, verb};
use super::scope_name;
use crate::commands::answerer;
use crate::error::Error;
use crate::output::Output;
use crate::session::Surroundings;

/// The trail to write in.
pub(in crate::commands) enum Trail {
    At(Arc<dyn Store>),
    /// The configuration wants none.
    Unwanted,
    /// Nobody knows where it is, since the configuration can't be read.
    Unknown(String),
    /// It is known where it is, and it can't be opened.
    Shut(String),
}

impl Trail {
    /// Finds the trail.
    pub(in crate::commands) fn of(surroundings: &Surroundings) -> Self {
        let loaded = match surroundings.load_operators() {
            Ok(operators) => operators.loaded,
            Err(error) => return Self::Unknown(error.to_string()),
        };
        if !loaded.config.audit.enabled.value {
            return Self::Unwanted;
        }
        match surroundings.store(&loaded) {
            Ok(store) => Self::At(store),
            Err(error) => Self::Shut(error.to_string()),
        }
    }

    /// Says in the trail what was done with the hooks of a client: the changes of the plan, or those that were made before it failed.
    ///
    /// # Errors
    ///
    /// It is done, and the trail does not tell.
    pub(super) async fn tell(
        &self,
        plan: &Plan,
        failed_after: Option<usize>,
        settings: &Settings,
        output: &Output,
    ) -> Result<(), Error> {
        let (kind, done) = match settings.remove {
            true => ("client.removed", "taken out"),
            false => ("client.installed", "installed"),
        };
        let in_part = if failed_after.is_some() { " in part" } else { "" };
        let done = format!("the hooks of {} are {done}{in_part}", plan.client.title());
        let files = plan.changes.iter().take(failed_after.unwrap_or(usize::MAX));
        let files: Vec<_> = files
            .map(|change| json!({ "path": change.path.display().to_string(), "action": verb(change) }))
            .collect();
        let mut body = json!({
            "client": plan.client.name(), "scope": scope_name(settings.scope), "files": files,
            "by": answerer::who("the command line"),
        });
        if let (true, Some(body)) = (failed_after.is_some(), body.as_object_mut()) {
            body.insert("failed".to_owned(), true.into());
        }
        self.write(kind, body, &done, output).await
    }

    /// Says something in the trail that is done already.
    ///
    /// # Errors
    ///
    /// It is done, and the trail does not tell.
    pub(in crate::commands) async fn write(
        &self,
        kind: &str,
        body: Value,
        done: &str,
        output: &Output,
    ) -> Result<(), Error> {
        let untold = |error: &dyn Display| {
            Error::Failed(format!("{done}, but the audit trail can't tell so: {error}"))
        };
        let store = match self {
            Self::At(store) => store,
            Self::Unwanted => return Ok(()),
            Self::Unknown(why) => {
                output.say(&format!(
                    "warning: the audit trail does not tell of this, since the configuration can't be read: {why}"
                ));
                return Ok(());
            }
            Self::Shut(why) => return Err(untold(why)),
        };
        let (at, kind) = (Timestamp::now(), kind.to_owned());
        let entry = NewAuditEntry { at, kind, session: None, run: None, body: body.into() };
        store.append_audit_all(vec![entry], Durability::Now).await.map_err(|error| untold(&error))?;
        // Who ends at once signs first: what is unsigned later looks as if its process had been killed.
        let _ = store.conclude_audit().await;
        Ok(())
    }
}
