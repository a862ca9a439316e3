//! Recordings of judged tool calls, for those who try a policy on what happened.
//!
//! A receipt never has what was judged. Whoever wants to judge calls again under another configuration needs the calls themselves,
//! which an operator may have recorded ([`CallRecorder`]).
//!
//! The laws: *nobody waits for a recording*, which is handed over as it is and made ready by whoever records; *what a hook took out is
//! not recorded*: the call is recorded as its hooks left it, and not as it came; *no secret is recorded*: what is left is masked as for
//! people who are asked about it, and a call that can't be masked is not recorded. A call that was stopped before each hook was asked
//! that might have rewritten it is recorded without its arguments, and says so.
//!
//! Limits: calls that went all the way through [`Engine::permit_tool_call`](crate::Engine::permit_tool_call) or through a judged answer.
//! A call that was given up is not among them, nor are values behind placeholders.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use backstop_hooks::points::{BeforeToolCall, ToolBefore, ToolCallEvent, TrustedToolPolicy};
use backstop_hooks::{
    ApprovalRequest, CallContext, HookId, Params, Point as _, Reason, Resolution, RuleId, Severity,
    Substitute, contained,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hook_options::{HookMeta, Style};
use crate::receipt::{Blocked, Receipt, Said, Step, Verdict, Would};
use crate::registry::Snapshot;
use crate::tool_call::Reviewed;

/// The bytes in memory of a value, besides its text.
const NODE: usize = size_of::<Value>();

/// Somebody who records tool calls. It is called on the task of the call, and must not wait.
pub trait CallRecorder: Send + Sync + 'static {
    /// Takes a call that was judged.
    fn record(&self, recording: CallRecording);
}

/// A tool call that was judged, as its hooks left it and before its secrets are masked.
#[derive(Clone, Debug)]
pub struct CallRecording {
    pub(crate) event: ToolCallEvent,
    pub(crate) call: CallContext,
    pub(crate) judgement: CallJudgement,
    pub(crate) receipt: Receipt,
    pub(crate) snapshot: Arc<Snapshot>,
}

/// What the hooks made of a call. Strictness grows in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CallDecision {
    /// It passes as it is.
    Allow,
    /// It passes with other arguments.
    Modify,
    /// A human is to be asked, whatever comes of it.
    Ask,
    /// It is stopped.
    Block,
}

impl CallDecision {
    /// Returns its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Modify => "modify",
            Self::Ask => "ask",
            Self::Block => "block",
        }
    }
}

/// What the hooks made of a call, and which of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallJudgement {
    /// What they made of it. What a human says comes after that.
    pub decision: CallDecision,
    /// The hook that decided: the one that stopped it, asked the gravest question, or rewrote it last. Nobody for what was stopped
    /// by something else, such as the answer that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<HookId>,
    /// All hooks that asked about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked_by: Vec<HookId>,
    /// The rules by which it was stopped or asked about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleId>,
    /// How grave the gravest question is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
}

impl CallJudgement {
    /// Returns what hooks made of a call.
    pub fn of(reviewed: &Reviewed) -> Self {
        let Reviewed { changed, blocked, requests, receipt, .. } = reviewed;
        match (blocked, requests.as_slice()) {
            (Some(blocked), _) => Self::stopped(blocked),
            (None, []) if *changed => {
                let wrote = |step: &&Step| step.said == Said::Rewrote && step.proposal_of.is_none();
                let last = receipt.steps.iter().rev().find(wrote).map(|step| step.hook.id.clone());
                Self { hook: last, ..Self::passed(CallDecision::Modify) }
            }
            (None, []) => Self::passed(CallDecision::Allow),
            (None, requests) => Self::asked(requests),
        }
    }

    fn passed(decision: CallDecision) -> Self {
        Self { decision, hook: None, asked_by: Vec::new(), rules: Vec::new(), severity: None }
    }

    fn stopped(blocked: &Blocked) -> Self {
        let rules = blocked.reason.as_ref().map(Reason::rules).unwrap_or_default().to_vec();
        Self { hook: blocked.hook.clone(), rules, ..Self::passed(CallDecision::Block) }
    }

    fn asked(requests: &[ApprovalRequest]) -> Self {
        // The gravest of several, the first of equally grave ones.
        let gravest = requests.iter().rev().max_by_key(|request| request.severity_level());
        let mut rules: Vec<RuleId> =
            requests.iter().flat_map(ApprovalRequest::rests_on).map(|ground| ground.rule.clone()).collect();
        rules.sort();
        rules.dedup();
        let mut asked_by: Vec<HookId> = requests.iter().filter_map(ApprovalRequest::hook).cloned().collect();
        asked_by.sort();
        asked_by.dedup();
        Self {
            decision: CallDecision::Ask,
            hook: gravest.and_then(ApprovalRequest::hook).cloned(),
            asked_by,
            rules,
            severity: gravest.map(ApprovalRequest::severity_level),
        }
    }
}

/// A recorded call, without secrets. `Debug` names it, and shows nothing of it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedCall {
    /// When it was judged, as Unix milliseconds.
    pub at: u64,
    /// The id of its receipt.
    pub receipt: String,
    /// Through which host it was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The program whose hooks reported it, or for which the proxy was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The call as its hooks left it, in its JSON form.
    pub event: Value,
    /// Whether its arguments are left out, since it was stopped before hooks were asked that might have taken something out of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_arguments: bool,
    /// The facts about it, in their JSON form.
    pub context: Value,
    /// How many secrets are masked in it. Such a call may be judged otherwise than it was.
    #[serde(default)]
    pub masked: usize,
    /// What its hooks made of it.
    #[serde(flatten)]
    pub judgement: CallJudgement,
    /// What each hook said that had something to say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<RecordedStep>,
    /// How the question to a human ended, if one was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<RecordedAnswer>,
    /// Whether it is what a person made of another call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
    /// Whether it could run in the end.
    pub passed: bool,
}

impl fmt::Debug for RecordedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedCall").field("receipt", &self.receipt).finish_non_exhaustive()
    }
}

/// What a hook said about a recorded call.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedStep {
    /// The hook.
    pub hook: HookId,
    /// What it said that counts.
    pub said: Said,
    /// What a hook in shadow would have done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub would: Option<Would>,
}

/// How the question about a recorded call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedAnswer {
    /// How it ended.
    pub resolution: Resolution,
    /// Whether an answer given earlier, to another call, stood for it.
    #[serde(default)]
    pub by_grant: bool,
    /// What a person put in the place of the call, which ended as denied then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub substitute: Option<Substitute>,
}

impl CallRecording {
    /// Returns about how many bytes the call has: no fewer than its JSON form, and what its values take in memory.
    pub fn weight(&self) -> usize {
        let mut length = Length(0);
        // What has no JSON form is not recorded.
        let _ = serde_json::to_writer(&mut length, &self.event);
        let _ = serde_json::to_writer(&mut length, &self.call);
        let nodes: usize = self.event.params.values().map(nodes).sum();
        length.0.saturating_add(nodes.saturating_mul(NODE)).saturating_add(size_of::<Self>())
    }

    /// Returns whether it was stopped before each hook had an answer that might have taken something out of it. The guards take nothing out.
    fn is_unfinished(&self) -> bool {
        let steps = &self.receipt.steps;
        let was_asked = |meta: &HookMeta| steps.iter().any(|step| step.hook.id == meta.id);
        let stopped_by = |step: &Step| Some(&step.hook.id) == self.judgement.hook.as_ref();
        let gates = [TrustedToolPolicy::INFO.id, ToolBefore::INFO.id, BeforeToolCall::INFO.id];
        let may_rewrite = |meta: &HookMeta| {
            gates.contains(&meta.point)
                && !meta.mode.is_shadow()
                && !meta.id.as_str().starts_with("builtin:")
                && meta.is_about(Some(&self.event.tool_name), &self.call)
        };
        self.judgement.decision == CallDecision::Block
            && (steps.iter().any(|step| step.said == Said::Failed && may_rewrite(&step.hook))
                || steps.iter().any(|step| stopped_by(step) && step.hook.style == Style::Redactor)
                || self.snapshot.iter().any(|meta| may_rewrite(&meta) && !was_asked(&meta)))
    }

    /// Returns the call with its secrets masked; `None` where nobody can mask them.
    pub fn redacted(&self) -> Option<RecordedCall> {
        let masker = self.snapshot.masker()?;
        let without_arguments = self.is_unfinished();
        let mut event = self.event.clone();
        if without_arguments {
            (event.params, event.derived_paths) = (Params::default(), None);
        }
        let mut said =
            Value::Array(vec![serde_json::to_value(&event).ok()?, serde_json::to_value(&self.call).ok()?]);
        let masked = contained(|| masker.mask(&mut said)).ok()?;
        let Value::Array(said) = said else { return None };
        let [event, context] = <[Value; 2]>::try_from(said).ok()?;
        let receipt = &self.receipt;
        let answer = receipt.approval.as_ref().map(|note| RecordedAnswer {
            // Nobody answered here.
            resolution: note.resolution.unwrap_or(Resolution::Cancelled),
            by_grant: !note.grants.is_empty(),
            substitute: note.substitute,
        });
        let spoke = receipt.steps.iter().filter(|step| !step.is_silent());
        Some(RecordedCall {
            at: receipt.at,
            receipt: receipt.id(),
            host: self.call.front_end.host.map(str::to_owned),
            client: self.call.front_end.client.map(str::to_owned),
            event,
            without_arguments,
            context,
            masked,
            judgement: self.judgement.clone(),
            hooks: spoke
                .map(|step| RecordedStep { hook: step.hook.id.clone(), said: step.said, would: step.would })
                .collect(),
            answer,
            edited: receipt.edited_from.is_some(),
            passed: !matches!(receipt.verdict, Verdict::Block | Verdict::Ask),
        })
    }
}

/// How many values there are in one. The name of a field counts as one.
fn nodes(value: &Value) -> usize {
    1 + match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        Value::Array(items) => items.iter().map(nodes).sum(),
        Value::Object(fields) => fields.values().map(|value| 1 + nodes(value)).sum::<usize>(),
    }
}

/// Counts what is written.
struct Length(usize);

impl Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
