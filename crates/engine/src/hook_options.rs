//! How a hook is registered, and what is known about a registered hook.
//!
//! [`HookOptions`] are set by whoever registers a hook. [`HookMeta`] is what applies after the operator's settings and
//! the point's defaults.

use std::fmt;
use std::time::Duration;

use backstop_hooks::{
    AgentId, CallContext, FailurePolicy, HookId, Json, OwnerId, PointId, ToolName, Trigger,
};
use serde::{Deserialize, Serialize};

use crate::matcher::{AgentMatcher, ToolMatcher};
use crate::operator::{Budget, BudgetSource, FailureSource};

/// How a hook was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    /// A handler that returns an outcome.
    #[default]
    Typed,
    /// A handler that edits in place.
    Interceptor,
    /// `pre_call` / `post_call`, selected by type in the configuration.
    Verdict,
    /// A reader of growing text that returns spans; see [`SpanRedactor`](crate::SpanRedactor).
    Redactor,
    /// Outside of this process, or in another language.
    Foreign,
}

/// Why a hook is in the registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// A program registered it; it survives [`Registry::reload`](crate::Registry::reload).
    #[default]
    Program,
    /// The configuration names it; it is removed when the configuration no longer does.
    Configuration,
}

/// Whether a hook's answers count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HookMode {
    /// They do.
    #[default]
    Enforce,
    /// They change nothing: the hook is asked about the final value, and the receipt says what it would have done
    /// ([`Step::would`](crate::Step::would)). It is no gate.
    Shadow,
}

impl HookMode {
    /// Returns whether answers change nothing.
    pub fn is_shadow(&self) -> bool {
        *self == Self::Shadow
    }

    fn is_enforced(&self) -> bool {
        !self.is_shadow()
    }
}

/// What happens to a hook's rewrite if an earlier hook objects to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rewrite {
    /// It is what makes the value acceptable to this hook: the value is blocked as `unstable_rewrite`.
    Required,
    /// It is a convenience: it gives way, and the receipt says so. The hook's blocks and questions are never
    /// optional.
    Optional,
}

impl Rewrite {
    /// Returns the default at a point: optional where a failed hook is skipped, because its rewrite is dispensable there;
    /// required where a failed hook blocks.
    pub fn at(point: PointId) -> Self {
        match point.info().failure {
            FailurePolicy::Open => Self::Optional,
            FailurePolicy::Closed | FailurePolicy::OpenIfUnreachable => Self::Required,
        }
    }
}

/// How a hook is to be registered.
#[derive(Clone, Debug)]
pub struct HookOptions {
    /// The hook's id; derived from owner and point when absent.
    pub id: Option<HookId>,
    /// The owner that registers it.
    pub owner: OwnerId,
    /// Higher runs first; ties run in registration order.
    pub priority: i32,
    /// The author's time budget.
    pub timeout: Option<Budget>,
    /// The author's failure policy, where it differs from the point's. The operator's policy takes precedence. If an
    /// entry of the configuration has one too, the stricter of the two applies.
    pub on_failure: Option<FailurePolicy>,
    /// Whether its rewrites give way to earlier hooks; [`Rewrite::at`] its point when absent.
    pub rewrite: Option<Rewrite>,
    /// Whether its answers count.
    pub mode: HookMode,
    /// Only these tools.
    pub tools: Option<ToolMatcher>,
    /// Only these agents.
    pub agents: Option<AgentMatcher>,
    /// Only runs that one of these started.
    pub triggers: Option<Vec<Trigger>>,
    /// Whether it judges calls once more with their placeholders replaced by values. Such a hook must run in
    /// this process and keep nothing of what it reads. Built-in hooks do so when this is absent.
    pub judges_values: Option<bool>,
    /// The only fields that it can answer, if known. It is then an error if none of them can have an effect.
    pub answers: Option<&'static [&'static str]>,
    /// Its own configuration, if it has one besides its owner's.
    pub config: Option<Json>,
    /// How it was written.
    pub style: Style,
    /// Why it is in the registry.
    pub origin: Origin,
    /// Hints for people about its configuration, such as names that look like typos.
    pub hints: Vec<String>,
}

impl HookOptions {
    /// Options with priority 0 and everything else left to the point.
    pub fn new(owner: OwnerId) -> Self {
        Self {
            id: None,
            owner,
            priority: 0,
            timeout: None,
            on_failure: None,
            rewrite: None,
            mode: HookMode::Enforce,
            tools: None,
            agents: None,
            triggers: None,
            judges_values: None,
            answers: None,
            config: None,
            style: Style::Typed,
            origin: Origin::Program,
            hints: Vec::new(),
        }
    }

    /// Marks the hook as named by the configuration.
    #[must_use]
    pub fn configured(mut self) -> Self {
        self.origin = Origin::Configuration;
        self
    }

    /// Sets the id.
    #[must_use]
    pub fn id(mut self, id: impl Into<HookId>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the priority.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the author's budget.
    #[must_use]
    pub fn timeout(mut self, budget: Budget) -> Self {
        self.timeout = Some(budget);
        self
    }

    /// Sets whether the hook's rewrites give way to earlier hooks.
    #[must_use]
    pub fn rewrite(mut self, rewrite: Rewrite) -> Self {
        self.rewrite = Some(rewrite);
        self
    }

    /// Sets whether the hook's answers count.
    #[must_use]
    pub fn mode(mut self, mode: HookMode) -> Self {
        self.mode = mode;
        self
    }

    /// Limits the hook to runs that one of these started. At points where failing is not passing, it is also asked about calls
    /// that don't say what started their run.
    #[must_use]
    pub fn triggers(mut self, triggers: impl IntoIterator<Item = Trigger>) -> Self {
        self.triggers = Some(triggers.into_iter().collect());
        self
    }

    /// Limits the hook to tools.
    #[must_use]
    pub fn tools(mut self, tools: ToolMatcher) -> Self {
        self.tools = Some(tools);
        self
    }

    /// Declares that the hook answers these fields of the outcome and no others.
    #[must_use]
    pub fn answers(mut self, fields: &'static [&'static str]) -> Self {
        self.answers = Some(fields);
        self
    }

    /// Limits the hook to agents.
    #[must_use]
    pub fn agents(mut self, agents: AgentMatcher) -> Self {
        self.agents = Some(agents);
        self
    }
}

/// A registered hook, without its code.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HookMeta {
    /// The hook.
    pub id: HookId,
    /// The owner that registered it.
    pub owner: OwnerId,
    /// The point it is registered at.
    pub point: PointId,
    /// Its priority.
    pub priority: i32,
    /// Its budget, in milliseconds on the wire.
    #[serde(rename = "budgetMs", serialize_with = "as_millis")]
    pub budget: Duration,
    /// Who set the budget.
    pub budget_source: BudgetSource,
    /// What its failure means.
    pub on_failure: FailurePolicy,
    /// Which setting decided that.
    pub failure_source: FailureSource,
    /// Whether its rewrites give way to earlier hooks.
    pub rewrite: Rewrite,
    /// Whether its answers count.
    #[serde(skip_serializing_if = "HookMode::is_enforced")]
    pub mode: HookMode,
    /// How it was written.
    pub style: Style,
    /// Why it is in the registry.
    pub origin: Origin,
    /// The tools that it is limited to.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    pub tools: Option<ToolMatcher>,
    /// The agents it is limited to.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    pub agents: Option<AgentMatcher>,
    /// What started the runs that it is limited to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub triggers: Option<Vec<Trigger>>,
    /// Whether it judges calls once more with their placeholders replaced by values.
    pub judges_values: bool,
    /// Hints for people about its configuration, such as names that look like typos.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    #[serde(skip)]
    pub(crate) config: Json,
}

fn as_millis<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

fn as_text<T: fmt::Display, S: serde::Serializer>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&value.as_ref().map(ToString::to_string).unwrap_or_default())
}

impl HookMeta {
    /// Returns whether the hook applies to this tool and agent. Where failing is not passing, a gate for some agents is also
    /// asked about a call without an agent, because it may be theirs.
    pub fn applies_to(&self, tool: Option<&ToolName>, agent: Option<&AgentId>) -> bool {
        let nameless = agent.is_none() && self.is_closed();
        self.tools.as_ref().is_none_or(|tools| tool.is_some_and(|tool| tools.matches(tool)))
            && self.agents.as_ref().is_none_or(|agents| nameless || agents.matches(agent))
    }

    /// Returns whether the hook is about this tool, in this call.
    pub(crate) fn is_about(&self, tool: Option<&ToolName>, call: &CallContext) -> bool {
        let eligible = |triggers: &Vec<Trigger>| match &call.trigger {
            Some(trigger) => triggers.contains(trigger),
            None => self.is_closed(),
        };
        self.applies_to(tool, call.agent_id.as_ref()) && self.triggers.as_ref().is_none_or(eligible)
    }

    fn is_closed(&self) -> bool {
        self.point.info().failure != FailurePolicy::Open
    }
}
