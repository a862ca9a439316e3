//! What the hooks decided about one call, in the four words that programs read.

use backstop::engine::{Reviewed, Said, Step};
use backstop::hooks::{HookId, Params, Text};
use serde::Serialize;

/// The four ends of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Word {
    Allow,
    Ask,
    Block,
    Modify,
}

/// The decision about one call.
#[derive(Debug, Serialize)]
pub(super) struct Verdict {
    pub(super) decision: Word,
    /// The hook that made the decision; nobody in particular for `allow`.
    pub(super) hook: Option<HookId>,
    pub(super) reason: Option<Text>,
    /// The arguments as they would run; nothing for `block`.
    pub(super) params: Option<Params>,
}

impl Verdict {
    pub(super) fn of(reviewed: &Reviewed) -> Self {
        let params = Some(reviewed.event.params.clone());
        if let Some(blocked) = &reviewed.blocked {
            return Self {
                decision: Word::Block,
                hook: blocked.hook.clone(),
                reason: Some(blocked.reason_or_default()),
                params: None,
            };
        }
        // The gravest of several, the first of equally grave ones; the human would be shown all of them.
        let gravest = reviewed.requests.iter().rev().max_by_key(|request| request.severity_level());
        if let Some(request) = gravest {
            let reason = match request.description().as_str() {
                "" => request.title().clone(),
                description => format!("{}: {description}", request.title()).into(),
            };
            return Self { decision: Word::Ask, hook: request.hook().cloned(), reason: Some(reason), params };
        }
        if reviewed.changed {
            let wrote = |step: &&Step| step.said == Said::Rewrote && step.proposal_of.is_none();
            let last = reviewed.receipt.steps.iter().rev().find(wrote);
            let hook = last.map(|step| step.hook.id.clone());
            return Self { decision: Word::Modify, hook, reason: None, params };
        }
        Self { decision: Word::Allow, hook: None, reason: None, params }
    }
}

impl Word {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Block => "block",
            Self::Modify => "modify",
        }
    }
}
