//! What is done with the hooks in clients, in the audit trail: of which client, in which files, and who put them in or took them out.
//!
//! The entry is written once it is done. Where the trail can't tell of it, it is done nevertheless, since hooks that are there judge, and whoever
//! may take them out can edit the same files by hand: it is said, and the command fails. Where the trail is, the operator's configuration
//! says, and no repository's; where that can't be read, that is said, too.
//!
//! What is installed for the whole machine is in no trail: each of its users has one, which belongs to the service and not to root.

use std::sync::Arc;

use backstop::clients::install::Plan;
use backstop::store::{Durability, NewAuditEntry, Store, Timestamp};
use serde_json::json;

use super::install::{Settings, verb};
use super::scope_name;
use crate::commands::answerer;
use crate::error::Error;
use crate::output::Output;
use crate::session::Surroundings;

/// The trail to write in.
pub(super) enum Trail {
    At(Arc<dyn Store>),
    /// The configuration wants none.
    Unwanted,
    /// Nobody knows where it is, since the configuration can't be read.
    Unknown(String),
}

impl Trail {
    /// Finds the trail.
    pub(super) fn of(surroundings: &Surroundings) -> Self {
        let found = surroundings.load_operators().and_then(|operators| {
            let loaded = operators.loaded;
            loaded.config.audit.enabled.value.then(|| surroundings.store(&loaded)).transpose()
        });
        match found {
            Ok(Some(store)) => Self::At(store),
            Ok(None) => Self::Unwanted,
            Err(error) => Self::Unknown(error.to_string()),
        }
    }

    /// Says in the trail what was done with the hooks of a client.
    ///
    /// # Errors
    ///
    /// It is done, and the trail does not tell.
    pub(super) async fn tell(&self, plan: &Plan, settings: &Settings, output: &Output) -> Result<(), Error> {
        let store = match self {
            Self::At(store) => store,
            Self::Unwanted => return Ok(()),
            Self::Unknown(why) => {
                output.say(&format!(
                    "warning: the audit trail does not tell of this, since the configuration can't be read: {why}"
                ));
                return Ok(());
            }
        };
        let (kind, done) = match settings.remove {
            true => ("client.removed", "taken out"),
            false => ("client.installed", "installed"),
        };
        let files = plan.changes.iter();
        let files: Vec<_> = files
            .map(|change| json!({ "path": change.path.display().to_string(), "action": verb(change) }))
            .collect();
        let body = json!({
            "client": plan.client.name(), "scope": scope_name(settings.scope), "files": files,
            "by": answerer::who("the command line"),
        });
        let (at, kind) = (Timestamp::now(), kind.to_owned());
        let entry = NewAuditEntry { at, kind, session: None, run: None, body: body.into() };
        store.append_audit_all(vec![entry], Durability::Now).await.map_err(|error| {
            Error::Failed(format!(
                "the hooks of {} are {done}, but the audit trail can't tell so: {error}",
                plan.client.title()
            ))
        })?;
        // Who ends at once signs first: what is unsigned later looks as if its process had been killed.
        let _ = store.conclude_audit().await;
        Ok(())
    }
}
