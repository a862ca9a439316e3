//! How a turn ends: whether there is another pass, the outgoing answer, and the end.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conversation::Message;
use crate::id::{RunId, SessionId};
use crate::latch::{Field, Latch};
use crate::outcome::{Malformed, Outcome, outcome, reason_for_nothing, record};
use crate::point::Event;
use crate::points::take;
use crate::reason::Reason;
use crate::value::Text;

record! {
    /// `before_agent_finalize`: the model has come to a natural end.
    pub struct AgentFinalizeEvent {
        /// The turn.
        run_id?: RunId,
        /// The stretch of the conversation.
        session_id: SessionId,
        /// The turn, in the words of a foreign agent.
        turn_id?: String,
        /// The provider.
        provider?: String,
        /// The model.
        model?: String,
        /// Whether this end already follows a revision that a hook asked for.
        stop_hook_active: bool,
        /// The answer about to be final.
        last_assistant_message?: Text,
        /// The conversation.
        messages?: Vec<Message>,
    }
}

/// What to do with the answer. The later ones are stronger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FinalizeAction {
    /// Go on as usual.
    Continue,
    /// Let the model have another pass.
    Revise,
    /// This is final, whatever others want.
    Finalize,
}

record! {
    /// Bounds of a revision.
    #[serde(deny_unknown_fields)]
    pub struct Retry {
        /// What the model is told.
        instruction: Text,
        /// Requests with one key share one count.
        idempotency_key?: String,
        /// How often this request may be honoured in one run; 1 when absent.
        max_attempts?: u32,
    }
}

/// `before_agent_finalize`: continue, revise or finalize. Finalize beats revise; the reasons of several
/// revisions are joined, and all their retries are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentFinalizeOutcome {
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::outcome::present")]
    pub action: Option<FinalizeAction>,
    /// Why; with `revise` the model reads it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::outcome::present")]
    pub reason: Option<Text>,
    /// Bounds of the revision.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::outcome::present")]
    pub retry: Option<Retry>,
    /// The retries of further hooks, in running order; never on the wire.
    #[serde(skip)]
    #[schemars(skip)]
    pub more_retries: Vec<Retry>,
}

impl Outcome for AgentFinalizeOutcome {
    const FIELDS: &'static [Field] = &[
        Field { name: "action", latch: Latch::Strongest },
        Field { name: "reason", latch: Latch::Append },
        Field { name: "retry", latch: Latch::Collect },
    ];

    fn merge(&mut self, next: Self) -> Vec<&'static str> {
        match (self.action, next.action) {
            (current, Some(action)) if current.is_none_or(|current| action > current) => *self = next,
            (Some(FinalizeAction::Revise), Some(FinalizeAction::Revise)) => {
                let reasons: Vec<_> =
                    [&self.reason, &next.reason].into_iter().flatten().map(Text::as_str).collect();
                self.reason = (!reasons.is_empty()).then(|| reasons.join("\n\n").into());
                match (&self.retry, next.retry) {
                    (None, retry) => self.retry = retry,
                    (Some(_), Some(retry)) => self.more_retries.push(retry),
                    (Some(_), None) => {}
                }
            }
            (_, None) => {}
            _ => return vec!["action"],
        }
        Vec::new()
    }

    fn whole(&self) -> Result<(), Malformed> {
        match (self.action, &self.reason, &self.retry) {
            (None, Some(_), _) => Err(reason_for_nothing("reason")),
            (None, None, Some(_)) => Err(reason_for_nothing("retry")),
            _ => Ok(()),
        }
    }
}

record! {
    /// `before_response_emit`: the turn's answer is about to leave.
    pub struct ResponseEmitEvent {
        /// The turn.
        run_id?: RunId,
        /// The last visible text. Always equal to the last of `all_content`.
        content: Text,
        /// One text per assistant turn of this run that has text.
        all_content: Vec<Text>,
        /// Where it goes.
        channel?: String,
        /// How many messages the run has.
        message_count: u32,
    }
}

outcome! {
    /// `before_response_emit`: another answer, or none. The two contents are views of one value: a hook that
    /// writes one changes the other with it, so that a redaction of one can't be undone through the other.
    pub struct ResponseEmitOutcome {
        /// Another last text.
        content / "content": Text => Propose,
        /// Other texts for all turns; may be fewer, never more. With `content` beside it, its last is that.
        all_content / "allContent": Vec<Text> => Propose,
        /// Let nothing out.
        block / "block": bool => Block,
        /// Why.
        block_reason / "blockReason": Reason => BlockReason,
    }
}

impl Event<ResponseEmitOutcome> for ResponseEmitEvent {
    const ABSORBS: bool = true;

    fn absorb(&mut self, answer: &ResponseEmitOutcome) -> bool {
        if let Some(all) = &answer.all_content {
            self.content = all.last().cloned().unwrap_or_default();
            let changed = *all != self.all_content;
            self.all_content.clone_from(all);
            return changed;
        }
        let changed = take(&mut self.content, &answer.content);
        if changed {
            match self.all_content.last_mut() {
                Some(last) => *last = self.content.clone(),
                None => self.all_content.push(self.content.clone()),
            }
        }
        changed
    }

    fn conclude(&self, merged: &mut ResponseEmitOutcome) {
        (merged.content, merged.all_content) = (None, Some(self.all_content.clone()));
    }

    fn check(&self, answer: &ResponseEmitOutcome) -> Result<(), Malformed> {
        let Some(all) = &answer.all_content else { return Ok(()) };
        // INVARIANT (bounded answer): a rewrite can't grow the answer by further turns.
        if all.len() > self.all_content.len() {
            return Err(Malformed::new("`allContent` has more texts than the answer"));
        }
        if answer.content.as_ref().is_some_and(|content| *content != all.last().cloned().unwrap_or_default())
        {
            return Err(Malformed::new("`content` is not the last of `allContent`"));
        }
        Ok(())
    }
}

record! {
    /// `agent_end`: the turn is over.
    pub struct AgentEndEvent {
        /// The turn.
        run_id?: RunId,
        /// The conversation.
        messages: Vec<Message>,
        /// Whether it ended well.
        success: bool,
        /// Why not.
        error?: Text,
        /// How long it took, in milliseconds.
        duration_ms: u64,
    }
}
