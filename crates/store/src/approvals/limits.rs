//! How much an agent may ask.
//!
//! People who are asked a hundred times answer without reading. So an agent has a number of questions, and what is beyond that is denied
//! without being shown to anybody, but for how many there were. The law: *a refusal is told*, to the agent and to people.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use backstop_hooks::AgentId;
use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// How long people are told of questions that were refused.
pub const REFUSALS_SHOWN: Duration = Duration::from_hours(1);
/// The span that [`AskingLimits::per_minute`] is about.
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
/// The most agents of which refusals are counted; those that were refused last.
pub(crate) const MOST_REFUSED: usize = 64;

/// How much one agent may ask. What is not set has no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AskingLimits {
    /// The most questions that wait for an answer, and the most that nobody could be asked about and that can still be allowed.
    pub open: Option<NonZeroU32>,
    /// The most questions within any 60 seconds.
    pub per_minute: Option<NonZeroU32>,
}

/// What an agent has asked that asks too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooMany {
    /// As many questions as may be open at once are.
    Open(NonZeroU32),
    /// It has asked as many questions within the last minute as it may.
    PerMinute(NonZeroU32),
}

impl fmt::Display for TooMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(most) => write!(f, "of its questions {most} are open, as many as may be"),
            Self::PerMinute(most) => {
                write!(f, "its questions of the last minute are {most}, as many as may be")
            }
        }
    }
}

impl AskingLimits {
    /// Refuses an agent of which so many questions are open, and that had so many in the last minute.
    pub(crate) fn check(self, open: u64, last_minute: u64) -> Result<(), TooMany> {
        match self {
            Self { open: Some(most), .. } if open >= u64::from(most.get()) => Err(TooMany::Open(most)),
            Self { per_minute: Some(most), .. } if last_minute >= u64::from(most.get()) => {
                Err(TooMany::PerMinute(most))
            }
            _ => Ok(()),
        }
    }
}

/// Questions of an agent that nobody was asked, because it asks too much.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedQuestions {
    /// The agent.
    pub agent: AgentId,
    /// How many.
    pub count: u64,
    /// When the first of them was refused. After an hour without any it is counted anew.
    pub since: Timestamp,
    /// When the last one was.
    pub last: Timestamp,
}

impl RefusedQuestions {
    /// Returns what is known once one more is refused.
    pub(crate) fn and_one(known: Option<Self>, agent: &AgentId, now: Timestamp) -> Self {
        match known.filter(|known| known.is_shown(now)) {
            Some(known) => Self { count: known.count.saturating_add(1), last: now.max(known.last), ..known },
            None => Self { agent: agent.clone(), count: 1, since: now, last: now },
        }
    }

    pub(crate) fn is_shown(&self, now: Timestamp) -> bool {
        self.last >= now.before(REFUSALS_SHOWN)
    }

    /// Returns it in a line for people.
    pub fn told(&self) -> String {
        let questions =
            if self.count == 1 { "1 more question was" } else { &format!("{} more were", self.count) };
        format!("{questions} refused since {}: agent `{}` asks too much", self.since, self.agent)
    }
}
