//! Sealed arguments: values that a tool receives and nobody else reads.
//!
//! A placeholder stands for what a redactor removed from the conversation. A tool may need the value.
//! The value is inserted at the very end: every gate, human and record sees the arguments as
//! the model wrote them, with placeholders. Only the [`Permitted`](crate::Permitted) call that the tool
//! takes has the values.
//!
//! The law: *what was judged is what runs*. A planted value may mean something other than the
//! placeholder that was judged (`; reboot`). The call with its values is therefore judged once more, by
//! hooks that run in this process and keep nothing of what they read
//! ([`HookOptions::judges_values`](crate::HookOptions::judges_values)): the built-in guards, `policy` and
//! `human_approval`. Other hooks, such as webhooks, never see a value. In this round hooks may stop
//! nothing, rewrite nothing, and ask nothing that humans have not answered: each question must be one of the
//! approved ones with the values filled in, from the same hook, for the same rules and about the same words. A
//! value that becomes two words, a second process or another path produces another question, and the call is
//! blocked. The reason of that block names the hook and quotes nothing, and no receipt contains the steps.

use std::fmt;

use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{
    ApprovalRequest, CallContext, Digest, Fact, Ground, HookId, OwnerId, Params, Reason, RuleId, Severity,
    Text, contained,
};
use serde_json::{Map, Value};

use crate::receipt::{BlockCause, Blocked, FailureKind};
use crate::registry::Snapshot;
use crate::runner::Dispatch;
use crate::tool_call::{Reviewed, tool_call_digest};

/// Resolves placeholders.
pub trait Unsealer: Send + Sync + fmt::Debug + 'static {
    /// Returns the arguments of a permitted call with the values in place; `None` if there is nothing to put in. Which
    /// argument a placeholder stands in makes no difference: what was asked about the call is filled by the same way.
    fn unseal(&self, event: &ToolCallEvent, call: &CallContext) -> Option<Params>;
}

/// A call with the values of its placeholders.
pub(crate) struct Unsealed {
    pub(crate) event: ToolCallEvent,
    /// What was judged of it.
    pub(crate) judged: Digest,
    /// What it was judged by besides.
    pub(crate) facts: Vec<Fact>,
}

/// Returns the call with its values; `None` for a call that has no placeholders.
/// `asked` are the questions about it that humans answered.
pub(crate) async fn unseal(
    snapshot: &Snapshot,
    event: &ToolCallEvent,
    call: &CallContext,
    asked: &[ApprovalRequest],
) -> Result<Option<Unsealed>, Blocked> {
    let Some(unsealer) = snapshot.unsealer() else { return Ok(None) };
    let filled = |event: &ToolCallEvent| contained(|| call.nesting.descend(|| unsealer.unseal(event, call)));
    let panicked = |_| blocked(BlockCause::Failure { kind: FailureKind::Panicked }, None);
    let Some(params) = filled(event).map_err(panicked)? else { return Ok(None) };
    let unsealed = with_params(event, params);
    let mut guards = snapshot.clone();
    // What a hook in shadow says would count for nothing here, so none is shown a value.
    guards.retain(|meta| meta.judges_values && !meta.mode.is_shadow());
    let dispatch =
        Dispatch { snapshot: &guards, call, capture: false, digests: false, sinks: &[], progress: None };
    let digest = tool_call_digest(&unsealed);
    let Reviewed { event: filled_in, changed, blocked: stopped, requests, facts, .. } =
        // Boxed: few calls have placeholders, and the others need not carry the room for this.
        Box::pin(dispatch.review(unsealed, None)).await;
    if let Some(stopped) = stopped {
        return Err(blocked(stopped.cause, stopped.hook));
    }
    if changed {
        return Err(blocked(BlockCause::UnstableRewrite { writer: None }, None));
    }
    let unsealed = Unsealed { event: filled_in, judged: digest, facts };
    if requests.is_empty() {
        return Ok(Some(unsealed));
    }
    let mut approved = Vec::with_capacity(asked.len());
    for request in asked {
        let question = Question::of(request);
        let words = filled(&with_params(event, question.words())).map_err(panicked)?;
        approved.push(match words {
            Some(words) => question.with_words(&words),
            None => question,
        });
    }
    let new = requests.iter().find(|request| {
        let question = Question::of(request);
        !approved.iter().any(|approved| question.is_part_of(approved))
    });
    match new {
        Some(request) => Err(blocked(BlockCause::Decision, request.hook().cloned())),
        None => Ok(Some(unsealed)),
    }
}

/// Returns whether values would be put into the call. An unsealer that breaks may have had some.
pub(crate) fn has_placeholders(snapshot: &Snapshot, event: &ToolCallEvent, call: &CallContext) -> bool {
    let Some(unsealer) = snapshot.unsealer() else { return false };
    let filled = contained(|| call.nesting.descend(|| unsealer.unseal(event, call)));
    !matches!(filled, Ok(None))
}

/// Returns whether whoever allowed what was `approved` has allowed this as well.
pub(crate) fn is_answered(request: &ApprovalRequest, approved: &[ApprovalRequest]) -> bool {
    let question = Question::of(request);
    approved.iter().any(|approved| question.is_part_of(&Question::of(approved)))
}

fn with_params(event: &ToolCallEvent, params: Params) -> ToolCallEvent {
    let mut event = event.clone();
    event.params = params;
    event.derived_paths = None;
    event
}

/// A question in substance: who asks, how gravely, by which rules, about what.
#[derive(Clone, Debug, PartialEq)]
struct Question<'a> {
    owner: Option<&'a OwnerId>,
    hook: Option<&'a HookId>,
    severity: Severity,
    /// A request that says what it rests on asks about that; what its texts show of it may be cut. Of any other its
    /// texts are all there is to compare.
    about: Vec<(Option<&'a RuleId>, Vec<Text>)>,
}

impl<'a> Question<'a> {
    fn of(request: &'a ApprovalRequest) -> Self {
        let ground = |ground: &'a Ground| (Some(&ground.rule), ground.about.clone());
        let mut about = vec![(None, vec![request.title().clone()])];
        match request.rests_on() {
            [] => about.push((None, vec![request.description().clone()])),
            grounds => about.extend(grounds.iter().map(ground)),
        }
        Self { owner: request.owner(), hook: request.hook(), severity: request.severity_level(), about }
    }

    /// Returns its words as arguments, for putting values in.
    fn words(&self) -> Params {
        let list = |words: &[Text]| words.iter().map(|word| Value::from(word.as_str())).collect();
        let all: Vec<Value> = self.about.iter().map(|(_, words)| list(words)).collect();
        Params::new(Map::from_iter([("about".to_owned(), Value::Array(all))]))
    }

    fn with_words(self, words: &Params) -> Self {
        let lists = words.get("about").and_then(Value::as_array).into_iter().flatten();
        let words = lists.map(|list| {
            let words = list.as_array().into_iter().flatten();
            words.map(|word| Text::from(word.as_str().unwrap_or_default())).collect()
        });
        let about = self.about.iter().map(|(rule, _)| *rule).zip(words).collect();
        Self { about, ..self }
    }

    /// Returns whether whoever allowed `approved` has allowed this.
    fn is_part_of(&self, approved: &Self) -> bool {
        let allows = |ground| approved.about.contains(ground);
        (self.owner, self.hook) == (approved.owner, approved.hook)
            && self.severity <= approved.severity
            && self.about.iter().all(allows)
    }
}

fn blocked(cause: BlockCause, hook: Option<HookId>) -> Blocked {
    let reason = "with the values of its placeholders in place this call is not what was judged";
    Blocked { cause, reason: Some(Reason::fixed("placeholder.changes-call", reason)), hook, owner: None }
}
