//! Grants: what a human allowed permanently.
//!
//! *Allow always* becomes a row that covers later calls of one agent and one tool: exactly the same call (by digest, and by that of the files
//! that it is judged by), calls
//! of one program and subcommand, or calls that one rule asks about. A grant answers hooks that ask; it never overrides a
//! block.
//!
//! The law: *a grant answers the question that was answered, where it was answered*. It is bound to the workspace, the
//! requester and the channel, and to the hook that asked, for the same rules and at most the same severity. Every grant
//! expires, and can be revoked at any time; the revocation is kept. The audit trail records who grants and who revokes, in
//! the same transaction.

use std::collections::BTreeSet;
use std::fmt;

use async_trait::async_trait;
use backstop_hooks::{
    AgentId, ApprovalId, Digest, HookId, OwnerId, RuleId, SessionId, Severity, Text, ToolName,
};
use serde::{Deserialize, Serialize};

use crate::{Amount, AmountArgument, ApprovalRecord, PersonName, Route, StoreError, Timestamp};

/// One grant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GrantId(String);

impl GrantId {
    /// Creates an id.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    pub(crate) fn random() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string())
    }

    /// Returns the id as text.
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
    /// The tool. A grant for one spelling does not apply to another spelling, which may be another tool.
    #[serde(flatten)]
    pub tool_name: ToolName,
    /// Where, for whom, on which channel.
    pub place: GrantPlace,
    /// The hook, severity and rules of the question that is answered.
    pub question: Asked,
    /// Which calls of the tool.
    pub target: GrantTarget,
    /// Of which question it came, if of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<GrantOrigin>,
    /// The question that was answered, for the list.
    pub title: Text,
    /// Who granted it.
    pub created_by: String,
    /// Which person of the configuration that was, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<PersonName>,
    /// When.
    pub created_at: Timestamp,
    /// The last moment at which it applies.
    pub expires_at: Timestamp,
    /// How often it can answer; without end if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_uses: Option<u64>,
}

/// The question of which a grant came, for the record: it decides nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrantOrigin {
    /// The question.
    pub approval: ApprovalId,
    /// The session in which it was asked.
    pub session: SessionId,
}

impl From<&ApprovalRecord> for GrantOrigin {
    fn from(record: &ApprovalRecord) -> Self {
        Self { approval: record.id.clone(), session: record.request.session.clone() }
    }
}

/// Where a grant applies: a call from any other place is asked about. A missing part must be missing there, too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrantPlace {
    /// The folder that the agent works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// On whose behalf it acts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<String>,
    /// The channel, and the conversation there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
}

/// The parts of a hook's question that a grant is bound to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Asked {
    /// Who registered the hook.
    pub owner: OwnerId,
    /// The hook.
    pub hook: HookId,
    /// How grave it says it is.
    pub severity: Severity,
    /// The rules that it is based on. If the hook names none, only its title can be compared.
    pub rules: BTreeSet<RuleId>,
    /// Its one-line question.
    pub title: Text,
}

impl Asked {
    /// Returns whether whoever answered this has answered `other` as well: it is of the same hook, for the same rules or some of them, and no
    /// graver.
    pub fn covers(&self, other: &Self) -> bool {
        let same = if self.rules.is_empty() {
            other.rules.is_empty() && self.title == other.title
        } else {
            !other.rules.is_empty() && other.rules.is_subset(&self.rules)
        };
        same && (&self.owner, &self.hook) == (&other.owner, &other.hook) && other.severity <= self.severity
    }
}

/// Which calls of a tool a grant covers, given the same question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum GrantTarget {
    /// Exactly the same call, judged by the same files.
    Call {
        /// Its digest.
        digest: Digest,
        /// The digest of what hooks judged it by besides itself ([`NewApproval::facts`](crate::NewApproval)). Grants of earlier versions have none: they
        /// are for calls that are judged by nothing else.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        facts: Option<Digest>,
    },
    /// Calls in which everything that is asked about begins with these words: a program and its subcommand.
    Program {
        /// The words.
        words: Vec<String>,
    },
    /// Calls that these rules ask about, in a workspace.
    Rule,
    /// Calls that differ from the one that was asked about in this argument alone, as long as its amounts add up to no more
    /// than `most`.
    Amount {
        /// The argument.
        argument: String,
        /// The greatest sum.
        most: Amount,
        /// The digest of the call without the argument.
        without: Digest,
    },
}

/// A grant of an earlier version, which was not bound to a place and no longer applies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VoidGrant {
    /// Its id.
    pub id: GrantId,
    /// The question that was answered.
    pub title: Text,
    /// Who granted it.
    pub created_by: String,
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
    /// What the calls amount to that it answered, if it is bound to a sum.
    #[serde(default)]
    pub spent: Amount,
}

/// A hook that asks about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantQuery {
    /// The agent.
    pub agent: AgentId,
    /// The tool, as called and canonical.
    pub tool_name: ToolName,
    /// Where, for whom, on which channel.
    pub place: GrantPlace,
    /// The digest of the call.
    pub digest: Digest,
    /// The digest of what hooks judged it by besides itself.
    pub facts: Option<Digest>,
    /// What the hook asks.
    pub question: Asked,
    /// The program and subcommand that all of it is about, where there is one.
    pub program: Option<Vec<String>>,
    /// The arguments of the call that are amounts.
    pub amounts: Vec<AmountArgument>,
    /// Who may answer the question, if that is said: a grant of anybody else is none.
    pub route: Option<Route>,
}

impl Grant {
    /// Returns what is spent if it answers for this call too; `None` if the call is not one of those it is for.
    fn spent_with(&self, query: &GrantQuery) -> Option<Amount> {
        let GrantTarget::Amount { argument, without, .. } = &self.granted.target else {
            return Some(self.spent);
        };
        let of_call =
            query.amounts.iter().find(|one| one.argument == *argument && one.without == *without)?;
        Some(self.spent.plus(of_call.amount))
    }

    /// Counts that it answered for this call.
    pub(crate) fn count(&mut self, query: &GrantQuery) {
        self.uses = self.uses.saturating_add(1);
        self.spent = self.spent_with(query).unwrap_or(self.spent);
    }

    /// Returns whether it has answered as often as it can.
    pub fn is_used_up(&self) -> bool {
        self.granted.most_uses.is_some_and(|most| self.uses >= most)
    }

    /// Returns whether it can still answer anything at `now`: it is not revoked, not over, and not used up.
    pub fn is_in_force(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && now <= self.granted.expires_at && !self.is_used_up()
    }

    /// Returns whether the grant applies at `now` and covers the question.
    pub fn covers(&self, query: &GrantQuery, now: Timestamp) -> bool {
        let granted = &self.granted;
        self.is_in_force(now)
            && granted.agent == query.agent
            && granted.tool_name == query.tool_name
            && granted.place == query.place
            && granted.question.covers(&query.question)
            // INVARIANT (a route is no detour): what one person granted is not enough where more must allow it.
            && query.route.as_ref().is_none_or(|route| route.is_met_by(granted.person.iter()))
            && match &granted.target {
                GrantTarget::Call { digest, facts } => (digest, facts) == (&query.digest, &query.facts),
                GrantTarget::Program { words } => {
                    !words.is_empty()
                        && !granted.question.rules.is_empty()
                        && query.program.as_ref() == Some(words)
                }
                GrantTarget::Rule => granted.place.workspace.is_some() && !granted.question.rules.is_empty(),
                GrantTarget::Amount { most, .. } => {
                    self.spent_with(query).is_some_and(|spent| spent <= *most)
                }
            }
    }
}

/// How many rows are read to list what is in force.
pub(crate) const MOST_GRANTS_READ: usize = 20_000;

/// Grants in force, as they are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantList {
    /// The newest first.
    pub grants: Vec<Grant>,
    /// How many rows among them can't be read: they allow nothing.
    pub unreadable: usize,
    /// Whether there may be more, since as many rows were read as are read at most.
    pub is_cut: bool,
}

/// Allow-always grants.
#[async_trait]
pub trait GrantStore {
    /// Writes a grant.
    async fn add_grant(&self, grant: NewGrant) -> Result<Grant, StoreError>;

    /// Returns the oldest grant that covers what is asked, without using it.
    async fn find_grant(&self, query: &GrantQuery, now: Timestamp) -> Result<Option<Grant>, StoreError>;

    /// As [`find_grant`](Self::find_grant), and counts the use.
    async fn use_grant(&self, query: &GrantQuery, now: Timestamp) -> Result<Option<Grant>, StoreError>;

    /// Returns at most `limit` grants, newest first, including revoked and expired ones.
    async fn grants(&self, limit: usize) -> Result<Vec<Grant>, StoreError>;

    /// Returns at most `limit` grants that are [in force](Grant::is_in_force) at `now`, newest first, among the newest 20 000 that were not
    /// revoked.
    async fn grants_in_force(&self, now: Timestamp, limit: usize) -> Result<GrantList, StoreError>;

    /// Revokes a grant. Returns its new state, `None` if it does not exist; the first revocation is kept.
    async fn revoke_grant(&self, id: &GrantId, by: &str, now: Timestamp)
    -> Result<Option<Grant>, StoreError>;

    /// Returns at most `limit` grants of an earlier version that no longer apply, newest first.
    async fn void_grants(&self, limit: usize) -> Result<Vec<VoidGrant>, StoreError>;
}
