//! C: messages and delivery: what arrives from channels, and what is sent to them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{RunId, SessionKey};
use crate::latch::{Field, Latch};
use crate::outcome::{Outcome, event, outcome, record};
use crate::point::{Claim, Event};
use crate::points::{take, take_some};
use crate::reason::Reason;
use crate::value::{Json, Params, Text};

event! {
    /// `inbound_claim`: a message has come in and no agent is chosen yet.
    pub struct InboundClaimEvent {
        /// The text as it came.
        content: Text,
        /// The text as an agent should read it.
        body_for_agent?: Text,
        /// The channel.
        channel: String,
        /// The conversation there.
        conversation_id?: String,
        /// Who sent it.
        sender_id?: String,
        /// The thread.
        thread_id?: String,
        /// The message.
        message_id?: String,
        /// Whether several people are in the conversation.
        is_group: bool,
        /// Whether the agent was addressed by name.
        was_mentioned?: bool,
        /// The message this one answers.
        reply_to_id?: String,
        /// Facts of the channel and, once a hook has said some, about the decision.
        metadata?: Params,
    }
}

/// An answer that a hook gives in an agent's place: a text, or a payload of the channel (`text`, `mediaUrl`, ...).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Reply {
    /// A text.
    Text(Text),
    /// A payload, as it came.
    Payload(Params),
}

impl Reply {
    /// Returns its text; `None` for a payload without text.
    pub fn text(&self) -> Option<Text> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Payload(payload) => payload.get("text")?.as_str().map(Text::from),
        }
    }
}

impl<T: Into<Text>> From<T> for Reply {
    fn from(text: T) -> Self {
        Self::Text(text.into())
    }
}

/// A claim with an optional answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InboundClaimOutcome {
    /// Whether the hook took the message.
    pub handled: bool,
    /// The answer; silence without one.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::outcome::present")]
    pub reply: Option<Reply>,
}

record! {
    /// `message_received`: a message has come in.
    pub struct MessageReceivedEvent {
        /// Who sent it.
        from: String,
        /// The text.
        content: Text,
        /// Unix time in milliseconds.
        timestamp?: i64,
        /// The thread.
        thread_id?: String,
        /// The message.
        message_id?: String,
        /// The sender's id on the channel.
        sender_id?: String,
        /// The message this one answers.
        reply_to_id?: String,
        /// Its text.
        reply_to_body?: Text,
        /// Who wrote it.
        reply_to_sender?: String,
        /// The conversation.
        session_key?: SessionKey,
        /// The turn.
        run_id?: RunId,
        /// Facts of the channel and, once a hook has said some, about the decision.
        metadata?: Params,
    }
}

record! {
    /// `before_dispatch`: a message is about to be handed to an agent.
    pub struct BeforeDispatchEvent {
        /// The text.
        content: Text,
        /// The channel.
        channel?: String,
        /// The conversation.
        session_key?: SessionKey,
        /// Who sent it.
        sender_id?: String,
        /// Whether several people are in the conversation.
        is_group?: bool,
        /// The message this one answers.
        reply_to_id?: String,
        /// Its text.
        reply_to_body?: Text,
        /// Who wrote it.
        reply_to_sender?: String,
    }
}

/// A claim that may answer in the agent's place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BeforeDispatchOutcome {
    /// Whether the hook took the message.
    pub handled: bool,
    /// What goes out instead of the agent's answer.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::outcome::present")]
    pub text: Option<Text>,
}

/// Whether answers may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SendPolicy {
    /// They may.
    Allow,
    /// They may not.
    Deny,
}

record! {
    /// `reply_dispatch`: an answer is about to be put on its way.
    pub struct ReplyDispatchEvent {
        /// The final context of the message that is answered.
        message: Json,
        /// The turn.
        run_id?: RunId,
        /// The conversation.
        session_key?: SessionKey,
        /// Whether answers may be sent.
        send_policy: SendPolicy,
    }
}

/// A claim on the delivery of an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplyDispatchOutcome {
    /// Whether the hook delivers the answer.
    pub handled: bool,
    /// Whether a final answer is on its way.
    #[serde(default)]
    pub queued_final: bool,
    /// How many payloads of each kind are on their way.
    #[serde(default)]
    pub counts: BTreeMap<String, u32>,
}

macro_rules! claims {
    ($($outcome:ident at $event:ident: $($field:literal)*;)*) => {$(
        impl Outcome for $outcome {
            const FIELDS: &'static [Field] = &[$(Field { name: $field, latch: Latch::First },)*];

            fn merge(&mut self, next: Self) -> Vec<&'static str> {
                if !self.handled {
                    *self = next;
                }
                Vec::new()
            }
        }

        impl Claim for $outcome {
            fn handled(&self) -> bool {
                self.handled
            }
        }

        impl Event<$outcome> for $event {}
    )*};
}

claims! {
    InboundClaimOutcome at InboundClaimEvent: "handled" "reply";
    BeforeDispatchOutcome at BeforeDispatchEvent: "handled" "text";
    ReplyDispatchOutcome at ReplyDispatchEvent: "handled" "queuedFinal" "counts";
}

record! {
    /// `message_sending`: a text is about to go out.
    pub struct MessageSendingEvent {
        /// To whom.
        to: String,
        /// The text, as the hook before left it.
        content: Text,
        /// The message it answers.
        reply_to_id?: String,
        /// The thread.
        thread_id?: String,
        /// Facts of the channel and, once a hook has said some, about the decision.
        metadata?: Params,
    }
}

outcome! {
    /// `message_sending`: another text, or none.
    pub struct MessageSendingOutcome {
        /// Another text.
        content / "content": Text => Propose,
        /// Send nothing.
        cancel / "cancel": bool => Block,
        /// Why.
        cancel_reason / "cancelReason": Reason => BlockReason,
        /// Other facts: the whole object.
        metadata / "metadata": Params => Propose,
    }
}

impl Event<MessageSendingOutcome> for MessageSendingEvent {
    const ABSORBS: bool = true;

    fn absorb(&mut self, answer: &MessageSendingOutcome) -> bool {
        let content = take(&mut self.content, &answer.content);
        take_some(&mut self.metadata, &answer.metadata) || content
    }
}

/// What a payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PayloadKind {
    /// Activity of a tool.
    Tool,
    /// A part of the answer.
    Block,
    /// The final answer.
    Final,
}

record! {
    /// `reply_payload_sending`: a rich answer is about to go out. Marks of trust are taken off before
    /// hooks see it, so that a hook can't grant them.
    pub struct ReplyPayloadEvent {
        /// The payload, as the hook before left it.
        payload: Params,
        /// What it is.
        kind: PayloadKind,
        /// The channel.
        channel?: String,
        /// The conversation.
        session_key?: SessionKey,
        /// The turn.
        run_id?: RunId,
    }
}

outcome! {
    /// `reply_payload_sending`: another payload, or none.
    pub struct ReplyPayloadOutcome {
        /// Another payload: the whole.
        payload / "payload": Params => Propose,
        /// Send nothing.
        cancel / "cancel": bool => Block,
        /// Why.
        reason / "reason": Reason => BlockReason,
    }
}

impl Event<ReplyPayloadOutcome> for ReplyPayloadEvent {
    const ABSORBS: bool = true;

    fn absorb(&mut self, answer: &ReplyPayloadOutcome) -> bool {
        take(&mut self.payload, &answer.payload)
    }
}

record! {
    /// `message_sent`: a text has gone out, or failed to.
    pub struct MessageSentEvent {
        /// To whom.
        to: String,
        /// The text.
        content: Text,
        /// Whether it went out.
        success: bool,
        /// The message.
        message_id?: String,
        /// Why not.
        error?: Text,
    }
}

record! {
    /// `channel_pairing_requested`: somebody unknown wants to talk to the agent.
    pub struct PairingRequestedEvent {
        /// The channel.
        channel: String,
        /// Who.
        sender_id: String,
        /// The code that the owner is to confirm.
        code: Text,
    }
}
