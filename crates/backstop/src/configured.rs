//! The configuration in the trail: which one judged what, from where to where.
//!
//! Each entry that a process writes names the [version](crate::policy) of the policy that is in force for it. What a version is, an entry of the kind
//! [`CONFIGURATION_READ`] says, before the first that names it: names and digests, of the values as they are written, of the files that they name
//! (rule packs, catalogues, scripts), of the plugins. A process that lives long says besides why it is in force, and who wanted it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use backstop_config::{Loaded, SecretOrigin};
use backstop_hooks::Digest;
pub use backstop_store::CONFIGURATION_READ;
use backstop_store::{AppendAuditError, DigestKey, Durability, NewAuditEntry, PolicyVersion, Timestamp};
use serde_json::Value;

use crate::Backstop;
use crate::locations::{from_operator, policy_files};
use crate::pin::text_of;
use crate::policy::PolicyParts;

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
        let mut body = serde_json::from_str(self.policy_version().told().as_str()).unwrap_or(Value::Null);
        if let Some(fields) = body.as_object_mut() {
            fields.insert("cause".to_owned(), cause.what.into());
            fields.extend(cause.by.map(|by| ("by".to_owned(), by.into())));
        }
        let (at, kind) = (Timestamp::now(), CONFIGURATION_READ.to_owned());
        let entry = NewAuditEntry { at, kind, session: None, run: None, body: body.into() };
        self.store().append_audit_all(vec![entry], Durability::Now).await?;
        Ok(())
    }

    /// Returns the version of the policy that is in force: what entries of the trail name that are written from here on.
    pub fn policy_version(&self) -> PolicyVersion {
        self.policy.version()
    }
}

/// Returns the version of the policy of a process that has read this configuration, and loads nothing that it names. `key`: by what digests are keyed in the
/// trail.
pub fn policy_of(loaded: &Loaded, key: Option<&Arc<DigestKey>>) -> PolicyVersion {
    PolicyParts::of_configuration(loaded, key.map(Arc::as_ref)).version()
}

/// The files that a configuration names, each with its digest as it was read to make hooks of it. What is only started or opened by its name (a script,
/// authorities) is read here; `None` for what can't be read, or is no text of at most a megabyte. INVARIANT (guessable): these digests are not keyed, so none is of a
/// file that the configuration names for its secret.
pub(crate) fn named_files(loaded: &Loaded) -> BTreeMap<String, Option<Digest>> {
    let read = loaded.readings.files();
    let secrets = loaded.secrets.iter().filter_map(|source| match &source.origin {
        SecretOrigin::File(path) => Some(from_operator(loaded, path)),
        SecretOrigin::Variable(_) | SecretOrigin::Written => None,
    });
    // A file has many names.
    let secrets: Vec<PathBuf> = secrets.map(real).collect();
    let named = policy_files(loaded).into_iter().filter(|path| !secrets.contains(&real(path.clone())));
    let named = named.map(|path| {
        let digest = read.get(&*path.to_string_lossy()).copied();
        let digest = digest.or_else(|| text_of(&path).map(|text| Digest::of_text("file", &text)));
        // Another machine may have the same files elsewhere.
        let below = loaded.operator_folder.as_deref().and_then(|folder| path.strip_prefix(folder).ok());
        (below.unwrap_or(&path).to_string_lossy().into_owned(), digest)
    });
    named.collect()
}

/// Returns where a path leads, or the path where that is nowhere.
fn real(path: PathBuf) -> PathBuf {
    path.canonicalize().unwrap_or(path)
}
