//! What an agent is told before its first turn.

use std::time::Duration;

use backstop_hooks::points::{ReasoningLevel, ThinkLevel, ToolsAllow};
use backstop_hooks::{AgentId, Text};

/// How much of the hooks' work is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Nothing.
    #[default]
    Off,
    /// A line for each block, rewrite and question.
    On,
    /// As well a receipt line for each dispatch that met a hook.
    Full,
}

/// When and how far the conversation is shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// The estimated size of a request, in tokens, above which earlier turns are summarised.
    pub trigger_tokens: u64,
    /// How many of the latest turns stay as they are, besides the one that is going on.
    pub keep_turns: usize,
}

impl Default for Compaction {
    fn default() -> Self {
        Self { trigger_tokens: 120_000, keep_turns: 4 }
    }
}

/// How an agent works.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    /// The agent's name.
    pub agent_id: AgentId,
    /// The provider to ask, unless a hook chooses another.
    pub provider: String,
    /// The model to ask, unless a hook chooses another.
    pub model: String,
    /// The system prompt that hooks start from.
    pub system_prompt: Text,
    /// The tools the agent may use; all of its toolbox if `None`.
    pub tools: Option<ToolsAllow>,
    /// The most model calls in one turn; at least 1.
    pub max_iterations: u32,
    /// The longest answer of one model call, in tokens.
    pub max_tokens: Option<u64>,
    /// The sampling temperature; left to the provider if `None`.
    pub temperature: Option<f64>,
    /// How much the model thinks; left to the provider if `None`.
    pub think: Option<ThinkLevel>,
    /// Whether the model's reasoning is shown.
    pub reasoning: ReasoningLevel,
    /// How many bytes of a streamed answer are held back while it grows.
    pub hold_back_bytes: usize,
    /// How much of the hooks' work is shown.
    pub verbosity: Verbosity,
    /// When the conversation is shortened; never if `None`.
    pub compaction: Option<Compaction>,
    /// How often a model call that broke off before anything was shown is made again, on top of what the
    /// client of the provider does.
    pub model_retries: u32,
    /// For how long a session is claimed at a time. The claim is renewed while a turn runs; a session whose
    /// process was killed is free again after this.
    pub lease: Duration,
    /// How long the end of a turn waits for hooks that only watch.
    pub observer_drain: Duration,
    /// Where answers go (`terminal`, `slack`), for hooks.
    pub channel: Option<String>,
}

impl AgentSettings {
    /// Settings for an agent that asks `model` of `provider`, with everything else at its default.
    pub fn new(agent_id: impl Into<AgentId>, provider: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            agent_id: agent_id.into(),
            provider: provider.into(),
            model: model.into(),
            system_prompt: Text::from(DEFAULT_SYSTEM_PROMPT),
            tools: None,
            max_iterations: 50,
            max_tokens: Some(8_192),
            temperature: None,
            think: None,
            reasoning: ReasoningLevel::Off,
            hold_back_bytes: 512,
            verbosity: Verbosity::Off,
            compaction: Some(Compaction::default()),
            model_retries: 1,
            lease: Duration::from_secs(30),
            observer_drain: Duration::from_secs(60),
            channel: None,
        }
    }
}

const DEFAULT_SYSTEM_PROMPT: &str = "You are a careful assistant that works in the user's workspace with the tools you are \
given. Read before you change, check what you changed, and say plainly what you did and what you could not do. A tool \
call can be blocked: then read the reason, and do not try to get around it.";
