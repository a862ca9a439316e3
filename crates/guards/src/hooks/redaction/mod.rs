//! The redactor as hooks: secrets, personal data and hidden text where they change hands.
//!
//! - *Results.* At `tool.after` every text of a result is cleaned before the model reads it: its parts, its
//!   details, and what the host does not know. JSON stays JSON.
//! - *Answers.* At `before_response_emit` it is a span redactor, so answers still stream.
//! - *Prompts.* At `message.before`, `before_agent_run` and `before_llm_call` it cleans or stops what
//!   people and hosts put in front of the model. The last catches what no other place saw: a proxy has
//!   nothing else.
//! - *Tools.* At `before_llm_call` a tool whose description hides text is taken off the offer.
//! - *ArgumentActions.* A placeholder is turned back into its value in the arguments of listed tools alone, after
//!   every gate: see [`Unsealer`](backstop_engine::Unsealer). At `before_tool_call` a call whose arguments hold a
//!   secret, personal data or text that hides may be reported, asked about or blocked. Nothing is taken out of arguments: another value would be
//!   another call.
//!
//! If the policy ignores everything at a point, the point has no hook. Findings that are not removed are logged, by kind
//! and count, never by value.

mod answers;
mod arguments;
mod prompts;
mod results;
mod walk;

use std::collections::BTreeMap;
use std::sync::Arc;

use backstop_engine::{HookOptions, RegisterError, Snapshot, SpanKind};
use backstop_hooks::points::{BeforeAgentRun, BeforeLlmCall, BeforeToolCall, MessageBefore, ToolAfter};
use backstop_hooks::{CallContext, MemoKey, OwnerId, PointId, Text};
use backstop_scan::{Action, Catalogue, Class, Finding, Policy, Redacted, Redactor, Scanner};

use arguments::Vaults;

/// The id of the redactor.
pub const REDACTOR_ID: &str = "builtin:redactor";

/// What is done where.
#[derive(Clone, Debug)]
pub struct RedactionSettings {
    /// With the results of tools.
    pub results: Policy,
    /// With what the model answers.
    pub answers: Policy,
    /// With what the model reads, other than results.
    pub prompts: Policy,
    /// Whether tools whose description hides text are taken off the offer.
    pub withdraws_tools: bool,
    /// Whether such tools are reported, where they stay.
    pub reports_tools: bool,
    /// The tools that get the values of placeholders, by their normalised names.
    pub restored_in: Vec<String>,
    /// With calls whose arguments hold something.
    pub arguments: ArgumentActions,
    /// What is looked for besides the kinds that everybody has.
    pub catalogue: Arc<Catalogue>,
}

impl RedactionSettings {
    /// Returns whether tools are looked at for text that hides.
    fn judges_tools(&self) -> bool {
        self.withdraws_tools || self.reports_tools
    }
}

/// What becomes of calls by what their arguments hold; `None` where they are not looked at for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArgumentActions {
    /// A secret.
    pub secrets: Option<InArguments>,
    /// Personal data.
    pub personal_data: Option<InArguments>,
    /// Text that hides.
    pub hidden: Option<InArguments>,
}

impl ArgumentActions {
    /// What becomes of a call that holds something of this class.
    fn of(self, class: Class) -> Option<InArguments> {
        match class {
            Class::Secret => self.secrets,
            Class::Pii => self.personal_data,
            Class::Hidden => self.hidden,
            // One that nobody configures is what the strictest say.
            _ => self.secrets.max(self.personal_data).max(self.hidden),
        }
    }

    /// The classes that are looked for.
    fn classes(self) -> Vec<Class> {
        Class::ALL.into_iter().filter(|class| self.of(*class).is_some()).collect()
    }
}

/// What becomes of a call whose arguments hold something. Strictness grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum InArguments {
    /// It runs, and what was found is logged.
    Report,
    /// A human is asked.
    Ask,
    /// It is blocked.
    Block,
}

/// A policy for one place, its scanner, and the vaults that its placeholders go to.
#[derive(Clone, Debug)]
struct Place {
    redactor: Redactor,
    vaults: Arc<Vaults>,
    /// Names the redactor, whichever vault it has: where it finds nothing, nothing goes there.
    key: MemoKey,
}

impl Place {
    /// `None` where the policy wants nothing done.
    fn new(policy: &Policy, vaults: &Arc<Vaults>, catalogue: &Arc<Catalogue>) -> Option<Self> {
        let wanted = policy.wanted();
        let scanner = || Scanner::for_classes(&wanted).with(Arc::clone(catalogue));
        (!wanted.is_empty()).then(|| Self {
            redactor: Redactor::new(Arc::new(scanner()), policy.clone()),
            vaults: Arc::clone(vaults),
            key: MemoKey::unique(),
        })
    }

    /// Returns the clean form of a text and what was found in it; `None` if that is nothing, which the text remembers.
    fn redacted(&self, call: &CallContext, text: &Text) -> Option<Redacted> {
        if text.is_clean(self.key) {
            return None;
        }
        let redacted = self.of(call).apply(text);
        if redacted.findings.is_empty() {
            text.remember_clean(self.key);
        }
        (!redacted.findings.is_empty()).then_some(redacted)
    }

    /// Returns the redactor for the session of a call.
    fn of(&self, call: &CallContext) -> Redactor {
        match self.vaults.of(call) {
            Some(vault) => self.redactor.clone().with_vault(vault),
            None => self.redactor.clone(),
        }
    }
}

/// Registers the redactor in a snapshot, at those of its points that a host of this process fires.
///
/// # Errors
///
/// [`RegisterError`] if it can't be registered at one of its points.
pub fn register_redaction(
    snapshot: &mut Snapshot,
    settings: &RedactionSettings,
) -> Result<(), RegisterError> {
    let policies = [&settings.results, &settings.answers, &settings.prompts];
    let keeps = policies.iter().any(|policy| policy.uses_placeholders());
    let vaults = Arc::new(Vaults::new(&settings.restored_in, keeps));
    let options = |half: &str, priority| {
        HookOptions::new(OwnerId::new(REDACTOR_ID)).id(format!("{REDACTOR_ID}{half}")).priority(priority)
    };
    if let Some(place) = Place::new(&settings.results, &vaults, &settings.catalogue) {
        snapshot.on_if_fired::<ToolAfter>(Arc::new(results::Results(place)), options("", 90))?;
    }
    if let Some(place) = Place::new(&settings.answers, &vaults, &settings.catalogue)
        && snapshot.hosts().does_fire(PointId::BeforeResponseEmit)
    {
        snapshot.on_spans(Arc::new(answers::Answers(place)), options(":answers", 90))?;
    }
    let prompts = Place::new(&settings.prompts, &vaults, &settings.catalogue);
    if let Some(place) = &prompts {
        snapshot.on_if_fired::<MessageBefore>(
            Arc::new(prompts::Messages(place.clone())),
            options(":messages", 90),
        )?;
        snapshot
            .on_if_fired::<BeforeAgentRun>(Arc::new(prompts::Gate(place.clone())), options(":run", 90))?;
    }
    if prompts.is_some() || settings.judges_tools() {
        let calls = prompts::Calls::new(prompts, settings);
        // The first who rewrites the messages locks them: nobody's rewrite may keep a secret in.
        snapshot.on_if_fired::<BeforeLlmCall>(Arc::new(calls), options(":prompts", i32::MAX))?;
    }
    if !settings.arguments.classes().is_empty() {
        let calls = arguments::Calls::new(settings.arguments, &settings.catalogue);
        snapshot.on_if_fired::<BeforeToolCall>(Arc::new(calls), options(":arguments", 90))?;
    }
    if keeps && !settings.restored_in.is_empty() {
        snapshot.set_unsealer(vaults);
    }
    Ok(())
}

fn kind(finding: &Finding) -> SpanKind {
    SpanKind { class: finding.span.class.name(), kind: finding.span.kind }
}

/// Returns what was found, as `2 secret/github_token, 1 pii/email`.
fn kinds<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> String {
    let mut counts: BTreeMap<SpanKind, usize> = BTreeMap::new();
    for finding in findings {
        *counts.entry(kind(finding)).or_default() += 1;
    }
    let counts: Vec<_> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    counts.join(", ")
}

/// Returns why findings forbid that something passes; `None` if they do not.
fn forbidden(findings: &[Finding]) -> Option<String> {
    let blocks = findings.iter().filter(|finding| finding.action == Action::Block);
    let kinds = kinds(blocks);
    (!kinds.is_empty()).then(|| format!("it holds what may not pass here: {kinds}"))
}

/// Logs what was found and left as it is.
fn log_reported(place: &'static str, findings: &[Finding]) {
    let kinds = kinds(findings.iter().filter(|finding| finding.action == Action::Report));
    if !kinds.is_empty() {
        tracing::info!(hook = REDACTOR_ID, place, found = kinds, "left as it is");
    }
}

/// Returns whether a text hides something from its reader.
fn hides(scanner: &Scanner, text: &str) -> bool {
    scanner
        .detect(text)
        .iter()
        .any(|span| span.class == Class::Hidden && span.confidence >= Policy::DEFAULT_CONFIDENCE)
}
