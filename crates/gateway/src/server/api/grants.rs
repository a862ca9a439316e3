//! What was allowed for good.

use backstop_hooks::{AgentId, HookId, RuleId, Text};
use backstop_store::{Grant, GrantId, GrantList, GrantTarget, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::operators::Problem;
use super::approvals::millis;
use super::asked::{Answer, Asked, Empty, Number, limit};

/// Which grants.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "GrantPage")]
pub(super) struct Which {
    /// `in-force` for those that can still answer something, or `all`, which is what an absent one means.
    #[serde(default)]
    state: Filter,
    /// The most grants, from 1 to 1000; 100 where absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000))]
    limit: Option<Number>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "GrantFilter")]
enum Filter {
    InForce,
    #[default]
    All,
}

/// Grants.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Grants {
    grants: Vec<Granted>,
    /// Whether there are more, older ones; of those in force, whether there may be.
    more: bool,
    /// How many rows among those in force can't be read: they allow nothing.
    unreadable: usize,
}

/// A grant.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Grant")]
pub(super) struct Granted {
    id: String,
    agent: AgentId,
    /// The tool, by the name that was meant.
    tool: String,
    /// The folder in which it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace: Option<String>,
    hook: HookId,
    rules: Vec<RuleId>,
    /// `call`, `program`, `rule` or `amount`.
    covers: &'static str,
    /// The question that was answered.
    title: Text,
    by: String,
    /// In Unix milliseconds, as all times here.
    created_at: i64,
    expires_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<i64>,
    uses: u64,
}

impl Granted {
    fn of(grant: &Grant) -> Self {
        let given = &grant.granted;
        Self {
            id: grant.id.to_string(),
            agent: given.agent.clone(),
            tool: given.tool_name.called().to_owned(),
            workspace: given.place.workspace.clone(),
            hook: given.question.hook.clone(),
            rules: given.question.rules.iter().cloned().collect(),
            covers: match given.target {
                GrantTarget::Call { .. } => "call",
                GrantTarget::Program { .. } => "program",
                GrantTarget::Rule => "rule",
                GrantTarget::Amount { .. } => "amount",
            },
            title: given.title.clone(),
            by: given.created_by.clone(),
            created_at: millis(given.created_at),
            expires_at: millis(given.expires_at),
            revoked_at: grant.revoked_at.map(millis),
            uses: grant.uses,
        }
    }
}

/// Lists grants.
pub(super) async fn list(asked: Asked, which: Which, _: Empty) -> Result<Answer<Grants>, Problem> {
    let store = asked.engine()?.answer_store();
    let most = limit(which.limit)?;
    let one_more = most.saturating_add(1);
    let list = match which.state {
        Filter::InForce => store.grants_in_force(Timestamp::now(), one_more).await,
        Filter::All => {
            store.grants(one_more).await.map(|grants| GrantList { grants, ..GrantList::default() })
        }
    };
    let GrantList { grants, unreadable, is_cut } = list.map_err(|_| Problem::store())?;
    let more = is_cut || grants.len() > most;
    Ok(Grants { grants: grants.iter().take(most).map(Granted::of).collect(), more, unreadable }.into())
}

/// Revokes a grant. That makes nothing milder, so it is done wherever grants are kept.
pub(super) async fn revoke(asked: Asked, _: Empty, _: Empty) -> Result<Answer<Granted>, Problem> {
    let engine = asked.engine()?;
    let by = asked.caller.answerer(engine.people());
    let id = GrantId::new(asked.name());
    let revoked = engine.answer_store().revoke_grant(&id, by.by(), Timestamp::now()).await;
    let grant = revoked.map_err(|_| Problem::store())?.ok_or(Problem::no_grant())?;
    Ok(Granted::of(&grant).into())
}
