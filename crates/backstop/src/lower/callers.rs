//! `gateway.agents`, `gateway.users` and `gateway.quotas` as the quotas of a gateway, and as budgets.

use backstop_config::{CallerBudget, Config, Spanned, Whole};
#[cfg(feature = "gateway")]
use backstop_config::{CallerQuota, Loaded};
#[cfg(feature = "gateway")]
use backstop_gateway::{Quota, Quotas};
use backstop_guards::limits::{Budget, BudgetLimits, InvalidPattern, Micros, Pattern, Per};
#[cfg(feature = "gateway")]
use backstop_hooks::AgentId;

use super::limits::window;

/// How much callers may ask.
#[cfg(feature = "gateway")]
pub(super) fn quotas(loaded: &Loaded) -> Quotas {
    let config = &loaded.config.gateway;
    let each = |each: &CallerQuota| quota(&each.requests_per_minute, &each.concurrent_requests);
    let agents = config.agents.iter().map(|(name, agent)| {
        let quota = quota(&agent.requests_per_minute, &agent.concurrent_requests);
        (AgentId::new(name.value.as_str()), quota)
    });
    let users = config.users.iter().map(|(name, user)| {
        (name.value.as_str().to_owned(), quota(&user.requests_per_minute, &user.concurrent_requests))
    });
    Quotas {
        agents: agents.collect(),
        users: users.collect(),
        each_agent: each(&config.quotas.each_agent),
        each_user: each(&config.quotas.each_user),
        shared_token: each(&config.quotas.shared_token),
    }
}

#[cfg(feature = "gateway")]
fn quota<const A: u64, const B: u64>(
    requests_per_minute: &Option<Spanned<Whole<0, A>>>,
    concurrent_requests: &Option<Spanned<Whole<0, B>>>,
) -> Quota {
    let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    Quota {
        requests_per_minute: requests_per_minute.as_ref().map(|most| number(most.value.get())),
        concurrent_requests: concurrent_requests.as_ref().map(|most| number(most.value.get())),
    }
}

/// The budgets of single agents and users. No other has a name like theirs: a name holds no blanks.
pub(super) fn budgets(config: &Config) -> Result<Vec<Budget>, InvalidPattern> {
    let mut all = Vec::new();
    for (name, agent) in config.gateway.agents.iter() {
        let name = name.value.as_str();
        for budget in &agent.budgets {
            all.push(Budget {
                agent: Some(Pattern::exact(name)?),
                ..lowered(&format!("agent {name}"), budget)
            });
        }
    }
    for (name, user) in config.gateway.users.iter() {
        let name = name.value.as_str();
        for budget in &user.budgets {
            all.push(Budget {
                user: Some(Pattern::exact(name)?),
                ..lowered(&format!("user {name}"), budget)
            });
        }
    }
    Ok(all)
}

fn lowered(whose: &str, budget: &CallerBudget) -> Budget {
    let limit = |limit: &Option<Spanned<Whole<0, _>>>| limit.as_ref().map(|limit| limit.value.get());
    Budget {
        name: format!("{whose} {}", budget.window.value.name()),
        agent: None,
        model: None,
        user: None,
        per: Per::default(),
        window: window(budget.window.value),
        limits: BudgetLimits {
            requests: limit(&budget.requests),
            tokens: limit(&budget.tokens),
            cost: budget.cost.as_ref().map(|limit| Micros(limit.value.micros())),
        },
    }
}
