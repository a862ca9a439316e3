//! `gateway.agents`, `gateway.users` and `gateway.quotas`: who calls, and how much they may ask. Only the operator can set it: a
//! repository that could would give its agents room.

use crate::config_value::{Entries, item, section};
use crate::place::{Setting, Spanned};
use crate::problem::{Problem, ProblemKind};
use crate::reader::Reader;
use crate::text::{Secret, Text};
use crate::values::{BudgetWindow, Money, Name, Whole};

/// The largest number of requests or tokens of a budget.
const MOST: u64 = 1_000_000_000_000;

item! {
    /// An agent that is known by its token.
    pub struct GatewayAgent {
        /// What it is, for people.
        description ("description"): Option<Spanned<Text>>, OperatorOnly;
        /// The token, usually `${VAR}`. At least 16 characters. Without it, the agent has tokens of other kinds.
        token ("token"): Option<Spanned<Secret>>, OperatorOnly;
        /// The most requests within any 60 seconds.
        requests_per_minute ("requests_per_minute"): Option<Spanned<Whole<0, 10_000>>>, OperatorOnly;
        /// The most requests at once, each to the end of its answer.
        concurrent_requests ("concurrent_requests"): Option<Spanned<Whole<0, 1_000_000>>>, OperatorOnly;
        /// The most that it may use in stretches of time.
        budgets ("budgets"): Vec<CallerBudget>, OperatorOnly;
    }
}

item! {
    /// A user whom a token names.
    pub struct GatewayUser {
        /// Who that is, for people.
        description ("description"): Option<Spanned<Text>>, OperatorOnly;
        /// The most requests within any 60 seconds.
        requests_per_minute ("requests_per_minute"): Option<Spanned<Whole<0, 10_000>>>, OperatorOnly;
        /// The most requests at once, each to the end of its answer.
        concurrent_requests ("concurrent_requests"): Option<Spanned<Whole<0, 1_000_000>>>, OperatorOnly;
        /// The most that they may use in stretches of time.
        budgets ("budgets"): Vec<CallerBudget>, OperatorOnly;
    }
}

item! {
    /// The most that one agent or user may use of models in a stretch of time. At least one of `requests`, `tokens` and `cost` must
    /// be there.
    pub struct CallerBudget {
        /// When it begins anew. No two of a caller have the same.
        window ("window"): Setting<BudgetWindow> = BudgetWindow::Day, OperatorOnly;
        /// The most requests.
        requests ("requests"): Option<Spanned<Whole<0, MOST>>>, OperatorOnly;
        /// The most tokens, read and written.
        tokens ("tokens"): Option<Spanned<Whole<0, MOST>>>, OperatorOnly;
        /// The most money, in the currency of `budgets.prices`.
        cost ("cost"): Option<Spanned<Money>>, OperatorOnly;
    }
}

section! {
    /// How much callers may ask at once and in a minute. Each process counts for itself.
    pub struct GatewayQuotas {
        /// What each agent may ask that has a token of its own.
        each_agent ("each_agent"): CallerQuota, OperatorOnly;
        /// What each user may ask whom a token names.
        each_user ("each_user"): CallerQuota, OperatorOnly;
        /// What all those may ask together who hold the token of the process, whatever names they give.
        shared_token ("shared_token"): CallerQuota, OperatorOnly;
    }
}

section! {
    /// How much may be asked. What is not set has no limit.
    pub struct CallerQuota {
        /// The most requests within any 60 seconds.
        requests_per_minute ("requests_per_minute"): Option<Spanned<Whole<0, 10_000>>>, OperatorOnly;
        /// The most requests at once, each to the end of its answer.
        concurrent_requests ("concurrent_requests"): Option<Spanned<Whole<0, 1_000_000>>>, OperatorOnly;
    }
}

/// Checks that budgets limit something, and that those of a caller can be told apart.
pub(super) fn check(
    agents: &Entries<Name, GatewayAgent>,
    users: &Entries<Name, GatewayUser>,
    cx: &mut Reader<'_>,
) {
    let of_agents = agents.iter().map(|(name, agent)| (name, &agent.budgets));
    for (name, budgets) in of_agents.chain(users.iter().map(|(name, user)| (name, &user.budgets))) {
        for (index, budget) in budgets.iter().enumerate() {
            let window = budget.window.value;
            let message = if budget.requests.is_none() && budget.tokens.is_none() && budget.cost.is_none() {
                format!("the budget `{}` of `{}` limits nothing", window.name(), name.value.as_str())
            } else if budgets.iter().take(index).any(|other| other.window.value == window) {
                format!("`{}` has two budgets `{}`", name.value.as_str(), window.name())
            } else {
                continue;
            };
            cx.report(Problem::new(ProblemKind::BadValue, name.at.clone(), message));
        }
    }
}
