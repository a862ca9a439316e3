//! Whether a turn runs at all: the gate before the run, and the claim that answers without a model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::conversation::Message;
use crate::digest::leaves;
use crate::latch::{Field, Latch};
use crate::outcome::{Malformed, Outcome, event, read_object, record};
use crate::point::{Claim, Event};
use crate::points::Reply;
use crate::reason::Reason;
use crate::value::{Params, Text};

record! {
    /// `before_agent_run`: the prompt is final and no model has read it.
    pub struct AgentRunEvent {
        /// The message of this turn.
        prompt: Text,
        /// The conversation so far.
        messages: Vec<Message>,
        /// The system prompt.
        system_prompt?: Text,
        /// Who sent the message.
        sender_id?: String,
        /// Whether the sender owns this agent.
        sender_is_owner?: bool,
    }
}

/// `before_agent_run`: run or stop. The shape is strict, since a gate that is misunderstood is open:
/// anything that is not exactly one of the two forms, `null` included, is a failed hook and so a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "lowercase", deny_unknown_fields)]
pub enum AgentRunOutcome {
    /// Let it run.
    Pass {},
    /// Stop it before the model reads the prompt.
    Block {
        /// Internal: never shown to the user, never logged.
        reason: Reason,
        /// What the user reads, and what is stored in place of the prompt.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "crate::outcome::present"
        )]
        message: Option<Text>,
        /// A coarse class for statistics.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "crate::outcome::present"
        )]
        category: Option<String>,
        /// Facts for programs.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "crate::outcome::present"
        )]
        metadata: Option<Params>,
    },
}

impl Default for AgentRunOutcome {
    fn default() -> Self {
        Self::Pass {}
    }
}

impl Outcome for AgentRunOutcome {
    const FIELDS: &'static [Field] = &[Field { name: "outcome", latch: Latch::Block }];

    fn merge(&mut self, next: Self) -> Vec<&'static str> {
        if !self.blocks() {
            *self = next;
        }
        Vec::new()
    }

    fn blocks(&self) -> bool {
        matches!(self, Self::Block { .. })
    }

    fn block_reason(&self) -> Option<&Reason> {
        match self {
            Self::Block { reason, .. } => Some(reason),
            Self::Pass {} => None,
        }
    }

    fn from_json(value: Value) -> Result<Option<Self>, Malformed> {
        read_object(value).map(Some)
    }
}

impl Event<AgentRunOutcome> for AgentRunEvent {
    leaves!(messages: "messages", prompt: "prompt", system_prompt: "systemPrompt");

    fn check(&self, answer: &AgentRunOutcome) -> Result<(), Malformed> {
        let AgentRunOutcome::Block { reason, message, category, .. } = answer else { return Ok(()) };
        let blank = |text: &str| text.trim().is_empty();
        if blank(reason) {
            return Err(Malformed::new("`reason` is blank"));
        }
        if message.as_deref().is_some_and(blank) || category.as_deref().is_some_and(blank) {
            return Err(Malformed::new("`message` or `category` is blank"));
        }
        Ok(())
    }
}

event! {
    /// `before_agent_reply`: the turn could still be answered without a model.
    pub struct AgentReplyEvent {
        /// The prepared message.
        cleaned_body: Text,
    }
}

/// `before_agent_reply`: whether the hook takes the turn. `handled` without a `reply` is silence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentReplyOutcome {
    /// Whether the turn is answered by this hook.
    pub handled: bool,
    /// The answer: a text, or a payload of which an agent without channels shows the `text`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::outcome::present")]
    pub reply: Option<Reply>,
    /// Why, for the receipt.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::outcome::present")]
    pub reason: Option<Text>,
}

impl Outcome for AgentReplyOutcome {
    const FIELDS: &'static [Field] = &[
        Field { name: "handled", latch: Latch::First },
        Field { name: "reply", latch: Latch::First },
        Field { name: "reason", latch: Latch::First },
    ];

    fn merge(&mut self, next: Self) -> Vec<&'static str> {
        if !self.handled {
            *self = next;
        }
        Vec::new()
    }
}

impl Claim for AgentReplyOutcome {
    fn handled(&self) -> bool {
        self.handled
    }
}

impl Event<AgentReplyOutcome> for AgentReplyEvent {}
