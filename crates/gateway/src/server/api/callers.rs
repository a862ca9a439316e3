//! Agents and users: whom the operator knows by name or by a token, what they may ask, and what they used.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use backstop_hooks::AgentId;
use backstop_store::{NewAccessToken, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use super::super::operators::Problem;
use super::approvals::millis;
use super::asked::{Answer, Asked, Empty};
use crate::access::Holder;
use crate::metrics::{Metrics, Sums};
use crate::quota::Quota;
use crate::record::Label;

/// How many names are counted each for itself.
const MOST_NAMES: usize = 10_000;
/// How many agents, or users, a list has.
const MOST_LISTED: usize = 1_000;
/// The name of all others.
const OTHER: &str = "other";

/// How many events each agent, and each user on whose behalf one asks, had judged since the server began.
#[derive(Debug, Default)]
pub(super) struct Judged(Mutex<ByName>);

#[derive(Debug, Default)]
struct ByName {
    agents: BTreeMap<String, u64>,
    users: BTreeMap<String, u64>,
}

impl Judged {
    /// Counts an event.
    pub(super) fn count(&self, holder: &Holder) {
        let mut all = self.all();
        if let Some(agent) = &holder.agent {
            count(&mut all.agents, agent.as_str());
        }
        if let Some(user) = holder.user.as_deref() {
            count(&mut all.users, user);
        }
    }

    fn all(&self) -> MutexGuard<'_, ByName> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn count(all: &mut BTreeMap<String, u64>, name: &str) {
    let has_room = all.len() < MOST_NAMES || all.contains_key(name);
    let name = if has_room { name } else { OTHER };
    let counted = all.entry(name.to_owned()).or_default();
    *counted = counted.saturating_add(1);
}

/// Agents.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Agents {
    agents: Vec<Known>,
    /// Whether there are more than are listed: those whom the configuration does not list, with the fewest requests and decisions.
    more: bool,
    #[serde(flatten)]
    counted: Counted,
}

/// Users.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Users {
    users: Vec<Known>,
    /// Whether there are more than are listed: those whom the configuration does not list, with the fewest requests and decisions.
    more: bool,
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
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
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
    /// How many events it had judged by this API since the server began.
    decisions: u64,
}

impl Known {
    fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}

/// Lists agents.
pub(super) async fn agents(asked: Asked, _: Empty, _: Empty) -> Result<Answer<Agents>, Problem> {
    let quotas = asked.shared.quotas.agents.iter().map(|(agent, quota)| (AgentId::as_str(agent), quota));
    let (mut all, counted) = known(quotas, asked.shared.operators.metrics(), |(agent, _, _)| agent);
    let holders = holders(&asked, |made| made.agent.as_ref().map(AgentId::as_str)).await?;
    add(&mut all, holders, &asked.shared.api.counted.all().agents);
    let (agents, more) = bounded(all);
    Ok(Agents { agents, more, counted }.into())
}

/// Lists users.
pub(super) async fn users(asked: Asked, _: Empty, _: Empty) -> Result<Answer<Users>, Problem> {
    let quotas = asked.shared.quotas.users.iter().map(|(user, quota)| (user.as_str(), quota));
    let (mut all, counted) = known(quotas, asked.shared.operators.metrics(), |(_, user, _)| user);
    // Whoever answers is a user of nothing here: those are, on whose behalf an agent asks.
    let holders = holders(&asked, |made| made.agent.as_ref().and(made.user.as_deref())).await?;
    add(&mut all, holders, &asked.shared.api.counted.all().users);
    let (users, more) = bounded(all);
    Ok(Users { users, more, counted }.into())
}

/// The names in tokens that count.
async fn holders(
    asked: &Asked,
    whose: fn(&NewAccessToken) -> Option<&str>,
) -> Result<BTreeSet<String>, Problem> {
    let Some(engine) = asked.shared.interceptor.engine() else { return Ok(BTreeSet::new()) };
    let tokens = engine.store().counting_access_tokens(Timestamp::now()).await;
    let tokens = tokens.map_err(|_| Problem::store())?.tokens;
    Ok(tokens.iter().filter_map(|token| whose(&token.made)).map(str::to_owned).collect())
}

/// Adds those who may ask by a token, and what was judged for whom.
fn add(all: &mut BTreeMap<String, Known>, holders: BTreeSet<String>, judged: &BTreeMap<String, u64>) {
    for name in holders {
        all.entry(name).or_insert_with_key(|name| Known::named(name));
    }
    for (name, decisions) in judged {
        let known = all.entry(name.clone()).or_insert_with(|| Known::named(name));
        known.decisions = *decisions;
    }
}

/// Returns at most [`MOST_LISTED`] of them, by name, and whether there are more. Those whom the configuration lists come first, then those who
/// did the most.
fn bounded(all: BTreeMap<String, Known>) -> (Vec<Known>, bool) {
    let mut all: Vec<Known> = all.into_values().collect();
    let more = all.len() > MOST_LISTED;
    if more {
        all.sort_by_key(|known| Reverse((known.listed, known.requests.saturating_add(known.decisions))));
        all.truncate(MOST_LISTED);
        all.sort_by(|one, other| one.name.cmp(&other.name));
    }
    (all, more)
}

/// Those who are listed or have used something, by name.
fn known<'a>(
    listed: impl Iterator<Item = (&'a str, &'a Quota)>,
    metrics: Option<&Metrics>,
    whose: fn(&(Label, Label, Label)) -> &Label,
) -> (BTreeMap<String, Known>, Counted) {
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
        let known = all.entry(name.to_owned()).or_insert_with(|| Known::named(name));
        let tokens = spent.tokens;
        let read = tokens.input.saturating_add(tokens.cache_read).saturating_add(tokens.cache_write);
        known.requests = known.requests.saturating_add(spent.requests);
        known.input_tokens = known.input_tokens.saturating_add(read);
        known.output_tokens = known.output_tokens.saturating_add(tokens.output);
        known.cost_micros = known.cost_micros.saturating_add(spent.cost_micros);
    }
    let since = metrics.map(|metrics| millis(metrics.began()));
    (all, Counted { since, left_out })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_a_bound_and_those_who_are_configured_or_busy_are_in_it() {
        let mut all = BTreeMap::new();
        for number in 0..MOST_LISTED {
            let name = format!("a-{number:04}");
            all.insert(name.clone(), Known { decisions: 1, ..Known::named(&name) });
        }
        assert!(matches!(bounded(all.clone()), (listed, false) if listed.len() == MOST_LISTED));
        all.insert("b-busy".to_owned(), Known { requests: 9, ..Known::named("b-busy") });
        all.insert("c-quiet".to_owned(), Known { listed: true, ..Known::named("c-quiet") });
        all.insert("d-idle".to_owned(), Known::named("d-idle"));
        let (listed, more) = bounded(all);
        let names: Vec<&str> = listed.iter().map(|known| known.name.as_str()).collect();
        assert!(more && names.len() == MOST_LISTED && names.is_sorted());
        assert!(names.ends_with(&["a-0997", "b-busy", "c-quiet"]), "{:?}", names.last());
    }
}
