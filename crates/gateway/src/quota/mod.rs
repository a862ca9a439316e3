//! How much one caller may ask at once and in a minute, whoever judges its requests.
//!
//! Laws:
//!
//! - *What counts is who is proved.* A quota is that of an agent or a user whom a token names, over all of its connections. Those
//!   who hold the process's token share one, whatever names they give: nobody has more by calling itself something else.
//! - *A minute is any minute.* The times of the last requests are kept, so that no 60 seconds have more than are allowed, wherever
//!   they begin. A request that is refused does not count.
//! - *All or none.* A request that is an agent's and a user's needs room with both, or takes none.
//! - *A place is held to the end*: [`Admitted`] is dropped with the answer's body, the turn of a WebSocket, or the request that
//!   fails, whichever way that goes.
//! - *Bounded*: at most [`MOST_CALLERS`] are kept track of, and of each no more times than it may have requests.
//!
//! Limits: each process counts for itself, from its start; what several processes share is in `budgets`. A batch is one request.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backstop_hooks::AgentId;
use tokio::time::Instant;

use crate::auth::Caller;

/// How many callers are kept track of at once.
const MOST_CALLERS: usize = 65_536;
/// How many it may be before those are looked for of whom nothing needs to be known.
const FIRST_SWEEP: usize = 1_024;
const MINUTE: Duration = Duration::from_secs(60);
/// When a place may be free, in seconds.
const SOON: u64 = 1;

/// How much one caller may ask. What is absent has no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Requests within any 60 seconds.
    pub requests_per_minute: Option<u32>,
    /// Requests at once, each to the end of its answer.
    pub concurrent_requests: Option<u32>,
}

impl Quota {
    /// Returns this quota, with what `other` says where it says nothing.
    const fn or(self, other: Self) -> Self {
        Self {
            requests_per_minute: match self.requests_per_minute {
                None => other.requests_per_minute,
                some => some,
            },
            concurrent_requests: match self.concurrent_requests {
                None => other.concurrent_requests,
                some => some,
            },
        }
    }
}

/// The quotas of all callers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    /// Agents that the operator knows by name. Nobody is one of them without a token that says so.
    pub agents: BTreeMap<AgentId, Quota>,
    /// Users that the operator knows by name.
    pub users: BTreeMap<String, Quota>,
    /// What each agent may ask that has a token, unless its own quota says otherwise.
    pub each_agent: Quota,
    /// What each user may ask whom a token names, unless its own quota says otherwise.
    pub each_user: Quota,
    /// What all those may ask together who hold the process's token.
    pub shared_token: Quota,
}

/// Whose requests are counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Who {
    SharedToken,
    Agent(AgentId),
    User(Arc<str>),
}

impl Who {
    const fn as_str(&self) -> &'static str {
        match self {
            Self::SharedToken => "those who share this token",
            Self::Agent(_) => "this agent",
            Self::User(_) => "this user",
        }
    }
}

/// Why a request has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoRoom {
    #[error("{whose} may have {most} requests at once, and has them")]
    AtOnce { whose: &'static str, most: u32 },
    #[error("{whose} may have {most} requests a minute, and has had them")]
    InMinute { whose: &'static str, most: u32, seconds: u64 },
    /// There are more callers than anybody keeps track of.
    #[error("there are too many callers at once")]
    Callers,
}

impl NoRoom {
    /// After how many seconds there may be room.
    pub(crate) const fn retry_after(self) -> u64 {
        match self {
            Self::AtOnce { .. } | Self::Callers => SOON,
            Self::InMinute { seconds, .. } => seconds,
        }
    }
}

/// What callers have asked, and are asking.
#[derive(Debug, Default)]
pub(crate) struct Asked(Mutex<Callers>);

#[derive(Debug, Default)]
struct Callers {
    known: HashMap<Who, Count>,
    /// How many there may be before the next sweep.
    sweep_at: usize,
}

#[derive(Debug, Default)]
struct Count {
    now: u32,
    /// When its last requests began, the oldest first.
    times: VecDeque<Instant>,
}

impl Count {
    fn forget(&mut self, now: Instant) {
        while self.times.front().is_some_and(|at| now.duration_since(*at) >= MINUTE) {
            self.times.pop_front();
        }
    }

    fn is_nothing(&self) -> bool {
        self.now == 0 && self.times.is_empty()
    }
}

/// A place among the requests of its caller, for as long as it exists.
#[derive(Debug)]
pub(crate) struct Admitted {
    asked: Arc<Asked>,
    whose: Vec<Who>,
}

impl Asked {
    /// Lets a request in, if there is room for it with all whose it is.
    ///
    /// # Errors
    /// [`NoRoom`]; then it counts for nobody.
    pub(crate) fn admit(self: &Arc<Self>, quotas: &Quotas, caller: &Caller) -> Result<Admitted, NoRoom> {
        self.admit_at(quotas, caller, Instant::now())
    }

    fn admit_at(
        self: &Arc<Self>,
        quotas: &Quotas,
        caller: &Caller,
        now: Instant,
    ) -> Result<Admitted, NoRoom> {
        let whose = limited(quotas, caller);
        let mut callers = self.callers();
        callers.sweep(now);
        let has_room = callers.known.len().saturating_add(whose.len()) <= MOST_CALLERS;
        for (who, quota) in &whose {
            match callers.known.get_mut(who) {
                Some(count) => count.room(who, *quota, now)?,
                None if !has_room => return Err(NoRoom::Callers),
                None => Count::default().room(who, *quota, now)?,
            }
        }
        for (who, quota) in &whose {
            let count = callers.known.entry(who.clone()).or_default();
            count.now = count.now.saturating_add(1);
            if quota.requests_per_minute.is_some() {
                count.times.push_back(now);
            }
        }
        drop(callers);
        let whose = whose.into_iter().map(|(who, _)| who).collect();
        Ok(Admitted { asked: Arc::clone(self), whose })
    }

    fn callers(&self) -> MutexGuard<'_, Callers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Count {
    fn room(&mut self, who: &Who, quota: Quota, now: Instant) -> Result<(), NoRoom> {
        let whose = who.as_str();
        if let Some(most) = quota.concurrent_requests
            && self.now >= most
        {
            return Err(NoRoom::AtOnce { whose, most });
        }
        self.forget(now);
        if let Some(most) = quota.requests_per_minute {
            let most_times = usize::try_from(most).unwrap_or(usize::MAX);
            // With a quota that became smaller there are more than it allows: the last of those that count says when.
            let over = self.times.len().checked_sub(most_times);
            if let Some(over) = over {
                let left =
                    self.times.get(over).map_or(MINUTE, |at| MINUTE.saturating_sub(now.duration_since(*at)));
                return Err(NoRoom::InMinute {
                    whose,
                    most,
                    seconds: left.as_millis().div_ceil(1_000).try_into().unwrap_or(60),
                });
            }
        }
        Ok(())
    }
}

impl Callers {
    /// Forgets those of whom nothing needs to be known, once there are twice as many as after the last time.
    fn sweep(&mut self, now: Instant) {
        if self.known.len() < self.sweep_at.clamp(FIRST_SWEEP, MOST_CALLERS) {
            return;
        }
        self.known.retain(|_, count| {
            count.forget(now);
            !count.is_nothing()
        });
        self.sweep_at = self.known.len().saturating_mul(2);
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut callers = self.asked.callers();
        for who in self.whose.drain(..) {
            if let Entry::Occupied(mut count) = callers.known.entry(who) {
                count.get_mut().now = count.get().now.saturating_sub(1);
                if count.get().is_nothing() {
                    count.remove();
                }
            }
        }
    }
}

/// Whose quotas a request counts against; nobody's that has no limit.
fn limited(quotas: &Quotas, caller: &Caller) -> Vec<(Who, Quota)> {
    let mut all = Vec::new();
    if !caller.is_proved {
        all.push((Who::SharedToken, quotas.shared_token));
    } else if let Some(agent) = &caller.agent {
        let own = quotas.agents.get(agent).copied().unwrap_or_default();
        all.push((Who::Agent(agent.clone()), own.or(quotas.each_agent)));
    }
    if let Some(user) = &caller.user {
        let own = quotas.users.get(user.as_ref()).copied().unwrap_or_default();
        all.push((Who::User(Arc::clone(user)), own.or(quotas.each_user)));
    }
    all.retain(|(_, quota)| *quota != Quota::default());
    all
}

#[cfg(test)]
mod tests;
