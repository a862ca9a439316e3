//! The guards as hooks.
//!
//! `builtin:command-safety-guard` stands at `tool.before` with priority 100 and stops commands;
//! `builtin:security-audit` stands there with priority 99 and stops access to sensitive files. What they
//! would rather have a human look at they say at `before_tool_call`, since an interceptor can't ask;
//! these halves have the same ids with `:ask`. Both halves go by one look at the call (`once`), and the
//! second stops what the first did not come to. A half that is asked again because a later hook rewrote
//! the call judges the rewritten call.
//!
//! `builtin:redactor` takes secrets, personal data and hidden text out of what changes hands; its places
//! are in `redaction`.

mod command;
mod extract;
mod files;
mod once;
mod redaction;

use backstop_engine::{HookOptions, RegisterError, Snapshot};
use backstop_hooks::{ApprovalRequest, CallContext, Ground, OwnerId, RuleId, Severity};

pub use command::{COMMAND_SAFETY_ID, CommandSafety};
pub use files::{FilePatterns, InvalidFilePattern, SECURITY_AUDIT_ID, SecurityAudit};
pub use redaction::{InArguments, REDACTOR_ID, RedactionSettings, register_redaction};

use crate::{Finding, Judgement, Place, Verdict};

/// Puts the command guard into a snapshot, where a host of this process shows tool calls.
///
/// # Errors
///
/// [`RegisterError`] when it can't stand there.
pub fn register_command_safety(snapshot: &mut Snapshot, guard: &CommandSafety) -> Result<(), RegisterError> {
    let options = |id: String| HookOptions::new(OwnerId::new(COMMAND_SAFETY_ID)).id(id).priority(100);
    snapshot.on_if_fired(guard.blocking_half(), options(COMMAND_SAFETY_ID.to_owned()))?;
    snapshot.on_if_fired(guard.asking_half(), options(format!("{COMMAND_SAFETY_ID}:ask")))?;
    Ok(())
}

/// Puts the file guard into a snapshot, where a host of this process shows tool calls.
///
/// # Errors
///
/// [`RegisterError`] when it can't stand there.
pub fn register_security_audit(snapshot: &mut Snapshot, guard: &SecurityAudit) -> Result<(), RegisterError> {
    let options = |id: String| HookOptions::new(OwnerId::new(SECURITY_AUDIT_ID)).id(id).priority(99);
    snapshot.on_if_fired(guard.blocking_half(), options(SECURITY_AUDIT_ID.to_owned()))?;
    snapshot.on_if_fired(guard.asking_half(), options(format!("{SECURITY_AUDIT_ID}:ask")))?;
    Ok(())
}

/// Where a call happens, as far as the host says.
fn place(call: &CallContext, home: Option<&str>, workdir: Option<&str>) -> Place {
    let place = match (call.workspace_dir.as_deref(), workdir) {
        (Some(root), Some(dir)) if dir.starts_with('/') => Place::new(dir).with_workspace(root),
        (Some(root), Some(dir)) => Place::new(format!("{root}/{dir}")).with_workspace(root),
        (Some(root), None) => Place::new(root).with_workspace(root),
        (None, Some(dir)) if dir.starts_with('/') => Place::new(dir),
        (None, _) => Place::unknown(),
    };
    match home {
        Some(home) => place.with_home(home),
        None => place,
    }
}

/// The reason of a finding, for the model and for people: what, why, and what to do instead.
fn reason(finding: &Finding) -> String {
    let mut text = format!("{} [{}]: {}", finding.reason, finding.code, finding.what);
    if let Some(alternative) = &finding.alternative {
        text.push_str("; safer: ");
        text.push_str(alternative);
    }
    text
}

/// The findings that stop a call.
fn stopping(judgement: &Judgement) -> impl Iterator<Item = &Finding> {
    let stops = judgement.verdict == Verdict::Block;
    judgement
        .findings
        .iter()
        .filter(move |finding| stops && finding.verdict == Verdict::Block && finding.allowed_by.is_none())
}

/// The rules of findings, each once.
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
    let grave = standing.map(|finding| finding.severity).max();
    let severity = match grave {
        Some(crate::Severity::Critical) => Severity::Critical,
        Some(crate::Severity::Info) => Severity::Info,
        _ => Severity::Warning,
    };
    ApprovalRequest::cut(title, &reasons.join("\n")).severity(severity).grounds(found.chain(undecided))
}
