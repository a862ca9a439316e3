//! What is done with plugins, in the audit trail: who installed what, as which content.
//!
//! The entry is written once it is done. Where the trail is, the operator's configuration says, and no repository's. Where that can't be
//! read, as after a plugin that it speaks of was taken away, what gives a plugin nothing is done nevertheless, and it is told that the trail
//! does not say so; the rest is refused.

use std::sync::Arc;

use backstop::config::Loaded;
use backstop::plugins::Installed;
use backstop::store::{Durability, NewAuditEntry, Store, Timestamp};
use serde_json::json;

use crate::commands::answerer;
use crate::error::Error;
use crate::output::Output;
use crate::session::Surroundings;

/// What was done.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deed {
    Installed,
    Trusted,
    SwitchedOn,
    SwitchedOff,
    Removed,
}

impl Deed {
    /// Whether a plugin does more afterwards than before.
    const fn gives(self) -> bool {
        match self {
            Self::Installed | Self::Trusted | Self::SwitchedOn => true,
            Self::SwitchedOff | Self::Removed => false,
        }
    }

    /// What its user is told.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Installed => "installed",
            Self::Trusted => "trusted",
            Self::SwitchedOn => "switched on",
            Self::SwitchedOff => "switched off",
            Self::Removed => "removed",
        }
    }

    /// The kind of its entry.
    const fn kind(self) -> &'static str {
        match self {
            Self::Installed => "plugin.installed",
            Self::Trusted => "plugin.trusted",
            Self::SwitchedOn => "plugin.enabled",
            Self::SwitchedOff => "plugin.disabled",
            Self::Removed => "plugin.removed",
        }
    }
}

/// The trail to write in, as it was before anything was done.
pub(super) struct Records {
    deed: Deed,
    trail: Trail,
}

enum Trail {
    At(Arc<dyn Store>),
    /// The configuration wants none.
    Unwanted,
    /// Nobody knows where it is, since the configuration can't be read.
    Unknown(String),
}

impl Records {
    /// Finds the trail, and that an entry could be written now.
    ///
    /// # Errors
    ///
    /// The trail can't be found or written: nothing is done then.
    pub(super) async fn open(deed: Deed, surroundings: &Surroundings) -> Result<Self, Error> {
        Self::at(deed, surroundings.load_operators().map(|operators| operators.loaded), surroundings).await
    }

    /// As [`open`](Self::open), where the configuration was read already.
    pub(super) async fn at(
        deed: Deed,
        loaded: Result<Loaded, Error>,
        surroundings: &Surroundings,
    ) -> Result<Self, Error> {
        let trail = match loaded {
            Ok(loaded) if loaded.config.audit.enabled.value => {
                let store = surroundings.store(&loaded)?;
                store.check_writable().await?;
                Trail::At(store)
            }
            Ok(_) => Trail::Unwanted,
            Err(error) if deed.gives() => return Err(error),
            Err(error) => Trail::Unknown(error.to_string()),
        };
        Ok(Self { deed, trail })
    }

    /// Says in the trail what was done with a plugin.
    ///
    /// # Errors
    ///
    /// It is done, and the trail does not tell.
    pub(super) async fn tell(&self, plugin: &Installed, output: &Output) -> Result<(), Error> {
        let deed = self.deed;
        let store = match &self.trail {
            Trail::At(store) => store,
            Trail::Unwanted => return Ok(()),
            Trail::Unknown(why) => {
                output.say(&format!(
                    "warning: the audit trail does not tell of this, since the configuration can't be read: {why}"
                ));
                return Ok(());
            }
        };
        let record = &plugin.record;
        let body = json!({
            "plugin": plugin.id, "version": record.version, "hash": record.hash, "by": answerer::who("the command line"),
        });
        let (at, kind) = (Timestamp::now(), deed.kind().to_owned());
        let entry = NewAuditEntry { at, kind, session: None, run: None, body: body.into() };
        store.append_audit_all(vec![entry], Durability::Now).await.map_err(|error| {
            Error::Failed(format!(
                "`{}` is {}, but the audit trail can't tell so: {error}",
                plugin.id,
                deed.words()
            ))
        })?;
        // Who ends at once signs first: what is unsigned later looks as if its process had been killed.
        let _ = store.conclude_audit().await;
        Ok(())
    }
}
