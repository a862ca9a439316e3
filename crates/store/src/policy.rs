//! By which policy entries were written: what a process judged by, as a digest in a label of each of its entries.
//!
//! A store is [bound](crate::PolicyStore) to the version of the policy that is in force for whoever has it. Whatever is written through it, by itself or
//! with a transaction, is stamped in [`Keying::apply`](crate::keyed::Keying::apply), the only way into a trail: no writer of entries names a policy, and none can
//! forget to. A process with two configurations, as after a reload, has two such stores over the same data.
//!
//! The law: *what a version is stands before the entries that name it*, in an entry of the kind [`CONFIGURATION_READ`]. It goes into the trail with the first
//! of these, unless the trail is known to have it ([`Draft::once`](backstop_trail::Draft::once)). Pruning leaves the newest one of each version that
//! remaining entries name: after it, what a version is stands somewhere in the trail, behind some of the entries that name it perhaps.
//!
//! Limits: what the log says of itself (`start`, `stop`, `tombstone`, and what befell its files), and what is said of a database when another version of
//! Backstop opens it first, names no policy. Whoever may write the trail can write any label.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use backstop_hooks::Digest;

use crate::{AnswerStore, AuditBody, Store};

/// The kind of an entry that says what a version of a policy is, whose label names it.
pub const CONFIGURATION_READ: &str = "configuration.read";
/// The label of an entry with the version.
pub(crate) const POLICY: &str = "policy";

/// The version of a policy, and what an entry says that it is. Clones share it.
#[derive(Clone, PartialEq, Eq)]
pub struct PolicyVersion(Arc<Version>);

#[derive(PartialEq, Eq)]
struct Version {
    digest: String,
    told: AuditBody,
}

impl PolicyVersion {
    /// Returns a version, and what is told of it once in each trail.
    pub fn new(digest: Digest, told: AuditBody) -> Self {
        Self(Arc::new(Version { digest: digest.to_string(), told }))
    }

    /// Returns the version as entries name it: `sha256:` and 64 hex digits.
    pub fn as_str(&self) -> &str {
        &self.0.digest
    }

    /// Returns what is told of it.
    pub fn told(&self) -> &AuditBody {
        &self.0.told
    }
}

/// The version of the policy that is in force for somebody, which may become another one. Clones share it.
#[derive(Clone, Debug)]
pub struct PolicyInForce(Arc<Mutex<PolicyVersion>>);

impl PolicyInForce {
    /// Returns the version that is in force now.
    pub fn version(&self) -> PolicyVersion {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another version in force: for entries that are written from now on.
    pub fn change(&self, version: PolicyVersion) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = version;
    }
}

impl From<PolicyVersion> for PolicyInForce {
    fn from(version: PolicyVersion) -> Self {
        Self(Arc::new(Mutex::new(version)))
    }
}

/// Data over which is judged by one policy or another.
pub trait PolicyStore {
    /// Returns a store of the same data, of which every entry that it writes into the audit trail names the version of a policy that is in force.
    fn under(&self, policy: PolicyInForce) -> Arc<dyn Store>;

    /// As [`under`](Self::under), for questions and answers.
    fn answers_under(&self, policy: PolicyInForce) -> Arc<dyn AnswerStore>;
}

impl fmt::Debug for PolicyVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PolicyVersion").field(&self.as_str()).finish()
    }
}
