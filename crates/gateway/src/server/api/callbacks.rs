//! Calling back: a program that a human keeps waiting has a server of the operator's told what was decided.
//!
//! The laws: *a request says a name and no address*, so that nobody who is judged has anything sent anywhere; *what is told is what whoever asks
//! would be told*, at least once and with the same id, by a request that is signed; *that a call may run is told to one*: the server that took it,
//! or whoever asks while no call is under way; *nothing is lost by a call that fails*: the decision can be asked for as ever.
//!
//! Limits: a server that takes a call and does not say so may be told again, or somebody else may who asks, about the same decision. Decisions
//! are in memory: where the process ends, its questions end, and nobody is called. Who reads the decision first is the only one who is told
//! that the call may run, so that nobody is called any more. At most [`MOST`] decisions wait for one server.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backstop_hooks::AgentId;
use backstop_surfaces::{Callback, SurfaceError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::sleep;

use super::super::operators::Problem;
use super::decisions::{Kept, Stage};
use crate::access::Holder;

/// How many decisions may wait for one server, or for the humans on whom its calls wait.
const MOST: usize = 256;
/// How many calls of one server there may be at once.
const AT_ONCE: usize = 4;
/// How often a server is called because of one decision.
const TRIES: u32 = 7;
/// How long after a call that failed there is another one: this, then twice as long each time, or as long as the server wants to be left alone.
const FIRST: Duration = Duration::from_secs(1);
/// The longest of these.
const LONGEST: Duration = Duration::from_secs(60);
/// What is told.
const KIND: &str = "decision.made";

/// The servers that are called.
#[derive(Debug, Default)]
pub(super) struct Callbacks(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    /// Those of the configuration in force.
    known: BTreeMap<String, Arc<Callback>>,
    /// What is under way, by name, whatever configuration it was that named it.
    lines: HashMap<String, Line>,
}

/// What waits for one server.
#[derive(Clone, Debug)]
struct Line {
    places: Arc<Semaphore>,
    calls: Arc<Semaphore>,
}

impl Default for Line {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(MOST)), calls: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

/// A place in the line of a server.
#[derive(Debug)]
pub(super) struct Place {
    name: String,
    callbacks: Arc<Callbacks>,
    calls: Arc<Semaphore>,
    _place: OwnedSemaphorePermit,
}

impl Callbacks {
    /// Calls these from now on.
    pub(super) fn set(&self, known: &BTreeMap<String, Arc<Callback>>) {
        let mut lines = self.lines();
        lines.known.clone_from(known);
        lines.lines.retain(|name, line| known.contains_key(name) || line.places.available_permits() < MOST);
    }

    /// Returns a place in the line of the server of that name, for an agent that may have it called.
    pub(super) fn place(self: &Arc<Self>, name: &str, agent: Option<&AgentId>) -> Result<Place, Problem> {
        let mut lines = self.lines();
        // Whether another agent may have one called by this name is nobody's business.
        let is_its = lines.known.get(name).is_some_and(|callback| callback.is_for(agent));
        if !is_its {
            let told = "`callback` is the name of none that this agent may have called; the operator names them in `gateway.api.callbacks`";
            return Err(Problem::body(told.to_owned()));
        }
        let line = lines.lines.entry(name.to_owned()).or_default().clone();
        let place = line.places.try_acquire_owned().map_err(|_| Problem::api_busy())?;
        Ok(Place { name: name.to_owned(), callbacks: Arc::clone(self), calls: line.calls, _place: place })
    }

    /// Returns the server of that name, as far as the configuration in force has one that the agent may have called.
    fn get(&self, name: &str, agent: Option<&AgentId>) -> Option<Arc<Callback>> {
        self.lines().known.get(name).filter(|callback| callback.is_for(agent)).cloned()
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Calls the server when the decision is made, unless the token of whoever wanted that has ended by then, or gave it up.
    pub(super) fn call_when_made(
        self,
        holder: &Holder,
        id: String,
        stage: watch::Receiver<Stage>,
        kept: Kept,
    ) {
        let (life, agent) = (holder.life.clone(), holder.agent.clone());
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = life.over() => {}
                () = self.call(agent.as_ref(), &id, stage, &kept) => {}
            }
        });
    }

    async fn call(&self, agent: Option<&AgentId>, id: &str, mut stage: watch::Receiver<Stage>, kept: &Kept) {
        let made = match stage.wait_for(|stage| matches!(stage, Stage::Made(..))).await.as_deref() {
            Ok(Stage::Made(made, _)) => Arc::clone(made),
            // It was given up.
            Ok(Stage::Judging | Stage::Asked(_)) | Err(_) => return,
        };
        drop(stage);
        let name = &self.name;
        for tried in 1..=TRIES {
            let Ok(turn) = self.calls.acquire().await else { return };
            let Some(callback) = self.callbacks.get(name, agent) else {
                tracing::warn!(callback = %name, decision = %id, "nobody is called back: the configuration has no such callback any more");
                return;
            };
            // Whoever gave it up meanwhile wants nothing of it any more.
            if !kept.is_kept() {
                return;
            }
            // Whoever has asked meanwhile was told.
            let Some((judgement, calling)) = made.call() else { return };
            let Ok(document) = serde_json::to_value(judgement.decided(Some(id.to_owned()))) else { return };
            let error = match callback.tell(KIND, id, agent, &document).await {
                Ok(()) => return calling.told(),
                Err(error) => error,
            };
            drop(calling);
            drop(turn);
            let wait = match &error {
                SurfaceError::Later { after, .. } if tried < TRIES => wait(tried, *after),
                SurfaceError::Later { .. } | SurfaceError::Never { .. } | SurfaceError::Content { .. } => {
                    tracing::warn!(callback = %name, decision = %id, tried, %error, "a callback could not be told of a decision, which can still be asked for");
                    return;
                }
            };
            tracing::warn!(callback = %name, decision = %id, tried, %error, wait_s = wait.as_secs(), "a callback could not be told of a decision yet");
            sleep(wait).await;
        }
    }
}

/// Returns how long it is waited after so many calls that failed.
fn wait(tried: u32, said: Option<Duration>) -> Duration {
    let doubled = FIRST.saturating_mul(1_u32.checked_shl(tried - 1).unwrap_or(u32::MAX));
    said.unwrap_or_default().max(doubled).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use backstop_surfaces::signature::SigningSecret;
    use backstop_surfaces::{CallbackSettings, Egress};

    use super::*;

    fn known(names: &[&str]) -> BTreeMap<String, Arc<Callback>> {
        let one = |name: &&str| {
            let settings = CallbackSettings {
                name: (*name).to_owned(),
                url: "http://127.0.0.1:9/".parse().unwrap(),
                secret: SigningSecret::read(&"s".repeat(24)).unwrap(),
                agents: None,
                egress: Egress::Public,
            };
            ((*name).to_owned(), Arc::new(Callback::new(settings)))
        };
        names.iter().map(one).collect()
    }

    #[test]
    fn so_many_wait_for_one_server_and_take_no_place_of_another() {
        let callbacks = Arc::new(Callbacks::default());
        callbacks.set(&known(&["ci", "other"]));
        let mut places: Vec<Place> = (0..MOST).map(|_| callbacks.place("ci", None).unwrap()).collect();
        assert!(callbacks.place("ci", None).is_err());
        assert!(callbacks.place("other", None).is_ok());
        // Another configuration makes no more room.
        callbacks.set(&known(&[]));
        assert!(callbacks.get("ci", None).is_none() && callbacks.place("ci", None).is_err());
        callbacks.set(&known(&["ci"]));
        assert!(callbacks.get("ci", None).is_some() && callbacks.place("ci", None).is_err());
        places.pop();
        assert!(callbacks.place("ci", None).is_ok());
    }

    #[test]
    fn tries_are_further_and_further_apart_and_a_server_may_want_more_up_to_a_bound() {
        let second = Duration::from_secs(1);
        let waits: Vec<u64> = (1..=TRIES).map(|tried| wait(tried, None).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60]);
        assert_eq!((wait(1, Some(5 * second)), wait(1, Some(3_600 * second))), (5 * second, LONGEST));
    }
}
