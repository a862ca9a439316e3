//! How a turn begins: the message arrives, and its parameters and model are fixed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::leaves;
use crate::id::{AgentId, SessionKey};
use crate::outcome::{Malformed, outcome, record};
use crate::point::Event;
use crate::points::take;
use crate::value::{OrNull, Params, Text};

record! {
    /// `message.before`: a message has come in and the agent has not seen it yet.
    pub struct MessageBeforeEvent {
        /// The agent.
        agent_id: AgentId,
        /// The conversation.
        session_key?: SessionKey,
        /// The provider that will be asked.
        provider: String,
        /// The model that will be asked.
        model: String,
        /// The message, as the interceptor before left it.
        message: Text,
        /// Tags for `params.before`.
        metadata: Params,
    }
}

outcome! {
    /// `message.before`: what an interceptor may change.
    pub struct MessageBeforeOutcome {
        /// Another text for the agent.
        message / "message": Text => Propose,
        /// Other tags: the whole bag.
        metadata / "metadata": Params => Propose,
    }
}

impl Event<MessageBeforeOutcome> for MessageBeforeEvent {
    const ABSORBS: bool = true;

    leaves!(message: "message");

    fn absorb(&mut self, answer: &MessageBeforeOutcome) -> bool {
        let text = take(&mut self.message, &answer.message);
        let tags = take(&mut self.metadata, &answer.metadata);
        text || tags
    }
}

/// How much a model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ThinkLevel {
    /// Not at all.
    Off,
    /// A little.
    Low,
    /// Some.
    Medium,
    /// A lot.
    High,
}

/// Whether the model's reasoning is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReasoningLevel {
    /// Hidden.
    Off,
    /// Shown.
    On,
}

record! {
    /// `params.before`: the parameters of the turn are being fixed.
    pub struct ParamsBeforeEvent {
        /// The agent.
        agent_id: AgentId,
        /// The conversation.
        session_key?: SessionKey,
        /// The message, as `message.before` left it.
        message: Text,
        /// The tags of `message.before`.
        metadata: Params,
        /// The provider; read-only here.
        provider: String,
        /// The model; read-only here.
        model: String,
        /// The thinking level so far.
        think_level?: ThinkLevel,
        /// Whether reasoning is shown, so far.
        reasoning_level?: ReasoningLevel,
        /// The sampling temperature so far.
        temperature?: f64,
    }
}

outcome! {
    /// `params.before`: what an interceptor may change. `null` clears a value: then it is as if nobody had set it.
    pub struct ParamsBeforeOutcome {
        /// How much the model thinks.
        #[schemars(with = "OrNull<ThinkLevel>")]
        think_level / "thinkLevel": Option<ThinkLevel> => Propose,
        /// Whether reasoning is shown.
        #[schemars(with = "OrNull<ReasoningLevel>")]
        reasoning_level / "reasoningLevel": Option<ReasoningLevel> => Propose,
        /// The sampling temperature.
        #[schemars(with = "OrNull<f64>")]
        temperature / "temperature": Option<f64> => Propose,
    }
}

impl Event<ParamsBeforeOutcome> for ParamsBeforeEvent {
    const ABSORBS: bool = true;

    fn absorb(&mut self, answer: &ParamsBeforeOutcome) -> bool {
        let think = take(&mut self.think_level, &answer.think_level);
        let reasoning = take(&mut self.reasoning_level, &answer.reasoning_level);
        let temperature = take(&mut self.temperature, &answer.temperature);
        think || reasoning || temperature
    }

    fn check(&self, answer: &ParamsBeforeOutcome) -> Result<(), Malformed> {
        match answer.temperature.flatten() {
            Some(t) if !(0.0..=2.0).contains(&t) => Err(Malformed::new("`temperature` is between 0 and 2")),
            _ => Ok(()),
        }
    }
}

/// What an attachment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AttachmentKind {
    /// A picture.
    Image,
    /// A film.
    Video,
    /// Sound.
    Audio,
    /// A document.
    Document,
    /// Anything else.
    Other,
}

record! {
    /// An attachment of the message, without its content.
    pub struct Attachment {
        /// What it is.
        kind: AttachmentKind,
        /// Its media type.
        mime_type?: String,
    }
}

record! {
    /// `before_model_resolve`: the model is being chosen; the conversation is not loaded yet.
    pub struct ModelResolveEvent {
        /// The message of this turn.
        prompt: Text,
        /// What is attached to it.
        attachments?: Vec<Attachment>,
    }
}

outcome! {
    /// `before_model_resolve`: another provider or model.
    pub struct ModelResolveOutcome {
        /// The provider to use.
        provider_override / "providerOverride": String => First,
        /// The model to use.
        model_override / "modelOverride": String => First,
    }
}

impl Event<ModelResolveOutcome> for ModelResolveEvent {}
