//! Grants: what a human allowed for good.
//!
//! *Allow always* becomes a row that covers later calls of one agent and one tool: either the very same
//! call (by digest) or whatever one hook asks about. A grant answers hooks that ask; it never overrules a
//! block. It can end by itself, and is revoked at any time, which is kept as a fact.

use std::fmt;

use async_trait::async_trait;
use backstop_hooks::{AgentId, Digest, HookId, OwnerId, Text, ToolName};
use serde::{Deserialize, Serialize};

use crate::{StoreError, Timestamp};

/// One grant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GrantId(String);

impl GrantId {
    /// The id as it was given.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    pub(crate) fn random() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for GrantId {
    fn from(id: String) -> Self {
        Self(id)
    }
}

impl fmt::Display for GrantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A grant to be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewGrant {
    /// The agent that may act.
    pub agent: AgentId,
    /// The tool. What was granted for one spelling holds for no other, which may be another tool's.
    #[serde(flatten)]
    pub tool_name: ToolName,
    /// Which calls of the tool.
    pub target: GrantTarget,
    /// The question that was answered, for the list.
    pub title: Text,
    /// Who granted it.
    pub created_by: String,
    /// When.
    pub created_at: Timestamp,
    /// The last moment at which it counts; `None` for no end.
    pub expires_at: Option<Timestamp>,
}

/// Which calls of a tool a grant covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum GrantTarget {
    /// The very same call.
    Call {
        /// Its digest.
        digest: Digest,
    },
    /// Whatever this hook asks about.
    Hook {
        /// Who registered the hook.
        owner: OwnerId,
        /// The hook.
        hook: HookId,
    },
}

/// A grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// Its id.
    pub id: GrantId,
    /// What was granted.
    #[serde(flatten)]
    pub granted: NewGrant,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// How often it answered a hook.
    pub uses: u64,
}

/// A hook that asks about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantQuery {
    /// The agent.
    pub agent: AgentId,
    /// The tool, as called and canonical.
    pub tool_name: ToolName,
    /// The digest of the call.
    pub digest: Digest,
    /// Who registered the hook.
    pub owner: OwnerId,
    /// The hook.
    pub hook: HookId,
}

impl Grant {
    /// Whether the grant counts at `now` and covers what is asked.
    pub fn covers(&self, query: &GrantQuery, now: Timestamp) -> bool {
        self.revoked_at.is_none()
            && self.granted.expires_at.is_none_or(|end| now <= end)
            && self.granted.agent == query.agent
            && self.granted.tool_name == query.tool_name
            && match &self.granted.target {
                GrantTarget::Call { digest } => *digest == query.digest,
                GrantTarget::Hook { owner, hook } => *owner == query.owner && *hook == query.hook,
            }
    }
}

/// Allow-always grants.
#[async_trait]
pub trait GrantStore {
    /// Writes a grant.
    async fn add_grant(&self, grant: NewGrant) -> Result<Grant, StoreError>;

    /// The oldest grant that covers what is asked, without using it.
    async fn find_grant(&self, query: &GrantQuery, now: Timestamp) -> Result<Option<Grant>, StoreError>;

    /// As [`find_grant`](Self::find_grant), and counts the use.
    async fn use_grant(&self, query: &GrantQuery, now: Timestamp) -> Result<Option<Grant>, StoreError>;

    /// At most `limit` grants, the newest first, revoked and ended ones among them.
    async fn grants(&self, limit: usize) -> Result<Vec<Grant>, StoreError>;

    /// Revokes a grant. Returns it as it is then, `None` if it does not exist; the first revocation is kept.
    async fn revoke_grant(&self, id: &GrantId, now: Timestamp) -> Result<Option<Grant>, StoreError>;
}
