//! The guards as hooks.
//!
//! `builtin:command-safety-guard` runs at `tool.before` with priority 100 and judges commands.
//! `builtin:security-audit` runs there with priority 99 and judges access to files. Each judges a call once per
//! version of its arguments, and reports immediately what to stop and what to ask a human about. If a later hook rewrites
//! the call, they are asked again and judge the rewritten call. They report what they read as
//! facts ([`Fact`](backstop_hooks::Fact)): if that has changed by the time the call is to run, the judgement no longer
//! counts.
//!
//! `builtin:redactor` removes secrets, personal data and hidden text from what changes hands; its hook points
//! are in `redaction`.

mod command;
mod exhibit;
mod extract;
mod files;
mod hosts;
mod in_shadow;
mod package;
mod redaction;
mod shapes;

use std::sync::Arc;

use backstop_engine::{HookMode, HookOptions, RegisterError, Snapshot};
use backstop_hooks::points::{BeforeToolCall, ToolBefore, ToolBeforeOutcome, ToolCallOutcome};
use backstop_hooks::{ApprovalRequest, CallContext, Ground, Hook, OwnerId, Reason, RuleId, Severity};

pub use command::{COMMAND_SAFETY_ID, CommandSafety, seen};
pub use exhibit::mask_for_people;
pub use files::{FilePatterns, InvalidFilePattern, SECURITY_AUDIT_ID, SecurityAudit};
pub use in_shadow::{RULES_IN_SHADOW_ID, RulesInShadow};
pub use redaction::{ArgumentActions, InArguments, REDACTOR_ID, RedactionSettings, register_redaction};

use crate::{Finding, Judgement, Place, Verdict};

/// Registers the command guard in a snapshot, if a host of this process shows tool calls. People who are asked about a
/// call are shown what it finds of what the call would start.
///
/// # Errors
///
/// [`RegisterError`] if it can't be registered there.
pub fn register_command_safety(snapshot: &mut Snapshot, guard: &CommandSafety) -> Result<(), RegisterError> {
    register_command_safety_in(snapshot, guard, HookMode::Enforce)
}

/// As [`register_command_safety`], in a mode. In shadow the guard stops nothing, and questions show nothing that it finds: they are those
/// that there would be without it.
///
/// # Errors
///
/// [`RegisterError`] if it can't be registered there.
pub fn register_command_safety_in(
    snapshot: &mut Snapshot,
    guard: &CommandSafety,
    mode: HookMode,
) -> Result<(), RegisterError> {
    if !mode.is_shadow() {
        snapshot.set_foresight(Arc::new(guard.clone()));
    }
    stand(snapshot, guard, options(COMMAND_SAFETY_ID, 100, mode))
}

/// Registers what rules of the command guard in shadow would have done, beside the guard that counts.
///
/// # Errors
///
/// [`RegisterError`] if it can't be registered there.
pub fn register_rules_in_shadow(
    snapshot: &mut Snapshot,
    shadow: &RulesInShadow,
) -> Result<(), RegisterError> {
    let rules: Vec<String> = shadow.rules().map(|rule| format!("`{rule}`")).collect();
    let hint = format!("rules in shadow: {}", rules.join(", "));
    let of_guard = options(COMMAND_SAFETY_ID, 100, HookMode::Shadow);
    stand(snapshot, shadow, HookOptions { hints: vec![hint], ..of_guard }.id(RULES_IN_SHADOW_ID))
}

/// Registers the file guard in a snapshot, if a host of this process shows tool calls.
///
/// # Errors
///
/// [`RegisterError`] if it can't be registered there.
pub fn register_security_audit(snapshot: &mut Snapshot, guard: &SecurityAudit) -> Result<(), RegisterError> {
    register_security_audit_in(snapshot, guard, HookMode::Enforce)
}

/// As [`register_security_audit`], in a mode.
///
/// # Errors
///
/// [`RegisterError`] if it can't be registered there.
pub fn register_security_audit_in(
    snapshot: &mut Snapshot,
    guard: &SecurityAudit,
    mode: HookMode,
) -> Result<(), RegisterError> {
    stand(snapshot, guard, options(SECURITY_AUDIT_ID, 99, mode))
}

fn options(id: &str, priority: i32, mode: HookMode) -> HookOptions {
    HookOptions::new(OwnerId::new(id)).id(id).priority(priority).mode(mode)
}

/// In front of other interceptors; where a host shows calls to `before_tool_call` only, there.
fn stand<G>(snapshot: &mut Snapshot, guard: &G, options: HookOptions) -> Result<(), RegisterError>
where
    G: Hook<ToolBefore> + Hook<BeforeToolCall> + Clone,
{
    if snapshot.on_if_fired::<ToolBefore>(Arc::new(guard.clone()), options.clone())?.is_none() {
        snapshot.on_if_fired::<BeforeToolCall>(Arc::new(guard.clone()), options)?;
    }
    Ok(())
}

/// What a guard has against a call.
enum Objection {
    /// It is stopped.
    Stop(Reason),
    /// A human is to look at it.
    Ask(ApprovalRequest),
}

impl From<Objection> for ToolBeforeOutcome {
    fn from(objection: Objection) -> Self {
        match objection {
            Objection::Stop(reason) => {
                Self { block: Some(true), block_reason: Some(reason), ..Self::default() }
            }
            Objection::Ask(request) => Self { require_approval: Some(request.into()), ..Self::default() },
        }
    }
}

impl From<Objection> for ToolCallOutcome {
    fn from(objection: Objection) -> Self {
        match objection {
            Objection::Stop(reason) => Self::block(reason),
            Objection::Ask(request) => Self::ask(request),
        }
    }
}

/// Returns where a call happens, as far as the host says.
fn place(call: &CallContext, home: Option<&str>, workdir: Option<&str>) -> Place {
    // A home in front of it is written out, as the tool does.
    let dir = workdir.filter(|dir| dir.starts_with(['~', '$'])).map(|dir| {
        let place = Place::new(call.workspace_dir.as_deref().unwrap_or("/"));
        backstop_shell::paths::of_tool(dir, &home.map_or(place.clone(), |home| place.with_home(home)))
    });
    let workdir = dir.as_deref().or(workdir);
    let place = match (call.workspace_dir.as_deref(), workdir) {
        (Some(root), Some(dir)) if dir.starts_with('/') => Place::new(dir).with_workspace(root),
        (Some(root), Some(dir)) => Place::new(format!("{root}/{dir}")).with_workspace(root),
        (Some(root), None) => Place::new(root).with_workspace(root),
        (None, Some(dir)) if dir.starts_with('/') => Place::new(dir),
        (None, _) => Place::unknown(),
    };
    let place = match call.sight.lent().cloned() {
        Some(eyes) => place.with_links(move |path| eyes.leads_to(path)),
        None => place,
    };
    match home {
        Some(home) => place.with_home(home),
        None => place,
    }
}

/// Returns the reason of a finding, for the model and for people: what, why, and what to do instead.
fn reason(finding: &Finding) -> String {
    let mut text = format!("{} [{}]: {}", finding.reason, finding.code, finding.what);
    if let Some(alternative) = &finding.alternative {
        text.push_str("; safer: ");
        text.push_str(alternative);
    }
    text
}

/// Returns the findings that stop a call.
fn stopping(judgement: &Judgement) -> impl Iterator<Item = &Finding> {
    let stops = judgement.verdict == Verdict::Block;
    judgement
        .findings
        .iter()
        .filter(move |finding| stops && finding.verdict == Verdict::Block && finding.allowed_by.is_none())
}

/// Returns the rules of findings, each once.
fn rules(findings: &[&Finding]) -> Vec<RuleId> {
    let mut rules: Vec<RuleId> = Vec::new();
    for finding in findings {
        if rules.iter().all(|known| known.as_str() != finding.rule_id) {
            rules.push(finding.rule_id.as_str().into());
        }
    }
    rules
}

/// The rule of what could not be decided.
const UNKNOWN: &str = "command.unknown";

/// A question about the findings that want a human. `told` are those of `unknown` that there is room for.
fn question(title: &str, findings: &[&Finding], unknown: &[&str], told: &[String]) -> ApprovalRequest {
    let standing = findings
        .iter()
        .copied()
        .filter(|finding| finding.allowed_by.is_none() && finding.verdict == Verdict::Ask);
    let tell = |finding: &Finding| format!("{} (rule {})", reason(finding), finding.rule_id);
    let reasons: Vec<String> = standing.clone().map(tell).chain(told.iter().cloned()).collect();
    let found = standing.clone().map(|finding| Ground {
        rule: finding.rule_id.as_str().into(),
        about: finding.about.iter().map(|word| word.as_str().into()).collect(),
    });
    let undecided =
        unknown.iter().map(|reason| Ground { rule: UNKNOWN.into(), about: vec![(*reason).into()] });
    let grave = |severity| match severity {
        crate::Severity::Critical => Severity::Critical,
        crate::Severity::Warning => Severity::Warning,
        crate::Severity::Info => Severity::Info,
    };
    let severity = standing.clone().map(|finding| finding.severity).max().map_or(Severity::Warning, grave);
    let of_rules = standing.map(|finding| (finding.rule_id.as_str().into(), grave(finding.severity)));
    let of_unknown = unknown.first().map(|_| (UNKNOWN.into(), Severity::Warning));
    ApprovalRequest::cut(title, &reasons.join("\n"))
        .severity(severity)
        .grounds(found.chain(undecided))
        .severities(of_rules.chain(of_unknown))
}
