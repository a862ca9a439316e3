//! `budgets`, `loops` and `models`: the guards over what agents use.

use std::collections::BTreeMap;
use std::sync::Arc;

use backstop_config::{self as config, BudgetPer, BudgetWindow, Loaded, Place, Problem, Spanned};
use backstop_engine::{RegisterError, Snapshot};
use backstop_guards::limits::{
    BUDGET_ID, Budget, BudgetLimits, BudgetSettings, Budgets, LOOP_ID, LoopAction, LoopGuard, LoopPlace,
    MODELS_ID, Micros, ModelAccess, ModelPrice, ModelRule, Pattern, Per, Prices, Window, register_budgets,
    register_loop_guard, register_model_access,
};
use backstop_hooks::OwnerId;
use backstop_store::Store;

use super::{callers, problem};

/// The guards over use, which the configuration may name also where they have nothing to do.
pub(super) const IDS: [&str; 3] = [BUDGET_ID, LOOP_ID, MODELS_ID];

/// Registers the guards that have something to do. `answers`: the host sees the answers of models, and not the tools.
pub(super) fn register(
    loaded: &Loaded,
    store: &Arc<dyn Store>,
    answers: bool,
    snapshot: &mut Snapshot,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let config = &loaded.config;
    if !config.models.is_empty() && is_on(snapshot, MODELS_ID) {
        match config.models.iter().map(model_rule).collect::<Result<Vec<_>, _>>() {
            Ok(rules) => note(&mut problems, register_model_access(snapshot, ModelAccess::new(rules))),
            Err(problem) => problems.push(problem),
        }
    }
    let of_callers =
        callers::budgets(config).map_err(|error| problem(&Place::file_only("`gateway`"), &error));
    let has_budgets = !config.budgets.limits.is_empty() || !of_callers.as_ref().is_ok_and(Vec::is_empty);
    if has_budgets && is_on(snapshot, BUDGET_ID) {
        match of_callers.and_then(|of_callers| budget_settings(&config.budgets, of_callers)) {
            Ok(settings) => {
                let budgets = Budgets::new(settings, Arc::clone(store));
                note(&mut problems, register_budgets(snapshot, &budgets));
            }
            Err(problem) => problems.push(problem),
        }
    }
    if let Some(repeats) = &config.loops.repeats
        && is_on(snapshot, LOOP_ID)
    {
        let action = match config.loops.action.value {
            config::LoopAction::Ask => LoopAction::Ask,
            config::LoopAction::Block => LoopAction::Block,
        };
        let guard = LoopGuard::new(Arc::clone(store), repeats.value.get(), action);
        note(&mut problems, register_loop_guard(snapshot, &guard, LoopPlace::Tools));
        if answers {
            note(&mut problems, register_loop_guard(snapshot, &guard, LoopPlace::Answers));
        }
    }
    problems
}

fn is_on(snapshot: &Snapshot, id: &str) -> bool {
    snapshot.settings().owner(&OwnerId::new(id)).and_then(|settings| settings.enabled) != Some(false)
}

fn note(problems: &mut Vec<Problem>, registered: Result<(), RegisterError>) {
    problems.extend(registered.err().map(|error| problem(&Place::file_only("built-in guards"), &error)));
}

fn pattern(text: &Spanned<config::Text>) -> Result<Pattern, Problem> {
    Pattern::new(text.value.expose()).map_err(|error| problem(&text.at, &error))
}

fn optional(text: &Option<Spanned<config::Text>>) -> Result<Option<Pattern>, Problem> {
    text.as_ref().map(pattern).transpose()
}

fn model_rule(rule: &config::ModelAccess) -> Result<ModelRule, Problem> {
    let allow = rule.allow.iter().map(pattern).collect::<Result<_, _>>()?;
    Ok(ModelRule { agent: optional(&rule.agent)?, allow })
}

fn budget_settings(section: &config::Budgets, of_callers: Vec<Budget>) -> Result<BudgetSettings, Problem> {
    let mut budgets: Vec<Budget> = section.limits.iter().map(budget).collect::<Result<_, _>>()?;
    budgets.extend(of_callers);
    Ok(BudgetSettings { budgets, prices: prices(section)?, answer_tokens: section.answer_tokens.value.get() })
}

/// The most that may be used of each budget, by its name and what is counted.
pub(super) fn most_of_budgets(loaded: &Loaded) -> BTreeMap<(String, String), u64> {
    let config = &loaded.config;
    // What can't be read is told by whoever registers the guard.
    let of_callers = callers::budgets(config).unwrap_or_default();
    let budgets = config.budgets.limits.iter().filter_map(|one| budget(one).ok()).chain(of_callers);
    let limits = budgets.flat_map(|Budget { name, limits, .. }| {
        let cost = limits.cost.map(|Micros(cost)| cost);
        [("requests", limits.requests), ("tokens", limits.tokens), ("cost", cost)]
            .map(|(unit, limit)| ((name.clone(), unit.to_owned()), limit))
    });
    limits.filter_map(|(budget, limit)| Some((budget, limit?))).collect()
}

/// What models cost.
pub(super) fn prices(section: &config::Budgets) -> Result<Prices, Problem> {
    Ok(Prices::new(section.prices.iter().map(price).collect::<Result<_, _>>()?))
}

fn price(price: &config::Price) -> Result<ModelPrice, Problem> {
    let micros = |money: &Spanned<config::Money>| Micros(money.value.micros());
    let cached = |money: &Option<Spanned<config::Money>>| micros(money.as_ref().unwrap_or(&price.input));
    Ok(ModelPrice {
        model: pattern(&price.model)?,
        input: micros(&price.input),
        output: micros(&price.output),
        cache_read: cached(&price.cache_read),
        cache_write: cached(&price.cache_write),
    })
}

pub(super) const fn window(window: BudgetWindow) -> Window {
    match window {
        BudgetWindow::Hour => Window::Hour,
        BudgetWindow::Day => Window::Day,
        BudgetWindow::Month => Window::Month,
        BudgetWindow::Total => Window::Total,
    }
}

fn budget(budget: &config::Budget) -> Result<Budget, Problem> {
    let per = |wanted| budget.per.iter().any(|per| per.value == wanted);
    Ok(Budget {
        name: budget.name.value.as_str().to_owned(),
        agent: optional(&budget.agent)?,
        model: optional(&budget.model)?,
        user: optional(&budget.user)?,
        per: Per { agent: per(BudgetPer::Agent), model: per(BudgetPer::Model), user: per(BudgetPer::User) },
        window: window(budget.window.value),
        limits: BudgetLimits {
            requests: budget.requests.as_ref().map(|limit| limit.value.get()),
            tokens: budget.tokens.as_ref().map(|limit| limit.value.get()),
            cost: budget.cost.as_ref().map(|limit| Micros(limit.value.micros())),
        },
    })
}
