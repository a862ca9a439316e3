//! How a prompt is built: its context, the system prompt, and the tools of the turn.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::conversation::Message;
use crate::digest::leaves;
use crate::id::{AgentId, SessionKey};
use crate::latch::Intersect;
use crate::outcome::{outcome, record};
use crate::point::Event;
use crate::points::take_some;
use crate::tool_name::{ToolName, group};
use crate::value::{Json, Text};

/// Where a queued injection goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Before the prompt.
    #[default]
    PrependContext,
    /// After the prompt.
    AppendContext,
}

record! {
    /// Text that a plugin queued for the next turn, delivered exactly once.
    pub struct QueuedInjection {
        /// Which injection.
        id: String,
        /// Who queued it.
        #[serde(rename = "pluginId")]
        owner: crate::id::OwnerId,
        /// The text.
        text: Text,
        /// Where it goes.
        placement: Placement,
        /// The key that kept it from being queued twice.
        idempotency_key?: String,
        /// When it was queued, in milliseconds since 1970.
        created_at: i64,
        /// How long it could wait, in milliseconds from when it was queued.
        ttl_ms?: u64,
        /// What the plugin says of it. The model does not read it.
        metadata?: Json,
    }
}

record! {
    /// `agent_turn_prepare`: the turn's context is being put together.
    pub struct TurnPrepareEvent {
        /// The message of this turn.
        prompt: Text,
        /// The conversation so far.
        messages: Vec<Message>,
        /// What plugins had queued for this turn.
        queued_injections: Vec<QueuedInjection>,
    }
}

outcome! {
    /// Context around the prompt of this turn.
    pub struct ContextOutcome {
        /// Text before the prompt.
        prepend_context / "prependContext": Text => Append,
        /// Text after the prompt.
        append_context / "appendContext": Text => Append,
    }
}

record! {
    /// `heartbeat_prompt_contribution`: a background turn is being prepared.
    pub struct HeartbeatEvent {
        /// The conversation.
        session_key?: SessionKey,
        /// The agent.
        agent_id?: AgentId,
        /// Which monitor.
        heartbeat_name?: String,
    }
}

impl Event<ContextOutcome> for HeartbeatEvent {}

record! {
    /// `before_prompt_build` and, for old plugins, `before_agent_start`: the prompt is being built.
    pub struct PromptBuildEvent {
        /// The message of this turn.
        prompt: Text,
        /// The conversation so far.
        messages: Vec<Message>,
        /// The message that started the turn, as stored.
        current_user_message?: Message,
        /// The system prompt, as the hook before left it.
        system_prompt?: Text,
    }
}

/// A list of tools a hook allows: names and `group:<name>`; `*` is every tool. A canonical name means the tool
/// however it is called, any other spelling only calls that are spelled so. Anything malformed in the list
/// means *no tool*: a list that was meant to restrict must not fail to restrict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct ToolsAllow(Vec<String>);

impl ToolsAllow {
    /// Creates a list of names and groups.
    pub fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        let mut allowed: Vec<String> = Vec::new();
        for name in names {
            let name = name.into();
            match group(&name) {
                Some(tools) => allowed.extend(tools.iter().map(|tool| (*tool).to_owned())),
                None => allowed.push(name),
            }
        }
        if allowed.iter().any(|name| name == "*") {
            return Self(vec!["*".to_owned()]);
        }
        allowed.sort_unstable();
        allowed.dedup();
        Self(allowed)
    }

    /// Returns whether the list has the tool.
    pub fn allows(&self, tool: &ToolName) -> bool {
        self.0.iter().any(|name| name == "*" || tool.is_allowed_by(name))
    }
}

impl<'de> Deserialize<'de> for ToolsAllow {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = match Value::deserialize(deserializer)? {
            Value::Array(items) => items
                .into_iter()
                .map(|item| match item {
                    Value::String(name) if !name.trim().is_empty() => Some(name),
                    _ => None,
                })
                .collect::<Option<Vec<_>>>()
                .unwrap_or_default(),
            _ => Vec::new(),
        };
        Ok(Self::new(names))
    }
}

impl Intersect for ToolsAllow {
    fn intersect(&mut self, other: Self) {
        if self.0.iter().any(|name| name == "*") {
            *self = other;
        } else if !other.0.iter().any(|name| name == "*") {
            self.0.retain(|name| other.0.contains(name));
        }
    }
}

outcome! {
    /// What may be said while the prompt is built.
    pub struct PromptBuildOutcome {
        /// Another system prompt.
        system_prompt / "systemPrompt": Text => Propose,
        /// Text before the prompt.
        prepend_context / "prependContext": Text => Append,
        /// Text after the prompt.
        append_context / "appendContext": Text => Append,
        /// Text before the system prompt.
        prepend_system_context / "prependSystemContext": Text => Append,
        /// Text after the system prompt.
        append_system_context / "appendSystemContext": Text => Append,
        /// The tools that this turn may use.
        tools_allow / "toolsAllow": ToolsAllow => Narrow,
    }
}

impl Event<PromptBuildOutcome> for PromptBuildEvent {
    leaves!(messages: "messages", prompt: "prompt", system_prompt: "systemPrompt");

    fn absorb(&mut self, answer: &PromptBuildOutcome) -> bool {
        take_some(&mut self.system_prompt, &answer.system_prompt)
    }
}

outcome! {
    /// `before_agent_start`: `before_model_resolve` and `before_prompt_build` in one, for old plugins.
    pub struct AgentStartOutcome {
        /// The provider to use.
        provider_override / "providerOverride": String => First,
        /// The model to use.
        model_override / "modelOverride": String => First,
        /// Another system prompt.
        system_prompt / "systemPrompt": Text => Propose,
        /// Text before the prompt.
        prepend_context / "prependContext": Text => Append,
        /// Text after the prompt.
        append_context / "appendContext": Text => Append,
        /// Text before the system prompt.
        prepend_system_context / "prependSystemContext": Text => Append,
        /// Text after the system prompt.
        append_system_context / "appendSystemContext": Text => Append,
        /// The tools that this turn may use.
        tools_allow / "toolsAllow": ToolsAllow => Narrow,
    }
}

impl Event<AgentStartOutcome> for PromptBuildEvent {
    leaves!(messages: "messages", prompt: "prompt", system_prompt: "systemPrompt");

    fn absorb(&mut self, answer: &AgentStartOutcome) -> bool {
        take_some(&mut self.system_prompt, &answer.system_prompt)
    }
}
