//! Budgets of model calls: requests, tokens and money, by agent, model, user and time.
//!
//! A call is stopped if any budget that applies to it has no room for its estimate. The estimate of tokens is
//! the host's estimate of the request plus an amount for the expected answer. Afterwards the provider's count replaces
//! it. The laws of the store apply: reservations alone never exceed a limit, all or none, and what was
//! never settled is spent. If a provider reports no usage, the estimate stays, and grows with the answer.
//!
//! If another hook stops a call after it was reserved, which requires a rewrite in between, the call stays counted.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use backstop_hooks::conversation::TokenUsage;
use backstop_hooks::points::{
    BeforeLlmCall, BeforeLlmCallEvent, BeforeLlmCallOutcome, LlmOutput, LlmOutputEvent, ModelCallEnded,
    ModelCallEndedEvent, ModelCallResult, NO_MODEL,
};
use backstop_hooks::{AgentId, Answer, CallContext, Context, Hook, HookError, Reason, RunId, Text};
use backstop_store::{Charge, Exceeded, ReservationId, ReserveError, Store, Timestamp};

use super::pattern::Pattern;
use super::price::{Micros, Prices};
use super::unreachable;
use super::window::Window;

/// How many calls that have not ended are remembered; the oldest go first. What is forgotten stays counted by its
/// estimate.
const MAX_PENDING: usize = 65_536;
/// The transport of calls that only count tokens, and the error of those whose client went away.
const ONLY_COUNTED: &str = "count";
const ABORTED: &str = "aborted";
/// About how many bytes of text a token has at least.
const BYTES_PER_TOKEN: u64 = 3;

/// What a budget is counted separately by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Per {
    /// Each agent has a budget of its own.
    pub agent: bool,
    /// Each model has one.
    pub model: bool,
    /// Each user has one. Requests without a proven user share one.
    pub user: bool,
}

/// The most that may be used in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetLimits {
    /// Requests.
    pub requests: Option<u64>,
    /// Tokens, read and written.
    pub tokens: Option<u64>,
    /// Money.
    pub cost: Option<Micros>,
}

/// One budget.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Its name; no two have the same.
    pub name: String,
    /// The agents that it applies to; all, if `None`.
    pub agent: Option<Pattern>,
    /// The models.
    pub model: Option<Pattern>,
    /// The users.
    pub user: Option<Pattern>,
    /// What it is counted separately by.
    pub per: Per,
    /// When it is reset.
    pub window: Window,
    /// How much may be used.
    pub limits: BudgetLimits,
}

/// All budgets, and the settings for counting.
#[derive(Clone, Debug, Default)]
pub struct BudgetSettings {
    /// The budgets.
    pub budgets: Vec<Budget>,
    /// What models cost.
    pub prices: Prices,
    /// How many tokens are reserved for an answer.
    pub answer_tokens: u64,
}

/// The guard over budgets. Clones share their counters.
#[derive(Clone, Debug)]
pub struct Budgets(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    settings: BudgetSettings,
    store: Arc<dyn Store>,
    clock: fn() -> Timestamp,
    pending: Mutex<Reserved>,
}

/// What is reserved for calls that have not ended.
#[derive(Debug, Default)]
struct Reserved {
    by_key: HashMap<Key, VecDeque<Pending>>,
    /// The keys in the order in which they came, and some that are gone.
    order: VecDeque<Key>,
}

impl Reserved {
    fn remember(&mut self, key: Key, pending: Pending, most: usize) {
        if let Some(of_key) = self.by_key.get_mut(&key) {
            of_key.retain(|known| known.id != pending.id);
            of_key.push_back(pending);
            return;
        }
        // Calls that are stopped by others after they were reserved for never end: they must not keep the place of
        // those that do.
        while self.by_key.len() >= most
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_key.remove(&oldest);
        }
        if self.order.len() >= most.saturating_mul(2) {
            let Self { by_key, order } = self;
            order.retain(|key| by_key.contains_key(key));
        }
        self.order.push_back(key.clone());
        self.by_key.insert(key, VecDeque::from([pending]));
    }

    /// Takes the oldest reservation under a key that is meant.
    fn take(&mut self, key: &Key, meant: impl Fn(&Pending) -> bool) -> Option<Pending> {
        let of_key = self.by_key.get_mut(key)?;
        let at = of_key.iter().position(meant)?;
        let pending = of_key.remove(at);
        if of_key.is_empty() {
            self.by_key.remove(key);
        }
        pending
    }
}

/// One model call: the span that the host gave it, or its run where it gave none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key(String);

/// What is reserved for a call.
#[derive(Clone, Debug)]
struct Pending {
    id: ReservationId,
    charged: Vec<(Text, Unit)>,
    input: u64,
}

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Requests,
    Tokens,
    Cost,
}

impl Unit {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Tokens => "tokens",
            Self::Cost => "cost",
        }
    }

    fn show(self, amount: u64) -> String {
        match self {
            Self::Requests | Self::Tokens => format!("{amount} {}", self.as_str()),
            Self::Cost => format!("{} of money", Micros(amount)),
        }
    }
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
struct Asking<'a> {
    agent: Option<&'a str>,
    model: &'a str,
    user: Option<&'a str>,
}

impl<'a> Asking<'a> {
    fn of(event: &'a BeforeLlmCallEvent, call: &'a CallContext) -> Self {
        let user = call
            .requester
            .as_ref()
            .and_then(|requester| requester.sender_id.as_deref().or(requester.account_id.as_deref()));
        Self { agent: call.agent_id.as_ref().map(AgentId::as_str), model: &event.model, user }
    }
}

impl Budget {
    fn is_about(&self, asking: Asking<'_>) -> bool {
        let meant = |pattern: &Option<Pattern>, name| {
            pattern.as_ref().is_none_or(|pattern| pattern.matches_any(name))
        };
        meant(&self.agent, asking.agent)
            && meant(&self.model, Some(asking.model))
            && meant(&self.user, asking.user)
    }

    fn counter(&self, asking: Asking<'_>, unit: Unit) -> String {
        let apart = |by: bool, name: Option<&str>| {
            if by { name.unwrap_or("-").replace('%', "%25").replace('/', "%2f") } else { "*".to_owned() }
        };
        format!(
            "budget/{}/{}/{}/{}/{}",
            self.name,
            apart(self.per.agent, asking.agent),
            apart(self.per.model, Some(asking.model)),
            apart(self.per.user, asking.user),
            unit.as_str()
        )
    }
}

impl Budgets {
    /// Creates a guard that counts in `store`.
    pub fn new(settings: BudgetSettings, store: Arc<dyn Store>) -> Self {
        Self::with_clock(settings, store, Timestamp::now)
    }

    /// Like [`Self::new`], with another clock.
    pub fn with_clock(settings: BudgetSettings, store: Arc<dyn Store>, clock: fn() -> Timestamp) -> Self {
        Self(Arc::new(Shared { settings, store, clock, pending: Mutex::default() }))
    }

    pub(super) fn reserving(&self) -> Arc<dyn Hook<BeforeLlmCall>> {
        Arc::new(Reserving(self.clone()))
    }

    pub(super) fn releasing(&self) -> Arc<dyn Hook<ModelCallEnded>> {
        Arc::new(Releasing(self.clone()))
    }

    pub(super) fn settling(&self) -> Arc<dyn Hook<LlmOutput>> {
        Arc::new(Settling(self.clone()))
    }

    async fn reserve(
        &self,
        event: &BeforeLlmCallEvent,
        call: &CallContext,
    ) -> Result<Option<BeforeLlmCallOutcome>, HookError> {
        if event.model == NO_MODEL {
            return Ok(None);
        }
        let asking = Asking::of(event, call);
        let estimate = TokenUsage {
            input: event.token_estimate,
            output: event.answer_tokens.unwrap_or(self.0.settings.answer_tokens),
            ..TokenUsage::default()
        };
        let now = (self.0.clock)();
        let mut wanted = Vec::new();
        for budget in self.0.settings.budgets.iter().filter(|budget| budget.is_about(asking)) {
            let (since, until) = budget.window.around(now);
            for (unit, limit) in budget.limits.each() {
                let Some(amount) = self.amount(unit, asking.model, estimate) else {
                    return Ok(Some(stop(format!(
                        "the budget `{}` counts money, and nobody gave a price of the model `{}` [NO_PRICE]",
                        budget.name, asking.model
                    ))));
                };
                let counter = Text::from(budget.counter(asking, unit));
                wanted.push((budget, unit, Charge { counter, since, until, amount, limit }));
            }
        }
        if wanted.is_empty() {
            return Ok(None);
        }
        let key = Key::of(call, &event.run_id);
        let pending = Pending {
            id: ReservationId::new(format!("call/{}/{}", key.0, event.iteration)),
            charged: wanted.iter().map(|(_, unit, charge)| (charge.counter.clone(), *unit)).collect(),
            input: event.token_estimate,
        };
        let charges = wanted.iter().map(|(_, _, charge)| charge.clone()).collect();
        match self.0.store.reserve(&pending.id, charges).await {
            Ok(()) => {
                self.remember(key, pending);
                Ok(None)
            }
            Err(ReserveError::Exceeded(exceeded)) => {
                // An earlier judgement of the same call may have reserved.
                if let Some(earlier) = self.forget(&key, |known| known.id == pending.id) {
                    self.settle(&earlier, |_| Some(0)).await?;
                }
                let (budget, unit, charge) = wanted
                    .get(exceeded.charge)
                    .ok_or_else(|| HookError::failed("the store refused a charge that was not made"))?;
                Ok(Some(stop(reason(budget, *unit, charge, &exceeded))))
            }
            Err(ReserveError::Store(error)) => Err(unreachable(&error)),
            Err(error @ ReserveError::TooMany(_)) => Err(HookError::failed(error.to_string())),
        }
    }

    fn amount(&self, unit: Unit, model: &str, usage: TokenUsage) -> Option<u64> {
        match unit {
            Unit::Requests => Some(1),
            Unit::Tokens => Some(usage.total()),
            Unit::Cost => self.0.settings.prices.cost(model, usage).map(|Micros(cost)| cost),
        }
    }

    fn remember(&self, key: Key, pending: Pending) {
        let mut all = self.0.pending.lock().unwrap_or_else(PoisonError::into_inner);
        all.remember(key, pending, MAX_PENDING);
    }

    /// Takes the oldest reservation under a key that is meant.
    fn forget(&self, key: &Key, meant: impl Fn(&Pending) -> bool) -> Option<Pending> {
        self.0.pending.lock().unwrap_or_else(PoisonError::into_inner).take(key, meant)
    }

    /// Replaces what is reserved for a call. What `cost` does not know stays.
    async fn settle(&self, pending: &Pending, cost: impl Fn(Unit) -> Option<u64>) -> Result<(), HookError> {
        let costs = pending
            .charged
            .iter()
            .filter_map(|(counter, unit)| Some((counter.clone(), cost(*unit)?)))
            .collect();
        let settled = self.0.store.settle(&pending.id, costs).await;
        settled.map(drop).map_err(|error| unreachable(&error))
    }

    /// Returns what a call did use; by its text where the provider did not say.
    fn used(&self, event: &LlmOutputEvent, pending: &Pending) -> TokenUsage {
        match event.usage {
            Some(usage) if usage.total() > 0 => usage,
            _ => {
                let bytes: usize = event.assistant_texts.iter().map(|text| text.len()).sum();
                let written = u64::try_from(bytes).unwrap_or(u64::MAX) / BYTES_PER_TOKEN;
                TokenUsage {
                    input: pending.input,
                    output: written.max(self.0.settings.answer_tokens),
                    ..TokenUsage::default()
                }
            }
        }
    }
}

impl BudgetLimits {
    fn each(self) -> impl Iterator<Item = (Unit, u64)> {
        let limits = [
            (Unit::Requests, self.requests),
            (Unit::Tokens, self.tokens),
            (Unit::Cost, self.cost.map(|Micros(cost)| cost)),
        ];
        limits.into_iter().filter_map(|(unit, limit)| Some((unit, limit?)))
    }
}

impl Key {
    fn of(call: &CallContext, run: &RunId) -> Self {
        Self(match &call.trace {
            Some(trace) => format!("{}-{}", trace.trace_id, trace.span_id),
            None => {
                let session = call.session_id.as_ref().map(AsRef::as_ref).unwrap_or_default();
                format!("{session}/{run}")
            }
        })
    }
}

fn stop(reason: String) -> BeforeLlmCallOutcome {
    BeforeLlmCallOutcome {
        block: Some(true),
        block_reason: Some(Reason::new(reason).by(["budget.exceeded".into()])),
        ..BeforeLlmCallOutcome::default()
    }
}

fn reason(budget: &Budget, unit: Unit, charge: &Charge, exceeded: &Exceeded) -> String {
    let resets = match charge.until {
        Some(until) => format!("it begins anew at {until}"),
        None => "it does not begin anew".to_owned(),
    };
    format!(
        "the budget `{}` of {} a {} has no room: {} used, about {} needed [BUDGET_EXCEEDED]; {resets}",
        budget.name,
        unit.show(charge.limit),
        budget.window.as_str(),
        unit.show(exceeded.spent),
        unit.show(exceeded.amount),
    )
}

struct Reserving(Budgets);

impl Hook<BeforeLlmCall> for Reserving {
    fn call<'a>(&'a self, event: &'a BeforeLlmCallEvent, cx: Context<'a>) -> Answer<'a, BeforeLlmCall> {
        Answer::Later(Box::pin(self.0.reserve(event, cx.call)))
    }
}

struct Releasing(Budgets);

impl Hook<ModelCallEnded> for Releasing {
    fn call<'a>(&'a self, event: &'a ModelCallEndedEvent, cx: Context<'a>) -> Answer<'a, ModelCallEnded> {
        Answer::Later(Box::pin(async move {
            let is_over =
                event.outcome == ModelCallResult::Error || event.transport.as_deref() == Some(ONLY_COUNTED);
            if is_over && let Some(pending) = self.0.forget(&Key::of(cx.call, &event.run_id), |_| true) {
                let read = TokenUsage { input: pending.input, ..TokenUsage::default() };
                let used = |unit| match unit {
                    Unit::Requests => None,
                    // An answer that began was paid for, however it ended.
                    _ if event.time_to_first_byte_ms.is_some() => None,
                    // So is a request whose client did not wait for one.
                    unit if event.error_category.as_deref() == Some(ABORTED) => {
                        self.0.amount(unit, &event.model, read)
                    }
                    _ => Some(0),
                };
                self.0.settle(&pending, used).await?;
            }
            Ok(None)
        }))
    }
}

struct Settling(Budgets);

impl Hook<LlmOutput> for Settling {
    fn call<'a>(&'a self, event: &'a LlmOutputEvent, cx: Context<'a>) -> Answer<'a, LlmOutput> {
        Answer::Later(Box::pin(async move {
            let budgets = &self.0;
            if let Some(pending) = budgets.forget(&Key::of(cx.call, &event.run_id), |_| true) {
                let used = budgets.used(event, &pending);
                budgets.settle(&pending, |unit| budgets.amount(unit, &event.model, used)).await?;
            }
            Ok(None)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(name: &str) -> (Key, Pending) {
        let id = ReservationId::new(name);
        (Key(name.to_owned()), Pending { id, charged: Vec::new(), input: 0 })
    }

    #[test]
    fn calls_that_never_end_do_not_keep_the_place_of_others() {
        let mut reserved = Reserved::default();
        for number in 0..100 {
            let (key, call) = pending(&number.to_string());
            reserved.remember(key.clone(), call.clone(), 4);
            reserved.remember(key.clone(), call, 4);
            assert!(reserved.by_key.len() <= 4 && reserved.order.len() <= 8);
            if number % 3 == 0 {
                assert!(reserved.take(&key, |_| true).is_some(), "the newest is known");
                assert!(reserved.take(&key, |_| true).is_none(), "and stands once");
            }
        }
        assert!(reserved.take(&pending("1").0, |_| true).is_none(), "the oldest is forgotten");
    }
}
