//! What an agent is told before its first turn.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::Duration;

use backstop_hooks::points::{ReasoningLevel, SessionEndReason, ThinkLevel, ToolsAllow};
use backstop_hooks::{AgentId, Text};
use backstop_store::Timestamp;

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

/// When a conversation is begun anew instead of gone on with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionExpiry {
    /// After so much silence; never if `None`.
    pub idle: Option<Duration>,
    /// At this hour of each day, in UTC (0 to 23; a larger one counts as 23); never if `None`.
    pub daily_at: Option<u8>,
}

impl SessionExpiry {
    /// Why a session in which something last happened at `active` is over at `now`, if it is.
    pub(crate) fn reason(self, active: Timestamp, now: Timestamp) -> Option<SessionEndReason> {
        const HOUR: i64 = 3_600_000;
        if self.idle.is_some_and(|idle| active.after(idle) <= now) {
            return Some(SessionEndReason::Idle);
        }
        let hour = i64::from(self.daily_at?.min(23)) * HOUR;
        // The days that have begun at this hour, counted from the beginning of time.
        let day = |at: Timestamp| at.as_millis().saturating_sub(hour).div_euclid(24 * HOUR);
        (day(active) < day(now)).then_some(SessionEndReason::Daily)
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
    /// The words that commands are started with, such as those of a program that confines them. None if empty.
    pub launcher: Vec<OsString>,
    /// Variables of this program that no command gets, whatever they are called.
    pub withheld: BTreeSet<String>,
    /// When a conversation is begun anew instead of gone on with.
    pub expiry: SessionExpiry,
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
            launcher: Vec::new(),
            withheld: BTreeSet::new(),
            expiry: SessionExpiry::default(),
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

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_millis(hours * HOUR)
    }

    #[test]
    fn a_session_grows_old_by_silence_and_by_the_hour_of_the_day() {
        let never = SessionExpiry::default();
        assert_eq!(never.reason(at(0), at(10_000)), None);
        let idle = SessionExpiry { idle: Some(Duration::from_hours(2)), daily_at: None };
        assert_eq!(idle.reason(at(5), at(6)), None);
        assert_eq!(idle.reason(at(5), at(7)), Some(SessionEndReason::Idle));
        let daily = SessionExpiry { idle: None, daily_at: Some(4) };
        assert_eq!(daily.reason(at(5), at(27)), None);
        assert_eq!(daily.reason(at(5), at(28)), Some(SessionEndReason::Daily));
        assert_eq!(daily.reason(at(3), at(4)), Some(SessionEndReason::Daily));
        assert_eq!(daily.reason(at(28), at(28)), None);
    }
}
