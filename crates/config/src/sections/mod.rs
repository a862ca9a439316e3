//! The sections of `backstop.yaml`, one module each.

mod agent;
mod api;
mod approvals;
mod at;
mod callers;
mod console;
mod daemon;
mod gateway;
mod guards;
mod hooks;
mod identity;
mod limits;
mod plugins;
mod providers;
mod retention;
mod sandbox;
mod store;
mod surfaces;
mod tape;
mod telemetry;
mod witness;

pub use agent::{Agent, Approvals, Compaction, Expiry};
pub use api::{ApiCallback, GatewayApi};
pub use approvals::{Answering, ApprovalRoute, ApprovalWhen, AskWhom, AskingLimits, Escalate, Person};
pub use at::{HookAuthorization, HooksAt, PlacedHook, PointHook, PointHooks};
pub use callers::{CallerBudget, CallerQuota, GatewayAgent, GatewayQuotas, GatewayUser};
pub use console::{ClaimText, GatewayConsole, GatewayOidc};
pub use daemon::Daemon;
pub use gateway::{
    Gateway, GatewayLimits, GatewayOperation, GatewayOperators, GatewayProviders, GatewayRoute,
    GatewayTimeouts, GatewayTls, GatewayWebSockets, GatewayWitness, Listen, ListenHere,
};
pub use guards::{
    AllowCommand, AllowPath, CommandSafety, Guards, HiddenText, PersonalData, Secrets, SensitiveFiles,
};
pub use hooks::{Chain, ChainedHook, HookEntry, Hooks, LlmCallHooks, ToolCallHooks};
pub use identity::{ClaimValue, GatewayIdentity, GatewayIssuer};
pub use limits::{Budget, Budgets, GatewayHooks, Loops, ModelAccess, Price};
pub use plugins::{PluginEntry, PluginFiles, PluginGrants, PluginHooks, Plugins};
pub use providers::{Audit, Provider};
pub use retention::{Days, KeptApprovals, KeptAudit, KeptSessions, KeptTranscripts, Most, Retention};
pub use sandbox::Sandbox;
pub use store::{Store, StorePostgres};
pub use surfaces::{
    ChatId, EmailSurface, NtfySurface, QuietHours, SlackSurface, Surfaces, TelegramSurface, WEB_PUSH,
    WebPushSurface, WebhookSurface,
};
pub use tape::Tape;
pub use telemetry::{Telemetry, Traces};
pub use witness::{AuditWitness, WitnessKind};

use crate::config_value::{Entries, section};
use crate::problem::{Problem, ProblemKind};
use crate::reader::Reader;
use crate::values::Name;

section! {
    /// Configuration of Backstop.
    pub struct Config {
        /// Hooks: verdict hooks around tool calls and model calls, and programs and servers at any point.
        hooks ("hooks"): Hooks, Nested;
        /// Plugins and built-in hooks, by id.
        plugins ("plugins"): Plugins, OperatorOnly;
        /// The built-in guards.
        guards ("guards"): Guards, Nested;
        /// The agent that `backstop agent` runs.
        agent ("agent"): Agent, Nested;
        /// Who may answer the questions that hooks ask. A repository that could set it would name those who let its agent go on.
        approvals ("approvals"): Answering, OperatorOnly;
        /// Model providers, by a name of your choice. A repository that could set one could send the conversation
        /// and the key anywhere.
        providers ("providers"): Entries<Name, Provider>, OperatorOnly;
        /// The LLM proxy that `backstop serve` and `backstop run` start. A repository that could set it could let
        /// others in.
        gateway ("gateway"): Gateway, Nested;
        /// The daemon that answers the hooks of coding agents. A repository that could set it could have its own
        /// program judge.
        daemon ("daemon"): Daemon, OperatorOnly;
        /// How the programs that agents start are confined. A repository that could set it could open the door for its
        /// own scripts.
        sandbox ("sandbox"): Sandbox, OperatorOnly;
        /// How much agents may use of models.
        budgets ("budgets"): Budgets, OperatorOnly;
        /// Calls that go round in circles.
        loops ("loops"): Loops, OperatorOnly;
        /// Which models agents may ask. An agent that no entry is about may ask any.
        models ("models"): Vec<ModelAccess>, OperatorOnly;
        /// Where sessions, approvals and receipts are kept.
        store ("store"): Store, OperatorOnly;
        /// The audit trail.
        audit ("audit"): Audit, OperatorOnly;
        /// How long what is stored is kept. A repository that could set it could have traces deleted.
        retention ("retention"): Retention, OperatorOnly;
        /// The recording of judged tool calls. A repository that could set it could have them recorded for itself.
        tape ("tape"): Tape, OperatorOnly;
        /// What is told of what goes on here, and to whom. A repository that could set it could send it elsewhere.
        telemetry ("telemetry"): Telemetry, OperatorOnly;
    }
}

impl Config {
    /// Checks the merged configuration: names that must be unique or must exist.
    pub(crate) fn check_merged(&self, cx: &mut Reader<'_>) {
        self.hooks.check(cx);
        self.gateway.check(&self.providers, cx);
        self.budgets.check(cx);
        self.audit.check(cx);
        self.store.check(cx);
        cx.in_key("approvals", |cx| self.approvals.check(self.gateway.console.oidc.issuer.is_some(), cx));
        cx.in_key("telemetry", |cx| self.telemetry.check(cx));
        let Some(provider) = &self.agent.provider else { return };
        if self.providers.get(provider.value.as_str()).is_none() {
            let known: Vec<&str> = self.providers.iter().map(|(name, _)| name.value.as_str()).collect();
            let message = format!("no provider is called `{}`", provider.value.as_str());
            let hint = crate::problem::suggestion(provider.value.as_str(), &known, "providers");
            let at = provider.at.clone();
            cx.report(Problem::new(ProblemKind::UnknownName, at, message).with_hint(hint));
        }
    }
}
