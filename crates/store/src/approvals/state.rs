//! What becomes of a question.

use std::collections::BTreeSet;

use backstop_hooks::{ApprovalId, Decision, Json, Text};
use serde::{Deserialize, Serialize};

use super::people::PersonName;
use super::request::NewApproval;
use super::route::Vote;
use super::substitute::Substitution;
use crate::names::named;
use crate::{LeaseHolder, Timestamp};

/// A question and its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRecord {
    /// Its id.
    pub id: ApprovalId,
    /// Its short code, for people to type.
    pub code: String,
    /// The question.
    #[serde(flatten)]
    pub request: NewApproval,
    /// Its state.
    pub state: ApprovalState,
    /// What each person answered, where it is said who may answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<Vote>,
}

impl ApprovalRecord {
    /// Returns whether nobody waits any more for the answer that it is open for: its process is known to have ended, and could not withdraw it. What
    /// is allowed then is a later call, by [`allow_later`](crate::ApprovalStore::allow_later). Of a process of another machine that can't be known.
    pub fn is_abandoned(&self) -> bool {
        self.state == ApprovalState::Pending && self.request.waiter.as_ref().is_some_and(LeaseHolder::is_gone)
    }

    /// Returns it as it stands in lists, without what is large. That there are whole arguments is still said.
    pub(crate) fn listed(mut self) -> Self {
        self.request.whole = self.request.whole.map(|_| Json::default());
        self.request.given = None;
        self
    }
}

/// The state of a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum ApprovalState {
    /// Nobody has answered yet.
    Pending,
    /// A human allowed the call, and it has not begun.
    Allowed(Allowance),
    /// The call that a human allowed has begun.
    Used {
        /// What was allowed.
        allowance: Allowance,
        /// When the call began.
        used_at: Timestamp,
    },
    /// A human said no.
    Denied {
        /// When.
        at: Timestamp,
        /// Who.
        by: String,
        /// What the model is told with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        word: Option<Text>,
    },
    /// A human changed the call: it does not run, and another one is judged in its place.
    Edited(Substitution),
    /// A human gave the result of the call, which does not run.
    Responded(Substitution),
    /// Nobody could be asked here.
    Unattended {
        /// When.
        at: Timestamp,
        /// Whether the program that made the call puts it to its own user, of whose answer nothing is known here.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        hosted: bool,
    },
    /// Nobody answered in time.
    TimedOut {
        /// When that was noticed.
        at: Timestamp,
    },
    /// The run that asked has ended.
    Cancelled {
        /// When.
        at: Timestamp,
    },
}

/// What a human allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Allowance {
    /// Once or always.
    pub decision: Decision,
    /// When it was allowed.
    pub at: Timestamp,
    /// Who allowed it.
    pub by: String,
    /// The people whose votes were enough, where it was said who may answer.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub people: BTreeSet<PersonName>,
    /// Whether grants were written with the answer, as bounded as the person wanted them: the call that asked adds none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_grants: bool,
    /// Which call may use it: the waiting call, or one later call with the same digest.
    #[serde(flatten)]
    pub reach: Reach,
}

/// Which call may use an allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reach", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Reach {
    /// The call that asked and waits.
    WaitingCall,
    /// The next call of the same digest, tool and agent, made in the same place and asked about in the same way
    /// ([`AllowanceScope`](crate::AllowanceScope)).
    LaterCall {
        /// The last moment at which it may begin.
        until: Timestamp,
    },
}

named! {
    /// The state of an approval, as a word.
    pub enum ApprovalStatus {
        /// Nobody has answered yet.
        Pending = "pending",
        /// A human allowed the call, and it has not begun.
        Allowed = "allowed",
        /// The call that a human allowed has begun.
        Used = "used",
        /// A human said no.
        Denied = "denied",
        /// A human changed the call.
        Edited = "edited",
        /// A human gave the result of the call.
        Responded = "responded",
        /// Nobody could be asked.
        Unattended = "unattended",
        /// Nobody answered in time.
        TimedOut = "timed-out",
        /// The run that asked has ended.
        Cancelled = "cancelled",
    }
}

impl ApprovalState {
    /// Returns whether the program that made the call puts it to its own user.
    pub fn is_hosted(&self) -> bool {
        matches!(self, Self::Unattended { hosted: true, .. })
    }

    /// Returns whether a later call may still be allowed by it.
    pub(crate) fn awaits_a_call(&self, now: Timestamp) -> bool {
        let Self::Allowed(allowance) = self else { return false };
        matches!(allowance.reach, Reach::LaterCall { until } if now <= until)
    }

    /// Returns which person brought it about, if one did.
    pub fn by(&self) -> Option<&str> {
        match self {
            Self::Allowed(allowance) | Self::Used { allowance, .. } => Some(&allowance.by),
            Self::Denied { by, .. } => Some(by),
            Self::Edited(substitution) | Self::Responded(substitution) => Some(&substitution.by),
            Self::Pending | Self::Unattended { .. } | Self::TimedOut { .. } | Self::Cancelled { .. } => None,
        }
    }

    /// Returns the state as a word.
    pub fn status(&self) -> ApprovalStatus {
        match self {
            Self::Pending => ApprovalStatus::Pending,
            Self::Allowed(_) => ApprovalStatus::Allowed,
            Self::Used { .. } => ApprovalStatus::Used,
            Self::Denied { .. } => ApprovalStatus::Denied,
            Self::Edited(_) => ApprovalStatus::Edited,
            Self::Responded(_) => ApprovalStatus::Responded,
            Self::Unattended { .. } => ApprovalStatus::Unattended,
            Self::TimedOut { .. } => ApprovalStatus::TimedOut,
            Self::Cancelled { .. } => ApprovalStatus::Cancelled,
        }
    }
}
