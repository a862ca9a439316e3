//! What the operator decides about hooks without touching their code.
//!
//! Per owner: whether it runs at all, its configuration, its time budgets, whether what its hooks answer counts, and whether they may read the
//! conversation and change what the model reads. Per hook: what its failure means. The precedence of
//! budgets is `timeouts.<point>` > `timeoutMs` > the author's value > the point's default. Operator
//! values are 1..=600000 ms; the type [`Budget`] admits no others.

use std::collections::BTreeMap;
use std::time::Duration;

use backstop_hooks::{FailurePolicy, HookId, Json, Mode, OwnerId, PointId, PointInfo};

use crate::hook_options::{HookMode, Origin};

/// A time budget the operator or an author may set: 1 to 600000 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Budget(Duration);

/// A number of milliseconds that is not a valid budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a time budget is a whole number of milliseconds between 1 and 600000, not {0}")]
pub struct InvalidBudget(u64);

impl Budget {
    /// Creates a budget in milliseconds.
    ///
    /// # Errors
    ///
    /// [`InvalidBudget`] outside 1..=600000.
    pub fn from_millis(ms: u64) -> Result<Self, InvalidBudget> {
        if (1..=600_000).contains(&ms) { Ok(Self(Duration::from_millis(ms))) } else { Err(InvalidBudget(ms)) }
    }

    /// Returns the budget as a duration.
    pub fn get(self) -> Duration {
        self.0
    }
}

/// What the operator decided about one owner's hooks.
#[derive(Clone, Debug, Default)]
pub struct OwnerSettings {
    /// `Some(false)` excludes the owner's hooks.
    pub enabled: Option<bool>,
    /// The owner's configuration, which its hooks receive.
    pub config: Json,
    /// The budget of all its hooks.
    pub timeout: Option<Budget>,
    /// The budget of its hooks at one point.
    pub timeouts: BTreeMap<PointId, Budget>,
    /// Whether what its hooks answer counts. Those that only watch go on watching in shadow, and nothing of what the owner hands over for the
    /// next turn reaches the model.
    pub mode: HookMode,
    /// The same at one point.
    pub modes: BTreeMap<PointId, HookMode>,
    /// Whether its hooks may read the conversation. Owners that are not built in need `Some(true)`.
    pub allow_conversation_access: Option<bool>,
    /// Whether its hooks may change what the model reads. `Some(false)` forbids it.
    pub allow_prompt_injection: Option<bool>,
    /// Whether it may register trusted tool policies, which judge before every other hook. Owners that are not built in
    /// require `true`.
    pub allow_trusted_tool_policy: bool,
}

/// The operator's settings.
#[derive(Clone, Debug, Default)]
pub struct OperatorSettings {
    /// Per owner.
    pub owners: BTreeMap<OwnerId, OwnerSettings>,
    /// Per hook: what its failure means.
    pub on_failure: BTreeMap<HookId, FailurePolicy>,
}

/// Where a budget came from, for listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BudgetSource {
    /// `hooks.timeouts.<point>`.
    OperatorPoint,
    /// `hooks.timeoutMs`.
    OperatorOwner,
    /// The hook's author.
    Author,
    /// The point's default.
    Default,
}

/// Where the meaning of a hook's failure came from, for listings and receipts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureSource {
    /// `hooks.on_failure.<id>`.
    Operator,
    /// The hook's own entry in the configuration: its `on_failure`, or an option of its type, such as the
    /// `fail_open` of a webhook.
    Entry,
    /// The program that registered the hook.
    Author,
    /// The point's default.
    Default,
}

/// Of two policies the one that stops more of what fails.
pub(crate) fn stricter(one: FailurePolicy, other: FailurePolicy) -> FailurePolicy {
    use FailurePolicy::{Closed, Open, OpenIfUnreachable};
    match (one, other) {
        (Closed, _) | (_, Closed) => Closed,
        (OpenIfUnreachable, _) | (_, OpenIfUnreachable) => OpenIfUnreachable,
        (Open, Open) => Open,
    }
}

impl OwnerSettings {
    /// Returns whether what the owner hands over for the next turn may reach the model.
    pub(crate) fn may_inject(&self) -> bool {
        self.enabled != Some(false) && self.allow_prompt_injection != Some(false) && !self.mode.is_shadow()
    }
}

impl OperatorSettings {
    /// Returns what was decided about an owner.
    pub fn owner(&self, owner: &OwnerId) -> Option<&OwnerSettings> {
        self.owners.get(owner)
    }

    /// Returns whether the answers of an owner's hook at this point count. INVARIANT (a shadow stays one): nothing here makes a hook count
    /// that was registered in shadow.
    pub(crate) fn mode(&self, owner: &OwnerId, point: &PointInfo, own: HookMode) -> HookMode {
        let Some(settings) = self.owner(owner) else { return own };
        match settings.modes.get(&point.id) {
            Some(HookMode::Shadow) => HookMode::Shadow,
            Some(HookMode::Enforce) => own,
            // What only watches changes nothing as it is.
            None if settings.mode.is_shadow() && point.mode != Mode::Observe => HookMode::Shadow,
            None => own,
        }
    }

    pub(crate) fn budget(
        &self,
        owner: &OwnerId,
        point: &PointInfo,
        author: Option<Budget>,
    ) -> (Duration, BudgetSource) {
        let settings = self.owner(owner);
        let for_point = settings.and_then(|settings| settings.timeouts.get(&point.id));
        let for_owner = settings.and_then(|settings| settings.timeout);
        match (for_point, for_owner, author) {
            (Some(budget), ..) => (budget.get(), BudgetSource::OperatorPoint),
            (None, Some(budget), _) => (budget.get(), BudgetSource::OperatorOwner),
            (None, None, Some(budget)) => (budget.get(), BudgetSource::Author),
            (None, None, None) => (point.budget(), BudgetSource::Default),
        }
    }

    /// Returns what a hook's failure means. The operator's word by id goes before an author's. It and the word of the
    /// hook's entry stand in the same configuration: of these the stricter counts.
    pub(crate) fn failure(
        &self,
        hook: &HookId,
        point: &PointInfo,
        own: Option<FailurePolicy>,
        origin: Origin,
    ) -> (FailurePolicy, FailureSource) {
        let own_source = match origin {
            Origin::Configuration => FailureSource::Entry,
            Origin::Program => FailureSource::Author,
        };
        match (self.on_failure.get(hook).copied(), own) {
            (Some(by_id), Some(own)) if origin == Origin::Configuration && stricter(by_id, own) != by_id => {
                (own, own_source)
            }
            (Some(by_id), _) => (by_id, FailureSource::Operator),
            (None, Some(own)) => (own, own_source),
            (None, None) => (point.failure, FailureSource::Default),
        }
    }
}
