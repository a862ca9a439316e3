//! The configuration in the trail: which one judged what, from where to where.
//!
//! Receipts name the hooks that were asked; what these were told to do, the entry before them says that has the same process. It holds
//! names and digests: of the values as they are written, and of the files that they name (rule packs, catalogues, scripts). What variables
//! of the environment hold is in none of them; which content a plugin has, the entry about its installation says. Where digests of what was judged
//! are keyed from here on, it says by which key.

use backstop_store::{AppendAuditError, Durability, NewAuditEntry, Timestamp};
use serde_json::json;

use crate::{Backstop, Pin};

/// The kind of the entry for a configuration that comes into force in a process.
pub const CONFIGURATION_READ: &str = "configuration.read";

/// Why a configuration comes into force.
#[derive(Clone, Copy, Debug)]
pub struct Cause<'a> {
    /// What came before it, such as the start of the process.
    pub what: &'a str,
    /// Who wanted it, if it was a person or a token.
    pub by: Option<&'a str>,
}

impl Backstop {
    /// Says in the trail that this configuration judges in this process from here on, with these plugins, and why. For processes
    /// that live long. Where there is no trail, nothing is said.
    ///
    /// # Errors
    ///
    /// [`AppendAuditError`] if the entry is not on the disk.
    pub async fn announce_configuration(&self, cause: Cause<'_>) -> Result<(), AppendAuditError> {
        if self.audit().is_none() {
            return Ok(());
        }
        let loaded = self.config();
        let files: Vec<&String> = loaded.layers.iter().map(|(_, file)| file).collect();
        #[cfg(feature = "plugins")]
        let plugins: Vec<String> = self.plugins().iter().map(|(id, _)| id.to_string()).collect();
        #[cfg(not(feature = "plugins"))]
        let plugins: Vec<String> = Vec::new();
        let named = Pin::of(&[], loaded);
        let mut body = json!({
            "digest": loaded.digest(), "files": files, "named": named.digests(), "plugins": plugins,
            "cause": cause.what,
        });
        if let (Some(by), Some(fields)) = (cause.by, body.as_object_mut()) {
            fields.insert("by".to_owned(), by.into());
        }
        if let (Some(key), Some(fields)) = (self.store().digest_key(), body.as_object_mut()) {
            fields.insert("digestKey".to_owned(), key.id().into());
        }
        let (at, kind) = (Timestamp::now(), CONFIGURATION_READ.to_owned());
        let entry = NewAuditEntry { at, kind, session: None, run: None, body: body.into() };
        self.store().append_audit_all(vec![entry], Durability::Now).await?;
        Ok(())
    }
}
