//! Agents and users: whom the operator knows by name, what they may ask, and what they used.

use std::collections::BTreeMap;

use backstop_hooks::AgentId;
use schemars::JsonSchema;
use serde::Serialize;

use super::super::operators::Problem;
use super::approvals::millis;
use super::asked::{Answer, Asked, Empty};
use crate::metrics::{Metrics, Sums};
use crate::quota::Quota;
use crate::record::Label;

/// Agents.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Agents {
    agents: Vec<Known>,
    #[serde(flatten)]
    counted: Counted,
}

/// Users.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Users {
    users: Vec<Known>,
    #[serde(flatten)]
    counted: Counted,
}

/// Since when this process counts, and what it could not.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Counted {
    /// In Unix milliseconds, as all times here; absent where nothing is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<i64>,
    /// How many requests had no line of their own, since there were too many combinations of agent, user and model.
    left_out: u64,
}

/// An agent or a user.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "KnownCaller")]
struct Known {
    /// Its name; `other` for all without one, `none` for requests of nobody.
    name: String,
    /// Whether the configuration lists it.
    listed: bool,
    /// How many requests it may make within any 60 seconds, where the configuration says so for it alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_per_minute: Option<u32>,
    /// How many requests it may have under way at once, where the configuration says so for it alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrent_requests: Option<u32>,
    /// How many requests it made to models since this process began to count.
    requests: u64,
    /// The tokens that models read for it, with those that were read from caches and written to them.
    input_tokens: u64,
    /// The tokens that models wrote for it.
    output_tokens: u64,
    /// What that costs, in millionths of the currency of the prices.
    cost_micros: u64,
}

/// Lists agents.
pub(super) async fn agents(asked: Asked, _: Empty, _: Empty) -> Result<Answer<Agents>, Problem> {
    let quotas = asked.shared.quotas.agents.iter().map(|(agent, quota)| (AgentId::as_str(agent), quota));
    let (agents, counted) = known(quotas, asked.shared.operators.metrics(), |(agent, _, _)| agent);
    Ok(Agents { agents, counted }.into())
}

/// Lists users.
pub(super) async fn users(asked: Asked, _: Empty, _: Empty) -> Result<Answer<Users>, Problem> {
    let quotas = asked.shared.quotas.users.iter().map(|(user, quota)| (user.as_str(), quota));
    let (users, counted) = known(quotas, asked.shared.operators.metrics(), |(_, user, _)| user);
    Ok(Users { users, counted }.into())
}

/// Those who are listed or have used something, by name.
fn known<'a>(
    listed: impl Iterator<Item = (&'a str, &'a Quota)>,
    metrics: Option<&Metrics>,
    whose: fn(&(Label, Label, Label)) -> &Label,
) -> (Vec<Known>, Counted) {
    let listed = listed.map(|(name, quota)| {
        let known = Known {
            name: name.to_owned(),
            listed: true,
            requests_per_minute: quota.requests_per_minute,
            concurrent_requests: quota.concurrent_requests,
            ..Known::default()
        };
        (name.to_owned(), known)
    });
    let mut all: BTreeMap<String, Known> = listed.collect();
    let Sums { spent, spent_left_out: left_out, .. } = metrics.map(Metrics::sums).unwrap_or_default();
    for (spender, spent) in &spent {
        let name = whose(spender).as_str();
        let known =
            all.entry(name.to_owned()).or_insert_with(|| Known { name: name.to_owned(), ..Known::default() });
        let tokens = spent.tokens;
        let read = tokens.input.saturating_add(tokens.cache_read).saturating_add(tokens.cache_write);
        known.requests = known.requests.saturating_add(spent.requests);
        known.input_tokens = known.input_tokens.saturating_add(read);
        known.output_tokens = known.output_tokens.saturating_add(tokens.output);
        known.cost_micros = known.cost_micros.saturating_add(spent.cost_micros);
    }
    let since = metrics.map(|metrics| millis(metrics.began()));
    (all.into_values().collect(), Counted { since, left_out })
}
